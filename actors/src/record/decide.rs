//! What a command leads to (contract 4, with D3 and D19).
//!
//! Owns every rule about attempts, leases, due times and ceilings. A decision is a function of
//! (policy, state, command, now); an empty list of events means that it is so already.

use super::event::{Ending, Loss};
use super::rules::{Counted, Due, Late};
use super::{
    Command, Event, Flow, Intervention, Lease, Part, Policy, Proof, Record, Settlement, State,
    Verdict, Wait,
};
use crate::contract::text::{ErrorCode, Sha256, WorkerToken};
use crate::contract::time::{Duration, Timestamp};

/// A command that is turned down. Nothing is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The identity is taken by another binding.
    #[error("idempotency_collision")]
    IdempotencyCollision,
    /// There is no such record.
    #[error("claim_missing")]
    ClaimMissing,
    /// The lease is not, or no longer, the caller's.
    #[error("claim_lost")]
    ClaimLost,
    /// The lease has ended.
    #[error("lease_expired")]
    LeaseExpired,
    /// The settlement is earlier than the record's last time.
    #[error("clock_regressed")]
    ClockRegressed,
    /// Not waiting, or not due yet: there is nothing to claim.
    #[error("not_due")]
    NotDue,
    /// The lease is too short to end after it began, far out where a double has no finer steps.
    #[error("lease_invalid")]
    LeaseInvalid,
    /// The record does not replay.
    #[error("state_invalid")]
    StateInvalid,
    /// An operator asked for a record that is not there.
    #[error("record_missing")]
    RecordMissing,
    /// Neither failed nor dismissed: there is nothing to requeue.
    #[error("not_failed")]
    NotFailed,
    /// Not registered under another digest: there is nothing to repin, and nothing to dismiss unless
    /// it failed.
    #[error("not_held")]
    NotHeld,
}

impl Refusal {
    /// The code without its prefix.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::IdempotencyCollision => "idempotency_collision",
            Self::ClaimMissing => "claim_missing",
            Self::ClaimLost => "claim_lost",
            Self::LeaseExpired => "lease_expired",
            Self::ClockRegressed => "clock_regressed",
            Self::NotDue => "not_due",
            Self::LeaseInvalid => "lease_invalid",
            Self::StateInvalid => "state_invalid",
            Self::RecordMissing => "record_missing",
            Self::NotFailed => "not_failed",
            Self::NotHeld => "not_held",
        }
    }
}

/// Decides one command.
///
/// # Errors
/// [`Refusal`]; then nothing may be written.
pub fn decide<F: Flow>(
    policy: &Policy,
    state: &State<F>,
    command: Command<F>,
    now: Timestamp,
) -> Result<Vec<Event<F>>, Refusal> {
    match command {
        Command::Register { binding, payload, settled } => match state.record() {
            None => Ok(vec![Event::Registered { at: now, binding, payload, settled }]),
            Some(record) if *record.binding == binding => Ok(Vec::new()),
            Some(_) => Err(Refusal::IdempotencyCollision),
        },
        Command::Claim { owner, token_sha256, lease } => {
            claim(state, owner, token_sha256, lease, now)
        }
        Command::Settle { proof, settlement } => {
            let record = live::<F>(state, &proof, now)?;
            Ok(vec![settle(policy, record, settlement, now)])
        }
        Command::Release { proof } => {
            let record = live::<F>(state, &proof, now)?;
            Ok(vec![release(policy, record, state.waited(), now)])
        }
        Command::Expire => match state {
            State::Leased { record, lease, .. } if lease.expired(now) => {
                Ok(vec![lose(policy, record, Loss::Expired, now)])
            }
            State::Leased { .. }
            | State::Vacant
            | State::Ready { .. }
            | State::Completed { .. }
            | State::Failed { .. }
            | State::Dismissed { .. } => Ok(Vec::new()),
        },
        Command::Abandon => match state {
            // Granted by whom is not known here: an import, where the lock proves nothing of the holder, or
            // what an older program archived. It runs out at its time.
            State::Leased { waited: None, .. } => Ok(Vec::new()),
            State::Leased { record, .. } if now < record.updated_at => Err(Refusal::ClockRegressed),
            State::Leased { record, .. } => Ok(vec![lose(policy, record, Loss::Abandoned, now)]),
            State::Vacant
            | State::Ready { .. }
            | State::Completed { .. }
            | State::Failed { .. }
            | State::Dismissed { .. } => Ok(Vec::new()),
        },
        Command::Requeue { next_at, intervention } => requeue(state, next_at, intervention, now),
        Command::Dismiss { expected, intervention } => dismiss(state, expected, intervention, now),
        Command::Repin { digest, intervention } => repin(state, digest, intervention, now),
    }
}

