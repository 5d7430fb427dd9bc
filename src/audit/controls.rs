//! The audit of what was ever paused: decoding, replay, what was archived.

use super::check::finding;
use super::report::Finding;
use leasehold_actors::control::{Controls, Kept};
use leasehold_actors::replay::ReplayError;
use leasehold_journal::{JournalError, Record, StreamId};
use std::collections::BTreeMap;

/// What findings and counts call them.
pub(super) const NAME: &str = "control";

/// The audit of all scopes. That pauses and resumes alternate (P1) in the stream of their scope (P2) is
/// what their replay takes; who and why are checked when they are decoded.
#[derive(Default)]
pub(super) struct ControlAudit {
    controls: Controls,
}

impl ControlAudit {
    pub(super) fn take(
        &mut self,
        sequence: u64,
        stream: StreamId,
        record: Result<Record, JournalError>,
    ) -> Option<Finding> {
        let body = record.ok().map(|record| record.body);
        let error = self.controls.apply(stream, body.as_deref()).err()?;
        let message = match error {
            ReplayError::Decode(_) => "the body is no pause and no resume",
            ReplayError::Illegal => "the event cannot have happened in the state before it",
            ReplayError::Body => "the body is gone or damaged",
            ReplayError::Quarantined => return None, // the first one of the stream was named
        };
        Some(named(&error.to_string(), sequence, message))
    }

    /// Takes the image of archived events, or compares it with those events.
    pub(super) fn carry(
        &mut self,
        sequence: u64,
        stream: StreamId,
        image: Option<Vec<u8>>,
    ) -> Option<Finding> {
        let archives_walked = self.controls.get(stream).is_some();
        let carried = self.controls.carry(stream, image.as_deref());
        if archives_walked {
            let message = "what the journal kept is not what the archived events come to";
            return carried.err().map(|_| named("base_differs", sequence, message));
        }
        match (carried, self.controls.get(stream)) {
            (Ok(()), Some(Kept::Sound(_)) | None) => None,
            (Ok(()), Some(Kept::Quarantined)) => {
                let message = "it was archived as one that does not replay";
                Some(named("record_quarantined", sequence, message))
            }
            (Err(_), _) => {
                let message = "what its archived events came to is damaged";
                Some(named("record_damaged", sequence, message))
            }
        }
    }

    pub(super) fn counts(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for kept in self.controls.iter() {
            *counts.entry(kept.name()).or_insert(0) += 1;
        }
        counts
    }
}

fn named(code: &str, sequence: u64, message: &str) -> Finding {
    Finding { flow: Some(NAME), ..finding(code, Some(sequence), message) }
}
