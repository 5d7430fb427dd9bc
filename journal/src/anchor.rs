//! What the head was when it was last known durable.
//!
//! Owns the anchor's bytes and its file. Must not know how records are kept.
//!
//! A database file that is cut short opens without an error and with fewer records. The anchor is
//! how that is noticed: it is written after the records are durable, so it is never ahead of them,
//! and a journal that ends before it has lost something.
//!
//! # Bytes
//!
//! The file has two slots of [`SLOT_BYTES`], at 0 and at 512, written in turn, so that a torn write
//! leaves the other one whole:
//!
//! | at | size | field |
//! | --- | --- | --- |
//! | 0 | 4 | `LHA1` |
//! | 4 | 16 | journal id |
//! | 20 | 8 | turn, counting up, little-endian |
//! | 28 | 8 | sequence number of the head, little-endian |
//! | 36 | 32 | hash of the head |
//! | 68 | 16 | first half of the SHA-256 of the 68 bytes before |
//!
//! The file is made with a temporary name, synced and renamed. Later notes overwrite a slot in
//! place and are synced every [`SYNC_EVERY`] notes and at close: a sync for each would double the
//! cost of a commit. What that gives up: after a power cut on a disk that lied about its own sync,
//! the loss of the newest [`SYNC_EVERY`] commits goes unnoticed. A process crash gives up nothing.

use crate::chain::{Digest, Head, JournalId};
use crate::error::JournalError;
use sha2::{Digest as _, Sha256};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Bytes of one slot.
pub const SLOT_BYTES: usize = 84;
/// Where the second slot starts: another sector than the first.
pub const SLOT_STRIDE: u64 = 512;
/// How many notes may pass between two syncs of the file.
pub const SYNC_EVERY: u64 = 64;

const MAGIC: [u8; 4] = *b"LHA1";
const CHECK_TAG: &[u8] = b"leasehold.journal.anchor.v1\0";

/// A head, and the journal it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anchor {
    /// The journal.
    pub journal: JournalId,
    /// Its head.
    pub head: Head,
}

/// The bytes of one slot.
#[must_use]
pub fn encode(anchor: &Anchor, turn: u64) -> [u8; SLOT_BYTES] {
    let mut bytes = [0; SLOT_BYTES];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..20].copy_from_slice(&anchor.journal.0);
    bytes[20..28].copy_from_slice(&turn.to_le_bytes());
    bytes[28..36].copy_from_slice(&anchor.head.sequence.to_le_bytes());
    bytes[36..68].copy_from_slice(&anchor.head.hash.0);
    let check = check(&bytes[..68]);
    bytes[68..].copy_from_slice(&check);
    bytes
}

/// Reads one slot and its turn; `None` for anything that does not verify.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<(Anchor, u64)> {
    let bytes: &[u8; SLOT_BYTES] = bytes.try_into().ok()?;
    if bytes[..4] != MAGIC || bytes[68..] != check(&bytes[..68]) {
        return None;
    }
    let journal = JournalId(bytes[4..20].try_into().ok()?);
    let turn = u64::from_le_bytes(bytes[20..28].try_into().ok()?);
    let sequence = u64::from_le_bytes(bytes[28..36].try_into().ok()?);
    let hash = Digest(bytes[36..68].try_into().ok()?);
    Some((Anchor { journal, head: Head { sequence, hash } }, turn))
}

fn check(bytes: &[u8]) -> [u8; 16] {
    let digest: [u8; 32] =
        Sha256::new().chain_update(CHECK_TAG).chain_update(bytes).finalize().into();
    digest[..16].try_into().expect("half of 32 bytes")
}

/// What an anchor file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// The newest slot that verifies.
    pub newest: Option<Anchor>,
    /// Its turn; 0 when there is none.
    pub turn: u64,
    /// Slots that do not verify.
    pub damaged: u32,
}

