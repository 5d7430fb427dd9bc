//! Giving out the record that is due first.
//!
//! Owns the engine's way from a claim to a record's actor, and beside it the same choice by brute force
//! over the witness (I12).

use super::desk::{Around, Inside};
use super::flow::SimFlow;
use super::invariant::{Checked, I12, broken, must};
use super::message::{Claim, Request, SlotOf};
use super::sabotage::Sabotage;
use super::witness::Witness;
use leasehold_actors::agenda::Slot;
use leasehold_actors::contract::text::Sha256;
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::record::{Identity, Record, State};
use leasehold_actors::shell::Failure;

/// The order in which due records are given out.
type Order = (u8, Timestamp, Identity);

/// Whether a record is left for an operator (D9).
pub(crate) fn is_parked<F: SimFlow>(record: &Record<F>, expected: Option<Sha256>) -> bool {
    F::digest(&record.binding).is_some_and(|digest| Some(digest) != expected)
}

/// Whether a record waits for another one (D5).
pub(crate) fn is_held<F: SimFlow>(record: &Record<F>, witness: &Witness<F>) -> bool {
    F::waits_for(&record.binding).is_some_and(|change| witness.is_active(&change))
}

impl<F: SimFlow> Inside<F> {
    /// Gives the claim to the next due record, if there is one.
    pub(crate) fn pick(&mut self, claim: Claim, around: &mut Around<'_, F>) -> Checked {
        if around.shared.gone.contains(&claim.number) {
            return Ok(());
        }
        let first = self.first_due(claim.now, around.witness);
        let skips = around.shared.sabotaged(Sabotage::SkipDue);
        let picked = match self.agenda.pick(claim.now) {
            Some(_) if skips => self.agenda.pick(claim.now),
            picked => picked,
        };
        // After a failed commit the actors of one record may be two, and nothing can be claimed.
        if !around.shared.journal.poisoned {
            is_first::<F>(first, picked.as_ref())?;
        }
        let Some((identity, slot)) = picked else {
            return around.outside.nothing_due(&claim, around.witness, around.shared);
        };
        match self.activate(&identity, around)? {
            Ok(entity) => {
                self.deliver(&identity, entity, Request::Grant { claim, slot });
                Ok(())
            }
            Err(error) => {
                self.agenda.put_back(&identity, slot);
                around.outside.refused(&Failure::Journal(error), claim.number, around.shared)
            }
        }
    }

    /// Whether a request to the record is on its way, so that the agenda may not know of it yet.
    fn is_busy(&self, identity: &Identity) -> bool {
        self.roster.get(identity).is_some_and(|active| active.busy > 0)
    }

    /// The record that is due first, of those to which nothing is on its way.
    fn first_due(&self, now: Timestamp, witness: &Witness<F>) -> Option<Order> {
        let due = witness.stories().filter_map(|(story, state)| {
            let State::Ready { record, .. } = state else { return None };
            let waits = F::waits_for(&record.binding);
            let free =
                !waits.is_some_and(|change| witness.is_active(&change) || self.is_busy(&change));
            let claimable = free
                && record.next_at <= now
                && !self.is_busy(&story.identity)
                && !is_parked(record, self.life.expected);
            claimable.then(|| (F::rank(&record.binding), record.created_at, story.identity.clone()))
        });
        due.min()
    }
}

/// Compares the agenda's choice with the one by brute force.
fn is_first<F: SimFlow>(first: Option<Order>, picked: Option<&(Identity, SlotOf<F>)>) -> Checked {
    let Some(first) = first else { return Ok(()) };
    let Some((identity, slot)) = picked else {
        return Err(broken(I12, "a due record was not given out"));
    };
    match slot {
        Slot::Waiting(waiting) => {
            let order = (waiting.rank, waiting.created_at, identity.clone());
            must(order <= first, I12, "a record was given out before one that goes first")
        }
        Slot::Idle | Slot::Leased { .. } => {
            Err(broken(I12, "a record was given out that is not due"))
        }
    }
}
