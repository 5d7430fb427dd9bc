//! The folder a journal lives in.
//!
//! Owns file names, permissions, the lock, leftovers of a crash, and copies for reading. Must not
//! know what the files say.
//!
//! | file | what |
//! | --- | --- |
//! | `lock` | empty; locked by the one engine that has the journal open (J1) |
//! | `anchor` | the last durable head ([`crate::anchor`]) |
//! | `checkpoint` | what a clean close leaves ([`crate::checkpoint`]); gone while an engine has the journal open |
//! | `checkpoint.tmp` | half of one |
//! | `db/` | sled's own files |
//! | `db.new/`, `db.old/` | while a database takes another one's place ([`replace_database`]) |
//! | `../<name>.anchor` | the same head beside the folder: putting the whole folder back to an older state is noticed |
//!
//! The folder is 0700 and its files are 0600, whatever the umask.

pub(crate) mod checkpoint;
mod leftovers;
mod replacing;
mod size;

pub use replacing::{remove_database, replace_database};
pub use size::bytes;

use crate::error::JournalError;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

/// The places inside and beside a journal's folder.
#[derive(Debug, Clone)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// The layout of the journal at `root`.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        // Without the trailing separator that would make a link look like a folder.
        Self { root: root.components().collect() }
    }

    /// The folder itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The lock file.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    /// The anchor inside.
    #[must_use]
    pub fn anchor(&self) -> PathBuf {
        self.root.join("anchor")
    }

    /// The anchor beside the folder.
    ///
    /// # Errors
    /// [`JournalError::NotAJournal`] for a folder without a name of its own, such as `/`.
    pub fn outer_anchor(&self) -> Result<PathBuf, JournalError> {
        let absolute = std::path::absolute(&self.root)?;
        let mut name = absolute.file_name().ok_or(JournalError::NotAJournal)?.to_owned();
        name.push(".anchor");
        Ok(absolute.with_file_name(name))
    }

    /// What a clean close leaves.
    #[must_use]
    pub fn checkpoint(&self) -> PathBuf {
        self.root.join("checkpoint")
    }

    /// A checkpoint that is being written; whatever is left of it says nothing.
    #[must_use]
    pub fn unfinished_checkpoint(&self) -> PathBuf {
        self.root.join("checkpoint.tmp")
    }

    /// sled's folder.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.root.join("db")
    }

    /// The database that is to take its place; complete once [`Self::database`] was renamed to
    /// [`Self::old_database`].
    #[must_use]
    pub fn next_database(&self) -> PathBuf {
        self.root.join("db.new")
    }

    /// The database whose place was taken.
    #[must_use]
    pub fn old_database(&self) -> PathBuf {
        self.root.join("db.old")
    }

    /// The database that counts, whatever a crash left beside it; `None` when there is none.
    fn current_database(&self) -> Option<PathBuf> {
        if self.database().is_dir() {
            return Some(self.database());
        }
        let renamed = self.old_database().is_dir() && self.next_database().is_dir();
        renamed.then(|| self.next_database())
    }
}

/// Holds the journal's lock until it is dropped.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Drop for Lock {
    /// Closing the file would not do: a child process that is just being started has a copy of the
    /// handle for a moment, and the lock would stay with it.
    fn drop(&mut self) {
        if fs4::FileExt::unlock(&self.file).is_err() {
            tracing::warn!(code = "storage_failed", "the lock is let go with the file only");
        }
    }
}

/// Names a journal's folder may hold; anything else makes it somebody else's.
const OURS: [&str; 8] =
    ["lock", "anchor", "anchor.new", "checkpoint", "checkpoint.tmp", "db", "db.new", "db.old"];

/// Takes the journal for writing: checks the folder, makes it when `create` is set, takes the lock,
/// removes what a crash left behind.
///
/// # Errors
/// [`JournalError::Locked`], [`JournalError::Missing`], [`JournalError::ParentMissing`],
/// [`JournalError::NotAJournal`] (a file, a symbolic link, a folder with other things in it),
/// [`JournalError::Permissions`], or what the disk answers.
pub fn take(layout: &Layout, create: bool) -> Result<Lock, JournalError> {
    let made = match make_directory(layout.root()) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
        _ if !create && !layout.root().exists() => return Err(JournalError::Missing),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(JournalError::ParentMissing);
        }
        Err(error) => return Err(error.into()),
        Ok(()) => true,
    };
    if made {
        sync_directory(&parent(layout.root())?)?;
    }
    check(layout)?;
    if !create && layout.current_database().is_none() {
        return Err(JournalError::Missing);
    }
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true);
    private(&mut options);
    let file = options.open(layout.lock())?;
    held(fs4::FileExt::try_lock(&file))?;
    replacing::finish(layout)?;
    leftovers::remove_snapshots(&layout.database())?;
    leftovers::remove_half_made(layout)?;
    Ok(Lock { file })
}

/// Refuses a folder with anything in it that is not known, or with a link.
fn only(folder: &Path, known: &dyn Fn(&str) -> bool) -> Result<(), JournalError> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let ours = entry.file_name().to_str().is_some_and(known);
        if !ours || entry.file_type()?.is_symlink() {
            return Err(JournalError::NotAJournal);
        }
    }
    Ok(())
}

