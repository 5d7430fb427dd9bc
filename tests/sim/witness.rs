//! What a flow's durable events say, told without the engine's rules.
//!
//! Owns the fold of everything whose commit was good, and for each record a count of its own: leases,
//! attempts, failures, its end. Is given stored bytes only, never a state of an actor; every check of
//! what is live is against this. Must not know `decide`.

use super::flow::SimFlow;
use super::invariant::{Break, Checked, I2, I3, I4, I5, I6, I10, broken, must};
use super::note::Note;
use leasehold_actors::contract::text::Sha256;
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::health::{Class, class};
use leasehold_actors::invariants;
use leasehold_actors::record::event::{Ending, Loss};
use leasehold_actors::record::rules::Counted;
use leasehold_actors::record::{
    Command, Event, Identity, Key, Lease, Proof, Record, Refusal, State, stream_of,
};
use leasehold_actors::replay::{Replay, Replayed};
use leasehold_journal::StreamId;
use std::collections::BTreeMap;

/// Leases that a record may lose in a row, in every life.
pub(crate) const LOSSES_MAX: u32 = 3;

/// One record, as its events tell it.
#[derive(Debug)]
pub(crate) struct Story<F: SimFlow> {
    pub(crate) identity: Identity,
    /// What health counts it as.
    pub(crate) class: Option<Class<F::Facet>>,
    /// The identity beside its own.
    unique: Option<Key>,
    /// Hashes of all tokens that were ever given out for it.
    tokens: Vec<Sha256>,
    /// When the lease that is out ends.
    lease: Option<Timestamp>,
    /// Leases in this round.
    attempts: u32,
    /// Failures since the last good answer.
    failures: u32,
    /// Leases lost since the last settlement.
    losses: u32,
    ended: bool,
}

/// What has to come of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// The registration is written.
    New,
    /// No events, since it is so already.
    Known,
    /// The identity is taken.
    Collision,
    /// The settlement is written.
    Settled,
    /// A refusal for a proof that is not good.
    StaleProof,
    /// Not told here.
    Anything,
}

/// All records of one flow.
#[derive(Debug)]
pub(crate) struct Witness<F: SimFlow> {
    replay: Replay<F>,
    stories: BTreeMap<StreamId, Story<F>>,
    /// How often an operator asked for something of a record, and it did not happen yet.
    asked: BTreeMap<StreamId, u32>,
}

impl<F: SimFlow> Witness<F> {
    /// A witness of nothing.
    pub(crate) fn new() -> Self {
        Self { replay: Replay::default(), stories: BTreeMap::new(), asked: BTreeMap::new() }
    }

    /// All records, in one order.
    pub(crate) fn stories(&self) -> impl Iterator<Item = (&Story<F>, &State<F>)> {
        self.stories.iter().filter_map(|(stream, story)| Some((story, self.state(*stream)?)))
    }

    /// The streams of all records.
    pub(crate) fn streams(&self) -> Vec<StreamId> {
        self.stories.keys().copied().collect()
    }

    /// The durable state of a stream; `None` for one that is not there.
    pub(crate) fn state(&self, stream: StreamId) -> Option<&State<F>> {
        match self.replay.get(stream)? {
            Replayed::Sound(State::Vacant) | Replayed::Quarantined => None,
            Replayed::Sound(state) => Some(state),
        }
    }

    /// The durable record of an identity.
    pub(crate) fn record(&self, identity: &Identity) -> Option<&Record<F>> {
        self.state(stream_of(F::TAG, identity.as_str()))?.record()
    }

    /// Whether more is to come of an identity.
    pub(crate) fn is_active(&self, identity: &Identity) -> bool {
        let state = self.state(stream_of(F::TAG, identity.as_str()));
        state.and_then(State::kind).is_some_and(|kind| kind.is_active())
    }

    /// The lease that is out.
    pub(crate) fn lease(&self, identity: &Identity) -> Option<&Lease> {
        self.state(stream_of(F::TAG, identity.as_str()))?.lease()
    }

    /// Whether a lease with this token is, or was, durable.
    pub(crate) fn gave(&self, identity: &Identity, token: &Sha256) -> bool {
        let stream = stream_of(F::TAG, identity.as_str());
        self.stories.get(&stream).is_some_and(|story| story.tokens.contains(token))
    }

    /// Whether another fold came to the same.
    pub(crate) fn agrees(&self, other: &Replay<F>) -> bool {
        let same = |(stream, record): (StreamId, &Replayed<F>)| {
            self.replay.get(stream).is_some_and(|known| known == record)
        };
        self.replay.count() == other.count() && other.iter().all(same)
    }

