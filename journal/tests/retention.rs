//! J6 with archives: records move, whole frames from the oldest on, and nothing else changes.

use leasehold_journal::anchor::{Anchor, AnchorFile};
use leasehold_journal::archive;
use leasehold_journal::chunk::INLINE_BYTES_MAX;
use leasehold_journal::folder::{self, Layout};
use leasehold_journal::medium::Medium;
use leasehold_journal::memory::{MemoryDisk, MemoryMedium};
use leasehold_journal::sled::SledMedium;
use leasehold_journal::walk::{Item, Walk};
use leasehold_journal::{
    Append, Digest, Durability, Head, JournalError, JournalId, Log, LogOptions, Store, StoreReader,
    StreamId,
};
use std::path::{Path, PathBuf};

const ID: JournalId = JournalId([1; 16]);
const OPTIONS: LogOptions = LogOptions { new_id: ID, create: true };

fn stream(number: u8) -> StreamId {
    StreamId([number; 16])
}

fn append(number: u8, expected_version: u32, body: &[u8]) -> Append {
    Append { stream: stream(number), expected_version, bodies: vec![body.to_vec()], alone: None }
}

/// What an open showed: (stream, version, body) of every entry and record, entries as version 0.
type Seen = Vec<(u8, u32, Vec<u8>)>;

fn open<M: Medium>(medium: M) -> Result<(Log<M>, Seen, Vec<Head>), JournalError> {
    let (mut seen, mut heads) = (Vec::new(), Vec::new());
    let log = Log::open(medium, OPTIONS, &mut |item| {
        match item {
            Item::Base(base) => heads.push(base.head),
            Item::Carried { stream, image, .. } => seen.push((stream.0[0], 0, image?)),
            Item::Record { record, .. } => {
                let record = record?;
                seen.push((record.stream.0[0], record.version, record.body));
            }
            Item::Frame(head) => heads.push(head),
        }
        Ok(())
    })?;
    Ok((log, seen, heads))
}

/// The image of a stream: its bodies so far, one after another.
fn image(reader: &dyn StoreReader, until: u64, stream: StreamId) -> Result<Vec<u8>, JournalError> {
    let mut image = reader.carried(stream)?.map_or_else(Vec::new, |entry| entry.image);
    for record in reader.read_stream(stream)?.into_iter().filter(|it| it.sequence <= until) {
        image.extend_from_slice(&record.body);
    }
    Ok(image)
}

fn rebase<M: Medium>(log: Log<M>, until: Head) -> Result<(), JournalError> {
    log.rebase(until, &mut |reader, stream| image(reader, until.sequence, stream))
}

/// Streams 1, 2, 1, 3 in a frame each; the second record of 1 is large.
fn filled(disk: &MemoryDisk) -> Log<MemoryMedium> {
    let (mut log, _, _) = open(disk.medium()).expect("an empty disk opens");
    let large = vec![b'x'; INLINE_BYTES_MAX + 1];
    for append in [append(1, 0, b"a"), append(2, 0, b"b"), append(1, 1, &large), append(3, 0, b"d")]
    {
        log.commit(&[append]).expect("a commit")[0].expect("no conflict");
    }
    log
}

#[test]
fn j6_records_that_moved_to_an_archive_leave_their_image_and_the_chain_goes_on() {
    let disk = MemoryDisk::new();
    drop(filled(&disk));
    let (log, _, heads) = open(disk.medium()).expect("it opens");
    let mut file = Vec::new();
    log.archive(heads[2], &mut file).expect("it verifies");
    log.verify_archive(heads[2], &mut file.as_slice()).expect("it was written");
    let short = log.verify_archive(heads[3], &mut file.as_slice());
    assert_eq!(short, Err(JournalError::Diverged { sequence: 4 }), "it ends elsewhere");
    for at in (0..file.len()).step_by(61) {
        let mut damaged = file.clone();
        damaged[at] ^= 0x10;
        assert!(log.verify_archive(heads[2], &mut damaged.as_slice()).is_err(), "byte {at}");
    }
    rebase(log, heads[2]).expect("it is archived");
    let (mut log, seen, _) = open(disk.medium()).expect("it opens again");
    let large = [b"a".to_vec(), vec![b'x'; INLINE_BYTES_MAX + 1]].concat();
    let expected = [(1, 0, large.clone()), (2, 0, b"b".to_vec()), (3, 1, b"d".to_vec())];
    assert_eq!(seen, expected);
    let reader = log.reader();
    assert_eq!(reader.version(stream(1)), 2, "versions count on");
    assert_eq!(reader.read_stream(stream(1)), Ok(Vec::new()));
    assert_eq!(reader.carried(stream(1)).expect("readable").expect("there").image, large);
    assert_eq!(reader.carried(stream(3)), Ok(None));
    let mut carried = 0;
    let walk = reader.walk(None, &mut |item| {
        carried += u32::from(matches!(item, Item::Carried { .. }));
        Ok(())
    });
    assert_eq!((walk.expect("it verifies").head(), carried), (reader.head(), 2));
    log.commit(&[append(1, 2, b"e")]).expect("a commit")[0].expect("no conflict");
    assert_eq!(reader.read_stream(stream(1)).expect("readable")[0].version, 3);
    // The archive is an ordinary one, and the rest goes on where it ends.
    let (id, head) = archive::read(&mut file.as_slice(), &mut |_| Ok(())).expect("it verifies");
    assert_eq!((id, head), (ID, heads[2]));
}

