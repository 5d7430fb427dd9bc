//! What a folder takes on disk.
//!
//! Owns the walk. The database makes and removes files while it is walked over.

use crate::error::JournalError;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Bytes of all files below `root`, which has to be there; what vanishes during the walk takes none.
/// Blocking: asks for each file.
///
/// # Errors
/// What the disk answers.
pub fn bytes(root: &Path) -> Result<u64, JournalError> {
    Ok(below(fs::read_dir(root)?)?)
}

fn below(entries: fs::ReadDir) -> io::Result<u64> {
    let mut total = 0;
    for entry in entries {
        let entry = entry?;
        let Some(metadata) = still_there(entry.metadata())? else { continue };
        total += if !metadata.is_dir() {
            metadata.len()
        } else if let Some(entries) = still_there(fs::read_dir(entry.path()))? {
            below(entries)?
        } else {
            0
        };
    }
    Ok(total)
}

/// `None` for what is gone since its name was read.
fn still_there<T>(asked: io::Result<T>) -> io::Result<Option<T>> {
    match asked {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn files_are_summed_at_any_depth_and_a_folder_that_is_not_there_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("db")).expect("writable");
        fs::write(folder.path().join("anchor"), [0; 7]).expect("writable");
        fs::write(folder.path().join("db/blob"), [0; 5]).expect("writable");
        assert_eq!(bytes(folder.path()).expect("readable"), 12);
        assert!(bytes(&folder.path().join("none")).is_err());
    }

    #[test]
    fn what_is_gone_takes_nothing_and_any_other_failure_is_one() {
        let failing = |kind: ErrorKind| still_there::<()>(Err(kind.into()));
        assert_eq!(failing(ErrorKind::NotFound).expect("no failure"), None);
        let denied = failing(ErrorKind::PermissionDenied).expect_err("a failure");
        assert_eq!(denied.kind(), ErrorKind::PermissionDenied);
    }

    #[test]
    fn files_that_come_and_go_during_the_walk_are_no_error() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("anchor"), [0; 7]).expect("writable");
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let paths: Vec<_> = (0..64).map(|it| folder.path().join(it.to_string())).collect();
                while !over.load(Ordering::Relaxed) {
                    for path in &paths {
                        fs::create_dir(path).expect("writable");
                    }
                    for path in &paths {
                        fs::remove_dir(path).expect("writable");
                    }
                }
            });
            let walked: Vec<_> = (0..2_000).map(|_| bytes(folder.path())).collect();
            over.store(true, Ordering::Relaxed);
            for bytes in walked {
                assert_eq!(bytes.expect("no failure"), 7);
            }
        });
    }
}
