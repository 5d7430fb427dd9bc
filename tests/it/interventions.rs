//! D12: requeue, dismiss and repin are recorded events of an operator.

use crate::support::{Scripted, accepted, change, code, engine, marked, run};
use crate::wire_flows::{DIGEST, answering};
use leasehold::{Engine, ManualClock, MemoryDisk, SourceRuntime};
use leasehold_journal::walk::Item;
use leasehold_journal::{JournalId, Log, LogOptions};
use std::path::Path;
use std::process::{Command, Output};

const OTHER: &str = "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd";

async fn failed(engine: &Engine, id: &str) {
    let flow = engine.dispatch();
    flow.enqueue(change(id), 2).await.expect("it is valid");
    let client = Scripted::new([Err(marked("cms.refused", false))]);
    let attempt = flow.run_once(&client, "w", 60.0).await.expect("it runs").expect("due");
    assert_eq!(attempt.status, "failed");
}

#[test]
fn d12_a_failed_record_is_requeued_under_its_identity_for_a_new_round_of_attempts() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        failed(&engine, "event-1").await;
        let flow = engine.dispatch();
        assert_eq!(flow.health().await.expect("it answers").status, "blocked");
        clock.set(150.0);
        let requeued = flow.requeue("event-1", "maria", "it was mended").await.expect("it failed");
        let status = requeued.status;
        assert!(requeued.changed);
        assert_eq!((status.status, status.attempts, status.next_attempt_at), ("pending", 0, 150.0));
        assert_eq!(status.last_error_code, None);
        let health = flow.health().await.expect("it answers");
        assert_eq!((health.status, health.due, health.failed), ("ok", 1, 0));
        // Registering again still finds the same record.
        assert!(flow.enqueue(change("event-1"), 2).await.expect("the same").already_known);
        let client = Scripted::new([Err(marked("network", true)), Ok(accepted("event-1", 0))]);
        let first = flow.run_once(&client, "w", 60.0).await.expect("it runs").expect("due");
        assert_eq!((first.attempt, first.status), (1, "retry_wait"));
        clock.set(200.0);
        let second = flow.run_once(&client, "w", 60.0).await.expect("it runs").expect("due");
        assert_eq!((second.attempt, second.status), (2, "succeeded"));
        let calls = client.calls();
        assert_eq!(calls[0].change, calls[1].change);
    });
}

#[test]
fn d12_a_record_that_is_requeued_for_later_waits_until_then_in_this_life_and_the_next() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let first = engine(&disk, &clock).await;
        failed(&first, "event-1").await;
        let flow = first.dispatch();
        for wrong in [-1.0, f64::NAN, f64::INFINITY] {
            let refused = flow.requeue_at("event-1", "maria", "it was mended", wrong).await;
            assert_eq!(code(refused), "dispatch.time_invalid", "{wrong}");
        }
        let requeued = flow.requeue_at("event-1", "maria", "it was mended", 160.5).await;
        let status = requeued.expect("it failed").status;
        assert_eq!((status.status, status.attempts, status.next_attempt_at), ("pending", 0, 160.5));
        let again = flow.requeue_at("event-1", "maria", "it was mended", 200.0).await;
        assert_eq!(code(again), "dispatch.not_failed");
        first.close().await;
        let second = engine(&disk, &clock).await;
        let flow = second.dispatch();
        for (now, due) in [(160.0, 0), (160.5, 1)] {
            clock.set(now);
            let health = flow.health().await.expect("it answers");
            assert_eq!((health.status, health.due, health.failed), ("ok", due, 0), "at {now}");
            let claim = flow.claim("w", 60.0).await.expect("it answers");
            assert_eq!(claim.is_some(), due == 1, "at {now}");
        }
    });
}

/// The versions of the forms that the events of a journal have.
fn versions(disk: &MemoryDisk) -> Vec<u8> {
    let mut versions = Vec::new();
    let options = LogOptions { new_id: JournalId([5; 16]), create: false };
    let mut visit = |item| {
        if let Item::Record { record, .. } = item {
            versions.push(record?.body[1]);
        }
        Ok(())
    };
    drop(Log::open(disk.medium(), options, &mut visit).expect("it verifies"));
    versions
}

