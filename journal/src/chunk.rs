//! Bodies too large for a frame, kept as content-addressed pieces.
//!
//! Owns the cut, the manifest and the way back. Must not know what a body means.
//!
//! A body over [`INLINE_BYTES_MAX`] is cut into chunks of [`CHUNK_BYTES`]. Each chunk is kept under
//! its hash, so equal texts are kept once; the frame keeps the manifest:
//!
//! | size | field |
//! | --- | --- |
//! | 4 | body length in bytes, little-endian |
//! | 32 | hash of the whole body |
//! | 32 each | hashes of the chunks, in order |
//!
//! The manifest is inside the frame and so inside the chain: a changed or missing chunk is noticed
//! when the body is read.

use crate::chain::{Digest, chunk_hash};
use crate::error::JournalError;

/// Largest body kept inside a frame.
pub const INLINE_BYTES_MAX: usize = 16 * 1024;
/// Size of every chunk but the last.
pub const CHUNK_BYTES: usize = 64 * 1024;
/// Largest body at all.
pub const BODY_BYTES_MAX: usize = crate::payload::PAYLOAD_BYTES_MAX + 1024;

/// A body cut into pieces.
#[derive(Debug)]
pub struct Cut<'a> {
    /// What the frame keeps.
    pub manifest: Vec<u8>,
    /// What is kept beside it, by hash.
    pub chunks: Vec<(Digest, &'a [u8])>,
}

/// Cuts a body over [`INLINE_BYTES_MAX`].
///
/// # Errors
/// [`JournalError::TooLarge`] over [`BODY_BYTES_MAX`].
pub fn cut(body: &[u8]) -> Result<Cut<'_>, JournalError> {
    if body.len() > BODY_BYTES_MAX {
        return Err(JournalError::TooLarge);
    }
    let length = u32::try_from(body.len()).map_err(|_| JournalError::TooLarge)?;
    let mut manifest = length.to_le_bytes().to_vec();
    manifest.extend_from_slice(&chunk_hash(body).0);
    let mut chunks = Vec::new();
    for piece in body.chunks(CHUNK_BYTES) {
        let hash = chunk_hash(piece);
        manifest.extend_from_slice(&hash.0);
        chunks.push((hash, piece));
    }
    Ok(Cut { manifest, chunks })
}

/// The hashes a manifest names, in order; `None` when it is malformed.
#[must_use]
pub fn hashes(manifest: &[u8]) -> Option<Vec<Digest>> {
    let length = u32::from_le_bytes(manifest.get(..4)?.try_into().ok()?) as usize;
    let hashes = manifest.get(36..)?;
    if length > BODY_BYTES_MAX || hashes.len() != length.div_ceil(CHUNK_BYTES) * 32 {
        return None;
    }
    Some(hashes.chunks_exact(32).map(|h| Digest(h.try_into().expect("chunks of 32"))).collect())
}

/// Fetches a chunk by its hash.
pub type Fetch<'a> = dyn Fn(&Digest) -> Result<Option<Vec<u8>>, JournalError> + 'a;

/// Puts a body together again and checks every hash on the way.
///
/// # Errors
/// [`JournalError::Corrupt`] (with `sequence`) for a malformed manifest, a missing chunk or a wrong
/// hash; whatever `fetch` answers.
pub fn assemble(
    manifest: &[u8],
    sequence: u64,
    fetch: &Fetch<'_>,
) -> Result<Vec<u8>, JournalError> {
    let corrupt = JournalError::Corrupt { sequence };
    let hashes = hashes(manifest).ok_or(corrupt.clone())?;
    let length =
        u32::from_le_bytes(manifest[..4].try_into().map_err(|_| corrupt.clone())?) as usize;
    let mut body = Vec::with_capacity(length);
    for hash in hashes {
        let piece = fetch(&hash)?.ok_or(corrupt.clone())?;
        if piece.len() > CHUNK_BYTES || chunk_hash(&piece) != hash {
            return Err(corrupt);
        }
        body.extend_from_slice(&piece);
    }
    if body.len() == length && chunk_hash(&body).0 == manifest[4..36] {
        Ok(body)
    } else {
        Err(corrupt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn kept(cut: &Cut<'_>) -> HashMap<Digest, Vec<u8>> {
        cut.chunks.iter().map(|(hash, piece)| (*hash, piece.to_vec())).collect()
    }

    #[test]
    fn bodies_of_every_interesting_size_come_back() {
        for size in [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 4_000_000, BODY_BYTES_MAX]
        {
            let body: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
            let cut = cut(&body).expect("within the limit");
            let kept = kept(&cut);
            assert_eq!(assemble(&cut.manifest, 1, &|hash| Ok(kept.get(hash).cloned())), Ok(body));
        }
        assert_eq!(cut(&vec![0; BODY_BYTES_MAX + 1]).err(), Some(JournalError::TooLarge));
    }

    #[test]
    fn a_missing_a_changed_and_a_swapped_chunk_are_noticed() {
        let body: Vec<u8> = (0..CHUNK_BYTES * 2 + 9).map(|i| (i / 7) as u8).collect();
        let cut = cut(&body).expect("within the limit");
        let corrupt = Err(JournalError::Corrupt { sequence: 8 });
        let mut missing = kept(&cut);
        missing.remove(&cut.chunks[1].0);
        assert_eq!(assemble(&cut.manifest, 8, &|hash| Ok(missing.get(hash).cloned())), corrupt);
        let mut changed = kept(&cut);
        changed.get_mut(&cut.chunks[2].0).expect("the third chunk")[3] ^= 1;
        assert_eq!(assemble(&cut.manifest, 8, &|hash| Ok(changed.get(hash).cloned())), corrupt);
        let mut swapped = cut.manifest.clone();
        swapped[36..100].rotate_left(32);
        let kept = kept(&cut);
        assert_eq!(assemble(&swapped, 8, &|hash| Ok(kept.get(hash).cloned())), corrupt);
    }

    #[test]
    fn every_cut_of_a_manifest_is_refused() {
        let body = vec![5; CHUNK_BYTES + 1];
        let cut = cut(&body).expect("within the limit");
        for length in 0..cut.manifest.len() {
            assert_eq!(hashes(&cut.manifest[..length]), None, "cut at {length}");
        }
    }
}
