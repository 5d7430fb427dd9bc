//! Delays of one flow, the back-off they make (contract 1.3), and a limit for lost leases.

use super::Part;
use crate::contract::time::Duration;
use std::num::NonZeroU32;

/// How long records wait, and how often they may lose their lease.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    base_delay: Duration,
    max_delay: Duration,
    poll_interval: Duration,
    retry_after_max: Duration,
    jitter_share: f64,
    unclean_losses_max: Option<NonZeroU32>,
}

/// Delays in seconds, each more than 0 and at most a day, base at most max; and a share of them.
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
    /// How much shorter a back-off may be than its length, as a share of it, 0 to 1; default 0. Which
    /// part of that a record gets follows from its identity and attempt, so that those that failed
    /// together are not tried again together. Polls are not spread: each comes a poll interval after
    /// the answer before, and answers come one by one.
    pub jitter_share: f64,
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            base_delay_seconds: 5.0,
            max_delay_seconds: 300.0,
            poll_interval_seconds: 30.0,
            retry_after_max_seconds: 3600.0,
            jitter_share: 0.0,
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
            jitter_share: delays.jitter_share,
            unclean_losses_max: None,
        };
        let share = (0.0..=1.0).contains(&policy.jitter_share);
        if policy.base_delay > policy.max_delay || !share { Err(DelayInvalid) } else { Ok(policy) }
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

    /// The back-off less its jitter, or what the other side asked for where that is longer, up to the
    /// limit: what was asked for is never shortened. `part` is asked only where there is jitter.
    #[must_use]
    pub fn delay(
        &self,
        n: u32,
        retry_after: Option<Duration>,
        part: impl FnOnce() -> Part,
    ) -> Duration {
        let own = self.less_jitter(self.back_off(n), part);
        retry_after.map_or(own, |asked| own.max(asked.min(self.retry_after_max)))
    }

    fn less_jitter(&self, delay: Duration, part: impl FnOnce() -> Part) -> Duration {
        if self.jitter_share == 0.0 {
            return delay;
        }
        let left = 1.0 - self.jitter_share * part().get();
        // A delay that would be too short for a double is no length of time any more.
        Duration::new(delay.seconds() * left).unwrap_or(delay)
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
    use crate::record::{FlowTag, Identity};
    use proptest::prelude::*;

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
        let delay = |asked| {
            let never = || unreachable!("there is no jitter");
            policy.delay(1, asked, never).seconds()
        };
        assert_eq!(delay(None), 5.0);
        assert_eq!(delay(asked(1.0)), 5.0);
        assert_eq!(delay(asked(60.0)), 60.0);
        assert_eq!(delay(asked(86_400.0)), 3_600.0);
    }

    fn jittered(base: f64, jitter_share: f64) -> Result<Policy, DelayInvalid> {
        let delays = Delays { base_delay_seconds: base, jitter_share, ..Delays::default() };
        Policy::new(delays)
    }

    fn part(identity: &str, attempt: u32) -> Part {
        Part::of(FlowTag::Dispatch, &Identity::new(identity), attempt)
    }

    #[test]
    fn jitter_is_a_share_from_nothing_to_all() {
        for bad in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert_eq!(jittered(5.0, bad), Err(DelayInvalid), "{bad}");
        }
        assert!(jittered(5.0, 0.0).is_ok() && jittered(5.0, 1.0).is_ok());
    }

    #[test]
    fn jitter_never_makes_a_delay_nothing_however_short_it_is() {
        let policy = jittered(f64::MIN_POSITIVE, 1.0).expect("within limits");
        for n in 0..1_000 {
            let delay = policy.delay(1, None, || part("event-1", n));
            assert!(delay.seconds() > 0.0);
        }
    }

    proptest! {
        #[test]
        fn jitter_shortens_a_back_off_by_no_more_than_its_share_and_always_alike(
            base in 0.001..300.0_f64,
            share in 0.0..=1.0_f64,
            n in 0..40_u32,
            identity in "[a-z]{1,12}",
            asked in proptest::option::of(0.001..4_000.0_f64),
        ) {
            let policy = jittered(base, share).expect("within limits");
            let (whole, asked) = (policy.back_off(n).seconds(), asked.and_then(Duration::new));
            let delay = policy.delay(n, asked, || part(&identity, n)).seconds();
            let again = policy.delay(n, asked, || part(&identity, n)).seconds();
            prop_assert_eq!(delay, again);
            let least = whole * (1.0 - share);
            let floor = asked.map_or(0.0, |asked| asked.seconds().min(3_600.0));
            prop_assert!(delay > 0.0 && delay >= least * (1.0 - 1e-9) && delay >= floor);
            prop_assert!(delay <= whole.max(floor));
            if floor >= whole {
                prop_assert_eq!(delay, floor, "what was asked for is neither shorter nor longer");
            }
        }
    }

    #[test]
    fn records_that_failed_together_are_spread_evenly_over_the_share() {
        let policy = jittered(100.0, 0.4).expect("within limits");
        let mut quarters = [0_u32; 4];
        for number in 0..4_000 {
            let delay = policy.delay(1, None, || part(&format!("event-{number}"), 1)).seconds();
            assert!(delay > 60.0 && delay <= 100.0, "{delay}");
            quarters[((delay - 60.0) / 10.0).min(3.0) as usize] += 1;
        }
        // Six standard deviations of an even spread, which are 27 each.
        assert!(quarters.iter().all(|count| (836..=1_164).contains(count)), "{quarters:?}");
    }
}
