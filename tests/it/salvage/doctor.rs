//! The doctor: what a database does not say about itself, each with a code and a next step.

use super::{Journal, audited, copies, lose_two_frames, numbers};
use crate::damage::{copy, files, text};
use crate::main_job::{Place, printed};
use crate::support::program;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;

fn doctor(path: &Path) -> Output {
    program().args(["doctor", "--json"]).arg(path).output().expect("the program runs")
}

/// The codes of all findings, each of which has a sentence and a next step.
fn codes(diagnosis: &Value) -> BTreeSet<String> {
    let findings = diagnosis["findings"].as_array().expect("a list");
    for finding in findings {
        let said = |key: &str| finding[key].as_str().is_some_and(|text| !text.is_empty());
        assert!(said("message") && said("next"), "{finding}");
    }
    findings.iter().map(|finding| finding["code"].as_str().expect("a code").to_owned()).collect()
}

/// The records that the finding with this code is about.
fn about(diagnosis: &Value, code: &str) -> BTreeSet<u64> {
    let findings = diagnosis["findings"].as_array().expect("a list");
    let found = findings.iter().find(|finding| finding["code"] == code);
    numbers(&found.unwrap_or_else(|| panic!("no {code}: {diagnosis}"))["sequences"])
}

/// What is done to a journal's folder.
type Change<'a> = &'a dyn Fn(&Path);

#[test]
fn a_healthy_journal_and_its_archive_are_called_healthy_and_stay_as_they_are() {
    let place = Place::new();
    for runs in [1, 2] {
        let journal = Journal::new(&place, runs);
        let before = files(&journal.path);
        let output = doctor(&journal.path);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        let said = printed(&output);
        assert_eq!((&said["healthy"], &said["findings"]), (&json!(true), &json!([])));
        assert_eq!(said["database"]["head"], json!(journal.head));
        assert_eq!(said["raw"]["found"], json!([{ "first": 1, "last": journal.records }]));
        assert!(files(&journal.path) == before, "reading changed a file");
        let plain = program().arg("doctor").arg(&journal.path).output().expect("the program runs");
        assert_eq!(plain.status.code(), Some(0));
        assert!(text(&plain).ends_with("healthy\n"), "{}", text(&plain));
        let archive = place.path("whole");
        assert_eq!(doctor(&archive).status.code(), Some(0), "{}", text(&doctor(&archive)));
        std::fs::remove_file(archive).expect("it was there");
    }
}

#[test]
fn each_thing_that_is_wrong_with_the_files_has_a_code_and_nothing_is_changed() {
    let place = Place::new();
    let journal = Journal::new(&place, 2);
    let snapshot = std::fs::read_dir(journal.path.join("db")).expect("readable");
    let snapshot = snapshot
        .map(|entry| entry.expect("readable").file_name())
        .find(|name| name.to_string_lossy().starts_with("snap."))
        .expect("the second run made one");
    let empty = |path: &Path| std::fs::write(path, "").expect("writable");
    let wrong: [(&str, Change<'_>); 10] = [
        ("permissions_wide", &|root| open_to_all(&root.join("db").join("conf"))),
        ("foreign_files", &|root| empty(&root.join("letter.txt"))),
        ("blobs_present", &|root| empty(&root.join("db").join("blobs").join("7"))),
        ("open_leftover", &|root| empty(&root.join("db").join("snap.00FF.generating"))),
        ("file_empty", &|root| empty(&root.join("db").join(&snapshot))),
        ("file_empty", &|root| empty(&root.join("db").join("db"))),
        ("file_short", &|root| std::fs::write(root.join("db").join("conf"), "x").expect("ok")),
        ("file_missing", &|root| std::fs::remove_file(root.join("db").join("db")).expect("ok")),
        ("file_missing", &|root| std::fs::remove_dir_all(root.join("db")).expect("ok")),
        ("journal_anchor_missing", &|root| std::fs::remove_file(root.join("anchor")).expect("ok")),
    ];
    for (number, (code, damage)) in wrong.iter().enumerate() {
        let path = place.path(&format!("wrong-{number}"));
        copy(&journal.path, &path);
        damage(&path);
        let before = files(&path);
        let output = doctor(&path);
        assert_eq!(output.status.code(), Some(1), "{number} {code}: {}", text(&output));
        let said = printed(&output);
        assert!(codes(&said).contains(*code), "{number} {code}: {said}");
        assert!(files(&path) == before, "{number} {code}: reading changed a file");
    }
}

#[cfg(unix)]
fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).expect("it is ours");
}

