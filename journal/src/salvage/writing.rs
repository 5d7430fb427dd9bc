//! What is made of salvaged frames: an archive, a file of the rest, a new journal.
//!
//! Owns the order of what is written. Must not judge which frames belong together.

use super::{REST_MAGIC, Salvage};
use crate::anchor::Anchor;
use crate::archive::{self, item};
use crate::chain::{Digest, Head};
use crate::chunk;
use crate::error::JournalError;
use crate::frame::Frame;
use crate::log::{Log, LogOptions};
use crate::medium::{Batch, Medium};
use crate::scan::Reader;
use crate::store::StoreReader as _;
use std::collections::HashSet;
use std::io::Write;

impl Salvage {
    /// Writes the part without a gap as an archive. A chunk that is gone is left out, and the record
    /// it belongs to reads as damaged.
    ///
    /// # Errors
    /// [`JournalError::NotAJournal`] when the journal's id is not known; what the disk answers.
    pub fn write_archive(&self, out: &mut dyn Write) -> Result<Head, JournalError> {
        let (Some(id), Some(head)) = (self.journal, self.head) else {
            return Err(JournalError::NotAJournal);
        };
        out.write_all(&archive::MAGIC)?;
        out.write_all(&id.0)?;
        self.write_items(&self.prefix, out)?;
        item(out, b'E', &archive::head_bytes(head))?;
        out.flush()?;
        Ok(head)
    }

    /// Writes every other verified frame; answers how many.
    ///
    /// # Errors
    /// What the disk answers.
    pub fn write_rest(&self, out: &mut dyn Write) -> Result<u64, JournalError> {
        out.write_all(&REST_MAGIC)?;
        out.write_all(&self.journal.map_or([0; 16], |id| id.0))?;
        let mut frames = [self.rest.as_slice(), &self.aside].concat();
        frames.sort_unstable(); // places in the scan are in order of sequence
        self.write_items(&frames, out)?;
        let count = frames.len() as u64;
        item(out, b'E', &count.to_le_bytes())?;
        out.flush()?;
        Ok(count)
    }

    /// Writes the part without a gap to an empty medium, frame by frame as it is, and opens it as a
    /// log, which verifies all of it once more.
    ///
    /// # Errors
    /// [`JournalError::NotAJournal`] when the journal's id is not known or the medium is a journal
    /// already; whatever the medium answers.
    pub fn restore<M: Medium>(&self, medium: M) -> Result<Head, JournalError> {
        let (Some(id), Some(head)) = (self.journal, self.head) else {
            return Err(JournalError::NotAJournal);
        };
        if medium.journal_id()?.is_some() {
            return Err(JournalError::NotAJournal);
        }
        medium.initialise(id)?;
        let mut reader = self.scan.reader();
        let mut written = HashSet::new();
        for at in &self.prefix {
            let found = &self.scan.frames()[*at];
            let bytes = reader.frame(found)?;
            let chunks = chunks_of(&bytes, &mut reader, &mut written)?;
            medium.write(Batch { frames: vec![(found.first_sequence, bytes)], chunks })?;
        }
        medium.sync()?;
        medium.set_anchor(Anchor { journal: id, head }, true)?;
        let options = LogOptions { new_id: id, create: false };
        // A record whose chunks are gone is handed over as an error, and was told of before.
        let log = Log::open(medium, options, &mut |_| Ok(()))?;
        Ok(log.reader().head())
    }

    fn write_items(&self, frames: &[usize], out: &mut dyn Write) -> Result<(), JournalError> {
        let mut reader = self.scan.reader();
        let mut written = HashSet::new();
        for at in frames {
            let bytes = reader.frame(&self.scan.frames()[*at])?;
            for (_, piece) in chunks_of(&bytes, &mut reader, &mut written)? {
                item(out, b'C', &piece)?;
            }
            item(out, b'F', &bytes)?;
        }
        Ok(())
    }
}

/// The chunks of a frame that were found and are not written yet.
fn chunks_of(
    frame: &[u8],
    reader: &mut Reader<'_>,
    written: &mut HashSet<Digest>,
) -> Result<Vec<(Digest, Vec<u8>)>, JournalError> {
    let corrupt = JournalError::Corrupt { sequence: 0 };
    let records = Frame::parse(frame).and_then(|frame| frame.records()).map_err(|_| corrupt)?;
    let mut chunks = Vec::new();
    for stored in records.iter().filter(|stored| stored.chunked) {
        for hash in chunk::hashes(stored.stored).unwrap_or_default() {
            if let Some(piece) = reader.chunk(&hash)?
                && written.insert(hash)
            {
                chunks.push((hash, piece));
            }
        }
    }
    Ok(chunks)
}
