//! Times, durations and ceilings (contract 1.3).
//!
//! Owns their checks. Must not read a clock.

use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Longest lease, delay and poll interval: a day.
pub const DURATION_SECONDS_MAX: f64 = 86_400.0;
/// Largest ceiling of attempts or failures.
pub const CEILING_MAX: u8 = 20;

/// Seconds since 1970, finite and not negative.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Timestamp(f64);

impl Timestamp {
    /// The earliest time.
    pub const ZERO: Self = Self(0.0);

    /// Checks the range; `-0.0` passes and becomes `0.0`.
    #[must_use]
    pub fn new(seconds: f64) -> Option<Self> {
        (seconds.is_finite() && seconds >= 0.0).then_some(Self(seconds + 0.0))
    }

    /// The seconds.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0
    }

    /// The whole second it is in.
    #[must_use]
    pub fn whole_seconds(self) -> Self {
        Self(self.0.floor())
    }

    /// This time and a duration later. Far out where a double has no finer steps, it may be the same
    /// time; it never overflows, since both are far below a double's range in practice and are
    /// clamped to it otherwise.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self((self.0 + duration.0).min(f64::MAX))
    }
}

impl PartialEq for Timestamp {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Timestamp {}

impl PartialOrd for Timestamp {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timestamp {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl TryFrom<f64> for Timestamp {
    type Error = &'static str;
    fn try_from(seconds: f64) -> Result<Self, Self::Error> {
        Self::new(seconds).ok_or("time_invalid")
    }
}

impl From<Timestamp> for f64 {
    fn from(time: Timestamp) -> Self {
        time.0
    }
}

/// Seconds, more than 0 and at most [`DURATION_SECONDS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Duration(f64);

impl Duration {
    /// Checks the range.
    #[must_use]
    pub fn new(seconds: f64) -> Option<Self> {
        (seconds > 0.0 && seconds <= DURATION_SECONDS_MAX).then_some(Self(seconds))
    }

    /// The seconds.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0
    }

    /// The shorter of two.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        if other.0 < self.0 { other } else { self }
    }

    /// The longer of two.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        if other.0 > self.0 { other } else { self }
    }
}

/// How many attempts, or failures in a row, a record may have: 1 to [`CEILING_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Ceiling(u8);

impl Ceiling {
    /// What is used where nothing is said.
    pub const DEFAULT: i64 = 5;

    /// Checks the range.
    #[must_use]
    pub fn new(value: i64) -> Option<Self> {
        u8::try_from(value).ok().filter(|value| (1..=CEILING_MAX).contains(value)).map(Self)
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0.into()
    }
}

impl TryFrom<u8> for Ceiling {
    type Error = &'static str;
    fn try_from(value: u8) -> Result<Self, Self::Error> {
        Self::new(value.into()).ok_or("ceiling_invalid")
    }
}

impl From<Ceiling> for u8 {
    fn from(ceiling: Ceiling) -> Self {
        ceiling.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_finite_and_not_negative() {
        for good in [0.0, -0.0, 1.5, 1e300, f64::MAX] {
            assert!(Timestamp::new(good).is_some(), "{good}");
        }
        for bad in [-1.0, -f64::MIN_POSITIVE, f64::NAN, f64::INFINITY] {
            assert!(Timestamp::new(bad).is_none(), "{bad}");
        }
        assert_eq!(Timestamp::new(-0.0), Some(Timestamp::ZERO));
    }

    #[test]
    fn durations_and_ceilings_include_their_limits() {
        for (seconds, good) in [
            (0.0, false),
            (0.5, true),
            (86_400.0, true),
            (86_400.1, false),
            (-1.0, false),
            (f64::NAN, false),
        ] {
            assert_eq!(Duration::new(seconds).is_some(), good, "{seconds}");
        }
        for (value, good) in
            [(0, false), (1, true), (20, true), (21, false), (-1, false), (i64::MAX, false)]
        {
            assert_eq!(Ceiling::new(value).is_some(), good, "{value}");
        }
    }

    #[test]
    fn the_far_end_of_time_is_clamped() {
        let end = Timestamp::new(f64::MAX).expect("finite");
        let day = Duration::new(DURATION_SECONDS_MAX).expect("a day");
        assert_eq!(end.after(day), end);
    }
}
