//! Writes the samples of every target to its corpus, where the fuzzer begins:
//! `cargo run --manifest-path fuzz/Cargo.toml --example seeds`.

#[path = "../../tests/fuzz_bodies/framing.rs"]
#[allow(dead_code)] // the samples need only a part of it
mod framing;
#[path = "../../tests/fuzz_bodies/samples.rs"]
mod samples;

use std::path::Path;

fn main() -> std::io::Result<()> {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR"));
    for target in samples::TARGETS {
        let corpus = fuzz.join("corpus").join(target);
        std::fs::create_dir_all(&corpus)?;
        let samples = samples::of(&fuzz.join(".."), target);
        for (number, sample) in samples.iter().enumerate() {
            std::fs::write(corpus.join(format!("sample-{number:04}")), sample)?;
        }
        println!("{target}: {} samples", samples.len());
    }
    Ok(())
}