#[test]
fn j6_a_second_move_replaces_the_base_and_the_archives_are_one_chain() {
    let disk = MemoryDisk::new();
    drop(filled(&disk));
    let mut files = Vec::new();
    for place in [0, 2] {
        let (log, _, heads) = open(disk.medium()).expect("it opens");
        let mut file = Vec::new();
        log.archive(heads[place], &mut file).expect("it verifies");
        log.verify_archive(heads[place], &mut file.as_slice()).expect("it was written");
        files.push(file);
        rebase(log, heads[place]).expect("it is archived");
    }
    assert_eq!((&files[0][..4], &files[1][..4]), (&b"LHX1"[..], &b"LHX2"[..]));
    let part = archive::read(&mut files[1].as_slice(), &mut |_| Ok(()));
    assert_eq!(part, Err(JournalError::ArchivePart));
    let mut walk = Walk::new(ID);
    let mut records = 0;
    for file in &files {
        let mut count = |item| {
            records += u32::from(matches!(item, Item::Record { .. }));
            Ok(())
        };
        archive::read_on(&mut file.as_slice(), &mut walk, &mut count).expect("they follow");
    }
    let (walk, stopped) = leasehold_journal::walk::on(&disk.medium(), walk, &mut |_| Ok(()));
    assert_eq!((stopped, records, walk.head().sequence), (Ok(()), 3, 4));
    // Without the first one the second does not follow, and the journal says what is missing.
    let again = archive::read_on(&mut files[1].as_slice(), &mut Walk::new(ID), &mut |_| Ok(()));
    assert_eq!(again, Err(JournalError::Diverged { sequence: 1 }));
    let mut walk = Walk::new(ID);
    archive::read_on(&mut files[0].as_slice(), &mut walk, &mut |_| Ok(())).expect("it verifies");
    let (_, stopped) = leasehold_journal::walk::on(&disk.medium(), walk, &mut |_| Ok(()));
    assert_eq!(stopped, Err(JournalError::ArchiveMissing { sequence: 2 }));
}

#[test]
fn an_export_of_a_journal_with_a_base_proves_itself_and_every_change_of_it_is_noticed() {
    let disk = MemoryDisk::new();
    drop(filled(&disk));
    let (log, _, heads) = open(disk.medium()).expect("it opens");
    rebase(log, heads[2]).expect("a frame ends there");
    let mut bytes = Vec::new();
    let head = archive::export(&disk.medium(), &mut bytes).expect("it verifies");
    let mut kinds = Vec::new();
    let read = |bytes: &[u8], kinds: &mut Vec<u8>| {
        let mut input = bytes;
        archive::read(&mut input, &mut |item| {
            kinds.push(match item {
                Item::Base(_) => b'B',
                Item::Carried { image, .. } => image.map(|_| b'N')?,
                Item::Record { record, .. } => record.map(|_| b'R')?,
                Item::Frame(_) => b'F',
            });
            Ok(())
        })
    };
    assert_eq!(read(&bytes, &mut kinds), Ok((ID, head)));
    assert_eq!(kinds, b"BNNRF");
    for length in (0..bytes.len()).step_by(7).chain([bytes.len() - 1]) {
        assert!(read(&bytes[..length], &mut kinds).is_err(), "cut at {length}");
    }
    for at in (0..bytes.len()).step_by(11) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(read(&damaged, &mut kinds).is_err(), "byte {at}");
    }
}

