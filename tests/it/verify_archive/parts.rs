//! The archives of one journal, read in their order: the script goes on from one to the next as the
//! audit does.

use super::{called, ended, program, python, told};
use crate::main_job::Place;
use crate::support::example;
use serde_json::Value;
use std::path::Path;

fn fine(arguments: &[&str], folder: &Path) {
    let output = program().args(arguments).current_dir(folder).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What the script says of these files, in this order, and its exit code; `None` without python3.
fn script(files: &[&Path]) -> Option<(Option<i32>, Value)> {
    let mut command = python();
    command.arg(example("verify_archive.py")).arg("--json").args(files);
    let output = ended(&mut command, String::new())?;
    let said = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    Some((output.status.code(), said))
}

#[test]
fn the_archives_of_one_journal_are_one_history_to_both() {
    let place = Place::new();
    let folder = place.path("");
    let documents = example("changes.ndjson");
    fine(&["run", "--sandbox", "--journal", "journal", &documents], &folder);
    let until = told("audit", &place.path("journal"))["sequence"].as_u64().expect("a number");
    fine(&["archive", "journal", "--to", "archives", "--before", "99999999999"], &folder);
    fine(&["export", "journal", "live.leasehold"], &folder);
    let first = std::fs::read_dir(place.path("archives")).expect("a folder").next();
    let first = first.expect("an archive").expect("readable").path();
    let live = place.path("live.leasehold");
    let Some((code, report)) = script(&[&first, &live]) else { return };
    let mut audit = program();
    audit.args(["audit", "--json", "--archives"]).arg(place.path("archives"));
    let audit = audit.arg(place.path("journal")).output().expect("it runs");
    assert_eq!((code, audit.status.code()), (Some(0), Some(0)));
    let audit: Value = serde_json::from_slice(&audit.stdout).expect("JSON");
    for member in ["clean", "journal", "head", "sequence", "records", "frames", "flows"] {
        assert_eq!(report[member], audit[member], "{member}");
    }
    assert_eq!(report["sequence"], until);
    // A later part alone, or in another order, is nothing; a changed byte in either is found.
    assert_eq!(script(&[&live]).expect("python3 is there").0, Some(3));
    assert_eq!(script(&[&live, &first]).expect("python3 is there").0, Some(3));
    assert!(called(&first, &[]).is_some_and(|report| report["clean"] == true));
    for (changed, files) in [(&first, [&first, &live]), (&live, [&first, &live])] {
        let sound = std::fs::read(changed).expect("readable");
        let mut bytes = sound.clone();
        let last = bytes.len() - 60;
        bytes[last] ^= 1;
        std::fs::write(changed, bytes).expect("writable");
        let (code, report) = script(&files.map(|file| file.as_path())).expect("python3 is there");
        assert_eq!((code, &report["clean"]), (Some(1), &false.into()));
        std::fs::write(changed, sound).expect("writable");
    }
}
