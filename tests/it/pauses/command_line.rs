//! `leasehold pause` and `resume`, and what the other commands show of it.

use super::{change_of, pause};
use crate::main_job::{Place, printed};
use crate::support::{change, program, run};
use leasehold::{Engine, ManualClock};
use serde_json::Value;
use std::process::Output;

/// 2023-11-14T22:13:20Z.
const START: f64 = 1_700_000_000.0;
const BY: [&str; 4] = ["--by", "maria", "--why", "it is being mended"];

fn leasehold(place: &Place, arguments: &[&str]) -> Output {
    let mut command = program();
    command.args(arguments).current_dir(place.path(""));
    command.output().expect("the program runs")
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn noticed(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

fn with_by<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [arguments, &BY[..]].concat()
}

/// A journal with a change of each of two sites.
async fn two_sites(place: &Place) -> Engine {
    let builder = Engine::builder(place.path("journal")).clock(ManualClock::at(START));
    let engine = builder.open().await.expect("it opens");
    engine.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
    engine.dispatch().enqueue(change_of("site-2", "event-2"), 5).await.expect("it is valid");
    engine
}

fn head(place: &Place) -> Value {
    printed(&leasehold(place, &["audit", "journal", "--json"]))["head"].clone()
}

#[test]
fn the_program_pauses_and_resumes_a_scope_and_says_what_waits() {
    let place = Place::new();
    run(async { two_sites(&place).await.close().await });
    let before = head(&place);
    for (scope, waits) in [
        (["--flow", "dispatch"], "flow/dispatch would be paused; records of it that wait: 2"),
        (["--site", "site-2"], "site/site-2 would be paused; records of it that wait: 1"),
        (
            ["--destination", "source"],
            "destination/source would be paused; records of it that wait: 0",
        ),
    ] {
        let dry = [&["pause", "journal", "--dry-run"], &scope[..]].concat();
        let dry = leasehold(&place, &dry);
        assert_eq!((dry.status.code(), text(&dry)), (Some(0), format!("{waits}\n")));
    }
    let not_paused = leasehold(&place, &["resume", "journal", "--site", "site-2", "--dry-run"]);
    assert_eq!(text(&not_paused), "site/site-2 is not paused; records of it that wait: 1\n");
    assert_eq!(head(&place), before, "nothing was written");
    let pause = with_by(&["pause", "journal", "--site", "site-2"]);
    let done = leasehold(&place, &pause);
    let waits = "records of it that wait: 1\n";
    assert_eq!(
        (done.status.code(), text(&done)),
        (Some(0), format!("site/site-2 paused; {waits}"))
    );
    let paused = head(&place);
    assert_ne!(paused, before);
    let again = leasehold(&place, &pause);
    assert_eq!(text(&again), format!("site/site-2 is paused already; {waits}"));
    assert_eq!(head(&place), paused, "twice is once");
    let resume = with_by(&["resume", "journal", "--site", "site-2", "--json"]);
    let outcome = printed(&leasehold(&place, &resume));
    let expected = serde_json::json!({
        "scope": "site/site-2", "changed": true, "waiting": 1, "dry_run": false,
    });
    assert_eq!(outcome, expected);
    assert_eq!(leasehold(&place, &["audit", "journal"]).status.code(), Some(0));
}

#[test]
fn what_is_paused_is_shown_with_who_and_why_beside_what_it_holds_back() {
    let place = Place::new();
    run(async {
        let engine = two_sites(&place).await;
        pause(&engine, "site/site-2").await;
        engine.close().await;
    });
    let line = "paused: site/site-2 since 2023-11-14T22:13:20Z, by maria: it is being mended";
    let health = leasehold(&place, &["health", "journal"]);
    assert_eq!(health.status.code(), Some(0), "a pause is no trouble");
    assert!(text(&health).lines().any(|shown| shown == line), "{}", text(&health));
    let told = printed(&leasehold(&place, &["health", "journal", "--json"]));
    let paused = serde_json::json!([{
        "scope": "site/site-2", "since": START, "by": "maria", "why": "it is being mended",
    }]);
    assert_eq!((&told["paused"], &told["dispatch"]["due"]), (&paused, &2.into()));
    let list = leasehold(&place, &["list", "journal"]);
    assert!(noticed(&list).contains(line) && !text(&list).contains("paused"));
    let held = leasehold(&place, &["show", "journal", "dispatch", "event-2"]);
    assert!(text(&held).contains(line), "{}", text(&held));
    let held = printed(&leasehold(&place, &["show", "journal", "dispatch", "event-2", "--json"]));
    assert_eq!(held["paused"], paused);
    let other = leasehold(&place, &["show", "journal", "dispatch", "event-1"]);
    assert!(!text(&other).contains("paused"));
    let past = leasehold(&place, &["replay", "journal", "--until", "4"]);
    assert!(text(&past).contains(line), "{}", text(&past));
    let earlier = leasehold(&place, &["replay", "journal", "--until", "2", "--json"]);
    assert_eq!(printed(&earlier).get("paused"), None);
    let counted = leasehold(&place, &["audit", "journal"]);
    assert!(text(&counted).contains("control: paused 1\n"), "{}", text(&counted));
    let export = leasehold(&place, &["export", "journal", "out.leasehold"]);
    assert_eq!(export.status.code(), Some(0));
    let archived = leasehold(&place, &["health", "out.leasehold"]);
    assert!(text(&archived).contains(line));
    let salvage = ["salvage", "journal", "s.leasehold", "--into-journal", "again"];
    assert_eq!(leasehold(&place, &salvage).status.code(), Some(0));
    assert!(text(&leasehold(&place, &["health", "again"])).contains(line));
}

#[test]
fn a_run_leaves_what_is_paused_and_says_so() {
    let place = Place::new();
    let file = place.path("some.ndjson");
    let changes = [change("event-1"), change_of("site-2", "event-2")];
    std::fs::write(&file, changes.join("\n")).expect("writable");
    run(async {
        let builder = Engine::builder(place.path("journal")).clock(ManualClock::at(START));
        let engine = builder.open().await.expect("it opens");
        pause(&engine, "site/site-2").await;
        engine.close().await;
    });
    let delivered = ["run", "--sandbox", "some.ndjson", "--journal", "journal", "--json"];
    let first = leasehold(&place, &delivered);
    let summary = printed(&first);
    assert_eq!(first.status.code(), Some(1), "{}", noticed(&first));
    assert_eq!((&summary["succeeded"], &summary["unsettled"]), (&1.into(), &1.into()));
    assert!(noticed(&first).contains("paused: site/site-2 since"), "{}", noticed(&first));
    let resumed = leasehold(&place, &with_by(&["resume", "journal", "--site", "site-2"]));
    assert_eq!(resumed.status.code(), Some(0));
    let second = leasehold(&place, &delivered);
    assert_eq!((second.status.code(), &printed(&second)["succeeded"]), (Some(0), &2.into()));
}

#[test]
fn a_pause_without_a_scope_a_good_name_or_a_reason_is_refused_as_usage() {
    let place = Place::new();
    run(async { two_sites(&place).await.close().await });
    let before = head(&place);
    for wrong in [
        with_by(&["pause", "journal"]),
        with_by(&["pause", "journal", "--flow", "dispatch", "--site", "site-1"]),
        with_by(&["pause", "journal", "--flow", "everything"]),
        with_by(&["pause", "journal", "--destination", "dispatch"]),
        with_by(&["pause", "journal", "--site", "a b"]),
        vec!["pause", "journal", "--site", "site-1", "--why", "because"],
        vec!["resume", "journal", "--site", "site-1", "--by", "maria"],
        vec!["pause", "journal", "--site", "site-1", "--by", "maria k", "--why", "because"],
        vec!["resume", "journal", "--site", "site-1", "--by", "maria", "--why", " "],
    ] {
        assert_eq!(leasehold(&place, &wrong).status.code(), Some(2), "{wrong:?}");
    }
    assert_eq!(head(&place), before);
    let nowhere = leasehold(&place, &with_by(&["pause", "nowhere", "--site", "site-1"]));
    assert_eq!(nowhere.status.code(), Some(3));
    assert!(!place.path("nowhere").exists());
}

#[test]
fn a_journal_that_an_engine_has_open_is_paused_by_that_engine_alone() {
    let place = Place::new();
    run(async {
        let engine = two_sites(&place).await;
        for command in ["pause", "requeue"] {
            let scope: &[&str] =
                if command == "pause" { &["--site", "site-1"] } else { &["--all"] };
            let refused = leasehold(&place, &with_by(&[&[command, "journal"], scope].concat()));
            assert_eq!(refused.status.code(), Some(3), "{command}");
            assert!(noticed(&refused).contains("journal_locked"), "{}", noticed(&refused));
        }
        assert_eq!(engine.paused(), []);
        engine.close().await;
    });
}

#[test]
fn who_and_why_show_in_no_log_and_in_no_debug_form() {
    let place = Place::new();
    let logged = |arguments: &[&str]| {
        let mut command = program();
        command.args(arguments).current_dir(place.path("")).env("RUST_LOG", "trace");
        noticed(&command.output().expect("the program runs"))
    };
    run(async {
        let builder = Engine::builder(place.path("journal")).clock(ManualClock::at(START));
        let engine = builder.open().await.expect("it opens");
        engine.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
        let scope = leasehold::Scope::new("flow/dispatch").expect("a scope");
        let paused = engine.pause(scope, "canary", "canary reason").await.expect("it is");
        let shown = format!("{paused:?} {:?} {engine:?}", engine.paused());
        assert!(!shown.contains("canary"), "{shown}");
        assert!(engine.dispatch().claim("w", 60.0).await.expect("it answers").is_none());
        engine.close().await;
    });
    let (by, why) = (["--by", "canary"], ["--why", "canary reason"]);
    let mut said = String::new();
    for command in ["pause", "resume", "pause"] {
        let command = [&[command, "journal", "--destination", "cms"], &by[..], &why[..]].concat();
        said += &logged(&command);
    }
    for command in ["audit", "health", "replay"] {
        let until: &[&str] = if command == "replay" { &["--until", "3"] } else { &[] };
        said += &logged(&[&[command, "journal"], until].concat());
    }
    let wrong = ["--by", "canary canary", "--why", "canary"];
    said += &logged(&[&["pause", "journal", "--site", "site-1"], &wrong[..]].concat());
    assert!(said.contains("usage: ") && !said.contains("canary"), "{said}");
}
