//! Leases that are given back, and engines that are shut down with calls under way.

mod lost;
mod program;

use crate::support::{Scripted, accepted, change, code, marked, run};
use leasehold::{
    CallFailure, ChangeRequest, Client, Delays, Dispatch, DrainOptions, Engine, Error, FlowDelays,
    ManualClock, MemoryDisk, Pipeline, Remaining, drain,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// An engine that ends leases of an earlier life, with base delay 5.
async fn engine(disk: &MemoryDisk, clock: &ManualClock) -> Engine {
    let delays = FlowDelays { dispatch: Delays::default(), ..FlowDelays::default() };
    Engine::in_memory(disk).clock(clock.clone()).delays(delays).open().await.expect("it opens")
}

/// A client whose calls hang until they may go on, or are dropped.
struct Hanging {
    begun: watch::Sender<u64>,
    dropped: watch::Sender<u64>,
    may_end: watch::Receiver<bool>,
}

/// Counts what is dropped before it has ended.
struct Dropped<'a>(Option<&'a watch::Sender<u64>>);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        if let Some(dropped) = self.0 {
            dropped.send_modify(|count| *count += 1);
        }
    }
}

impl Hanging {
    fn new() -> (Arc<Self>, watch::Sender<bool>) {
        let (go_on, may_end) = watch::channel(false);
        let (begun, dropped) = (watch::Sender::new(0), watch::Sender::new(0));
        (Arc::new(Self { begun, dropped, may_end }), go_on)
    }

    async fn has_begun(&self, calls: u64) {
        let mut begun = self.begun.subscribe();
        begun.wait_for(|count| *count == calls).await.expect("the client is there");
    }
}

impl Client<Dispatch> for Hanging {
    fn longest_call_seconds(&self) -> Option<f64> {
        None
    }

    async fn call(&self, request: ChangeRequest) -> Result<Vec<u8>, CallFailure> {
        self.begun.send_modify(|count| *count += 1);
        let mut guard = Dropped(Some(&self.dropped));
        self.may_end.clone().wait_for(|go| *go).await.map_err(|_| CallFailure::Unmarked)?;
        guard.0 = None;
        Ok(accepted(request.event_id.as_str(), 2).into_bytes())
    }
}

fn workers(in_flight: usize) -> DrainOptions {
    DrainOptions { in_flight, lease_seconds: 600.0, worker: "w".to_owned(), destination: None }
}

/// Workers of flow `dispatch`, each at a call.
async fn at_work(
    engine: &Engine,
    client: &Arc<Hanging>,
    in_flight: usize,
) -> JoinHandle<Result<(), Error>> {
    let (flow, client) = (engine.dispatch().clone(), Arc::clone(client));
    let at_call = Arc::clone(&client);
    // The sender is kept for as long as they work: one that is gone counts as asking.
    let working = tokio::spawn(async move {
        let (_keep, stop) = watch::channel(false);
        drain(&flow, client, &workers(in_flight), stop, |_| {}).await
    });
    at_call.has_begun(in_flight as u64).await;
    working
}

/// Lets everything run that can.
async fn settle_down() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// Six changes: one done, one given up, one to be tried again at 105, three not tried yet.
async fn mixed(engine: &Engine) {
    let flow = engine.dispatch();
    for id in 0..6 {
        flow.enqueue(change(&format!("event-{id}")), 5).await.expect("it is valid");
    }
    let client = Scripted::new([
        Ok(accepted("event-0", 2)),
        Err(marked("cms.refused", false)),
        Err(marked("network", true)),
    ]);
    for _ in 0..3 {
        flow.run_once(&client, "w", 60.0).await.expect("it runs").expect("due");
    }
}

/// Every change's state, its attempts and its last error.
async fn standing(engine: &Engine) -> Vec<(&'static str, u32, Option<String>)> {
    let mut found = Vec::new();
    for id in 0..6 {
        let status = engine.dispatch().status(&format!("event-{id}")).await.expect("it is there");
        let error = status.last_error_code.map(|code| code.to_string());
        found.push((status.status, status.attempts, error));
    }
    found
}

/// Every change that can be claimed.
async fn claimable(engine: &Engine) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    while let Some(claim) = engine.dispatch().claim("w", 600.0).await.expect("a claim") {
        found.insert(claim.request().event_id.to_string());
    }
    found
}

#[test]
fn a_lease_given_back_leaves_the_record_as_it_was_and_due_at_once() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        mixed(&engine).await;
        clock.set(110.0);
        let before = standing(&engine).await;
        let flow = engine.dispatch();
        for _ in 0..30 {
            let claim = flow.claim("w", 60.0).await.expect("a claim").expect("due");
            assert_eq!((claim.view().event_id.as_str(), claim.view().attempt), ("event-2", 2));
            let status = flow.release(&claim).await.expect("it is its own");
            assert_eq!((status.status, status.next_attempt_at), ("retry_wait", 105.0));
            assert_eq!(status.last_error_code.expect("kept").as_str(), "network");
            assert_eq!(code(flow.release(&claim).await), "dispatch.claim_lost");
            assert_eq!(code(flow.retry(&claim, "network").await), "dispatch.claim_lost");
        }
        assert_eq!(standing(&engine).await, before, "more than the ceiling, and none was spent");
        let claim = flow.claim("w", 60.0).await.expect("a claim").expect("due");
        clock.set(170.0);
        assert_eq!(code(flow.release(&claim).await), "dispatch.lease_expired");
    });
}

