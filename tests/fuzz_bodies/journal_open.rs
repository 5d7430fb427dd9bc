//! Journals made of any bytes: an archive, frames that lie on a disk, and damage to a sound journal.
//!
//! The first byte tells which of the three the others are.

use super::framing::{ID, around, resealed};
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::flows::Answers;
use leasehold_actors::flows::all::AllFlows;
use leasehold_actors::invariants;
use leasehold_actors::replay::{Replay, Replayed};
use leasehold_journal::anchor::Anchor;
use leasehold_journal::chunk::INLINE_BYTES_MAX;
use leasehold_journal::frame::FrameBuilder;
use leasehold_journal::index::StreamIndex;
use leasehold_journal::medium::{Batch, Medium as _};
use leasehold_journal::memory::{MemoryDisk, MemoryMedium};
use leasehold_journal::record::Stored;
use leasehold_journal::walk::{Item, Walk};
use leasehold_journal::{
    Append, Head, JournalError, JournalId, Log, LogOptions, Placed, Record, Store as _,
    StoreReader as _, StreamId, archive,
};
use std::collections::BTreeMap;

const MEMORY: &str = "memory does not fail";

/// Holds for any bytes; answers what they were accepted as.
pub(crate) fn body(data: &[u8]) -> Vec<&'static str> {
    let Some((way, bytes)) = data.split_first() else { return Vec::new() };
    match way % 3 {
        0 => an_archive(bytes),
        1 => frames_on_a_disk(bytes),
        _ => damage_to_a_sound_journal(bytes),
    }
}

/// What was shown, in order.
#[derive(Debug, Default, Clone, PartialEq)]
struct Seen {
    /// The last record that is in another archive, and each stream's version up to there.
    base: (u64, BTreeMap<StreamId, u32>),
    /// The records; the error where a body is gone.
    records: Vec<(u64, StreamId, Result<Record, JournalError>)>,
}

impl Seen {
    fn take(&mut self, item: Item) -> Result<(), JournalError> {
        match item {
            Item::Base(base) => self.base.0 = base.head.sequence,
            Item::Carried { stream, tip, .. } => drop(self.base.1.insert(stream, tip.version)),
            Item::Record { sequence, stream, record } => {
                self.records.push((sequence, stream, record));
            }
            Item::Frame(head) => assert_eq!(head.sequence, self.end(), "J2"),
        }
        Ok(())
    }

    fn end(&self) -> u64 {
        self.base.0 + self.records.len() as u64
    }

    /// J2 and J4 hold for what was shown, and it ends where the head is.
    fn check(&self, head: Head) {
        let mut versions = self.base.1.clone();
        for (place, (sequence, stream, record)) in self.records.iter().enumerate() {
            assert_eq!(*sequence, self.base.0 + place as u64 + 1, "J2");
            let version = versions.entry(*stream).or_default();
            *version += 1;
            if let Ok(record) = record {
                let stands = (record.sequence, record.stream, record.version);
                assert_eq!(stands, (*sequence, *stream, *version), "J4");
            }
        }
        assert_eq!(head.sequence, self.end());
    }

    fn is_whole(&self) -> bool {
        self.records.iter().all(|(_, _, record)| record.is_ok())
    }
}

fn read(data: &[u8]) -> (Result<(JournalId, Head), JournalError>, Seen) {
    let (mut input, mut seen) = (data, Seen::default());
    let read = archive::read(&mut input, &mut |item: Item| seen.take(item));
    (read, seen)
}

/// An archive that reads is whole to its last byte.
fn an_archive(data: &[u8]) -> Vec<&'static str> {
    let (found, seen) = read(data);
    match found {
        Ok((_, head)) => {
            seen.check(head);
            assert!(read(&data[..data.len() - 1]).0.is_err(), "one byte less");
            assert!(read(&[data, &[0]].concat()).0.is_err(), "one byte more");
            vec!["archive"]
        }
        // It says that it is read after others.
        Err(JournalError::ArchivePart) => {
            assert!(data.starts_with(&archive::MAGIC_LATER), "another kind of archive");
            vec!["part of an archive"]
        }
        Err(error) => {
            let codes = ["journal_not_a_journal", "journal_corrupt", "schema_newer"];
            assert!(codes.contains(&error.code()), "{error}");
            Vec::new()
        }
    }
}

/// Frames as a script says, one after another, and what a walk thinks of them.
struct Written {
    walk: Walk,
    index: StreamIndex,
    frames: Vec<(u64, Vec<u8>)>,
    fault: Option<JournalError>,
}

