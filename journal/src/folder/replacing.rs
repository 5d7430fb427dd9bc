//! One database taking another one's place.
//!
//! Owns the order of renames and what a crash between two of them leads to. Must not know what a
//! database holds.
//!
//! | found | means |
//! | --- | --- |
//! | `db`, `db.new` | the next one may be half-written: it goes |
//! | `db.new`, `db.old` | the next one was complete: it takes its place |
//! | `db`, `db.old` | its place is taken: the old one goes |

use super::{Layout, parent, sync_directory};
use crate::error::JournalError;
use std::fs;
use std::path::Path;

/// Puts the next database in the place of the one that is there, and removes that one. Each step is
/// durable before the next one; what a crash leaves in between, [`super::take`] brings to an end.
///
/// # Errors
/// What the disk answers.
pub fn replace_database(layout: &Layout) -> Result<(), JournalError> {
    fs::rename(layout.database(), layout.old_database())?;
    sync_directory(layout.root())?;
    finish(layout)
}

/// Removes a database that is not there to stay; fine when there is none.
///
/// # Errors
/// What the disk answers.
pub fn remove_database(path: &Path) -> Result<(), JournalError> {
    match fs::remove_dir_all(path) {
        Ok(()) => sync_directory(&parent(path)?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Brings a replacement to an end. With the old database renamed the next one is complete and takes
/// its place; before that it may be half-written and goes.
pub(super) fn finish(layout: &Layout) -> Result<(), JournalError> {
    let (next, old) = (layout.next_database(), layout.old_database());
    if !layout.database().is_dir() {
        match (next.is_dir(), old.is_dir()) {
            (true, true) => {
                fs::rename(&next, layout.database())?;
                sync_directory(layout.root())?;
            }
            (false, false) => return Ok(()),
            // No step of ours leaves one of them alone.
            (true, false) | (false, true) => return Err(JournalError::Corrupt { sequence: 0 }),
        }
    }
    remove_database(&next)?;
    remove_database(&old)
}
