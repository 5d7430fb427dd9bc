//! What is hashed, and how one frame is tied to the one before.
//!
//! Owns the domain tags, the genesis and the [`Head`]. Must not know how frames are kept.
//!
//! Every hash is SHA-256 over a domain tag, a zero byte and the stored bytes, never over a
//! re-encoding: what was written is what is believed.

use crate::record::StreamId;
use sha2::{Digest as _, Sha256};
use std::fmt;

/// Domain tag of the genesis hash, which the first frame names as its predecessor.
const GENESIS_TAG: &[u8] = b"leasehold.journal.genesis.v1\0";
/// Domain tag of a frame hash.
const FRAME_TAG: &[u8] = b"leasehold.journal.frame.v1\0";
/// Domain tag of a body kept in chunks, and of each chunk.
const CHUNK_TAG: &[u8] = b"leasehold.journal.chunk.v1\0";
/// Domain tag of the hash over all entries of a base.
const ENTRIES_TAG: &[u8] = b"leasehold.journal.entries.v1\0";
/// Domain tag of a checkpoint's hash.
const CHECKPOINT_TAG: &[u8] = b"leasehold.journal.checkpoint.v1\0";
/// Domain tag of one entry's own hash.
const ENTRY_TAG: &[u8] = b"leasehold.journal.entry.v1\0";

/// A SHA-256, 32 bytes; prints as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Reads 64 lower-case hex digits; `None` for anything else.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        if text.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = hex_digit(pair[0])? << 4 | hex_digit(pair[1])?;
        }
        Some(Self(bytes))
    }
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Sixteen random bytes given to a journal when it is made; fixed for its life.
///
/// Ties anchors and archives to one journal, and makes two journals with the same records have
/// different chains.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct JournalId(pub [u8; 16]);

impl fmt::Display for JournalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for JournalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Where a chain ends: the last record's sequence number and the last frame's hash.
///
/// Whoever keeps one elsewhere can later prove that everything up to it is still there unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Sequence number of the last record; 0 for an empty journal.
    pub sequence: u64,
    /// Hash of the last frame; the genesis hash for an empty journal.
    pub hash: Digest,
}

impl Head {
    /// The head of a journal without records.
    #[must_use]
    pub fn genesis(id: JournalId) -> Self {
        let hash =
            Digest(Sha256::new().chain_update(GENESIS_TAG).chain_update(id.0).finalize().into());
        Self { sequence: 0, hash }
    }
}

/// Hash of one frame: over its header, which holds the hash of the frame before (J3), and its body.
#[must_use]
pub fn frame_hash(header_and_body: &[u8]) -> Digest {
    Digest(Sha256::new().chain_update(FRAME_TAG).chain_update(header_and_body).finalize().into())
}

/// Hash of a chunk or of a whole chunked body.
#[must_use]
pub fn chunk_hash(bytes: &[u8]) -> Digest {
    Digest(Sha256::new().chain_update(CHUNK_TAG).chain_update(bytes).finalize().into())
}

/// Hash of a checkpoint: over everything before the hash.
#[must_use]
pub fn checkpoint_hash(bytes: &[u8]) -> Digest {
    Digest(Sha256::new().chain_update(CHECKPOINT_TAG).chain_update(bytes).finalize().into())
}

/// Hash of one entry of a base: over its stream and its bytes.
#[must_use]
pub fn entry_hash(stream: StreamId, bytes: &[u8]) -> Digest {
    let hasher = Sha256::new().chain_update(ENTRY_TAG).chain_update(stream.0);
    Digest(hasher.chain_update(bytes).finalize().into())
}

/// The start of the hash over all entries of a base, which stand after `head`.
pub(crate) fn entries_hasher(journal: JournalId, head: Head) -> Sha256 {
    Sha256::new()
        .chain_update(ENTRIES_TAG)
        .chain_update(journal.0)
        .chain_update(head.sequence.to_le_bytes())
        .chain_update(head.hash.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_reads_back_and_refuses_everything_else() {
        let digest = frame_hash(b"x");
        assert_eq!(Digest::from_hex(&digest.to_string()), Some(digest));
        assert_eq!(Digest::from_hex(&digest.to_string().to_uppercase()), None);
        assert_eq!(Digest::from_hex("00"), None);
        assert_eq!(Digest::from_hex(&"g".repeat(64)), None);
    }

    #[test]
    fn two_journals_start_from_different_hashes() {
        assert_ne!(Head::genesis(JournalId([1; 16])), Head::genesis(JournalId([2; 16])));
    }

    #[test]
    fn a_frame_and_a_chunk_with_the_same_bytes_have_different_hashes() {
        assert_ne!(frame_hash(b"same"), chunk_hash(b"same"));
    }

    #[test]
    fn hashes_and_ids_print_as_hex_in_every_form() {
        let (hash, id) = (Digest([0xa5; 32]), JournalId([0x0b; 16]));
        assert_eq!((format!("{hash}"), format!("{hash:?}")), ("a5".repeat(32), "a5".repeat(32)));
        assert_eq!((format!("{id}"), format!("{id:?}")), ("0b".repeat(16), "0b".repeat(16)));
    }
}
