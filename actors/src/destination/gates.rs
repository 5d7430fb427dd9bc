//! All sides under one limit.

use super::gate::{Gate, Outcome, Permit, Standing, Verdict};
use super::limits::{Limits, LimitsInvalid};
use super::overall::{Overall, Seat};

/// The gates of all sides.
#[derive(Debug)]
pub struct Gates {
    overall: Overall,
    gates: Vec<Gate>,
}

impl Gates {
    /// No gates yet; over all of them at most so many calls at once.
    ///
    /// # Errors
    /// As [`Overall::new`].
    pub fn new(in_flight_max: usize) -> Result<Self, LimitsInvalid> {
        Ok(Self { overall: Overall::new(in_flight_max)?, gates: Vec::new() })
    }

    /// Adds a side. All of them should be there before the first call.
    ///
    /// # Errors
    /// [`LimitsInvalid`].
    pub fn add(&mut self, limits: Limits) -> Result<Seat, LimitsInvalid> {
        let gate = Gate::new(limits)?;
        let seat = self.overall.join()?;
        self.gates.push(gate);
        Ok(seat)
    }

    /// As [`Gate::divide`], for all sides.
    pub fn divide(&mut self, engines: u32) {
        for gate in &mut self.gates {
            gate.divide(engines);
        }
    }

    /// As [`Gate::ask`].
    pub fn ask(&mut self, seat: Seat, now: f64) -> Verdict {
        let verdict = self.gates[seat.0].ask(now, self.overall.has_room(seat));
        if matches!(verdict, Verdict::Go(_)) {
            self.overall.take(seat);
        }
        verdict
    }

    /// As [`Gate::begin`].
    pub fn begin(&mut self, seat: Seat, permit: &mut Permit, now: f64) {
        self.gates[seat.0].begin(permit, now);
    }

    /// As [`Gate::report`].
    pub fn report(&mut self, seat: Seat, permit: Permit, outcome: Outcome, now: f64) {
        self.overall.give_back(seat);
        self.gates[seat.0].report(permit, outcome, now);
    }

    /// As [`Gate::standing`].
    pub fn standing(&mut self, seat: Seat, now: f64) -> Standing {
        self.gates[seat.0].standing(now)
    }
}

#[cfg(test)]
mod tests {
    use super::super::breaker::GateState;
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// 20 a second, at most 3 of them at once.
    const LIMITS: Limits = Limits {
        in_flight_max: 4,
        requests_per_second: Some(20.0),
        burst: 3,
        breaker_failures: 3,
        breaker_open_seconds: 2.0,
        breaker_open_max_seconds: 8.0,
        retry_after_max_seconds: 30.0,
        slow_start: false,
    };

    fn gates(in_flight_max: usize, limits: &[Limits]) -> (Gates, Vec<Seat>) {
        let mut gates = Gates::new(in_flight_max).expect("within limits");
        let add = |limits: &Limits| gates.add(*limits).expect("within limits");
        let seats = limits.iter().map(add).collect();
        (gates, seats)
    }

    fn go(gates: &mut Gates, seat: Seat, now: f64) -> Option<Permit> {
        match gates.ask(seat, now) {
            Verdict::Go(mut permit) => {
                gates.begin(seat, &mut permit, now);
                Some(permit)
            }
            Verdict::Wait { .. } | Verdict::Full => None,
        }
    }

    fn transient() -> Outcome {
        Outcome::Transient { code: None }
    }

    fn throttled(retry_after_seconds: f64) -> Outcome {
        Outcome::Throttled { retry_after_seconds, code: None }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Pass(f64),
        Ask(usize),
        Begin(usize),
        Report(usize, Outcome),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let outcome = prop_oneof![
            4 => Just(Outcome::Answered),
            1 => Just(Outcome::Refused),
            4 => Just(transient()),
            1 => (-1.0..3.0).prop_map(throttled),
            1 => Just(Outcome::Abandoned),
        ];
        let step = prop_oneof![
            3 => (0.0..0.3).prop_map(Step::Pass),
            1 => (-5.0..5.0).prop_map(Step::Pass),
            6 => (0_usize..2).prop_map(Step::Ask),
            4 => (0_usize..8).prop_map(Step::Begin),
            4 => (0_usize..8, outcome).prop_map(|(place, outcome)| Step::Report(place, outcome)),
        ];
        proptest::collection::vec(step, 0..300)
    }

