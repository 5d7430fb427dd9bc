//! J1 to J6, each with a test that fails when the promise is broken.

use leasehold_journal::archive;
use leasehold_journal::chunk::{BODY_BYTES_MAX, INLINE_BYTES_MAX};
use leasehold_journal::medium::{Batch, Medium};
use leasehold_journal::memory::{Fault, MemoryDisk, MemoryMedium};
use leasehold_journal::sled::SledMedium;
use leasehold_journal::walk::Item;
use leasehold_journal::{
    Append, AppendError, Durability, JournalError, JournalId, Log, LogOptions, Record, Store,
    StoreReader, StreamId,
};
use proptest::prelude::*;
use std::path::Path;

const OPTIONS: LogOptions = LogOptions { new_id: JournalId([1; 16]), create: true };

fn stream(number: u8) -> StreamId {
    StreamId([number; 16])
}

fn append(number: u8, expected_version: u32, body: &[u8]) -> Append {
    Append { stream: stream(number), expected_version, bodies: vec![body.to_vec()], alone: None }
}

fn open<M: Medium>(medium: M) -> Result<(Log<M>, Vec<Record>), JournalError> {
    let mut seen = Vec::new();
    let log = Log::open(medium, OPTIONS, &mut |item| {
        if let Item::Record { record, .. } = item {
            seen.push(record?);
        }
        Ok(())
    })?;
    Ok((log, seen))
}

fn on_disk(path: &Path) -> Result<(Log<SledMedium>, Vec<Record>), JournalError> {
    open(SledMedium::open(path, true, Durability::PowerSafe)?)
}

/// A disk with `count` commits of one record each.
fn filled(count: u8) -> (MemoryDisk, Log<MemoryMedium>) {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(disk.medium()).expect("an empty disk opens");
    for number in 1..=count {
        let answers = log.commit(&[append(number, 0, &[number])]).expect("a commit");
        assert!(answers[0].is_ok());
    }
    (disk, log)
}

#[test]
fn j1_a_second_writer_is_refused_and_the_lock_is_free_after_the_first() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("journal");
    let (log, _) = on_disk(&path).expect("a new journal");
    assert_eq!(on_disk(&path).err(), Some(JournalError::Locked));
    drop(log);
    assert!(on_disk(&path).is_ok());
}

#[test]
#[cfg(unix)]
fn j1_a_child_process_keeps_no_journal_locked_that_was_closed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("journal");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Children that are being started all the time.
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let child = std::process::Command::new("true").status();
                    assert!(child.expect("it runs").success());
                }
            });
        }
        let opened: Vec<_> = (0..40).map(|_| on_disk(&path).map(drop)).collect();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(opened, vec![Ok(()); 40]);
    });
}

#[test]
fn j2_and_j4_numbers_start_at_one_without_gaps_whatever_the_grouping() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(disk.medium()).expect("an empty disk opens");
    log.commit(&[append(1, 0, b"a"), append(2, 0, b"b"), append(1, 1, b"c")]).expect("a commit");
    log.commit(&[append(2, 1, b"d")]).expect("a commit");
    drop(log);
    let (_, seen) = open(disk.medium()).expect("it opens again");
    let numbers: Vec<_> =
        seen.iter().map(|r| (r.sequence, r.stream.0[0], r.version, r.previous)).collect();
    assert_eq!(numbers, [(1, 1, 1, 0), (2, 2, 1, 0), (3, 1, 2, 1), (4, 2, 2, 2)]);
}

#[test]
fn j2_a_missing_frame_is_named_by_its_first_sequence_number() {
    let (disk, log) = filled(5);
    drop(log);
    assert!(disk.damage(3, |bytes| bytes.clear()));
    assert_eq!(open(disk.medium()).err(), Some(JournalError::Corrupt { sequence: 3 }));
}

#[test]
fn j3_every_flipped_bit_of_every_frame_is_named() {
    let (disk, log) = filled(3);
    drop(log);
    let (_, bytes) = disk.medium().frame_at_or_after(2).expect("readable").expect("there");
    for bit in 0..bytes.len() * 8 {
        assert!(disk.damage(2, |bytes| bytes[bit / 8] ^= 1 << (bit % 8)));
        let error = open(disk.medium()).err();
        assert_eq!(error, Some(JournalError::Corrupt { sequence: 2 }), "bit {bit}");
        assert!(disk.damage(2, |bytes| bytes[bit / 8] ^= 1 << (bit % 8)));
    }
    assert!(open(disk.medium()).is_ok());
}

