//! An engine that starts from the checkpoint of the last close, beside one that reads everything.

use crate::every_bit::damage::lives::{self, Life};
use crate::main_job::{Place, printed};
use crate::support::{accepted, change, code, example, marked, program, run};
use crate::wire_flows::{answering, attempt, delivery};
use leasehold::{
    Clock as _, Engine, EngineBuilder, HandOver, Handle, ManualClock, MemoryDisk, SourceRuntime,
};
use leasehold_actors::flows::Answers;
use proptest::prelude::*;
use serde_json::json;
use std::path::Path;

/// Everything a host can ask a flow for, but for its records.
async fn asked<F: Answers>(flow: &Handle<F>) -> String {
    let health = flow.health().await.expect("a time");
    let next_at = flow.next_at().await.expect("a time");
    format!("{} {} {next_at:?}", F::TAG.name(), serde_json::to_string(&health).expect("text"))
}

/// Everything a host can ask for.
async fn seen(engine: &Engine, events: u32) -> Vec<String> {
    let mut said = vec![
        asked(engine.dispatch()).await,
        asked(engine.lifecycle()).await,
        asked(engine.notification()).await,
        asked(engine.processing()).await,
        asked(engine.delivery()).await,
        format!("{} {:?} {:?}", engine.clock_behind_seconds(), engine.head(), engine.paused()),
    ];
    for number in 0..events {
        let id = format!("event-{number}");
        said.push(format!("{:?}", engine.dispatch().status(&id).await));
        said.push(format!("{:?}", engine.lifecycle().status(&id).await));
        said.push(format!("{:?}", engine.notification().status(&id).await));
        said.push(format!("{:?}", engine.processing().status(&id).await));
        said.push(format!("{:?}", engine.delivery().status("change", &id).await));
    }
    said
}

/// Closes it, and opens it from its checkpoint and without: both answer the same.
async fn same_without(engine: Engine, disk: &MemoryDisk, clock: &ManualClock) -> Engine {
    let before = seen(&engine, 6).await;
    engine.close().await;
    assert!(disk.checkpoint().is_some(), "it is left");
    let engine = lives::open(Engine::in_memory(disk), clock).await;
    assert!(engine.resumed() && disk.checkpoint().is_none(), "used once");
    assert_eq!(seen(&engine, 6).await, before);
    engine.close().await;
    disk.put_checkpoint(None);
    let engine = lives::open(Engine::in_memory(disk), clock).await;
    assert!(!engine.resumed());
    let replayed = seen(&engine, 6).await;
    assert_eq!(replayed, before);
    engine.close().await;
    let engine = lives::open(Engine::in_memory(disk), clock).await;
    assert!(engine.resumed());
    engine
}

#[test]
fn lives_through_all_flows_are_the_same_with_and_without_the_checkpoint() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(0.0));
        let mut engine = lives::open(Engine::in_memory(&disk), &clock).await;
        engine = same_without(engine, &disk, &clock).await;
        for number in 0..3 {
            lives::live(&engine, &clock, Life { number, text: "Kaffee.", full: number > 0 }).await;
            engine = same_without(engine, &disk, &clock).await;
        }
        lives::leave(&engine, &clock, 3).await;
        engine = same_without(engine, &disk, &clock).await;
        // A clock that is behind what the journal knows is told of as before.
        clock.set(10.0);
        engine = same_without(engine, &disk, &clock).await;
        assert!(engine.clock_behind_seconds() > 0.0);
    });
}

