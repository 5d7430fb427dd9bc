//! What can be said about the records of the frames that are kept.
//!
//! Owns the counting. Must not know how frames are found, nor choose among them.

use crate::chain::JournalId;
use crate::error::JournalError;
use crate::frame::Frame;
use crate::index::StreamIndex;
use crate::record::{Stored, StreamId};
use crate::scan::Scan;
use crate::walk::Walk;
use std::collections::HashSet;

/// What was counted over everything that is kept.
#[derive(Default)]
pub(super) struct Survey {
    /// Every stream that has a record here.
    pub(super) index: StreamIndex,
    /// Streams with a record that is known to be missing.
    pub(super) broken: HashSet<StreamId>,
    /// Records whose chunks were not found, in order.
    pub(super) bodies_missing: Vec<u64>,
    /// How many frames of the chain follow stream by stream.
    pub(super) walked: usize,
    /// First sequence number of the first one that does not.
    pub(super) unfollowed_from: Option<u64>,
}

impl Survey {
    pub(super) fn over(
        scan: &Scan,
        journal: Option<JournalId>,
        prefix: &[usize],
        rest: &[usize],
    ) -> Result<Self, JournalError> {
        let mut survey = Self::default();
        let mut reader = scan.reader();
        let mut walk = journal.map(Walk::new);
        for at in prefix.iter().chain(rest) {
            let found = &scan.frames()[*at];
            let bytes = reader.frame(found)?;
            let corrupt = JournalError::Corrupt { sequence: found.first_sequence };
            let frame = Frame::parse(&bytes).map_err(|_| corrupt.clone())?;
            for stored in frame.records().map_err(|_| corrupt)? {
                survey.take(scan, &stored);
            }
            if survey.walked < prefix.len() && survey.unfollowed_from.is_none() {
                match walk.as_mut().map(|walk| walk.step(&bytes).is_ok()) {
                    Some(true) => survey.walked += 1,
                    Some(false) | None => survey.unfollowed_from = Some(found.first_sequence),
                }
            }
        }
        Ok(survey)
    }

    fn take(&mut self, scan: &Scan, stored: &Stored<'_>) {
        let bodied = scan.has_body(stored);
        if !bodied {
            self.bodies_missing.push(stored.sequence);
        }
        if !self.index.follow(stored) || !bodied {
            self.broken.insert(stored.stream);
        }
    }
}
