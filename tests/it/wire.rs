//! Golden samples of everything that lies on disk: a change here is a change of format, and needs a
//! version of its own.

use crate::events::every_event;
use crate::support::snapshots;
use leasehold_actors::agenda::{Slot, Waiting};
use leasehold_actors::checkpoint;
use leasehold_actors::codec::{self, DecodeError};
use leasehold_actors::contract::source::Operation;
use leasehold_actors::contract::text::Sha256;
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::control::{Control, Controls, Kept, Scope};
use leasehold_actors::flows::dispatch::Dispatch;
use leasehold_actors::health::{Class, Tally};
use leasehold_actors::record::{Flow, FlowTag, Identity, Key, Link, StateKind, stream_of};
use leasehold_journal::anchor::{self, Anchor};
use leasehold_journal::checkpoint::{Draft, Stamp};
use leasehold_journal::index::Tip;
use leasehold_journal::medium::Medium as _;
use leasehold_journal::memory::MemoryDisk;
use leasehold_journal::{
    Append, Digest, Head, JournalId, Log, LogOptions, Store as _, StoreReader as _, StreamId,
    archive,
};

pub(crate) fn hex(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.chunks(32).map(|line| line.concat()).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_event_of_dispatch_keeps_its_bytes_and_its_version() {
    snapshots("wire").bind(|| {
        for event in every_event() {
            let body = codec::encode(&event).expect("an event encodes");
            assert_eq!(codec::decode::<Dispatch>(&body).as_ref(), Ok(&event));
            let name = format!("dispatch_v{}_{}", body[1], event.name());
            insta::assert_snapshot!(name, hex(&body));
        }
    });
}

#[test]
fn every_cut_of_an_event_and_every_other_header_is_refused() {
    for event in every_event() {
        let body = codec::encode(&event).expect("an event encodes");
        for length in 0..body.len() {
            assert!(codec::decode::<Dispatch>(&body[..length]).is_err(), "cut at {length}");
        }
        let other_flow = [&[FlowTag::Lifecycle as u8], &body[1..]].concat();
        assert_eq!(codec::decode::<Dispatch>(&other_flow), Err(DecodeError::Invalid));
        for version in (0..=codec::VERSION).filter(|version| *version != body[1]) {
            let swapped = [&body[..1], &[version], &body[2..]].concat();
            assert_eq!(codec::decode::<Dispatch>(&swapped), Err(DecodeError::Invalid));
        }
        let newer = [&body[..1], &[codec::VERSION + 1], &body[2..]].concat();
        assert_eq!(codec::decode::<Dispatch>(&newer), Err(DecodeError::Newer(codec::VERSION + 1)));
    }
}

#[test]
fn a_frame_an_anchor_an_archive_and_a_stream_keep_their_bytes() {
    let disk = MemoryDisk::new();
    let options = LogOptions { new_id: JournalId([7; 16]), create: true };
    let mut log = Log::open(disk.medium(), options, &mut |_| Ok(())).expect("a new one");
    let bodies = vec![b"one".to_vec(), b"two".to_vec()];
    log.commit(&[Append { stream: StreamId([9; 16]), expected_version: 0, bodies, alone: None }])
        .expect("ok");
    let (_, frame) = disk.medium().frame_at_or_after(1).expect("readable").expect("there");
    let mut exported = Vec::new();
    archive::export(&disk.medium(), &mut exported).expect("it verifies");
    let head = Head { sequence: 300, hash: Digest([3; 32]) };
    let slot = anchor::encode(&Anchor { journal: JournalId([7; 16]), head }, 5);
    snapshots("wire").bind(|| {
        insta::assert_snapshot!("frame_v1", hex(&frame));
        insta::assert_snapshot!("archive_v1", hex(&exported));
        insta::assert_snapshot!("anchor_v1", hex(&slot));
        insta::assert_snapshot!("stream_of_dispatch", hex(&stream_of(FlowTag::Dispatch, "e-1").0));
    });
}

#[test]
fn a_base_and_an_archive_that_starts_later_keep_their_bytes() {
    let disk = MemoryDisk::new();
    let options = LogOptions { new_id: JournalId([7; 16]), create: true };
    let mut heads = Vec::new();
    let mut log = Log::open(disk.medium(), options, &mut |_| Ok(())).expect("a new one");
    for version in 0..3 {
        let bodies = vec![vec![b'0' + version]];
        let append = Append {
            stream: StreamId([9; 16]),
            expected_version: version.into(),
            bodies,
            alone: None,
        };
        log.commit(&[append]).expect("ok");
        heads.push(log.reader().head());
    }
    log.rebase(heads[0], &mut |_, _| Ok(b"image".to_vec())).expect("a frame ends there");
    let medium = disk.medium();
    let base = medium.base().expect("readable").expect("it has one");
    let (_, entry) = medium.base_entry_after(None).expect("readable").expect("it has one");
    let (mut part, mut whole) = (Vec::new(), Vec::new());
    archive::export_until(&medium, heads[1], &mut part).expect("a frame ends there");
    archive::export(&medium, &mut whole).expect("it verifies");
    snapshots("wire").bind(|| {
        insta::assert_snapshot!("base_v1", hex(&base.encode()));
        insta::assert_snapshot!("base_entry_v1", hex(&entry));
        insta::assert_snapshot!("archive_v2_part", hex(&part));
        insta::assert_snapshot!("archive_v2_with_base", hex(&whole));
    });
}

#[test]
fn a_checkpoint_and_its_note_keep_their_bytes() {
    let head = Head { sequence: 300, hash: Digest([3; 32]) };
    let tips = [
        (StreamId([8; 16]), Tip { sequence: 299, version: 1 }),
        (StreamId([9; 16]), Tip { sequence: 300, version: 7 }),
    ];
    let stamp = Stamp { bytes: 8_388_608, modified_seconds: 1_900_000_000, modified_nanos: 5 };
    let sealed = Draft::new(JournalId([7; 16]), head, 20, &tips, b"note").seal(stamp);
    let (settings, marks) = (Sha256::of(b"settings"), checkpoint_marks());
    let note = checkpoint::encode(settings, &marks).expect("it encodes");
    assert_eq!(checkpoint::decode(settings, &note), Some(marks));
    snapshots("wire").bind(|| {
        insta::assert_snapshot!("checkpoint_v1", hex(&sealed));
        insta::assert_snapshot!("checkpoint_note_v1", hex(&note));
    });
}

/// One record of each kind of slot, with each kind of link.
fn checkpoint_marks() -> checkpoint::AllMarks {
    let at = |seconds| Timestamp::new(seconds).expect("a time");
    let (key, other) = (Key::of("one"), Key::of("other"));
    let removal =
        Class { kind: StateKind::Pending, facet: (Some(Operation::Tombstone), Some(key)) };
    let change = Class { kind: StateKind::Leased, facet: (None, None) };
    let poll = Class { kind: StateKind::RetryWait, facet: () };
    let waiting = |link, parked| Waiting {
        rank: 1,
        created_at: at(3.0),
        next_at: at(4.5),
        class: removal,
        link,
        parked,
    };
    let leased = Slot::Leased { expires_at: at(9.0), class: change, link: Link::Holds(other) };
    let retried = Waiting {
        rank: 0,
        created_at: at(1.0),
        next_at: at(300.25),
        class: poll,
        link: Link::None,
        parked: false,
    };
    let scope = Scope::new("site/site-1").expect("a scope");
    let open = Control::Open { scope: scope.clone(), since: at(6.0) };
    checkpoint::AllMarks {
        dispatch: checkpoint::Marks {
            latest: Some(at(5.0)),
            tally: Tally::of([(poll, 1)]),
            entries: vec![(Identity::new("a"), Slot::Waiting(retried))],
            keys: Vec::new(),
        },
        lifecycle: no_marks(),
        notification: no_marks(),
        processing: checkpoint::Marks { keys: vec![(key, Identity::new("b"))], ..no_marks() },
        delivery: checkpoint::Marks {
            latest: Some(at(7.0)),
            tally: Tally::of([(removal, 2), (change, 1)]),
            entries: vec![
                (Identity::new("tombstone/c"), Slot::Waiting(waiting(Link::Waits(key), false))),
                (Identity::new("tombstone/d"), Slot::Waiting(waiting(Link::None, true))),
                (Identity::new("change/e"), leased),
            ],
            keys: Vec::new(),
        },
        controls: Controls::of(vec![(scope.stream().0, Kept::Sound(open))]),
    }
}

fn no_marks<F: Flow>() -> checkpoint::Marks<F> {
    let (entries, keys) = (Vec::new(), Vec::new());
    checkpoint::Marks { latest: None, tally: Tally::default(), entries, keys }
}
