//! The archive's description, put to the test: a verifier that was written from `journal/README.md`
//! sees in every archive, sound or not, what the library sees. Skipped, with a notice, without python3.

mod imported;
mod lives;
mod parts;
mod scopes;

use crate::main_job::{Place, printed};
use crate::support::{accepted, change, change_with, example, program, run};
use leasehold::audit::{Source, audit};
use leasehold::{Engine, Entropy, ManualClock, MemoryDisk};
use leasehold_actors::codec;
use leasehold_actors::flows::dispatch::Dispatch;
use leasehold_actors::record::{FlowTag, StateKind};
use leasehold_journal::chain::frame_hash;
use leasehold_journal::frame::{FrameBuilder, TRAILER_BYTES};
use leasehold_journal::record::Stored;
use leasehold_journal::{Digest, Head, JournalId, StreamId};
use lives::{Life, bytes_of, every_life, exported};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Asks the script about many files in one process: a line for each, `null` for what is no archive.
const DRIVER: &str = "
import json, sys
sys.path.insert(0, sys.argv[1])
import verify_archive
for path in sys.stdin.read().splitlines():
    try:
        with open(path, 'rb') as file:
            print(json.dumps(verify_archive.verify([file])))
    except OSError:
        print('null')
";
const ID: JournalId = JournalId([7; 16]);

fn python() -> Command {
    let mut command = Command::new("python3");
    command.arg("-B"); // leaves nothing beside the script
    command
}

/// What a python3 printed until it ended; `None`, with a notice, where there is none.
fn ended(command: &mut Command, input: String) -> Option<Output> {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        eprintln!("skipped: python3 is not installed");
        return None;
    };
    let mut lines = child.stdin.take().expect("it is piped");
    let writer = std::thread::spawn(move || lines.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("all was read");
    Some(output)
}

/// A report without the words of its findings, which are the library's own.
fn without_words(mut report: Value) -> Value {
    for finding in report["findings"].as_array_mut().expect("a list") {
        finding.as_object_mut().expect("an object").remove("message");
    }
    report
}

/// What the library says of a file; null for what is no archive.
fn ours(file: &Path) -> Value {
    let report = audit(&Source::open(file).expect("the file is there"), None);
    if report.findings.iter().any(|finding| finding.code == "journal_not_a_journal") {
        return Value::Null;
    }
    without_words(serde_json::to_value(&report).expect("a report has a form"))
}

/// What both say of each of these archives, compared; `None` without python3.
fn verdicts(archives: &[Vec<u8>]) -> Option<Vec<Value>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = |number: usize| folder.path().join(number.to_string());
    for (number, bytes) in archives.iter().enumerate() {
        std::fs::write(place(number), bytes).expect("writable");
    }
    let files: Vec<PathBuf> = (0..archives.len()).map(place).collect();
    let paths = files.iter().map(|file| file.display().to_string() + "\n").collect();
    let output = ended(python().args(["-c", DRIVER, &example("")]), paths)?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines = String::from_utf8(output.stdout).expect("text");
    assert_eq!(lines.lines().count(), files.len(), "{said}");
    let reports: Vec<Value> = files.iter().map(|file| ours(file)).collect();
    for (number, (report, line)) in reports.iter().zip(lines.lines()).enumerate() {
        let theirs: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(*report, theirs, "archive {number}");
    }
    Some(reports)
}

/// `leasehold verify` and the script, called alike: the same exit code and the same report, null for
/// what is no archive. `None` without python3.
fn called(file: &Path, arguments: &[&str]) -> Option<Value> {
    let mut script = python();
    script.arg(example("verify_archive.py")).arg("--json").arg(file).args(arguments);
    let script = ended(&mut script, String::new())?;
    let mut verify = program();
    verify.args(["verify", "--json"]).arg(file).args(arguments);
    let verify = verify.output().expect("the program runs");
    let said = String::from_utf8_lossy(&script.stderr).into_owned();
    assert_eq!(script.status.code(), verify.status.code(), "{arguments:?} {said}");
    if verify.status.code() == Some(3) {
        return Some(Value::Null);
    }
    let report = without_words(printed(&verify));
    assert_eq!(printed(&script), report);
    Some(report)
}

