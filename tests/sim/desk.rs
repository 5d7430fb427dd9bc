//! One flow's supervisor and projector, without actix.
//!
//! Owns what the engine's own do (`actors/src/shell/supervisor.rs`, `roster.rs`, `projector.rs`): the
//! agenda, which records are active, who has which second identity, claims that wait while leases are
//! ended, the tally. Holds no rule.

use super::entity::Entity;
use super::flow::SimFlow;
use super::invariant::{Break, Checked};
use super::message::{Act, Ask, Caller, Claim, Effect, Finished, Mark, Message, Request, SlotOf};
use super::note::Note;
use super::outside::Outside;
use super::sabotage::Sabotage;
use super::shared::Shared;
use super::witness::Witness;
use leasehold_actors::agenda::Agenda;
use leasehold_actors::contract::text::Sha256;
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::flows::handover::Terms;
use leasehold_actors::health::{Class, Tally};
use leasehold_actors::record::{Command, Identity, Key, Policy, Refusal, StateKind};
use leasehold_actors::shell::Failure;
use leasehold_journal::JournalError;
use std::collections::{BTreeMap, VecDeque};

/// How a flow runs in one life of the engine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Life {
    /// Its delays.
    pub(crate) policy: Policy,
    /// Its pinned digest, where it has one.
    pub(crate) expected: Option<Sha256>,
    /// How it hands over; `None` when that is switched off.
    pub(crate) link: Option<Terms>,
}

/// An active record.
pub(crate) struct Active<F: SimFlow> {
    pub(crate) entity: u64,
    pub(crate) busy: u32,
    pub(crate) mark: Mark<F>,
}

/// Leases that are being ended.
pub(crate) struct Wave {
    pub(crate) left: usize,
    /// As of when.
    ended: Timestamp,
    pub(crate) fault: Option<Failure>,
}

/// What dies with the engine.
pub(crate) struct Inside<F: SimFlow> {
    pub(crate) life: Life,
    pub(crate) agenda: Agenda<Class<F::Facet>>,
    pub(crate) tally: Tally<F::Facet>,
    pub(crate) roster: BTreeMap<Identity, Active<F>>,
    pub(crate) entities: BTreeMap<u64, Entity<F>>,
    pub(crate) inbox: VecDeque<Message<F>>,
    pub(crate) keys: BTreeMap<Key, Identity>,
    pub(crate) unsettled_since: BTreeMap<Identity, u64>,
    reserved: BTreeMap<Identity, Key>,
    /// Claims that wait for expired leases to be ended.
    pub(crate) held: Option<Vec<Claim>>,
    pub(crate) wave: Option<Wave>,
    /// The leases of an earlier life are ended; set when that wave has ended.
    pub(crate) abandoned: Option<Option<Failure>>,
}

/// What an actor of the flow reaches beside itself.
pub(crate) struct Around<'a, F: SimFlow> {
    pub(crate) outside: &'a mut Outside<F>,
    pub(crate) witness: &'a Witness<F>,
    pub(crate) shared: &'a mut Shared,
}

/// One flow.
pub(crate) struct Desk<F: SimFlow> {
    /// Workers and the other side: they outlive the engine.
    pub(crate) outside: Outside<F>,
    /// What is durable.
    pub(crate) witness: Witness<F>,
    /// The engine's part, while it runs.
    pub(crate) inside: Option<Inside<F>>,
    /// Something happened since the last check.
    pub(crate) touched: bool,
}

impl<F: SimFlow> Desk<F> {
    /// A flow without records and without an engine.
    pub(crate) fn new() -> Self {
        let (outside, witness) = (Outside::new(), Witness::new());
        Self { outside, witness, inside: None, touched: false }
    }
}

impl<F: SimFlow> Inside<F> {
    /// A flow that begins to run, with nothing in it.
    pub(crate) fn new(life: Life) -> Self {
        Self {
            life,
            agenda: Agenda::default(),
            tally: Tally::default(),
            roster: BTreeMap::new(),
            entities: BTreeMap::new(),
            inbox: VecDeque::new(),
            keys: BTreeMap::new(),
            unsettled_since: BTreeMap::new(),
            reserved: BTreeMap::new(),
            held: None,
            wave: None,
            abandoned: None,
        }
    }

