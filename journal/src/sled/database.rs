//! One database of sled's, guarded.
//!
//! Owns every call of sled and its keys. Must not know what the values say.
//!
//! | key | value |
//! | --- | --- |
//! | `m` | `LHJ1`, version of the folder's format, journal id |
//! | `b` | the base ([`crate::base`]) |
//! | `e`, stream | its entry in the base |
//! | `f`, sequence number of its first record, big-endian | a frame |
//! | `c`, hash | a chunk |

use crate::chain::Digest;
use crate::checkpoint::Stamp;
use crate::error::JournalError;
use crate::folder;
use crate::medium::{Batch, Part};
use crate::record::StreamId;
use std::fs::{File, Metadata};
use std::ops::RangeBounds;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// Fixed for a journal's life.
const SEGMENT_BYTES: usize = 8 * 1024 * 1024;
const CACHE_BYTES: u64 = 64 * 1024 * 1024;
/// sled lets go of its file when the last copy of its handle is closed, and a child process that is
/// just being started has one for a moment. Whoever opens a database here has the journal's own lock,
/// or a copy nobody knows of, so that nobody else can be at it for longer.
const LOCK_TRIES: u32 = 100;
const LOCK_WAIT: Duration = Duration::from_millis(20);
const META_KEY: &[u8] = b"m";
const BASE_KEY: &[u8] = b"b";

/// A key and its value.
type Pair = (Vec<u8>, Vec<u8>);

/// An open database.
pub(super) struct Database {
    database: Option<sled::Db>,
    /// The handle that is given `fdatasync`; older than every write.
    file: File,
    path: PathBuf,
}

impl Database {
    /// Opens the database in this folder, or makes it.
    pub(super) fn open(path: PathBuf) -> Result<Self, JournalError> {
        let database = open_patiently(&path)?;
        let file = File::options().read(true).write(true).open(path.join("db"))?;
        let opened = Self { database: Some(database), file, path };
        opened.without_blobs()?;
        Ok(opened)
    }

    /// Whether sled's own files are all there; it makes a missing one anew, with nothing in it.
    pub(super) fn is_whole(path: &Path) -> bool {
        ["conf", "db"].iter().all(|name| path.join(name).is_file())
    }

    /// Refuses a database that moved a value to a file it never syncs.
    pub(super) fn without_blobs(&self) -> Result<(), JournalError> {
        let blobs = self.path.join("blobs");
        let found = blobs.is_dir() && std::fs::read_dir(&blobs)?.next().is_some();
        if found { Err(JournalError::Blobs) } else { Ok(()) }
    }

    fn sled(&self) -> Result<&sled::Db, JournalError> {
        self.database.as_ref().ok_or(JournalError::Poisoned)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, JournalError> {
        let database = self.sled()?;
        Ok(guarded(|| database.get(key))?.map(|bytes| bytes.to_vec()))
    }

    fn first<'k>(&self, range: impl RangeBounds<&'k [u8]>) -> Result<Option<Pair>, JournalError> {
        let database = self.sled()?;
        let found = guarded(|| database.range(range).next().transpose())?;
        Ok(found.map(|(key, value)| (key.to_vec(), value.to_vec())))
    }

    pub(super) fn meta(&self) -> Result<Option<Vec<u8>>, JournalError> {
        self.get(META_KEY)
    }

    pub(super) fn set_meta(&self, meta: Vec<u8>) -> Result<(), JournalError> {
        let database = self.sled()?;
        guarded(|| database.insert(META_KEY, meta).map(drop))
    }

    pub(super) fn base(&self) -> Result<Option<Vec<u8>>, JournalError> {
        self.get(BASE_KEY)
    }

    pub(super) fn set_base(&self, base: Vec<u8>) -> Result<(), JournalError> {
        let database = self.sled()?;
        guarded(|| database.insert(BASE_KEY, base).map(drop))
    }

    pub(super) fn entry(&self, stream: StreamId) -> Result<Option<Vec<u8>>, JournalError> {
        self.get(&entry_key(stream))
    }

    pub(super) fn entry_after(
        &self,
        stream: Option<StreamId>,
    ) -> Result<Option<(StreamId, Vec<u8>)>, JournalError> {
        // A key with one more byte is the next one after it.
        let from = stream.map_or(vec![b'e'], |stream| [&entry_key(stream)[..], &[0]].concat());
        let Some((key, bytes)) = self.first(&from[..]..&b"f"[..])? else { return Ok(None) };
        let stream = key.get(1..).and_then(|stream| stream.try_into().ok());
        let stream = stream.ok_or(JournalError::Corrupt { sequence: 0 })?;
        Ok(Some((StreamId(stream), bytes)))
    }

    pub(super) fn chunk(&self, hash: &Digest) -> Result<Option<Vec<u8>>, JournalError> {
        self.get(&chunk_key(hash))
    }

