//! One event that breaks whatever it touches.

use super::{enqueue, ids};
use crate::destination::{LIMITS, draining, workers};
use crate::door::program::PATIENCE;
use crate::support::{accepted, change, change_with, engine, run};
use leasehold::{
    CallFailure, ChangeRequest, Client, Destinations, Dispatch, DrainOptions, Engine, Limits,
    ManualClock, MemoryDisk, Remaining, drain,
};
use leasehold_actors::record::{FlowTag, stream_of};
use leasehold_journal::{Append, JournalId, Log, LogOptions, Store as _, StoreReader as _};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::watch;

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "a client's own fault");
    }
}

/// A client that some events break.
struct Fragile;

/// A call of that client.
struct Call {
    id: String,
    _bomb: Option<Bomb>,
}

impl Future for Call {
    type Output = Result<Vec<u8>, CallFailure>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match self.id.as_str() {
            "panics" | "panics-twice" => panic!("a client's own fault"),
            "cannot-be-sent" => Err(CallFailure::Unmarked),
            "answered-with-nonsense" => Ok(b"\xff".to_vec()),
            id => Ok(accepted(id, 2).into_bytes()),
        })
    }
}

impl Client<Dispatch> for Fragile {
    fn longest_call_seconds(&self) -> Option<f64> {
        None
    }

    fn call(
        &self,
        request: ChangeRequest,
    ) -> impl Future<Output = <Call as Future>::Output> + Send {
        let id = request.event_id.to_string();
        assert_ne!(id, "panics-at-once", "a client's own fault");
        let explodes = ["panics-when-dropped", "panics-twice"].contains(&id.as_str());
        Call { id, _bomb: explodes.then(|| Bomb) }
    }
}

/// Writes the first event of this change once more behind it, so that the record does not replay.
fn register_twice(disk: &MemoryDisk, id: &str) {
    let options = LogOptions { new_id: JournalId([0; 16]), create: false };
    let mut log = Log::open(disk.medium(), options, &mut |_| Ok(())).expect("it verifies");
    let stream = stream_of(FlowTag::Dispatch, id);
    let records = log.reader().read_stream(stream).expect("it reads");
    let bodies = vec![records.first().expect("it is there").body.clone()];
    let placed = log
        .commit(&[Append { stream, expected_version: 1, bodies, alone: None }])
        .expect("it works");
    assert!(placed.iter().all(Result::is_ok));
}

/// Every poison there is, among 20 changes that are well.
async fn poisoned(disk: &MemoryDisk, clock: &ManualClock) -> Engine {
    let before = engine(disk, clock).await;
    let flow = before.dispatch();
    for id in [
        "panics",
        "panics-at-once",
        "panics-when-dropped",
        "panics-twice",
        "cannot-be-sent",
        "answered-with-nonsense",
        "does-not-replay",
    ] {
        flow.enqueue(change(id), 5).await.expect("it is valid");
    }
    let long = "Kaffee. ".repeat(4_000);
    flow.enqueue(change_with("unreadable", &long), 5).await.expect("it is valid");
    enqueue(&before, &ids(20), 5).await;
    before.close().await;
    register_twice(disk, "does-not-replay");
    let engine = engine(disk, clock).await;
    disk.lose_chunks();
    engine
}

#[test]
fn one_poison_event_of_whatever_kind_stops_no_other() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = poisoned(&disk, &clock).await;
        // One call at once: whoever hung or was lost would stop all others.
        let limits = Limits { in_flight_max: 1, ..LIMITS };
        let side = Destinations::new(&engine, 8).expect("within limits").add("cms", limits);
        let side = side.expect("within limits");
        let (working, _stop) = draining(&engine, &Arc::new(Fragile), workers(4, &side));
        // Asked for over and over again it would keep them busy for ever.
        let ended = tokio::time::timeout(PATIENCE, working).await.expect("nothing is in their way");
        ended.expect("no panic").expect("it ends well");
        let flow = engine.dispatch();
        for id in ids(20) {
            assert_eq!(flow.status(&id).await.expect("there").status, "succeeded", "{id}");
        }
        for (id, code) in [
            ("panics", "dispatch.client_failure"),
            ("panics-at-once", "dispatch.client_failure"),
            ("panics-when-dropped", "dispatch.client_failure"),
            ("panics-twice", "dispatch.client_failure"),
            ("cannot-be-sent", "dispatch.client_failure"),
            ("answered-with-nonsense", "dispatch.response_invalid"),
        ] {
            let status = flow.status(id).await.expect("there");
            assert_eq!((status.status, status.attempts), ("failed", 1), "{id}");
            assert_eq!(status.last_error_code.expect("it failed").as_str(), code, "{id}");
        }
        let health = flow.health().await.expect("it answers");
        assert_eq!((health.counts["succeeded"], health.failed, health.quarantined), (20, 6, 2));
        assert_eq!((health.counts["leased"], health.due), (0, 0));
    });
}

/// A client whose calls never end, and panic when they are dropped.
struct Clinging {
    begun: watch::Sender<usize>,
}

impl Client<Dispatch> for Clinging {
    fn longest_call_seconds(&self) -> Option<f64> {
        None
    }

    async fn call(&self, _: ChangeRequest) -> Result<Vec<u8>, CallFailure> {
        let _bomb = Bomb;
        self.begun.send_modify(|count| *count += 1);
        std::future::pending().await
    }
}

#[test]
fn a_call_that_panics_when_it_is_dropped_ends_no_worker_and_its_lease_is_given_back() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        enqueue(&engine, &ids(3), 5).await;
        let client = Arc::new(Clinging { begun: watch::Sender::new(0) });
        let mut begun = client.begun.subscribe();
        let (flow, calls) = (engine.dispatch().clone(), Arc::clone(&client));
        let working = tokio::spawn(async move {
            let options = DrainOptions {
                in_flight: 2,
                lease_seconds: 600.0,
                worker: "w".to_owned(),
                destination: None,
            };
            let (_keep, stop) = watch::channel(false);
            drain(&flow, calls, &options, stop, |_| {}).await
        });
        begun.wait_for(|count| *count == 2).await.expect("the client is there");
        let left = engine.shutdown(0.0).await.expect("nothing is wrong");
        assert_eq!(left, Remaining { released: 2, leased: 0, waiting: 3 });
        working.await.expect("no panic").expect("it ends well");
    });
}
