//! Scenarios B1 to B16 of the lifecycle monitor, read with our deviations, and the size of a poll
//! that brings nothing new.

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
    let mut log = Log::open(disk.medium(), options, &mut |_, _, _| Ok(())).expect("it opens");
    let stream = stream_of(FlowTag::Lifecycle, event_id);
    let append = Append { stream, expected_version: version, bodies: vec![body] };
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

#[test]
fn b4_a_failure_at_the_cms_is_an_end_that_blocks_health_and_is_never_polled_again() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.lifecycle();
        watch(&engine, "event-1", 5).await;
        let counts =
            json!({ "failed": 1, "leased": 0, "pending": 0, "retry_wait": 0, "succeeded": 1 });
        let failed = answer(
            "event-1",
            &[
                ("status", json!("localization_failed")),
                ("blocked_locales", json!([["mt-MT", "result.failed"]])),
                ("queue_counts", counts),
            ],
        );
        let attempt = poll(flow, Ok(failed)).await;
        assert_eq!(end(&attempt), ("terminal", None));
        assert_eq!(attempt.remote_status, Some(RemoteStatus::LocalizationFailed));
        let health = flow.health().await.expect("a time");
        assert_eq!((health.status, health.failed, health.remote_failures), ("blocked", 0, 1));
        clock.set(100_000.0);
        assert!(idle(flow).await);
        assert_eq!(flow.next_at().await.expect("a time"), None);
    });
}

#[test]
fn b5_an_answer_for_another_generation_fails_and_nothing_of_it_is_kept() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.lifecycle();
        watch(&engine, "event-1", 5).await;
        let other = answer("event-1", &[("website_version", json!("web-2"))]);
        let attempt = poll(flow, Ok(other)).await;
        assert_eq!(end(&attempt), ("failed", Some("lifecycle_monitor.response_invalid")));
        let status = flow.status("event-1").await.expect("it is there");
        assert_eq!((status.remote_status, status.lifecycle_sha256), (None, None));
        assert_eq!(status.required_locales.as_array().map(<[Value]>::len), Some(0));
        watch(&engine, "event-2", 5).await;
        let attempt = poll(flow, Ok(answer_that_is("event-2", "ready"))).await;
        assert_eq!(end(&attempt), ("watching", None));
        let status = flow.status("event-2").await.expect("it is there");
        assert!(status.lifecycle_sha256.is_some());
        assert_eq!(status.required_locales.as_array().map(<[Value]>::len), Some(2));
    });
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
fn b6_a_stored_answer_that_was_altered_is_noticed() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let last = watched(&disk, &clock, answer_that_is("event-1", "processing")).await;
        let altered = disk.damage(last, |frame| {
            let (from, to) = (b"\"processing\"", b"\"publishing\"");
            let at = frame.windows(from.len()).position(|bytes| bytes == from);
            let at = at.expect("the answer is in the frame");
            frame[at..at + to.len()].copy_from_slice(to);
        });
        assert!(altered, "the answer has a frame of its own");
        let refused = Engine::in_memory(&disk).clock(clock.clone()).open().await;
        assert_eq!(code(refused), "journal_corrupt");
    });
}

#[test]
fn b6_d8_a_stored_answer_that_is_gone_quarantines_its_record_and_health_says_so() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        watched(&disk, &clock, long_answer("event-1")).await;
        let sound = engine(&disk, &clock).await;
        assert_eq!(sound.lifecycle().health().await.expect("a time").status, "ok");
        sound.close().await;
        disk.lose_chunks();
        let engine = engine(&disk, &clock).await;
        let flow = engine.lifecycle();
        let health = flow.health().await.expect("a time");
        assert_eq!((health.status, health.quarantined), ("blocked", 1));
        assert_eq!(health.counts["watching"], 0);
        assert_eq!(code(flow.status("event-1").await), "lifecycle_monitor.state_invalid");
        clock.set(130.0);
        assert!(idle(flow).await);
    });
}

#[test]
fn b7_an_expired_lease_backs_off_and_its_claim_is_lost_in_another_engine_too() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let first = engine(&disk, &clock).await;
        watch(&first, "event-1", 5).await;
        let old = first.lifecycle().claim("w1", 10.0).await.expect("a claim").expect("due");
        first.close().await;
        let second = engine(&disk, &clock).await;
        let flow = second.lifecycle();
        for now in [109.0, 110.0] {
            clock.set(now);
            assert!(flow.claim("w2", 10.0).await.expect("a claim").is_none(), "at {now}");
        }
        clock.set(115.0);
        let new = flow.claim("w2", 10.0).await.expect("a claim").expect("backed off");
        let good = answer_that_is("event-1", "processing");
        let late = flow.complete(&old, &good).await;
        assert_eq!(code(late), "lifecycle_monitor.claim_lost");
        let status = flow.complete(&new, &good).await.expect("it is live");
        assert_eq!((status.state, status.poll_attempts), ("watching", 2));
        assert_eq!((status.consecutive_failures, status.next_poll_at), (0, 145.0));
    });
}

