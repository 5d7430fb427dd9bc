//! Health of one flow: a fold over what became durable.
//!
//! Owns the tally. Must not decide anything: what counts as blocked is the flow's.

use super::message::{Answer, answer};
use crate::checkpoint::Marks;
use crate::contract::text::Sha256;
use crate::flows::{Answers, HealthView};
use crate::health::{Class, Tally};
use crate::record::StateKind;
use actix::dev::ToEnvelope;
use actix::{Actor, Addr, Context, Handler, Message};

/// Mailbox for more than can be under way.
const MAILBOX: usize = 1 << 16;

/// Moves it is told at once, at most.
const SHIFTS: usize = 64;

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

/// The way to a projector: it is told of moves many at a time, since a message for each would cost more
/// than the counting, and of all of them before it is asked anything.
pub(crate) struct Counts<F: Answers> {
    projector: Addr<Projector<F>>,
    /// Moves it was not told of yet.
    shifts: Vec<Shift<F::Facet>>,
}

impl<F: Answers> Counts<F> {
    pub(crate) fn of(projector: Addr<Projector<F>>) -> Self {
        Self { projector, shifts: Vec::new() }
    }

    /// One record moved.
    pub(crate) fn shift(
        &mut self,
        before: Option<Class<F::Facet>>,
        after: Option<Class<F::Facet>>,
    ) {
        self.shifts.push(Shift { before, after });
        if self.shifts.len() >= SHIFTS {
            self.catch_up();
        }
    }

    /// One record turned out to be damaged.
    pub(crate) fn quarantine(&mut self, before: Option<Class<F::Facet>>) {
        self.catch_up();
        self.tell(Quarantine { before });
    }

    /// Asks for the health of the flow.
    pub(crate) fn report(&mut self, report: Report<F>) {
        self.catch_up();
        self.tell(report);
    }

    /// Asks for the flow's counts beside its other marks.
    pub(crate) fn sum(&mut self, sum: Sum<F>) {
        self.catch_up();
        self.tell(sum);
    }

    fn catch_up(&mut self) {
        if !self.shifts.is_empty() {
            let shifts = std::mem::replace(&mut self.shifts, Vec::with_capacity(SHIFTS));
            self.tell(Shifts(shifts));
        }
    }

    fn tell<M>(&self, message: M)
    where
        M: Message<Result = ()> + Send + 'static,
        <Projector<F> as Actor>::Context: ToEnvelope<Projector<F>, M>,
        Projector<F>: Handler<M>,
    {
        if self.projector.try_send(message).is_err() {
            // Its mailbox holds more than can be under way: it is gone, and health says so.
            tracing::error!(code = "engine_stopped", "a projector is gone");
        }
    }
}

/// Records that moved, in their order.
struct Shifts<T>(Vec<Shift<T>>);

/// One record moved.
struct Shift<T> {
    before: Option<Class<T>>,
    after: Option<Class<T>>,
}

/// One record turned out to be damaged.
struct Quarantine<T> {
    before: Option<Class<T>>,
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

/// Completes what the flow's next life can start from.
pub(crate) struct Sum<F: Answers> {
    pub(crate) marks: Marks<F>,
    pub(crate) reply: Answer<Option<Marks<F>>>,
}

impl<F: Answers> Message for Sum<F> {
    type Result = ();
}
impl<T> Message for Shifts<T> {
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

impl<F: Answers> Handler<Shifts<F::Facet>> for Projector<F> {
    type Result = ();

    fn handle(&mut self, shifts: Shifts<F::Facet>, _: &mut Self::Context) {
        for Shift { before, after } in shifts.0 {
            self.tally.shift(before, after);
        }
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

impl<F: Answers> Handler<Sum<F>> for Projector<F> {
    type Result = ();

    fn handle(&mut self, sum: Sum<F>, _: &mut Self::Context) {
        let Sum { marks, reply } = sum;
        // A record that does not replay is found again by replaying it.
        let sound = self.tally.count(StateKind::Quarantined) == 0;
        let tally = self.tally.clone();
        answer(reply, Ok(sound.then_some(Marks { tally, ..marks })));
    }
}
