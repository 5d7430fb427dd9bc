//! What an event makes of a state. Total: everything unlisted is illegal, nothing panics.

use super::event::Ending;
use super::{DismissedFrom, Event, Flow, Lease, Record, State, Wait};
use crate::contract::time::Timestamp;
use std::sync::Arc;

/// An event that cannot have happened in this state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("replay_invalid")]
pub struct IllegalEvent;

/// Applies one event.
///
/// # Errors
/// [`IllegalEvent`]; the state is gone then, and the record with it.
pub fn evolve<F: Flow>(state: State<F>, event: &Event<F>) -> Result<State<F>, IllegalEvent> {
    match (state, event) {
        (State::Vacant, Event::Registered { at, binding, payload, settled }) => {
            if !F::belongs(binding, payload) {
                return Err(IllegalEvent);
            }
            let record = Record {
                binding: Arc::new(binding.clone()),
                created_at: *at,
                updated_at: *at,
                next_at: *at,
                attempts: 0,
                failures: 0,
                progress: F::Progress::default(),
            };
            Ok(match settled {
                None => State::Ready { record, wait: Wait::Pending },
                Some(outcome) => State::Completed { record, outcome: outcome.clone() },
            })
        }
        (
            State::Ready { mut record, .. },
            Event::Claimed { at, attempt, owner, token_sha256, expires_at },
        ) => {
            let next = record.attempts.checked_add(1);
            if next != Some(*attempt) || expires_at <= at || *at < record.next_at {
                return Err(IllegalEvent);
            }
            record.attempts = *attempt;
            record.updated_at = *at;
            let (owner, token_sha256) = (owner.clone(), *token_sha256);
            Ok(State::Leased {
                record,
                lease: Lease { owner, token_sha256, expires_at: *expires_at },
            })
        }
        (State::Leased { record, .. }, event) => end_lease(record, event),
        (
            state @ (State::Ready { .. } | State::Failed { .. } | State::Dismissed { .. }),
            Event::Requeued { .. } | Event::Dismissed { .. } | Event::Repinned { .. },
        ) => intervene(state, event),
        (
            State::Vacant
            | State::Ready { .. }
            | State::Completed { .. }
            | State::Failed { .. }
            | State::Dismissed { .. },
            _,
        ) => Err(IllegalEvent),
    }
}

/// What an operator's event makes of a record that nobody is at. Which of them was due is decided
/// elsewhere; whether a record was held cannot be told without the digest of then.
fn intervene<F: Flow>(state: State<F>, event: &Event<F>) -> Result<State<F>, IllegalEvent> {
    let at = event.at();
    if state.record().is_none_or(|record| at < record.updated_at) {
        return Err(IllegalEvent);
    }
    match (state, event) {
        (
            State::Failed { record, .. } | State::Dismissed { record, .. },
            Event::Requeued { .. },
        ) => {
            let record = Record {
                updated_at: at,
                next_at: at,
                attempts: 0,
                failures: 0,
                progress: F::Progress::default(),
                ..record
            };
            Ok(State::Ready { record, wait: Wait::Pending })
        }
        (State::Failed { record, code }, Event::Dismissed { .. }) => {
            let record = Record { updated_at: at, ..record };
            Ok(State::Dismissed { record, from: DismissedFrom::Failed(code) })
        }
        (State::Ready { record, wait }, Event::Dismissed { .. })
            if F::digest(&record.binding).is_some() =>
        {
            let record = Record { updated_at: at, ..record };
            Ok(State::Dismissed { record, from: DismissedFrom::Held(wait) })
        }
        (State::Ready { record, wait }, Event::Repinned { digest, .. }) => {
            let binding = F::repin(&record.binding, *digest).ok_or(IllegalEvent)?;
            let record = Record { updated_at: at, binding: Arc::new(binding), ..record };
            Ok(State::Ready { record, wait })
        }
        (
            State::Vacant
            | State::Ready { .. }
            | State::Leased { .. }
            | State::Completed { .. }
            | State::Failed { .. }
            | State::Dismissed { .. },
            _,
        ) => Err(IllegalEvent),
    }
}

fn end_lease<F: Flow>(record: Record<F>, event: &Event<F>) -> Result<State<F>, IllegalEvent> {
    let moved = |at: Timestamp, next_at: Timestamp, failures: u32| {
        if at < record.updated_at || next_at < record.created_at {
            return Err(IllegalEvent);
        }
        Ok(Record { updated_at: at, next_at, failures, ..record.clone() })
    };
    match event {
        Event::Completed { at, next_at, outcome } => {
            // What was learned on the way is history: the outcome is what counts from now on.
            let progress = F::Progress::default();
            let record = Record { progress, ..moved(*at, *next_at, 0)? };
            Ok(State::Completed { record, outcome: outcome.clone() })
        }
        Event::Watched { at, next_at, progress } => {
            let record = Record { progress: progress.clone(), ..moved(*at, *next_at, 0)? };
            Ok(State::Ready { record, wait: Wait::Watching })
        }
        Event::Unchanged { at, next_at, note } => {
            let progress = F::repeated(&record.progress, note).ok_or(IllegalEvent)?;
            let record = Record { progress, ..moved(*at, *next_at, 0)? };
            Ok(State::Ready { record, wait: Wait::Watching })
        }
        Event::Retried { at, next_at, failures, code } => {
            let record = moved(*at, *next_at, *failures)?;
            Ok(State::Ready { record, wait: Wait::Retry(code.clone()) })
        }
        Event::Failed { at, next_at, failures, code, progress } => {
            let mut record = moved(*at, *next_at, *failures)?;
            if let Some(progress) = progress {
                record.progress = progress.clone();
            }
            Ok(State::Failed { record, code: code.clone() })
        }
        Event::LeaseLost { at, next_at, failures, code, ending, .. } => {
            let record = moved(*at, *next_at, *failures)?;
            Ok(match ending {
                Ending::Retry => State::Ready { record, wait: Wait::Retry(code.clone()) },
                Ending::Final => State::Failed { record, code: code.clone() },
            })
        }
        Event::Registered { .. }
        | Event::Claimed { .. }
        | Event::Requeued { .. }
        | Event::Dismissed { .. }
        | Event::Repinned { .. } => Err(IllegalEvent),
    }
}
