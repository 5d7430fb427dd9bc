//! Workers of several flows side by side, until nothing is left in any of them or for good.
//!
//! Owns when a pipeline is done: a flow that is idle may still get more from the one before it. Must
//! not decide anything about a record.

use crate::engine::Engine;
use crate::error::Error;
use crate::handle::Handle;
use crate::worker::{Client, DrainOptions, Stops, ended, start_workers};
use leasehold_actors::flows::Answers;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Asks one flow when its next thing has to be done.
type NextAt =
    Box<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Option<f64>, Error>> + Send>> + Send>;

/// Workers of several flows.
///
/// Flows are added in the order in which they hand over to each other; that is the order in which
/// idleness spreads.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # struct Transport;
/// # impl leasehold::Client<leasehold::Dispatch> for Transport {
/// #     fn longest_call_seconds(&self) -> Option<f64> { Some(30.0) }
/// #     async fn call(
/// #         &self,
/// #         request: leasehold::ChangeRequest,
/// #     ) -> Result<Vec<u8>, leasehold::CallFailure> {
/// #         let answer = r#"{"schema": "blun.website-localization-api.v2", "event_id": "ID",
/// #             "plan_id": "plan-1", "job_count": 1, "inserted_jobs": 1, "status": "enqueued"}"#;
/// #         Ok(answer.replace("ID", request.event_id.as_str()).into_bytes())
/// #     }
/// # }
/// # let changes = std::fs::read_to_string("examples/changes.ndjson")?;
/// # let change = changes.lines().next().ok_or("an example")?;
/// # let engine = leasehold::Engine::in_memory(&leasehold::MemoryDisk::new()).open().await?;
/// let workers = leasehold::DrainOptions {
///     in_flight: 2,
///     lease_seconds: 600.0,
///     worker: "worker".to_owned(),
///     destination: None,
/// };
/// engine.dispatch().enqueue(change, 5).await?;
/// let (_stop, stopped) = tokio::sync::watch::channel(false);
/// let mut pipeline = leasehold::Pipeline::new(&engine, stopped);
/// pipeline.add(engine.dispatch(), Transport, &workers, |_| {});
/// // Flows that take over from it follow here.
/// pipeline.finish().await?;
/// assert_eq!(engine.dispatch().status("help-0001").await?.status, "succeeded");
/// # Ok(()) }
/// ```
pub struct Pipeline<'a> {
    engine: &'a Engine,
    workers: JoinSet<Result<(), Error>>,
    stages: Vec<(NextAt, watch::Receiver<u64>)>,
    stop: watch::Receiver<bool>,
    failed: watch::Sender<bool>,
    over: watch::Sender<bool>,
}

impl std::fmt::Debug for Pipeline<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipeline").field("stages", &self.stages.len()).finish_non_exhaustive()
    }
}

impl<'a> Pipeline<'a> {
    /// A pipeline without workers; `stop`, or the engine's [`Stopper`](crate::Stopper), ends it early: no
    /// new claim is made then, and the calls under way end first, or are dropped when the latter says so.
    #[must_use]
    pub fn new(engine: &'a Engine, stop: watch::Receiver<bool>) -> Self {
        Self {
            engine,
            workers: JoinSet::new(),
            stages: Vec::new(),
            stop,
            failed: watch::Sender::new(false),
            over: watch::Sender::new(false),
        }
    }

    /// Starts the workers of one flow; `seen` is told every attempt.
    pub fn add<F, C>(
        &mut self,
        handle: &Handle<F>,
        client: C,
        options: &DrainOptions,
        seen: impl Fn(&F::Attempt) + Clone + Send + 'static,
    ) where
        F: Answers,
        C: Client<F> + 'static,
    {
        let stops = Stops {
            asked: self.stop.clone(),
            failed: self.failed.subscribe(),
            stays: Some(self.over.subscribe()),
        };
        start_workers(&mut self.workers, handle, &Arc::new(client), options, &stops, seen);
        let asked = handle.clone();
        let next_at: NextAt = Box::new(move || {
            let handle = asked.clone();
            Box::pin(async move { handle.next_at().await })
        });
        self.stages.push((next_at, handle.moves()));
    }

    /// Works until nothing waits and nothing is leased in any of the flows. What is paused does not count:
    /// it is there for the next time.
    ///
    /// # Errors
    /// The first [`Error`] that is not about one record, or that of [`Engine::handed_over`].
    pub async fn finish(mut self) -> Result<(), Error> {
        let idle = self.until_idle().await;
        self.wound_up(idle).await
    }

    /// Works until it is asked to stop, also while nothing waits: more may be registered.
    ///
    /// # Errors
    /// As [`Self::finish`].
    pub async fn stay(mut self) -> Result<(), Error> {
        let stayed = self.until_stopped().await;
        self.wound_up(stayed).await
    }

    /// Lets the workers end, and tells what came of it all.
    async fn wound_up(self, worked: Result<(), Error>) -> Result<(), Error> {
        self.over.send_replace(true);
        let Self { engine, workers, failed, .. } = self;
        ended(workers, &failed).await.and(worked).and_then(|()| engine.handed_over())
    }

    async fn until_stopped(&mut self) -> Result<(), Error> {
        let Self { stop, workers, engine, .. } = self;
        let stopper = engine.stopper();
        // A sender that is gone counts as asking.
        let asked = async { drop(stop.wait_for(|stop| *stop).await) };
        tokio::select! {
            () = asked => Ok(()),
            () = stopper.begun() => Ok(()),
            // Workers stay until they are told; one that ends has failed.
            Some(done) = workers.join_next() => done.unwrap_or(Err(Error::Stopped)),
        }
    }

    async fn until_idle(&mut self) -> Result<(), Error> {
        let mut failed = self.failed.subscribe();
        let mut hand_overs = self.engine.hand_overs();
        let stopper = self.engine.stopper();
        loop {
            hand_overs.mark_unchanged();
            for (_, moves) in &mut self.stages {
                moves.mark_unchanged();
            }
            let told = *self.stop.borrow() || stopper.is_stopping();
            if told || *failed.borrow() || self.is_idle().await? {
                return Ok(());
            }
            let moved = any_moved(&mut self.stages);
            tokio::select! {
                () = moved => {}
                _ = hand_overs.changed() => {}
                _ = self.stop.changed() => {}
                _ = failed.changed() => {}
                () = stopper.begun() => {}
                done = self.workers.join_next() => {
                    // Workers stay until they are told; one that ends has failed.
                    if let Some(done) = done {
                        done.unwrap_or(Err(Error::Stopped))?;
                    }
                }
            }
        }
    }

    /// Each flow in turn: once one is idle and its hand-overs are through, it brings nothing more.
    async fn is_idle(&self) -> Result<bool, Error> {
        for (next_at, _) in &self.stages {
            if next_at().await?.is_some() || self.engine.handing_over() > 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Waits until a record of any flow moved.
async fn any_moved(stages: &mut [(NextAt, watch::Receiver<u64>)]) {
    let mut waits: Vec<_> = stages.iter_mut().map(|(_, moves)| Box::pin(moves.changed())).collect();
    std::future::poll_fn(|context| {
        for wait in &mut waits {
            if wait.as_mut().poll(context).is_ready() {
                return std::task::Poll::Ready(());
            }
        }
        std::task::Poll::Pending
    })
    .await;
}
