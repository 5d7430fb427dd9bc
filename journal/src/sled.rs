//! The medium on disk: sled 0.34.7 with the settings and the guards that make it keep its word.
//!
//! Owns every call of sled. Must not know what is in a frame. What was measured, and what follows:
//!
//! * `flush` calls `sync_file_range`, not `fsync`: a second handle on the database file, opened
//!   before the first write, is given `fdatasync` after every flush.
//! * A leaf over a quarter of a segment moves to `blobs/`, which is never synced: segments of 8 MiB
//!   and values of at most 64 KiB keep every leaf inside; a journal with blobs is refused.
//! * Damage makes `open` panic, or lose the tail without a word: it runs on a thread of its own and
//!   its panic becomes a code; the tail is the anchor's business.
//! * Dropping a database whose disk fails panics: the drop is guarded too.

use crate::anchor::{self, Anchor, AnchorFile};
use crate::chain::{Digest, JournalId};
use crate::error::JournalError;
use crate::folder::{self, Layout, Lock};
use crate::medium::{Anchors, Batch, Durability, Medium};
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Fixed for a journal's life.
const SEGMENT_BYTES: usize = 8 * 1024 * 1024;
const CACHE_BYTES: u64 = 64 * 1024 * 1024;
const META_KEY: &[u8] = b"m";
pub(crate) const META_MAGIC: [u8; 4] = *b"LHJ1";
/// Version of the folder's format.
pub(crate) const META_VERSION: u16 = 1;

/// A journal's folder, open.
pub struct SledMedium {
    database: Option<sled::Db>,
    /// The handle that is given `fdatasync`; older than every write.
    file: File,
    durability: Durability,
    layout: Layout,
    notes: Mutex<Notes>,
    /// Whether there is an anchor beside the folder.
    beside: bool,
    _lock: Option<Lock>,
}

/// The anchor files, open once the first note was made.
#[derive(Default)]
struct Notes {
    files: Vec<AnchorFile>,
    count: u64,
}

impl SledMedium {
    /// Opens the folder for writing, or makes it.
    ///
    /// # Errors
    /// As [`folder::take`]; [`JournalError::Corrupt`] at 0 when sled cannot open its own files;
    /// [`JournalError::Blobs`]; what the disk answers.
    pub fn open(root: &Path, create: bool, durability: Durability) -> Result<Self, JournalError> {
        let layout = Layout::new(root);
        let lock = folder::take(&layout, create)?;
        let medium = Self::open_locked(layout, Some(lock), durability)?;
        folder::tighten(medium.layout.root())?;
        Ok(medium)
    }

    /// Opens a copy made by [`folder::copy`]; nobody else can know of it, so no lock is taken.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_copy(root: &Path) -> Result<Self, JournalError> {
        let layout = Layout::new(root);
        if !layout.database().is_dir() {
            return Err(JournalError::Missing);
        }
        Self::open_locked(layout, None, Durability::ProcessSafe)
    }

    fn open_locked(
        layout: Layout,
        lock: Option<Lock>,
        durability: Durability,
    ) -> Result<Self, JournalError> {
        let database_path = layout.database();
        // sled makes a missing file anew, with nothing in it. Only a journal that was never finished
        // being made may lack one.
        let whole = ["conf", "db"].iter().all(|name| database_path.join(name).is_file());
        if !whole && layout.anchor().exists() {
            return Err(JournalError::Corrupt { sequence: 0 });
        }
        let database = open_guarded(&database_path)?;
        let file = File::options().read(true).write(true).open(database_path.join("db"))?;
        let blobs = database_path.join("blobs");
        let medium = Self {
            database: Some(database),
            file,
            durability,
            layout,
            notes: Mutex::new(Notes::default()),
            beside: true,
            _lock: lock,
        };
        if blobs.is_dir() && std::fs::read_dir(&blobs)?.next().is_some() {
            return Err(JournalError::Blobs);
        }
        Ok(medium)
    }

    /// Keeps no anchor beside the folder: for a place whose parent cannot be written. Putting the whole
    /// folder back to an older state is not noticed then.
    #[must_use]
    pub fn without_outer_anchor(mut self) -> Self {
        self.beside = false;
        self
    }

    fn database(&self) -> Result<&sled::Db, JournalError> {
        self.database.as_ref().ok_or(JournalError::Poisoned)
    }

    fn sync_everything(&self) -> Result<(), JournalError> {
        self.file.sync_all()?;
        let database = self.layout.database();
        File::open(database.join("conf"))?.sync_all()?;
        folder::sync_directory(&database)?;
        folder::sync_directory(self.layout.root())?;
        folder::sync_directory(&folder::parent(self.layout.root())?)
    }
}