#[test]
fn b8_registering_again_changes_nothing_and_another_change_or_a_bad_dispatch_is_refused() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.lifecycle();
        let first = watch(&engine, "event-1", 5).await;
        clock.set(101.0);
        let (same, head) = (change("event-1"), engine.head());
        let dispatch = dispatched(&same, "enqueued");
        let again = flow.register_change(&same, dispatch.to_string(), 5).await.expect("known");
        assert_eq!((again.already_known, again.status), (true, first));
        let altered = change_with("event-1", "Tee.");
        let its_own = dispatched(&altered, "enqueued").to_string();
        let collision = flow.register_change(&altered, its_own, 5).await;
        assert_eq!(code(collision), "lifecycle_monitor.idempotency_collision");
        let ceiling = flow.register_change(&same, dispatch.to_string(), 4).await;
        assert_eq!(code(ceiling), "lifecycle_monitor.idempotency_collision");
        for (key, value) in [
            ("status", json!("retry_wait")),
            ("payload_sha256", json!("b".repeat(64))),
            ("event_id", json!("event-2")),
            ("remote_plan_id", json!(null)),
            ("remote_job_count", json!(0)),
            ("remote_status", json!("other")),
            ("response_sha256", json!(null)),
        ] {
            let mut bad = dispatch.clone();
            bad[key] = value;
            let refused = flow.register_change(&same, bad.to_string(), 5).await;
            assert_eq!(code(refused), "lifecycle_monitor.dispatch_invalid", "{key}");
        }
        assert_eq!(engine.head(), head, "nothing was written");
    });
}

#[test]
fn b9_a_dispatch_that_ended_the_change_is_terminal_at_once_and_never_polled() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.lifecycle();
        for (id, name, remote) in [
            ("event-1", "cancelled", RemoteStatus::Cancelled),
            ("event-2", "superseded", RemoteStatus::Superseded),
        ] {
            let dispatch = dispatched(&change(id), name).to_string();
            let known = flow.register_change(change(id), dispatch, 5).await.expect("it is valid");
            assert_eq!(
                (known.status.state, known.status.remote_status),
                ("terminal", Some(remote))
            );
            assert_eq!((known.status.poll_attempts, known.status.lifecycle_sha256), (0, None));
            assert_eq!(known.status.next_poll_at, 100.0);
        }
        clock.set(100_000.0);
        assert!(idle(flow).await);
        let health = flow.health().await.expect("a time");
        assert_eq!((health.status, health.counts["terminal"], health.due), ("ok", 2, 0));
    });
}

#[test]
fn b10_a_claim_on_another_plan_takes_no_answer_and_a_damaged_record_blocks_health() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let first = engine(&disk, &clock).await;
        watch(&first, "event-1", 5).await;
        let flow = first.lifecycle();
        let claim = flow.claim("w", 60.0).await.expect("a claim").expect("due");
        let elsewhere = engine(&MemoryDisk::new(), &clock).await;
        let mut dispatch = dispatched(&change("event-1"), "enqueued");
        dispatch["remote_plan_id"] = json!("plan-9");
        let known =
            elsewhere.lifecycle().register_change(change("event-1"), dispatch.to_string(), 5);
        known.await.expect("it is valid");
        let other = elsewhere.lifecycle().claim("w", 60.0).await.expect("a claim").expect("due");
        let good = answer_that_is("event-1", "processing");
        let refused = flow.complete(&other, &good).await;
        assert_eq!(code(refused), "lifecycle_monitor.response_invalid");
        let its_own = answer("event-1", &[("plan_id", json!("plan-9"))]);
        let refused = flow.complete(&other, its_own).await;
        assert_eq!(code(refused), "lifecycle_monitor.claim_lost");
        assert_eq!(flow.complete(&claim, &good).await.expect("it is live").state, "watching");
        first.close().await;
        append(&disk, "event-1", 3, vec![FlowTag::Lifecycle as u8, codec::VERSION, 255]);
        let second = engine(&disk, &clock).await;
        let health = second.lifecycle().health().await.expect("a time");
        assert_eq!((health.status, health.quarantined), ("blocked", 1));
        let status = second.lifecycle().status("event-1").await;
        assert_eq!(code(status), "lifecycle_monitor.state_invalid");
    });
}

