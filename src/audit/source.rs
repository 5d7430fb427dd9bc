//! A journal's folder or an exported archive, as something to walk over, and the archives that hold what
//! the journal does not hold any more.
//!
//! Owns the copy. sled changes files even when it only reads, so a folder is copied to a temporary
//! place (sharing blocks where the file system can) while its lock is held, and the copy is read.

use super::archives::Archives;
use super::copies::Private;
use super::report::Finding;
use leasehold_journal::chain::{Head, JournalId};
use leasehold_journal::folder::{self, Layout};
use leasehold_journal::medium::{Anchors, Medium};
#[cfg(feature = "postgres")]
use leasehold_journal::postgres::{PostgresMedium, PostgresPlace};
use leasehold_journal::sled::SledMedium;
use leasehold_journal::walk::{self, Visit, Walk};
use leasehold_journal::{JournalError, archive};
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};

/// Folders over this are announced before they are copied.
pub const LARGE_BYTES: u64 = 256 * 1024 * 1024;

/// Something to walk over.
#[derive(Debug)]
pub struct Source {
    kept: Kept,
    archives: Option<PathBuf>,
}

/// What the journal itself is.
#[derive(Debug)]
enum Kept {
    /// A copy of a folder; gone when this is dropped.
    Folder { medium: Box<SledMedium>, _copy: Private },
    /// An archive file.
    Archive(PathBuf),
    /// A journal on a server: it is read while engines write to it.
    #[cfg(feature = "postgres")]
    Server(Box<PostgresMedium>),
}

/// A copy of a journal's folder, open, and the place it is in: to be let go of in this order.
pub(crate) fn copied(path: &Path) -> Result<(SledMedium, Private), JournalError> {
    let (layout, copy) = (Layout::new(path), Private::new()?);
    let target = copy.path().join("journal");
    let lock = folder::take_for_reading(&layout)?;
    folder::copy(&layout, &target)?;
    drop(lock);
    Ok((SledMedium::open_copy(&target)?, copy))
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
    /// What the anchors know better, where that was looked at: a tail that was lost, another history.
    pub doubt: Option<Finding>,
    /// The last record that is in archives only, when they were not walked; 0 when there is none.
    pub archived: u64,
}

impl Walked {
    fn stopped(error: JournalError, anchors: Option<Anchors>) -> Self {
        let (journal, head, doubt) = (None, None, None);
        Self { journal, head, stopped: Some(error), anchors, doubt, archived: 0 }
    }
}

impl Source {
    /// Opens a folder or a file.
    ///
    /// # Errors
    /// [`JournalError::Missing`], [`JournalError::NotAJournal`], [`JournalError::Locked`] while an
    /// engine has the folder open, [`JournalError::Corrupt`] at 0 when the database cannot be opened.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        if path.is_file() {
            return Ok(Self { kept: Kept::Archive(path.to_path_buf()), archives: None });
        }
        let (medium, copy) = copied(path)?;
        Ok(Self { kept: Kept::Folder { medium: Box::new(medium), _copy: copy }, archives: None })
    }

    /// Opens a journal on a server. Nobody is disturbed, and nothing has to be closed for it.
    ///
    /// # Errors
    /// [`JournalError::Missing`], [`JournalError::Newer`], [`JournalError::Credentials`],
    /// [`JournalError::Unreachable`].
    #[cfg(feature = "postgres")]
    pub fn on_server(place: &PostgresPlace) -> Result<Self, JournalError> {
        let medium = PostgresMedium::open_to_read(place)?;
        Ok(Self { kept: Kept::Server(Box::new(medium)), archives: None })
    }

    /// Walks over the archives in this folder first, for a journal whose first records are there.
    #[must_use]
    pub fn with_archives(mut self, folder: Option<PathBuf>) -> Self {
        self.archives = folder;
        self
    }

    /// Walks over everything; never fails, but tells where it stopped.
    pub fn walk(&self, visit: &mut Visit<'_>) -> Walked {
        match &self.kept {
            Kept::Folder { medium, .. } => self.walk_medium(medium.as_ref(), visit),
            #[cfg(feature = "postgres")]
            Kept::Server(medium) => self.walk_medium(medium.as_ref(), visit),
            Kept::Archive(path) => self.walk_archive(path, visit).unwrap_or_else(|error| {
                // Its header cannot be read, so there is nothing to tell.
                Walked::stopped(error, None)
            }),
        }
    }

    fn walk_medium<M: Medium>(&self, medium: &M, visit: &mut Visit<'_>) -> Walked {
        let anchors = match medium.anchors() {
            Ok(anchors) => Some(anchors),
            Err(error) => return Walked::stopped(error, None),
        };
        let known = medium.journal_id().and_then(|id| Ok((id, medium.base()?)));
        let (id, base) = match known {
            Ok((Some(id), base)) => (id, base),
            Ok((None, _)) => {
                return Walked::stopped(JournalError::Corrupt { sequence: 0 }, anchors);
            }
            Err(error) => return Walked::stopped(error, anchors),
        };
        let mut walk = Walk::new(id);
        if let Some(base) = base
            && let Err(error) = self.walk_archives(&mut walk, base.head, visit)
        {
            return ended(&walk, Err(error), anchors, 0);
        }
        let archived = match base {
            Some(base) if self.archives.is_none() => base.head.sequence,
            Some(_) | None => 0,
        };
        let (walk, stopped) = walk::on(medium, walk, visit);
        ended(&walk, stopped, anchors, archived)
    }

    fn walk_archive(&self, path: &Path, visit: &mut Visit<'_>) -> Result<Walked, JournalError> {
        let open = || Ok::<_, JournalError>(BufReader::new(File::open(path)?));
        let (id, after) = archive::start(&mut open()?)?;
        if self.archives.is_none() {
            let mut walk = Walk::new(id);
            let read = archive::read_alone(&mut open()?, &mut walk, visit);
            return Ok(ended(&walk, read, None, after.sequence));
        }
        let mut walk = Walk::new(id);
        let mut read = self.walk_archives(&mut walk, after, visit);
        if read.is_ok() {
            read = archive::read_on(&mut open()?, &mut walk, visit);
        }
        Ok(ended(&walk, read, None, 0))
    }

    /// Walks over the archives before `until`, when there are any and they are at hand.
    fn walk_archives(
        &self,
        walk: &mut Walk,
        until: Head,
        visit: &mut Visit<'_>,
    ) -> Result<(), JournalError> {
        match &self.archives {
            None => Ok(()),
            Some(folder) => Archives::find(folder, walk.id())?.walk(walk, until, visit),
        }
    }

    /// Writes a portable archive; verifies everything on the way.
    ///
    /// # Errors
    /// What does not verify, or what the disk answers. An archive is copied as it is.
    pub fn export(&self, out: &mut dyn Write) -> Result<Head, JournalError> {
        match &self.kept {
            Kept::Folder { medium, .. } => archive::export(medium.as_ref(), out),
            #[cfg(feature = "postgres")]
            Kept::Server(medium) => archive::export(medium.as_ref(), out),
            Kept::Archive(path) => {
                let bytes = std::fs::read(path)?;
                let (_, head) = archive::read(&mut bytes.as_slice(), &mut |_| Ok(()))?;
                out.write_all(&bytes)?;
                Ok(head)
            }
        }
    }
}

fn ended(
    walk: &Walk,
    stopped: Result<(), JournalError>,
    anchors: Option<Anchors>,
    archived: u64,
) -> Walked {
    let (journal, head) = (Some(walk.id()), Some(walk.head()));
    Walked { journal, head, stopped: stopped.err(), anchors, doubt: None, archived }
}