/// The record an operator means, if the clock has not gone back behind it (D3).
fn touched<F: Flow>(state: &State<F>, now: Timestamp) -> Result<&Record<F>, Refusal> {
    let record = state.record().ok_or(Refusal::RecordMissing)?;
    if now < record.updated_at { Err(Refusal::ClockRegressed) } else { Ok(record) }
}

fn requeue<F: Flow>(
    state: &State<F>,
    next_at: Option<Timestamp>,
    intervention: Intervention,
    now: Timestamp,
) -> Result<Vec<Event<F>>, Refusal> {
    touched(state, now)?;
    match state {
        State::Failed { .. } | State::Dismissed { .. } => Ok(vec![match next_at {
            // The older form wherever it says the same: an older library reads it.
            Some(next_at) if next_at > now => {
                Event::RequeuedLater { at: now, next_at, intervention }
            }
            Some(_) | None => Event::Requeued { at: now, intervention },
        }]),
        State::Vacant | State::Ready { .. } | State::Leased { .. } | State::Completed { .. } => {
            Err(Refusal::NotFailed)
        }
    }
}

fn dismiss<F: Flow>(
    state: &State<F>,
    expected: Option<Sha256>,
    intervention: Intervention,
    now: Timestamp,
) -> Result<Vec<Event<F>>, Refusal> {
    let record = touched(state, now)?;
    let elsewhere = F::digest(&record.binding).is_some_and(|digest| Some(digest) != expected);
    match state {
        State::Dismissed { .. } => Ok(Vec::new()),
        State::Failed { .. } => Ok(vec![Event::Dismissed { at: now, intervention }]),
        State::Ready { .. } if elsewhere => Ok(vec![Event::Dismissed { at: now, intervention }]),
        State::Vacant | State::Ready { .. } | State::Leased { .. } | State::Completed { .. } => {
            Err(Refusal::NotHeld)
        }
    }
}

fn repin<F: Flow>(
    state: &State<F>,
    digest: Sha256,
    intervention: Intervention,
    now: Timestamp,
) -> Result<Vec<Event<F>>, Refusal> {
    let record = touched(state, now)?;
    match (state, F::digest(&record.binding)) {
        (State::Ready { .. }, Some(pinned)) if pinned == digest => Ok(Vec::new()),
        (State::Ready { .. }, Some(_)) => {
            Ok(vec![Event::Repinned { at: now, digest, intervention }])
        }
        (
            State::Vacant
            | State::Ready { .. }
            | State::Leased { .. }
            | State::Completed { .. }
            | State::Failed { .. }
            | State::Dismissed { .. },
            _,
        ) => Err(Refusal::NotHeld),
    }
}

fn claim<F: Flow>(
    state: &State<F>,
    owner: WorkerToken,
    token_sha256: Sha256,
    lease: Duration,
    now: Timestamp,
) -> Result<Vec<Event<F>>, Refusal> {
    let State::Ready { record, .. } = state else { return Err(Refusal::NotDue) };
    if record.next_at > now {
        return Err(Refusal::NotDue);
    }
    let expires_at = now.after(lease);
    if expires_at <= now {
        return Err(Refusal::LeaseInvalid);
    }
    let attempt = record.attempts.saturating_add(1);
    Ok(vec![Event::Claimed { at: now, attempt, owner, token_sha256, expires_at }])
}

