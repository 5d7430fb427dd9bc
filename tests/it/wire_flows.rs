//! Golden samples of what the flows after `dispatch` write, as one life through all of them writes it.

use crate::support::{accepted, change, marked, run, snapshots};
use leasehold::{
    CallFailure, Client, Delays, DeliveryRequest, Engine, FlowDelays, HandOver, ManualClock,
    MemoryDisk, NotificationRequest, ProcessingStatus, SourceRuntime,
};
use leasehold::{Entropy, Error, Handle};
use leasehold_actors::carried::{self, Origin};
use leasehold_actors::codec::{self, DecodeError};
use leasehold_actors::contract::notification::Notification;
use leasehold_actors::flows::Answers;
use leasehold_actors::flows::all::AllFlows;
use leasehold_actors::flows::{
    delivery::Delivery, dispatch::Dispatch, lifecycle::Lifecycle, notification::Notify,
    processing::Processing,
};
use leasehold_actors::record::FlowTag;
use leasehold_actors::replay::ReplayError;
use leasehold_journal::walk::Item;
use leasehold_journal::{JournalId, Log, LogOptions, StoreReader as _};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

pub(crate) const DIGEST: &str = "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc";

/// Randomness that is always the same.
struct Same;

impl Entropy for Same {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(5);
    }
}

/// What a client's call ends in.
pub(crate) type End = Result<String, CallFailure>;

/// A client that is one function.
pub(crate) struct Answering<R>(Box<dyn Fn(R) -> End + Send + Sync>);

impl<F: Answers> Client<F> for Answering<F::Request> {
    fn longest_call_seconds(&self) -> Option<f64> {
        None
    }

    async fn call(&self, request: F::Request) -> Result<Vec<u8>, CallFailure> {
        (self.0)(request).map(String::into_bytes)
    }
}

pub(crate) fn answering<R>(answer: impl Fn(R) -> End + Send + Sync + 'static) -> Answering<R> {
    Answering(Box::new(answer))
}

pub(crate) async fn attempt<F: Answers>(flow: &Handle<F>, client: &Answering<F::Request>) {
    let done = flow.run_once(client, "w", 60.0).await.expect("it runs");
    assert!(done.is_some(), "{} is due", F::TAG.name());
}

/// Waits for a hand-over: the record is there as soon as its flow knows it.
pub(crate) async fn there<S, T>(status: impl Fn() -> S)
where
    S: Future<Output = Result<T, Error>>,
{
    while status().await.is_err() {
        tokio::task::yield_now().await;
    }
}

pub(crate) fn lifecycle(request_id: &str, status: &str) -> String {
    json!({
        "schema": "blun.cms-localization-lifecycle.v3",
        "request_id": request_id.repeat(16),
        "event_id": "event-1",
        "site_id": "site-1",
        "plan_id": "plan-1",
        "website_version": "web-1",
        "source_sequence": 1,
        "status": status,
        "required_locales": ["fi-FI", "mt-MT"],
        "approved_locales": ["fi-FI"],
        "blocked_locales": [["mt-MT", "approval.missing"]],
        "queue_counts": { "failed": 0, "leased": 0, "pending": 0, "retry_wait": 0, "succeeded": 2 },
        "delivery": null,
        "tombstone": null,
    })
    .to_string()
}

pub(crate) fn processing(known: &ProcessingStatus, status: &str, processed_at: Option<u64>) -> End {
    Ok(json!({
        "schema": "blun.cms-terminal-receiver-status-response.v1",
        "notification_id": known.notification_id.as_str(),
        "event_id": known.event_id.as_str(),
        "site_id": known.site_id.as_str(),
        "terminal_status": "cancelled",
        "notification_sha256": known.notification_sha256.to_string(),
        "processing_status": status,
        "attempts": u8::from(processed_at.is_some()),
        "max_attempts": 5,
        "next_attempt_at": 100.5,
        "lease_expires_at": null,
        "lease_expired": false,
        "last_error_code": null,
        "processed_at": processed_at,
        "capabilities_sha256": DIGEST,
    })
    .to_string())
}

/// What the receiver answers.
pub(crate) fn acknowledge(request: NotificationRequest) -> End {
    let sent = Notification::parse(request.notification.as_bytes()).expect("ours is valid");
    Ok(sent.acknowledgement().as_str().to_owned())
}

pub(crate) fn delivery(request: &DeliveryRequest) -> End {
    Ok(json!({
        "schema": request.operation.response_schema(),
        "operation": request.operation.name(),
        "request_id": request.request_id.as_str(),
        "event_id": request.event_id.as_str(),
        "payload_sha256": request.document.sha256().to_string(),
        "status": "pending",
        "attempts": 0,
        "max_attempts": request.max_attempts,
        "capabilities_sha256": DIGEST,
    })
    .to_string())
}

pub(crate) async fn engine(disk: &MemoryDisk, clock: &ManualClock) -> Engine {
    let delays = Delays::default();
    Engine::in_memory(disk)
        .clock(clock.clone())
        .entropy(Same)
        .receiver_digest(DIGEST)
        .source_runtime(SourceRuntime {
            capabilities_sha256: DIGEST.to_owned(),
            longest_call_seconds: 30.0,
        })
        .delays(FlowDelays {
            dispatch: delays,
            lifecycle: delays,
            notification: delays,
            processing: delays,
            delivery: delays,
        })
        .hand_over(HandOver {
            lifecycle_max_failures: Some(5),
            notification_max_attempts: Some(5),
            processing_max_failures: Some(5),
        })
        .open()
        .await
        .expect("it opens")
}

