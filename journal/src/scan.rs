//! Frames and chunks in raw bytes: what the files of a damaged journal still hold.
//!
//! Owns the search. Must not know which frames belong together, nor what a record says. No file is
//! opened for writing and no database is asked.
//!
//! A frame proves itself ([`crate::frame`]): one that is found anywhere is as good as one that the
//! database hands out. The database keeps older copies of what it moved, so most frames are found
//! more than once; equal hashes are one frame. A chunk is known by its hash and its length, which
//! the manifests in the frames name: wherever a wanted length stands, what follows it is hashed. Two
//! spellings of a length stand before chunks:
//!
//! | where | bytes before the chunk |
//! | --- | --- |
//! | sled's files | the length as sled writes numbers: up to 240 in one byte; up to 2,287 in two, the first 241 to 248; up to 67,823 in three, the first 249; high byte first |
//! | an archive, salvaged frames | `C` and the length in 4 bytes, little-endian |
//!
//! In sled's files values are neither compressed nor split. A leaf keeps all its keys before all its
//! values, so a chunk's key does not stand beside the chunk and is of no help.

mod chunks;
mod stretches;

use crate::archive;
use crate::chain::{Digest, Head, JournalId, chunk_hash};
use crate::chunk;
use crate::error::JournalError;
use crate::frame::{self, Frame, FrameFault, HEADER_BYTES, TRAILER_BYTES};
use crate::record::Stored;
use crate::salvage::REST_MAGIC;
use crate::sled::{META_MAGIC, META_VERSION};
use chunks::{Hunt, Wanted, pieces};
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use stretches::{over_file, read_exactly};

/// Kind, length, sequence number and hash: the last item of an archive.
const END_BYTES: usize = 5 + 8 + 32;

/// Where bytes lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    file: usize,
    offset: u64,
    length: usize,
}

/// A verified frame, and where its bytes lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Sequence number of its first record.
    pub first_sequence: u64,
    /// Sequence number of its last record.
    pub last_sequence: u64,
    /// Hash of the frame before.
    pub previous: Digest,
    /// Its own hash.
    pub hash: Digest,
    place: Place,
}

impl Found {
    /// The head this frame makes.
    #[must_use]
    pub fn head(&self) -> Head {
        Head { sequence: self.last_sequence, hash: self.hash }
    }

    /// How many records it holds.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.last_sequence - self.first_sequence + 1
    }
}

/// What the end of the file says, where the file is an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveEnd {
    /// The bytes are no archive, or a folder was scanned.
    NoArchive,
    /// The archive ends without its last item: it was cut short, or its end is damaged.
    Cut,
    /// The head that the archive ends with, unverified.
    Head(Head),
}

/// What a search found.
pub struct Scan {
    files: Vec<PathBuf>,
    bytes: u64,
    unreadable: u64,
    frames: Vec<Found>,
    seen: HashSet<Digest>,
    journals: Vec<JournalId>,
    newer: Option<u8>,
    end: ArchiveEnd,
    wanted: Wanted,
    chunks: HashMap<Digest, Place>,
}

impl Scan {
    /// Searches every file below a folder; links are not followed.
    ///
    /// # Errors
    /// What the disk answers when a folder or a file cannot be opened. What cannot be read inside of
    /// a file is counted instead.
    pub fn folder(root: &Path) -> Result<Self, JournalError> {
        let mut files = Vec::new();
        collect(root, &mut files)?;
        files.sort();
        Self::over(files, ArchiveEnd::NoArchive)
    }

    /// Searches one file.
    ///
    /// # Errors
    /// As [`Self::folder`].
    pub fn file(path: &Path) -> Result<Self, JournalError> {
        let end = archive_end(path)?;
        Self::over(vec![path.to_path_buf()], end)
    }

    fn over(files: Vec<PathBuf>, end: ArchiveEnd) -> Result<Self, JournalError> {
        let mut scan = Self {
            files,
            bytes: 0,
            unreadable: 0,
            frames: Vec::new(),
            seen: HashSet::new(),
            journals: Vec::new(),
            newer: None,
            end,
            wanted: HashMap::new(),
            chunks: HashMap::new(),
        };
        for number in 0..scan.files.len() {
            let path = scan.files[number].clone();
            let mut next = 0;
            let extent = over_file(&path, &mut |at, bytes, starts| {
                next = scan.look(number, at, bytes, starts, next);
            })?;
            scan.bytes += extent.bytes;
            scan.unreadable += extent.unreadable;
        }
        // Later frames never come before the ones they follow; equal numbers in a fixed order.
        scan.frames.sort_unstable_by_key(|found| (found.first_sequence, found.hash));
        scan.find_chunks()?;
        Ok(scan)
    }

