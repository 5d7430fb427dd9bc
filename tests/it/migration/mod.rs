//! Moving in from the reference's SQLite stores.
//!
//! The folder is `LEASEHOLD_MIGRATION_DIR` beside `tests/migration`; any set of the same form passes.

mod damaged;
mod engine;
mod live;
mod program;
mod traces;

use leasehold::import::{Options, Report, SqliteStore, import};
use leasehold::{Engine, EngineBuilder, MemoryDisk};
use leasehold_actors::contract::time::Timestamp;
use leasehold_journal::medium::Medium;
use leasehold_journal::memory::MemoryMedium;
use leasehold_journal::{JournalId, Log, LogOptions};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// When everything here is imported.
const AT: f64 = 1_800_000_000.0;

fn here() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/migration"))
}

fn options(dry_run: bool) -> Options {
    Options { at: Timestamp::new(AT).expect("a time"), dry_run }
}

fn opened(disk: &MemoryDisk) -> Log<MemoryMedium> {
    log(disk.medium())
}

fn log<M: Medium>(medium: M) -> Log<M> {
    let options = LogOptions { new_id: JournalId([3; 16]), create: true };
    Log::open(medium, options, &mut |_| Ok(())).expect("it verifies")
}

/// A new journal that is moved into.
trait Home {
    fn bring(&self, paths: &[&Path]) -> Report;
    fn engine(&self) -> EngineBuilder;
}

impl Home for MemoryDisk {
    fn bring(&self, paths: &[&Path]) -> Report {
        brought(self, paths, options(false))
    }

    fn engine(&self) -> EngineBuilder {
        Engine::in_memory(self)
    }
}

#[cfg(feature = "postgres")]
impl Home for leasehold::PostgresPlace {
    fn bring(&self, paths: &[&Path]) -> Report {
        let medium = leasehold_journal::postgres::PostgresMedium::open(self, true);
        brought_into(log(medium.expect("the server is there")), paths, options(false))
    }

    fn engine(&self) -> EngineBuilder {
        crate::postgres::builder(self)
    }
}

/// Imports these stores into the journal of a disk.
fn brought(disk: &MemoryDisk, paths: &[&Path], options: Options) -> Report {
    brought_into(opened(disk), paths, options)
}

fn brought_into<M: Medium>(mut log: Log<M>, paths: &[&Path], options: Options) -> Report {
    let stores: Vec<SqliteStore> =
        paths.iter().map(|path| SqliteStore::open(path).expect("a store")).collect();
    let reader = log.reader();
    import(&mut log, &reader, &stores, options).expect("memory takes everything")
}

/// A copy of a store, to be changed.
struct Changed {
    folder: TempDir,
}

impl Changed {
    fn of(name: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::copy(here().join(name), folder.path().join("store")).expect("copied");
        Self { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    /// Runs statements that the reference's own checks would refuse.
    fn run(&self, statements: &str) -> &Self {
        let connection = Connection::open(self.path()).expect("SQLite opens it");
        connection.pragma_update(None, "ignore_check_constraints", true).expect("a setting");
        connection.execute_batch(statements).expect("it runs");
        self
    }
}
