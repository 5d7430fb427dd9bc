//! What a clean close leaves: used once, believed only as long as nothing was touched, and never missed.

use leasehold_journal::checkpoint::Checkpoint;
use leasehold_journal::medium::{Batch, Medium};
use leasehold_journal::memory::{Fault, MemoryDisk};
use leasehold_journal::sled::SledMedium;
use leasehold_journal::{
    Append, AppendError, Durability, JournalError, JournalId, Log, LogOptions, LogReader, Store,
    StoreReader as _, StreamId,
};
use std::path::Path;

const OPTIONS: LogOptions = LogOptions { new_id: JournalId([1; 16]), create: true };

/// What an open came to: the log, the note it was offered, and how much it was shown.
struct Opened<M: Medium> {
    log: Log<M>,
    note: Option<Vec<u8>>,
    shown: usize,
}

fn open<M: Medium>(medium: M, accept: bool) -> Result<Opened<M>, JournalError> {
    let (mut note, mut shown) = (None, 0);
    let log = Log::open_from(
        medium,
        OPTIONS,
        &mut |offered| {
            note = Some(offered.to_vec());
            accept
        },
        &mut |_| {
            shown += 1;
            Ok(())
        },
    )?;
    Ok(Opened { log, note, shown })
}

fn commit<M: Medium>(log: &mut Log<M>, stream: u8, expected_version: u32) {
    let stream = StreamId([stream; 16]);
    let append = Append {
        stream,
        expected_version,
        bodies: vec![vec![expected_version as u8]],
        alone: None,
    };
    log.commit(&[append]).expect("a commit")[0].expect("no conflict");
}

fn leave<M: Medium>(mut log: Log<M>, note: &[u8]) -> Result<(), JournalError> {
    log.settle_anchor()?;
    let store: Box<dyn Store> = Box::new(log);
    store.leave(note)
}

/// A disk with five frames in two streams, closed with a note.
fn closed() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let Opened { mut log, .. } = open(disk.medium(), true).expect("an empty disk opens");
    for (stream, version) in [(7, 0), (8, 0), (7, 1), (7, 2), (8, 1)] {
        commit(&mut log, stream, version);
    }
    leave(log, b"note").expect("it is left");
    disk
}

fn versions<M: Medium>(reader: &LogReader<M>) -> [u32; 3] {
    [7, 8, 9].map(|stream| reader.version(StreamId([stream; 16])))
}

#[test]
fn a_journal_goes_on_from_what_was_left_and_is_shown_nothing() {
    let disk = closed();
    let walked = open(disk.medium(), false).expect("it opens");
    assert_eq!((walked.note.as_deref(), walked.shown), (Some(&b"note"[..]), 10));
    let (head, tips) = (walked.log.reader().head(), versions(&walked.log.reader()));
    let disk = closed();
    let Opened { mut log, note, shown } = open(disk.medium(), true).expect("it opens");
    assert_eq!((note.as_deref(), shown), (Some(&b"note"[..]), 0));
    assert_eq!((log.reader().head(), versions(&log.reader())), (head, tips));
    let records = log.reader().read_stream(StreamId([7; 16])).expect("readable");
    assert_eq!(records.iter().map(|it| it.version).collect::<Vec<_>>(), [1, 2, 3]);
    let stale = Append {
        stream: StreamId([8; 16]),
        expected_version: 1,
        bodies: vec![vec![1]],
        alone: None,
    };
    assert_eq!(log.commit(&[stale]), Ok(vec![Err(AppendError::Conflict { actual: 2 })]));
    commit(&mut log, 8, 2);
    drop(log);
    assert_eq!(open(disk.medium(), true).map(|opened| opened.shown), Ok(12));
}

#[test]
fn it_is_gone_before_anything_is_written_whether_it_was_used_or_not() {
    for accept in [true, false] {
        let disk = closed();
        assert!(disk.checkpoint().is_some());
        let opened = open(disk.medium(), accept).expect("it opens");
        assert_eq!(disk.checkpoint(), None);
        drop(opened);
        disk.crash(0);
        let again = open(disk.medium(), true).expect("it opens");
        assert_eq!((again.note, again.shown), (None, 10), "an engine that is killed leaves none");
    }
    let disk = closed();
    drop(Log::open(disk.medium(), OPTIONS, &mut |_| Ok(())).expect("it opens"));
    assert_eq!(disk.checkpoint(), None);
}

