//! How long the leases of this engine's own life really last, by a clock that never jumps.
//!
//! Owns the answer to one question: may a lease that is over by the wall clock still have a worker at
//! it? A wall clock that jumps forward ends every lease at once, while the calls go on; until the
//! monotonic time of a lease is over too, nobody else may be given its record (no two live attempts).
//! Pure: told both times by the caller. Leases of an earlier life are not here; nobody is at them.

use crate::record::Identity;
use std::collections::HashMap;

/// The end of each lease by the monotonic clock, in its own seconds.
#[derive(Debug, Default)]
pub struct Tenures {
    ends: HashMap<Identity, f64>,
}

impl Tenures {
    /// A lease was given out.
    pub fn begin(&mut self, identity: Identity, ends_at_steady_seconds: f64) {
        self.ends.insert(identity, ends_at_steady_seconds);
    }

    /// The record is leased no more.
    pub fn end(&mut self, identity: &Identity) {
        self.ends.remove(identity);
    }

    /// For how many seconds more somebody may be at the record; `None` when nobody is.
    #[must_use]
    pub fn left(&self, identity: &Identity, steady_seconds: f64) -> Option<f64> {
        let left = self.ends.get(identity)? - steady_seconds;
        (left > 0.0).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_lasts_until_its_own_time_is_over_and_no_longer() {
        let (mut tenures, record) = (Tenures::default(), Identity::new("event-1"));
        assert_eq!(tenures.left(&record, 0.0), None);
        tenures.begin(record.clone(), 60.0);
        assert_eq!(tenures.left(&record, 59.5), Some(0.5));
        assert_eq!(tenures.left(&record, 60.0), None);
        tenures.end(&record);
        assert_eq!(tenures.left(&record, 0.0), None);
    }
}
