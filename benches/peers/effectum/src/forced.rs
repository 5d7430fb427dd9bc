//! effectum with the durability it does not have by itself.
//!
//! Owns the settings of every SQLite connection of this process. Must not know what is written.
//!
//! effectum opens its writing connection itself and hands it to nobody. On it, it runs
//! `PRAGMA journal = wal`, which SQLite does not know and so ignores, and `PRAGMA synchronous = normal`,
//! under which a commit in WAL mode is not synced. The mode of the journal lies in the file and is set
//! there beforehand. `synchronous` belongs to a connection; SQLite starts it as FULL, and what would take
//! it back is ignored by an authorizer that each new connection gets as it is opened.

use rusqlite::Connection;
use rusqlite::ffi;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// `PRAGMA synchronous = ...` that came to nothing.
static IGNORED: AtomicU64 = AtomicU64::new(0);

/// SQLite's number for FULL.
const FULL: i64 = 2;

/// Makes the file, in WAL mode, and sees that no connection opened from here on leaves
/// `synchronous=FULL`. Tells whether it took hold.
pub(crate) fn prepare(path: &Path) -> rusqlite::Result<bool> {
    keep_synchronous()?;
    let connection = Connection::open(path)?;
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    let synchronous: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0))?;
    Ok(mode == "wal" && synchronous == FULL && IGNORED.load(Ordering::Relaxed) == 1)
}

/// Whether effectum tried, once, and was ignored.
pub(crate) fn was_needed() -> bool {
    IGNORED.load(Ordering::Relaxed) == 2
}

#[allow(unsafe_code)] // SQLite's C interface; no safe binding reaches a connection of somebody else
fn keep_synchronous() -> rusqlite::Result<()> {
    // SAFETY: `each_connection` has the signature SQLite calls, and lives as long as the program.
    match unsafe { ffi::sqlite3_auto_extension(Some(each_connection)) } {
        ffi::SQLITE_OK => Ok(()),
        code => Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)),
    }
}

#[allow(unsafe_code)]
unsafe extern "C" fn each_connection(
    connection: *mut ffi::sqlite3,
    _message: *mut *const c_char,
    _interface: *const ffi::sqlite3_api_routines,
) -> c_int {
    // SAFETY: SQLite hands over the connection it has just opened; `authorize` keeps no pointer.
    unsafe { ffi::sqlite3_set_authorizer(connection, Some(authorize), ptr::null_mut()) }
}

#[allow(unsafe_code)]
unsafe extern "C" fn authorize(
    _data: *mut c_void,
    action: c_int,
    first: *const c_char,
    second: *const c_char,
    _database: *const c_char,
    _inner: *const c_char,
) -> c_int {
    // The second argument is null when the pragma only asks.
    if action != ffi::SQLITE_PRAGMA || first.is_null() || second.is_null() {
        return ffi::SQLITE_OK;
    }
    // SAFETY: SQLite's strings end with a zero and outlive the call.
    let pragma = unsafe { CStr::from_ptr(first) };
    if pragma.to_bytes().eq_ignore_ascii_case(b"synchronous") {
        IGNORED.fetch_add(1, Ordering::Relaxed);
        return ffi::SQLITE_IGNORE;
    }
    ffi::SQLITE_OK
}