#[test]
fn d12_a_due_time_that_is_not_later_is_written_as_a_requeue_always_was() {
    run(async {
        for (due_at, version) in [(99.0, 2), (150.0, 2), (150.5, 4)] {
            let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
            let engine = engine(&disk, &clock).await;
            failed(&engine, "event-1").await;
            clock.set(150.0);
            let requeued = engine.dispatch().requeue_at("event-1", "maria", "mended", due_at).await;
            let expected = due_at.max(150.0);
            assert_eq!(requeued.expect("it failed").status.next_attempt_at, expected);
            engine.close().await;
            assert_eq!(versions(&disk).last(), Some(&version), "due at {due_at}");
        }
    });
}

#[test]
fn d12_a_dismissed_record_is_no_trouble_and_comes_back_when_it_is_requeued() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let first = engine(&disk, &clock).await;
        failed(&first, "event-1").await;
        let flow = first.dispatch();
        let dismissed = flow.dismiss("event-1", "maria", "the page is gone").await.expect("failed");
        assert_eq!((dismissed.changed, dismissed.status.status), (true, "dismissed"));
        assert_eq!(dismissed.status.last_error_code.expect("kept").as_str(), "cms.refused");
        let again = flow.dismiss("event-1", "maria", "the page is gone").await.expect("known");
        assert!(!again.changed);
        let health = flow.health().await.expect("it answers");
        assert_eq!((health.status, health.failed, health.dismissed), ("ok", 0, 1));
        first.close().await;
        let second = engine(&disk, &clock).await;
        let flow = second.dispatch();
        let health = flow.health().await.expect("it answers");
        assert_eq!((health.status, health.dismissed, health.due), ("ok", 1, 0));
        let back = flow.requeue("event-1", "maria", "it is back").await.expect("dismissed");
        assert_eq!(back.status.status, "pending");
        assert_eq!(flow.health().await.expect("it answers").dismissed, 0);
    });
}

#[test]
fn d12_a_record_that_is_not_failed_is_left_alone_and_nothing_is_written() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        flow.enqueue(change("event-1"), 2).await.expect("it is valid");
        let head = engine.head();
        let (by, why) = ("maria", "because");
        assert_eq!(code(flow.requeue("event-1", by, why).await), "dispatch.not_failed");
        assert_eq!(code(flow.dismiss("event-1", by, why).await), "dispatch.not_held");
        assert_eq!(code(flow.repin("event-1", by, why).await), "dispatch.not_held");
        assert_eq!(code(flow.requeue("event-2", by, why).await), "dispatch.record_missing");
        assert_eq!(code(flow.requeue("event-1", "", why).await), "dispatch.operator_invalid");
        assert_eq!(code(flow.requeue("event-1", by, " ").await), "dispatch.reason_invalid");
        assert_eq!(engine.head(), head);
        failed(&engine, "event-0").await;
        clock.set(99.0);
        assert_eq!(code(flow.requeue("event-0", by, why).await), "dispatch.clock_regressed");
    });
}

#[test]
fn d12_a_requeued_record_refuses_the_claims_of_its_earlier_rounds() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        flow.enqueue(change("event-1"), 1).await.expect("it is valid");
        let stale = flow.claim("w", 60.0).await.expect("a claim").expect("due");
        clock.set(160.0);
        assert!(flow.claim("w", 60.0).await.expect("it answers").is_none());
        assert_eq!(flow.status("event-1").await.expect("there").status, "failed");
        flow.requeue("event-1", "maria", "because").await.expect("failed");
        let fresh = flow.claim("w", 60.0).await.expect("a claim").expect("due");
        let late = flow.complete(&stale, accepted("event-1", 2)).await;
        assert_eq!(code(late), "dispatch.claim_lost");
        assert!(flow.complete(&fresh, accepted("event-1", 2)).await.is_ok());
        let over = flow.requeue("event-1", "maria", "because").await;
        assert_eq!(code(over), "dispatch.not_failed");
    });
}

async fn delivering(disk: &MemoryDisk, clock: &ManualClock, digest: &str) -> Engine {
    let source =
        SourceRuntime { capabilities_sha256: digest.to_owned(), longest_call_seconds: 10.0 };
    let builder = Engine::in_memory(disk).clock(clock.clone()).source_runtime(source);
    builder.open().await.expect("it opens")
}

