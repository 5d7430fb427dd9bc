//! The flows: one file each, with its data, its `judge`, and the answers it gives.
//!
//! Owns what differs between flows. Must not repeat what they share ([`crate::record`]).

pub mod all;
pub mod delivery;
pub mod dispatch;
pub mod handover;
pub mod lifecycle;
pub mod names;
pub mod notification;
pub mod processing;

use crate::arguments::Blocked;
use crate::contract::text::{Sha256, WorkerToken};
use crate::contract::time::Timestamp;
use crate::health::Tally;
use crate::record::{Flow, Key, Record, State, StateKind};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

/// What a flow's health is made of.
#[derive(Debug)]
pub struct HealthView<'a, T> {
    /// Records in each class.
    pub tally: &'a Tally<T>,
    /// Records that could be claimed now.
    pub due: u64,
    /// Leases that are over and not settled.
    pub expired: u64,
    /// Records that wait for another one, or for an operator.
    pub held: u64,
    /// Those of them that wait for an operator (D9).
    pub parked: u64,
    /// The pinned digest, where the flow has one.
    pub expected: Option<Sha256>,
}

/// The shapes a flow answers in; they serialise to the contract's names.
pub trait Answers: Flow {
    /// What the flow calls a completed record.
    const COMPLETED: &'static str;
    /// Whether a good answer may leave a record to be asked about again.
    const WATCHES: bool;
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
    fn health(view: &HealthView<'_, Self::Facet>) -> Self::Health;
    /// What a client needs to make the call.
    fn request(binding: &Arc<Self::Binding>, payload: &Self::Payload) -> Self::Request;
    /// Reads a client's answer.
    ///
    /// # Errors
    /// `response_invalid`.
    fn report(binding: &Self::Binding, answer: &[u8]) -> Result<Self::Report, Blocked>;
}

/// The states a flow knows, by what it calls them, zeros too.
fn counts<F: Answers>(tally: &Tally<F::Facet>) -> BTreeMap<&'static str, u64> {
    let kinds = StateKind::ALL.into_iter().filter(|kind| match kind {
        // Only flows that poll watch; what the reference has no state for is counted beside.
        StateKind::Watching => F::WATCHES,
        StateKind::Dismissed | StateKind::Quarantined => false,
        StateKind::Pending
        | StateKind::Leased
        | StateKind::RetryWait
        | StateKind::Completed
        | StateKind::Failed => true,
    });
    kinds.map(|kind| (kind.name(F::COMPLETED), tally.count(kind))).collect()
}

/// A digest as health tells it apart.
fn digest_key(digest: Sha256) -> Key {
    Key::of(&digest.to_string())
}

fn health_status(blocked: bool) -> &'static str {
    if blocked { "blocked" } else { "ok" }
}
