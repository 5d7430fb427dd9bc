//! A flow, a site or a destination is paused by an operator, recorded with who and why (D12).

mod command_line;
mod journal;

use crate::support::{accepted, change, code, engine, run};
use crate::wire_flows::{self, DIGEST, answering, attempt, delivery, there};
use leasehold::{
    CallFailure, Client, Delivery, DeliveryRequest, Dispatch, DrainOptions, Engine, Handle,
    ManualClock, MemoryDisk, PausedScope, Pipeline, Scope, SourceRuntime, drain,
};
use std::sync::Arc;
use tokio::sync::watch;

pub(super) fn scope(text: &str) -> Scope {
    Scope::new(text).expect("a scope")
}

pub(crate) async fn pause(engine: &Engine, text: &str) {
    let paused = engine.pause(scope(text), "maria", "it is being mended").await.expect("it is");
    assert!(paused.changed, "{text}");
}

pub(crate) async fn resume(engine: &Engine, text: &str) {
    let resumed = engine.resume(scope(text), "paul", "it was mended").await.expect("it does");
    assert!(resumed.changed && resumed.status.is_none(), "{text}");
}

/// A change of this site.
pub(super) fn change_of(site: &str, id: &str) -> String {
    change(id).replace("\"site-1\"", &format!("\"{site}\""))
}

/// The id of the change that is claimed next; it is accepted.
async fn claimed(flow: &Handle<Dispatch>) -> Option<String> {
    let claim = flow.claim("w", 60.0).await.expect("it answers")?;
    let id = claim.request().event_id.as_str().to_owned();
    flow.complete(&claim, accepted(&id, 2)).await.expect("it is live");
    Some(id)
}

async fn is_claimed(flow: &Handle<Delivery>) -> bool {
    flow.claim("w", 60.0).await.expect("it answers").is_some()
}

/// An engine that delivers both ways.
async fn delivering(disk: &MemoryDisk, clock: &ManualClock) -> Engine {
    let source =
        SourceRuntime { capabilities_sha256: DIGEST.to_owned(), longest_call_seconds: 10.0 };
    let builder = Engine::in_memory(disk).clock(clock.clone()).source_runtime(source);
    builder.open().await.expect("it opens")
}

#[test]
fn nothing_of_a_paused_flow_is_claimed_the_others_are_and_it_goes_on_when_resumed() {
    run(async {
        let engine = delivering(&MemoryDisk::new(), &ManualClock::at(100.0)).await;
        engine.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
        pause(&engine, "flow/dispatch").await;
        // It is still registered and read, and health is the contract's own.
        engine.dispatch().enqueue(change("event-2"), 5).await.expect("it is valid");
        engine.delivery().enqueue_change(change("event-1"), 5, 5).await.expect("it is valid");
        assert_eq!(engine.dispatch().status("event-2").await.expect("there").status, "pending");
        let health = engine.dispatch().health().await.expect("it answers");
        assert_eq!((health.status, health.due), ("ok", 2));
        assert_eq!(claimed(engine.dispatch()).await, None);
        assert_eq!(engine.dispatch().next_at().await.expect("it answers"), None);
        assert!(is_claimed(engine.delivery()).await);
        resume(&engine, "flow/dispatch").await;
        assert_eq!(engine.dispatch().next_at().await.expect("it answers"), Some(100.0));
        for id in ["event-1", "event-2"] {
            assert_eq!(claimed(engine.dispatch()).await.as_deref(), Some(id));
        }
    });
}

#[test]
fn a_destination_stops_the_flows_that_call_it_and_no_other() {
    run(async {
        for (destination, expected) in [
            ("destination/cms", [false, false, true]),
            ("destination/receiver", [true, true, true]),
            ("destination/source", [true, true, false]),
        ] {
            let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
            let engine = wire_flows::engine(&disk, &clock).await;
            engine.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
            attempt(engine.dispatch(), &answering(|_| Ok(accepted("event-1", 2)))).await;
            there(|| engine.lifecycle().status("event-1")).await;
            engine.dispatch().enqueue(change("event-2"), 5).await.expect("it is valid");
            engine.delivery().enqueue_change(change("event-1"), 5, 5).await.expect("it is valid");
            pause(&engine, destination).await;
            let dispatched = engine.dispatch().claim("w", 60.0).await.expect("it answers");
            let watched = engine.lifecycle().claim("w", 60.0).await.expect("it answers");
            let found =
                [dispatched.is_some(), watched.is_some(), is_claimed(engine.delivery()).await];
            assert_eq!(found, expected, "{destination}");
        }
    });
}

#[test]
fn a_record_goes_on_only_when_neither_its_flow_nor_its_site_nor_its_destination_is_paused() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        engine.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
        let all = ["destination/cms", "flow/dispatch", "site/site-1"];
        for text in all {
            pause(&engine, text).await;
        }
        let told: Vec<_> = engine.paused().into_iter().map(|it| it.scope.to_string()).collect();
        assert_eq!(told, all);
        for text in all {
            assert_eq!(claimed(engine.dispatch()).await, None, "before {text} goes on");
            resume(&engine, text).await;
        }
        assert_eq!(engine.paused(), Vec::<PausedScope>::new());
        assert_eq!(claimed(engine.dispatch()).await.as_deref(), Some("event-1"));
    });
}

