//! What a journal keeps of the frames that moved to archives.
//!
//! Owns the base and its entries, and their bytes. Must not know what an image says, nor where
//! either of them is kept.
//!
//! A journal without a base starts at its genesis. One with a base starts at [`Base::head`]: the
//! frames up to there are in archive files, the next frame still names that head's hash as its
//! predecessor, and each stream that has records up to there has one entry with an image of what
//! they came to.
//!
//! # Bytes
//!
//! The base, [`BASE_BYTES`]:
//!
//! | size | field |
//! | --- | --- |
//! | 4 | `LHB1` |
//! | 8 | sequence number of the head, little-endian |
//! | 32 | hash of the head |
//! | 8 | number of entries, little-endian |
//! | 32 | hash of all entries ([`EntriesHash`]) |
//!
//! An entry, beside its stream:
//!
//! | size | field |
//! | --- | --- |
//! | 4 | version of the stream's last record up to the head, little-endian |
//! | 8 | sequence number of that record, little-endian |
//! | 1 | 1 when the image is a chunk manifest ([`crate::chunk`]), otherwise 0 |
//! | n | the image |
//! | 8 | the first eight bytes of the entry's own hash |
//!
//! The hash of all entries proves that they are the ones the base was made with. That they follow
//! from the archived records is proved by the archives alone.

use crate::chain::{Digest, Head, JournalId, entries_hasher, entry_hash};
use crate::chunk::{self, Fetch};
use crate::error::JournalError;
use crate::index::{StreamIndex, Tip};
use crate::record::StreamId;
use sha2::{Digest as _, Sha256};
use std::fmt;

/// First bytes of a base.
pub const MAGIC: [u8; 4] = *b"LHB1";
/// Bytes of a base.
pub const BASE_BYTES: usize = 84;
/// Bytes of an entry before its image.
const ENTRY_HEADER_BYTES: usize = 13;
/// Bytes after it.
const ENTRY_TRAILER_BYTES: usize = 8;

/// Where a journal starts whose first frames are in archives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Base {
    /// The head the archives end at.
    pub head: Head,
    /// How many streams have an entry.
    pub count: u64,
    /// Hash of all entries.
    pub entries_sha256: Digest,
}

impl Base {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&self.head.sequence.to_le_bytes());
        bytes.extend_from_slice(&self.head.hash.0);
        bytes.extend_from_slice(&self.count.to_le_bytes());
        bytes.extend_from_slice(&self.entries_sha256.0);
        bytes
    }

    /// Reads a base; `None` for anything else.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != BASE_BYTES || bytes[..4] != MAGIC {
            return None;
        }
        let sequence = u64::from_le_bytes(bytes[4..12].try_into().ok()?);
        let hash = Digest(bytes[12..44].try_into().ok()?);
        let count = u64::from_le_bytes(bytes[44..52].try_into().ok()?);
        let entries_sha256 = Digest(bytes[52..].try_into().ok()?);
        (sequence > 0).then_some(Self { head: Head { sequence, hash }, count, entries_sha256 })
    }
}

/// One stream's entry, its image still as stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StoredEntry<'a> {
    /// The stream.
    pub stream: StreamId,
    /// Its last record up to the base.
    pub tip: Tip,
    /// The image, or the manifest of its chunks.
    pub stored: &'a [u8],
    /// Whether `stored` is a manifest.
    pub chunked: bool,
}

impl fmt::Debug for StoredEntry<'_> {
    /// Shows where the stream stands, never what the image says.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredEntry")
            .field("stream", &self.stream)
            .field("tip", &self.tip)
            .field("stored_bytes", &self.stored.len())
            .field("chunked", &self.chunked)
            .finish()
    }
}

