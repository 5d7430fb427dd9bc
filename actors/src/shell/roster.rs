//! Which records are active, and which of them may rest.
//!
//! Owns activation and passivation of one flow: an address for each active record, how many requests
//! it is busy with, what was last known of it, and the order in which records were used. A record
//! without requests may be let go at any time; everything it knows is in the journal.

use super::entity::Entity;
use super::message::Mark;
use crate::flows::Answers;
use crate::record::Identity;
use actix::Addr;
use std::collections::{HashMap, VecDeque};

/// Records that stay active although nothing is asked of them.
const IDLE_MAX: usize = 1024;
/// How often a record is activated again after its actor died, before it is left alone.
const RESTARTS_MAX: u8 = 3;

struct Active<F: Answers> {
    address: Addr<Entity<F>>,
    busy: u32,
    used: u64,
    mark: Mark<F>,
    /// Another engine wrote to the record while a request was on its way.
    is_outdated: bool,
}

/// The active records.
pub(crate) struct Roster<F: Answers> {
    active: HashMap<Identity, Active<F>>,
    order: VecDeque<(u64, Identity)>,
    clock: u64,
    /// Requests on their way to all records.
    busy: u64,
    restarts: HashMap<Identity, u8>,
}

impl<F: Answers> Roster<F> {
    pub(crate) fn new() -> Self {
        Self {
            active: HashMap::new(),
            order: VecDeque::new(),
            clock: 0,
            busy: 0,
            restarts: HashMap::new(),
        }
    }

    /// Whether the record is active.
    pub(crate) fn knows(&self, identity: &Identity) -> bool {
        self.active.contains_key(identity)
    }

    /// Adds a record that was activated.
    pub(crate) fn add(&mut self, identity: Identity, address: Addr<Entity<F>>, mark: Mark<F>) {
        self.active
            .insert(identity, Active { address, busy: 0, used: 0, mark, is_outdated: false });
    }

    /// Notes that a request is on its way to the record, and answers where it is; `None` for one that
    /// is not active.
    pub(crate) fn begin(&mut self, identity: &Identity) -> Option<Addr<Entity<F>>> {
        let active = self.active.get_mut(identity)?;
        self.clock += 1;
        self.busy += 1;
        active.busy += 1;
        active.used = self.clock;
        Some(active.address.clone())
    }

    /// Notes that a request came back, where the record moved with it, and lets records go that were
    /// idle longest.
    pub(crate) fn end(&mut self, identity: &Identity, moved: Option<Mark<F>>) {
        self.busy = self.busy.saturating_sub(1);
        if let Some(active) = self.active.get_mut(identity) {
            if let Some(mark) = moved {
                active.mark = mark;
            }
            active.busy = active.busy.saturating_sub(1);
            if active.busy == 0 {
                self.order.push_back((active.used, identity.clone()));
            }
        }
        while self.order.len() > IDLE_MAX {
            let Some((used, oldest)) = self.order.pop_front() else { return };
            let resting = self.active.get(&oldest).is_some_and(|a| a.busy == 0 && a.used == used);
            if resting {
                self.active.remove(&oldest);
                self.restarts.remove(&oldest);
            }
        }
    }

    /// Another engine wrote to the record. Whether its actor is at something, so that it has to be looked at
    /// again when it is not.
    pub(crate) fn outdate(&mut self, identity: &Identity) -> bool {
        match self.active.get_mut(identity) {
            Some(active) => {
                active.is_outdated = active.busy > 0;
                active.is_outdated
            }
            None => false,
        }
    }

    /// Whether the record is to be looked at again now.
    pub(crate) fn is_outdated(&self, identity: &Identity) -> bool {
        self.active.get(identity).is_some_and(|active| active.is_outdated && active.busy == 0)
    }

    /// The record's actor died, and what was on its way to it with it.
    pub(crate) fn died(&mut self, identity: &Identity) {
        if let Some(active) = self.active.get_mut(identity) {
            self.busy = self.busy.saturating_sub(active.busy.into());
            active.busy = 0;
        }
    }

    /// Lets a record go at once; answers what was last known of it.
    pub(crate) fn drop(&mut self, identity: &Identity) -> Option<Mark<F>> {
        let Active { busy, mark, .. } = self.active.remove(identity)?;
        // Whatever is still on its way to it is asked again.
        self.busy = self.busy.saturating_sub(busy.into());
        Some(mark)
    }

    /// Whether nothing is on its way to the record.
    pub(crate) fn rests(&self, identity: &Identity) -> bool {
        self.active.get(identity).is_none_or(|active| active.busy == 0)
    }

    /// Whether any request is on its way.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy > 0
    }

    /// Counts a death; whether the record may be activated again.
    pub(crate) fn may_restart(&mut self, identity: &Identity) -> bool {
        let restarts = self.restarts.entry(identity.clone()).or_insert(0);
        *restarts += 1;
        tracing::error!(code = "record_restarted", restarts = *restarts, "an actor died");
        *restarts <= RESTARTS_MAX
    }
}
