//! One actor per flow: who is due, who is active, who gets the next claim.
//!
//! Owns the flow's agenda and roster. Holds no rule: expiry, claims and refusals are decided by the
//! records; the order of due records by the agenda.

use super::entity::{Entity, Surroundings};
use super::message::{
    AbandonAll, Act, Ask, Claim, Failure, Finish, Finished, Grant, Health, NextAt, answer,
};
use super::projector::{Projector, Quarantine, Report, Shift};
use super::roster::{Found, Roster};
use crate::agenda::Agenda;
use crate::contract::time::Timestamp;
use crate::flows::Answers;
use crate::health::Class;
use crate::record::{Command, Identity, Refusal, stream_of};
use actix::dev::ToEnvelope;
use actix::fut::wrap_future;
use actix::{Actor, ActorFutureExt as _, Addr, AsyncContext as _, Context, Handler};
use std::collections::HashSet;
use std::rc::Rc;
use tokio::sync::{oneshot, watch};

/// Mailbox for more than can be under way: admission lets in far less.
const MAILBOX: usize = 1 << 16;
/// Leases ended side by side.
const WAVE: usize = 1024;

/// What is done when a wave has ended.
type Then<A> = Box<dyn FnOnce(&mut A, &mut Context<A>)>;

/// The actor.
pub(crate) struct Supervisor<F: Answers> {
    agenda: Agenda<Class<F::Facet>>,
    roster: Roster<F>,
    damaged: HashSet<Identity>,
    projector: Addr<Projector<F>>,
    surroundings: Rc<Surroundings>,
    /// Counts up whenever a record moved, for those who wait for work.
    moves: watch::Sender<u64>,
}

impl<F: Answers> Supervisor<F> {
    pub(crate) fn new(
        agenda: Agenda<Class<F::Facet>>,
        damaged: HashSet<Identity>,
        projector: Addr<Projector<F>>,
        surroundings: Rc<Surroundings>,
        moves: watch::Sender<u64>,
    ) -> Self {
        Self { agenda, roster: Roster::new(), damaged, projector, surroundings, moves }
    }

    /// The record's actor, activated when it rests.
    fn activate(
        &mut self,
        identity: &Identity,
        me: Addr<Self>,
    ) -> Result<Addr<Entity<F>>, Failure> {
        if self.damaged.contains(identity) {
            return Err(Failure::Refused(Refusal::StateInvalid));
        }
        match self.roster.find(identity) {
            Found::Active(address) => return Ok(address),
            Found::GivenUp => return Err(Failure::Refused(Refusal::StateInvalid)),
            Found::Dormant => {}
        }
        let stream = stream_of(F::TAG, identity.as_str());
        let entity = Entity::load(identity.clone(), stream, Rc::clone(&self.surroundings), me)?;
        let address = entity.start();
        self.roster.add(identity.clone(), address.clone());
        Ok(address)
    }

    fn forward(&mut self, act: Act<F>, me: Addr<Self>) {
        let identity = act.identity.clone();
        match self.activate(&identity, me) {
            Ok(address) => {
                self.roster.begin(&identity);
                if let Err(error) = address.try_send(act) {
                    self.roster.end(&identity);
                    answer(error.into_inner().reply, Err(Failure::Busy));
                }
            }
            Err(failure) => answer(act.reply, Err(failure)),
        }
    }

    /// Gives the claim to the next due record, if there is one.
    fn pick(&mut self, claim: Claim<F>, me: &Addr<Self>) {
        let mut claim = claim;
        while let Some((identity, class)) = self.agenda.pick(claim.now) {
            match self.activate(&identity, me.clone()) {
                Ok(address) => {
                    self.roster.begin(&identity);
                    match address.try_send(Grant { claim, class }) {
                        Ok(()) => return,
                        Err(error) => {
                            self.roster.end(&identity);
                            return answer(error.into_inner().claim.reply, Err(Failure::Busy));
                        }
                    }
                }
                Err(Failure::Refused(_)) => {
                    self.quarantine(&identity, class);
                    claim = Claim { misses: 0, ..claim };
                }
                Err(failure) => return answer(claim.reply, Err(failure)),
            }
        }
        answer(claim.reply, Ok(None));
    }

    fn quarantine(&mut self, identity: &Identity, class: Class<F::Facet>) {
        tracing::error!(
            code = "record_quarantined",
            flow = F::TAG.name(),
            "a record does not replay; it is left alone and the others go on"
        );
        self.damaged.insert(identity.clone());
        self.roster.drop(identity);
        self.tell(Quarantine { before: class });
    }

