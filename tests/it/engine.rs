//! The engine as a host sees it: opening, closing, many records at once.

use crate::support::{Scripted, accepted, change, change_with, code, engine, run};
use leasehold::{DrainOptions, Engine, Error, JournalError, ManualClock, MemoryDisk, drain};
use leasehold_journal::memory::Fault;
use std::future::{Future as _, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use tokio::task::JoinSet;

#[test]
fn handles_are_send_and_sync_and_futures_are_send() {
    fn send<T: Send>(value: T) -> T {
        value
    }
    fn send_sync<T: Send + Sync>() {}
    send_sync::<Engine>();
    send_sync::<leasehold::Handle<leasehold::Dispatch>>();
    run(async {
        let engine = engine(&MemoryDisk::new(), &ManualClock::at(1.0)).await;
        send(engine.dispatch().enqueue("{}", 5)).await.expect_err("no change");
        send(engine.dispatch().claim("w", 1.0)).await.expect("nothing is due");
        send(engine.close()).await;
    });
}

#[test]
fn a_real_journal_opens_again_with_everything_in_it() {
    run(async {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("journal");
        let open = || Engine::builder(&path).clock(ManualClock::at(100.0)).open();
        let engine = open().await.expect("a new journal");
        let long = "Kaffee. ".repeat(20_000);
        engine.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
        engine.dispatch().enqueue(change_with("event-2", &long), 5).await.expect("it is valid");
        let second = open().await.err();
        assert_eq!(second, Some(Error::Journal(JournalError::Locked)));
        engine.close().await;
        let engine = open().await.expect("it opens again");
        let claims = [
            engine.dispatch().claim("w", 60.0).await.expect("a claim").expect("due"),
            engine.dispatch().claim("w", 60.0).await.expect("a claim").expect("due"),
        ];
        assert!(claims[1].request().change.as_str().contains(&long));
        for claim in &claims {
            let answer = accepted(claim.request().event_id.as_str(), 2);
            engine.dispatch().complete(claim, answer).await.expect("it is live");
        }
        let health = engine.dispatch().health().await.expect("a time");
        assert_eq!((health.status, health.counts["succeeded"]), ("ok", 2));
        engine.close().await;
    });
}

#[test]
fn many_changes_are_answered_one_by_one_in_their_order_and_are_durable_then() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        flow.enqueue(change("event-7"), 5).await.expect("it is valid");
        flow.enqueue(change_with("event-8", "another text"), 5).await.expect("it is valid");
        let mut changes: Vec<String> =
            (0..5_000).map(|it| change(&format!("event-{it}"))).collect();
        changes[9] = "no change".to_owned();
        let answers = flow.enqueue_many(&changes, 5).await;
        assert_eq!(answers.len(), 5_000);
        for (place, answer) in answers.iter().enumerate() {
            match (place, answer) {
                (8, Err(error)) => assert_eq!(error.code(), "dispatch.idempotency_collision"),
                (9, Err(error)) => assert_eq!(error.code(), "dispatch.change_invalid"),
                (place, answer) => {
                    let known = answer.as_ref().expect("it is valid");
                    assert_eq!(known.status.event_id.as_str(), format!("event-{place}"));
                    assert_eq!(known.already_known, place == 7);
                }
            }
        }
        disk.crash(0);
        drop(engine);
        let engine = self::engine(&disk, &clock).await;
        let counts = engine.dispatch().health().await.expect("a time").counts;
        assert_eq!(counts["pending"], 4_999);
        let ceilings = engine.dispatch().enqueue_many([change("event-a")], 21).await;
        assert_eq!(
            ceilings[0].as_ref().expect_err("too many").code(),
            "dispatch.max_attempts_invalid"
        );
        assert!(engine.dispatch().enqueue_many([""; 0], 5).await.is_empty());
    });
}

