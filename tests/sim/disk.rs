//! What the journal lies on: a disk in memory, or a schema on a server.
//!
//! Owns the difference. A server's faults are those of whoever asks it: a request that never came, or an
//! answer that got lost; what it has said to be durable stays, whatever happens here.

use leasehold_journal::anchor::Anchor;
use leasehold_journal::base::Base;
use leasehold_journal::chain::Digest;
use leasehold_journal::checkpoint::{Draft, Left};
use leasehold_journal::medium::{Anchors, Batch, Fill, Medium, Step, Written};
use leasehold_journal::memory::{Fault, MemoryDisk, MemoryMedium};
#[cfg(feature = "postgres")]
use leasehold_journal::postgres::{PostgresMedium, PostgresPlace};
use leasehold_journal::{JournalError, JournalId, StreamId};
use std::collections::VecDeque;
#[cfg(feature = "postgres")]
use std::sync::PoisonError;
use std::sync::{Arc, Mutex};

/// The disk.
#[derive(Debug, Clone)]
pub(crate) enum Disk {
    Memory(MemoryDisk),
    #[cfg(feature = "postgres")]
    Server {
        place: Box<PostgresPlace>,
        faults: Faults,
    },
}

/// What is to go wrong next.
type Faults = Arc<Mutex<VecDeque<Fault>>>;

impl Disk {
    /// A disk in memory.
    pub(crate) fn memory() -> Self {
        Self::Memory(MemoryDisk::new())
    }

    /// A new schema on a server.
    #[cfg(feature = "postgres")]
    pub(crate) fn server(place: PostgresPlace) -> Self {
        Self::Server { place: Box::new(place), faults: Faults::default() }
    }

    pub(crate) fn medium(&self) -> Result<AnyMedium, JournalError> {
        Ok(match self {
            Self::Memory(disk) => AnyMedium::Memory(disk.medium()),
            #[cfg(feature = "postgres")]
            Self::Server { place, faults } => AnyMedium::Server {
                medium: Box::new(PostgresMedium::open(place, true)?),
                faults: Arc::clone(faults),
            },
        })
    }

    pub(crate) fn inject(&self, fault: Fault) {
        match self {
            Self::Memory(disk) => disk.inject(fault),
            #[cfg(feature = "postgres")]
            Self::Server { faults, .. } => {
                faults.lock().unwrap_or_else(PoisonError::into_inner).push_back(fault);
            }
        }
    }

    /// Whether a power cut may take what is not synced.
    pub(crate) fn forgets(&self) -> bool {
        match self {
            Self::Memory(_) => true,
            #[cfg(feature = "postgres")]
            Self::Server { .. } => false,
        }
    }

    pub(crate) fn crash(&self, batches_kept: usize) {
        match self {
            Self::Memory(disk) => disk.crash(batches_kept),
            #[cfg(feature = "postgres")]
            Self::Server { faults, .. } => {
                faults.lock().unwrap_or_else(PoisonError::into_inner).clear();
            }
        }
    }

    pub(crate) fn has_checkpoint(&self) -> bool {
        match self {
            Self::Memory(disk) => disk.checkpoint().is_some(),
            #[cfg(feature = "postgres")]
            Self::Server { .. } => false,
        }
    }

    /// Changes a byte of the first frame; on a server nobody can from here.
    pub(crate) fn tamper(&self) {
        match self {
            Self::Memory(disk) => {
                disk.damage(1, |bytes| {
                    if let Some(last) = bytes.last_mut() {
                        *last = last.wrapping_add(1);
                    }
                });
            }
            #[cfg(feature = "postgres")]
            Self::Server { .. } => {}
        }
    }
}

/// Either medium, open.
#[derive(Debug)]
pub(crate) enum AnyMedium {
    Memory(MemoryMedium),
    #[cfg(feature = "postgres")]
    Server {
        medium: Box<PostgresMedium>,
        faults: Faults,
    },
}

impl AnyMedium {
    fn inner(&self) -> &dyn Medium {
        match self {
            Self::Memory(medium) => medium,
            #[cfg(feature = "postgres")]
            Self::Server { medium, .. } => medium.as_ref(),
        }
    }
}

/// The fault that waits, if it is one of these.
#[cfg(feature = "postgres")]
fn next(faults: &Faults, fits: impl Fn(&Fault) -> bool) -> Option<Fault> {
    let mut faults = faults.lock().unwrap_or_else(PoisonError::into_inner);
    if faults.front().is_some_and(fits) { faults.pop_front() } else { None }
}

