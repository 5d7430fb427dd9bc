//! Frames outside of any database: a file that proves itself.
//!
//! Owns the archive's bytes. Must not know what records mean.
//!
//! # Bytes
//!
//! | size | field |
//! | --- | --- |
//! | 4 | `LHX1` |
//! | 16 | journal id |
//! | items | each: 1 byte kind, 4 bytes length, little-endian, the bytes |
//!
//! Kinds: `F` a frame, `C` a chunk (before the first frame that needs it), `E` the end: 8 bytes
//! sequence number, little-endian, and 32 bytes hash of the head. `E` is the last item and nothing
//! follows it, so a file that was cut short shows.

use crate::chain::{Digest, Head, JournalId, chunk_hash};
use crate::chunk;
use crate::error::JournalError;
use crate::frame::FRAME_BYTES_MAX;
use crate::medium::Medium;
use crate::walk::{self, Visit, Walk};
use std::collections::{HashMap, HashSet};
use std::io::{BufRead, Write};

/// First bytes of an archive.
pub const MAGIC: [u8; 4] = *b"LHX1";

/// Writes everything a medium holds, verifying it on the way.
///
/// # Errors
/// [`JournalError::Corrupt`] with the first sequence number that does not verify; what the disk
/// answers.
pub fn export<M: Medium>(medium: &M, out: &mut dyn Write) -> Result<Head, JournalError> {
    let id = medium.journal_id()?.ok_or(JournalError::Missing)?;
    out.write_all(&MAGIC)?;
    out.write_all(&id.0)?;
    let mut walk = Walk::new(id);
    let mut written = HashSet::new();
    while let Some(bytes) = walk::following(medium, walk.head())? {
        for stored in walk.step(&bytes)?.iter().filter(|stored| stored.chunked) {
            let corrupt = JournalError::Corrupt { sequence: stored.sequence };
            for hash in chunk::hashes(stored.stored).ok_or(corrupt.clone())? {
                if written.insert(hash) {
                    let piece = medium.chunk(&hash)?.filter(|piece| chunk_hash(piece) == hash);
                    item(out, b'C', &piece.ok_or(corrupt.clone())?)?;
                }
            }
        }
        item(out, b'F', &bytes)?;
    }
    let head = walk.head();
    let mut end = head.sequence.to_le_bytes().to_vec();
    end.extend_from_slice(&head.hash.0);
    item(out, b'E', &end)?;
    out.flush()?;
    Ok(head)
}

pub(crate) fn item(out: &mut dyn Write, kind: u8, bytes: &[u8]) -> Result<(), JournalError> {
    let length = u32::try_from(bytes.len()).map_err(|_| JournalError::TooLarge)?;
    out.write_all(&[kind])?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(bytes)?;
    Ok(())
}

/// Reads and verifies an archive; everything in it goes to `visit`, oldest first.
///
/// # Errors
/// [`JournalError::NotAJournal`] for a file that is no archive, [`JournalError::Corrupt`] with the
/// first sequence number that does not verify (one past the last for a file cut at its end),
/// whatever `visit` or the disk answers.
pub fn read(
    input: &mut dyn BufRead,
    visit: &mut Visit<'_>,
) -> Result<(JournalId, Head), JournalError> {
    let mut start = [0; 20];
    input.read_exact(&mut start).map_err(|_| JournalError::NotAJournal)?;
    if start[..4] != MAGIC {
        return Err(JournalError::NotAJournal);
    }
    let id = JournalId(start[4..].try_into().map_err(|_| JournalError::NotAJournal)?);
    let mut walk = Walk::new(id);
    let mut chunks: HashMap<Digest, Vec<u8>> = HashMap::new();
    loop {
        let corrupt = JournalError::Corrupt { sequence: walk.head().sequence + 1 };
        let (kind, bytes) = next_item(input).ok_or(corrupt.clone())?;
        match kind {
            b'C' => {
                chunks.insert(chunk_hash(&bytes), bytes);
            }
            b'F' => walk::show(&mut walk, &bytes, &|hash| Ok(chunks.get(hash).cloned()), visit)?,
            b'E' => {
                let head = walk.head();
                let right = bytes.len() == 40
                    && bytes[..8] == head.sequence.to_le_bytes()
                    && bytes[8..] == head.hash.0;
                let over = input.fill_buf().map_err(JournalError::from)?.is_empty();
                return if right && over { Ok((id, head)) } else { Err(corrupt) };
            }
            _ => return Err(corrupt),
        }
    }
}

/// The next item; `None` when the file ends inside it or it is larger than any item can be.
fn next_item(input: &mut dyn BufRead) -> Option<(u8, Vec<u8>)> {
    let mut start = [0; 5];
    input.read_exact(&mut start).ok()?;
    let length = u32::from_le_bytes(start[1..].try_into().ok()?) as usize;
    if length > FRAME_BYTES_MAX {
        return None;
    }
    let mut bytes = vec![0; length];
    input.read_exact(&mut bytes).ok()?;
    Some((start[0], bytes))
}
