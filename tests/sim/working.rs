//! One step of a host, a worker or an operator of one flow.
//!
//! Owns what is drawn for it. Every step sends a message to the flow's supervisor, or calls the other
//! side; none looks into the engine.

use super::desk::Desk;
use super::documents::CANARY;
use super::entity::Entity;
use super::flow::SimFlow;
use super::invariant::Break;
use super::message::{Act, Ask, Caller, Claim, Message};
use super::note::Note;
use super::outside::Held;
use super::picking::is_parked;
use super::remote::Heard;
use super::replies::intervention;
use super::shared::Shared;
use leasehold_actors::contract::text::WorkerToken;
use leasehold_actors::contract::time::Duration;
use leasehold_actors::record::{Command, Identity, LeaseToken, State};

/// An identity of no record.
const NOBODY: &str = "event-99";

/// What an operator may ask for.
#[derive(Debug, Clone, Copy)]
enum Operation {
    Requeue,
    Dismiss,
    Repin,
}

/// Steps of one flow; each answers whether there was anything to do.
pub(crate) trait Working {
    /// A host registers; `other` draws a registration that collides with the usual one.
    fn register(&mut self, shared: &mut Shared, other: bool) -> bool;
    /// A host registers another record with what only one may have.
    fn steal(&mut self, shared: &mut Shared) -> bool;
    /// A host reads a record.
    fn read(&mut self, shared: &mut Shared) -> bool;
    /// A worker asks for a claim; answers its number.
    fn ask(&mut self, shared: &mut Shared) -> Option<u64>;
    /// Whether that claim was answered.
    fn was_answered(&self, number: u64) -> bool;
    /// A worker makes its call.
    fn call(&mut self, shared: &mut Shared) -> Result<bool, Break>;
    /// A worker settles.
    fn settle(&mut self, shared: &mut Shared) -> bool;
    /// A worker settles what was settled or lost, or what is not there.
    fn settle_again(&mut self, shared: &mut Shared) -> bool;
    /// A worker gives its claim back, its call made or not.
    fn give_back(&mut self, shared: &mut Shared) -> bool;
    /// A worker is gone with its claim.
    fn lose_worker(&mut self, shared: &mut Shared) -> bool;
    /// An operator asks for something.
    fn operate(&mut self, shared: &mut Shared) -> bool;
    /// An operator moves every held record to the digest of now.
    fn repin_all(&mut self, shared: &mut Shared);
    /// A record that is not asked for anything is let go.
    fn passivate(&mut self, shared: &mut Shared) -> bool;
}

impl<F: SimFlow> Desk<F> {
    fn send(&mut self, message: Message<F>) -> bool {
        match &mut self.inside {
            Some(inside) => {
                inside.inbox.push_back(message);
                true
            }
            None => false,
        }
    }

    fn act(&mut self, shared: &Shared, identity: Identity, ask: Ask<F>, caller: Caller) -> bool {
        self.send(Message::Act(Act { identity, ask, now: shared.time(), caller }))
    }

    /// Any record.
    fn any(&self, shared: &mut Shared) -> Option<Identity> {
        let count = self.witness.stories().count();
        let nth = shared.rng.index(count);
        self.witness.stories().nth(nth).map(|(story, _)| story.identity.clone())
    }

    fn operates(&mut self, shared: &mut Shared, identity: Identity, operation: Operation) -> bool {
        let expected = self.inside.as_ref().and_then(|inside| inside.life.expected);
        let intervention = intervention();
        let (note, command) = match (operation, expected) {
            (Operation::Requeue, _) => {
                // Every other one is asked for later.
                let later = Duration::new(30.0).filter(|_| shared.rng.below(2) == 0);
                let next_at = later.map(|later| shared.time().after(later));
                (Note::AsksRequeue, Command::Requeue { next_at, intervention })
            }
            (Operation::Dismiss, _) => {
                (Note::AsksDismiss, Command::Dismiss { expected, intervention })
            }
            (Operation::Repin, Some(digest)) => {
                (Note::AsksRepin, Command::Repin { digest, intervention })
            }
            (Operation::Repin, None) => return false,
        };
        shared.note_of(note, F::TAG, &identity, 0);
        self.witness.operator_asks(&identity);
        self.act(shared, identity, Ask::Do(command), Caller::Host)
    }

