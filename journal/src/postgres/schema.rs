//! The tables of a journal, version by version.
//!
//! Owns the steps from one version to the next: forward only, each in one transaction, one engine at a time.
//! A version adds and never takes away, so that engines of the version before go on while it is made; they
//! refuse to open a newer one.
//!
//! | table | what |
//! | --- | --- |
//! | `version` | one row: the version of all this |
//! | `head` | one row: the journal's id, its last sequence number and hash, and its base, if it has one |
//! | `frames` | frames by the sequence number of their first record, in partitions of [`PARTITION`] numbers |
//! | `chunks` | chunks by hash |
//! | `entries` | the base's entries by stream |
//! | `engines` | who has shown itself when (version 2): a hint for sharing the work out, nothing more |

use super::link::{named, within};
use crate::error::JournalError;
use deadpool_postgres::Object;

/// Sequence numbers in one partition of the frames.
pub(super) const PARTITION: u64 = 1 << 20;

/// The version this library makes.
pub const VERSION: u16 = 2;

/// What makes each version from the one before; `SCHEMA` stands for the schema's name.
const STEPS: [&str; VERSION as usize] = [
    "CREATE TABLE SCHEMA.version (version integer NOT NULL);
     INSERT INTO SCHEMA.version VALUES (0);
     CREATE TABLE SCHEMA.head (
         one boolean PRIMARY KEY DEFAULT true CHECK (one),
         journal bytea NOT NULL CHECK (octet_length(journal) = 16),
         sequence bigint NOT NULL,
         hash bytea NOT NULL CHECK (octet_length(hash) = 32),
         base bytea
     ) WITH (fillfactor = 10);
     CREATE TABLE SCHEMA.frames (first bigint PRIMARY KEY, bytes bytea NOT NULL)
         PARTITION BY RANGE (first);
     CREATE TABLE SCHEMA.frames_0 PARTITION OF SCHEMA.frames FOR VALUES FROM (0) TO (1048576);
     ALTER TABLE SCHEMA.frames ALTER COLUMN bytes SET STORAGE EXTERNAL;
     CREATE TABLE SCHEMA.chunks (hash bytea PRIMARY KEY, bytes bytea NOT NULL);
     ALTER TABLE SCHEMA.chunks ALTER COLUMN bytes SET STORAGE EXTERNAL;
     CREATE TABLE SCHEMA.entries (stream bytea PRIMARY KEY, bytes bytea NOT NULL);",
    "CREATE TABLE SCHEMA.engines (
         id uuid PRIMARY KEY,
         label text,
         started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
         seen_at timestamptz NOT NULL
     );",
];

/// The version that is there; `None` for none.
///
/// # Errors
/// [`JournalError::Newer`] for one this library does not know.
pub(super) async fn version(
    connection: &Object,
    schema: &str,
    known: u16,
) -> Result<Option<u16>, JournalError> {
    let query = format!("SELECT version FROM {schema}.version");
    let row = match within(connection.query_one(&query, &[])).await {
        Ok(row) => row,
        Err(JournalError::Missing) => return Ok(None),
        Err(error) => return Err(error),
    };
    let found: i32 = row.get(0);
    let found = u16::try_from(found).map_err(|_| JournalError::Corrupt { sequence: 0 })?;
    if found > known { Err(JournalError::Newer { version: found }) } else { Ok(Some(found)) }
}

/// Brings the tables to this version, and makes them where there are none and that is asked.
///
/// # Errors
/// As [`version`]; [`JournalError::Missing`] where there is no journal and none is to be made.
pub(super) async fn migrate(
    connection: &mut Object,
    schema: &str,
    (create, known): (bool, u16),
) -> Result<(), JournalError> {
    let found = version(connection, schema, known).await?;
    if found.is_none() && !create {
        return Err(JournalError::Missing);
    }
    if found == Some(known) {
        return Ok(());
    }
    let transaction = connection.transaction().await.map_err(|error| named(&error))?;
    // Of engines that are started together one makes the step, and the others find it made.
    let lock = format!("SELECT pg_advisory_xact_lock(hashtext('leasehold {schema}'))");
    within(transaction.batch_execute(&lock)).await?;
    let exists = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)";
    let exists: bool = within(transaction.query_one(exists, &[&schema])).await?.get(0);
    if !exists {
        // Asked first: an account may own its schema without being allowed to make one.
        within(transaction.batch_execute(&format!("CREATE SCHEMA {schema}"))).await?;
    }
    let table = format!("SELECT to_regclass('{schema}.version') IS NOT NULL");
    let there: bool = within(transaction.query_one(&table, &[])).await?.get(0);
    let mut at = 0;
    if there {
        let query = format!("SELECT version FROM {schema}.version");
        let found: i32 = within(transaction.query_one(&query, &[])).await?.get(0);
        at = usize::try_from(found).map_err(|_| JournalError::Corrupt { sequence: 0 })?;
    }
    for step in STEPS.iter().take(known.into()).skip(at) {
        within(transaction.batch_execute(&step.replace("SCHEMA", schema))).await?;
    }
    let set = format!("UPDATE {schema}.version SET version = GREATEST(version, {known})");
    within(transaction.batch_execute(&set)).await?;
    within(transaction.commit()).await
}

/// Makes the partition that a frame with this first sequence number belongs to.
pub(super) async fn make_partition(
    connection: &Object,
    schema: &str,
    first: u64,
) -> Result<(), JournalError> {
    let number = first / PARTITION;
    let (from, to) = (number * PARTITION, (number + 1) * PARTITION);
    // Two statements of one transaction: of engines that need it at once one makes it.
    let make = format!(
        "SELECT pg_advisory_xact_lock(hashtext('leasehold {schema}'));
         CREATE TABLE IF NOT EXISTS {schema}.frames_{number} PARTITION OF {schema}.frames \
         FOR VALUES FROM ({from}) TO ({to})"
    );
    within(connection.batch_execute(&make)).await
}
