//! What a journal offers to those above it.
//!
//! Owns the two traits and the shapes of an append. Must not know which store answers: sled, memory,
//! or a database server that several machines share.

use crate::base::Entry;
use crate::chain::{Head, JournalId};
use crate::error::JournalError;
use crate::index::Tip;
use crate::record::{Record, StreamId};
use crate::walk::{Visit, Walk};

/// New records for one stream, written only if the stream is where the writer believes it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Append {
    /// The stream.
    pub stream: StreamId,
    /// The stream's last version as the writer knows it; 0 for a stream without records.
    pub expected_version: u32,
    /// One body for each new record, at least one, each at most [`crate::chunk::BODY_BYTES_MAX`].
    pub bodies: Vec<Vec<u8>>,
    /// Another condition, for what two streams must not both do; none for most.
    pub alone: Option<Alone>,
}

/// An append is left out when another writer has begun a stream under this name that whoever decided it was
/// not told of. Says nothing in a journal with one writer, who knows of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alone {
    /// The name ([`crate::follower::NameOf`]).
    pub name: Name,
    /// The last sequence number it was told of.
    pub told: u64,
}

/// A name under which a stream may be begun.
pub type Name = [u8; 8];

/// Where an append went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// Sequence number of its last record.
    pub sequence: u64,
    /// The stream's version after it.
    pub version: u32,
}

/// Why one append of a commit was left out; the others are not touched by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The stream is at another version: somebody else wrote first.
    #[error("stream_conflict: at version {actual}")]
    Conflict {
        /// The version it is at.
        actual: u32,
    },
    /// Another writer has begun a stream under the same name: see [`Alone`].
    #[error("stream_not_alone")]
    NotAlone,
    /// A body over the limit, or no body at all.
    #[error("record_too_large")]
    Size,
}

/// What one reader is to take over of a stream that another writer wrote to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// The stream's last record as of this view.
    pub tip: Tip,
    /// The stream's version before the first record that somebody else wrote and that was not taken over
    /// yet; `None` where there is none.
    pub known: Option<u32>,
}

/// The engines that share a journal, as one of them sees it: a hint for who does what, never a proof that
/// anybody is there or gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peers {
    /// This one's place among them, from 0.
    pub place: u32,
    /// How many there are, at least 1.
    pub count: u32,
}

impl Peers {
    /// An engine that has its journal to itself.
    pub const ALONE: Self = Self { place: 0, count: 1 };
}

/// The writing side. There is one per journal (J1); of a journal that engines share, one in each of them,
/// and every commit goes on from where the one before it ended, whoever wrote that.
pub trait Store: Send {
    /// Writes a group of appends and answers when all of them are durable (J5).
    ///
    /// The answers are in the order of `batch`. An append that is left out ([`AppendError`]) writes
    /// nothing; the others go on.
    ///
    /// # Errors
    /// After an error nothing is known: the group may or may not be there after a reopen. Every
    /// later call answers [`JournalError::Poisoned`]. After [`JournalError::Unreachable`] it is known once
    /// the store answers again: what was written shows as if somebody else had written it.
    fn commit(
        &mut self,
        batch: &[Append],
    ) -> Result<Vec<Result<Placed, AppendError>>, JournalError>;

    /// Takes over what others wrote, and answers whether there is anything new; it shows in the readers then.
    /// Never, where nobody else writes.
    ///
    /// # Errors
    /// [`JournalError::Corrupt`] for what does not verify, [`JournalError::Unreachable`].
    fn follow(&mut self) -> Result<bool, JournalError>;

    /// Makes the anchor as new and as durable as the records; called before a store is let go.
    ///
    /// # Errors
    /// As [`Self::commit`].
    fn settle_anchor(&mut self) -> Result<(), JournalError>;

    /// Lets go of the store after [`Self::settle_anchor`], and leaves a note from which the next open may
    /// go on ([`crate::opening::Resume`]) instead of reading everything. A store that keeps none may
    /// forget it.
    ///
    /// # Errors
    /// As [`Self::commit`]; then no note is left.
    fn leave(self: Box<Self>, _note: &[u8]) -> Result<(), JournalError> {
        Ok(())
    }
}

/// The reading side. Any number of threads may read while one writes; only durable records show.
pub trait StoreReader: Send + Sync {
    /// The stream's last version; 0 when it has no records.
    fn version(&self, stream: StreamId) -> u32;

    /// What the stream's archived records came to; `None` when none of them is archived.
    ///
    /// # Errors
    /// [`JournalError::Corrupt`] with the sequence number of the last archived record when it does not
    /// verify.
    fn carried(&self, stream: StreamId) -> Result<Option<Entry>, JournalError>;

    /// All records of one stream that are not archived, oldest first. Costs its records, however large
    /// the journal is.
    ///
    /// # Errors
    /// [`JournalError::Corrupt`] with the sequence number of the record that does not verify.
    fn read_stream(&self, stream: StreamId) -> Result<Vec<Record>, JournalError> {
        self.read_stream_to(stream, self.view(stream).tip)
    }

    /// The same up to a record that was the stream's last one once.
    ///
    /// # Errors
    /// As [`Self::read_stream`].
    fn read_stream_to(&self, stream: StreamId, tip: Tip) -> Result<Vec<Record>, JournalError>;

    /// Where a stream ends, and since when others wrote to it, at one moment.
    fn view(&self, stream: StreamId) -> View;

    /// The view was taken over: what it shows is not told again.
    fn took_over(&self, stream: StreamId, view: View);

    /// The streams with this first byte that others wrote to and that were not taken over yet, and the
    /// sequence number up to which that is all.
    fn moved(&self, number: u8) -> (u64, Vec<StreamId>);

    /// Whether there is any such stream.
    fn has_moved(&self) -> bool;

    /// Whether others may write to this journal.
    fn is_shared(&self) -> bool;

    /// The engines that share it.
    fn peers(&self) -> Peers {
        Peers::ALONE
    }

    /// Seconds since 1970 by the clock that all of them go by; `None` where each journal has one engine, and
    /// that one's clock counts.
    fn server_seconds(&self) -> Option<f64> {
        None
    }

    /// Walks on over what is durable now, from where an earlier walk of this store ended; without one
    /// over everything. Verifies each frame it comes by and costs those; the writer goes on meanwhile.
    ///
    /// # Errors
    /// As [`Walk::step`], and what `visit` answers. The walk is gone then.
    fn walk(&self, from: Option<Walk>, visit: &mut Visit<'_>) -> Result<Walk, JournalError>;

    /// Which journal it is.
    ///
    /// # Errors
    /// [`JournalError::Corrupt`] at 0 for a store that does not say.
    fn id(&self) -> Result<JournalId, JournalError>;

    /// The head of what is durable.
    fn head(&self) -> Head;

    /// Bytes the journal takes on disk; 0 for a store without a disk.
    ///
    /// # Errors
    /// When the disk does not answer.
    fn disk_bytes(&self) -> Result<u64, JournalError>;
}