    fn tell<M>(&self, message: M)
    where
        M: actix::Message<Result = ()> + Send + 'static,
        <Projector<F> as Actor>::Context: ToEnvelope<Projector<F>, M>,
        Projector<F>: Handler<M>,
    {
        if self.projector.try_send(message).is_err() {
            // Its mailbox holds more than can be under way: it is gone, and health says so.
            tracing::error!(code = "engine_stopped", "a projector is gone");
        }
    }

    /// Sends one command to many records and calls back when all have answered.
    fn each(
        &mut self,
        identities: Vec<Identity>,
        command: fn() -> Command<F>,
        now: Timestamp,
        context: &mut Context<Self>,
        then: impl FnOnce(&mut Self, &mut Context<Self>) + 'static,
    ) {
        let mut waves = identities;
        let rest = waves.split_off(waves.len().min(WAVE));
        let mut answers = Vec::with_capacity(waves.len());
        for identity in waves {
            let (reply, receiver) = oneshot::channel();
            answers.push(receiver);
            self.forward(Act { identity, ask: Ask::Do(command()), now, reply }, context.address());
        }
        let all = async move {
            for answer in answers {
                if let Ok(Err(failure)) = answer.await {
                    tracing::debug!(code = %failure, "a lease could not be ended");
                }
            }
        };
        context.spawn(wrap_future(all).map(move |(), supervisor: &mut Self, context| {
            if rest.is_empty() {
                then(supervisor, context);
            } else {
                supervisor.each_boxed(rest, command, now, context, Box::new(then));
            }
        }));
    }

    /// `each` for the next wave; boxed, since a closure cannot hold itself.
    fn each_boxed(
        &mut self,
        identities: Vec<Identity>,
        command: fn() -> Command<F>,
        now: Timestamp,
        context: &mut Context<Self>,
        then: Then<Self>,
    ) {
        self.each(identities, command, now, context, then);
    }
}

impl<F: Answers> Actor for Supervisor<F> {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        context.set_mailbox_capacity(MAILBOX);
    }
}

impl<F: Answers> Handler<Act<F>> for Supervisor<F> {
    type Result = ();

    fn handle(&mut self, act: Act<F>, context: &mut Self::Context) {
        self.forward(act, context.address());
    }
}

impl<F: Answers> Handler<Claim<F>> for Supervisor<F> {
    type Result = ();

    /// First every expired lease is ended, as of the claim's time; then the next due record is given
    /// out. Two claims at once may both end the same lease: the second finds it ended.
    fn handle(&mut self, claim: Claim<F>, context: &mut Self::Context) {
        let expired = self.agenda.expired(claim.now);
        if expired.is_empty() {
            return self.pick(claim, &context.address());
        }
        let now = claim.now;
        self.each(
            expired,
            || Command::Expire,
            now,
            context,
            move |supervisor, context| {
                supervisor.pick(claim, &context.address());
            },
        );
    }
}

impl<F: Answers> Handler<Finish<F>> for Supervisor<F> {
    type Result = ();

    fn handle(&mut self, finish: Finish<F>, context: &mut Self::Context) {
        let Finish { identity, finished } = finish;
        self.roster.end(&identity);
        match finished {
            Finished::Unchanged => {}
            Finished::Moved { before, after } => {
                self.agenda.place(&identity, before.slot, after.slot);
                self.tell(Shift { before: before.class, after: after.class });
                self.moves.send_modify(|moves| *moves += 1);
            }
            Finished::NotClaimed { now, again } => {
                self.agenda.place(&identity, crate::agenda::Slot::Idle, now.slot);
                if let Some(claim) = again {
                    self.pick(claim, &context.address());
                }
            }
            Finished::Damaged { class, again } => {
                self.quarantine(&identity, class);
                self.pick(again, &context.address());
            }
            Finished::Unknown => self.roster.drop(&identity),
        }
    }
}

impl<F: Answers> Handler<Health<F::Health>> for Supervisor<F> {
    type Result = ();

    fn handle(&mut self, health: Health<F::Health>, _: &mut Self::Context) {
        let Health { now, reply } = health;
        let (due, expired) = (self.agenda.due_count(now), self.agenda.expired_count(now));
        self.tell(Report::<F> { due, expired, reply });
    }
}

impl<F: Answers> Handler<NextAt> for Supervisor<F> {
    type Result = ();

    fn handle(&mut self, next: NextAt, _: &mut Self::Context) {
        answer(next.reply, Ok(self.agenda.next_at(next.now)));
    }
}

impl<F: Answers> Handler<AbandonAll> for Supervisor<F> {
    type Result = ();

    fn handle(&mut self, abandon: AbandonAll, context: &mut Self::Context) {
        let AbandonAll { now, reply } = abandon;
        let leased = self.agenda.leased();
        self.each(leased, || Command::Abandon, now, context, move |_, _| answer(reply, Ok(())));
    }
}
