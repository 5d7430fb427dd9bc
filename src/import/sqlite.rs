//! The tables and rows of a SQLite store.
//!
//! Owns every call of SQLite. Must not know what a row says.

use super::snapshot::Snapshot;
use leasehold_actors::import::store::{Found, MetaRow};
use leasehold_actors::import::{Cell, Component, Meta, StoreFault};
use leasehold_journal::JournalError;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};
use std::path::Path;

/// Why a source is refused as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceFault {
    /// It cannot be read, or is not there.
    #[error("source_unreadable")]
    Unreadable,
    /// It is no SQLite database.
    #[error("source_not_sqlite")]
    NotSqlite,
    /// It was written to without a pause while it was read.
    #[error("source_busy")]
    Busy,
    /// There is no room, or no place, for a copy of it.
    #[error("source_copy_failed")]
    CopyFailed,
    /// The database itself is damaged.
    #[error("source_damaged")]
    Damaged,
    /// None of the four components has a table in it.
    #[error("source_unknown")]
    Unknown,
    /// A component's tables are none that can be read.
    #[error("{fault}")]
    Store {
        /// The component's name.
        component: &'static str,
        /// Why.
        fault: StoreFault,
    },
}

impl From<rusqlite::Error> for SourceFault {
    /// SQLite's own words stay inside: they may hold what is in the file.
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::NotADatabase) => Self::NotSqlite,
            Some(_) | None => Self::Damaged,
        }
    }
}

/// Why a walk over rows stopped.
#[derive(Debug)]
pub(super) enum Stopped {
    Source(SourceFault),
    Journal(JournalError),
}

impl From<rusqlite::Error> for Stopped {
    fn from(error: rusqlite::Error) -> Self {
        Self::Source(error.into())
    }
}

/// What is shown each row: its component, what the store says of itself, its number, its values.
pub(super) type Look<'a> =
    dyn FnMut(Component, &Meta, i64, &[Cell]) -> Result<(), JournalError> + 'a;

/// A store of the reference, as it was at one moment.
#[derive(Debug)]
pub struct SqliteStore {
    /// To be closed before its file goes.
    connection: Connection,
    components: Vec<(Component, Meta)>,
    _snapshot: Snapshot,
}

impl SqliteStore {
    /// Copies a database, which may be in use, and looks at what it says of itself. The database and what
    /// lies beside it stay as they are, to the byte.
    ///
    /// # Errors
    /// [`SourceFault`]; nothing of it may be read then.
    pub fn open(path: &Path) -> Result<Self, SourceFault> {
        let snapshot = Snapshot::take(path)?;
        // The copy is ours to write to: what a writer left half done is finished or undone in it.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(snapshot.path(), flags)?;
        // What is written in a schema must not run.
        connection.pragma_update(None, "trusted_schema", false)?;
        let (mut components, mut known) = (Vec::new(), false);
        for component in Component::ALL {
            let found = found(&connection, component)?;
            known |= !found.columns.is_empty();
            let meta = component
                .meta(&found)
                .map_err(|fault| SourceFault::Store { component: component.name(), fault })?;
            components.extend(meta.map(|meta| (component, meta)));
        }
        if !known {
            return Err(SourceFault::Unknown);
        }
        Ok(Self { connection, components, _snapshot: snapshot })
    }

    /// Shows every row, component by component, in the order they were written.
    pub(super) fn each(&self, look: &mut Look<'_>) -> Result<(), Stopped> {
        for (component, meta) in &self.components {
            let (columns, table) = (component.columns(), component.table());
            let query = format!("SELECT rowid, {} FROM {table} ORDER BY rowid", columns.join(", "));
            let mut statement = self.connection.prepare(&query)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let number: i64 = row.get(0)?;
                let cells = cells(row, 1, columns.len())?;
                look(*component, meta, number, &cells).map_err(Stopped::Journal)?;
            }
        }
        Ok(())
    }
}

fn found(connection: &Connection, component: Component) -> Result<Found, SourceFault> {
    let columns = columns(connection, component.table())?;
    let meta_columns = columns_of_meta(connection, component)?;
    let meta = if meta_columns.is_empty() { Vec::new() } else { meta(connection, component)? };
    let is_empty = columns.is_empty() || {
        let query = format!("SELECT NOT EXISTS (SELECT 1 FROM {})", component.table());
        connection.query_row(&query, [], |row| row.get(0))?
    };
    Ok(Found { columns, meta_columns, meta, is_empty })
}

fn columns_of_meta(
    connection: &Connection,
    component: Component,
) -> Result<Vec<String>, SourceFault> {
    columns(connection, component.meta_table())
}

/// The columns of a table; none where it is not there.
fn columns(connection: &Connection, table: &str) -> Result<Vec<String>, SourceFault> {
    let mut statement =
        connection.prepare("SELECT name FROM pragma_table_info(?1) ORDER BY cid")?;
    let names = statement.query_map([table], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

/// The first rows of a meta table: there is to be one.
fn meta(
    connection: &Connection,
    component: Component,
) -> Result<Vec<Option<MetaRow>>, SourceFault> {
    let query = format!("SELECT * FROM {} LIMIT 2", component.meta_table());
    let mut statement = connection.prepare(&query)?;
    let width = statement.column_count();
    let mut rows = statement.query([])?;
    let mut told = Vec::new();
    while let Some(row) = rows.next()? {
        told.push(match &cells(row, 0, width)?[..] {
            [Cell::Integer(singleton), Cell::Integer(version), rest @ ..] => match rest.first() {
                None | Some(Cell::Null) => Some((*singleton, *version, None)),
                Some(Cell::Text(digest)) => Some((*singleton, *version, Some(digest.clone()))),
                Some(Cell::Integer(_) | Cell::Real(_) | Cell::Bytes) => None,
            },
            _ => None,
        });
    }
    Ok(told)
}

/// So many values of a row, from this one on.
fn cells(row: &Row<'_>, first: usize, count: usize) -> Result<Vec<Cell>, rusqlite::Error> {
    let cell = |place| {
        Ok(match row.get_ref(place)? {
            ValueRef::Null => Cell::Null,
            ValueRef::Integer(value) => Cell::Integer(value),
            ValueRef::Real(value) => Cell::Real(value),
            ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Cell::Text(text.to_owned()),
                Err(_) => Cell::Bytes,
            },
            ValueRef::Blob(_) => Cell::Bytes,
        })
    };
    (first..first + count).map(cell).collect()
}
