//! What came of the attempts of the last ten minutes: counts in buckets of time.
//!
//! Owns the buckets. Pure: the time comes in.

use super::{BUCKET_SECONDS, BUCKETS};
use leasehold_actors::record::FlowTag;

/// What came of the attempts of the last ten minutes, by flow.
#[derive(Debug, Clone, Default)]
pub struct Rings([FlowRings; 5]);

#[derive(Debug, Clone, Default)]
struct FlowRings {
    settled: Ring,
    retried: Ring,
}

impl Rings {
    /// Settled and retried of each bucket, oldest first; the last one is the bucket of `at`.
    #[must_use]
    pub fn read(&self, flow: FlowTag, at: f64) -> (Vec<u64>, Vec<u64>) {
        let rings = &self.0[flow as usize - 1];
        (rings.settled.read(at), rings.retried.read(at))
    }

    /// Counts one attempt; `left` is the state it left its record in, as the flow calls it.
    pub fn note(&mut self, flow: FlowTag, left: &str, at: f64) {
        let rings = &mut self.0[flow as usize - 1];
        match left {
            "succeeded" | "terminal" | "failed" => rings.settled.add(at),
            "retry_wait" => rings.retried.add(at),
            _ => {} // a poll that learned nothing new
        }
    }
}

/// Counts in buckets of time, as many as are kept.
#[derive(Debug, Clone)]
struct Ring {
    /// Number of the newest bucket, counted from 1970.
    newest: u64,
    /// A bucket's place is its number, modulo [`BUCKETS`].
    counts: [u64; BUCKETS],
}

impl Default for Ring {
    fn default() -> Self {
        Self { newest: 0, counts: [0; BUCKETS] }
    }
}

impl Ring {
    fn add(&mut self, at: f64) {
        self.turn(bucket(at));
        // After a clock that went back the newest bucket takes what belongs before it.
        self.counts[place(self.newest)] += 1;
    }

    /// Oldest first; the last one is the bucket of `at`.
    fn read(&self, at: f64) -> Vec<u64> {
        let mut ring = self.clone();
        ring.turn(bucket(at));
        let oldest = (ring.newest + 1).saturating_sub(BUCKETS as u64);
        (oldest..oldest + BUCKETS as u64).map(|number| ring.counts[place(number)]).collect()
    }

    /// Empties the buckets that are over by now.
    fn turn(&mut self, newest: u64) {
        let over = newest.saturating_sub(self.newest).min(BUCKETS as u64);
        for number in 0..over {
            self.counts[place(newest - number)] = 0;
        }
        self.newest = self.newest.max(newest);
    }
}

/// Times before 1970 and no times at all count as 1970.
fn bucket(at: f64) -> u64 {
    (at / BUCKET_SECONDS) as u64
}

fn place(number: u64) -> usize {
    (number % BUCKETS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(rings: &Rings, at: f64) -> (Vec<u64>, Vec<u64>) {
        rings.read(FlowTag::Dispatch, at)
    }

    #[test]
    fn attempts_are_counted_in_the_bucket_of_their_time_and_forgotten_after_ten_minutes() {
        let mut rings = Rings::default();
        for (left, at) in [
            ("succeeded", 10_000.0),
            ("failed", 10_009.9),
            ("terminal", 10_010.0),
            ("retry_wait", 10_011.0),
            ("watching", 10_012.0),
        ] {
            rings.note(FlowTag::Dispatch, left, at);
        }
        let (settled, retried) = sums(&rings, 10_019.0);
        assert_eq!((&settled[57..], &retried[57..]), (&[0, 2, 1][..], &[0, 0, 1][..]));
        let (settled, _) = sums(&rings, 10_599.0);
        assert_eq!((settled[0], settled[1], settled.len()), (2, 1, BUCKETS));
        assert_eq!(sums(&rings, 10_610.0).0.iter().sum::<u64>(), 0);
        assert_eq!(sums(&rings, 9.0e18).0.iter().sum::<u64>(), 0);
    }

    #[test]
    fn a_clock_that_went_back_loses_no_attempt() {
        let mut rings = Rings::default();
        rings.note(FlowTag::Dispatch, "succeeded", 10_000.0);
        rings.note(FlowTag::Dispatch, "succeeded", 5_000.0);
        rings.note(FlowTag::Dispatch, "succeeded", -3.0);
        assert_eq!(sums(&rings, 10_001.0).0.last(), Some(&3));
    }
}
