//! A frame: the records of one group commit under one header and one hash.
//!
//! Owns the frame's bytes. Must not know where frames are kept or what records mean.
//!
//! # Bytes
//!
//! | at | size | field |
//! | --- | --- | --- |
//! | 0 | 3 | `LHF` |
//! | 3 | 1 | format version, 1 |
//! | 4 | 8 | sequence number of the first record, little-endian |
//! | 12 | 2 | number of records, 1 to 65,535, little-endian |
//! | 14 | 4 | body length in bytes, little-endian |
//! | 18 | 32 | hash of the frame before, or the genesis hash (J3) |
//! | 50 | n | body: the records, one after another ([`crate::record`]) |
//! | 50 + n | 8 | the first eight bytes of this frame's own hash |
//!
//! The own hash ([`crate::chain::frame_hash`]) is over everything before it. Eight bytes
//! of it are kept here so that a frame proves itself when it is found alone in a damaged file; the whole of it
//! stands in the next frame and in the anchor. Magic, version and the place of the own hash stay where
//! they are in every later version. One frame is at most [`FRAME_BYTES_MAX`] bytes.

use crate::chain::{Digest, Head, frame_hash};
use crate::record::{self, Stored};

/// First bytes of every frame.
pub const MAGIC: [u8; 3] = *b"LHF";
/// The version this library writes.
pub const VERSION: u8 = 1;
/// Bytes before the body.
pub const HEADER_BYTES: usize = 50;
/// Bytes after the body.
pub const TRAILER_BYTES: usize = 8;
/// Largest frame, trailer included: larger values would leave sled's file for one it never syncs.
pub const FRAME_BYTES_MAX: usize = 64 * 1024;
/// Largest body.
pub const BODY_BYTES_MAX: usize = FRAME_BYTES_MAX - HEADER_BYTES - TRAILER_BYTES;

/// Why bytes are no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameFault {
    /// Cut short, oversized, or not a frame at all.
    Shape,
    /// A version this library does not know.
    Newer(u8),
    /// The bytes do not match their hash.
    Hash,
    /// The hash matches and the records inside do not parse.
    Records,
}

/// Builds one frame; records are pushed in order.
#[derive(Debug)]
pub struct FrameBuilder {
    first_sequence: u64,
    count: u16,
    bytes: Vec<u8>,
}

impl FrameBuilder {
    /// An empty frame that follows `head`.
    #[must_use]
    pub fn after(head: Head) -> Self {
        let first_sequence = head.sequence + 1;
        let mut bytes = Vec::with_capacity(4096);
        bytes.extend_from_slice(&MAGIC);
        bytes.push(VERSION);
        bytes.extend_from_slice(&first_sequence.to_le_bytes());
        bytes.extend_from_slice(&[0; 6]);
        bytes.extend_from_slice(&head.hash.0);
        Self { first_sequence, count: 0, bytes }
    }

    /// Sequence number the next record would get.
    #[must_use]
    pub fn next_sequence(&self) -> u64 {
        self.first_sequence + u64::from(self.count)
    }

    /// Whether no record was pushed yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether `records` more records of `bytes` bytes altogether, headers included, still fit.
    #[must_use]
    pub fn fits(&self, records: usize, bytes: usize) -> bool {
        self.bytes.len() - HEADER_BYTES + bytes <= BODY_BYTES_MAX
            && usize::from(self.count) + records <= usize::from(u16::MAX)
    }

    /// Adds one record. Its sequence number is [`Self::next_sequence`].
    pub fn push(&mut self, record: &Stored<'_>) {
        debug_assert_eq!(record.sequence, self.next_sequence(), "J2: records are pushed in order");
        record::write(&mut self.bytes, record);
        self.count += 1;
    }

    /// The finished bytes and the head they make.
    #[must_use]
    pub fn finish(mut self) -> (Vec<u8>, Head) {
        let length = u32::try_from(self.bytes.len() - HEADER_BYTES)
            .expect("a body is bounded by BODY_BYTES_MAX");
        self.bytes[12..14].copy_from_slice(&self.count.to_le_bytes());
        self.bytes[14..18].copy_from_slice(&length.to_le_bytes());
        let hash = frame_hash(&self.bytes);
        self.bytes.extend_from_slice(&hash.0[..TRAILER_BYTES]);
        let sequence = self.first_sequence + u64::from(self.count) - 1;
        (self.bytes, Head { sequence, hash })
    }
}

