//! Frames outside of any database: a file that proves itself.
//!
//! Owns the archive's bytes. Must not know what records mean.
//!
//! # Bytes
//!
//! | size | field |
//! | --- | --- |
//! | 4 | `LHX1`, or `LHX2` for a file that does not start at the genesis |
//! | 16 | journal id |
//! | 40 | `LHX2` only: the head it starts after, 8 bytes sequence number, little-endian, and 32 bytes hash |
//! | items | each: 1 byte kind, 4 bytes length, little-endian, the bytes |
//!
//! Kinds: `B` the base at that head and `N` each of its entries, stream and bytes, in the order of
//! the streams ([`crate::base`]), both in `LHX2` only and before the first frame; `F` a frame; `C` a
//! chunk (before the first item that needs it); `E` the end: 8 bytes sequence number, little-endian,
//! and 32 bytes hash of the head. `E` is the last item and nothing follows it, so a file that was cut
//! short shows.
//!
//! An `LHX2` without a base is a part: it is read after the archives that come before it.

use crate::base::{Base, Entering, StoredEntry};
use crate::chain::{Digest, Head, JournalId, chunk_hash};
use crate::chunk;
use crate::error::JournalError;
use crate::frame::FRAME_BYTES_MAX;
use crate::medium::Medium;
use crate::record::StreamId;
use crate::walk::{self, Item, Visit, Walk};
use std::collections::{HashMap, HashSet};
use std::io::{BufRead, Write};

/// First bytes of an archive that starts at the genesis.
pub const MAGIC: [u8; 4] = *b"LHX1";
/// First bytes of an archive that starts later.
pub const MAGIC_LATER: [u8; 4] = *b"LHX2";

/// Writes everything a medium holds, verifying it on the way.
///
/// # Errors
/// [`JournalError::Corrupt`] with the first sequence number that does not verify; what the disk
/// answers.
pub fn export<M: Medium>(medium: &M, out: &mut dyn Write) -> Result<Head, JournalError> {
    let mut writer = Writer::begin(medium, out)?;
    writer.base()?;
    while writer.frame()? {}
    writer.end()
}

/// Writes the frames of a medium up to `until`, from its base or its genesis on, without the base.
///
/// # Errors
/// As [`export`]; [`JournalError::Diverged`] when no frame ends at `until`.
pub fn export_until<M: Medium>(
    medium: &M,
    until: Head,
    out: &mut dyn Write,
) -> Result<(), JournalError> {
    let mut writer = Writer::begin(medium, out)?;
    while writer.walk.head().sequence < until.sequence && writer.frame()? {}
    if writer.walk.head() != until {
        return Err(JournalError::Diverged { sequence: until.sequence });
    }
    writer.end().map(drop)
}

/// An archive on its way out.
struct Writer<'a, M> {
    medium: &'a M,
    out: &'a mut dyn Write,
    walk: Walk,
    written: HashSet<Digest>,
}

impl<'a, M: Medium> Writer<'a, M> {
    fn begin(medium: &'a M, out: &'a mut dyn Write) -> Result<Self, JournalError> {
        let id = medium.journal_id()?.ok_or(JournalError::Missing)?;
        let mut walk = Walk::new(id);
        walk::enter(medium, &mut walk, &mut |_| Ok(()))?;
        let later = walk.head() != Head::genesis(id);
        out.write_all(if later { &MAGIC_LATER } else { &MAGIC })?;
        out.write_all(&id.0)?;
        if later {
            out.write_all(&head_bytes(walk.head()))?;
        }
        Ok(Self { medium, out, walk, written: HashSet::new() })
    }

    /// Writes the base and its entries, if there is one.
    fn base(&mut self) -> Result<(), JournalError> {
        let Some(base) = self.medium.base()? else { return Ok(()) };
        item(self.out, b'B', &base.encode())?;
        let mut after = None;
        while let Some((stream, bytes)) = self.medium.base_entry_after(after)? {
            let corrupt = JournalError::Corrupt { sequence: 0 };
            let entry = StoredEntry::decode(stream, &bytes).ok_or(corrupt)?;
            if entry.chunked {
                self.chunks(entry.stored, entry.tip.sequence)?;
            }
            item(self.out, b'N', &[&stream.0[..], &bytes].concat())?;
            after = Some(stream);
        }
        Ok(())
    }