#[test]
fn damaged_chunks_of_an_image_spoil_its_own_stream_only() {
    let disk = MemoryDisk::new();
    drop(filled(&disk));
    let (log, _, heads) = open(disk.medium()).expect("it opens");
    rebase(log, heads[2]).expect("a frame ends there");
    disk.lose_chunks();
    let mut seen = Vec::new();
    let log = Log::open(disk.medium(), OPTIONS, &mut |item| {
        if let Item::Carried { stream, image, .. } = item {
            seen.push((stream.0[0], image.err()));
        }
        Ok(())
    })
    .expect("the journal opens");
    let corrupt = JournalError::Corrupt { sequence: 3 };
    assert_eq!(seen, [(1, Some(corrupt.clone())), (2, None)]);
    assert_eq!(log.reader().carried(stream(1)), Err(corrupt));
}

#[test]
fn a_damaged_entry_refuses_the_journal() {
    let disk = MemoryDisk::new();
    drop(filled(&disk));
    let (log, _, heads) = open(disk.medium()).expect("it opens");
    rebase(log, heads[2]).expect("a frame ends there");
    assert!(disk.damage_entry(stream(2), |bytes| bytes[15] ^= 1));
    assert_eq!(open(disk.medium()).err(), Some(JournalError::Corrupt { sequence: 0 }));
    assert!(disk.damage_entry(stream(2), |bytes| bytes[15] ^= 1));
    assert!(open(disk.medium()).is_ok());
    assert!(!disk.damage_entry(stream(3), |_| ()), "it has no record up to the base");
}

#[test]
fn only_a_frames_end_can_be_the_base_and_a_crash_before_the_end_changes_nothing() {
    let disk = MemoryDisk::new();
    drop(filled(&disk));
    let (log, before, heads) = open(disk.medium()).expect("it opens");
    let elsewhere = Head { sequence: 2, hash: heads[2].hash };
    assert_eq!(rebase(log, elsewhere), Err(JournalError::Diverged { sequence: 2 }));
    let (log, ..) = open(disk.medium()).expect("it opens");
    let reader = log.reader();
    assert_eq!(rebase(log, heads[2]), Err(JournalError::Locked), "somebody reads");
    drop(reader);
    disk.crash(0);
    let (log, seen, _) = open(disk.medium()).expect("it opens");
    assert_eq!(seen, before);
    let refuses = log.rebase(heads[2], &mut |_, _| Err(JournalError::Storage));
    assert_eq!(refuses, Err(JournalError::Storage));
    assert_eq!(open(disk.medium()).map(|(_, seen, _)| seen), Ok(before));
}

fn on_disk(path: &Path) -> Result<(Log<SledMedium>, Seen, Vec<Head>), JournalError> {
    open(SledMedium::open(path, true, Durability::PowerSafe)?)
}

fn copied(from: &Path, to: &Path) {
    let done = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(done.expect("cp runs").success());
}

/// A folder with a journal of 40 frames, and the same after the first 30 were let go.
fn before_and_after(folder: &Path) -> (PathBuf, PathBuf) {
    let (path, before) = (folder.join("journal"), folder.join("before"));
    let (mut log, ..) = on_disk(&path).expect("a new journal");
    for version in 0..40 {
        log.commit(&[append(1, version, b"body")]).expect("a commit")[0].expect("no conflict");
    }
    drop(log);
    copied(&path, &before);
    copied(&path.with_extension("anchor"), &before.with_extension("anchor"));
    let (log, _, heads) = on_disk(&path).expect("it opens");
    rebase(log, heads[29]).expect("a frame ends there");
    (before, path)
}

