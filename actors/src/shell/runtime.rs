//! The engine's thread, from open to close.
//!
//! Owns the named thread with its actix system and the writer's thread. Must not know sled, clocks or
//! configuration files.

use super::entity::Surroundings;
use super::message::{AbandonAll, Failure};
use super::port::Port;
use super::projector::Projector;
use super::scribe::Scribe;
use super::supervisor::Supervisor;
use crate::agenda::{Agenda, Slot};
use crate::codec::DecodeError;
use crate::contract::time::Timestamp;
use crate::flows::Answers;
use crate::flows::dispatch::Dispatch;
use crate::health::{Tally, class};
use crate::record::identity::flow_of;
use crate::record::{FlowTag, Policy};
use crate::replay::{Replay, ReplayError, Replayed};
use leasehold_journal::{JournalError, Record, Store, StoreReader, StreamId};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::{Semaphore, oneshot, watch};

/// Requests under way at once; more wait at the door.
const ADMISSION: u32 = 8192;

/// What an opened journal hands to the engine.
pub type Opened = (Box<dyn Store>, Arc<dyn StoreReader>);

/// What is told of each record while a journal is opened.
pub type Visit<'a> =
    dyn FnMut(u64, StreamId, Result<Record, JournalError>) -> Result<(), JournalError> + 'a;

/// Opens a journal, handing every record to the visitor. Runs on the engine's thread.
pub type OpenStore = Box<dyn FnOnce(&mut Visit<'_>) -> Result<Opened, JournalError> + Send>;

/// How an engine runs.
#[derive(Debug, Clone, Copy)]
pub struct RuntimeOptions {
    /// Delays of flow `dispatch`.
    pub dispatch: Policy,
    /// When leases of an earlier life are ended; `None` leaves them to run out.
    pub abandon_at: Option<Timestamp>,
}

/// A running engine.
pub struct Runtime {
    dispatch: Port<Dispatch>,
    reader: Arc<dyn StoreReader>,
    admission: Arc<Semaphore>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Started {
    dispatch: Port<Dispatch>,
    reader: Arc<dyn StoreReader>,
}

impl Runtime {
    /// Opens the journal and starts the actors, on a thread of their own.
    ///
    /// # Errors
    /// Whatever opening the journal answers.
    pub async fn start(options: RuntimeOptions, open: OpenStore) -> Result<Self, JournalError> {
        let admission = Arc::new(Semaphore::new(ADMISSION as usize));
        let (started, ready) = oneshot::channel();
        let (stop, stopped) = oneshot::channel();
        let door = Arc::clone(&admission);
        let thread = std::thread::Builder::new()
            .name("leasehold-engine".to_owned())
            .spawn(move || live(options, open, door, started, stopped))?;
        match ready.await {
            Ok(Ok(Started { dispatch, reader })) => {
                Ok(Self { dispatch, reader, admission, stop: Some(stop), thread: Some(thread) })
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

    /// Flow `dispatch`.
    #[must_use]
    pub fn dispatch(&self) -> &Port<Dispatch> {
        &self.dispatch
    }

    /// Reads the journal directly.
    #[must_use]
    pub fn reader(&self) -> &Arc<dyn StoreReader> {
        &self.reader
    }

    /// Waits for the requests under way, then stops. Requests that come later are answered
    /// [`super::Failure::Stopped`]; what was answered is durable.
    pub async fn close(mut self) {
        if let Ok(everything) = self.admission.acquire_many(ADMISSION).await {
            everything.forget();
        }
        self.end();
    }

    fn end(&mut self) {
        self.admission.close();
        drop(self.stop.take());
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
        self.end();
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
    admission: Arc<Semaphore>,
    started: oneshot::Sender<Result<Started, JournalError>>,
    stopped: oneshot::Receiver<()>,
) {
    let mut dispatch = Replay::<Dispatch>::default();
    let opened = open(&mut |sequence, stream, record| {
        let replayed = match flow_of(stream) {
            Some(FlowTag::Dispatch) => take(&mut dispatch, stream, record)?,
            // The other flows are not written yet, so nothing of theirs can be understood.
            Some(
                FlowTag::Lifecycle
                | FlowTag::Notification
                | FlowTag::Processing
                | FlowTag::Delivery,
            )
            | None => return Err(JournalError::Corrupt { sequence }),
        };
        if let Err(error) = replayed {
            tracing::error!(code = %error, sequence, "a record does not replay");
        }
        Ok(())
    });
    let result = opened.and_then(|(store, reader)| Ok((Scribe::start(store)?, reader)));
    let ((scribe, writer), reader) = match result {
        Ok(opened) => opened,
        Err(error) => return tell(started, Err(error)),
    };
    actix::System::new().block_on(async move {
        let surroundings =
            Rc::new(Surroundings { scribe, reader: Arc::clone(&reader), policy: options.dispatch });
        let port = start_flow(dispatch, surroundings, admission, options.abandon_at).await;
        let fine = port.is_ok();
        tell(started, port.map(|dispatch| Started { dispatch, reader }));
        if !fine {
            return;
        }
        // Ends when the sender is dropped; there is nothing to receive.
        drop(stopped.await);
    });
    // The actors are gone with the system, and the last scribe with them.
    join(writer);
}

fn tell(
    started: oneshot::Sender<Result<Started, JournalError>>,
    result: Result<Started, JournalError>,
) {
    if started.send(result).is_err() {
        tracing::debug!("nobody waits for the engine to start");
    }
}

/// Applies a record. Damage of its own quarantines its stream; what is not about this record (a disk
/// that does not answer, a newer version) refuses the journal.
fn take<F: Answers>(
    replay: &mut Replay<F>,
    stream: StreamId,
    record: Result<Record, JournalError>,
) -> Result<Result<(), ReplayError>, JournalError> {
    let body = match record {
        Ok(record) => Some(record.body),
        Err(JournalError::Corrupt { .. }) => None,
        Err(error) => return Err(error),
    };
    match replay.apply(stream, body.as_deref()) {
        Ok(_) => Ok(Ok(())),
        Err(ReplayError::Decode(DecodeError::Newer(version))) => {
            Err(JournalError::Newer { version: version.into() })
        }
        Err(error) => Ok(Err(error)),
    }
}

async fn start_flow<F: Answers>(
    replay: Replay<F>,
    surroundings: Rc<Surroundings>,
    admission: Arc<Semaphore>,
    abandon_at: Option<Timestamp>,
) -> Result<Port<F>, JournalError> {
    let mut agenda = Agenda::default();
    let mut tally = Tally::default();
    for (_, record) in replay.iter() {
        match record {
            Replayed::Sound(state) => {
                let class = class(state);
                tally.shift(None, class);
                if let Some(record) = state.record() {
                    let identity = F::identity(&record.binding);
                    agenda.place(&identity, Slot::Idle, Slot::of(state, class));
                }
            }
            Replayed::Quarantined => tally.quarantine(None),
        }
    }
    drop(replay);
    let (moves, moved) = watch::channel(0);
    let projector = Projector::begin(tally);
    let supervisor = Supervisor::begin(agenda, projector, surroundings, moves);
    if let Some(now) = abandon_at {
        let (reply, done) = oneshot::channel();
        let asked = supervisor.try_send(AbandonAll { now, reply });
        match (asked, done.await) {
            (Ok(()), Ok(Ok(()))) => {}
            (Ok(()), Ok(Err(Failure::Journal(error)))) => return Err(error),
            (Err(_), _) | (Ok(()), Ok(Err(_)) | Err(_)) => return Err(JournalError::Storage),
        }
    }
    Ok(Port::new(supervisor, admission, moved))
}