/// A frame whose bytes match their hash.
#[derive(Clone, Copy)]
pub struct Frame<'a> {
    bytes: &'a [u8],
    /// Sequence number of the first record.
    pub first_sequence: u64,
    /// Number of records.
    pub count: u16,
    /// Hash of the frame before.
    pub previous: Digest,
    /// This frame's own hash.
    pub hash: Digest,
}

impl<'a> Frame<'a> {
    /// Checks shape and hash. The records are checked as they are read.
    ///
    /// # Errors
    /// [`FrameFault`]; never panics, whatever the bytes.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, FrameFault> {
        if bytes.len() < HEADER_BYTES + TRAILER_BYTES
            || bytes.len() > FRAME_BYTES_MAX
            || bytes[..3] != MAGIC
        {
            return Err(FrameFault::Shape);
        }
        // The hash stands at the same place in every version, so that one flipped bit in the version
        // is damage and not a newer journal.
        let (hashed, trailer) = bytes.split_at(bytes.len() - TRAILER_BYTES);
        let hash = frame_hash(hashed);
        if hash.0[..TRAILER_BYTES] != *trailer {
            return Err(FrameFault::Hash);
        }
        if bytes[3] > VERSION {
            return Err(FrameFault::Newer(bytes[3]));
        }
        let first_sequence = u64::from_le_bytes(fixed(bytes, 4));
        let count = u16::from_le_bytes(fixed(bytes, 12));
        let length = u32::from_le_bytes(fixed(bytes, 14)) as usize;
        let last = first_sequence.checked_add(u64::from(count));
        if length + HEADER_BYTES + TRAILER_BYTES != bytes.len()
            || bytes[3] != VERSION
            || count == 0
            || first_sequence == 0
            || last.is_none()
        {
            return Err(FrameFault::Shape);
        }
        Ok(Self { bytes, first_sequence, count, previous: Digest(fixed(bytes, 18)), hash })
    }

    /// Sequence number of the last record.
    #[must_use]
    pub fn last_sequence(&self) -> u64 {
        self.first_sequence + u64::from(self.count) - 1
    }

    /// The head this frame makes.
    #[must_use]
    pub fn head(&self) -> Head {
        Head { sequence: self.last_sequence(), hash: self.hash }
    }

    /// The records with their offsets in the frame, in order.
    ///
    /// # Errors
    /// [`FrameFault::Records`] when the body is not exactly `count` records.
    pub fn records(&self) -> Result<Vec<Stored<'a>>, FrameFault> {
        let body = &self.bytes[HEADER_BYTES..self.bytes.len() - TRAILER_BYTES];
        let mut records = Vec::with_capacity(usize::from(self.count));
        let mut at = 0;
        for sequence in self.first_sequence..=self.last_sequence() {
            let (record, used) = record::read(&body[at..], sequence).ok_or(FrameFault::Records)?;
            records.push(record);
            at += used;
        }
        if at == body.len() { Ok(records) } else { Err(FrameFault::Records) }
    }
}

