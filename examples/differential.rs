//! Canonical JSON of any number of documents by the library and by CPython, which must agree.
//!
//! `cargo run --release --example differential -- --documents 2000000 --seed 1` prints one line of JSON
//! with the counts and exits with 0. On a difference it shows the document in hex and exits with 1;
//! with 2 when nothing could be compared.

#[path = "../tests/differential/mod.rs"]
mod differential;

use clap::Parser as _;
use differential::{canonical_sha256, compare};
use std::path::Path;
use std::process::ExitCode;

/// Compare the canonical JSON of seeded documents with CPython's.
#[derive(Debug, clap::Parser)]
struct Options {
    /// How many documents.
    #[arg(long, default_value_t = 50_000)]
    documents: u64,
    /// Which ones: the same seed gives the same documents.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The Python to ask.
    #[arg(long, default_value = "python3")]
    python: String,
}

fn main() -> ExitCode {
    let Options { documents, seed, python } = Options::parse();
    let script = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/canonical.py"));
    let found = match compare(&python, script, documents, seed, canonical_sha256) {
        Ok(found) => found,
        Err(failure) => {
            eprintln!("{failure}");
            return ExitCode::from(2);
        }
    };
    for difference in &found.differences {
        eprintln!(
            "document {} of seed {seed}: ours {}, CPython's {}\n{}",
            difference.index, difference.ours, difference.theirs, difference.hex
        );
    }
    let line = serde_json::json!({
        "documents": documents,
        "seed": seed,
        "agree": found.agree,
        "both_refuse": found.both_refuse,
        "differ": found.differ,
    });
    println!("{line}");
    if found.differ == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
