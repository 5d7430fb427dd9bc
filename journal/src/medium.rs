//! The place that keeps frames and chunks.
//!
//! Owns the trait between the log and a disk. Must not know what is in a frame: a medium moves
//! bytes, the log verifies them.

use crate::anchor::Anchor;
use crate::chain::{Digest, JournalId};
use crate::error::JournalError;

/// What an acknowledged commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// A crash of the process, of the operating system, and a power cut, if the disk honours flush.
    #[default]
    PowerSafe,
    /// A crash of the process only: the operating system may still hold the bytes.
    ProcessSafe,
}

/// What one commit writes, all of it or nothing.
#[derive(Debug, Default)]
pub struct Batch {
    /// Frames by the sequence number of their first record, in order.
    pub frames: Vec<(u64, Vec<u8>)>,
    /// Chunks by hash.
    pub chunks: Vec<(Digest, Vec<u8>)>,
}

/// What an open medium knows about anchors: the newest valid one of each place it keeps them in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Anchors {
    /// The one inside the journal's folder.
    pub inner: Option<Anchor>,
    /// The one beside the folder, which notices when the whole folder is put back to an older state.
    pub outer: Option<Anchor>,
    /// Copies that should be there and do not verify.
    pub damaged: u32,
}

/// Bytes in, bytes out.
pub trait Medium: Send + Sync + 'static {
    /// The journal's id, if the medium was initialised.
    ///
    /// # Errors
    /// [`JournalError::Newer`] for a format this library does not know.
    fn journal_id(&self) -> Result<Option<JournalId>, JournalError>;

    /// Makes an empty journal, durable before it returns.
    ///
    /// # Errors
    /// Whatever the disk answers.
    fn initialise(&self, id: JournalId) -> Result<(), JournalError>;

    /// Writes a batch, visible at once, durable only after [`Self::sync`].
    ///
    /// # Errors
    /// After one, nothing is known about the batch.
    fn write(&self, batch: Batch) -> Result<(), JournalError>;

    /// Makes everything written durable.
    ///
    /// # Errors
    /// After one, nothing is known about what was written since the last success; it is never
    /// tried again and called good.
    fn sync(&self) -> Result<(), JournalError>;

    /// Makes durable what an earlier life may have left only in memory; called once, when a journal is
    /// opened, before anything it holds is believed to be durable.
    ///
    /// # Errors
    /// As [`Self::sync`].
    fn settle(&self) -> Result<(), JournalError> {
        self.sync()
    }

    /// The frame with the largest first sequence number that is not above `sequence`.
    ///
    /// # Errors
    /// Whatever the disk answers.
    fn frame_at_or_before(&self, sequence: u64) -> Result<Option<(u64, Vec<u8>)>, JournalError>;

    /// The frame with the smallest first sequence number that is not below `sequence`.
    ///
    /// # Errors
    /// Whatever the disk answers.
    fn frame_at_or_after(&self, sequence: u64) -> Result<Option<(u64, Vec<u8>)>, JournalError>;

    /// The chunk with this hash, unverified.
    ///
    /// # Errors
    /// Whatever the disk answers.
    fn chunk(&self, hash: &Digest) -> Result<Option<Vec<u8>>, JournalError>;

    /// The anchors as they are.
    ///
    /// # Errors
    /// Whatever the disk answers.
    fn anchors(&self) -> Result<Anchors, JournalError>;

    /// Notes a head that is durable. With `sync`, the note is durable too when this returns.
    ///
    /// # Errors
    /// Whatever the disk answers.
    fn set_anchor(&self, anchor: Anchor, sync: bool) -> Result<(), JournalError>;

    /// Bytes on disk.
    ///
    /// # Errors
    /// Whatever the disk answers.
    fn disk_bytes(&self) -> Result<u64, JournalError>;
}