    /// An operator asks for something.
    pub(crate) fn operator_asks(&mut self, identity: &Identity) {
        *self.asked.entry(stream_of(F::TAG, identity.as_str())).or_insert(0) += 1;
    }

    /// What has to come of a command to a record that stands as it does durably.
    pub(crate) fn expects(
        &self,
        identity: &Identity,
        command: &Command<F>,
        now: Timestamp,
    ) -> Expected {
        match command {
            Command::Register { binding, .. } => match self.record(identity) {
                None => Expected::New,
                Some(record) if *record.binding == *binding => Expected::Known,
                Some(_) => Expected::Collision,
            },
            Command::Settle { proof, .. } | Command::Release { proof } => {
                if self.is_good(identity, proof, now) {
                    Expected::Settled
                } else {
                    Expected::StaleProof
                }
            }
            Command::Claim { .. }
            | Command::Expire
            | Command::Abandon
            | Command::Requeue { .. }
            | Command::Dismiss { .. }
            | Command::Repin { .. } => Expected::Anything,
        }
    }

    fn is_good(&self, identity: &Identity, proof: &Proof<F>, now: Timestamp) -> bool {
        let (Some(lease), Some(record)) = (self.lease(identity), self.record(identity)) else {
            return false;
        };
        lease.token_sha256 == proof.token_sha256
            && lease.expires_at > now
            && record.updated_at <= now
    }

    /// Takes one event that is durable, as its bytes.
    pub(crate) fn take(&mut self, stream: StreamId, body: &[u8]) -> Result<Note, Break> {
        let event = self
            .replay
            .apply(stream, Some(body))
            .map_err(|_| broken(I10, "a durable record does not replay"))?;
        if let Event::Registered { binding, settled, .. } = &event {
            self.begins(stream, binding, settled.is_some())?;
        }
        let binding = match self.state(stream).and_then(State::record) {
            Some(record) => record.binding.clone(),
            None => return Err(broken(I10, "an event without a record")),
        };
        let asked = self.asked.entry(stream).or_insert(0);
        let story =
            self.stories.get_mut(&stream).ok_or(broken(I10, "an event of nobody's record"))?;
        let note = story.take(&event, F::ceiling(&binding).get(), asked)?;
        let Some(state) = self.state(stream) else { return Ok(note) };
        if let Some(invariant) = invariants::broken(state) {
            return Err(broken(invariant, "the state after a durable event"));
        }
        let class = class(state);
        if let Some(story) = self.stories.get_mut(&stream) {
            story.class = class;
        }
        Ok(note)
    }

    fn begins(&mut self, stream: StreamId, binding: &F::Binding, ended: bool) -> Checked {
        let identity = F::identity(binding);
        let unique = F::unique_key(binding);
        must(
            stream_of(F::TAG, identity.as_str()) == stream,
            I10,
            "a registration in another's stream",
        )?;
        let taken = unique.is_some() && self.stories.values().any(|story| story.unique == unique);
        must(!taken, I6, "two records have what only one may have")?;
        let story = Story {
            identity,
            class: None,
            unique,
            tokens: Vec::new(),
            lease: None,
            attempts: 0,
            failures: 0,
            losses: 0,
            ended,
        };
        must(self.stories.insert(stream, story).is_none(), I6, "a record was registered twice")
    }
}

impl<F: SimFlow> Story<F> {
    fn used(&self) -> u32 {
        match F::RULES.counted {
            Counted::Leases => self.attempts,
            Counted::Failures => self.failures,
        }
    }

