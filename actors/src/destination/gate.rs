//! The gate of one side: may one more call start now?
//!
//! Owns what is under way, until when the side asked to be left alone, and which limit answers first.

use super::breaker::{Breaker, GateState};
use super::bucket::Bucket;
use super::limits::{Limits, LimitsInvalid};
use crate::contract::text::ErrorCode;

/// Two times closer than this are the same. Larger than the steps of a double that counts seconds since
/// 1970, so that who waits until a time finds that it has come.
const MOMENT_SECONDS: f64 = 1e-6;

/// What a call came to, as far as the side is concerned.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// An answer came.
    Answered,
    /// The side said no for good: it works.
    Refused,
    /// A failure that may pass.
    Transient {
        /// Its code.
        code: Option<ErrorCode>,
    },
    /// A failure that may pass, and the side says when. What is no time to wait (not more than 0, not a
    /// number) counts as [`Self::Transient`]; more than `retry_after_max_seconds` as that.
    Throttled {
        /// What was asked for, in seconds.
        retry_after_seconds: f64,
        /// Its code.
        code: Option<ErrorCode>,
    },
    /// Nobody knows: the call was given up, or its client broke. Says nothing about the side.
    Abandoned,
}

impl Outcome {
    /// Whether it is a failure that may pass, of which the side did not say when: the one a probe of a side
    /// that is down ends in.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Transient { .. } => true,
            // Anything else, as no number is, is no time to wait.
            Self::Throttled { retry_after_seconds, .. } => !is_a_wait(*retry_after_seconds),
            Self::Answered | Self::Refused | Self::Abandoned => false,
        }
    }
}

fn is_a_wait(seconds: f64) -> bool {
    seconds > 0.0
}

/// Leave for one call; it has to come back with [`Gate::report`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a permit that does not come back takes up room for ever"]
pub struct Permit {
    era: u64,
    begun: bool,
    probe: Option<u32>,
}

impl Permit {
    /// For a call that finds out whether a side works again: how many such calls failed before it.
    #[must_use]
    pub fn probe(&self) -> Option<u32> {
        self.probe
    }
}

/// Whether one more call may start.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    /// It may.
    Go(Permit),
    /// Not before this time. It may still be too early then: ask again.
    Wait {
        /// Steady seconds.
        until: f64,
    },
    /// Not before a permit comes back.
    Full,
}

/// How a gate stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// What the side is thought to be.
    pub state: GateState,
    /// Permits that are out.
    pub in_flight: usize,
    /// How many there may be at the moment.
    pub in_flight_allowed: usize,
    /// How many there may be when all is well.
    pub in_flight_max: usize,
    /// Calls that may start at once; `None` without a rate.
    pub tokens: Option<f64>,
    /// Seconds until an open gate lets a probe through.
    pub probes_in_seconds: Option<f64>,
    /// Seconds until the side's `Retry-After` is over.
    pub retry_in_seconds: Option<f64>,
    /// Failures in a row that may pass.
    pub failures_in_a_row: u32,
    /// Code of the last one, whenever that was.
    pub last_error_code: Option<ErrorCode>,
}

/// The gate.
#[derive(Debug)]
pub struct Gate {
    limits: Limits,
    breaker: Breaker,
    bucket: Bucket,
    /// Time that passed, in seconds; all times in here count by it. A clock that goes back adds nothing.
    time: f64,
    last_now: Option<f64>,
    retry_at: f64,
    in_flight: usize,
    /// Those of them that the breaker's era gave out.
    in_flight_of_era: usize,
    last_error_code: Option<ErrorCode>,
    /// Engines that the limits are divided among, at least 1.
    engines: u32,
}

impl Gate {
    /// A gate with these limits.
    ///
    /// # Errors
    /// [`LimitsInvalid`].
    pub fn new(limits: Limits) -> Result<Self, LimitsInvalid> {
        limits.check()?;
        Ok(Self {
            limits,
            breaker: Breaker::new(&limits),
            bucket: Bucket::new(limits.requests_per_second, limits.burst),
            time: 0.0,
            last_now: None,
            retry_at: 0.0,
            in_flight: 0,
            in_flight_of_era: 0,
            last_error_code: None,
            engines: 1,
        })
    }

    /// From now on this engine is one of so many: each has an even share of the calls at once, one at least,
    /// and of the rate. The breaker is each one's own: it learns from its own calls, and with its share of
    /// them as fast as the others do.
    pub fn divide(&mut self, engines: u32) {
        self.engines = engines.max(1);
    }

    fn in_flight_max(&self) -> usize {
        (self.limits.in_flight_max / self.engines as usize).max(1)
    }

