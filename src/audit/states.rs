//! Every record's state, and one record's history, from a walk.

use super::source::{Source, Walked};
use leasehold_actors::codec;
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::flows::Answers;
use leasehold_actors::flows::dispatch::{Dispatch, DispatchHealth};
use leasehold_actors::health::{Tally, class};
use leasehold_actors::record::identity::flow_of;
use leasehold_actors::record::{Flow, FlowTag, Record, State, stream_of};
use leasehold_actors::replay::{Replay, ReplayError, Replayed};
use leasehold_journal::JournalError;
use leasehold_journal::walk::Item;
use serde::Serialize;

/// Every record, as it was at the end of the walk.
#[derive(Debug, Default)]
pub struct States {
    /// Flow `dispatch`.
    pub dispatch: Replay<Dispatch>,
}

/// One record in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Its flow.
    pub flow: &'static str,
    /// Its identity; null when it does not replay.
    pub id: Option<String>,
    /// Its site; null when it does not replay.
    pub site_id: Option<String>,
    /// Its state.
    pub state: &'static str,
    /// Leases taken.
    pub attempts: u32,
    /// When it is, or was, due.
    pub next_at: Option<f64>,
    /// The last error.
    pub error_code: Option<String>,
    /// When it was registered.
    pub created_at: Option<f64>,
}

impl States {
    /// Reads all of a source.
    ///
    /// # Errors
    /// What stopped the walk: a list of half a journal would mislead. `audit` says more.
    pub fn read(source: &Source) -> Result<(Self, Walked), JournalError> {
        let mut states = Self::default();
        let walked = source.walk(&mut |item| match item {
            Item::Record { stream, record, .. } => {
                match flow_of(stream) {
                    Some(FlowTag::Dispatch) => {
                        let body = record.ok().map(|record| record.body);
                        match states.dispatch.apply(stream, body.as_deref()) {
                            // What does not replay is quarantined in the replay itself.
                            Ok(_)
                            | Err(
                                ReplayError::Decode(_)
                                | ReplayError::Illegal
                                | ReplayError::Body
                                | ReplayError::Quarantined,
                            ) => {}
                        }
                    }
                    Some(
                        FlowTag::Lifecycle
                        | FlowTag::Notification
                        | FlowTag::Processing
                        | FlowTag::Delivery,
                    )
                    | None => {}
                }
                Ok(())
            }
            Item::Frame(_) => Ok(()),
        });
        match walked.stopped.clone() {
            Some(error) => Err(error),
            None => Ok((states, walked)),
        }
    }

    /// Health of flow `dispatch` as of a time.
    #[must_use]
    pub fn dispatch_health(&self, now: Timestamp) -> DispatchHealth {
        health(&self.dispatch, now)
    }

    /// All records, oldest first.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = self.dispatch.iter().map(|(_, record)| row(record)).collect();
        rows.sort_by(|left, right| {
            let time = |row: &Row| row.created_at.unwrap_or(-1.0);
            time(left).total_cmp(&time(right)).then_with(|| left.id.cmp(&right.id))
        });
        rows
    }
}

fn health<F: Answers>(replay: &Replay<F>, now: Timestamp) -> F::Health {
    let mut tally = Tally::default();
    let (mut due, mut expired) = (0, 0);
    for (_, record) in replay.iter() {
        match record {
            Replayed::Sound(state) => {
                tally.shift(None, class(state));
                let waits = matches!(state, State::Ready { .. });
                due += u64::from(waits && state.record().is_some_and(|r| r.next_at <= now));
                expired += u64::from(state.lease().is_some_and(|lease| lease.expired(now)));
            }
            Replayed::Quarantined => tally.quarantine(None),
        }
    }
    F::health(&tally, due, expired)
}

fn row<F: Answers>(record: &Replayed<F>) -> Row {
    let state = match record {
        Replayed::Sound(state) => Some(state),
        Replayed::Quarantined => None,
    };
    let known: Option<&Record<F>> = state.and_then(State::record);
    Row {
        flow: F::TAG.name(),
        id: known.map(|record| F::identity(&record.binding).to_string()),
        site_id: known.map(|record| F::site(&record.binding).to_owned()),
        state: state.and_then(State::kind).map_or("quarantined", |kind| kind.name(F::COMPLETED)),
        attempts: known.map_or(0, |record| record.attempts),
        next_at: known.map(|record| record.next_at.seconds()),
        error_code: state.and_then(State::error).map(ToString::to_string),
        created_at: known.map(|record| record.created_at.seconds()),
    }
}

/// One thing that happened to one record.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Happening {
    /// Its place in the journal.
    pub sequence: u64,
    /// When, in seconds since 1970.
    pub at: f64,
    /// What: the event's name.
    pub event: &'static str,
    /// The error it records.
    pub error_code: Option<String>,
}

/// One record's whole history and state.
#[derive(Debug, Serialize)]
pub struct History<S: Serialize> {
    /// What happened, oldest first.
    pub events: Vec<Happening>,
    /// Whether all of it replays.
    pub replays: bool,
    /// Its status at the end; null when there is none.
    pub status: Option<S>,
}

impl<S: Serialize> History<S> {
    /// Reads the history of one record of a flow.
    ///
    /// # Errors
    /// What stopped the walk.
    pub fn read<F>(source: &Source, identity: &str, now: Timestamp) -> Result<Self, JournalError>
    where
        F: Flow + Answers<Status = S>,
    {
        let wanted = stream_of(F::TAG, identity);
        let mut replay = Replay::<F>::default();
        let mut history = Self { events: Vec::new(), replays: true, status: None };
        let walked = source.walk(&mut |item| {
            if let Item::Record { sequence, stream, record } = item
                && stream == wanted
            {
                let body = record.ok().map(|record| record.body);
                history.replays &= replay.apply(stream, body.as_deref()).is_ok();
                if let Some(event) = body.and_then(|body| codec::decode::<F>(&body).ok()) {
                    history.events.push(Happening {
                        sequence,
                        at: event.at().seconds(),
                        event: event.name(),
                        error_code: event.code().map(ToString::to_string),
                    });
                }
            }
            Ok(())
        });
        if let Some(error) = walked.stopped {
            return Err(error);
        }
        if let Some(Replayed::Sound(state)) = replay.get(wanted) {
            history.status = F::status(state, now);
        }
        Ok(history)
    }
}
