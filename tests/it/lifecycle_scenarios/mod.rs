//! Scenarios B1 to B16 of the lifecycle monitor, read with our deviations, and the size of a poll
//! that brings nothing new.

mod b11_to_b16;
mod b4_to_b10;

use crate::support::{accepted, change, change_with, code, engine, marked, run};
use axum::http::{HeaderMap, Uri};
use leasehold::http::{CmsClient, CmsOptions, HmacSha256Signer, NoAuthHeaders};
use leasehold::sandbox::{DEMO_KEY, DEMO_KEY_ID};
use leasehold::{
    CallFailure, Client, Engine, Handle, Lifecycle, LifecycleAttempt, LifecycleRequest,
    LifecycleStatus, ManualClock, MemoryDisk,
};
use leasehold_actors::codec;
use leasehold_actors::contract::change::Change;
use leasehold_actors::contract::json::Value;
use leasehold_actors::contract::lifecycle::RemoteStatus;
use leasehold_actors::contract::text::Token;
use leasehold_actors::record::{FlowTag, stream_of};
use leasehold_journal::medium::Medium as _;
use leasehold_journal::{Append, JournalId, Log, LogOptions, Store as _};
use serde_json::json;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The frame of one repeated poll, all of it.
const REPEATED_POLL_BYTES_MAX: usize = 120;

/// An answer about this event, `processing` but for these members.
fn answer(event_id: &str, members: &[(&str, serde_json::Value)]) -> String {
    let mut answer = json!({
        "schema": "blun.cms-localization-lifecycle.v3",
        "request_id": "0a".repeat(16),
        "event_id": event_id,
        "site_id": "site-1",
        "plan_id": "plan-1",
        "website_version": "web-1",
        "source_sequence": 1,
        "status": "processing",
        "required_locales": ["fi-FI", "mt-MT"],
        "approved_locales": ["fi-FI"],
        "blocked_locales": [["mt-MT", "approval.missing"]],
        "queue_counts": { "failed": 0, "leased": 1, "pending": 0, "retry_wait": 0, "succeeded": 1 },
        "delivery": null,
        "tombstone": null,
    });
    for (key, value) in members {
        answer[*key] = value.clone();
    }
    answer.to_string()
}

fn answer_that_is(event_id: &str, status: &str) -> String {
    answer(event_id, &[("status", json!(status))])
}

/// An answer too long to be kept in its record's frame.
fn long_answer(event_id: &str) -> String {
    let padding = "x".repeat(80);
    let blocked: Vec<serde_json::Value> =
        (0..400).map(|number| json!(["mt-MT", format!("e{number:04}.{padding}")])).collect();
    answer(event_id, &[("blocked_locales", json!(blocked))])
}

/// The succeeded dispatch of this change, in the seven fields that are read.
fn dispatched(change: &str, remote_status: &str) -> serde_json::Value {
    let change = Change::parse(change.as_bytes()).expect("a change");
    json!({
        "event_id": change.event_id.as_str(),
        "payload_sha256": change.payload.sha256().to_string(),
        "status": "succeeded",
        "remote_plan_id": "plan-1",
        "remote_job_count": 2,
        "remote_status": remote_status,
        "response_sha256": "a".repeat(64),
    })
}

/// Registers an accepted change.
async fn watch(engine: &Engine, event_id: &str, ceiling: i64) -> LifecycleStatus {
    let change = change(event_id);
    let dispatch = dispatched(&change, "enqueued").to_string();
    let known = engine.lifecycle().register_change(change, dispatch, ceiling).await;
    known.expect("it is valid").status
}

/// A client that answers from a script and remembers what it was given.
#[derive(Default)]
struct Reads {
    answers: Mutex<VecDeque<Result<String, CallFailure>>>,
    seen: Mutex<Vec<LifecycleRequest>>,
}

impl Reads {
    fn new(answers: impl IntoIterator<Item = Result<String, CallFailure>>) -> Self {
        Self { answers: Mutex::new(answers.into_iter().collect()), ..Self::default() }
    }
}

impl Client<Lifecycle> for Reads {
    fn longest_call_seconds(&self) -> Option<f64> {
        None
    }