/// Opens sled on a thread of its own, so that a panic on damaged files ends there.
fn open_guarded(path: &Path) -> Result<sled::Db, JournalError> {
    let config = sled::Config::new()
        .path(path)
        .segment_size(SEGMENT_BYTES)
        .cache_capacity(CACHE_BYTES)
        .flush_every_ms(None);
    let thread = std::thread::Builder::new()
        .name("leasehold-open".to_owned())
        .spawn(move || config.open())
        .map_err(JournalError::from)?;
    thread.join().map_err(|_| JournalError::Corrupt { sequence: 0 })?.map_err(mapped)
}

/// Runs one call of sled; a panic inside it means that its files are damaged.
fn guarded<T>(call: impl FnOnce() -> Result<T, sled::Error>) -> Result<T, JournalError> {
    catch_unwind(AssertUnwindSafe(call))
        .map_err(|_| JournalError::Corrupt { sequence: 0 })?
        .map_err(mapped)
}

/// Keeps the kind of a sled error and drops its text, which carries paths.
fn mapped(error: sled::Error) -> JournalError {
    match error {
        sled::Error::Io(error) if error.to_string().starts_with("could not acquire lock") => {
            JournalError::Locked
        }
        sled::Error::Io(error) => error.into(),
        sled::Error::Corruption { .. }
        | sled::Error::Unsupported(_)
        | sled::Error::CollectionNotFound(_) => JournalError::Corrupt { sequence: 0 },
        sled::Error::ReportableBug(_) => JournalError::Storage,
    }
}

fn frame_key(sequence: u64) -> [u8; 9] {
    let mut key = [b'f'; 9];
    key[1..].copy_from_slice(&sequence.to_be_bytes());
    key
}

fn chunk_key(hash: &Digest) -> [u8; 33] {
    let mut key = [b'c'; 33];
    key[1..].copy_from_slice(&hash.0);
    key
}

fn frame_of(entry: Option<(sled::IVec, sled::IVec)>) -> Option<(u64, Vec<u8>)> {
    let (key, value) = entry?;
    let sequence = u64::from_be_bytes(key.strip_prefix(b"f")?.try_into().ok()?);
    Some((sequence, value.to_vec()))
}

impl Medium for SledMedium {
    fn journal_id(&self) -> Result<Option<JournalId>, JournalError> {
        let Some(meta) =
            guarded(|| self.database.as_ref().map_or(Ok(None), |db| db.get(META_KEY)))?
        else {
            return Ok(None);
        };
        let damaged = JournalError::Corrupt { sequence: 0 };
        if meta.len() != 22 || meta[..4] != META_MAGIC {
            return Err(damaged);
        }
        let version = u16::from_le_bytes([meta[4], meta[5]]);
        if version != META_VERSION {
            return Err(JournalError::Newer { version });
        }
        Ok(Some(JournalId(meta[6..].try_into().map_err(|_| damaged)?)))
    }

    fn initialise(&self, id: JournalId) -> Result<(), JournalError> {
        let mut meta = META_MAGIC.to_vec();
        meta.extend_from_slice(&META_VERSION.to_le_bytes());
        meta.extend_from_slice(&id.0);
        let database = self.database()?;
        guarded(|| database.insert(META_KEY, meta).map(drop))?;
        guarded(|| database.flush().map(drop))?;
        self.sync_everything()?;
        folder::tighten(self.layout.root())
    }

