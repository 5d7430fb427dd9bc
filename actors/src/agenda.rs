//! What is due when, and in which order.
//!
//! Owns the schedule of one flow: one entry for each record that waits or is leased, none for the
//! others. Pure: every call is given its time. A waiting record costs about 100 bytes here.
//!
//! Due records are taken in the order (rank, created, identity), whatever became due first
//! (contract 4.1 to 4.4).

use crate::contract::time::Timestamp;
use crate::record::{Flow, Identity, State};
use std::collections::BTreeMap;

/// What the agenda knows of a record. `C` is what health tells apart ([`crate::health::Class`]).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Slot<C> {
    /// Nothing to wait for.
    Idle,
    /// Waits for its next attempt.
    Waiting {
        /// Smaller goes first.
        rank: u8,
        /// When it was registered.
        created_at: Timestamp,
        /// When it is due.
        next_at: Timestamp,
        /// What health counts it as.
        class: C,
    },
    /// A worker is at it.
    Leased {
        /// When that ends.
        expires_at: Timestamp,
        /// What health counts it as.
        class: C,
    },
}

impl<C> Slot<C> {
    /// The slot of a state.
    #[must_use]
    pub fn of<F: Flow>(state: &State<F>, class: Option<C>) -> Self {
        match (state, class) {
            (State::Ready { record, .. }, Some(class)) => Self::Waiting {
                rank: F::rank(&record.binding),
                created_at: record.created_at,
                next_at: record.next_at,
                class,
            },
            (State::Leased { lease, .. }, Some(class)) => {
                Self::Leased { expires_at: lease.expires_at, class }
            }
            (State::Ready { .. } | State::Leased { .. }, None)
            | (State::Vacant | State::Completed { .. } | State::Failed { .. }, _) => Self::Idle,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Order {
    rank: u8,
    created_at: Timestamp,
    identity: Identity,
}

/// The schedule.
#[derive(Debug)]
pub struct Agenda<C> {
    /// Those whose due time is at or before `as_of`.
    due: BTreeMap<Order, (Timestamp, C)>,
    /// Those whose due time is later.
    later: BTreeMap<(Timestamp, Order), C>,
    leases: BTreeMap<(Timestamp, Identity), C>,
    /// The latest time anybody asked for.
    as_of: Timestamp,
}

impl<C> Default for Agenda<C> {
    fn default() -> Self {
        Self {
            due: BTreeMap::new(),
            later: BTreeMap::new(),
            leases: BTreeMap::new(),
            as_of: Timestamp::ZERO,
        }
    }
}

impl<C: Copy> Agenda<C> {
    /// Moves a record from one slot to another.
    pub fn place(&mut self, identity: &Identity, before: Slot<C>, after: Slot<C>) {
        match before {
            Slot::Idle => {}
            Slot::Waiting { rank, created_at, next_at, .. } => {
                let order = Order { rank, created_at, identity: identity.clone() };
                if next_at <= self.as_of {
                    self.due.remove(&order);
                } else {
                    self.later.remove(&(next_at, order));
                }
            }
            Slot::Leased { expires_at, .. } => {
                self.leases.remove(&(expires_at, identity.clone()));
            }
        }
        match after {
            Slot::Idle => {}
            Slot::Waiting { rank, created_at, next_at, class } => {
                let order = Order { rank, created_at, identity: identity.clone() };
                if next_at <= self.as_of {
                    self.due.insert(order, (next_at, class));
                } else {
                    self.later.insert((next_at, order), class);
                }
            }
            Slot::Leased { expires_at, class } => {
                self.leases.insert((expires_at, identity.clone()), class);
            }
        }
    }

    /// Takes out the record that goes first among those due at `now`, with the slot it was in: whoever
    /// does not use it has to put it back.
    pub fn pick(&mut self, now: Timestamp) -> Option<(Identity, Slot<C>)> {
        self.advance(now);
        // All of them are due at `as_of`, which is `now` unless the clock went back.
        let order = self.due.iter().find(|(_, (next_at, _))| *next_at <= now)?.0.clone();
        let (next_at, class) = self.due.remove(&order)?;
        let Order { rank, created_at, identity } = order;
        Some((identity, Slot::Waiting { rank, created_at, next_at, class }))
    }

    /// The records whose lease has ended at `now`, with their slots.
    #[must_use]
    pub fn expired(&self, now: Timestamp) -> Vec<(Identity, Slot<C>)> {
        let leases = self.leases.iter().take_while(|((expires_at, _), _)| *expires_at <= now);
        leases.map(leased).collect()
    }

    /// The records that are leased, whenever their lease ends, with their slots.
    #[must_use]
    pub fn leased(&self) -> Vec<(Identity, Slot<C>)> {
        self.leases.iter().map(leased).collect()
    }

    /// How many leases have ended at `now` and are not settled. Costs those.
    #[must_use]
    pub fn expired_count(&self, now: Timestamp) -> u64 {
        self.leases.keys().take_while(|(expires_at, _)| *expires_at <= now).count() as u64
    }

    /// How many records are due at `now`. Costs nothing; after a clock that went back, it costs those
    /// that were due.
    pub fn due_count(&mut self, now: Timestamp) -> u64 {
        self.advance(now);
        if now >= self.as_of {
            return self.due.len() as u64;
        }
        self.due.values().filter(|(next_at, _)| *next_at <= now).count() as u64
    }

    /// The next time anything has to be done: a record is due, a lease ends.
    pub fn next_at(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.advance(now);
        // All of `due` is due now, unless the clock went back; then each has its own time.
        let due = if now >= self.as_of {
            self.due.first_key_value().map(|_| now)
        } else {
            self.due.values().map(|(next_at, _)| (*next_at).max(now)).min()
        };
        let later = self.later.first_key_value().map(|((next_at, _), _)| *next_at);
        let lease =
            self.leases.first_key_value().map(|((expires_at, _), _)| (*expires_at).max(now));
        [due, later, lease].into_iter().flatten().min()
    }

    /// Records that wait or are leased.
    #[must_use]
    pub fn len(&self) -> usize {
        self.due.len() + self.later.len() + self.leases.len()
    }

    /// Whether nothing waits and nothing is leased.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn advance(&mut self, now: Timestamp) {
        if now <= self.as_of {
            return;
        }
        self.as_of = now;
        while let Some(entry) = self.later.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let ((next_at, order), class) = entry.remove_entry();
            self.due.insert(order, (next_at, class));
        }
    }
}

fn leased<C: Copy>(entry: (&(Timestamp, Identity), &C)) -> (Identity, Slot<C>) {
    let ((expires_at, identity), class) = entry;
    (identity.clone(), Slot::Leased { expires_at: *expires_at, class: *class })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Timestamp {
        Timestamp::new(seconds).expect("a time")
    }

    fn waiting(rank: u8, created: f64, next: f64) -> Slot<()> {
        Slot::Waiting { rank, created_at: at(created), next_at: at(next), class: () }
    }

    fn agenda(entries: &[(&str, Slot<()>)]) -> Agenda<()> {
        let mut agenda = Agenda::default();
        for (identity, slot) in entries {
            agenda.place(&Identity::new(identity), Slot::Idle, *slot);
        }
        agenda
    }

    fn order(agenda: &mut Agenda<()>, now: f64) -> Vec<String> {
        std::iter::from_fn(|| agenda.pick(at(now)))
            .map(|(identity, _)| identity.to_string())
            .collect()
    }

    #[test]
    fn due_records_go_by_rank_then_age_then_identity() {
        let mut agenda = agenda(&[
            ("b", waiting(1, 5.0, 5.0)),
            ("a", waiting(1, 5.0, 9.0)),
            ("old", waiting(1, 1.0, 8.0)),
            ("first", waiting(0, 9.0, 9.0)),
            ("later", waiting(0, 0.0, 9.5)),
        ]);
        assert_eq!(order(&mut agenda, 9.0), ["first", "old", "a", "b"]);
        assert_eq!(order(&mut agenda, 9.5), ["later"]);
    }

    #[test]
    fn a_clock_that_went_back_makes_nothing_due_early() {
        let mut agenda = agenda(&[("a", waiting(0, 1.0, 10.0)), ("b", waiting(0, 2.0, 3.0))]);
        assert_eq!(agenda.due_count(at(20.0)), 2);
        assert_eq!(agenda.due_count(at(5.0)), 1);
        assert_eq!(
            agenda.pick(at(5.0)).map(|(identity, _)| identity.to_string()).as_deref(),
            Some("b")
        );
        assert_eq!(agenda.pick(at(5.0)), None);
        agenda.place(&Identity::new("c"), Slot::Idle, waiting(0, 0.0, 15.0));
        assert_eq!(agenda.due_count(at(5.0)), 0);
        assert_eq!(order(&mut agenda, 20.0), ["c", "a"]);
    }

    #[test]
    fn a_record_leaves_the_slot_it_was_in_whichever_side_of_now_that_is() {
        let (soon, late) = (waiting(0, 1.0, 5.0), waiting(0, 1.0, 50.0));
        let mut agenda = agenda(&[("a", soon), ("b", late)]);
        assert_eq!(agenda.due_count(at(10.0)), 1);
        agenda.place(&Identity::new("a"), soon, Slot::Leased { expires_at: at(70.0), class: () });
        agenda.place(&Identity::new("b"), late, Slot::Idle);
        assert_eq!((agenda.due_count(at(60.0)), agenda.len()), (0, 1));
        assert_eq!(agenda.expired(at(69.9)), []);
        let slot = Slot::Leased { expires_at: at(70.0), class: () };
        assert_eq!(agenda.expired(at(70.0)), [(Identity::new("a"), slot)]);
        agenda.place(
            &Identity::new("a"),
            Slot::Leased { expires_at: at(70.0), class: () },
            Slot::Idle,
        );
        assert!(agenda.is_empty());
    }

    #[test]
    fn the_next_time_is_the_earliest_due_time_or_expiry() {
        let mut agenda = agenda(&[("a", waiting(0, 1.0, 50.0))]);
        assert_eq!(agenda.next_at(at(10.0)), Some(at(50.0)));
        agenda.place(
            &Identity::new("b"),
            Slot::Idle,
            Slot::Leased { expires_at: at(40.0), class: () },
        );
        assert_eq!(agenda.next_at(at(10.0)), Some(at(40.0)));
        assert_eq!(agenda.next_at(at(60.0)), Some(at(60.0)));
    }
}
