//! One actor per flow: who is due, who is active, who gets the next claim.
//!
//! Owns the flow's agenda and roster. Holds no rule: expiry, claims and refusals are decided by the
//! records; the order of due records by the agenda.

use super::entity::{Entity, Loaded, Surroundings};
use super::following::Others;
use super::message::{Act, Ask, Claim, Failure, Finish, Finished, Grant, Health, answer};
use super::projector::{Counts, Projector, Report};
use super::reservations::Reservations;
use super::roster::Roster;
use super::shelf::{Picked, Shelf};
use crate::agenda::{Agenda, Slot, Waiting};
use crate::checkpoint::Marks;
use crate::contract::time::Timestamp;
use crate::flows::Answers;
use crate::health::{Class, Tally};
use crate::record::{Command, Identity, Key, Refusal, stream_of};
use crate::tenure::Tenures;
use actix::{Actor, Addr, AsyncContext as _, Context, Handler};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use tokio::sync::watch;

/// Mailbox for more than can be under way: admission lets in far less.
const MAILBOX: usize = 1 << 16;

/// The actor.
pub(crate) struct Supervisor<F: Answers> {
    pub(super) agenda: Agenda<Class<F::Facet>>,
    /// Due records of paused sites.
    pub(super) shelf: Shelf<Class<F::Facet>>,
    pub(super) roster: Roster<F>,
    pub(super) damaged: HashSet<Identity>,
    pub(super) counts: Counts<F>,
    pub(super) surroundings: Rc<Surroundings<F>>,
    pub(super) keys: Reservations,
    /// The latest time anything happened, in earlier lives too.
    pub(super) latest: Option<Timestamp>,
    /// What other engines did.
    pub(super) others: Others<F>,
    /// The leases of this life.
    pub(super) tenures: Tenures,
    /// Claims that wait for expired leases to be ended; `None` while none are being ended.
    pub(super) held: Option<Vec<Claim<F>>>,
    /// Counts up whenever a record moved, for those who wait for work.
    pub(super) moves: watch::Sender<u64>,
}

impl<F: Answers> Supervisor<F> {
    pub(crate) fn begin(
        agenda: Agenda<Class<F::Facet>>,
        keys: HashMap<Key, Identity>,
        latest: Option<Timestamp>,
        projector: Addr<Projector<F>>,
        surroundings: Rc<Surroundings<F>>,
        moves: watch::Sender<u64>,
    ) -> Addr<Self> {
        Self::create(|context| {
            context.set_mailbox_capacity(MAILBOX);
            let (roster, damaged) = (Roster::new(), HashSet::new());
            let (held, tenures) = (None, Tenures::default());
            Self {
                agenda,
                shelf: Shelf::default(),
                roster,
                damaged,
                counts: Counts::of(projector),
                surroundings,
                keys: Reservations::of(keys),
                latest,
                others: Others::default(),
                tenures,
                held,
                moves,
            }
        })
    }

    fn load(&self, identity: &Identity, me: Addr<Self>) -> Result<Loaded<F>, Failure> {
        let stream = stream_of(F::TAG, identity.as_str());
        Entity::load(identity.clone(), stream, Rc::clone(&self.surroundings), me)
    }

    /// Activates the record when it rests. Whether other engines had moved it meanwhile.
    pub(super) fn activate(
        &mut self,
        identity: &Identity,
        me: Addr<Self>,
    ) -> Result<bool, Failure> {
        if self.damaged.contains(identity) {
            return Err(Failure::Refused(Refusal::StateInvalid));
        }
        let Loaded { entity, earlier, view } = self.load(identity, me)?;
        let (mark, moved) = (entity.mark(), earlier.is_some());
        if let Some(earlier) = earlier {
            self.moved_elsewhere(identity, &earlier, &mark);
            self.note_settled(view, entity.state());
            self.surroundings.reader.took_over(entity.stream(), view);
        }
        self.roster.add(identity.clone(), entity.into_actor(), mark);
        Ok(moved)
    }

