//! Counts per state, kept up to date event by event.
//!
//! Owns the tally of one flow. It is a fold: every transition moves one record from one class to
//! another, and `audit` compares the result with a full replay (I9). Asking costs the same with ten
//! records as with ten million.

use crate::contract::time::Timestamp;
use crate::record::{Flow, State, StateKind};
use std::collections::BTreeMap;

/// What health counts a record as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class<T> {
    /// Its state.
    pub kind: StateKind,
    /// What the flow tells apart beside it.
    pub facet: T,
}

/// The class of a state; `None` for a record that is not there.
#[must_use]
pub fn class<F: Flow>(state: &State<F>) -> Option<Class<F::Facet>> {
    Some(Class { kind: state.kind()?, facet: F::facet(state) })
}

/// Records in each class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally<T> {
    counts: BTreeMap<Class<T>, u64>,
    quarantined: u64,
}

impl<T> Default for Tally<T> {
    fn default() -> Self {
        Self { counts: BTreeMap::new(), quarantined: 0 }
    }
}

impl<T: Copy + Ord> Tally<T> {
    /// Moves one record; `None` is "not there".
    pub fn shift(&mut self, before: Option<Class<T>>, after: Option<Class<T>>) {
        if let Some(class) = before
            && let Some(count) = self.counts.get_mut(&class)
        {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&class);
            }
        }
        if let Some(class) = after {
            *self.counts.entry(class).or_insert(0) += 1;
        }
    }

    /// Counts a record that does not replay; `before` is what it was counted as until now.
    pub fn quarantine(&mut self, before: Option<Class<T>>) {
        self.shift(before, None);
        self.quarantined += 1;
    }

    /// The tally of these counts; none is quarantined.
    #[must_use]
    pub fn of(counts: impl IntoIterator<Item = (Class<T>, u64)>) -> Self {
        Self { counts: counts.into_iter().collect(), quarantined: 0 }
    }

    /// All classes that have records, and how many.
    pub fn classes(&self) -> impl Iterator<Item = (Class<T>, u64)> {
        self.counts.iter().map(|(class, count)| (*class, *count))
    }

    /// Records in this state.
    #[must_use]
    pub fn count(&self, kind: StateKind) -> u64 {
        if kind == StateKind::Quarantined {
            return self.quarantined;
        }
        self.counts.iter().filter(|(class, _)| class.kind == kind).map(|(_, count)| count).sum()
    }

    /// Records for which `wanted` is true.
    pub fn count_where(&self, wanted: impl Fn(&Class<T>) -> bool) -> u64 {
        self.counts.iter().filter(|(class, _)| wanted(class)).map(|(_, count)| count).sum()
    }

    /// All records.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.quarantined + self.counts.values().sum::<u64>()
    }
}

/// How much waits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Depths {
    /// Records that could be claimed now. Of what is paused, those that no claim came by yet count too: a
    /// pause costs nothing then, however much waits behind it.
    pub due: u64,
    /// Since when the one is due that is due longest: to the second, rounded down.
    pub oldest_due_at: Option<Timestamp>,
    /// Records a worker is at.
    pub leased: u64,
    /// Records that wait for another one (D5), or for an operator (D9).
    pub held: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn class(kind: StateKind) -> Option<Class<()>> {
        Some(Class { kind, facet: () })
    }

    #[test]
    fn i9_counts_follow_every_transition_and_empty_classes_vanish() {
        let mut tally = Tally::default();
        tally.shift(None, class(StateKind::Pending));
        tally.shift(None, class(StateKind::Pending));
        tally.shift(class(StateKind::Pending), class(StateKind::Leased));
        assert_eq!((tally.count(StateKind::Pending), tally.count(StateKind::Leased)), (1, 1));
        tally.shift(class(StateKind::Leased), class(StateKind::Completed));
        tally.quarantine(class(StateKind::Pending));
        assert_eq!(tally.count(StateKind::Quarantined), 1);
        assert_eq!(tally.total(), 2);
        let mut same = Tally::default();
        same.shift(None, class(StateKind::Completed));
        same.quarantine(None);
        assert_eq!(tally, same);
    }

    #[test]
    fn classes_are_counted_by_state_and_by_whatever_is_asked() {
        let class = |kind, facet| Some(Class { kind, facet });
        let mut tally = Tally::default();
        for facet in [1, 1, 2] {
            tally.shift(None, class(StateKind::Pending, facet));
        }
        tally.shift(None, class(StateKind::Failed, 1));
        let counts = [StateKind::Pending, StateKind::Failed, StateKind::Leased];
        assert_eq!(counts.map(|kind| tally.count(kind)), [3, 1, 0]);
        assert_eq!(tally.count_where(|class| class.facet == 1), 3);
        assert_eq!(tally.count_where(|class| class.facet == 3), 0);
        assert_eq!(tally.count_where(|class| class.kind.is_active()), 3);
    }
}
