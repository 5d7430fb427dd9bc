//! Damages archives and journal folders by the thousand and counts what the library said.
//!
//! `cargo run --release --example damage -- --flips 2000 --seed 1`
//!
//! Prints one JSON line; exits with 1 when a loss went unnoticed or a panic came out.

#[path = "../tests/damage/mod.rs"]
mod damage;

use clap::Parser;
use damage::folder::{Outcome, Sample};
use damage::{bits, damages};
use serde_json::json;
use std::process::ExitCode;

/// Damage archives and journal folders, and count what the library says.
#[derive(Debug, Parser)]
struct Arguments {
    /// Damages to a journal's folder: flipped bits, cut files, removed files, zeroed pages, older copies
    #[arg(long, default_value_t = 2_000)]
    flips: u64,
    /// The same seed makes the same damages
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Journal records in the folder, at least
    #[arg(long, default_value_t = 600)]
    records: u64,
    /// Bytes of the archive, at least
    #[arg(long, default_value_t = 65_536)]
    archive_bytes: u64,
    /// Flip only every Nth bit of the archive
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    step: u32,
}

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    quiet_database();
    let sample = Sample::new(arguments.records);
    let folder = damages::many(&sample, arguments.flips, arguments.seed);
    let control = damages::unnoticeable(&sample);
    let place = tempfile::tempdir()?;
    let archive = bits::archive(arguments.archive_bytes);
    let archive = bits::flip(&archive, usize::try_from(arguments.step)?, place.path());
    let held = folder.silent + folder.panicked + archive.silent + archive.panicked == 0
        && control == Outcome::Silent;
    let (seed, records) = (arguments.seed, sample.records());
    println!(
        "{}",
        json!({
            "seed": seed,
            "records": records,
            "folder": folder,
            "archive": archive,
            "control_is_silent": control == Outcome::Silent,
            "held": held,
        })
    );
    Ok(if held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The database panics on damaged files, thousands of times here; the library catches that. All other
/// panics print as usual.
fn quiet_database() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let database = panic.location().is_some_and(|place| place.file().contains("/sled-"));
        if !database {
            usual(panic);
        }
    }));
}