    pub(super) fn frame_at_or_before(
        &self,
        sequence: u64,
    ) -> Result<Option<(u64, Vec<u8>)>, JournalError> {
        let database = self.sled()?;
        let range = frame_key(0)..=frame_key(sequence);
        let found = guarded(|| database.range(range).next_back().transpose())?;
        Ok(found.and_then(|(key, value)| Some((frame_of(&key)?, value.to_vec()))))
    }

    pub(super) fn frame_at_or_after(
        &self,
        sequence: u64,
    ) -> Result<Option<(u64, Vec<u8>)>, JournalError> {
        let (from, to) = (frame_key(sequence), frame_key(u64::MAX));
        let found = self.first(&from[..]..=&to[..])?;
        Ok(found.and_then(|(key, value)| Some((frame_of(&key)?, value))))
    }

    /// All of it or nothing. A batch costs sled a write and a wait of its own beside the data's, which
    /// one value does without: it is whole or not there by itself.
    pub(super) fn write(&self, mut batch: Batch) -> Result<(), JournalError> {
        let database = self.sled()?;
        if let ([_], []) = (batch.frames.as_slice(), batch.chunks.as_slice())
            && let Some((sequence, bytes)) = batch.frames.pop()
        {
            return guarded(|| database.insert(frame_key(sequence), bytes).map(drop));
        }
        let mut inserts = sled::Batch::default();
        for (hash, bytes) in batch.chunks {
            inserts.insert(chunk_key(&hash).as_slice(), bytes);
        }
        for (sequence, bytes) in batch.frames {
            inserts.insert(frame_key(sequence).as_slice(), bytes);
        }
        guarded(|| database.apply_batch(inserts))
    }

    pub(super) fn put(&self, part: Part) -> Result<(), JournalError> {
        let database = self.sled()?;
        let insert = |key: &[u8], bytes: Vec<u8>| guarded(|| database.insert(key, bytes).map(drop));
        match part {
            Part::Entry(stream, bytes) => insert(&entry_key(stream), bytes),
            Part::Frame(sequence, bytes) => insert(&frame_key(sequence), bytes),
            Part::Chunk(hash, bytes) => insert(&chunk_key(&hash), bytes),
        }
    }

    pub(super) fn flush(&self) -> Result<(), JournalError> {
        let database = self.sled()?;
        guarded(|| database.flush().map(drop))
    }

    /// Makes durable what was flushed.
    pub(super) fn sync(&self) -> Result<(), JournalError> {
        Ok(self.file.sync_data()?)
    }

    /// The same with sled's other file and the names.
    pub(super) fn sync_files(&self) -> Result<(), JournalError> {
        self.file.sync_all()?;
        File::open(self.path.join("conf"))?.sync_all()?;
        folder::sync_directory(&self.path)
    }

    /// Stamps the file of a closed database, and answers how it is then; `None` where that cannot be
    /// told. File systems count time in ticks of milliseconds, and a change right after this one would
    /// bear the same time: so the file is given a time that no tick has.
    pub(super) fn leave_stamp(&self) -> Result<Option<Stamp>, JournalError> {
        let ticked = self.file.metadata()?.modified()?;
        self.file.set_modified(ticked + Duration::from_nanos(1))?;
        Ok(stamp_of(&self.file.metadata()?))
    }

    /// Closes it; false when that ended in a panic, as it does when the disk fails.
    pub(super) fn close(&mut self) -> bool {
        let database = self.database.take();
        catch_unwind(AssertUnwindSafe(|| drop(database))).is_ok()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if !self.close() {
            tracing::warn!(code = "storage_failed", "the database could not be closed cleanly");
        }
    }
}

/// How the file of a database that is not open is; `None` for one that is not there yet, or whose time
/// cannot be told.
pub(super) fn stamp(path: &Path) -> Option<Stamp> {
    stamp_of(&std::fs::metadata(path.join("db")).ok()?)
}

fn stamp_of(file: &Metadata) -> Option<Stamp> {
    let modified = file.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(Stamp {
        bytes: file.len(),
        modified_seconds: modified.as_secs(),
        modified_nanos: modified.subsec_nanos(),
    })
}

/// Opens sled, trying again for as long as a handle of an earlier life may still be around.
fn open_patiently(path: &Path) -> Result<sled::Db, JournalError> {
    for _ in 1..LOCK_TRIES {
        match open_guarded(path) {
            Err(JournalError::Locked) => pause(),
            opened => return opened,
        }
    }
    open_guarded(path)
}

/// Waits for the operating system; no record's time is involved, and there is no clock here.
#[allow(clippy::disallowed_methods)]
fn pause() {
    std::thread::sleep(LOCK_WAIT);
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

fn entry_key(stream: StreamId) -> [u8; 17] {
    let mut key = [b'e'; 17];
    key[1..].copy_from_slice(&stream.0);
    key
}

/// The sequence number in a frame's key.
fn frame_of(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.strip_prefix(b"f")?.try_into().ok()?))
}
