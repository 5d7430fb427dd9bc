//! effectum: a job added, run by a worker whose handler answers at once, completed.
//!
//! Owns the settings of effectum. `forced` has how it is made durable.

#[path = "../../src/drive.rs"]
mod drive;
mod forced;
#[path = "../../src/work.rs"]
mod work;

use clap::Parser;
use drive::{Tickets, drive, settled};
use effectum::{Job, JobRunner, Queue, RunningJob, Worker};
use mimalloc::MiMalloc;
use rusqlite::Connection;
use std::fmt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use work::{Failed, Line, Work, WorkArguments, failed};

/// As the program `leasehold` has it.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const KIND: &str = "deliver";
const CLOSING: Duration = Duration::from_secs(60);
const DURABILITY: &str = "WAL, synchronous=FULL (its own NORMAL ignored), up to 50 operations a \
    transaction";

/// Measure effectum: one JSON line
#[derive(Debug, Parser)]
#[command(name = "leasehold-peers-effectum")]
struct Arguments {
    #[command(flatten)]
    work: WorkArguments,
}

/// What the handler knows. effectum wants it printable.
#[derive(Clone)]
struct Hands(Arc<Tickets>);

impl fmt::Debug for Hands {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Hands")
    }
}

fn main() -> ExitCode {
    match measure(&Arguments::parse().work).and_then(|line| line.print()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("{failed}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &WorkArguments) -> Result<Line, Failed> {
    let work = Arc::new(Work::new(arguments)?);
    let runtime = tokio::runtime::Runtime::new().map_err(failed("start the runtime"))?;
    runtime.block_on(run(&work))
}

async fn run(work: &Arc<Work>) -> Result<Line, Failed> {
    let path = work.path("effectum.sqlite");
    if !forced::prepare(&path).map_err(failed("prepare the database of effectum"))? {
        return Err(Failed::Wrong("effectum cannot be kept at synchronous=FULL"));
    }
    let queue = Arc::new(Queue::new(&path).await.map_err(failed("open effectum"))?);
    if !forced::was_needed() {
        return Err(Failed::Wrong("effectum does not set synchronous as it did"));
    }
    fill(&queue, work).await?;
    let tickets = Tickets::new();
    let runner = JobRunner::builder(KIND, handle).build();
    let worker = Worker::builder(&queue, Hands(Arc::clone(&tickets)))
        .jobs([runner])
        .max_concurrency(work.in_flight)
        .build()
        .await
        .map_err(failed("start the worker of effectum"))?;
    let lives = (Arc::clone(&queue), Arc::clone(&tickets), Arc::clone(work));
    let measured = drive(work, move |number| {
        let (queue, tickets, work) = lives.clone();
        async move {
            queue.add_job(job(&work, number)).await.map_err(failed("add a job"))?;
            settled(tickets.give()).await
        }
    })
    .await?;
    check(&path, work)?;
    // Handlers that hold a job of the backlog wait for a ticket, and would for ever. They complete it:
    // a job that fails would be written into every other (`UPDATE jobs` without a condition).
    tickets.free.close();
    queue.close(CLOSING).await.map_err(failed("close effectum"))?;
    drop(worker);
    Ok(work.line("effectum", DURABILITY, &measured))
}

fn job(work: &Work, number: u64) -> Job {
    Job::builder(KIND).payload(work.change(number).into_bytes()).build()
}

/// The backlog, 10,000 a transaction.
async fn fill(queue: &Queue, work: &Work) -> Result<(), Failed> {
    let mut number = 0;
    while number < work.backlog {
        let end = work.backlog.min(number + 10_000);
        let jobs = (number..end).map(|number| job(work, number)).collect();
        queue.add_jobs(jobs).await.map_err(failed("add the backlog"))?;
        number = end;
    }
    Ok(())
}

/// Completes the job itself, so as to know when that is committed; effectum would do the same after it.
async fn handle(job: RunningJob, hands: Hands) -> Result<(), Failed> {
    let ticket = hands.0.take().await;
    job.complete(()).await.map_err(failed("complete a job"))?;
    ticket.map_or(Ok(()), |ticket| ticket.send(()).map_err(|()| Failed::Wrong("a life is gone")))
}

/// As many are done as were enqueued, and the backlog is as long as before.
fn check(path: &Path, work: &Work) -> Result<(), Failed> {
    let connection = Connection::open(path).map_err(failed("open the database of effectum"))?;
    let count = |query: &str| -> Result<u64, Failed> {
        let counted = connection.query_row(query, [], |row| row.get(0));
        counted.map(i64::cast_unsigned).map_err(failed("count"))
    };
    let done = count("SELECT count(*) FROM jobs WHERE status = 'succeeded'")?;
    let active = count("SELECT count(*) FROM active_jobs")?;
    if done != work.records || active != work.backlog {
        return Err(Failed::Wrong("the queue of effectum does not hold what was done"));
    }
    Ok(())
}