    /// Bytes that were looked at.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes among them that the disk did not give.
    #[must_use]
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Every verified frame once, by first sequence number and hash.
    #[must_use]
    pub fn frames(&self) -> &[Found] {
        &self.frames
    }

    /// Journal ids that stand in the bytes, unverified.
    #[must_use]
    pub fn journals(&self) -> &[JournalId] {
        &self.journals
    }

    /// The version of a frame that a newer library wrote, if one was met.
    #[must_use]
    pub fn newer(&self) -> Option<u8> {
        self.newer
    }

    /// What the end of an archive says.
    #[must_use]
    pub fn end(&self) -> ArchiveEnd {
        self.end
    }

    /// Whether every chunk of a record's body was found.
    #[must_use]
    pub fn has_body(&self, stored: &Stored<'_>) -> bool {
        !stored.chunked
            || chunk::hashes(stored.stored)
                .is_some_and(|hashes| hashes.iter().all(|hash| self.chunks.contains_key(hash)))
    }

    /// Reads again what was found.
    #[must_use]
    pub fn reader(&self) -> Reader<'_> {
        Reader { scan: self, open: None }
    }

    /// Takes everything that starts in the first `starts` bytes, from `next` on; answers where the
    /// next thing may start. Bytes inside of a verified frame belong to it.
    fn look(&mut self, file: usize, at: u64, bytes: &[u8], starts: usize, next: u64) -> u64 {
        let mut place = next.saturating_sub(at) as usize;
        while place < starts {
            let rest = &bytes[place..];
            place += if rest[0] == b'L' { self.take(file, at + place as u64, rest) } else { 1 };
        }
        at + place as u64
    }

    /// Takes what `bytes` start with; answers how far to go on.
    fn take(&mut self, file: usize, offset: u64, bytes: &[u8]) -> usize {
        if bytes.starts_with(&frame::MAGIC) {
            return self.take_frame(file, offset, bytes).unwrap_or(1);
        }
        if let Some(id) = journal_at(bytes, offset)
            && !self.journals.contains(&id)
        {
            self.journals.push(id);
        }
        1
    }

    fn take_frame(&mut self, file: usize, offset: u64, bytes: &[u8]) -> Option<usize> {
        let body = u32::from_le_bytes(bytes.get(14..18)?.try_into().ok()?) as usize;
        let length = body.checked_add(HEADER_BYTES + TRAILER_BYTES)?;
        let frame = match Frame::parse(bytes.get(..length)?) {
            Ok(frame) => frame,
            Err(FrameFault::Newer(version)) => {
                self.newer = Some(version);
                return None;
            }
            Err(FrameFault::Shape | FrameFault::Hash | FrameFault::Records) => return None,
        };
        let records = frame.records().ok()?;
        if self.seen.insert(frame.hash) {
            for stored in records.iter().filter(|stored| stored.chunked) {
                for (hash, length) in pieces(stored.stored) {
                    self.wanted.entry(length).or_default().insert(hash);
                }
            }
            self.frames.push(Found {
                first_sequence: frame.first_sequence,
                last_sequence: frame.last_sequence(),
                previous: frame.previous,
                hash: frame.hash,
                place: Place { file, offset, length },
            });
        }
        Some(length)
    }

    fn find_chunks(&mut self) -> Result<(), JournalError> {
        let mut hunt = Hunt::new(std::mem::take(&mut self.wanted));
        for (file, path) in self.files.iter().enumerate() {
            if hunt.is_over() {
                break;
            }
            over_file(path, &mut |at, bytes, starts| hunt.look(file, at, bytes, starts))?;
        }
        self.chunks = hunt.into_found();
        Ok(())
    }
}

/// Reads found frames and chunks again, verifying them once more.
pub struct Reader<'a> {
    scan: &'a Scan,
    open: Option<(usize, File)>,
}

