//! What a host's own way to the other side offers, and how its calls fail.

use leasehold_actors::contract::text::ErrorCode;
use leasehold_actors::flows::Answers;
use std::future::Future;
use std::sync::Arc;

/// Why a call failed. `Debug` does not print a code that was not checked yet.
#[derive(Clone, PartialEq)]
pub enum CallFailure {
    /// The client says what happened, with a code and whether it may pass.
    Marked {
        /// An error code of the contract's form; anything else counts as `client_failure`.
        code: String,
        /// Whether trying again may help.
        retryable: bool,
        /// What the other side asked to wait, in seconds.
        retry_after_seconds: Option<f64>,
    },
    /// Anything else: final, with the flow's own `client_failure`.
    Unmarked,
}

impl std::fmt::Debug for CallFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Marked { code, retryable, retry_after_seconds } => f
                .debug_struct("Marked")
                .field("code", &ErrorCode::new(code))
                .field("retryable", retryable)
                .field("retry_after_seconds", retry_after_seconds)
                .finish(),
            Self::Unmarked => f.write_str("Unmarked"),
        }
    }
}

/// A host's own way to the other side.
///
/// The answer is the other side's document as it came, JSON; it is checked by the flow. A call that
/// panics counts as [`CallFailure::Unmarked`]; a panic of one that is dropped changes nothing.
pub trait Client<F: Answers>: Send + Sync {
    /// The longest time one call can take, all its requests together, in seconds. Every lease has to
    /// be longer (D11). `None` when the client cannot say; then there is no such rule.
    fn longest_call_seconds(&self) -> Option<f64>;

    /// Makes one call. It may be made again with the same request: answers get lost.
    fn call(
        &self,
        request: F::Request,
    ) -> impl Future<Output = Result<Vec<u8>, CallFailure>> + Send;
}

impl<F: Answers, C: Client<F>> Client<F> for Arc<C> {
    fn longest_call_seconds(&self) -> Option<f64> {
        C::longest_call_seconds(self)
    }

    fn call(
        &self,
        request: F::Request,
    ) -> impl Future<Output = Result<Vec<u8>, CallFailure>> + Send {
        C::call(self, request)
    }
}