impl<'a> StoredEntry<'a> {
    /// The entry's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let room = ENTRY_HEADER_BYTES + self.stored.len() + ENTRY_TRAILER_BYTES;
        let mut bytes = Vec::with_capacity(room);
        bytes.extend_from_slice(&self.tip.version.to_le_bytes());
        bytes.extend_from_slice(&self.tip.sequence.to_le_bytes());
        bytes.push(u8::from(self.chunked));
        bytes.extend_from_slice(self.stored);
        let hash = entry_hash(self.stream, &bytes);
        bytes.extend_from_slice(&hash.0[..ENTRY_TRAILER_BYTES]);
        bytes
    }

    /// Reads an entry; `None` for one that does not verify.
    #[must_use]
    pub fn decode(stream: StreamId, bytes: &'a [u8]) -> Option<Self> {
        let hashed = bytes.get(..bytes.len().checked_sub(ENTRY_TRAILER_BYTES)?)?;
        let hash = entry_hash(stream, hashed);
        let version = u32::from_le_bytes(hashed.get(..4)?.try_into().ok()?);
        let sequence = u64::from_le_bytes(hashed.get(4..12)?.try_into().ok()?);
        let (kind, stored) = (*hashed.get(12)?, hashed.get(ENTRY_HEADER_BYTES..)?);
        let sound = bytes[hashed.len()..] == hash.0[..ENTRY_TRAILER_BYTES]
            && version > 0
            && sequence >= u64::from(version)
            && kind <= 1;
        let tip = Tip { sequence, version };
        sound.then_some(Self { stream, tip, stored, chunked: kind == 1 })
    }

    /// The image, put together when it is in chunks.
    ///
    /// # Errors
    /// [`JournalError::Corrupt`] at the stream's last record when a chunk is missing or damaged.
    pub fn image(&self, fetch: &Fetch<'_>) -> Result<Vec<u8>, JournalError> {
        if self.chunked {
            chunk::assemble(self.stored, self.tip.sequence, fetch)
        } else {
            Ok(self.stored.to_vec())
        }
    }
}

/// One stream's entry as it is read back, with its image whole.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// The stream's last record up to the base.
    pub tip: Tip,
    /// What its records up to there came to.
    pub image: Vec<u8>,
}

impl fmt::Debug for Entry {
    /// Shows where the stream stands, never what the image says.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("tip", &self.tip)
            .field("image_bytes", &self.image.len())
            .finish()
    }
}

/// The hash over all entries: a domain tag, the journal, the head, then for each entry in the order
/// of the streams the stream, the length of its bytes (8, little-endian) and the bytes.
pub struct EntriesHash {
    hasher: Sha256,
    last: Option<StreamId>,
    count: u64,
}

impl fmt::Debug for EntriesHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntriesHash").field("count", &self.count).finish_non_exhaustive()
    }
}

impl EntriesHash {
    /// The hash over no entry.
    #[must_use]
    pub fn new(journal: JournalId, head: Head) -> Self {
        Self { hasher: entries_hasher(journal, head), last: None, count: 0 }
    }

    /// Adds the next entry; false when its stream does not come after the one before.
    #[must_use]
    pub fn add(&mut self, stream: StreamId, bytes: &[u8]) -> bool {
        let follows = self.last.is_none_or(|last| last < stream);
        self.hasher.update(stream.0);
        self.hasher.update((bytes.len() as u64).to_le_bytes());
        self.hasher.update(bytes);
        self.last = Some(stream);
        self.count += 1;
        follows
    }

    /// The base with these entries.
    #[must_use]
    pub fn finish(self, head: Head) -> Base {
        let entries_sha256 = Digest(self.hasher.finalize().into());
        Base { head, count: self.count, entries_sha256 }
    }
}

/// A base on its way into an index, entry by entry.
///
/// Where the index has records already (the archives were walked), every entry is compared with it
/// instead.
#[derive(Debug)]
pub struct Entering {
    base: Base,
    hash: EntriesHash,
    compare: bool,
}

impl Entering {
    /// Begins; with `compare` the index is the archives'.
    #[must_use]
    pub fn new(journal: JournalId, base: Base, compare: bool) -> Self {
        Self { base, hash: EntriesHash::new(journal, base.head), compare }
    }

