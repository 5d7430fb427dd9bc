//! The server's clock, as this process sees it.
//!
//! Owns the estimate: how far the server's time is from this process's monotonic clock. A sample is as good
//! as its round trip was short, and one that is old gives way to any newer one, since clocks drift and
//! servers are replaced.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// How long a sample is preferred to worse ones, in seconds.
const KEPT_SECONDS: f64 = 30.0;
/// A round trip this much longer than the best one still makes a better sample than none, in seconds.
const GOOD_SECONDS: f64 = 0.002;

#[derive(Debug, Clone, Copy)]
struct Sample {
    /// Server's seconds since 1970 less this clock's.
    offset: f64,
    round_trip: f64,
    taken: f64,
}

/// The estimate.
#[derive(Debug)]
pub(super) struct ServerClock {
    started: Instant,
    best: Mutex<Option<Sample>>,
}

impl ServerClock {
    #[allow(clippy::disallowed_methods)] // measures round trips; every time that counts is the server's
    pub(super) fn new() -> Self {
        Self { started: Instant::now(), best: Mutex::new(None) }
    }

    /// Seconds of this process's monotonic clock.
    pub(super) fn steady(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Takes the server's time, asked for at `asked` and answered at `answered` by [`Self::steady`].
    pub(super) fn sample(&self, server_seconds: f64, asked: f64, answered: f64) {
        let round_trip = answered - asked;
        let sample = Sample {
            offset: server_seconds - (asked + answered) / 2.0,
            round_trip,
            taken: answered,
        };
        let mut best = self.best.lock().unwrap_or_else(PoisonError::into_inner);
        let keep = best.is_some_and(|best| {
            answered - best.taken < KEPT_SECONDS && round_trip > best.round_trip + GOOD_SECONDS
        });
        if !keep {
            *best = Some(sample);
        }
    }

    /// The server's seconds since 1970; `None` before it was asked.
    pub(super) fn seconds(&self) -> Option<f64> {
        let best = *self.best.lock().unwrap_or_else(PoisonError::into_inner);
        best.map(|best| self.steady() + best.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset(clock: &ServerClock) -> f64 {
        clock.best.lock().expect("not poisoned").expect("a sample").offset
    }

    #[test]
    fn a_short_round_trip_is_believed_and_a_long_one_only_when_there_is_nothing_better() {
        let clock = ServerClock::new();
        assert_eq!(clock.seconds(), None);
        clock.sample(1000.0, 1.0, 3.0);
        assert_eq!(offset(&clock), 998.0, "in the middle of the round trip");
        clock.sample(1003.0, 4.0, 4.001);
        assert!((offset(&clock) - 998.9995).abs() < 1e-9);
        clock.sample(1008.0, 5.0, 7.0);
        assert!((offset(&clock) - 998.9995).abs() < 1e-9, "two seconds on the way");
        clock.sample(2000.0, 40.0, 42.0);
        assert_eq!(offset(&clock), 1959.0, "what is old gives way");
        assert!(clock.seconds().is_some_and(|seconds| seconds >= 1959.0));
    }
}