/// The record, if the proof is good: missing, lost, expired, clock, in this order (contract 4.9).
fn live<'a, F: Flow>(
    state: &'a State<F>,
    proof: &Proof<F>,
    now: Timestamp,
) -> Result<&'a Record<F>, Refusal> {
    let late = F::RULES.late;
    let (record, lease) = match (state, late) {
        (State::Leased { record, lease, .. }, _) => (record, lease),
        (State::Vacant, Late::Named) => return Err(Refusal::ClaimMissing),
        (
            State::Vacant
            | State::Ready { .. }
            | State::Completed { .. }
            | State::Failed { .. }
            | State::Dismissed { .. },
            Late::Named | Late::Lost,
        ) => return Err(Refusal::ClaimLost),
    };
    if !holds(record, lease, proof) {
        return Err(Refusal::ClaimLost);
    }
    if lease.expired(now) {
        return Err(match late {
            Late::Named => Refusal::LeaseExpired,
            Late::Lost => Refusal::ClaimLost,
        });
    }
    if now < record.updated_at { Err(Refusal::ClockRegressed) } else { Ok(record) }
}

fn holds<F: Flow>(record: &Record<F>, lease: &Lease, proof: &Proof<F>) -> bool {
    lease.held_with(&proof.token_sha256)
        && lease.owner == proof.owner
        && lease.expires_at == proof.expires_at
        && record.attempts == proof.attempt
        && record.binding == proof.binding
}

fn settle<F: Flow>(
    policy: &Policy,
    record: &Record<F>,
    settlement: Settlement<F>,
    now: Timestamp,
) -> Event<F> {
    match settlement {
        Settlement::Report(report) => match F::judge(&record.binding, &record.progress, report) {
            Verdict::Complete(outcome) => {
                let next_at = due(F::RULES.complete_due, policy, record, 0, now);
                Event::Completed { at: now, next_at, outcome }
            }
            Verdict::Watch(progress) => {
                let next_at = now.after(policy.poll_interval());
                match F::repeats(&record.progress, &progress) {
                    Some(note) => Event::Unchanged { at: now, next_at, note },
                    None => Event::Watched { at: now, next_at, progress },
                }
            }
            Verdict::Fail { code, progress } => {
                let progress = Some(progress);
                Event::Failed { at: now, next_at: now, failures: 0, code, progress }
            }
        },
        Settlement::Retry { code, retry_after } => {
            let (failures, spent) = spent(record);
            if spent >= F::ceiling(&record.binding).get() {
                Event::Failed { at: now, next_at: now, failures, code, progress: None }
            } else {
                let part = || part_of(record);
                let next_at = now.after(policy.delay(spent, retry_after, part));
                Event::Retried { at: now, next_at, failures, code }
            }
        }
        Settlement::Fail { code } => {
            if let Some(outcome) = F::ended_by(&code) {
                let next_at = due(F::RULES.complete_due, policy, record, 0, now);
                return Event::Completed { at: now, next_at, outcome };
            }
            let (failures, _) = spent(record);
            Event::Failed { at: now, next_at: now, failures, code, progress: None }
        }
    }
}

/// A lease that is given back: its attempt was not made, or may be made again as if it had not been. A
/// record whose state does not tell why it was waiting before cannot be put back there, and pays for
/// the attempt as if its engine were gone.
fn release<F: Flow>(
    policy: &Policy,
    record: &Record<F>,
    waited: Option<&Wait>,
    now: Timestamp,
) -> Event<F> {
    match waited {
        Some(_) => {
            let attempts = record.attempts.saturating_sub(1);
            // A claim leaves the due time as it is.
            Event::Released { at: now, next_at: record.next_at, attempts }
        }
        None => lose(policy, record, Loss::Abandoned, now),
    }
}