    /// What a run of steps saw.
    #[derive(Default)]
    struct Seen {
        /// Permits that are out, of which side, and whether their call began.
        out: VecDeque<(usize, Permit, bool)>,
        /// When calls began, by side, in time that passed.
        starts: [Vec<f64>; 2],
    }

    impl Seen {
        fn step(&mut self, gates: &mut Gates, seats: &[Seat], step: Step, now: f64, passed: f64) {
            match step {
                Step::Pass(_) => {}
                Step::Ask(side) => {
                    let before = gates.standing(seats[side], now);
                    if let Verdict::Go(permit) = gates.ask(seats[side], now) {
                        assert_ne!(before.state, GateState::Open, "nothing while open");
                        assert_eq!(before.retry_in_seconds, None, "nothing before Retry-After");
                        self.out.push_back((side, permit, false));
                    }
                }
                Step::Begin(place) => {
                    if let Some((side, permit, begun)) = self.out.get_mut(place)
                        && !*begun
                    {
                        gates.begin(seats[*side], permit, now);
                        *begun = true;
                        self.starts[*side].push(passed);
                    }
                }
                Step::Report(place, outcome) => {
                    if let Some((side, permit, _)) = self.out.remove(place) {
                        gates.report(seats[side], permit, outcome, now);
                    }
                }
            }
            let of = |side| self.out.iter().filter(|(of, ..)| *of == side).count();
            for (side, seat) in seats.iter().enumerate() {
                let standing = gates.standing(*seat, now);
                assert_eq!(standing.in_flight, of(side));
                assert!(standing.in_flight <= LIMITS.in_flight_max);
            }
            assert!(of(0) + of(1) <= 6, "the limit over all sides");
        }
    }

    proptest! {
        #[test]
        fn limits_hold_in_any_order_of_things_and_with_a_clock_that_goes_back(steps in steps()) {
            let (mut gates, seats) = gates(6, &[LIMITS, LIMITS]);
            let (mut seen, mut now, mut passed) = (Seen::default(), 1_700_000_000.0, 0.0);
            for step in steps {
                if let Step::Pass(seconds) = step {
                    now += seconds;
                    passed += seconds.max(0.0);
                }
                seen.step(&mut gates, &seats, step, now, passed);
            }
            for starts in &seen.starts {
                for (first, from) in starts.iter().enumerate() {
                    for (last, to) in starts.iter().enumerate().skip(first) {
                        // The time on the wall comes in steps of a quarter of a microsecond.
                        let most = 20.0 * (to - from) + 3.0 + 0.01;
                        prop_assert!((last - first + 1) as f64 <= most, "{from} to {to}");
                    }
                }
            }
        }

        #[test]
        fn whatever_a_side_asks_to_wait_is_clamped(seconds: f64) {
            let (mut gates, seats) = gates(6, &[LIMITS]);
            let permit = go(&mut gates, seats[0], 0.0).expect("a fresh gate");
            gates.report(seats[0], permit, throttled(seconds), 0.0);
            let left = gates.standing(seats[0], 0.0).retry_in_seconds;
            prop_assert!(left.is_none_or(|left| left > 0.0 && left <= 30.0), "{left:?}");
            prop_assert!(go(&mut gates, seats[0], 30.1).is_some());
        }
    }