impl Reader<'_> {
    /// A found frame's bytes.
    ///
    /// # Errors
    /// [`JournalError::Corrupt`] when the file was changed meanwhile; what the disk answers.
    pub fn frame(&mut self, found: &Found) -> Result<Vec<u8>, JournalError> {
        let bytes = self.bytes(found.place)?;
        if Frame::parse(&bytes).is_ok_and(|frame| frame.hash == found.hash) {
            Ok(bytes)
        } else {
            Err(JournalError::Corrupt { sequence: found.first_sequence })
        }
    }

    /// A chunk; `None` when it was not found.
    ///
    /// # Errors
    /// As [`Self::frame`], without a sequence number.
    pub fn chunk(&mut self, hash: &Digest) -> Result<Option<Vec<u8>>, JournalError> {
        let Some(place) = self.scan.chunks.get(hash).copied() else { return Ok(None) };
        let bytes = self.bytes(place)?;
        if chunk_hash(&bytes) == *hash {
            Ok(Some(bytes))
        } else {
            Err(JournalError::Corrupt { sequence: 0 })
        }
    }

    fn bytes(&mut self, place: Place) -> Result<Vec<u8>, JournalError> {
        if self.open.as_ref().is_none_or(|(number, _)| *number != place.file) {
            self.open = Some((place.file, File::open(&self.scan.files[place.file])?));
        }
        let Some((_, file)) = &mut self.open else { return Err(JournalError::Storage) };
        let mut bytes = vec![0; place.length];
        read_exactly(file, place.offset, &mut bytes)?;
        Ok(bytes)
    }
}

/// The journal id that `bytes` start with: the database's own note, or the start of a file of ours.
fn journal_at(bytes: &[u8], offset: u64) -> Option<JournalId> {
    let id = match bytes.strip_prefix(&META_MAGIC) {
        Some(rest) => rest.strip_prefix(&META_VERSION.to_le_bytes())?,
        None if offset == 0 => {
            bytes.strip_prefix(&archive::MAGIC).or_else(|| bytes.strip_prefix(&REST_MAGIC))?
        }
        None => return None,
    };
    let id: [u8; 16] = id.get(..16)?.try_into().ok()?;
    // Salvaged frames of an unknown journal name it with zeros.
    (id != [0; 16]).then_some(JournalId(id))
}

/// Regular files below a folder.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), JournalError> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect(&entry.path(), files)?;
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// Whether a file starts as an archive, and what its last item says then.
fn archive_end(path: &Path) -> Result<ArchiveEnd, JournalError> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut start = [0; 4];
    if read_exactly(&mut file, 0, &mut start).is_err() || start != archive::MAGIC {
        return Ok(ArchiveEnd::NoArchive);
    }
    let mut end = [0; END_BYTES];
    let at = length.checked_sub(END_BYTES as u64);
    let read = at.is_some_and(|at| read_exactly(&mut file, at, &mut end).is_ok());
    let head = end.strip_prefix(&[b'E', 40, 0, 0, 0]).filter(|_| read).and_then(|head| {
        let (sequence, hash) = head.split_first_chunk::<8>()?;
        let hash = Digest(hash.try_into().ok()?);
        Some(Head { sequence: u64::from_le_bytes(*sequence), hash })
    });
    Ok(head.map_or(ArchiveEnd::Cut, ArchiveEnd::Head))
}

#[cfg(test)]
mod tests {
    use super::stretches::{REACH_BYTES, STEP_BYTES};
    use super::*;
    use crate::chunk::CHUNK_BYTES;
    use crate::frame::FrameBuilder;
    use crate::record::StreamId;

    /// A chain of frames of one record each, the second one's body in chunks.
    fn frames(body: &[u8]) -> Vec<Vec<u8>> {
        let cut = chunk::cut(body).expect("within the limit");
        let mut head = Head::genesis(JournalId([7; 16]));
        let mut frames = Vec::new();
        for (stored, chunked) in [(&b"first"[..], false), (cut.manifest.as_slice(), true)] {
            let mut builder = FrameBuilder::after(head);
            let (sequence, stream) = (builder.next_sequence(), StreamId([frames.len() as u8; 16]));
            builder.push(&Stored { sequence, stream, version: 1, previous: 0, stored, chunked });
            let (bytes, after) = builder.finish();
            frames.push(bytes);
            head = after;
        }
        frames
    }