    /// Writes the next frame; false when there is none.
    fn frame(&mut self) -> Result<bool, JournalError> {
        let Some(bytes) = walk::following(self.medium, self.walk.head())? else { return Ok(false) };
        for stored in self.walk.step(&bytes)?.iter().filter(|stored| stored.chunked) {
            self.chunks(stored.stored, stored.sequence)?;
        }
        item(self.out, b'F', &bytes)?;
        Ok(true)
    }

    /// Writes the chunks of a manifest that are not written yet.
    fn chunks(&mut self, manifest: &[u8], sequence: u64) -> Result<(), JournalError> {
        let corrupt = JournalError::Corrupt { sequence };
        for hash in chunk::hashes(manifest).ok_or(corrupt.clone())? {
            if self.written.insert(hash) {
                let piece = self.medium.chunk(&hash)?.filter(|piece| chunk_hash(piece) == hash);
                item(self.out, b'C', &piece.ok_or(corrupt.clone())?)?;
            }
        }
        Ok(())
    }

    fn end(self) -> Result<Head, JournalError> {
        let head = self.walk.head();
        item(self.out, b'E', &head_bytes(head))?;
        self.out.flush()?;
        Ok(head)
    }
}

pub(crate) fn head_bytes(head: Head) -> Vec<u8> {
    let mut bytes = head.sequence.to_le_bytes().to_vec();
    bytes.extend_from_slice(&head.hash.0);
    bytes
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
/// [`JournalError::NotAJournal`] for a file that is no archive, [`JournalError::ArchivePart`] for one
/// that needs those before it, [`JournalError::Corrupt`] with the first sequence number that does not
/// verify (one past the last for a file cut at its end), whatever `visit` or the disk answers.
pub fn read(
    input: &mut dyn BufRead,
    visit: &mut Visit<'_>,
) -> Result<(JournalId, Head), JournalError> {
    let (id, after) = start(input)?;
    let mut walk = Walk::new(id);
    items(input, after, &mut walk, &mut Take::Whole(HashMap::new(), visit))?;
    Ok((id, walk.head()))
}

/// The same with a fresh walk of the caller's, which tells how far it came.
///
/// # Errors
/// As [`read`]; [`JournalError::Diverged`] for an archive of another journal.
pub fn read_alone(
    input: &mut dyn BufRead,
    walk: &mut Walk,
    visit: &mut Visit<'_>,
) -> Result<(), JournalError> {
    let (id, after) = start(input)?;
    if id != walk.id() || walk.head() != Head::genesis(id) {
        return Err(JournalError::Diverged { sequence: after.sequence });
    }
    items(input, after, walk, &mut Take::Whole(HashMap::new(), visit))
}

/// The same with a walk that came over everything before it.
///
/// # Errors
/// As [`read`], and [`JournalError::Diverged`] for an archive of another journal or one that does not
/// go on where the walk stands.
pub fn read_on(
    input: &mut dyn BufRead,
    walk: &mut Walk,
    visit: &mut Visit<'_>,
) -> Result<(), JournalError> {
    let (id, after) = start(input)?;
    if id != walk.id() || after != walk.head() {
        return Err(JournalError::Diverged { sequence: after.sequence });
    }
    items(input, after, walk, &mut Take::Whole(HashMap::new(), visit))
}

/// Verifies an archive like [`read_on`], without putting the bodies of records together: of the chunks
/// it keeps no more than their hashes, however large the archive is.
///
/// # Errors
/// As [`read_on`]; [`JournalError::Corrupt`] for a record whose chunks are not there.
pub fn verify_on(input: &mut dyn BufRead, walk: &mut Walk) -> Result<(), JournalError> {
    let (id, after) = start(input)?;
    if id != walk.id() || after != walk.head() {
        return Err(JournalError::Diverged { sequence: after.sequence });
    }
    items(input, after, walk, &mut Take::Hashes(HashSet::new()))
}

/// Reads an archive's header: whose it is, and the head it starts after.
///
/// # Errors
/// [`JournalError::NotAJournal`] for a file that is no archive.
pub fn start(input: &mut dyn BufRead) -> Result<(JournalId, Head), JournalError> {
    let mut start = [0; 20];
    let no_archive = |_| JournalError::NotAJournal;
    input.read_exact(&mut start).map_err(no_archive)?;
    let id = JournalId(start[4..].try_into().map_err(|_| JournalError::NotAJournal)?);
    if start[..4] == MAGIC {
        return Ok((id, Head::genesis(id)));
    }
    if start[..4] != MAGIC_LATER {
        return Err(JournalError::NotAJournal);
    }
    let (mut sequence, mut hash) = ([0; 8], [0; 32]);
    input.read_exact(&mut sequence).map_err(no_archive)?;
    input.read_exact(&mut hash).map_err(no_archive)?;
    let sequence = u64::from_le_bytes(sequence);
    // Zero is the genesis, which the older form says.
    let head = Head { sequence, hash: Digest(hash) };
    if sequence == 0 { Err(JournalError::NotAJournal) } else { Ok((id, head)) }
}

/// What becomes of the items.
enum Take<'a, 'v> {
    /// They are shown, with their bodies.
    Whole(HashMap<Digest, Vec<u8>>, &'a mut Visit<'v>),
    /// They are verified, by the hashes of their chunks.
    Hashes(HashSet<Digest>),
}

impl Take<'_, '_> {
    fn chunk(&mut self, bytes: Vec<u8>) {
        let hash = chunk_hash(&bytes);
        match self {
            Self::Whole(chunks, _) => drop(chunks.insert(hash, bytes)),
            Self::Hashes(hashes) => drop(hashes.insert(hash)),
        }
    }

    fn base(&mut self, base: Base) -> Result<(), JournalError> {
        match self {
            Self::Whole(_, visit) => visit(Item::Base(base)),
            Self::Hashes(_) => Ok(()),
        }
    }

    fn entry(&mut self, entry: &StoredEntry<'_>) -> Result<(), JournalError> {
        match self {
            Self::Whole(chunks, visit) => {
                visit(walk::carried(entry, &|hash| Ok(chunks.get(hash).cloned())))
            }
            Self::Hashes(hashes) if entry.chunked => {
                known(hashes, entry.stored, entry.tip.sequence)
            }
            Self::Hashes(_) => Ok(()),
        }
    }

    fn frame(&mut self, walk: &mut Walk, bytes: &[u8]) -> Result<(), JournalError> {
        match self {
            Self::Whole(chunks, visit) => {
                walk::show(walk, bytes, &|hash| Ok(chunks.get(hash).cloned()), visit)
            }
            Self::Hashes(hashes) => {
                let records = walk.step(bytes)?;
                let mut chunked = records.iter().filter(|stored| stored.chunked);
                chunked.try_for_each(|stored| known(hashes, stored.stored, stored.sequence))
            }
        }
    }
}

/// Whether all chunks of a manifest came by.
pub(crate) fn known(
    hashes: &HashSet<Digest>,
    manifest: &[u8],
    sequence: u64,
) -> Result<(), JournalError> {
    let named = chunk::hashes(manifest);
    let whole = named.is_some_and(|named| named.iter().all(|hash| hashes.contains(hash)));
    if whole { Ok(()) } else { Err(JournalError::Corrupt { sequence }) }
}

fn items(
    input: &mut dyn BufRead,
    after: Head,
    walk: &mut Walk,
    take: &mut Take<'_, '_>,
) -> Result<(), JournalError> {
    let mut entering: Option<Entering> = None;
    loop {
        let corrupt = JournalError::Corrupt { sequence: walk.head().sequence + 1 };
        let (kind, bytes) = next_item(input).ok_or(corrupt.clone())?;
        if matches!(kind, b'F' | b'E') {
            if let Some(entering) = entering.take() {
                walk.entered(entering)?;
            }
            if walk.head().sequence < after.sequence {
                return Err(JournalError::ArchivePart);
            }
        }
        match kind {
            b'B' if walk.head().sequence <= after.sequence && entering.is_none() => {
                let base = Base::decode(&bytes).filter(|base| base.head == after);
                let base = base.ok_or(JournalError::Corrupt { sequence: 0 })?;
                entering = Some(walk.enter(base)?);
                take.base(base)?;
            }
            b'N' => {
                let entering = entering.as_mut().ok_or(corrupt.clone())?;
                let (stream, bytes) = bytes.split_first_chunk().ok_or(corrupt)?;
                take.entry(&walk.carry(entering, StreamId(*stream), bytes)?)?;
            }
            b'C' => take.chunk(bytes),
            b'F' => take.frame(walk, &bytes)?,
            b'E' => {
                let over = input.fill_buf().map_err(JournalError::from)?.is_empty();
                let right = bytes == head_bytes(walk.head());
                return if right && over { Ok(()) } else { Err(corrupt) };
            }
            _ => return Err(corrupt),
        }
    }
}

/// The next item; `None` when the file ends inside it or it is larger than any item can be.
pub(crate) fn next_item(input: &mut dyn BufRead) -> Option<(u8, Vec<u8>)> {
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
