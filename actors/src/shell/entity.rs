//! One actor per active record.
//!
//! Owns the record's state while it is active, and the order: decide, append, wait until durable,
//! evolve, reply. While it waits its mailbox rests, so no command is decided on a state that is not
//! known to be durable. Holds no rule.

use super::controls::Gate;
use super::message::{Act, Ask, Failure, Finish, Finished, Mark, answer};
use super::port::Recorded;
use super::reading::{self, Reading};
use super::scribe::{Scribe, ScribeError};
use super::start::Succession;
use super::supervisor::Supervisor;
use crate::carried::Origin;
use crate::codec;
use crate::contract::text::Sha256;
use crate::contract::time::Timestamp;
use crate::flows::Answers;
use crate::record::{
    Command, Event, Identity, IllegalEvent, Key, Policy, Refusal, State, decide, evolve,
};
use actix::fut::wrap_future;
use actix::prelude::SendError;
use actix::{Actor, ActorFutureExt as _, Addr, AsyncContext as _, Context, Handler};
use leasehold_journal::chunk::INLINE_BYTES_MAX;
use leasehold_journal::{
    Alone, Append, AppendError, JournalError, Placed, StoreReader, StreamId, View,
};
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Requests that may wait for one record.
const MAILBOX: usize = 256;
/// How often a request is decided anew after another engine was faster.
const TRIES_MAX: u8 = 32;
/// How far the clocks of engines that share a journal may be apart, in seconds: they all go by the server's.
const CLOCKS_APART_SECONDS: f64 = 0.1;

/// What every entity of a flow shares.
pub(crate) struct Surroundings<F: Answers> {
    pub(crate) scribe: Scribe,
    pub(crate) reader: Arc<dyn StoreReader>,
    pub(crate) policy: Policy,
    /// The flow's pinned digest.
    pub(crate) expected: Option<Sha256>,
    /// What is paused.
    pub(crate) gate: Gate,
    /// Told of every record that completes.
    pub(crate) successor: Option<Succession<F>>,
    /// Whether other engines write to the journal, too.
    pub(crate) shared: bool,
}

/// A record that was read from the journal.
pub(crate) struct Loaded<F: Answers> {
    pub(crate) entity: Entity<F>,
    /// What it was before other engines wrote to it, where they did and that was not taken over yet.
    pub(crate) earlier: Option<Mark<F>>,
    /// Up to where it was read.
    pub(crate) view: View,
}

/// One record, active.
pub(crate) struct Entity<F: Answers> {
    pub(super) identity: Identity,
    stream: StreamId,
    version: u32,
    pub(super) state: State<F>,
    /// Kept while it is small and needed again.
    payload: Option<F::Payload>,
    pub(super) surroundings: Rc<Surroundings<F>>,
    pub(super) supervisor: Addr<Supervisor<F>>,
    /// Whether a request was begun and its end not told.
    pub(super) in_hand: bool,
    /// Whether it does not know what is in the journal any more: another actor takes its place.
    pub(super) gone: bool,
}

impl<F: Answers> Drop for Entity<F> {
    /// A panic in a handler ends the actor; the supervisor has to know that a request went with it.
    fn drop(&mut self) {
        if self.in_hand {
            self.finish(Finished::Died);
        }
    }
}

impl<F: Answers> Entity<F> {
    /// Reads the record from the journal.
    ///
    /// # Errors
    /// [`Failure::Refused`] with [`Refusal::StateInvalid`] for a record that does not replay,
    /// [`Failure::Journal`] when the disk does not answer.
    pub(crate) fn load(
        identity: Identity,
        stream: StreamId,
        surroundings: Rc<Surroundings<F>>,
        supervisor: Addr<Supervisor<F>>,
    ) -> Result<Loaded<F>, Failure> {
        let read = reading::read::<F>(surroundings.reader.as_ref(), stream);
        let Reading { view, version, state, earlier, origin } = read.map_err(Failure::Journal)?;
        let state = state.ok_or(Failure::Refused(Refusal::StateInvalid))?;
        let earlier = earlier.map(|earlier| Mark::of(&earlier, surroundings.expected));
        let payload = origin.payload::<F>();
        let entity = Self {
            identity,
            stream,
            version,
            state,
            payload,
            surroundings,
            supervisor,
            in_hand: false,
            gone: false,
        };
        Ok(Loaded { entity, earlier, view })
    }

