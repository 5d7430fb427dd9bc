//! The numbers of one side and their checks.

use crate::contract::time::DURATION_SECONDS_MAX;

/// What one side is asked for at most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Calls under way at once, 1 to 1024; default 64.
    pub in_flight_max: usize,
    /// Calls that start per second, 0.001 to 100,000; default no limit.
    pub requests_per_second: Option<f64>,
    /// Calls that may start at once after a pause, 1 to 10,000; default 10. Means nothing without
    /// `requests_per_second`.
    pub burst: u32,
    /// The breaker opens after so many failures in a row that may pass, 1 to 1,000; default 10. From then on
    /// failures spend nobody's attempts, so a record that is alone in failing is given up only where its
    /// ceiling is at most this.
    pub breaker_failures: u32,
    /// How long it stays open the first time, in seconds, more than 0 and at most a day; default 5.
    /// Doubles each time that it opens again before it was closed.
    pub breaker_open_seconds: f64,
    /// Never longer than this, in seconds, at least `breaker_open_seconds` and at most a day; default 60.
    pub breaker_open_max_seconds: f64,
    /// Largest `Retry-After` that is honoured for the whole side, in seconds, more than 0 and at most a
    /// day; default 3600.
    pub retry_after_max_seconds: f64,
    /// Whether a new gate starts as after an outage, with one call at once; default true. Nothing of a
    /// gate outlives its process, so a side that was down before a restart is met gently again. Who knows
    /// that there was no process before passes false.
    pub slow_start: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            in_flight_max: 64,
            requests_per_second: None,
            burst: 10,
            breaker_failures: 10,
            breaker_open_seconds: 5.0,
            breaker_open_max_seconds: 60.0,
            retry_after_max_seconds: 3600.0,
            slow_start: true,
        }
    }
}

/// Which limit is outside of its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LimitsInvalid {
    /// `in_flight_max`.
    #[error("in_flight_max_invalid")]
    InFlightMax,
    /// `requests_per_second`.
    #[error("requests_per_second_invalid")]
    RequestsPerSecond,
    /// `burst`.
    #[error("burst_invalid")]
    Burst,
    /// `breaker_failures`.
    #[error("breaker_failures_invalid")]
    BreakerFailures,
    /// `breaker_open_seconds`.
    #[error("breaker_open_seconds_invalid")]
    BreakerOpen,
    /// `breaker_open_max_seconds`.
    #[error("breaker_open_max_seconds_invalid")]
    BreakerOpenMax,
    /// `retry_after_max_seconds`.
    #[error("retry_after_max_seconds_invalid")]
    RetryAfterMax,
    /// The limit over all sides: outside of its range, or below the number of sides.
    #[error("overall_in_flight_max_invalid")]
    OverallInFlightMax,
}

impl Limits {
    /// Checks every range.
    ///
    /// # Errors
    /// The first limit outside of its range.
    pub fn check(&self) -> Result<(), LimitsInvalid> {
        let day = |seconds: f64| seconds > 0.0 && seconds <= DURATION_SECONDS_MAX;
        let rate = self.requests_per_second.is_none_or(|rate| (0.001..=100_000.0).contains(&rate));
        let open_max = self.breaker_open_max_seconds;
        let rules = [
            ((1..=1024).contains(&self.in_flight_max), LimitsInvalid::InFlightMax),
            (rate, LimitsInvalid::RequestsPerSecond),
            ((1..=10_000).contains(&self.burst), LimitsInvalid::Burst),
            ((1..=1_000).contains(&self.breaker_failures), LimitsInvalid::BreakerFailures),
            (day(self.breaker_open_seconds), LimitsInvalid::BreakerOpen),
            (day(open_max) && open_max >= self.breaker_open_seconds, LimitsInvalid::BreakerOpenMax),
            (day(self.retry_after_max_seconds), LimitsInvalid::RetryAfterMax),
        ];
        match rules.into_iter().find(|(kept, _)| !kept) {
            Some((_, invalid)) => Err(invalid),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_outside_of_their_ranges_are_named() {
        let good = Limits::default();
        assert_eq!(good.check(), Ok(()));
        let rate = |rate| Limits { requests_per_second: Some(rate), ..good };
        for (limits, invalid) in [
            (Limits { in_flight_max: 0, ..good }, LimitsInvalid::InFlightMax),
            (Limits { in_flight_max: 1025, ..good }, LimitsInvalid::InFlightMax),
            (rate(0.0), LimitsInvalid::RequestsPerSecond),
            (rate(f64::NAN), LimitsInvalid::RequestsPerSecond),
            (rate(f64::INFINITY), LimitsInvalid::RequestsPerSecond),
            (Limits { burst: 0, ..good }, LimitsInvalid::Burst),
            (Limits { breaker_failures: 0, ..good }, LimitsInvalid::BreakerFailures),
            (Limits { breaker_open_seconds: 0.0, ..good }, LimitsInvalid::BreakerOpen),
            (Limits { breaker_open_seconds: 60.1, ..good }, LimitsInvalid::BreakerOpenMax),
            (Limits { breaker_open_max_seconds: 86_401.0, ..good }, LimitsInvalid::BreakerOpenMax),
            (Limits { retry_after_max_seconds: f64::NAN, ..good }, LimitsInvalid::RetryAfterMax),
        ] {
            assert_eq!(limits.check(), Err(invalid), "{limits:?}");
        }
        assert_eq!(rate(0.001).check(), Ok(()));
    }
}
