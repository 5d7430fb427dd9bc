//! Checks of one flow.
//!
//! Owns what is compared with what: the tally with the fold (I9), the agenda with brute force over the
//! states (I12), a whole replay with what is known to be durable (I10). Must not change anything that
//! decides.

use super::desk::Desk;
use super::flow::SimFlow;
use super::invariant::{Checked, I9, I10, I12, I15, must};
use super::note::Note;
use super::picking::{is_held, is_parked};
use super::shared::Shared;
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::flows::all::AllFlows;
use leasehold_actors::flows::handover::Terms;
use leasehold_actors::health::Tally;
use leasehold_actors::record::State;
use leasehold_journal::StreamId;
use std::collections::BTreeSet;

/// Checks of one flow.
pub(crate) trait Inspected {
    /// Whether nothing is under way in the flow.
    fn is_at_rest(&self) -> bool;
    /// Checks what has to hold when nothing is under way, if anything happened since the last time.
    fn check_rest(&mut self, shared: &mut Shared) -> Checked;
    /// Compares a replay of everything with what is known to be durable.
    fn check_replay(&self, all: &mut AllFlows) -> Checked;
    /// Compares the states that are live with what is durable, and looks at what they print.
    fn check_states(&self, shared: &mut Shared) -> Checked;
    /// The streams that its completed records lead to.
    fn successors(&self, terms: Terms) -> BTreeSet<StreamId>;
    /// The streams of its records.
    fn streams(&self) -> Vec<StreamId>;
    /// Whether it hands over in this life.
    fn hands_over(&self) -> bool;
    /// Whether no record waits or is leased.
    fn is_settled(&self) -> bool;
    /// Whether a worker has a claim.
    fn has_claims(&self) -> bool;
    /// Writes how each record ended.
    fn write_ends(&self, shared: &mut Shared);
}

impl<F: SimFlow> Desk<F> {
    /// The earliest time at which there is something to do, and how many records wait or are leased.
    fn earliest(&self, now: Timestamp, shared: &mut Shared) -> (Option<Timestamp>, usize) {
        let expected = self.inside.as_ref().and_then(|inside| inside.life.expected);
        let (mut earliest, mut active) = (None::<Timestamp>, 0);
        for (story, state) in self.witness.stories() {
            let at = match state {
                State::Ready { record, .. } => {
                    active += 1;
                    if is_parked(record, expected) {
                        shared.note_of(Note::RecordParked, F::TAG, &story.identity, 0);
                        continue;
                    }
                    if is_held(record, &self.witness) {
                        shared.note_of(Note::RemovalWaits, F::TAG, &story.identity, 0);
                        continue;
                    }
                    record.next_at.max(now)
                }
                State::Leased { lease, .. } => {
                    active += 1;
                    lease.expires_at.max(now)
                }
                State::Vacant
                | State::Completed { .. }
                | State::Failed { .. }
                | State::Dismissed { .. } => continue,
            };
            earliest = Some(earliest.map_or(at, |known| known.min(at)));
        }
        (earliest, active)
    }
}

impl<F: SimFlow> Inspected for Desk<F> {
    fn is_at_rest(&self) -> bool {
        let Some(inside) = &self.inside else { return true };
        inside.inbox.is_empty()
            && inside.wave.is_none()
            && inside.held.is_none()
            && inside.entities.values().all(|entity| entity.is_idle())
    }

    fn check_rest(&mut self, shared: &mut Shared) -> Checked {
        if !self.touched || self.inside.is_none() || !self.is_at_rest() {
            return Ok(());
        }
        self.touched = false;
        let now = shared.time();
        let (earliest, active) = self.earliest(now, shared);
        let mut fold = Tally::default();
        for (story, _) in self.witness.stories() {
            fold.shift(None, story.class);
        }
        let Some(inside) = &mut self.inside else { return Ok(()) };
        must(inside.tally == fold, I9, "at rest")?;
        if shared.journal.poisoned {
            return Ok(());
        }
        let next_at = inside.agenda.next_at(now);
        let sleeps_past = match (next_at, earliest) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(next), Some(earliest)) => next > earliest,
        };
        must(!sleeps_past, I12, "the agenda sleeps past the earliest time")?;
        must(inside.agenda.len() == active, I12, "the agenda has not all records that wait")?;
        shared.note(Note::ChecksRest);
        Ok(())
    }

    fn check_replay(&self, all: &mut AllFlows) -> Checked {
        let same = self.witness.agrees(F::part(all));
        must(same, I10, "a whole replay is not what is known to be durable")
    }

    fn check_states(&self, shared: &mut Shared) -> Checked {
        for (_, state) in self.witness.stories() {
            shared.shown(state)?;
            if let Some(kind) = state.kind() {
                shared.shown(&kind)?;
            }
        }
        let Some(inside) = &self.inside else { return Ok(()) };
        for entity in inside.entities.values() {
            let live = match (self.witness.state(entity.stream), entity.state()) {
                (None, State::Vacant) => true,
                (known, state) => known == Some(state),
            };
            // What is durable and not yet told to its actor is a step ahead of it.
            must(live || !entity.is_idle(), I10, "an actor's state is not the durable one")?;
        }
        Ok(())
    }

    fn successors(&self, terms: Terms) -> BTreeSet<StreamId> {
        let states = self.witness.stories().map(|(_, state)| state);
        states.filter_map(|state| F::hand_over(state, terms)).map(|next| next.stream()).collect()
    }

    fn streams(&self) -> Vec<StreamId> {
        self.witness.streams()
    }

    fn hands_over(&self) -> bool {
        self.inside.as_ref().is_some_and(|inside| inside.life.link.is_some())
    }

    fn is_settled(&self) -> bool {
        self.witness.stories().all(|(_, state)| state.kind().is_none_or(|kind| !kind.is_active()))
    }

    fn has_claims(&self) -> bool {
        !self.outside.held.is_empty()
    }

    fn write_ends(&self, shared: &mut Shared) {
        for (story, state) in self.witness.stories() {
            let note = match state {
                State::Completed { .. } => Note::EndsCompleted,
                State::Failed { .. } => Note::EndsFailed,
                State::Dismissed { .. } => Note::EndsDismissed,
                State::Vacant | State::Ready { .. } | State::Leased { .. } => continue,
            };
            shared.note_of(note, F::TAG, &story.identity, 0);
        }
    }
}

/// Compares what one flow's completed records lead to with what is registered in the next one (I15).
/// `complete` is false while registrations may be on their way or have to wait for the next open.
pub(crate) fn check_hand_over(
    successors: &BTreeSet<StreamId>,
    registered: &[StreamId],
    complete: bool,
) -> Checked {
    let known = registered.iter().all(|stream| successors.contains(stream));
    must(known, I15, "a record that no completed one leads to")?;
    let told = successors.iter().all(|stream| registered.contains(stream));
    must(told || !complete, I15, "a completed record that was not handed over")
}
