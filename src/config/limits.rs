//! What the other sides are asked for at most: the limits in `[cms]`, `[receiver]` and `[source]`.

use super::{ConfigInvalid, value};
use leasehold_actors::destination::{Limits, LimitsInvalid};

/// Limits of the three sides; a side that is not configured has the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SideLimits {
    /// The CMS.
    pub cms: Limits,
    /// The receiver.
    pub receiver: Limits,
    /// The source runtime.
    pub source: Limits,
}

/// Calls at once over all sides: what the three may have by default.
pub(super) fn overall_in_flight_max() -> usize {
    3 * in_flight_max()
}

pub(super) fn in_flight_max() -> usize {
    Limits::default().in_flight_max
}

pub(super) fn burst() -> u32 {
    Limits::default().burst
}

pub(super) fn breaker_failures() -> u32 {
    Limits::default().breaker_failures
}

pub(super) fn breaker_open_seconds() -> f64 {
    Limits::default().breaker_open_seconds
}

pub(super) fn breaker_open_max_seconds() -> f64 {
    Limits::default().breaker_open_max_seconds
}

/// The names of one side's keys, for messages.
pub(super) struct Keys {
    in_flight_max: &'static str,
    requests_per_second: &'static str,
    burst: &'static str,
    breaker_failures: &'static str,
    breaker_open: &'static str,
    breaker_open_max: &'static str,
    /// The key of the side's first flow; all of them have it.
    retry_after_max: &'static str,
}

pub(super) const CMS: Keys = Keys {
    in_flight_max: "cms.in_flight_max",
    requests_per_second: "cms.requests_per_second",
    burst: "cms.burst",
    breaker_failures: "cms.breaker_failures",
    breaker_open: "cms.breaker_open_seconds",
    breaker_open_max: "cms.breaker_open_max_seconds",
    retry_after_max: "dispatch.retry_after_max_seconds",
};
pub(super) const RECEIVER: Keys = Keys {
    in_flight_max: "receiver.in_flight_max",
    requests_per_second: "receiver.requests_per_second",
    burst: "receiver.burst",
    breaker_failures: "receiver.breaker_failures",
    breaker_open: "receiver.breaker_open_seconds",
    breaker_open_max: "receiver.breaker_open_max_seconds",
    retry_after_max: "notification.retry_after_max_seconds",
};
pub(super) const SOURCE: Keys = Keys {
    in_flight_max: "source.in_flight_max",
    requests_per_second: "source.requests_per_second",
    burst: "source.burst",
    breaker_failures: "source.breaker_failures",
    breaker_open: "source.breaker_open_seconds",
    breaker_open_max: "source.breaker_open_max_seconds",
    retry_after_max: "delivery.retry_after_max_seconds",
};

pub(super) fn check(limits: &Limits, keys: &Keys) -> Result<(), ConfigInvalid> {
    const DAY: &str = "more than 0, at most 86400";
    let (key, rule) = match limits.check() {
        Ok(()) => return Ok(()),
        Err(LimitsInvalid::InFlightMax) => (keys.in_flight_max, "1 to 1024"),
        Err(LimitsInvalid::RequestsPerSecond) => (keys.requests_per_second, "0.001 to 100000"),
        Err(LimitsInvalid::Burst) => (keys.burst, "1 to 10000"),
        Err(LimitsInvalid::BreakerFailures) => (keys.breaker_failures, "1 to 1000"),
        Err(LimitsInvalid::BreakerOpen) => (keys.breaker_open, DAY),
        Err(LimitsInvalid::BreakerOpenMax) => {
            (keys.breaker_open_max, "at least the side's breaker_open_seconds, at most 86400")
        }
        Err(LimitsInvalid::RetryAfterMax) => (keys.retry_after_max, DAY),
        Err(LimitsInvalid::OverallInFlightMax) => (OVERALL_KEY, OVERALL_RULE),
    };
    Err(value(key, rule))
}

const OVERALL_KEY: &str = "in_flight_max";
const OVERALL_RULE: &str = "3 to 3072";

/// Each of three sides needs a call of its own; more than all of them may have means nothing.
pub(super) fn check_overall(in_flight_max: usize) -> Result<(), ConfigInvalid> {
    if (3..=3072).contains(&in_flight_max) { Ok(()) } else { Err(value(OVERALL_KEY, OVERALL_RULE)) }
}
