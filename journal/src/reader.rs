//! Readers: streams out of frames, at a cost that does not grow with the journal.
//!
//! Owns the way from a stream to its records: the index holds each stream's last position, every
//! record holds the distance to the one before. Every frame that is read is verified; the last few
//! are kept, since neighbours in a journal are usually asked for together.

use crate::base::{Entry, StoredEntry};
use crate::chain::{Head, JournalId};
use crate::checkpoint::Draft;
use crate::error::JournalError;
use crate::frame::Frame;
use crate::index::{StreamIndex, Tip};
use crate::medium::Medium;
use crate::record::{self, Record, Stored, StreamId};
use crate::store::{Peers, StoreReader, View};
use crate::walk::{self, Visit, Walk, whole};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Verified frames kept; at most 4 MiB.
const FRAMES_KEPT: usize = 64;

/// What the writer and its readers share.
#[derive(Debug)]
pub(crate) struct Shared<M: Medium> {
    pub(crate) medium: M,
    /// Last sequence number that is in archives; 0 for a journal without a base.
    archived: u64,
    durable: RwLock<Durable>,
    frames: Mutex<VecDeque<Arc<VerifiedFrame>>>,
}

#[derive(Debug)]
struct Durable {
    index: StreamIndex,
    head: Head,
    /// Streams that others wrote to, with the version before: it is what the readers' readers know.
    others: HashMap<StreamId, u32>,
}

#[derive(Debug)]
pub(crate) struct VerifiedFrame {
    first_sequence: u64,
    bytes: Vec<u8>,
    /// Where each record starts.
    offsets: Vec<u32>,
}

impl VerifiedFrame {
    pub(crate) fn verify(bytes: Vec<u8>, sequence: u64) -> Result<Self, JournalError> {
        let corrupt = JournalError::Corrupt { sequence };
        let frame = Frame::parse(&bytes).map_err(|_| corrupt.clone())?;
        let base = bytes.as_ptr() as usize;
        let records = frame.records().map_err(|_| corrupt)?;
        let first_sequence = frame.first_sequence;
        let mut offsets = Vec::with_capacity(records.len());
        let mut at = crate::frame::HEADER_BYTES;
        for record in &records {
            offsets.push(at as u32);
            at = record.stored.as_ptr() as usize - base + record.stored.len();
        }
        Ok(Self { first_sequence, bytes, offsets })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn record(&self, sequence: u64) -> Option<Stored<'_>> {
        let place = usize::try_from(sequence.checked_sub(self.first_sequence)?).ok()?;
        let offset = *self.offsets.get(place)? as usize;
        record::read(self.bytes.get(offset..)?, sequence).map(|(record, _)| record)
    }
}

impl<M: Medium> Shared<M> {
    pub(crate) fn new(medium: M, archived: u64, index: StreamIndex, head: Head) -> Self {
        Self {
            medium,
            archived,
            durable: RwLock::new(Durable { index, head, others: HashMap::new() }),
            frames: Mutex::new(VecDeque::with_capacity(FRAMES_KEPT)),
        }
    }

    pub(crate) fn head(&self) -> Head {
        self.durable.read().unwrap_or_else(PoisonError::into_inner).head
    }

    pub(crate) fn tip(&self, stream: StreamId) -> Tip {
        self.durable.read().unwrap_or_else(PoisonError::into_inner).index.tip(stream)
    }

    /// Shows records that are durable now.
    pub(crate) fn advance(&self, tips: HashMap<StreamId, Tip>, head: Head) {
        let mut durable = self.durable.write().unwrap_or_else(PoisonError::into_inner);
        for (stream, tip) in tips {
            durable.index.set(stream, tip);
        }
        durable.head = head;
    }

    /// Shows what others wrote, and that they did.
    pub(crate) fn take_over(
        &self,
        tips: HashMap<StreamId, Tip>,
        known: HashMap<StreamId, u32>,
        head: Head,
    ) {
        let mut durable = self.durable.write().unwrap_or_else(PoisonError::into_inner);
        for (stream, tip) in tips {
            durable.index.set(stream, tip);
        }
        for (stream, version) in known {
            durable.others.entry(stream).or_insert(version);
        }
        durable.head = head;
    }

    /// Keeps frames that will be read at once.
    pub(crate) fn keep(&self, frames: Vec<Arc<VerifiedFrame>>) {
        let mut kept = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        for frame in frames {
            if kept.len() == FRAMES_KEPT {
                kept.pop_back();
            }
            kept.push_front(frame);
        }
    }

    /// All that a later open may go on from.
    pub(crate) fn draft(&self, journal: JournalId, note: &[u8]) -> Draft {
        let durable = self.durable.read().unwrap_or_else(PoisonError::into_inner);
        Draft::new(journal, durable.head, self.archived, &durable.index.sorted(), note)
    }

