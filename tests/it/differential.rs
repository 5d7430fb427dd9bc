//! Canonical JSON against CPython's, document by document; skipped, with a notice, without python3.
//! `cargo run --release --example differential` compares as many documents as one likes.

#[path = "../differential/mod.rs"]
pub(crate) mod both_sides;

use crate::support::example;
use both_sides::{Comparison, Failure, REFUSED, canonical_sha256, compare};
use leasehold_actors::contract::text::Sha256;
use std::path::Path;

/// Compares, unless there is no python3.
fn compared(documents: u64, ours: fn(&[u8]) -> String) -> Option<Comparison> {
    match compare("python3", Path::new(&example("canonical.py")), documents, 1, ours) {
        Ok(found) => Some(found),
        Err(Failure::PythonMissing) => {
            eprintln!("skipped: python3 is not installed");
            None
        }
        Err(failure @ (Failure::PythonFailed | Failure::Answers { .. })) => panic!("{failure}"),
    }
}

#[test]
fn the_library_and_cpython_agree_on_every_document() {
    let Some(found) = compared(20_000, canonical_sha256) else { return };
    assert!(found.differences.is_empty(), "{:?}", found.differences);
    assert_eq!(found.agree + found.both_refuse + found.differ, 20_000, "no document is left out");
    assert!(found.agree > 10_000, "{} are accepted", found.agree);
    assert!(found.both_refuse > 1_000, "{} are refused", found.both_refuse);
}

/// The last of repeated keys wins, floats are printed in another way: what the usual library does.
fn usual_sha256(document: &[u8]) -> String {
    match serde_json::from_slice::<serde_json::Value>(document) {
        Ok(value) => Sha256::of(value.to_string().as_bytes()).to_string(),
        Err(_) => REFUSED.to_owned(),
    }
}

#[test]
fn another_canonical_form_would_be_noticed() {
    let Some(found) = compared(1_000, usual_sha256) else { return };
    assert!(found.differ > 0);
    let shown = found.differences.first().expect("the first differences are shown");
    assert_ne!(shown.ours, shown.theirs);
    assert!(found.differences.len() as u64 <= found.differ);
}

#[test]
fn a_python_that_is_not_there_is_told_from_one_that_fails() {
    let script = example("canonical.py");
    let missing = compare("no-such-python", Path::new(&script), 1, 1, canonical_sha256);
    assert_eq!(missing.err(), Some(Failure::PythonMissing));
    let Some(_) = compared(1, canonical_sha256) else { return };
    let nothing = compare("python3", Path::new("no-such-script"), 1, 1, canonical_sha256);
    assert_eq!(nothing.err(), Some(Failure::Answers { answers: 0 }));
}
