//! A journal's folder and its files, as they lie there.
//!
//! Owns permissions, what does not belong there, leftovers, and files that are missing, empty or too
//! short. Must not know what the files say.

use super::{SALVAGE, Symptom, symptom};
use leasehold_journal::JournalError;
use leasehold_journal::folder::{self, Layout};
use std::fs;
use std::path::Path;

/// Everything that can be said without reading a file.
pub(super) fn of_folder(layout: &Layout) -> Result<Vec<Symptom>, JournalError> {
    let mut found = Vec::new();
    let wide = open_to_others(layout.root())? + open_to_others(&layout.outer_anchor()?)?;
    if wide > 0 {
        let message = format!("others may read or write {wide} files or folders of this journal");
        let next = "run `chmod -R go= PATH`, and the same for the .anchor file beside it";
        found.push(symptom("permissions_wide", message, next));
    }
    match folder::check(layout) {
        // The permissions were looked at file by file.
        Ok(()) | Err(JournalError::Permissions) => {}
        Err(JournalError::NotAJournal) => {
            let message = "the folder holds a link, or files that no journal has";
            let next = "move them elsewhere: a folder with them is refused for writing";
            found.push(symptom("foreign_files", message, next));
        }
        Err(error) => return Err(error),
    }
    let database = layout.database();
    if !database.is_dir() {
        let message = "the database's folder, db, is missing";
        found.push(symptom("file_missing", message, "bring it back from a backup"));
        return Ok(found);
    }
    for (name, least) in [("conf", 9), ("db", 1)] {
        found.extend(of_file(&database, name, least)?);
    }
    found.extend(leftovers(&database)?);
    let blobs = database.join("blobs");
    if blobs.is_dir() && fs::read_dir(&blobs)?.next().is_some() {
        let message = "the database moved values to files that it never syncs";
        found.push(symptom("blobs_present", message, SALVAGE));
    }
    Ok(found)
}

/// A file of the database that is missing, empty, or too short to be read at all.
fn of_file(
    database: &Path,
    name: &'static str,
    least: u64,
) -> Result<Option<Symptom>, JournalError> {
    let (code, what) = match fs::metadata(database.join(name)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => ("file_missing", "missing"),
        Err(error) => return Err(error.into()),
        Ok(found) if found.len() == 0 => ("file_empty", "empty"),
        Ok(found) if found.len() < least => ("file_short", "cut short"),
        Ok(_) => return Ok(None),
    };
    Ok(Some(symptom(code, format!("the database's file {name} is {what}"), SALVAGE)))
}

/// Snapshots that a killed open left half written, and empty ones.
fn leftovers(database: &Path) -> Result<Vec<Symptom>, JournalError> {
    let (mut half, mut empty) = (0, 0);
    for entry in fs::read_dir(database)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("snap.") {
            half += u32::from(name.ends_with(".generating"));
            empty += u32::from(!name.ends_with(".generating") && entry.metadata()?.len() == 0);
        }
    }
    let mut found = Vec::new();
    if half > 0 {
        let message = "a kill while the journal was opened left a half-written snapshot";
        let next = "nothing is lost: the next open for writing removes it";
        found.push(symptom("open_leftover", message, next));
    }
    if empty > 0 {
        found.push(symptom("file_empty", "a snapshot of the database is empty", SALVAGE));
    }
    Ok(found)
}

/// How many of a file, or of a folder and what is below it, others may read or write.
#[cfg(unix)]
fn open_to_others(path: &Path) -> Result<u64, JournalError> {
    use std::os::unix::fs::PermissionsExt as _;
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error.into()),
    };
    let link = found.file_type().is_symlink(); // whose own permissions mean nothing
    let mut wide = u64::from(!link && found.permissions().mode() & 0o077 != 0);
    if found.is_dir() {
        for entry in fs::read_dir(path)? {
            wide += open_to_others(&entry?.path())?;
        }
    }
    Ok(wide)
}

#[cfg(not(unix))]
fn open_to_others(_path: &Path) -> Result<u64, JournalError> {
    Ok(0)
}
