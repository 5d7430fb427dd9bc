//! Runs the simulation over many seeds, or shows one of them line by line.
//!
//! ```sh
//! cargo run --release --example simulate -- --seeds 1000000
//! cargo run --release --example simulate -- --seed-trace 4711
//! cargo run --release --example simulate -- --sabotage ack_before_commit
//! ```

#[path = "../tests/sim/mod.rs"]
#[allow(dead_code)] // the tests use what is left
mod sim;

use clap::Parser;
use leasehold::clock::Stopwatch;
use sim::disk::Disk;
use sim::documents::Documents;
use sim::invariant::Break;
use sim::sabotage::Sabotage;
use sim::trace::{Coverage, Trace};
use sim::{Options, Outcome};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;

/// Seeds that a thread runs before it tells of them.
const BATCH: u64 = 100;
/// Seconds between two lines of progress.
const PROGRESS_SECONDS: f64 = 5.0;
/// Lines of the trace that are shown of a broken seed.
const LAST_LINES: usize = 20;

#[derive(Parser)]
#[command(about = "Simulate the engine over many seeds; nothing is written anywhere")]
struct Arguments {
    /// How many seeds.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Steps of each before everything has to settle.
    #[arg(long, default_value_t = 200)]
    steps: u32,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Run this seed alone and print its whole trace.
    #[arg(long)]
    seed_trace: Option<u64>,
    /// Have the simulated shell act wrongly: the run has to find it.
    #[arg(long, value_parser = sabotage_of)]
    sabotage: Option<Sabotage>,
}

fn sabotage_of(name: &str) -> Result<Sabotage, String> {
    let names: Vec<&str> = Sabotage::ALL.iter().map(|(_, name, _)| *name).collect();
    Sabotage::from_name(name).ok_or_else(|| format!("one of {}", names.join(", ")))
}

/// A seed that broke an invariant.
struct Failed {
    seed: u64,
    broken: Break,
    step: u32,
    lines: Vec<String>,
}

/// What some seeds came to.
#[derive(Default)]
struct Batch {
    seeds: u64,
    steps: u64,
    hash: u64,
    coverage: Coverage,
    failed: Option<Failed>,
}

impl Batch {
    fn add(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.steps += other.steps;
        // A sum, so that it does not matter which thread was faster.
        self.hash = self.hash.wrapping_add(other.hash);
        self.coverage.add(&other.coverage);
        let earlier =
            |failed: &Failed| self.failed.as_ref().is_none_or(|known| failed.seed < known.seed);
        if let Some(failed) = other.failed.filter(earlier) {
            self.failed = Some(failed);
        }
    }

    fn run(seeds: std::ops::Range<u64>, options: Options, documents: &Rc<Documents>) -> Self {
        let mut batch = Self::default();
        for seed in seeds {
            let Outcome { broken, trace } = sim::run(seed, options, documents);
            let failed = broken.map(|(broken, step)| {
                let lines = last_lines(&trace, LAST_LINES);
                Failed { seed, broken, step, lines }
            });
            let steps = u64::from(trace.step);
            batch.add(Self { seeds: 1, steps, hash: trace.hash, coverage: trace.coverage, failed });
            if batch.failed.is_some() {
                break;
            }
        }
        batch
    }
}

fn last_lines(trace: &Trace, count: usize) -> Vec<String> {
    let skipped = trace.lines.len().saturating_sub(count);
    trace.lines.iter().skip(skipped).map(ToString::to_string).collect()
}

fn tell(failed: &Failed) {
    for line in &failed.lines {
        eprintln!("{line}");
    }
    let Failed { seed, broken, step, .. } = failed;
    let (id, sentence) = (broken.invariant.id, broken.invariant.sentence);
    println!("seed {seed} broke {id} at step {step}: {sentence} ({})", broken.detail);
}

fn show(seed: u64, options: Options) -> ExitCode {
    let Outcome { broken, trace } = sim::run(seed, options, &Rc::new(Documents::new()));
    for line in &trace.lines {
        println!("{line}");
    }
    println!("seed {seed}, trace {:016x}", trace.hash);
    match broken {
        None => ExitCode::SUCCESS,
        Some((broken, step)) => {
            tell(&Failed { seed, broken, step, lines: Vec::new() });
            ExitCode::FAILURE
        }
    }
}

/// Runs the seeds on all threads, until one of them breaks something.
fn search(arguments: &Arguments, options: Options, watch: &Stopwatch) -> Batch {
    let end = arguments.from.saturating_add(arguments.seeds);
    let (next, stop) = (AtomicU64::new(arguments.from), AtomicBool::new(false));
    let (sender, receiver) = mpsc::channel();
    let mut all = Batch::default();
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads.max(1) {
            let (sender, next, stop) = (sender.clone(), &next, &stop);
            scope.spawn(move || {
                let documents = Rc::new(Documents::new());
                while !stop.load(Ordering::Relaxed) {
                    let first = next.fetch_add(BATCH, Ordering::Relaxed);
                    if first >= end {
                        return;
                    }
                    let last = first.saturating_add(BATCH).min(end);
                    let batch = Batch::run(first..last, options, &documents);
                    if batch.failed.is_some() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    if sender.send(batch).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut told = 0.0;
        for batch in receiver {
            all.add(batch);
            let seconds = watch.seconds();
            if seconds - told >= PROGRESS_SECONDS {
                told = seconds;
                eprintln!("{} of {} seeds, {seconds:.0} s", all.seeds, arguments.seeds);
            }
        }
    });
    all
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let options =
        Options { steps: arguments.steps, sabotage: arguments.sabotage, disk: Disk::memory };
    if let Some(seed) = arguments.seed_trace {
        return show(seed, options);
    }
    let watch = Stopwatch::start();
    let all = search(&arguments, options, &watch);
    if let Some(failed) = &all.failed {
        tell(failed);
        return ExitCode::FAILURE;
    }
    let counts: Vec<String> =
        all.coverage.counts().map(|(name, count)| format!("{name} {count}")).collect();
    println!(
        "{} seeds, {} steps, {:.1} s, traces {:016x}, no invariant broken: {}",
        all.seeds,
        all.steps,
        watch.seconds(),
        all.hash,
        counts.join(", ")
    );
    ExitCode::SUCCESS
}