    #[test]
    fn what_is_no_time_to_wait_is_a_failure_that_may_pass_and_too_long_a_one_is_cut() {
        for (seconds, left, failures) in [
            (-5.0, None, 1),
            (0.0, None, 1),
            (f64::NAN, None, 1),
            (f64::NEG_INFINITY, None, 1),
            (7.0, Some(7.0), 0),
            (1e40, Some(30.0), 0),
            (f64::INFINITY, Some(30.0), 0),
        ] {
            let (mut gates, seats) = gates(6, &[LIMITS]);
            assert_eq!(throttled(seconds).is_transient(), failures == 1, "{seconds}");
            let permit = go(&mut gates, seats[0], 100.0).expect("a fresh gate");
            gates.report(seats[0], permit, throttled(seconds), 100.0);
            let standing = gates.standing(seats[0], 100.0);
            assert_eq!((standing.retry_in_seconds, standing.failures_in_a_row), (left, failures));
            if let Some(left) = left {
                assert_eq!(gates.ask(seats[0], 100.0), Verdict::Wait { until: 100.0 + left });
                assert!(go(&mut gates, seats[0], 100.0 + left).is_some());
                assert_eq!(gates.standing(seats[0], 100.0 + left).in_flight_allowed, 2, "half");
            } else {
                assert!(go(&mut gates, seats[0], 100.0).is_some(), "{seconds}");
            }
        }
    }

    #[test]
    fn a_shorter_retry_after_does_not_end_a_longer_one() {
        let (mut gates, seats) = gates(6, &[LIMITS]);
        let [first, second] = [(); 2].map(|()| go(&mut gates, seats[0], 0.0).expect("room"));
        gates.report(seats[0], first, throttled(20.0), 0.0);
        gates.report(seats[0], second, throttled(1.0), 1.0);
        assert_eq!(gates.standing(seats[0], 1.0).retry_in_seconds, Some(19.0));
    }

    #[test]
    fn a_permit_that_was_not_used_gives_its_token_back_and_a_dropped_call_only_its_room() {
        let (mut gates, seats) = gates(6, &[Limits { burst: 1, ..LIMITS }]);
        let Verdict::Go(unused) = gates.ask(seats[0], 0.0) else { panic!("a fresh gate") };
        assert!(matches!(gates.ask(seats[0], 0.0), Verdict::Wait { .. }));
        gates.report(seats[0], unused, Outcome::Abandoned, 0.0);
        let used = go(&mut gates, seats[0], 0.0).expect("the token is back");
        gates.report(seats[0], used, Outcome::Abandoned, 0.0);
        let standing = gates.standing(seats[0], 0.0);
        assert_eq!((standing.in_flight, standing.failures_in_a_row), (0, 0));
        assert_eq!(gates.ask(seats[0], 0.0), Verdict::Wait { until: 0.05 });
    }

    #[test]
    fn a_probe_nobody_heard_of_again_makes_room_for_the_next() {
        let unlimited = Limits { requests_per_second: None, ..LIMITS };
        let (mut gates, seats) = gates(6, &[unlimited]);
        let calls = [(); 3].map(|()| go(&mut gates, seats[0], 0.0).expect("room"));
        let late = go(&mut gates, seats[0], 0.0).expect("room");
        for call in calls {
            gates.report(seats[0], call, transient(), 0.0);
        }
        assert_eq!(gates.ask(seats[0], 1.0), Verdict::Wait { until: 2.0 });
        let probe = go(&mut gates, seats[0], 2.0).expect("half open");
        assert_eq!(gates.ask(seats[0], 2.0), Verdict::Full);
        gates.report(seats[0], late, Outcome::Answered, 2.0);
        let standing = gates.standing(seats[0], 2.0);
        assert_eq!(standing.state, GateState::HalfOpen, "a call from before says nothing");
        gates.report(seats[0], probe, Outcome::Abandoned, 2.0);
        let probe = go(&mut gates, seats[0], 2.0).expect("the next probe");
        gates.report(seats[0], probe, Outcome::Refused, 2.0);
        assert_eq!(gates.standing(seats[0], 2.0).state, GateState::Recovering);
    }

    #[test]
    fn a_side_that_hangs_leaves_the_others_their_share() {
        let wide = Limits { in_flight_max: 64, requests_per_second: None, ..LIMITS };
        let (mut gates, seats) = gates(12, &[wide, wide, wide]);
        let mut hanging = Vec::new();
        while let Some(permit) = go(&mut gates, seats[0], 0.0) {
            hanging.push(permit);
        }
        assert_eq!(hanging.len(), 8);
        for seat in &seats[1..] {
            for round in 0..1_000 {
                let now = f64::from(round);
                let calls = [(); 2].map(|()| go(&mut gates, *seat, now).expect("its share"));
                for call in calls {
                    gates.report(*seat, call, Outcome::Answered, now);
                }
            }
        }
    }

