//! What a crash left in a journal's folder, before anything opens it.
//!
//! Owns the removal of what sled left half-done. Must not remove anything that may hold a record.

use super::Layout;
use crate::error::JournalError;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

/// Removes `snap.*.generating`: left by a kill inside sled's own open, it would make every later
/// open fail, although nothing is lost.
pub(super) fn remove_snapshots(database: &Path) -> Result<(), JournalError> {
    let entries = match fs::read_dir(database) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("snap.") && name.ends_with(".generating") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Removes sled's settings where it was killed before its database held anything: half of them are left
/// then, and every later open would fail. Only a journal that was never finished being made is without
/// any anchor.
pub(super) fn remove_half_made(layout: &Layout) -> Result<(), JournalError> {
    let anchored = layout.anchor().exists() || layout.outer_anchor()?.exists();
    if anchored || !holds_nothing(&layout.database().join("db"))? {
        return Ok(());
    }
    for name in ["conf", "db"] {
        match fs::remove_file(layout.database().join(name)) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Whether a file is missing, or has nothing but zeros in it.
fn holds_nothing(file: &Path) -> Result<bool, JournalError> {
    let mut file = match File::open(file) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error.into()),
    };
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(true),
            read if buffer[..read].iter().any(|byte| *byte != 0) => return Ok(false),
            _ => {}
        }
    }
}
