//! What is asked of the engine on behalf of a request.
//!
//! Owns the handles, what is gathered from them, and what is kept for a few seconds because it costs a
//! look at every record. Must not know HTTP.

use crate::audit::AllHealth;
use crate::audit::Pins;
use crate::audit::live::{Live, Outlook};
use crate::clock::Clock;
use crate::destination::Destination;
use crate::engine::Engine;
use crate::error::Error;
use crate::handle::Handle;
use crate::intervene::Intervened;
use crate::overview::{
    DestinationOverview, FlowFigures, FlowOverview, HealthFigures, JournalOverview, Overview,
    PausedOverview, Rings, Sides, StuckRecord, assemble,
};
use leasehold_actors::control::{Command, PausedScope, Scope, Side};
use leasehold_actors::explain::Place;
use leasehold_actors::flows::Answers;
use leasehold_actors::flows::delivery::Delivery;
use leasehold_actors::flows::dispatch::Dispatch;
use leasehold_actors::flows::lifecycle::Lifecycle;
use leasehold_actors::flows::notification::Notify;
use leasehold_actors::flows::processing::Processing;
use leasehold_actors::record::FlowTag;
use leasehold_actors::shell::Steering;
use leasehold_journal::JournalError;
use std::sync::{Arc, Mutex, PoisonError};

/// How long what is stuck is not looked for again, in seconds.
const STUCK_SECONDS: f64 = 5.0;

/// The ceilings of what is registered at a door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ceilings {
    /// Attempts of a change to the CMS, 1 to 20.
    pub dispatch_max_attempts: i64,
    /// Attempts of a document to the source runtime, 1 to 20.
    pub delivery_max_attempts: i64,
    /// Attempts the source runtime is told to make, 1 to 20.
    pub source_max_attempts: i64,
}

/// What the workers did in the last ten minutes.
pub struct Activity {
    rings: Mutex<Rings>,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Activity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Activity(..)")
    }
}

impl Activity {
    /// Nothing yet, by the engine's clock.
    #[must_use]
    pub fn new(engine: &Engine) -> Self {
        let clock = Arc::clone(engine.dispatch().clock());
        Self { rings: Mutex::default(), clock }
    }

    /// Counts one attempt; `left` is the state it left its record in, as the flow calls it.
    pub fn note(&self, flow: FlowTag, left: &str) {
        let at = self.clock.now_seconds();
        self.rings.lock().unwrap_or_else(PoisonError::into_inner).note(flow, left, at);
    }

    fn read(&self) -> Rings {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The desk.
pub(crate) struct Desk {
    pub(crate) dispatch: Handle<Dispatch>,
    pub(crate) lifecycle: Handle<Lifecycle>,
    pub(crate) notification: Handle<Notify>,
    pub(crate) processing: Handle<Processing>,
    pub(crate) delivery: Handle<Delivery>,
    pub(crate) ceilings: Ceilings,
    activity: Arc<Activity>,
    steering: Steering,
    destinations: Vec<Destination>,
    live: Arc<Live>,
    pins: Pins,
    /// How it is asked, as commands say it.
    place: Place,
    /// When it was looked for, by the clock that never jumps, and what was found.
    stuck: Mutex<Option<(f64, StuckCount, Vec<StuckRecord>)>>,
}

/// How many records are stuck, as the flows count them. When that changes the list is looked for anew, so
/// that it never contradicts the verdict beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StuckCount {
    failed: u64,
    held: u64,
    quarantined: u64,
}

impl StuckCount {
    fn of(flows: &[FlowOverview]) -> Self {
        let failed = |flow: &FlowOverview| flow.counts.get("failed").copied().unwrap_or(0);
        Self {
            failed: flows.iter().map(failed).sum(),
            held: flows.iter().map(|flow| flow.held).sum(),
            quarantined: flows.iter().map(|flow| flow.quarantined).sum(),
        }
    }
}

impl Desk {
    pub(crate) fn new(
        engine: &Engine,
        (activity, destinations): (Arc<Activity>, Vec<Destination>),
        ceilings: Ceilings,
        place: Place,
    ) -> Self {
        let [receiver, source] =
            [engine.processing().terms.expected, engine.delivery().terms.expected];
        let losses_max = engine.dispatch().terms.unclean_losses_max;
        Self {
            pins: Pins::configured(receiver, source).with_unclean_losses_max(losses_max),
            place,
            dispatch: engine.dispatch().clone(),
            lifecycle: engine.lifecycle().clone(),
            notification: engine.notification().clone(),
            processing: engine.processing().clone(),
            delivery: engine.delivery().clone(),
            ceilings,
            activity,
            steering: engine.steering().clone(),
            destinations,
            live: Arc::new(Live::new(Arc::clone(engine.reader()))),
            stuck: Mutex::default(),
        }
    }

