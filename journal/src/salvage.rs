//! Everything verifiable out of a damaged journal, and what is missing.
//!
//! Owns which of the frames that were found belong together, what cannot be had any more, and the
//! files that are made of it. Must not know what a record says, nor ask the database: it may be what
//! is broken.
//!
//! Frames that follow from the genesis hash without a gap are an ordinary journal: they are written
//! as an archive, or into a new folder, with the sequence numbers, hashes and id they have. A gap is
//! never bridged: what lies behind one proves itself frame by frame and not as a whole, and goes to a
//! file of its own.
//!
//! # Bytes of salvaged frames
//!
//! | size | field |
//! | --- | --- |
//! | 4 | `LHS1` |
//! | 16 | journal id; zeros when it could not be told |
//! | items | as in an archive ([`crate::archive`]): `C` a chunk, `F` a frame, by sequence number and not necessarily a chain |
//! | 13 | `E`, the length 8, and the number of frames, little-endian |

mod history;
mod survey;
mod writing;

pub use history::{Fork, Span, Standing};

use crate::anchor::{self, Anchor, Reading};
use crate::chain::{Digest, Head, JournalId};
use crate::error::JournalError;
use crate::folder::{self, Layout, Lock};
use crate::scan::{ArchiveEnd, Scan};
use history::{Arranged, arrange, gaps, joined, spans};
use std::collections::HashSet;
use std::path::Path;
use survey::Survey;

/// First bytes of a file of salvaged frames.
pub const REST_MAGIC: [u8; 4] = *b"LHS1";

/// What the raw bytes of a folder or a file still hold. A folder stays locked for reading as long as
/// this exists.
pub struct Salvage {
    scan: Scan,
    inner: Option<Reading>,
    outer: Option<Reading>,
    journal: Option<JournalId>,
    /// Frames from the genesis on, without a gap, as places in the scan.
    prefix: Vec<usize>,
    /// Frames behind a gap.
    rest: Vec<usize>,
    /// Verified frames of another history than the one that is kept.
    aside: Vec<usize>,
    head: Option<Head>,
    survey: Survey,
    _lock: Option<Lock>,
}

