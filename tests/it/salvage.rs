//! Salvage: every verifiable record out of damaged folders and archives, and the names of the others.

mod doctor;

use crate::damage::{copy, files, text};
use crate::main_job::{Place, printed};
use crate::support::{change, example, program, run};
use leasehold::{Engine, ManualClock};
use leasehold_journal::frame::{Frame, HEADER_BYTES, MAGIC, TRAILER_BYTES};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Output;

/// A journal with small and large bodies, and what it was before any damage.
struct Journal {
    path: PathBuf,
    archive: Vec<u8>,
    records: u64,
    head: String,
}

impl Journal {
    /// With one run the database has no snapshot yet, and damage makes it lose its tail without a
    /// word; with a second run it has one, and damage makes it refuse to open.
    fn new(place: &Place, runs: usize) -> Self {
        let path = place.path("journal");
        let file = place.path("changes.ndjson");
        std::fs::write(&file, changes()).expect("writable");
        for _ in 0..runs {
            let mut command = program();
            command.args(["run", "--sandbox", "--until", "accepted", "--json", "--journal"]);
            let output = command.arg(&path).arg(&file).output().expect("the program runs");
            assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        }
        let out = place.path("whole");
        let output = program().arg("export").arg("--json").arg(&path).arg(&out).output();
        let said = printed(&output.expect("the program runs"));
        let records = said["sequence"].as_u64().expect("a number");
        let head = said["head"].as_str().expect("a hash").to_owned();
        Self { path, archive: std::fs::read(out).expect("readable"), records, head }
    }

    fn database(&self) -> PathBuf {
        self.path.join("db").join("db")
    }

    /// Changes the database's file.
    fn damage(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = std::fs::read(self.database()).expect("readable");
        change(&mut bytes);
        std::fs::write(self.database(), bytes).expect("writable");
    }
}

/// Forty changes, every eighth with a text of its own that is kept in chunks.
fn changes() -> String {
    let examples = std::fs::read_to_string(example("changes.ndjson")).expect("readable");
    let mut lines = String::new();
    for (number, line) in examples.lines().take(40).enumerate() {
        let mut document: Value = serde_json::from_str(line).expect("JSON");
        if number % 8 == 0 {
            let words = (0..3_000 + number * 500).map(|word| format!("{number}.{word} "));
            document["localization"]["source_text"] = json!(words.collect::<String>());
        }
        lines.push_str(&document.to_string());
        lines.push('\n');
    }
    lines
}

/// One copy of a frame in raw bytes.
struct FrameCopy {
    at: usize,
    first: u64,
    last: u64,
}

/// Every copy of every frame in raw bytes, as they lie there.
fn copies(bytes: &[u8]) -> Vec<FrameCopy> {
    let mut found = Vec::new();
    for at in 0..bytes.len().saturating_sub(HEADER_BYTES) {
        if bytes[at] != b'L' || !bytes[at..].starts_with(&MAGIC) {
            continue;
        }
        let body = u32::from_le_bytes(bytes[at + 14..at + 18].try_into().expect("four bytes"));
        let whole = bytes.get(at..at + HEADER_BYTES + body as usize + TRAILER_BYTES);
        if let Some(frame) = whole.and_then(|whole| Frame::parse(whole).ok()) {
            found.push(FrameCopy { at, first: frame.first_sequence, last: frame.last_sequence() });
        }
    }
    found
}

/// Flips a bit in every copy of two frames; answers the numbers of their records.
fn lose_two_frames(bytes: &mut [u8]) -> BTreeSet<u64> {
    let copies = copies(bytes);
    let firsts: Vec<u64> =
        copies.iter().map(|copy| copy.first).collect::<BTreeSet<_>>().into_iter().collect();
    assert!(firsts.len() >= 8, "{} frames are too few to lose two", firsts.len());
    let victims = [firsts[firsts.len() / 4], firsts[firsts.len() / 2]];
    let mut lost = BTreeSet::new();
    for copy in copies.iter().filter(|copy| victims.contains(&copy.first)) {
        bytes[copy.at + HEADER_BYTES] ^= 0x20;
        lost.extend(copy.first..=copy.last);
    }
    lost
}

