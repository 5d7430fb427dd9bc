//! One record's actor, without actix.
//!
//! Owns the order of the engine's own (`actors/src/shell/entity.rs`): decide, append, wait until durable,
//! evolve, tell. While an append is under way nothing else is looked at. Decisions are the engine's
//! pure ones; what has to come of them is compared with the witness.

use super::flow::SimFlow;
use super::invariant::{Break, Checked, I8, I10, I11, broken, must};
use super::message::{Act, Ask, Caller, Claim, Effect, Finished, Mark, Request, SlotOf, Told};
use super::sabotage::Sabotage;
use super::shared::{Entry, Shared};
use super::witness::{Expected, Witness, compare};
use leasehold_actors::carried::Origin;
use leasehold_actors::codec;
use leasehold_actors::contract::text::Sha256;
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::record::{
    Command, Event, Identity, Policy, Proof, Refusal, State, decide, evolve, stream_of,
};
use leasehold_actors::replay;
use leasehold_actors::shell::Failure;
use leasehold_journal::chunk::INLINE_BYTES_MAX;
use leasehold_journal::{Append, JournalError, Placed, Record, StreamId};
use std::collections::{BTreeMap, VecDeque};

/// What an actor looks at beside its record.
pub(crate) struct Ground<'a, F: SimFlow> {
    pub(crate) policy: &'a Policy,
    pub(crate) expected: Option<Sha256>,
    pub(crate) witness: &'a Witness<F>,
    /// Since when each record of the flow is known to be unsettled, as ticks count.
    pub(crate) unsettled_since: &'a BTreeMap<Identity, u64>,
}

/// Whom an append under way is for.
enum Work<F: SimFlow> {
    Act(Caller),
    Grant { claim: Claim, payload: F::Payload, told: bool },
}

struct Pending<F: SimFlow> {
    next: State<F>,
    work: Work<F>,
    result: Option<Result<Placed, Failure>>,
}

/// The actor.
pub(crate) struct Entity<F: SimFlow> {
    pub(crate) identity: Identity,
    pub(crate) stream: StreamId,
    number: u64,
    version: u32,
    state: State<F>,
    payload: Option<F::Payload>,
    inbox: VecDeque<Request<F>>,
    pending: Option<Pending<F>>,
}

impl<F: SimFlow> Entity<F> {
    /// Reads the record from the journal; the inner error is the disk's.
    pub(crate) fn load(
        identity: &Identity,
        shared: &mut Shared,
    ) -> Result<Result<Self, JournalError>, Break> {
        let stream = stream_of(F::TAG, identity.as_str());
        let records = match shared.journal.read(stream) {
            Ok(records) => records,
            Err(JournalError::Corrupt { .. }) => {
                return Err(broken(I11, "a record that is read does not verify"));
            }
            Err(error) => return Ok(Err(error)),
        };
        let version = records.last().map_or(0, |record| record.version);
        let payload = payload_of::<F>(&records);
        let state = replay::state_of(stream, None, records.into_iter().map(|record| record.body))
            .map_err(|_| broken(I10, "a record that is read does not replay"))?;
        Ok(Ok(Self {
            identity: identity.clone(),
            stream,
            number: shared.tick(),
            version,
            state,
            payload,
            inbox: VecDeque::new(),
            pending: None,
        }))
    }

    /// Which of the flow's actors it is.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Its record as it knows it.
    pub(crate) fn state(&self) -> &State<F> {
        &self.state
    }

    /// What the supervisor has to know of it.
    pub(crate) fn mark(&self, expected: Option<Sha256>, shared: &Shared) -> Mark<F> {
        Mark::of(&self.state, expected, shared.sabotage)
    }

    /// Puts a request into its mailbox.
    pub(crate) fn tell(&mut self, request: Request<F>) {
        self.inbox.push_back(request);
    }

    /// The append it waits for is settled.
    pub(crate) fn answered(&mut self, result: Result<Placed, Failure>) {
        if let Some(pending) = &mut self.pending {
            pending.result = Some(result);
        }
    }

    /// Whether it has something to do.
    pub(crate) fn can_run(&self) -> bool {
        match &self.pending {
            Some(pending) => pending.result.is_some(),
            None => !self.inbox.is_empty(),
        }
    }

