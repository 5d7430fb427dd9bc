//! From a replayed journal, or its checkpoint, to running flows.
//!
//! Owns the first agenda, tally and hand-overs of each flow, from the journal or from what an earlier life
//! left. Must hold no rule: what is handed over is [`crate::flows::handover`]'s.

use super::controls::Gate;
use super::entity::{Successor, Surroundings};
use super::message::{AbandonAll, Act, Ask, Failure, Mark};
use super::port::Port;
use super::projector::Projector;
use super::runtime::FlowOptions;
use super::scribe::Scribe;
use super::supervisor::Supervisor;
use crate::agenda::{Agenda, Slot};
use crate::checkpoint::{AllMarks, Marks};
use crate::codec::DecodeError;
use crate::contract::text::Sha256;
use crate::contract::time::Timestamp;
use crate::control::Controls;
use crate::flows::Answers;
use crate::flows::all::AllFlows;
use crate::flows::delivery::Delivery;
use crate::flows::dispatch::Dispatch;
use crate::flows::handover::{Follows, Registration, Terms};
use crate::flows::lifecycle::Lifecycle;
use crate::flows::notification::Notify;
use crate::flows::processing::Processing;
use crate::health::{Class, Tally};
use crate::record::{Identity, Key, Refusal, State, stream_of};
use crate::replay::{Replay, ReplayError, Replayed};
use actix::Addr;
use leasehold_journal::walk::Item;
use leasehold_journal::{JournalError, StoreReader};
use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use tokio::sync::{Semaphore, oneshot, watch};

/// Applies what a journal shows of any flow. Damage of its own quarantines its stream; what is not
/// about this record (a disk that does not answer, a newer version, a stream of no flow) refuses the
/// journal.
pub(crate) fn take(flows: &mut AllFlows, item: Item) -> Result<(), JournalError> {
    let (sequence, applied) = match item {
        Item::Record { sequence, stream, record } => {
            let body = readable(record.map(|record| record.body))?;
            (sequence, flows.apply(stream, body.as_deref()))
        }
        Item::Carried { stream, tip, image } => {
            (tip.sequence, flows.carry(stream, readable(image)?.as_deref()))
        }
        Item::Base(_) | Item::Frame(_) => return Ok(()),
    };
    match applied {
        Some(Ok(())) => Ok(()),
        Some(Err(ReplayError::Decode(DecodeError::Newer(version)))) => {
            Err(JournalError::Newer { version: version.into() })
        }
        Some(Err(error)) => {
            tracing::error!(code = %error, sequence, "a record does not replay");
            Ok(())
        }
        None => Err(JournalError::Corrupt { sequence }),
    }
}

