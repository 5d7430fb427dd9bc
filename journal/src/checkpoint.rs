//! What a clean close leaves, so that the next open need not walk over everything.
//!
//! Owns its bytes, and the decision whether it may be believed. Pure. Must not know how it is kept, nor
//! what the note says.
//!
//! It is derived: whoever has none, or does not believe it, walks over every frame as ever and loses
//! nothing but time. It is used at most once and gone while a writer lives: after a crash or a power cut
//! there is none, and everything is verified. What it gives up is stated plainly: damage that left the
//! database's length and time of change as they were is not found by the open, but by whoever reads the
//! record, and by the audit.
//!
//! # Bytes
//!
//! Numbers are little-endian.
//!
//! | size | field |
//! | --- | --- |
//! | 3 | `LHC` |
//! | 1 | version, 1 |
//! | 16 | journal id |
//! | 8 | sequence number of the head |
//! | 32 | hash of the head |
//! | 8 | sequence number of the last record that is in archives; 0 for a journal without a base |
//! | 8 | number n of streams |
//! | 28 n | each stream, sorted: its id (16), sequence number (8) and version (4) of its last record |
//! | 8 | number m of bytes of the note |
//! | m | the note: what those above the journal need to go on |
//! | 20 | the stamp: bytes of the database's file (8), its time of change in seconds (8) and nanoseconds (4) |
//! | 32 | hash of all before ([`checkpoint_hash`]) |

use crate::base::Base;
use crate::chain::{Head, JournalId, checkpoint_hash};
use crate::frame::Frame;
use crate::index::{StreamIndex, Tip};
use crate::medium::Anchors;
use crate::record::StreamId;
use std::fmt;

/// First bytes of a checkpoint; its version follows.
pub const MAGIC: [u8; 3] = *b"LHC";
/// The version that is written.
pub const VERSION: u8 = 1;
/// Bytes of a stream and its tip.
const TIP_BYTES: usize = 28;
/// Bytes of the stamp and the hash.
const TRAILER_BYTES: usize = 52;

/// How the database's file was: nobody changes a file without changing one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Its length in bytes.
    pub bytes: u64,
    /// When it was last changed, in whole seconds since 1970.
    pub modified_seconds: u64,
    /// The nanoseconds of that.
    pub modified_nanos: u32,
}

/// What a medium kept of an earlier life's end.
pub struct Left {
    /// The checkpoint, unverified.
    pub bytes: Vec<u8>,
    /// How the database was before it was opened; `None` where that cannot be told.
    pub stamp: Option<Stamp>,
}

impl fmt::Debug for Left {
    /// Shows how much there is, never what it says.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Left")
            .field("bytes", &self.bytes.len())
            .field("stamp", &self.stamp)
            .finish()
    }
}

/// A checkpoint that waits for its stamp, which is known only when the database is closed.
pub struct Draft(Vec<u8>);

impl fmt::Debug for Draft {
    /// Shows how much there is, never what it says.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Draft").field(&self.0.len()).finish()
    }
}