#[test]
fn b11_a_record_of_a_newer_version_is_refused_and_nothing_is_written() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        watched(&disk, &clock, answer_that_is("event-1", "processing")).await;
        append(&disk, "event-1", 3, vec![FlowTag::Lifecycle as u8, codec::VERSION + 1, 0]);
        let before = disk.medium().frame_at_or_before(u64::MAX).expect("readable");
        let refused = Engine::in_memory(&disk).clock(clock.clone()).open().await;
        assert_eq!(code(refused), "schema_newer");
        assert_eq!(disk.medium().frame_at_or_before(u64::MAX).expect("readable"), before);
    });
}

#[test]
fn b12_an_expiry_counts_as_a_failure_up_to_the_ceiling() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.lifecycle();
        watch(&engine, "event-1", 2).await;
        for (start, state, failures, due) in
            [(100.0, "retry_wait", 1, 115.0), (115.0, "failed", 2, 125.0)]
        {
            clock.set(start);
            flow.claim("w", 10.0).await.expect("a claim").expect("due");
            clock.set(start + 10.0);
            assert!(flow.status("event-1").await.expect("it is there").lease_expired);
            assert_eq!(flow.health().await.expect("a time").expired_leases, 1);
            assert!(flow.claim("w", 10.0).await.expect("a claim").is_none());
            let status = flow.status("event-1").await.expect("it is there");
            assert_eq!((status.state, status.consecutive_failures), (state, failures));
            assert_eq!(status.next_poll_at, due);
            assert_eq!(status.last_error_code.expect("an error").as_str(), "lease_expired");
        }
        clock.set(100_000.0);
        assert!(idle(flow).await);
    });
}

#[test]
fn b13_a_polled_cancellation_is_an_end_with_its_answer_and_a_polled_superseded_is_none() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.lifecycle();
        let six = json!({ "cancelled": 2, "failed": 0, "leased": 0, "pending": 0, "retry_wait": 0,
            "succeeded": 0 });
        let counted = |id: &str, status: &str| {
            answer(id, &[("status", json!(status)), ("queue_counts", six.clone())])
        };
        watch(&engine, "event-1", 5).await;
        let attempt = poll(flow, Ok(counted("event-1", "cancelled"))).await;
        assert_eq!(end(&attempt), ("terminal", None));
        let status = flow.status("event-1").await.expect("it is there");
        assert_eq!(status.remote_status, Some(RemoteStatus::Cancelled));
        assert!(status.lifecycle_sha256.is_some());
        let counts = status.queue_counts.as_object().expect("counts");
        assert_eq!(counts.members().count(), 6);
        assert_eq!(flow.health().await.expect("a time").status, "ok");
        for (id, bad) in [
            ("event-2", answer_that_is("event-2", "superseded")),
            ("event-3", counted("event-3", "processing")),
        ] {
            watch(&engine, id, 5).await;
            let attempt = poll(flow, Ok(bad)).await;
            assert_eq!(end(&attempt), ("failed", Some("lifecycle_monitor.response_invalid")));
        }
    });
}

#[test]
fn b13_d6_a_refusal_as_superseded_is_an_end_and_a_success() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.lifecycle();
        watch(&engine, "event-1", 1).await;
        let attempt = poll(flow, Err(marked("cms.event.superseded", false))).await;
        assert_eq!((end(&attempt), attempt.consecutive_failures), (("terminal", None), 0));
        assert_eq!(attempt.remote_status, Some(RemoteStatus::Superseded));
        watch(&engine, "event-2", 1).await;
        let claim = flow.claim("w", 60.0).await.expect("a claim").expect("due");
        let status = flow.fail(&claim, "cms.event.superseded").await.expect("it is live");
        assert_eq!(
            (status.state, status.remote_status),
            ("terminal", Some(RemoteStatus::Superseded))
        );
        let health = flow.health().await.expect("a time");
        assert_eq!((health.status, health.failed, health.remote_failures), ("ok", 0, 0));
        clock.set(100_000.0);
        assert!(idle(flow).await);
        watch(&engine, "event-3", 1).await;
        let attempt = poll(flow, Err(marked("cms.event.unknown", false))).await;
        assert_eq!(end(&attempt), ("failed", Some("cms.event.unknown")));
        assert_eq!(flow.health().await.expect("a time").status, "blocked");
    });
}

#[test]
fn b14_d2_an_answer_whose_request_id_is_no_token_is_refused_and_breaks_nothing() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let first = engine(&disk, &clock).await;
        watch(&first, "event-1", 5).await;
        let bad = answer("event-1", &[("request_id", json!("not a token"))]);
        let attempt = poll(first.lifecycle(), Ok(bad)).await;
        assert_eq!(end(&attempt), ("failed", Some("lifecycle_monitor.response_invalid")));
        clock.set(101.0);
        watch(&first, "event-2", 5).await;
        let good = answer("event-2", &[("request_id", json!("a.token:1"))]);
        assert_eq!(end(&poll(first.lifecycle(), Ok(good)).await), ("watching", None));
        first.close().await;
        clock.set(131.0);
        let second = engine(&disk, &clock).await;
        let health = second.lifecycle().health().await.expect("a time");
        assert_eq!((health.status, health.failed, health.quarantined), ("blocked", 1, 0));
        let attempt = poll(second.lifecycle(), Ok(answer_that_is("event-2", "ready"))).await;
        assert_eq!((attempt.event_id.as_str(), attempt.state), ("event-2", "watching"));
    });
}

