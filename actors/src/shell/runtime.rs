//! The engine's thread, from open to close.
//!
//! Owns the named thread with its actix system and the writer's thread. Must not know sled, clocks or
//! configuration files.

use super::checkpoint::Supervisors;
use super::controls::{Gate, Steering, Warden};
use super::message::{Failure, Followed};
use super::port::Port;
use super::scribe::{Others, Scribe};
use super::start::{Origins, Shared, start_flow, succession, take};
use crate::checkpoint::{self, AllMarks};
use crate::contract::text::Sha256;
use crate::contract::time::{Ceiling, Timestamp};
use crate::flows::all::AllFlows;
use crate::flows::delivery::Delivery;
use crate::flows::dispatch::Dispatch;
use crate::flows::handover::Terms;
use crate::flows::lifecycle::Lifecycle;
use crate::flows::notification::Notify;
use crate::flows::processing::Processing;
use crate::record::Policy;
use actix::Recipient;
use leasehold_journal::opening::Resume;
use leasehold_journal::walk::Visit;
use leasehold_journal::{JournalError, Store, StoreReader};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot, watch};

/// Requests under way at once; more wait at the door.
const ADMISSION: u32 = 8192;

/// What an opened journal hands to the engine.
pub type Opened = (Box<dyn Store>, Arc<dyn StoreReader>);

/// Opens a journal: from the note that was left, where it may and the first one accepts it, or else handing
/// every record to the visitor. Runs on the engine's thread.
pub type OpenStore =
    Box<dyn FnOnce(&mut Resume<'_>, &mut Visit<'_>) -> Result<Opened, JournalError> + Send>;

/// How one flow runs.
#[derive(Debug, Clone, Copy)]
pub struct FlowOptions {
    /// Its delays.
    pub policy: Policy,
    /// Its pinned digest, where it has one.
    pub expected: Option<Sha256>,
}

/// Which flow takes over from which, and the ceiling of its records; `None` is switched off.
#[derive(Debug, Clone, Copy, Default)]
pub struct HandOvers {
    /// A succeeded dispatch is watched.
    pub lifecycle: Option<Ceiling>,
    /// A terminal change is notified.
    pub notification: Option<Ceiling>,
    /// An acknowledged notification is watched.
    pub processing: Option<Ceiling>,
}

/// How an engine runs.
#[derive(Debug, Clone, Copy)]
pub struct RuntimeOptions {
    /// Flow `dispatch`.
    pub dispatch: FlowOptions,
    /// Flow `lifecycle`.
    pub lifecycle: FlowOptions,
    /// Flow `notification`.
    pub notification: FlowOptions,
    /// Flow `processing`.
    pub processing: FlowOptions,
    /// Flow `delivery`.
    pub delivery: FlowOptions,
    /// Which flow takes over from which.
    pub hand_overs: HandOvers,
    /// When leases of an earlier life are ended; `None` leaves them to run out.
    pub abandon_at: Option<Timestamp>,
}

impl RuntimeOptions {
    /// What a note from an earlier life has to agree with.
    fn settings(&self) -> Sha256 {
        let Self { dispatch, lifecycle, notification, processing, delivery, .. } = self;
        let flows = [dispatch, lifecycle, notification, processing, delivery];
        let HandOvers { lifecycle, notification, processing } = self.hand_overs;
        checkpoint::fingerprint(
            flows.map(|flow| flow.expected),
            [lifecycle, notification, processing],
        )
    }
}

/// One handle per flow.
#[derive(Debug, Clone)]
pub struct Ports {
    /// Flow `dispatch`.
    pub dispatch: Port<Dispatch>,
    /// Flow `lifecycle`.
    pub lifecycle: Port<Lifecycle>,
    /// Flow `notification`.
    pub notification: Port<Notify>,
    /// Flow `processing`.
    pub processing: Port<Processing>,
    /// Flow `delivery`.
    pub delivery: Port<Delivery>,
    /// Pausing and resuming.
    pub steering: Steering,
}

