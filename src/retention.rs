//! Moving old history out of a journal, into archive files.
//!
//! Owns which frames are old enough, and the order: the archive is written, synced, read back and has
//! its name before the journal lets go of anything. Must not know how frames are kept, nor decide
//! anything about a record.
//!
//! A crash in between leaves the archive and the whole journal: doing it again writes the same file.

use crate::audit::{Source, archives};
use leasehold_actors::carried::Origin;
use leasehold_actors::codec::DecodeError;
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::flows::all::{AllFlows, time_of};
use leasehold_actors::record::{Flow, State};
use leasehold_actors::replay::{Replay, ReplayError, Replayed};
use leasehold_journal::folder::{self, Layout};
use leasehold_journal::medium::Medium;
#[cfg(feature = "postgres")]
use leasehold_journal::postgres::{PostgresMedium, PostgresPlace};
use leasehold_journal::sled::SledMedium;
use leasehold_journal::walk::Item;
use leasehold_journal::{
    Durability, Head, JournalError, JournalId, Log, LogOptions, StoreReader, StreamId,
};
use serde::Serialize;
use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, BufWriter, Read, Write as _};
use std::path::{Path, PathBuf};

/// Why nothing was moved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RetentionError {
    /// The journal, or the disk below the archives.
    #[error("{0}")]
    Journal(JournalError),
    /// The folder for archives cannot be made.
    #[error("archive_folder_missing")]
    Folder,
    /// The folder for archives lies in the journal's own.
    #[error("archive_inside_journal")]
    Inside,
    /// An archive with this name exists and says something else.
    #[error("archive_differs")]
    Differs,
}

impl From<JournalError> for RetentionError {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

impl From<std::io::Error> for RetentionError {
    fn from(error: std::io::Error) -> Self {
        Self::Journal(error.into())
    }
}

/// What moves, or moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// The journal's id in hex.
    pub journal: String,
    /// The first record in the archive.
    pub first: u64,
    /// The last one.
    pub last: u64,
    /// The archive's head, in hex: the journal goes on from it.
    pub head: String,
    /// Frames in the archive.
    pub frames: u64,
    /// Completed records known at its end; the journal keeps a small final entry of each.
    pub completed: u64,
    /// Other records known at its end, what was ever paused among them; the journal keeps them whole,
    /// and they go on.
    pub others: u64,
    /// The archive's name.
    pub file: String,
}

/// What would move out of a journal: every frame from the oldest on whose events all happened before
/// this time, but for the last one. `None` when that is none.
///
/// # Errors
/// What stopped the walk.
pub fn plan(journal: &Source, before: Timestamp) -> Result<Option<Moved>, RetentionError> {
    let mut choice = Choice::new(before);
    let walked = journal.walk(&mut |item| choice.take(item));
    match (walked.stopped, walked.journal) {
        (Some(error), _) => Err(error.into()),
        (None, Some(id)) => Ok(choice.moved(id)),
        (None, None) => Err(JournalError::Corrupt { sequence: 0 }.into()),
    }
}

/// Moves it: to a file in the folder `to`, which is made when it is not there. No engine may have the
/// journal open.
///
/// # Errors
/// [`RetentionError`]; the journal is whole then, with or without what was to be moved.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("journal");
/// # let changes = std::fs::read_to_string("examples/changes.ndjson")?;
/// use leasehold::audit::{Source, audit};
///
/// let engine = leasehold::Engine::builder(&path).open().await?;
/// for change in changes.lines().take(3) {
///     engine.dispatch().enqueue(change, 5).await?;
/// }
/// engine.close().await;
/// let bound = leasehold::Timestamp::new(4_000_000_000.0).ok_or("a time")?;
/// let archives = folder.path().join("archives");
/// let moved = leasehold::retention::archive(&path, &archives, bound)?.ok_or("some are older")?;
/// assert_eq!((moved.first, moved.last), (1, 2)); // the last frame stays
/// let both = Source::open(&path)?.with_archives(Some(archives));
/// assert!(audit(&both, None).clean);
/// # Ok(()) }
/// ```
pub fn archive(
    journal: &Path,
    to: &Path,
    before: Timestamp,
) -> Result<Option<Moved>, RetentionError> {
    let layout = Layout::new(journal);
    let mut medium = SledMedium::open(journal, false, Durability::PowerSafe)?;
    if !layout.outer_anchor()?.exists() {
        medium = medium.without_outer_anchor(); // as its engine has it
    }
    let mut choice = Choice::new(before);
    let options = LogOptions { new_id: JournalId([0; 16]), create: false };
    let log = Log::open(medium, options, &mut |item| choice.take(item))?;
    moved(log, choice, to, Some(journal))
}

