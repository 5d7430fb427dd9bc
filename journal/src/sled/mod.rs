//! The medium on disk: sled 0.34.7 with the settings and the guards that make it keep its word.
//!
//! Owns which database is the journal's, its anchors, and when what is synced. Every call of sled is
//! in `database`. Must not know what is in a frame. What was measured, and what follows:
//!
//! * `flush` calls `sync_file_range`, not `fsync`: a second handle on the database file, opened
//!   before the first write, is given `fdatasync` after every flush.
//! * A leaf over a quarter of a segment moves to `blobs/`, which is never synced: segments of 8 MiB
//!   and values of at most 64 KiB keep every leaf inside; a journal with blobs is refused.
//! * Damage makes `open` panic, or lose the tail without a word: it runs on a thread of its own and
//!   its panic becomes a code; the tail is the anchor's business.
//! * Dropping a database whose disk fails panics: the drop is guarded too.
//! * Closing a database writes: the stamp of a checkpoint is taken after it.
//! * What is removed gives no room back: a journal that lets go of frames is written anew beside the
//!   old one and renamed into its place.

mod database;

use crate::anchor::{self, Anchor, AnchorFile};
use crate::base::Base;
use crate::chain::{Digest, JournalId};
use crate::checkpoint::{Draft, Left, Stamp};
use crate::error::JournalError;
use crate::folder::{self, Layout, Lock};
use crate::medium::{Anchors, Batch, Durability, Fill, Medium};
use crate::record::StreamId;
use database::Database;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

pub(crate) const META_MAGIC: [u8; 4] = *b"LHJ1";
/// Version of the folder's format.
pub(crate) const META_VERSION: u16 = 1;
/// The same for a journal with a base, so that a library that knows none refuses it.
pub(crate) const META_VERSION_BASE: u16 = 2;
/// Parts put into a successor between two flushes.
const PARTS_PER_FLUSH: u32 = 4096;

/// A journal's folder, open.
pub struct SledMedium {
    database: Database,
    durability: Durability,
    layout: Layout,
    notes: Mutex<Notes>,
    /// Whether there is an anchor beside the folder.
    beside: bool,
    /// How the database's file was before sled opened it, which may change it.
    stamp: Option<Stamp>,
    /// Written when the last who has the medium lets go.
    checkpoint: Mutex<Option<Draft>>,
    /// Let go of last: fields are dropped in their order.
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
        let path = layout.database();
        // Only a journal that was never finished being made may lack a file.
        if !Database::is_whole(&path) && layout.anchor().exists() {
            return Err(JournalError::Corrupt { sequence: 0 });
        }
        let stamp = database::stamp(&path);
        Ok(Self {
            database: Database::open(path)?,
            durability,
            layout,
            notes: Mutex::new(Notes::default()),
            beside: true,
            stamp,
            checkpoint: Mutex::new(None),
            _lock: lock,
        })
    }

    /// Keeps no anchor beside the folder: for a place whose parent cannot be written. Putting the whole
    /// folder back to an older state is not noticed then.
    #[must_use]
    pub fn without_outer_anchor(mut self) -> Self {
        self.beside = false;
        self
    }

    fn sync_everything(&self) -> Result<(), JournalError> {
        self.database.sync_files()?;
        folder::sync_directory(self.layout.root())?;
        folder::sync_directory(&folder::parent(self.layout.root())?)
    }

    /// Leaves a checkpoint. The database has to be closed for it: sled writes when it is closed. What it
    /// wrote then is made durable first, or a power cut could leave a checkpoint that speaks of more.
    fn leave(&mut self, draft: Draft) -> Result<(), JournalError> {
        if !self.database.close() {
            return Err(JournalError::Storage);
        }
        let stamp = self.database.leave_stamp()?.ok_or(JournalError::Storage)?;
        self.database.sync_files()?;
        folder::checkpoint::write(&self.layout, &draft.seal(stamp))
    }

    /// The format's version and the journal's id.
    fn meta(&self) -> Result<Option<(u16, JournalId)>, JournalError> {
        let Some(meta) = self.database.meta()? else { return Ok(None) };
        let damaged = JournalError::Corrupt { sequence: 0 };
        if meta.len() != 22 || meta[..4] != META_MAGIC {
            return Err(damaged);
        }
        let version = u16::from_le_bytes([meta[4], meta[5]]);
        if version != META_VERSION && version != META_VERSION_BASE {
            return Err(JournalError::Newer { version });
        }
        Ok(Some((version, JournalId(meta[6..].try_into().map_err(|_| damaged)?))))
    }
}

fn meta_of(version: u16, id: JournalId) -> Vec<u8> {
    [&META_MAGIC[..], &version.to_le_bytes(), &id.0].concat()
}

