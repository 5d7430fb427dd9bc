//! A medium in memory, with a live and a durable image and faults on demand.
//!
//! Owns what a disk may do to a journal, for tests and simulation: bytes are visible when written
//! and durable when synced; a crash keeps the durable image and any part of the rest. Nothing here
//! knows what a frame says.

mod damage;

use crate::anchor::Anchor;
use crate::base::Base;
use crate::chain::{Digest, JournalId};
use crate::checkpoint::{Draft, Left, Stamp};
use crate::error::JournalError;
use crate::medium::{Anchors, Batch, Fill, Medium, Part, Step, Written};
use crate::record::StreamId;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the next matching call of the medium does instead of working.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// `write` fails; the bytes are not there.
    WriteFails(JournalError),
    /// `write` fails and the bytes are there all the same: an unknown outcome.
    WriteFailsAfterwards(JournalError),
    /// `sync` fails; what was written stays visible and is not durable.
    SyncFails(JournalError),
    /// A frame cannot be read this once.
    ReadFails(JournalError),
    /// `sync` says yes and makes nothing durable: a disk that lies.
    SyncLies,
}

#[derive(Debug, Default, Clone)]
struct Image {
    id: Option<JournalId>,
    base: Option<Base>,
    entries: BTreeMap<StreamId, Vec<u8>>,
    frames: BTreeMap<u64, Vec<u8>>,
    chunks: BTreeMap<Digest, Vec<u8>>,
    anchor: Option<Anchor>,
    outer_anchor: Option<Anchor>,
    checkpoint: Option<Vec<u8>>,
}

impl Image {
    /// Bytes of what a database would hold.
    fn bytes(&self) -> u64 {
        let frames: usize = self.frames.values().map(Vec::len).sum();
        let chunks: usize = self.chunks.values().map(Vec::len).sum();
        let entries: usize = self.entries.values().map(Vec::len).sum();
        (frames + chunks + entries) as u64
    }
}

#[derive(Debug, Default)]
struct Disk {
    live: Image,
    durable: Image,
    /// What is prepared to take the place of both.
    successor: Option<Image>,
    /// Batches written since the last honest sync, for crashes that keep some of them.
    unsynced: Vec<(Vec<u64>, Vec<Digest>)>,
    faults: VecDeque<Fault>,
    syncs: u64,
    /// Counts what a database's file would tell by its time of change.
    changes: u64,
    /// Whether several write to it.
    shared: bool,
}

impl Disk {
    fn stamp(&self) -> Stamp {
        let bytes = self.live.bytes();
        Stamp { bytes, modified_seconds: self.changes, modified_nanos: 0 }
    }
}

/// The disk: survives the medium, so that a test can crash one and open the next.
#[derive(Debug, Default, Clone)]
pub struct MemoryDisk {
    disk: Arc<Mutex<Disk>>,
    /// Held over one step of one writer.
    turn: Arc<Mutex<()>>,
}

impl MemoryDisk {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty disk that several engines may open and write to at once.
    #[must_use]
    pub fn shared() -> Self {
        let disk = Self::default();
        disk.lock().shared = true;
        disk
    }

    /// A medium on this disk.
    #[must_use]
    pub fn medium(&self) -> MemoryMedium {
        MemoryMedium { disk: self.clone() }
    }

    /// Queues a fault; each one acts once, on the first call that it fits.
    pub fn inject(&self, fault: Fault) {
        self.lock().faults.push_back(fault);
    }

    /// Power goes: only the durable image is left, and the first `batches_kept` batches that were
    /// written since the last sync and happened to reach the disk.
    pub fn crash(&self, batches_kept: usize) {
        let mut disk = self.lock();
        let Disk { live, durable, unsynced, changes, .. } = &mut *disk;
        *changes += u64::from(!unsynced.is_empty());
        for (frames, chunks) in unsynced.drain(..).take(batches_kept) {
            for key in frames {
                if let Some(bytes) = live.frames.get(&key) {
                    durable.frames.insert(key, bytes.clone());
                }
            }
            for key in chunks {
                if let Some(bytes) = live.chunks.get(&key) {
                    durable.chunks.insert(key, bytes.clone());
                }
            }
        }
        *live = durable.clone();
        disk.successor = None; // what an open removes
        disk.faults.clear();
    }