#[test]
fn d12_d9_held_records_are_repinned_or_dismissed_and_the_others_go_on() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let before = delivering(&disk, &clock, OTHER).await;
        for id in ["event-1", "event-2"] {
            before.delivery().enqueue_change(change(id), 5, 5).await.expect("it is valid");
        }
        before.close().await;
        let engine = delivering(&disk, &clock, DIGEST).await;
        let flow = engine.delivery();
        let health = flow.health().await.expect("it answers");
        assert_eq!((health.status, health.held, health.contract_mismatches), ("blocked", 2, 2));
        let client = answering(|_| Ok(String::new()));
        assert!(flow.run_once(&client, "w", 60.0).await.expect("it runs").is_none());
        let moved = flow.repin("change/event-1", "maria", "a new release").await.expect("held");
        assert_eq!((moved.changed, moved.status.status), (true, "pending"));
        let again = flow.repin("change/event-1", "maria", "a new release").await.expect("moved");
        assert!(!again.changed);
        let let_be = flow.dismiss("change/event-2", "maria", "no longer wanted").await;
        assert_eq!(let_be.expect("held").status.status, "dismissed");
        // What is not held is not let be.
        let wanted = flow.dismiss("change/event-1", "maria", "no longer wanted").await;
        assert_eq!(code(wanted), "source_delivery.not_held");
        let health = flow.health().await.expect("it answers");
        assert_eq!((health.status, health.held, health.due), ("ok", 0, 1));
        assert_eq!((health.contract_mismatches, health.dismissed), (0, 1));
        // Registered again under the digest of now, it is the same record.
        let known = flow.enqueue_change(change("event-1"), 5, 5).await.expect("the same");
        assert!(known.already_known);
        let claim = flow.claim("w", 60.0).await.expect("a claim").expect("due");
        assert_eq!(claim.request().event_id.as_str(), "event-1");
    });
}

#[test]
fn d12_d9_a_repinned_record_keeps_the_due_time_it_had() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let before = delivering(&disk, &clock, OTHER).await;
        let flow = before.delivery();
        flow.enqueue_change(change("event-1"), 5, 5).await.expect("it is valid");
        let client = answering(|_| Err(marked("network", true)));
        let later = flow.run_once(&client, "w", 60.0).await.expect("it settles").expect("due");
        assert!(later.next_attempt_at > 100.0);
        flow.enqueue_change(change("event-2"), 5, 5).await.expect("it is valid");
        before.close().await;
        let engine = delivering(&disk, &clock, DIGEST).await;
        let flow = engine.delivery();
        for (id, due_at) in [("event-1", later.next_attempt_at), ("event-2", 100.0)] {
            let identity = format!("change/{id}");
            let moved = flow.repin(&identity, "maria", "a new release").await.expect("held");
            assert_eq!((moved.changed, moved.status.next_attempt_at), (true, due_at), "{id}");
        }
        for (now, due) in [(100.0, 1), (later.next_attempt_at, 2)] {
            clock.set(now);
            assert_eq!(flow.health().await.expect("it answers").due, due, "at {now}");
        }
    });
}

#[test]
fn d9_records_that_rest_because_no_digest_is_configured_make_health_blocked() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let before = delivering(&disk, &clock, OTHER).await;
        before.delivery().enqueue_change(change("event-1"), 5, 5).await.expect("it is valid");
        before.close().await;
        let without = engine(&disk, &clock).await;
        let health = without.delivery().health().await.expect("it answers");
        assert_eq!((health.status, health.due, health.contract_mismatches), ("blocked", 0, 1));
        let idle = without.processing().health().await.expect("it answers");
        assert_eq!((idle.status, idle.contract_mismatches), ("ok", 0));
        without.close().await;
        let with = delivering(&disk, &clock, OTHER).await;
        let health = with.delivery().health().await.expect("it answers");
        assert_eq!((health.status, health.due, health.contract_mismatches), ("ok", 1, 0));
    });
}

