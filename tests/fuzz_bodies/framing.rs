//! Frames that are right on the outside: without the right hash no byte behind it would ever be read.

use leasehold_journal::chain::frame_hash;
use leasehold_journal::frame::{MAGIC, TRAILER_BYTES, VERSION};
use leasehold_journal::{Head, JournalId};

/// The journal all of them belong to.
pub(crate) const ID: JournalId = JournalId([7; 16]);

/// A frame that follows `head`, with this body said to be `count` records.
pub(crate) fn around(head: Head, count: [u8; 2], body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("a body is far below 4 GiB");
    let mut bytes = MAGIC.to_vec();
    bytes.push(VERSION);
    bytes.extend_from_slice(&(head.sequence + 1).to_le_bytes());
    bytes.extend_from_slice(&count);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&head.hash.0);
    bytes.extend_from_slice(body);
    let hash = frame_hash(&bytes);
    bytes.extend_from_slice(&hash.0[..TRAILER_BYTES]);
    bytes
}

/// The same bytes with the hash they should end in; `None` when they are too few to have one.
pub(crate) fn resealed(bytes: &[u8]) -> Option<Vec<u8>> {
    let hashed = &bytes[..bytes.len().checked_sub(TRAILER_BYTES)?];
    let hash = frame_hash(hashed);
    Some([hashed, &hash.0[..TRAILER_BYTES]].concat())
}
