//! A record as another program left it.
//!
//! Owns the shape in which such a record enters a journal, and the state that makes. Pure. Must not know
//! where it was read: rows and their rules are in [`crate::import`].
//!
//! The attempts it tells of were made elsewhere: they are not in this chain, and nothing here proves them.
//! The order of the variants and of the fields is part of the format.

use super::{Flow, Lease, Record, State, Wait};
use crate::contract::text::ErrorCode;
use crate::contract::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One record, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct ImportedRecord<F: Flow> {
    /// What its registration fixed.
    pub binding: F::Binding,
    /// When it was registered there.
    pub created_at: Timestamp,
    /// When something last happened to it there.
    pub updated_at: Timestamp,
    /// When it is, or was, due.
    pub next_at: Timestamp,
    /// Leases taken there.
    pub attempts: u32,
    /// Failures since the last good answer.
    pub failures: u32,
    /// What is remembered from the attempts.
    pub progress: F::Progress,
    /// What it was.
    pub state: ImportedState<F>,
}

/// What such a record was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum ImportedState<F: Flow> {
    /// Nothing was tried yet.
    Pending,
    /// The last answer was good and not final.
    Watching,
    /// The last attempt failed.
    RetryWait(ErrorCode),
    /// A worker is at it, and its lease runs out at its time.
    Leased(Lease),
    /// Done.
    Completed(F::Outcome),
    /// Given up.
    Failed(ErrorCode),
}

impl<F: Flow> ImportedRecord<F> {
    /// The record's state. Leases that were lost in a row are not known of: they count from here on.
    #[must_use]
    pub fn state(&self) -> State<F> {
        let record = Record {
            binding: Arc::new(self.binding.clone()),
            created_at: self.created_at,
            updated_at: self.updated_at,
            next_at: self.next_at,
            attempts: self.attempts,
            failures: self.failures,
            progress: self.progress.clone(),
            losses: 0,
        };
        match &self.state {
            ImportedState::Pending => State::Ready { record, wait: Wait::Pending },
            ImportedState::Watching => State::Ready { record, wait: Wait::Watching },
            ImportedState::RetryWait(code) => {
                State::Ready { record, wait: Wait::Retry(code.clone()) }
            }
            // What it was waiting for before is not told, and nobody here can give it back.
            ImportedState::Leased(lease) => {
                State::Leased { record, lease: lease.clone(), waited: None }
            }
            ImportedState::Completed(outcome) => {
                State::Completed { record, outcome: outcome.clone() }
            }
            ImportedState::Failed(code) => State::Failed { record, code: code.clone() },
        }
    }
}
