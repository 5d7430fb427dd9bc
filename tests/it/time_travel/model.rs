//! Any life of a journal: what hosts, workers and operators may do to it, and what the engine says of
//! every record after each step.

use super::IDS;
use crate::support::{accepted, change, marked};
use crate::wire_flows::{
    self, End, acknowledge, answering, delivery, lifecycle, processing as processed,
};
use leasehold::audit::Past;
use leasehold::{
    Claim, DeliveryRequest, Dispatch, Engine, Error, LifecycleRequest, ManualClock, MemoryDisk,
    NotificationRequest, ProcessingRequest,
};
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::flows::Answers;
use leasehold_actors::record::stream_of;
use leasehold_actors::replay::{Replay, Replayed};
use proptest::prelude::*;
use serde_json::{Value, json};

/// How an attempt ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum How {
    Done,
    Moving,
    Retried,
    Failed,
}

impl How {
    fn end(self, done: impl FnOnce() -> End, moving: impl FnOnce() -> End) -> End {
        match self {
            Self::Done => done(),
            Self::Moving => moving(),
            Self::Retried => Err(marked("network", true)),
            Self::Failed => Err(marked("cms.refused", false)),
        }
    }
}

/// One thing a host, a worker or an operator does; refused or not.
#[derive(Debug, Clone, Copy)]
pub(super) enum Move {
    Enqueue(usize),
    Claim(f64),
    /// Settles a claim by hand: 0 is the newest, the others are stale.
    Settle(usize, How),
    /// Gives a claim back.
    Release(usize),
    Watch(How),
    Notify(How),
    Process(How),
    EnqueueForSource(usize),
    Remove(usize),
    Deliver(How),
    Requeue(usize),
    RequeueAt(usize, f64),
    Dismiss(usize),
    Reopen,
}

pub(super) fn moves() -> impl Strategy<Value = Vec<(Move, f64)>> {
    let id = || 0..IDS.len();
    let how = || {
        let ends = [How::Done, How::Done, How::Moving, How::Retried, How::Failed];
        proptest::sample::select(ends.to_vec())
    };
    let one = prop_oneof![
        4 => id().prop_map(Move::Enqueue),
        4 => (1.0..100.0).prop_map(Move::Claim),
        6 => (0_usize..3, how()).prop_map(|(claim, how)| Move::Settle(claim, how)),
        2 => (0_usize..3).prop_map(Move::Release),
        4 => how().prop_map(Move::Watch),
        3 => how().prop_map(Move::Notify),
        3 => how().prop_map(Move::Process),
        2 => id().prop_map(Move::EnqueueForSource),
        2 => id().prop_map(Move::Remove),
        3 => how().prop_map(Move::Deliver),
        1 => id().prop_map(Move::Requeue),
        1 => (id(), 900.0..2_500.0).prop_map(|(id, due_at)| Move::RequeueAt(id, due_at)),
        1 => id().prop_map(Move::Dismiss),
        1 => Just(Move::Reopen),
    ];
    // Time mostly goes forward, sometimes back.
    proptest::collection::vec((one, -20.0..120.0), 1..60)
}

