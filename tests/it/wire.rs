//! Golden samples of everything that lies on disk: a change here is a change of format, and needs a
//! version of its own.

use crate::lifecycle_model::every_event;
use crate::support::snapshots;
use leasehold_actors::codec::{self, DecodeError};
use leasehold_actors::flows::dispatch::Dispatch;
use leasehold_actors::record::{FlowTag, stream_of};
use leasehold_journal::anchor::{self, Anchor};
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
    log.commit(&[Append { stream: StreamId([9; 16]), expected_version: 0, bodies }]).expect("ok");
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
        let append = Append { stream: StreamId([9; 16]), expected_version: version.into(), bodies };
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