/// A running engine.
pub struct Runtime {
    ports: Ports,
    /// There until it ends.
    reader: Option<Arc<dyn StoreReader>>,
    latest: Option<Timestamp>,
    resumed: bool,
    admission: Arc<Semaphore>,
    hand_overs: HandOverState,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// How the hand-overs go, as seen from outside.
#[derive(Debug, Clone, Default)]
struct HandOverState {
    under_way: watch::Sender<u64>,
    failed: Arc<OnceLock<Failure>>,
}

struct Started {
    ports: Ports,
    reader: Arc<dyn StoreReader>,
    latest: Option<Timestamp>,
    resumed: bool,
}

impl Runtime {
    /// Opens the journal and starts the actors, on a thread of their own.
    ///
    /// # Errors
    /// Whatever opening the journal answers.
    pub async fn start(options: RuntimeOptions, open: OpenStore) -> Result<Self, JournalError> {
        let admission = Arc::new(Semaphore::new(ADMISSION as usize));
        let hand_overs = HandOverState::default();
        let (started, ready) = oneshot::channel();
        let (stop, stopped) = oneshot::channel();
        let inside = (Arc::clone(&admission), hand_overs.clone());
        let thread = std::thread::Builder::new()
            .name("leasehold-engine".to_owned())
            .spawn(move || live(options, open, inside, started, stopped))?;
        match ready.await {
            Ok(Ok(Started { ports, reader, latest, resumed })) => {
                let (reader, stop, thread) = (Some(reader), Some(stop), Some(thread));
                Ok(Self { ports, reader, latest, resumed, admission, hand_overs, stop, thread })
            }
            Ok(Err(error)) => {
                join(thread);
                Err(error)
            }
            Err(_) => {
                join(thread);
                Err(JournalError::Storage)
            }
        }
    }

    /// The flows.
    #[must_use]
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    /// Reads the journal directly.
    ///
    /// # Panics
    /// Never: it is let go of only when the runtime ends.
    #[must_use]
    pub fn reader(&self) -> &Arc<dyn StoreReader> {
        self.reader.as_ref().expect("only an end takes it")
    }

    /// Whether it started from what an earlier life left, and not from reading the whole journal.
    #[must_use]
    pub fn resumed(&self) -> bool {
        self.resumed
    }

    /// The latest time anything had happened when the journal was opened.
    #[must_use]
    pub fn latest(&self) -> Option<Timestamp> {
        self.latest
    }

    /// How many settled records are just being registered with the next flow.
    #[must_use]
    pub fn handing_over(&self) -> u64 {
        *self.hand_overs.under_way.borrow()
    }

    /// That number, for those who wait until it is 0.
    #[must_use]
    pub fn hand_overs(&self) -> watch::Receiver<u64> {
        self.hand_overs.under_way.subscribe()
    }

    /// Why the first hand-over was not written that waits for the next open.
    #[must_use]
    pub fn not_handed_over(&self) -> Option<&Failure> {
        self.hand_overs.failed.get()
    }

    /// Waits for the requests under way, then stops. Requests that come later are answered
    /// [`super::Failure::Stopped`]; what was answered is durable. What the next life can start from is
    /// left, unless something is under way that nobody waits for, such as a hand-over.
    pub async fn close(mut self) {
        let everything = self.admission.acquire_many(ADMISSION).await;
        let quiet = everything.map(SemaphorePermit::forget).is_ok();
        self.end(quiet);
    }

    /// `quiet` says that no request is under way.
    fn end(&mut self, quiet: bool) {
        self.admission.close();
        match self.stop.take() {
            Some(stop) if quiet => {
                if stop.send(()).is_err() {
                    tracing::debug!("the engine's thread has ended already");
                }
            }
            Some(_) | None => {}
        }
        // The engine's thread is to be the last to let go of the journal, and to close it.
        drop(self.reader.take());
        if let Some(thread) = self.thread.take() {
            join(thread);
        }
    }
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime").finish_non_exhaustive()
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        let quiet = self.admission.try_acquire_many(ADMISSION).is_ok();
        self.end(quiet);
    }
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!(code = "engine_stopped", "an engine thread ended with a panic");
    }
}

