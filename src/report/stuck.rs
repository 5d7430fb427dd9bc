//! The records that are not done: how many, and the most urgent ones.
//!
//! Owns their order: those that need somebody first, then those that wait longest.

use leasehold_actors::explain::{Explanation, WaitsFor};
use std::cmp::Ordering;

/// Records that are kept.
pub const KEPT_MAX: usize = 50;
/// So many are gathered before the rest is dropped: every record may be open, and each explanation is
/// some hundred bytes.
const GATHERED_MAX: usize = 1_024;

/// The records that are not done.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stuck {
    kept: Vec<Explanation>,
    /// How many there are.
    pub open: u64,
    /// How many of them nothing moves on unless somebody does something.
    pub need_somebody: u64,
    /// How many of them are held under another digest than the one that is pinned (D9).
    pub held: u64,
    /// How many of them an operator has to resume something for.
    pub paused: u64,
    /// How many of them may be held under another digest: it is not known which one is pinned.
    pub digest_unknown: u64,
}

impl Stuck {
    /// Takes one record.
    pub fn take(&mut self, explanation: Explanation) {
        if !explanation.is_open() {
            return;
        }
        self.open += 1;
        self.need_somebody += u64::from(explanation.needs_somebody());
        self.held += u64::from(matches!(explanation.waits_for, WaitsFor::Digest { .. }));
        self.paused += u64::from(explanation.waits_for == WaitsFor::Pause);
        self.digest_unknown += u64::from(explanation.digest_unknown);
        self.kept.push(explanation);
        if self.kept.len() >= GATHERED_MAX {
            self.cut();
        }
    }

    fn cut(&mut self) {
        self.kept.sort_by(more_urgent);
        self.kept.truncate(KEPT_MAX);
    }

    /// The most urgent ones, [`KEPT_MAX`] at most.
    #[must_use]
    pub fn most_urgent(&self) -> Vec<&Explanation> {
        let mut kept: Vec<&Explanation> = self.kept.iter().collect();
        kept.sort_by(|left, right| more_urgent(left, right));
        kept.truncate(KEPT_MAX);
        kept
    }
}

fn more_urgent(left: &Explanation, right: &Explanation) -> Ordering {
    let since = |one: &Explanation| one.since.unwrap_or(0.0);
    let somebody = left.needs_somebody().cmp(&right.needs_somebody()).reverse();
    somebody
        .then_with(|| since(left).total_cmp(&since(right)))
        .then_with(|| (left.flow, &left.id).cmp(&(right.flow, &right.id)))
        // Those that do not replay have no identity.
        .then_with(|| left.reason().cmp(&right.reason()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_actors::contract::time::Timestamp;
    use leasehold_actors::explain::{Changes, Place, explain_quarantined};
    use leasehold_actors::flows::dispatch::Dispatch;

    fn record(number: u32, changes: Changes) -> Explanation {
        let since = Timestamp::new(f64::from(number));
        let id = format!("event-{number}");
        let place = Place::folder("j");
        let one = explain_quarantined::<Dispatch>(Some(&id), None, "record_damaged", since, &place);
        Explanation { changes, ..one }
    }

    #[test]
    fn those_that_need_somebody_come_first_and_then_those_that_wait_longest() {
        let mut stuck = Stuck::default();
        for number in (0..3_000).rev() {
            let changes = if number == 2_999 { Changes::Operator } else { Changes::AtItsTime };
            stuck.take(record(number, changes));
        }
        stuck.take(record(3_000, Changes::Never));
        assert_eq!((stuck.open, stuck.need_somebody), (3_000, 1));
        let kept = stuck.most_urgent();
        assert_eq!(kept.len(), KEPT_MAX);
        assert_eq!(kept[0].id.as_deref(), Some("event-2999"));
        assert_eq!(kept[1].id.as_deref(), Some("event-0"));
    }
}