#[test]
fn j3_a_frame_of_another_journal_does_not_fit_the_chain() {
    let (disk, log) = filled(2);
    drop(log);
    let other = MemoryDisk::new();
    let options = LogOptions { new_id: JournalId([2; 16]), create: true };
    let mut log = Log::open(other.medium(), options, &mut |_| Ok(())).expect("a new journal");
    log.commit(&[append(1, 0, &[1])]).expect("a commit");
    let (_, foreign) = other.medium().frame_at_or_after(1).expect("readable").expect("there");
    disk.damage(1, |bytes| bytes.clone_from(&foreign));
    assert_eq!(open(disk.medium()).err(), Some(JournalError::Corrupt { sequence: 1 }));
}

#[test]
fn j4_an_append_at_another_version_writes_nothing_and_the_others_go_on() {
    let (disk, mut log) = filled(2);
    let answers = log
        .commit(&[append(1, 0, b"late"), append(2, 1, b"right"), append(3, 7, b"early")])
        .expect("a commit");
    assert_eq!(answers[0], Err(AppendError::Conflict { actual: 1 }));
    assert_eq!(answers[1].map(|placed| placed.version), Ok(2));
    assert_eq!(answers[2], Err(AppendError::Conflict { actual: 0 }));
    drop(log);
    let (_, seen) = open(disk.medium()).expect("it opens again");
    assert_eq!(seen.len(), 3);
}

#[test]
fn j5_what_was_acknowledged_survives_a_crash_and_what_was_not_may_be_there_whole_or_not_at_all() {
    for kept in 0..=1 {
        let (disk, mut log) = filled(4);
        disk.inject(Fault::SyncFails(JournalError::Storage));
        assert_eq!(log.commit(&[append(9, 0, b"unknown")]), Err(JournalError::Storage));
        assert_eq!(log.commit(&[append(9, 0, b"later")]), Err(JournalError::Poisoned));
        drop(log);
        disk.crash(kept);
        let (_, seen) = open(disk.medium()).expect("it opens again");
        assert_eq!(seen.len(), 4 + kept);
    }
}

#[test]
fn j5_a_disk_that_lies_about_a_sync_is_noticed_by_the_anchor() {
    let (disk, mut log) = filled(4);
    disk.inject(Fault::SyncLies);
    log.commit(&[append(9, 0, b"lost")]).expect("the disk said yes");
    drop(log);
    disk.crash(0);
    let error = open(disk.medium()).err();
    assert_eq!(error, Some(JournalError::BehindAnchor { sequence: 4, missing: 1 }));
}

#[test]
fn j5_every_acknowledged_commit_was_synced() {
    let (disk, mut log) = filled(0);
    for number in 1..=10 {
        let before = disk.syncs();
        log.commit(&[append(number, 0, b"x")]).expect("a commit");
        assert_eq!(disk.syncs(), before + 1);
    }
}

#[test]
fn j5_a_failed_write_poisons_whether_or_not_the_bytes_arrived() {
    for fault in
        [Fault::WriteFails(JournalError::Full), Fault::WriteFailsAfterwards(JournalError::Storage)]
    {
        let (disk, mut log) = filled(2);
        let reader = log.reader();
        disk.inject(fault);
        assert!(log.commit(&[append(7, 0, b"unknown")]).is_err());
        assert_eq!(reader.version(stream(7)), 0, "what is not durable does not show");
        let walk = reader.walk(None, &mut |_| Ok(())).expect("it verifies");
        assert_eq!(walk.head(), reader.head(), "and is not walked over");
        assert_eq!(log.commit(&[append(8, 0, b"later")]), Err(JournalError::Poisoned));
        assert_eq!(reader.read_stream(stream(1)).map(|records| records.len()), Ok(1));
    }
}

#[test]
fn j6_a_lost_tail_and_a_missing_anchor_are_refused() {
    for lost in 1..=5 {
        let (disk, log) = filled(5);
        drop(log);
        disk.cut(6 - lost);
        let error = open(disk.medium()).err();
        assert_eq!(error, Some(JournalError::BehindAnchor { sequence: 5 - lost, missing: lost }));
    }
    let (disk, log) = filled(5);
    drop(log);
    disk.lose_anchor();
    assert_eq!(open(disk.medium()).err(), Some(JournalError::AnchorMissing));
}

