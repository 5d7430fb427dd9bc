//! One record: who it belongs to, where it stands, and its opaque body.
//!
//! Owns the record's bytes. Must not know what a body means, nor how frames are kept.
//!
//! # Bytes
//!
//! | size | field |
//! | --- | --- |
//! | 16 | stream |
//! | varint | version in the stream, from 1 (J4) |
//! | varint | distance back to the stream's previous record; 0 for its first |
//! | varint | body length × 2, plus 1 when the body is a chunk manifest ([`crate::chunk`]) |
//! | n | body |
//!
//! The sequence number is not stored: it is the frame's first one plus the record's place in it.
//! A varint is little-endian base 128, at most 10 bytes, shortest form only: a longer spelling of
//! the same number is refused, so that equal records have equal bytes.

use std::fmt;

/// Which stream a record belongs to: 16 bytes chosen by whoever writes (a truncated hash of a name).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub [u8; 16]);

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A record as it is read back, with its body whole.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    /// Place in the journal, from 1 without gaps (J2).
    pub sequence: u64,
    /// The stream it belongs to.
    pub stream: StreamId,
    /// Place in the stream, from 1 without gaps (J4).
    pub version: u32,
    /// Sequence number of the stream's previous record; 0 for its first.
    pub previous: u64,
    /// What was appended.
    pub body: Vec<u8>,
}

impl fmt::Debug for Record {
    /// Shows where the record stands, never what it says.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("sequence", &self.sequence)
            .field("stream", &self.stream)
            .field("version", &self.version)
            .field("previous", &self.previous)
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

/// A record inside a frame, its body still as stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Stored<'a> {
    /// Place in the journal.
    pub sequence: u64,
    /// The stream it belongs to.
    pub stream: StreamId,
    /// Place in the stream.
    pub version: u32,
    /// Sequence number of the stream's previous record; 0 for its first.
    pub previous: u64,
    /// The body, or the manifest of its chunks.
    pub stored: &'a [u8],
    /// Whether `stored` is a manifest.
    pub chunked: bool,
}

impl fmt::Debug for Stored<'_> {
    /// Shows where the record stands, never what it says.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stored")
            .field("sequence", &self.sequence)
            .field("stream", &self.stream)
            .field("version", &self.version)
            .field("previous", &self.previous)
            .field("stored_bytes", &self.stored.len())
            .field("chunked", &self.chunked)
            .finish()
    }
}

/// Appends one record's bytes to a frame body.
pub(crate) fn write(out: &mut Vec<u8>, record: &Stored<'_>) {
    out.extend_from_slice(&record.stream.0);
    write_varint(out, u64::from(record.version));
    write_varint(out, if record.previous == 0 { 0 } else { record.sequence - record.previous });
    write_varint(out, (record.stored.len() as u64) << 1 | u64::from(record.chunked));
    out.extend_from_slice(record.stored);
}

/// Reads the record at the start of `bytes` and how many bytes it took; `None` if it is malformed.
pub(crate) fn read(bytes: &[u8], sequence: u64) -> Option<(Stored<'_>, usize)> {
    let mut at = 16;
    let stream = StreamId(bytes.get(..at)?.try_into().ok()?);
    let version = u32::try_from(read_varint(bytes, &mut at)?).ok()?;
    let distance = read_varint(bytes, &mut at)?;
    let length = read_varint(bytes, &mut at)?;
    let stored = bytes.get(at..)?.get(..usize::try_from(length >> 1).ok()?)?;
    if version == 0 || (version == 1) != (distance == 0) || distance >= sequence {
        return None;
    }
    let previous = if distance == 0 { 0 } else { sequence - distance };
    let used = at + stored.len();
    Some((Stored { sequence, stream, version, previous, stored, chunked: length & 1 == 1 }, used))
}

