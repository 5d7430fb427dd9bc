//! Records that an operator requeued, wherever they are and whatever the workers do: they are picked up.

use super::{given_up, requeue, settle_down};
use crate::destination::{LIMITS, Mood, Side, draining, one, until_waiting, workers};
use crate::door::Served;
use crate::door::program::PATIENCE;
use crate::pauses::{pause, resume};
use crate::support::{Scripted, accepted, change, engine, marked, run};
use leasehold::{DrainOptions, Engine, GateState, Limits, ManualClock, MemoryDisk, Pipeline};
use std::sync::Arc;
use tokio::sync::watch;

const WORKERS: DrainOptions =
    DrainOptions { in_flight: 2, lease_seconds: 60.0, worker: String::new(), destination: None };

async fn claimed(engine: &Engine) -> Option<String> {
    let claim = engine.dispatch().claim("w", 60.0).await.expect("it answers")?;
    Some(claim.request().event_id.to_string())
}

/// Waits, while the clock stands, until this change is accepted.
async fn until_succeeded(engine: &Engine, id: &str) {
    let flow = engine.dispatch();
    let mut moves = flow.moves();
    let succeeded = async {
        while flow.status(id).await.expect("it is there").status != "succeeded" {
            moves.changed().await.expect("the engine runs");
        }
    };
    tokio::time::timeout(PATIENCE, succeeded).await.expect("it is picked up");
}

#[test]
fn a_record_requeued_while_its_flow_site_or_side_is_paused_is_claimed_when_that_goes_on() {
    run(async {
        for scope in ["flow/dispatch", "site/site-1", "destination/cms"] {
            let engine = engine(&MemoryDisk::new(), &ManualClock::at(100.0)).await;
            given_up(&engine, "event-1").await;
            pause(&engine, scope).await;
            requeue(&engine, "event-1").await;
            assert_eq!(claimed(&engine).await, None, "{scope}");
            // Once more, now that it was found to be paused and put aside.
            assert_eq!(claimed(&engine).await, None, "{scope}");
            resume(&engine, scope).await;
            assert_eq!(claimed(&engine).await.as_deref(), Some("event-1"), "{scope}");
        }
    });
}

#[test]
fn a_record_requeued_behind_an_open_breaker_is_sent_when_the_side_is_back() {
    run(async {
        let clock = ManualClock::at(100.0);
        let limits = Limits { breaker_failures: 1, ..LIMITS };
        let (engine, destination) = one(&clock, 0, limits).await;
        given_up(&engine, "event-1").await;
        engine.dispatch().enqueue(change("event-2"), 5).await.expect("it is valid");
        let side = Arc::new(Side::new(&clock, [], Mood::Fails(marked("network", true))));
        let (working, _stop) = draining(&engine, &side, workers(2, &destination));
        until_waiting(&destination, 2).await;
        assert_eq!(destination.view().state, GateState::Open);
        requeue(&engine, "event-1").await;
        settle_down().await;
        assert_eq!(side.calls(), [100.0], "nothing is sent while it is open");
        side.turn(Mood::Accepts);
        clock.set(105.0);
        until_succeeded(&engine, "event-1").await;
        working.await.expect("no panic").expect("it ends well");
        assert_eq!(side.calls(), [100.0, 105.0, 105.0]);
    });
}

#[test]
fn a_record_requeued_while_all_workers_sleep_until_a_later_time_wakes_one() {
    run(async {
        let clock = ManualClock::at(100.0);
        let engine = engine(&MemoryDisk::new(), &clock).await;
        given_up(&engine, "event-1").await;
        engine.dispatch().enqueue(change("event-2"), 5).await.expect("it is valid");
        let later = engine.dispatch().claim("w", 60.0).await.expect("a claim").expect("due");
        engine.dispatch().retry(&later, "network").await.expect("it is its own");
        assert_eq!(engine.dispatch().next_at().await.expect("it answers"), Some(105.0));
        let (stop, stopped) = watch::channel(false);
        let mut pipeline = Pipeline::new(&engine, stopped);
        let client = Scripted::new([Ok(accepted("event-1", 1))]);
        let options = DrainOptions { worker: "w".to_owned(), ..WORKERS };
        pipeline.add(engine.dispatch(), client, &options, |_| {});
        let script = async {
            // Health is behind their questions, so that they have found nothing and sleep then.
            for _ in 0..20 {
                settle_down().await;
                engine.dispatch().health().await.expect("it answers");
            }
            requeue(&engine, "event-1").await;
            until_succeeded(&engine, "event-1").await;
            stop.send_replace(true);
        };
        let (stayed, ()) = tokio::join!(pipeline.stay(), script);
        stayed.expect("nothing is wrong");
        assert_eq!(engine.dispatch().status("event-2").await.expect("there").status, "retry_wait");
    });
}

#[test]
fn a_requeued_record_is_claimed_after_a_close_a_crash_and_a_restart_before_it() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let open = || Engine::in_memory(&disk).clock(clock.clone()).open();
        for id in ["event-1", "event-2", "event-3"] {
            let engine = open().await.expect("it opens");
            given_up(&engine, id).await;
            if id == "event-1" {
                // Requeued in the life after: it was given up in one that is over.
                engine.close().await;
                let engine = open().await.expect("it opens");
                requeue(&engine, id).await;
                engine.close().await;
            } else {
                requeue(&engine, id).await;
                if id == "event-2" {
                    engine.close().await;
                } else {
                    drop(engine);
                    disk.crash(0);
                }
            }
            let engine = open().await.expect("it opens");
            let claim = engine.dispatch().claim("w", 60.0).await.expect("a claim").expect("due");
            assert_eq!(claim.request().event_id.as_str(), id);
            let done = engine.dispatch().complete(&claim, accepted(id, 2)).await;
            assert_eq!(done.expect("it is live").status, "succeeded");
            engine.close().await;
        }
    });
}

#[test]
fn a_record_requeued_through_the_door_is_delivered_by_the_engine_that_serves() {
    run(async {
        let served = Served::at_port().await;
        served.failed("event-1").await;
        let (stop, stopped) = watch::channel(false);
        let mut pipeline = Pipeline::new(&served.engine, stopped);
        let client = Scripted::new([Ok(accepted("event-1", 1))]);
        let options = DrainOptions { worker: "w".to_owned(), ..WORKERS };
        pipeline.add(served.engine.dispatch(), client, &options, |_| {});
        let script = async {
            let asked = "{\"by\":\"maria\",\"why\":\"it was mended\"}";
            let requeued = served.post("/v1/dispatch/event-1/requeue", asked).await;
            assert_eq!((requeued.status, &requeued.json()["changed"]), (200, &true.into()));
            until_succeeded(&served.engine, "event-1").await;
            let status = served.get("/v1/dispatch/event-1").await.json();
            assert_eq!(status["status"], "succeeded");
            stop.send_replace(true);
        };
        let (stayed, ()) = tokio::join!(pipeline.stay(), script);
        stayed.expect("nothing is wrong");
        served.close().await;
    });
}