impl Salvage {
    /// Searches a journal's folder, or a file: an archive, salvaged frames, a database's file.
    ///
    /// # Errors
    /// [`JournalError::Missing`], [`JournalError::NotAJournal`] for a folder without a database and
    /// without an anchor, and for a file with nothing of ours in it, [`JournalError::Locked`] while an
    /// engine has the folder open; what the disk answers.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        if path.is_file() {
            let salvage = Self::of(Scan::file(path)?, None, None, None)?;
            let nothing = salvage.scan.frames().is_empty() && salvage.journal.is_none();
            return match salvage.scan.newer() {
                Some(version) if nothing => Err(JournalError::Newer { version: version.into() }),
                None if nothing => Err(JournalError::NotAJournal),
                Some(_) | None => Ok(salvage),
            };
        }
        let layout = Layout::new(path);
        if !layout.root().exists() {
            return Err(JournalError::Missing);
        }
        if !layout.database().is_dir() && !layout.anchor().is_file() {
            return Err(JournalError::NotAJournal);
        }
        let lock = folder::take_for_reading(&layout)?;
        let (inner, outer) = (reading(&layout.anchor()), reading(&layout.outer_anchor()?));
        Self::of(Scan::folder(layout.root())?, inner, outer, lock)
    }

    fn of(
        scan: Scan,
        inner: Option<Reading>,
        outer: Option<Reading>,
        lock: Option<Lock>,
    ) -> Result<Self, JournalError> {
        let newest = |reading: Option<Reading>| reading.and_then(|reading| reading.newest);
        let anchors: Vec<Anchor> = [newest(inner), newest(outer)].into_iter().flatten().collect();
        let journal = journal_of(&scan, &anchors);
        let mut heads: Vec<Head> = anchors
            .iter()
            .filter(|anchor| Some(anchor.journal) == journal)
            .map(|anchor| anchor.head)
            .collect();
        if let ArchiveEnd::Head(head) = scan.end() {
            heads.push(head);
        }
        let genesis = journal.map(|id| Head::genesis(id).hash);
        let Arranged { mut prefix, rest, aside } = arrange(scan.frames(), genesis, &heads);
        let survey = Survey::over(&scan, journal, &prefix, &rest)?;
        // What does not follow stream by stream (J4) is no journal from there on, chain or not.
        let rest = [prefix.split_off(survey.walked), rest].concat();
        let head = match prefix.last() {
            Some(last) => Some(scan.frames()[*last].head()),
            None => journal.map(Head::genesis),
        };
        Ok(Self { scan, inner, outer, journal, prefix, rest, aside, head, survey, _lock: lock })
    }

    /// The search itself.
    #[must_use]
    pub fn scan(&self) -> &Scan {
        &self.scan
    }

    /// The journal, if it can be told: by its first frame, or else by an anchor.
    #[must_use]
    pub fn journal(&self) -> Option<JournalId> {
        self.journal
    }

    /// Where the part without a gap ends; the genesis when its first frame is gone.
    #[must_use]
    pub fn head(&self) -> Option<Head> {
        self.head
    }

    /// Records in the part without a gap.
    #[must_use]
    pub fn prefix_records(&self) -> u64 {
        self.prefix.iter().map(|at| self.scan.frames()[*at].records()).sum()
    }

    /// Records behind a gap.
    #[must_use]
    pub fn rest_records(&self) -> u64 {
        self.rest.iter().map(|at| self.scan.frames()[*at].records()).sum()
    }

    /// Frames that are kept, before and behind gaps.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.prefix.len() + self.rest.len()
    }

    /// The sequence numbers that are kept.
    #[must_use]
    pub fn kept(&self) -> Vec<Span> {
        let frames = self.prefix.iter().chain(&self.rest).map(|at| &self.scan.frames()[*at]);
        joined(frames.map(|frame| Span { first: frame.first_sequence, last: frame.last_sequence }))
    }

    /// The sequence numbers that are gone, up to the last one that a kept frame or an anchor knows.
    #[must_use]
    pub fn missing(&self) -> Vec<Span> {
        let known = [self.inner, self.outer].into_iter().flatten().filter_map(|it| it.newest);
        let known = known.filter(|anchor| Some(anchor.journal) == self.journal);
        gaps(&self.kept(), known.map(|anchor| anchor.head.sequence).max().unwrap_or(0))
    }

    /// Records whose frame is kept and whose body is gone with its chunks.
    #[must_use]
    pub fn bodies_missing(&self) -> Vec<Span> {
        spans(&self.survey.bodies_missing)
    }

    /// The first frame of the chain whose streams do not follow (J4), by its sequence number.
    #[must_use]
    pub fn unfollowed_from(&self) -> Option<u64> {
        self.survey.unfollowed_from
    }

    /// Verified frames that are not kept, since others of the same numbers are.
    #[must_use]
    pub fn forks(&self) -> Vec<Fork> {
        let frames = self.aside.iter().map(|at| &self.scan.frames()[*at]);
        frames
            .map(|frame| Fork {
                first: frame.first_sequence,
                last: frame.last_sequence,
                hash: frame.hash,
            })
            .collect()
    }

    /// Streams whose records are all there, from version 1 to the last one found.
    #[must_use]
    pub fn streams_whole(&self) -> usize {
        self.survey.index.len() - self.survey.broken.len()
    }

    /// Streams with a record that is known to be missing.
    #[must_use]
    pub fn streams_broken(&self) -> usize {
        self.survey.broken.len()
    }

    /// The anchor inside the folder, and whether the part without a gap reaches it.
    #[must_use]
    pub fn inner(&self) -> (Standing, Option<Reading>) {
        (self.standing(self.inner), self.inner)
    }

    /// The anchor beside the folder.
    #[must_use]
    pub fn outer(&self) -> (Standing, Option<Reading>) {
        (self.standing(self.outer), self.outer)
    }

    /// Whether the head that an archive ends with is reached; true for what is no archive.
    #[must_use]
    pub fn end_reached(&self) -> bool {
        match self.scan.end() {
            ArchiveEnd::NoArchive => true,
            ArchiveEnd::Cut => false,
            ArchiveEnd::Head(head) => self.holds(head),
        }
    }

    /// Whether nothing is known to be missing.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let behind =
            [self.inner, self.outer].map(|reading| self.standing(reading) == Standing::NotReached);
        self.journal.is_some()
            && self.has_prefix()
            && self.rest.is_empty()
            && !behind.contains(&true)
            && self.end_reached()
            && self.survey.bodies_missing.is_empty()
            && self.scan.newer().is_none()
    }

    /// Whether nothing was found where something was, or nothing at all.
    #[must_use]
    pub fn is_empty_handed(&self) -> bool {
        self.scan.frames().is_empty() && !(self.is_complete() && self.scan.unreadable() == 0)
    }

    /// Whether there is a part without a gap, or a journal that never had records.
    #[must_use]
    pub fn has_prefix(&self) -> bool {
        !self.prefix.is_empty() || (self.journal.is_some() && self.scan.frames().is_empty())
    }

    /// Whether there are frames that are no part of that.
    #[must_use]
    pub fn has_rest(&self) -> bool {
        !self.rest.is_empty() || !self.aside.is_empty()
    }

    fn holds(&self, head: Head) -> bool {
        head.sequence == 0 || self.prefix.iter().any(|at| self.scan.frames()[*at].head() == head)
    }

    fn standing(&self, reading: Option<Reading>) -> Standing {
        match reading.map(|reading| reading.newest) {
            None => Standing::Absent,
            Some(None) => Standing::Damaged,
            Some(Some(anchor)) if Some(anchor.journal) != self.journal => Standing::OtherJournal,
            Some(Some(anchor)) if self.holds(anchor.head) => Standing::Reached,
            Some(Some(_)) => Standing::NotReached,
        }
    }
}

