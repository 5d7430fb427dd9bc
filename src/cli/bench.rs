//! `leasehold bench`: the engine's own speed on this machine.

use super::bench_figures::{Bench, Figure};
use super::failure::Failed;
use super::{Ended, print};
use clap::Args;
use std::path::PathBuf;

/// Measure the engine on this machine: one JSON line per figure.
///
/// A life is one change enqueued, leased and settled, each durable before it is answered, with a client
/// that answers at once. `raw_limit_lives_per_second` is what the disk allows: the same bytes appended to
/// a preallocated file in batches of 256 with fdatasync, in the same run.
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
    /// Lives side by side
    #[arg(long, value_name = "N", default_value_t = 256)]
    in_flight: u64,
    /// Where to put the temporary journal; the current folder if not given
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

pub(super) async fn run(arguments: BenchArguments) -> Result<Ended, Failed> {
    if arguments.records == 0 || arguments.in_flight == 0 || arguments.in_flight > 4096 {
        return Err(Failed::Usage("--records is at least 1, --in-flight 1 to 4096"));
    }
    let within = arguments.folder.unwrap_or_else(|| PathBuf::from("."));
    let folder = tempfile::Builder::new()
        .prefix("leasehold-bench-")
        .tempdir_in(within)
        .map_err(|_| Failed::Output("the folder for the temporary journal cannot be written"))?;
    let bench = Bench {
        records: arguments.records,
        backlog: arguments.backlog,
        in_flight: arguments.in_flight,
        folder: folder.path().to_path_buf(),
    };
    let mut show = |figure: Figure| print::json(&figure);
    bench.run(&mut show).await?;
    Ok(Ended::Fine)
}