fn live(
    options: RuntimeOptions,
    open: OpenStore,
    (admission, hand_overs): (Arc<Semaphore>, HandOverState),
    started: oneshot::Sender<Result<Started, JournalError>>,
    stopped: oneshot::Receiver<()>,
) {
    let settings = options.settings();
    let (mut replays, mut marks) = (AllFlows::default(), None);
    let opened = open(
        &mut |note| {
            marks = checkpoint::decode(settings, note);
            marks.is_some()
        },
        &mut |item| take(&mut replays, item),
    );
    let (told, followed) = watch::channel(0);
    let result = opened.and_then(|(store, reader)| {
        let others = reader.is_shared().then(|| Others { reader: Arc::clone(&reader), told });
        Ok((Scribe::start(store, others)?, reader))
    });
    let ((scribe, writer, watch), reader) = match result {
        Ok(opened) => opened,
        Err(error) => return tell(started, Err(error)),
    };
    let (resumed, last) = (marks.is_some(), Arc::clone(&reader));
    let latest = marks.as_ref().map_or_else(|| replays.latest(), AllMarks::latest);
    let origins = marks.map_or_else(|| replays.into(), Origins::from);
    actix::System::new().block_on(async move {
        actix_rt::spawn(watch.keep_looking());
        let abandon_at = options.abandon_at;
        let HandOverState { under_way: handing_over, failed: not_handed_over } = hand_overs;
        let shared = Shared {
            scribe,
            reader: Arc::clone(&reader),
            admission,
            handing_over,
            not_handed_over,
            missed: Rc::new(Cell::new(false)),
            abandon_at,
            gate: Gate::of(&origins.controls),
        };
        let (ports, supervisors) = match start_flows(options, origins, &shared).await {
            Ok(running) => running,
            Err(error) => return tell(started, Err(error)),
        };
        actix_rt::spawn(pass_on(followed, supervisors.followers()));
        tell(started, Ok(Started { ports, reader, latest, resumed }));
        // Something is sent at a quiet end; any other one drops the sender.
        if stopped.await.is_ok() {
            supervisors.leave(settings, &shared).await;
        }
    });
    // The actors are gone with the system, and the last scribe with them.
    if writer.join().is_err() {
        tracing::error!(code = "engine_stopped", "the writer ended with a panic");
    }
    drop(last);
}

/// Tells whoever follows what other engines write, for as long as somebody looks at it.
async fn pass_on(mut followed: watch::Receiver<u64>, listeners: Vec<Recipient<Followed>>) {
    while followed.changed().await.is_ok() {
        for listener in &listeners {
            // Past the bound of its mailbox: what others did is taken over before what is asked next.
            listener.do_send(Followed);
        }
    }
}

fn tell(
    started: oneshot::Sender<Result<Started, JournalError>>,
    result: Result<Started, JournalError>,
) {
    if started.send(result).is_err() {
        tracing::debug!("nobody waits for the engine to start");
    }
}

/// Starts the flows from the last to the first, so that each knows its successor.
async fn start_flows(
    options: RuntimeOptions,
    origins: Origins,
    shared: &Shared,
) -> Result<(Ports, Supervisors), JournalError> {
    let on = options.hand_overs;
    let terms = |ceiling: Option<Ceiling>, digest| ceiling.map(|ceiling| Terms { ceiling, digest });
    let processing = start_flow(origins.processing, options.processing, None, shared).await?;
    let next = terms(on.processing, options.processing.expected)
        .map(|terms| succession::<Notify, _>(&processing, terms, shared));
    let notification = start_flow(origins.notification, options.notification, next, shared).await?;
    let next = terms(on.notification, None)
        .map(|terms| succession::<Lifecycle, _>(&notification, terms, shared));
    let lifecycle = start_flow(origins.lifecycle, options.lifecycle, next, shared).await?;
    let next =
        terms(on.lifecycle, None).map(|terms| succession::<Dispatch, _>(&lifecycle, terms, shared));
    let dispatch = start_flow(origins.dispatch, options.dispatch, next, shared).await?;
    let delivery = start_flow(origins.delivery, options.delivery, None, shared).await?;
    let listeners = vec![
        dispatch.supervisor.clone().recipient(),
        lifecycle.supervisor.clone().recipient(),
        notification.supervisor.clone().recipient(),
        processing.supervisor.clone().recipient(),
        delivery.supervisor.clone().recipient(),
    ];
    let steering = Warden::begin(origins.controls, listeners, shared);
    let ports = Ports {
        steering: steering.clone(),
        dispatch: dispatch.port,
        lifecycle: lifecycle.port,
        notification: notification.port,
        processing: processing.port,
        delivery: delivery.port,
    };
    let supervisors = Supervisors {
        dispatch: dispatch.supervisor,
        lifecycle: lifecycle.supervisor,
        notification: notification.supervisor,
        processing: processing.supervisor,
        delivery: delivery.supervisor,
        steering,
    };
    Ok((ports, supervisors))
}