    /// Takes one message.
    pub(crate) fn process(&mut self, message: Message<F>, around: &mut Around<'_, F>) -> Checked {
        match message {
            Message::Act(act) => self.forward(act, around),
            Message::Claim(claim) => self.claim(claim, around),
            Message::Finish { identity, finished } => self.finish(&identity, finished, around),
            Message::WaveEnded => self.wave_ended(around),
        }
    }

    /// The record's actor, activated when it rests; the inner error is the disk's.
    pub(crate) fn activate(
        &mut self,
        identity: &Identity,
        around: &mut Around<'_, F>,
    ) -> Result<Result<u64, JournalError>, Break> {
        if let Some(active) = self.roster.get(identity) {
            return Ok(Ok(active.entity));
        }
        let entity = match Entity::load(identity, around.shared)? {
            Ok(entity) => entity,
            Err(error) => {
                around.shared.note_of(Note::ReadFails, F::TAG, identity, 0);
                return Ok(Err(error));
            }
        };
        let number = entity.number();
        let mark = entity.mark(self.life.expected, around.shared);
        self.roster.insert(identity.clone(), Active { entity: number, busy: 0, mark });
        self.entities.insert(number, entity);
        Ok(Ok(number))
    }

    /// Notes that a request is on its way, and puts it into the actor's mailbox.
    pub(crate) fn deliver(&mut self, identity: &Identity, entity: u64, request: Request<F>) {
        if let Some(active) = self.roster.get_mut(identity) {
            active.busy += 1;
        }
        if let Some(entity) = self.entities.get_mut(&entity) {
            entity.tell(request);
        }
    }

    /// Keeps the record's other identity for it; false when it is another record's.
    fn reserve(&mut self, act: &Act<F>) -> bool {
        let Ask::Do(Command::Register { binding, .. }) = &act.ask else { return true };
        let Some(key) = F::unique_key(binding) else { return true };
        match self.keys.get(&key) {
            Some(owner) => *owner == act.identity,
            None => {
                self.keys.insert(key, act.identity.clone());
                self.reserved.insert(act.identity.clone(), key);
                true
            }
        }
    }

    fn release(&mut self, identity: &Identity, now: Option<Key>) {
        if let Some(key) = self.reserved.remove(identity)
            && Some(key) != now
        {
            self.keys.remove(&key);
        }
    }

    fn forward(&mut self, act: Act<F>, around: &mut Around<'_, F>) -> Checked {
        let identity = act.identity.clone();
        if !self.reserve(&act) {
            let refused = Failure::Refused(Refusal::IdempotencyCollision);
            return self.reply(&identity, act.caller, Err(refused), around);
        }
        match self.activate(&identity, around)? {
            Ok(entity) => {
                self.deliver(&identity, entity, Request::Act(act));
                Ok(())
            }
            Err(error) => self.reply(&identity, act.caller, Err(Failure::Journal(error)), around),
        }
    }

    fn finish(
        &mut self,
        identity: &Identity,
        finished: Finished<F>,
        around: &mut Around<'_, F>,
    ) -> Checked {
        if let Some(active) = self.roster.get_mut(identity) {
            active.busy = active.busy.saturating_sub(1);
        }
        match finished {
            Finished::Unchanged => self.release(identity, None),
            Finished::Moved { before, after } => {
                self.release(identity, after.unique);
                self.agenda.place(identity, before.slot, after.slot);
                let waits = after.class.is_some_and(|class| class.kind == StateKind::RetryWait);
                if !(waits && around.shared.sabotaged(Sabotage::WrongCount)) {
                    self.tally.shift(before.class, after.class);
                }
                if let Some(active) = self.roster.get_mut(identity) {
                    active.mark = after;
                }
            }
            Finished::NotClaimed { was, now, again } => {
                self.agenda.place(identity, was, now.slot);
                if let Some(claim) = again {
                    return self.pick(claim, around);
                }
            }
            Finished::Unknown => return self.reconcile(identity, around),
        }
        Ok(())
    }

