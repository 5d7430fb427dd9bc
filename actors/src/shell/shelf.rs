//! Records of paused sites, out of the agenda's way.
//!
//! Owns what was picked and may not be given out. The agenda does not know sites, so a record of a
//! paused one is picked once, found to be paused, and stays here until its site goes on: a claim never
//! walks over the same record twice.

use super::controls::Gate;
use crate::agenda::{Agenda, Slot};
use crate::contract::time::Timestamp;
use crate::record::Identity;
use std::collections::HashMap;

/// A record that was picked, and where it was and is in the agenda.
pub(crate) struct Picked<C> {
    pub(crate) identity: Identity,
    pub(crate) was: Slot<C>,
    pub(crate) now: Slot<C>,
}

/// The records, by site.
pub(crate) struct Shelf<C> {
    sites: HashMap<Box<str>, HashMap<Identity, Slot<C>>>,
    /// The latest time anything was put here: all of it was due then.
    as_of: Timestamp,
}

impl<C> Default for Shelf<C> {
    fn default() -> Self {
        Self { sites: HashMap::new(), as_of: Timestamp::ZERO }
    }
}

impl<C: Copy + PartialEq> Shelf<C> {
    /// Keeps a record whose site is paused. One whose site has just gone on, or that moved since it was
    /// picked, goes back to the agenda.
    pub(crate) fn set_aside(
        &mut self,
        gate: &Gate,
        agenda: &mut Agenda<C>,
        (site, at): (Box<str>, Timestamp),
        picked: Picked<C>,
    ) {
        let Picked { identity, was, now } = picked;
        if was != now || !gate.stops_site(&site) {
            agenda.place(&identity, was, now);
            return;
        }
        self.as_of = self.as_of.max(at);
        self.sites.entry(site).or_default().insert(identity, now);
    }

    /// A record that moved is where the agenda has it now.
    pub(crate) fn forget(&mut self, identity: &Identity) {
        for records in self.sites.values_mut() {
            records.remove(identity);
        }
    }

    /// Gives the records of a site back.
    pub(crate) fn release(&mut self, agenda: &mut Agenda<C>, site: &str) {
        for (identity, slot) in self.sites.remove(site).unwrap_or_default() {
            agenda.put_back(&identity, slot);
        }
    }

    /// All of them, with the slots they go back to.
    pub(crate) fn entries(&self) -> Vec<(Identity, Slot<C>)> {
        let records = self.sites.values().flatten();
        records.map(|(identity, slot)| (identity.clone(), *slot)).collect()
    }

    /// How many of them are due: health counts them as before. Costs the paused sites; after a clock
    /// that went back, their records.
    pub(crate) fn due_count(&self, now: Timestamp) -> u64 {
        let counts = self.sites.values().map(|records| {
            if now >= self.as_of {
                return records.len();
            }
            let due = records.values().filter(|slot| match slot {
                Slot::Waiting(waiting) => waiting.next_at <= now,
                Slot::Idle | Slot::Leased { .. } => false,
            });
            due.count()
        });
        counts.sum::<usize>() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agenda::Waiting;
    use crate::control::{Controls, Scope};
    use crate::record::Link;

    fn at(seconds: f64) -> Timestamp {
        Timestamp::new(seconds).expect("a time")
    }

    fn waiting(next: f64) -> Slot<()> {
        let (created_at, next_at, link) = (at(1.0), at(next), Link::None);
        Slot::Waiting(Waiting { rank: 0, created_at, next_at, class: (), link, parked: false })
    }

    /// Puts the record that goes first aside, whatever its site really is.
    fn set_aside(shelf: &mut Shelf<()>, gate: &Gate, agenda: &mut Agenda<()>, site: &str) {
        let (identity, was) = agenda.pick(at(10.0)).expect("one is due");
        let picked = Picked { identity, was, now: was };
        shelf.set_aside(gate, agenda, (site.into(), at(10.0)), picked);
    }

    fn gate(site: &str) -> (Gate, Scope) {
        let scope = Scope::new(&format!("site/{site}")).expect("a scope");
        let gate = Gate::of(&Controls::default());
        gate.set(&scope, true);
        (gate, scope)
    }

    fn agenda(next: &[f64]) -> Agenda<()> {
        let mut agenda = Agenda::default();
        for (number, next) in next.iter().enumerate() {
            agenda.place(&Identity::new(&number.to_string()), Slot::Idle, waiting(*next));
        }
        agenda
    }

    #[test]
    fn what_is_set_aside_is_picked_no_more_counts_as_due_and_comes_back() {
        let ((gate, _), mut shelf) = (gate("a"), Shelf::default());
        let mut agenda = agenda(&[2.0, 9.0, 30.0]);
        for _ in 0..2 {
            set_aside(&mut shelf, &gate, &mut agenda, "a");
        }
        assert_eq!((agenda.pick(at(10.0)), shelf.due_count(at(10.0))), (None, 2));
        assert_eq!(shelf.due_count(at(5.0)), 1, "after a clock that went back");
        assert_eq!(agenda.next_at(at(10.0)), Some(at(30.0)));
        shelf.release(&mut agenda, "b");
        assert_eq!(shelf.due_count(at(10.0)), 2, "another site");
        shelf.release(&mut agenda, "a");
        assert_eq!((agenda.due_count(at(10.0)), shelf.due_count(at(10.0))), (2, 0));
    }

    #[test]
    fn a_record_that_moved_or_whose_site_has_gone_on_is_not_kept() {
        let ((gate, scope), mut shelf) = (gate("a"), Shelf::default());
        let mut agenda = agenda(&[2.0, 3.0, 4.0]);
        let (identity, was) = agenda.pick(at(10.0)).expect("one is due");
        let picked = Picked { identity, was, now: Slot::Idle };
        shelf.set_aside(&gate, &mut agenda, ("a".into(), at(10.0)), picked);
        assert_eq!((agenda.len(), shelf.due_count(at(10.0))), (2, 0), "it is settled");
        set_aside(&mut shelf, &gate, &mut agenda, "a");
        gate.set(&scope, false);
        set_aside(&mut shelf, &gate, &mut agenda, "a");
        assert_eq!((agenda.len(), shelf.due_count(at(10.0))), (1, 1));
        shelf.forget(&Identity::new("1"));
        assert_eq!(shelf.due_count(at(10.0)), 0);
    }
}