    /// A record that an operator has a reason to look at, and what for.
    fn troubled(&self, shared: &mut Shared) -> Option<(Identity, Operation)> {
        let expected = self.inside.as_ref()?.life.expected;
        let found: Vec<_> = self
            .witness
            .stories()
            .filter_map(|(story, state)| {
                let choices = match state {
                    State::Failed { .. } => [Operation::Requeue, Operation::Dismiss],
                    State::Dismissed { .. } => [Operation::Requeue, Operation::Dismiss],
                    State::Ready { record, .. } if is_parked(record, expected) => {
                        [Operation::Repin, Operation::Dismiss]
                    }
                    State::Vacant
                    | State::Ready { .. }
                    | State::Leased { .. }
                    | State::Completed { .. } => return None,
                };
                Some((story.identity.clone(), choices))
            })
            .collect();
        let (identity, choices) = found.get(shared.rng.index(found.len()))?;
        Some((identity.clone(), choices[shared.rng.index(2)]))
    }

    fn settlement(&mut self, shared: &Shared, held: &Held<F>, identity: Identity) -> bool {
        let heard = held.heard.clone().unwrap_or(Heard::Retry(None));
        let settlement = heard.settlement(&held.granted);
        let command = Command::Settle { proof: held.granted.proof(), settlement };
        self.act(shared, identity, Ask::Do(command), Caller::Host)
    }
}

impl<F: SimFlow> Working for Desk<F> {
    fn register(&mut self, shared: &mut Shared, other: bool) -> bool {
        let Some(inside) = &self.inside else { return false };
        let Some((binding, payload)) = F::draw(shared, inside.life.expected, other) else {
            return false;
        };
        let identity = F::identity(&binding);
        let note = if other { Note::RegistersOther } else { Note::Registers };
        shared.note_of(note, F::TAG, &identity, 0);
        let command = Command::Register { binding, payload, settled: None };
        self.act(shared, identity, Ask::Do(command), Caller::Registrant)
    }

    fn steal(&mut self, shared: &mut Shared) -> bool {
        let Some(victim) = self.any(shared) else { return false };
        let drawn = self.witness.record(&victim).and_then(|record| F::steal(&record.binding));
        let Some((binding, payload)) = drawn else { return false };
        shared.note_of(Note::Steals, F::TAG, &victim, 0);
        let identity = F::identity(&binding);
        let command = Command::Register { binding, payload, settled: None };
        self.act(shared, identity, Ask::Do(command), Caller::Registrant)
    }

    fn read(&mut self, shared: &mut Shared) -> bool {
        let Some(identity) = self.any(shared) else { return false };
        shared.note_of(Note::Reads, F::TAG, &identity, 0);
        self.act(shared, identity, Ask::Read, Caller::Host)
    }

    fn ask(&mut self, shared: &mut Shared) -> Option<u64> {
        self.inside.as_ref()?;
        let number = shared.tick();
        let token = format!("{CANARY}-{number}-{}", shared.rng.draw());
        let owner = format!("worker-{}", number % 5);
        let claim = Claim {
            number,
            owner: WorkerToken::new(&owner).expect("a worker"),
            token: LeaseToken::new(token.into()),
            lease: Duration::new(5.0 + shared.rng.seconds(100)).expect("within its limits"),
            now: shared.time(),
            misses: 0,
            asked: number,
        };
        shared.note(Note::AsksClaim);
        self.outside.asked.insert(number);
        self.send(Message::Claim(claim));
        Some(number)
    }

    fn was_answered(&self, number: u64) -> bool {
        !self.outside.asked.contains(&number)
    }

    fn call(&mut self, shared: &mut Shared) -> Result<bool, Break> {
        self.outside.call(&self.witness, shared)
    }