    /// Its state.
    pub(crate) fn state(&self) -> &State<F> {
        &self.state
    }

    /// Its stream.
    pub(crate) fn stream(&self) -> StreamId {
        self.stream
    }

    /// The time of a decision. What another engine wrote a moment ago, by its own idea of the clock that all
    /// go by, is not in the future.
    pub(super) fn decided_at(&self, now: Timestamp) -> Timestamp {
        match self.state.record() {
            Some(record) if self.surroundings.shared => {
                let ahead = record.updated_at.seconds() - now.seconds();
                if ahead <= CLOCKS_APART_SECONDS { now.max(record.updated_at) } else { now }
            }
            Some(_) | None => now,
        }
    }

    fn recorded(&self, changed: bool) -> Recorded<F> {
        Recorded { state: self.state.clone(), changed }
    }

    /// What the supervisor knows of the record.
    pub(crate) fn mark(&self) -> Mark<F> {
        Mark::of(&self.state, self.surroundings.expected)
    }

    /// The actor, with room for its requests before the first one arrives.
    pub(crate) fn into_actor(self) -> Addr<Self> {
        Self::create(|context| {
            context.set_mailbox_capacity(MAILBOX);
            self
        })
    }

    pub(super) fn finish(&mut self, finished: Finished<F>) {
        self.in_hand = false;
        self.gone = matches!(finished, Finished::Unknown);
        let finish = Finish { identity: self.identity.clone(), finished };
        if self.supervisor.try_send(finish).is_err() {
            // Its mailbox holds more than can be under way, so it is gone and its flow with it.
            tracing::error!(code = "engine_stopped", "a supervisor is gone");
        }
    }

    /// The next state, and the append that makes it durable.
    pub(super) fn plan(&mut self, events: &[Event<F>]) -> Result<(State<F>, Append), Failure> {
        let next = events
            .iter()
            .try_fold(self.state.clone(), evolve)
            .map_err(|IllegalEvent| Failure::Refused(Refusal::StateInvalid))?;
        let bodies = events
            .iter()
            .map(codec::encode)
            .collect::<Result<Vec<_>, _>>()
            .map_err(Failure::Journal)?;
        if let [Event::Registered { payload, .. }] = events {
            let small = bodies.iter().all(|body| body.len() <= INLINE_BYTES_MAX);
            self.payload = small.then(|| payload.clone());
        }
        Ok((
            next,
            Append { stream: self.stream, expected_version: self.version, bodies, alone: None },
        ))
    }

    /// Takes over what is durable now and answers the marks before and after.
    pub(super) fn advance(&mut self, placed: Placed, next: State<F>) -> (Mark<F>, Mark<F>) {
        let before = self.mark();
        self.version = placed.version;
        self.state = next;
        if matches!(
            self.state,
            State::Completed { .. } | State::Failed { .. } | State::Dismissed { .. }
        ) {
            self.payload = None;
        }
        if let (State::Completed { .. }, Some(next)) = (&self.state, &self.surroundings.successor) {
            (next.tell)(&self.state);
        }
        (before, self.mark())
    }

    /// Has a request decided on what the journal says now.
    fn ask_again(&self, act: Act<F>) {
        if let Err(error) = self.supervisor.try_send(act) {
            let (failure, act) = refused(error);
            answer(act.reply, Err(failure));
        }
    }

    /// The payload, read again when it is not kept; `None` when it is gone or damaged.
    pub(super) fn payload(&mut self) -> Result<Option<F::Payload>, Failure> {
        if let Some(payload) = &self.payload {
            return Ok(Some(payload.clone()));
        }
        let reader = &self.surroundings.reader;
        let read = reader.carried(self.stream).and_then(|carried| {
            let first = match carried {
                Some(_) => None,
                None => reader.read_stream(self.stream)?.into_iter().next(),
            };
            let image = carried.map(|entry| entry.image);
            Ok(Origin { image, first: first.map(|record| record.body) })
        });
        match read {
            Ok(origin) => Ok(origin.payload::<F>()),
            Err(JournalError::Corrupt { .. }) => Ok(None),
            Err(error) => Err(Failure::Journal(error)),
        }
    }
}