/// After one more failure: the failures in a row, and how much of the ceiling is used.
fn spent<F: Flow>(record: &Record<F>) -> (u32, u32) {
    match F::RULES.counted {
        Counted::Leases => (record.failures, record.attempts),
        Counted::Failures => {
            let failures = record.failures.saturating_add(1);
            (failures, failures)
        }
    }
}

/// A lease that ended without a settlement. One that ran out costs what the flow says; one whose
/// engine is gone costs no more than the lease already did, and the record is due at once. A record
/// that does this to engine after engine is failed before it takes the next one down; where its ceiling
/// is used up as well, it ends as the contract says.
fn lose<F: Flow>(policy: &Policy, record: &Record<F>, loss: Loss, now: Timestamp) -> Event<F> {
    let rules = F::RULES;
    let (failures, spent) = match (loss, rules.counted) {
        (Loss::Expired, Counted::Leases | Counted::Failures)
        | (Loss::Abandoned, Counted::Leases) => spent(record),
        (Loss::Abandoned, Counted::Failures) => (record.failures, record.failures),
    };
    let used_up = spent >= F::ceiling(&record.binding).get();
    let given_up = policy.gives_up_after(record.losses.saturating_add(1));
    let (ending, rule) = match (used_up || given_up, loss) {
        (true, _) => (Ending::Final, rules.expiry_final_due),
        (false, Loss::Expired) => (Ending::Retry, rules.expiry_due),
        (false, Loss::Abandoned) => (Ending::Retry, Due::Now),
    };
    let next_at = due(rule, policy, record, failures, now);
    let only_given_up = given_up && !used_up;
    let code = if only_given_up { rules.losses_code } else { rules.expiry_code };
    let code = ErrorCode::known(code);
    Event::LeaseLost { at: now, next_at, failures, code, loss, ending }
}

fn due<F: Flow>(
    rule: Due,
    policy: &Policy,
    record: &Record<F>,
    failures: u32,
    now: Timestamp,
) -> Timestamp {
    match rule {
        Due::Now => now,
        Due::BackOff => now.after(policy.delay(failures, None, || part_of(record))),
        Due::Unchanged => record.next_at,
    }
}

