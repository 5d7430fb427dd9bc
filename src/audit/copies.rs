//! Private places for copies of what must not be changed by reading it.
//!
//! Owns that such a place is closed to others and that it goes, whatever happens: they hold every text.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;

/// Places that exist now, for a process that is interrupted.
static COPIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes all copies; for a process that is about to end without dropping anything.
pub(crate) fn remove_copies() {
    for copy in COPIES.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        if std::fs::remove_dir_all(copy).is_err() {
            tracing::debug!("a copy was gone already");
        }
    }
}

/// A folder that nobody else may look into; gone when this is dropped.
#[derive(Debug)]
pub(crate) struct Private(TempDir);

impl Private {
    /// Makes one.
    pub(crate) fn new() -> std::io::Result<Self> {
        let mut folder = tempfile::Builder::new();
        folder.prefix("leasehold-");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            folder.permissions(std::fs::Permissions::from_mode(0o700));
        }
        let folder = folder.tempdir()?;
        let path = folder.path().to_path_buf();
        COPIES.lock().unwrap_or_else(PoisonError::into_inner).push(path);
        Ok(Self(folder))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        let mut copies = COPIES.lock().unwrap_or_else(PoisonError::into_inner);
        copies.retain(|other| other != self.0.path());
    }
}