#[test]
fn leases_of_an_earlier_life_end_when_the_journal_is_opened_and_stay_counted() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let open = |end: bool| {
            Engine::in_memory(&disk).clock(clock.clone()).end_leases_on_open(end).open()
        };
        let engine = open(true).await.expect("it opens");
        engine.dispatch().enqueue(change("event-1"), 2).await.expect("it is valid");
        let first = engine.dispatch().claim("w", 600.0).await.expect("a claim").expect("due");
        engine.close().await;
        let engine = open(false).await.expect("it opens");
        let status = engine.dispatch().status("event-1").await.expect("it is there");
        assert_eq!(status.status, "leased");
        engine.close().await;
        let engine = open(true).await.expect("it opens");
        let status = engine.dispatch().status("event-1").await.expect("it is there");
        assert_eq!((status.status, status.next_attempt_at), ("retry_wait", 100.0));
        let late = engine.dispatch().complete(&first, accepted("event-1", 2)).await;
        assert_eq!(crate::support::code(late), "dispatch.claim_lost");
        let second = engine.dispatch().claim("w", 600.0).await.expect("a claim").expect("due");
        assert_eq!(second.view().attempt, 2);
        engine.close().await;
        let engine = open(true).await.expect("it opens");
        let status = engine.dispatch().status("event-1").await.expect("it is there");
        assert_eq!(status.status, "failed", "the ceiling counts crashed attempts");
    });
}

#[test]
fn a_thousand_records_side_by_side_are_each_settled_once_and_health_follows() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let mut tasks = JoinSet::new();
        for number in 0..1_000 {
            let flow = engine.dispatch().clone();
            tasks.spawn(async move { flow.enqueue(change(&format!("event-{number}")), 5).await });
        }
        while let Some(done) = tasks.join_next().await {
            done.expect("no panic").expect("it is valid");
        }
        let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        for _ in 0..32 {
            let (flow, seen) = (engine.dispatch().clone(), Arc::clone(&seen));
            tasks.spawn(async move {
                while let Some(claim) = flow.claim("w", 60.0).await.expect("a claim") {
                    let id = claim.request().event_id.to_string();
                    flow.complete(&claim, accepted(&id, 2)).await.expect("it is live");
                    seen.lock().expect("not poisoned").push(id);
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.expect("no panic");
        }
        let mut seen = seen.lock().expect("not poisoned").clone();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 1_000);
        let health = engine.dispatch().health().await.expect("a time");
        assert_eq!((health.counts["succeeded"], health.due), (1_000, 0));
        assert_eq!(engine.dispatch().next_at().await.expect("a time"), None);
    });
}

#[test]
fn more_expired_leases_than_one_wave_are_all_settled_by_one_claim() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        for number in 0..1_500 {
            let id = format!("event-{number:04}");
            engine.dispatch().enqueue(change(&id), 5).await.expect("it is valid");
            engine.dispatch().claim("w", 10.0).await.expect("a claim").expect("due");
        }
        clock.set(110.0);
        assert_eq!(engine.dispatch().health().await.expect("a time").expired_leases, 1_500);
        let claim = engine.dispatch().claim("w", 10.0).await.expect("a claim").expect("due");
        assert_eq!(claim.view().event_id.as_str(), "event-0000");
        let health = engine.dispatch().health().await.expect("a time");
        assert_eq!((health.expired_leases, health.due), (0, 1_499));
    });
}

#[test]
fn records_that_rest_come_back_when_they_are_asked_for() {
    run(async {
        // More records than stay active, so that the first ones have to be read again.
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        for number in 0..5_000 {
            engine
                .dispatch()
                .enqueue(change(&format!("event-{number:04}")), 5)
                .await
                .expect("valid");
        }
        for number in [0, 1, 4_999] {
            let id = format!("event-{number:04}");
            let again = engine.dispatch().enqueue(change(&id), 5).await.expect("it is known");
            assert!(again.already_known);
            let claim = engine.dispatch().claim("w", 60.0).await.expect("a claim").expect("due");
            let answer = accepted(claim.request().event_id.as_str(), 2);
            engine.dispatch().complete(&claim, answer).await.expect("it is live");
        }
        assert_eq!(engine.dispatch().health().await.expect("a time").counts["succeeded"], 3);
    });
}

