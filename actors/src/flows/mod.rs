//! The flows: one file each, with its data, its `judge`, and the answers it gives.
//!
//! Owns what differs between flows. Must not repeat what they share ([`crate::record`]).

pub mod dispatch;

use crate::arguments::Blocked;
use crate::contract::text::WorkerToken;
use crate::contract::time::Timestamp;
use crate::health::Tally;
use crate::record::{Flow, Record, State};
use serde::Serialize;
use std::fmt::Debug;
use std::sync::Arc;

/// The shapes a flow answers in; they serialise to the contract's names.
pub trait Answers: Flow {
    /// What the flow calls a completed record.
    const COMPLETED: &'static str;
    /// One record.
    type Status: Serialize + Debug + Send;
    /// One whole attempt.
    type Attempt: Serialize + Debug + Send;
    /// The flow's health.
    type Health: Serialize + Debug + Send;
    /// What a claim shows of itself: everything but the token and the payload.
    type ClaimView: Serialize + Debug + Send;
    /// What a client is given for one call.
    type Request: Clone + Debug + Send + Sync;

    /// A record's status as of `now`; `None` for one that is not there.
    fn status(state: &State<Self>, now: Timestamp) -> Option<Self::Status>;
    /// How the attempt left the record; `None` for one that is not there.
    fn attempt(state: &State<Self>) -> Option<Self::Attempt>;
    /// What a claim on the record shows of itself.
    fn claim_view(
        record: &Record<Self>,
        owner: &WorkerToken,
        expires_at: Timestamp,
    ) -> Self::ClaimView;
    /// The health of these counts.
    fn health(tally: &Tally<Self::Facet>, due: u64, expired: u64) -> Self::Health;
    /// What a client needs to make the call.
    fn request(binding: &Arc<Self::Binding>, payload: &Self::Payload) -> Self::Request;
    /// Reads a client's answer.
    ///
    /// # Errors
    /// `response_invalid`.
    fn report(binding: &Self::Binding, answer: &[u8]) -> Result<Self::Report, Blocked>;
}
