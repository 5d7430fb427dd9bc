//! What an event makes of a state. Total: everything unlisted is illegal, nothing panics.

use super::event::Ending;
use super::{DismissedFrom, Event, Flow, Lease, Record, State, Wait};
use crate::contract::time::Timestamp;
use crate::invariants::broken;
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
        (State::Vacant, event) => enter(event),
        (
            State::Ready { mut record, wait },
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
                waited: Some(wait),
            })
        }
        (
            State::Leased { record, waited: Some(wait), .. },
            Event::Released { at, next_at, attempts },
        ) => give_back(record, wait, (*at, *next_at), *attempts),
        (State::Leased { record, .. }, event) => end_lease(record, event),
        (
            state @ (State::Ready { .. } | State::Failed { .. } | State::Dismissed { .. }),
            Event::Requeued { .. }
            | Event::RequeuedLater { .. }
            | Event::Dismissed { .. }
            | Event::Repinned { .. },
        ) => intervene(state, event),
        (
            State::Ready { .. }
            | State::Completed { .. }
            | State::Failed { .. }
            | State::Dismissed { .. },
            _,
        ) => Err(IllegalEvent),
    }
}

/// A record that begins here, or was brought here.
fn enter<F: Flow>(event: &Event<F>) -> Result<State<F>, IllegalEvent> {
    match event {
        Event::Registered { at, binding, payload, settled } if F::belongs(binding, payload) => {
            let record = Record {
                binding: Arc::new(binding.clone()),
                created_at: *at,
                updated_at: *at,
                next_at: *at,
                attempts: 0,
                failures: 0,
                progress: F::Progress::default(),
                losses: 0,
            };
            Ok(match settled {
                None => State::Ready { record, wait: Wait::Pending },
                Some(outcome) => State::Completed { record, outcome: outcome.clone() },
            })
        }
        Event::Imported { record, payload, .. } if F::belongs(&record.binding, payload) => {
            let state = record.state();
            // Of a record that came about here, the rules see to that. This one says what it is.
            if broken(&state).is_some() { Err(IllegalEvent) } else { Ok(state) }
        }
        Event::Registered { .. }
        | Event::Imported { .. }
        | Event::Claimed { .. }
        | Event::Completed { .. }
        | Event::Watched { .. }
        | Event::Unchanged { .. }
        | Event::Retried { .. }
        | Event::Failed { .. }
        | Event::LeaseLost { .. }
        | Event::Requeued { .. }
        | Event::RequeuedLater { .. }
        | Event::Dismissed { .. }
        | Event::Repinned { .. }
        | Event::Released { .. } => Err(IllegalEvent),
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
        ) => Ok(afresh(record, at, at)),
        (
            State::Failed { record, .. } | State::Dismissed { record, .. },
            Event::RequeuedLater { next_at, .. },
        ) if *next_at > at => Ok(afresh(record, at, *next_at)),
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

/// The record as if it had just been registered, but for its creation time.
fn afresh<F: Flow>(record: Record<F>, at: Timestamp, next_at: Timestamp) -> State<F> {
    let record = Record {
        updated_at: at,
        next_at,
        attempts: 0,
        failures: 0,
        progress: F::Progress::default(),
        losses: 0,
        ..record
    };
    State::Ready { record, wait: Wait::Pending }
}

/// The record as it was before the claim. What was learned, failures and leases lost in a row were not
/// touched by the claim and are not touched now: nothing was heard of the attempt.
fn give_back<F: Flow>(
    record: Record<F>,
    wait: Wait,
    (at, next_at): (Timestamp, Timestamp),
    attempts: u32,
) -> Result<State<F>, IllegalEvent> {
    let in_order = at >= record.updated_at && next_at >= record.created_at;
    if !in_order || attempts.checked_add(1) != Some(record.attempts) {
        return Err(IllegalEvent);
    }
    let record = Record { updated_at: at, next_at, attempts, ..record };
    Ok(State::Ready { record, wait })
}

fn end_lease<F: Flow>(record: Record<F>, event: &Event<F>) -> Result<State<F>, IllegalEvent> {
    let moved = |at: Timestamp, next_at: Timestamp, failures: u32| {
        if at < record.updated_at || next_at < record.created_at {
            return Err(IllegalEvent);
        }
        Ok(Record { updated_at: at, next_at, failures, losses: 0, ..record.clone() })
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
            let losses = record.losses.checked_add(1).ok_or(IllegalEvent)?;
            let record = Record { losses, ..moved(*at, *next_at, *failures)? };
            Ok(match ending {
                Ending::Retry => State::Ready { record, wait: Wait::Retry(code.clone()) },
                Ending::Final => State::Failed { record, code: code.clone() },
            })
        }
        Event::Registered { .. }
        | Event::Imported { .. }
        | Event::Claimed { .. }
        | Event::Requeued { .. }
        | Event::RequeuedLater { .. }
        | Event::Dismissed { .. }
        | Event::Repinned { .. }
        // Only with what the record waited for before.
        | Event::Released { .. } => Err(IllegalEvent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::receiver::{ReceiverState, WorkStatus};
    use crate::contract::text::{ErrorCode, Sha256, WorkerToken};
    use crate::contract::time::Ceiling;
    use crate::flows::dispatch::{Dispatch, DispatchBinding};
    use crate::flows::processing::{Processing, ProcessingBinding};
    use crate::record::event::Loss;
    use crate::record::sample::{self, at, token};
    use crate::record::{Intervention, OperatorName, Reason};

    fn network() -> ErrorCode {
        ErrorCode::known("network")
    }

    fn binding() -> ProcessingBinding {
        sample::binding("notification-1")
    }

    fn said(status: WorkStatus) -> ReceiverState {
        ReceiverState {
            status,
            attempts: 2,
            max_attempts: 5,
            next_attempt_at: 45.0,
            lease_expires_at: None,
            lease_expired: false,
            error_code: (status == WorkStatus::Failed).then(network),
            processed_at: (status == WorkStatus::Succeeded).then_some(45.0),
        }
    }

    /// Registered at 10, last touched at 20, due at 30; no member has the value it starts with.
    fn record() -> Record<Processing> {
        Record {
            binding: Arc::new(binding()),
            created_at: at(10.0),
            updated_at: at(20.0),
            next_at: at(30.0),
            attempts: 3,
            failures: 2,
            progress: Some(said(WorkStatus::Pending)),
            losses: 2,
        }
    }

    fn ready() -> State<Processing> {
        State::Ready { record: record(), wait: Wait::Retry(network()) }
    }

    fn failed() -> State<Processing> {
        State::Failed { record: record(), code: network() }
    }

    fn dismissed(from: DismissedFrom) -> State<Processing> {
        State::Dismissed { record: record(), from }
    }

    fn completed() -> State<Processing> {
        let record = Record { progress: None, ..record() };
        State::Completed { record, outcome: said(WorkStatus::Succeeded) }
    }

    /// Claimed at this time, until 100.
    fn leased(time: f64) -> State<Processing> {
        let owner = WorkerToken::new("w").expect("a worker");
        let record = Record { updated_at: at(time), attempts: 4, ..record() };
        let token_sha256 = Sha256::of(b"token");
        let lease = Lease { owner, token_sha256, expires_at: at(100.0) };
        State::Leased { record, lease, waited: Some(Wait::Retry(network())) }
    }

    fn claim(attempt: u32, time: f64, end: f64) -> Event<Processing> {
        let owner = WorkerToken::new("w").expect("a worker");
        let token_sha256 = Sha256::of(b"token");
        Event::Claimed { at: at(time), attempt, owner, token_sha256, expires_at: at(end) }
    }

    fn intervention() -> Intervention {
        let by = OperatorName::new("maria").expect("a name");
        Intervention { by, why: Reason::new("it was mended").expect("a reason") }
    }

    fn requeue(time: f64) -> Event<Processing> {
        Event::Requeued { at: at(time), intervention: intervention() }
    }

    fn requeue_for(time: f64, due: f64) -> Event<Processing> {
        let next_at = at(due);
        Event::RequeuedLater { at: at(time), next_at, intervention: intervention() }
    }

    fn dismiss<F: Flow>(time: f64) -> Event<F> {
        Event::Dismissed { at: at(time), intervention: intervention() }
    }

    fn repin<F: Flow>(time: f64) -> Event<F> {
        let digest = Sha256::of(b"newer");
        Event::Repinned { at: at(time), digest, intervention: intervention() }
    }

    /// The event leads to this at the record's last time and after it, and is illegal before it.
    #[track_caller]
    fn leads(
        state: &State<Processing>,
        event: fn(f64) -> Event<Processing>,
        expected: impl Fn(Timestamp) -> State<Processing>,
    ) {
        assert_eq!(evolve(state.clone(), &event(19.9)), Err(IllegalEvent), "before");
        for time in [20.0, 25.0] {
            assert_eq!(evolve(state.clone(), &event(time)), Ok(expected(at(time))), "at {time}");
        }
    }

    #[test]
    fn a_claim_is_the_next_attempt_of_a_due_record_and_ends_after_it_began() {
        for time in [30.0, 31.0] {
            assert_eq!(evolve(ready(), &claim(4, time, 100.0)), Ok(leased(time)), "at {time}");
        }
        for (attempt, time, end, why) in [
            (3, 31.0, 100.0, "the attempt before"),
            (5, 31.0, 100.0, "an attempt left out"),
            (4, 31.0, 31.0, "an end at its start"),
            (4, 31.0, 30.5, "an end before its start"),
            (4, 29.9, 100.0, "earlier than due"),
        ] {
            assert_eq!(evolve(ready(), &claim(attempt, time, end)), Err(IllegalEvent), "{why}");
        }
    }

    #[test]
    fn a_requeue_starts_a_failed_or_dismissed_record_afresh_and_no_other() {
        for state in [
            failed(),
            dismissed(DismissedFrom::Failed(network())),
            dismissed(DismissedFrom::Held(Wait::Watching)),
        ] {
            leads(&state, requeue, |at| {
                let record = Record {
                    updated_at: at,
                    next_at: at,
                    attempts: 0,
                    failures: 0,
                    progress: None,
                    losses: 0,
                    ..record()
                };
                State::Ready { record, wait: Wait::Pending }
            });
        }
        for state in [State::Vacant, ready(), leased(20.0), completed()] {
            assert_eq!(evolve(state.clone(), &requeue(25.0)), Err(IllegalEvent), "{state:?}");
        }
    }

    #[test]
    fn a_requeue_for_later_is_the_same_but_for_its_due_time_which_is_later() {
        for state in [failed(), dismissed(DismissedFrom::Held(Wait::Watching))] {
            for time in [20.0, 25.0] {
                let at_once = evolve(state.clone(), &requeue(time)).expect("it had ended");
                let State::Ready { record, wait } = at_once else { panic!("it is ready") };
                let record = Record { next_at: at(25.5), ..record };
                let later = evolve(state.clone(), &requeue_for(time, 25.5));
                assert_eq!(later, Ok(State::Ready { record, wait }), "at {time}");
            }
            for (time, due) in [(19.9, 30.0), (25.0, 25.0), (25.0, 24.9)] {
                let refused = evolve(state.clone(), &requeue_for(time, due));
                assert_eq!(refused, Err(IllegalEvent), "at {time}, due at {due}");
            }
        }
        for state in [State::Vacant, ready(), leased(20.0), completed()] {
            let refused = evolve(state.clone(), &requeue_for(25.0, 30.0));
            assert_eq!(refused, Err(IllegalEvent), "{state:?}");
        }
    }

    #[test]
    fn a_dismissal_keeps_what_a_failed_or_held_record_was_and_ends_no_other() {
        let kept =
            |at, from| State::Dismissed { record: Record { updated_at: at, ..record() }, from };
        leads(&failed(), dismiss, |at| kept(at, DismissedFrom::Failed(network())));
        for wait in [Wait::Pending, Wait::Watching, Wait::Retry(network())] {
            let state = State::Ready { record: record(), wait: wait.clone() };
            leads(&state, dismiss, |at| kept(at, DismissedFrom::Held(wait.clone())));
        }
        let again = dismissed(DismissedFrom::Failed(network()));
        for state in [State::Vacant, leased(20.0), completed(), again] {
            assert_eq!(evolve(state.clone(), &dismiss(25.0)), Err(IllegalEvent), "{state:?}");
        }
    }

    #[test]
    fn a_repin_changes_a_waiting_records_digest_and_nothing_else() {
        leads(&ready(), repin, |at| {
            let capabilities_sha256 = Sha256::of(b"newer");
            let binding = Arc::new(ProcessingBinding { capabilities_sha256, ..binding() });
            let record = Record { binding, updated_at: at, ..record() };
            State::Ready { record, wait: Wait::Retry(network()) }
        });
        let away = dismissed(DismissedFrom::Held(Wait::Pending));
        for state in [State::Vacant, leased(20.0), completed(), failed(), away] {
            assert_eq!(evolve(state.clone(), &repin(25.0)), Err(IllegalEvent), "{state:?}");
        }
    }

    #[test]
    fn a_flow_that_pins_no_digest_holds_no_record_and_dismisses_failed_ones_only() {
        let record = Record::<Dispatch> {
            binding: Arc::new(DispatchBinding {
                event_id: token("event-1"),
                site_id: token("site-1"),
                website_version: token("web-1"),
                source_sequence: 1,
                payload_sha256: Sha256::of(b"change"),
                max_attempts: Ceiling::new(5).expect("in range"),
            }),
            created_at: at(10.0),
            updated_at: at(20.0),
            next_at: at(30.0),
            attempts: 3,
            failures: 0,
            progress: (),
            losses: 0,
        };
        let ready = State::Ready { record: record.clone(), wait: Wait::Retry(network()) };
        assert_eq!(evolve(ready.clone(), &dismiss(25.0)), Err(IllegalEvent));
        assert_eq!(evolve(ready, &repin(25.0)), Err(IllegalEvent));
        let failed = State::Failed { record: record.clone(), code: network() };
        let dismissed = State::Dismissed {
            record: Record { updated_at: at(25.0), ..record },
            from: DismissedFrom::Failed(network()),
        };
        assert_eq!(evolve(failed, &dismiss(25.0)), Ok(dismissed));
    }

    /// Every way a lease ends, at this time and due at that one, and what it leaves.
    fn endings(time: f64, due: f64) -> Vec<(Event<Processing>, State<Processing>)> {
        let (at, next_at, code) = (at(time), at(due), network());
        let before = || Some(said(WorkStatus::Pending));
        let left = |failures: u32, progress: Option<ReceiverState>| {
            let State::Leased { record, .. } = leased(40.0) else { unreachable!("it is leased") };
            Record { updated_at: at, next_at, failures, progress, losses: 0, ..record }
        };
        let again = |failures| State::Ready {
            record: left(failures, before()),
            wait: Wait::Retry(network()),
        };
        let lost_again = || Record { losses: 3, ..left(3, before()) };
        let watching = |progress| State::Ready { record: left(0, progress), wait: Wait::Watching };
        let over = |failures, progress| State::Failed {
            record: left(failures, progress),
            code: network(),
        };
        let lost = |ending| -> Event<Processing> {
            let (code, loss) = (network(), Loss::Expired);
            Event::LeaseLost { at, next_at, failures: 3, code, loss, ending }
        };
        let fail = |failures, progress| -> Event<Processing> {
            let code = network();
            Event::Failed { at, next_at, failures, code, progress }
        };
        let outcome = said(WorkStatus::Succeeded);
        let news = Some(said(WorkStatus::RetryWait));
        let verdict = Some(said(WorkStatus::Failed));
        vec![
            (
                Event::Completed { at, next_at, outcome: outcome.clone() },
                State::Completed { record: left(0, None), outcome },
            ),
            (Event::Watched { at, next_at, progress: news.clone() }, watching(news)),
            (Event::Unchanged { at, next_at, note: () }, watching(before())),
            (Event::Retried { at, next_at, failures: 3, code }, again(3)),
            (fail(3, None), over(3, before())),
            (fail(0, Some(verdict.clone())), over(0, verdict)),
            (
                lost(Ending::Retry),
                State::Ready { record: lost_again(), wait: Wait::Retry(network()) },
            ),
            (lost(Ending::Final), State::Failed { record: lost_again(), code: network() }),
            (
                Event::Released { at, next_at, attempts: 3 },
                State::Ready {
                    record: Record { attempts: 3, losses: 2, ..left(2, before()) },
                    wait: Wait::Retry(network()),
                },
            ),
        ]
    }

    #[test]
    fn a_lease_ends_no_earlier_than_it_began_and_leaves_nothing_due_before_the_registration() {
        for (time, due) in [(50.0, 60.0), (40.0, 10.0)] {
            for (event, expected) in endings(time, due) {
                let name = event.name();
                assert_eq!(evolve(leased(40.0), &event), Ok(expected), "{name} at {time}");
            }
        }
        for (time, due) in [(39.9, 60.0), (50.0, 9.9)] {
            for (event, _) in endings(time, due) {
                let name = event.name();
                assert_eq!(evolve(leased(40.0), &event), Err(IllegalEvent), "{name} at {time}");
            }
        }
    }

    #[test]
    fn a_lease_given_back_leaves_the_record_as_it_was_but_for_its_last_time() {
        for wait in [Wait::Watching, Wait::Retry(network())] {
            let before = State::Ready { record: record(), wait: wait.clone() };
            let leased = evolve(before, &claim(4, 31.0, 100.0)).expect("it is due");
            let given_back = Event::Released { at: at(50.0), next_at: at(30.0), attempts: 3 };
            let record = Record { updated_at: at(50.0), ..record() };
            let after = State::Ready { record, wait };
            assert_eq!(evolve(leased.clone(), &given_back), Ok(after));
            for (attempts, why) in [(4, "the attempt stays"), (2, "two attempts")] {
                let other = Event::Released { at: at(50.0), next_at: at(30.0), attempts };
                assert_eq!(evolve(leased.clone(), &other), Err(IllegalEvent), "{why}");
            }
        }
    }

    #[test]
    fn a_lease_whose_record_does_not_tell_why_it_waited_cannot_be_given_back() {
        let State::Leased { record, lease, .. } = leased(40.0) else {
            unreachable!("it is leased")
        };
        let given_back = Event::Released { at: at(50.0), next_at: at(30.0), attempts: 3 };
        let untold = State::Leased { record, lease, waited: None };
        assert_eq!(evolve(untold, &given_back), Err(IllegalEvent));
        for state in [State::Vacant, ready(), completed(), failed()] {
            assert_eq!(evolve(state.clone(), &given_back), Err(IllegalEvent), "{state:?}");
        }
    }
}