#[test]
fn j6_a_frame_under_another_number_than_its_own_is_never_written_over() {
    let (disk, log) = filled(2);
    drop(log);
    let (_, frame) = disk.medium().frame_at_or_after(2).expect("readable").expect("there");
    disk.cut(2);
    let frames = vec![(3, frame)];
    disk.medium().write(Batch { frames, chunks: Vec::new() }).expect("writable");
    disk.medium().sync().expect("durable");
    let error = open(disk.medium()).err();
    assert_eq!(error, Some(JournalError::Corrupt { sequence: 2 }));
    let exported = leasehold_journal::archive::export(&disk.medium(), &mut Vec::new());
    assert_eq!(exported, Err(JournalError::Corrupt { sequence: 2 }));
}

#[test]
fn j6_an_empty_folder_where_a_journal_was_is_a_loss_and_not_a_beginning() {
    let (disk, log) = filled(5);
    drop(log);
    disk.lose_folder();
    let error = open(disk.medium()).err();
    assert_eq!(error, Some(JournalError::BehindAnchor { sequence: 0, missing: 5 }));
}

#[test]
fn j6_history_cut_into_other_frames_is_not_the_history_the_anchor_knows() {
    // The same records, but more of them and in one frame: no frame ends where the anchor says.
    let (disk, log) = filled(5);
    drop(log);
    let other = MemoryDisk::new();
    let (mut log, _) = open(other.medium()).expect("an empty disk opens");
    let all: Vec<_> = (1..=6).map(|number| append(number, 0, &[number])).collect();
    log.commit(&all).expect("a commit");
    let (_, frame) = other.medium().frame_at_or_after(1).expect("readable").expect("there");
    disk.cut(2);
    disk.damage(1, |bytes| bytes.clone_from(&frame));
    assert_eq!(open(disk.medium()).err(), Some(JournalError::Diverged { sequence: 5 }));
}

#[test]
fn j5_what_an_opened_journal_shows_is_durable_even_if_its_last_life_never_synced_it() {
    let (disk, mut log) = filled(2);
    disk.inject(Fault::SyncFails(JournalError::Storage));
    log.commit(&[append(9, 0, b"unknown")]).expect_err("the sync fails");
    drop(log);
    let (log, seen) = open(disk.medium()).expect("the process starts again, the machine did not");
    assert_eq!(seen.len(), 3);
    drop(log);
    disk.crash(0);
    assert_eq!(open(disk.medium()).map(|(_, seen)| seen.len()), Ok(3));
}

#[test]
#[cfg(unix)]
fn a_folder_with_other_things_in_it_is_left_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("project");
    std::fs::create_dir_all(path.join("db")).expect("a folder");
    std::fs::write(path.join("db").join("schema.sql"), "x").expect("writable");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).expect("ours");
    assert_eq!(on_disk(&path).err(), Some(JournalError::NotAJournal));
    let script = path.join("run.sh");
    std::fs::write(&script, "x").expect("writable");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("ours");
    std::fs::remove_dir_all(path.join("db")).expect("removable");
    std::fs::write(path.join("lock"), "").expect("writable");
    assert_eq!(on_disk(&path).err(), Some(JournalError::NotAJournal));
    let mode = std::fs::metadata(&script).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    let link = folder.path().join("link/");
    std::os::unix::fs::symlink(&path, folder.path().join("link")).expect("a link");
    assert_eq!(on_disk(&link).err(), Some(JournalError::NotAJournal));
    let deep = folder.path().join("no/such/journal");
    assert_eq!(on_disk(&deep).err(), Some(JournalError::ParentMissing));
}

#[test]
fn process_safe_journals_reopen_and_their_anchor_never_outruns_their_records() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("journal");
    let open_unsafe = || open(SledMedium::open(&path, true, Durability::ProcessSafe)?);
    let (mut log, _) = open_unsafe().expect("a new journal");
    for version in 0..200 {
        log.commit(&[append(1, version, b"x")]).expect("a commit");
        let reading = leasehold_journal::anchor::read(&path.join("anchor")).expect("readable");
        let anchored = reading.expect("there").newest.expect("whole").head.sequence;
        assert!(anchored <= u64::from(version) + 1);
    }
    drop(log);
    assert_eq!(open_unsafe().map(|(_, seen)| seen.len()), Ok(200));
}

