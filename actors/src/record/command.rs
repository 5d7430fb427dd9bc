//! What may be asked of a record.

use super::{Flow, Intervention};
use crate::contract::text::{ErrorCode, Sha256, WorkerToken};
use crate::contract::time::{Duration, Timestamp};
use std::sync::Arc;

/// One request to one record.
#[derive(Debug, Clone)]
pub enum Command<F: Flow> {
    /// Make it exist.
    Register {
        /// What is fixed for good.
        binding: F::Binding,
        /// What is kept with it.
        payload: F::Payload,
        /// Set when it is complete from the start.
        settled: Option<F::Outcome>,
    },
    /// Give a worker a lease.
    Claim {
        /// Who.
        owner: WorkerToken,
        /// Hash of the lease's token.
        token_sha256: Sha256,
        /// How long.
        lease: Duration,
    },
    /// Tell how an attempt went.
    Settle {
        /// Proof that the lease is the caller's.
        proof: Proof<F>,
        /// How it went.
        settlement: Settlement<F>,
    },
    /// Give the lease back as if it had never been granted: no attempt is spent.
    Release {
        /// Proof that the lease is the caller's.
        proof: Proof<F>,
    },
    /// End the lease if it ran out; nothing otherwise.
    Expire,
    /// End the lease: whoever held it is gone with an earlier engine.
    Abandon,
    /// Try a failed or dismissed record again, from its first attempt on (D12).
    Requeue {
        /// When it is due; at once where nothing is said, or nothing later than now.
        next_at: Option<Timestamp>,
        /// Who and why.
        intervention: Intervention,
    },
    /// Let a failed or held record be: it stays in the history and is no trouble any more (D12).
    Dismiss {
        /// The flow's pinned digest: under another one a record is held.
        expected: Option<Sha256>,
        /// Who and why.
        intervention: Intervention,
    },
    /// Move a held record to this digest (D9, D12).
    Repin {
        /// The flow's pinned digest.
        digest: Sha256,
        /// Who and why.
        intervention: Intervention,
    },
}

/// How an attempt went.
#[derive(Debug, Clone)]
pub enum Settlement<F: Flow> {
    /// A valid answer.
    Report(F::Report),
    /// A failure that may pass.
    Retry {
        /// The error.
        code: ErrorCode,
        /// What the other side asked to wait.
        retry_after: Option<Duration>,
    },
    /// A failure that will not.
    Fail {
        /// The error.
        code: ErrorCode,
    },
}

/// What a claim knows of its lease; all of it is compared.
#[derive(Debug, Clone)]
pub struct Proof<F: Flow> {
    /// The binding it was granted for.
    pub binding: Arc<F::Binding>,
    /// Which attempt it is.
    pub attempt: u32,
    /// Who holds it.
    pub owner: WorkerToken,
    /// Hash of its token.
    pub token_sha256: Sha256,
    /// When it ends.
    pub expires_at: Timestamp,
}