    fn write(&self, batch: Batch) -> Result<(), JournalError> {
        let database = self.database()?;
        let mut inserts = sled::Batch::default();
        for (hash, bytes) in batch.chunks {
            inserts.insert(chunk_key(&hash).as_slice(), bytes);
        }
        for (sequence, bytes) in batch.frames {
            inserts.insert(frame_key(sequence).as_slice(), bytes);
        }
        guarded(|| database.apply_batch(inserts))
    }

    fn sync(&self) -> Result<(), JournalError> {
        let database = self.database()?;
        guarded(|| database.flush().map(drop))?;
        match self.durability {
            Durability::PowerSafe => Ok(self.file.sync_data()?),
            Durability::ProcessSafe => Ok(()),
        }
    }

    fn settle(&self) -> Result<(), JournalError> {
        let database = self.database()?;
        guarded(|| database.flush().map(drop))?;
        self.sync_everything()
    }

    fn frame_at_or_before(&self, sequence: u64) -> Result<Option<(u64, Vec<u8>)>, JournalError> {
        let database = self.database()?;
        let range = frame_key(0)..=frame_key(sequence);
        guarded(|| database.range(range).next_back().transpose()).map(frame_of)
    }

    fn frame_at_or_after(&self, sequence: u64) -> Result<Option<(u64, Vec<u8>)>, JournalError> {
        let database = self.database()?;
        let range = frame_key(sequence)..=frame_key(u64::MAX);
        guarded(|| database.range(range).next().transpose()).map(frame_of)
    }

    fn chunk(&self, hash: &Digest) -> Result<Option<Vec<u8>>, JournalError> {
        let database = self.database()?;
        Ok(guarded(|| database.get(chunk_key(hash)))?.map(|bytes| bytes.to_vec()))
    }

    fn anchors(&self) -> Result<Anchors, JournalError> {
        let inner = anchor::read(&self.layout.anchor())?;
        let outer = if self.beside { anchor::read(&self.layout.outer_anchor()?)? } else { None };
        Ok(Anchors {
            inner: inner.and_then(|reading| reading.newest),
            outer: outer.and_then(|reading| reading.newest),
            damaged: [inner, outer].iter().flatten().map(|reading| reading.damaged).sum(),
        })
    }

    fn set_anchor(&self, anchor: Anchor, sync: bool) -> Result<(), JournalError> {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.count += 1;
        let mut sync = sync;
        if self.durability == Durability::ProcessSafe {
            // The anchor must not outlive the records it speaks of: it is written only after a sync of
            // theirs, now and then.
            if !sync && !notes.count.is_multiple_of(anchor::SYNC_EVERY) {
                return Ok(());
            }
            self.file.sync_data()?;
            sync = true;
        }
        if notes.files.is_empty() {
            let mut paths = vec![self.layout.anchor()];
            if self.beside {
                paths.push(self.layout.outer_anchor()?);
            }
            for path in paths {
                let turn = anchor::read(&path)?.map_or(0, |reading| reading.turn);
                notes.files.push(AnchorFile::create(&path, &anchor, turn)?);
            }
            return Ok(());
        }
        notes.files.iter_mut().try_for_each(|file| file.note(&anchor, sync))
    }

    fn disk_bytes(&self) -> Result<u64, JournalError> {
        folder::bytes(self.layout.root())
    }
}

impl Drop for SledMedium {
    fn drop(&mut self) {
        let database = self.database.take();
        if catch_unwind(AssertUnwindSafe(|| drop(database))).is_err() {
            tracing::warn!(code = "storage_failed", "the database could not be closed cleanly");
        }
    }
}

impl std::fmt::Debug for SledMedium {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SledMedium").field("durability", &self.durability).finish_non_exhaustive()
    }
}
