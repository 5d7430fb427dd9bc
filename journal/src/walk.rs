//! A walk over a journal from its first frame, verifying everything on the way.
//!
//! Owns the rules J2, J3 and J4 in one place: opening a journal, auditing it and verifying an
//! archive all walk here. Must not know where frames come from or what records mean.

use crate::base::{Base, Entering, StoredEntry};
use crate::chain::{Head, JournalId};
use crate::chunk::{self, Fetch};
use crate::error::JournalError;
use crate::frame::{Frame, FrameFault};
use crate::index::{StreamIndex, Tip};
use crate::medium::Medium;
use crate::record::{Record, Stored, StreamId};

/// The state of a walk: everything up to `head` was verified, or is in archives before the base it
/// started from.
#[derive(Debug)]
pub struct Walk {
    id: JournalId,
    head: Head,
    index: StreamIndex,
    frames: u64,
}

impl Walk {
    /// A walk that has seen nothing.
    #[must_use]
    pub fn new(id: JournalId) -> Self {
        Self { id, head: Head::genesis(id), index: StreamIndex::default(), frames: 0 }
    }

    /// The journal.
    #[must_use]
    pub fn id(&self) -> JournalId {
        self.id
    }

    /// The last verified head.
    #[must_use]
    pub fn head(&self) -> Head {
        self.head
    }

    /// How many frames were verified.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// The tips of all streams so far.
    #[must_use]
    pub fn into_index(self) -> StreamIndex {
        self.index
    }

    /// Comes to a base: starts there when nothing was seen yet; otherwise the archives before it were
    /// walked, and it has to be where they end.
    pub(crate) fn enter(&mut self, base: Base) -> Result<Entering, JournalError> {
        let fresh = self.head == Head::genesis(self.id);
        if !fresh && self.head != base.head {
            return Err(if self.head.sequence < base.head.sequence {
                JournalError::ArchiveMissing { sequence: self.head.sequence + 1 }
            } else {
                JournalError::Diverged { sequence: base.head.sequence }
            });
        }
        self.head = base.head;
        Ok(Entering::new(self.id, base, !fresh))
    }

    /// Takes the next entry of a base.
    pub(crate) fn carry<'a>(
        &mut self,
        entering: &mut Entering,
        stream: StreamId,
        bytes: &'a [u8],
    ) -> Result<StoredEntry<'a>, JournalError> {
        entering.entry(&mut self.index, stream, bytes)
    }

    /// Ends a base.
    pub(crate) fn entered(&self, entering: Entering) -> Result<(), JournalError> {
        entering.finish(&self.index)
    }

    /// Verifies the next frame and answers its records.
    ///
    /// # Errors
    /// [`JournalError::Corrupt`] with the first sequence number that cannot be believed: a gap (J2),
    /// a broken chain (J3), a stream out of order (J4), or bytes that are no frame.
    /// [`JournalError::Newer`] for a frame of a later version.
    pub fn step<'a>(&mut self, bytes: &'a [u8]) -> Result<Vec<Stored<'a>>, JournalError> {
        let corrupt = JournalError::Corrupt { sequence: self.head.sequence + 1 };
        let frame = Frame::parse(bytes).map_err(|fault| match fault {
            FrameFault::Newer(version) => JournalError::Newer { version: version.into() },
            FrameFault::Shape | FrameFault::Hash | FrameFault::Records => corrupt.clone(),
        })?;
        if frame.first_sequence != self.head.sequence + 1 || frame.previous != self.head.hash {
            return Err(corrupt);
        }
        let records = frame.records().map_err(|_| corrupt)?;
        for record in &records {
            if !self.index.follow(record) {
                return Err(JournalError::Corrupt { sequence: record.sequence });
            }
        }
        self.head = frame.head();
        self.frames += 1;
        Ok(records)
    }
}

/// What a walk comes by.
#[derive(Debug)]
pub enum Item {
    /// Where the journal starts; its entries follow.
    Base(Base),
    /// An entry of the base; the error when its chunks are missing or damaged.
    Carried {
        /// Its stream.
        stream: StreamId,
        /// The stream's last record up to the base.
        tip: Tip,
        /// What the records up to there came to.
        image: Result<Vec<u8>, JournalError>,
    },
    /// A record in a verified frame; the error when its chunks are missing or damaged.
    Record {
        /// Its place in the journal.
        sequence: u64,
        /// Its stream.
        stream: StreamId,
        /// The record, whole.
        record: Result<Record, JournalError>,
    },
    /// The end of a frame.
    Frame(Head),
}