    /// How often a sync succeeded, lies included.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    /// What the last clean close left.
    #[must_use]
    pub fn checkpoint(&self) -> Option<Vec<u8>> {
        self.lock().live.checkpoint.clone()
    }

    /// Puts something in its place, in both images; `None` removes it.
    pub fn put_checkpoint(&self, bytes: Option<Vec<u8>>) {
        let mut disk = self.lock();
        disk.live.checkpoint.clone_from(&bytes);
        disk.durable.checkpoint = bytes;
    }

    fn lock(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A medium on a [`MemoryDisk`].
#[derive(Debug, Clone)]
pub struct MemoryMedium {
    disk: MemoryDisk,
}

impl Medium for MemoryMedium {
    fn journal_id(&self) -> Result<Option<JournalId>, JournalError> {
        Ok(self.disk.lock().live.id)
    }

    fn initialise(&self, id: JournalId) -> Result<(), JournalError> {
        let mut disk = self.disk.lock();
        disk.live.id = Some(id);
        disk.durable.id = Some(id);
        Ok(())
    }

    fn write(&self, batch: Batch) -> Result<(), JournalError> {
        let mut disk = self.disk.lock();
        let failure = match disk.faults.front().cloned() {
            Some(Fault::WriteFails(error)) => {
                disk.faults.pop_front();
                return Err(error);
            }
            Some(Fault::WriteFailsAfterwards(error)) => {
                disk.faults.pop_front();
                Some(error)
            }
            Some(Fault::SyncFails(_) | Fault::SyncLies | Fault::ReadFails(_)) | None => None,
        };
        let frames = batch.frames.iter().map(|(key, _)| *key).collect();
        let chunks = batch.chunks.iter().map(|(key, _)| *key).collect();
        disk.unsynced.push((frames, chunks));
        disk.changes += 1;
        disk.live.frames.extend(batch.frames);
        disk.live.chunks.extend(batch.chunks);
        failure.map_or(Ok(()), Err)
    }

    fn is_shared(&self) -> bool {
        self.disk.lock().shared
    }

    fn step(&self, step: Step, batch: Batch) -> Result<Written, JournalError> {
        let _turn = self.disk.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let next = step.from.sequence + 1;
        if self.is_shared() && self.frame_at_or_after(next)?.is_some() {
            return Ok(Written::Overtaken);
        }
        self.write(batch)?;
        self.sync()?;
        Ok(Written::Here)
    }

    fn sync(&self) -> Result<(), JournalError> {
        let mut disk = self.disk.lock();
        match disk.faults.front().cloned() {
            Some(Fault::SyncFails(error)) => {
                disk.faults.pop_front();
                return Err(error);
            }
            Some(Fault::SyncLies) => {
                disk.faults.pop_front();
                disk.syncs += 1;
                return Ok(());
            }
            Some(Fault::WriteFails(_) | Fault::WriteFailsAfterwards(_) | Fault::ReadFails(_))
            | None => {}
        }
        disk.syncs += 1;
        let Disk { live, durable, unsynced, .. } = &mut *disk;
        for (frames, chunks) in unsynced.drain(..) {
            for key in frames {
                if let Some(bytes) = live.frames.get(&key) {
                    durable.frames.insert(key, bytes.clone());
                }
            }
            for key in chunks {
                if let Some(bytes) = live.chunks.get(&key) {
                    durable.chunks.insert(key, bytes.clone());
                }
            }
        }
        Ok(())
    }

    fn frame_at_or_before(&self, sequence: u64) -> Result<Option<(u64, Vec<u8>)>, JournalError> {
        let mut disk = self.disk.lock();
        if let Some(Fault::ReadFails(error)) = disk.faults.front().cloned() {
            disk.faults.pop_front();
            return Err(error);
        }
        Ok(disk.live.frames.range(..=sequence).next_back().map(|(k, v)| (*k, v.clone())))
    }

    fn frame_at_or_after(&self, sequence: u64) -> Result<Option<(u64, Vec<u8>)>, JournalError> {
        let disk = self.disk.lock();
        Ok(disk.live.frames.range(sequence..).next().map(|(k, v)| (*k, v.clone())))
    }

    fn chunk(&self, hash: &Digest) -> Result<Option<Vec<u8>>, JournalError> {
        Ok(self.disk.lock().live.chunks.get(hash).cloned())
    }

    fn base(&self) -> Result<Option<Base>, JournalError> {
        Ok(self.disk.lock().live.base)
    }

    fn base_entry(&self, stream: StreamId) -> Result<Option<Vec<u8>>, JournalError> {
        Ok(self.disk.lock().live.entries.get(&stream).cloned())
    }

    fn base_entry_after(
        &self,
        stream: Option<StreamId>,
    ) -> Result<Option<(StreamId, Vec<u8>)>, JournalError> {
        let disk = self.disk.lock();
        let from = stream.map_or(Bound::Unbounded, Bound::Excluded);
        let mut after = disk.live.entries.range((from, Bound::Unbounded));
        Ok(after.next().map(|(stream, bytes)| (*stream, bytes.clone())))
    }

    fn prepare_successor(&self, fill: &mut Fill<'_>) -> Result<(), JournalError> {
        let (id, anchor, outer_anchor) = {
            let disk = self.disk.lock();
            (disk.live.id, disk.live.anchor, disk.live.outer_anchor)
        };
        let mut next = Image { id, anchor, outer_anchor, ..Image::default() };
        let base = fill(&mut |part| {
            match part {
                Part::Entry(stream, bytes) => drop(next.entries.insert(stream, bytes)),
                Part::Frame(sequence, bytes) => drop(next.frames.insert(sequence, bytes)),
                Part::Chunk(hash, bytes) => drop(next.chunks.insert(hash, bytes)),
            }
            Ok(())
        })?;
        next.base = Some(base);
        self.disk.lock().successor = Some(next);
        Ok(())
    }

    fn succeed(self) -> Result<(), JournalError> {
        let mut disk = self.disk.lock();
        let next = disk.successor.take().ok_or(JournalError::Missing)?;
        disk.changes += 1;
        disk.durable = next.clone();
        disk.live = next;
        disk.unsynced.clear();
        Ok(())
    }

    fn anchors(&self) -> Result<Anchors, JournalError> {
        let disk = self.disk.lock();
        Ok(Anchors { inner: disk.live.anchor, outer: disk.live.outer_anchor, damaged: 0 })
    }

    fn set_anchor(&self, anchor: Anchor, _sync: bool) -> Result<(), JournalError> {
        let mut disk = self.disk.lock();
        for image in [0, 1] {
            let image = if image == 0 { &mut disk.live } else { &mut disk.durable };
            image.anchor = Some(anchor);
            image.outer_anchor = Some(anchor);
        }
        Ok(())
    }

    fn checkpoint(&self) -> Result<Option<Left>, JournalError> {
        let disk = self.disk.lock();
        let stamp = Some(disk.stamp());
        Ok(disk.live.checkpoint.clone().map(|bytes| Left { bytes, stamp }))
    }

    fn remove_checkpoint(&self) -> Result<(), JournalError> {
        self.disk.put_checkpoint(None);
        Ok(())
    }

    fn leave_checkpoint(&self, draft: Draft) -> Result<(), JournalError> {
        if self.is_shared() {
            return Ok(()); // another engine may be writing
        }
        let stamp = self.disk.lock().stamp();
        self.disk.put_checkpoint(Some(draft.seal(stamp)));
        Ok(())
    }

    fn disk_bytes(&self) -> Result<u64, JournalError> {
        Ok(self.disk.lock().live.bytes())
    }
}
