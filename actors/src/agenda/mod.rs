//! What is due when, and in which order.
//!
//! Owns the schedule of one flow: one entry for each record that waits or is leased, none for the
//! others. Pure: every call is given its time. A waiting record costs about 120 bytes here, one of flow
//! `delivery` about 170; where each became due in a second of its own, 30 more.
//!
//! Due records are taken in the order (rank, created, identity), whatever became due first
//! (contract 4.1 to 4.4).

mod queue;
mod slot;

pub use slot::{Slot, Waiting};

use crate::contract::time::Timestamp;
use crate::health::Depths;
use crate::record::{Identity, Key, Link};
use queue::{Due, Later};
use std::collections::{BTreeMap, HashMap};

/// Due records that are looked at for one that is preferred.
const LOOK: usize = 64;

/// The schedule.
pub struct Agenda<C> {
    /// Those whose due time is at or before `as_of`.
    due: Due<C>,
    /// Those whose due time is later.
    later: Later<C>,
    leases: BTreeMap<(Timestamp, Identity), (C, Link)>,
    /// The latest time anybody asked for.
    as_of: Timestamp,
    /// How many unsettled records hold each key.
    holders: HashMap<Key, u32>,
    /// Those that wait for a key. While it is not held they are above as well, and found here when it is.
    waiters: BTreeMap<(Key, Identity), Waiting<C>>,
    /// How many of them wait for a key that is held: in none of the above.
    held: usize,
    /// Those left for an operator.
    parked: BTreeMap<Identity, Waiting<C>>,
}

impl<C> std::fmt::Debug for Agenda<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agenda")
            .field("due", &self.due.len())
            .field("later", &self.later.len())
            .field("leases", &self.leases.len())
            .field("as_of", &self.as_of)
            .finish_non_exhaustive()
    }
}

impl<C> Default for Agenda<C> {
    fn default() -> Self {
        Self {
            due: Due::default(),
            later: Later::default(),
            leases: BTreeMap::new(),
            as_of: Timestamp::ZERO,
            holders: HashMap::new(),
            waiters: BTreeMap::new(),
            held: 0,
            parked: BTreeMap::new(),
        }
    }
}

impl<C: Copy> Agenda<C> {
    /// Moves a record from one slot to another.
    pub fn place(&mut self, identity: &Identity, before: Slot<C>, after: Slot<C>) {
        // Held first and let go last, so that nobody who waits slips through in between.
        if let Link::Holds(key) = after.link() {
            self.hold(key);
        }
        match before {
            Slot::Idle => {}
            Slot::Waiting(waiting) => self.remove(identity, waiting),
            Slot::Leased { expires_at, .. } => {
                self.leases.remove(&(expires_at, identity.clone()));
            }
        }
        match after {
            Slot::Idle => {}
            Slot::Waiting(waiting) => self.insert(identity, waiting),
            Slot::Leased { expires_at, class, link } => {
                self.leases.insert((expires_at, identity.clone()), (class, link));
            }
        }
        if let Link::Holds(key) = before.link() {
            self.let_go(key);
        }
    }

    fn insert(&mut self, identity: &Identity, waiting: Waiting<C>) {
        if waiting.parked {
            self.parked.insert(identity.clone(), waiting);
            return;
        }
        if let Link::Waits(key) = waiting.link {
            let is_new = self.waiters.insert((key, identity.clone()), waiting).is_none();
            if self.holders.contains_key(&key) {
                self.held += usize::from(is_new);
                return;
            }
        }
        self.schedule(identity.clone(), &waiting);
    }

    fn remove(&mut self, identity: &Identity, waiting: Waiting<C>) {
        self.parked.remove(identity);
        if let Link::Waits(key) = waiting.link {
            let was = self.waiters.remove(&(key, identity.clone())).is_some();
            self.held -= usize::from(was && self.holders.contains_key(&key));
        }
        self.unschedule(identity, &waiting);
    }

    fn schedule(&mut self, identity: Identity, waiting: &Waiting<C>) {
        if waiting.next_at <= self.as_of {
            self.due.insert(identity, waiting);
        } else {
            self.later.insert(identity, waiting);
        }
    }

    fn unschedule(&mut self, identity: &Identity, waiting: &Waiting<C>) {
        if waiting.next_at <= self.as_of {
            self.due.remove(identity, waiting);
        } else {
            self.later.remove(identity, waiting);
        }
    }