#[test]
fn a_journal_that_is_refused_keeps_it_and_stays_refused() {
    let disk = closed();
    let left = disk.checkpoint();
    assert!(disk.damage(2, |bytes| bytes[60] ^= 1));
    for _ in 0..2 {
        let refused = open(disk.medium(), true).err();
        assert_eq!(refused, Some(JournalError::Corrupt { sequence: 2 }));
        assert_eq!(disk.checkpoint(), left);
    }
}

#[test]
fn a_poisoned_log_leaves_nothing() {
    let disk = closed();
    let Opened { mut log, .. } = open(disk.medium(), true).expect("it opens");
    disk.inject(Fault::WriteFails(JournalError::Full));
    let append = Append {
        stream: StreamId([9; 16]),
        expected_version: 0,
        bodies: vec![vec![1]],
        alone: None,
    };
    assert_eq!(log.commit(&[append]), Err(JournalError::Full));
    let store: Box<dyn Store> = Box::new(log);
    assert_eq!(store.leave(b"note"), Err(JournalError::Poisoned));
    assert_eq!(disk.checkpoint(), None);
}

#[test]
fn a_frame_behind_its_head_and_a_tail_that_was_cut_are_noticed_by_the_walk() {
    let disk = closed();
    let frames = vec![(6, b"nothing of ours".to_vec())];
    disk.medium().write(Batch { frames, chunks: Vec::new() }).expect("memory does not fail");
    assert_eq!(open(disk.medium(), true).err(), Some(JournalError::Corrupt { sequence: 6 }));
    let disk = closed();
    disk.cut(5);
    let behind = JournalError::BehindAnchor { sequence: 4, missing: 1 };
    assert_eq!(open(disk.medium(), true).err(), Some(behind));
    let disk = closed();
    disk.lose_anchor();
    assert_eq!(open(disk.medium(), true).err(), Some(JournalError::AnchorMissing));
}

#[test]
fn a_journal_with_a_base_goes_on_from_it_too_and_its_archived_records_are_found() {
    let disk = closed();
    let mut heads = Vec::new();
    let log = Log::open(disk.medium(), OPTIONS, &mut |item| {
        if let leasehold_journal::walk::Item::Frame(head) = item {
            heads.push(head);
        }
        Ok(())
    });
    let log = log.expect("it opens");
    for until in [heads[1], heads[4]] {
        let disk = if until == heads[4] { closed() } else { disk.clone() };
        let log = Log::open(disk.medium(), OPTIONS, &mut |_| Ok(())).expect("it opens");
        log.rebase(until, &mut |_, _| Ok(b"image".to_vec())).expect("a frame ends there");
        let walked = open(disk.medium(), true).expect("it opens");
        assert_eq!(walked.note, None);
        let before = versions(&walked.log.reader());
        leave(walked.log, b"after").expect("it is left");
        let Opened { log, note, shown } = open(disk.medium(), true).expect("it opens");
        assert_eq!((note.as_deref(), shown), (Some(&b"after"[..]), 0));
        assert_eq!(versions(&log.reader()), before);
        let carried = log.reader().carried(StreamId([7; 16])).expect("readable");
        assert_eq!(carried.map(|entry| entry.image), Some(b"image".to_vec()));
    }
    drop(log);
}

fn on_disk(path: &Path) -> Result<Opened<SledMedium>, JournalError> {
    open(SledMedium::open(path, true, Durability::PowerSafe)?, true)
}

/// A journal of three frames in a folder, closed with a note.
fn closed_on_disk(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("journal");
    let Opened { mut log, .. } = on_disk(&path).expect("a new journal");
    for version in 0..3 {
        commit(&mut log, 7, version);
    }
    leave(log, b"note").expect("it is left");
    path
}

