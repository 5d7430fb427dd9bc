//! Pausing and resuming in a running engine.
//!
//! Owns the one actor that takes an operator's pause or resume (decide, append, wait until durable,
//! evolve, reply, as an entity does) and the gate that claims look at. Holds no rule: what follows from
//! a command is [`crate::control`]'s.

use super::entity::settled;
use super::message::{Answer, Failure, Followed, answer, asked};
use super::scribe::Scribe;
use super::start::Shared;
use crate::agenda::{Agenda, Slot};
use crate::contract::time::Timestamp;
use crate::control::scope::NUMBER;
use crate::control::{
    Closed, Command, Control, Controls, Event, Kept, PausedScope, Scope, decide, evolve, form,
};
use crate::record::{FlowTag, Identity, IllegalEvent, Refusal};
use actix::fut::wrap_future;
use actix::{
    Actor, ActorFutureExt as _, Addr, AsyncContext as _, Context, Handler, Message, Recipient,
};
use leasehold_journal::{Append, JournalError, Peers, StoreReader};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::{Semaphore, watch};

/// Requests that may wait; operators are few.
const MAILBOX: usize = 256;

/// What is paused, seen by everybody on the engine's thread.
#[derive(Clone, Default)]
pub(crate) struct Gate(Rc<RefCell<Closed>>);

impl Gate {
    /// The gate of a journal.
    pub(crate) fn of(controls: &Controls) -> Self {
        Self(Rc::new(RefCell::new(Closed::of(controls))))
    }

    /// Whether nothing of this site is given out.
    pub(crate) fn stops_site(&self, site: &str) -> bool {
        self.0.borrow().stops_site(site)
    }

    /// Whether a record of this flow and site is not to be given out.
    pub(crate) fn stops(&self, flow: FlowTag, site: &str) -> bool {
        let closed = self.0.borrow();
        closed.stops(flow) || closed.stops_site(site)
    }

    /// The record that goes first, or so many behind it, starting again from the first after the last; none
    /// while the flow is paused. Costs those it passes.
    pub(crate) fn pick<C: Copy>(
        &self,
        flow: FlowTag,
        agenda: &mut Agenda<C>,
        (now, behind): (Timestamp, u32),
        peers: Peers,
    ) -> Option<(Identity, Slot<C>)> {
        if self.0.borrow().stops(flow) {
            return None;
        }
        // Counting costs something after a clock that went back.
        let passed = if behind == 0 { 0 } else { u64::from(behind) % agenda.due_count(now).max(1) };
        let passed: Vec<_> = (0..passed).map_while(|_| agenda.pick(now)).collect();
        let picked = if peers.count > 1 {
            agenda.pick_preferred(now, &|identity| identity.share_of(peers.count) == peers.place)
        } else {
            agenda.pick(now)
        };
        for (identity, slot) in passed {
            agenda.put_back(&identity, slot);
        }
        picked
    }

    /// When the next thing has to be done. While the flow is paused that is the end of a lease, since
    /// nothing is given out then whatever is due.
    pub(crate) fn next_at<C: Copy>(
        &self,
        flow: FlowTag,
        agenda: &mut Agenda<C>,
        now: Timestamp,
        until: impl Fn(&Identity) -> Option<Timestamp>,
    ) -> Option<Timestamp> {
        if !self.0.borrow().stops(flow) {
            return agenda.next_at_beside(now, until);
        }
        agenda.next_end_beside(now, until)
    }

    pub(super) fn set(&self, scope: &Scope, paused: bool) {
        self.0.borrow_mut().set(scope, paused);
    }
}

/// Tells a flow that a scope was paused or resumed; the gate says so already.
#[derive(Clone)]
pub(crate) struct Turned {
    pub(crate) scope: Scope,
    pub(crate) paused: bool,
}

/// A scope after a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steered {
    /// Its pause, durable; `None` for a scope that is open.
    pub paused: Option<PausedScope>,
    /// Whether the request changed it.
    pub changed: bool,
}

struct Steer {
    scope: Scope,
    command: Command,
    now: Timestamp,
    reply: Answer<Steered>,
}

/// Asks for all scopes.
struct Tell {
    reply: Answer<Controls>,
}

impl Message for Tell {
    type Result = ();
}
impl Message for Turned {
    type Result = ();
}
impl Message for Steer {
    type Result = ();
}

