//! Destinations: the workers of all flows that call one side share one, and ask it before they claim.
//!
//! Owns waiting for leave, with the engine's clock, in the order of arrival. Must not decide when a call
//! may start; that is [`leasehold_actors::destination`].

mod lane;

pub(crate) use lane::{Lane, Turn};

use crate::clock::Clock;
use crate::engine::Engine;
use crate::worker::CallFailure;
use leasehold_actors::contract::text::ErrorCode;
use leasehold_actors::destination::{
    self as pure, GateState, Gates, Limits, LimitsInvalid, Outcome, Seat, Verdict,
};
use leasehold_journal::StoreReader;
use serde::Serialize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::watch;

/// Shortest wait, in seconds: a timer is no finer, and a clock that stands must not be asked in a circle.
const WAIT_SECONDS_MIN: f64 = 0.001;

/// All sides of an engine, under one limit of calls at once.
///
/// Each side has half of an even share for itself, so that one that hangs does not delay the others. Engines
/// that share a journal divide what each side is asked for at most, evenly among all that have it open.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = leasehold::Engine::in_memory(&leasehold::MemoryDisk::new()).open().await?;
/// use leasehold::{Destinations, GateState, Limits, Outcome};
///
/// let sides = Destinations::new(&engine, 192)?;
/// let limits = Limits { in_flight_max: 2, slow_start: false, ..Limits::default() };
/// let cms = sides.add("cms", limits)?;
/// let mut first = cms.admit().await;
/// let second = cms.admit().await;
/// assert!(cms.try_admit().is_none(), "two calls at once");
/// first.begin(); // the call is made
/// first.report(Outcome::Answered);
/// assert!(cms.try_admit().is_some());
/// drop(second); // not used: its place goes back
/// assert_eq!(cms.view().state, GateState::Closed);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Destinations {
    group: Arc<Group>,
    /// Whether the journal's first engine asks.
    first_life: bool,
}

struct Group {
    clock: Arc<dyn Clock>,
    /// Tells how many engines share the journal, and so the sides.
    reader: Weak<dyn StoreReader>,
    gates: Mutex<Gates>,
    /// Told whenever room may have come.
    changes: watch::Sender<()>,
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group").finish_non_exhaustive()
    }
}

impl Group {
    fn gates(&self) -> MutexGuard<'_, Gates> {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, seat: Seat) -> (Verdict, f64) {
        let now = self.clock.steady_seconds();
        let engines = self.reader.upgrade().map_or(1, |reader| reader.peers().count);
        let mut gates = self.gates();
        gates.divide(engines);
        (gates.ask(seat, now), now)
    }
}

impl Destinations {
    /// No sides yet; over all of them at most so many calls at once, 1 to 65,536. Waits go by this
    /// engine's clock.
    ///
    /// # Errors
    /// [`LimitsInvalid::OverallInFlightMax`].
    pub fn new(engine: &Engine, in_flight_max: usize) -> Result<Self, LimitsInvalid> {
        let clock = Arc::clone(engine.dispatch().clock());
        let (gates, changes) = (Mutex::new(Gates::new(in_flight_max)?), watch::Sender::new(()));
        let reader = Arc::downgrade(engine.reader());
        let first_life = engine.is_first_life();
        Ok(Self { group: Arc::new(Group { clock, reader, gates, changes }), first_life })
    }

    /// Adds a side; all of them before the first call. The name is for [`Destination::view`].
    ///
    /// Of `slow_start` nothing comes where the journal had no record when the engine opened it: there was
    /// no earlier life in which the side could have been down.
    ///
    /// # Errors
    /// [`LimitsInvalid`].
    pub fn add(&self, name: &'static str, limits: Limits) -> Result<Destination, LimitsInvalid> {
        let slow_start = limits.slow_start && !self.first_life;
        let seat = self.group.gates().add(Limits { slow_start, ..limits })?;
        let group = Arc::clone(&self.group);
        let (turn, waiting) = (tokio::sync::Mutex::new(()), AtomicUsize::new(0));
        Ok(Destination { side: Arc::new(Side { name, seat, group, turn, waiting }) })
    }
}

/// One side; cheap to clone. See [`crate::DrainOptions::destination`].
///
/// Nothing of it outlives the process. With `slow_start` a new one starts as after an outage, with one
/// call at once, so that a side that was down before a restart is met gently again; but not for a journal
/// that was new.
#[derive(Clone)]
pub struct Destination {
    side: Arc<Side>,
}

struct Side {
    name: &'static str,
    seat: Seat,
    group: Arc<Group>,
    /// Whoever has it is the next to be let through: one waits for room or time, the others in their
    /// order behind it, and a thousand workers are not all woken for one free place.
    turn: tokio::sync::Mutex<()>,
    waiting: AtomicUsize,
}

impl std::fmt::Debug for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Destination").field("name", &self.side.name).finish_non_exhaustive()
    }
}

