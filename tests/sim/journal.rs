//! The journal on its disk, and what has to become of both.
//!
//! Owns the real log on a disk in memory, the faults it is given, and a small model of what is durable
//! beside it: where a power cut has to leave the journal, and which loss opening has to notice.

use super::disk::{AnyMedium, Disk};
use super::note::Note;
use leasehold_journal::log::AnchorCheck;
use leasehold_journal::medium::Medium as _;
use leasehold_journal::memory::Fault;
use leasehold_journal::walk::{self, Item};
use leasehold_journal::{
    Append, AppendError, Head, JournalError, JournalId, Log, LogOptions, LogReader, Placed, Record,
    Store, StoreReader as _, StreamId,
};

/// What goes wrong with one commit, or with one open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mishap {
    /// Nothing is written, and that is told.
    WriteFails,
    /// It is written, and told to have failed.
    WriteFailsAfterwards,
    /// It is written and not synced, and that is told.
    SyncFails,
    /// It is written and not synced, and told to be.
    SyncLies,
}

impl Mishap {
    /// All of them.
    pub(crate) const ALL: [Self; 4] =
        [Self::WriteFails, Self::WriteFailsAfterwards, Self::SyncFails, Self::SyncLies];

    /// Its line in the trace.
    pub(crate) fn note(self) -> Note {
        match self {
            Self::WriteFails => Note::WriteFails,
            Self::WriteFailsAfterwards => Note::WriteFailsAfterwards,
            Self::SyncFails => Note::SyncFails,
            Self::SyncLies => Note::SyncLies,
        }
    }

    /// Whether the caller is told of it.
    pub(crate) fn is_told(self) -> bool {
        match self {
            Self::WriteFails | Self::WriteFailsAfterwards | Self::SyncFails => true,
            Self::SyncLies => false,
        }
    }

    fn fault(self) -> Fault {
        match self {
            Self::WriteFails => Fault::WriteFails(JournalError::Full),
            Self::WriteFailsAfterwards => Fault::WriteFailsAfterwards(JournalError::Storage),
            Self::SyncFails => Fault::SyncFails(JournalError::Storage),
            Self::SyncLies => Fault::SyncLies,
        }
    }
}

/// The journal.
#[derive(Debug)]
pub(crate) struct Journal {
    disk: Disk,
    id: JournalId,
    open: Option<(Log<AnyMedium>, LogReader<AnyMedium>)>,
    /// A commit failed: every later one does.
    pub(crate) poisoned: bool,
    /// A fault waits for the next frame that is read; others would wait behind it.
    pub(crate) read_fault: bool,
    /// Last sequence number of each batch that was written and not synced since.
    unsynced: Vec<u64>,
    /// Last sequence number that a power cut leaves.
    durable: u64,
    /// Last sequence number the anchors know.
    anchored: u64,
    /// Whether the last open went on from what a close had left.
    pub(crate) resumed: bool,
}

impl Journal {
    /// No journal yet, on an empty disk.
    pub(crate) fn new(id: JournalId, disk: Disk) -> Self {
        Self {
            disk,
            id,
            open: None,
            poisoned: false,
            read_fault: false,
            unsynced: Vec::new(),
            durable: 0,
            anchored: 0,
            resumed: false,
        }
    }

    /// Opens it and answers all its records. `mishap` is what the sync on the way does. Where it goes on from
    /// what a close had left, the records are read beside: both have to end at the same head.
    pub(crate) fn open(&mut self, mishap: Option<Mishap>) -> Result<Vec<Record>, JournalError> {
        self.open = None;
        if let Some(mishap) = mishap {
            self.disk.inject(mishap.fault());
        }
        // Looking for the last frame meets a fault that waits for a read.
        self.read_fault &= !self.disk.has_checkpoint();
        let (mut records, mut note) = (Vec::new(), None);
        let options = LogOptions { new_id: self.id, create: true };
        let opened = Log::open_from(
            self.disk.medium()?,
            options,
            &mut |left| {
                note = Some(left.to_vec());
                true
            },
            &mut |item| {
                if let Item::Record { record, .. } = item {
                    records.push(record?);
                }
                Ok(())
            },
        );
        self.resumed = note.is_some();
        if self.resumed {
            records = self.walk()?;
        }
        let log = opened?;
        let reader = log.reader();
        let head = reader.head().sequence;
        let ends = records.last().map_or(0, |record| record.sequence);
        let left = note.is_none_or(|note| note == head.to_le_bytes());
        assert!(ends == head && left, "what was left is not what is there");
        self.anchored = head;
        if mishap != Some(Mishap::SyncLies) || !self.disk.forgets() {
            self.unsynced.clear();
            self.durable = head;
        }
        self.poisoned = false;
        self.open = Some((log, reader));
        Ok(records)
    }