#[test]
fn a_record_that_could_not_be_read_once_is_claimed_the_next_time() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let first = engine(&disk, &clock).await;
        first.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
        first.close().await;
        let engine = engine(&disk, &clock).await;
        disk.inject(Fault::ReadFails(JournalError::Storage));
        let failed = engine.dispatch().claim("w", 60.0).await;
        assert_eq!(code(failed), "storage_failed");
        assert_eq!(engine.dispatch().health().await.expect("a time").due, 1);
        assert!(engine.dispatch().claim("w", 60.0).await.expect("a claim").is_some());
    });
}

#[test]
fn a_leased_record_that_cannot_be_read_when_its_lease_ends_is_quarantined() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let first = engine(&disk, &clock).await;
        let long = "Kaffee. ".repeat(4_000);
        first.dispatch().enqueue(change_with("event-1", &long), 5).await.expect("it is valid");
        first.dispatch().claim("w", 10.0).await.expect("a claim").expect("due");
        first.close().await;
        let engine = engine(&disk, &clock).await;
        disk.lose_chunks();
        clock.set(110.0);
        assert!(engine.dispatch().claim("w", 10.0).await.expect("a claim").is_none());
        let health = engine.dispatch().health().await.expect("a time");
        assert_eq!((health.quarantined, health.expired_leases, health.counts["leased"]), (1, 0, 0));
        assert_eq!(engine.dispatch().next_at().await.expect("a time"), None);
    });
}

#[test]
fn a_claim_whose_caller_went_away_is_given_back() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        engine.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
        // Polled once, so that the request is on its way, then dropped. One that is answered within that
        // poll already is given back and made again.
        loop {
            let mut claim = Box::pin(engine.dispatch().claim("gone", 600.0));
            let polled = poll_fn(|context| Poll::Ready(claim.as_mut().poll(context))).await;
            let Poll::Ready(answered) = polled else { break };
            let claimed = answered.expect("a claim").expect("it is due");
            engine.dispatch().release(&claimed).await.expect("it is held");
        }
        let mut moves = engine.dispatch().moves();
        let claim = loop {
            moves.mark_unchanged();
            if let Some(claim) = engine.dispatch().claim("w", 600.0).await.expect("a claim") {
                break claim;
            }
            moves.changed().await.expect("the engine runs");
        };
        assert_eq!(claim.view().lease_owner.as_str(), "w");
    });
}

#[test]
fn workers_end_with_the_first_failure_of_the_journal() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        for number in 0..3 {
            engine.dispatch().enqueue(change(&format!("event-{number}")), 5).await.expect("valid");
        }
        disk.inject(Fault::WriteFails(JournalError::Full));
        let options = DrainOptions {
            in_flight: 8,
            lease_seconds: 60.0,
            worker: "w".to_owned(),
            destination: None,
        };
        let client = Arc::new(Scripted::default());
        let (_keep, stop) = tokio::sync::watch::channel(false);
        let result = drain(engine.dispatch(), client, &options, stop, |_| {}).await;
        let code = result.expect_err("the journal failed").code().to_owned();
        assert!(["storage_full", "journal_poisoned"].contains(&code.as_str()), "{code}");
    });
}

#[test]
fn workers_end_when_they_are_told_to_and_when_nobody_can_tell_them_any_more() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        engine.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
        let held = engine.dispatch().claim("other", 600.0).await.expect("a claim").expect("due");
        let options = DrainOptions {
            in_flight: 2,
            lease_seconds: 60.0,
            worker: "w".to_owned(),
            destination: None,
        };
        for told in [true, false] {
            let (asking, stop) = tokio::sync::watch::channel(false);
            let client = Arc::new(Scripted::default());
            let (flow, options) = (engine.dispatch().clone(), options.clone());
            let working =
                tokio::spawn(async move { drain(&flow, client, &options, stop, |_| {}).await });
            if told {
                asking.send_replace(true);
            }
            drop(asking);
            working.await.expect("no panic").expect("it ends well");
        }
        assert_eq!(held.view().attempt, 1);
    });
}
