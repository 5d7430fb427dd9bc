//! Writing behind a head.
//!
//! Owns the one statement of a commit, whose turn it is, and what is done when an answer gets lost.

use super::clock::ServerClock;
use super::link::{Link, connect, within};
use super::{number, schema};
use crate::error::JournalError;
use crate::medium::{Batch, Step, Written};
use deadpool_postgres::{Object, Pool};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_postgres::types::ToSql;

/// How long a commit is tried again while the server does not answer: longer than a restart of it takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// The shortest and the longest time between two tries.
const BETWEEN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));
/// How long the server waits for an engine that has its turn and says nothing.
const TURN: &str =
    "SET LOCAL idle_in_transaction_session_timeout = '10s'; SET LOCAL lock_timeout = '8s'";

/// One batch as rows.
pub(super) struct Rows {
    step: Step,
    firsts: Vec<i64>,
    frames: Vec<Vec<u8>>,
    hashes: Vec<Vec<u8>>,
    chunks: Vec<Vec<u8>>,
}

impl Rows {
    pub(super) fn of(step: Step, batch: Batch) -> Self {
        let (firsts, frames) =
            batch.frames.into_iter().map(|(first, bytes)| (number(first), bytes)).unzip();
        let (hashes, chunks) =
            batch.chunks.into_iter().map(|(hash, bytes)| (hash.0.to_vec(), bytes)).unzip();
        Self { step, firsts, frames, hashes, chunks }
    }
}

/// The turn of this engine, when it has one: a transaction that holds the head.
#[derive(Default)]
pub(super) struct Turn(Mutex<Option<Object>>);

impl Turn {
    pub(super) fn held(&self) -> Option<Object> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn hold(&self, connection: Object) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
    }

    /// Waits for the head and holds it.
    pub(super) fn take(&self, link: &Link, schema: &str) -> Result<(), JournalError> {
        self.pass();
        let hold = format!("BEGIN; {TURN}; SELECT FROM {schema}.head FOR UPDATE");
        let pool = link.pool().clone();
        let held = link.wait(async move {
            let connection = connect(&pool).await?;
            let held = within(connection.batch_execute(&hold)).await;
            kept(connection, held)
        })?;
        self.hold(held);
        Ok(())
    }

    /// Carries out a statement with two lists of bytes in the transaction that holds the head.
    pub(super) fn execute(
        &self,
        link: &Link,
        statement: String,
        first: Vec<Vec<u8>>,
        second: Vec<Vec<u8>>,
    ) -> Result<(), JournalError> {
        let connection = self.held().ok_or(JournalError::Unreachable)?;
        let held = link.wait(async move {
            let parameters: [&(dyn ToSql + Sync); 2] = [&first, &second];
            let used = if statement.contains("$1") { 2 } else { 0 };
            let executed = within(connection.execute(&statement, &parameters[..used])).await;
            kept(connection, executed)
        })?;
        self.hold(held);
        Ok(())
    }

    /// Lets go of it.
    pub(super) fn pass(&self) {
        if let Some(connection) = self.held() {
            end(connection);
        }
    }

    /// Writes a batch if the journal ends where it goes on from, durably, and tries until it is known whether
    /// it did, as long as the server may be restarting.
    pub(super) fn write(
        &self,
        link: &Link,
        schema: &Arc<str>,
        clock: &Arc<ServerClock>,
        rows: Rows,
    ) -> Result<Written, JournalError> {
        let (held, pool) = (self.held(), link.pool().clone());
        let (schema, clock) = (Arc::clone(schema), Arc::clone(clock));
        link.wait(async move {
            let writer = Writer { pool, schema, clock, rows };
            writer.until_known(held).await
        })
    }
}

/// Asks until there is an answer, or nobody would wait any longer.
pub(super) fn wait_until_reachable(link: &Link) -> Result<(), JournalError> {
    let pool = link.pool().clone();
    let answered = link.wait(async move {
        let give_up = Instant::now() + PATIENCE;
        let mut wait = BETWEEN.0;
        loop {
            let answered = async { within(connect(&pool).await?.batch_execute("SELECT 1")).await };
            match answered.await {
                Err(JournalError::Unreachable) if Instant::now() < give_up => {
                    sleep(wait).await;
                    wait = (wait * 2).min(BETWEEN.1);
                }
                known => return known,
            }
        }
    });
    if answered.is_ok() {
        link.is_back();
    }
    answered
}

/// The connection after a request in its transaction; one that failed is ended with all of that.
fn kept<T>(connection: Object, done: Result<T, JournalError>) -> Result<Object, JournalError> {
    match done {
        Ok(_) => Ok(connection),
        Err(error) => {
            end(connection);
            Err(error)
        }
    }
}