impl Medium for AnyMedium {
    fn journal_id(&self) -> Result<Option<JournalId>, JournalError> {
        self.inner().journal_id()
    }

    fn initialise(&self, id: JournalId) -> Result<(), JournalError> {
        self.inner().initialise(id)
    }

    fn write(&self, batch: Batch) -> Result<(), JournalError> {
        self.inner().write(batch)
    }

    fn sync(&self) -> Result<(), JournalError> {
        self.inner().sync()
    }

    fn settle(&self) -> Result<(), JournalError> {
        #[cfg(feature = "postgres")]
        if let Self::Server { faults, .. } = self {
            let of_opening = |fault: &Fault| !matches!(fault, Fault::ReadFails(_));
            return match next(faults, of_opening) {
                Some(
                    Fault::SyncFails(error)
                    | Fault::WriteFails(error)
                    | Fault::WriteFailsAfterwards(error)
                    | Fault::ReadFails(error),
                ) => Err(error),
                Some(Fault::SyncLies) | None => Ok(()),
            };
        }
        self.inner().settle()
    }

    fn is_shared(&self) -> bool {
        self.inner().is_shared()
    }

    fn step(&self, step: Step, batch: Batch) -> Result<Written, JournalError> {
        match self {
            Self::Memory(medium) => medium.step(step, batch),
            #[cfg(feature = "postgres")]
            Self::Server { medium, faults } => {
                let fault = next(faults, |fault| !matches!(fault, Fault::ReadFails(_)));
                match fault {
                    Some(Fault::WriteFails(error)) => Err(error),
                    Some(Fault::WriteFailsAfterwards(error) | Fault::SyncFails(error)) => {
                        medium.step(step, batch)?;
                        Err(error)
                    }
                    Some(Fault::SyncLies | Fault::ReadFails(_)) | None => medium.step(step, batch),
                }
            }
        }
    }

    fn frame_at_or_before(&self, sequence: u64) -> Result<Option<(u64, Vec<u8>)>, JournalError> {
        #[cfg(feature = "postgres")]
        if let Self::Server { faults, .. } = self
            && let Some(Fault::ReadFails(error)) =
                next(faults, |fault| matches!(fault, Fault::ReadFails(_)))
        {
            return Err(error);
        }
        self.inner().frame_at_or_before(sequence)
    }

    fn frame_at_or_after(&self, sequence: u64) -> Result<Option<(u64, Vec<u8>)>, JournalError> {
        self.inner().frame_at_or_after(sequence)
    }

    fn chunk(&self, hash: &Digest) -> Result<Option<Vec<u8>>, JournalError> {
        self.inner().chunk(hash)
    }

    fn base(&self) -> Result<Option<Base>, JournalError> {
        self.inner().base()
    }

    fn base_entry(&self, stream: StreamId) -> Result<Option<Vec<u8>>, JournalError> {
        self.inner().base_entry(stream)
    }

    fn base_entry_after(
        &self,
        stream: Option<StreamId>,
    ) -> Result<Option<(StreamId, Vec<u8>)>, JournalError> {
        self.inner().base_entry_after(stream)
    }

    fn prepare_successor(&self, fill: &mut Fill<'_>) -> Result<(), JournalError> {
        self.inner().prepare_successor(fill)
    }

    fn succeed(self) -> Result<(), JournalError> {
        match self {
            Self::Memory(medium) => medium.succeed(),
            #[cfg(feature = "postgres")]
            Self::Server { medium, .. } => medium.succeed(),
        }
    }

    fn anchors(&self) -> Result<Anchors, JournalError> {
        self.inner().anchors()
    }

    fn set_anchor(&self, anchor: Anchor, sync: bool) -> Result<(), JournalError> {
        self.inner().set_anchor(anchor, sync)
    }

    fn checkpoint(&self) -> Result<Option<Left>, JournalError> {
        self.inner().checkpoint()
    }

    fn remove_checkpoint(&self) -> Result<(), JournalError> {
        self.inner().remove_checkpoint()
    }

    fn leave_checkpoint(&self, draft: Draft) -> Result<(), JournalError> {
        self.inner().leave_checkpoint(draft)
    }

    fn disk_bytes(&self) -> Result<u64, JournalError> {
        self.inner().disk_bytes()
    }
}