    fn scan(bytes: &[u8]) -> Scan {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("file"), bytes).expect("writable");
        let scan = Scan::folder(folder.path()).expect("readable");
        assert_eq!(scan.bytes(), bytes.len() as u64);
        scan
    }

    fn sequences(scan: &Scan) -> Vec<u64> {
        scan.frames().iter().map(|found| found.first_sequence).collect()
    }

    #[test]
    fn frames_are_found_wherever_they_lie_and_equal_ones_are_one() {
        let frames = frames(&[5; 20_000]);
        for before in [0, 1, STEP_BYTES - 30, STEP_BYTES, STEP_BYTES * 2 + REACH_BYTES - 1] {
            let noise = vec![b'L'; before];
            let bytes = [noise.as_slice(), &frames[1], &frames[0], b"LHF\x01", &frames[0]].concat();
            assert_eq!(sequences(&scan(&bytes)), [1, 2], "after {before} bytes");
        }
    }

    #[test]
    fn a_frame_with_a_flipped_bit_or_cut_short_is_not_found_and_the_next_one_is() {
        let frames = frames(&[5; 20_000]);
        for bit in 0..frames[0].len() * 8 {
            let mut bytes = frames.concat();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(sequences(&scan(&bytes)), [2], "bit {bit}");
        }
        let cut = &frames[1][..frames[1].len() - 1];
        assert_eq!(sequences(&scan(&[frames[0].as_slice(), cut].concat())), [1]);
    }

    #[test]
    fn chunks_are_found_behind_both_spellings_of_their_length_and_not_when_damaged() {
        for size in [CHUNK_BYTES + 7, CHUNK_BYTES + 240, CHUNK_BYTES + 2287, CHUNK_BYTES * 2] {
            let body: Vec<u8> = (0..size).map(|at| (at / 3) as u8).collect();
            let frames = frames(&body);
            for of_sled in [true, false] {
                let mut bytes = frames.concat();
                let mut last = 0;
                for piece in body.chunks(CHUNK_BYTES) {
                    let length = piece.len();
                    let number = match (of_sled, length) {
                        (false, _) => [&b"C"[..], &(length as u32).to_le_bytes()].concat(),
                        (true, 0..=240) => vec![length as u8],
                        (true, 241..=2287) => {
                            vec![((length - 240) / 256 + 241) as u8, ((length - 240) % 256) as u8]
                        }
                        (true, _) => {
                            vec![249, ((length - 2288) / 256) as u8, ((length - 2288) % 256) as u8]
                        }
                    };
                    bytes.extend_from_slice(&number);
                    last = bytes.len();
                    bytes.extend_from_slice(piece);
                }
                let whole = scan(&bytes);
                assert_eq!(whole.chunks.len(), body.len().div_ceil(CHUNK_BYTES), "{size}");
                bytes[last] ^= 1;
                assert_eq!(scan(&bytes).chunks.len(), 1, "{size}: the last one is damaged");
            }
        }
    }

    #[test]
    fn what_is_read_again_is_verified_again() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("file");
        let frames = frames(&[5; 20_000]);
        std::fs::write(&path, frames.concat()).expect("writable");
        let scan = Scan::file(&path).expect("readable");
        let found = scan.frames()[1];
        assert_eq!(scan.reader().frame(&found).as_ref(), Ok(&frames[1]));
        let mut changed = frames.concat();
        *changed.last_mut().expect("not empty") ^= 1;
        std::fs::write(&path, changed).expect("writable");
        let corrupt = Err(JournalError::Corrupt { sequence: 2 });
        assert_eq!(scan.reader().frame(&found), corrupt);
    }

    #[test]
    fn an_archives_end_is_told_from_a_cut_one_and_from_no_archive() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("file");
        let end = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("writable");
            archive_end(&path).expect("readable")
        };
        let mut bytes = b"LHX1".to_vec();
        bytes.extend_from_slice(&[3; 16]);
        bytes.extend_from_slice(&[b'E', 40, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(&[8; 32]);
        let head = Head { sequence: 9, hash: Digest([8; 32]) };
        assert_eq!(end(&bytes), ArchiveEnd::Head(head));
        for length in 4..bytes.len() {
            assert_eq!(end(&bytes[..length]), ArchiveEnd::Cut, "cut at {length}");
        }
        assert_eq!(end(&bytes[..3]), ArchiveEnd::NoArchive);
        assert_eq!(end(b"a letter"), ArchiveEnd::NoArchive);
    }
}