    /// The record's actor, which has a request more on its way from now on, and whether other engines had
    /// moved the record.
    fn begin_at(
        &mut self,
        identity: &Identity,
        me: &Addr<Self>,
    ) -> Result<(Addr<Entity<F>>, bool), Failure> {
        if let Some(address) = self.roster.begin(identity) {
            return Ok((address, false));
        }
        let moved = self.activate(identity, me.clone())?;
        let address = self.roster.begin(identity).ok_or(Failure::Stopped)?;
        Ok((address, moved))
    }

    /// Keeps the record's other identity for it, and answers whether that is new; `None` when it is
    /// another record's.
    fn reserve(&mut self, act: &Act<F>) -> Option<bool> {
        let Ask::Do(Command::Register { binding, .. }) = &act.ask else { return Some(false) };
        F::unique_key(binding).map_or(Some(false), |key| self.keys.reserve(&act.identity, key))
    }

    pub(super) fn forward(&mut self, mut act: Act<F>, me: &Addr<Self>) {
        if act.tries > 0 {
            self.take_over(me);
        }
        act.told = self.others.told;
        let identity = act.identity.clone();
        let Some(reserved) = self.reserve(&act) else {
            answer(act.reply, Err(Failure::Refused(Refusal::IdempotencyCollision)));
            return;
        };
        let (reply, failure) = match self.begin_at(&identity, me) {
            Ok((address, _)) => {
                let Err(error) = address.try_send(act) else { return };
                self.roster.end(&identity, None);
                (error.into_inner().reply, Failure::Busy)
            }
            Err(failure) => (act.reply, failure),
        };
        if reserved {
            self.keys.settle(&identity, None);
        }
        answer(reply, Err(failure));
    }

    /// Gives the claim to the due record whose turn it is, if there is one. A record that was picked and not
    /// reached goes back to where it was.
    pub(super) fn pick(&mut self, mut claim: Claim<F>, me: &Addr<Self>) {
        while !claim.reply.is_closed() {
            let peers = self.others.peers(self.surroundings.reader.peers());
            let (gate, at) = (&self.surroundings.gate, (claim.now, claim.behind));
            let picked = gate.pick(F::TAG, &mut self.agenda, at, peers);
            let Some((identity, slot)) = picked else {
                answer(claim.reply, Ok(None));
                return;
            };
            let failure = match self.begin_at(&identity, me) {
                // It is where it belongs now.
                Ok((_, true)) => {
                    self.roster.end(&identity, None);
                    continue;
                }
                Ok((address, false)) => {
                    let ends_at = claim.steady_seconds + claim.lease.seconds();
                    let told = self.others.told;
                    match address.try_send(Grant { claim, slot, told }) {
                        Ok(()) => return self.tenures.begin(identity, ends_at),
                        Err(error) => {
                            self.roster.end(&identity, None);
                            claim = error.into_inner().claim;
                            Failure::Busy
                        }
                    }
                }
                Err(Failure::Refused(_)) => {
                    self.quarantine(&identity, slot);
                    continue;
                }
                Err(failure) => failure,
            };
            self.agenda.put_back(&identity, slot);
            answer(claim.reply, Err(failure));
            return;
        }
    }

    /// Leaves a record alone that does not replay; `slot` is where it was in the agenda.
    pub(super) fn quarantine(&mut self, identity: &Identity, slot: Slot<Class<F::Facet>>) {
        tracing::error!(
            code = "record_quarantined",
            flow = F::TAG.name(),
            "a record does not replay; it is left alone and the others go on"
        );
        self.roster.drop(identity);
        self.shelf.forget(identity);
        self.agenda.place(identity, slot, Slot::Idle);
        if self.damaged.insert(identity.clone()) {
            let before = match slot {
                Slot::Idle => None,
                Slot::Waiting(Waiting { class, .. }) | Slot::Leased { class, .. } => Some(class),
            };
            self.counts.quarantine(before);
        }
    }