#[test]
fn a_tail_that_was_lost_without_a_word_is_named_with_its_records() {
    let place = Place::new();
    let journal = Journal::new(&place, 1);
    journal.damage(|bytes| {
        let last = copies(bytes).last().expect("there are frames").at;
        bytes[last - 1] ^= 0x20;
    });
    let reached = audited(&journal.path)["sequence"].as_u64().expect("a number");
    let before = files(&journal.path);
    let output = doctor(&journal.path);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let said = printed(&output);
    assert_eq!(said["database"]["opens"], json!(true));
    let lost: BTreeSet<u64> = (reached + 1..=journal.records).collect();
    assert!(!lost.is_empty());
    assert_eq!(about(&said, "tail_lost"), lost);
    assert_eq!(about(&said, "journal_behind_anchor"), lost);
    assert!(!codes(&said).contains("records_missing"), "they are all in the raw bytes: {said}");
    assert!(files(&journal.path) == before, "reading changed a file");
}

#[test]
fn a_database_that_does_not_open_is_examined_all_the_same() {
    let place = Place::new();
    let journal = Journal::new(&place, 2);
    let mut lost = BTreeSet::new();
    journal.damage(|bytes| lost = lose_two_frames(bytes));
    let before = files(&journal.path);
    let output = doctor(&journal.path);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let said = printed(&output);
    assert_eq!(said["database"]["opens"], json!(false));
    assert!(codes(&said).contains("database_unopenable"), "{said}");
    assert_eq!(about(&said, "records_missing"), lost);
    let there: BTreeSet<u64> =
        (1..=journal.records).filter(|number| !lost.contains(number)).collect();
    assert_eq!(about(&said, "records_unreachable"), there);
    assert!(files(&journal.path) == before, "reading changed a file");
    let plain = program().arg("doctor").arg(&journal.path).output().expect("the program runs");
    assert!(text(&plain).contains("next: do not open it for writing"), "{}", text(&plain));
}

#[test]
fn anchors_that_are_damaged_or_of_another_journal_are_told_apart() {
    let place = Place::new();
    let journal = Journal::new(&place, 1);
    let path = place.path("flipped");
    copy(&journal.path, &path);
    let mut anchor = std::fs::read(path.join("anchor")).expect("readable");
    anchor[30] ^= 1;
    std::fs::write(path.join("anchor"), anchor).expect("writable");
    let said = printed(&doctor(&path));
    assert!(codes(&said).contains("journal_anchor_damaged"), "{said}");
    assert_eq!(said["anchor_inside"]["damaged"], json!(1));
    let other = Place::new();
    let other = Journal::new(&other, 1);
    let path = place.path("foreign");
    copy(&journal.path, &path);
    std::fs::copy(other.path.join("anchor"), path.join("anchor")).expect("copied");
    let said = printed(&doctor(&path));
    assert!(codes(&said).contains("journal_diverged"), "{said}");
    assert_eq!(said["anchor_inside"]["standing"], "other_journal");
}

#[test]
fn what_cannot_be_examined_ends_in_exit_3_with_its_code() {
    let place = Place::new();
    let journal = Journal::new(&place, 1);
    let plain = place.path("plain");
    std::fs::create_dir(&plain).expect("a folder");
    std::fs::write(plain.join("letter.txt"), "dear").expect("writable");
    let holder = std::fs::File::open(journal.path.join("lock")).expect("there");
    fs4::FileExt::try_lock(&holder).expect("nobody else holds it");
    for (path, code) in [
        (&journal.path, "journal_locked"),
        (&plain, "journal_not_a_journal"),
        (&plain.join("letter.txt"), "journal_not_a_journal"),
        (&place.path("none"), "journal_missing"),
    ] {
        let output = doctor(path);
        assert_eq!(output.status.code(), Some(3), "{code}: {}", text(&output));
        assert!(text(&output).contains(code), "{code}: {}", text(&output));
    }
}

#[test]
fn a_journal_whose_first_records_are_in_archives_is_healthy_and_says_where_they_are() {
    let place = Place::new();
    let journal = Journal::new(&place, 1);
    let older = std::fs::read(place.path("journal.anchor")).expect("it is beside the folder");
    let mut archive = program();
    archive.args(["archive", "--before", "99999999999", "--to"]).arg(place.path("archives"));
    let moved = archive.arg(&journal.path).output().expect("the program runs");
    assert_eq!(moved.status.code(), Some(0), "{}", text(&moved));
    let output = program().args(["doctor", "--json"]).arg(&journal.path).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let said = printed(&output);
    let archived = said["database"]["archived"].as_u64().expect("a number");
    assert_eq!(archived + said["database"]["records"].as_u64().expect("a number"), journal.records);
    assert_eq!(said["anchor_inside"]["standing"], "reached");
    let output = program().arg("doctor").arg(&journal.path).output().expect("it runs");
    assert!(text(&output).contains(&format!("records 1 to {archived} are in archives")));
    // What an anchor from before them says, only the archives can tell: it is no alarm, as in the audit.
    std::fs::write(place.path("journal.anchor"), older).expect("writable");
    for command in ["doctor", "audit"] {
        let output = program().arg(command).arg(&journal.path).output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{command}: {}", text(&output));
    }
}