/// The actor: the one writer of all scopes.
pub(crate) struct Warden {
    controls: Controls,
    gate: Gate,
    scribe: Scribe,
    reader: Arc<dyn StoreReader>,
    /// The flows.
    listeners: Vec<Recipient<Turned>>,
    /// What is paused, for whoever asks from outside.
    told: watch::Sender<Arc<[PausedScope]>>,
}

/// The next state of a scope, and the append that makes it durable.
type Plan = (Control, Append);

impl Warden {
    /// Starts it.
    pub(crate) fn begin(
        controls: Controls,
        listeners: Vec<Recipient<Turned>>,
        shared: &Shared,
    ) -> Steering {
        let (told, paused) = watch::channel(controls.paused().into());
        let (gate, scribe) = (shared.gate.clone(), shared.scribe.clone());
        let reader = Arc::clone(&shared.reader);
        let warden = Self::create(|context| {
            context.set_mailbox_capacity(MAILBOX);
            Self { controls, gate, scribe, reader, listeners, told }
        });
        Steering { warden, admission: Arc::clone(&shared.admission), paused }
    }

    fn control(&self, scope: &Scope) -> Result<Control, Failure> {
        match self.controls.get(scope.stream()) {
            None => Ok(Control::Vacant),
            Some(Kept::Sound(control)) => Ok(control.clone()),
            Some(Kept::Quarantined) => Err(Failure::Refused(Refusal::StateInvalid)),
        }
    }

    /// What the command leads to; `None` when it is so already.
    fn plan(
        &self,
        scope: &Scope,
        command: Command,
        now: Timestamp,
    ) -> Result<Option<Plan>, Failure> {
        let control = self.control(scope)?;
        let events = decide(&control, scope, command, now).map_err(Failure::Refused)?;
        if events.is_empty() {
            return Ok(None);
        }
        let next = events
            .iter()
            .try_fold(control, evolve)
            .map_err(|IllegalEvent| Failure::Refused(Refusal::StateInvalid))?;
        let encode = |event: &Event| form::encode(event).map_err(Failure::Journal);
        let bodies = events.iter().map(encode).collect::<Result<Vec<_>, _>>()?;
        let stream = scope.stream();
        let view = self.reader.view(stream);
        if view.known.is_some() {
            return Err(Failure::Busy); // another engine was at it just now
        }
        let expected_version = view.tip.version;
        Ok(Some((next, Append { stream, expected_version, bodies, alone: None })))
    }

    /// Takes over what is durable now, and opens or closes the gate before anybody is told.
    fn advance(&mut self, scope: &Scope, next: Control) -> Option<PausedScope> {
        self.controls.put(scope, next);
        self.turn(scope)
    }

    /// Opens or closes the gate as is known now.
    fn turn(&mut self, scope: &Scope) -> Option<PausedScope> {
        let paused = self.control(scope).ok().as_ref().and_then(PausedScope::of);
        self.gate.set(scope, paused.is_some());
        let turned = Turned { scope: scope.clone(), paused: paused.is_some() };
        for listener in &self.listeners {
            // Past the bound of its mailbox: a flow that is not told would keep records aside for good.
            listener.do_send(turned.clone());
        }
        self.told.send_replace(self.controls.paused().into());
        paused
    }
}

impl Actor for Warden {
    type Context = Context<Self>;
}

impl Handler<Steer> for Warden {
    type Result = ();

    fn handle(&mut self, steer: Steer, context: &mut Self::Context) {
        let Steer { scope, command, now, reply } = steer;
        self.take_over_all();
        let (next, append) = match self.plan(&scope, command, now) {
            Ok(Some(plan)) => plan,
            Ok(None) => {
                let control = self.control(&scope);
                let paused = control.map(|control| PausedScope::of(&control));
                answer(reply, paused.map(|paused| Steered { paused, changed: false }));
                return;
            }
            Err(failure) => {
                answer(reply, Err(failure));
                return;
            }
        };
        let durable = self.scribe.append(append);
        context.wait(wrap_future(durable).map(move |result, warden: &mut Self, _| {
            // After a failed append nothing more is written in this life, so what is known stays.
            let steered = settled(result)
                .map(|_| Steered { paused: warden.advance(&scope, next), changed: true });
            answer(reply, steered);
        }));
    }
}

