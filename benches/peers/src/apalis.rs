//! apalis with SQLite: a push, executed, acknowledged.
//!
//! Owns the settings, the group push and the look at what is acknowledged. Must not know of another peer.

use crate::drive::{Ticket, Tickets, drive, settled};
use crate::gate::Gated;
use crate::work::{Failed, Line, Work, failed};
use apalis_core::backend::TaskSink as _;
use apalis_core::error::BoxDynError;
use apalis_core::task::builder::TaskBuilder;
use apalis_core::task::task_id::TaskId;
use apalis_core::worker::builder::WorkerBuilder;
use apalis_sqlite::{Config, SqliteStorage};
use futures_util::stream;
use futures_util::task::AtomicWaker;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};
use serde_json::value::RawValue;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, mpsc as threads};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Pushes of one transaction, and tasks of one fetch, at most.
const GROUP: usize = 256;
const QUEUE: &str = "peers";
const READ_PAUSE: Duration = Duration::from_micros(200);

/// What ANALYZE writes of a queue that ran for a while: many tasks were taken by one worker.
///
/// Without it SQLite looks for an acknowledged task among all that the worker ever took, so that each
/// batch costs more than the one before.
const STATISTICS: &str = "
    ANALYZE;
    INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('Jobs', 'LIdx', '100000 50000');
    ANALYZE sqlite_schema;
";

type Storage = SqliteStorage<Box<RawValue>>;

/// One change to push; answered when it is committed.
struct Push {
    number: u64,
    pushed: oneshot::Sender<()>,
}

/// A task whose handler answered, and the life it was settled for.
type Answered = (String, Ticket);

/// Up to 256 pushes in one transaction.
pub(crate) async fn grouped(work: &Arc<Work>) -> Result<Line, Failed> {
    run(work, "apalis", "WAL, synchronous=FULL, up to 256 pushes a transaction", GROUP).await
}

/// Each push a transaction of its own, as `push` does it.
pub(crate) async fn single(work: &Arc<Work>) -> Result<Line, Failed> {
    run(work, "apalis-single", "WAL, synchronous=FULL, one push a transaction", 1).await
}

async fn run(work: &Arc<Work>, peer: &str, durability: &str, group: usize) -> Result<Line, Failed> {
    let path = work.path("apalis.sqlite");
    let pool = open(&path).await?;
    // Fetching takes the task already; `lock_tasks` would write it once more.
    let config = Config::default().queue(QUEUE).batch_size(GROUP).lock_tasks(false);
    let storage = Storage::new(&pool).with_config(config);
    fill(storage.clone(), work).await?;

    let (tickets, bell) = (Tickets::new(), Arc::new(AtomicWaker::new()));
    let (answered, acknowledged) = threads::channel();
    let reader = read_only(&path)?;
    let watcher = std::thread::spawn(move || watch(&reader, &acknowledged));
    let gated = Gated::new(storage.clone(), GROUP, Arc::clone(&tickets), Arc::clone(&bell));
    let worker = serve(gated, Arc::clone(&tickets), answered);
    let (pushes, inbox) = mpsc::channel(GROUP);
    let pusher = tokio::spawn(push(storage, Arc::clone(work), inbox, group));

    let lives = drive(work, move |number| {
        let (pushes, tickets, bell) = (pushes.clone(), Arc::clone(&tickets), Arc::clone(&bell));
        async move {
            let (pushed, committed) = oneshot::channel();
            let request = Push { number, pushed };
            pushes.send(request).await.map_err(|_| Failed::Wrong("the pusher is gone"))?;
            committed.await.map_err(failed("hear from the pusher"))?;
            let ticket = tickets.give();
            bell.wake();
            settled(ticket).await
        }
    });
    let measured = tokio::select! {
        measured = lives => measured,
        ended = worker => ended.and(Err(Failed::Wrong("the worker of apalis ended"))),
    };
    // First those whose failure the lives only hear of as somebody gone.
    if watcher.is_finished() {
        watcher.join().map_err(|_| Failed::Wrong("the watcher panicked"))??;
    }
    pusher.await.map_err(failed("end the pusher"))??;
    let measured = measured?;
    check(&read_only(&path)?, work)?;
    Ok(work.line(peer, durability, &measured))
}

/// One connection: SQLite has one writer anyway, and several would wait for one another by sleeping.
async fn open(path: &Path) -> Result<SqlitePool, Failed> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full);
    let pool = SqlitePoolOptions::new()
        .max_connections(1)
        .test_before_acquire(false)
        .connect_with(options)
        .await
        .map_err(failed("open the database of apalis"))?;
    // Not `SqliteStorage::setup`: it sets synchronous=OFF on the connection it happens to get.
    let migrations = SqliteStorage::migrations();
    migrations.run(&pool).await.map_err(failed("make the tables of apalis"))?;
    sqlx::raw_sql(STATISTICS).execute(&pool).await.map_err(failed("write the statistics"))?;
    let step = "read the settings of apalis's connection";
    let mode: String =
        sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&pool).await.map_err(failed(step))?;
    let synchronous: i64 =
        sqlx::query_scalar("PRAGMA synchronous").fetch_one(&pool).await.map_err(failed(step))?;
    if mode != "wal" || synchronous != 2 {
        return Err(Failed::Wrong("apalis is not in WAL mode with synchronous=FULL"));
    }
    Ok(pool)
}

