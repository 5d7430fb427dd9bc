//! Taking over what other writers of a shared journal wrote.
//!
//! Owns the verification of their frames (J2, J3, J4), what readers are told of them, and the names their
//! streams were begun under. Must not know where frames are kept, nor what a record says: whoever opens the
//! journal says which records begin something under a name.

use crate::chain::Head;
use crate::error::JournalError;
use crate::frame::Frame;
use crate::index::Tip;
use crate::medium::Medium;
use crate::reader::{Shared, VerifiedFrame};
use crate::record::{Record, Stored, StreamId};
use crate::store::{Append, Name};
use crate::walk::{following, whole};
use std::collections::HashMap;
use std::sync::Arc;

/// Frames that are taken over at once; in between, readers see what there is so far.
const FRAMES_AT_ONCE: usize = 64;

/// The name a stream's first record begins it under; `None` for most.
pub type NameOf = fn(&Record) -> Option<Name>;

/// What one writer remembers of the others.
#[derive(Debug, Default)]
pub(crate) struct Follower {
    name_of: Option<NameOf>,
    /// The last sequence number at which another writer began a stream under a name, and the stream.
    names: HashMap<(u8, Name), (u64, StreamId)>,
}

/// Frames that were verified and are not shown yet.
struct Taken {
    head: Head,
    tips: HashMap<StreamId, Tip>,
    /// Each stream's version before its first record of these.
    known: HashMap<StreamId, u32>,
    frames: Vec<Arc<VerifiedFrame>>,
}

impl Follower {
    pub(crate) fn new(name_of: NameOf) -> Self {
        Self { name_of: Some(name_of), names: HashMap::new() }
    }

    /// Whether nobody else has begun a stream under the append's name that its writer was not told of.
    pub(crate) fn is_alone(&self, append: &Append) -> bool {
        let Some(alone) = append.alone else { return true };
        match self.names.get(&(append.stream.0[0], alone.name)) {
            Some((sequence, stream)) => *sequence <= alone.told || *stream == append.stream,
            None => true,
        }
    }

    /// Forgets the names that the writers of these appends were told of: whoever comes after them was told of
    /// as much.
    pub(crate) fn forget(&mut self, batch: &[Append]) {
        if self.names.is_empty() {
            return;
        }
        // Streams of one number are told of together; others may have been told of less.
        let mut told: HashMap<u8, u64> = HashMap::new();
        for append in batch {
            if let Some(alone) = append.alone {
                let least = told.entry(append.stream.0[0]).or_insert(alone.told);
                *least = alone.told.min(*least);
            }
        }
        self.names.retain(|(number, _), (sequence, _)| {
            told.get(number).is_none_or(|told| *sequence > *told)
        });
    }

    /// Takes over every frame behind the head, and answers whether there were any.
    ///
    /// # Errors
    /// [`JournalError::Corrupt`] with the first sequence number that cannot be believed;
    /// [`JournalError::Newer`]; whatever the medium answers.
    pub(crate) fn follow<M: Medium>(&mut self, shared: &Shared<M>) -> Result<bool, JournalError> {
        let mut any = false;
        loop {
            let head = shared.head();
            let (tips, known) = (HashMap::new(), HashMap::new());
            let mut taken = Taken { head, tips, known, frames: Vec::new() };
            while taken.frames.len() < FRAMES_AT_ONCE
                && let Some(bytes) = following(&shared.medium, taken.head)?
            {
                self.take(bytes, &mut taken, shared)?;
            }
            let more = taken.frames.len() == FRAMES_AT_ONCE;
            any |= !taken.frames.is_empty();
            if !taken.frames.is_empty() {
                let Taken { head, tips, known, frames } = taken;
                shared.keep(frames);
                shared.take_over(tips, known, head);
            }
            if !more {
                return Ok(any);
            }
        }
    }

    fn take<M: Medium>(
        &mut self,
        bytes: Vec<u8>,
        taken: &mut Taken,
        shared: &Shared<M>,
    ) -> Result<(), JournalError> {
        let sequence = taken.head.sequence + 1;
        let frame = Arc::new(VerifiedFrame::verify(bytes, sequence)?);
        let parsed = Frame::parse(frame.bytes()).map_err(|_| JournalError::Corrupt { sequence })?;
        if parsed.first_sequence != sequence || parsed.previous != taken.head.hash {
            return Err(JournalError::Corrupt { sequence });
        }
        for record in parsed.records().map_err(|_| JournalError::Corrupt { sequence })? {
            let stream = record.stream;
            let tip = taken.tips.get(&stream).copied().unwrap_or_else(|| shared.tip(stream));
            if record.previous != tip.sequence || record.version != tip.version + 1 {
                return Err(JournalError::Corrupt { sequence: record.sequence });
            }
            taken.known.entry(stream).or_insert(tip.version);
            let tip = Tip { sequence: record.sequence, version: record.version };
            taken.tips.insert(stream, tip);
            if record.version == 1 {
                self.note_name(&record, shared);
            }
        }
        taken.head = parsed.head();
        taken.frames.push(frame);
        Ok(())
    }

    /// A record whose body is gone or damaged begins nothing: it is quarantined.
    fn note_name<M: Medium>(&mut self, record: &Stored<'_>, shared: &Shared<M>) {
        let Some(name_of) = self.name_of else { return };
        let Ok(record) = whole(record, &|hash| shared.medium.chunk(hash)) else { return };
        if let Some(name) = name_of(&record) {
            self.names.insert((record.stream.0[0], name), (record.sequence, record.stream));
        }
    }
}