#[test]
fn j6_on_disk_an_older_copy_of_the_folder_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("journal");
    let (mut log, _) = on_disk(&path).expect("a new journal");
    log.commit(&[append(1, 0, b"old")]).expect("a commit");
    drop(log);
    let older = folder.path().join("older");
    leasehold_journal::folder::copy(&leasehold_journal::folder::Layout::new(&path), &older)
        .expect("a copy");
    let (mut log, _) = on_disk(&path).expect("it opens again");
    log.commit(&[append(1, 1, b"new")]).expect("a commit");
    drop(log);
    std::fs::remove_dir_all(&path).expect("removable");
    std::fs::rename(&older, &path).expect("movable");
    let error = on_disk(&path).err();
    assert_eq!(error, Some(JournalError::BehindAnchor { sequence: 1, missing: 1 }));
}

#[test]
fn on_disk_records_come_back_after_a_reopen_and_files_are_private() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("journal");
    let large = vec![7; 4_000_000];
    let (mut log, _) = on_disk(&path).expect("a new journal");
    log.commit(&[append(1, 0, b"small"), append(2, 0, &large)]).expect("a commit");
    log.commit(&[append(3, 0, &large)]).expect("the same text again");
    drop(log);
    let (log, seen) = on_disk(&path).expect("it opens again");
    assert_eq!(
        seen.iter().map(|record| record.body.len()).collect::<Vec<_>>(),
        [5, large.len(), large.len()]
    );
    let records = log.reader().read_stream(stream(3)).expect("readable");
    assert_eq!(records[0].body, large);
    let database = path.join("db");
    assert!(std::fs::read_dir(database.join("blobs")).expect("there").next().is_none());
    #[cfg(unix)]
    private(&path);
}

#[cfg(unix)]
fn private(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let metadata = std::fs::metadata(path).expect("there");
    let expected = if metadata.is_dir() { 0o700 } else { 0o600 };
    assert_eq!(metadata.permissions().mode() & 0o777, expected, "{}", path.display());
    if metadata.is_dir() {
        for entry in std::fs::read_dir(path).expect("readable") {
            private(&entry.expect("readable").path());
        }
    }
}

#[test]
#[cfg(unix)]
fn a_folder_open_to_others_a_link_and_a_foreign_folder_are_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("journal");
    drop(on_disk(&path).expect("a new journal"));
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).expect("a link");
    assert_eq!(on_disk(&link).err(), Some(JournalError::NotAJournal));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o750)).expect("ours");
    assert_eq!(on_disk(&path).err(), Some(JournalError::Permissions));
    let foreign = folder.path().join("foreign");
    std::fs::create_dir(&foreign).expect("a folder");
    std::fs::write(foreign.join("letter.txt"), "dear").expect("writable");
    assert_eq!(on_disk(&foreign).err(), Some(JournalError::NotAJournal));
    let missing = SledMedium::open(&folder.path().join("none"), false, Durability::PowerSafe).err();
    assert_eq!(missing, Some(JournalError::Missing));
}

#[test]
fn a_half_written_snapshot_of_a_killed_open_is_removed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("journal");
    let (mut log, _) = on_disk(&path).expect("a new journal");
    log.commit(&[append(1, 0, b"x")]).expect("a commit");
    drop(log);
    let leftover = path.join("db").join("snap.00000000000000FF.generating");
    std::fs::write(&leftover, b"half").expect("writable");
    let (_, seen) = on_disk(&path).expect("it opens all the same");
    assert_eq!(seen.len(), 1);
    assert!(!leftover.exists());
}

#[test]
fn a_value_that_sled_moved_to_a_blob_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("journal");
    drop(on_disk(&path).expect("a new journal"));
    std::fs::write(path.join("db").join("blobs").join("1"), b"x").expect("writable");
    assert_eq!(on_disk(&path).err(), Some(JournalError::Blobs));
}

