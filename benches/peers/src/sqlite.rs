//! The outbox a team writes by itself: one table, one thread that writes.
//!
//! Owns the table, its statements and the group commit. Must not know of another peer.

use crate::drive::drive;
use crate::work::{Failed, Line, Work, failed};
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::{mpsc, oneshot};

/// Statements of one transaction, at most.
const GROUP: usize = 256;
const LEASE_SECONDS: f64 = 600.0;

const SCHEMA: &str = "
    CREATE TABLE outbox (
        id INTEGER PRIMARY KEY,
        event_id TEXT NOT NULL UNIQUE,
        payload BLOB NOT NULL,
        state INTEGER NOT NULL,
        next_at REAL NOT NULL,
        attempts INTEGER NOT NULL,
        lease_token TEXT,
        lease_expires_at REAL
    );
    CREATE INDEX due ON outbox (next_at, id) WHERE state = 0;
";
/// States: 0 waits, 1 leased, 2 done.
const INSERT: &str = "
    INSERT INTO outbox (event_id, payload, state, next_at, attempts) VALUES (?1, ?2, 0, ?3, 0)";
const CLAIM: &str = "
    UPDATE outbox SET state = 1, attempts = attempts + 1, lease_token = ?1, lease_expires_at = ?2
    WHERE id = (SELECT id FROM outbox WHERE state = 0 AND next_at <= ?3 ORDER BY next_at, id LIMIT 1)
    RETURNING id, payload";
const SETTLE: &str = "
    UPDATE outbox SET state = 2, lease_token = NULL, lease_expires_at = NULL
    WHERE id = ?1 AND state = 1 AND lease_token = ?2";

enum Statement {
    Insert { event_id: String, payload: String },
    Claim { token: String },
    Settle { id: i64, token: String },
}

enum Answer {
    Inserted,
    Claimed { id: i64 },
    NothingDue,
    Settled,
    LeaseLost,
}

struct Request {
    statement: Statement,
    answer: oneshot::Sender<Answer>,
}

/// The statements of up to 256 lives in one transaction.
pub(crate) async fn grouped(work: &Arc<Work>) -> Result<Line, Failed> {
    run(work, "sqlite", "WAL, synchronous=FULL, up to 256 statements a transaction", GROUP).await
}

/// Each statement a transaction of its own.
pub(crate) async fn single(work: &Arc<Work>) -> Result<Line, Failed> {
    run(work, "sqlite-single", "WAL, synchronous=FULL, one statement a transaction", 1).await
}

async fn run(work: &Arc<Work>, peer: &str, durability: &str, group: usize) -> Result<Line, Failed> {
    let path = work.path("outbox.sqlite");
    let mut connection = open(&path)?;
    fill(&mut connection, work)?;
    let (requests, inbox) = mpsc::channel(GROUP);
    let writer = std::thread::spawn(move || write(connection, inbox, group));
    let theirs = Arc::clone(work);
    let measured = drive(work, move |number| {
        let (requests, work) = (requests.clone(), Arc::clone(&theirs));
        async move { life(&requests, &work, number).await }
    })
    .await;
    // First the writer: if it failed, the lives only know that it is gone.
    let connection = writer.join().map_err(|_| Failed::Wrong("the writer panicked"))??;
    let measured = measured?;
    check(&connection, work)?;
    Ok(work.line(peer, durability, &measured))
}

fn open(path: &Path) -> Result<Connection, Failed> {
    let connection = Connection::open(path).map_err(failed("open the outbox"))?;
    let mode: String = connection
        .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))
        .map_err(failed("set the journal mode"))?;
    connection.pragma_update(None, "synchronous", "FULL").map_err(failed("set synchronous"))?;
    let synchronous: i64 = connection
        .pragma_query_value(None, "synchronous", |row| row.get(0))
        .map_err(failed("read synchronous"))?;
    if mode != "wal" || synchronous != 2 {
        return Err(Failed::Wrong("SQLite is not in WAL mode with synchronous=FULL"));
    }
    connection.execute_batch(SCHEMA).map_err(failed("make the table"))?;
    Ok(connection)
}

/// The backlog, in one transaction.
fn fill(connection: &mut Connection, work: &Work) -> Result<(), Failed> {
    let transaction = connection.transaction().map_err(failed("begin"))?;
    for number in 0..work.backlog {
        insert(&transaction, &Work::event_id(number), &work.change(number))?;
    }
    transaction.commit().map_err(failed("commit the backlog"))
}

