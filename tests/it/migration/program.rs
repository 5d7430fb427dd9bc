//! The program: `import-sqlite`, and what the other commands say of a journal it wrote.

use super::{Changed, here};
use crate::main_job::{Place, printed};
use crate::support::{example, program};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const COMPONENTS: [&str; 4] = ["dispatch", "lifecycle", "processing", "delivery"];

fn stores() -> Vec<PathBuf> {
    COMPONENTS.iter().map(|name| here().join(format!("{name}-7-000.sqlite"))).collect()
}

fn imports(files: &[PathBuf], journal: &Path, more: &[&str]) -> Output {
    let mut command = program();
    command.arg("import-sqlite").args(files).arg("--journal").arg(journal).args(more);
    command.output().expect("the program runs")
}

fn said(arguments: &[&str], path: &Path, more: &[&str]) -> (Option<i32>, String) {
    let output = program().args(arguments).arg(path).args(more).output().expect("it runs");
    (output.status.code(), String::from_utf8(output.stdout).expect("text"))
}

/// Where a line with this beginning goes on.
fn line<'a>(text: &'a str, name: &str) -> &'a str {
    let found = text.lines().find_map(|line| line.trim().strip_prefix(name));
    found.unwrap_or_else(|| panic!("no {name} in {text}"))
}

#[test]
fn four_stores_become_one_journal_that_every_other_command_reads() {
    let place = Place::new();
    let journal = place.path("journal");
    let report = printed(&imports(&stores(), &journal, &["--json"]));
    for component in COMPONENTS {
        let counts = &report["components"][component];
        assert!(counts["imported"].as_u64() > Some(0), "{component}");
        assert_eq!((&counts["conflicts"], &counts["damaged"]), (&0.into(), &0.into()));
    }
    assert_eq!((&report["left_out"], &report["dry_run"]), (&Value::Array(vec![]), &false.into()));
    let (code, audit) = said(&["audit", "--json"], &journal, &[]);
    let audit: Value = serde_json::from_str(&audit).expect("JSON");
    assert_eq!((code, &audit["clean"], &audit["head"]), (Some(0), &true.into(), &report["head"]));
    let archive = place.path("archive");
    let out = archive.display().to_string();
    assert_eq!(said(&["export"], &journal, &[&out]).0, Some(0));
    let (code, verified) = said(&["verify", "--json"], &archive, &[]);
    assert_eq!(code, Some(0), "{verified}");
    let mut script = Command::new("python3");
    script.args(["-B", &example("verify_archive.py"), "--json"]).arg(&archive);
    if let Ok(script) = script.output() {
        let theirs = printed(&script);
        for member in ["clean", "head", "records", "flows"] {
            assert_eq!(theirs[member], audit[member], "{member}");
        }
    }
    let again = printed(&imports(&stores(), &journal, &["--json"]));
    assert_eq!(again["head"], report["head"]);
    let total = |report: &Value, member: &str| -> u64 {
        let counts = COMPONENTS.map(|it| report["components"][it][member].as_u64().unwrap_or(0));
        counts.iter().sum()
    };
    assert_eq!(
        (total(&again, "imported"), total(&again, "unchanged")),
        (0, total(&report, "imported"))
    );
}

#[test]
fn show_explain_and_report_say_that_a_record_came_from_elsewhere() {
    let place = Place::new();
    let journal = place.path("journal");
    assert_eq!(imports(&stores(), &journal, &[]).status.code(), Some(0));
    let told = "in another program; attempts made there, which are not in this journal: 1";
    let (_, shown) = said(&["show"], &journal, &["dispatch", "evt-0"]);
    assert!(shown.contains("imported   as ") && shown.contains(told), "{shown}");
    let (_, shown) = said(&["show", "--json"], &journal, &["dispatch", "evt-0"]);
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    let event = &shown["events"][0];
    assert_eq!((&event["event"], &event["error_code"]), (&"imported".into(), &Value::Null));
    assert_eq!(event["imported"]["state"], shown["status"]["status"]);
    assert_eq!(event["imported"]["row_sha256"].as_str().map(str::len), Some(64));
    let (_, explained) = said(&["explain"], &journal, &["dispatch", "evt-0"]);
    assert!(line(&explained, "imported").contains(told), "{explained}");
    let page = place.path("report.html");
    let out = page.display().to_string();
    said(&["report"], &journal, &["--output", &out]);
    let text = std::fs::read_to_string(page).expect("a report");
    assert!(text.contains("Imported records: "));
}

#[test]
fn what_was_imported_can_be_archived_and_is_known_again_afterwards() {
    let place = Place::new();
    let (journal, archives) = (place.path("journal"), place.path("archives"));
    let first = printed(&imports(&stores(), &journal, &["--json"]));
    let to = archives.display().to_string();
    let (code, text) = said(&["archive"], &journal, &["--to", &to, "--before", "99999999999"]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(said(&["audit"], &journal, &["--archives", &to]).0, Some(0));
    let again = printed(&imports(&stores(), &journal, &["--json"]));
    assert_eq!((&again["head"], &again["left_out"]), (&first["head"], &first["left_out"]));
    let (code, shown) = said(&["show"], &journal, &["dispatch", "evt-0", "--archives", &to]);
    assert!(code == Some(0) && shown.contains("imported   as "), "{shown}");
}

#[test]
fn a_dry_run_makes_no_journal_and_changes_none() {
    let place = Place::new();
    let journal = place.path("journal");
    let look = imports(&stores(), &journal, &["--dry-run"]);
    let text = String::from_utf8(look.stdout).expect("text");
    assert!(look.status.success() && line(&text, "dispatch: ").contains(" to import, 0 unchanged"));
    assert!(!journal.exists());
    assert!(imports(&stores()[..1], &journal, &[]).status.success());
    let (_, before) = said(&["audit", "--json"], &journal, &[]);
    let look = printed(&imports(&stores(), &journal, &["--dry-run", "--json"]));
    assert_eq!(look["components"]["dispatch"]["imported"], 0);
    assert!(look["components"]["delivery"]["imported"].as_u64() > Some(0));
    assert_eq!(said(&["audit", "--json"], &journal, &[]).1, before);
}

#[test]
fn what_is_left_out_is_named_and_ends_in_exit_1() {
    let place = Place::new();
    let store = Changed::of("dispatch-7-000.sqlite");
    store.run("UPDATE cms_source_change_outbox SET attempts = -1 WHERE event_id = 'evt-0'");
    let output = imports(&[store.path()], &place.path("journal"), &[]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(1));
    let named = line(&text, "left out: dispatch evt-0: damaged, attempts_invalid (row ");
    assert!(named.contains(" of "), "{text}");
    assert!(line(&text, "dispatch: ").ends_with("1 damaged"));
}

#[test]
fn a_store_that_is_refused_ends_in_exit_3_before_anything_is_written() {
    let place = Place::new();
    let (journal, newer) = (place.path("journal"), Changed::of("delivery-7-000.sqlite"));
    newer.run("UPDATE cms_source_delivery_meta SET schema_version = 2");
    for (path, code) in
        [(newer.path(), "schema_newer: "), (place.path("nowhere"), "source_unreadable: ")]
    {
        let output = imports(&[stores()[0].clone(), path], &journal, &[]);
        let text = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(3));
        assert!(text.contains(code), "{text}");
        assert!(!journal.exists());
    }
    for arguments in [&["import-sqlite"][..], &["import-sqlite", "store"]] {
        let output = program().args(arguments).output().expect("the program runs");
        assert_eq!(output.status.code(), Some(2));
    }
}
