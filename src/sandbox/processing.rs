//! The work on one notification, as a receiver keeps it (contract 4.6).
//!
//! Owns what can happen to it and when: a claim, the end of a lease, a settlement. Pure: times, delays
//! and the handler's end are given. Must not know how it is asked, nor where a step is written: one
//! that is read back goes through [`Processing::after`] like a new one.

use super::handler::{Handling, Outcome};
use leasehold_actors::contract::payload::Payload;
use leasehold_actors::contract::text::ErrorCode;
use leasehold_actors::contract::time::{Ceiling, Duration, Timestamp};
use leasehold_actors::record::policy::Policy;
use serde::{Deserialize, Serialize};

const LEASE_EXPIRED: ErrorCode = ErrorCode::known("notification_receiver.processing_lease_expired");
const RESPONSE_INVALID: ErrorCode =
    ErrorCode::known("notification_receiver.processing_response_invalid");
const CALLBACK_FAILURE: ErrorCode =
    ErrorCode::known("notification_receiver.processing_callback_failure");

/// What can happen to a notification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "did", rename_all = "snake_case")]
pub enum Step {
    /// The worker took it up.
    Claimed {
        /// When.
        #[serde(with = "super::exact")]
        at: Timestamp,
        /// When its lease ends.
        #[serde(with = "super::exact")]
        ends_at: Timestamp,
        /// What the handler makes of it.
        handling: Handling,
    },
    /// Its lease was found to be over.
    Expired {
        /// When.
        #[serde(with = "super::exact")]
        at: Timestamp,
    },
    /// The handler acted on it.
    Succeeded {
        /// When.
        #[serde(with = "super::exact")]
        at: Timestamp,
    },
    /// The handler failed, and is to try again.
    Retried {
        /// When.
        #[serde(with = "super::exact")]
        at: Timestamp,
        /// When it is due again.
        #[serde(with = "super::exact")]
        next_at: Timestamp,
        /// Why.
        code: ErrorCode,
    },
    /// The handler failed for good.
    Failed {
        /// When.
        #[serde(with = "super::exact")]
        at: Timestamp,
        /// Why.
        code: ErrorCode,
    },
}

/// How far the work on a notification has come, with what belongs to that state alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Not tried yet.
    Pending,
    /// Being tried.
    Leased {
        /// Since when.
        since: Timestamp,
        /// When the lease ends; at that very time it is over.
        ends_at: Timestamp,
        /// What the handler makes of it.
        handling: Handling,
    },
    /// Waits after a failure.
    RetryWait {
        /// The failure.
        code: ErrorCode,
    },
    /// Done.
    Succeeded {
        /// When it was.
        processed_at: Timestamp,
    },
    /// Given up.
    Failed {
        /// Why.
        code: ErrorCode,
    },
}

impl Phase {
    /// Its name in the answer (contract 2.6).
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Leased { .. } => "leased",
            Self::RetryWait { .. } => "retry_wait",
            Self::Succeeded { .. } => "succeeded",
            Self::Failed { .. } => "failed",
        }
    }
}

/// A settlement that is not taken. The notification stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The lease is another attempt's by now, or there is none.
    #[error("notification_receiver.processing_claim_lost")]
    ClaimLost,
    /// The lease is over.
    #[error("notification_receiver.processing_lease_expired")]
    LeaseExpired,
}

/// A step that cannot have happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("notification_receiver.processing_state_invalid")]
pub struct StateInvalid;

/// The work on one notification. A claim is told from another by its attempt: each takes the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Processing {
    received_at: Timestamp,
    max_attempts: Ceiling,
    /// 0 exactly when pending.
    attempts: u32,
    next_at: Timestamp,
    phase: Phase,
}

impl Processing {
    /// That of a notification that was received at this time; it is due at once.
    #[must_use]
    pub fn received(at: Timestamp, max_attempts: Ceiling) -> Self {
        Self { received_at: at, max_attempts, attempts: 0, next_at: at, phase: Phase::Pending }
    }

    /// When the notification was received first.
    #[must_use]
    pub fn received_at(&self) -> Timestamp {
        self.received_at
    }

