//! The caller's arguments, and the code each bad one ends in (contract 4.9, D13).
//!
//! Owns the checks that look at the arguments alone. They are made before anything is asked of a
//! record, in the order of contract 4.9, by whoever offers the call.

use crate::contract::text::{ErrorCode, WorkerToken};
use crate::contract::time::{Ceiling, Duration, Timestamp};
use crate::record::{Flow, Refusal};

/// A call that is turned down, as the contract's whole code. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Blocked(pub ErrorCode);

impl Blocked {
    /// The flow's own code of this name.
    #[must_use]
    pub fn new<F: Flow>(name: &str) -> Self {
        let code = format!("{}.{name}", F::RULES.prefix);
        Self(ErrorCode::new(&code).expect("a prefix and a name of ours make a code"))
    }

    /// A record's refusal under the flow's prefix.
    #[must_use]
    pub fn refusal<F: Flow>(refusal: Refusal) -> Self {
        Self::new::<F>(refusal.code())
    }

    /// A code of this name about what is paused, which is of no flow.
    #[must_use]
    pub fn control(name: &str) -> Self {
        let code = format!("control.{name}");
        Self(ErrorCode::new(&code).expect("a name of ours makes a code"))
    }

    /// The whole code.
    #[must_use]
    pub fn code(&self) -> &str {
        self.0.as_str()
    }
}

/// Checks a time.
///
/// # Errors
/// `time_invalid`.
pub fn time<F: Flow>(seconds: f64) -> Result<Timestamp, Blocked> {
    Timestamp::new(seconds).ok_or_else(|| Blocked::new::<F>("time_invalid"))
}

/// Checks a worker's name.
///
/// # Errors
/// `worker_invalid`.
pub fn worker<F: Flow>(name: &str) -> Result<WorkerToken, Blocked> {
    WorkerToken::new(name).ok_or_else(|| Blocked::new::<F>("worker_invalid"))
}

/// Checks the length of a lease.
///
/// # Errors
/// `lease_invalid`; of some flows another code for what is no length of time at all.
pub fn lease<F: Flow>(seconds: f64) -> Result<Duration, Blocked> {
    let code =
        if Timestamp::new(seconds).is_some() { "lease_invalid" } else { F::RULES.not_a_lease };
    Duration::new(seconds).ok_or_else(|| Blocked::new::<F>(code))
}

/// Checks a ceiling; `name` is the flow's code for a bad one.
///
/// # Errors
/// The code of that name.
pub fn ceiling<F: Flow>(value: i64, name: &str) -> Result<Ceiling, Blocked> {
    Ceiling::new(value).ok_or_else(|| Blocked::new::<F>(name))
}

/// Checks the longest time one call of a client can take against the lease that has to outlast it
/// (D11); a client that states none has no such rule.
///
/// # Errors
/// `client_invalid`, `lease_too_short`.
pub fn lease_outlasts<F: Flow>(lease: Duration, longest_call: Option<f64>) -> Result<(), Blocked> {
    match longest_call {
        None => Ok(()),
        Some(seconds) if !(seconds.is_finite() && seconds > 0.0) => {
            Err(Blocked::new::<F>("client_invalid"))
        }
        Some(seconds) if lease.seconds() <= seconds => Err(Blocked::new::<F>("lease_too_short")),
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::dispatch::Dispatch;

    fn code<T>(result: Result<T, Blocked>) -> Option<String> {
        result.err().map(|blocked| blocked.code().to_owned())
    }

    #[test]
    fn each_bad_argument_ends_in_the_code_of_its_kind() {
        assert_eq!(code(time::<Dispatch>(-1.0)).as_deref(), Some("dispatch.time_invalid"));
        assert_eq!(code(worker::<Dispatch>("a b")).as_deref(), Some("dispatch.worker_invalid"));
        assert_eq!(code(lease::<Dispatch>(86_401.0)).as_deref(), Some("dispatch.lease_invalid"));
        let ceiling = ceiling::<Dispatch>(21, "max_attempts_invalid");
        assert_eq!(code(ceiling).as_deref(), Some("dispatch.max_attempts_invalid"));
    }

    #[test]
    fn a_lease_has_to_be_longer_than_the_longest_call() {
        let lease = Duration::new(30.0).expect("a lease");
        let outlasts = |longest| code(lease_outlasts::<Dispatch>(lease, longest));
        assert_eq!(outlasts(None), None);
        assert_eq!(outlasts(Some(29.9)), None);
        assert_eq!(outlasts(Some(30.0)).as_deref(), Some("dispatch.lease_too_short"));
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(outlasts(Some(bad)).as_deref(), Some("dispatch.client_invalid"), "{bad}");
        }
    }
}