/// What a call brought, if it was not refused; nothing else may go wrong.
fn allowed<T>(result: Result<T, Error>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(Error::Blocked(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

fn cancellation(id: &str) -> String {
    json!({
        "schema": "blun.cms-content-cancellation.v1",
        "cancellation_id": format!("cancel-{id}"),
        "event_id": id,
        "site_id": "site-1",
        "website_version": "web-1",
        "source_id": "landing.intro",
        "source_sequence": 1,
    })
    .to_string()
}

async fn settle(engine: &Engine, claim: &Claim<Dispatch>, how: How) {
    let flow = engine.dispatch();
    let id = claim.view().event_id;
    allowed(match how {
        How::Done => flow.complete(claim, accepted(id.as_str(), 2)).await,
        How::Moving | How::Retried => flow.retry(claim, "network").await,
        How::Failed => flow.fail(claim, "cms.refused").await,
    });
}

async fn watch(engine: &Engine, how: How, number: usize) {
    let client = answering(move |request: LifecycleRequest| {
        let answer = |status| {
            let answer = lifecycle(&format!("{number:02x}"), status);
            Ok(answer.replace("event-1", request.event_id.as_str()))
        };
        how.end(|| answer("cancelled"), || answer("processing"))
    });
    allowed(engine.lifecycle().run_once(&client, "w", 60.0).await);
}

async fn process(engine: &Engine, how: How) {
    let mut known = Vec::new();
    for id in IDS {
        known.extend(allowed(engine.processing().status(id).await));
    }
    let client = answering(move |request: ProcessingRequest| {
        let known = known.iter().find(|status| status.event_id == request.event_id);
        let known = known.expect("it is registered");
        how.end(|| processed(known, "succeeded", Some(259)), || processed(known, "pending", None))
    });
    allowed(engine.processing().run_once(&client, "w", 60.0).await);
}

async fn make(engine: &Engine, step: Move, claims: &mut Vec<Claim<Dispatch>>, number: usize) {
    let failed = || Err(marked("http_status", true));
    match step {
        Move::Enqueue(id) => {
            allowed(engine.dispatch().enqueue(change(IDS[id]), 3).await);
        }
        Move::Claim(lease) => {
            claims.extend(allowed(engine.dispatch().claim("w", lease).await).flatten())
        }
        Move::Settle(stale, how) => {
            if let Some(claim) = claims.iter().rev().nth(stale) {
                settle(engine, claim, how).await;
            }
        }
        Move::Release(stale) => {
            if let Some(claim) = claims.iter().rev().nth(stale) {
                allowed(engine.dispatch().release(claim).await);
            }
        }
        Move::Watch(how) => watch(engine, how, number).await,
        Move::Notify(how) => {
            let client = answering(move |request: NotificationRequest| {
                how.end(|| acknowledge(request), failed)
            });
            allowed(engine.notification().run_once(&client, "w", 60.0).await);
        }
        Move::Process(how) => process(engine, how).await,
        Move::EnqueueForSource(id) => {
            allowed(engine.delivery().enqueue_change(change(IDS[id]), 4, 3).await);
        }
        Move::Remove(id) => {
            allowed(engine.delivery().enqueue_removal(cancellation(IDS[id]), 4, 3).await);
        }
        Move::Deliver(how) => {
            let client =
                answering(move |request: DeliveryRequest| how.end(|| delivery(&request), failed));
            allowed(engine.delivery().run_once(&client, "w", 60.0).await);
        }
        Move::Requeue(id) => {
            allowed(engine.dispatch().requeue(IDS[id], "maria", "it was mended").await);
        }
        Move::RequeueAt(id, due_at) => {
            let flow = engine.dispatch();
            allowed(flow.requeue_at(IDS[id], "maria", "it was mended", due_at).await);
        }
        Move::Dismiss(id) => {
            allowed(engine.dispatch().dismiss(IDS[id], "maria", "the page is gone").await);
        }
        Move::Reopen => {}
    }
}

/// Every record and every flow's health, as the engine tells it.
async fn lived(engine: &Engine) -> Value {
    const CLOCK: &str = "the clock stands at a time";
    let mut records = Vec::new();
    for id in IDS {
        records.push(json!({
            "dispatch": allowed(engine.dispatch().status(id).await),
            "lifecycle": allowed(engine.lifecycle().status(id).await),
            "notification": allowed(engine.notification().status(id).await),
            "processing": allowed(engine.processing().status(id).await),
            "change": allowed(engine.delivery().status("change", id).await),
            "cancellation":
                allowed(engine.delivery().status("cancellation", &format!("cancel-{id}")).await),
        }));
    }
    let mut processing = json!(engine.processing().health().await.expect(CLOCK));
    // The journal alone does not tell which digest is expected.
    processing["expected_capabilities_sha256"] = Value::Null;
    let health = json!({
        "dispatch": engine.dispatch().health().await.expect(CLOCK),
        "lifecycle": engine.lifecycle().health().await.expect(CLOCK),
        "notification": engine.notification().health().await.expect(CLOCK),
        "processing": processing,
        "delivery": engine.delivery().health().await.expect(CLOCK),
    });
    json!({ "records": records, "health": health })
}

/// The same, as a replay tells it.
pub(super) fn told(past: &Past, now: Timestamp) -> Value {
    fn status<F: Answers>(replay: &Replay<F>, id: &str, now: Timestamp) -> Option<F::Status> {
        match replay.get(stream_of(F::TAG, id))? {
            Replayed::Sound(state) => F::status(state, now),
            Replayed::Quarantined => panic!("{id} of {} does not replay", F::TAG.name()),
        }
    }
    let flows = &past.states.flows;
    let records = IDS.map(|id| {
        json!({
            "dispatch": status(&flows.dispatch, id, now),
            "lifecycle": status(&flows.lifecycle, id, now),
            "notification": status(&flows.notification, id, now),
            "processing": status(&flows.processing, id, now),
            "change": status(&flows.delivery, &format!("change/{id}"), now),
            "cancellation": status(&flows.delivery, &format!("cancellation/cancel-{id}"), now),
        })
    });
    json!({ "records": records, "health": past.states.health(now) })
}

/// What was seen after one move.
pub(super) struct Note {
    pub(super) sequence: u64,
    pub(super) now: Timestamp,
    pub(super) lived: Value,
}

pub(super) async fn live(moves: &[(Move, f64)], disk: &MemoryDisk) -> Vec<Note> {
    let (clock, mut now) = (ManualClock::at(1000.0), 1000.0_f64);
    let mut engine = wire_flows::engine(disk, &clock).await;
    let (mut claims, mut notes) = (Vec::new(), Vec::new());
    for (number, (step, by)) in moves.iter().enumerate() {
        now = (now + by).max(0.0);
        clock.set(now);
        if let Move::Reopen = step {
            engine.close().await;
            engine = wire_flows::engine(disk, &clock).await;
        }
        make(&engine, *step, &mut claims, number).await;
        while engine.handing_over() > 0 {
            tokio::task::yield_now().await;
        }
        let lived = lived(&engine).await;
        let now = Timestamp::new(now).expect("a time");
        notes.push(Note { sequence: engine.head().sequence, now, lived });
    }
    engine.close().await;
    notes
}