    /// What a backlog that fails at one instant and then is let go did to the side.
    struct Herd {
        tried_while_down: usize,
        /// Starts since the first answer, in seconds after it.
        starts: Vec<f64>,
    }

    /// Everybody asks all the time for 20 seconds, at a side that is down for the first 10 and answers
    /// after 5 milliseconds then.
    #[test]
    fn four_engines_together_are_as_one_at_the_limit() {
        let (mut one, seats) = gates(1024, &[Limits { in_flight_max: 8, ..LIMITS }]);
        let mut all: Vec<Gates> =
            (0..4).map(|_| gates(1024, &[Limits { in_flight_max: 8, ..LIMITS }]).0).collect();
        let seat = seats[0];
        let started = |gates: &mut Gates| {
            // The burst is over by then; what starts in the next ten seconds comes at the rate.
            let mut count = 0;
            for step in 0..1_000 {
                let now = f64::from(step) / 100.0;
                if let Verdict::Go(mut permit) = gates.ask(seat, now) {
                    gates.begin(seat, &mut permit, now);
                    gates.report(seat, permit, Outcome::Answered, now);
                    count += 1;
                }
            }
            count
        };
        let alone = started(&mut one);
        let together: i32 = all
            .iter_mut()
            .map(|gates| {
                gates.divide(4);
                assert_eq!(gates.standing(seat, 0.0).in_flight_max, 2);
                started(gates)
            })
            .sum();
        assert!((200..=206).contains(&alone), "{alone}");
        assert!((200..=216).contains(&together), "{together}, with a burst in each of them");
    }

    fn herd(limits: Limits) -> Herd {
        let (mut gates, seats) = gates(1024, &[limits]);
        let (mut out, mut herd) = (VecDeque::new(), Herd { tried_while_down: 0, starts: vec![] });
        let mut up_at = None;
        for millisecond in 0..20_000 {
            let now = 1_000.0 + f64::from(millisecond) / 1_000.0;
            let down = millisecond < 10_000;
            while out.front().is_some_and(|(ends, _)| *ends <= millisecond) {
                let (_, permit) = out.pop_front().expect("it is there");
                let outcome = if down { transient() } else { Outcome::Answered };
                if !down {
                    up_at = up_at.or(Some(now));
                }
                gates.report(seats[0], permit, outcome, now);
            }
            while let Some(permit) = go(&mut gates, seats[0], now) {
                herd.tried_while_down += usize::from(down);
                herd.starts.extend(up_at.map(|up_at| now - up_at));
                out.push_back((millisecond + 5, permit));
            }
        }
        herd
    }

    #[test]
    fn after_an_outage_the_first_second_stays_under_the_rate_and_the_last_reaches_it() {
        let limits = Limits {
            in_flight_max: 64,
            requests_per_second: Some(100.0),
            burst: 50,
            breaker_failures: 10,
            ..LIMITS
        };
        let seen = herd(limits);
        assert!((1..=80).contains(&seen.tried_while_down), "{}", seen.tried_while_down);
        let within = |from: f64, to: f64| {
            seen.starts.iter().filter(|start| (from..to).contains(*start)).count()
        };
        assert!((10..=100).contains(&within(0.0, 1.0)), "{}", within(0.0, 1.0));
        assert!((95..=150).contains(&within(4.0, 5.0)), "{}", within(4.0, 5.0));
    }

    #[test]
    fn without_a_rate_the_backlog_still_comes_in_steps() {
        let limits = Limits { in_flight_max: 64, requests_per_second: None, ..LIMITS };
        let seen = herd(limits);
        let steps: Vec<usize> = (0..7)
            .map(|step| {
                let (from, to) = (f64::from(step) * 0.005 - 0.001, f64::from(step) * 0.005 + 0.004);
                seen.starts.iter().filter(|start| (from..to).contains(*start)).count()
            })
            .collect();
        assert_eq!(steps, [1, 2, 4, 8, 16, 32, 64]);
    }
}
