//! Taking over what other engines of a shared journal did.
//!
//! Owns the way from their records to this engine's agenda, counts and second identities, and the
//! hand-overs they may not have come to. Must hold no rule: a record another engine moved is read and folded
//! like any other.

use super::entity::Surroundings;
use super::message::{Followed, Mark};
use super::supervisor::Supervisor;
use crate::agenda::Slot;
use crate::contract::time::Timestamp;
use crate::flows::Answers;
use crate::record::{Identity, State};
use crate::replay;
use actix::{Addr, AsyncContext as _, Handler};
use leasehold_journal::{JournalError, Peers, StreamId, View};
use std::collections::VecDeque;

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

/// A record another engine wrote to, before and after; `None` where it does not replay.
struct Moved<F: Answers> {
    before: Option<State<F>>,
    after: Option<State<F>>,
}

impl<F: Answers> Supervisor<F> {
    /// Takes over whatever the readers show of others.
    pub(super) fn take_over(&mut self, me: &Addr<Self>) {
        let (told, streams) = self.surroundings.reader.moved(F::TAG as u8);
        let more = streams.len() > AT_ONCE;
        for stream in streams.into_iter().take(AT_ONCE) {
            let view = self.surroundings.reader.view(stream);
            match read::<F>(&self.surroundings, stream, view) {
                Ok(Moved { before, after: Some(after) }) => {
                    self.take_over_one(before.unwrap_or(State::Vacant), &after, (stream, view), me);
                }
                Ok(Moved { before, after: None }) => {
                    self.take_over_damaged(before, (stream, view));
                }
                Err(error) => {
                    tracing::warn!(code = error.code(), "what others wrote has to wait");
                    return;
                }
            }
        }
        if !more {
            self.others.told = told;
        } else if me.try_send(Followed).is_err() {
            tracing::debug!("the next look goes on with it");
        }
    }

    fn take_over_one(
        &mut self,
        before: State<F>,
        after: &State<F>,
        at: (StreamId, View),
        me: &Addr<Self>,
    ) {
        let Some(record) = after.record() else { return };
        let identity = F::identity(&record.binding);
        if self.roster.outdate(&identity) {
            return; // as soon as its actor rests
        }
        if self.roster.knows(&identity) {
            return self.reconcile(&identity, me.clone(), false);
        }
        self.note_settled(at.1, after);
        let (earlier, found) = (self.mark(&before), self.mark(after));
        self.moved_elsewhere(&identity, &earlier, &found);
        self.surroundings.reader.took_over(at.0, at.1);
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

/// A record as it was when it was taken over last, and as it is.
fn read<F: Answers>(
    surroundings: &Surroundings<F>,
    stream: StreamId,
    view: View,
) -> Result<Moved<F>, JournalError> {
    let reader = &surroundings.reader;
    let read = reader
        .carried(stream)
        .and_then(|carried| Ok((carried, reader.read_stream_to(stream, view.tip)?)));
    let (carried, records) = match read {
        Ok(read) => read,
        Err(JournalError::Corrupt { .. }) => return Ok(Moved { before: None, after: None }),
        Err(error) => return Err(error),
    };
    let image = carried.map(|entry| entry.image);
    let known = view.known.unwrap_or(view.tip.version);
    let earlier = records.iter().filter(|record| record.version <= known);
    let earlier = earlier.map(|record| record.body.clone());
    let before = replay::state_of(stream, image.as_deref(), earlier);
    let bodies = records.iter().map(|record| record.body.clone());
    let after = replay::state_of(stream, image.as_deref(), bodies);
    Ok(Moved { before: before.ok(), after: after.ok() })
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