    fn settle(&mut self, shared: &mut Shared) -> bool {
        if self.inside.is_none() {
            return false;
        }
        let Some(at) = self.outside.any(shared, true) else { return false };
        self.outside.let_go(at);
        let Some(held) = self.outside.stale.pop() else { return false };
        let identity = held.granted.identity.clone();
        shared.note_of(Note::Settles, F::TAG, &identity, held.granted.record.attempts.into());
        let sent = self.settlement(shared, &held, identity);
        self.outside.stale.push(held);
        sent
    }

    fn settle_again(&mut self, shared: &mut Shared) -> bool {
        if self.inside.is_none() || self.outside.stale.is_empty() {
            return false;
        }
        let at = shared.rng.index(self.outside.stale.len());
        let held = self.outside.stale.remove(at);
        let astray = shared.rng.one_in(5);
        let own = held.granted.identity.clone();
        let identity = if astray { Identity::new(NOBODY) } else { own };
        let note = if astray { Note::SettlesAstray } else { Note::SettlesAgain };
        shared.note_of(note, F::TAG, &identity, 0);
        let sent = self.settlement(shared, &held, identity);
        self.outside.stale.push(held);
        sent
    }

    fn give_back(&mut self, shared: &mut Shared) -> bool {
        if self.inside.is_none() || self.outside.held.is_empty() {
            return false;
        }
        let at = shared.rng.index(self.outside.held.len());
        let granted = &self.outside.held[at].granted;
        let (identity, proof) = (granted.identity.clone(), granted.proof());
        shared.note_of(Note::GivesBack, F::TAG, &identity, granted.record.attempts.into());
        self.outside.let_go(at);
        self.act(shared, identity, Ask::Do(Command::Release { proof }), Caller::Host)
    }

    fn lose_worker(&mut self, shared: &mut Shared) -> bool {
        if self.outside.held.is_empty() {
            return false;
        }
        let at = shared.rng.index(self.outside.held.len());
        let identity = self.outside.held[at].granted.identity.clone();
        shared.note_of(Note::WorkerLost, F::TAG, &identity, 0);
        self.outside.let_go(at);
        true
    }

    fn operate(&mut self, shared: &mut Shared) -> bool {
        if !shared.rng.one_in(3)
            && let Some((identity, operation)) = self.troubled(shared)
        {
            return self.operates(shared, identity, operation);
        }
        let operations = [Operation::Requeue, Operation::Dismiss, Operation::Repin];
        let operation = operations[shared.rng.index(operations.len())];
        let known = if shared.rng.one_in(4) { None } else { self.any(shared) };
        let identity = known.unwrap_or_else(|| Identity::new(NOBODY));
        self.operates(shared, identity, operation)
    }

    fn repin_all(&mut self, shared: &mut Shared) {
        let Some(expected) = self.inside.as_ref().map(|inside| inside.life.expected) else {
            return;
        };
        let parked: Vec<_> = self
            .witness
            .stories()
            .filter(|(_, state)| {
                matches!(state, State::Ready { record, .. } if is_parked(record, expected))
            })
            .map(|(story, _)| story.identity.clone())
            .collect();
        for identity in parked {
            self.operates(shared, identity, Operation::Repin);
        }
    }

    fn passivate(&mut self, shared: &mut Shared) -> bool {
        let Some(inside) = &mut self.inside else { return false };
        let idle = inside.roster.iter().filter(|(_, active)| {
            let rests = inside.entities.get(&active.entity).is_none_or(Entity::is_idle);
            active.busy == 0 && rests
        });
        let idle: Vec<_> = idle.map(|(who, active)| (who.clone(), active.entity)).collect();
        let Some((identity, entity)) = idle.get(shared.rng.index(idle.len())) else {
            return false;
        };
        inside.roster.remove(identity);
        inside.entities.remove(entity);
        shared.note_of(Note::Passivates, F::TAG, identity, 0);
        true
    }
}