/// Where in the jitter of its delays a record is after this attempt.
fn part_of<F: Flow>(record: &Record<F>) -> Part {
    Part::of(F::TAG, &F::identity(&record.binding), record.attempts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::processing::{Processing, ProcessingBinding};
    use crate::record::policy::Delays;
    use crate::record::sample::{self, at};
    use std::sync::Arc;

    fn worker(name: &str) -> WorkerToken {
        WorkerToken::new(name).expect("a worker")
    }

    fn binding(notification_id: &str) -> Arc<ProcessingBinding> {
        Arc::new(sample::binding(notification_id))
    }

    /// Claimed at 40 for the second time, until 100.
    fn leased() -> State<Processing> {
        let record = Record {
            binding: binding("notification-1"),
            created_at: at(10.0),
            updated_at: at(40.0),
            next_at: at(30.0),
            attempts: 2,
            failures: 0,
            progress: None,
            losses: 0,
        };
        let (owner, token_sha256) = (worker("w"), Sha256::of(b"token"));
        let lease = Lease { owner, token_sha256, expires_at: at(100.0) };
        State::Leased { record, lease, waited: Some(Wait::Watching) }
    }

    /// The same after so many leases lost in a row.
    fn leased_after(losses: u32) -> State<Processing> {
        let State::Leased { record, lease, waited } = leased() else {
            unreachable!("it is leased")
        };
        State::Leased { record: Record { losses, ..record }, lease, waited }
    }

    fn whole() -> Proof<Processing> {
        Proof {
            binding: binding("notification-1"),
            attempt: 2,
            owner: worker("w"),
            token_sha256: Sha256::of(b"token"),
            expires_at: at(100.0),
        }
    }

    type Change = fn(&mut Proof<Processing>);

    /// Each part of a proof, and how it becomes another lease's.
    const PARTS: [(&str, Change); 5] = [
        ("token", |proof| proof.token_sha256 = Sha256::of(b"another token")),
        ("owner", |proof| proof.owner = worker("another")),
        ("end", |proof| proof.expires_at = at(101.0)),
        ("attempt", |proof| proof.attempt = 1),
        ("binding", |proof| proof.binding = binding("notification-2")),
    ];

    fn policy() -> Policy {
        Policy::new(Delays::default()).expect("the defaults are valid")
    }

    fn fail(proof: Proof<Processing>) -> Result<Vec<Event<Processing>>, Refusal> {
        let policy = policy();
        let settlement = Settlement::Fail { code: ErrorCode::known("network") };
        decide(&policy, &leased(), Command::Settle { proof, settlement }, at(50.0))
    }

    #[test]
    fn a_lease_is_settled_with_its_whole_proof_and_with_nothing_less() {
        let (now, code) = (at(50.0), ErrorCode::known("network"));
        let failed = Event::<Processing>::Failed {
            at: now,
            next_at: now,
            failures: 1,
            code,
            progress: None,
        };
        assert_eq!(fail(whole()), Ok(vec![failed]));
        for (part, change) in PARTS {
            let mut proof = whole();
            change(&mut proof);
            assert_eq!(fail(proof), Err(Refusal::ClaimLost), "another {part}");

            let mut proof = whole();
            for (_, change) in PARTS.into_iter().filter(|(name, _)| *name != part) {
                change(&mut proof);
            }
            assert_eq!(fail(proof), Err(Refusal::ClaimLost), "nothing but the {part}");
        }
    }

    fn give_back(
        state: &State<Processing>,
        proof: Proof<Processing>,
        time: f64,
    ) -> Result<Vec<Event<Processing>>, Refusal> {
        decide(&policy(), state, Command::Release { proof }, at(time))
    }

    #[test]
    fn a_lease_is_given_back_with_its_whole_proof_and_costs_no_attempt() {
        let released = Event::Released { at: at(50.0), next_at: at(30.0), attempts: 1 };
        assert_eq!(give_back(&leased(), whole(), 50.0), Ok(vec![released]));
        for (part, change) in PARTS {
            let mut proof = whole();
            change(&mut proof);
            assert_eq!(give_back(&leased(), proof, 50.0), Err(Refusal::ClaimLost), "{part}");
        }
        for (time, refusal) in [(100.0, Refusal::LeaseExpired), (39.0, Refusal::ClockRegressed)] {
            assert_eq!(give_back(&leased(), whole(), time), Err(refusal), "at {time}");
        }
        assert_eq!(give_back(&State::Vacant, whole(), 50.0), Err(Refusal::ClaimMissing));
        let released = Event::Released { at: at(50.0), next_at: at(30.0), attempts: 1 };
        let ready = crate::record::evolve(leased(), &released).expect("it is leased");
        assert_eq!(give_back(&ready, whole(), 51.0), Err(Refusal::ClaimLost), "given back already");
    }

    #[test]
    fn a_lease_whose_record_does_not_tell_why_it_waited_costs_its_attempt() {
        let State::Leased { record, lease, .. } = leased() else { unreachable!("it is leased") };
        let untold = State::Leased { record, lease, waited: None };
        let lost = Event::LeaseLost {
            at: at(50.0),
            next_at: at(50.0),
            failures: 0,
            code: ErrorCode::known("terminal_processing_monitor.lease_expired"),
            loss: Loss::Abandoned,
            ending: Ending::Retry,
        };
        assert_eq!(give_back(&untold, whole(), 50.0), Ok(vec![lost]));
    }

    #[test]
    fn jitter_shortens_the_wait_after_a_failure_and_what_was_asked_for_not_at_all() {
        let delays = Delays { base_delay_seconds: 40.0, jitter_share: 0.5, ..Delays::default() };
        let policy = Policy::new(delays).expect("within limits");
        let next_at = |retry_after: Option<f64>| {
            let (proof, code) = (whole(), ErrorCode::known("network"));
            let retry_after = retry_after.and_then(Duration::new);
            let settlement = Settlement::Retry { code, retry_after };
            let command = Command::Settle { proof, settlement };
            let events = decide(&policy, &leased(), command, at(50.0)).expect("it is live");
            let [Event::Retried { next_at, .. }] = &events[..] else { panic!("{events:?}") };
            next_at.seconds()
        };
        let identity = Processing::identity(&binding("notification-1"));
        let part = Part::of(Processing::TAG, &identity, 2).get();
        assert_eq!(next_at(None), 50.0 + 40.0 * (1.0 - 0.5 * part));
        assert!(next_at(None) < 90.0, "the place of this one is not 0");
        assert_eq!(next_at(None), next_at(None));
        assert_eq!(next_at(Some(39.9)), 89.9_f64.max(next_at(None)));
        assert_eq!(next_at(Some(60.0)), 110.0);
    }

    #[test]
    fn a_requeue_for_later_is_told_apart_from_one_that_is_due_at_once() {
        let State::Leased { record, .. } = leased() else { unreachable!("it is leased") };
        let failed = State::Failed { record, code: ErrorCode::known("network") };
        let by = crate::record::OperatorName::new("maria").expect("a name");
        let why = crate::record::Reason::new("mended").expect("a reason");
        let intervention = Intervention { by, why };
        let requeue = |next_at| {
            let intervention = intervention.clone();
            decide(&policy(), &failed, Command::Requeue { next_at, intervention }, at(50.0))
        };
        let at_once = Event::Requeued { at: at(50.0), intervention: intervention.clone() };
        for next_at in [None, Some(at(49.0)), Some(at(50.0))] {
            assert_eq!(requeue(next_at), Ok(vec![at_once.clone()]), "{next_at:?}");
        }
        let next_at = at(50.5);
        let later =
            Event::RequeuedLater { at: at(50.0), next_at, intervention: intervention.clone() };
        assert_eq!(requeue(Some(next_at)), Ok(vec![later]));
    }

    /// How a lease ends that is lost after so many others, and with which code.
    fn lost(losses: u32, policy: &Policy, command: Command<Processing>) -> (Ending, String) {
        let events = decide(policy, &leased_after(losses), command, at(100.0)).expect("it is lost");
        let [Event::LeaseLost { ending, code, .. }] = &events[..] else { panic!("{events:?}") };
        (*ending, code.to_string())
    }

    #[test]
    fn the_last_lease_that_may_be_lost_in_a_row_fails_the_record_under_a_code_of_its_own() {
        let expired = "terminal_processing_monitor.lease_expired";
        let given_up = "terminal_processing_monitor.lease_lost_repeatedly";
        let three = policy().with_unclean_losses_max(std::num::NonZeroU32::new(3));
        for command in [|| Command::Expire, || Command::Abandon] {
            let ends = |losses, policy| {
                let (ending, code) = lost(losses, policy, command());
                (ending == Ending::Final, code)
            };
            assert_eq!(ends(1, &three), (false, expired.to_owned()));
            assert_eq!(ends(2, &three), (true, given_up.to_owned()));
            assert_eq!(ends(900, &policy()), (false, expired.to_owned()), "no limit was set");
        }
    }

    #[test]
    fn a_record_that_used_up_its_ceiling_as_well_ends_as_the_contract_says() {
        let State::Leased { record, lease, waited } = leased_after(4) else {
            unreachable!("it is leased")
        };
        let record = Record { failures: 4, ..record };
        let state = State::Leased { record, lease, waited };
        let five = policy().with_unclean_losses_max(std::num::NonZeroU32::new(5));
        let events = decide(&five, &state, Command::Expire, at(100.0)).expect("it expired");
        let [Event::LeaseLost { ending: Ending::Final, code, .. }] = &events[..] else {
            panic!("{events:?}")
        };
        assert_eq!(code.as_str(), "terminal_processing_monitor.lease_expired");
    }
}