impl Written {
    /// A script is pieces, each of them one byte kind, two bytes length and its bytes: a frame as it
    /// is, a frame that gets its right hash, the body of a frame, or a stream and a record's body.
    fn by(script: &[u8]) -> Self {
        let (walk, index) = (Walk::new(ID), StreamIndex::default());
        let mut written = Self { walk, index, frames: Vec::new(), fault: None };
        let mut rest = script;
        while let [kind, low, high, tail @ ..] = rest {
            if written.fault.is_some() {
                break; // what lies behind it is never read
            }
            let length = usize::from(u16::from_le_bytes([*low, *high])).min(tail.len());
            let (piece, tail) = tail.split_at(length);
            rest = tail;
            let bytes = match kind % 4 {
                0 => Some(piece.to_vec()),
                1 => resealed(piece),
                2 => Some(around(written.walk.head(), [1, 0], piece)),
                _ => written.record(piece),
            };
            written.add(bytes.unwrap_or_default());
        }
        written
    }

    fn record(&self, piece: &[u8]) -> Option<Vec<u8>> {
        let (stream, stored) = piece.split_first_chunk::<16>()?;
        let tip = self.index.tip(StreamId(*stream));
        let mut builder = FrameBuilder::after(self.walk.head());
        let sequence = builder.next_sequence();
        builder.push(&Stored {
            sequence,
            stream: StreamId(*stream),
            version: tip.version + 1,
            previous: tip.sequence,
            stored,
            chunked: false,
        });
        Some(builder.finish().0)
    }

    fn add(&mut self, bytes: Vec<u8>) {
        let first = self.walk.head().sequence + 1;
        match self.walk.step(&bytes) {
            Ok(records) => {
                for record in &records {
                    assert!(self.index.follow(record), "J4: the walk let it pass");
                }
            }
            Err(error) => self.fault = Some(error),
        }
        self.frames.push((first, bytes));
    }

    fn disk(self) -> MemoryDisk {
        let disk = MemoryDisk::new();
        let medium = disk.medium();
        medium.initialise(ID).expect(MEMORY);
        let anchor = Anchor { journal: ID, head: Head::genesis(ID) };
        medium.set_anchor(anchor, true).expect(MEMORY);
        medium.write(Batch { frames: self.frames, chunks: Vec::new() }).expect(MEMORY);
        medium.sync().expect(MEMORY);
        disk
    }
}

fn open(disk: &MemoryDisk) -> (Result<Log<MemoryMedium>, JournalError>, Seen) {
    let mut seen = Seen::default();
    let options = LogOptions { new_id: ID, create: false };
    let log = Log::open(disk.medium(), options, &mut |item| seen.take(item));
    (log, seen)
}

/// A journal opens exactly when its frames verify, and is then all that a journal has to be.
fn frames_on_a_disk(script: &[u8]) -> Vec<&'static str> {
    let written = Written::by(script);
    let fault = written.fault.clone();
    let disk = written.disk();
    match (open(&disk), fault) {
        ((Ok(log), seen), None) => {
            reads_back(&disk, &log, &seen);
            goes_on(&disk, log, &seen);
            let mut accepted = replays(&seen);
            accepted.push(if seen.is_whole() { "journal" } else { "journal without a body" });
            accepted
        }
        ((Err(error), _), Some(fault)) => {
            assert_eq!(error, fault);
            Vec::new()
        }
        ((opened, _), fault) => panic!("opened: {:?}, a walk says {fault:?}", opened.err()),
    }
}

/// Streams and archives give what was shown when the journal was opened.
fn reads_back(disk: &MemoryDisk, log: &Log<MemoryMedium>, seen: &Seen) {
    let reader = log.reader();
    seen.check(reader.head());
    let mut streams: BTreeMap<StreamId, Vec<Result<Record, JournalError>>> = BTreeMap::new();
    for (_, stream, record) in &seen.records {
        streams.entry(*stream).or_default().push(record.clone());
    }
    for (stream, records) in streams {
        let shown: Result<Vec<Record>, JournalError> = records.into_iter().collect();
        let read = reader.read_stream(stream);
        assert!(read.is_err() == shown.is_err() && read.ok() == shown.ok(), "{stream:?}");
    }
    let mut exported = Vec::new();
    if archive::export(&disk.medium(), &mut exported).is_ok() {
        assert_eq!(read(&exported), (Ok((ID, reader.head())), seen.clone()));
    } else {
        assert!(!seen.is_whole(), "what is whole can be exported");
    }
}

/// The next commit follows what was there, and both are there when it is opened again.
fn goes_on(disk: &MemoryDisk, mut log: Log<MemoryMedium>, seen: &Seen) {
    let stream = StreamId([0xee; 16]);
    let (head, expected_version) = (log.reader().head(), log.reader().version(stream));
    let append =
        Append { stream, expected_version, bodies: vec![b"one more".to_vec()], alone: None };
    let answers = log.commit(&[append]).expect(MEMORY);
    let placed = Placed { sequence: head.sequence + 1, version: expected_version + 1 };
    assert_eq!(answers[0], Ok(placed));
    let after = log.reader().head();
    drop(log);
    let (again, more) = open(disk);
    assert_eq!(again.map(|log| log.reader().head()), Ok(after));
    assert!(
        more.records.starts_with(&seen.records) && more.records.len() == seen.records.len() + 1
    );
}