/// Reads an anchor file without opening it for writing; `None` when there is no file.
///
/// # Errors
/// Whatever the disk answers.
pub fn read(path: &Path) -> Result<Option<Reading>, JournalError> {
    // Whatever else lies there (a link, a pipe) is not opened: it is not ours.
    let mut file = match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => File::open(path)?,
        Ok(_) => return Ok(Some(Reading { newest: None, turn: 0, damaged: 2 })),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut bytes = Vec::new();
    Read::take(&mut file, SLOT_STRIDE * 4).read_to_end(&mut bytes)?;
    let mut reading = Reading { newest: None, turn: 0, damaged: 0 };
    for at in [0, SLOT_STRIDE as usize] {
        match bytes.get(at..at + SLOT_BYTES).and_then(decode) {
            Some((anchor, turn)) if reading.newest.is_none() || turn > reading.turn => {
                reading.newest = Some(anchor);
                reading.turn = turn;
            }
            Some(_) => {}
            None => reading.damaged += 1,
        }
    }
    Ok(Some(reading))
}

/// An anchor file open for notes.
#[derive(Debug)]
pub struct AnchorFile {
    file: File,
    turn: u64,
    unsynced: u64,
}

impl AnchorFile {
    /// Makes the file anew with both slots set to `anchor`, durable before it returns.
    ///
    /// # Errors
    /// Whatever the disk answers.
    pub fn create(path: &Path, anchor: &Anchor, turn: u64) -> Result<Self, JournalError> {
        let directory = path.parent().ok_or(JournalError::NotAJournal)?;
        let mut name = path.file_name().ok_or(JournalError::NotAJournal)?.to_owned();
        name.push(".new");
        let temporary = directory.join(name);
        match std::fs::remove_file(&temporary) {
            Ok(()) => {} // left by a crash
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        let mut options = OpenOptions::new();
        options.create_new(true).read(true).write(true);
        crate::folder::private(&mut options);
        let mut file = options.open(&temporary)?;
        let turn = turn.wrapping_add(2);
        for slot in [turn.wrapping_sub(1), turn] {
            file.seek(SeekFrom::Start(slot % 2 * SLOT_STRIDE))?;
            file.write_all(&encode(anchor, slot))?;
        }
        file.sync_all()?;
        std::fs::rename(&temporary, path)?;
        crate::folder::sync_directory(directory)?;
        Ok(Self { file, turn, unsynced: 0 })
    }

    /// Notes a head in the older slot.
    ///
    /// # Errors
    /// Whatever the disk answers.
    pub fn note(&mut self, anchor: &Anchor, sync: bool) -> Result<(), JournalError> {
        self.turn = self.turn.wrapping_add(1);
        self.file.seek(SeekFrom::Start(self.turn % 2 * SLOT_STRIDE))?;
        self.file.write_all(&encode(anchor, self.turn))?;
        self.unsynced += 1;
        if sync || self.unsynced >= SYNC_EVERY {
            self.file.sync_data()?;
            self.unsynced = 0;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor(sequence: u64) -> Anchor {
        Anchor { journal: JournalId([4; 16]), head: Head { sequence, hash: Digest([9; 32]) } }
    }

    #[test]
    fn every_flipped_bit_of_a_slot_is_noticed() {
        let bytes = encode(&anchor(12), 7);
        assert_eq!(decode(&bytes), Some((anchor(12), 7)));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&damaged), None, "bit {bit}");
        }
    }

    #[test]
    fn a_torn_note_leaves_the_one_before_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("anchor");
        let mut file = AnchorFile::create(&path, &anchor(0), 0).expect("a new file");
        file.note(&anchor(5), true).expect("a note");
        file.note(&anchor(9), true).expect("a note");
        let reading = read(&path).expect("readable").expect("there");
        assert_eq!((reading.newest, reading.damaged), (Some(anchor(9)), 0));
        let mut bytes = std::fs::read(&path).expect("readable");
        let newest = (reading.turn % 2 * SLOT_STRIDE) as usize;
        bytes[newest + 30] ^= 1;
        std::fs::write(&path, bytes).expect("writable");
        let reading = read(&path).expect("readable").expect("there");
        assert_eq!((reading.newest, reading.damaged), (Some(anchor(5)), 1));
    }

    #[test]
    fn a_file_that_is_gone_and_one_that_is_empty_are_told_apart() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("anchor");
        assert_eq!(read(&path), Ok(None));
        std::fs::write(&path, b"").expect("writable");
        assert_eq!(read(&path), Ok(Some(Reading { newest: None, turn: 0, damaged: 2 })));
    }
}
