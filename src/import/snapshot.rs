//! A consistent copy of a SQLite database that may be in use.
//!
//! Owns the copying. The database is never opened where it is: opening one in WAL mode writes beside it,
//! even for reading only. It is read byte by byte instead, with the log or the rollback journal beside it,
//! and read again: only when nothing of it moved meanwhile do the parts belong together. What the copy then
//! needs, a log to be replayed or a transaction to be rolled back, is done to the copy.
//!
//! Why that is enough. Pages of the database are changed by a checkpoint of its log, or by a transaction
//! whose rollback journal is there before; either shows in the database being read twice. A log that only
//! grew is the same log: what was copied of it ends within or after a transaction, and SQLite takes no half
//! one. A log that was started again has another beginning.

use super::SourceFault;
use crate::audit::copies::Private;
use sha2::{Digest as _, Sha256};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// How often a copy is tried of a database that does not hold still.
const TRIES: u32 = 20;
const PART_BYTES: usize = 256 * 1024;
const MAGIC: &[u8] = b"SQLite format 3\0";

/// The copy; gone when this is dropped.
#[derive(Debug)]
pub(super) struct Snapshot {
    folder: Private,
}

/// What was read of a file: so many bytes, with this hash.
#[derive(Debug, PartialEq, Eq)]
struct Taken {
    bytes: u64,
    sha256: [u8; 32],
}

impl Snapshot {
    /// Copies a database.
    ///
    /// # Errors
    /// [`SourceFault::Unreadable`]; [`SourceFault::NotSqlite`]; [`SourceFault::Busy`] for one that never
    /// held still; [`SourceFault::CopyFailed`].
    pub(super) fn take(path: &Path) -> Result<Self, SourceFault> {
        let folder = Private::new().map_err(|_| SourceFault::CopyFailed)?;
        let snapshot = Self { folder };
        for _ in 0..TRIES {
            if snapshot.copy(path)? {
                return Ok(snapshot);
            }
        }
        Err(SourceFault::Busy)
    }

    /// Where the copy is.
    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    /// Copies all parts; answers whether they belong together.
    fn copy(&self, path: &Path) -> Result<bool, SourceFault> {
        let here = self.path();
        let Some(database) = copy_file(path, &here)? else { return Err(SourceFault::Unreadable) };
        let mut log_parts = Vec::new();
        for side in ["-wal", "-journal"] {
            let (from, to) = (beside(path, side), beside(&here, side));
            log_parts.push((from.clone(), copy_file(&from, &to)?));
        }
        if !starts_as_sqlite(&here)? {
            return Err(SourceFault::NotSqlite);
        }
        let [(log, log_taken), (journal, journal_taken)] = &log_parts[..] else {
            return Ok(false);
        };
        // The log may have grown; the others may not have moved.
        let same = again(path, None)? == Some(database)
            && again(log, log_taken.as_ref().map(|it| it.bytes))? == *log_taken
            && again(journal, None)? == *journal_taken;
        Ok(same)
    }
}

fn beside(path: &Path, side: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(side);
    PathBuf::from(name)
}

/// Copies a file that may not be there, and may have been copied before.
fn copy_file(from: &Path, to: &Path) -> Result<Option<Taken>, SourceFault> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600); // it holds every text that was ever delivered
    }
    let Some(mut file) = open(from)? else {
        return match std::fs::remove_file(to) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(SourceFault::CopyFailed),
            Ok(()) | Err(_) => Ok(None),
        };
    };
    let mut copy = options.open(to).map_err(|_| SourceFault::CopyFailed)?;
    let taken = read(&mut file, u64::MAX, &mut |part| {
        copy.write_all(part).map_err(|_| SourceFault::CopyFailed)
    });
    taken.map(Some)
}

/// Reads a file again, no further than so many bytes where that is said. Without such a limit a file that
/// was not there has to be missing still.
fn again(path: &Path, bytes_max: Option<u64>) -> Result<Option<Taken>, SourceFault> {
    let Some(mut file) = open(path)? else { return Ok(None) };
    read(&mut file, bytes_max.unwrap_or(u64::MAX), &mut |_| Ok(())).map(Some)
}

fn open(path: &Path) -> Result<Option<File>, SourceFault> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(_) => Err(SourceFault::Unreadable),
    }
}

fn read(
    file: &mut File,
    bytes_max: u64,
    take: &mut dyn FnMut(&[u8]) -> Result<(), SourceFault>,
) -> Result<Taken, SourceFault> {
    let (mut hash, mut bytes, mut file) = (Sha256::new(), 0, file.take(bytes_max));
    let mut part = vec![0; PART_BYTES];
    loop {
        let length = file.read(&mut part).map_err(|_| SourceFault::Unreadable)?;
        if length == 0 {
            return Ok(Taken { bytes, sha256: hash.finalize().into() });
        }
        hash.update(&part[..length]);
        bytes += length as u64;
        take(&part[..length])?;
    }
}

fn starts_as_sqlite(path: &Path) -> Result<bool, SourceFault> {
    let mut start = Vec::new();
    let file = File::open(path).map_err(|_| SourceFault::CopyFailed)?;
    let length = MAGIC.len() as u64;
    file.take(length).read_to_end(&mut start).map_err(|_| SourceFault::CopyFailed)?;
    Ok(start == MAGIC)
}