    async fn call(&self, request: LifecycleRequest) -> Result<Vec<u8>, CallFailure> {
        self.seen.lock().expect("not poisoned").push(request);
        let answer = self.answers.lock().expect("not poisoned").pop_front();
        answer.expect("the script has an answer for every call").map(String::into_bytes)
    }
}

/// One poll of what is due, answered like this.
async fn poll(flow: &Handle<Lifecycle>, answer: Result<String, CallFailure>) -> LifecycleAttempt {
    let attempt = flow.run_once(&Reads::new([answer]), "w", 60.0).await;
    attempt.expect("it runs").expect("due")
}

/// Whether nothing is due; nobody is asked then.
async fn idle(flow: &Handle<Lifecycle>) -> bool {
    let client = Reads::default();
    let attempt = flow.run_once(&client, "w", 60.0).await.expect("it runs");
    attempt.is_none() && client.seen.lock().expect("not poisoned").is_empty()
}

/// The state and the error an attempt left.
fn end(attempt: &LifecycleAttempt) -> (&str, Option<&str>) {
    (attempt.state, attempt.error_code.as_ref().map(|code| code.as_str()))
}

/// Puts a body behind the `version` records of a watched change, past the engine.
fn append(disk: &MemoryDisk, event_id: &str, version: u32, body: Vec<u8>) {
    let options = LogOptions { new_id: JournalId([1; 16]), create: true };
    let mut log = Log::open(disk.medium(), options, &mut |_| Ok(())).expect("it opens");
    let stream = stream_of(FlowTag::Lifecycle, event_id);
    let append = Append { stream, expected_version: version, bodies: vec![body], alone: None };
    let placed = log.commit(&[append]).expect("a commit");
    assert!(placed.iter().all(Result::is_ok), "the stream is at version {version}");
}

/// What came over HTTP.
struct Seen {
    path: String,
    request_id: Option<String>,
    signed: bool,
}

fn signer() -> HmacSha256Signer {
    let key_id = Token::new(DEMO_KEY_ID).expect("a token");
    HmacSha256Signer::new(key_id, DEMO_KEY.to_vec().into()).expect("a key")
}

/// Takes in one request and answers it.
fn respond(uri: &Uri, headers: &HeaderMap, body: &str) -> (Seen, String) {
    let request: serde_json::Value = serde_json::from_str(body).expect("JSON");
    let request_id = request["request_id"].as_str().map(str::to_owned);
    let text = match &request_id {
        None => accepted("event-1", 2),
        Some(id) => answer("event-1", &[("request_id", json!(id))]),
    };
    let value = Value::parse(text.as_bytes()).expect("JSON");
    let signature = headers.get("x-localization-signature").and_then(|given| given.to_str().ok());
    let signed = signature == Some(signer().hex(body.as_bytes()).as_str());
    let seen = Seen { path: uri.path().to_owned(), request_id, signed };
    (seen, leasehold_actors::contract::canonical::print(&value))
}

/// An API over HTTP that accepts event-1 and says that it is being processed.
async fn api(seen: Arc<Mutex<Vec<Seen>>>) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let router = axum::Router::new().fallback(move |uri: Uri, headers: HeaderMap, body: String| {
        let seen = Arc::clone(&seen);
        async move {
            let (one, text) = respond(&uri, &headers, &body);
            seen.lock().expect("not poisoned").push(one);
            ([("content-type", "application/json; charset=utf-8")], text)
        }
    });
    let task = tokio::spawn(async move {
        axum::serve(listener, router).await.expect("it serves");
    });
    (address, task)
}

/// A watched change whose last answer is this one, in a closed journal; answers the sequence
/// number of the last record.
async fn watched(disk: &MemoryDisk, clock: &ManualClock, answer: String) -> u64 {
    let engine = engine(disk, clock).await;
    watch(&engine, "event-1", 5).await;
    assert_eq!(end(&poll(engine.lifecycle(), Ok(answer)).await), ("watching", None));
    let last = engine.head().sequence;
    engine.close().await;
    last
}