    /// Those that wait for a key, held or not.
    fn waiters_of(&self, key: Key) -> Vec<(Identity, Waiting<C>)> {
        if self.waiters.is_empty() {
            return Vec::new();
        }
        let from = self.waiters.range((key, Identity::new(""))..);
        let of_key = from.take_while(|((other, _), _)| *other == key);
        of_key.map(|((_, identity), waiting)| (identity.clone(), *waiting)).collect()
    }

    /// One more record holds a key: those that wait for it are not due any more.
    fn hold(&mut self, key: Key) {
        let holders = self.holders.entry(key).or_insert(0);
        *holders += 1;
        if *holders > 1 {
            return;
        }
        for (identity, waiting) in self.waiters_of(key) {
            self.unschedule(&identity, &waiting);
            self.held += 1;
        }
    }

    /// One record less holds a key: with the last one, those that wait for it are due again.
    fn let_go(&mut self, key: Key) {
        let Some(holders) = self.holders.get_mut(&key) else { return };
        *holders -= 1;
        if *holders > 0 {
            return;
        }
        self.holders.remove(&key);
        for (identity, waiting) in self.waiters_of(key) {
            self.schedule(identity, &waiting);
            self.held -= 1;
        }
    }

    /// Takes out the record that goes first among those due at `now`, with the slot it was in: whoever
    /// does not use it has to put it back. It holds what it held until it is placed elsewhere.
    pub fn pick(&mut self, now: Timestamp) -> Option<(Identity, Slot<C>)> {
        self.advance(now);
        // All of them are due at `as_of`, which is `now` unless the clock went back.
        let picked = self.due.pop(now)?;
        Some(self.taken_out(picked))
    }

    /// The same where several engines pick from the same records: of the first 64 one that `prefers`
    /// says is this engine's, and only where there is none the first of all. So each engine starts with its
    /// own, and helps out with what the others leave lying.
    pub fn pick_preferred(
        &mut self,
        now: Timestamp,
        prefers: &dyn Fn(&Identity) -> bool,
    ) -> Option<(Identity, Slot<C>)> {
        self.advance(now);
        let picked = self.due.pop_preferred(now, LOOK, prefers)?;
        Some(self.taken_out(picked))
    }

    fn taken_out(&mut self, (identity, waiting): (Identity, Waiting<C>)) -> (Identity, Slot<C>) {
        if let Link::Waits(key) = waiting.link {
            // Nobody holds it, or the record would not be due.
            self.waiters.remove(&(key, identity.clone()));
        }
        (identity, Slot::Waiting(waiting))
    }

    /// Puts a picked record back where it was.
    pub fn put_back(&mut self, identity: &Identity, slot: Slot<C>) {
        self.place(identity, slot, slot);
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
        self.due.times().filter(|next_at| *next_at <= now).count() as u64
    }

    /// How many records wait for another one, or for an operator.
    #[must_use]
    pub fn held_count(&self) -> u64 {
        (self.held + self.parked.len()) as u64
    }

    /// How many records wait for an operator: registered under another digest than the flow's, or
    /// under one where the flow has none.
    #[must_use]
    pub fn parked_count(&self) -> u64 {
        self.parked.len() as u64
    }

    /// The next time anything has to be done: a record is due, a lease ends. What is held waits for
    /// something else than time.
    pub fn next_at(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.next_at_beside(now, |_| None)
    }

    /// The same where some leases last longer than they should: `until` says how long, `None` for a
    /// lease that does not.
    pub fn next_at_beside(
        &mut self,
        now: Timestamp,
        until: impl Fn(&Identity) -> Option<Timestamp>,
    ) -> Option<Timestamp> {
        self.advance(now);
        // All of `due` is due now, unless the clock went back; then each has its own time.
        let due = if now >= self.as_of {
            (self.due.len() > 0).then_some(now)
        } else {
            self.due.times().map(|next_at| next_at.max(now)).min()
        };
        let later = self.later.first();
        [due, later, self.next_end_beside(now, until)].into_iter().flatten().min()
    }

    /// The next time a lease ends, likewise.
    pub fn next_end_beside(
        &self,
        now: Timestamp,
        until: impl Fn(&Identity) -> Option<Timestamp>,
    ) -> Option<Timestamp> {
        let over = self.leases.keys().take_while(|(expires_at, _)| *expires_at <= now);
        let over = over.map(|(_, identity)| until(identity).map_or(now, |end| end.max(now))).min();
        let lease = self.leases.keys().map(|(expires_at, _)| *expires_at).find(|end| *end > now);
        [over, lease].into_iter().flatten().min()
    }