    /// Whether nothing is under way and nothing waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_none() && self.inbox.is_empty()
    }

    /// Does one thing.
    pub(crate) fn run(
        &mut self,
        ground: &Ground<'_, F>,
        shared: &mut Shared,
    ) -> Result<Vec<Effect<F>>, Break> {
        match self.pending.take() {
            Some(Pending { next, work, result: Some(result) }) => {
                self.resume(next, work, result, ground, shared)
            }
            Some(pending) => {
                self.pending = Some(pending);
                Ok(Vec::new())
            }
            None => match self.inbox.pop_front() {
                Some(Request::Act(act)) => self.act(act, ground, shared),
                Some(Request::Grant { claim, slot }) => self.grant(claim, slot, ground, shared),
                None => Ok(Vec::new()),
            },
        }
    }

    fn act(
        &mut self,
        act: Act<F>,
        ground: &Ground<'_, F>,
        shared: &mut Shared,
    ) -> Result<Vec<Effect<F>>, Break> {
        let Act { ask, now, caller, .. } = act;
        let decided = match ask {
            Ask::Read => Ok(Vec::new()),
            Ask::Do(command) => self.decide(command, now, ground, shared)?,
        };
        let told = Told { changed: false, version: self.version };
        match decided {
            Ok(events) if events.is_empty() => {
                Ok(vec![Effect::Finish(Finished::Unchanged), Effect::Reply(caller, Ok(told))])
            }
            Ok(events) => {
                let version = self.version + events.len() as u32;
                let next = self.append(&events, shared)?;
                let mut effects = Vec::new();
                let mut waits = caller;
                let early = matches!(caller, Caller::Host | Caller::Registrant);
                if early && shared.sabotaged(Sabotage::AckBeforeCommit) {
                    effects.push(Effect::Reply(caller, Ok(Told { changed: true, version })));
                    waits = Caller::Nobody;
                }
                self.pending = Some(Pending { next, work: Work::Act(waits), result: None });
                Ok(effects)
            }
            Err(refusal) => Ok(vec![
                Effect::Finish(Finished::Unchanged),
                Effect::Reply(caller, Err(Failure::Refused(refusal))),
            ]),
        }
    }

    /// Decides a command as the engine does, and compares what comes of it.
    fn decide(
        &self,
        mut command: Command<F>,
        now: Timestamp,
        ground: &Ground<'_, F>,
        shared: &Shared,
    ) -> Result<Result<Vec<Event<F>>, Refusal>, Break> {
        let expected = ground.witness.expects(&self.identity, &command, now);
        if shared.sabotaged(Sabotage::TokenUnchecked)
            && let Command::Settle { proof, .. } = &mut command
            && let Some(good) = self.good_proof()
        {
            *proof = good;
        }
        let mut decided = decide(ground.policy, &self.state, command, now);
        if shared.sabotaged(Sabotage::CollisionSwallowed) && expected == Expected::Collision {
            decided = Ok(Vec::new());
        }
        compare(expected, &decided)?;
        Ok(decided)
    }

    fn good_proof(&self) -> Option<Proof<F>> {
        let (record, lease) = (self.state.record()?, self.state.lease()?);
        Some(Proof {
            binding: record.binding.clone(),
            attempt: record.attempts,
            owner: lease.owner.clone(),
            token_sha256: lease.token_sha256,
            expires_at: lease.expires_at,
        })
    }

    /// Queues what makes the events durable; answers the state after them.
    fn append(&mut self, events: &[Event<F>], shared: &mut Shared) -> Result<State<F>, Break> {
        let next = events
            .iter()
            .try_fold(self.state.clone(), evolve)
            .map_err(|_| broken(I10, "an event that was decided is illegal"))?;
        let bodies = events
            .iter()
            .map(codec::encode)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| broken(I10, "an event that was decided has no bytes"))?;
        if let [Event::Registered { payload, .. }] = events {
            let small = bodies.iter().all(|body| body.len() <= INLINE_BYTES_MAX);
            self.payload = small.then(|| payload.clone());
        }
        let append =
            Append { stream: self.stream, expected_version: self.version, bodies, alone: None };
        shared.queue.push_back(Entry { flow: F::TAG, entity: self.number, append });
        Ok(next)
    }

    fn grant(
        &mut self,
        claim: Claim,
        slot: SlotOf<F>,
        ground: &Ground<'_, F>,
        shared: &mut Shared,
    ) -> Result<Vec<Effect<F>>, Break> {
        let now = self.mark(ground.expected, shared);
        if shared.gone.contains(&claim.number) {
            let finished = Finished::NotClaimed { was: slot, now, again: None };
            return Ok(vec![Effect::Finish(finished)]);
        }
        let payload = match self.payload(shared)? {
            Ok(payload) => payload,
            Err(error) => {
                let finished = Finished::NotClaimed { was: slot, now, again: None };
                let failed = Effect::ClaimFailed(Failure::Journal(error), claim.number);
                return Ok(vec![Effect::Finish(finished), failed]);
            }
        };
        let (owner, token_sha256) = (claim.owner.clone(), claim.token.sha256());
        let command = Command::Claim { owner, token_sha256, lease: claim.lease };
        match decide(ground.policy, &self.state, command, claim.now) {
            Ok(events) => {
                self.keeps_order(&claim, ground)?;
                let next = self.append(&events, shared)?;
                let told = shared.sabotaged(Sabotage::SendBeforeLease);
                let mut effects = Vec::new();
                if told && let Some(granted) = claim.granted(&self.identity, &next, &payload) {
                    let early =
                        Claim { owner: claim.owner.clone(), token: claim.token.clone(), ..claim };
                    effects.push(Effect::Granted(Box::new((early, granted))));
                }
                let work = Work::Grant { claim, payload, told };
                self.pending = Some(Pending { next, work, result: None });
                Ok(effects)
            }
            Err(Refusal::NotDue) if claim.misses < u8::MAX => {
                let again = Some(Claim { misses: claim.misses + 1, ..claim });
                Ok(vec![Effect::Finish(Finished::NotClaimed { was: slot, now, again })])
            }
            Err(refusal) => {
                let finished = Finished::NotClaimed { was: slot, now, again: None };
                let failed = Effect::ClaimFailed(Failure::Refused(refusal), claim.number);
                Ok(vec![Effect::Finish(finished), failed])
            }
        }
    }

    /// I8, as far as it can be told: a change that nobody knew of when the worker asked may come later.
    fn keeps_order(&self, claim: &Claim, ground: &Ground<'_, F>) -> Checked {
        let change = self.state.record().and_then(|record| F::waits_for(&record.binding));
        let Some(change) = change else { return Ok(()) };
        let known = ground.unsettled_since.get(&change).is_some_and(|since| *since <= claim.asked);
        must(!(known && ground.witness.is_active(&change)), I8, "a removal overtakes its change")
    }

    /// The payload, read again when it is not kept.
    fn payload(&self, shared: &mut Shared) -> Result<Result<F::Payload, JournalError>, Break> {
        if let Some(payload) = &self.payload {
            return Ok(Ok(payload.clone()));
        }
        match shared.journal.read(self.stream) {
            Ok(records) => {
                let payload = payload_of::<F>(&records);
                payload.map(Ok).ok_or(broken(I10, "a payload is gone"))
            }
            Err(error) => Ok(Err(error)),
        }
    }

    /// Takes over what is durable now, or gives up knowing.
    fn resume(
        &mut self,
        next: State<F>,
        work: Work<F>,
        result: Result<Placed, Failure>,
        ground: &Ground<'_, F>,
        shared: &mut Shared,
    ) -> Result<Vec<Effect<F>>, Break> {
        let placed = match result {
            Ok(placed) => placed,
            Err(failure) => {
                let finish = Effect::Finish(Finished::Unknown);
                return Ok(match work {
                    Work::Act(caller) => vec![finish, Effect::Reply(caller, Err(failure))],
                    Work::Grant { told: true, .. } => vec![finish],
                    Work::Grant { claim, .. } => {
                        vec![finish, Effect::ClaimFailed(failure, claim.number)]
                    }
                });
            }
        };
        let before = self.mark(ground.expected, shared);
        self.version = placed.version;
        if !shared.sabotaged(Sabotage::StaleEntity) {
            self.state = next;
        }
        let live = ground.witness.state(self.stream) == Some(&self.state);
        must(live, I10, "a live state is not the one that its durable events make")?;
        if matches!(
            self.state,
            State::Completed { .. } | State::Failed { .. } | State::Dismissed { .. }
        ) {
            self.payload = None;
        }
        let mut effects = Vec::new();
        if let State::Completed { .. } = &self.state {
            effects.push(Effect::Completed(Box::new(self.state.clone())));
        }
        let after = self.mark(ground.expected, shared);
        effects.push(Effect::Finish(Finished::Moved { before, after }));
        match work {
            Work::Act(caller) => {
                let told = Told { changed: true, version: placed.version };
                effects.push(Effect::Reply(caller, Ok(told)));
            }
            Work::Grant { told: true, .. } => {}
            Work::Grant { claim, payload, .. } => {
                let granted = claim
                    .granted(&self.identity, &self.state, &payload)
                    .ok_or(broken(I10, "a claimed record is not leased"))?;
                effects.push(Effect::Granted(Box::new((claim, granted))));
            }
        }
        Ok(effects)
    }
}

/// The payload, as the engine finds it; nothing is archived here.
fn payload_of<F: SimFlow>(records: &[Record]) -> Option<F::Payload> {
    let first = records.first().map(|record| record.body.clone());
    Origin { image: None, first }.payload::<F>()
}