/// The numbers in a list of spans.
fn numbers(spans: &Value) -> BTreeSet<u64> {
    let spans = spans.as_array().expect("a list").iter();
    spans
        .flat_map(|span| {
            span["first"].as_u64().expect("a number")..=span["last"].as_u64().expect("a number")
        })
        .collect()
}

/// The first chunk of an archive.
fn first_chunk(archive: &[u8]) -> &[u8] {
    let mut at = 20;
    loop {
        let length = archive[at + 1..at + 5].try_into().expect("four bytes");
        let item = at + 5..at + 5 + u32::from_le_bytes(length) as usize;
        if archive[at] == b'C' {
            return &archive[item];
        }
        at = item.end;
    }
}

fn salvage(path: &Path, out: &Path, more: &[&str]) -> Output {
    let mut command = program();
    command.args(["salvage", "--json"]).arg(path).arg(out).args(more);
    command.output().expect("the program runs")
}

fn audited(path: &Path) -> Value {
    printed(&program().args(["audit", "--json"]).arg(path).output().expect("the program runs"))
}

#[test]
fn a_healthy_journal_is_salvaged_as_it_would_be_exported() {
    let place = Place::new();
    let journal = Journal::new(&place, 1);
    let before = files(&journal.path);
    let out = place.path("out");
    let output = salvage(&journal.path, &out, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let said = printed(&output);
    assert_eq!(said["archive"], json!({ "sequence": journal.records, "head": journal.head }));
    assert_eq!((&said["missing"], &said["forks"]), (&json!([]), &json!([])));
    assert_eq!(said["anchor_inside"]["standing"], "reached");
    assert_eq!(said["anchor_beside"]["standing"], "reached");
    assert!(std::fs::read(out).expect("readable") == journal.archive, "large bodies included");
    assert!(journal.archive.len() > 5 * 20_000, "there are large bodies");
    assert!(!place.path("out.rest").exists());
    assert!(files(&journal.path) == before, "reading changed a file");
}

#[test]
fn a_journal_that_does_not_open_gives_every_record_that_the_damage_left() {
    let place = Place::new();
    let journal = Journal::new(&place, 2);
    let mut lost = BTreeSet::new();
    journal.damage(|bytes| lost = lose_two_frames(bytes));
    let before = files(&journal.path);
    let opened = program().arg("health").arg(&journal.path).output().expect("the program runs");
    assert_eq!(opened.status.code(), Some(3), "the database opens: {}", text(&opened));
    let (out, new) = (place.path("out"), place.path("new"));
    let output =
        salvage(&journal.path, &out, &["--into-journal", new.to_str().expect("a path of text")]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let said = printed(&output);
    assert_eq!(numbers(&said["missing"]), lost);
    assert_eq!(said["missing_records"], lost.len());
    let first = *lost.first().expect("some are lost");
    assert_eq!(said["archive"]["sequence"], first - 1);
    assert_eq!(said["records"], journal.records - lost.len() as u64);
    assert_eq!(said["bodies_missing"], json!([]));
    assert_eq!(said["anchor_inside"]["standing"], "not_reached");
    // Which of them are broken depends on which records one commit happened to take: a stream that lost
    // its newest records alone looks whole.
    let streams = ["streams_whole", "streams_broken"].map(|name| said[name].as_u64());
    assert!(matches!(streams, [Some(whole), Some(broken)] if whole + broken > 0), "{streams:?}");
    assert!(files(&journal.path) == before, "reading changed a file");
    // What has no gap is an archive and a journal; what lies behind one is kept beside it.
    for path in [&out, &new] {
        let audit = audited(path);
        assert_eq!((&audit["clean"], &audit["sequence"]), (&json!(true), &json!(first - 1)));
        assert_eq!(audit["head"], said["archive"]["head"]);
    }
    let rest = std::fs::read(place.path("out.rest")).expect("readable");
    let behind: BTreeSet<u64> =
        copies(&rest).iter().flat_map(|copy| copy.first..=copy.last).collect();
    let expected: BTreeSet<u64> =
        (first..=journal.records).filter(|number| !lost.contains(number)).collect();
    assert_eq!(behind, expected);
}

#[test]
fn a_tail_that_the_database_lost_without_a_word_comes_back_and_the_journal_goes_on() {
    let place = Place::new();
    let journal = Journal::new(&place, 1);
    // Not in the frame: the database throws the sound frame away with the byte before it.
    journal.damage(|bytes| {
        let last = copies(bytes).last().expect("there are frames").at;
        bytes[last - 1] ^= 0x20;
    });
    let audit = audited(&journal.path);
    assert!(audit["sequence"].as_u64() < Some(journal.records), "{audit}");
    let (out, new) = (place.path("out"), place.path("new"));
    let output =
        salvage(&journal.path, &out, &["--into-journal", new.to_str().expect("a path of text")]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert_eq!(printed(&output)["restored"]["head"], json!(journal.head));
    assert!(std::fs::read(out).expect("readable") == journal.archive);
    run(async {
        let clock = ManualClock::at(4_000_000_000.0);
        let engine =
            Engine::builder(&new).clock(clock).open().await.expect("it is an ordinary journal");
        engine.dispatch().enqueue(change("one-more"), 5).await.expect("it is valid");
        engine.close().await;
    });
    let audit = audited(&new);
    assert_eq!((&audit["clean"], &audit["sequence"]), (&json!(true), &json!(journal.records + 1)));
    // The old head is still part of the history.
    let mut command = program();
    command.arg("audit").arg(&new).args(["--expect-head", &journal.head]);
    assert_eq!(command.output().expect("the program runs").status.code(), Some(0));
}

#[test]
fn damage_beside_the_records_loses_nothing() {
    let place = Place::new();
    let journal = Journal::new(&place, 2);
    let database = std::fs::read_dir(journal.path.join("db")).expect("readable");
    let names: Vec<String> = database
        .map(|entry| entry.expect("readable").file_name().into_string().expect("text"))
        .filter(|name| name == "conf" || name.starts_with("snap."))
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    for (number, name) in names.iter().enumerate() {
        for (way, bytes) in
            [("gone", None), ("empty", Some(&b""[..])), ("other", Some(&b"noise"[..]))]
        {
            let damaged = place.path(&format!("{way}-{number}"));
            copy(&journal.path, &damaged);
            let path = damaged.join("db").join(name);
            match bytes {
                Some(bytes) => std::fs::write(path, bytes).expect("writable"),
                None => std::fs::remove_file(path).expect("it was there"),
            }
            let out = place.path(&format!("out-{way}-{number}"));
            let output = salvage(&damaged, &out, &[]);
            assert_eq!(output.status.code(), Some(0), "{name} {way}: {}", text(&output));
            assert!(std::fs::read(out).expect("readable") == journal.archive, "{name} {way}");
        }
    }
}

#[test]
fn an_archive_that_was_cut_gives_what_is_before_the_cut() {
    let place = Place::new();
    let journal = Journal::new(&place, 1);
    let frames = copies(&journal.archive);
    let middle = &frames[frames.len() / 2];
    let (cut, kept) = (&journal.archive[..middle.at + HEADER_BYTES], middle.first - 1);
    let path = place.path("cut");
    std::fs::write(&path, cut).expect("writable");
    let out = place.path("out");
    let output = salvage(&path, &out, &[]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let said = printed(&output);
    assert_eq!((&said["archive"]["sequence"], &said["end_reached"]), (&json!(kept), &json!(false)));
    assert!(kept > 0 && kept < journal.records);
    let audit = audited(&out);
    assert_eq!((&audit["clean"], &audit["sequence"]), (&json!(true), &json!(kept)));
    assert!(!place.path("out.rest").exists());
}

#[test]
fn an_archive_with_a_damaged_frame_loses_that_frame_alone() {
    let place = Place::new();
    let journal = Journal::new(&place, 1);
    let mut bytes = journal.archive.clone();
    let frames = copies(&bytes);
    let victim = &frames[frames.len() / 2];
    bytes[victim.at + HEADER_BYTES] ^= 0x20;
    let path = place.path("damaged");
    std::fs::write(&path, bytes).expect("writable");
    let output = salvage(&path, &place.path("out"), &[]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let said = printed(&output);
    assert_eq!(numbers(&said["missing"]), (victim.first..=victim.last).collect::<BTreeSet<_>>());
    assert_eq!((&said["bodies_missing"], &said["end_reached"]), (&json!([]), &json!(false)));
}

#[test]
fn a_lost_chunk_costs_one_body_and_no_place_in_the_chain() {
    let place = Place::new();
    let journal = Journal::new(&place, 1);
    let needle = &first_chunk(&journal.archive)[1_000..1_064];
    journal.damage(|bytes| {
        let places: Vec<usize> = (0..bytes.len() - needle.len())
            .filter(|at| bytes[*at] == needle[0] && bytes[*at..].starts_with(needle))
            .collect();
        assert!(!places.is_empty(), "it is in the database's file as it is");
        places.iter().for_each(|at| bytes[*at] ^= 0x01);
    });
    let out = place.path("out");
    let output = salvage(&journal.path, &out, &[]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let said = printed(&output);
    assert_eq!(said["archive"], json!({ "sequence": journal.records, "head": journal.head }));
    assert_eq!(said["missing"], json!([]));
    let bodies = numbers(&said["bodies_missing"]);
    assert_eq!(bodies.len(), 1, "{said}");
    let audit = audited(&out);
    let findings = audit["findings"].as_array().expect("a list");
    let named: BTreeSet<u64> =
        findings.iter().filter_map(|finding| finding["sequence"].as_u64()).collect();
    assert_eq!(named, bodies, "{audit}");
}

#[test]
fn what_cannot_be_read_at_all_ends_in_exit_3_and_writes_nothing() {
    let place = Place::new();
    let journal = Journal::new(&place, 1);
    let plain = place.path("plain");
    std::fs::create_dir(&plain).expect("a folder");
    let letter = plain.join("letter.txt");
    std::fs::write(&letter, "dear").expect("writable");
    let emptied = place.path("emptied");
    copy(&journal.path, &emptied);
    std::fs::write(emptied.join("db").join("db"), "").expect("writable");
    let out = place.path("out");
    let refused = |path: &Path, out: &Path, more: &[&str], code: &str| {
        let output = salvage(path, out, more);
        assert_eq!(output.status.code(), Some(3), "{code}: {}", text(&output));
        assert!(text(&output).contains(code), "{code}: {}", text(&output));
    };
    refused(&plain, &out, &[], "journal_not_a_journal");
    refused(&letter, &out, &[], "journal_not_a_journal");
    refused(&place.path("none"), &out, &[], "journal_missing");
    refused(&emptied, &out, &[], "journal_corrupt");
    let holder = std::fs::File::open(journal.path.join("lock")).expect("there");
    fs4::FileExt::try_lock(&holder).expect("nobody else holds it");
    refused(&journal.path, &out, &[], "journal_locked");
    drop(holder);
    assert!(!out.exists() && !place.path("out.rest").exists(), "nothing was written");
    // Nothing that exists is overwritten, and then nothing else is written either.
    let there = journal.path.to_str().expect("text");
    refused(&journal.path, &letter, &[], "exists already");
    refused(&journal.path, &out, &["--into-journal", there], "exists already");
    let beside = place.path("beside");
    std::fs::write(beside.with_extension("anchor"), "").expect("writable");
    let beside = beside.to_str().expect("text");
    refused(&journal.path, &out, &["--into-journal", beside], "exists already");
    assert!(!out.exists());
    assert_eq!(std::fs::read_to_string(letter).expect("readable"), "dear");
}