    /// What of the rate is to be used now.
    fn share(&self) -> f64 {
        self.breaker.share(&self.limits) / f64::from(self.engines)
    }

    /// Asks for leave to make one call; `room` is whether the limit over all sides has some.
    pub fn ask(&mut self, now: f64, room: bool) -> Verdict {
        self.advance(now);
        let left = self.open_seconds().max(self.left_seconds(self.retry_at));
        if left > 0.0 {
            return Verdict::Wait { until: now + left };
        }
        let allowed = self.breaker.allowed(&self.limits);
        let full = self.in_flight >= self.in_flight_max() || self.in_flight_of_era >= allowed;
        if full || !room {
            return Verdict::Full;
        }
        let wait = self.bucket.wait_seconds(self.share());
        if wait > 0.0 {
            return Verdict::Wait { until: now + wait };
        }
        self.bucket.take();
        self.in_flight += 1;
        self.in_flight_of_era += 1;
        let (era, probe) = (self.breaker.era(), self.breaker.probe());
        Verdict::Go(Permit { era, begun: false, probe })
    }

    /// The call of a permit begins. One that comes back without was not used: nothing is counted.
    pub fn begin(&mut self, permit: &mut Permit, now: f64) {
        self.advance(now);
        if !permit.begun {
            permit.begun = true;
            self.bucket.spend();
        }
    }

    /// Takes a permit back, and what its call came to. Of one that was not begun the outcome means nothing.
    pub fn report(&mut self, permit: Permit, outcome: Outcome, now: f64) {
        self.advance(now);
        let era = self.breaker.era();
        let current = permit.era == era;
        self.in_flight = self.in_flight.saturating_sub(1);
        self.in_flight_of_era = self.in_flight_of_era.saturating_sub(usize::from(current));
        if !permit.begun {
            // A token from before an outage would come on top of what the recovery lets through.
            if current {
                self.bucket.give_back()
            } else {
                self.bucket.spend()
            }
            return;
        }
        match outcome {
            Outcome::Answered | Outcome::Refused if current => {
                if self.breaker.answered(&self.limits) {
                    self.bucket.empty();
                }
            }
            Outcome::Throttled { retry_after_seconds, code } if is_a_wait(retry_after_seconds) => {
                let seconds = retry_after_seconds.min(self.limits.retry_after_max_seconds);
                self.retry_at = self.retry_at.max(self.time + seconds);
                self.last_error_code = code.or(self.last_error_code.take());
                if current {
                    self.breaker.throttled(&self.limits);
                }
            }
            Outcome::Transient { code } | Outcome::Throttled { code, .. } => {
                self.last_error_code = code.or(self.last_error_code.take());
                if current {
                    self.breaker.failed(&self.limits, self.time);
                }
            }
            Outcome::Answered | Outcome::Refused | Outcome::Abandoned => {}
        }
        if self.breaker.era() != era {
            self.in_flight_of_era = 0;
        }
    }

    /// How it stands.
    pub fn standing(&mut self, now: f64) -> Standing {
        self.advance(now);
        let some = |seconds: f64| (seconds > 0.0).then_some(seconds);
        Standing {
            state: self.breaker.state(),
            in_flight: self.in_flight,
            in_flight_allowed: self.breaker.allowed(&self.limits).min(self.in_flight_max()),
            in_flight_max: self.in_flight_max(),
            tokens: self.bucket.tokens(),
            probes_in_seconds: some(self.open_seconds()),
            retry_in_seconds: some(self.left_seconds(self.retry_at)),
            failures_in_a_row: self.breaker.failures_in_a_row(),
            last_error_code: self.last_error_code.clone(),
        }
    }

    /// How long the breaker stays open; 0 when it is not.
    fn open_seconds(&self) -> f64 {
        self.breaker.open_until().map_or(0.0, |until| self.left_seconds(until))
    }

    /// How long until this time; 0 for one that has come.
    fn left_seconds(&self, until: f64) -> f64 {
        let left = until - self.time;
        if left > MOMENT_SECONDS { left } else { 0.0 }
    }

    /// Lets the time pass since the last call. There is no burst but for a closed gate: what a side that
    /// rests saves up would hit it all at once.
    fn advance(&mut self, now: f64) {
        if !now.is_finite() {
            return;
        }
        let elapsed = self.last_now.map_or(0.0, |last| (now - last).max(0.0));
        self.last_now = Some(now);
        self.time += elapsed;
        let tokens_max = match self.breaker.state() {
            GateState::Closed => f64::INFINITY,
            GateState::Open | GateState::HalfOpen | GateState::Recovering => 1.0,
        };
        self.bucket.refill(elapsed, self.share(), tokens_max);
        self.breaker.wake(self.time + MOMENT_SECONDS);
    }
}