/// The append with the condition that nobody else has begun anything under this name.
pub(super) fn alone(append: Append, name: Option<Key>, told: u64) -> Append {
    let alone = name.map(|key| Alone { name: u64::from(key).to_be_bytes(), told });
    Append { alone, ..append }
}

/// A message that was not taken, and why.
pub(super) fn refused<T>(error: SendError<T>) -> (Failure, T) {
    match error {
        SendError::Full(message) => (Failure::Busy, message),
        SendError::Closed(message) => (Failure::Stopped, message),
    }
}

/// What an append came to, as the caller sees it.
pub(super) fn settled(
    result: Result<Result<Placed, ScribeError>, oneshot::error::RecvError>,
) -> Result<Placed, Failure> {
    match result {
        Ok(Ok(placed)) => Ok(placed),
        // Another entity of the same record wrote first (after a restart); this one is stale.
        // Or another engine did.
        Ok(Err(ScribeError::Append(AppendError::Conflict { .. } | AppendError::NotAlone))) => {
            Err(Failure::Busy)
        }
        Ok(Err(ScribeError::Append(AppendError::Size))) => {
            Err(Failure::Journal(JournalError::TooLarge))
        }
        Ok(Err(ScribeError::Journal(error))) => Err(Failure::Journal(error)),
        Err(_) => Err(Failure::Stopped),
    }
}

impl<F: Answers> Actor for Entity<F> {
    type Context = Context<Self>;
}

impl<F: Answers> Handler<Act<F>> for Entity<F> {
    type Result = ();

    fn handle(&mut self, act: Act<F>, context: &mut Self::Context) {
        if self.gone {
            return self.ask_again(act);
        }
        let Act { ask, now, reply, tries, told, .. } = act;
        self.in_hand = true;
        let again = self.surroundings.shared.then(|| ask.clone());
        let (asked_at, now) = (now, self.decided_at(now));
        let name = match &ask {
            Ask::Do(Command::Register { binding, .. }) if self.surroundings.shared => {
                F::unique_key(binding)
            }
            Ask::Do(_) | Ask::Read => None,
        };
        let planned =
            match ask {
                Ask::Read => Ok(None),
                Ask::Do(command) => decide(&self.surroundings.policy, &self.state, command, now)
                    .map_err(Failure::Refused)
                    .and_then(|events| {
                        if events.is_empty() { Ok(None) } else { self.plan(&events).map(Some) }
                    }),
            };
        let (next, append) = match planned {
            Ok(Some(planned)) => planned,
            Ok(None) => {
                self.finish(Finished::Unchanged);
                answer(reply, Ok(self.recorded(false)));
                return;
            }
            Err(failure) => {
                self.finish(Finished::Unchanged);
                answer(reply, Err(failure));
                return;
            }
        };
        let durable = self.surroundings.scribe.append(alone(append, name, told));
        context.wait(wrap_future(durable).map(move |result, entity: &mut Self, _| {
            match settled(result) {
                Ok(placed) => {
                    let (before, after) = entity.advance(placed, next);
                    entity.finish(Finished::Moved { before, after });
                    answer(reply, Ok(entity.recorded(true)));
                }
                Err(failure) => {
                    entity.finish(Finished::Unknown);
                    match again {
                        // Another engine was faster: what it did may change the answer.
                        Some(ask) if failure == Failure::Busy && tries < TRIES_MAX => {
                            let identity = entity.identity.clone();
                            let (now, tries) = (asked_at, tries + 1);
                            entity.ask_again(Act { identity, ask, now, reply, tries, told: 0 });
                        }
                        Some(_) | None => answer(reply, Err(failure)),
                    }
                }
            }
        }));
    }
}
