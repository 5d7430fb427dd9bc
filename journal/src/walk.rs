//! A walk over a journal from its first frame, verifying everything on the way.
//!
//! Owns the rules J2, J3 and J4 in one place: opening a journal, auditing it and verifying an
//! archive all walk here. Must not know where frames come from or what records mean.

use crate::chain::{Head, JournalId};
use crate::error::JournalError;
use crate::frame::{Frame, FrameFault};
use crate::index::StreamIndex;
use crate::record::Stored;

/// The state of a walk: everything up to `head` was verified.
#[derive(Debug)]
pub struct Walk {
    head: Head,
    index: StreamIndex,
    frames: u64,
}

impl Walk {
    /// A walk that has seen nothing.
    #[must_use]
    pub fn new(id: JournalId) -> Self {
        Self { head: Head::genesis(id), index: StreamIndex::default(), frames: 0 }
    }

    /// The last verified head.
    #[must_use]
    pub fn head(&self) -> Head {
        self.head
    }

    /// How many frames were verified.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// The tips of all streams so far.
    #[must_use]
    pub fn into_index(self) -> StreamIndex {
        self.index
    }

    /// Verifies the next frame and answers its records.
    ///
    /// # Errors
    /// [`JournalError::Corrupt`] with the first sequence number that cannot be believed: a gap (J2),
    /// a broken chain (J3), a stream out of order (J4), or bytes that are no frame.
    /// [`JournalError::Newer`] for a frame of a later version.
    pub fn step<'a>(&mut self, bytes: &'a [u8]) -> Result<Vec<Stored<'a>>, JournalError> {
        let corrupt = JournalError::Corrupt { sequence: self.head.sequence + 1 };
        let frame = Frame::parse(bytes).map_err(|fault| match fault {
            FrameFault::Newer(version) => JournalError::Newer { version: version.into() },
            FrameFault::Shape | FrameFault::Hash | FrameFault::Records => corrupt.clone(),
        })?;
        if frame.first_sequence != self.head.sequence + 1 || frame.previous != self.head.hash {
            return Err(corrupt);
        }
        let records = frame.records().map_err(|_| corrupt)?;
        for record in &records {
            if !self.index.follow(record) {
                return Err(JournalError::Corrupt { sequence: record.sequence });
            }
        }
        self.head = frame.head();
        self.frames += 1;
        Ok(records)
    }
}
