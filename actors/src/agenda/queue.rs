//! The queues of waiting records, and what an entry of them is made of.
//!
//! Owns their order and their bytes: with a million entries every byte of one is a megabyte. Must not know
//! leases, keys, or what time it is.

use super::Waiting;
use crate::contract::time::Timestamp;
use crate::record::{Identity, Link};
use std::collections::BTreeMap;

/// A place in a queue: by time, then by identity.
type Place = (Timestamp, Identity);

/// What is kept of a waiting record beside its place. Packed: eleven entries of a flow without facets fit
/// a node of 512 bytes, which is a size allocators have.
#[derive(Clone, Copy)]
#[repr(Rust, packed)]
struct Entry<C> {
    /// The one of its two times that is not in its place.
    other: Timestamp,
    rank: u8,
    link: Link,
    class: C,
}

impl<C: Copy> Entry<C> {
    fn of(waiting: &Waiting<C>, other: Timestamp) -> Self {
        let Waiting { rank, link, class, .. } = *waiting;
        Self { other, rank, link, class }
    }

    fn other(&self) -> Timestamp {
        self.other
    }

    fn waiting(self, created_at: Timestamp, next_at: Timestamp) -> Waiting<C> {
        let Self { rank, link, class, .. } = self;
        Waiting { rank, created_at, next_at, class, link, parked: false }
    }
}

/// Records that are due, in the order in which they are taken. None is parked.
pub(super) struct Due<C> {
    /// By creation time in each rank: there are few ranks, and each of the entries would pay for them.
    ranks: BTreeMap<u8, BTreeMap<Place, Entry<C>>>,
    since: Since,
}

impl<C> Default for Due<C> {
    fn default() -> Self {
        Self { ranks: BTreeMap::new(), since: Since::default() }
    }
}

impl<C> Due<C> {
    pub(super) fn len(&self) -> usize {
        self.ranks.values().map(BTreeMap::len).sum()
    }
}

impl<C: Copy> Due<C> {
    pub(super) fn insert(&mut self, identity: Identity, waiting: &Waiting<C>) {
        let queue = self.ranks.entry(waiting.rank).or_default();
        let entry = Entry::of(waiting, waiting.next_at);
        // One that is put back twice is there once.
        if let Some(before) = queue.insert((waiting.created_at, identity), entry) {
            self.since.remove(before.other());
        }
        self.since.add(waiting.next_at);
    }

    pub(super) fn remove(&mut self, identity: &Identity, waiting: &Waiting<C>) {
        let Some(queue) = self.ranks.get_mut(&waiting.rank) else { return };
        if let Some(entry) = queue.remove(&(waiting.created_at, identity.clone())) {
            self.since.remove(entry.other());
        }
    }

    /// Takes the first one out that is due at `now`. Costs nothing when all of them are.
    pub(super) fn pop(&mut self, now: Timestamp) -> Option<(Identity, Waiting<C>)> {
        for queue in self.ranks.values_mut() {
            let first = queue.iter().find(|(_, entry)| entry.other() <= now);
            let Some(place) = first.map(|(place, _)| place.clone()) else { continue };
            let entry = queue.remove(&place)?;
            self.since.remove(entry.other());
            let (created_at, identity) = place;
            return Some((identity, entry.waiting(created_at, entry.other())));
        }
        None
    }

    /// The same, but one of the first `look` that is preferred goes before those that are not. Costs those
    /// it looks at.
    pub(super) fn pop_preferred(
        &mut self,
        now: Timestamp,
        look: usize,
        prefers: &dyn Fn(&Identity) -> bool,
    ) -> Option<(Identity, Waiting<C>)> {
        for queue in self.ranks.values_mut() {
            let due =
                queue.iter().filter(|(_, entry)| entry.other() <= now).map(|(place, _)| place);
            let preferred = due.clone().take(look).find(|(_, identity)| prefers(identity));
            // What goes first goes before what is preferred and goes later.
            let Some(place) = preferred.or_else(|| due.clone().next()) else { continue };
            let place = place.clone();
            let entry = queue.remove(&place)?;
            self.since.remove(entry.other());
            let (created_at, identity) = place;
            return Some((identity, entry.waiting(created_at, entry.other())));
        }
        None
    }

    /// Since when each of them is due.
    pub(super) fn times(&self) -> impl Iterator<Item = Timestamp> {
        self.ranks.values().flat_map(BTreeMap::values).map(Entry::other)
    }

    /// Since when the one is due that is due longest, in whole seconds, rounded down. Costs nothing.
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        self.since.first()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Identity, Waiting<C>)> {
        let all = self.ranks.values().flatten();
        all.map(|((created_at, identity), entry)| {
            (identity.clone(), entry.waiting(*created_at, entry.other()))
        })
    }
}

/// Since when records are due: how many there are of each second. Exact times would be a second queue
/// as long as the first one.
#[derive(Default)]
struct Since {
    seconds: BTreeMap<Timestamp, u32>,
}