/// One step of a host or a worker; `event` is one of three.
async fn step(engine: &Engine, clock: &ManualClock, kind: u8, event: u8) {
    let id = format!("event-{event}");
    let (flow, source) = (engine.dispatch(), engine.delivery());
    match kind {
        0 => drop(source.enqueue_change(change(&id), 4, 5).await.expect("it is valid")),
        1 => {
            let removal = json!({
                "schema": "blun.cms-content-cancellation.v1",
                "cancellation_id": format!("cancel-{event}"),
                "event_id": id,
                "site_id": "site-1",
                "website_version": "web-1",
                "source_id": "landing.intro",
                "source_sequence": 1,
            });
            source.enqueue_removal(removal.to_string(), 4, 5).await.expect("it is valid");
        }
        2 => {
            let client = answering(|request| delivery(&request));
            drop(source.run_once(&client, "w", 60.0).await.expect("it runs"));
        }
        3 => {
            let client = answering(|_| Err(marked("network", true)));
            drop(source.run_once(&client, "w", 60.0).await.expect("it runs"));
        }
        4 => drop(source.claim("w", 60.0).await.expect("it can be written")),
        5 => drop(flow.enqueue(change(&id), 5).await.expect("it is valid")),
        6 => drop(flow.claim("w", 60.0).await.expect("it can be written")),
        7 => {
            let client = answering(move |request: leasehold::ChangeRequest| {
                Ok(accepted(request.event_id.as_str(), 2))
            });
            drop(flow.run_once(&client, "w", 60.0).await.expect("it runs"));
        }
        8 => {
            let client = answering(|_| Err(marked("http_status", false)));
            drop(flow.run_once(&client, "w", 60.0).await.expect("it runs"));
        }
        _ => clock.set(clock.now_seconds() + 7.0 * f64::from(event + 1)),
    }
    while engine.handing_over() > 0 {
        tokio::task::yield_now().await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Leases, retries, removals that wait and hand-overs, in any order.
    #[test]
    fn whatever_was_done_both_ways_of_opening_come_to_the_same(
        steps in proptest::collection::vec((0_u8..10, 0_u8..3), 1..40),
    ) {
        run(async {
            let (disk, clock) = (MemoryDisk::new(), ManualClock::at(50.0));
            let mut engine = lives::open(Engine::in_memory(&disk), &clock).await;
            for part in steps.chunks(10) {
                for (kind, event) in part {
                    step(&engine, &clock, *kind, *event).await;
                }
                engine = same_without(engine, &disk, &clock).await;
            }
        });
    }
}

#[test]
fn records_are_given_out_in_the_same_order_with_and_without_it() {
    run(async {
        let place = Place::new();
        let (path, clock) = (place.path("journal"), ManualClock::at(0.0));
        let engine = lives::open(Engine::builder(&path), &clock).await;
        for number in [4, 1, 3, 0, 2] {
            clock.set(f64::from(number % 3));
            engine.dispatch().enqueue(change(&format!("event-{number}")), 5).await.expect("valid");
        }
        engine.close().await;
        let copy = place.path("copy");
        for (from, to) in [
            (path.clone(), copy.clone()),
            (path.with_extension("anchor"), copy.with_extension("anchor")),
        ] {
            crate::damage::copy(&from, &to);
        }
        std::fs::remove_file(copy.join("checkpoint")).expect("it was left");
        let mut orders = Vec::new();
        for (path, resumed) in [(&path, true), (&copy, false)] {
            clock.set(100.0);
            let engine = lives::open(Engine::builder(path), &clock).await;
            assert_eq!(engine.resumed(), resumed);
            let mut order = Vec::new();
            while let Some(claim) = engine.dispatch().claim("w", 60.0).await.expect("written") {
                order.push(claim.request().event_id.to_string());
            }
            orders.push(order);
            engine.close().await;
        }
        assert_eq!(orders[0], ["event-0", "event-3", "event-1", "event-4", "event-2"]);
        assert_eq!(orders[0], orders[1]);
    });
}

/// A journal with a change that waits, closed; answers what a host sees of it.
async fn small(disk: &MemoryDisk, clock: &ManualClock, id: &str) -> Vec<String> {
    let engine = Engine::in_memory(disk).clock(clock.clone()).open().await.expect("it opens");
    engine.dispatch().enqueue(change(id), 5).await.expect("it is valid");
    let before = seen(&engine, 2).await;
    engine.close().await;
    before
}

#[test]
fn a_damaged_a_cut_a_foreign_and_an_older_one_cost_time_only() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        small(&disk, &clock, "event-0").await;
        let older = disk.checkpoint().expect("it is left");
        let before = small(&disk, &clock, "event-1").await;
        let whole = disk.checkpoint().expect("it is left");
        let other = MemoryDisk::new();
        small(&other, &clock, "event-0").await;
        small(&other, &clock, "event-1").await;
        let mut wrong = vec![older, other.checkpoint().expect("it is left"), Vec::new()];
        wrong.extend((0..whole.len()).map(|at| {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            bytes
        }));
        wrong.extend((0..whole.len()).step_by(29).map(|length| whole[..length].to_vec()));
        for (number, bytes) in wrong.into_iter().enumerate() {
            disk.put_checkpoint(Some(bytes));
            let builder = Engine::in_memory(&disk).clock(clock.clone());
            let engine = builder.open().await.expect("it opens");
            assert!(!engine.resumed(), "number {number}");
            assert_eq!(seen(&engine, 2).await, before, "number {number}");
            engine.close().await;
        }
        disk.put_checkpoint(Some(whole));
        let engine = Engine::in_memory(&disk).clock(clock).open().await.expect("it opens");
        assert!(engine.resumed(), "what was not damaged is used");
    });
}

