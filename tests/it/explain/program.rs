//! `leasehold explain` on journals and archives of a real engine.

use crate::main_job::{Place, printed};
use crate::support::{Scripted, accepted, change, example, marked, program, run};
use crate::wire_flows::{self, DIGEST, answering, attempt, delivery};
use leasehold::{Engine, ManualClock, MemoryDisk, Scope, SourceRuntime, retention};
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::record::{FlowTag, stream_of};
use leasehold_journal::medium::Medium;
use leasehold_journal::sled::SledMedium;
use leasehold_journal::{Append, Durability, JournalId, Log, LogOptions, Store as _, archive};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Output;

const START: f64 = 1_700_000_000.0;

/// A cancellation of the change with this id.
fn cancellation(event_id: &str) -> String {
    json!({
        "schema": "blun.cms-content-cancellation.v1",
        "cancellation_id": format!("cancel-{event_id}"),
        "event_id": event_id,
        "site_id": "site-1",
        "website_version": "web-1",
        "source_id": "landing.intro",
        "source_sequence": 1,
    })
    .to_string()
}

fn leasehold(arguments: &[&str]) -> Output {
    program().args(arguments).output().expect("the program runs")
}

fn explained(path: &Path, flow: &str, id: &str, more: &[&str]) -> Value {
    let path = path.display().to_string();
    let output = leasehold(&[&["explain", &path, flow, id, "--json"], more].concat());
    printed(&output)
}

fn archived(disk: &MemoryDisk, place: &Place) -> PathBuf {
    let (path, mut bytes) = (place.path("journal.leasehold"), Vec::new());
    archive::export(&disk.medium(), &mut bytes).expect("it verifies");
    std::fs::write(&path, bytes).expect("writable");
    path
}

#[test]
fn a_removal_waits_for_its_change_and_no_longer_when_that_is_settled() {
    let (disk, clock, place) = (MemoryDisk::new(), ManualClock::at(START), Place::new());
    run(async {
        let engine = wire_flows::engine(&disk, &clock).await;
        let flow = engine.delivery();
        flow.enqueue_change(change("event-1"), 5, 5).await.expect("it is valid");
        flow.enqueue_removal(cancellation("event-1"), 5, 5).await.expect("it is valid");
        engine.close().await;
    });
    let id = "cancellation/cancel-event-1";
    let path = archived(&disk, &place);
    let found = explained(&path, "delivery", id, &[]);
    assert_eq!(found["waits_for"], json!({ "kind": "change", "id": "change/event-1" }));
    assert_eq!([&found["rule"]["id"], &found["changes"]], ["D5", "other_settles"]);
    assert_eq!(found["changes_at"], Value::Null);
    run(async {
        let engine = wire_flows::engine(&disk, &clock).await;
        attempt(engine.delivery(), &answering(|request| delivery(&request))).await;
        engine.close().await;
    });
    let found = explained(&archived(&disk, &place), "delivery", id, &[]);
    assert_eq!([&found["waits_for"]["kind"], &found["changes"]], ["first_attempt", "next_claim"]);
}

#[test]
fn a_back_off_says_after_what_how_often_and_exactly_when_it_ends() {
    let (disk, clock, place) = (MemoryDisk::new(), ManualClock::at(START), Place::new());
    run(async {
        let engine = wire_flows::engine(&disk, &clock).await;
        engine.dispatch().enqueue(change("event-1"), 4).await.expect("it is valid");
        for _ in 0..2 {
            let client = Scripted::new([Err(marked("cms.unavailable", true))]);
            let flow = engine.dispatch();
            flow.run_once(&client, "w", 60.0).await.expect("it runs").expect("it is due");
            let next = flow.status("event-1").await.expect("it is there").next_attempt_at;
            clock.set(next);
        }
        engine.close().await;
    });
    let path = archived(&disk, &place);
    // Failed at START and at START + 5, so it waits for 10 more seconds.
    let found = explained(&path, "dispatch", "event-1", &["--as-of", "1700000007"]);
    assert_eq!(found["waits_for"], json!({ "kind": "back_off", "error_code": "cms.unavailable" }));
    assert_eq!(found["used"], json!({ "counted": "attempts", "used": 2, "max": 4 }));
    assert_eq!(
        (&found["since"], &found["changes_at"]),
        (&json!(START + 5.0), &json!(START + 15.0))
    );
    assert_eq!(found["changes"], "at_its_time");
    let found = explained(&path, "dispatch", "event-1", &["--as-of", "1700000015"]);
    assert_eq!(found["changes"], "next_claim");
    let text = leasehold(&[
        "explain",
        &path.display().to_string(),
        "dispatch",
        "event-1",
        "--as-of",
        "1700000007",
    ]);
    let text = String::from_utf8(text.stdout).expect("text");
    assert!(text.contains("2023-11-14T22:13:35Z (in 8 s)"), "{text}");
}

