//! The states of a record. Each carries exactly the data that exists in it.
//!
//! What an archived record came to is kept as its state ([`crate::carried`]), so the order of the
//! variants and of their fields is part of the format. The members that are skipped came later; an image
//! that needs them has them behind the state.

use super::{Flow, Lease};
use crate::contract::text::ErrorCode;
use crate::contract::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What every registered record carries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Record<F: Flow> {
    /// What the registration fixed.
    pub binding: Arc<F::Binding>,
    /// When it was registered.
    pub created_at: Timestamp,
    /// When something last happened to it.
    pub updated_at: Timestamp,
    /// When it is, or was, due.
    pub next_at: Timestamp,
    /// Leases taken so far.
    pub attempts: u32,
    /// Failures since the last good answer.
    pub failures: u32,
    /// What is remembered from the attempts.
    pub progress: F::Progress,
    /// Leases lost in a row, without any settlement in between.
    #[serde(skip)]
    pub losses: u32,
}

/// Why a record is waiting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wait {
    /// Nothing was tried yet.
    Pending,
    /// The last answer was good and not final.
    Watching,
    /// The last attempt failed.
    Retry(ErrorCode),
}

/// One record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum State<F: Flow> {
    /// Not registered.
    Vacant,
    /// Waiting for its next attempt.
    Ready {
        /// The record.
        record: Record<F>,
        /// Why it is waiting.
        wait: Wait,
    },
    /// One worker is at it.
    Leased {
        /// The record.
        record: Record<F>,
        /// The worker's lease.
        lease: Lease,
        /// Why the record was waiting before, for a lease that is given back; `None` for one whose claim
        /// was archived by a program that did not keep that, or was made in another program altogether
        /// ([`super::Event::Imported`]). Such a lease is left to run out.
        #[serde(skip)]
        waited: Option<Wait>,
    },
    /// Done.
    Completed {
        /// The record.
        record: Record<F>,
        /// What came of it.
        outcome: F::Outcome,
    },
    /// Given up.
    Failed {
        /// The record.
        record: Record<F>,
        /// The last error.
        code: ErrorCode,
    },
    /// Let be by an operator.
    Dismissed {
        /// The record.
        record: Record<F>,
        /// What it was until then.
        from: DismissedFrom,
    },
}

/// What a dismissed record was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DismissedFrom {
    /// Given up, with this error.
    Failed(ErrorCode),
    /// Held under another digest, waiting for this reason.
    Held(Wait),
}

/// The name of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StateKind {
    /// Waiting, nothing tried yet.
    Pending,
    /// Leased.
    Leased,
    /// Waiting for the next poll.
    Watching,
    /// Waiting after a failure.
    RetryWait,
    /// Done.
    Completed,
    /// Given up.
    Failed,
    /// Let be by an operator.
    Dismissed,
    /// Its records do not replay; it is left alone and the others go on.
    Quarantined,
}

impl StateKind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Leased,
        Self::Watching,
        Self::RetryWait,
        Self::Completed,
        Self::Failed,
        Self::Dismissed,
        Self::Quarantined,
    ];

    /// Whether more is to come.
    #[must_use]
    pub fn is_active(self) -> bool {
        match self {
            Self::Pending | Self::Leased | Self::Watching | Self::RetryWait => true,
            Self::Completed | Self::Failed | Self::Dismissed | Self::Quarantined => false,
        }
    }

    /// Its name; `completed` is what the flow calls a completed record.
    #[must_use]
    pub fn name(self, completed: &'static str) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Leased => "leased",
            Self::Watching => "watching",
            Self::RetryWait => "retry_wait",
            Self::Completed => completed,
            Self::Failed => "failed",
            Self::Dismissed => "dismissed",
            Self::Quarantined => "quarantined",
        }
    }
}

impl<F: Flow> State<F> {
    /// The record, if there is one.
    #[must_use]
    pub fn record(&self) -> Option<&Record<F>> {
        match self {
            Self::Vacant => None,
            Self::Ready { record, .. }
            | Self::Leased { record, .. }
            | Self::Completed { record, .. }
            | Self::Failed { record, .. }
            | Self::Dismissed { record, .. } => Some(record),
        }
    }

    /// The state's name, if there is a record.
    #[must_use]
    pub fn kind(&self) -> Option<StateKind> {
        Some(match self {
            Self::Vacant => return None,
            Self::Ready { wait: Wait::Pending, .. } => StateKind::Pending,
            Self::Ready { wait: Wait::Watching, .. } => StateKind::Watching,
            Self::Ready { wait: Wait::Retry(_), .. } => StateKind::RetryWait,
            Self::Leased { .. } => StateKind::Leased,
            Self::Completed { .. } => StateKind::Completed,
            Self::Failed { .. } => StateKind::Failed,
            Self::Dismissed { .. } => StateKind::Dismissed,
        })
    }

    /// The lease, if one is held.
    #[must_use]
    pub fn lease(&self) -> Option<&Lease> {
        match self {
            Self::Leased { lease, .. } => Some(lease),
            Self::Vacant
            | Self::Ready { .. }
            | Self::Completed { .. }
            | Self::Failed { .. }
            | Self::Dismissed { .. } => None,
        }
    }

    /// Why the record was waiting before its lease, where one is held and that is known.
    #[must_use]
    pub fn waited(&self) -> Option<&Wait> {
        match self {
            Self::Leased { waited, .. } => waited.as_ref(),
            Self::Vacant
            | Self::Ready { .. }
            | Self::Completed { .. }
            | Self::Failed { .. }
            | Self::Dismissed { .. } => None,
        }
    }

    /// What came of the record: present exactly when it is completed.
    #[must_use]
    pub fn outcome(&self) -> Option<&F::Outcome> {
        match self {
            Self::Completed { outcome, .. } => Some(outcome),
            Self::Vacant
            | Self::Ready { .. }
            | Self::Leased { .. }
            | Self::Failed { .. }
            | Self::Dismissed { .. } => None,
        }
    }

    /// The last error: present exactly in retry_wait and failed, and in what was dismissed from there.
    #[must_use]
    pub fn error(&self) -> Option<&ErrorCode> {
        match self {
            Self::Ready { wait: Wait::Retry(code), .. }
            | Self::Failed { code, .. }
            | Self::Dismissed {
                from: DismissedFrom::Failed(code) | DismissedFrom::Held(Wait::Retry(code)),
                ..
            } => Some(code),
            Self::Dismissed {
                from: DismissedFrom::Held(Wait::Pending | Wait::Watching), ..
            }
            | Self::Ready { wait: Wait::Pending | Wait::Watching, .. }
            | Self::Vacant
            | Self::Leased { .. }
            | Self::Completed { .. } => None,
        }
    }
}
