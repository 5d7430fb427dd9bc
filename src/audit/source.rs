//! A journal's folder or an exported archive, as something to walk over.
//!
//! Owns the copy. sled changes files even when it only reads, so a folder is copied to a temporary
//! place (sharing blocks where the file system can) while its lock is held, and the copy is read.

use leasehold_journal::chain::{Head, JournalId};
use leasehold_journal::folder::{self, Layout};
use leasehold_journal::medium::{Anchors, Medium as _};
use leasehold_journal::sled::SledMedium;
use leasehold_journal::walk::{self, Visit};
use leasehold_journal::{JournalError, archive};
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;

/// Folders over this are announced before they are copied.
pub const LARGE_BYTES: u64 = 256 * 1024 * 1024;

/// Something to walk over.
#[derive(Debug)]
pub enum Source {
    /// A copy of a folder; gone when this is dropped.
    Folder {
        /// The copy, open.
        medium: Box<SledMedium>,
        /// Where it lies.
        copy: TempDir,
    },
    /// An archive file.
    Archive(PathBuf),
}

/// Copies that exist now, for a process that is interrupted: they hold every text.
static COPIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes all copies; for a process that is about to end without dropping anything.
pub fn remove_copies() {
    for copy in COPIES.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        if std::fs::remove_dir_all(copy).is_err() {
            tracing::debug!("a copy was gone already");
        }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Self::Folder { copy, .. } = self {
            let mut copies = COPIES.lock().unwrap_or_else(PoisonError::into_inner);
            copies.retain(|other| other != copy.path());
        }
    }
}

/// How a walk went.
#[derive(Debug)]
pub struct Walked {
    /// The journal, if it could be told.
    pub journal: Option<JournalId>,
    /// The last verified head.
    pub head: Option<Head>,
    /// Why the walk stopped, if that was not the end.
    pub stopped: Option<JournalError>,
    /// The anchors beside a folder; an archive has none.
    pub anchors: Option<Anchors>,
}

impl Source {
    /// Opens a folder or a file.
    ///
    /// # Errors
    /// [`JournalError::Missing`], [`JournalError::NotAJournal`], [`JournalError::Locked`] while an
    /// engine has the folder open, [`JournalError::Corrupt`] at 0 when the database cannot be opened.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        if path.is_file() {
            return Ok(Self::Archive(path.to_path_buf()));
        }
        let layout = Layout::new(path);
        let copy = tempfile::Builder::new().prefix("leasehold-").tempdir()?;
        COPIES.lock().unwrap_or_else(PoisonError::into_inner).push(copy.path().to_path_buf());
        let target = copy.path().join("journal");
        let lock = folder::take_for_reading(&layout)?;
        folder::copy(&layout, &target)?;
        drop(lock);
        let medium = Box::new(SledMedium::open_copy(&target)?);
        Ok(Self::Folder { medium, copy })
    }

    /// Walks over everything; never fails, but tells where it stopped.
    pub fn walk(&self, visit: &mut Visit<'_>) -> Walked {
        match self {
            Self::Folder { medium, .. } => {
                let anchors = medium.anchors().ok();
                match medium.journal_id() {
                    Ok(Some(id)) => {
                        let (walk, stopped) = walk::over(medium.as_ref(), id, visit);
                        let head = Some(walk.head());
                        Walked { journal: Some(id), head, stopped: stopped.err(), anchors }
                    }
                    Ok(None) => {
                        let stopped = Some(JournalError::Corrupt { sequence: 0 });
                        Walked { journal: None, head: None, stopped, anchors }
                    }
                    Err(error) => {
                        Walked { journal: None, head: None, stopped: Some(error), anchors }
                    }
                }
            }
            Self::Archive(path) => {
                let read = File::open(path)
                    .map_err(JournalError::from)
                    .and_then(|file| archive::read(&mut BufReader::new(file), visit));
                match read {
                    Ok((id, head)) => {
                        Walked { journal: Some(id), head: Some(head), stopped: None, anchors: None }
                    }
                    Err(error) => {
                        Walked { journal: None, head: None, stopped: Some(error), anchors: None }
                    }
                }
            }
        }
    }

    /// Writes a portable archive; verifies everything on the way.
    ///
    /// # Errors
    /// What does not verify, or what the disk answers. An archive is copied as it is.
    pub fn export(&self, out: &mut dyn Write) -> Result<Head, JournalError> {
        match self {
            Self::Folder { medium, .. } => archive::export(medium.as_ref(), out),
            Self::Archive(path) => {
                let bytes = std::fs::read(path)?;
                let (_, head) = archive::read(&mut bytes.as_slice(), &mut |_| Ok(()))?;
                out.write_all(&bytes)?;
                Ok(head)
            }
        }
    }
}