    /// Records that wait or are leased.
    #[must_use]
    pub fn len(&self) -> usize {
        self.due.len() + self.later.len() + self.leases.len() + self.held + self.parked.len()
    }

    /// Whether nothing waits and nothing is leased.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How much waits at `now`, and since when. Costs nothing; after a clock that went back, it costs
    /// those that were due.
    pub fn depths(&mut self, now: Timestamp) -> Depths {
        let due = self.due_count(now);
        Depths {
            due,
            // Where any is due, the one that is due longest is.
            oldest_due_at: self.due.oldest().filter(|_| due > 0),
            leased: self.leases.len() as u64,
            held: self.held_count(),
        }
    }

    /// Tells the time: what became due until now is found without a search from here on.
    pub fn advance(&mut self, now: Timestamp) {
        if now <= self.as_of {
            return;
        }
        self.as_of = now;
        while let Some((identity, waiting)) = self.later.pop(now) {
            self.due.insert(identity, &waiting);
        }
    }

    /// All records that wait or are leased, with their slots: placed in an empty agenda, in any order, they
    /// make the same one.
    #[must_use]
    pub fn entries(&self) -> Vec<(Identity, Slot<C>)> {
        let held = self.waiters.iter().filter(|((key, _), _)| self.holders.contains_key(key));
        let held = held.map(|((_, identity), waiting)| (identity.clone(), *waiting));
        let parked = self.parked.iter().map(|(identity, waiting)| (identity.clone(), *waiting));
        let waiting = self.due.iter().chain(self.later.iter()).chain(held).chain(parked);
        let waiting = waiting.map(|(identity, waiting)| (identity, Slot::Waiting(waiting)));
        waiting.chain(self.leases.iter().map(leased)).collect()
    }
}