/// Records of any body replay or are set aside, and what replays keeps the invariants.
fn replays(seen: &Seen) -> Vec<&'static str> {
    let mut flows = AllFlows::default();
    let mut accepted = Vec::new();
    for (_, stream, record) in &seen.records {
        let body = record.as_ref().ok().map(|record| record.body.as_slice());
        if let Some(Ok(())) = flows.apply(*stream, body) {
            accepted = vec!["event"];
        }
    }
    holds(&flows.dispatch);
    holds(&flows.lifecycle);
    holds(&flows.notification);
    holds(&flows.processing);
    holds(&flows.delivery);
    accepted
}

/// Ceilings (R1) are kept by what is decided, not by what is replayed; everything else holds for any
/// events that replay.
fn holds<F: Answers>(flow: &Replay<F>) {
    let now = Timestamp::new(1_900_000_000.0).expect("a time");
    for (_, replayed) in flow.iter() {
        match replayed {
            Replayed::Sound(state) => {
                let broken = invariants::broken(state);
                assert!(broken.is_none_or(|broken| broken == invariants::R1), "{broken:?}");
                let record = state.record();
                assert_eq!(F::status(state, now).is_some(), record.is_some());
                assert_eq!(F::attempt(state).is_some(), record.is_some());
            }
            Replayed::Quarantined => {}
        }
    }
}

/// Four frames, the third of them with a body in chunks.
fn sound() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let options = LogOptions { new_id: ID, create: true };
    let log = Log::open(disk.medium(), options, &mut |_| Ok(()));
    let mut log = log.expect("an empty disk opens");
    let large = vec![7; INLINE_BYTES_MAX + 1];
    for (number, expected_version, body) in
        [(1, 0, b"first".to_vec()), (2, 0, Vec::new()), (3, 0, large), (1, 1, b"last".to_vec())]
    {
        let stream = StreamId([number; 16]);
        let append = Append { stream, expected_version, bodies: vec![body], alone: None };
        let answers = log.commit(&[append]).expect(MEMORY);
        assert!(answers[0].is_ok());
    }
    disk
}

fn frames_of(disk: &MemoryDisk) -> Vec<(u64, Vec<u8>)> {
    let (medium, mut from, mut frames) = (disk.medium(), 0, Vec::new());
    while let Some((first, bytes)) = medium.frame_at_or_after(from).expect(MEMORY) {
        from = first + 1;
        frames.push((first, bytes));
    }
    frames
}

/// Damage is noticed, whatever it is, and nothing is written over it.
fn damage_to_a_sound_journal(data: &[u8]) -> Vec<&'static str> {
    let [kind, place, bytes @ ..] = data else { return Vec::new() };
    let disk = sound();
    let before = frames_of(&disk);
    let first = 1 + u64::from(place % 4);
    match kind % 4 {
        0 => assert!(disk.damage(first, |frame| *frame = bytes.to_vec())),
        1 => assert!(disk.damage(first, |frame| change(frame, bytes))),
        2 => disk.cut(first),
        _ => disk.lose_chunks(),
    }
    let after = frames_of(&disk);
    let anchors = disk.medium().anchors();
    match open(&disk) {
        (Ok(_), seen) => {
            assert!(after == before, "J6: a changed frame was believed");
            let lost = kind % 4 == 3;
            for (sequence, _, record) in &seen.records {
                assert_eq!(record.is_err(), lost && *sequence == 3, "{sequence}");
            }
            vec![if lost { "journal without its chunks" } else { "journal without damage" }]
        }
        (Err(error), _) => {
            assert!(after != before, "{error}");
            let newer = matches!(error, JournalError::Newer { .. });
            assert!(error.is_damage() || newer, "{error}");
            if kind % 4 == 2 {
                let missing = 5 - first;
                assert_eq!(error, JournalError::BehindAnchor { sequence: first - 1, missing });
            }
            assert!(frames_of(&disk) == after && disk.medium().anchors() == anchors);
            Vec::new()
        }
    }
}

/// Changes the bits that are set in `bytes` behind the first two, which tell where.
fn change(frame: &mut [u8], bytes: &[u8]) {
    let [low, high, bits @ ..] = bytes else { return };
    let from = usize::from(u16::from_le_bytes([*low, *high])) % frame.len();
    for (byte, bits) in frame[from..].iter_mut().zip(bits) {
        *byte ^= bits;
    }
}
