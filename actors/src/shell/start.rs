//! From a replayed journal to running flows.
//!
//! Owns the first agenda, tally and hand-overs of each flow. Must hold no rule: what is handed over is
//! [`crate::flows::handover`]'s.

use super::controls::Gate;
use super::entity::{Successor, Surroundings};
use super::message::{AbandonAll, Act, Ask, Failure, Mark};
use super::port::Port;
use super::projector::Projector;
use super::runtime::FlowOptions;
use super::scribe::Scribe;
use super::supervisor::Supervisor;
use crate::agenda::{Agenda, Slot};
use crate::codec::DecodeError;
use crate::contract::time::Timestamp;
use crate::flows::Answers;
use crate::flows::all::AllFlows;
use crate::flows::handover::{Follows, Registration, Terms};
use crate::health::Tally;
use crate::record::{Refusal, State, stream_of};
use crate::replay::{Replay, ReplayError, Replayed};
use actix::Addr;
use leasehold_journal::walk::Item;
use leasehold_journal::{JournalError, StoreReader};
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
    pub(crate) abandon_at: Option<Timestamp>,
    /// What is paused.
    pub(crate) gate: Gate,
}

/// A flow that runs.
pub(crate) struct Running<F: Answers> {
    pub(crate) port: Port<F>,
    pub(crate) supervisor: Addr<Supervisor<F>>,
}

/// Starts one flow: builds its agenda and tally, ends leases of an earlier life, and hands over what
/// an earlier life settled and did not.
pub(crate) async fn start_flow<F: Answers>(
    replay: Replay<F>,
    options: FlowOptions,
    successor: Option<Succession<F>>,
    shared: &Shared,
) -> Result<Running<F>, JournalError> {
    let mut agenda = Agenda::default();
    let mut tally = Tally::default();
    let mut keys = HashMap::new();
    for (_, record) in replay.iter() {
        match record {
            Replayed::Sound(state) => {
                let mark = Mark::of(state, options.expected);
                tally.shift(None, mark.class);
                if let Some(record) = state.record() {
                    let identity = F::identity(&record.binding);
                    agenda.place(&identity, Slot::Idle, mark.slot);
                    keys.extend(mark.unique.map(|key| (key, identity)));
                }
            }
            Replayed::Quarantined => tally.quarantine(None),
        }
    }
    let (successor, missing) = match successor {
        None => (None, Vec::new()),
        Some(Succession { tell, registered }) => {
            let states = replay.iter().filter_map(|(_, record)| match record {
                Replayed::Sound(state @ State::Completed { .. }) => Some(state),
                Replayed::Sound(_) | Replayed::Quarantined => None,
            });
            let missing = states.filter(|state| !registered(state)).cloned().collect();
            (Some(tell), missing)
        }
    };
    drop(replay);
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
    let supervisor = Supervisor::begin(agenda, keys, projector, surroundings, moves);
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
        actix_rt::spawn(async move {
            match done.await {
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