/// Ends a connection with whatever it holds: the server gives it up when the connection is gone, and the
/// pool must not hand it to anybody else.
fn end(connection: Object) {
    drop(Object::take(connection));
}

struct Writer {
    pool: Pool,
    schema: Arc<str>,
    clock: Arc<ServerClock>,
    rows: Rows,
}

impl Writer {
    async fn until_known(&self, held: Option<Object>) -> Result<Written, JournalError> {
        let give_up = Instant::now() + PATIENCE;
        let mut wait = BETWEEN.0;
        let mut written = match held {
            Some(connection) => self.in_turn(connection).await,
            None => self.alone().await,
        };
        let mut in_doubt = false;
        loop {
            match written {
                Ok(Written::Overtaken) if in_doubt => match self.was_it_us().await {
                    Err(JournalError::Unreachable) if Instant::now() < give_up => sleep(wait).await,
                    known => return known,
                },
                Err(JournalError::Unreachable) if Instant::now() < give_up => {
                    in_doubt = true;
                    sleep(wait).await;
                    wait = (wait * 2).min(BETWEEN.1);
                    written = self.alone().await;
                }
                known => return known,
            }
        }
    }

    /// In one statement, which is a transaction of its own.
    async fn alone(&self) -> Result<Written, JournalError> {
        let connection = connect(&self.pool).await?;
        match self.write(&connection).await {
            Err(JournalError::Missing) => {
                // No partition yet for these numbers.
                self.make_partitions(&connection).await?;
                self.write(&connection).await
            }
            Err(JournalError::Unreachable) => {
                end(connection);
                Err(JournalError::Unreachable)
            }
            known => known,
        }
    }

    /// In the transaction that holds the head.
    async fn in_turn(&self, connection: Object) -> Result<Written, JournalError> {
        let written = match self.write(&connection).await {
            Ok(Written::Here) => {
                within(connection.batch_execute("COMMIT")).await.map(|()| Written::Here)
            }
            other => other,
        };
        match written {
            Ok(Written::Here) => Ok(Written::Here),
            // The partition cannot be made in a transaction that failed.
            Err(JournalError::Missing) => {
                end(connection);
                self.alone().await
            }
            other => {
                end(connection);
                other
            }
        }
    }

    async fn write(&self, connection: &Object) -> Result<Written, JournalError> {
        let Rows { step, firsts, frames, hashes, chunks } = &self.rows;
        let write = format!(
            "WITH moved AS (
                 UPDATE {0}.head SET sequence = $3, hash = $4
                 WHERE sequence = $1 AND hash = $2 RETURNING 1
             ), framed AS (
                 INSERT INTO {0}.frames SELECT * FROM unnest($5::bigint[], $6::bytea[])
                 WHERE EXISTS (SELECT FROM moved)
             ), chunked AS (
                 INSERT INTO {0}.chunks SELECT * FROM unnest($7::bytea[], $8::bytea[])
                 WHERE EXISTS (SELECT FROM moved)
                 ON CONFLICT (hash) DO UPDATE SET bytes = excluded.bytes
             )
             SELECT EXISTS (SELECT FROM moved),
                 extract(epoch FROM clock_timestamp())::double precision",
            self.schema
        );
        let (from, to) = (number(step.from.sequence), number(step.to.sequence));
        let (from_hash, to_hash) = (&step.from.hash.0[..], &step.to.hash.0[..]);
        let asked = self.clock.steady();
        let row = within(async {
            let statement = connection.prepare_cached(&write).await?;
            connection
                .query_one(
                    &statement,
                    &[&from, &from_hash, &to, &to_hash, firsts, frames, hashes, chunks],
                )
                .await
        })
        .await?;
        self.clock.sample(row.get(1), asked, self.clock.steady());
        let moved: bool = row.get(0);
        Ok(if moved { Written::Here } else { Written::Overtaken })
    }

    async fn make_partitions(&self, connection: &Object) -> Result<(), JournalError> {
        for first in [self.rows.step.from.sequence + 1, self.rows.step.to.sequence] {
            schema::make_partition(connection, &self.schema, first).await?;
        }
        Ok(())
    }

    /// Whether the frame that follows is the one whose answer got lost.
    async fn was_it_us(&self) -> Result<Written, JournalError> {
        let query = format!("SELECT bytes FROM {}.frames WHERE first = $1", self.schema);
        let connection = connect(&self.pool).await?;
        let first = self.rows.firsts.first().copied().unwrap_or(0);
        let row = within(connection.query_opt(&query, &[&first])).await?;
        let ours = row.map(|row| row.get::<_, Vec<u8>>(0)) == self.rows.frames.first().cloned();
        Ok(if ours { Written::Here } else { Written::Overtaken })
    }
}