/// Takes what a walk comes by.
pub type Visit<'a> = dyn FnMut(Item) -> Result<(), JournalError> + 'a;

/// Walks over everything a medium holds. Answers how far it came, and why it stopped if that was not
/// the end.
pub fn over<M: Medium>(
    medium: &M,
    id: JournalId,
    visit: &mut Visit<'_>,
) -> (Walk, Result<(), JournalError>) {
    on(medium, Walk::new(id), visit)
}

/// Goes on over everything a medium holds with a walk that came over its archives.
pub fn on<M: Medium>(
    medium: &M,
    mut walk: Walk,
    visit: &mut Visit<'_>,
) -> (Walk, Result<(), JournalError>) {
    let stopped = enter(medium, &mut walk, visit)
        .and_then(|()| go_on(medium, &mut walk, u64::MAX, visit).map(drop));
    (walk, stopped)
}

/// Walks over so many frames, if there are so many. Answers whether the end was met.
pub(crate) fn go_on<M: Medium>(
    medium: &M,
    walk: &mut Walk,
    frames: u64,
    visit: &mut Visit<'_>,
) -> Result<bool, JournalError> {
    for _ in 0..frames {
        let Some(bytes) = following(medium, walk.head())? else { return Ok(true) };
        show(walk, &bytes, &|hash| medium.chunk(hash), visit)?;
    }
    Ok(false)
}

/// Walks up to a head that is there.
pub(crate) fn up_to<M: Medium>(
    medium: &M,
    walk: &mut Walk,
    until: Head,
    visit: &mut Visit<'_>,
) -> Result<(), JournalError> {
    while walk.head().sequence < until.sequence {
        let gone = JournalError::Corrupt { sequence: walk.head().sequence + 1 };
        let bytes = following(medium, walk.head())?.ok_or(gone)?;
        show(walk, &bytes, &|hash| medium.chunk(hash), visit)?;
    }
    Ok(())
}

/// The frame after a head; `None` at the end. One that lies under another number than its own would be
/// found by a walk and by nobody who looks for it, and the next commit would write over it.
///
/// # Errors
/// [`JournalError::Corrupt`] with the number after the head where no frame lies under it but one lies
/// behind it.
pub(crate) fn following<M: Medium>(
    medium: &M,
    head: Head,
) -> Result<Option<Vec<u8>>, JournalError> {
    let sequence = head.sequence + 1;
    match medium.frame_at_or_after(sequence)? {
        None => Ok(None),
        Some((key, bytes)) if key == sequence => Ok(Some(bytes)),
        Some(_) => Err(JournalError::Corrupt { sequence }),
    }
}

/// Takes a medium's base, if it has one.
pub(crate) fn enter<M: Medium>(
    medium: &M,
    walk: &mut Walk,
    visit: &mut Visit<'_>,
) -> Result<(), JournalError> {
    let Some(base) = medium.base()? else { return Ok(()) };
    let mut entering = walk.enter(base)?;
    visit(Item::Base(base))?;
    let mut after = None;
    while let Some((stream, bytes)) = medium.base_entry_after(after)? {
        let entry = walk.carry(&mut entering, stream, &bytes)?;
        visit(carried(&entry, &|hash| medium.chunk(hash)))?;
        after = Some(stream);
    }
    walk.entered(entering)
}

/// An entry with its image.
pub(crate) fn carried(entry: &StoredEntry<'_>, fetch: &Fetch<'_>) -> Item {
    Item::Carried { stream: entry.stream, tip: entry.tip, image: entry.image(fetch) }
}

/// Verifies one frame and shows its records and its end.
pub(crate) fn show(
    walk: &mut Walk,
    bytes: &[u8],
    fetch: &Fetch<'_>,
    visit: &mut Visit<'_>,
) -> Result<(), JournalError> {
    for stored in walk.step(bytes)? {
        let record = whole(&stored, fetch);
        visit(Item::Record { sequence: stored.sequence, stream: stored.stream, record })?;
    }
    visit(Item::Frame(walk.head()))
}

/// A stored record with its body, put together when it is in chunks.
pub(crate) fn whole(stored: &Stored<'_>, fetch: &Fetch<'_>) -> Result<Record, JournalError> {
    let body = if stored.chunked {
        chunk::assemble(stored.stored, stored.sequence, fetch)?
    } else {
        stored.stored.to_vec()
    };
    let Stored { sequence, stream, version, previous, .. } = *stored;
    Ok(Record { sequence, stream, version, previous, body })
}
