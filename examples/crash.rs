//! The crash harness, in its long forms; the short ones are tests.
//!
//! `points` kills a victim, or fails its call, at every call that touches the journal. `kills` kills it at
//! seeded moments. `power` cuts the power of a disk image. `victim` and `check` are the two halves of all
//! three, for a look by hand. Each prints one line of JSON and exits 0 when all is as it has to be.
//!
//! ```sh
//! cargo run --release --example crash -- points --scenario open --action kill
//! cargo run --release --example crash -- points --scenario recover --action kill --double
//! cargo run --release --example crash -- kills --cycles 10000
//! cargo run --release --example crash -- power --cycles 500
//! cargo run --release --example crash -- power --cycles 20 --without-sync
//! ```

#[path = "../tests/crash/mod.rs"]
mod crash;
#[path = "../tests/crash/power.rs"]
mod power;

use clap::{Args, Parser, Subcommand};
use crash::facts::{Facts, Verdict, check};
use crash::points::Scenario;
use crash::task::{Launcher, Task};
use crash::trace::Action;
use crash::{kills, points, trace, victim};
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The crash harness.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Live one victim's life: open, register, deliver, close; acknowledgements on standard output
    Victim(VictimArguments),
    /// Open, audit and compare a journal with a victim's output; 1 something is gone, 2 it does not open
    Check {
        /// The journal's folder
        #[arg(long, value_name = "DIR")]
        journal: PathBuf,
        /// What the victim said
        #[arg(long, value_name = "FILE")]
        acks: PathBuf,
    },
    /// Kill a victim, or fail its call, at every call that touches the journal (needs strace)
    Points(PointsArguments),
    /// Kill victims at seeded moments, 25 in a row on one journal
    Kills {
        /// Lives
        #[arg(long, default_value_t = 300)]
        cycles: u64,
        /// Of the moments
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Changes per life
        #[arg(long, default_value_t = 10)]
        records: u64,
        /// Victims acknowledge before they are done: the harness must find losses
        #[arg(long)]
        ack_early: bool,
    },
    /// Copy the image of a victim's disk at seeded moments (needs root and loop devices)
    Power {
        /// Power cuts
        #[arg(long, default_value_t = 20)]
        cycles: u64,
        /// Of the moments
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Changes per life
        #[arg(long, default_value_t = 20)]
        records: u64,
        /// Victims flush and do not sync: the harness must find losses
        #[arg(long)]
        without_sync: bool,
    },
}

#[derive(Debug, Args)]
struct VictimArguments {
    /// The journal's folder
    #[arg(long, value_name = "DIR")]
    journal: PathBuf,
    /// Number of the first change
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Changes to register
    #[arg(long, default_value_t = 10)]
    records: u64,
    /// Claim and settle everything that is due then
    #[arg(long)]
    deliver: bool,
    /// Acknowledge before it is done
    #[arg(long)]
    ack_early: bool,
    /// Flush and do not sync
    #[arg(long)]
    process_safe: bool,
}

#[derive(Debug, Args)]
struct PointsArguments {
    /// What the victim does
    #[arg(long, value_enum)]
    scenario: Scenario,
    /// What is done to it
    #[arg(long, value_enum, default_value_t = Action::Kill)]
    action: Action,
    /// Changes that are registered or delivered
    #[arg(long, default_value_t = 4)]
    records: u64,
    /// Do it again to the next victim, at the same point, before the check
    #[arg(long)]
    double: bool,
    /// Victims acknowledge before they are done: the harness must find losses
    #[arg(long)]
    ack_early: bool,
}

fn main() -> io::Result<ExitCode> {
    victim::take_part();
    let launcher = Launcher::own(&[])?;
    match Arguments::parse().command {
        Command::Victim(arguments) => Ok(live(arguments)),
        Command::Check { journal, acks } => verdict(&journal, &acks),
        Command::Points(PointsArguments { scenario, action, records, double, ack_early }) => {
            if !trace::available() {
                return Ok(ExitCode::SUCCESS);
            }
            let plan = points::Plan { scenario, action, records, double, ack_early };
            let report = points::run(&launcher, plan)?;
            ended(&report, report.is_clean() != ack_early)
        }
        Command::Kills { cycles, seed, records, ack_early } => {
            let plan = kills::Plan { cycles, seed, records, ack_early };
            let report = kills::run(&launcher, plan)?;
            ended(&report, report.is_clean() != ack_early)
        }
        Command::Power { cycles, seed, records, without_sync } => {
            let plan = power::Plan { cycles, seed, records, without_sync };
            match power::run(&launcher, plan)? {
                Some(report) => ended(&report, report.is_as_expected()),
                None => {
                    eprintln!("skipped: needs root and loop devices");
                    Ok(ExitCode::SUCCESS)
                }
            }
        }
    }
}

/// Prints a report; exit 0 when it is as it has to be.
fn ended(report: &impl Serialize, fine: bool) -> io::Result<ExitCode> {
    println!("{}", serde_json::to_string(report).map_err(io::Error::other)?);
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn live(arguments: VictimArguments) -> ExitCode {
    let VictimArguments { journal, first, records, deliver, ack_early, process_safe } = arguments;
    let task = Task::registering(&journal, first, records);
    let code = victim::run(&Task { deliver, ack_early, process_safe, ..task });
    if code == 0 { ExitCode::SUCCESS } else { ExitCode::from(3) }
}

fn verdict(journal: &Path, acks: &Path) -> io::Result<ExitCode> {
    let mut promised = Facts::default();
    promised.acknowledge(&std::fs::read_to_string(acks)?)?;
    match check(journal, &promised, 1)? {
        Verdict::Whole(found) => {
            println!("whole: {} steps", found.steps());
            Ok(ExitCode::SUCCESS)
        }
        Verdict::Lost(what) => {
            println!("lost: {what}");
            Ok(ExitCode::from(1))
        }
        Verdict::Unopenable(code) => {
            println!("unopenable: {code}");
            Ok(ExitCode::from(2))
        }
    }
}
