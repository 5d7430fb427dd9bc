//! Chunks in raw bytes.
//!
//! Owns the two spellings of a length that may stand before a chunk, and the hashing of what follows
//! a wanted one. Must not know where the wanted chunks are named.

use super::Place;
use crate::chain::{Digest, chunk_hash};
use crate::chunk::{self, CHUNK_BYTES};
use std::collections::{HashMap, HashSet};

/// Hashes of the chunks that are wanted, by their length.
pub(super) type Wanted = HashMap<usize, HashSet<Digest>>;

/// The search for chunks.
pub(super) struct Hunt {
    /// By length, whether a chunk of it is still wanted.
    lengths: Vec<bool>,
    wanted: Wanted,
    found: HashMap<Digest, Place>,
}

impl Hunt {
    pub(super) fn new(wanted: Wanted) -> Self {
        let lengths = (0..=CHUNK_BYTES).map(|length| wanted.contains_key(&length)).collect();
        Self { lengths, wanted, found: HashMap::new() }
    }

    /// Whether everything was found.
    pub(super) fn is_over(&self) -> bool {
        self.wanted.is_empty()
    }

    /// What was found.
    pub(super) fn into_found(self) -> HashMap<Digest, Place> {
        self.found
    }

    /// Looks at everything that starts in the first `starts` bytes of a stretch.
    pub(super) fn look(&mut self, file: usize, at: u64, bytes: &[u8], starts: usize) {
        for place in 0..starts {
            let rest = &bytes[place..];
            for (skip, length) in [sled_length(rest), item_length(rest)].into_iter().flatten() {
                if self.lengths.get(length) == Some(&true)
                    && let Some(piece) = rest.get(skip..skip + length)
                {
                    let offset = at + (place + skip) as u64;
                    self.try_piece(piece, Place { file, offset, length });
                }
            }
        }
    }

    fn try_piece(&mut self, piece: &[u8], place: Place) {
        let hash = chunk_hash(piece);
        let Some(hashes) = self.wanted.get_mut(&place.length) else { return };
        if hashes.remove(&hash) {
            self.found.insert(hash, place);
        }
        if hashes.is_empty() {
            self.wanted.remove(&place.length);
            self.lengths[place.length] = false;
        }
    }
}

/// The chunks a manifest names and their lengths; none for a malformed one.
pub(super) fn pieces(manifest: &[u8]) -> Vec<(Digest, usize)> {
    let Some(hashes) = chunk::hashes(manifest) else { return Vec::new() };
    let mut rest =
        u32::from_le_bytes([manifest[0], manifest[1], manifest[2], manifest[3]]) as usize;
    let mut named = Vec::with_capacity(hashes.len());
    for hash in hashes {
        let length = rest.min(CHUNK_BYTES);
        rest -= length;
        named.push((hash, length));
    }
    named
}

/// The number that sled wrote here, of at most three bytes, and how many bytes it takes.
fn sled_length(bytes: &[u8]) -> Option<(usize, usize)> {
    let byte = |at: usize| bytes.get(at).map(|byte| usize::from(*byte));
    match *bytes.first()? {
        0..=240 => Some((1, byte(0)?)),
        241..=248 => Some((2, 240 + 256 * (byte(0)? - 241) + byte(1)?)),
        249 => Some((3, 2288 + 256 * byte(1)? + byte(2)?)),
        250..=255 => None,
    }
}

/// The length of the chunk item that starts here, and how many bytes stand before the chunk.
fn item_length(bytes: &[u8]) -> Option<(usize, usize)> {
    let length: [u8; 4] = bytes.strip_prefix(b"C")?.get(..4)?.try_into().ok()?;
    Some((5, u32::from_le_bytes(length) as usize))
}
