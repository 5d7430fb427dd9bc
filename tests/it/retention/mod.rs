//! Old history moves to archives: records go on answering, unsettled ones go on, room comes back.

mod chain;

use crate::main_job::{Place, printed};
use crate::support::{Scripted, accepted, change, change_with, marked, program, run};
use leasehold::audit::{Report, Source, States, audit};
use leasehold::retention::{self, Moved, RetentionError};
use leasehold::{
    ChangeRequest, Client, Delays, DrainOptions, Engine, FlowDelays, HandOver, JournalError,
    ManualClock, drain,
};
use leasehold_actors::contract::time::Timestamp;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An engine on the journal of this place.
async fn engine(place: &Place, clock: &ManualClock, hand_over: HandOver) -> Engine {
    let delays = Delays::default();
    Engine::builder(place.path("journal"))
        .clock(clock.clone())
        .hand_over(hand_over)
        .delays(FlowDelays { dispatch: delays, ..FlowDelays::default() })
        .open()
        .await
        .expect("it opens")
}

/// Registers a change and makes one attempt at it.
async fn attempted(engine: &Engine, id: &str, answer: Result<String, leasehold::CallFailure>) {
    let flow = engine.dispatch();
    flow.enqueue(change(id), 5).await.expect("it is valid");
    let client = Scripted::new([answer]);
    flow.run_once(&client, "w", 60.0).await.expect("it runs").expect("due");
}

fn at(seconds: f64) -> Timestamp {
    Timestamp::new(seconds).expect("a time")
}

/// Moves everything before a time.
fn archived(place: &Place, before: f64) -> Moved {
    let moved = retention::archive(&place.path("journal"), &place.path("archives"), at(before));
    moved.expect("nothing is wrong").expect("something is old enough")
}

fn audited(place: &Place, archives: Option<&str>) -> Report {
    let source = Source::open(&place.path("journal")).expect("it opens");
    audit(&source.with_archives(archives.map(|name| place.path(name))), None)
}

/// Every record and the health of every flow, as the reading commands tell them.
fn told(place: &Place) -> String {
    let source = Source::open(&place.path("journal")).expect("it opens");
    let (states, _) = States::read(&source).expect("it verifies");
    format!("{:?} {:?}", states.rows(), states.health(at(1_000.0)))
}

fn copied(from: &Path, to: &Path) {
    let done = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(done.expect("cp runs").success());
}

/// A journal at time 100 with one change of each kind of end, and one frame at time 500.
async fn mixed(place: &Place, clock: &ManualClock) {
    let engine = engine(place, clock, HandOver::default()).await;
    attempted(&engine, "event-done", Ok(accepted("event-done", 2))).await;
    attempted(&engine, "event-failed", Err(marked("cms.refused", false))).await;
    attempted(&engine, "event-retried", Err(marked("network", true))).await;
    clock.set(500.0);
    engine.dispatch().enqueue(change("event-new"), 5).await.expect("it is valid");
    engine.close().await;
}

#[test]
fn d12_settled_records_are_archived_and_still_answer() {
    run(async {
        let (place, clock) = (Place::new(), ManualClock::at(100.0));
        mixed(&place, &clock).await;
        let before = told(&place);
        let first = engine(&place, &clock, HandOver::default()).await;
        let status = first.dispatch().status("event-done").await.expect("there");
        let health = first.dispatch().health().await.expect("it answers");
        let head = first.head();
        first.close().await;
        let moved = archived(&place, 400.0);
        assert_eq!((moved.first, moved.last, moved.completed, moved.others), (1, 9, 1, 2));
        assert_eq!(told(&place), before, "nothing else tells the difference");
        let second = engine(&place, &clock, HandOver::default()).await;
        let flow = second.dispatch();
        assert_eq!(flow.status("event-done").await.expect("there"), status);
        assert_eq!(flow.health().await.expect("it answers"), health);
        // Registered again it is the same record, and nothing is written.
        assert!(flow.enqueue(change("event-done"), 5).await.expect("the same").already_known);
        let other = flow.enqueue(change_with("event-done", "another text"), 5).await;
        let code = other.expect_err("another document").code().to_owned();
        assert_eq!(code, "dispatch.idempotency_collision");
        assert_eq!(second.head(), head);
        second.close().await;
        let report = audited(&place, None);
        assert_eq!((report.clean, report.archived, report.records), (true, 9, 1));
        let report = audited(&place, Some("archives"));
        assert_eq!((report.clean, report.archived, report.records), (true, 0, 10), "{report:?}");
    });
}

