//! Journals as they are opened: long enough for a thread beside, and short ones; and archives read alone.

use leasehold_journal::archive;
use leasehold_journal::memory::MemoryDisk;
use leasehold_journal::walk::{Item, Walk};
use leasehold_journal::{
    Append, AppendError, JournalError, JournalId, Log, LogOptions, Store as _, StoreReader as _,
    StreamId,
};

const OPTIONS: LogOptions = LogOptions { new_id: JournalId([1; 16]), create: true };

/// A disk with `count` frames of one record each, all in one stream.
fn filled(count: u32) -> MemoryDisk {
    let disk = MemoryDisk::new();
    let mut log = Log::open(disk.medium(), OPTIONS, &mut |_| Ok(())).expect("an empty disk opens");
    for expected_version in 0..count {
        let bodies = vec![expected_version.to_le_bytes().to_vec()];
        let append = Append { stream: StreamId([7; 16]), expected_version, bodies, alone: None };
        let answers = log.commit(&[append]).expect("a commit");
        assert!(answers[0].is_ok());
    }
    disk
}

/// Opens it and answers the head and what was shown; `refused` is a record the visitor refuses.
fn open(disk: &MemoryDisk, refused: u64) -> (Result<u64, JournalError>, Vec<u64>) {
    let mut shown = Vec::new();
    let log = Log::open(disk.medium(), OPTIONS, &mut |item| {
        if let Item::Record { sequence, record, .. } = item {
            assert_eq!(record?.sequence, sequence);
            shown.push(sequence);
            if sequence == refused {
                return Err(JournalError::Newer { version: 9 });
            }
        }
        Ok(())
    });
    (log.map(|log| log.reader().head().sequence), shown)
}

#[test]
fn every_record_is_shown_once_and_in_order_however_long_the_journal_is() {
    for count in [0, 1, 63, 64, 65, 700] {
        let (head, shown) = open(&filled(count), 0);
        assert_eq!(head, Ok(count.into()));
        assert_eq!(shown, (1..=count.into()).collect::<Vec<u64>>());
    }
}

#[test]
fn what_the_visitor_refuses_refuses_the_journal_and_nothing_is_written() {
    for refused in [3, 64, 65, 600, 700] {
        let disk = filled(700);
        let syncs = disk.syncs();
        let (head, shown) = open(&disk, refused);
        assert_eq!(head, Err(JournalError::Newer { version: 9 }), "at {refused}");
        assert_eq!(shown.last(), Some(&refused), "nothing is shown behind it");
        assert_eq!(disk.syncs(), syncs);
        assert_eq!(open(&disk, 0).0, Ok(700), "it is as it was");
    }
}

#[test]
fn damage_anywhere_in_a_long_journal_is_named_after_what_comes_before_it() {
    for place in [2, 64, 65, 66, 699] {
        let disk = filled(700);
        assert!(disk.damage(place, |bytes| bytes[60] ^= 1), "there is a frame");
        let (head, shown) = open(&disk, 0);
        assert_eq!(head, Err(JournalError::Corrupt { sequence: place }));
        assert_eq!(shown, (1..place).collect::<Vec<u64>>());
    }
}

#[test]
fn a_commit_of_refused_appends_alone_writes_nothing() {
    let disk = filled(3);
    let mut log = Log::open(disk.medium(), OPTIONS, &mut |_| Ok(())).expect("it opens");
    let syncs = disk.syncs();
    let bodies = vec![b"body".to_vec()];
    let stale = Append { stream: StreamId([7; 16]), expected_version: 1, bodies, alone: None };
    assert_eq!(log.commit(&[stale]), Ok(vec![Err(AppendError::Conflict { actual: 3 })]));
    assert_eq!(log.commit(&[]), Ok(vec![]));
    assert_eq!(disk.syncs(), syncs);
    drop(log);
    assert_eq!(open(&disk, 0).0, Ok(3));
}

#[test]
fn an_archive_is_read_alone_by_a_walk_of_its_own_that_starts() {
    let mut bytes = Vec::new();
    archive::export(&filled(5).medium(), &mut bytes).expect("it verifies");
    let read = |walk: &mut Walk| archive::read_alone(&mut &bytes[..], walk, &mut |_| Ok(()));
    let mut walk = Walk::new(JournalId([1; 16]));
    assert_eq!(read(&mut walk), Ok(()));
    assert_eq!(walk.head().sequence, 5);
    assert_eq!(read(&mut walk), Err(JournalError::Diverged { sequence: 0 }), "it came over it");
    let mut another = Walk::new(JournalId([2; 16]));
    assert_eq!(read(&mut another), Err(JournalError::Diverged { sequence: 0 }));
}

#[test]
fn a_reader_walks_on_beside_the_writer_from_where_its_last_walk_ended() {
    let disk = filled(70);
    let mut log = Log::open(disk.medium(), OPTIONS, &mut |_| Ok(())).expect("it opens");
    let reader = log.reader();
    let mut shown = Vec::new();
    let mut visit = |item| {
        if let Item::Record { sequence, .. } = item {
            shown.push(sequence);
        }
        Ok(())
    };
    let walk = reader.walk(None, &mut visit).expect("it verifies");
    let walk = reader.walk(Some(walk), &mut visit).expect("nothing is new");
    let append = Append {
        stream: StreamId([8; 16]),
        expected_version: 0,
        bodies: vec![vec![1]],
        alone: None,
    };
    log.commit(&[append]).expect("a commit")[0].expect("no conflict");
    let walk = reader.walk(Some(walk), &mut visit).expect("it verifies");
    assert_eq!((walk.head(), reader.id()), (reader.head(), Ok(JournalId([1; 16]))));
    assert_eq!(shown, (1..=71).collect::<Vec<u64>>());
    let refuses = reader.walk(None, &mut |_| Err(JournalError::Payload));
    assert_eq!(refuses.err(), Some(JournalError::Payload));
}
