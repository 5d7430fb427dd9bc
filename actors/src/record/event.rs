//! What happened to a record. Events are kept for good; see `codec` for their bytes.
//!
//! Every number a later state needs is in the event, so that replaying needs no configuration and no
//! clock. The order of the variants and of their fields is part of the format.

use super::{Flow, Identity, ImportedRecord, Intervention};
use crate::contract::text::{ErrorCode, Sha256, WorkerToken};
use crate::contract::time::Timestamp;
use serde::{Deserialize, Serialize};

/// How a lost lease left the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// It is tried again.
    Retry,
    /// Its ceiling is reached.
    Final,
}

/// Why a lease was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Loss {
    /// It ran out.
    Expired,
    /// The engine that granted it is gone; the journal's lock proves it.
    Abandoned,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum Event<F: Flow> {
    /// The record exists from now on.
    Registered {
        /// When.
        at: Timestamp,
        /// What is fixed for good.
        binding: F::Binding,
        /// What is kept with it.
        payload: F::Payload,
        /// Set when it is complete from the start.
        settled: Option<F::Outcome>,
    },
    /// A worker got a lease.
    Claimed {
        /// When.
        at: Timestamp,
        /// Which attempt this is, from 1.
        attempt: u32,
        /// Who holds the lease.
        owner: WorkerToken,
        /// Hash of its token.
        token_sha256: Sha256,
        /// When it ends.
        expires_at: Timestamp,
    },
    /// The record is done.
    Completed {
        /// When.
        at: Timestamp,
        /// Its due time from now on.
        next_at: Timestamp,
        /// What came of it.
        outcome: F::Outcome,
    },
    /// A good answer that is not final and tells something new.
    Watched {
        /// When.
        at: Timestamp,
        /// When to ask again.
        next_at: Timestamp,
        /// What was learned.
        progress: F::Progress,
    },
    /// A good answer that is not final and says the same as before.
    Unchanged {
        /// When.
        at: Timestamp,
        /// When to ask again.
        next_at: Timestamp,
        /// What it brought all the same.
        note: F::Note,
    },
    /// The attempt failed and is going to be repeated.
    Retried {
        /// When.
        at: Timestamp,
        /// When to try again.
        next_at: Timestamp,
        /// Failures since the last good answer, this one included where the flow counts it.
        failures: u32,
        /// The error.
        code: ErrorCode,
    },
    /// The attempt failed for good.
    Failed {
        /// When.
        at: Timestamp,
        /// Its due time from now on.
        next_at: Timestamp,
        /// Failures since the last good answer.
        failures: u32,
        /// The error.
        code: ErrorCode,
        /// What was learned, where the failure is the other side's.
        progress: Option<F::Progress>,
    },
    /// The lease ended without a settlement.
    LeaseLost {
        /// When that was noticed.
        at: Timestamp,
        /// Its due time from now on.
        next_at: Timestamp,
        /// Failures since the last good answer.
        failures: u32,
        /// The error it leaves.
        code: ErrorCode,
        /// Why.
        loss: Loss,
        /// What follows.
        ending: Ending,
    },
    /// An operator has it tried again, from its first attempt on.
    Requeued {
        /// When.
        at: Timestamp,
        /// Who and why.
        intervention: Intervention,
    },
    /// An operator lets it be.
    Dismissed {
        /// When.
        at: Timestamp,
        /// Who and why.
        intervention: Intervention,
    },
    /// An operator moved it to another pinned digest.
    Repinned {
        /// When.
        at: Timestamp,
        /// The digest.
        digest: Sha256,
        /// Who and why.
        intervention: Intervention,
    },
    /// The holder gave its lease back: the record is as it was before the claim.
    Released {
        /// When.
        at: Timestamp,
        /// Its due time from now on: that of before the claim.
        next_at: Timestamp,
        /// Leases taken, this one not counted.
        attempts: u32,
    },
    /// An operator has it tried again, from its first attempt on, and not at once.
    RequeuedLater {
        /// When.
        at: Timestamp,
        /// Its due time from now on, which is later.
        next_at: Timestamp,
        /// Who and why.
        intervention: Intervention,
    },
    /// The record was brought here from another program's store, as it was there: what happened to it
    /// before is not in this journal.
    Imported {
        /// When it was brought here.
        at: Timestamp,
        /// Version of the store's schema.
        schema_version: u32,
        /// Hash of the row it was: the canonical form of its columns by name.
        row_sha256: Sha256,
        /// The record.
        record: Box<ImportedRecord<F>>,
        /// What is kept with it.
        payload: F::Payload,
    },
}

