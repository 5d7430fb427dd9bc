//! From a replayed journal, or its checkpoint, to running flows.
//!
//! Owns the first agenda, tally and hand-overs of each flow, from the journal or from what an earlier life
//! left. Must hold no rule: what is handed over is [`crate::flows::handover`]'s.

use super::controls::Gate;
use super::entity::Surroundings;
use super::message::{AbandonAll, Act, Ask, Failure, Mark, asked};
use super::port::Port;
use super::port::Recorded;
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
use crate::record::{Command, Identity, Key, Refusal, State, stream_of};
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

/// Every record of a journal as it is now, for whoever writes to it without an engine.
///
/// # Errors
/// What the journal answers, and [`JournalError::Newer`]: nothing may be written over what is not
/// understood.
pub fn replayed(reader: &dyn StoreReader) -> Result<AllFlows, JournalError> {
    let mut flows = AllFlows::default();
    reader.walk(None, &mut |item| take(&mut flows, item))?;
    Ok(flows)
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
    /// Why the first hand-over was not written that waits for the next open.
    pub(crate) not_handed_over: Arc<OnceLock<Failure>>,
    /// Whether a hand-over came to nothing, for whatever reason: no checkpoint is left then.
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
    let registered = successor.as_ref().map(|succession| &succession.registered);
    let Beginning { agenda, tally, keys, latest, missing } =
        Beginning::of(origin, options.expected, registered);
    let surroundings = Rc::new(Surroundings {
        scribe: shared.scribe.clone(),
        reader: Arc::clone(&shared.reader),
        policy: options.policy,
        expected: options.expected,
        gate: shared.gate.clone(),
        shared: shared.reader.is_shared(),
        successor,
    });
    if let Some(succession) = &surroundings.successor {
        missing.iter().for_each(&succession.tell);
    }
    let (moves, moved) = watch::channel(0);
    let projector = Projector::begin(tally);
    let supervisor = Supervisor::begin(agenda, keys, latest, projector, surroundings, moves);
    // Of a shared journal nobody knows whether the engine of a lease is gone.
    if let Some(now) = shared.abandon_at.filter(|_| !shared.reader.is_shared()) {
        end_leases(&supervisor, now).await?;
    }
    let port = Port::new(supervisor.clone(), Arc::clone(&shared.admission), moved);
    Ok(Running { port, supervisor })
}

async fn end_leases<F: Answers>(
    supervisor: &Addr<Supervisor<F>>,
    now: Timestamp,
) -> Result<(), JournalError> {
    asked(supervisor, |reply| AbandonAll { now, reply }).await.map_err(|failure| match failure {
        Failure::Journal(error) => error,
        Failure::Refused(_) | Failure::Busy | Failure::Stopped => JournalError::Storage,
    })
}

/// Time between two tries of a hand-over while the journal's server is away.
const UNREACHABLE: std::time::Duration = std::time::Duration::from_secs(1);

/// Whether what a record leads to is registered already.
pub(super) type IsRegistered<F> = Box<dyn Fn(&State<F>) -> bool>;

type Successor<F> = Box<dyn Fn(&State<F>)>;