#[test]
fn many_due_records_of_a_paused_site_are_walked_over_once_and_come_back_in_their_order() {
    const MANY: usize = 300;
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        for number in 0..MANY {
            let change = change_of("site-2", &format!("event-{number:03}"));
            flow.enqueue(change, 5).await.expect("it is valid");
        }
        for id in ["event-a", "event-b"] {
            flow.enqueue(change(id), 5).await.expect("it is valid");
        }
        pause(&engine, "site/site-2").await;
        assert_eq!(claimed(flow).await.as_deref(), Some("event-a"));
        assert_eq!(claimed(flow).await.as_deref(), Some("event-b"));
        // They are in nobody's way any more, and health counts them as before.
        assert_eq!(flow.next_at().await.expect("it answers"), None);
        assert_eq!(flow.health().await.expect("it answers").due, MANY as u64);
        assert_eq!(flow.status("event-000").await.expect("there").status, "pending");
        flow.enqueue(change("event-c"), 5).await.expect("it is valid");
        flow.enqueue(change_of("site-2", "event-late"), 5).await.expect("it is valid");
        assert_eq!(claimed(flow).await.as_deref(), Some("event-c"));
        assert_eq!(claimed(flow).await, None);
        resume(&engine, "site/site-2").await;
        assert_eq!(flow.health().await.expect("it answers").due, MANY as u64 + 1);
        for number in 0..MANY {
            assert_eq!(claimed(flow).await, Some(format!("event-{number:03}")));
        }
        assert_eq!(claimed(flow).await.as_deref(), Some("event-late"));
    });
}

#[test]
fn a_site_is_paused_in_every_flow() {
    run(async {
        let engine = delivering(&MemoryDisk::new(), &ManualClock::at(100.0)).await;
        pause(&engine, "site/site-2").await;
        engine.dispatch().enqueue(change_of("site-2", "event-1"), 5).await.expect("valid");
        let change = change_of("site-2", "event-1");
        engine.delivery().enqueue_change(change, 5, 5).await.expect("it is valid");
        assert_eq!(claimed(engine.dispatch()).await, None);
        assert!(!is_claimed(engine.delivery()).await);
        resume(&engine, "site/site-2").await;
        assert_eq!(claimed(engine.dispatch()).await.as_deref(), Some("event-1"));
        assert!(is_claimed(engine.delivery()).await);
    });
}

#[test]
fn leases_that_are_out_settle_or_run_out_while_their_flow_is_paused() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        for id in ["event-1", "event-2"] {
            flow.enqueue(change(id), 5).await.expect("it is valid");
        }
        let first = flow.claim("w", 60.0).await.expect("it answers").expect("due");
        drop(flow.claim("w", 60.0).await.expect("it answers").expect("due"));
        pause(&engine, "flow/dispatch").await;
        let settled = flow.complete(&first, accepted("event-1", 2)).await.expect("it is live");
        assert_eq!(settled.status, "succeeded");
        assert_eq!(flow.next_at().await.expect("it answers"), Some(160.0));
        clock.set(160.0);
        assert_eq!(flow.next_at().await.expect("it answers"), Some(160.0));
        assert_eq!(claimed(flow).await, None);
        assert_eq!(flow.status("event-2").await.expect("there").status, "retry_wait");
        assert_eq!(flow.next_at().await.expect("it answers"), None);
    });
}

#[test]
fn an_operator_settles_what_waits_for_a_paused_site_and_it_does_not_come_back() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        // Registered under a digest that is pinned no more, so that it can be dismissed.
        let before = delivering(&disk, &clock).await;
        for id in ["event-1", "event-2"] {
            before.delivery().enqueue_change(change(id), 5, 5).await.expect("it is valid");
        }
        pause(&before, "site/site-1").await;
        assert!(!is_claimed(before.delivery()).await);
        before.close().await;
        let other =
            SourceRuntime { capabilities_sha256: "d".repeat(64), longest_call_seconds: 10.0 };
        let builder = Engine::in_memory(&disk).clock(clock.clone()).source_runtime(other);
        let engine = builder.open().await.expect("it opens");
        let flow = engine.delivery();
        flow.repin("change/event-1", "maria", "a new release").await.expect("held");
        assert!(!is_claimed(flow).await);
        flow.dismiss("change/event-2", "maria", "not wanted").await.expect("held");
        resume(&engine, "site/site-1").await;
        assert!(is_claimed(flow).await && !is_claimed(flow).await);
    });
}

#[test]
fn a_pause_survives_a_close_and_a_cut_of_the_power() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let first = engine(&disk, &clock).await;
        first.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
        pause(&first, "site/site-1").await;
        let told = first.paused();
        first.close().await;
        let second = engine(&disk, &clock).await;
        assert_eq!(second.paused(), told);
        assert_eq!(claimed(second.dispatch()).await, None);
        pause(&second, "flow/dispatch").await;
        resume(&second, "site/site-1").await;
        let told = second.paused();
        disk.crash(0);
        drop(second);
        let third = engine(&disk, &clock).await;
        assert_eq!(third.paused(), told);
        assert_eq!(told[0].scope, scope("flow/dispatch"));
        assert_eq!(claimed(third.dispatch()).await, None);
        resume(&third, "flow/dispatch").await;
        assert_eq!(claimed(third.dispatch()).await.as_deref(), Some("event-1"));
    });
}