/// The same for a journal on a server, while no engine has it open.
///
/// # Errors
/// [`RetentionError`]; [`JournalError::Locked`] while another engine has shown itself in the last seconds.
#[cfg(feature = "postgres")]
pub fn archive_on_server(
    place: &PostgresPlace,
    to: &Path,
    before: Timestamp,
) -> Result<Option<Moved>, RetentionError> {
    let medium = PostgresMedium::open(place, false)?;
    let mut choice = Choice::new(before);
    let options = LogOptions { new_id: JournalId([0; 16]), create: false };
    let log = Log::open(medium, options, &mut |item| choice.take(item))?;
    moved(log, choice, to, None)
}

fn moved<M: Medium>(
    log: Log<M>,
    choice: Choice,
    to: &Path,
    not_inside: Option<&Path>,
) -> Result<Option<Moved>, RetentionError> {
    let (Some(moved), Some(head)) = (choice.moved(log.id()), choice.chosen) else {
        return Ok(None);
    };
    make(to, not_inside)?;
    write(&log, head, &to.join(&moved.file))?;
    let flows = choice.flows;
    log.rebase(head, &mut |reader, stream| flows.image(stream, &mut || origin(reader, stream)))?;
    Ok(Some(moved))
}

/// Where the payload of a record is now.
fn origin(reader: &dyn StoreReader, stream: StreamId) -> Result<Origin, JournalError> {
    let image = reader.carried(stream)?.map(|entry| entry.image);
    let first = match image {
        Some(_) => None,
        None => reader.read_stream(stream)?.into_iter().next().map(|record| record.body),
    };
    Ok(Origin { image, first })
}

/// Makes the folder for archives, closed to others; one that is there is left as it is.
fn make(to: &Path, not_inside: Option<&Path>) -> Result<(), RetentionError> {
    if !to.is_dir() {
        folder::make_directory(to).map_err(|_| RetentionError::Folder)?;
        folder::sync_directory(&folder::parent(to)?)?;
    }
    let Some(journal) = not_inside else { return Ok(()) };
    let inside = fs::canonicalize(to)?.starts_with(fs::canonicalize(journal)?);
    if inside { Err(RetentionError::Inside) } else { Ok(()) }
}

/// Writes the archive under a temporary name, reads it back, and gives it its name, each step durable
/// before the next.
fn write<M: Medium>(log: &Log<M>, head: Head, path: &Path) -> Result<(), RetentionError> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = PathBuf::from(temporary);
    remove(&temporary)?; // left by a crash
    let named = fill(log, head, &temporary).and_then(|()| {
        if path.symlink_metadata().is_err() {
            return Ok(fs::rename(&temporary, path)?);
        }
        // Of an earlier try: it has to be the same, byte for byte.
        let same = same(&temporary, path)?;
        remove(&temporary)?;
        if same { Ok(File::open(path)?.sync_all()?) } else { Err(RetentionError::Differs) }
    });
    if named.is_err() && remove(&temporary).is_err() {
        tracing::warn!(code = "storage_failed", "a half-written archive could not be removed");
    }
    named?;
    Ok(folder::sync_directory(&folder::parent(path)?)?)
}

fn fill<M: Medium>(log: &Log<M>, head: Head, temporary: &Path) -> Result<(), RetentionError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600); // it holds every text that was delivered
    }
    let mut out = BufWriter::new(options.open(temporary)?);
    log.archive(head, &mut out)?;
    out.flush()?;
    out.get_ref().sync_all()?;
    Ok(log.verify_archive(head, &mut BufReader::new(File::open(temporary)?))?)
}

fn remove(path: &Path) -> Result<(), RetentionError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Whether two files have the same bytes.
fn same(left: &Path, right: &Path) -> Result<bool, RetentionError> {
    let (left, right) = (File::open(left)?, File::open(right)?);
    if left.metadata()?.len() != right.metadata()?.len() {
        return Ok(false);
    }
    let mut right = BufReader::new(right).bytes();
    for byte in BufReader::new(left).bytes() {
        let other = right.next().transpose()?;
        if Some(byte?) != other {
            return Ok(false);
        }
    }
    Ok(true)
}

