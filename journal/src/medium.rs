//! The place that keeps frames and chunks.
//!
//! Owns the trait between the log and a disk. Must not know what is in a frame: a medium moves
//! bytes, the log verifies them.

use crate::anchor::Anchor;
use crate::base::Base;
use crate::chain::{Digest, Head, JournalId};
use crate::checkpoint::{Draft, Left};
use crate::error::JournalError;
use crate::record::StreamId;
use crate::store::Peers;

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

/// The step a batch makes: from one head to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The head the batch goes on from.
    pub from: Head,
    /// The head after its last frame.
    pub to: Head,
}

/// What came of a batch that goes on from a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// It is there, durably.
    Here,
    /// Somebody else's frames follow that head; nothing of it was written.
    Overtaken,
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

/// One part of what takes a medium's place.
pub enum Part {
    /// An entry of the base: its stream and its bytes.
    Entry(StreamId, Vec<u8>),
    /// A frame by the sequence number of its first record.
    Frame(u64, Vec<u8>),
    /// A chunk by its hash.
    Chunk(Digest, Vec<u8>),
}

impl std::fmt::Debug for Part {
    /// Shows where the part belongs, never what it says.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Entry(stream, _) => f.debug_tuple("Entry").field(stream).finish_non_exhaustive(),
            Self::Frame(first, _) => f.debug_tuple("Frame").field(first).finish_non_exhaustive(),
            Self::Chunk(hash, _) => f.debug_tuple("Chunk").field(hash).finish_non_exhaustive(),
        }
    }
}

/// Takes the parts, in any order.
pub type Put<'a> = dyn FnMut(Part) -> Result<(), JournalError> + 'a;
/// Gives all parts, and then the base they belong to.
pub type Fill<'a> = dyn FnMut(&mut Put<'_>) -> Result<Base, JournalError> + 'a;

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

    /// Whether others may write to it.
    fn is_shared(&self) -> bool {
        false
    }

    /// Writes a batch durably, if the journal still ends at the head it goes on from. One step of all that
    /// share the medium: two batches never go on from the same head.
    ///
    /// # Errors
    /// As [`Self::write`] and [`Self::sync`]. [`JournalError::Unreachable`]: nothing is known about the batch
    /// until the medium answers again; then it is there, whole, or it is not.
    fn step(&self, _step: Step, batch: Batch) -> Result<Written, JournalError> {
        self.write(batch)?;
        self.sync()?;
        Ok(Written::Here)
    }

    /// Waits for its turn, and keeps the others from writing until the next [`Self::step`] or
    /// [`Self::pass`]: for whoever was overtaken again and again.
    ///
    /// # Errors
    /// Whatever the medium answers.
    fn take_turn(&self) -> Result<(), JournalError> {
        Ok(())
    }

    /// Waits until the medium answers again, for as long as that is worth waiting for.
    ///
    /// # Errors
    /// [`JournalError::Unreachable`] when it does not.
    fn wait_until_reachable(&self) -> Result<(), JournalError> {
        Err(JournalError::Unreachable)
    }

    /// Lets the others write again.
    fn pass(&self) {}

    /// The engines that share the medium.
    fn peers(&self) -> Peers {
        Peers::ALONE
    }

    /// Seconds since 1970 by the clock that they all go by.
    fn server_seconds(&self) -> Option<f64> {
        None
    }

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

    /// Where the journal starts, when its first frames are in archives.
    ///
    /// # Errors
    /// [`JournalError::Corrupt`] at 0 for a base that cannot be read.
    fn base(&self) -> Result<Option<Base>, JournalError>;

    /// A stream's entry in the base, unverified.
    ///
    /// # Errors
    /// Whatever the disk answers.
    fn base_entry(&self, stream: StreamId) -> Result<Option<Vec<u8>>, JournalError>;

    /// The first entry whose stream comes after this one; the very first for `None`.
    ///
    /// # Errors
    /// Whatever the disk answers.
    fn base_entry_after(
        &self,
        stream: Option<StreamId>,
    ) -> Result<Option<(StreamId, Vec<u8>)>, JournalError>;

    /// Builds what is to take this medium's place, durable before it returns. Nothing else changes.
    ///
    /// # Errors
    /// Whatever `fill` or the disk answers.
    fn prepare_successor(&self, fill: &mut Fill<'_>) -> Result<(), JournalError>;

    /// Puts what was prepared in this medium's place, and removes what was there. A crash leaves the
    /// one or the other, whole.
    ///
    /// # Errors
    /// [`JournalError::Missing`] when nothing was prepared; whatever the disk answers.
    fn succeed(self) -> Result<(), JournalError>
    where
        Self: Sized;

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

    /// What a clean close left, unverified; `None` when there is nothing.
    ///
    /// # Errors
    /// Whatever the disk answers.
    fn checkpoint(&self) -> Result<Option<Left>, JournalError>;

    /// Removes it, durably: nothing is written while there is one.
    ///
    /// # Errors
    /// Whatever the disk answers.
    fn remove_checkpoint(&self) -> Result<(), JournalError>;

    /// Keeps a checkpoint for when nobody has the medium any more. Nothing may be written from here on.
    ///
    /// # Errors
    /// Whatever the disk answers.
    fn leave_checkpoint(&self, draft: Draft) -> Result<(), JournalError>;

    /// Bytes on disk.
    ///
    /// # Errors
    /// Whatever the disk answers.
    fn disk_bytes(&self) -> Result<u64, JournalError>;
}