pub(crate) fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads a varint at `*at` and moves past it; `None` when cut short, too large or not shortest.
pub(crate) fn read_varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        let part = u64::from(byte & 0x7f);
        if shift == 63 && part > 1 {
            return None;
        }
        value |= part << shift;
        if byte & 0x80 == 0 {
            return if byte == 0 && shift > 0 { None } else { Some(value) };
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn debug_of_a_record_shows_where_it_stands_and_nothing_of_its_body() {
        let (stream, body) = (StreamId([0xab; 16]), b"canary".to_vec());
        let record = Record { sequence: 9, stream, version: 2, previous: 7, body };
        let id = "ab".repeat(16);
        let expected = format!(
            "Record {{ sequence: 9, stream: {id}, version: 2, previous: 7, body_bytes: 6 }}"
        );
        assert_eq!(format!("{record:?}"), expected);
        let shown = format!("{:?}", sample(b"canary"));
        assert!(shown.starts_with("Stored { sequence: 900,") && shown.contains("stored_bytes: 6"));
        assert!(!shown.contains("canary"));
    }

    fn sample(stored: &[u8]) -> Stored<'_> {
        Stored {
            sequence: 900,
            stream: StreamId([7; 16]),
            version: 3,
            previous: 12,
            stored,
            chunked: false,
        }
    }

    #[test]
    fn a_record_costs_nineteen_bytes_beside_its_body_when_it_is_near_its_predecessor() {
        let mut out = Vec::new();
        write(&mut out, &Stored { previous: 880, ..sample(b"body") });
        assert_eq!(out.len(), 19 + 4);
    }

    #[test]
    fn every_cut_of_a_record_is_refused() {
        let mut out = Vec::new();
        write(&mut out, &sample(b"some body"));
        for length in 0..out.len() {
            assert!(read(&out[..length], 900).is_none(), "cut at {length}");
        }
        assert_eq!(read(&out, 900), Some((sample(b"some body"), out.len())));
    }

    #[test]
    fn a_first_record_has_no_predecessor_and_a_later_one_has() {
        let mut out = Vec::new();
        write(&mut out, &Stored { version: 1, ..sample(b"") });
        assert!(read(&out, 900).is_none());
        out.clear();
        write(&mut out, &Stored { previous: 0, ..sample(b"") });
        assert!(read(&out, 900).is_none());
        out.clear();
        write(&mut out, &Stored { version: 0, previous: 0, ..sample(b"") });
        assert!(read(&out, 900).is_none());
    }

    #[test]
    fn a_predecessor_before_the_journal_is_refused() {
        let mut out = Vec::new();
        write(&mut out, &Stored { previous: 1, ..sample(b"") });
        assert!(read(&out, 899).is_none());
    }

    #[test]
    fn a_longer_spelling_of_a_number_is_refused() {
        assert_eq!(read_varint(&[0x80, 0x00], &mut 0), None);
        assert_eq!(read_varint(&[0xff; 10], &mut 0), None);
        assert_eq!(read_varint(&[0x80], &mut 0), None);
    }

    proptest! {
        #[test]
        fn numbers_read_back(value: u64) {
            let mut out = Vec::new();
            write_varint(&mut out, value);
            let mut at = 0;
            prop_assert_eq!(read_varint(&out, &mut at), Some(value));
            prop_assert_eq!(at, out.len());
        }
    }

    #[test]
    fn a_number_of_ten_bytes_is_at_most_64_bits_and_in_its_shortest_form() {
        let read = |last: u8| {
            let bytes = [&[0xff; 9][..], &[last]].concat();
            read_varint(&bytes, &mut 0)
        };
        assert_eq!(read(1), Some(u64::MAX));
        for last in [0, 2, 3, 0x7f, 0x81, 0xff] {
            assert_eq!(read(last), None, "{last}");
        }
        assert_eq!(read_varint(&[0x80, 0], &mut 0), None, "0 is one byte");
        assert_eq!(read_varint(&[0], &mut 0), Some(0));
    }
}