    /// What is paused.
    pub(crate) fn paused(&self) -> Vec<PausedScope> {
        self.steering.paused().to_vec()
    }

    /// Pauses a scope, or lets it go on.
    pub(crate) async fn steer(
        &self,
        scope: Scope,
        command: Command,
    ) -> Result<Intervened<Option<PausedScope>>, Error> {
        crate::controls::steer(&self.steering, self.dispatch.clock(), scope, command).await
    }

    /// What explanations are made with.
    pub(crate) fn outlook(&self) -> Result<Outlook, Error> {
        Ok(Outlook { pins: self.pins, place: self.place.clone(), now: self.dispatch.now()? })
    }

    /// The other sides, where calls to them are limited.
    pub(crate) fn destinations(&self) -> Vec<DestinationOverview> {
        self.destinations.iter().map(|side| side.view().into()).collect()
    }

    /// The side a flow calls, where calls to it are limited.
    pub(crate) fn side_of(&self, flow: FlowTag) -> Option<DestinationOverview> {
        self.destinations().into_iter().find(|side| side.name == Side::of(flow).name())
    }

    pub(crate) fn steady_seconds(&self) -> f64 {
        self.dispatch.clock().steady_seconds()
    }

    /// Lets go of what nobody looked at for a while.
    pub(crate) fn let_go(&self) {
        self.live.let_go(self.steady_seconds());
    }

    pub(crate) async fn health(&self) -> Result<AllHealth, Error> {
        Ok(AllHealth {
            dispatch: self.dispatch.health().await?,
            lifecycle: self.lifecycle.health().await?,
            notification: self.notification.health().await?,
            processing: self.processing.health().await?,
            delivery: self.delivery.health().await?,
        })
    }

    /// How everything stands, but for what is stuck: that costs a look at every record.
    pub(crate) async fn levels(&self) -> Result<Overview, Error> {
        let flows = vec![
            figures(&self.dispatch).await?,
            figures(&self.lifecycle).await?,
            figures(&self.notification).await?,
            figures(&self.processing).await?,
            figures(&self.delivery).await?,
        ];
        let journal = self.looking(journal).await?;
        let at = self.dispatch.now()?.seconds();
        let sides = Sides {
            destinations: self.destinations(),
            paused: self.paused().into_iter().map(PausedOverview::from).collect(),
        };
        Ok(assemble(at, journal, flows, sides, &self.activity.read(), Vec::new()))
    }

    /// How everything stands.
    pub(crate) async fn overview(&self) -> Result<Overview, Error> {
        let mut overview = self.levels().await?;
        overview.stuck = self.stuck(StuckCount::of(&overview.flows)).await?;
        Ok(overview)
    }

    async fn stuck(&self, count: StuckCount) -> Result<Vec<StuckRecord>, Error> {
        let now = self.steady_seconds();
        if let Some((at, then, stuck)) = &*self.stuck.lock().unwrap_or_else(PoisonError::into_inner)
            && now - at < STUCK_SECONDS
            && *then == count
        {
            return Ok(stuck.clone());
        }
        let outlook = self.outlook()?;
        let facts = self.looking(move |live| live.stuck(now, &outlook)).await?;
        let stuck: Vec<_> = facts.into_iter().map(StuckRecord::of).collect();
        *self.stuck.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((now, count, stuck.clone()));
        Ok(stuck)
    }

    /// What was stuck a moment ago may not be any more.
    pub(crate) fn changed(&self) {
        *self.stuck.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Looks at the journal where it keeps nobody waiting.
    pub(crate) async fn looking<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Live) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, Error> {
        let live = Arc::clone(&self.live);
        let looked = tokio::task::spawn_blocking(move || look(&live)).await;
        // A panic in there is ours; the engine goes on without this answer.
        looked.map_err(|_| Error::Stopped)?.map_err(Error::from)
    }
}

/// Asks the disk for each of its files, which may take a while.
fn journal(live: &Live) -> Result<JournalOverview, JournalError> {
    let reader = live.reader();
    let head = reader.head();
    Ok(JournalOverview {
        id: reader.id()?.to_string(),
        sequence: head.sequence,
        head: head.hash.to_string(),
        disk_bytes: reader.disk_bytes()?,
    })
}

async fn figures<F: Answers>(handle: &Handle<F>) -> Result<FlowFigures, Error> {
    let health = serde_json::to_value(handle.health().await?);
    let health: HealthFigures = health
        .and_then(serde_json::from_value)
        .expect("every flow's health has a verdict and counts");
    let (depths, next_at) = (handle.depths().await?, handle.next_at().await?);
    Ok(FlowFigures { flow: F::TAG, health, depths, next_at })
}
