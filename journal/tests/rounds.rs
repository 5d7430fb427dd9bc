//! What a journal takes on disk after it was opened, written and closed many times.

use leasehold_journal::sled::SledMedium;
use leasehold_journal::{
    Append, Durability, JournalId, Log, LogOptions, Store as _, StreamId, folder,
};
use std::ops::Range;
use std::path::Path;

const OPTIONS: LogOptions = LogOptions { new_id: JournalId([1; 16]), create: true };
const ROUNDS: u64 = 10;
/// Commits of a round, and records of a commit.
const COMMITS: u64 = 200;
const RECORDS: u64 = 8;
/// In this unit sled takes room.
const SEGMENT_BYTES: u64 = 8 * 1024 * 1024;

/// Opens the journal, writes, closes it; answers what it takes on disk then.
fn round(path: &Path, commits: Range<u64>) -> u64 {
    let medium = SledMedium::open(path, true, Durability::ProcessSafe).expect("a medium");
    let mut log = Log::open(medium, OPTIONS, &mut |_| Ok(())).expect("it opens");
    for commit in commits {
        let appends: Vec<Append> = (0..RECORDS).map(|record| append(commit, record)).collect();
        let answers = log.commit(&appends).expect("a commit");
        assert!(answers.iter().all(Result::is_ok));
    }
    log.settle_anchor().expect("it is noted");
    drop(log);
    folder::bytes(path).expect("readable")
}

/// A record of a stream of its own.
fn append(commit: u64, record: u64) -> Append {
    let mut stream = [0; 16];
    stream[..8].copy_from_slice(&commit.to_le_bytes());
    stream[8..].copy_from_slice(&record.to_le_bytes());
    Append {
        stream: StreamId(stream),
        expected_version: 0,
        bodies: vec![vec![b'x'; 500]],
        alone: None,
    }
}

#[test]
fn opening_a_journal_again_and_again_takes_no_room() {
    let place = tempfile::tempdir().expect("a folder");
    let whole = round(&place.path().join("whole"), 0..ROUNDS * COMMITS);
    let path = place.path().join("rounds");
    let mut last = 0;
    for number in 0..ROUNDS {
        last = round(&path, number * COMMITS..(number + 1) * COMMITS);
    }
    // Sled frees segments as it comes to it; one more for each opening would be ten.
    assert!(last <= whole + 4 * SEGMENT_BYTES, "{last} bytes, and {whole} written at once");
}