    /// Takes the next entry.
    ///
    /// # Errors
    /// [`JournalError::Corrupt`] at 0 for one that does not verify, is out of order, or does not
    /// stand where the archives say.
    pub fn entry<'a>(
        &mut self,
        index: &mut StreamIndex,
        stream: StreamId,
        bytes: &'a [u8],
    ) -> Result<StoredEntry<'a>, JournalError> {
        let corrupt = JournalError::Corrupt { sequence: 0 };
        let entry = StoredEntry::decode(stream, bytes).ok_or(corrupt.clone())?;
        let in_order = self.hash.add(stream, bytes);
        let known = !self.compare || index.tip(stream) == entry.tip;
        if !in_order || !known || entry.tip.sequence > self.base.head.sequence {
            return Err(corrupt);
        }
        index.set(stream, entry.tip);
        Ok(entry)
    }

    /// Ends: these were all of them.
    ///
    /// # Errors
    /// [`JournalError::Corrupt`] at 0 when they are not the ones the base was made with.
    pub fn finish(self, index: &StreamIndex) -> Result<(), JournalError> {
        let whole = index.len() as u64 == self.base.count;
        if whole && self.hash.finish(self.base.head) == self.base {
            Ok(())
        } else {
            Err(JournalError::Corrupt { sequence: 0 })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: JournalId = JournalId([1; 16]);
    const HEAD: Head = Head { sequence: 9, hash: Digest([2; 32]) };

    fn entry(number: u8) -> StoredEntry<'static> {
        let tip = Tip { sequence: 7, version: 2 };
        StoredEntry { stream: StreamId([number; 16]), tip, stored: b"image", chunked: false }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_of_an_entry_is_noticed() {
        let bytes = entry(3).encode();
        assert_eq!(StoredEntry::decode(StreamId([3; 16]), &bytes), Some(entry(3)));
        assert_eq!(StoredEntry::decode(StreamId([4; 16]), &bytes), None, "another stream's");
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(StoredEntry::decode(StreamId([3; 16]), &damaged), None, "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert_eq!(StoredEntry::decode(StreamId([3; 16]), &bytes[..length]), None);
        }
    }

    #[test]
    fn a_base_reads_back_and_every_cut_is_refused() {
        let base = EntriesHash::new(ID, HEAD).finish(HEAD);
        let bytes = base.encode();
        assert_eq!(Base::decode(&bytes), Some(base));
        for length in 0..bytes.len() {
            assert_eq!(Base::decode(&bytes[..length]), None, "cut at {length}");
        }
    }

    #[test]
    fn a_missing_a_swapped_and_another_entry_are_noticed() {
        let mut hash = EntriesHash::new(ID, HEAD);
        for number in [3, 4] {
            assert!(hash.add(StreamId([number; 16]), &entry(number).encode()));
        }
        let base = hash.finish(HEAD);
        let enter = |numbers: &[u8], id: JournalId| {
            let (mut entering, mut index) =
                (Entering::new(id, base, false), StreamIndex::default());
            for number in numbers {
                entering.entry(&mut index, StreamId([*number; 16]), &entry(*number).encode())?;
            }
            entering.finish(&index)
        };
        let corrupt = Err(JournalError::Corrupt { sequence: 0 });
        assert_eq!(enter(&[3, 4], ID), Ok(()));
        for wrong in [&[3][..], &[4, 3], &[3, 5], &[3, 4, 5]] {
            assert_eq!(enter(wrong, ID), corrupt, "{wrong:?}");
        }
        assert_eq!(enter(&[3, 4], JournalId([8; 16])), corrupt, "another journal's");
    }

    #[test]
    fn an_entry_that_stands_elsewhere_than_the_archives_say_is_noticed() {
        let mut hash = EntriesHash::new(ID, HEAD);
        assert!(hash.add(StreamId([3; 16]), &entry(3).encode()));
        let base = hash.finish(HEAD);
        for (version, fine) in [(2, true), (3, false)] {
            let mut index = StreamIndex::default();
            index.set(StreamId([3; 16]), Tip { sequence: 7, version });
            let mut entering = Entering::new(ID, base, true);
            let entered = entering.entry(&mut index, StreamId([3; 16]), &entry(3).encode()).is_ok();
            assert_eq!(entered, fine);
        }
    }
}