impl Handler<Tell> for Warden {
    type Result = ();

    fn handle(&mut self, tell: Tell, _: &mut Self::Context) {
        answer(tell.reply, Ok(self.controls.clone()));
    }
}

impl Handler<Followed> for Warden {
    type Result = ();

    fn handle(&mut self, _: Followed, _: &mut Self::Context) {
        self.take_over_all();
    }
}

impl Warden {
    /// Takes over what other engines paused and let go on.
    fn take_over_all(&mut self) {
        let reader = Arc::clone(&self.reader);
        for stream in reader.moved(NUMBER).1 {
            let view = reader.view(stream);
            let records = match reader.read_stream_to(stream, view.tip) {
                Ok(records) => records.into_iter().map(|it| (it.version, Some(it.body))).collect(),
                Err(JournalError::Corrupt { .. }) => vec![(u32::MAX, None)],
                Err(error) => {
                    tracing::warn!(code = error.code(), "what others paused has to wait");
                    return;
                }
            };
            for (_, body) in records.iter().filter(|(version, _)| Some(*version) > view.known) {
                if let Err(error) = self.controls.apply(stream, body.as_deref()) {
                    tracing::error!(code = %error, "a pause of another engine does not replay");
                }
            }
            reader.took_over(stream, view);
            let scope = match self.controls.get(stream) {
                Some(Kept::Sound(control)) => control.scope().cloned(),
                Some(Kept::Quarantined) | None => None,
            };
            if let Some(scope) = scope {
                self.turn(&scope);
            }
        }
    }
}

/// The way in for hosts.
#[derive(Debug, Clone)]
pub struct Steering {
    warden: Addr<Warden>,
    admission: Arc<Semaphore>,
    paused: watch::Receiver<Arc<[PausedScope]>>,
}

impl Steering {
    /// Pauses or resumes a scope. When it answers, it is durable, and nothing of a paused scope is
    /// given out from then on; leases that are out may settle.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn steer(
        &self,
        scope: Scope,
        command: Command,
        now: Timestamp,
    ) -> Result<Steered, Failure> {
        let _admitted = self.admission.acquire().await.map_err(|_| Failure::Stopped)?;
        asked(&self.warden, |reply| Steer { scope, command, now, reply }).await
    }

    pub(super) fn follower(&self) -> Recipient<Followed> {
        self.warden.clone().recipient()
    }

    /// All scopes, for whoever closes the engine; `None` when the actor is gone.
    pub(super) async fn controls(&self) -> Option<Controls> {
        asked(&self.warden, |reply| Tell { reply }).await.ok()
    }

    /// The scopes that are paused, in the order of their texts.
    #[must_use]
    pub fn paused(&self) -> Arc<[PausedScope]> {
        Arc::clone(&self.paused.borrow())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agenda::Waiting;
    use crate::record::Link;

    fn at(seconds: f64) -> Timestamp {
        Timestamp::new(seconds).expect("a time")
    }

    #[test]
    fn the_turn_goes_round_all_due_records_and_whoever_is_passed_stays_where_it_was() {
        let (gate, mut agenda) = (Gate::default(), Agenda::default());
        for (identity, created, next) in [("a", 1.0, 5.0), ("b", 2.0, 5.0), ("late", 3.0, 50.0)] {
            let (created_at, next_at, link) = (at(created), at(next), Link::None);
            let waiting = Waiting { rank: 0, created_at, next_at, class: (), link, parked: false };
            agenda.place(&Identity::new(identity), Slot::Idle, Slot::Waiting(waiting));
        }
        let mut seen = Vec::new();
        for behind in 0..4 {
            let picked =
                gate.pick(FlowTag::Dispatch, &mut agenda, (at(10.0), behind), Peers::ALONE);
            let (identity, slot) = picked.expect("two are due");
            agenda.put_back(&identity, slot);
            seen.push(identity.to_string());
        }
        assert_eq!(seen, ["a", "b", "a", "b"]);
        assert_eq!((agenda.due_count(at(10.0)), agenda.len()), (2, 3));
        assert_eq!(
            gate.pick(FlowTag::Dispatch, &mut agenda, (at(1.0), 7), Peers::ALONE),
            None,
            "none is due"
        );
    }
}