#[test]
fn an_unsettled_record_is_kept_whole_and_goes_on_to_its_end_and_into_the_next_archive() {
    run(async {
        let (place, clock) = (Place::new(), ManualClock::at(100.0));
        mixed(&place, &clock).await;
        let first = archived(&place, 400.0);
        let engine = engine(&place, &clock, HandOver::default()).await;
        let client =
            Scripted::new([Ok(accepted("event-retried", 0)), Err(marked("network", true))]);
        let flow = engine.dispatch();
        let attempt = flow.run_once(&client, "w", 60.0).await.expect("it runs").expect("due");
        assert_eq!((attempt.attempt, attempt.status), (2, "succeeded"));
        let sent: serde_json::Value =
            serde_json::from_str(client.calls()[0].change.as_str()).expect("JSON");
        let whole: serde_json::Value =
            serde_json::from_str(&change("event-retried")).expect("JSON");
        assert_eq!(sent, whole, "its payload is the one it was registered with");
        flow.run_once(&client, "w", 60.0).await.expect("it runs").expect("due");
        engine.close().await;
        let before = told(&place);
        let second = archived(&place, 501.0);
        assert_eq!((second.first, second.completed, second.others), (first.last + 1, 2, 2));
        assert_eq!(told(&place), before);
        let report = audited(&place, Some("archives"));
        assert!(report.clean && report.archived == 0, "{report:?}");
        // A later part says that it is one.
        let alone = States::read(
            &Source::open(&place.path("archives").join(&second.file)).expect("a file"),
        );
        assert_eq!(alone.err(), Some(JournalError::ArchivePart));
    });
}

#[test]
fn d12_a_failed_record_that_was_archived_is_requeued_with_its_payload_however_large() {
    run(async {
        let (place, clock) = (Place::new(), ManualClock::at(100.0));
        let large = change_with("event-1", &"Kaffee ".repeat(20_000));
        let first = engine(&place, &clock, HandOver::default()).await;
        first.dispatch().enqueue(&large, 5).await.expect("it is valid");
        let client = Scripted::new([Err(marked("cms.refused", false))]);
        first.dispatch().run_once(&client, "w", 60.0).await.expect("it runs").expect("due");
        clock.set(500.0);
        first.dispatch().enqueue(change("event-2"), 5).await.expect("it is valid");
        first.close().await;
        archived(&place, 400.0);
        let second = engine(&place, &clock, HandOver::default()).await;
        let flow = second.dispatch();
        flow.requeue("event-1", "maria", "it was mended").await.expect("it failed");
        let again = Scripted::new([Ok(accepted("event-1", 1)), Ok(accepted("event-2", 1))]);
        for _ in 0..2 {
            flow.run_once(&again, "w", 60.0).await.expect("it runs").expect("due");
        }
        assert_eq!(flow.status("event-1").await.expect("there").status, "succeeded");
        assert_eq!(again.calls()[0].change, client.calls()[0].change);
        second.close().await;
        assert!(audited(&place, Some("archives")).clean);
    });
}

#[test]
fn a_flow_that_is_switched_on_later_takes_over_what_was_archived() {
    run(async {
        let (place, clock) = (Place::new(), ManualClock::at(100.0));
        mixed(&place, &clock).await;
        archived(&place, 400.0);
        let watch = HandOver { lifecycle_max_failures: Some(5), ..HandOver::default() };
        for _ in 0..2 {
            let engine = engine(&place, &clock, watch).await;
            crate::wire_flows::there(|| engine.lifecycle().status("event-done")).await;
            let health = engine.lifecycle().health().await.expect("it answers");
            assert_eq!(health.due, 1, "once and no more");
            engine.close().await;
            // The successor's record is archived too, and is found there the second time.
            retention::archive(&place.path("journal"), &place.path("archives"), at(501.0))
                .expect("nothing is wrong");
        }
        assert!(audited(&place, Some("archives")).clean);
    });
}

#[test]
fn what_is_not_old_enough_and_the_last_frame_stay_and_a_dry_run_changes_nothing() {
    run(async {
        let (place, clock) = (Place::new(), ManualClock::at(100.0));
        mixed(&place, &clock).await;
        let (journal, archives) = (place.path("journal"), place.path("archives"));
        let planned = |before| {
            retention::plan(&Source::open(&journal).expect("it is there"), at(before))
                .expect("it verifies")
        };
        assert_eq!(planned(100.0), None, "at this very time is not before it");
        assert_eq!(retention::archive(&journal, &archives, at(100.0)), Ok(None));
        assert!(!archives.exists(), "nothing was made");
        let plan = planned(9_999.0).expect("something is old enough");
        assert_eq!((plan.last, plan.frames), (9, 9), "the last frame stays");
        assert!(audited(&place, None).archived == 0 && !archives.exists());
        assert_eq!(archived(&place, 9_999.0), plan);
        assert_eq!(planned(9_999.0), None);
    });
}