fn leasehold(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_leasehold"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the program runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn d12_the_command_line_requeues_by_filter_and_shows_who_and_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal");
    run(async {
        let builder = Engine::builder(&path).clock(ManualClock::at(100.0));
        let engine = builder.open().await.expect("it opens");
        failed(&engine, "event-1").await;
        failed(&engine, "event-2").await;
        engine.close().await;
    });
    let by = ["--by", "maria", "--why", "it was mended"];
    let all =
        |command: &'static str| [&[command, "journal", "--code", "cms.refused"], &by[..]].concat();
    let dry = leasehold(&["requeue", "journal", "--all", "--dry-run"], folder.path());
    assert_eq!(dry.status.code(), Some(0));
    assert!(text(&dry).ends_with("2 would be requeued\n"), "{}", text(&dry));
    assert_eq!(leasehold(&["health", "journal"], folder.path()).status.code(), Some(1));
    let done = leasehold(&all("dismiss"), folder.path());
    assert_eq!(text(&done), "2 dismissed, unchanged 0, refused 0\n");
    assert_eq!(leasehold(&["health", "journal"], folder.path()).status.code(), Some(0));
    let one = [&["requeue", "journal", "--flow", "dispatch", "--id", "event-2"], &by[..]].concat();
    assert_eq!(text(&leasehold(&one, folder.path())), "1 requeued, unchanged 0, refused 0\n");
    let again = leasehold(&[&one[..], &["--json"]].concat(), folder.path());
    assert_eq!(again.status.code(), Some(1));
    let refused: serde_json::Value = serde_json::from_slice(&again.stdout).expect("JSON");
    assert_eq!(refused["refused"][0]["error_code"], "dispatch.not_failed");
    let history = text(&leasehold(&["show", "journal", "dispatch", "event-2"], folder.path()));
    assert!(history.contains("dismissed  by maria: it was mended"), "{history}");
    assert!(history.contains("requeued   by maria: it was mended"), "{history}");
    let audit = leasehold(&["audit", "journal"], folder.path());
    assert_eq!(audit.status.code(), Some(0), "{}", text(&audit));
}

#[test]
fn d12_the_command_line_spaces_the_due_times_of_what_it_requeues_at_a_rate() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal");
    let ids = ["event-1", "event-2", "event-3", "event-4"];
    run(async {
        let builder = Engine::builder(&path).clock(ManualClock::at(100.0));
        let engine = builder.open().await.expect("it opens");
        for id in ids {
            failed(&engine, id).await;
        }
        engine.close().await;
    });
    let asked = ["requeue", "journal", "--all", "--by", "maria", "--why", "mended"];
    let spaced = leasehold(&[&asked[..], &["--rate", "1"]].concat(), folder.path());
    assert_eq!(text(&spaced), "4 requeued, unchanged 0, refused 0\n");
    let audit = leasehold(&["audit", "journal"], folder.path());
    assert_eq!(audit.status.code(), Some(0), "{}", text(&audit));
    let mut times: Vec<f64> = run(async {
        // The time of then is not known here: a clock far behind it reads what was written.
        let builder = Engine::builder(&path).clock(ManualClock::at(200.0));
        let engine = builder.open().await.expect("it opens");
        let mut due = Vec::new();
        for id in ids {
            let status = engine.dispatch().status(id).await.expect("it is there");
            due.push(status.next_attempt_at);
        }
        engine.close().await;
        due
    });
    // The first is due when it was written; the others a second apart, from a moment before that.
    times.sort_by(f64::total_cmp);
    for pair in times[1..].windows(2) {
        assert!((pair[1] - pair[0] - 1.0).abs() < 1e-6, "{times:?}");
    }
    assert!(times[1] - times[0] <= 1.0 && times[3] - times[0] > 2.0, "{times:?}");
    let shown = text(&leasehold(&["show", "journal", "dispatch", "event-4"], folder.path()));
    let line = shown.lines().find(|line| line.contains("requeued")).expect("it was requeued");
    let (_, said) = line.split_once("Z  ").expect("a time");
    assert!(
        said.starts_with("requeued   due 20") && said.ends_with("Z by maria: mended"),
        "{line}"
    );
    let none = leasehold(&[&asked[..], &["--rate", "0"]].concat(), folder.path());
    assert_eq!(none.status.code(), Some(2));
}

#[test]
fn an_intervention_without_a_choice_a_name_or_a_reason_is_refused_as_usage() {
    let folder = tempfile::tempdir().expect("a folder");
    for wrong in [
        &["requeue", "journal", "--by", "m", "--why", "w"][..],
        &["requeue", "journal", "--all", "--why", "w"],
        &["requeue", "journal", "--all", "--by", "m"],
        &["requeue", "journal", "--id", "event-1", "--by", "m", "--why", "w"],
        &["repin", "journal", "--all", "--by", "m", "--why", "w", "--digest", DIGEST],
    ] {
        assert_eq!(leasehold(wrong, folder.path()).status.code(), Some(2), "{wrong:?}");
    }
    let nowhere = ["requeue", "journal", "--all", "--by", "m", "--why", "w"];
    assert_eq!(leasehold(&nowhere, folder.path()).status.code(), Some(3));
    assert!(!folder.path().join("journal").exists());
}
