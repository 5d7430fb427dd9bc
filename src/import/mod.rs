//! Moving in: records of the reference's SQLite stores, brought into a journal.
//!
//! Owns what is written, what is left alone, and what is said about it. What a row has to be is
//! [`leasehold_actors::import`]'s; which store the journal is kept in, its opener's. A source is never
//! written to.
//!
//! | module | owns |
//! | --- | --- |
//! | [`snapshot`] | a consistent copy of a database that may be in use |
//! | [`sqlite`] | its tables and rows |
//! | [`report`] | what became of each row |

pub mod report;
pub mod snapshot;
pub mod sqlite;

pub use report::{Counts, LeftOut, Report};
pub use sqlite::{SourceFault, SqliteStore};

use leasehold_actors::contract::text::Sha256;
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::flows::all::AllFlows;
use leasehold_actors::import::entry::Known;
use leasehold_actors::import::{Cell, Component, Entry, Meta, RowFault, check};
use leasehold_actors::record::{Flow as _, Key};
use leasehold_actors::replay::Replayed;
use leasehold_actors::shell::replayed;
use leasehold_journal::{Alone, Append, AppendError, JournalError, Store, StoreReader, StreamId};
use report::Why;
use std::collections::HashMap;

/// Records in one commit at most.
const COMMIT_RECORDS_MAX: usize = 2_000;
/// Bytes of one commit, from which on it is made.
const COMMIT_BYTES: usize = 4 * 1024 * 1024;

/// How records are brought in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// The time of it, which every record's event tells.
    pub at: Timestamp,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// Why an import stopped. What was written until then is written, and the same import goes on from there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A source.
    #[error("{fault}")]
    Source {
        /// Which of them, from 0.
        number: usize,
        /// Why.
        fault: SourceFault,
    },
}

/// Brings every record of these stores into a journal, many in a commit. One that is there as its row says
/// is unchanged, however it went on since; one that is there otherwise is left alone and named, as is a
/// damaged row.
///
/// # Errors
/// [`ImportError`]. Where engines share the journal they may go on meanwhile.
pub fn import(
    store: &mut dyn Store,
    reader: &dyn StoreReader,
    sources: &[SqliteStore],
    options: Options,
) -> Result<Report, ImportError> {
    let told = reader.head().sequence;
    let flows = replayed(reader)?;
    let mut importer = Importer {
        store,
        reader,
        unique: unique_keys(&flows),
        flows,
        told,
        seen: HashMap::new(),
        waiting: Vec::new(),
        bytes: 0,
        options,
        report: Report::new(options),
        file: 0,
    };
    for (number, source) in sources.iter().enumerate() {
        importer.file = number;
        let done = source
            .each(&mut |component, meta, row, cells| importer.take(component, meta, row, cells));
        match done {
            Ok(()) => {}
            Err(sqlite::Stopped::Journal(error)) => return Err(error.into()),
            Err(sqlite::Stopped::Source(fault)) => {
                importer.commit()?;
                return Err(ImportError::Source { number, fault });
            }
        }
    }
    importer.commit()?;
    if !options.dry_run {
        importer.store.settle_anchor()?;
    }
    importer.report.at_end(reader.head());
    Ok(importer.report)
}

/// The second identities that are taken, and by which stream.
fn unique_keys(flows: &AllFlows) -> HashMap<Key, StreamId> {
    let records = flows.processing.iter().filter_map(|(stream, replayed)| {
        let Replayed::Sound(state) = replayed else { return None };
        let key =
            leasehold_actors::flows::processing::Processing::unique_key(&state.record()?.binding)?;
        Some((key, stream))
    });
    records.collect()
}

struct Importer<'a> {
    store: &'a mut dyn Store,
    reader: &'a dyn StoreReader,
    flows: AllFlows,
    unique: HashMap<Key, StreamId>,
    /// The journal's last record when it was looked at.
    told: u64,
    /// What was taken in this import, by the hash of its bytes.
    seen: HashMap<StreamId, Sha256>,
    waiting: Vec<Waiting>,
    bytes: usize,
    options: Options,
    report: Report,
    file: usize,
}

