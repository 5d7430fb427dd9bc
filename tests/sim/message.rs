//! What the simulated actors say to each other: the same as in the engine, without addresses.
//!
//! Owns the shapes. Must not know what anybody does with them.

use super::flow::SimFlow;
use super::sabotage::Sabotage;
use leasehold_actors::agenda::Slot;
use leasehold_actors::contract::text::{Sha256, WorkerToken};
use leasehold_actors::contract::time::{Duration, Timestamp};
use leasehold_actors::health::{Class, class};
use leasehold_actors::record::{Command, Flow, Identity, Key, LeaseToken, Link, State};
use leasehold_actors::shell::{Failure, Granted};

/// Where a record is in its flow's agenda.
pub(crate) type SlotOf<F> = Slot<Class<<F as Flow>::Facet>>;

/// Who waits for the answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A host that registers.
    Registrant,
    /// A host that reads, a worker or an operator.
    Host,
    /// The supervisor, while it ends leases.
    Wave,
    /// The flow before.
    HandOver,
    /// Nobody.
    Nobody,
}

/// What is asked of one record.
pub(crate) enum Ask<F: SimFlow> {
    /// Its state.
    Read,
    /// A command.
    Do(Command<F>),
}

/// A request to one record.
pub(crate) struct Act<F: SimFlow> {
    pub(crate) identity: Identity,
    pub(crate) ask: Ask<F>,
    pub(crate) now: Timestamp,
    pub(crate) caller: Caller,
}

/// A request for the next due record.
pub(crate) struct Claim {
    pub(crate) number: u64,
    pub(crate) owner: WorkerToken,
    pub(crate) token: LeaseToken,
    pub(crate) lease: Duration,
    pub(crate) now: Timestamp,
    /// How often a record that was picked turned out not to be due.
    pub(crate) misses: u8,
    /// When it was really asked, as [`super::shared::Shared::tick`] counts.
    pub(crate) asked: u64,
}

impl Claim {
    /// What the worker gets of a record that was leased with it; `None` when it was not.
    pub(crate) fn granted<F: SimFlow>(
        &self,
        identity: &Identity,
        state: &State<F>,
        payload: &F::Payload,
    ) -> Option<Granted<F>> {
        let (record, lease) = (state.record()?, state.lease()?);
        Some(Granted {
            identity: identity.clone(),
            record: record.clone(),
            payload: payload.clone(),
            token: self.token.clone(),
            owner: lease.owner.clone(),
            expires_at: lease.expires_at,
        })
    }
}

/// A message to one record's actor.
pub(crate) enum Request<F: SimFlow> {
    /// A request.
    Act(Act<F>),
    /// A claim, and the slot the record was picked from.
    Grant {
        /// The claim.
        claim: Claim,
        /// Where it was.
        slot: SlotOf<F>,
    },
}

/// What the supervisor knows of a state.
pub(crate) struct Mark<F: SimFlow> {
    pub(crate) slot: SlotOf<F>,
    pub(crate) class: Option<Class<F::Facet>>,
    pub(crate) unique: Option<Key>,
}

impl<F: SimFlow> Clone for Mark<F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: SimFlow> Copy for Mark<F> {}

impl<F: SimFlow> Mark<F> {
    /// The mark of a state; `expected` is the flow's pinned digest.
    pub(crate) fn of(
        state: &State<F>,
        expected: Option<Sha256>,
        sabotage: Option<Sabotage>,
    ) -> Self {
        let class = class(state);
        let unique = state.record().and_then(|record| F::unique_key(&record.binding));
        let mut slot = Slot::of(state, class, expected);
        if sabotage == Some(Sabotage::IgnoreD5)
            && let Slot::Waiting(waiting) = &mut slot
        {
            waiting.link = Link::None;
        }
        Self { slot, class, unique }
    }
}

/// What came of one request.
pub(crate) enum Finished<F: SimFlow> {
    /// Nothing changed.
    Unchanged,
    /// The record moved, durably.
    Moved {
        /// From.
        before: Mark<F>,
        /// To.
        after: Mark<F>,
    },
    /// A record that was picked was not claimed.
    NotClaimed {
        /// Where it was picked from.
        was: SlotOf<F>,
        /// Where it belongs.
        now: Mark<F>,
        /// The claim, where it goes on to the next.
        again: Option<Claim>,
    },
    /// What is on disk is not known to the actor.
    Unknown,
}

/// A message to a supervisor.
pub(crate) enum Message<F: SimFlow> {
    /// A request to one record.
    Act(Act<F>),
    /// A request for the next due record.
    Claim(Claim),
    /// What came of a request.
    Finish {
        /// Whose.
        identity: Identity,
        /// What.
        finished: Finished<F>,
    },
    /// All leases that were to be ended have answered.
    WaveEnded,
}

/// The answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Told {
    /// Whether it changed the record.
    pub(crate) changed: bool,
    /// The stream's version of which the caller is told.
    pub(crate) version: u32,
}

/// What one turn of a record's actor leads to, in this order.
pub(crate) enum Effect<F: SimFlow> {
    /// It completed: what follows is registered with the next flow.
    Completed(Box<State<F>>),
    /// The supervisor is told.
    Finish(Finished<F>),
    /// A caller is answered.
    Reply(Caller, Result<Told, Failure>),
    /// A worker gets its claim.
    Granted(Box<(Claim, Granted<F>)>),
    /// A worker is told that it gets none.
    ClaimFailed(Failure, u64),
}