/// The object a reading command prints.
fn told(command: &str, path: &Path) -> Value {
    printed(&program().args([command, "--json"]).arg(path).output().expect("the program runs"))
}

/// The counts of `health` are those of a report; zeros do not count.
fn assert_counts(report: &Value, health: &Value) {
    // Beside the flows it says what is paused, and whether digests were compared.
    let flows = health.as_object().expect("an object").iter();
    for (flow, health) in flows.filter(|(_, health)| health.get("counts").is_some()) {
        let counts = health["counts"].as_object().expect("an object");
        let mut expected: BTreeMap<&str, &Value> =
            counts.iter().map(|(state, count)| (state.as_str(), count)).collect();
        expected.insert("dismissed", &health["dismissed"]);
        expected.insert("quarantined", &health["quarantined"]);
        expected.retain(|_, count| **count != 0);
        let counted = report["flows"][flow].as_object().into_iter().flatten();
        let counted = counted.map(|(state, count)| (state.as_str(), count)).collect();
        assert_eq!(expected, counted, "{flow}");
    }
}

fn codes(report: &Value) -> BTreeSet<&str> {
    let findings = report["findings"].as_array().expect("a list");
    findings.iter().map(|finding| finding["code"].as_str().expect("a text")).collect()
}

/// Randomness that is always the same.
struct Same;