#[test]
fn an_unknown_id_is_the_same_error_as_in_show() {
    let (disk, clock, place) = (MemoryDisk::new(), ManualClock::at(START), Place::new());
    run(async { wire_flows::engine(&disk, &clock).await.close().await });
    let path = archived(&disk, &place).display().to_string();
    let ends = ["show", "explain"].map(|verb| leasehold(&[verb, &path, "dispatch", "nobody"]));
    let [show, explain] = ends.map(|output| (output.status.code(), output.stdout, output.stderr));
    assert_eq!(show, explain);
    assert_eq!(explain.0, Some(1));
    let missing = leasehold(&["explain", "no-such-journal", "dispatch", "nobody"]);
    assert_eq!(missing.status.code(), Some(3));
    let usage = leasehold(&["explain", &path, "dispatch", "nobody", "--as-of", "-1"]);
    assert_eq!(usage.status.code(), Some(2));
}

#[test]
fn a_settled_change_is_followed_from_flow_to_flow_by_the_commands_that_are_named() {
    let place = Place::new();
    let journal = place.path("journal");
    let name = journal.display().to_string();
    let run = leasehold(&["run", "--sandbox", &example("changes.ndjson"), "--journal", &name]);
    assert_eq!(run.status.code(), Some(0));
    let mut passed = Vec::new();
    let mut found = explained(&journal, "dispatch", "hut-0001", &[]);
    loop {
        passed.push(found["flow"].as_str().expect("a name").to_owned());
        assert_eq!(found["waits_for"]["kind"], "nothing");
        let Some(command) = found["actions"][0]["command"].as_str().map(ToOwned::to_owned) else {
            break;
        };
        assert_eq!(found["waits_for"]["next"]["id"], "hut-0001");
        let words: Vec<&str> = command.split(' ').skip(1).chain(["--json"]).collect();
        found = printed(&leasehold(&words));
    }
    assert_eq!(passed, ["dispatch", "lifecycle", "notification", "processing"]);
    assert_eq!(found["rule"]["id"], "contract 4");
}

/// A journal's folder with a failed change and one under a digest that is not pinned any more.
fn troubled(place: &Place) -> PathBuf {
    let journal = place.path("journal");
    run(async {
        let source =
            SourceRuntime { capabilities_sha256: DIGEST.to_owned(), longest_call_seconds: 10.0 };
        let builder = Engine::builder(&journal).clock(ManualClock::at(START));
        let engine = builder.source_runtime(source).open().await.expect("it opens");
        engine.dispatch().enqueue(change("event-1"), 1).await.expect("it is valid");
        let client = Scripted::new([Err(marked("network", true)), Ok(accepted("event-1", 2))]);
        engine.dispatch().run_once(&client, "w", 60.0).await.expect("it runs").expect("due");
        engine.delivery().enqueue_change(change("event-2"), 5, 5).await.expect("it is valid");
        engine.close().await;
    });
    journal
}