    /// Commits a group. `mishap` is what the disk does to it.
    pub(crate) fn commit(
        &mut self,
        appends: &[Append],
        mishap: Option<Mishap>,
    ) -> Result<Vec<Result<Placed, AppendError>>, JournalError> {
        let Some((log, reader)) = &mut self.open else { return Err(JournalError::Storage) };
        if self.poisoned && !self.disk.forgets() {
            // A log on a server would go on, since that knows what was written; the actors here are those
            // that end with a failed commit, on any store.
            return Err(JournalError::Poisoned);
        }
        let bodies: usize = appends.iter().map(|append| append.bodies.len()).sum();
        let last = reader.head().sequence + bodies as u64;
        if let Some(mishap) = mishap {
            self.disk.inject(mishap.fault());
        }
        let result = log.commit(appends);
        match (&result, mishap) {
            (Ok(_), Some(Mishap::SyncLies)) if self.disk.forgets() => {
                self.unsynced.push(last);
                self.anchored = last;
            }
            (Ok(_), _) => {
                self.unsynced.clear();
                self.durable = last;
                self.anchored = last;
            }
            (Err(_), Some(Mishap::WriteFailsAfterwards | Mishap::SyncFails)) => {
                if self.disk.forgets() {
                    self.unsynced.push(last);
                } else {
                    self.durable = last;
                }
            }
            (Err(_), Some(Mishap::WriteFails | Mishap::SyncLies) | None) => {}
        }
        self.poisoned |= result.is_err();
        result
    }

    /// Reads one stream; a fault that waited for it is used up.
    pub(crate) fn read(&mut self, stream: StreamId) -> Result<Vec<Record>, JournalError> {
        let Some((_, reader)) = &self.open else { return Err(JournalError::Storage) };
        let result = reader.read_stream(stream);
        if result == Err(JournalError::Storage) {
            self.read_fault = false;
        }
        result
    }

    /// Lets the next frame that is read fail once.
    pub(crate) fn fail_next_read(&mut self) {
        self.read_fault = true;
        self.disk.inject(Fault::ReadFails(JournalError::Storage));
    }

    /// A stream's last version; 0 when it has no records, or the journal is closed.
    pub(crate) fn version(&self, stream: StreamId) -> u32 {
        self.open.as_ref().map_or(0, |(_, reader)| reader.version(stream))
    }

    /// The head; `None` when it is closed.
    pub(crate) fn head(&self) -> Option<Head> {
        self.open.as_ref().map(|(_, reader)| reader.head())
    }

    /// Brings the anchor up to date, leaves a note, and lets go.
    pub(crate) fn close(&mut self) -> Result<(), JournalError> {
        match self.open.take() {
            Some((mut log, reader)) => {
                log.settle_anchor()?;
                let store: Box<dyn Store> = Box::new(log);
                store.leave(&reader.head().sequence.to_le_bytes())
            }
            None => Ok(()),
        }
    }

    /// The process ends: what was written stays.
    pub(crate) fn drop_process(&mut self) {
        self.open = None;
    }

    /// The power goes: what was synced stays, and the first of the other batches.
    pub(crate) fn cut_power(&mut self, batches_kept: usize) {
        self.open = None;
        self.disk.crash(batches_kept);
        if let Some(last) = batches_kept.checked_sub(1).and_then(|at| self.unsynced.get(at)) {
            self.durable = *last;
        }
        self.unsynced.clear();
        self.read_fault = false;
    }

    /// The disk keeps all that was written, and no fault waits any more.
    pub(crate) fn calm(&mut self) {
        self.cut_power(self.unsynced.len());
    }

    /// Batches that a power cut may or may not leave.
    pub(crate) fn unsynced(&self) -> usize {
        self.unsynced.len()
    }

    /// Whether something was told to be durable that is not.
    pub(crate) fn lied(&self) -> bool {
        self.anchored > self.durable
    }

    /// What opening has to notice: the last sequence number that is left, and how many are gone.
    pub(crate) fn loss(&self) -> Option<(u64, u64)> {
        let lost = self.unsynced.is_empty() && self.lied();
        lost.then(|| (self.durable, self.anchored - self.durable))
    }

    /// Walks over all that is on disk, compares the anchors, and answers the records.
    pub(crate) fn walk(&self) -> Result<Vec<Record>, JournalError> {
        let medium = self.disk.medium()?;
        let mut check = AnchorCheck::new(self.id, &medium.anchors()?);
        let mut records = Vec::new();
        let (walk, walked) = walk::over(&medium, self.id, &mut |item| {
            match item {
                Item::Record { record, .. } => records.push(record?),
                Item::Frame(head) => check.pass(head),
                Item::Base(_) | Item::Carried { .. } => {} // nothing is archived here
            }
            Ok(())
        });
        walked?;
        check.finish(walk.head())?;
        Ok(records)
    }

    /// Changes a byte of the first frame.
    pub(crate) fn tamper(&self) {
        self.disk.tamper();
    }
}