/// Whether the folder is one of ours: a real folder, closed to others, with nothing else in it.
///
/// # Errors
/// [`JournalError::NotAJournal`], [`JournalError::Permissions`], or what the disk answers.
pub fn check(layout: &Layout) -> Result<(), JournalError> {
    let found = fs::symlink_metadata(layout.root())?;
    if !found.is_dir() {
        return Err(JournalError::NotAJournal);
    }
    only(layout.root(), &|name| OURS.contains(&name))?;
    let sleds = |name: &str| matches!(name, "blobs" | "conf" | "db") || name.starts_with("snap.");
    for database in [layout.database(), layout.next_database(), layout.old_database()] {
        if database.exists() {
            only(&database, &sleds)?;
        }
    }
    if open_to_others(&found) { Err(JournalError::Permissions) } else { Ok(()) }
}

/// Takes the lock of a journal that is only to be copied, without changing a byte; `None` when the
/// journal has no lock file (a copy, a restored backup).
///
/// # Errors
/// [`JournalError::Locked`] while an engine has it open.
pub fn take_for_reading(layout: &Layout) -> Result<Option<Lock>, JournalError> {
    match File::open(layout.lock()) {
        Ok(file) => {
            // Shared: readers do not shut each other out.
            held(fs4::FileExt::try_lock_shared(&file))?;
            Ok(Some(Lock { file }))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn held(tried: Result<(), fs4::TryLockError>) -> Result<(), JournalError> {
    match tried {
        Ok(()) => Ok(()),
        Err(fs4::TryLockError::WouldBlock) => Err(JournalError::Locked),
        Err(fs4::TryLockError::Error(error)) => Err(error.into()),
    }
}

/// Copies a journal's files, anchors included, to `target`, which must not exist yet. The copy
/// shares blocks with the original where the file system can. A checkpoint stays behind: whoever reads
/// verifies everything. Of a database and one that was to take
/// its place, the one that counts is copied.
///
/// # Errors
/// [`JournalError::Missing`] when there is no journal, or what the disk answers.
pub fn copy(layout: &Layout, target: &Path) -> Result<(), JournalError> {
    let Some(database) = layout.current_database() else {
        return Err(if layout.root().exists() {
            JournalError::NotAJournal
        } else {
            JournalError::Missing
        });
    };
    let copy = Layout::new(target);
    make_directory(target)?;
    copy_directory(&database, &copy.database())?;
    for (from, to) in
        [(layout.anchor(), copy.anchor()), (layout.outer_anchor()?, copy.outer_anchor()?)]
    {
        match fs::copy(&from, &to) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    leftovers::remove_snapshots(&copy.database())?;
    tighten(target)
}

fn copy_directory(from: &Path, to: &Path) -> Result<(), JournalError> {
    make_directory(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_directory(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Sets a journal's folders to 0700 and its files to 0600; links are left alone.
///
/// # Errors
/// What the disk answers.
pub fn tighten(root: &Path) -> Result<(), JournalError> {
    set_mode(root, 0o700)?;
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            tighten(&entry.path())?;
        } else if kind.is_file() {
            set_mode(&entry.path(), 0o600)?;
        }
    }
    Ok(())
}

/// Makes a directory and everything in it durable.
///
/// # Errors
/// What the disk answers.
pub fn sync_files(path: &Path) -> Result<(), JournalError> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_files(&entry.path())?;
        } else {
            File::open(entry.path())?.sync_all()?;
        }
    }
    sync_directory(path)
}

/// Makes the names inside a directory durable.
///
/// # Errors
/// What the disk answers.
pub fn sync_directory(path: &Path) -> Result<(), JournalError> {
    if cfg!(unix) {
        File::open(path)?.sync_all()?;
    }
    Ok(())
}

/// The directory that holds `path`.
///
/// # Errors
/// [`JournalError::NotAJournal`] for the root of a file system.
pub fn parent(path: &Path) -> Result<PathBuf, JournalError> {
    let absolute = std::path::absolute(path)?;
    absolute.parent().map(Path::to_path_buf).ok_or(JournalError::NotAJournal)
}

#[cfg(unix)]
pub(crate) fn private(options: &mut OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt as _;
    options.mode(0o600);
}

#[cfg(not(unix))]
pub(crate) fn private(_options: &mut OpenOptions) {}

/// Makes a folder that is closed to others.
///
/// # Errors
/// What the disk answers.
#[cfg(unix)]
pub fn make_directory(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().mode(0o700).create(path)
}

/// Makes a folder.
///
/// # Errors
/// What the disk answers.
#[cfg(not(unix))]
pub fn make_directory(path: &Path) -> std::io::Result<()> {
    fs::create_dir(path)
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) -> Result<(), JournalError> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    Ok(())
}

#[cfg(not(unix))]
fn set_mode(_path: &Path, _mode: u32) -> Result<(), JournalError> {
    Ok(())
}

#[cfg(unix)]
fn open_to_others(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o077 != 0
}

#[cfg(not(unix))]
fn open_to_others(_metadata: &fs::Metadata) -> bool {
    false
}
