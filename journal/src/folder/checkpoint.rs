//! The checkpoint's file.
//!
//! Owns how it comes and goes: whole, or not at all. Must not know what it says.

use super::{Layout, private, sync_directory};
use crate::error::JournalError;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::Path;

/// Largest file that is read: far more streams than fit into memory.
const FILE_BYTES_MAX: u64 = 1 << 32;

/// What lies there; `None` when nothing does. Whatever is no file of a size we write reads as nothing
/// at all, which no checkpoint is.
pub(crate) fn read(layout: &Layout) -> Result<Option<Vec<u8>>, JournalError> {
    let path = layout.checkpoint();
    let length = match fs::symlink_metadata(&path) {
        Ok(found) if found.is_file() && found.len() <= FILE_BYTES_MAX => found.len(),
        Ok(_) => return Ok(Some(Vec::new())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Puts a checkpoint there, durable before it returns. Half of one takes no room on a disk that is full.
pub(crate) fn write(layout: &Layout, bytes: &[u8]) -> Result<(), JournalError> {
    let temporary = layout.unfinished_checkpoint();
    gone(&temporary)?;
    let filled = fill(&temporary, bytes);
    if filled.is_err() {
        gone(&temporary)?;
    }
    filled?;
    fs::rename(temporary, layout.checkpoint())?;
    sync_directory(layout.root())
}

fn fill(path: &Path, bytes: &[u8]) -> Result<(), JournalError> {
    let mut options = OpenOptions::new();
    options.create_new(true).write(true);
    private(&mut options);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    Ok(file.sync_all()?)
}

/// Removes it, and half of one that a crash left; durable before it returns.
pub(crate) fn remove(layout: &Layout) -> Result<(), JournalError> {
    let whole = gone(&layout.checkpoint())?;
    let half = gone(&layout.unfinished_checkpoint())?;
    if whole || half { sync_directory(layout.root()) } else { Ok(()) }
}

/// Removes a file; answers whether there was one.
fn gone(path: &Path) -> Result<bool, JournalError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}
