//! What the actors say to each other.

use crate::agenda::Slot;
use crate::checkpoint::Marks;
use crate::contract::text::{Sha256, WorkerToken};
use crate::contract::time::{Duration, Timestamp};
use crate::health::{Class, Depths, class};
use crate::record::{Command, Flow, Identity, Key, LeaseToken, Refusal, State};
use crate::shell::port::{Granted, Recorded};
use actix::dev::ToEnvelope;
use actix::prelude::SendError;
use actix::{Actor, Addr, Handler, Message};
use leasehold_journal::JournalError;
use tokio::sync::oneshot;

/// Why a request was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// Turned down; nothing was written.
    #[error("{0}")]
    Refused(Refusal),
    /// The journal failed. Whether it was written is known only after a reopen (D7).
    #[error("{0}")]
    Journal(JournalError),
    /// Too much at once, or another writer was faster: nothing was written, try again.
    #[error("engine_busy")]
    Busy,
    /// The engine is closed, or one of its actors is gone.
    #[error("engine_stopped")]
    Stopped,
}

/// The answer to a request.
pub(crate) type Answer<T> = oneshot::Sender<Result<T, Failure>>;

/// What is asked of one record.
#[derive(Clone)]
pub(crate) enum Ask<F: Flow> {
    /// Its state.
    Read,
    /// A command.
    Do(Command<F>),
}

/// A request to one record, by way of the supervisor.
pub(crate) struct Act<F: Flow> {
    pub(crate) identity: Identity,
    pub(crate) ask: Ask<F>,
    pub(crate) now: Timestamp,
    pub(crate) reply: Answer<Recorded<F>>,
    /// How often another engine was faster.
    pub(crate) tries: u8,
    /// The last sequence number of other engines that its supervisor was told of.
    pub(crate) told: u64,
}

impl<F: Flow> Act<F> {
    pub(crate) fn new(
        identity: Identity,
        ask: Ask<F>,
        now: Timestamp,
        reply: Answer<Recorded<F>>,
    ) -> Self {
        Self { identity, ask, now, reply, tries: 0, told: 0 }
    }
}

/// A request for the next due record.
pub(crate) struct Claim<F: Flow> {
    pub(crate) owner: WorkerToken,
    pub(crate) token: LeaseToken,
    pub(crate) lease: Duration,
    pub(crate) now: Timestamp,
    /// The time of a clock that never jumps, in its own seconds.
    pub(crate) steady_seconds: f64,
    pub(crate) reply: Answer<Option<Granted<F>>>,
    /// How many due records to pass, for a call that finds out whether a side works again.
    pub(crate) behind: u32,
    /// How often a record that was picked turned out not to be due.
    pub(crate) misses: u8,
}

/// A claim on its way to the record that was picked.
pub(crate) struct Grant<F: Flow> {
    pub(crate) claim: Claim<F>,
    /// Where the record was in the agenda.
    pub(crate) slot: Slot<Class<F::Facet>>,
    /// As in [`Act`].
    pub(crate) told: u64,
}

/// What the supervisor needs to know of a state.
#[derive(Debug)]
pub(crate) struct Mark<F: Flow> {
    pub(crate) slot: Slot<Class<F::Facet>>,
    pub(crate) class: Option<Class<F::Facet>>,
    /// The identity beside its own that no other record may have.
    pub(crate) unique: Option<Key>,
    /// When anything happened last; `None` for a record that is not there.
    pub(crate) updated_at: Option<Timestamp>,
}

impl<F: Flow> Mark<F> {
    /// The mark of a state; `expected` is the flow's pinned digest.
    pub(crate) fn of(state: &State<F>, expected: Option<Sha256>) -> Self {
        let class = class(state);
        let unique = state.record().and_then(|record| F::unique_key(&record.binding));
        let updated_at = state.record().map(|record| record.updated_at);
        Self { slot: Slot::of(state, class, expected), class, unique, updated_at }
    }
}

/// What came of one request; an entity sends exactly one for each that it was given.
pub(crate) enum Finished<F: Flow> {
    /// Nothing changed.
    Unchanged,
    /// The record moved, durably.
    Moved { before: Mark<F>, after: Mark<F> },
    /// A record that was picked was not claimed; it goes back to where it belongs.
    NotClaimed { was: Slot<Class<F::Facet>>, now: Mark<F>, again: Option<Claim<F>> },
    /// Its flow or site is paused; the claim goes on to the next.
    SetAside { was: Slot<Class<F::Facet>>, now: Mark<F>, site: Box<str>, again: Claim<F> },
    /// The record cannot be read; it is quarantined and the claim goes on to the next.
    Damaged { slot: Slot<Class<F::Facet>>, again: Claim<F> },
    /// What is on disk is not known to the entity; the journal has to be asked.
    Unknown,
    /// The entity's actor died over the request.
    Died,
}

/// Tells the supervisor what came of a request.
pub(crate) struct Finish<F: Flow> {
    pub(crate) identity: Identity,
    pub(crate) finished: Finished<F>,
}

/// Tells that other engines may have written something.
#[derive(Clone, Copy)]
pub(crate) struct Followed;

impl Message for Followed {
    type Result = ();
}

/// Asks for the flow's health.
pub(crate) struct Health<H> {
    pub(crate) now: Timestamp,
    pub(crate) reply: Answer<H>,
}

/// Asks when the next thing has to be done.
pub(crate) struct NextAt {
    pub(crate) now: Timestamp,
    pub(crate) steady_seconds: f64,
    pub(crate) reply: Answer<Option<Timestamp>>,
}

/// Asks how much waits, and since when.
pub(crate) struct Look {
    pub(crate) now: Timestamp,
    pub(crate) reply: Answer<Depths>,
}

/// Ends every lease: their engine is gone.
pub(crate) struct AbandonAll {
    pub(crate) now: Timestamp,
    pub(crate) reply: Answer<()>,
}

/// Asks for what the flow's next life can start from; answered `None` while anything is under way, or
/// where a record is quarantined.
pub(crate) struct Leave<F: Flow> {
    pub(crate) reply: Answer<Option<Marks<F>>>,
}

impl<F: Flow> Message for Leave<F> {
    type Result = ();
}
impl<F: Flow> Message for Act<F> {
    type Result = ();
}
impl<F: Flow> Message for Claim<F> {
    type Result = ();
}
impl<F: Flow> Message for Grant<F> {
    type Result = ();
}
impl<F: Flow> Message for Finish<F> {
    type Result = ();
}
impl<H> Message for Health<H> {
    type Result = ();
}
impl Message for NextAt {
    type Result = ();
}
impl Message for Look {
    type Result = ();
}
impl Message for AbandonAll {
    type Result = ();
}

impl<T> From<SendError<T>> for Failure {
    fn from(error: SendError<T>) -> Self {
        match error {
            SendError::Full(_) => Self::Busy,
            SendError::Closed(_) => Self::Stopped,
        }
    }
}

/// Asks an actor and waits for its answer.
pub(crate) async fn asked<A, M, T>(
    actor: &Addr<A>,
    message: impl FnOnce(Answer<T>) -> M,
) -> Result<T, Failure>
where
    A: Actor + Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message<Result = ()> + Send + 'static,
{
    let (reply, answered) = oneshot::channel();
    actor.try_send(message(reply))?;
    answered.await.map_err(|_| Failure::Stopped)?
}

/// Answers a request. A caller who went away needs no answer: what is in the journal stands either way.
pub(crate) fn answer<T>(reply: Answer<T>, result: Result<T, Failure>) {
    if reply.send(result).is_err() {
        tracing::trace!("a caller went away before its answer");
    }
}
