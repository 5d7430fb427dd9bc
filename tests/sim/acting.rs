//! One flow's actors, seen from outside: start, turns, stop.
//!
//! Owns which actor takes a turn and the way from a replayed journal to a running flow
//! (`actors/src/shell/start.rs`). Must not choose: whose turn it is, the world draws.

use super::desk::{Around, Desk, Inside, Life};
use super::entity::Ground;
use super::flow::{Handed, SimFlow};
use super::invariant::{Break, Checked, I15, broken};
use super::message::{Act, Ask, Caller, Mark, Message};
use super::note::Note;
use super::shared::Shared;
use leasehold_actors::agenda::Slot;
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::flows::all::AllFlows;
use leasehold_actors::flows::handover::Registration;
use leasehold_actors::record::{Command, State};
use leasehold_actors::replay::Replayed;
use leasehold_actors::shell::Failure;
use leasehold_journal::{Placed, StreamId};

/// What the world does with a flow's actors.
pub(crate) trait Acting {
    /// Builds the agenda and the tally, and tells the next flow what an earlier life did not.
    fn start(&mut self, shared: &mut Shared, replays: &mut AllFlows, life: Life);
    /// Ends all leases of an earlier life.
    fn abandon(&mut self, shared: &mut Shared) -> Checked;
    /// What that came to, once it has.
    fn abandoned(&mut self) -> Option<Option<Failure>>;
    /// The engine is gone.
    fn stop(&mut self);
    /// How many of its actors have something to do.
    fn ready(&self) -> usize;
    /// Lets one of those do one thing.
    fn run(&mut self, which: usize, shared: &mut Shared) -> Checked;
    /// An append is settled.
    fn answered(&mut self, entity: u64, result: Result<Placed, Failure>);
    /// An event is durable.
    fn durable(&mut self, stream: StreamId, body: &[u8], shared: &mut Shared) -> Checked;
    /// A registration comes from the flow before.
    fn receive(&mut self, handed: Handed) -> Checked;
    /// When the next thing has to be done.
    fn next_at(&mut self, now: Timestamp) -> Option<Timestamp>;
}

impl<F: SimFlow> Acting for Desk<F> {
    fn start(&mut self, shared: &mut Shared, replays: &mut AllFlows, life: Life) {
        let replay = std::mem::take(F::part(replays));
        let mut inside = Inside::new(life);
        let mut missing = Vec::new();
        let tick = shared.tick();
        // The order of a hash map: what it leads to is sorted, or does not depend on it.
        for (_, record) in replay.iter() {
            let Replayed::Sound(state) = record else { continue };
            let mark = Mark::<F>::of(state, life.expected, shared.sabotage);
            inside.tally.shift(None, mark.class);
            let Some(record) = state.record() else { continue };
            let identity = F::identity(&record.binding);
            inside.agenda.place(&identity, Slot::Idle, mark.slot);
            inside.keys.extend(mark.unique.map(|key| (key, identity.clone())));
            if mark.class.is_some_and(|class| class.kind.is_active()) {
                inside.unsettled_since.insert(identity.clone(), tick);
            }
            if let State::Completed { .. } = state {
                let handed = life.link.and_then(|terms| F::hand_over(state, terms));
                let untold = handed.filter(|next| shared.journal.version(next.stream()) == 0);
                missing.extend(untold.map(|handed| (identity, handed)));
            }
        }
        missing.sort_by(|(left, _), (right, _)| left.cmp(right));
        for (identity, handed) in missing {
            shared.note_of(Note::HandOverFound, F::TAG, &identity, handed.to() as u64);
            shared.handed.push_back(handed);
        }
        self.inside = Some(inside);
        self.touched = true;
    }

    fn abandon(&mut self, shared: &mut Shared) -> Checked {
        let Self { outside, witness, inside: Some(inside), .. } = self else { return Ok(()) };
        let (leased, now) = (inside.agenda.leased(), shared.time());
        let mut around = Around { outside, witness, shared };
        inside.each(leased, || Command::Abandon, now, &mut around)
    }

    fn abandoned(&mut self) -> Option<Option<Failure>> {
        self.inside.as_mut()?.abandoned.take()
    }

    fn stop(&mut self) {
        self.inside = None;
        self.outside.asked.clear();
    }

    fn ready(&self) -> usize {
        let Some(inside) = &self.inside else { return 0 };
        let entities = inside.entities.values().filter(|entity| entity.can_run()).count();
        entities + usize::from(!inside.inbox.is_empty())
    }

    fn run(&mut self, which: usize, shared: &mut Shared) -> Checked {
        self.touched = true;
        let Self { outside, witness, inside: Some(inside), .. } = self else { return Ok(()) };
        let mut which = which;
        if !inside.inbox.is_empty() {
            if which == 0 {
                let Some(message) = inside.inbox.pop_front() else { return Ok(()) };
                return inside.process(message, &mut Around { outside, witness, shared });
            }
            which -= 1;
        }
        let ready = inside.entities.values().filter(|entity| entity.can_run()).nth(which);
        let Some(number) = ready.map(super::entity::Entity::number) else { return Ok(()) };
        inside.turn(number, &mut Around { outside, witness, shared })
    }

    fn answered(&mut self, entity: u64, result: Result<Placed, Failure>) {
        let inside = self.inside.as_mut();
        if let Some(entity) = inside.and_then(|inside| inside.entities.get_mut(&entity)) {
            entity.answered(result);
        }
    }

    fn durable(&mut self, stream: StreamId, body: &[u8], shared: &mut Shared) -> Checked {
        self.touched = true;
        let note = self.witness.take(stream, body)?;
        let state = self.witness.state(stream).and_then(State::record);
        if let Some(record) = state {
            let identity = F::identity(&record.binding);
            shared.note_of(note, F::TAG, &identity, u64::from(record.attempts));
        }
        Ok(())
    }

    fn receive(&mut self, handed: Handed) -> Checked {
        let registration = F::take(handed);
        let (Some(inside), Some(registration)) = (&mut self.inside, registration) else {
            return Err(broken(I15, "a hand-over to nobody"));
        };
        let Registration { identity, command, at } = registration;
        let (ask, caller) = (Ask::Do(command), Caller::HandOver);
        inside.inbox.push_back(Message::Act(Act { identity, ask, now: at, caller }));
        Ok(())
    }

    fn next_at(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.inside.as_mut()?.agenda.next_at(now)
    }
}

impl<F: SimFlow> Inside<F> {
    /// Lets one record's actor do one thing.
    fn turn(&mut self, number: u64, around: &mut Around<'_, F>) -> Checked {
        let Some(entity) = self.entities.get_mut(&number) else { return Ok(()) };
        let identity = entity.identity.clone();
        let ground = Ground {
            policy: &self.life.policy,
            expected: self.life.expected,
            witness: around.witness,
            unsettled_since: &self.unsettled_since,
        };
        let effects: Result<Vec<_>, Break> = entity.run(&ground, around.shared);
        for effect in effects? {
            self.apply(&identity, effect, around)?;
        }
        // One that the roster let go lives on until it has answered everybody.
        let is_known = self.roster.get(&identity).is_some_and(|active| active.entity == number);
        let is_idle = self.entities.get(&number).is_some_and(|entity| entity.is_idle());
        if is_idle && !is_known {
            self.entities.remove(&number);
        }
        Ok(())
    }
}