impl Draft {
    /// Of a journal that ends at `head`; `archived` is the last sequence number in archives, `tips` are
    /// all streams, sorted.
    #[must_use]
    pub fn new(
        journal: JournalId,
        head: Head,
        archived: u64,
        tips: &[(StreamId, Tip)],
        note: &[u8],
    ) -> Self {
        let mut bytes =
            Vec::with_capacity(84 + tips.len() * TIP_BYTES + note.len() + TRAILER_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.push(VERSION);
        bytes.extend_from_slice(&journal.0);
        bytes.extend_from_slice(&head.sequence.to_le_bytes());
        bytes.extend_from_slice(&head.hash.0);
        bytes.extend_from_slice(&archived.to_le_bytes());
        bytes.extend_from_slice(&(tips.len() as u64).to_le_bytes());
        for (stream, tip) in tips {
            bytes.extend_from_slice(&stream.0);
            bytes.extend_from_slice(&tip.sequence.to_le_bytes());
            bytes.extend_from_slice(&tip.version.to_le_bytes());
        }
        bytes.extend_from_slice(&(note.len() as u64).to_le_bytes());
        bytes.extend_from_slice(note);
        Self(bytes)
    }

    /// The checkpoint's bytes.
    #[must_use]
    pub fn seal(self, stamp: Stamp) -> Vec<u8> {
        let Self(mut bytes) = self;
        bytes.extend_from_slice(&stamp.bytes.to_le_bytes());
        bytes.extend_from_slice(&stamp.modified_seconds.to_le_bytes());
        bytes.extend_from_slice(&stamp.modified_nanos.to_le_bytes());
        let hash = checkpoint_hash(&bytes);
        bytes.extend_from_slice(&hash.0);
        bytes
    }
}

/// Why a checkpoint is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unused {
    /// Its bytes do not verify.
    #[error("damaged")]
    Damaged,
    /// It is of another version.
    #[error("version")]
    Version,
    /// It is another journal's.
    #[error("other_journal")]
    OtherJournal,
    /// The database was changed since.
    #[error("database_changed")]
    DatabaseChanged,
    /// An anchor is missing, damaged, or knows another head.
    #[error("anchor")]
    Anchor,
    /// The journal starts elsewhere.
    #[error("base")]
    Base,
    /// The last frame does not verify, or does not end at its head.
    #[error("last_frame")]
    LastFrame,
    /// The disk does not answer.
    #[error("unreadable")]
    Unreadable,
    /// Those above the journal cannot go on from the note: it was left under other settings.
    #[error("note")]
    Note,
}

/// A checkpoint whose bytes verify.
pub struct Checkpoint<'a> {
    /// The journal.
    pub journal: JournalId,
    /// Its head.
    pub head: Head,
    /// Last sequence number in archives; 0 for a journal without a base.
    pub archived: u64,
    /// All streams.
    pub index: StreamIndex,
    /// What those above the journal left.
    pub note: &'a [u8],
    /// How the database was.
    pub stamp: Stamp,
}

impl fmt::Debug for Checkpoint<'_> {
    /// Shows where the journal stands, never what the note says.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checkpoint")
            .field("journal", &self.journal)
            .field("head", &self.head)
            .field("archived", &self.archived)
            .field("streams", &self.index.len())
            .field("note_bytes", &self.note.len())
            .field("stamp", &self.stamp)
            .finish()
    }
}

/// What there is in truth.
#[derive(Debug)]
pub struct Found<'a> {
    /// The journal's id.
    pub journal: JournalId,
    /// How the database was before it was opened; `None` where that cannot be told.
    pub stamp: Option<Stamp>,
    /// The anchors.
    pub anchors: &'a Anchors,
    /// The base.
    pub base: Option<Base>,
    /// The last frame there is, with the number it lies under.
    pub last: Option<(u64, &'a [u8])>,
}

impl<'a> Checkpoint<'a> {
    /// Reads a checkpoint.
    ///
    /// # Errors
    /// [`Unused::Damaged`], [`Unused::Version`].
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Unused> {
        let (hashed, hash) = bytes.split_last_chunk::<32>().ok_or(Unused::Damaged)?;
        if !hashed.starts_with(&MAGIC) || checkpoint_hash(hashed).0 != *hash {
            return Err(Unused::Damaged);
        }
        match hashed.get(MAGIC.len()) {
            Some(&VERSION) => parse(&hashed[MAGIC.len() + 1..]).ok_or(Unused::Damaged),
            Some(_) => Err(Unused::Version),
            None => Err(Unused::Damaged),
        }
    }

    /// Whether all that can be asked for without a walk is as it says.
    ///
    /// An anchor beside the folder may be missing, as for any open: it is not kept everywhere. One that
    /// is there has to know this very head, or the folder was put back to an older state.
    ///
    /// # Errors
    /// The first reason against it.
    pub fn check(&self, found: &Found<'_>) -> Result<(), Unused> {
        if self.journal != found.journal {
            return Err(Unused::OtherJournal);
        }
        if Some(self.stamp) != found.stamp {
            return Err(Unused::DatabaseChanged);
        }
        let Anchors { inner, outer, damaged } = *found.anchors;
        let knows = |anchor: crate::anchor::Anchor| {
            anchor.journal == self.journal && anchor.head == self.head
        };
        if damaged > 0 || !inner.is_some_and(knows) || !outer.is_none_or(knows) {
            return Err(Unused::Anchor);
        }
        if self.archived != found.base.map_or(0, |base| base.head.sequence) {
            return Err(Unused::Base);
        }
        let start = found.base.map_or_else(|| Head::genesis(self.journal), |base| base.head);
        let end = match found.last {
            None => start,
            Some((place, bytes)) => match Frame::parse(bytes) {
                Ok(frame) if frame.first_sequence == place => frame.head(),
                Ok(_) | Err(_) => return Err(Unused::LastFrame),
            },
        };
        if end == self.head { Ok(()) } else { Err(Unused::LastFrame) }
    }
}