impl<F: Flow> Event<F> {
    /// Its name, as `show` prints it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Registered { .. } => "registered",
            Self::Claimed { .. } => "claimed",
            Self::Completed { .. } => "completed",
            Self::Watched { .. } => "watched",
            Self::Unchanged { .. } => "unchanged",
            Self::Retried { .. } => "retried",
            Self::Failed { .. } => "failed",
            Self::LeaseLost { .. } => "lease_lost",
            Self::Requeued { .. } => "requeued",
            Self::Dismissed { .. } => "dismissed",
            Self::Repinned { .. } => "repinned",
            Self::Released { .. } => "released",
            Self::RequeuedLater { .. } => "requeued_later",
            Self::Imported { .. } => "imported",
        }
    }

    /// The later time an operator made it due at.
    #[must_use]
    pub fn made_due_at(&self) -> Option<Timestamp> {
        match self {
            Self::RequeuedLater { next_at, .. } => Some(*next_at),
            Self::Registered { .. }
            | Self::Imported { .. }
            | Self::Claimed { .. }
            | Self::Completed { .. }
            | Self::Watched { .. }
            | Self::Unchanged { .. }
            | Self::Retried { .. }
            | Self::Failed { .. }
            | Self::LeaseLost { .. }
            | Self::Requeued { .. }
            | Self::Dismissed { .. }
            | Self::Repinned { .. }
            | Self::Released { .. } => None,
        }
    }

    /// When it happened.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Registered { at, .. }
            | Self::Claimed { at, .. }
            | Self::Completed { at, .. }
            | Self::Watched { at, .. }
            | Self::Unchanged { at, .. }
            | Self::Retried { at, .. }
            | Self::Failed { at, .. }
            | Self::LeaseLost { at, .. }
            | Self::Requeued { at, .. }
            | Self::Dismissed { at, .. }
            | Self::Repinned { at, .. }
            | Self::Released { at, .. }
            | Self::RequeuedLater { at, .. }
            | Self::Imported { at, .. } => *at,
        }
    }

    /// The error it records, if it does.
    #[must_use]
    pub fn code(&self) -> Option<&ErrorCode> {
        match self {
            Self::Retried { code, .. }
            | Self::Failed { code, .. }
            | Self::LeaseLost { code, .. } => Some(code),
            Self::Registered { .. }
            | Self::Claimed { .. }
            | Self::Completed { .. }
            | Self::Watched { .. }
            | Self::Unchanged { .. }
            | Self::Requeued { .. }
            | Self::Dismissed { .. }
            | Self::Repinned { .. }
            | Self::Released { .. }
            | Self::RequeuedLater { .. }
            // The error it was left with is the other program's.
            | Self::Imported { .. } => None,
        }
    }

    /// The identity of the record, which the event it begins with tells.
    #[must_use]
    pub fn identity(&self) -> Option<Identity> {
        match self {
            Self::Registered { binding, .. } => Some(F::identity(binding)),
            Self::Imported { record, .. } => Some(F::identity(&record.binding)),
            Self::Claimed { .. }
            | Self::Completed { .. }
            | Self::Watched { .. }
            | Self::Unchanged { .. }
            | Self::Retried { .. }
            | Self::Failed { .. }
            | Self::LeaseLost { .. }
            | Self::Requeued { .. }
            | Self::Dismissed { .. }
            | Self::Repinned { .. }
            | Self::Released { .. }
            | Self::RequeuedLater { .. } => None,
        }
    }

    /// Who did it and why, where it was an operator.
    #[must_use]
    pub fn intervention(&self) -> Option<&Intervention> {
        match self {
            Self::Requeued { intervention, .. }
            | Self::RequeuedLater { intervention, .. }
            | Self::Dismissed { intervention, .. }
            | Self::Repinned { intervention, .. } => Some(intervention),
            Self::Registered { .. }
            | Self::Claimed { .. }
            | Self::Completed { .. }
            | Self::Watched { .. }
            | Self::Unchanged { .. }
            | Self::Retried { .. }
            | Self::Failed { .. }
            | Self::LeaseLost { .. }
            | Self::Released { .. }
            | Self::Imported { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::dispatch::Dispatch;

    #[test]
    fn an_event_tells_the_error_it_records_and_no_other() {
        let at = Timestamp::new(1.0).expect("a time");
        let code = ErrorCode::new("cms.unavailable").expect("a code");
        let retried =
            Event::<Dispatch>::Retried { at, next_at: at, failures: 1, code: code.clone() };
        let failed = Event::<Dispatch>::Failed {
            at,
            next_at: at,
            failures: 1,
            code: code.clone(),
            progress: None,
        };
        let lost = Event::<Dispatch>::LeaseLost {
            at,
            next_at: at,
            failures: 1,
            loss: Loss::Expired,
            code: code.clone(),
            ending: Ending::Retry,
        };
        for event in [retried, failed, lost] {
            assert_eq!(event.code(), Some(&code));
        }
        let watched = Event::<Dispatch>::Watched { at, next_at: at, progress: () };
        assert_eq!(watched.code(), None);
    }
}