#[test]
fn b15_d8_a_damaged_record_with_an_expired_lease_stops_no_claim() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let first = engine(&disk, &clock).await;
        watch(&first, "event-1", 5).await;
        first.lifecycle().claim("w", 10.0).await.expect("a claim").expect("due");
        clock.set(101.0);
        watch(&first, "event-2", 5).await;
        first.close().await;
        append(&disk, "event-1", 2, vec![FlowTag::Lifecycle as u8, codec::VERSION, 255]);
        clock.set(111.0);
        let second = engine(&disk, &clock).await;
        let flow = second.lifecycle();
        let attempt = poll(flow, Ok(answer_that_is("event-2", "processing"))).await;
        assert_eq!((attempt.event_id.as_str(), attempt.state), ("event-2", "watching"));
        assert!(idle(flow).await);
        let health = flow.health().await.expect("a time");
        assert_eq!((health.status, health.quarantined), ("blocked", 1));
        assert_eq!((health.expired_leases, health.counts["watching"]), (0, 1));
        assert_eq!(code(flow.status("event-1").await), "lifecycle_monitor.state_invalid");
    });
}

#[test]
fn b16_d15_a_bad_change_and_a_bad_error_code_answer_the_dispatchers_codes() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.lifecycle();
        let dispatch = dispatched(&change("event-1"), "enqueued").to_string();
        let bad = flow.register_change("{\"event_id\": \"event-1\"}", &dispatch, 5).await;
        assert_eq!(code(bad), "dispatch.change_invalid");
        // The ceiling is looked at before the change, and the change before its dispatch.
        let both = flow.register_change("{}", &dispatch, 21).await;
        assert_eq!(code(both), "lifecycle_monitor.max_failures_invalid");
        assert_eq!(code(flow.register_change("{}", "{}", 5).await), "dispatch.change_invalid");
        let missing = flow.status("event-1").await;
        assert_eq!(code(missing), "lifecycle_monitor.event_missing");
        watch(&engine, "event-1", 5).await;
        let claim = flow.claim("w", 60.0).await.expect("a claim").expect("due");
        for malformed in ["Bad Code", ""] {
            assert_eq!(code(flow.retry(&claim, malformed).await), "dispatch.error_invalid");
            assert_eq!(code(flow.fail(&claim, malformed).await), "dispatch.error_invalid");
        }
        let status = flow.retry(&claim, "network").await.expect("it is live");
        assert_eq!((status.state, status.next_poll_at), ("retry_wait", 105.0));
    });
}

#[test]
fn a_poll_with_nothing_new_commits_one_small_record_that_replays_to_the_same_status() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let first = engine(&disk, &clock).await;
        let flow = first.lifecycle();
        watch(&first, "event-1", 5).await;
        let (mut sizes, mut hashes) = (Vec::new(), Vec::new());
        for (now, id) in [(100.0, "0a"), (130.0, "0b"), (160.0, "0c")] {
            clock.set(now);
            let claim = flow.claim("w", 60.0).await.expect("a claim").expect("due");
            let before = first.head().sequence;
            let same = answer("event-1", &[("request_id", json!(id.repeat(16)))]);
            let status = flow.complete(&claim, same).await.expect("it is live");
            assert_eq!((status.state, status.next_poll_at), ("watching", now + 30.0));
            assert_eq!(first.head().sequence, before + 1, "one record");
            let frame = disk.medium().frame_at_or_after(before + 1).expect("readable");
            let (sequence, frame) = frame.expect("there");
            assert_eq!(sequence, before + 1, "a frame of its own");
            sizes.push(frame.len());
            hashes.push(status.lifecycle_sha256.expect("an answer"));
        }
        assert!(sizes[0] > 400, "the first answer is kept whole: {sizes:?}");
        assert!(sizes[1..].iter().all(|size| *size <= REPEATED_POLL_BYTES_MAX), "{sizes:?}");
        assert!(hashes[0] != hashes[1] && hashes[1] != hashes[2], "each answer has its own hash");
        let live = flow.status("event-1").await.expect("it is there");
        first.close().await;
        let second = engine(&disk, &clock).await;
        assert_eq!(second.lifecycle().status("event-1").await.expect("it is there"), live);
        clock.set(190.0);
        assert_eq!(
            end(&poll(second.lifecycle(), Ok(answer_that_is("event-1", "ready"))).await),
            ("watching", None)
        );
    });
}