/// The journal that the bytes belong to: the one whose genesis a found frame follows; or else the one
/// that an anchor names, which verifies by itself. An id that merely stands in the bytes may be
/// damaged and is believed only where no first frame contradicts it.
fn journal_of(scan: &Scan, anchors: &[Anchor]) -> Option<JournalId> {
    let firsts: HashSet<Digest> = scan
        .frames()
        .iter()
        .filter(|found| found.first_sequence == 1)
        .map(|found| found.previous)
        .collect();
    let named = anchors.iter().map(|anchor| anchor.journal);
    let proven = named
        .clone()
        .chain(scan.journals().iter().copied())
        .find(|id| firsts.contains(&Head::genesis(*id).hash));
    let noted = scan.journals().first().copied().filter(|_| firsts.is_empty());
    proven.or_else(|| named.clone().next()).or(noted)
}

/// Reads an anchor. One that the disk does not give counts as one that does not verify.
fn reading(path: &Path) -> Option<Reading> {
    anchor::read(path).unwrap_or(Some(Reading { newest: None, turn: 0, damaged: 2 }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anchor::AnchorFile;
    use crate::archive;
    use crate::chunk;
    use crate::frame::FrameBuilder;
    use crate::memory::MemoryDisk;
    use crate::record::{Stored, StreamId};
    use tempfile::TempDir;

    const ID: JournalId = JournalId([7; 16]);

    /// A frame of one record, and the head it makes. A stream's first record has no predecessor.
    fn frame(
        head: Head,
        stream: u8,
        tip: (u32, u64),
        stored: &[u8],
        chunked: bool,
    ) -> (Vec<u8>, Head) {
        let mut builder = FrameBuilder::after(head);
        let (version, previous) = (tip.0 + 1, tip.1);
        let (sequence, stream) = (builder.next_sequence(), StreamId([stream; 16]));
        builder.push(&Stored { sequence, stream, version, previous, stored, chunked });
        builder.finish()
    }

    /// Five frames, of streams of their own, and their heads.
    fn chain() -> Vec<(Vec<u8>, Head)> {
        let mut head = Head::genesis(ID);
        let frames = (1..=5).map(|number| {
            let made = frame(head, number, (0, 0), b"body", false);
            head = made.1;
            made
        });
        frames.collect()
    }

    /// A journal's folder whose database file holds these bytes and nothing that a database reads.
    fn folder(pieces: &[&[u8]], anchor: Option<Head>) -> TempDir {
        let place = tempfile::tempdir().expect("a temporary folder");
        let root = place.path().join("journal");
        std::fs::create_dir_all(root.join("db")).expect("a folder");
        let mut bytes = [&b"LHJ1"[..], &1_u16.to_le_bytes(), &ID.0].concat();
        for piece in pieces {
            bytes.extend_from_slice(b"noise");
            bytes.extend_from_slice(piece);
        }
        std::fs::write(root.join("db").join("db"), bytes).expect("writable");
        if let Some(head) = anchor {
            let anchor = Anchor { journal: ID, head };
            AnchorFile::create(&root.join("anchor"), &anchor, 0).expect("a new file");
        }
        place
    }

    fn open(place: &TempDir) -> Salvage {
        Salvage::open(&place.path().join("journal")).expect("readable")
    }

    fn span(first: u64, last: u64) -> Span {
        Span { first, last }
    }

    #[test]
    fn a_whole_chain_is_an_archive_and_a_journal_again() {
        let chain = chain();
        let head = chain[4].1;
        let pieces: Vec<&[u8]> = chain.iter().rev().map(|made| made.0.as_slice()).collect();
        let place = folder(&pieces, Some(head));
        let salvage = open(&place);
        assert!(salvage.is_complete() && !salvage.has_rest() && !salvage.is_empty_handed());
        assert_eq!(salvage.inner().0, Standing::Reached);
        assert_eq!((salvage.streams_whole(), salvage.streams_broken()), (5, 0));
        let mut out = Vec::new();
        assert_eq!(salvage.write_archive(&mut out), Ok(head));
        assert_eq!(archive::read(&mut out.as_slice(), &mut |_| Ok(())), Ok((ID, head)));
        assert_eq!(salvage.restore(MemoryDisk::new().medium()), Ok(head));
    }

    #[test]
    fn a_gap_is_named_and_never_bridged() {
        let chain = chain();
        let place = folder(&[&chain[4].0, &chain[0].0, &chain[1].0, &chain[3].0], Some(chain[4].1));
        let salvage = open(&place);
        assert_eq!(salvage.missing(), [span(3, 3)]);
        assert_eq!(salvage.kept(), [span(1, 2), span(4, 5)]);
        assert_eq!((salvage.inner().0, salvage.is_complete()), (Standing::NotReached, false));
        let mut out = Vec::new();
        assert_eq!(salvage.write_archive(&mut out), Ok(chain[1].1));
        let mut rest = Vec::new();
        assert_eq!(salvage.write_rest(&mut rest), Ok(2));
        // What was put aside can itself be searched.
        let path = place.path().join("rest");
        std::fs::write(&path, rest).expect("writable");
        let again = Salvage::open(&path).expect("readable");
        assert_eq!((again.kept(), again.has_prefix()), (vec![span(4, 5)], false));
    }

    #[test]
    fn a_tail_that_only_an_anchor_knows_is_missing_and_without_one_nobody_can_tell() {
        let chain = chain();
        let there = [chain[0].0.as_slice(), &chain[1].0];
        let salvage = open(&folder(&there, Some(chain[4].1)));
        assert_eq!((salvage.missing(), salvage.is_complete()), (vec![span(3, 5)], false));
        let salvage = open(&folder(&there, None));
        assert_eq!((salvage.missing(), salvage.is_complete()), (Vec::new(), true));
        assert_eq!(salvage.inner().0, Standing::Absent);
    }

    #[test]
    fn of_two_frames_with_one_number_the_one_in_the_chain_is_kept_and_the_other_named() {
        let chain = chain();
        let (other, after) = frame(chain[1].1, 9, (0, 0), b"another", false);
        let pieces = [chain[0].0.as_slice(), &chain[1].0, &other, &chain[2].0, &chain[3].0];
        let salvage = open(&folder(&pieces, None));
        assert_eq!(salvage.head(), Some(chain[3].1));
        assert_eq!(salvage.forks(), [Fork { first: 3, last: 3, hash: after.hash }]);
        assert!(salvage.is_complete() && salvage.has_rest());
        // An anchor outweighs a longer history.
        let salvage = open(&folder(&pieces, Some(after)));
        assert_eq!((salvage.head(), salvage.forks().len()), (Some(after), 2));
    }

    #[test]
    fn a_chain_whose_streams_do_not_follow_ends_there() {
        let (first, head) = frame(Head::genesis(ID), 1, (0, 0), b"body", false);
        let (second, _) = frame(head, 1, (6, 1), b"body", false);
        let salvage = open(&folder(&[&first, &second], None));
        assert_eq!((salvage.head(), salvage.unfollowed_from()), (Some(head), Some(2)));
        assert_eq!((salvage.is_complete(), salvage.streams_broken()), (false, 1));
    }

    #[test]
    fn a_body_without_its_chunks_is_named_and_its_record_kept() {
        let body = vec![b'x'; 70_000];
        let cut = chunk::cut(&body).expect("within the limit");
        let (bytes, head) = frame(Head::genesis(ID), 1, (0, 0), &cut.manifest, true);
        let place = folder(&[&bytes], Some(head));
        let salvage = open(&place);
        assert_eq!((salvage.bodies_missing(), salvage.is_complete()), (vec![span(1, 1)], false));
        assert_eq!(salvage.restore(MemoryDisk::new().medium()), Ok(head));
        let numbers: [&[u8]; 2] = [&[249, 247, 16], &[249, 8, 128]];
        let pieces = [
            &bytes,
            &[numbers[0], cut.chunks[0].1].concat(),
            &[numbers[1], cut.chunks[1].1].concat(),
        ];
        let pieces: Vec<&[u8]> = pieces.iter().map(|piece| piece.as_slice()).collect();
        let salvage = open(&folder(&pieces, Some(head)));
        assert_eq!((salvage.bodies_missing(), salvage.is_complete()), (Vec::new(), true));
    }

    #[test]
    fn what_is_no_journal_is_refused_and_what_holds_nothing_is_told() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let missing = place.path().join("none");
        assert_eq!(Salvage::open(&missing).err(), Some(JournalError::Missing));
        assert_eq!(Salvage::open(place.path()).err(), Some(JournalError::NotAJournal));
        let letter = place.path().join("letter");
        std::fs::write(&letter, "dear").expect("writable");
        assert_eq!(Salvage::open(&letter).err(), Some(JournalError::NotAJournal));
        let chain = chain();
        let salvage = open(&folder(&[], Some(chain[4].1)));
        assert!(salvage.is_empty_handed(), "five records were there");
        let salvage = open(&folder(&[], Some(Head::genesis(ID))));
        assert!(!salvage.is_empty_handed() && salvage.has_prefix(), "it never had any");
    }
}