#[test]
fn d12_what_is_paused_is_waited_for_until_the_command_that_is_named_resumes_it() {
    let place = Place::new();
    let journal = place.path("journal");
    run(async {
        let builder = Engine::builder(&journal).clock(ManualClock::at(START));
        let engine = builder.open().await.expect("it opens");
        engine.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
        for scope in ["site/site-1", "site/site-2", "destination/cms"] {
            let scope = Scope::new(scope).expect("a scope");
            engine.pause(scope, "maria", "it is being mended").await.expect("it is");
        }
        engine.close().await;
    });
    let waits = || explained(&journal, "dispatch", "event-1", &[]);
    let found = waits();
    assert_eq!(
        (&found["waits_for"], &found["changes"]),
        (&json!({ "kind": "pause" }), &json!("operator"))
    );
    assert_eq!(found["rule"]["id"], "D12");
    let by = json!({ "scope": "destination/cms", "since": START, "by": "maria", "why": "it is being mended" });
    assert_eq!((&found["paused"][0], &found["paused"][1]["scope"]), (&by, &json!("site/site-1")));
    assert_eq!(
        found["paused"].as_array().map(Vec::len),
        Some(2),
        "another site's pause is none of it"
    );
    typed(&found["actions"][0]);
    let found = waits();
    assert_eq!(found["paused"].as_array().map(Vec::len), Some(1), "the other one still keeps it");
    typed(&found["actions"][0]);
    let free = waits();
    assert_eq!([&free["waits_for"]["kind"], &free["changes"]], ["first_attempt", "next_claim"]);
    assert_eq!(free["paused"], json!([]));
}

#[test]
fn leases_lost_in_a_row_are_told_of_how_many_when_a_configuration_says() {
    let (disk, clock, place) = (MemoryDisk::new(), ManualClock::at(START), Place::new());
    run(async {
        let first = Engine::in_memory(&disk).clock(clock.clone()).open().await.expect("it opens");
        first.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
        first.dispatch().claim("w", 60.0).await.expect("a claim").expect("due");
        drop(first);
        let second = Engine::in_memory(&disk).clock(clock.clone()).open().await.expect("it opens");
        second.close().await;
    });
    let (path, config) = (archived(&disk, &place), example("leasehold.toml"));
    let found = explained(&path, "dispatch", "event-1", &[]);
    assert_eq!(found["lost_leases"], json!({ "lost": 1, "max": null }));
    let found = explained(&path, "dispatch", "event-1", &["--config", &config]);
    assert_eq!(found["lost_leases"], json!({ "lost": 1, "max": 5 }));
    assert_eq!(found["waits_for"]["kind"], "back_off");
}

/// Types a command that was named, with the words in capitals filled in.
fn typed(action: &Value) {
    let command = action["command"].as_str().expect("a command");
    let words: Vec<String> = command
        .split(' ')
        .skip(1)
        .map(|word| word.replace("NAME", "maria").replace("REASON", "mended"))
        .collect();
    let output = program().args(&words).output().expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{command}: {said}");
}

#[test]
fn d9_d12_the_commands_that_are_named_do_what_is_said_of_them() {
    let place = Place::new();
    let journal = troubled(&place);
    let failed = explained(&journal, "dispatch", "event-1", &[]);
    assert_eq!(failed["waits_for"]["because"], "ceiling_reached");
    typed(&failed["actions"][1]);
    let let_be = explained(&journal, "dispatch", "event-1", &[]);
    assert_eq!([&let_be["waits_for"]["kind"], &let_be["rule"]["id"]], ["let_be", "D12"]);
    typed(&let_be["actions"][0]);
    let again = explained(&journal, "dispatch", "event-1", &[]);
    assert_eq!([&again["state"], &again["waits_for"]["kind"]], ["pending", "first_attempt"]);
    // The example pins the sandbox's digest, which is another one.
    let (id, config) = ("change/event-2", example("leasehold.toml"));
    let unknown = explained(&journal, "delivery", id, &[]);
    assert_eq!(
        (&unknown["digest_unknown"], &unknown["changes"]),
        (&json!(true), &json!("next_claim"))
    );
    let held = explained(&journal, "delivery", id, &["--config", &config]);
    assert_eq!([&held["waits_for"]["kind"], &held["rule"]["id"]], ["digest", "D9"]);
    assert_eq!(held["waits_for"]["registered"], DIGEST);
    typed(&held["actions"][0]);
    let free = explained(&journal, "delivery", id, &["--config", &config]);
    assert_eq!([&free["waits_for"]["kind"], &free["changes"]], ["first_attempt", "next_claim"]);
}