fn leased<C: Copy>(entry: (&(Timestamp, Identity), &(C, Link))) -> (Identity, Slot<C>) {
    let ((expires_at, identity), (class, link)) = entry;
    let slot = Slot::Leased { expires_at: *expires_at, class: *class, link: *link };
    (identity.clone(), slot)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Timestamp {
        Timestamp::new(seconds).expect("a time")
    }

    fn waiting(rank: u8, created: f64, next: f64) -> Slot<()> {
        linked(rank, created, next, Link::None)
    }

    fn linked(rank: u8, created: f64, next: f64, link: Link) -> Slot<()> {
        let (created_at, next_at) = (at(created), at(next));
        Slot::Waiting(Waiting { rank, created_at, next_at, class: (), link, parked: false })
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
        agenda.place(
            &Identity::new("a"),
            soon,
            Slot::Leased { expires_at: at(70.0), class: (), link: Link::None },
        );
        agenda.place(&Identity::new("b"), late, Slot::Idle);
        assert_eq!((agenda.due_count(at(60.0)), agenda.len()), (0, 1));
        assert_eq!(agenda.expired(at(69.9)), []);
        let slot = Slot::Leased { expires_at: at(70.0), class: (), link: Link::None };
        assert_eq!(agenda.expired(at(70.0)), [(Identity::new("a"), slot)]);
        agenda.place(
            &Identity::new("a"),
            Slot::Leased { expires_at: at(70.0), class: (), link: Link::None },
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
            Slot::Leased { expires_at: at(40.0), class: (), link: Link::None },
        );
        assert_eq!(agenda.next_at(at(10.0)), Some(at(40.0)));
        assert_eq!(agenda.next_at(at(60.0)), Some(at(60.0)));
    }

    #[test]
    fn d5_who_waits_for_a_key_is_not_due_while_anybody_holds_it_whoever_came_first() {
        let key = Key::of("event-1");
        let (change, removal) =
            (linked(1, 5.0, 5.0, Link::Holds(key)), linked(0, 6.0, 6.0, Link::Waits(key)));
        for change_first in [true, false] {
            let mut agenda = if change_first {
                agenda(&[("change", change), ("removal", removal)])
            } else {
                agenda(&[("removal", removal), ("change", change)])
            };
            assert_eq!((agenda.due_count(at(10.0)), agenda.held_count()), (1, 1));
            let (identity, slot) = agenda.pick(at(10.0)).expect("the change");
            assert_eq!(identity.to_string(), "change");
            assert_eq!(agenda.pick(at(10.0)), None, "while the change is on its way");
            let leased = Slot::Leased { expires_at: at(70.0), class: (), link: Link::Holds(key) };
            agenda.place(&identity, slot, leased);
            assert_eq!((agenda.due_count(at(10.0)), agenda.held_count()), (0, 1));
            agenda.place(&identity, leased, Slot::Idle);
            assert_eq!(order(&mut agenda, 10.0), ["removal"]);
        }
    }

    #[test]
    fn a_picked_removal_that_is_put_back_waits_if_its_change_has_come_meanwhile() {
        let key = Key::of("event-1");
        let mut agenda = agenda(&[("removal", linked(0, 6.0, 6.0, Link::Waits(key)))]);
        let (identity, slot) = agenda.pick(at(10.0)).expect("the removal");
        let change = linked(1, 7.0, 7.0, Link::Holds(key));
        agenda.place(&Identity::new("change"), Slot::Idle, change);
        agenda.put_back(&identity, slot);
        assert_eq!((agenda.due_count(at(10.0)), agenda.held_count()), (1, 1));
        let (_, change) = agenda.pick(at(10.0)).expect("the change");
        agenda.put_back(&Identity::new("change"), change);
        assert_eq!(agenda.len(), 2, "a change put back holds once and not twice");
        agenda.place(&Identity::new("change"), change, Slot::Idle);
        assert_eq!(order(&mut agenda, 10.0), ["removal"]);
    }

    #[test]
    fn d9_a_parked_record_is_never_due_and_counts_as_held() {
        let slot = Slot::Waiting(Waiting {
            rank: 0,
            created_at: at(1.0),
            next_at: at(1.0),
            class: (),
            link: Link::None,
            parked: true,
        });
        let mut agenda = agenda(&[("a", slot), ("b", waiting(0, 2.0, 2.0))]);
        assert_eq!((agenda.due_count(at(9.0)), agenda.held_count()), (1, 1));
        assert_eq!(order(&mut agenda, 9.0), ["b"]);
        assert_eq!(agenda.next_at(at(9.0)), None);
        agenda.place(&Identity::new("a"), slot, Slot::Idle);
        assert!(agenda.is_empty());
    }

    #[test]
    fn depths_tell_what_is_due_since_when_and_what_is_not() {
        let mut agenda = agenda(&[
            ("new", waiting(0, 1.0, 30.0)),
            ("old", waiting(0, 2.0, 20.0)),
            ("later", waiting(0, 3.0, 90.0)),
            (
                "change",
                Slot::Leased { expires_at: at(99.0), class: (), link: Link::Holds(Key::of("k")) },
            ),
            ("removal", linked(1, 4.0, 5.0, Link::Waits(Key::of("k")))),
        ]);
        let depths = |due, oldest: Option<f64>| Depths {
            due,
            oldest_due_at: oldest.map(at),
            leased: 1,
            held: 1,
        };
        assert_eq!(agenda.depths(at(10.0)), depths(0, None));
        assert_eq!(agenda.depths(at(40.0)), depths(2, Some(20.0)));
        assert_eq!(agenda.depths(at(25.0)), depths(1, Some(20.0)), "a clock that went back");
        assert_eq!(agenda.depths(at(19.0)), depths(0, None), "behind all of them");
        agenda.place(&Identity::new("older"), Slot::Idle, waiting(0, 1.0, 12.75));
        assert_eq!(agenda.depths(at(40.0)), depths(3, Some(12.0)), "to the second, rounded down");
    }

    #[test]
    fn who_waits_for_a_key_is_counted_as_held_once_however_often_it_is_put_back() {
        let (key, other) = (Key::of("event-1"), Key::of("event-2"));
        let change = linked(1, 5.0, 5.0, Link::Holds(key));
        let mut agenda = agenda(&[("change", change), ("again", change)]);
        let removals = [("a", key), ("b", key), ("c", other)]
            .map(|(name, key)| (Identity::new(name), linked(0, 6.0, 6.0, Link::Waits(key))));
        for _ in 0..2 {
            for (name, slot) in &removals {
                agenda.put_back(name, *slot);
            }
            assert_eq!((agenda.held_count(), agenda.due_count(at(10.0)), agenda.len()), (2, 3, 5));
        }
        let entries = agenda.entries();
        let again = entries.iter().fold(Agenda::default(), |mut agenda, (name, slot)| {
            agenda.place(name, Slot::Idle, *slot);
            agenda
        });
        assert_eq!((again.held_count(), again.len(), entries.len()), (2, 5, 5));
        agenda.place(&Identity::new("change"), change, Slot::Idle);
        assert_eq!((agenda.held_count(), agenda.due_count(at(10.0))), (2, 2), "one holds it still");
        let (name, slot) = &removals[0];
        agenda.place(name, *slot, Slot::Idle);
        assert_eq!((agenda.held_count(), agenda.len()), (1, 3));
        agenda.place(&Identity::new("again"), change, Slot::Idle);
        assert_eq!((agenda.held_count(), agenda.due_count(at(10.0))), (0, 2));
        assert_eq!(order(&mut agenda, 10.0), ["b", "c"]);
        assert!(agenda.is_empty() && agenda.waiters.is_empty() && agenda.holders.is_empty());
    }

    #[test]
    fn leases_are_listed_counted_when_they_are_over_and_waited_for_until_then() {
        let leased = |end: f64| Slot::Leased { expires_at: at(end), class: (), link: Link::None };
        let mut agenda = agenda(&[]);
        assert!(agenda.is_empty());
        for (name, end) in [("a", 40.0), ("b", 50.0), ("c", 60.0)] {
            agenda.place(&Identity::new(name), Slot::Idle, leased(end));
        }
        assert_eq!((agenda.len(), agenda.is_empty()), (3, false));
        assert_eq!([39.0, 40.0, 55.0, 60.0].map(|now| agenda.expired_count(at(now))), [0, 1, 2, 3]);
        let names: Vec<_> = agenda.leased().into_iter().map(|(name, _)| name.to_string()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(agenda.next_at(at(10.0)), Some(at(40.0)));
        // One that is over and lasts longer than it should is waited for beside the others.
        let longer = |until: f64| move |name: &Identity| (name.as_str() == "a").then(|| at(until));
        assert_eq!(agenda.next_at_beside(at(45.0), longer(70.0)), Some(at(50.0)));
        assert_eq!(agenda.next_at_beside(at(40.0), longer(70.0)), Some(at(50.0)));
        assert_eq!(agenda.next_at_beside(at(45.0), longer(47.0)), Some(at(47.0)));
        assert_eq!(agenda.next_at_beside(at(55.0), longer(70.0)), Some(at(55.0)));
        assert_eq!(agenda.next_at(at(50.0)), Some(at(50.0)));
    }

    #[test]
    fn after_a_clock_that_went_back_the_next_time_is_that_of_what_was_due_later() {
        let mut agenda = agenda(&[("a", waiting(0, 1.0, 10.0)), ("b", waiting(0, 2.0, 30.0))]);
        assert_eq!(agenda.next_at(at(20.0)), Some(at(20.0)));
        assert_eq!(agenda.next_at(at(5.0)), Some(at(10.0)));
        assert_eq!(agenda.next_at(at(12.0)), Some(at(12.0)));
    }

    #[test]
    fn whoever_is_left_for_an_operator_is_counted_apart_from_whoever_waits_for_another() {
        let key = Key::of("event-1");
        let parked = match waiting(0, 1.0, 1.0) {
            Slot::Waiting(waiting) => Slot::Waiting(Waiting { parked: true, ..waiting }),
            other @ (Slot::Idle | Slot::Leased { .. }) => other,
        };
        let mut agenda = agenda(&[
            ("parked", parked),
            ("change", linked(1, 5.0, 5.0, Link::Holds(key))),
            ("removal", linked(0, 6.0, 6.0, Link::Waits(key))),
        ]);
        assert_eq!((agenda.held_count(), agenda.parked_count(), agenda.len()), (2, 1, 3));
        agenda.place(&Identity::new("parked"), parked, Slot::Idle);
        assert_eq!((agenda.held_count(), agenda.parked_count(), agenda.len()), (1, 0, 2));
    }

    #[test]
    fn a_removal_that_is_gone_does_not_come_back_when_its_change_is_settled() {
        let key = Key::of("event-1");
        let (change, removal) =
            (linked(1, 5.0, 5.0, Link::Holds(key)), linked(0, 6.0, 6.0, Link::Waits(key)));
        let mut agenda = agenda(&[("removal", removal)]);
        agenda.place(&Identity::new("removal"), removal, Slot::Idle);
        assert!(agenda.waiters.is_empty(), "nothing is kept of what is gone");
        agenda.place(&Identity::new("change"), Slot::Idle, change);
        agenda.place(&Identity::new("change"), change, Slot::Idle);
        assert!(agenda.is_empty());
        assert_eq!(order(&mut agenda, 10.0), Vec::<String>::new());
    }
}