#[test]
fn a_place_that_will_not_do_is_refused_and_the_journal_is_as_it_was() {
    run(async {
        let (place, clock) = (Place::new(), ManualClock::at(100.0));
        mixed(&place, &clock).await;
        let (journal, archives) = (place.path("journal"), place.path("archives"));
        let before = told(&place);
        let refused = |to: PathBuf| retention::archive(&journal, &to, at(400.0)).err();
        assert_eq!(refused(place.path("no").join("such")), Some(RetentionError::Folder));
        assert_eq!(refused(journal.clone()), Some(RetentionError::Inside));
        let holder = std::fs::File::open(journal.join("lock")).expect("there");
        fs4::FileExt::try_lock(&holder).expect("nobody else holds it");
        assert_eq!(refused(archives.clone()), Some(JournalError::Locked.into()));
        drop(holder);
        let name = retention::plan(&Source::open(&journal).expect("it is there"), at(400.0))
            .expect("it verifies")
            .expect("some")
            .file;
        std::fs::create_dir(&archives).expect("a folder");
        std::fs::write(archives.join(&name), "dear").expect("writable");
        assert_eq!(refused(archives.clone()), Some(RetentionError::Differs));
        assert_eq!(std::fs::read(archives.join(&name)).expect("readable"), b"dear");
        assert_eq!(std::fs::read_dir(&archives).expect("readable").count(), 1);
        assert_eq!((told(&place), audited(&place, None).archived), (before, 0));
    });
}

#[test]
fn killed_after_the_archive_was_written_the_same_command_goes_on_with_the_same_file() {
    run(async {
        let (place, clock) = (Place::new(), ManualClock::at(100.0));
        mixed(&place, &clock).await;
        let before = place.path("before");
        copied(&place.path("journal"), &before);
        let moved = archived(&place, 400.0);
        let file = place.path("archives").join(&moved.file);
        let bytes = std::fs::read(&file).expect("readable");
        let left = file.with_extension("leasehold.new");
        for half in [false, true] {
            std::fs::remove_dir_all(place.path("journal")).expect("removable");
            copied(&before, &place.path("journal"));
            if half {
                std::fs::rename(&file, &left).expect("movable");
                std::fs::write(&left, &bytes[..99]).expect("writable");
            }
            assert_eq!(archived(&place, 400.0), moved);
            assert_eq!(std::fs::read(&file).expect("readable"), bytes);
            assert!(!left.exists() && audited(&place, Some("archives")).clean);
        }
    });
}

/// A client that accepts everything.
struct Accepting;

impl Client<leasehold::Dispatch> for Accepting {
    fn longest_call_seconds(&self) -> Option<f64> {
        None
    }

    async fn call(&self, request: ChangeRequest) -> Result<Vec<u8>, leasehold::CallFailure> {
        let change: serde_json::Value =
            serde_json::from_str(request.change.as_str()).expect("JSON");
        Ok(accepted(change["event_id"].as_str().expect("an id"), 2).into_bytes())
    }
}

#[test]
fn the_disk_shrinks_and_the_program_says_by_how_much() {
    const LIVES: usize = 5_000;
    let place = Place::new();
    run(async {
        let clock = ManualClock::at(100.0);
        let engine = Arc::new(engine(&place, &clock, HandOver::default()).await);
        let (_asked, stop) = tokio::sync::watch::channel(false);
        let mut enqueued = tokio::task::JoinSet::new();
        for number in 0..LIVES {
            let engine = Arc::clone(&engine);
            enqueued.spawn(async move {
                let text = change_with(&format!("event-{number}"), &"Kaffee ".repeat(100));
                engine.dispatch().enqueue(text, 5).await.expect("it is valid");
            });
        }
        enqueued.join_all().await;
        let options = DrainOptions {
            in_flight: 256,
            lease_seconds: 60.0,
            worker: "w".to_owned(),
            destination: None,
        };
        drain(engine.dispatch(), Arc::new(Accepting), &options, stop, |_| {}).await.expect("fine");
        Arc::into_inner(engine).expect("nobody else has it").close().await;
    });
    let (journal, archives) = (place.path("journal"), place.path("archives"));
    let command = |arguments: &[&str]| {
        let mut command = program();
        command.args(arguments).arg(&journal);
        let output = command.output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        output
    };
    let (listed, health) = (command(&["list", "--json"]).stdout, command(&["health"]).stdout);
    let to = archives.to_str().expect("text");
    let moved = printed(&command(&["archive", "--to", to, "--before", "200", "--json"]));
    let bytes = |key: &str| moved[key].as_u64().expect("a count");
    assert_eq!(moved["moved"]["first"], 1);
    assert_eq!(bytes("bytes_after"), leasehold_journal::folder::bytes(&journal).expect("readable"));
    assert!(bytes("bytes_after") * 2 < bytes("bytes_before"), "{moved}");
    assert_eq!(command(&["list", "--json"]).stdout, listed);
    assert_eq!(command(&["health"]).stdout, health);
    let report = printed(&command(&["audit", "--archives", to, "--json"]));
    assert_eq!((&report["clean"], &report["records"]), (&true.into(), &(3 * LIVES).into()));
    let said = String::from_utf8(command(&["audit"]).stdout).expect("text");
    let last = &moved["moved"]["last"];
    let note = format!("records 1 to {last} are in archives, not verified here");
    assert!(said.contains(&note), "{said}");
    let show = |more: &[&str]| {
        let mut command = program();
        command.arg("show").arg(&journal).args(["dispatch", "event-7"]).args(more);
        String::from_utf8(command.output().expect("it runs").stdout).expect("text")
    };
    assert!(show(&[]).starts_with("earlier events in archives: 3 ("), "{}", show(&[]));
    assert!(show(&["--archives", to]).contains("registered"));
}
