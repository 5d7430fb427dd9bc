//! Commands to many records at once: leases that are over, leases of an engine that is gone.
//!
//! Owns their pace and what waits for their end: a claim is answered after every lease that was over when it
//! came was ended. Holds no rule.

use super::message::{AbandonAll, Act, Ask, Claim, Failure, answer};
use super::supervisor::Supervisor;
use crate::agenda::Slot;
use crate::contract::time::Timestamp;
use crate::flows::Answers;
use crate::health::Class;
use crate::record::{Command, Identity};
use actix::fut::wrap_future;
use actix::{ActorFutureExt as _, AsyncContext as _, Context, Handler};
use tokio::sync::oneshot;

/// Leases ended side by side.
const WAVE: usize = 1024;

type Slots<F> = Vec<(Identity, Slot<Class<<F as crate::record::Flow>::Facet>>)>;
/// What is done when all waves have ended; told the first failure of the journal.
type Then<A> = Box<dyn FnOnce(&mut A, &mut Context<A>, Option<Failure>)>;

impl<F: Answers> Supervisor<F> {
    /// Sends one command to many records, a wave at a time, and calls back when all have answered.
    fn each(
        &mut self,
        records: Slots<F>,
        command: fn() -> Command<F>,
        now: Timestamp,
        context: &mut Context<Self>,
        then: Then<Self>,
    ) {
        let mut wave = records;
        let rest = wave.split_off(wave.len().min(WAVE));
        let mut answers = Vec::with_capacity(wave.len());
        for (identity, slot) in wave {
            if !self.roster.knows(&identity)
                && let Err(Failure::Refused(_)) = self.activate(&identity, context.address())
            {
                self.quarantine(&identity, slot);
                continue;
            }
            let (reply, receiver) = oneshot::channel();
            answers.push(receiver);
            let act = Act::new(identity, Ask::Do(command()), now, reply);
            self.forward(act, &context.address());
        }
        let all = async move {
            let mut fault = None;
            for answer in answers {
                if let Ok(Err(failure @ Failure::Journal(_))) = answer.await {
                    fault.get_or_insert(failure);
                }
            }
            fault
        };
        context.spawn(wrap_future(all).map(move |fault, supervisor: &mut Self, context| {
            if rest.is_empty() || fault.is_some() {
                then(supervisor, context, fault);
            } else {
                supervisor.each(rest, command, now, context, then);
            }
        }));
    }

    /// First every expired lease is ended, as of the claim's time; then the next due record is given
    /// out. Claims that arrive meanwhile wait for the same end.
    fn claim(&mut self, claim: Claim<F>, context: &mut Context<Self>) {
        if let Some(held) = &mut self.held {
            held.push(claim);
            return;
        }
        let mut expired = self.agenda.expired(claim.now);
        let steady = claim.steady_seconds;
        expired.retain(|(identity, _)| self.tenures.left(identity, steady).is_none());
        if expired.is_empty() {
            return self.pick(claim, &context.address());
        }
        let ended = claim.now;
        self.held = Some(vec![claim]);
        let then: Then<Self> = Box::new(move |supervisor, context, fault| {
            for claim in supervisor.held.take().unwrap_or_default() {
                match &fault {
                    Some(failure) => {
                        answer(claim.reply, Err(failure.clone()));
                    }
                    None if claim.now <= ended => supervisor.pick(claim, &context.address()),
                    None => supervisor.claim(claim, context),
                }
            }
        });
        self.each(expired, || Command::Expire, ended, context, then);
    }
}

impl<F: Answers> Handler<Claim<F>> for Supervisor<F> {
    type Result = ();

    fn handle(&mut self, claim: Claim<F>, context: &mut Self::Context) {
        self.claim(claim, context);
    }
}

impl<F: Answers> Handler<AbandonAll> for Supervisor<F> {
    type Result = ();

    fn handle(&mut self, abandon: AbandonAll, context: &mut Self::Context) {
        let AbandonAll { now, reply } = abandon;
        let leased = self.agenda.leased();
        let then: Then<Self> = Box::new(move |_, _, fault| {
            answer(reply, fault.map_or(Ok(()), Err));
        });
        self.each(leased, || Command::Abandon, now, context, then);
    }
}
