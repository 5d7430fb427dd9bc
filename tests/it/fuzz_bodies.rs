//! The bodies of the fuzzer's targets over a generated set, the same on every run: the samples as they
//! are, then thousands of them changed at random.

#[path = "../fuzz_bodies/mod.rs"]
mod bodies;

use crate::differential::both_sides::numbers::Numbers;
use bodies::samples::{self, TARGETS};
use std::collections::BTreeMap;
use std::path::Path;

type Body = fn(&[u8]) -> Vec<&'static str>;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Shows the bytes a body did not hold for.
struct Shown<'a>(&'a [u8]);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{} bytes:\n{}", self.0.len(), crate::wire::hex(self.0));
        }
    }
}

/// What a body accepted, and how often it accepted nothing.
#[derive(Default)]
struct Run {
    accepted: BTreeMap<&'static str, usize>,
    refused: usize,
}

impl Run {
    fn take(&mut self, body: Body, data: &[u8]) {
        let shown = Shown(data);
        let names = body(data);
        drop(shown);
        self.refused += usize::from(names.is_empty());
        for name in names {
            *self.accepted.entry(name).or_default() += 1;
        }
    }
}

/// Runs a body over the samples of its target and `changed` changed ones. All of `names` and nothing
/// else was accepted: no check of the body was out of reach.
fn holds(target: &str, body: Body, changed: usize, names: &[&str]) {
    let samples = samples::of(root(), target);
    let mut run = Run::default();
    for sample in &samples {
        run.take(body, sample);
    }
    let mut numbers = Numbers::new(1, 0);
    for _ in 0..changed {
        run.take(body, &change(&samples, &mut numbers));
    }
    let mut names = names.to_vec();
    names.sort_unstable();
    assert_eq!(run.accepted.keys().copied().collect::<Vec<_>>(), names);
    assert!(run.refused > 0, "something is refused");
    println!("{target}: {:?}, refused {}", run.accepted, run.refused);
}

fn any<'a>(samples: &'a [Vec<u8>], numbers: &mut Numbers) -> &'a [u8] {
    &samples[numbers.place(samples.len())]
}

/// One of the samples with one to four changes.
fn change(samples: &[Vec<u8>], numbers: &mut Numbers) -> Vec<u8> {
    const TELLING: &[u8] = b"\0\x01\x7f\x80\xff0123456789eE+-.\"\\{}[]:,ua \n";
    let mut data = any(samples, numbers).to_vec();
    for _ in 0..=numbers.below(4) {
        let from = numbers.place(data.len() + 1);
        let to = data.len().min(from + 1 + numbers.place(8));
        match numbers.below(8) {
            0 => {
                if let Some(byte) = data.get_mut(from) {
                    *byte ^= 1_u8 << numbers.below(8);
                }
            }
            1 => {
                if let Some(byte) = data.get_mut(from) {
                    *byte = numbers.pick(TELLING);
                }
            }
            2 => data.insert(from, numbers.pick(TELLING)),
            3 => drop(data.drain(from..to)),
            4 => {
                let again = data[from..to].to_vec();
                drop(data.splice(from..from, again));
            }
            5 => data.truncate(from),
            6 => {
                let other = any(samples, numbers);
                data.truncate(from);
                data.extend_from_slice(&other[numbers.place(other.len() + 1)..]);
            }
            // A letter or a digit becomes another: what it stands in mostly stays what it is.
            _ => {
                let plain = data.iter().skip(from).position(u8::is_ascii_alphanumeric);
                if let Some(place) = plain {
                    data[from + place] = numbers.pick(b"0123456789abcdefxyzAZ");
                }
            }
        }
    }
    data
}

#[test]
fn bytes_on_disk_have_one_spelling_or_are_refused() {
    holds(
        "frame_and_record_decode",
        bodies::frame_and_record_decode::body,
        6_000,
        &[
            "frame",
            "frame under its right hash",
            "records in a right frame",
            "walk",
            "walk under its right hash",
            "walk over records in a right frame",
            "anchor",
            "manifest",
            "event of dispatch",
            "event of lifecycle",
            "event of notification",
            "event of processing",
            "event of delivery",
            "number and text",
            "list of floats",
            "binding",
            "receiver's state",
        ],
    );
}

#[test]
fn j2_j3_j4_j6_hold_for_a_journal_of_any_bytes_or_it_does_not_open() {
    holds(
        "journal_open",
        bodies::journal_open::body,
        2_000,
        &[
            "archive",
            "part of an archive",
            "event",
            "journal",
            "journal without a body",
            "journal without damage",
            "journal without its chunks",
        ],
    );
}

#[test]
fn the_canonical_form_of_any_json_is_its_own() {
    holds(
        "canonical_json",
        bodies::canonical_json::body,
        6_000,
        &["null", "boolean", "integer", "long integer", "float", "string", "array", "object"],
    );
}

#[test]
fn a_document_is_what_its_canonical_form_is() {
    holds(
        "documents",
        bodies::documents::body,
        4_000,
        &[
            "change",
            "cancellation",
            "tombstone",
            "document",
            "notification",
            "notification as it is monitored",
        ],
    );
}

#[test]
fn an_answer_is_accepted_for_its_own_registration_only() {
    holds(
        "answers",
        bodies::answers::body,
        4_000,
        &[
            "canonical body",
            "object",
            "dispatch response",
            "error of the CMS",
            "lifecycle response",
            "acknowledgement",
            "receiver's status",
            "source's answer to a change",
            "source's answer to a cancellation",
            "source's answer to a tombstone",
            "source's capabilities",
            "source's answer",
            "source's status",
            "source's health",
            "source's readiness",
            "receiver's capabilities",
            "receiver's answer",
            "receiver's OpenAPI",
            "receiver's status by its fields",
            "receiver's health",
            "receiver's readiness",
            "document with its digest",
            "receiver's document",
            "source's document",
        ],
    );
}

#[test]
fn d19_no_retry_after_asks_for_more_than_a_day_or_for_nothing() {
    holds("retry_after", bodies::retry_after::body, 10_000, &["seconds", "date"]);
}

#[test]
fn a_configuration_is_within_its_rules_or_the_place_is_named() {
    let names = ["configuration", "a value outside of its rule"];
    holds("configuration", bodies::configuration::body, 3_000, &names);
}

#[test]
fn every_body_is_a_target_of_the_fuzzer() {
    let read = |name: &str| std::fs::read_to_string(root().join(name)).expect("it is there");
    let manifest = read("fuzz/Cargo.toml");
    assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
    for target in TARGETS {
        assert!(manifest.contains(&format!("name = \"{target}\"")), "{target}");
        let program = read(&format!("fuzz/fuzz_targets/{target}.rs"));
        assert!(program.contains(&format!("tests/fuzz_bodies/{target}.rs")), "{target}");
        assert!(program.contains(&format!("{target}::body(data)")), "{target}");
    }
}