/// The bytes; `None` when they are damaged.
fn readable(bytes: Result<Vec<u8>, JournalError>) -> Result<Option<Vec<u8>>, JournalError> {
    match bytes {
        Ok(bytes) => Ok(Some(bytes)),
        Err(JournalError::Corrupt { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What all flows of an engine share.
pub(crate) struct Shared {
    pub(crate) scribe: Scribe,
    pub(crate) reader: Arc<dyn StoreReader>,
    pub(crate) admission: Arc<Semaphore>,
    /// How many hand-overs are on their way.
    pub(crate) handing_over: watch::Sender<u64>,
    /// The first failure of the journal over a hand-over.
    pub(crate) not_handed_over: Arc<OnceLock<JournalError>>,
    /// Whether a hand-over came to nothing, for whatever reason: the next open looks for it again.
    pub(crate) missed: Rc<Cell<bool>>,
    pub(crate) abandon_at: Option<Timestamp>,
    /// What is paused.
    pub(crate) gate: Gate,
}

/// A flow that runs.
pub(crate) struct Running<F: Answers> {
    pub(crate) port: Port<F>,
    pub(crate) supervisor: Addr<Supervisor<F>>,
}

/// What a flow starts from.
pub(crate) enum Origin<F: Answers> {
    /// Its records.
    Journal(Replay<F>),
    /// What an earlier life left. It had handed over all that this life would: it left nothing otherwise.
    Checkpoint(Marks<F>),
}

/// What all flows start from.
pub(crate) struct Origins {
    pub(crate) dispatch: Origin<Dispatch>,
    pub(crate) lifecycle: Origin<Lifecycle>,
    pub(crate) notification: Origin<Notify>,
    pub(crate) processing: Origin<Processing>,
    pub(crate) delivery: Origin<Delivery>,
    pub(crate) controls: Controls,
}

impl From<AllFlows> for Origins {
    fn from(flows: AllFlows) -> Self {
        Self {
            dispatch: Origin::Journal(flows.dispatch),
            lifecycle: Origin::Journal(flows.lifecycle),
            notification: Origin::Journal(flows.notification),
            processing: Origin::Journal(flows.processing),
            delivery: Origin::Journal(flows.delivery),
            controls: flows.controls,
        }
    }
}

impl From<AllMarks> for Origins {
    fn from(marks: AllMarks) -> Self {
        Self {
            dispatch: Origin::Checkpoint(marks.dispatch),
            lifecycle: Origin::Checkpoint(marks.lifecycle),
            notification: Origin::Checkpoint(marks.notification),
            processing: Origin::Checkpoint(marks.processing),
            delivery: Origin::Checkpoint(marks.delivery),
            controls: marks.controls,
        }
    }
}

/// What a flow has before its first request.
struct Beginning<F: Answers> {
    agenda: Agenda<Class<F::Facet>>,
    tally: Tally<F::Facet>,
    keys: HashMap<Key, Identity>,
    latest: Option<Timestamp>,
    /// Settled records whose successors are not registered.
    missing: Vec<State<F>>,
}

impl<F: Answers> Beginning<F> {
    fn of(
        origin: Origin<F>,
        expected: Option<Sha256>,
        registered: Option<&IsRegistered<F>>,
    ) -> Self {
        match origin {
            Origin::Journal(replay) => Self::of_replay(&replay, expected, registered),
            Origin::Checkpoint(marks) => Self::of_marks(marks),
        }
    }

    fn of_replay(
        replay: &Replay<F>,
        expected: Option<Sha256>,
        registered: Option<&IsRegistered<F>>,
    ) -> Self {
        let mut agenda = Agenda::default();
        let mut tally = Tally::default();
        let (mut keys, mut latest, mut missing) = (HashMap::new(), None, Vec::new());
        for (_, record) in replay.iter() {
            match record {
                Replayed::Sound(state) => {
                    let mark = Mark::of(state, expected);
                    tally.shift(None, mark.class);
                    latest = latest.max(mark.updated_at);
                    if let Some(record) = state.record() {
                        let identity = F::identity(&record.binding);
                        agenda.place(&identity, Slot::Idle, mark.slot);
                        keys.extend(mark.unique.map(|key| (key, identity)));
                    }
                    if let (State::Completed { .. }, Some(registered)) = (state, registered)
                        && !registered(state)
                    {
                        missing.push(state.clone());
                    }
                }
                Replayed::Quarantined => tally.quarantine(None),
            }
        }
        Self { agenda, tally, keys, latest, missing }
    }

    fn of_marks(marks: Marks<F>) -> Self {
        let Marks { latest, tally, entries, keys } = marks;
        let mut agenda = Agenda::default();
        for (identity, slot) in entries {
            agenda.place(&identity, Slot::Idle, slot);
        }
        Self { agenda, tally, keys: keys.into_iter().collect(), latest, missing: Vec::new() }
    }
}

/// Starts one flow: builds its agenda and tally, ends leases of an earlier life, and hands over what
/// an earlier life settled and did not.
pub(crate) async fn start_flow<F: Answers>(
    origin: Origin<F>,
    options: FlowOptions,
    successor: Option<Succession<F>>,
    shared: &Shared,
) -> Result<Running<F>, JournalError> {
    let (successor, registered) =
        successor.map(|Succession { tell, registered }| (tell, registered)).unzip();
    let Beginning { agenda, tally, keys, latest, missing } =
        Beginning::of(origin, options.expected, registered.as_ref());
    let surroundings = Rc::new(Surroundings {
        scribe: shared.scribe.clone(),
        reader: Arc::clone(&shared.reader),
        policy: options.policy,
        expected: options.expected,
        gate: shared.gate.clone(),
        successor,
    });
    if let Some(tell) = &surroundings.successor {
        missing.iter().for_each(tell);
    }
    let (moves, moved) = watch::channel(0);
    let projector = Projector::begin(tally);
    let supervisor = Supervisor::begin(agenda, keys, latest, projector, surroundings, moves);
    if let Some(now) = shared.abandon_at {
        end_leases(&supervisor, now).await?;
    }
    let port = Port::new(supervisor.clone(), Arc::clone(&shared.admission), moved);
    Ok(Running { port, supervisor })
}

async fn end_leases<F: Answers>(
    supervisor: &Addr<Supervisor<F>>,
    now: Timestamp,
) -> Result<(), JournalError> {
    let (reply, done) = oneshot::channel();
    let asked = supervisor.try_send(AbandonAll { now, reply });
    match (asked, done.await) {
        (Ok(()), Ok(Ok(()))) => Ok(()),
        (Ok(()), Ok(Err(Failure::Journal(error)))) => Err(error),
        (Err(_), _) | (Ok(()), Ok(Err(_)) | Err(_)) => Err(JournalError::Storage),
    }
}

/// Whether what a record leads to is registered already.
type IsRegistered<F> = Box<dyn Fn(&State<F>) -> bool>;

/// How a flow hands over.
pub(crate) struct Succession<F: Answers> {
    tell: Successor<F>,
    registered: IsRegistered<F>,
}

/// The way from flow `P` to a flow that runs.
///
/// The registration is a request like any other: idempotent, and durable before anything follows from
/// it. One that is lost with the process is found again at the next open, since it is derived from the
/// journal.
pub(crate) fn succession<P, F>(next: &Running<F>, terms: Terms, shared: &Shared) -> Succession<P>
where
    P: Answers,
    F: Answers + Follows<P>,
{
    let supervisor = next.supervisor.clone();
    let handing_over = shared.handing_over.clone();
    let not_handed_over = Arc::clone(&shared.not_handed_over);
    let missed = Rc::clone(&shared.missed);
    let reader = Arc::clone(&shared.reader);
    let tell = move |state: &State<P>| {
        let Some(Registration { identity, command, at }) = F::follow(state, terms) else { return };
        let to = F::TAG.name();
        tracing::debug!(to, "handing over");
        let (reply, done) = oneshot::channel();
        handing_over.send_modify(|count| *count += 1);
        let act = Act { identity, ask: Ask::Do(command), now: at, reply };
        if supervisor.try_send(act).is_err() {
            tracing::error!(code = "engine_stopped", "a hand-over waits for the next open");
        }
        let handing_over = handing_over.clone();
        let not_handed_over = Arc::clone(&not_handed_over);
        let missed = Rc::clone(&missed);
        actix_rt::spawn(async move {
            let done = done.await;
            if !matches!(done, Ok(Ok(_))) {
                missed.set(true);
            }
            match done {
                Ok(Ok(_)) => tracing::debug!(to, "handed over"),
                Ok(Err(Failure::Refused(Refusal::IdempotencyCollision))) => {
                    tracing::warn!(code = "idempotency_collision", "registered under other terms");
                }
                Ok(Err(failure)) => {
                    tracing::error!(code = %failure, "a hand-over waits for the next open");
                    if let Failure::Journal(error) = failure {
                        not_handed_over.get_or_init(|| error);
                    }
                }
                Err(_) => tracing::debug!("the engine stopped during a hand-over"),
            }
            handing_over.send_modify(|count| *count -= 1);
        });
    };
    let registered = move |state: &State<P>| match F::follow(state, terms) {
        None => true,
        Some(Registration { identity, .. }) => {
            reader.version(stream_of(F::TAG, identity.as_str())) > 0
        }
    };
    Succession { tell: Box::new(tell), registered: Box::new(registered) }
}
