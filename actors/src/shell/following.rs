//! Taking over what other engines of a shared journal did.
//!
//! Owns the way from their records to this engine's agenda, counts and second identities, and the
//! hand-overs they may not have come to. Must hold no rule: a record another engine moved is read and folded
//! like any other.

use super::message::{Followed, Mark};
use super::reading::{self, Reading};
use super::supervisor::Supervisor;
use crate::agenda::Slot;
use crate::contract::time::Timestamp;
use crate::flows::Answers;
use crate::record::{Identity, State};
use actix::{Addr, AsyncContext as _, Handler};
use leasehold_journal::{Peers, StreamId, View};
use std::collections::VecDeque;
use std::sync::Arc;

/// How long another engine has for handing over what it settled, in seconds: then it is taken for gone.
/// Being wrong costs a registration that changes nothing.
const HAND_OVER_SECONDS: f64 = 10.0;
/// One claim in so many takes what is due longest.
const HELP_EVERY: u32 = 16;
/// Records taken over at once; requests are answered in between.
const AT_ONCE: usize = 512;

/// What one flow knows of the others.
pub(crate) struct Others<F: Answers> {
    /// The last sequence number up to which everything of theirs was taken over.
    pub(super) told: u64,
    /// Counts claims.
    picks: u32,
    /// What they settled, with the time, until it is seen to be handed over.
    settled: VecDeque<(Timestamp, State<F>)>,
}

impl<F: Answers> Default for Others<F> {
    fn default() -> Self {
        Self { told: 0, picks: 0, settled: VecDeque::new() }
    }
}

impl<F: Answers> Others<F> {
    /// Among whom the next claim is to be shared out. Now and then it takes what is due longest, whoever's
    /// it is: an engine that claims nothing must not leave its share lying.
    pub(super) fn peers(&mut self, peers: Peers) -> Peers {
        self.picks = self.picks.wrapping_add(1);
        if self.picks.is_multiple_of(HELP_EVERY) { Peers::ALONE } else { peers }
    }
}

impl<F: Answers> Supervisor<F> {
    /// Takes over whatever the readers show of others.
    pub(super) fn take_over(&mut self, me: &Addr<Self>) {
        let reader = Arc::clone(&self.surroundings.reader);
        let (told, streams) = reader.moved(F::TAG as u8);
        let (more, mut progress) = (streams.len() > AT_ONCE, false);
        for stream in streams.into_iter().take(AT_ONCE) {
            match reading::read::<F>(reader.as_ref(), stream) {
                Ok(reading) => progress |= self.take_over_one(stream, reading, me),
                Err(error) => {
                    tracing::warn!(code = error.code(), "what others wrote has to wait");
                    return;
                }
            }
        }
        if !more {
            self.others.told = told;
        } else if progress && me.try_send(Followed).is_err() {
            tracing::debug!("the next look goes on with it");
        }
    }

    /// Takes one record over, or leaves it to the moment when its actor rests; whether it was taken over.
    fn take_over_one(&mut self, stream: StreamId, reading: Reading<F>, me: &Addr<Self>) -> bool {
        let Reading { view, state, earlier, .. } = reading;
        let Some(after) = state else {
            self.take_over_damaged(earlier, (stream, view));
            return true;
        };
        let (Some(record), Some(before)) = (after.record(), earlier) else { return false };
        let identity = F::identity(&record.binding);
        if self.roster.outdate(&identity) {
            return false; // as soon as its actor rests
        }
        if self.roster.knows(&identity) {
            self.reconcile(&identity, me.clone(), false);
            return true;
        }
        self.note_settled(view, &after);
        let (earlier, found) = (self.mark(&before), self.mark(&after));
        self.moved_elsewhere(&identity, &earlier, &found);
        self.surroundings.reader.took_over(stream, view);
        true
    }

    /// A record that does not replay any more. One that never did has no identity that could be believed.
    fn take_over_damaged(&mut self, before: Option<State<F>>, at: (StreamId, View)) {
        self.surroundings.reader.took_over(at.0, at.1);
        match before.as_ref().and_then(State::record) {
            Some(record) => {
                let identity = F::identity(&record.binding);
                let slot = before.as_ref().map(|before| self.mark(before).slot);
                self.quarantine(&identity, slot.unwrap_or(Slot::Idle));
            }
            None => {
                tracing::error!(
                    code = "record_quarantined",
                    flow = F::TAG.name(),
                    "a record of another engine does not replay"
                );
                self.counts.quarantine(None);
            }
        }
    }

    fn mark(&self, state: &State<F>) -> Mark<F> {
        Mark::of(state, self.surroundings.expected)
    }

    /// A record that rests here was moved by others.
    pub(super) fn moved_elsewhere(
        &mut self,
        identity: &Identity,
        earlier: &Mark<F>,
        found: &Mark<F>,
    ) {
        self.keys.owned_elsewhere(identity, found.unique);
        self.latest = self.latest.max(found.updated_at);
        self.shelf.forget(identity);
        self.agenda.place(identity, earlier.slot, found.slot);
        self.counts.shift(earlier.class, found.class);
    }

    /// Looks at a record again that others moved while its actor was at something.
    pub(super) fn look_again(&mut self, identity: &Identity, me: Addr<Self>) {
        if self.roster.is_outdated(identity) {
            self.reconcile(identity, me, false);
        }
    }

    /// Remembers what others settled, so that what follows from it is registered by somebody.
    pub(super) fn note_settled(&mut self, view: View, state: &State<F>) {
        if view.known.is_none() {
            return;
        }
        if let (State::Completed { record, .. }, Some(_)) = (state, &self.surroundings.successor) {
            self.others.settled.push_back((record.updated_at, state.clone()));
        }
    }

    /// Hands over what others settled a while ago and did not hand over: they may be gone.
    fn hand_over_for_others(&mut self) {
        let Some(next) = &self.surroundings.successor else { return };
        let now = self.surroundings.reader.server_seconds();
        let now = now.or(self.latest.map(|latest| latest.seconds())).unwrap_or(0.0);
        while let Some((at, state)) = self.others.settled.front() {
            if at.seconds() + HAND_OVER_SECONDS > now {
                return;
            }
            if !(next.registered)(state) {
                tracing::info!(code = "handed_over_for_another", "an engine left a hand-over");
                (next.tell)(state);
            }
            self.others.settled.pop_front();
        }
    }
}

impl<F: Answers> Handler<Followed> for Supervisor<F> {
    type Result = ();

    fn handle(&mut self, _: Followed, context: &mut Self::Context) {
        let before = self.others.told;
        self.take_over(&context.address());
        self.hand_over_for_others();
        if self.others.told != before {
            self.moves.send_modify(|moves| *moves += 1);
        }
    }
}