    fn frame_of(&self, sequence: u64) -> Result<Arc<VerifiedFrame>, JournalError> {
        let mut kept = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(frame) = kept.iter().find(|frame| frame.record(sequence).is_some()) {
            return Ok(Arc::clone(frame));
        }
        let corrupt = JournalError::Corrupt { sequence };
        let (_, bytes) = self.medium.frame_at_or_before(sequence)?.ok_or(corrupt.clone())?;
        let frame = Arc::new(VerifiedFrame::verify(bytes, sequence)?);
        if frame.record(sequence).is_none() {
            return Err(corrupt);
        }
        if kept.len() == FRAMES_KEPT {
            kept.pop_back();
        }
        kept.push_front(Arc::clone(&frame));
        Ok(frame)
    }
}

/// A reader of a log; cheap to clone.
#[derive(Debug)]
pub struct LogReader<M: Medium> {
    shared: Arc<Shared<M>>,
}

impl<M: Medium> Clone for LogReader<M> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<M: Medium> LogReader<M> {
    pub(crate) fn new(shared: Arc<Shared<M>>) -> Self {
        Self { shared }
    }
}

impl<M: Medium> StoreReader for LogReader<M> {
    fn version(&self, stream: StreamId) -> u32 {
        self.shared.tip(stream).version
    }

    fn carried(&self, stream: StreamId) -> Result<Option<Entry>, JournalError> {
        // Asked for every record that becomes active, and mostly there is nothing to look for.
        if self.shared.archived == 0 || self.shared.tip(stream).version == 0 {
            return Ok(None);
        }
        let medium = &self.shared.medium;
        let Some(bytes) = medium.base_entry(stream)? else { return Ok(None) };
        let corrupt = JournalError::Corrupt { sequence: self.shared.archived };
        let entry = StoredEntry::decode(stream, &bytes).ok_or(corrupt)?;
        let image = entry.image(&|hash| medium.chunk(hash))?;
        Ok(Some(Entry { tip: entry.tip, image }))
    }

    fn read_stream_to(&self, stream: StreamId, tip: Tip) -> Result<Vec<Record>, JournalError> {
        let mut records = Vec::new();
        let (mut sequence, mut version) = (tip.sequence, tip.version);
        while version > 0 && sequence > self.shared.archived {
            let frame = self.shared.frame_of(sequence)?;
            let stored = frame.record(sequence).ok_or(JournalError::Corrupt { sequence })?;
            if stored.stream != stream || stored.version != version {
                return Err(JournalError::Corrupt { sequence });
            }
            records.push(whole(&stored, &|hash| self.shared.medium.chunk(hash))?);
            (sequence, version) = (stored.previous, version - 1);
        }
        records.reverse();
        Ok(records)
    }

    fn view(&self, stream: StreamId) -> View {
        let durable = self.shared.durable.read().unwrap_or_else(PoisonError::into_inner);
        View { tip: durable.index.tip(stream), known: durable.others.get(&stream).copied() }
    }

    fn took_over(&self, stream: StreamId, view: View) {
        if view.known.is_none() {
            return;
        }
        let mut durable = self.shared.durable.write().unwrap_or_else(PoisonError::into_inner);
        // What came after the view is still to be told.
        if durable.index.tip(stream) == view.tip {
            durable.others.remove(&stream);
        } else {
            durable.others.insert(stream, view.tip.version);
        }
    }

    fn moved(&self, number: u8) -> (u64, Vec<StreamId>) {
        let durable = self.shared.durable.read().unwrap_or_else(PoisonError::into_inner);
        let moved = durable.others.keys().filter(|stream| stream.0[0] == number).copied();
        // Neighbours in the journal are read together.
        let mut moved: Vec<StreamId> = moved.collect();
        moved.sort_by_key(|stream| durable.index.tip(*stream).sequence);
        (durable.head.sequence, moved)
    }

    fn has_moved(&self) -> bool {
        !self.shared.durable.read().unwrap_or_else(PoisonError::into_inner).others.is_empty()
    }

    fn is_shared(&self) -> bool {
        self.shared.medium.is_shared()
    }

    fn peers(&self) -> Peers {
        self.shared.medium.peers()
    }

    fn server_seconds(&self) -> Option<f64> {
        self.shared.medium.server_seconds()
    }

    fn walk(&self, from: Option<Walk>, visit: &mut Visit<'_>) -> Result<Walk, JournalError> {
        let medium = &self.shared.medium;
        // Frames after this one may be on their way and not be durable.
        let until = self.shared.head();
        let mut walk = match from {
            Some(walk) => walk,
            None => {
                let mut walk = Walk::new(self.id()?);
                walk::enter(medium, &mut walk, visit)?;
                walk
            }
        };
        walk::up_to(medium, &mut walk, until, visit)?;
        Ok(walk)
    }

    fn id(&self) -> Result<JournalId, JournalError> {
        self.shared.medium.journal_id()?.ok_or(JournalError::Corrupt { sequence: 0 })
    }

    fn head(&self) -> Head {
        self.shared.head()
    }

    fn disk_bytes(&self) -> Result<u64, JournalError> {
        self.shared.medium.disk_bytes()
    }
}