#[test]
fn a_shut_down_engine_can_do_all_that_a_killed_one_can_and_spent_no_attempt() {
    run(async {
        let (disks, clock) = ([MemoryDisk::new(), MemoryDisk::new()], ManualClock::at(100.0));
        let mut reopened = Vec::new();
        for (disk, kill) in disks.iter().zip([false, true]) {
            clock.set(100.0);
            let before = engine(disk, &clock).await;
            mixed(&before).await;
            clock.set(110.0);
            let (client, _go_on) = Hanging::new();
            let working = at_work(&before, &client, 3).await;
            if kill {
                working.abort();
                assert!(working.await.expect_err("it was aborted").is_cancelled());
                drop(before);
                disk.crash(0);
            } else {
                let left = before.shutdown(0.0).await.expect("nothing is wrong");
                assert_eq!(left, Remaining { released: 3, leased: 0, waiting: 4 });
                working.await.expect("no panic").expect("it ends well");
            }
            assert_eq!(*client.dropped.borrow(), 3);
            reopened.push(engine(disk, &clock).await);
        }
        let (released, killed) = (standing(&reopened[0]).await, standing(&reopened[1]).await);
        let expired = || Some("lease_expired".to_owned());
        assert_eq!(released[..2], killed[..2], "what is settled stays as it is");
        assert_eq!(released[2], ("retry_wait", 1, Some("network".to_owned())));
        assert_eq!(killed[2], ("retry_wait", 2, expired()));
        for id in 3..5 {
            assert_eq!(released[id], ("pending", 0, None));
            assert_eq!(killed[id], ("retry_wait", 1, expired()));
        }
        assert_eq!(released[5], killed[5], "nobody was at it");
        assert_eq!(claimable(&reopened[0]).await, claimable(&reopened[1]).await);
    });
}

#[test]
fn a_hanging_client_delays_a_shutdown_by_its_budget_and_no_longer() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        mixed(&engine).await;
        let (client, _go_on) = Hanging::new();
        let working = at_work(&engine, &client, 2).await;
        let ending = tokio::spawn(engine.shutdown(25.0));
        for now in [100.0, 124.9] {
            clock.set(now);
            settle_down().await;
            assert!(!ending.is_finished() && *client.dropped.borrow() == 0, "at {now}");
        }
        clock.set(125.0);
        let left = ending.await.expect("no panic").expect("nothing is wrong");
        assert_eq!(left, Remaining { released: 2, leased: 0, waiting: 4 });
        assert_eq!((*client.begun.borrow(), *client.dropped.borrow()), (2, 2));
        working.await.expect("no panic").expect("it ends well");
    });
}

#[test]
fn calls_that_end_within_the_budget_are_settled_and_no_other_is_begun() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        mixed(&engine).await;
        let (client, go_on) = Hanging::new();
        let working = at_work(&engine, &client, 2).await;
        let flow = engine.dispatch().clone();
        let ending = tokio::spawn(engine.shutdown(25.0));
        settle_down().await;
        assert_eq!(code(flow.claim("other", 60.0).await), "engine_stopped");
        assert_eq!(code(flow.run_once(client.as_ref(), "w", 60.0).await), "engine_stopped");
        // Whatever needs no call still works.
        flow.enqueue(change("event-9"), 5).await.expect("it is valid");
        go_on.send_replace(true);
        let left = ending.await.expect("no panic").expect("nothing is wrong");
        assert_eq!(left, Remaining { released: 0, leased: 0, waiting: 3 });
        assert_eq!((*client.begun.borrow(), *client.dropped.borrow()), (2, 0));
        working.await.expect("no panic").expect("it ends well");
        let engine = self::engine(&disk, &clock).await;
        let counts = engine.dispatch().health().await.expect("it answers").counts;
        assert_eq!((counts["succeeded"], counts["leased"]), (3, 0));
    });
}

#[test]
fn a_second_word_ends_the_wait_at_once_and_a_pipeline_ends_with_its_workers() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        mixed(&engine).await;
        let (client, _go_on) = Hanging::new();
        let (_keep, stop) = watch::channel(false);
        let mut pipeline = Pipeline::new(&engine, stop);
        pipeline.add(engine.dispatch(), Arc::clone(&client), &workers(2), |_| {});
        let stopper = engine.stopper();
        let words = async {
            client.has_begun(2).await;
            stopper.drain();
            settle_down().await;
            assert_eq!(*client.dropped.borrow(), 0);
            stopper.stop_calls();
        };
        let (ended, ()) = tokio::join!(pipeline.finish(), words);
        ended.expect("it ends well");
        assert_eq!(*client.dropped.borrow(), 2);
        // Nothing goes back to an earlier phase.
        stopper.drain();
        let left = engine.shutdown(1e9).await.expect("nothing is wrong");
        assert_eq!(left, Remaining { released: 2, leased: 0, waiting: 4 });
    });
}

#[test]
fn claims_made_by_hand_are_told_and_left_to_their_holders() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        mixed(&engine).await;
        let flow = engine.dispatch().clone();
        let kept = flow.claim("w", 60.0).await.expect("a claim").expect("due");
        let given_back = flow.claim("w", 60.0).await.expect("a claim").expect("due");
        engine.stopper().drain();
        flow.release(&given_back).await.expect("it is its own");
        let left = engine.shutdown(f64::NAN).await.expect("nothing is wrong");
        assert_eq!(left, Remaining { released: 0, leased: 1, waiting: 3 });
        assert_eq!(kept.view().attempt, 1);
    });
}