#[test]
fn b1_an_accepted_change_is_read_afresh_with_a_request_of_its_own_each_time() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (address, server) = api(Arc::clone(&seen)).await;
        let options = CmsOptions {
            origin: format!("http://{address}"),
            allow_http_loopback: true,
            timeout_seconds: 5.0,
        };
        let client = CmsClient::new(&options, signer(), NoAuthHeaders).expect("a client");
        let client = client.with_clock(clock.clone());
        engine.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
        engine.dispatch().run_once(&client, "w", 60.0).await.expect("it runs").expect("due");
        let dispatch = engine.dispatch().status("event-1").await.expect("it is there");
        let dispatch = serde_json::to_string(&dispatch).expect("it serialises");
        let flow = engine.lifecycle();
        let known = flow.register_change(change("event-1"), dispatch, 5).await.expect("accepted");
        assert_eq!((known.status.state, known.status.next_poll_at), ("pending", 100.0));
        for (number, now) in [(1, 100.0), (2, 130.0)] {
            clock.set(now);
            let attempt = flow.run_once(&client, "w", 60.0).await.expect("it runs").expect("due");
            assert_eq!(end(&attempt), ("watching", None));
            assert_eq!(attempt.remote_status, Some(RemoteStatus::Processing));
            assert_eq!((attempt.attempt, attempt.next_poll_at), (number, now + 30.0));
        }
        server.abort();
        let (status, health) = (flow.status("event-1").await, flow.health().await);
        assert!(!format!("{status:?} {health:?}").contains("Kaffee"), "no source text shows");
        let seen = seen.lock().expect("not poisoned");
        let reads: Vec<&Seen> = seen.iter().filter(|one| one.request_id.is_some()).collect();
        assert_eq!((seen.len(), reads.len()), (3, 2));
        assert!(seen.iter().all(|one| one.signed));
        assert!(reads.iter().all(|one| one.path == "/v2/localization/lifecycle"));
        assert_ne!(reads[0].request_id, reads[1].request_id);
    });
}

#[test]
fn b2_a_failure_that_may_pass_backs_off_and_a_good_answer_starts_the_count_again() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.lifecycle();
        watch(&engine, "event-1", 3).await;
        let unavailable = "cms.release.policy_unavailable";
        let client = Reads::new([
            Err(marked(unavailable, true)),
            Ok(answer_that_is("event-1", "processing")),
            Err(marked("network", true)),
        ]);
        for (now, expected) in [
            (100.0, Some((("retry_wait", Some(unavailable)), 1, 105.0))),
            (104.0, None),
            (105.0, Some((("watching", None), 0, 135.0))),
            (135.0, Some((("retry_wait", Some("network")), 1, 140.0))),
        ] {
            clock.set(now);
            let attempt = flow.run_once(&client, "w", 60.0).await.expect("it runs");
            let found = attempt
                .as_ref()
                .map(|attempt| (end(attempt), attempt.consecutive_failures, attempt.next_poll_at));
            assert_eq!(found, expected, "at {now}");
        }
        let calls = client.seen.lock().expect("not poisoned");
        assert_eq!(calls.len(), 3);
        for call in calls.iter() {
            // All there is: no request id.
            let LifecycleRequest { event_id, site_id } = call;
            assert_eq!((event_id.as_str(), site_id.as_str()), ("event-1", "site-1"));
        }
    });
}

#[test]
fn b3_the_ceiling_and_a_permanent_failure_end_a_watch_and_block_health() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.lifecycle();
        watch(&engine, "event-1", 2).await;
        let attempt = poll(flow, Err(marked("network", true))).await;
        assert_eq!((end(&attempt), attempt.next_poll_at), (("retry_wait", Some("network")), 105.0));
        assert_eq!(flow.health().await.expect("a time").status, "ok");
        clock.set(105.0);
        let attempt = poll(flow, Err(marked("network", true))).await;
        assert_eq!((end(&attempt), attempt.next_poll_at), (("failed", Some("network")), 105.0));
        let health = flow.health().await.expect("a time");
        assert_eq!((health.status, health.failed, health.remote_failures), ("blocked", 1, 0));
        clock.set(106.0);
        watch(&engine, "event-2", 2).await;
        let attempt = poll(flow, Err(marked("cms.lifecycle.scope_rejected", false))).await;
        assert_eq!(end(&attempt), ("failed", Some("cms.lifecycle.scope_rejected")));
        assert_eq!((attempt.event_id.as_str(), attempt.consecutive_failures), ("event-2", 1));
    });
}