/// The `N` bytes at `at`; the caller has checked the length.
fn fixed<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the header's length was checked")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::JournalId;
    use crate::record::StreamId;

    fn frame() -> Vec<u8> {
        let mut builder = FrameBuilder::after(Head::genesis(JournalId([3; 16])));
        for body in [&b"first"[..], b"", b"third"] {
            let sequence = builder.next_sequence();
            let stream = StreamId([sequence as u8; 16]);
            builder.push(&Stored {
                sequence,
                stream,
                version: 1,
                previous: 0,
                stored: body,
                chunked: false,
            });
        }
        builder.finish().0
    }

    #[test]
    fn a_frame_reads_back() {
        let bytes = frame();
        let frame = Frame::parse(&bytes).expect("it was just written");
        assert_eq!((frame.first_sequence, frame.count, frame.last_sequence()), (1, 3, 3));
        let records = frame.records().expect("they were just written");
        assert_eq!(
            records.iter().map(|r| r.stored).collect::<Vec<_>>(),
            [&b"first"[..], b"", b"third"]
        );
        assert_eq!(records[2].sequence, 3);
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let bytes = frame();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Frame::parse(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn every_cut_and_every_extra_byte_is_noticed() {
        let mut bytes = frame();
        for length in 0..bytes.len() {
            assert!(Frame::parse(&bytes[..length]).is_err(), "cut at {length}");
        }
        bytes.push(0);
        assert!(Frame::parse(&bytes).is_err());
    }

    #[test]
    fn a_newer_version_is_named_and_not_read() {
        let mut bytes = frame();
        bytes[3] = 2;
        assert_eq!(Frame::parse(&bytes).err(), Some(FrameFault::Hash), "one byte is damage");
        assert_eq!(Frame::parse(&sealed(bytes)).err(), Some(FrameFault::Newer(2)));
    }

    #[test]
    fn a_hash_over_a_body_that_is_no_records_does_not_make_it_records() {
        let mut builder = FrameBuilder::after(Head::genesis(JournalId([3; 16])));
        builder.bytes.extend_from_slice(b"nonsense");
        builder.count = 1;
        let (bytes, _) = builder.finish();
        let frame = Frame::parse(&bytes).expect("the hash is right");
        assert_eq!(frame.records(), Err(FrameFault::Records));
    }

    #[test]
    fn a_lone_small_record_fits_in_98_bytes() {
        let mut builder = FrameBuilder::after(Head { sequence: 999, hash: Digest([0; 32]) });
        let stored = &[0; 21];
        let stream = StreamId([1; 16]);
        builder.push(&Stored {
            sequence: 1000,
            stream,
            version: 9,
            previous: 999,
            stored,
            chunked: false,
        });
        assert_eq!(builder.finish().0.len(), 98);
    }

    fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
        let end = bytes.len() - TRAILER_BYTES;
        let hash = frame_hash(&bytes[..end]);
        bytes[end..].copy_from_slice(&hash.0[..TRAILER_BYTES]);
        bytes
    }

    /// A builder with one record whose body has so many bytes.
    fn holding(bytes: usize) -> FrameBuilder {
        let mut builder = FrameBuilder::after(Head::genesis(JournalId([3; 16])));
        let (stored, stream) = (&vec![7; bytes][..], StreamId([1; 16]));
        let record =
            Stored { sequence: 1, stream, version: 1, previous: 0, stored, chunked: false };
        builder.push(&record);
        builder
    }

    #[test]
    fn a_frame_says_when_it_is_full_of_bytes_or_of_records() {
        let empty = FrameBuilder::after(Head::genesis(JournalId([3; 16])));
        assert!(empty.is_empty());
        assert!(empty.fits(1, BODY_BYTES_MAX) && !empty.fits(1, BODY_BYTES_MAX + 1));
        let one = holding(100);
        assert!(!one.is_empty());
        let left = BODY_BYTES_MAX - 120; // a header of 20 bytes before the body
        assert!(one.fits(1, left) && !one.fits(1, left + 1));
        assert!(one.fits(65_534, 0) && !one.fits(65_535, 0));
    }

    #[test]
    fn a_frame_has_64_kibibytes_at_most_and_a_header_at_least() {
        let largest = holding(BODY_BYTES_MAX - 21).finish().0;
        assert_eq!(largest.len(), FRAME_BYTES_MAX);
        assert!(Frame::parse(&largest).is_ok());
        let larger = holding(BODY_BYTES_MAX - 20).finish().0;
        assert_eq!(Frame::parse(&larger).err(), Some(FrameFault::Shape));
        let bytes = frame();
        for length in 0..HEADER_BYTES + TRAILER_BYTES {
            assert_eq!(Frame::parse(&bytes[..length]).err(), Some(FrameFault::Shape), "{length}");
        }
    }

    #[test]
    fn a_header_that_cannot_be_is_refused_even_under_the_right_hash() {
        let lies: [fn(&mut Vec<u8>); 5] = [
            |bytes| bytes[3] = 0,
            |bytes| bytes[4..12].fill(0),
            |bytes| bytes[4..12].fill(0xff),
            |bytes| bytes[12..14].fill(0),
            |bytes| bytes[14] += 1,
        ];
        assert!(Frame::parse(&sealed(frame())).is_ok());
        for (number, lie) in lies.into_iter().enumerate() {
            let mut bytes = frame();
            lie(&mut bytes);
            let fault = Frame::parse(&sealed(bytes)).err();
            assert_eq!(fault, Some(FrameFault::Shape), "{number}");
        }
    }
}
