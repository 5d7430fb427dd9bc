//! Documents through all five flows, without a network: the other sides are functions.
//!
//! Clock and randomness are fixed, so that the same calls make the same journal.

use leasehold::{
    CallFailure, Client, DeliveryRequest, Engine, EngineBuilder, Entropy, HandOver, Handle,
    ManualClock, NotificationRequest, ProcessingStatus, SourceRuntime,
};
use leasehold_actors::contract::notification::Notification;
use leasehold_actors::flows::Answers;
use serde_json::json;
use std::future::Future;

const DIGEST: &str = "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc";
/// From one life to the next, longer than all that is waited for in between.
const LIFE_SECONDS: f64 = 1000.0;

type End = Result<String, CallFailure>;

/// Runs a future to its end on a runtime of its own.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(future)
}

struct Fixed;

impl Entropy for Fixed {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

struct Answering<R>(Box<dyn Fn(R) -> End + Send + Sync>);

impl<F: Answers> Client<F> for Answering<F::Request> {
    fn longest_call_seconds(&self) -> Option<f64> {
        None
    }

    async fn call(&self, request: F::Request) -> Result<Vec<u8>, CallFailure> {
        (self.0)(request).map(String::into_bytes)
    }
}

/// Opens an engine that hands over; leases of an earlier life go on.
pub(crate) async fn open(builder: EngineBuilder, clock: &ManualClock) -> Engine {
    builder
        .clock(clock.clone())
        .entropy(Fixed)
        .receiver_digest(DIGEST)
        .source_runtime(SourceRuntime {
            capabilities_sha256: DIGEST.to_owned(),
            longest_call_seconds: 30.0,
        })
        .hand_over(HandOver {
            lifecycle_max_failures: Some(5),
            notification_max_attempts: Some(5),
            processing_max_failures: Some(5),
        })
        .end_leases_on_open(false)
        .open()
        .await
        .expect("the journal is sound")
}

/// One document's life.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Life<'a> {
    /// Which one; lives follow each other by number.
    pub(crate) number: u32,
    /// What the change says.
    pub(crate) text: &'a str,
    /// Whether there are also polls that bring nothing final, a failure, and a removal.
    pub(crate) full: bool,
}

impl Life<'_> {
    fn id(&self) -> String {
        format!("event-{}", self.number)
    }

    /// So many seconds into this life.
    fn at(&self, seconds: f64) -> f64 {
        LIFE_SECONDS * f64::from(self.number) + seconds
    }

    fn change(&self) -> String {
        json!({
            "schema": "blun.cms-content-change.v2",
            "event_id": self.id(),
            "site_id": "site-1",
            "website_version": "web-1",
            "source_sequence": 1,
            "localization": {
                "source_id": "landing.intro",
                "source_revision": "rev 1",
                "source_text": self.text,
                "source_locale": "de-AT",
                "content_type": "marketing",
                "glossary_version": "g-1",
                "policy_version": "p-1",
                "provider_id": "prov",
                "model_id": "m",
                "model_version": "2",
                "software_version": "1.0",
                "target_locales": ["fi-FI"],
            },
        })
        .to_string()
    }

    fn cancellation(&self) -> String {
        json!({
            "schema": "blun.cms-content-cancellation.v1",
            "cancellation_id": format!("cancel-{}", self.number),
            "event_id": self.id(),
            "site_id": "site-1",
            "website_version": "web-1",
            "source_id": "landing.intro",
            "source_sequence": 1,
        })
        .to_string()
    }
}

fn accepted(event_id: &str) -> String {
    json!({
        "schema": "blun.website-localization-api.v2",
        "event_id": event_id,
        "plan_id": "plan-1",
        "job_count": 1,
        "inserted_jobs": 1,
        "status": "enqueued",
    })
    .to_string()
}

fn lifecycle(event_id: &str, status: &str) -> String {
    json!({
        "schema": "blun.cms-localization-lifecycle.v3",
        "request_id": format!("read-{status}"),
        "event_id": event_id,
        "site_id": "site-1",
        "plan_id": "plan-1",
        "website_version": "web-1",
        "source_sequence": 1,
        "status": status,
        "required_locales": ["fi-FI"],
        "approved_locales": [],
        "blocked_locales": [],
        "queue_counts": { "failed": 0, "leased": 0, "pending": 0, "retry_wait": 0, "succeeded": 1 },
        "delivery": null,
        "tombstone": null,
    })
    .to_string()
}

