//! `leasehold bench`: the engine's own speed on this machine.
//!
//! Owns its arguments. The figures are in modules of their own:
//!
//! | module | measures |
//! | --- | --- |
//! | [`figures`] | one journal from the first enqueue to its audit |
//! | [`lives`] | nothing: the work that is measured |
//! | [`commits`] | what commits take |
//! | [`reopening`] | opening, auditing and exporting what the lives left |
//! | [`raw`] | what the disk allows |
//! | [`rounds`] | the disk after many opens and closes |
//! | [`http`] | lives over HTTP |
//! | [`idle`] | an engine that has nothing to do |

mod commits;
mod figures;
mod http;
mod idle;
mod lives;
mod raw;
mod reopening;
mod rounds;

use super::failure::Failed;
use super::{Ended, print};
use clap::Args;
use figures::{Bench, Figure};
use std::path::PathBuf;

/// Longest wait of an idle engine: its records are due a day after they were enqueued.
const IDLE_SECONDS_MAX: f64 = 3600.0;

/// Measure the engine on this machine: one JSON line per figure.
///
/// A life is one change enqueued, leased and settled, each durable before it is answered, with a client
/// that answers at once. `raw_limit_lives_per_second` is what the disk allows: the same bytes appended to
/// a preallocated file in batches of 256 with fdatasync, in the same run.
///
/// `claim_beside_commit_p99_seconds` is what of a claim is not its commit: both are timed, for each of the
/// claims of `claim_p99_seconds`. `open_verifying_seconds` is an open that finds no checkpoint. For the
/// figures `after_rounds` a second journal is opened, given a tenth of the lives and closed, ten times.
///
/// `http_lives_per_second` is taken from one more journal: all of its changes are enqueued, then 64 workers
/// deliver them with the CMS client to a sandbox in this process; `--in-flight` does not count there.
/// `idle_cpu_seconds_per_minute` is what 16 workers and an engine use while the backlog is due tomorrow.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  leasehold bench --records 20000 --backlog 1000 --in-flight 256"
)]
pub(super) struct BenchArguments {
    /// Lives to measure
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    records: u64,
    /// Records that wait, all due, before the first life
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    backlog: u64,
    /// How many of them are settled before the first life, so that they wait no more
    #[arg(long, value_name = "N", default_value_t = 0)]
    settled: u64,
    /// Lives side by side
    #[arg(long, value_name = "N", default_value_t = 256)]
    in_flight: u64,
    /// Lives over HTTP; 0 measures none
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    http: u64,
    /// How long an idle engine is looked at, in seconds, at most 3600; 0 does not
    #[arg(long, value_name = "S", default_value_t = 0.0)]
    idle_seconds: f64,
    /// A journal on a server instead: postgres://…?schema=NAME, a new schema; fewer figures are measured
    #[arg(long, value_name = "URL")]
    server: Option<PathBuf>,
    /// Where to put the temporary journals; the current folder if not given
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

fn check(arguments: &BenchArguments) -> Result<(), Failed> {
    let BenchArguments { records, backlog, settled, in_flight, idle_seconds, .. } = arguments;
    if *records == 0 || *in_flight == 0 || *in_flight > 4096 {
        return Err(Failed::Usage("--records is at least 1, --in-flight 1 to 4096"));
    }
    if settled > backlog {
        return Err(Failed::Usage("--settled is at most --backlog"));
    }
    if !(0.0..=IDLE_SECONDS_MAX).contains(idle_seconds) {
        return Err(Failed::Usage("--idle-seconds is 0 to 3600"));
    }
    Ok(())
}

pub(super) async fn run(arguments: BenchArguments) -> Result<Ended, Failed> {
    check(&arguments)?;
    let within = arguments.folder.unwrap_or_else(|| PathBuf::from("."));
    let folder = tempfile::Builder::new()
        .prefix("leasehold-bench-")
        .tempdir_in(within)
        .map_err(|_| Failed::Output("the folder for the temporary journals cannot be written"))?;
    let bench = Bench {
        records: arguments.records,
        backlog: arguments.backlog,
        settled: arguments.settled,
        in_flight: arguments.in_flight,
        http: arguments.http,
        idle_seconds: arguments.idle_seconds,
        server: arguments.server,
        folder: folder.path().to_path_buf(),
    };
    let mut show = |figure: Figure| print::json(&figure);
    bench.run(&mut show).await?;
    Ok(Ended::Fine)
}