    fn take(&mut self, event: &Event<F>, ceiling: u32, asked: &mut u32) -> Result<Note, Break> {
        Ok(match event {
            Event::Imported { .. } => return Err(broken(I10, "nobody imports in a simulation")),
            Event::Registered { settled: None, .. } => Note::Registered,
            Event::Registered { settled: Some(_), .. } => Note::RegisteredSettled,
            Event::Claimed { attempt, token_sha256, expires_at, .. } => {
                self.leases(*attempt, *token_sha256, *expires_at, ceiling)?;
                Note::Claimed
            }
            Event::Completed { .. } => {
                self.settles()?;
                self.ended = true;
                Note::Completed
            }
            Event::Watched { .. } => {
                self.settles()?;
                self.failures = 0;
                Note::Watched
            }
            Event::Unchanged { .. } => {
                self.settles()?;
                self.failures = 0;
                Note::Unchanged
            }
            Event::Retried { .. } => {
                self.settles()?;
                self.failures += 1;
                must(self.used() < ceiling, I4, "tried again with its ceiling used up")?;
                Note::Retried
            }
            Event::Failed { .. } => {
                self.settles()?;
                self.ended = true;
                Note::Failed
            }
            Event::LeaseLost { at, loss, ending, .. } => {
                self.loses(*at, *loss, *ending, ceiling)?
            }
            Event::Requeued { .. } | Event::RequeuedLater { .. } => {
                must(self.ended, I5, "a record was requeued that had not ended")?;
                self.operated(asked)?;
                (self.ended, self.attempts) = (false, 0);
                (self.failures, self.losses) = (0, 0);
                Note::Requeued
            }
            Event::Dismissed { .. } => {
                self.operated(asked)?;
                self.ended = true;
                Note::Dismissed
            }
            Event::Repinned { .. } => {
                must(!self.ended, I5, "a record that had ended was repinned")?;
                self.operated(asked)?;
                Note::Repinned
            }
            Event::Released { attempts, .. } => {
                self.ends()?;
                must(attempts + 1 == self.attempts, I4, "not one lease was given back")?;
                self.attempts = *attempts;
                Note::Released
            }
        })
    }

    fn leases(&mut self, attempt: u32, token: Sha256, ends: Timestamp, ceiling: u32) -> Checked {
        must(self.lease.is_none(), I2, "leased while a lease is out")?;
        must(!self.ended, I5, "leased after its end")?;
        must(attempt == self.attempts + 1, I4, "a lease did not count as one attempt")?;
        must(self.used() < ceiling, I4, "leased with its ceiling used up")?;
        must(!self.tokens.contains(&token), I2, "a token was given out twice")?;
        self.attempts = attempt;
        self.tokens.push(token);
        self.lease = Some(ends);
        Ok(())
    }

    fn settles(&mut self) -> Checked {
        self.losses = 0;
        self.ends()
    }

    /// The lease ends by its holder's own word.
    fn ends(&mut self) -> Checked {
        must(!self.ended, I5, "settled after its end")?;
        must(self.lease.take().is_some(), I3, "settled without a lease")
    }

    fn loses(
        &mut self,
        at: Timestamp,
        loss: Loss,
        ending: Ending,
        ceiling: u32,
    ) -> Result<Note, Break> {
        must(!self.ended, I5, "a lease was lost after the end")?;
        let ends = self.lease.take().ok_or(broken(I2, "a lease was lost that was not out"))?;
        match loss {
            Loss::Expired => {
                must(at >= ends, I2, "a lease was ended before its time")?;
                self.failures += 1;
            }
            Loss::Abandoned => {}
        }
        self.losses += 1;
        self.ended = ending == Ending::Final;
        let (used_up, too_often) = (self.used() >= ceiling, self.losses >= LOSSES_MAX);
        must(
            self.ended == (used_up || too_often),
            I4,
            "an ended lease left the record as its ceiling does not",
        )?;
        if too_often && !used_up {
            return Ok(Note::LeasesLostTooOften);
        }
        Ok(match (loss, ending) {
            (Loss::Expired, Ending::Retry) => Note::LeaseEnded,
            (Loss::Expired, Ending::Final) => Note::LeaseEndedFinal,
            (Loss::Abandoned, Ending::Retry) => Note::LeaseAbandoned,
            (Loss::Abandoned, Ending::Final) => Note::LeaseAbandonedFinal,
        })
    }

    fn operated(&mut self, asked: &mut u32) -> Checked {
        must(self.lease.is_none(), I5, "an operator's event while a lease is out")?;
        *asked = asked.checked_sub(1).ok_or(broken(I5, "no operator asked for it"))?;
        Ok(())
    }
}

/// Compares what came of a command with what had to.
pub(crate) fn compare<T>(expected: Expected, result: &Result<Vec<T>, Refusal>) -> Checked {
    let written = result.as_ref().is_ok_and(|events| !events.is_empty());
    let known = result.as_ref().is_ok_and(Vec::is_empty);
    let collides = matches!(result, Err(Refusal::IdempotencyCollision));
    match expected {
        Expected::New => must(written, I6, "a new identity was not registered"),
        Expected::Known => must(known, I6, "the same registration again"),
        Expected::Collision => must(collides, I6, "another binding under a known identity"),
        Expected::Settled => must(written, I3, "a live token was turned down"),
        Expected::StaleProof => must(result.is_err(), I3, "a stale token was taken"),
        Expected::Anything => Ok(()),
    }
}