/// One record of a frame.
struct Taken {
    sequence: u64,
    stream: StreamId,
    body: Option<Vec<u8>>,
}

/// A frame's records and its end.
type Frame = (Head, Vec<Taken>);

/// Chooses the frames on a walk, and knows every record as it is at the end of the last one.
///
/// A frame is chosen when the next one is there, so that at least one stays: the walk holds it back
/// until then.
struct Choice {
    before: Timestamp,
    flows: AllFlows,
    first: u64,
    chosen: Option<Head>,
    frames: u64,
    /// The frame under way.
    open: Vec<Taken>,
    held_back: Option<Frame>,
    /// Whether a frame came that is not old enough.
    over: bool,
}

impl Choice {
    fn new(before: Timestamp) -> Self {
        Self {
            before,
            flows: AllFlows::default(),
            first: 1,
            chosen: None,
            frames: 0,
            open: Vec::new(),
            held_back: None,
            over: false,
        }
    }

    fn take(&mut self, item: Item) -> Result<(), JournalError> {
        match item {
            Item::Base(base) => self.first = base.head.sequence + 1,
            // An image that is damaged must not be replaced by what is left of it.
            Item::Carried { stream, tip, image } => {
                let corrupt = JournalError::Corrupt { sequence: tip.sequence };
                match self.flows.carry(stream, Some(&image?)) {
                    Some(Ok(())) => {}
                    applied @ Some(Err(ReplayError::Decode(DecodeError::Newer(_)))) => {
                        known(tip.sequence, applied)?;
                    }
                    Some(Err(_)) | None => return Err(corrupt),
                }
            }
            Item::Record { sequence, stream, record } if !self.over => {
                let body = match record {
                    Ok(record) => Some(record.body),
                    // The archive refuses it, if it comes to that.
                    Err(JournalError::Corrupt { .. }) => None,
                    Err(error) => return Err(error),
                };
                self.open.push(Taken { sequence, stream, body });
            }
            Item::Frame(head) if !self.over => self.frame(head)?,
            Item::Record { .. } | Item::Frame(_) => {}
        }
        Ok(())
    }

    fn frame(&mut self, head: Head) -> Result<(), JournalError> {
        if let Some((head, records)) = self.held_back.take() {
            for Taken { sequence, stream, body } in records {
                known(sequence, self.flows.apply(stream, body.as_deref()))?;
            }
            self.chosen = Some(head);
            self.frames += 1;
        }
        let records = std::mem::take(&mut self.open);
        // What cannot be read has no time, and keeps nothing back.
        let times = records.iter().filter_map(|it| time_of(it.stream, it.body.as_deref()?));
        self.over = !times.into_iter().all(|at| at < self.before);
        self.held_back = (!self.over).then_some((head, records));
        Ok(())
    }

    fn moved(&self, id: JournalId) -> Option<Moved> {
        let head = self.chosen?;
        let flows = &self.flows;
        let counts = [
            count(&flows.dispatch),
            count(&flows.lifecycle),
            count(&flows.notification),
            count(&flows.processing),
            count(&flows.delivery),
            (0, flows.controls.count() as u64),
        ];
        Some(Moved {
            journal: id.to_string(),
            first: self.first,
            last: head.sequence,
            head: head.hash.to_string(),
            frames: self.frames,
            completed: counts.iter().map(|(completed, _)| completed).sum(),
            others: counts.iter().map(|(_, others)| others).sum(),
            file: archives::name(id, self.first, head.sequence),
        })
    }
}

/// Completed records and others.
fn count<F: Flow>(flow: &Replay<F>) -> (u64, u64) {
    let completed = flow
        .iter()
        .filter(|(_, record)| matches!(record, Replayed::Sound(State::Completed { .. })))
        .count();
    (completed as u64, (flow.count() - completed) as u64)
}

/// What does not replay is quarantined and moves as such; what is not understood stops everything.
fn known(sequence: u64, applied: Option<Result<(), ReplayError>>) -> Result<(), JournalError> {
    match applied {
        Some(Err(ReplayError::Decode(DecodeError::Newer(version)))) => {
            Err(JournalError::Newer { version: version.into() })
        }
        Some(Ok(()) | Err(_)) => Ok(()),
        None => Err(JournalError::Corrupt { sequence }),
    }
}