impl Entropy for Same {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

/// What an engine writes that is closed with a lease open, opened again, and left waiting until another
/// lease has run out; one text is kept in chunks.
async fn worked() -> Vec<u8> {
    let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
    let open = || Engine::in_memory(&disk).clock(clock.clone()).entropy(Same).open();
    let engine = open().await.expect("it opens");
    let long = change_with("event-1", &"Kaffee. ".repeat(9_000));
    engine.dispatch().enqueue(long, 5).await.expect("it is valid");
    engine.dispatch().enqueue(change("event-2"), 5).await.expect("it is valid");
    engine.dispatch().claim("w", 60.0).await.expect("a claim").expect("due");
    engine.close().await;
    let engine = open().await.expect("it opens again");
    let flow = engine.dispatch();
    let first = flow.claim("w", 60.0).await.expect("a claim").expect("due");
    flow.retry(&first, "network").await.expect("it is live");
    flow.claim("w", 60.0).await.expect("a claim").expect("due");
    clock.set(200.0);
    let third = flow.claim("w", 60.0).await.expect("a claim").expect("due");
    let answer = accepted(third.request().event_id.as_str(), 2);
    flow.complete(&third, answer).await.expect("it is live");
    let fourth = flow.claim("w", 60.0).await.expect("a claim").expect("due");
    flow.fail(&fourth, "refused").await.expect("it is live");
    engine.close().await;
    bytes_of(&disk)
}

fn flipped(bytes: &[u8], place: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[place] ^= 1 << (place % 8);
    bytes
}

#[test]
fn of_what_a_run_wrote_the_script_says_what_audit_and_health_say() {
    let place = Place::new();
    let runs: [(&str, &[&str], &str); 2] =
        [("cms", &[], "changes.ndjson"), ("source", &["--via", "source"], "mixed.ndjson")];
    for (name, via, documents) in runs {
        let (journal, file) = (place.path(name), place.path(&format!("{name}.leasehold")));
        let mut command = program();
        command.args(["run", "--sandbox", "--json"]).args(via).arg(example(documents));
        let ran = command.arg("--journal").arg(&journal).output().expect("the program runs");
        assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
        let export = program().arg("export").arg(&journal).arg(&file).output();
        assert_eq!(export.expect("the program runs").status.code(), Some(0));
        let Some(report) = called(&file, &[]) else { return };
        assert_eq!(without_words(told("audit", &journal)), report);
        assert_counts(&report, &told("health", &file));
        assert_eq!((&report["clean"], &report["head"]), (&true.into(), &printed(&ran)["head"]));
    }
}

#[test]
fn every_kind_of_event_in_every_flow_is_read_and_counted_alike() {
    let (lives, place) = (every_life(), Place::new());
    let kinds: BTreeSet<(u8, u8)> =
        lives.iter().flat_map(|life| &life.bodies).map(|body| (body[0], body[2])).collect();
    assert_eq!(kinds.len(), FlowTag::ALL.len() * 14, "every event in every flow");
    let mut found = BTreeSet::new();
    for (number, archive) in exported(&lives).into_iter().enumerate() {
        let file = place.path(&number.to_string());
        std::fs::write(&file, archive).expect("writable");
        let Some(report) = called(&file, &[]) else { return };
        assert_counts(&report, &told("health", &file));
        found.extend(codes(&report).into_iter().map(str::to_owned));
    }
    // What cannot have happened is in the lives on purpose, and in nothing an engine writes.
    assert_eq!(found, BTreeSet::from(["R1", "replay_invalid"].map(str::to_owned)));
    let file = place.path("engine");
    std::fs::write(&file, run(worked())).expect("writable");
    let report = called(&file, &[]).expect("python3 was there a moment ago");
    assert_counts(&report, &told("health", &file));
    assert_eq!(codes(&report), BTreeSet::new());
}

#[test]
fn every_damaged_life_is_judged_alike() {
    let mut damaged = Vec::new();
    for life in every_life() {
        for (place, body) in life.bodies.iter().enumerate() {
            let mut with = |bodies: Vec<Vec<u8>>| {
                let whole =
                    [&life.bodies[..place], &bodies[..], &life.bodies[place + 1..]].concat();
                if !whole.is_empty() {
                    damaged.push(Life { flow: life.flow, bodies: whole });
                }
            };
            (0..24).for_each(|number| with(vec![flipped(body, (number * 7919 + 3) % body.len())]));
            with(vec![body[..body.len() - 1].to_vec()]);
            with(vec![[&body[..], b"\0"].concat()]);
            with(vec![body.clone(), body.clone()]);
            with(Vec::new());
        }
    }
    assert!(damaged.len() > 3_000);
    let Some(reports) = verdicts(&exported(&damaged)) else { return };
    let found: BTreeSet<_> = reports.iter().flat_map(codes).collect();
    assert_eq!(found, BTreeSet::from(["R1", "record_invalid", "replay_invalid"]));
}

#[test]
fn every_changed_byte_and_every_cut_is_found_by_both() {
    let sound = run(worked());
    let length = sound.len();
    assert!(length > 70_000, "a text is in chunks");
    let spread = (0..200).map(|number| number * 7919 % length);
    let places = (0..200).chain(length - 400..length).chain(spread);
    let mut archives: Vec<_> = places.map(|place| flipped(&sound, place)).collect();
    archives.extend((0..60).map(|number| sound[..number * length / 60].to_vec()));
    archives.push([&sound[..], b"\0"].concat());
    let Some(reports) = verdicts(&archives) else { return };
    for (number, report) in reports.iter().enumerate() {
        assert!(report.is_null() || report["clean"] == false, "archive {number} counts as sound");
    }
    let sound = verdicts(&[sound]).expect("python3 was there a moment ago");
    assert_eq!(sound[0]["clean"], true);
}

#[test]
fn the_programs_exit_codes_and_an_expected_head_are_the_same_in_both() {
    let (place, sound) = (Place::new(), run(worked()));
    let file = place.path("sound");
    std::fs::write(&file, &sound).expect("writable");
    let Some(report) = called(&file, &[]) else { return };
    let head = report["head"].as_str().expect("a hash").to_owned();
    let genesis = Head::genesis(ID).hash.to_string();
    for (expected, holds) in [(head, true), (genesis, true), ("ab".repeat(32), false)] {
        let report = called(&file, &["--expect-head", &expected]).expect("python3 is there");
        assert_eq!(report["clean"], holds, "{expected}");
    }
    for (name, bytes, archive) in
        [("damaged", flipped(&sound, sound.len() / 2), true), ("other", flipped(&sound, 0), false)]
    {
        let file = place.path(name);
        std::fs::write(&file, bytes).expect("writable");
        let report = called(&file, &[]).expect("python3 is there");
        assert_eq!(!report.is_null(), archive, "{name}");
    }
    assert_eq!(called(&place.path("nowhere"), &[]), Some(Value::Null));
}

/// A frame of records without bodies: stream, version, sequence number of the stream's record before.
fn framed(after: Head, records: &[(u8, u32, u64)]) -> (Vec<u8>, Head) {
    let mut builder = FrameBuilder::after(after);
    for (stream, version, previous) in records {
        let (sequence, stream) = (builder.next_sequence(), StreamId([*stream; 16]));
        let (version, previous) = (*version, *previous);
        builder.push(&Stored { sequence, stream, version, previous, stored: b"", chunked: false });
    }
    builder.finish()
}

/// An archive of these items, whatever they are.
fn made_up(items: &[(u8, &[u8])]) -> Vec<u8> {
    let mut file = [&b"LHX1"[..], &ID.0].concat();
    for (kind, bytes) in items {
        file.push(*kind);
        file.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        file.extend_from_slice(bytes);
    }
    file
}

#[test]
fn a_chain_that_was_made_up_is_judged_alike() {
    let end = |head: Head| [&head.sequence.to_le_bytes()[..], &head.hash.0].concat();
    let genesis = Head::genesis(ID);
    let (frame, head) = framed(genesis, &[(1, 1, 0), (2, 1, 0)]);
    let (last, early) = (end(head), end(genesis));
    let mut archives = vec![
        (true, made_up(&[(b'E', &early)])),
        (true, made_up(&[(b'F', &frame), (b'E', &last)])),
        (true, made_up(&[(b'C', b"in no manifest"), (b'F', &frame), (b'E', &last)])),
        (false, made_up(&[(b'F', &frame), (b'E', &early)])),
        (false, made_up(&[(b'F', &frame), (b'F', &frame), (b'E', &last)])),
        (false, made_up(&[(b'F', &frame), (b'E', &last), (b'C', b"")])),
        (false, made_up(&[(b'F', &frame), (b'X', b""), (b'E', &last)])),
    ];
    let elsewhere = [Head { sequence: 3, ..head }, Head { hash: Digest([1; 32]), ..head }];
    let next = [(1, 2, 1), (1, 1, 0), (1, 2, 2), (1, 3, 1), (9, 2, 1), (9, 1, 0)];
    let follows = next.map(|record| (head, record, record == next[0] || record == next[5]));
    let others = elsewhere.map(|head| (head, next[0], false));
    for (after, record, holds) in follows.into_iter().chain(others) {
        let (second, head) = framed(after, &[record]);
        archives.push((holds, made_up(&[(b'F', &frame), (b'F', &second), (b'E', &end(head))])));
    }
    let mut newer = frame;
    newer[3] = 2;
    let place = newer.len() - TRAILER_BYTES;
    let hash = frame_hash(&newer[..place]);
    newer[place..].copy_from_slice(&hash.0[..TRAILER_BYTES]);
    archives.push((false, made_up(&[(b'F', &newer), (b'E', &last)])));
    let (expected, archives): (Vec<bool>, Vec<Vec<u8>>) = archives.into_iter().unzip();
    let Some(reports) = verdicts(&archives) else { return };
    // None of the records has an event in it; whether the chain holds is another matter.
    let holds =
        reports.iter().map(|report| codes(report).iter().all(|code| *code == "record_invalid"));
    assert_eq!(holds.collect::<Vec<_>>(), expected);
}

#[test]
fn the_description_names_every_flow_event_and_state() {
    let path = format!("{}/journal/README.md", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("a file of ours");
    let dispatch = every_life().into_iter().filter(|life| life.flow == FlowTag::Dispatch);
    let events = dispatch.flat_map(|life| life.bodies).map(|body| {
        let event = codec::decode::<Dispatch>(&body).expect("we wrote it");
        (body[2].to_string(), event.name())
    });
    for (number, name) in events {
        assert!(text.contains(&format!("\n| {number} | `{name}` | ")), "{name}");
    }
    for flow in FlowTag::ALL {
        assert!(text.contains(&format!("\n| {} | `{}` | ", flow as u8, flow.name())), "{flow:?}");
    }
    for kind in StateKind::ALL {
        for completed in ["succeeded", "terminal"] {
            assert!(text.contains(&format!("`{}`", kind.name(completed))), "{kind:?}");
        }
    }
}