/// Enqueue one change, lease the oldest that waits, settle it.
async fn life(requests: &mpsc::Sender<Request>, work: &Work, number: u64) -> Result<(), Failed> {
    let (event_id, payload) = (Work::event_id(number), work.change(number));
    let token = format!("lease-{number:026}");
    ask(requests, Statement::Insert { event_id, payload }).await?;
    let claimed = ask(requests, Statement::Claim { token: token.clone() }).await?;
    let Answer::Claimed { id } = claimed else {
        return Err(Failed::Wrong("nothing is due though a record was enqueued"));
    };
    match ask(requests, Statement::Settle { id, token }).await? {
        Answer::Settled => Ok(()),
        Answer::Inserted | Answer::Claimed { .. } | Answer::NothingDue | Answer::LeaseLost => {
            Err(Failed::Wrong("a lease was lost"))
        }
    }
}

async fn ask(requests: &mpsc::Sender<Request>, statement: Statement) -> Result<Answer, Failed> {
    let (answer, answered) = oneshot::channel();
    let request = Request { statement, answer };
    requests.send(request).await.map_err(|_| Failed::Wrong("the writer is gone"))?;
    answered.await.map_err(failed("hear from the writer"))
}

/// Takes what waits, up to `group`, writes it in one transaction, and answers after the commit.
fn write(
    mut connection: Connection,
    mut inbox: mpsc::Receiver<Request>,
    group: usize,
) -> Result<Connection, Failed> {
    let mut requests = Vec::with_capacity(group);
    while inbox.blocking_recv_many(&mut requests, group) > 0 {
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed("begin"))?;
        let mut answers = Vec::with_capacity(requests.len());
        for Request { statement, answer } in requests.drain(..) {
            answers.push((answer, execute(&transaction, statement)?));
        }
        transaction.commit().map_err(failed("commit"))?;
        for (to, answer) in answers {
            to.send(answer).map_err(|_| Failed::Wrong("a life is gone"))?;
        }
    }
    Ok(connection)
}

fn execute(transaction: &Transaction<'_>, statement: Statement) -> Result<Answer, Failed> {
    match statement {
        Statement::Insert { event_id, payload } => {
            insert(transaction, &event_id, &payload).map(|()| Answer::Inserted)
        }
        Statement::Claim { token } => claim(transaction, &token),
        Statement::Settle { id, token } => settle(transaction, id, &token),
    }
}

fn insert(transaction: &Transaction<'_>, event_id: &str, payload: &str) -> Result<(), Failed> {
    let step = "insert";
    let mut statement = transaction.prepare_cached(INSERT).map_err(failed(step))?;
    let values = params![event_id, payload.as_bytes(), now_seconds()?];
    statement.execute(values).map_err(failed(step))?;
    Ok(())
}

fn claim(transaction: &Transaction<'_>, token: &str) -> Result<Answer, Failed> {
    let step = "claim";
    let mut statement = transaction.prepare_cached(CLAIM).map_err(failed(step))?;
    let now = now_seconds()?;
    let row = statement
        .query_row(params![token, now + LEASE_SECONDS, now], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?))
        })
        .optional()
        .map_err(failed(step))?;
    // The payload is read, since a worker needs it; a client that answers at once does not look at it.
    Ok(row.map_or(Answer::NothingDue, |(id, _payload)| Answer::Claimed { id }))
}

fn settle(transaction: &Transaction<'_>, id: i64, token: &str) -> Result<Answer, Failed> {
    let step = "settle";
    let mut statement = transaction.prepare_cached(SETTLE).map_err(failed(step))?;
    let changed = statement.execute(params![id, token]).map_err(failed(step))?;
    Ok(if changed == 1 { Answer::Settled } else { Answer::LeaseLost })
}

fn now_seconds() -> Result<f64, Failed> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_err(failed("read the clock"))?;
    Ok(since.as_secs_f64())
}

/// As many are done as were enqueued, and the backlog is as long as before.
fn check(connection: &Connection, work: &Work) -> Result<(), Failed> {
    let count = |state: i64| -> Result<u64, Failed> {
        connection
            .query_row("SELECT count(*) FROM outbox WHERE state = ?1", [state], |row| row.get(0))
            .map(i64::cast_unsigned)
            .map_err(failed("count"))
    };
    if count(2)? != work.records || count(0)? != work.backlog {
        return Err(Failed::Wrong("the outbox does not hold what was done"));
    }
    Ok(())
}
