//! Whether a side is thought to work, and how the backlog is let go after an outage.
//!
//! Closed → open after so many failures in a row → half open when its time is over, with one probe →
//! recovering when that was answered, with 1, 2, 4, ... calls at once → closed. A probe that fails opens
//! it for twice as long. Probes are numbered, so that each can be made with another record: with always the
//! same one a record that no side could take would keep the side closed to all others.
//!
//! Failures while it recovers are counted as while it is closed. Going back a step at each of them was
//! ruled out: a side that loses one call in ten would never be asked at its full width.

use super::limits::Limits;
use serde::Serialize;

/// How a gate stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GateState {
    /// The side works: everything up to the limits goes through.
    Closed,
    /// The side is down: nothing goes through.
    Open,
    /// One call finds out.
    HalfOpen,
    /// The backlog is let go in growing steps; also after a start and after a `Retry-After`.
    Recovering,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Closed,
    Open { until: f64 },
    HalfOpen,
    Recovering { allowed: usize, answered: usize },
}

const FIRST_STEP: Phase = Phase::Recovering { allowed: 1, answered: 0 };

/// The breaker of one side.
#[derive(Debug)]
pub(super) struct Breaker {
    phase: Phase,
    /// Counts up whenever what is under way says nothing about what follows: calls that started before
    /// an outage and fail late must not open the breaker again.
    era: u64,
    failures_in_a_row: u32,
    /// How often it opened since it was last closed.
    opened_in_a_row: u32,
}

impl Breaker {
    pub(super) fn new(limits: &Limits) -> Self {
        let phase = if limits.slow_start { FIRST_STEP } else { Phase::Closed };
        Self { phase, era: 0, failures_in_a_row: 0, opened_in_a_row: 0 }
    }

    /// Lets time pass.
    pub(super) fn wake(&mut self, now: f64) {
        if matches!(self.phase, Phase::Open { until } if until <= now) {
            self.phase = Phase::HalfOpen;
        }
    }

    pub(super) fn era(&self) -> u64 {
        self.era
    }

    pub(super) fn failures_in_a_row(&self) -> u32 {
        self.failures_in_a_row
    }

    pub(super) fn state(&self) -> GateState {
        match self.phase {
            Phase::Closed => GateState::Closed,
            Phase::Open { .. } => GateState::Open,
            Phase::HalfOpen => GateState::HalfOpen,
            Phase::Recovering { .. } => GateState::Recovering,
        }
    }

    /// When the probe may go; `None` while it is not open.
    pub(super) fn open_until(&self) -> Option<f64> {
        match self.phase {
            Phase::Open { until } => Some(until),
            Phase::Closed | Phase::HalfOpen | Phase::Recovering { .. } => None,
        }
    }

    /// How many probes came before the one that may go now; `None` while none may.
    pub(super) fn probe(&self) -> Option<u32> {
        match self.phase {
            Phase::HalfOpen => Some(self.opened_in_a_row.saturating_sub(1)),
            Phase::Closed | Phase::Open { .. } | Phase::Recovering { .. } => None,
        }
    }

    /// Calls of this era that may be under way at once.
    pub(super) fn allowed(&self, limits: &Limits) -> usize {
        match self.phase {
            Phase::Closed => limits.in_flight_max,
            Phase::Open { .. } => 0,
            Phase::HalfOpen => 1,
            Phase::Recovering { allowed, .. } => allowed,
        }
    }

    /// How much of the rate it lets through. Of n steps up to the limit the first gets 1 part in n + 1:
    /// a rate that doubled with the calls at once would keep a slow side at a crawl for minutes.
    pub(super) fn share(&self, limits: &Limits) -> f64 {
        match self.phase {
            Phase::Closed | Phase::Open { .. } | Phase::HalfOpen => 1.0,
            Phase::Recovering { allowed, .. } => {
                let steps = limits.in_flight_max.next_power_of_two().ilog2();
                f64::from(allowed.ilog2() + 1) / f64::from(steps.max(1) + 1)
            }
        }
    }

    /// The side did something with a call. Answers whether the recovery starts with it.
    pub(super) fn answered(&mut self, limits: &Limits) -> bool {
        self.failures_in_a_row = 0;
        match self.phase {
            Phase::HalfOpen => {
                self.phase = FIRST_STEP;
                true
            }
            Phase::Recovering { allowed, answered } if answered + 1 < allowed => {
                self.phase = Phase::Recovering { allowed, answered: answered + 1 };
                false
            }
            Phase::Recovering { allowed, .. } if allowed * 2 < limits.in_flight_max => {
                self.phase = Phase::Recovering { allowed: allowed * 2, answered: 0 };
                false
            }
            Phase::Recovering { .. } => {
                self.phase = Phase::Closed;
                self.opened_in_a_row = 0;
                false
            }
            Phase::Closed | Phase::Open { .. } => false,
        }
    }

    /// A call failed in a way that may pass.
    pub(super) fn failed(&mut self, limits: &Limits, now: f64) {
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        let opens = match self.phase {
            Phase::HalfOpen => true,
            Phase::Closed | Phase::Recovering { .. } => {
                self.failures_in_a_row >= limits.breaker_failures
            }
            Phase::Open { .. } => false,
        };
        if opens {
            // More doublings than that are over any limit.
            let doublings = self.opened_in_a_row.min(64);
            let seconds = limits.breaker_open_seconds * f64::powi(2.0, doublings as i32);
            self.phase = Phase::Open { until: now + seconds.min(limits.breaker_open_max_seconds) };
            self.opened_in_a_row = self.opened_in_a_row.saturating_add(1);
            self.era += 1;
        }
    }