/// Everything after the version.
fn parse(mut rest: &[u8]) -> Option<Checkpoint<'_>> {
    let rest = &mut rest;
    let journal = JournalId(chunk(rest)?);
    let sequence = number(rest)?;
    let head = Head { sequence, hash: crate::chain::Digest(chunk(rest)?) };
    let archived = number(rest)?;
    let count = usize::try_from(number(rest)?).ok()?;
    let mut tips = part(rest, count.checked_mul(TIP_BYTES)?)?;
    let mut index = StreamIndex::with_capacity(count);
    for _ in 0..count {
        let stream = StreamId(chunk(&mut tips)?);
        let sequence = number(&mut tips)?;
        let version = u32::from_le_bytes(chunk(&mut tips)?);
        if version == 0 || sequence == 0 || sequence > head.sequence {
            return None;
        }
        index.set(stream, Tip { sequence, version });
    }
    let note_bytes = usize::try_from(number(rest)?).ok()?;
    let note = part(rest, note_bytes)?;
    let bytes = number(rest)?;
    let modified_seconds = number(rest)?;
    let modified_nanos = u32::from_le_bytes(chunk(rest)?);
    let stamp = Stamp { bytes, modified_seconds, modified_nanos };
    let whole = rest.is_empty() && index.len() == count;
    whole.then_some(Checkpoint { journal, head, archived, index, note, stamp })
}

fn chunk<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*first)
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    chunk(rest).map(u64::from_le_bytes)
}