/// How a flow hands over.
pub(crate) struct Succession<F: Answers> {
    /// Registers with the next flow what a completed record leads to.
    pub(super) tell: Successor<F>,
    pub(super) registered: IsRegistered<F>,
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
        handing_over.send_modify(|count| *count += 1);
        let sent = hand_over(&supervisor, &identity, &command, at);
        let supervisor = supervisor.clone();
        let handing_over = handing_over.clone();
        let not_handed_over = Arc::clone(&not_handed_over);
        let missed = Rc::clone(&missed);
        actix_rt::spawn(async move {
            let mut done = done_with(sent).await;
            while matches!(done, Err(Failure::Journal(JournalError::Unreachable))) {
                actix_rt::time::sleep(UNREACHABLE).await;
                done = done_with(hand_over(&supervisor, &identity, &command, at)).await;
            }
            missed.set(missed.get() || done.is_err());
            match done {
                Ok(_) => tracing::debug!(to, "handed over"),
                Err(Failure::Refused(Refusal::IdempotencyCollision)) => {
                    tracing::warn!(code = "idempotency_collision", "registered under other terms");
                }
                // A record that does not replay is there: opening again changes nothing, and health says so.
                Err(Failure::Refused(refusal)) => {
                    tracing::error!(code = %refusal, to, "what took over does not replay");
                }
                // Not tried again in this life: a mailbox that is full has room for more than can be under
                // way, so that something else is wrong then.
                Err(failure @ (Failure::Journal(_) | Failure::Busy | Failure::Stopped)) => {
                    tracing::error!(code = %failure, "a hand-over waits for the next open");
                    not_handed_over.get_or_init(|| failure);
                }
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

type Sent<F> = Result<oneshot::Receiver<Result<Recorded<F>, Failure>>, Failure>;

/// Asks for a registration.
fn hand_over<F: Answers>(
    supervisor: &Addr<Supervisor<F>>,
    identity: &Identity,
    command: &Command<F>,
    at: Timestamp,
) -> Sent<F> {
    let (reply, done) = oneshot::channel();
    let act = Act::new(identity.clone(), Ask::Do(command.clone()), at, reply);
    supervisor.try_send(act)?;
    Ok(done)
}

async fn done_with<F: Answers>(sent: Sent<F>) -> Result<Recorded<F>, Failure> {
    sent?.await.unwrap_or(Err(Failure::Stopped))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::dispatch::{DispatchResponse, DispatchedAs};
    use crate::contract::text::Token;
    use crate::contract::time::Ceiling;
    use crate::flows::dispatch::DispatchBinding;
    use crate::record::policy::Delays;
    use crate::record::{Policy, Record};
    use crate::shell::message::NextAt;
    use leasehold_journal::memory::MemoryDisk;
    use leasehold_journal::{JournalId, Log, LogOptions};

    fn at(seconds: f64) -> Timestamp {
        Timestamp::new(seconds).expect("a time")
    }

    fn token(text: &str) -> Token {
        Token::new(text).expect("a token")
    }

    fn ceiling() -> Ceiling {
        Ceiling::new(5).expect("in range")
    }

    /// A change that the CMS accepted.
    fn accepted() -> State<Dispatch> {
        let binding = DispatchBinding {
            event_id: token("event-1"),
            site_id: token("site-1"),
            website_version: token("web-1"),
            source_sequence: 1,
            payload_sha256: Sha256::of(b"change"),
            max_attempts: ceiling(),
        };
        let outcome = DispatchResponse {
            plan_id: token("plan-1"),
            job_count: 2,
            status: DispatchedAs::Enqueued,
            sha256: Sha256::of(b"answer"),
        };
        let record = Record {
            binding: Arc::new(binding),
            created_at: at(10.0),
            updated_at: at(20.0),
            next_at: at(20.0),
            attempts: 1,
            failures: 0,
            progress: (),
            losses: 0,
        };
        State::Completed { record, outcome }
    }

    fn shared() -> Shared {
        let options = LogOptions { new_id: JournalId([0; 16]), create: true };
        let disk = MemoryDisk::new();
        let log = Log::open(disk.medium(), options, &mut |_| Ok(())).expect("a new journal");
        let reader = Arc::new(log.reader());
        let (scribe, _, _) = Scribe::start(Box::new(log), None).expect("a thread");
        Shared {
            scribe,
            reader,
            admission: Arc::new(Semaphore::new(1)),
            handing_over: watch::Sender::new(0),
            not_handed_over: Arc::default(),
            missed: Rc::default(),
            abandon_at: None,
            gate: Gate::default(),
        }
    }

    /// Hands one record over, twice, to a flow whose mailbox has this many requests already.
    fn handed_over(waiting: usize) -> (Option<Failure>, bool) {
        actix::System::new().block_on(async move {
            let shared = shared();
            let policy = Policy::new(Delays::default()).expect("the defaults are valid");
            let options = FlowOptions { policy, expected: None };
            let origin = Origin::Journal(Replay::default());
            let lifecycle = start_flow::<Lifecycle>(origin, options, None, &shared).await;
            let lifecycle = lifecycle.expect("it starts");
            // Nothing of this is looked at before this thread waits for something.
            for _ in 0..waiting {
                let (reply, _) = oneshot::channel();
                let next = NextAt { now: at(30.0), steady_seconds: 0.0, reply };
                if lifecycle.supervisor.try_send(next).is_err() {
                    break;
                }
            }
            let terms = Terms { ceiling: ceiling(), digest: None };
            let succession = succession::<Dispatch, Lifecycle>(&lifecycle, terms, &shared);
            let mut under_way = shared.handing_over.subscribe();
            // Whoever sends for the first time is let in beyond the bound.
            (succession.tell)(&accepted());
            (succession.tell)(&accepted());
            under_way.wait_for(|count| *count == 0).await.expect("the sender is here");
            (shared.not_handed_over.get().cloned(), shared.missed.get())
        })
    }

    #[test]
    fn a_hand_over_that_finds_no_room_is_told_to_wait_for_the_next_open() {
        assert_eq!(handed_over(usize::MAX), (Some(Failure::Busy), true));
        assert_eq!(handed_over(0), (None, false));
    }
}
