//! How leases ended that settled nothing, and what is paused with how much waiting for it.
//!
//! Owns these two counts. Must not know how they are drawn.

use leasehold_actors::control::{PausedScope, Scope};
use leasehold_actors::explain::Explanation;
use leasehold_actors::record::event::Loss;
use leasehold_actors::record::{Event, Flow};
use std::collections::HashMap;

/// Leases, by how they ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Leases {
    /// Given out.
    pub taken: u64,
    /// Given back: their attempts count no more.
    pub released: u64,
    /// Ran out unsettled.
    pub expired: u64,
    /// Ended because the engine that gave them was gone.
    pub abandoned: u64,
    /// The most that a record lost in a row which is not done, or was failed for it.
    pub lost_in_a_row_max: u32,
}

impl Leases {
    /// Counts one event.
    pub(super) fn take<F: Flow>(&mut self, event: &Event<F>) {
        match event {
            Event::Claimed { .. } => self.taken += 1,
            Event::Released { .. } => self.released += 1,
            Event::LeaseLost { loss: Loss::Expired, .. } => self.expired += 1,
            Event::LeaseLost { loss: Loss::Abandoned, .. } => self.abandoned += 1,
            Event::Registered { .. }
            | Event::Imported { .. }
            | Event::Completed { .. }
            | Event::Watched { .. }
            | Event::Unchanged { .. }
            | Event::Retried { .. }
            | Event::Failed { .. }
            | Event::Requeued { .. }
            | Event::RequeuedLater { .. }
            | Event::Dismissed { .. }
            | Event::Repinned { .. } => {}
        }
    }
}

/// What is paused.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pauses {
    /// The scopes, in the order of their texts.
    pub scopes: Vec<PausedScope>,
    waiting: HashMap<Scope, u64>,
}

impl Pauses {
    /// Nothing waits for them yet.
    #[must_use]
    pub fn of(scopes: Vec<PausedScope>) -> Self {
        Self { scopes, waiting: HashMap::new() }
    }

    /// Counts a record for what keeps it.
    pub fn take(&mut self, explanation: &Explanation) {
        for paused in &explanation.paused {
            *self.waiting.entry(paused.scope.clone()).or_insert(0) += 1;
        }
    }

    /// How many records of a scope are not done. One may be in several.
    #[must_use]
    pub fn waiting(&self, scope: &Scope) -> u64 {
        self.waiting.get(scope).copied().unwrap_or(0)
    }
}