fn part<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (first, after) = rest.split_at_checked(bytes)?;
    *rest = after;
    Some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anchor::Anchor;
    use crate::chain::Digest;
    use crate::frame::FrameBuilder;
    use crate::record::Stored;

    const JOURNAL: JournalId = JournalId([4; 16]);
    const STREAM: StreamId = StreamId([9; 16]);
    const STAMP: Stamp = Stamp { bytes: 77, modified_seconds: 5, modified_nanos: 6 };

    fn frame() -> (Vec<u8>, Head) {
        let mut frame = FrameBuilder::after(Head::genesis(JOURNAL));
        frame.push(&Stored {
            sequence: 1,
            stream: STREAM,
            version: 1,
            previous: 0,
            stored: b"body",
            chunked: false,
        });
        frame.finish()
    }

    fn sealed(journal: JournalId, head: Head, archived: u64) -> Vec<u8> {
        let tips = [(STREAM, Tip { sequence: 1, version: 1 })];
        Draft::new(journal, head, archived, &tips, b"note").seal(STAMP)
    }

    fn anchors(head: Head) -> Anchors {
        let anchor = Some(Anchor { journal: JOURNAL, head });
        Anchors { inner: anchor, outer: anchor, damaged: 0 }
    }

    fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
        bytes.truncate(bytes.len() - 32);
        let hash = checkpoint_hash(&bytes);
        bytes.extend_from_slice(&hash.0);
        bytes
    }

    #[test]
    fn a_checkpoint_reads_back_and_every_flipped_bit_and_every_cut_is_noticed() {
        let (_, head) = frame();
        let bytes = sealed(JOURNAL, head, 0);
        let read = Checkpoint::decode(&bytes).expect("it is whole");
        assert_eq!((read.journal, read.head, read.archived), (JOURNAL, head, 0));
        assert_eq!((read.note, read.stamp, read.index.len()), (&b"note"[..], STAMP, 1));
        assert_eq!(read.index.tip(STREAM), Tip { sequence: 1, version: 1 });
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Checkpoint::decode(&damaged).err(), Some(Unused::Damaged), "bit {bit}");
        }
        for length in 0..bytes.len() {
            let cut = Checkpoint::decode(&bytes[..length]).err();
            assert_eq!(cut, Some(Unused::Damaged), "cut at {length}");
        }
    }

    #[test]
    fn another_version_and_numbers_that_cannot_be_are_refused_under_a_right_hash() {
        let (_, head) = frame();
        let bytes = sealed(JOURNAL, head, 0);
        let changed = |at: usize, to: &[u8]| {
            let mut bytes = bytes.clone();
            bytes[at..at + to.len()].copy_from_slice(to);
            Checkpoint::decode(&resealed(bytes)).err()
        };
        assert_eq!(changed(3, &[2]), Some(Unused::Version));
        let huge = u64::MAX.to_le_bytes();
        let places = [(68, &huge[..]), (92, &huge), (92, &[0; 8]), (100, &[0; 4]), (104, &huge)];
        for (at, to) in places {
            assert_eq!(changed(at, to), Some(Unused::Damaged), "at {at}");
        }
        let longer = [&bytes[..bytes.len() - 32], &[0; 33]].concat();
        assert_eq!(Checkpoint::decode(&resealed(longer)).err(), Some(Unused::Damaged));
    }

    #[test]
    fn it_is_believed_only_where_everything_that_can_be_asked_for_is_as_it_says() {
        let (bytes, head) = frame();
        let left = sealed(JOURNAL, head, 0);
        let checkpoint = Checkpoint::decode(&left).expect("it is whole");
        let both = anchors(head);
        let found = || Found {
            journal: JOURNAL,
            stamp: Some(STAMP),
            anchors: &both,
            base: None,
            last: Some((1, &bytes)),
        };
        assert_eq!(checkpoint.check(&found()), Ok(()));
        let without = Anchors { outer: None, ..both.clone() };
        assert_eq!(checkpoint.check(&Found { anchors: &without, ..found() }), Ok(()));
        let other = Head { sequence: 2, ..head };
        let base = Base { head, count: 1, entries_sha256: Digest([0; 32]) };
        let other_anchor = Some(Anchor { journal: JOURNAL, head: other });
        let foreign = Some(Anchor { journal: JournalId([5; 16]), head });
        let wrong_anchors = [
            Anchors { inner: None, ..both.clone() },
            Anchors { inner: other_anchor, ..both.clone() },
            Anchors { outer: other_anchor, ..both.clone() },
            Anchors { outer: foreign, ..both.clone() },
            Anchors { damaged: 1, ..both.clone() },
        ];
        for anchors in &wrong_anchors {
            let refused = checkpoint.check(&Found { anchors, ..found() });
            assert_eq!(refused, Err(Unused::Anchor), "{anchors:?}");
        }
        let later = Stamp { modified_nanos: 7, ..STAMP };
        let mut damaged = bytes.clone();
        damaged[60] ^= 1;
        let refusals = [
            (Found { journal: JournalId([5; 16]), ..found() }, Unused::OtherJournal),
            (Found { stamp: Some(later), ..found() }, Unused::DatabaseChanged),
            (Found { stamp: None, ..found() }, Unused::DatabaseChanged),
            (Found { base: Some(base), ..found() }, Unused::Base),
            (Found { last: None, ..found() }, Unused::LastFrame),
            (Found { last: Some((2, &bytes)), ..found() }, Unused::LastFrame),
            (Found { last: Some((1, &damaged)), ..found() }, Unused::LastFrame),
        ];
        for (found, reason) in refusals {
            assert_eq!(checkpoint.check(&found), Err(reason), "{found:?}");
        }
    }

    #[test]
    fn a_journal_that_ends_at_its_base_or_has_no_record_needs_no_last_frame() {
        let genesis = Head::genesis(JOURNAL);
        let empty = Draft::new(JOURNAL, genesis, 0, &[], b"").seal(STAMP);
        let (_, head) = frame();
        let based = sealed(JOURNAL, head, 1);
        let base = Some(Base { head, count: 1, entries_sha256: Digest([0; 32]) });
        for (left, head, base) in [(empty, genesis, None), (based, head, base)] {
            let checkpoint = Checkpoint::decode(&left).expect("it is whole");
            let anchors = anchors(head);
            let found =
                Found { journal: JOURNAL, stamp: Some(STAMP), anchors: &anchors, base, last: None };
            assert_eq!(checkpoint.check(&found), Ok(()));
        }
    }
}