/// The backlog, 10,000 a transaction.
async fn fill(mut storage: Storage, work: &Work) -> Result<(), Failed> {
    let mut number = 0;
    while number < work.backlog {
        let end = work.backlog.min(number + 10_000);
        push_group(&mut storage, work, number..end).await?;
        number = end;
    }
    Ok(())
}

async fn push(
    mut storage: Storage,
    work: Arc<Work>,
    mut inbox: mpsc::Receiver<Push>,
    group: usize,
) -> Result<(), Failed> {
    let mut pushes = Vec::with_capacity(group);
    while inbox.recv_many(&mut pushes, group).await > 0 {
        push_group(&mut storage, &work, pushes.iter().map(|push| push.number)).await?;
        for Push { pushed, .. } in pushes.drain(..) {
            pushed.send(()).map_err(|()| Failed::Wrong("a life is gone"))?;
        }
    }
    Ok(())
}

/// Pushes these changes in one transaction, each under its event id, which apalis keeps unique.
async fn push_group(
    storage: &mut Storage,
    work: &Work,
    numbers: impl Iterator<Item = u64>,
) -> Result<(), Failed> {
    let mut tasks = Vec::new();
    for number in numbers {
        let change = RawValue::from_string(work.change(number)).map_err(failed("read a change"))?;
        tasks.push(TaskBuilder::new(change).idempotency_key(Work::event_id(number)).build());
    }
    storage.push_all(stream::iter(tasks)).await.map_err(failed("push"))
}

/// The worker, with a handler that answers at once when there is a life to answer for.
async fn serve(
    gated: Gated<Storage>,
    tickets: Arc<Tickets>,
    answered: threads::Sender<Answered>,
) -> Result<(), Failed> {
    let handler = move |_change: Box<RawValue>, id: TaskId| {
        let (tickets, answered) = (Arc::clone(&tickets), answered.clone());
        async move {
            let ticket = tickets.take().await.ok_or("the lives are over")?;
            answered.send((id.to_string(), ticket))?;
            Ok::<(), BoxDynError>(())
        }
    };
    let worker = WorkerBuilder::new("peers").backend(gated).build(handler);
    worker.run().await.map_err(failed("run the worker of apalis"))
}

fn read_only(path: &Path) -> Result<Connection, Failed> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .map_err(failed("open the database of apalis to read"))?;
    connection.busy_timeout(Duration::from_secs(5)).map_err(failed("set the timeout"))?;
    Ok(connection)
}

/// Tells each life when its task is acknowledged: when another connection reads `Done`, which in WAL mode
/// it can once the commit is synced. apalis itself tells nobody; its own way of waiting asks twice a second.
fn watch(reader: &Connection, answered: &threads::Receiver<Answered>) -> Result<(), Failed> {
    let step = "read a task's status";
    let mut status =
        reader.prepare("SELECT status FROM Jobs WHERE id = ?1").map_err(failed(step))?;
    let mut waiting: VecDeque<Answered> = VecDeque::new();
    while let Ok(first) = waiting.pop_front().map_or_else(|| answered.recv(), Ok) {
        waiting.push_front(first);
        waiting.extend(answered.try_iter());
        // In the order of the answers, which is the order apalis records them in.
        while let Some((id, ticket)) = waiting.pop_front() {
            let status: Option<String> =
                status.query_row([&id], |row| row.get(0)).optional().map_err(failed(step))?;
            if status.as_deref() != Some("Done") {
                waiting.push_front((id, ticket));
                std::thread::sleep(READ_PAUSE);
                break;
            }
            ticket.send(()).map_err(|()| Failed::Wrong("a life is gone"))?;
        }
    }
    Ok(())
}

/// As many are done as were enqueued, and the backlog is as long as before.
fn check(reader: &Connection, work: &Work) -> Result<(), Failed> {
    let count = |which: &str| -> Result<u64, Failed> {
        let query = format!("SELECT count(*) FROM Jobs WHERE status {which} 'Done'");
        let counted = reader.query_row(&query, [], |row| row.get(0));
        counted.map(i64::cast_unsigned).map_err(failed("count"))
    };
    if count("=")? != work.records || count("<>")? != work.backlog {
        return Err(Failed::Wrong("the queue of apalis does not hold what was done"));
    }
    Ok(())
}