#[test]
fn j6_killed_at_each_step_of_the_replacement_the_journal_is_whole_the_one_way_or_the_other() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (before, after) = before_and_after(folder.path());
    let half = |at: &Path| {
        copied(&after.join("db"), at);
        std::fs::remove_file(at.join("conf")).expect("it was there");
    };
    let whole = |from: &Path, at: &Path| copied(&from.join("db"), at);
    for (number, moved) in [false, false, false, true, true].into_iter().enumerate() {
        let path = folder.path().join(format!("killed-{number}"));
        std::fs::create_dir(&path).expect("a folder");
        copied(&before.join("lock"), &path.join("lock"));
        copied(&before.join("anchor"), &path.join("anchor"));
        copied(&before.with_extension("anchor"), &path.with_extension("anchor"));
        let (now, next, old) = (path.join("db"), path.join("db.new"), path.join("db.old"));
        match number {
            0 => std::fs::create_dir(&next).expect("a folder"),
            1 => half(&next),
            2 => whole(&after, &next),
            3 => (whole(&after, &next), whole(&before, &old)).0,
            _ => whole(&before, &old),
        }
        match number {
            0..=2 => whole(&before, &now),
            3 => {}
            _ => whole(&after, &now),
        }
        folder::tighten(&path).expect("ours");
        // A reader takes the one that counts, and changes nothing.
        let names = |path: &Path| {
            let entries = std::fs::read_dir(path).expect("readable");
            let mut names: Vec<_> = entries.map(|it| it.expect("readable").file_name()).collect();
            names.sort();
            names
        };
        let found = names(&path);
        let copy = folder.path().join(format!("copy-{number}"));
        folder::copy(&Layout::new(&path), &copy).expect("readable");
        let (_, read, _) = open(SledMedium::open_copy(&copy).expect("sound")).expect("it verifies");
        assert_eq!(names(&path), found);
        let (mut log, seen, _) = on_disk(&path).expect("it opens");
        assert_eq!(seen, read, "step {number}");
        assert_eq!(seen.len(), if moved { 11 } else { 40 }, "step {number}");
        log.commit(&[append(1, 40, b"more")]).expect("a commit")[0].expect("no conflict");
        drop(log);
        assert_eq!(names(&path), ["anchor", "db", "lock"]);
        assert!(on_disk(&path).is_ok());
    }
}

#[test]
fn a_state_that_no_step_leaves_is_refused_and_nothing_is_removed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (_, after) = before_and_after(folder.path());
    std::fs::rename(after.join("db"), after.join("db.new")).expect("movable");
    assert_eq!(on_disk(&after).err(), Some(JournalError::Corrupt { sequence: 0 }));
    let alone = SledMedium::open(&after, false, Durability::PowerSafe).err();
    assert_eq!(alone, Some(JournalError::Missing));
    assert!(after.join("db.new").join("db").is_file());
}

#[test]
fn a_journal_with_a_base_says_so_in_its_version_and_is_private() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (before, after) = before_and_after(folder.path());
    // An older library knows version 1 only.
    for (path, versions) in [(&before, [true, false]), (&after, [false, true])] {
        let bytes = std::fs::read(path.join("db").join("db")).expect("readable");
        let found = [1_u8, 2].map(|version| {
            let meta = [b"LHJ1", &[version, 0][..], &ID.0].concat();
            bytes.windows(meta.len()).any(|window| window == meta)
        });
        assert_eq!(found, versions);
    }
    #[cfg(unix)]
    for name in ["", "db", "db/db", "db/conf"] {
        use std::os::unix::fs::PermissionsExt as _;
        let metadata = std::fs::metadata(after.join(name)).expect("there");
        let expected = if metadata.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(metadata.permissions().mode() & 0o777, expected, "{name}");
    }
}

#[test]
fn an_anchor_from_before_the_base_is_no_alarm_and_one_of_another_journal_is() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (_, after) = before_and_after(folder.path());
    let outer = after.with_extension("anchor");
    let note = |journal: JournalId, sequence: u64| {
        let head = Head { sequence, hash: Digest([7; 32]) };
        let anchor = Anchor { journal, head };
        std::fs::remove_file(&outer).expect("it was there");
        drop(AnchorFile::create(&outer, &anchor, 1).expect("writable"));
    };
    note(ID, 29);
    assert!(on_disk(&after).is_ok(), "what it knows is in the archives");
    for (journal, sequence) in [(ID, 30), (ID, 35), (JournalId([8; 16]), 29)] {
        note(journal, sequence);
        let error = on_disk(&after).err();
        assert_eq!(error, Some(JournalError::Diverged { sequence }), "{journal} {sequence}");
    }
}

#[test]
fn a_replacement_that_fails_leaves_nothing_behind_and_the_journal_as_it_was() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (before, _) = before_and_after(folder.path());
    let (log, seen, heads) = on_disk(&before).expect("it opens");
    let failed = log.rebase(heads[9], &mut |_, _| Err(JournalError::Full));
    assert_eq!(failed, Err(JournalError::Full));
    assert!(!before.join("db.new").exists());
    assert_eq!(on_disk(&before).map(|(_, seen, _)| seen), Ok(seen));
}