/// One change through its whole life, a failure and a repeat in each flow.
pub(crate) async fn live(engine: &Engine, clock: &ManualClock) {
    engine.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
    attempt(engine.dispatch(), &answering(|_| Ok(accepted("event-1", 2)))).await;
    there(|| engine.lifecycle().status("event-1")).await;
    for (now, answer) in [
        (100.0, Ok(lifecycle("0a", "processing"))),
        (130.0, Ok(lifecycle("0b", "processing"))),
        (160.0, Err(marked("network", true))),
        (190.0, Ok(lifecycle("0c", "cancelled"))),
    ] {
        clock.set(now);
        attempt(engine.lifecycle(), &answering(move |_| answer.clone())).await;
    }
    there(|| engine.notification().status("event-1")).await;
    attempt(engine.notification(), &answering(|_| Err(marked("http_status", true)))).await;
    clock.set(200.0);
    attempt(engine.notification(), &answering(acknowledge)).await;
    there(|| engine.processing().status("event-1")).await;
    for (now, status, processed_at) in
        [(200.0, "pending", None), (230.0, "pending", None), (260.0, "succeeded", Some(259))]
    {
        clock.set(now);
        let known = engine.processing().status("event-1").await.expect("it is there");
        let answer = processing(&known, status, processed_at);
        attempt(engine.processing(), &answering(move |_| answer.clone())).await;
    }
    engine.delivery().enqueue_change(change("event-1"), 4, 5).await.expect("it is valid");
    attempt(engine.delivery(), &answering(|_| Err(marked("http_status", true)))).await;
    clock.set(300.0);
    attempt(engine.delivery(), &answering(|request| delivery(&request))).await;
    engine.delivery().enqueue_change(change("event-2"), 4, 5).await.expect("it is valid");
    attempt(engine.delivery(), &answering(|_| Err(marked("source.request.invalid", false)))).await;
}

fn name(flow: FlowTag, body: &[u8]) -> &'static str {
    const DECODES: &str = "we wrote it";
    match flow {
        FlowTag::Dispatch => codec::decode::<Dispatch>(body).expect(DECODES).name(),
        FlowTag::Lifecycle => codec::decode::<Lifecycle>(body).expect(DECODES).name(),
        FlowTag::Notification => codec::decode::<Notify>(body).expect(DECODES).name(),
        FlowTag::Processing => codec::decode::<Processing>(body).expect(DECODES).name(),
        FlowTag::Delivery => codec::decode::<Delivery>(body).expect(DECODES).name(),
    }
}

#[test]
fn every_flow_keeps_its_bytes() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        live(&engine, &clock).await;
        engine.close().await;
        let mut found: BTreeMap<&str, String> = BTreeMap::new();
        let options = LogOptions { new_id: JournalId([5; 16]), create: false };
        let mut visit = |item| {
            let Item::Record { record, .. } = item else { return Ok(()) };
            let body = record?.body;
            let flow = codec::flow_of(&body).expect("a flow of ours");
            let sample = format!("{}\n{}\n", name(flow, &body), crate::wire::hex(&body));
            *found.entry(flow.name()).or_default() += &sample;
            Ok(())
        };
        drop(Log::open(disk.medium(), options, &mut visit).expect("it verifies"));
        assert_eq!(found.len(), 5);
        snapshots("wire").bind(|| {
            for (flow, samples) in found {
                insta::assert_snapshot!(format!("life_v1_{flow}"), samples);
            }
        });
    });
}

#[test]
fn what_every_flow_keeps_of_archived_records_keeps_its_bytes() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        live(&engine, &clock).await;
        engine.dispatch().enqueue(change("event-3"), 5).await.expect("it is valid");
        engine.close().await;
        let options = LogOptions { new_id: JournalId([5; 16]), create: false };
        let (mut flows, mut streams) = (AllFlows::default(), BTreeSet::new());
        let mut visit = |item| {
            if let Item::Record { stream, record, .. } = item {
                streams.insert(stream);
                flows.apply(stream, Some(&record?.body)).expect("ours").expect("it happened");
            }
            Ok(())
        };
        let log = Log::open(disk.medium(), options, &mut visit).expect("it verifies");
        let reader = log.reader();
        let mut found: BTreeMap<&str, String> = BTreeMap::new();
        for stream in streams {
            let mut origin = || {
                let first = reader.read_stream(stream)?.into_iter().next();
                Ok(Origin { image: None, first: first.map(|record| record.body) })
            };
            let image = flows.image(stream, &mut origin).expect("it is sound");
            let flow = codec::flow_of(&image).expect("a flow of ours");
            *found.entry(flow.name()).or_default() += &format!("{}\n\n", crate::wire::hex(&image));
            // It comes to the same, and nothing shorter does.
            let carried = AllFlows::default().carry(stream, Some(&image));
            assert_eq!(carried, Some(Ok(())));
            assert_eq!(flows.carry(stream, Some(&image)), Some(Ok(())));
            for length in 0..image.len() {
                let cut = AllFlows::default().carry(stream, Some(&image[..length]));
                assert!(matches!(cut, Some(Err(ReplayError::Decode(_)))), "cut at {length}");
            }
            let newer = [&image[..1], &[carried::VERSION + 1], &image[2..]].concat();
            let newer = AllFlows::default().carry(stream, Some(&newer));
            let code = DecodeError::Newer(carried::VERSION + 1);
            assert_eq!(newer, Some(Err(ReplayError::Decode(code))));
        }
        assert_eq!(found.len(), 5);
        snapshots("wire").bind(|| {
            for (flow, samples) in found {
                insta::assert_snapshot!(format!("carried_v1_{flow}"), samples);
            }
        });
    });
}
