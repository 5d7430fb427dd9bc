//! Moving a journal's oldest frames to an archive.
//!
//! Owns the order: an archive is written and read back first, and only then does the journal let go
//! of what it holds. Must not know which frames are old enough, nor what an image says.

use crate::archive;
use crate::base::{EntriesHash, StoredEntry};
use crate::chain::Head;
use crate::chunk;
use crate::error::JournalError;
use crate::index::StreamIndex;
use crate::log::{Log, Piece, cut};
use crate::medium::{Medium, Part, Put};
use crate::record::StreamId;
use crate::store::StoreReader;
use crate::walk::{self, Walk};
use std::collections::HashSet;
use std::io::{BufRead, Write};
use std::sync::Arc;

/// Answers what a stream's records up to the base came to.
pub type Image<'a> = dyn FnMut(&dyn StoreReader, StreamId) -> Result<Vec<u8>, JournalError> + 'a;

impl<M: Medium> Log<M> {
    /// Writes the frames up to `until` to an archive.
    ///
    /// # Errors
    /// As [`archive::export_until`].
    pub fn archive(&self, until: Head, out: &mut dyn Write) -> Result<(), JournalError> {
        archive::export_until(self.medium(), until, out)
    }

    /// Reads an archive back that was written with [`Self::archive`].
    ///
    /// # Errors
    /// What does not verify; [`JournalError::Diverged`] when it does not end at `until`.
    pub fn verify_archive(&self, until: Head, input: &mut dyn BufRead) -> Result<(), JournalError> {
        let mut walk = Walk::new(self.id());
        walk::enter(self.medium(), &mut walk, &mut |_| Ok(()))?;
        archive::verify_on(input, &mut walk)?;
        let sequence = until.sequence;
        if walk.head() == until { Ok(()) } else { Err(JournalError::Diverged { sequence }) }
    }

    /// Lets go of the frames up to `until`: the journal starts there from now on, with an image of
    /// each stream that has records up to there. They have to be in an archive that is durable.
    ///
    /// # Errors
    /// [`JournalError::Diverged`] when no frame ends at `until`, [`JournalError::Locked`] while another
    /// reader exists, [`JournalError::Poisoned`]; whatever `image` or the disk answers. The journal is as
    /// it was then, or as it should be; a reopen tells.
    pub fn rebase(self, until: Head, image: &mut Image<'_>) -> Result<(), JournalError> {
        if self.is_poisoned() {
            return Err(JournalError::Poisoned);
        }
        let medium = self.medium();
        let mut walk = Walk::new(self.id());
        walk::enter(medium, &mut walk, &mut |_| Ok(()))?;
        while walk.head().sequence < until.sequence {
            let next = medium.frame_at_or_after(walk.head().sequence + 1)?;
            let (_, bytes) = next.ok_or(JournalError::Diverged { sequence: until.sequence })?;
            walk.step(&bytes)?;
        }
        if walk.head() != until {
            return Err(JournalError::Diverged { sequence: until.sequence });
        }
        let reader = self.reader();
        let index = walk.into_index();
        medium.prepare_successor(&mut |put| {
            let mut hash = EntriesHash::new(self.id(), until);
            entries(&index, &mut |stream| image(&reader, stream), &mut hash, put)?;
            frames_after(medium, until, put)?;
            Ok(hash.finish(until))
        })?;
        drop(reader);
        let shared = Arc::into_inner(self.into_shared()).ok_or(JournalError::Locked)?;
        shared.medium.succeed()
    }
}

/// Puts the entry of every stream, and the chunks they need.
fn entries(
    index: &StreamIndex,
    image: &mut dyn FnMut(StreamId) -> Result<Vec<u8>, JournalError>,
    hash: &mut EntriesHash,
    put: &mut Put<'_>,
) -> Result<(), JournalError> {
    for (stream, tip) in index.sorted() {
        let image = image(stream)?;
        let piece = cut(&image)?;
        let chunked = matches!(piece, Piece::Chunked(_));
        let bytes = StoredEntry { stream, tip, stored: piece.stored(), chunked }.encode();
        // They come sorted.
        if !hash.add(stream, &bytes) {
            return Err(JournalError::Storage);
        }
        put(Part::Entry(stream, bytes))?;
        if let Piece::Chunked(cut) = piece {
            for (hash, piece) in cut.chunks {
                put(Part::Chunk(hash, piece.to_vec()))?;
            }
        }
    }
    Ok(())
}

/// Puts the frames that stay, and the chunks they need. A chunk that is gone stays gone: its record is
/// damaged before and after.
fn frames_after<M: Medium>(medium: &M, until: Head, put: &mut Put<'_>) -> Result<(), JournalError> {
    let mut put_already = HashSet::new();
    let mut next = until.sequence + 1;
    while let Some((first, bytes)) = medium.frame_at_or_after(next)? {
        let corrupt = JournalError::Corrupt { sequence: first };
        let frame = crate::frame::Frame::parse(&bytes).map_err(|_| corrupt.clone())?;
        for stored in frame.records().map_err(|_| corrupt)?.iter().filter(|it| it.chunked) {
            for hash in chunk::hashes(stored.stored).unwrap_or_default() {
                if put_already.insert(hash)
                    && let Some(piece) = medium.chunk(&hash)?
                {
                    put(Part::Chunk(hash, piece))?;
                }
            }
        }
        next = frame.last_sequence() + 1;
        put(Part::Frame(first, bytes))?;
    }
    Ok(())
}
