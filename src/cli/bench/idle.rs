//! What an engine uses that has nothing to do: everything in it is due tomorrow.

use super::figures::{Bench, Show};
use super::lives::enqueue;
use crate::cli::failure::Failed;
use crate::clock::{Clock, Sleep, Stopwatch, SystemClock, processor_seconds};
use crate::engine::Engine;
use crate::handle::{Handle, LEASE_SECONDS};
use crate::pipeline::Pipeline;
use crate::worker::{CallFailure, Client, DrainOptions};
use leasehold_actors::flows::dispatch::{ChangeRequest, Dispatch};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;

/// Workers that wait; as many as `leasehold run` has where nothing is said.
const WORKERS: u64 = 16;
/// Between the workers' start and the measuring, in seconds: their first look around is not idleness.
const SETTLING_SECONDS: f64 = 1.0;
const DAY_SECONDS: f64 = 86_400.0;

/// The system's clock, a day ahead until it is set back. A record is due when it is enqueued: by this
/// clock that is tomorrow, once the clock is back.
#[derive(Debug, Clone)]
struct DayAhead(Arc<AtomicBool>);

impl DayAhead {
    fn new() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    fn set_back(&self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Clock for DayAhead {
    fn now_seconds(&self) -> f64 {
        let ahead = if self.0.load(Ordering::Acquire) { DAY_SECONDS } else { 0.0 };
        SystemClock.now_seconds() + ahead
    }

    fn steady_seconds(&self) -> f64 {
        SystemClock.steady_seconds()
    }

    fn sleep(&self, seconds: f64) -> Sleep {
        SystemClock.sleep(seconds)
    }
}

/// A client nobody should need.
struct Uncalled;

impl Client<Dispatch> for Uncalled {
    fn longest_call_seconds(&self) -> Option<f64> {
        None
    }

    async fn call(&self, _: ChangeRequest) -> Result<Vec<u8>, CallFailure> {
        Err(CallFailure::Unmarked)
    }
}

impl Bench {
    /// Workers that wait for the backlog.
    pub(super) async fn idle(&self, show: &mut Show<'_>) -> Result<(), Failed> {
        if self.idle_seconds <= 0.0 {
            return Ok(());
        }
        let place = self.place()?;
        let clock = DayAhead::new();
        let engine =
            Engine::builder(place.path().join("journal")).clock(clock.clone()).open().await?;
        let flow = engine.dispatch();
        let backlog = self.backlog.max(1);
        enqueue(flow, 0..backlog, self.in_flight).await?;
        clock.set_back();
        let stop = watch::Sender::new(false);
        let mut pipeline = Pipeline::new(&engine, stop.subscribe());
        let options = DrainOptions {
            in_flight: WORKERS as usize,
            lease_seconds: LEASE_SECONDS,
            worker: "bench".to_owned(),
            destination: None,
        };
        pipeline.add(flow, Uncalled, &options, |_| {});
        let (ended, used) = tokio::join!(pipeline.finish(), self.look(&stop));
        ended?;
        all_wait(flow, backlog).await?;
        engine.close().await;
        let Some(used) = used else { return Ok(()) };
        let figure = self.figure("idle_cpu_seconds_per_minute", used * 60.0, "s/min");
        show(figure.of_work(0, backlog, WORKERS))
    }

    /// Processor seconds per second for as long as asked; stops the workers then.
    async fn look(&self, stop: &watch::Sender<bool>) -> Option<f64> {
        SystemClock.sleep(SETTLING_SECONDS.min(self.idle_seconds)).await;
        let (watch, before) = (Stopwatch::start(), processor_seconds());
        SystemClock.sleep(self.idle_seconds).await;
        let (seconds, after) = (watch.seconds(), processor_seconds());
        stop.send_replace(true);
        Some((after? - before?) / seconds)
    }
}

/// An engine that did anything was not idle.
async fn all_wait(flow: &Handle<Dispatch>, backlog: u64) -> Result<(), Failed> {
    let health = flow.health().await?;
    if (health.due, health.counts.get("pending")) == (0, Some(&backlog)) {
        Ok(())
    } else {
        Err(Failed::Unmeasured("the idle engine had something to do"))
    }
}