#[test]
fn other_digests_and_other_hand_overs_read_the_whole_journal_and_catch_up() {
    type Change = fn(EngineBuilder) -> EngineBuilder;
    fn source(builder: EngineBuilder, letter: &str) -> EngineBuilder {
        let capabilities_sha256 = letter.repeat(64);
        builder.source_runtime(SourceRuntime { capabilities_sha256, longest_call_seconds: 30.0 })
    }
    let changes: [(&str, Change); 5] = [
        ("receiver", |it| it.receiver_digest("b".repeat(64))),
        ("source", |it| source(it, "b")),
        ("lifecycle", |it| {
            it.hand_over(HandOver { lifecycle_max_failures: Some(5), ..HandOver::default() })
        }),
        ("ceiling", |it| {
            it.hand_over(HandOver { notification_max_attempts: Some(4), ..HandOver::default() })
        }),
        ("processing", |it| {
            it.hand_over(HandOver { processing_max_failures: Some(5), ..HandOver::default() })
        }),
    ];
    for (name, change_it) in changes {
        run(async {
            let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
            let builder = || {
                let builder = source(Engine::in_memory(&disk).clock(clock.clone()), "a");
                builder.receiver_digest("a".repeat(64)).hand_over(HandOver {
                    notification_max_attempts: Some(5),
                    ..HandOver::default()
                })
            };
            let engine = builder().open().await.expect("it opens");
            engine.dispatch().enqueue(change("event-0"), 5).await.expect("it is valid");
            attempt(engine.dispatch(), &answering(|_| Ok(accepted("event-0", 2)))).await;
            engine.delivery().enqueue_change(change("event-0"), 4, 5).await.expect("it is valid");
            engine.close().await;
            let engine = change_it(builder()).open().await.expect("it opens");
            assert!(!engine.resumed(), "{name}");
            while engine.handing_over() > 0 {
                tokio::task::yield_now().await;
            }
            assert_eq!(engine.lifecycle().status("event-0").await.is_ok(), name == "lifecycle");
            let held = engine.delivery().health().await.expect("a time").held;
            assert_eq!(held, u64::from(name == "source"));
            let before = seen(&engine, 1).await;
            engine.close().await;
            let engine = change_it(builder()).open().await.expect("it opens");
            assert!(engine.resumed(), "{name}: the same again");
            assert_eq!(seen(&engine, 1).await, before, "{name}: what is held stays held");
        });
    }
}

#[test]
fn leases_of_an_earlier_life_go_on_or_end_as_they_do_without_it() {
    run(async {
        for end in [true, false] {
            let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
            let builder =
                || Engine::in_memory(&disk).clock(clock.clone()).end_leases_on_open(end).open();
            let engine = builder().await.expect("it opens");
            engine.dispatch().enqueue(change("event-0"), 5).await.expect("it is valid");
            let claim = engine.dispatch().claim("w", 60.0).await.expect("a claim").expect("due");
            engine.close().await;
            let engine = builder().await.expect("it opens");
            assert!(engine.resumed());
            let settled = engine.dispatch().complete(&claim, accepted("event-0", 2)).await;
            if end {
                assert_eq!(code(settled), "dispatch.claim_lost");
            } else {
                assert_eq!(settled.expect("it is live").status, "succeeded");
            }
        }
    });
}