impl Since {
    fn add(&mut self, time: Timestamp) {
        *self.seconds.entry(time.whole_seconds()).or_insert(0) += 1;
    }

    fn remove(&mut self, time: Timestamp) {
        let second = time.whole_seconds();
        let left = self.seconds.get(&second).map_or(0, |count| count - 1);
        if left > 0 {
            self.seconds.insert(second, left);
        } else {
            self.seconds.remove(&second);
        }
    }

    fn first(&self) -> Option<Timestamp> {
        self.seconds.first_key_value().map(|(second, _)| *second)
    }
}

/// Records that are due later, in the order in which they become due. None is parked.
pub(super) struct Later<C> {
    queue: BTreeMap<Place, Entry<C>>,
}

impl<C> Default for Later<C> {
    fn default() -> Self {
        Self { queue: BTreeMap::new() }
    }
}

impl<C> Later<C> {
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn first(&self) -> Option<Timestamp> {
        self.queue.first_key_value().map(|((next_at, _), _)| *next_at)
    }
}

impl<C: Copy> Later<C> {
    pub(super) fn insert(&mut self, identity: Identity, waiting: &Waiting<C>) {
        let entry = Entry::of(waiting, waiting.created_at);
        self.queue.insert((waiting.next_at, identity), entry);
    }

    pub(super) fn remove(&mut self, identity: &Identity, waiting: &Waiting<C>) {
        self.queue.remove(&(waiting.next_at, identity.clone()));
    }

    /// Takes the first one out if it is due at `now`.
    pub(super) fn pop(&mut self, now: Timestamp) -> Option<(Identity, Waiting<C>)> {
        let first = self.queue.first_entry().filter(|first| first.key().0 <= now)?;
        let ((next_at, identity), entry) = first.remove_entry();
        Some((identity, entry.waiting(entry.other(), next_at)))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Identity, Waiting<C>)> {
        self.queue.iter().map(|((next_at, identity), entry)| {
            (identity.clone(), entry.waiting(entry.other(), *next_at))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::Class;
    use proptest::prelude::*;

    fn at(seconds: f64) -> Timestamp {
        Timestamp::new(seconds).expect("a time")
    }

    fn waiting(rank: u8, created: f64, next: f64) -> Waiting<()> {
        let (created_at, next_at, link) = (at(created), at(next), Link::None);
        Waiting { rank, created_at, next_at, class: (), link, parked: false }
    }

    #[test]
    fn an_entry_has_no_padding() {
        assert_eq!(size_of::<Entry<Class<()>>>(), 8 + 1 + 9 + 1);
        assert_eq!(size_of::<Place>(), 8 + 16);
    }

    #[test]
    fn the_oldest_of_many_is_the_first_of_as_many_steps_as_there_are_seconds_and_not_records() {
        let mut due = Due::default();
        for number in 0..60_000 {
            let name = Identity::new(&format!("event-{number}"));
            due.insert(name, &waiting(0, 1.0, 100.25 + f64::from(number) / 100.0));
        }
        assert_eq!((due.len(), due.since.seconds.len()), (60_000, 601));
        assert_eq!(due.oldest(), Some(at(100.0)));
        while due.pop(at(150.0)).is_some() {}
        assert_eq!((due.oldest(), due.since.seconds.len()), (Some(at(150.0)), 551));
        while due.pop(at(1_000.0)).is_some() {}
        assert_eq!((due.oldest(), due.since.seconds.len()), (None, 0));
    }

    #[test]
    fn a_record_that_is_put_in_twice_is_counted_once() {
        let (name, mut due) = (Identity::new("a"), Due::default());
        due.insert(name.clone(), &waiting(0, 1.0, 5.0));
        due.insert(name.clone(), &waiting(0, 1.0, 9.0));
        assert_eq!((due.len(), due.oldest()), (1, Some(at(9.0))));
        due.remove(&name, &waiting(0, 1.0, 9.0));
        due.remove(&name, &waiting(0, 1.0, 9.0));
        assert_eq!((due.len(), due.oldest()), (0, None));
    }

    proptest! {
        #[test]
        fn what_is_told_of_the_oldest_is_what_a_look_at_all_of_them_tells(
            steps in proptest::collection::vec((0..3_u8, 0..40_u8, any::<bool>()), 0..80),
        ) {
            let mut due = Due::default();
            for (rank, name, comes) in steps {
                let name_ = Identity::new(&name.to_string());
                let waiting = waiting(rank, 1.0, f64::from(name) / 4.0);
                if comes {
                    due.insert(name_, &waiting);
                } else {
                    due.remove(&name_, &waiting);
                }
                let oldest = due.times().min();
                prop_assert_eq!(due.oldest(), oldest.map(|time| at(time.seconds().floor())));
                let counted: u32 = due.since.seconds.values().sum();
                prop_assert_eq!(counted as usize, due.len());
            }
        }
    }
}
