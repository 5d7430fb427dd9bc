//! Settling an attempt by hand.
//!
//! Owns which flows allow it. Must not decide anything about a record.

use super::{Claim, Handle};
use crate::error::Error;
use leasehold_actors::arguments::Blocked;
use leasehold_actors::contract::text::ErrorCode;
use leasehold_actors::flows::Answers;
use leasehold_actors::flows::delivery::Delivery;
use leasehold_actors::flows::dispatch::Dispatch;
use leasehold_actors::flows::lifecycle::Lifecycle;
use leasehold_actors::record::Settlement;

/// A flow whose attempts may be completed by hand.
pub trait CompletedByHand: Answers {}

impl CompletedByHand for Dispatch {}
impl CompletedByHand for Lifecycle {}
impl CompletedByHand for Delivery {}

/// A flow whose attempts may be failed by hand.
pub trait FailedByHand: Answers {}

impl FailedByHand for Dispatch {}
impl FailedByHand for Lifecycle {}

impl<F: CompletedByHand> Handle<F> {
    /// Settles the attempt with the other side's answer, a JSON document.
    ///
    /// # Errors
    /// [`Error::Blocked`] with `time_invalid`, `response_invalid`, then what the record says:
    /// `claim_missing`, `claim_lost`, `lease_expired`, `clock_regressed`; [`Error::Journal`].
    pub async fn complete(
        &self,
        claim: &Claim<F>,
        answer: impl AsRef<[u8]>,
    ) -> Result<F::Status, Error> {
        let now = self.now()?;
        let report = Self::report(claim, answer.as_ref())?;
        let state = self.settle(claim, Settlement::Report(report), now).await?;
        F::status(&state, now).ok_or(Error::Stopped)
    }
}

impl<F: FailedByHand> Handle<F> {
    /// Settles the attempt as failed for now: it is tried again after the back-off, unless its ceiling
    /// is reached. `code` is an error code of the contract's form.
    ///
    /// # Errors
    /// [`Error::Blocked`] with `error_invalid`, `time_invalid`, then as [`Self::complete`].
    pub async fn retry(&self, claim: &Claim<F>, code: &str) -> Result<F::Status, Error> {
        let code = error_code(code)?;
        let now = self.now()?;
        let settlement = Settlement::Retry { code, retry_after: None };
        let state = self.settle(claim, settlement, now).await?;
        F::status(&state, now).ok_or(Error::Stopped)
    }

    /// Settles the attempt as failed for good.
    ///
    /// # Errors
    /// As [`Self::retry`].
    pub async fn fail(&self, claim: &Claim<F>, code: &str) -> Result<F::Status, Error> {
        let code = error_code(code)?;
        let now = self.now()?;
        let state = self.settle(claim, Settlement::Fail { code }, now).await?;
        F::status(&state, now).ok_or(Error::Stopped)
    }
}

/// `retry` and `fail` of every flow that has them use the dispatcher's code (contract 4.2).
fn error_code(code: &str) -> Result<ErrorCode, Blocked> {
    ErrorCode::new(code).ok_or_else(|| Blocked::new::<Dispatch>("error_invalid"))
}
