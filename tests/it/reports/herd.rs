//! Ten thousand failures at one instant, and how they come back.

use super::{enqueue, ids};
use crate::destination::{LIMITS, draining, ends, workers};
use crate::support::{accepted, engine, run};
use futures_util::{StreamExt as _, stream};
use leasehold::{
    CallFailure, ChangeRequest, Client, Clock as _, Destination, Destinations, Dispatch, Engine,
    Limits, ManualClock, MemoryDisk,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const RECORDS: usize = 10_000;
const WORKERS: usize = 32;
/// A little shorter than a step of the test's clock.
const CALL_SECONDS: f64 = 0.049;
const STEP_SECONDS: f64 = 0.05;

/// A side that takes its time and remembers when it was called.
struct Slow {
    clock: ManualClock,
    busy: AtomicUsize,
    calls: Mutex<Vec<f64>>,
}

impl Slow {
    fn new(clock: &ManualClock) -> Arc<Self> {
        let (clock, busy, calls) = (clock.clone(), AtomicUsize::new(0), Mutex::default());
        Arc::new(Self { clock, busy, calls })
    }
}

impl Client<Dispatch> for Slow {
    fn longest_call_seconds(&self) -> Option<f64> {
        None
    }

    async fn call(&self, request: ChangeRequest) -> Result<Vec<u8>, CallFailure> {
        self.calls.lock().expect("not poisoned").push(self.clock.now_seconds());
        self.busy.fetch_add(1, Ordering::Relaxed);
        self.clock.sleep(CALL_SECONDS).await;
        self.busy.fetch_sub(1, Ordering::Relaxed);
        Ok(accepted(request.event_id.as_str(), 2).into_bytes())
    }
}

/// An engine whose records all failed at 100, in an earlier life, so that all of them are due at 105.
async fn failed_at_once(clock: &ManualClock) -> Engine {
    let disk = MemoryDisk::new();
    let earlier = engine(&disk, clock).await;
    fail_at_once(&earlier).await;
    earlier.close().await;
    engine(&disk, clock).await
}

async fn fail_at_once(engine: &Engine) {
    enqueue(engine, &ids(RECORDS), 5).await;
    let flow = engine.dispatch();
    let failing = (0..RECORDS).map(|_| async {
        let claim = flow.claim("w", 60.0).await.expect("a claim").expect("due");
        flow.retry(&claim, "network").await.expect("it is its own")
    });
    let due = stream::iter(failing).buffer_unordered(256);
    assert!(due.all(|status| async move { status.next_attempt_at == 105.0 }).await);
    assert_eq!(flow.health().await.expect("it answers").due, 0);
}

/// Lets happen what can while the clock stands: every worker is at a call or waits for leave then.
async fn until_settled(side: &Slow, destination: &Destination) {
    let mut settled = 0;
    while settled < 2 {
        for _ in 0..32 {
            tokio::task::yield_now().await;
        }
        let all = side.busy.load(Ordering::Relaxed) + destination.view().waiting;
        settled = if all == WORKERS { settled + 1 } else { 0 };
    }
}

/// How many calls start in each step of a second.
async fn first_second(engine: &Engine, clock: &ManualClock, limits: Limits) -> Vec<usize> {
    let destination = Destinations::new(engine, 1024).expect("within limits").add("cms", limits);
    let destination = destination.expect("within limits");
    let (start, side) = (clock.now_seconds(), Slow::new(clock));
    let working = draining(engine, &side, workers(WORKERS, &destination));
    let mut steps = Vec::new();
    let mut before = 0;
    for step in 1..=20 {
        until_settled(&side, &destination).await;
        let calls = side.calls.lock().expect("not poisoned").len();
        steps.push(calls - before);
        before = calls;
        clock.set(start + f64::from(step) * STEP_SECONDS);
    }
    let second = side.calls.lock().expect("not poisoned").iter().all(|at| *at < start + 1.0);
    assert!(second, "what was counted started in the first second");
    let ending = ends(working);
    tokio::pin!(ending);
    // The calls under way need time to end.
    loop {
        tokio::select! {
            biased;
            () = &mut ending => return steps,
            () = super::settle_down() => clock.set(clock.now_seconds() + STEP_SECONDS),
        }
    }
}

#[test]
fn ten_thousand_failures_at_one_instant_do_not_come_back_in_one_second() {
    run(async {
        let clock = ManualClock::at(100.0);
        let engine = failed_at_once(&clock).await;
        clock.set(105.0);
        assert_eq!(engine.dispatch().health().await.expect("it answers").due, RECORDS as u64);
        let gentle = Limits { in_flight_max: WORKERS, slow_start: true, ..LIMITS };
        // Without a rate there are growing steps, and never more at once than there may be.
        let steps = first_second(&engine, &clock, gentle).await;
        let mut expected = vec![WORKERS; 20];
        expected[..5].copy_from_slice(&[1, 2, 4, 8, 16]);
        assert_eq!(steps, expected);
        // With one the first second stays below it.
        let rated = Limits { requests_per_second: Some(100.0), ..gentle };
        let calls: usize = first_second(&engine, &clock, rated).await.iter().sum();
        assert!((10..=100).contains(&calls), "{calls}");
        let counts = engine.dispatch().health().await.expect("it answers").counts;
        assert_eq!((counts["failed"], counts["leased"]), (0, 0));
    });
}
