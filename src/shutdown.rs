//! How an engine is wound down, in two phases.
//!
//! Owns the phase and the number of calls under way. Must not decide anything about a record: what a
//! dropped call costs is the record's.
//!
//! First no new claim is made and the calls under way go on; then those that are left are dropped and
//! their leases given back, which spends no attempt. A dropped call may have reached the other side all
//! the same. It is made again with the same identity and the same bytes, as after a crash, so the other
//! side recognises it.

use crate::engine::Engine;
use crate::error::Error;
use leasehold_actors::record::StateKind;
use serde::Serialize;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;

/// How long calls that were told to stop are waited for, in seconds. One that blocks its thread cannot
/// be dropped; it must not hold the engine up.
const DROP_SECONDS: f64 = 1.0;

/// How far an engine is wound down. It only goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Working,
    Draining,
    Stopping,
}

#[derive(Debug)]
struct Shared {
    phase: watch::Sender<Phase>,
    under_way: watch::Sender<u64>,
    released: AtomicU64,
}

/// Winds an engine down from elsewhere, such as from a signal. Cheap to clone.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = leasehold::Engine::in_memory(&leasehold::MemoryDisk::new()).open().await?;
/// let stopper = engine.stopper(); // for whoever waits for a signal
/// stopper.drain();
/// assert!(stopper.is_stopping());
/// let late = engine.dispatch().claim("worker-1", 600.0).await;
/// assert_eq!(late.err(), Some(leasehold::Error::Stopped));
/// let remaining = engine.shutdown(25.0).await?; // calls under way have 25 seconds
/// assert_eq!((remaining.released, remaining.leased), (0, 0));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Stopper(Arc<Shared>);

/// What is left when an engine was shut down. The next open goes on with all of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Remaining {
    /// Calls that were dropped, their leases given back; they count as waiting, too.
    pub released: u64,
    /// Leases that are still held: claims made by hand, and calls that could not be dropped. The next
    /// open ends them, and their attempt stays counted.
    pub leased: u64,
    /// Records that wait to be tried, tried again or asked about again.
    pub waiting: u64,
}

impl Stopper {
    pub(crate) fn new() -> Self {
        let (phase, under_way) = (watch::Sender::new(Phase::Working), watch::Sender::new(0));
        Self(Arc::new(Shared { phase, under_way, released: AtomicU64::new(0) }))
    }

    /// The first phase: from now on no claim is made, and workers end after the call they are at.
    pub fn drain(&self) {
        self.reach(Phase::Draining);
    }

    /// The second phase: calls under way are dropped and their leases given back.
    pub fn stop_calls(&self) {
        self.reach(Phase::Stopping);
    }

    fn reach(&self, phase: Phase) {
        self.0.phase.send_if_modified(|known| {
            let later = *known < phase;
            *known = (*known).max(phase);
            later
        });
    }

    /// Whether either phase has begun.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        *self.0.phase.borrow() > Phase::Working
    }

    /// Waits until either phase has begun.
    pub(crate) async fn begun(&self) {
        self.phase(Phase::Draining).await;
    }

    async fn phase(&self, phase: Phase) {
        // An error would say that the sender is gone; it is in our hands.
        drop(self.0.phase.subscribe().wait_for(|known| *known >= phase).await);
    }

    /// A call begins.
    ///
    /// # Errors
    /// [`Error::Stopped`] once the engine is wound down.
    pub(crate) fn begin(&self) -> Result<UnderWay, Error> {
        // Counted before the phase is looked at, so that who changes the phase and then counts does
        // not miss it.
        self.0.under_way.send_modify(|calls| *calls += 1);
        let call = UnderWay(self.clone());
        if self.is_stopping() { Err(Error::Stopped) } else { Ok(call) }
    }

    /// A dropped call's lease was given back.
    pub(crate) fn note_released(&self) {
        self.0.released.fetch_add(1, Ordering::Relaxed);
    }

    async fn idle(&self) {
        drop(self.0.under_way.subscribe().wait_for(|calls| *calls == 0).await);
    }
}

/// A call under way.
#[derive(Debug)]
pub(crate) struct UnderWay(Stopper);

impl UnderWay {
    /// What the call comes to; `None` when it was dropped, or not begun, since calls are to stop.
    pub(crate) async fn unless_stopped<T>(&self, call: impl Future<Output = T>) -> Option<T> {
        if *self.0.0.phase.borrow() == Phase::Stopping {
            return None;
        }
        tokio::select! {
            biased;
            called = call => Some(called),
            () = self.0.phase(Phase::Stopping) => None,
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.under_way.send_modify(|calls| *calls -= 1);
    }
}

impl Engine {
    /// Winds this engine down from elsewhere; what [`Self::shutdown`] does, phase by phase.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.dispatch().stopper().clone()
    }

    /// Shuts down in two phases. At first no claim is made any more, and the calls of
    /// [`run_once`](crate::Handle::run_once), of [`drain`](crate::drain) and of pipelines have
    /// `budget_seconds` to end; what is left of them is then dropped and its leases are given back, so
    /// that no attempt is spent on it. At last everything is flushed, the anchor is brought up to date,
    /// and the engine stops, as with [`Self::close`].
    ///
    /// A client that hangs delays this by no more than the budget; one that blocks its thread by a second
    /// more, and its lease is left to the next open then. A budget of 0, less, or no number at all, gives
    /// calls no time. A dropped call may have reached the other side: it is made again with the same
    /// identity and bytes.
    ///
    /// # Errors
    /// [`Error::Blocked`] with `time_invalid` when what is left could not be counted;
    /// that of [`Self::handed_over`]. The engine is stopped all the same.
    pub async fn shutdown(self, budget_seconds: f64) -> Result<Remaining, Error> {
        let (stopper, clock) = (self.stopper(), Arc::clone(self.dispatch().clock()));
        stopper.drain();
        tokio::select! {
            biased;
            () = stopper.idle() => {}
            () = clock.sleep(budget_seconds) => {}
        }
        stopper.stop_calls();
        tokio::select! {
            biased;
            () = stopper.idle() => {}
            () = clock.sleep(DROP_SECONDS) => {}
        }
        // What settled is handed over by the actors themselves, without any call.
        drop(self.hand_overs().wait_for(|under_way| *under_way == 0).await);
        let counted = self.remaining(&stopper).await;
        let handed_over = self.handed_over();
        self.close().await;
        counted.and_then(|remaining| handed_over.map(|()| remaining))
    }

    async fn remaining(&self, stopper: &Stopper) -> Result<Remaining, Error> {
        let flows = [
            self.dispatch().health().await?.counts,
            self.lifecycle().health().await?.counts,
            self.notification().health().await?.counts,
            self.processing().health().await?.counts,
            self.delivery().health().await?.counts,
        ];
        let count =
            |kind: StateKind| -> u64 { flows.iter().map(|flow| in_state(flow, kind)).sum() };
        let waiting = [StateKind::Pending, StateKind::Watching, StateKind::RetryWait];
        Ok(Remaining {
            released: stopper.0.released.load(Ordering::Relaxed),
            leased: count(StateKind::Leased),
            waiting: waiting.into_iter().map(count).sum(),
        })
    }
}

/// Records of one flow in a state that no flow has a name of its own for.
fn in_state(counts: &BTreeMap<&'static str, u64>, kind: StateKind) -> u64 {
    counts.get(kind.name("")).copied().unwrap_or(0)
}