    /// Asks the journal what became of a record whose actor does not know.
    fn reconcile(&mut self, identity: &Identity, around: &mut Around<'_, F>) -> Checked {
        let Some(Active { mark: known, .. }) = self.roster.remove(identity) else { return Ok(()) };
        match Entity::load(identity, around.shared)? {
            Ok(entity) => {
                let found: Mark<F> = entity.mark(self.life.expected, around.shared);
                self.agenda.place(identity, known.slot, found.slot);
                self.tally.shift(known.class, found.class);
            }
            Err(_) => self.agenda.put_back(identity, known.slot),
        }
        Ok(())
    }

    /// Ends leases by sending one command to each record.
    pub(crate) fn each(
        &mut self,
        records: Vec<(Identity, SlotOf<F>)>,
        command: fn() -> Command<F>,
        now: Timestamp,
        around: &mut Around<'_, F>,
    ) -> Checked {
        self.wave = Some(Wave { left: records.len(), ended: now, fault: None });
        if records.is_empty() {
            self.inbox.push_back(Message::WaveEnded);
        }
        for (identity, _) in records {
            // As in the engine: one that cannot be read is asked once more on the way.
            if let Err(error) = self.activate(&identity, around)? {
                around.shared.said(&error)?;
            }
            let act = Act { identity, ask: Ask::Do(command()), now, caller: Caller::Wave };
            self.forward(act, around)?;
        }
        Ok(())
    }

    /// First every expired lease is ended, then the next due record is given out.
    fn claim(&mut self, claim: Claim, around: &mut Around<'_, F>) -> Checked {
        if let Some(held) = &mut self.held {
            held.push(claim);
            return Ok(());
        }
        let expired = self.agenda.expired(claim.now);
        if expired.is_empty() || around.shared.sabotaged(Sabotage::NeverExpire) {
            return self.pick(claim, around);
        }
        let ended = claim.now;
        self.held = Some(vec![claim]);
        self.each(expired, || Command::Expire, ended, around)
    }

    fn wave_ended(&mut self, around: &mut Around<'_, F>) -> Checked {
        let Some(Wave { ended, fault, .. }) = self.wave.take() else { return Ok(()) };
        let Some(held) = self.held.take() else {
            self.abandoned = Some(fault);
            return Ok(());
        };
        for claim in held {
            match &fault {
                Some(failure) => around.outside.refused(failure, claim.number, around.shared)?,
                None if claim.now <= ended => self.pick(claim, around)?,
                None => self.claim(claim, around)?,
            }
        }
        Ok(())
    }

    /// Carries out what one turn of a record's actor led to.
    pub(crate) fn apply(
        &mut self,
        identity: &Identity,
        effect: Effect<F>,
        around: &mut Around<'_, F>,
    ) -> Checked {
        match effect {
            Effect::Completed(state) => {
                self.hand_over(identity, &state, around.shared);
                Ok(())
            }
            Effect::Finish(finished) => {
                self.follow(identity, &finished, around.shared);
                let identity = identity.clone();
                self.inbox.push_back(Message::Finish { identity, finished });
                Ok(())
            }
            Effect::Reply(caller, told) => self.reply(identity, caller, told, around),
            Effect::Granted(granted) => {
                let (claim, granted) = *granted;
                if !around.shared.gone.contains(&claim.number) {
                    return around.outside.granted(&claim, granted, around.witness, around.shared);
                }
                around.shared.note_of(Note::GivenBack, F::TAG, identity, claim.number);
                let (identity, caller) = (identity.clone(), Caller::Nobody);
                let ask = Ask::Do(Command::Release { proof: granted.proof() });
                let release = Act { identity, ask, now: claim.now, caller };
                self.inbox.push_back(Message::Act(release));
                Ok(())
            }
            Effect::ClaimFailed(failure, number) => {
                around.outside.refused(&failure, number, around.shared)
            }
        }
    }
}
