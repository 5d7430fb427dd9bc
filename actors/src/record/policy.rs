//! Delays of one flow, the back-off they make (contract 1.3), and a limit for lost leases.

use crate::contract::time::Duration;
use std::num::NonZeroU32;

/// How long records wait, and how often they may lose their lease.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    base_delay: Duration,
    max_delay: Duration,
    poll_interval: Duration,
    retry_after_max: Duration,
    unclean_losses_max: Option<NonZeroU32>,
}

/// Delays in seconds, each more than 0 and at most a day, base at most max.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Delays {
    /// After the first failure; default 5.
    pub base_delay_seconds: f64,
    /// Never longer than this; default 300.
    pub max_delay_seconds: f64,
    /// Between two polls; default 30.
    pub poll_interval_seconds: f64,
    /// Largest `Retry-After` of the other side that is honoured; default 3600.
    pub retry_after_max_seconds: f64,
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            base_delay_seconds: 5.0,
            max_delay_seconds: 300.0,
            poll_interval_seconds: 30.0,
            retry_after_max_seconds: 3600.0,
        }
    }
}

/// Delays outside of their limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("delay_invalid")]
pub struct DelayInvalid;

impl Policy {
    /// Checks the delays.
    ///
    /// # Errors
    /// [`DelayInvalid`].
    pub fn new(delays: Delays) -> Result<Self, DelayInvalid> {
        let duration = |seconds| Duration::new(seconds).ok_or(DelayInvalid);
        let policy = Self {
            base_delay: duration(delays.base_delay_seconds)?,
            max_delay: duration(delays.max_delay_seconds)?,
            poll_interval: duration(delays.poll_interval_seconds)?,
            retry_after_max: duration(delays.retry_after_max_seconds)?,
            unclean_losses_max: None,
        };
        if policy.base_delay > policy.max_delay { Err(DelayInvalid) } else { Ok(policy) }
    }

    /// The same with a limit for leases lost in a row: a record that reaches it is failed, for an
    /// operator to look at. `None`, as [`Self::new`] has it, is no limit beside the record's own ceiling:
    /// the reference knows none.
    #[must_use]
    pub fn with_unclean_losses_max(self, unclean_losses_max: Option<NonZeroU32>) -> Self {
        Self { unclean_losses_max, ..self }
    }

    /// Whether a record that lost so many leases in a row is left to an operator.
    #[must_use]
    pub fn gives_up_after(&self, losses: u32) -> bool {
        self.unclean_losses_max.is_some_and(|max| losses >= max.get())
    }

    /// min(max delay, base delay × 2^(n - 1)); n counts from 1.
    #[must_use]
    pub fn back_off(&self, n: u32) -> Duration {
        // As many as a double's exponent holds. A base for which more would matter waits less than a
        // microsecond then.
        let doublings = n.saturating_sub(1).min(1_000);
        let seconds = self.base_delay.seconds() * f64::powi(2.0, doublings as i32);
        Duration::new(seconds).unwrap_or(self.max_delay).min(self.max_delay)
    }

    /// The back-off, or what the other side asked for where that is longer, up to the limit.
    #[must_use]
    pub fn delay(&self, n: u32, retry_after: Option<Duration>) -> Duration {
        let own = self.back_off(n);
        retry_after.map_or(own, |asked| own.max(asked.min(self.retry_after_max)))
    }

    /// Time between two polls.
    #[must_use]
    pub fn poll_interval(&self) -> Duration {
        self.poll_interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(base: f64, max: f64) -> Result<Policy, DelayInvalid> {
        Policy::new(Delays {
            base_delay_seconds: base,
            max_delay_seconds: max,
            ..Delays::default()
        })
    }

    #[test]
    fn delays_outside_of_their_limits_are_refused() {
        for (base, max) in [(0.0, 5.0), (-1.0, 5.0), (6.0, 5.0), (5.0, 86_401.0), (f64::NAN, 5.0)] {
            assert_eq!(policy(base, max), Err(DelayInvalid), "{base} {max}");
        }
        assert!(policy(5.0, 5.0).is_ok());
    }

    #[test]
    fn there_is_no_limit_for_lost_leases_unless_one_is_set() {
        let none = policy(5.0, 20.0).expect("within limits");
        assert!(!none.gives_up_after(u32::MAX));
        let three = none.with_unclean_losses_max(NonZeroU32::new(3));
        assert_eq!([2, 3, 4].map(|losses| three.gives_up_after(losses)), [false, true, true]);
    }

    #[test]
    fn back_off_doubles_up_to_its_limit_for_every_number_there_is() {
        let policy = policy(5.0, 20.0).expect("within limits");
        let delays: Vec<_> = (0..6).map(|n| policy.back_off(n).seconds()).collect();
        assert_eq!(delays, [5.0, 5.0, 10.0, 20.0, 20.0, 20.0]);
        for n in (0..100_000).chain([u32::MAX]) {
            let seconds = policy.back_off(n).seconds();
            assert!((5.0..=20.0).contains(&seconds), "{n}");
        }
    }

    #[test]
    fn back_off_is_exact_at_the_corners_of_its_range() {
        let smallest = policy(f64::MIN_POSITIVE, 86_400.0).expect("within limits");
        assert_eq!(smallest.back_off(1).seconds(), f64::MIN_POSITIVE);
        assert_eq!(
            smallest.back_off(u32::MAX).seconds(),
            f64::MIN_POSITIVE * f64::powi(2.0, 1_000)
        );
        let largest = policy(86_400.0, 86_400.0).expect("within limits");
        assert_eq!(largest.back_off(2).seconds(), 86_400.0);
    }

    #[test]
    fn retry_after_lengthens_and_never_shortens_and_is_clamped() {
        let policy = policy(5.0, 20.0).expect("within limits");
        let asked = |seconds| Duration::new(seconds);
        assert_eq!(policy.delay(1, None).seconds(), 5.0);
        assert_eq!(policy.delay(1, asked(1.0)).seconds(), 5.0);
        assert_eq!(policy.delay(1, asked(60.0)).seconds(), 60.0);
        assert_eq!(policy.delay(1, asked(86_400.0)).seconds(), 3_600.0);
    }
}