#[test]
fn damaged_chunks_spoil_their_own_record_only() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(disk.medium()).expect("an empty disk opens");
    log.commit(&[append(1, 0, &vec![7; INLINE_BYTES_MAX + 1]), append(2, 0, b"fine")])
        .expect("a commit");
    drop(log);
    disk.lose_chunks();
    let mut seen = Vec::new();
    let log = Log::open(disk.medium(), OPTIONS, &mut |item| {
        if let Item::Record { sequence, record, .. } = item {
            seen.push((sequence, record.is_ok()));
        }
        Ok(())
    })
    .expect("the journal opens");
    assert_eq!(seen, [(1, false), (2, true)]);
    let error = log.reader().read_stream(stream(1)).err();
    assert_eq!(error, Some(JournalError::Corrupt { sequence: 1 }));
}

#[test]
fn an_oversized_and_an_empty_append_are_refused_alone() {
    let (_, mut log) = filled(0);
    let empty = Append { stream: stream(2), expected_version: 0, bodies: Vec::new(), alone: None };
    let answers = log
        .commit(&[append(1, 0, &vec![0; BODY_BYTES_MAX + 1]), empty, append(3, 0, b"fine")])
        .expect("a commit");
    assert_eq!(answers[0], Err(AppendError::Size));
    assert_eq!(answers[1], Err(AppendError::Size));
    assert!(answers[2].is_ok());
}

#[test]
fn reading_one_stream_costs_its_own_frames_however_long_the_journal_is() {
    let (_, mut log) = filled(0);
    for round in 0..200_u32 {
        let others: Vec<_> = (10..60).map(|number| append(number, round, &[0; 300])).collect();
        log.commit(&others).expect("a commit");
    }
    log.commit(&[append(1, 0, b"first")]).expect("a commit");
    let reader = log.reader();
    assert_eq!(reader.read_stream(stream(1)).map(|records| records[0].sequence), Ok(10_001));
    assert_eq!(reader.read_stream(stream(10)).map(|records| records.len()), Ok(200));
    assert_eq!(reader.read_stream(stream(99)).map(|records| records.len()), Ok(0));
}

#[test]
fn an_archive_proves_itself_and_every_cut_of_it_is_noticed() {
    let (disk, mut log) = filled(3);
    log.commit(&[append(8, 0, &vec![3; 70_000])]).expect("a commit");
    let mut bytes = Vec::new();
    let head = archive::export(&disk.medium(), &mut bytes).expect("it verifies");
    let mut count = 0;
    let read = archive::read(&mut bytes.as_slice(), &mut |item| {
        if let Item::Record { record, .. } = item {
            record?;
            count += 1;
        }
        Ok(())
    });
    assert_eq!((read, count), (Ok((JournalId([1; 16]), head)), 4));
    for length in (0..bytes.len()).step_by(7).chain([bytes.len() - 1]) {
        let cut = archive::read(&mut &bytes[..length], &mut |_| Ok(()));
        assert!(cut.is_err(), "cut at {length}");
    }
    for at in (0..bytes.len()).step_by(11) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let read = archive::read(&mut damaged.as_slice(), &mut |item| match item {
            Item::Record { record, .. } => record.map(drop),
            Item::Base(_) | Item::Carried { .. } | Item::Frame(_) => Ok(()),
        });
        assert!(read.is_err(), "byte {at}");
    }
    bytes.push(0);
    assert!(archive::read(&mut bytes.as_slice(), &mut |_| Ok(())).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// J2 to J5 against a model: random commits, crashes and reopens.
    #[test]
    fn a_journal_equals_its_model(rounds in proptest::collection::vec((0_u8..6, 0_usize..40_000, 0_u8..8), 1..40)) {
        let disk = MemoryDisk::new();
        let (mut log, _) = open(disk.medium()).expect("an empty disk opens");
        let mut model: Vec<(u8, Vec<u8>)> = Vec::new();
        for (number, size, action) in rounds {
            let version = model.iter().filter(|(other, _)| *other == number).count() as u32;
            let body = vec![number; size];
            log.commit(&[append(number, version, &body)]).expect("a commit")[0].expect("no conflict");
            model.push((number, body));
            if action == 0 {
                drop(log);
                disk.crash(0);
                let (reopened, seen) = open(disk.medium()).expect("it opens again");
                log = reopened;
                prop_assert!(seen.iter().map(|r| (r.stream.0[0], &r.body)).eq(model.iter().map(|(n, b)| (*n, b))));
            }
            let records = log.reader().read_stream(stream(number)).expect("readable");
            prop_assert_eq!(records.len() as u32, version + 1);
        }
    }
}