    /// Attempts it may have.
    #[must_use]
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts.get()
    }

    /// Attempts it had, the one under way included.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// When it is, or was, due.
    #[must_use]
    pub fn next_at(&self) -> Timestamp {
        self.next_at
    }

    /// How far it has come.
    #[must_use]
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Whether it can be claimed.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        matches!(self.phase, Phase::Pending | Phase::RetryWait { .. }) && self.next_at <= now
    }

    /// Whether it is leased and the lease is over.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        matches!(self.phase, Phase::Leased { ends_at, .. } if ends_at <= now)
    }

    fn is_held(&self, now: Timestamp) -> bool {
        matches!(self.phase, Phase::Leased { .. }) && !self.is_expired(now)
    }

    fn has_attempts_left(&self) -> bool {
        self.attempts < self.max_attempts.get()
    }

    /// Takes it up, if it is due; only then it is drawn what the handler makes of it.
    #[must_use]
    pub fn claim(
        &self,
        at: Timestamp,
        lease: Duration,
        handling: impl FnOnce() -> Handling,
    ) -> Option<Step> {
        let claimed = || Step::Claimed { at, ends_at: at.after(lease), handling: handling() };
        self.is_due(at).then(claimed)
    }

    /// Ends its lease, if that is over.
    #[must_use]
    pub fn expire(&self, at: Timestamp) -> Option<Step> {
        self.is_expired(at).then_some(Step::Expired { at })
    }

    /// Records how the handler of this attempt ended; `expected` is the answer of one that acted.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn settle(
        &self,
        attempt: u32,
        outcome: &Outcome,
        expected: &Payload,
        at: Timestamp,
        back_off: &Policy,
    ) -> Result<Step, Refused> {
        if attempt != self.attempts || !matches!(self.phase, Phase::Leased { .. }) {
            return Err(Refused::ClaimLost);
        }
        if self.is_expired(at) {
            return Err(Refused::LeaseExpired);
        }
        let failed = |code: &ErrorCode| Step::Failed { at, code: code.clone() };
        Ok(match outcome {
            Outcome::Answer(answer) if answer == expected => Step::Succeeded { at },
            Outcome::Answer(_) => failed(&RESPONSE_INVALID),
            Outcome::Crash => failed(&CALLBACK_FAILURE),
            Outcome::Failure { code, retryable } if *retryable && self.has_attempts_left() => {
                let next_at = at.after(back_off.back_off(self.attempts));
                Step::Retried { at, next_at, code: code.clone() }
            }
            Outcome::Failure { code, .. } => failed(code),
        })
    }

    /// What a step makes of it, a new one or one that was read back.
    ///
    /// # Errors
    /// [`StateInvalid`].
    pub fn after(&self, step: &Step) -> Result<Self, StateInvalid> {
        let (next_at, phase) = match step {
            Step::Claimed { at, ends_at, handling } if self.is_due(*at) && at <= ends_at => {
                let (since, ends_at, handling) = (*at, *ends_at, *handling);
                (self.next_at, Phase::Leased { since, ends_at, handling })
            }
            Step::Expired { at } if self.is_expired(*at) => {
                let (code, again) = (LEASE_EXPIRED, self.has_attempts_left());
                (*at, if again { Phase::RetryWait { code } } else { Phase::Failed { code } })
            }
            Step::Succeeded { at } if self.is_held(*at) => {
                (*at, Phase::Succeeded { processed_at: *at })
            }
            Step::Retried { at, next_at, code }
                if self.is_held(*at) && at <= next_at && self.has_attempts_left() =>
            {
                (*next_at, Phase::RetryWait { code: code.clone() })
            }
            Step::Failed { at, code } if self.is_held(*at) => {
                (*at, Phase::Failed { code: code.clone() })
            }
            Step::Claimed { .. }
            | Step::Expired { .. }
            | Step::Succeeded { .. }
            | Step::Retried { .. }
            | Step::Failed { .. } => return Err(StateInvalid),
        };
        let taken_up = u32::from(matches!(phase, Phase::Leased { .. }));
        Ok(Self { attempts: self.attempts + taken_up, next_at, phase, ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_actors::record::policy::Delays;
    use proptest::prelude::*;

    fn time(seconds: f64) -> Timestamp {
        Timestamp::new(seconds).expect("a time")
    }

    fn policy() -> Policy {
        let delays = Delays { base_delay_seconds: 2.0, ..Delays::default() };
        Policy::new(delays).expect("within the limits")
    }

    fn payload(text: &str) -> Payload {
        Payload::from_canonical(text.into())
    }

    /// Received at 100, with 2 attempts.
    fn pending() -> Processing {
        Processing::received(time(100.0), Ceiling::new(2).expect("within the limits"))
    }

    fn claim(at: f64, ends_at: f64) -> Step {
        Step::Claimed { at: time(at), ends_at: time(ends_at), handling: Handling::Done }
    }

    fn retry(at: f64, next_at: f64) -> Step {
        Step::Retried { at: time(at), next_at: time(next_at), code: CALLBACK_FAILURE }
    }

    fn fail(at: f64) -> Step {
        Step::Failed { at: time(at), code: CALLBACK_FAILURE }
    }

    fn after(steps: &[Step]) -> Processing {
        steps.iter().try_fold(pending(), |known, step| known.after(step)).expect("all are legal")
    }

    #[test]
    fn a_step_that_cannot_have_happened_is_refused() {
        let expired = |at| Step::Expired { at: time(at) };
        let succeeded = |at| Step::Succeeded { at: time(at) };
        let leased = || after(&[claim(100.0, 105.0)]);
        let last = || after(&[claim(100.0, 105.0), expired(105.0), claim(105.0, 110.0)]);
        let done = || after(&[claim(100.0, 105.0), succeeded(101.0)]);
        let given_up = || after(&[claim(100.0, 105.0), fail(101.0)]);
        for (state, steps) in [
            (pending(), vec![expired(105.0), succeeded(101.0), retry(101.0, 102.0), fail(101.0)]),
            (pending(), vec![claim(99.0, 105.0), claim(101.0, 100.0)]),
            (leased(), vec![claim(101.0, 106.0), expired(104.0), succeeded(105.0), fail(105.0)]),
            (leased(), vec![retry(105.0, 106.0), retry(101.0, 100.0)]),
            (last(), vec![retry(106.0, 107.0)]),
            (done(), vec![claim(102.0, 107.0), expired(106.0), succeeded(102.0), fail(102.0)]),
            (given_up(), vec![claim(102.0, 107.0), expired(106.0), retry(102.0, 103.0)]),
        ] {
            for step in steps {
                assert_eq!(state.after(&step), Err(StateInvalid), "{state:?} {step:?}");
            }
        }
    }

    #[test]
    fn a_failure_is_final_at_the_ceiling_or_when_trying_again_does_not_help() {
        let code = || ErrorCode::known("cms_backend.unavailable");
        let failure = |retryable| Outcome::Failure { code: code(), retryable };
        let settled = |state: &Processing, outcome: &Outcome, at: f64| {
            state.settle(state.attempts(), outcome, &payload("1"), time(at), &policy())
        };
        let first = after(&[claim(100.0, 105.0)]);
        let failed = |at: f64| Ok(Step::Failed { at: time(at), code: code() });
        let retried = Step::Retried { at: time(101.0), next_at: time(103.0), code: code() };
        assert_eq!(settled(&first, &failure(true), 101.0), Ok(retried.clone()));
        assert_eq!(settled(&first, &failure(false), 101.0), failed(101.0));
        let second = after(&[claim(100.0, 105.0), retried, claim(103.0, 108.0)]);
        assert_eq!(settled(&second, &failure(true), 104.0), failed(104.0));
        let succeeded = Ok(Step::Succeeded { at: time(104.0) });
        assert_eq!(settled(&second, &Outcome::Answer(payload("1")), 104.0), succeeded);
    }

    /// What is tried: to claim, to end the lease, or to settle in one of five ways; and how much later.
    fn tries() -> impl Strategy<Value = Vec<(u8, f64)>> {
        proptest::collection::vec((0_u8..7, 0.0..6.0), 1..60)
    }

    fn tried(state: &Processing, what: u8, now: Timestamp) -> Option<Step> {
        let lease = Duration::new(5.0).expect("within the limits");
        let failure = |retryable| Outcome::Failure { code: CALLBACK_FAILURE, retryable };
        let (attempt, outcome) = match what {
            0 => return state.claim(now, lease, || Handling::Stuck),
            1 => return state.expire(now),
            2 => (state.attempts(), Outcome::Answer(payload("1"))),
            3 => (state.attempts(), Outcome::Answer(payload("2"))),
            4 => (state.attempts(), failure(false)),
            5 => (state.attempts().saturating_sub(1), Outcome::Crash),
            _ => (state.attempts(), failure(true)),
        };
        state.settle(attempt, &outcome, &payload("1"), now, &policy()).ok()
    }

    proptest! {
        #[test]
        fn whatever_is_decided_is_legal_and_keeps_the_rules_of_a_row(
            tries in tries(),
            ceiling in 1_i64..=4,
        ) {
            let ceiling = Ceiling::new(ceiling).expect("within the limits");
            let mut state = Processing::received(time(100.0), ceiling);
            let mut seconds = 100.0;
            for (what, later) in tries {
                seconds += later;
                let Some(step) = tried(&state, what, time(seconds)) else { continue };
                let before = state.clone();
                state = state.after(&step).expect("what was decided can happen");
                prop_assert_ne!(&state, &before);
                prop_assert_eq!(state.received_at(), time(100.0));
                prop_assert_eq!(state.attempts() == 0, *state.phase() == Phase::Pending);
                prop_assert!(state.attempts() <= state.max_attempts());
                let waits = matches!(state.phase(), Phase::RetryWait { .. });
                prop_assert!(!waits || state.attempts() < state.max_attempts());
                let final_before = matches!(
                    before.phase(),
                    Phase::Succeeded { .. } | Phase::Failed { .. }
                );
                prop_assert!(!final_before, "{:?}", step);
            }
        }
    }
}