#[test]
fn on_disk_it_is_written_when_the_last_one_lets_go_and_is_private() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("journal");
    let Opened { mut log, .. } = on_disk(&path).expect("a new journal");
    commit(&mut log, 7, 0);
    let reader = log.reader();
    leave(log, b"note").expect("it is left");
    assert!(!path.join("checkpoint").exists(), "somebody reads");
    assert_eq!(reader.read_stream(StreamId([7; 16])).map(|records| records.len()), Ok(1));
    drop(reader);
    let bytes = std::fs::read(path.join("checkpoint")).expect("it is there");
    let checkpoint = Checkpoint::decode(&bytes).expect("it is whole");
    assert_eq!((checkpoint.head.sequence, checkpoint.note), (1, &b"note"[..]));
    assert!(!path.join("checkpoint.tmp").exists());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(path.join("checkpoint")).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let Opened { log, note, shown } = on_disk(&path).expect("it opens");
    assert_eq!((note.as_deref(), shown), (Some(&b"note"[..]), 0));
    assert!(!path.join("checkpoint").exists());
    leave(log, b"again").expect("it is left");
    let again = on_disk(&path).expect("it opens");
    assert_eq!((again.note.as_deref(), again.shown), (Some(&b"again"[..]), 0));
}

#[test]
fn without_an_anchor_beside_the_folder_it_is_used_as_well() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("journal");
    let open_alone = || {
        let medium = SledMedium::open(&path, true, Durability::ProcessSafe)?;
        open(medium.without_outer_anchor(), true)
    };
    let Opened { mut log, .. } = open_alone().expect("a new journal");
    commit(&mut log, 7, 0);
    leave(log, b"note").expect("it is left");
    assert!(!path.with_extension("anchor").exists());
    assert_eq!(open_alone().map(|opened| opened.shown), Ok(0));
}

#[test]
fn a_database_that_was_touched_at_once_with_the_same_length_is_verified_as_a_whole() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = closed_on_disk(folder.path());
    let database = path.join("db").join("db");
    let bytes = std::fs::read(&database).expect("readable");
    std::fs::write(&database, &bytes).expect("writable");
    let opened = on_disk(&path).expect("nothing is wrong with it");
    assert_eq!((opened.note, opened.shown), (None, 6));
    leave(opened.log, b"note").expect("it is left");
    let mut bytes = std::fs::read(&database).expect("readable");
    let frame = bytes.windows(4).position(|it| it == b"LHF\x01").expect("it is in there");
    bytes[frame + 30] ^= 1;
    std::fs::write(&database, &bytes).expect("writable");
    let found = on_disk(&path).err();
    std::fs::remove_file(path.join("checkpoint")).expect("a refused journal keeps it");
    assert!(found.is_some());
    assert_eq!(on_disk(&path).err(), found, "the same as without it");
}

#[test]
fn on_disk_a_damaged_a_foreign_and_a_half_written_one_cost_time_only() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = closed_on_disk(folder.path());
    let other = tempfile::tempdir().expect("a temporary folder");
    let other = closed_on_disk(other.path());
    let foreign = std::fs::read(other.join("checkpoint")).expect("it is there");
    let own = std::fs::read(path.join("checkpoint")).expect("it is there");
    for bytes in [foreign, own[..own.len() - 1].to_vec(), Vec::new(), vec![0; 1000]] {
        std::fs::write(path.join("checkpoint"), &bytes).expect("writable");
        std::fs::write(path.join("checkpoint.tmp"), &own).expect("writable");
        let Opened { log, note, shown } = on_disk(&path).expect("it opens");
        assert_eq!((note, shown), (None, 6), "{} bytes", bytes.len());
        assert!(!path.join("checkpoint").exists() && !path.join("checkpoint.tmp").exists());
        drop(log);
    }
}

#[test]
fn an_older_folder_with_its_own_checkpoint_is_refused_by_the_anchor_beside_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = closed_on_disk(folder.path());
    let older = folder.path().join("older");
    let copied = std::process::Command::new("cp").arg("-a").arg(&path).arg(&older).status();
    assert!(copied.expect("cp runs").success());
    let Opened { mut log, .. } = on_disk(&path).expect("it opens");
    commit(&mut log, 7, 3);
    leave(log, b"newer").expect("it is left");
    std::fs::remove_dir_all(&path).expect("removable");
    std::fs::rename(&older, &path).expect("movable");
    let behind = JournalError::BehindAnchor { sequence: 3, missing: 1 };
    assert_eq!(on_disk(&path).err(), Some(behind));
}