#[test]
fn d9_health_and_report_say_once_that_digests_were_not_compared_and_compare_them_when_told() {
    let place = Place::new();
    let name = troubled(&place).display().to_string();
    let (config, said) = (example("leasehold.toml"), "digests were not compared: give --config");
    let page = place.path("report.html").display().to_string();
    let health = ["health", &name];
    let report = ["report", &name, "--force", "-o", &page];
    let text = |output: &Output| String::from_utf8(output.stdout.clone()).expect("text");
    for command in [&health[..], &report] {
        let without = text(&leasehold(command));
        assert_eq!(without.matches(said).count(), 1, "{without}");
        let with = text(&leasehold(&[command, &["--config", &config]].concat()));
        assert_eq!(with.matches(said).count(), 0, "{with}");
    }
    assert!(text(&leasehold(&health)).contains("held 0"));
    assert!(text(&leasehold(&["health", &name, "--config", &config])).contains("held 1"));
    assert_eq!(std::fs::read_to_string(&page).expect("it is there").matches(said).count(), 0);
    leasehold(&report);
    assert_eq!(std::fs::read_to_string(&page).expect("it is there").matches(said).count(), 1);
    let json = printed(&leasehold(&["health", &name, "--json"]));
    assert_eq!(json["digests_compared"], false);
    let json = printed(&leasehold(&["health", &name, "--json", "--config", &config]));
    assert_eq!(
        (json.get("digests_compared"), &json["delivery"]["status"]),
        (None, &json!("blocked"))
    );
}

#[test]
fn where_no_record_waits_under_a_digest_nothing_is_said_of_one() {
    let (disk, clock, place) = (MemoryDisk::new(), ManualClock::at(START), Place::new());
    run(async {
        let engine = wire_flows::engine(&disk, &clock).await;
        engine.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
        engine.close().await;
    });
    let name = archived(&disk, &place).display().to_string();
    let health = leasehold(&["health", &name]);
    assert!(!String::from_utf8(health.stdout).expect("text").contains("digests"));
    assert_eq!(printed(&leasehold(&["health", &name, "--json"])).get("digests_compared"), None);
}

/// Writes an event of `event-1` that is of no version there is.
fn damage(medium: impl Medium + std::fmt::Debug) {
    let options = LogOptions { new_id: JournalId([5; 16]), create: false };
    let mut log = Log::open(medium, options, &mut |_| Ok(())).expect("it verifies");
    let stream = stream_of(FlowTag::Dispatch, "event-1");
    let bodies = vec![vec![FlowTag::Dispatch as u8, 1, 255]];
    let append = Append { stream, expected_version: 1, bodies, alone: None };
    let placed = log.commit(&[append]).expect("it is written");
    assert!(placed.iter().all(Result::is_ok));
}

#[test]
fn d8_a_record_that_does_not_replay_is_explained_with_its_place() {
    let (disk, clock, place) = (MemoryDisk::new(), ManualClock::at(START), Place::new());
    run(async {
        let engine = wire_flows::engine(&disk, &clock).await;
        engine.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
        engine.close().await;
    });
    damage(disk.medium());
    let path = archived(&disk, &place).display().to_string();
    let output = leasehold(&["explain", &path, "dispatch", "event-1", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let found = printed(&output);
    let repair = json!({ "kind": "repair", "sequence": 2, "code": "record_invalid" });
    assert_eq!((&found["state"], &found["waits_for"]), (&json!("quarantined"), &repair));
    assert_eq!((&found["since"], &found["rule"]["id"]), (&json!(START), &json!("D8")));
}

#[test]
fn d8_one_that_was_archived_as_one_that_does_not_replay_is_explained_without_a_place() {
    let place = Place::new();
    let journal = place.path("journal");
    let register = async |id: &str, at: f64| {
        let clock = ManualClock::at(at);
        let engine = Engine::builder(&journal).clock(clock).open().await.expect("it opens");
        engine.dispatch().enqueue(change(id), 5).await.expect("it is valid");
        engine.close().await;
    };
    run(register("event-1", START));
    damage(SledMedium::open(&journal, false, Durability::PowerSafe).expect("it opens"));
    // What has no time of its own moves with what follows it.
    run(register("event-2", START + 1.0));
    let later = Timestamp::new(START + 1_000.0).expect("a time");
    let moved = retention::archive(&journal, &place.path("archives"), later).expect("it is moved");
    assert!(moved.is_some());
    let path = journal.display().to_string();
    let output = leasehold(&["explain", &path, "dispatch", "event-1", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let found = printed(&output);
    let repair = json!({ "kind": "repair", "sequence": null, "code": "record_quarantined" });
    assert_eq!((&found["state"], &found["waits_for"]), (&json!("quarantined"), &repair));
    assert_eq!(found["since"], Value::Null);
}
