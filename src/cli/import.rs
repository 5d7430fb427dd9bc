//! `leasehold import-sqlite`: moving in from the reference's SQLite stores.

use super::failure::Failed;
use super::place;
use super::{Ended, print};
use crate::audit::source::copied;
use crate::clock::{Clock as _, Entropy as _, SystemClock, SystemEntropy};
use crate::import::report::Why;
use crate::import::{Counts, ImportError, LeftOut, Options, Report, SqliteStore, import};
use clap::Args;
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::flows::names::name_of;
#[cfg(feature = "postgres")]
use leasehold_journal::JournalError;
use leasehold_journal::medium::Medium;
use leasehold_journal::memory::MemoryDisk;
#[cfg(feature = "postgres")]
use leasehold_journal::postgres::PostgresMedium;
use leasehold_journal::sled::SledMedium;
use leasehold_journal::{Durability, JournalId, Log, LogOptions};
use std::path::{Path, PathBuf};

/// Bring the records of the reference's SQLite stores into a journal.
///
/// Every row becomes a record in the state it is in: attempts, due times, errors, answers and leases; a
/// lease that is out runs out at its time. The stores are copied to a private place and read there, so that
/// they may be in use; not a byte of them changes. What is there already is left alone: the same command
/// again changes nothing. Rows that break a rule of their component, and records that are there otherwise,
/// are named and left out. Exits with 1 when something was.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  leasehold import-sqlite examples/reference.sqlite --journal demo-moved"
)]
pub(super) struct ImportArguments {
    /// SQLite stores of the change dispatcher, the lifecycle monitor, the terminal processing monitor and
    /// the source delivery outbox; several of these may lie in one file
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The journal's folder, made when it is not there; or postgres://[USER@]HOST/DATABASE[?schema=NAME]
    #[arg(long, value_name = "DIR|URL")]
    journal: PathBuf,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &ImportArguments) -> Result<Ended, Failed> {
    let at = Timestamp::new(SystemClock.now_seconds()).ok_or(Failed::Usage("there is no time"))?;
    let options = Options { at, dry_run: arguments.dry_run };
    let refused = |number: usize, fault| Failed::Source(arguments.files[number].clone(), fault);
    let open = |(number, path): (usize, &PathBuf)| {
        SqliteStore::open(path).map_err(|fault| refused(number, fault))
    };
    // All of them before anything is written.
    let stores: Vec<SqliteStore> =
        arguments.files.iter().enumerate().map(open).collect::<Result<_, _>>()?;
    let imported = if place::is_server(&arguments.journal) {
        on_server(&arguments.journal, &stores, options)?
    } else if arguments.dry_run {
        look(&arguments.journal, &stores, options)
    } else {
        let medium = SledMedium::open(&arguments.journal, true, Durability::default())?;
        bring(medium, &stores, options)
    };
    let report = imported.map_err(|error| match error {
        ImportError::Journal(error) => error.into(),
        ImportError::Source { number, fault } => refused(number, fault),
    })?;
    told(arguments, &report)?;
    Ok(if report.is_whole() { Ended::Fine } else { Ended::Findings })
}

fn bring(
    medium: impl Medium + 'static,
    stores: &[SqliteStore],
    options: Options,
) -> Result<Report, ImportError> {
    let mut id = [0; 16];
    SystemEntropy.fill(&mut id);
    let log = LogOptions { new_id: JournalId(id), create: true };
    let mut log = Log::open(medium, log, &mut |_| Ok(()))?.naming(name_of);
    let reader = log.reader();
    import(&mut log, &reader, stores, options)
}

#[cfg(feature = "postgres")]
fn on_server(
    journal: &Path,
    stores: &[SqliteStore],
    options: Options,
) -> Result<Result<Report, ImportError>, Failed> {
    let place = place::server(journal)?;
    match PostgresMedium::open(&place, !options.dry_run) {
        Ok(medium) => Ok(bring(medium, stores, options)),
        Err(JournalError::Missing) => Ok(bring(MemoryDisk::new().medium(), stores, options)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(feature = "postgres"))]
fn on_server(
    _: &Path,
    _: &[SqliteStore],
    _: Options,
) -> Result<Result<Report, ImportError>, Failed> {
    Err(place::WITHOUT)
}

/// The same against a copy of the journal, or an empty one, into which nothing is written.
fn look(journal: &Path, stores: &[SqliteStore], options: Options) -> Result<Report, ImportError> {
    if !journal.exists() {
        return bring(MemoryDisk::new().medium(), stores, options);
    }
    let (medium, _copy) = copied(journal)?;
    bring(medium, stores, options)
}

fn told(arguments: &ImportArguments, report: &Report) -> Result<(), Failed> {
    if arguments.json {
        return print::json(report);
    }
    for (component, counts) in &report.components {
        print::line(&counted(component, *counts, report.dry_run))?;
    }
    for left_out in &report.left_out {
        let LeftOut { component, id, file, row, why, code } = left_out;
        let id = id.as_deref().unwrap_or("-");
        let what = match why {
            Why::Damaged => "damaged",
            Why::Conflict => "conflict",
        };
        let path = arguments.files[*file].display();
        print::line(&format!("left out: {component} {id}: {what}, {code} (row {row} of {path})"))?;
    }
    if !report.dry_run {
        print::line(&format!("head {} at record {}", report.head, report.sequence))?;
    }
    Ok(())
}

fn counted(component: &str, counts: Counts, dry_run: bool) -> String {
    let Counts { imported, unchanged, conflicts, damaged } = counts;
    let done = if dry_run { "to import" } else { "imported" };
    format!(
        "{component}: {imported} {done}, {unchanged} unchanged, {conflicts} in conflict, {damaged} damaged"
    )
}
