//! The same work done by other means: what the disk allows, a hand-written outbox, other queues.
//!
//! Owns the command line. README.md has what each peer is and how it was set.

mod apalis;
mod chart;
mod drive;
mod gate;
mod median;
mod raw;
mod sqlite;
mod work;

use clap::{Args, Parser, Subcommand, ValueEnum};
use mimalloc::MiMalloc;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use work::{Failed, Line, Work, WorkArguments, failed};

/// As the program `leasehold` has it.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The program with effectum in it, beside this one.
const EFFECTUM: &str = "leasehold-peers-effectum";

/// Run the same work through other means, and draw what came out
#[derive(Debug, Parser)]
#[command(name = "leasehold-peers")]
enum Arguments {
    /// Measure one peer: one JSON line
    Run(RunArguments),
    /// Lines of several rounds in, the median of each out
    #[command(subcommand)]
    Median(Which),
    /// Lines of `median` in, a drawing out
    Chart(ChartArguments),
}

#[derive(Debug, Args)]
struct RunArguments {
    peer: Peer,
    #[command(flatten)]
    work: WorkArguments,
    /// For `raw` and `raw-single`: bytes of a life, three records
    #[arg(long, value_name = "N", default_value_t = 1_600)]
    life_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Peer {
    Raw,
    RawSingle,
    Sqlite,
    SqliteSingle,
    Effectum,
    Apalis,
    ApalisSingle,
}

#[derive(Debug, Clone, Subcommand)]
enum Which {
    /// Leasehold and the peers, lives per second
    Compare {
        /// Lines of `leasehold bench` and of `run`
        lines: PathBuf,
    },
    /// Leasehold with more and more records waiting
    Backlog {
        /// Lines of `leasehold bench`
        lines: PathBuf,
    },
}

#[derive(Debug, Args)]
struct ChartArguments {
    #[command(subcommand)]
    which: Which,
    /// Where to draw it
    #[arg(short, long, value_name = "FILE", global = true, default_value = "chart.svg")]
    output: PathBuf,
}

fn main() -> ExitCode {
    let done = match Arguments::parse() {
        Arguments::Run(arguments) => run(&arguments),
        Arguments::Median(Which::Compare { lines }) => median::compare(&lines),
        Arguments::Median(Which::Backlog { lines }) => median::backlog(&lines),
        Arguments::Chart(ChartArguments { which: Which::Compare { lines }, output }) => {
            chart::compare(&lines, &output)
        }
        Arguments::Chart(ChartArguments { which: Which::Backlog { lines }, output }) => {
            chart::backlog(&lines, &output)
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("{failed}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &RunArguments) -> Result<(), Failed> {
    if arguments.peer == Peer::Effectum {
        return run_effectum(&arguments.work);
    }
    let work = Arc::new(Work::new(&arguments.work)?);
    measure(arguments.peer, &work, arguments.life_bytes)?.print()
}

fn measure(peer: Peer, work: &Arc<Work>, life_bytes: u64) -> Result<Line, Failed> {
    let runtime = tokio::runtime::Runtime::new().map_err(failed("start the runtime"))?;
    let line = match peer {
        Peer::Raw => raw::batched(work, life_bytes),
        Peer::RawSingle => raw::single(work, life_bytes),
        Peer::Sqlite => runtime.block_on(sqlite::grouped(work)),
        Peer::SqliteSingle => runtime.block_on(sqlite::single(work)),
        Peer::Apalis => runtime.block_on(apalis::grouped(work)),
        Peer::ApalisSingle => runtime.block_on(apalis::single(work)),
        Peer::Effectum => Err(Failed::Wrong("effectum has a program of its own")),
    };
    // Handlers that hold a record of the backlog wait for ever.
    runtime.shutdown_background();
    line
}

/// effectum needs another version of SQLite's binding, and a program can have one of them.
fn run_effectum(work: &WorkArguments) -> Result<(), Failed> {
    let step = "run leasehold-peers-effectum, which has to be built beside this program";
    let program = std::env::current_exe().map_err(failed(step))?.with_file_name(EFFECTUM);
    let mut command = Command::new(program);
    command
        .arg(format!("--records={}", work.records))
        .arg(format!("--backlog={}", work.backlog))
        .arg(format!("--in-flight={}", work.in_flight))
        .arg("--folder")
        .arg(&work.folder)
        .stdin(Stdio::null());
    if let Some(changes) = &work.changes {
        command.arg("--changes").arg(changes);
    }
    let status = command.status().map_err(failed(step))?;
    if status.success() { Ok(()) } else { Err(Failed::Wrong("effectum was not measured")) }
}