impl Destination {
    /// Waits for leave to make one call, behind those who came before. Ends with an open breaker's or a
    /// `Retry-After`'s time at the earliest; drop it to wait no longer.
    ///
    /// Ask before a claim, so that no lease is held meanwhile.
    pub async fn admit(&self) -> Permit {
        let side = &self.side;
        let _waiting = Waiting::begin(&side.waiting);
        let _turn = side.turn.lock().await;
        let mut changes = side.group.changes.subscribe();
        loop {
            changes.mark_unchanged();
            let (verdict, now) = side.group.ask(side.seat);
            let wait = match verdict {
                Verdict::Go(permit) => return self.permit(permit),
                Verdict::Wait { until } => (until - now).max(WAIT_SECONDS_MIN),
                Verdict::Full => f64::INFINITY,
            };
            let time = async {
                if wait.is_finite() {
                    side.group.clock.sleep(wait).await;
                } else {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                () = time => {}
                _ = changes.changed() => {}
            }
        }
    }

    /// Leave at once, or none: also none while others wait.
    #[must_use]
    pub fn try_admit(&self) -> Option<Permit> {
        let _turn = self.side.turn.try_lock().ok()?;
        match self.side.group.ask(self.side.seat).0 {
            Verdict::Go(permit) => Some(self.permit(permit)),
            Verdict::Wait { .. } | Verdict::Full => None,
        }
    }

    fn permit(&self, permit: pure::Permit) -> Permit {
        Permit { destination: self.clone(), permit: Some(permit) }
    }

    /// How it stands.
    #[must_use]
    pub fn view(&self) -> DestinationView {
        let now = self.side.group.clock.steady_seconds();
        let standing = self.side.group.gates().standing(self.side.seat, now);
        DestinationView {
            name: self.side.name,
            state: standing.state,
            in_flight: standing.in_flight,
            in_flight_allowed: standing.in_flight_allowed,
            in_flight_max: standing.in_flight_max,
            tokens: standing.tokens,
            waiting: self.side.waiting.load(Ordering::Relaxed),
            probes_in_seconds: standing.probes_in_seconds,
            retry_in_seconds: standing.retry_in_seconds,
            failures_in_a_row: standing.failures_in_a_row,
            last_error_code: standing.last_error_code,
        }
    }
}

/// Counts one who waits.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Leave for one call.
///
/// Dropped before [`Self::begin`] it was not used, and its place and its token go back. Dropped after,
/// its call counts as [`Outcome::Abandoned`].
#[derive(Debug)]
pub struct Permit {
    destination: Destination,
    /// `None` once it was reported.
    permit: Option<pure::Permit>,
}

impl Permit {
    /// For a call that finds out whether the side works again: how many such calls failed before it.
    pub(crate) fn probe(&self) -> Option<u32> {
        self.permit.as_ref().and_then(pure::Permit::probe)
    }

    /// The call begins.
    pub fn begin(&mut self) {
        let side = &self.destination.side;
        let now = side.group.clock.steady_seconds();
        if let Some(permit) = &mut self.permit {
            side.group.gates().begin(side.seat, permit, now);
        }
    }

    /// What the call came to.
    pub fn report(mut self, outcome: Outcome) {
        self.give_back(outcome);
    }

    fn give_back(&mut self, outcome: Outcome) {
        let Some(permit) = self.permit.take() else { return };
        let side = &self.destination.side;
        let now = side.group.clock.steady_seconds();
        side.group.gates().report(side.seat, permit, outcome, now);
        side.group.changes.send_replace(());
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.give_back(Outcome::Abandoned);
    }
}

/// How a destination stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DestinationView {
    /// Its name.
    pub name: &'static str,
    /// `closed` (the side works), `open` (it is down, nothing goes through), `half_open` (one call finds
    /// out) or `recovering` (the backlog is let go in growing steps).
    pub state: GateState,
    /// Calls under way, and claims that were let through.
    pub in_flight: usize,
    /// How many there may be at the moment.
    pub in_flight_allowed: usize,
    /// How many there may be when all is well.
    pub in_flight_max: usize,
    /// Calls that may start at once; `None` without a rate.
    pub tokens: Option<f64>,
    /// Workers that wait for leave.
    pub waiting: usize,
    /// Seconds until an open breaker lets a probe through.
    pub probes_in_seconds: Option<f64>,
    /// Seconds until the side's `Retry-After` is over.
    pub retry_in_seconds: Option<f64>,
    /// Failures in a row that may pass.
    pub failures_in_a_row: u32,
    /// Code of the last one, whenever that was.
    pub last_error_code: Option<ErrorCode>,
}

/// What a call's end says about the side; `None` is a client that panicked, which says nothing.
pub(crate) fn outcome(called: Option<&Result<Vec<u8>, CallFailure>>) -> Outcome {
    match called {
        Some(Ok(_)) => Outcome::Answered,
        Some(Err(CallFailure::Marked { code, retryable: true, retry_after_seconds })) => {
            let code = ErrorCode::new(code);
            match *retry_after_seconds {
                Some(retry_after_seconds) => Outcome::Throttled { retry_after_seconds, code },
                None => Outcome::Transient { code },
            }
        }
        Some(Err(CallFailure::Marked { retryable: false, .. } | CallFailure::Unmarked)) => {
            Outcome::Refused
        }
        None => Outcome::Abandoned,
    }
}
