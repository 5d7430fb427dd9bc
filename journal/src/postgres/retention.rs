//! Letting go of frames that are in an archive.
//!
//! Owns the one transaction of it: it holds the head from the first entry to the last dropped partition, so that
//! a crash leaves the journal as it was or as it should be, and nobody writes meanwhile. Frames go by whole
//! partitions, never one by one; those of a partition that is still needed stay, and are not read any more.

use super::link::{Link, within};
use super::schema::PARTITION;
use super::writing::Turn;
use crate::base::Base;
use crate::error::JournalError;
use crate::medium::{Fill, Part};

/// Entries in one statement.
const AT_ONCE: usize = 1_000;

/// Rows on their way: keys, and what is kept under them.
#[derive(Default)]
struct Rows {
    keys: Vec<Vec<u8>>,
    bytes: Vec<Vec<u8>>,
}

/// Takes the head, and puts the base and its entries in the place of those that are there.
pub(super) fn prepare(
    link: &Link,
    schema: &str,
    turn: &Turn,
    fill: &mut Fill<'_>,
) -> Result<(), JournalError> {
    turn.take(link, schema)?;
    let prepared = fill_in(link, schema, turn, fill);
    if prepared.is_err() {
        turn.pass(); // and with it everything that was put
    }
    prepared
}

fn fill_in(
    link: &Link,
    schema: &str,
    turn: &Turn,
    fill: &mut Fill<'_>,
) -> Result<(), JournalError> {
    turn.execute(link, format!("DELETE FROM {schema}.entries"), Vec::new(), Vec::new())?;
    let (mut entries, mut chunks) = (Rows::default(), Rows::default());
    let base = fill(&mut |part| {
        let (table, rows, key, bytes) = match part {
            Part::Entry(stream, bytes) => ("entries", &mut entries, stream.0.to_vec(), bytes),
            Part::Chunk(hash, bytes) => ("chunks", &mut chunks, hash.0.to_vec(), bytes),
            // They stay where they are.
            Part::Frame(..) => return Ok(()),
        };
        rows.keys.push(key);
        rows.bytes.push(bytes);
        if rows.keys.len() < AT_ONCE {
            return Ok(());
        }
        put(link, schema, turn, table, rows)
    })?;
    put(link, schema, turn, "entries", &mut entries)?;
    put(link, schema, turn, "chunks", &mut chunks)?;
    let set =
        format!("UPDATE {schema}.head SET base = ($2::bytea[])[1] WHERE $1::bytea[] IS NOT NULL");
    turn.execute(link, set, Vec::new(), vec![base.encode()])
}

fn put(
    link: &Link,
    schema: &str,
    turn: &Turn,
    table: &str,
    rows: &mut Rows,
) -> Result<(), JournalError> {
    let Rows { keys, bytes } = std::mem::take(rows);
    if keys.is_empty() {
        return Ok(());
    }
    let insert = format!(
        "INSERT INTO {schema}.{table} SELECT * FROM unnest($1::bytea[], $2::bytea[]) ON CONFLICT DO NOTHING"
    );
    turn.execute(link, insert, keys, bytes)
}

/// Drops the partitions that hold nothing but what is archived, and makes all of it so.
pub(super) fn succeed(link: &Link, schema: &str, turn: &Turn) -> Result<(), JournalError> {
    let connection = turn.held().ok_or(JournalError::Missing)?;
    let schema = schema.to_owned();
    link.wait(async move {
        let base = format!("SELECT base FROM {schema}.head");
        let base: Vec<u8> = within(connection.query_one(&base, &[])).await?.get(0);
        let base = Base::decode(&base).ok_or(JournalError::Corrupt { sequence: 0 })?;
        let archived = base.head.sequence;
        for number in (0..(archived + 1) / PARTITION).rev() {
            let there = format!("SELECT to_regclass('{schema}.frames_{number}') IS NOT NULL");
            let there: bool = within(connection.query_one(&there, &[])).await?.get(0);
            if !there {
                break;
            }
            let drop = format!("DROP TABLE {schema}.frames_{number}");
            within(connection.batch_execute(&drop)).await?;
        }
        within(connection.batch_execute("COMMIT")).await
    })
}