/// A record that is to be written with the next commit.
struct Waiting {
    append: Append,
    place: Place,
}

/// Where a row is, and which record it is.
#[derive(Clone)]
struct Place {
    component: Component,
    file: usize,
    row: i64,
    id: Option<String>,
}

impl Importer<'_> {
    fn take(
        &mut self,
        component: Component,
        meta: &Meta,
        row: i64,
        cells: &[Cell],
    ) -> Result<(), JournalError> {
        let id = component.identity(cells);
        let place = Place { component, file: self.file, row, id };
        match check(component, meta, cells, self.options.at) {
            Ok(entry) => self.place(&entry, place),
            Err(fault) => {
                self.leave_out(place, Why::Damaged, fault.code());
                Ok(())
            }
        }
    }

    fn leave_out(&mut self, place: Place, why: Why, code: &'static str) {
        let Place { component, file, row, id } = place;
        self.report.leave_out(LeftOut { component: component.name(), id, file, row, why, code });
    }

    fn place(&mut self, entry: &Entry, place: Place) -> Result<(), JournalError> {
        let Some(stream) = entry.stream() else {
            self.leave_out(place, Why::Damaged, RowFault::Identity.code());
            return Ok(());
        };
        let body = entry.body()?;
        let sha256 = Sha256::of(&body);
        if let Some(known) = self.seen.get(&stream) {
            let same = *known == sha256;
            self.known(place, if same { Known::Same } else { Known::Other });
            return Ok(());
        }
        let first = match self.reader.version(stream) {
            0 => None,
            _ => self.first(stream)?,
        };
        if let Some(known) = entry.known(&self.flows, first.as_deref()) {
            self.known(place, known);
            return Ok(());
        }
        if let Some(key) = entry.unique() {
            if self.unique.get(&key).is_some_and(|other| *other != stream) {
                self.leave_out(place, Why::Conflict, "notification_id_taken");
                return Ok(());
            }
            self.unique.insert(key, stream);
        }
        self.seen.insert(stream, sha256);
        self.bytes += body.len();
        // What another engine registered since this import looked is not known here.
        let alone =
            entry.unique().map(|key| Alone { name: u64::from(key).to_be_bytes(), told: self.told });
        let append = Append { stream, expected_version: 0, bodies: vec![body], alone };
        self.waiting.push(Waiting { append, place });
        if self.waiting.len() >= COMMIT_RECORDS_MAX || self.bytes >= COMMIT_BYTES {
            self.commit()?;
        }
        Ok(())
    }

    /// The first event of a record that is not archived; `None` where it cannot be read, as of one that is
    /// quarantined.
    fn first(&self, stream: StreamId) -> Result<Option<Vec<u8>>, JournalError> {
        match self.reader.read_stream(stream) {
            Ok(records) => Ok(records.into_iter().next().map(|record| record.body)),
            Err(JournalError::Corrupt { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn known(&mut self, place: Place, known: Known) {
        match known {
            Known::Same => self.report.counts(place.component).unchanged += 1,
            Known::Other => self.leave_out(place, Why::Conflict, "record_differs"),
            Known::Quarantined => self.leave_out(place, Why::Conflict, "record_quarantined"),
        }
    }

    fn commit(&mut self) -> Result<(), JournalError> {
        self.bytes = 0;
        let (batch, places): (Vec<_>, Vec<_>) =
            self.waiting.drain(..).map(|Waiting { append, place }| (append, place)).unzip();
        if self.options.dry_run {
            places.iter().for_each(|it| self.report.counts(it.component).imported += 1);
            return Ok(());
        }
        if batch.is_empty() {
            return Ok(());
        }
        for (place, placed) in places.into_iter().zip(self.store.commit(&batch)?) {
            match placed {
                Ok(_) => self.report.counts(place.component).imported += 1,
                Err(AppendError::Conflict { .. }) => self.known(place, Known::Other),
                Err(AppendError::NotAlone) => {
                    self.leave_out(place, Why::Conflict, "notification_id_taken");
                }
                Err(AppendError::Size) => {
                    self.leave_out(place, Why::Damaged, "record_too_large");
                }
            }
        }
        Ok(())
    }
}