fn processing(known: &ProcessingStatus, status: &str, processed_at: Option<u64>) -> String {
    json!({
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
    .to_string()
}

fn delivered(request: &DeliveryRequest) -> String {
    json!({
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
    .to_string()
}

fn acknowledged(request: &NotificationRequest) -> String {
    let sent = Notification::parse(request.notification.as_bytes()).expect("ours is valid");
    sent.acknowledgement().as_str().to_owned()
}

fn failure() -> CallFailure {
    CallFailure::Marked { code: "network".to_owned(), retryable: true, retry_after_seconds: None }
}

/// One attempt at the record that is due.
async fn attempt<F: Answers>(
    flow: &Handle<F>,
    answer: impl Fn(F::Request) -> End + Send + Sync + 'static,
) {
    let client: Answering<F::Request> = Answering(Box::new(answer));
    let done = flow.run_once(&client, "w", 600.0).await.expect("the journal can be written");
    assert!(done.is_some(), "{} is due", F::TAG.name());
}

/// Waits until everything that was settled is registered with the next flow.
async fn handed_over(engine: &Engine) {
    while engine.handing_over() > 0 {
        tokio::task::yield_now().await;
    }
}

/// Lives one life to its end, through all five flows.
pub(crate) async fn live(engine: &Engine, clock: &ManualClock, life: Life<'_>) {
    const VALID: &str = "it is valid";
    let id = life.id();
    clock.set(life.at(0.0));
    engine.dispatch().enqueue(life.change(), 5).await.expect(VALID);
    attempt(engine.dispatch(), |request| Ok(accepted(request.event_id.as_str()))).await;
    handed_over(engine).await;
    if life.full {
        for seconds in [0.0, 60.0] {
            clock.set(life.at(seconds));
            let answer = |event_id: &str| Ok(lifecycle(event_id, "processing"));
            attempt(engine.lifecycle(), move |request| answer(request.event_id.as_str())).await;
        }
    }
    clock.set(life.at(120.0));
    attempt(engine.lifecycle(), |request| Ok(lifecycle(request.event_id.as_str(), "cancelled")))
        .await;
    handed_over(engine).await;
    if life.full {
        attempt(engine.notification(), |_| Err(failure())).await;
        clock.set(life.at(180.0));
    }
    attempt(engine.notification(), |request| Ok(acknowledged(&request))).await;
    handed_over(engine).await;
    let known = engine.processing().status(&id).await.expect("it was handed over");
    let (moving, done) =
        (processing(&known, "pending", None), processing(&known, "succeeded", Some(9)));
    if life.full {
        attempt(engine.processing(), move |_| Ok(moving.clone())).await;
        clock.set(life.at(240.0));
    }
    attempt(engine.processing(), move |_| Ok(done.clone())).await;
    engine.delivery().enqueue_change(life.change(), 4, 5).await.expect(VALID);
    attempt(engine.delivery(), |request| Ok(delivered(&request))).await;
    if life.full {
        engine.delivery().enqueue_removal(life.cancellation(), 4, 5).await.expect(VALID);
        attempt(engine.delivery(), |request| Ok(delivered(&request))).await;
    }
}

/// Begins lives that do not end: one change waits, one is at a worker, one is tried again later and
/// one has failed.
pub(crate) async fn leave(engine: &Engine, clock: &ManualClock, first: u32) {
    let flow = engine.dispatch();
    let life = |number| Life { number, text: "Kaffee.", full: false };
    clock.set(life(first).at(0.0));
    for number in first..first + 3 {
        flow.enqueue(life(number).change(), 5).await.expect("it is valid");
    }
    attempt(flow, |_| Err(failure())).await;
    attempt(flow, |_| Err(CallFailure::Unmarked)).await;
    flow.claim("w", 600.0).await.expect("it can be written").expect("the last one is due");
    flow.enqueue(life(first + 3).change(), 5).await.expect("it is valid");
}