#[test]
fn a_killed_engine_a_quarantined_record_and_a_failed_hand_over_leave_none() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        small(&disk, &clock, "event-0").await;
        let engine = Engine::in_memory(&disk).clock(clock.clone()).open().await.expect("it opens");
        assert!(engine.resumed() && disk.checkpoint().is_none());
        engine.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
        // The process is gone from one moment to the next: nothing of it runs any more.
        disk.crash(0);
        let next = Engine::in_memory(&disk).clock(clock.clone()).open().await.expect("it opens");
        assert!(!next.resumed());
        assert_eq!(next.dispatch().health().await.expect("a time").due, 2);
        drop((engine, next));

        let long = crate::support::change_with("event-0", &"Kaffee. ".repeat(4_000));
        let disk = MemoryDisk::new();
        let open = || Engine::in_memory(&disk).clock(clock.clone()).open();
        let engine = open().await.expect("it opens");
        engine.dispatch().enqueue(long, 5).await.expect("it is valid");
        engine.close().await;
        disk.lose_chunks();
        for _ in 0..2 {
            let engine = open().await.expect("it opens");
            assert!(!engine.resumed());
            assert_eq!(engine.dispatch().health().await.expect("a time").quarantined, 1);
            engine.close().await;
            assert_eq!(disk.checkpoint(), None);
        }

        // A hand-over that came to nothing: its record is there under other terms.
        let disk = MemoryDisk::new();
        let engine = lives::open(Engine::in_memory(&disk), &clock).await;
        let (event, answer) = (change("event-0"), answering(|_| Ok(accepted("event-0", 2))));
        let other = Engine::in_memory(&MemoryDisk::new()).clock(clock.clone()).open().await;
        let other = other.expect("it opens");
        other.dispatch().enqueue(&event, 5).await.expect("it is valid");
        attempt(other.dispatch(), &answer).await;
        let known = other.dispatch().status("event-0").await.expect("it is there");
        let known = serde_json::to_string(&known).expect("text");
        engine.lifecycle().register_change(&event, &known, 4).await.expect("it is valid");
        engine.dispatch().enqueue(&event, 5).await.expect("it is valid");
        attempt(engine.dispatch(), &answer).await;
        while engine.handing_over() > 0 {
            tokio::task::yield_now().await;
        }
        engine.close().await;
        assert_eq!(disk.checkpoint(), None);
    });
}

/// Delivers the first examples with the program; answers its summary.
fn delivered(path: &Path, lines: usize, place: &Place) -> serde_json::Value {
    let text = std::fs::read_to_string(example("changes.ndjson")).expect("readable");
    let some: String = text.lines().take(lines).flat_map(|line| [line, "\n"]).collect();
    let file = place.path("some.ndjson");
    std::fs::write(&file, some).expect("writable");
    let mut command = program();
    command.args(["run", "--sandbox", "--until", "accepted", "--json", "--journal"]);
    let output = command.arg(path).arg(file).output().expect("the program runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    printed(&output)
}

#[test]
fn the_program_leaves_one_that_its_reading_commands_let_be() {
    let place = Place::new();
    let path = place.path("journal");
    delivered(&path, 5, &place);
    let left = std::fs::read(path.join("checkpoint")).expect("it is left");
    for command in ["doctor", "health", "list", "audit"] {
        let output = program().arg(command).arg(&path).output().expect("the program runs");
        assert_eq!(output.status.code(), Some(0), "{command}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!said.contains("foreign_files"), "{command}: {said}");
    }
    assert_eq!(std::fs::read(path.join("checkpoint")).expect("it is still there"), left);
    let first = delivered(&path, 5, &place);
    std::fs::remove_file(path.join("checkpoint")).expect("it is left again");
    let again = delivered(&path, 5, &place);
    assert_eq!((&first["head"], &first["already_known"]), (&again["head"], &json!(5)));
}