/// Builds a database with a base, durable before it returns.
fn build(path: &Path, id: JournalId, fill: &mut Fill<'_>) -> Result<(), JournalError> {
    let mut database = Database::open(path.to_path_buf())?;
    let mut parts = 0_u32;
    let base = fill(&mut |part| {
        database.put(part)?;
        parts = parts.wrapping_add(1);
        // Now and then, so that what is not written yet stays small.
        if parts.is_multiple_of(PARTS_PER_FLUSH) { database.flush() } else { Ok(()) }
    })?;
    database.set_base(base.encode())?;
    database.set_meta(meta_of(META_VERSION_BASE, id))?;
    database.flush()?;
    database.sync_files()?;
    database.without_blobs()?;
    if !database.close() {
        return Err(JournalError::Storage);
    }
    folder::tighten(path)?;
    // Once more: sled writes files of its own when it is closed.
    folder::sync_files(path)
}

impl Medium for SledMedium {
    fn journal_id(&self) -> Result<Option<JournalId>, JournalError> {
        Ok(self.meta()?.map(|(_, id)| id))
    }

    fn initialise(&self, id: JournalId) -> Result<(), JournalError> {
        self.database.set_meta(meta_of(META_VERSION, id))?;
        self.database.flush()?;
        self.sync_everything()?;
        folder::tighten(self.layout.root())
    }

    fn write(&self, batch: Batch) -> Result<(), JournalError> {
        self.database.write(batch)
    }

    fn sync(&self) -> Result<(), JournalError> {
        self.database.flush()?;
        match self.durability {
            Durability::PowerSafe => self.database.sync(),
            Durability::ProcessSafe => Ok(()),
        }
    }

    fn settle(&self) -> Result<(), JournalError> {
        self.database.flush()?;
        self.sync_everything()
    }

    fn frame_at_or_before(&self, sequence: u64) -> Result<Option<(u64, Vec<u8>)>, JournalError> {
        self.database.frame_at_or_before(sequence)
    }

    fn frame_at_or_after(&self, sequence: u64) -> Result<Option<(u64, Vec<u8>)>, JournalError> {
        self.database.frame_at_or_after(sequence)
    }

    fn chunk(&self, hash: &Digest) -> Result<Option<Vec<u8>>, JournalError> {
        self.database.chunk(hash)
    }

    fn base(&self) -> Result<Option<Base>, JournalError> {
        let damaged = JournalError::Corrupt { sequence: 0 };
        let expected = matches!(self.meta()?, Some((META_VERSION_BASE, _)));
        match self.database.base()? {
            Some(bytes) if expected => Ok(Some(Base::decode(&bytes).ok_or(damaged)?)),
            None if !expected => Ok(None),
            Some(_) | None => Err(damaged),
        }
    }

    fn base_entry(&self, stream: StreamId) -> Result<Option<Vec<u8>>, JournalError> {
        self.database.entry(stream)
    }

    fn base_entry_after(
        &self,
        stream: Option<StreamId>,
    ) -> Result<Option<(StreamId, Vec<u8>)>, JournalError> {
        self.database.entry_after(stream)
    }

    fn prepare_successor(&self, fill: &mut Fill<'_>) -> Result<(), JournalError> {
        let (_, id) = self.meta()?.ok_or(JournalError::Missing)?;
        let path = self.layout.next_database();
        folder::remove_database(&path)?;
        let built = build(&path, id, fill);
        if built.is_err() && folder::remove_database(&path).is_err() {
            tracing::warn!(
                code = "storage_failed",
                "a half-written database waits for the next open"
            );
        }
        built?;
        folder::sync_directory(self.layout.root())
    }

    fn succeed(mut self) -> Result<(), JournalError> {
        if !self.layout.next_database().is_dir() {
            return Err(JournalError::Missing);
        }
        if !self.database.close() {
            return Err(JournalError::Storage);
        }
        folder::replace_database(&self.layout)
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
            self.database.sync()?;
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

    fn checkpoint(&self) -> Result<Option<Left>, JournalError> {
        let stamp = self.stamp;
        Ok(folder::checkpoint::read(&self.layout)?.map(|bytes| Left { bytes, stamp }))
    }

    fn remove_checkpoint(&self) -> Result<(), JournalError> {
        folder::checkpoint::remove(&self.layout)
    }

    fn leave_checkpoint(&self, draft: Draft) -> Result<(), JournalError> {
        *self.checkpoint.lock().unwrap_or_else(PoisonError::into_inner) = Some(draft);
        Ok(())
    }

    fn disk_bytes(&self) -> Result<u64, JournalError> {
        folder::bytes(self.layout.root())
    }
}

impl Drop for SledMedium {
    /// The lock is still held: nobody else can have opened the journal meanwhile.
    fn drop(&mut self) {
        let draft = self.checkpoint.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let left = draft.map_or(Ok(()), |draft| self.leave(draft));
        if let Err(error) = left {
            tracing::warn!(
                code = error.code(),
                "no checkpoint is left; the next open takes longer"
            );
        }
    }
}

impl std::fmt::Debug for SledMedium {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SledMedium").field("durability", &self.durability).finish_non_exhaustive()
    }
}
