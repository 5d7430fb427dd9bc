//! Health of one flow: a fold over what became durable.
//!
//! Owns the tally. Must not decide anything: what counts as blocked is the flow's.

use super::message::{Answer, answer};
use crate::contract::text::Sha256;
use crate::flows::{Answers, HealthView};
use crate::health::{Class, Tally};
use actix::{Actor, Addr, Context, Handler, Message};

/// Mailbox for more than can be under way.
const MAILBOX: usize = 1 << 16;

/// The actor.
pub(crate) struct Projector<F: Answers> {
    tally: Tally<F::Facet>,
}

impl<F: Answers> Projector<F> {
    pub(crate) fn begin(tally: Tally<F::Facet>) -> Addr<Self> {
        Self::create(|context| {
            context.set_mailbox_capacity(MAILBOX);
            Self { tally }
        })
    }
}

/// One record moved.
pub(crate) struct Shift<T> {
    pub(crate) before: Option<Class<T>>,
    pub(crate) after: Option<Class<T>>,
}

/// One record turned out to be damaged.
pub(crate) struct Quarantine<T> {
    pub(crate) before: Option<Class<T>>,
}

/// Asks for the health of the flow.
pub(crate) struct Report<F: Answers> {
    pub(crate) due: u64,
    pub(crate) expired: u64,
    pub(crate) held: u64,
    pub(crate) parked: u64,
    pub(crate) expected: Option<Sha256>,
    pub(crate) reply: Answer<F::Health>,
}

impl<T> Message for Shift<T> {
    type Result = ();
}
impl<T> Message for Quarantine<T> {
    type Result = ();
}
impl<F: Answers> Message for Report<F> {
    type Result = ();
}

impl<F: Answers> Actor for Projector<F> {
    type Context = Context<Self>;
}

impl<F: Answers> Handler<Shift<F::Facet>> for Projector<F> {
    type Result = ();

    fn handle(&mut self, shift: Shift<F::Facet>, _: &mut Self::Context) {
        self.tally.shift(shift.before, shift.after);
    }
}

impl<F: Answers> Handler<Quarantine<F::Facet>> for Projector<F> {
    type Result = ();

    fn handle(&mut self, quarantine: Quarantine<F::Facet>, _: &mut Self::Context) {
        self.tally.quarantine(quarantine.before);
    }
}

impl<F: Answers> Handler<Report<F>> for Projector<F> {
    type Result = ();

    fn handle(&mut self, report: Report<F>, _: &mut Self::Context) {
        let Report { due, expired, held, parked, expected, reply } = report;
        let view = HealthView { tally: &self.tally, due, expired, held, parked, expected };
        answer(reply, Ok(F::health(&view)));
    }
}
