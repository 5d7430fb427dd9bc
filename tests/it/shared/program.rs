//! The program on a journal that lies on a server, and journals that move from one store to the other.

use crate::postgres::cluster;
use crate::support::{example, program};
use serde_json::Value;
use std::process::Output;

fn said(arguments: &[&str]) -> Output {
    program().args(arguments).output().expect("the program starts")
}

/// What a command that ends well prints.
fn fine(arguments: &[&str]) -> String {
    let output = said(arguments);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).expect("text")
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&fine(arguments)).expect("JSON")
}

/// How a command fails: its exit code and the code it names.
fn failed(arguments: &[&str]) -> (Option<i32>, String) {
    let output = said(arguments);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let code = stderr.trim_start_matches("leasehold: ").split([':', ' ', '\n']).next();
    (output.status.code(), code.unwrap_or_default().to_owned())
}

#[test]
fn every_command_works_on_a_server_and_its_readers_disturb_nobody() {
    let Some(cluster) = cluster() else { return };
    let url = cluster.url();
    let changes = example("changes.ndjson");
    fine(&["run", &changes, "--sandbox", "--journal", &url]);
    let again = fine(&["run", &changes, "--sandbox", "--journal", &url]);
    assert!(again.contains("known"), "{again}");
    assert!(fine(&["health", &url]).contains("succeeded"));
    assert!(fine(&["list", &url, "--flow", "dispatch"]).contains("help-0001"));
    assert!(fine(&["show", &url, "dispatch", "help-0001"]).contains("completed"));
    assert!(!fine(&["explain", &url, "dispatch", "help-0001"]).is_empty());
    assert!(fine(&["audit", &url]).contains("clean"));
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report.html").display().to_string();
    fine(&["report", &url, "-o", &report]);
    assert!(fine(&["replay", &url, "--until", "5"]).contains('5'));
    let who = ["--by", "maria", "--why", "the CMS is being moved"];
    fine(&[&["pause", &url, "--destination", "cms"][..], &who].concat());
    assert!(fine(&["health", &url]).contains("paused"));
    fine(&[&["resume", &url, "--destination", "cms"][..], &who].concat());
    fine(&[&["requeue", &url, "--all"][..], &who].concat());
    assert_eq!(failed(&["doctor", &url]).0, Some(2));
}

#[test]
fn a_journal_moves_to_a_server_and_back_and_is_the_same_to_the_last_hash() {
    let Some(cluster) = cluster() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (first, last, url) = (path("first"), path("last"), cluster.url());
    fine(&["run", &example("changes.ndjson"), "--sandbox", "--journal", &first]);
    let (there, back) = (path("there.leasehold"), path("back.leasehold"));
    let head = fine(&["export", &first, &there]);
    assert_eq!(fine(&["import", &there, "--journal", &url]), head);
    assert_eq!(fine(&["export", &url, &back]), head);
    assert_eq!(fine(&["import", &back, "--journal", &last]), head);
    let bytes = |path: &str| std::fs::read(path).expect("readable");
    assert_eq!(bytes(&there), bytes(&back));
    let health = json(&["health", &first, "--json"]);
    let audited = |place: &str| json(&["audit", place, "--json"])["clean"].clone();
    for place in [&first, &url, &last] {
        assert_eq!(json(&["health", place, "--json"]), health);
        assert_eq!(audited(place), true);
        assert_eq!(fine(&["list", place]), fine(&["list", &first]));
    }
    // It goes on where it is.
    fine(&["run", &example("changes.ndjson"), "--sandbox", "--journal", &last]);
    assert_eq!(failed(&["import", &there, "--journal", &url]), code(3, "journal_not_empty"));
    let part = path("no-archive");
    std::fs::write(&part, "nothing").expect("writable");
    let refused = failed(&["import", &part, "--journal", &path("new")]);
    assert_eq!(refused, code(3, "journal_not_a_journal"));
}

#[test]
fn old_history_moves_to_an_archive_while_no_engine_is_there_and_the_chain_goes_on() {
    let Some(cluster) = cluster() else { return };
    let (url, folder) = (cluster.url(), tempfile::tempdir().expect("a folder"));
    let to = folder.path().join("archives").display().to_string();
    let changes = example("changes.ndjson");
    fine(&["run", &changes, "--sandbox", "--journal", &url]);
    let (before, health) = (fine(&["list", &url]), json(&["health", &url, "--json"]));
    let arguments = ["archive", &url, "--to", &to, "--older-than", "0"];
    assert!(fine(&[&arguments[..], &["--dry-run"]].concat()).contains("would move"));
    let place = leasehold::PostgresPlace::parse(&url).expect("a URL");
    let other = leasehold_journal::postgres::PostgresMedium::open(&place, false);
    assert_eq!(failed(&arguments), code(3, "journal_locked"));
    drop(other);
    assert!(fine(&arguments).contains("moved to"));
    assert_eq!((fine(&["list", &url]), json(&["health", &url, "--json"])), (before, health));
    assert!(fine(&["audit", &url, "--archives", &to]).contains("clean"));
    let again = fine(&["run", &changes, "--sandbox", "--journal", &url]);
    assert!(again.contains("known"), "{again}");
    assert_eq!(json(&["audit", &url, "--archives", &to, "--json"])["clean"], true);
}

#[test]
fn a_url_that_says_too_much_or_names_nothing_is_refused_with_what_to_do() {
    let Some(cluster) = cluster() else { return };
    let url = cluster.url();
    let secret = url.replace("leasehold@", "leasehold:secret@");
    let output = said(&["health", &secret]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("journal_url_password"), "{stderr}");
    assert!(!stderr.contains("secret@"), "{stderr}");
    assert_eq!(failed(&["health", &url]), code(3, "journal_missing"));
    let nobody = "postgres://leasehold@127.0.0.1:1/site";
    assert_eq!(failed(&["health", nobody]), code(3, "storage_unreachable"));
    assert_eq!(
        failed(&["health", "postgres://x/y?sslmode=disable"]),
        code(3, "journal_url_invalid")
    );
}

fn code(exit: i32, name: &str) -> (Option<i32>, String) {
    (Some(exit), name.to_owned())
}