    /// The side works and asks to be left alone for a while. What waits meanwhile is a backlog too: it is
    /// let go with half as many calls at once as before. Starting from one again was ruled out: a side
    /// that says so to one call in ten would be asked one by one.
    pub(super) fn throttled(&mut self, limits: &Limits) {
        let before = match self.phase {
            Phase::Closed => limits.in_flight_max.next_power_of_two(),
            Phase::Recovering { allowed, .. } => allowed,
            Phase::Open { .. } | Phase::HalfOpen => 1,
        };
        self.failures_in_a_row = 0;
        self.phase = Phase::Recovering { allowed: (before / 2).max(1), answered: 0 };
        self.era += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        in_flight_max: 8,
        requests_per_second: None,
        burst: 1,
        breaker_failures: 3,
        breaker_open_seconds: 5.0,
        breaker_open_max_seconds: 12.0,
        retry_after_max_seconds: 60.0,
        slow_start: false,
    };

    fn opened(breaker: &mut Breaker, now: f64) {
        while breaker.state() != GateState::Open {
            breaker.failed(&LIMITS, now);
        }
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_an_answer_between_starts_again() {
        let mut breaker = Breaker::new(&LIMITS);
        breaker.failed(&LIMITS, 0.0);
        breaker.failed(&LIMITS, 0.0);
        breaker.answered(&LIMITS);
        breaker.failed(&LIMITS, 0.0);
        breaker.failed(&LIMITS, 0.0);
        assert_eq!((breaker.state(), breaker.allowed(&LIMITS)), (GateState::Closed, 8));
        breaker.failed(&LIMITS, 7.0);
        assert_eq!((breaker.state(), breaker.allowed(&LIMITS)), (GateState::Open, 0));
        assert_eq!(breaker.open_until(), Some(12.0));
    }

    #[test]
    fn a_probe_that_fails_opens_it_for_twice_as_long_up_to_its_limit() {
        let mut breaker = Breaker::new(&LIMITS);
        opened(&mut breaker, 0.0);
        for (probes, now, until) in
            [(0, 5.0, 15.0), (1, 15.0, 27.0), (2, 27.0, 39.0), (3, 39.0, 51.0)]
        {
            breaker.wake(now - 0.1);
            assert_eq!(breaker.state(), GateState::Open);
            assert_eq!(breaker.probe(), None);
            breaker.wake(now);
            assert_eq!((breaker.state(), breaker.allowed(&LIMITS)), (GateState::HalfOpen, 1));
            assert_eq!(breaker.probe(), Some(probes));
            breaker.failed(&LIMITS, now);
            assert_eq!(breaker.open_until(), Some(until));
        }
    }

    #[test]
    fn after_a_probe_that_is_answered_the_backlog_is_let_go_in_doubling_steps() {
        let mut breaker = Breaker::new(&LIMITS);
        opened(&mut breaker, 0.0);
        breaker.wake(5.0);
        assert!(breaker.answered(&LIMITS), "the recovery starts");
        let mut steps = Vec::new();
        while breaker.state() == GateState::Recovering {
            steps.push((breaker.allowed(&LIMITS), breaker.share(&LIMITS)));
            assert!(!breaker.answered(&LIMITS));
        }
        let expected = [(1, 0.25), (2, 0.5), (2, 0.5), (4, 0.75), (4, 0.75), (4, 0.75), (4, 0.75)];
        assert_eq!(steps, expected);
        assert_eq!((breaker.state(), breaker.share(&LIMITS)), (GateState::Closed, 1.0));
        opened(&mut breaker, 100.0);
        assert_eq!(
            breaker.open_until(),
            Some(105.0),
            "once closed it starts again at the shortest"
        );
    }

    #[test]
    fn a_side_that_fails_again_while_it_recovers_is_left_alone_for_longer() {
        let mut breaker = Breaker::new(&LIMITS);
        opened(&mut breaker, 0.0);
        breaker.wake(5.0);
        breaker.answered(&LIMITS);
        opened(&mut breaker, 6.0);
        assert_eq!(breaker.open_until(), Some(16.0));
    }

    #[test]
    fn a_slow_start_is_a_recovery_and_each_retry_after_halves_the_calls_at_once() {
        let slow = Breaker::new(&Limits { slow_start: true, ..LIMITS });
        assert_eq!((slow.state(), slow.allowed(&LIMITS)), (GateState::Recovering, 1));
        let mut breaker = Breaker::new(&LIMITS);
        for allowed in [4, 2, 1, 1] {
            let era = breaker.era();
            breaker.throttled(&LIMITS);
            assert_eq!(
                (breaker.state(), breaker.allowed(&LIMITS)),
                (GateState::Recovering, allowed)
            );
            assert_ne!(breaker.era(), era);
        }
        let odd = Limits { in_flight_max: 5, ..LIMITS };
        let mut breaker = Breaker::new(&odd);
        breaker.throttled(&odd);
        assert_eq!(breaker.allowed(&odd), 4, "the step below");
    }

    #[test]
    fn a_side_of_one_call_at_once_recovers_with_one_answer() {
        let narrow = Limits { in_flight_max: 1, slow_start: true, ..LIMITS };
        let mut breaker = Breaker::new(&narrow);
        assert_eq!(breaker.share(&narrow), 0.5);
        breaker.answered(&narrow);
        assert_eq!(breaker.state(), GateState::Closed);
    }
}
