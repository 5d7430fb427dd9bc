//! What a flow tells others: its callers, the flow after it, and itself.
//!
//! Owns what an answer means to whom it is given, and what the simulation notes of it. Holds no rule.

use super::desk::{Around, Inside};
use super::documents::CANARY;
use super::flow::SimFlow;
use super::invariant::{Checked, I10, I15, broken};
use super::message::{Act, Ask, Caller, Finished, Mark, Message, Told};
use super::note::Note;
use super::sabotage::Sabotage;
use super::shared::Shared;
use leasehold_actors::record::{
    Command, Identity, Intervention, OperatorName, Reason, Refusal, State, StateKind, stream_of,
};
use leasehold_actors::shell::Failure;

/// An operator, whose words are never printed by us.
pub(crate) fn intervention() -> Intervention {
    Intervention {
        by: OperatorName::new(CANARY).expect("a name"),
        why: Reason::new(&format!("a {CANARY} reason")).expect("a reason"),
    }
}

/// The line of a refusal; `None` for one that nothing here leads to.
fn note_of(refusal: Refusal) -> Option<Note> {
    Some(match refusal {
        Refusal::IdempotencyCollision => Note::Collision,
        Refusal::ClaimMissing => Note::ClaimMissing,
        Refusal::ClaimLost => Note::ClaimLost,
        Refusal::LeaseExpired => Note::LeaseExpired,
        Refusal::ClockRegressed => Note::ClockRegressed,
        Refusal::RecordMissing => Note::RecordMissing,
        Refusal::NotFailed => Note::NotFailed,
        Refusal::NotHeld => Note::NotHeld,
        Refusal::NotDue | Refusal::LeaseInvalid | Refusal::StateInvalid => return None,
    })
}

/// Looks at a failure that somebody is told of, and writes its line.
pub(crate) fn failed<F: SimFlow>(
    failure: &Failure,
    who: &Identity,
    number: u64,
    shared: &mut Shared,
) -> Checked {
    shared.said(failure)?;
    let note = if let Failure::Refused(refusal) = failure {
        note_of(*refusal).ok_or(broken(I10, "a refusal that nothing leads to"))?
    } else if let Failure::Journal(_) = failure {
        Note::ToldJournalFailed
    } else {
        return Err(broken(I10, "another writer was faster, or an actor is gone"));
    };
    shared.note_of(note, F::TAG, who, number);
    Ok(())
}

impl<F: SimFlow> Inside<F> {
    /// Answers a caller.
    pub(crate) fn reply(
        &mut self,
        identity: &Identity,
        caller: Caller,
        told: Result<Told, Failure>,
        around: &mut Around<'_, F>,
    ) -> Checked {
        let shared = &mut *around.shared;
        match &told {
            Ok(Told { changed: true, version }) => {
                let stream = stream_of(F::TAG, identity.as_str());
                let acked = shared.acked.entry(stream).or_insert(0);
                *acked = (*acked).max(*version);
            }
            Ok(Told { version, .. }) if caller == Caller::Registrant => {
                shared.note_of(Note::AlreadyKnown, F::TAG, identity, u64::from(*version));
            }
            Ok(_) => {}
            Err(failure) => failed::<F>(failure, identity, 0, shared)?,
        }
        match (caller, told) {
            (Caller::Wave, told) => self.wave_answered(told.err()),
            (Caller::HandOver, Err(Failure::Refused(_))) => {
                return Err(broken(I15, "a hand-over was turned down"));
            }
            (Caller::HandOver, Err(_)) => shared.hand_over_failed = true,
            (Caller::Registrant | Caller::Host | Caller::HandOver | Caller::Nobody, _) => {}
        }
        Ok(())
    }

    fn wave_answered(&mut self, failure: Option<Failure>) {
        let Some(wave) = &mut self.wave else { return };
        if let Some(failure @ Failure::Journal(_)) = failure {
            wave.fault.get_or_insert(failure);
        }
        wave.left = wave.left.saturating_sub(1);
        if wave.left == 0 {
            self.inbox.push_back(Message::WaveEnded);
        }
    }

    /// Registers with the next flow what a completed record leads to.
    pub(crate) fn hand_over(&self, identity: &Identity, state: &State<F>, shared: &mut Shared) {
        let handed = self.life.link.and_then(|terms| F::hand_over(state, terms));
        let Some(handed) = handed else { return };
        if shared.sabotaged(Sabotage::HandOverForgotten) {
            return;
        }
        shared.note_of(Note::HandedOver, F::TAG, identity, handed.to() as u64);
        if shared.sabotaged(Sabotage::HandOverTwice) {
            shared.handed.extend(handed.doubled());
        }
        shared.handed.push_back(handed);
    }

    /// Remembers since when it is known that a record is unsettled.
    pub(crate) fn follow(
        &mut self,
        identity: &Identity,
        finished: &Finished<F>,
        shared: &mut Shared,
    ) {
        let Finished::Moved { before, after } = finished else { return };
        let is_active = |mark: &Mark<F>| mark.class.is_some_and(|class| class.kind.is_active());
        if !is_active(after) {
            self.unsettled_since.remove(identity);
        } else if !is_active(before) {
            self.unsettled_since.insert(identity.clone(), shared.tick());
        }
        let failed = after.class.is_some_and(|class| class.kind == StateKind::Failed);
        if failed && shared.sabotaged(Sabotage::AutoRequeue) {
            let ask = Ask::Do(Command::Requeue { next_at: None, intervention: intervention() });
            let (now, caller) = (shared.time(), Caller::Nobody);
            let act = Act { identity: identity.clone(), ask, now, caller };
            self.inbox.push_back(Message::Act(act));
        }
    }
}