    /// Asks the journal what became of a record whose actor does not know.
    pub(super) fn reconcile(&mut self, identity: &Identity, me: Addr<Self>, died_too_often: bool) {
        let Some(known) = self.roster.drop(identity) else { return };
        self.shelf.forget(identity);
        let slot = match self.load(identity, me) {
            Ok(Loaded { entity, view, .. }) => {
                self.note_settled(view, entity.state());
                self.surroundings.reader.took_over(entity.stream(), view);
                let found = entity.mark();
                self.keys.settle(identity, found.unique);
                self.latest = self.latest.max(found.updated_at);
                self.agenda.place(identity, known.slot, found.slot);
                self.counts.shift(known.class, found.class);
                found.slot
            }
            Err(Failure::Refused(_)) => return self.quarantine(identity, known.slot),
            Err(_) => {
                self.agenda.put_back(identity, known.slot);
                known.slot
            }
        };
        if died_too_often {
            self.quarantine(identity, slot);
        }
    }

    /// What the flow's next life can start from, but for the tally; `None` while anything is under way, or
    /// where a record was left alone.
    pub(super) fn marks(&self) -> Option<Marks<F>> {
        if self.held.is_some() || self.roster.is_busy() || !self.damaged.is_empty() {
            return None;
        }
        let (latest, tally, keys) = (self.latest, Tally::default(), self.keys.settled()?);
        let mut entries = self.agenda.entries();
        entries.extend(self.shelf.entries());
        Some(Marks { latest, tally, entries, keys })
    }
}

impl<F: Answers> Actor for Supervisor<F> {
    type Context = Context<Self>;
}

impl<F: Answers> Handler<Act<F>> for Supervisor<F> {
    type Result = ();

    fn handle(&mut self, act: Act<F>, context: &mut Self::Context) {
        // What became due meanwhile is moved a little at a time, and not all by the next claim.
        self.agenda.advance(act.now);
        self.forward(act, &context.address());
    }
}

impl<F: Answers> Handler<Finish<F>> for Supervisor<F> {
    type Result = ();

    fn handle(&mut self, finish: Finish<F>, context: &mut Self::Context) {
        let Finish { identity, finished } = finish;
        let moved = identity.clone();
        if !matches!(finished, Finished::Moved { .. }) {
            self.roster.end(&identity, None);
        }
        match finished {
            Finished::Unchanged => {
                // A registration may be on its way behind a look.
                if self.roster.rests(&identity) {
                    self.keys.settle(&identity, None);
                }
                return self.look_again(&identity, context.address());
            }
            Finished::Moved { before, after } => {
                self.keys.settle(&identity, after.unique);
                if !matches!(after.slot, Slot::Leased { .. }) {
                    self.tenures.end(&identity);
                }
                self.shelf.forget(&identity);
                self.latest = self.latest.max(after.updated_at);
                self.agenda.place(&identity, before.slot, after.slot);
                self.counts.shift(before.class, after.class);
                self.roster.end(&identity, Some(after));
            }
            Finished::NotClaimed { was, now, again } => {
                self.agenda.place(&identity, was, now.slot);
                if let Some(claim) = again {
                    self.pick(claim, &context.address());
                }
            }
            Finished::SetAside { was, now, site, again } => {
                self.tenures.end(&identity);
                let (gate, aside) = (&self.surroundings.gate, (site, again.now));
                let picked = Picked { identity, was, now: now.slot };
                self.shelf.set_aside(gate, &mut self.agenda, aside, picked);
                self.pick(again, &context.address());
            }
            Finished::Damaged { slot, again } => {
                self.quarantine(&identity, slot);
                self.pick(again, &context.address());
            }
            Finished::Unknown => {
                if self.surroundings.shared {
                    self.tenures.end(&identity);
                }
                self.reconcile(&identity, context.address(), false);
            }
            Finished::Died => {
                self.roster.died(&identity);
                let too_often = !self.roster.may_restart(&identity);
                self.reconcile(&identity, context.address(), too_often);
            }
        }
        self.look_again(&moved, context.address());
        self.moves.send_modify(|moves| *moves += 1);
    }
}

impl<F: Answers> Handler<Health<F::Health>> for Supervisor<F> {
    type Result = ();

    fn handle(&mut self, health: Health<F::Health>, _: &mut Self::Context) {
        let Health { now, reply } = health;
        let due = self.agenda.due_count(now) + self.shelf.due_count(now);
        let expired = self.agenda.expired_count(now);
        let (held, parked) = (self.agenda.held_count(), self.agenda.parked_count());
        let expected = self.surroundings.expected;
        self.counts.report(Report { due, expired, held, parked, expected, reply });
    }
}
