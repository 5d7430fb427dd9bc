//! Who has which identity beside its own (D17).
//!
//! Owns the second identities of one flow's records, those included that are about to be written: two
//! registrations on their way at once cannot both have one. Must not know what such an identity is.

use crate::record::{Identity, Key};
use std::collections::HashMap;

/// The second identities.
pub(crate) struct Reservations {
    owners: HashMap<Key, Identity>,
    /// Kept for a registration that is on its way.
    pending: HashMap<Identity, Key>,
}

impl Reservations {
    /// Those of the records there are.
    pub(crate) fn of(owners: HashMap<Key, Identity>) -> Self {
        Self { owners, pending: HashMap::new() }
    }

    /// Keeps one for a record, and answers whether that is new; `None` when it is another record's.
    pub(crate) fn reserve(&mut self, record: &Identity, key: Key) -> Option<bool> {
        match self.owners.get(&key) {
            Some(owner) => (owner == record).then_some(false),
            None => {
                self.owners.insert(key, record.clone());
                self.pending.insert(record.clone(), key);
                Some(true)
            }
        }
    }

    /// All of them; `None` while a registration is on its way.
    pub(crate) fn settled(&self) -> Option<Vec<(Key, Identity)>> {
        let owners = self.owners.iter().map(|(key, owner)| (*key, owner.clone()));
        self.pending.is_empty().then(|| owners.collect())
    }

    /// Another engine registered a record with this one.
    pub(crate) fn owned_elsewhere(&mut self, record: &Identity, has: Option<Key>) {
        if let Some(key) = has {
            self.owners.insert(key, record.clone());
        }
    }

    /// A registration ended, with the record having this one, or none: what was kept beside is free.
    pub(crate) fn settle(&mut self, record: &Identity, has: Option<Key>) {
        if let Some(key) = has {
            self.owners.insert(key, record.clone());
        }
        if let Some(key) = self.pending.remove(record)
            && Some(key) != has
            // Unless another engine's record has it meanwhile.
            && self.owners.get(&key) == Some(record)
        {
            self.owners.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_identity_is_one_records_and_free_again_when_it_came_to_nothing() {
        let (first, second) = (Identity::new("event-1"), Identity::new("event-2"));
        let (taken, free) = (Key::of("notification-1"), Key::of("notification-2"));
        let mut reservations = Reservations::of([(taken, first.clone())].into());
        assert_eq!(reservations.reserve(&first, taken), Some(false));
        assert_eq!(reservations.reserve(&second, taken), None);
        assert_eq!(reservations.reserve(&second, free), Some(true));
        assert_eq!(reservations.settled(), None, "it is on its way");
        assert_eq!(reservations.reserve(&first, free), None);
        reservations.settle(&second, None);
        assert_eq!(reservations.reserve(&first, free), Some(true));
        reservations.settle(&first, Some(free));
        reservations.settle(&first, None);
        assert_eq!(reservations.reserve(&second, free), None);
        let all: HashMap<_, _> = reservations.settled().expect("none is").into_iter().collect();
        assert_eq!(all, [(taken, first.clone()), (free, first)].into());
    }
}