#[test]
fn pausing_or_resuming_twice_is_once_and_who_was_first_stays() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        pause(&engine, "site/site-1").await;
        let (head, told) = (engine.head(), engine.paused());
        clock.set(200.0);
        let again = engine.pause(scope("site/site-1"), "paul", "another").await.expect("it is");
        assert_eq!((again.changed, again.status.as_ref()), (false, Some(&told[0])));
        assert_eq!((engine.head(), engine.paused()), (head, told.clone()));
        assert_eq!(told[0].since.seconds(), 100.0);
        assert_eq!(told[0].intervention.by.as_str(), "maria");
        resume(&engine, "site/site-1").await;
        let head = engine.head();
        let again = engine.resume(scope("site/site-1"), "paul", "another").await.expect("it is");
        assert_eq!((again.changed, again.status), (false, None));
        let never = engine.resume(scope("site/site-9"), "paul", "another").await.expect("it is");
        assert_eq!((never.changed, engine.head()), (false, head));
    });
}

#[test]
fn a_pause_without_a_good_name_reason_or_time_is_refused_and_nothing_is_written() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        pause(&engine, "site/site-1").await;
        let head = engine.head();
        let asked =
            |by: &'static str, why: &'static str| engine.resume(scope("site/site-1"), by, why);
        assert_eq!(code(asked("maria k", "because").await), "control.operator_invalid");
        assert_eq!(code(asked("maria", "two\nlines").await), "control.reason_invalid");
        let paused = engine.pause(scope("flow/dispatch"), "", "because").await;
        assert_eq!(code(paused), "control.operator_invalid");
        clock.set(99.0);
        assert_eq!(code(asked("maria", "because").await), "control.clock_regressed");
        assert_eq!((engine.head(), engine.paused().len()), (head, 1));
        for text in ["flow/everything", "site/a b", "destination/dispatch", "everything"] {
            assert_eq!(Scope::new(text), None, "{text}");
        }
    });
}

#[test]
fn workers_end_where_all_that_is_left_is_paused() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        for (site, id) in [("site-2", "event-0"), ("site-1", "event-1"), ("site-2", "event-2")] {
            flow.enqueue(change_of(site, id), 5).await.expect("it is valid");
        }
        pause(&engine, "site/site-2").await;
        let options = DrainOptions {
            in_flight: 3,
            lease_seconds: 60.0,
            worker: "w".to_owned(),
            destination: None,
        };
        let (_asked, stop) = watch::channel(false);
        let client = || {
            Arc::new(answering(|request: leasehold::ChangeRequest| {
                Ok(accepted(request.event_id.as_str(), 2))
            }))
        };
        drain(flow, client(), &options, stop.clone(), |_| {}).await.expect("fine");
        let health = flow.health().await.expect("it answers");
        assert_eq!((health.counts["succeeded"], health.due), (1, 2));
        resume(&engine, "site/site-2").await;
        drain(flow, client(), &options, stop, |_| {}).await.expect("fine");
        let counts = flow.health().await.expect("it answers").counts;
        assert_eq!(counts["succeeded"], 3);
    });
}

/// A source runtime whose first call has dispatch go on.
struct Resuming(Arc<Engine>);

impl Client<Delivery> for Resuming {
    fn longest_call_seconds(&self) -> Option<f64> {
        None
    }

    async fn call(&self, request: DeliveryRequest) -> Result<Vec<u8>, CallFailure> {
        resume(&self.0, "flow/dispatch").await;
        delivery(&request).map(String::into_bytes)
    }
}

#[test]
fn a_worker_that_sleeps_over_a_paused_flow_wakes_when_it_goes_on() {
    run(async {
        let engine = Arc::new(delivering(&MemoryDisk::new(), &ManualClock::at(100.0)).await);
        engine.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
        engine.delivery().enqueue_change(change("event-1"), 5, 5).await.expect("it is valid");
        pause(&engine, "flow/dispatch").await;
        let options = DrainOptions {
            in_flight: 1,
            lease_seconds: 60.0,
            worker: "w".to_owned(),
            destination: None,
        };
        let (_asked, stop) = watch::channel(false);
        let mut pipeline = Pipeline::new(&engine, stop);
        let client = answering(|_| Ok(accepted("event-1", 2)));
        pipeline.add(engine.dispatch(), client, &options, |_| {});
        pipeline.add(engine.delivery(), Resuming(Arc::clone(&engine)), &options, |_| {});
        pipeline.finish().await.expect("nothing is wrong");
        assert_eq!(engine.dispatch().status("event-1").await.expect("there").status, "succeeded");
        let delivered = engine.delivery().status("change", "event-1").await.expect("there");
        assert_eq!(delivered.status, "succeeded");
    });
}
