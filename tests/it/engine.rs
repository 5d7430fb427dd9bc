//! The engine as a host sees it: opening, closing, many records at once.

use crate::support::{accepted, change, change_with, engine, run};
use leasehold::{Engine, Error, JournalError, ManualClock, MemoryDisk};
use std::sync::Arc;
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
