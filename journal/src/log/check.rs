//! Whether a journal is the one its anchors know.

use crate::anchor::Anchor;
use crate::chain::{Head, JournalId};
use crate::error::JournalError;
use crate::medium::Anchors;

/// Compares a walk with the anchors.
#[derive(Debug)]
pub struct AnchorCheck {
    id: JournalId,
    inner_missing: bool,
    /// Each anchor that has records, and whether its head was met on the walk.
    anchors: Vec<(Anchor, bool)>,
}

impl AnchorCheck {
    /// A check of a journal's anchors.
    #[must_use]
    pub fn new(id: JournalId, anchors: &Anchors) -> Self {
        let known = [anchors.inner, anchors.outer].into_iter().flatten();
        Self {
            id,
            inner_missing: anchors.inner.is_none(),
            anchors: known.filter(|a| a.head.sequence > 0).map(|a| (a, false)).collect(),
        }
    }

    /// Tells that the walk starts at a base. What an anchor from before it says, only the archives can
    /// tell.
    pub fn start(&mut self, head: Head) {
        for (anchor, met) in &mut self.anchors {
            *met |= anchor.head.sequence < head.sequence;
        }
        self.pass(head);
    }

    /// Tells that a frame ended at `head`.
    pub fn pass(&mut self, head: Head) {
        for (anchor, met) in &mut self.anchors {
            *met |= anchor.head == head;
        }
    }

    /// Tells that the walk ended at `head`.
    ///
    /// # Errors
    /// [`JournalError::Diverged`] for an anchor of another journal, or one whose head was never the end
    /// of a frame here: frames are never cut anew (J6). [`JournalError::BehindAnchor`],
    /// [`JournalError::AnchorMissing`].
    pub fn finish(&self, head: Head) -> Result<(), JournalError> {
        for (anchor, met) in &self.anchors {
            let sequence = anchor.head.sequence;
            if anchor.journal != self.id || (sequence <= head.sequence && !met) {
                return Err(JournalError::Diverged { sequence });
            }
            if sequence > head.sequence {
                let missing = sequence - head.sequence;
                return Err(JournalError::BehindAnchor { sequence: head.sequence, missing });
            }
        }
        if self.inner_missing && head.sequence > 0 {
            Err(JournalError::AnchorMissing)
        } else {
            Ok(())
        }
    }
}
