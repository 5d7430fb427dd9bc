//! Scenarios C1 to C14 of the terminal processing monitor, read with our deviations.

mod c9_to_c14;

use crate::support::{self, code, marked, run, sha256};
use leasehold::{
    CallFailure, Client, Delays, Engine, Error, FlowDelays, ManualClock, MemoryDisk, Processing,
    ProcessingAttempt, ProcessingRequest, ProcessingStatus, Registered,
};
use leasehold_actors::codec;
use leasehold_actors::record::{FlowTag, stream_of};
use leasehold_journal::{Append, JournalId, Log, LogOptions, Store as _};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Mutex;

const DIGEST: &str = "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc";
const OTHER_DIGEST: &str = "0aaae401a02d914a572d389a89b22da00d2df2e07c8a2331c69d1609456e8690";

/// A reader that answers from a script and remembers whom it was asked about.
struct Reader {
    answers: Mutex<VecDeque<Result<String, CallFailure>>>,
    asked: Mutex<Vec<(String, String)>>,
}

impl Reader {
    fn new(answers: impl IntoIterator<Item = Result<String, CallFailure>>) -> Self {
        let answers = Mutex::new(answers.into_iter().collect());
        Self { answers, asked: Mutex::new(Vec::new()) }
    }

    /// One that answers once.
    fn once(answer: &Value) -> Self {
        Self::new([Ok(answer.to_string())])
    }

    fn asked(&self) -> Vec<(String, String)> {
        self.asked.lock().expect("not poisoned").clone()
    }
}

impl Client<Processing> for Reader {
    fn longest_call_seconds(&self) -> Option<f64> {
        None
    }

    async fn call(&self, request: ProcessingRequest) -> Result<Vec<u8>, CallFailure> {
        let about = (request.event_id.as_str().to_owned(), request.site_id.as_str().to_owned());
        self.asked.lock().expect("not poisoned").push(about);
        let answer = self.answers.lock().expect("not poisoned").pop_front();
        answer.expect("the script has an answer for every call").map(String::into_bytes)
    }
}

fn delays() -> FlowDelays {
    let processing = Delays {
        base_delay_seconds: 2.0,
        max_delay_seconds: 8.0,
        poll_interval_seconds: 10.0,
        ..Delays::default()
    };
    FlowDelays { processing, ..FlowDelays::default() }
}

/// An engine with this digest; base 2, max 8, poll interval 10.
async fn monitor(disk: &MemoryDisk, clock: &ManualClock, digest: &str) -> Engine {
    Engine::in_memory(disk)
        .clock(clock.clone())
        .delays(delays())
        .receiver_digest(digest)
        .end_leases_on_open(false)
        .open()
        .await
        .expect("the engine opens")
}

/// An engine without a digest.
async fn unbound(disk: &MemoryDisk, clock: &ManualClock) -> Engine {
    let builder = Engine::in_memory(disk).clock(clock.clone()).delays(delays());
    builder.end_leases_on_open(false).open().await.expect("the engine opens")
}

/// The acknowledged notification of a published change.
fn notification(event_id: &str) -> Value {
    support::notification(event_id, &format!("terminal-{event_id}"))
}

/// The same document with other members.
fn with(mut document: Value, members: &Value) -> Value {
    for (key, value) in members.as_object().expect("an object") {
        document[key.as_str()] = value.clone();
    }
    document
}

/// A valid answer for the notification of this event: pending.
fn pending(event_id: &str) -> Value {
    let known = notification(event_id);
    json!({
        "schema": "blun.cms-terminal-receiver-status-response.v1",
        "notification_id": known["notification_id"],
        "event_id": event_id,
        "site_id": "site-1",
        "terminal_status": "published",
        "notification_sha256": sha256(&known),
        "processing_status": "pending",
        "attempts": 0,
        "max_attempts": 5,
        "next_attempt_at": 100.0,
        "lease_expires_at": null,
        "lease_expired": false,
        "last_error_code": null,
        "processed_at": null,
        "capabilities_sha256": DIGEST,
    })
}

fn succeeded(event_id: &str) -> Value {
    let done = json!({"processing_status": "succeeded", "attempts": 1, "processed_at": 109});
    with(pending(event_id), &done)
}

async fn register(
    engine: &Engine,
    document: &Value,
    max_failures: i64,
) -> Result<Registered<ProcessingStatus>, Error> {
    let (text, hash) = (document.to_string(), sha256(document));
    engine.processing().register_notification(text, &hash, max_failures).await
}

async fn registered(engine: &Engine, event_id: &str) {
    register(engine, &notification(event_id), 5).await.expect("it is valid");
}

async fn poll(engine: &Engine, reader: &Reader) -> Option<ProcessingAttempt> {
    engine.processing().run_once(reader, "w", 5.0).await.expect("it runs")
}

async fn status(engine: &Engine, event_id: &str) -> ProcessingStatus {
    engine.processing().status(event_id).await.expect("it is there")
}

/// The state and the error an answer leaves a fresh record in.
async fn judged(engine: &Engine, event_id: &str, answer: String) -> (&'static str, String) {
    registered(engine, event_id).await;
    let attempt = poll(engine, &Reader::new([Ok(answer)])).await.expect("it is due");
    assert_eq!(attempt.event_id.as_str(), event_id);
    let error = attempt.error_code.map(|error| error.as_str().to_owned());
    (attempt.status, error.unwrap_or_default())
}

/// The text of an answer with this in place of its time.
fn next_attempt_at(answer: &Value, text: &str) -> String {
    let member = format!("\"next_attempt_at\":{text}");
    answer.to_string().replace("\"next_attempt_at\":100.0", &member)
}

const RESPONSE_INVALID: &str = "terminal_processing_monitor.response_invalid";
const REMOTE_FAILED: &str = "terminal_processing_monitor.remote_failed";

#[test]
fn c1_a_pending_notification_is_watched_until_the_receiver_has_succeeded() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = monitor(&disk, &clock, DIGEST).await;
        registered(&engine, "event-1").await;
        let answers = [pending("event-1"), succeeded("event-1")];
        let reader = Reader::new(answers.map(|answer| Ok(answer.to_string())));
        assert_eq!(poll(&engine, &reader).await.expect("due").status, "watching");
        clock.set(109.0);
        assert_eq!(poll(&engine, &reader).await, None);
        clock.set(110.0);
        let attempt = poll(&engine, &reader).await.expect("due");
        assert_eq!((attempt.status, attempt.attempt, attempt.error_code), ("succeeded", 2, None));
        let shown = status(&engine, "event-1").await;
        assert_eq!((shown.receiver_attempts, shown.receiver_processed_at), (Some(1), Some(109.0)));
        let health = engine.processing().health().await.expect("a time");
        assert_eq!((health.status, health.counts["succeeded"]), ("ok", 1));
        let about = ("event-1".to_owned(), "site-1".to_owned());
        assert_eq!(reader.asked(), [about.clone(), about]);
    });
}

#[test]
fn c2_an_answer_for_another_site_fails_the_record_and_blocks_health() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = monitor(&disk, &clock, DIGEST).await;
        let other = [
            json!({"site_id": "site-2"}),
            json!({"event_id": "event-9"}),
            json!({"notification_id": "terminal-9"}),
            json!({"terminal_status": "deleted"}),
            json!({"notification_sha256": "a".repeat(64)}),
        ];
        for (number, members) in other.iter().enumerate() {
            let id = format!("event-{number}");
            let answer = with(succeeded(&id), members).to_string();
            let judged = judged(&engine, &id, answer).await;
            assert_eq!(judged, ("failed", RESPONSE_INVALID.to_owned()), "{members}");
        }
        let health = engine.processing().health().await.expect("a time");
        assert_eq!((health.status, health.failed), ("blocked", 5));
    });
}

#[test]
fn c3_an_answer_under_another_digest_is_refused_and_nothing_of_it_is_kept() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = monitor(&disk, &clock, DIGEST).await;
        let answer = with(succeeded("event-1"), &json!({"capabilities_sha256": OTHER_DIGEST}));
        let judged = judged(&engine, "event-1", answer.to_string()).await;
        assert_eq!(judged, ("failed", RESPONSE_INVALID.to_owned()));
        let shown = status(&engine, "event-1").await;
        assert_eq!((shown.failures, shown.receiver_status), (1, None));
        assert_eq!((shown.receiver_attempts, shown.receiver_processed_at), (None, None));
        let health = engine.processing().health().await.expect("a time");
        let digest = health.expected_capabilities_sha256.expect("a digest").to_string();
        assert_eq!((health.status, digest.as_str()), ("blocked", DIGEST));
    });
}

#[test]
fn c4_a_receiver_that_gave_up_fails_the_record_and_its_own_code_is_kept() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = monitor(&disk, &clock, DIGEST).await;
        let given_up = json!({
            "processing_status": "failed", "attempts": 5, "last_error_code": "cms.apply_failed",
        });
        let answer = with(pending("event-1"), &given_up).to_string();
        let (state, error) = judged(&engine, "event-1", answer).await;
        assert_eq!((state, error.as_str()), ("failed", REMOTE_FAILED));
        let shown = status(&engine, "event-1").await;
        assert_eq!(shown.receiver_error_code.expect("a code").as_str(), "cms.apply_failed");
        assert_eq!((shown.failures, shown.receiver_attempts), (0, Some(5)));
        assert_eq!(engine.processing().health().await.expect("a time").status, "blocked");
    });
}

#[test]
fn c5_a_failure_that_may_pass_and_a_crash_are_counted_and_tried_again() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = monitor(&disk, &clock, DIGEST).await;
        registered(&engine, "event-1").await;
        let failure = || Err(marked("terminal_receiver_client.network", true));
        let reader = Reader::new([failure(), failure()]);
        assert_eq!(poll(&engine, &reader).await.expect("due").status, "retry_wait");
        let shown = status(&engine, "event-1").await;
        assert_eq!((shown.failures, shown.next_poll_at), (1, 102.0));
        clock.set(101.0);
        assert_eq!(poll(&engine, &reader).await, None);
        clock.set(102.0);
        assert!(engine.processing().claim("w1", 5.0).await.expect("a claim").is_some());
        clock.set(107.0);
        let attempt = poll(&engine, &reader).await.expect("expired");
        assert_eq!((attempt.status, attempt.attempt), ("retry_wait", 3));
        let error = attempt.error_code.expect("an error");
        assert_eq!(error.as_str(), "terminal_receiver_client.network");
        let shown = status(&engine, "event-1").await;
        assert_eq!((shown.failures, shown.next_poll_at), (3, 115.0));
        assert_eq!(engine.processing().health().await.expect("a time").status, "ok");
    });
}

/// A journal in which the record of event-1 is no event.
fn damaged() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let options = LogOptions { new_id: JournalId([1; 16]), create: true };
    let mut log = Log::open(disk.medium(), options, &mut |_| Ok(())).expect("a new one");
    let body = vec![FlowTag::Processing as u8, codec::VERSION, 255];
    let stream = stream_of(FlowTag::Processing, "event-1");
    log.commit(&[Append { stream, expected_version: 0, bodies: vec![body], alone: None }])
        .expect("a commit");
    disk
}

#[test]
fn c6_registering_again_changes_nothing_and_an_old_hash_for_another_site_is_refused() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = monitor(&disk, &clock, DIGEST).await;
        let document = notification("event-1");
        let first = register(&engine, &document, 5).await.expect("it is valid");
        clock.set(101.0);
        let again = register(&engine, &document, 5).await.expect("it is known");
        assert_eq!((first.already_known, again.already_known), (false, true));
        assert_eq!((first.status.status, &again.status), ("pending", &first.status));
        let other = with(document.clone(), &json!({"site_id": "site-2"})).to_string();
        let flow = engine.processing();
        let refused = flow.register_notification(other, &sha256(&document), 5).await;
        assert_eq!(code(refused), "terminal_processing_monitor.notification_invalid");
    });
}

#[test]
fn c6_d8_a_stored_record_that_is_none_is_quarantined_and_the_others_go_on() {
    run(async {
        let clock = ManualClock::at(100.0);
        let engine = monitor(&damaged(), &clock, DIGEST).await;
        let flow = engine.processing();
        let health = flow.health().await.expect("it never raises");
        assert_eq!((health.status, health.quarantined), ("blocked", 1));
        let refused = flow.status("event-1").await;
        assert_eq!(code(refused), "terminal_processing_monitor.state_invalid");
        let judged = judged(&engine, "event-2", succeeded("event-2").to_string()).await;
        assert_eq!(judged.0, "succeeded");
    });
}

#[test]
fn c7_a_store_is_bound_by_the_digest_it_is_given_and_rests_without_one() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let bad = Engine::in_memory(&disk).clock(clock.clone()).receiver_digest("no digest");
        let refused = bad.open().await;
        assert_eq!(code(refused), "terminal_processing_monitor.capabilities_invalid");
        let engine = unbound(&disk, &clock).await;
        let refused = register(&engine, &notification("event-1"), 5).await;
        assert_eq!(code(refused), "terminal_processing_monitor.capabilities_invalid");
        let health = engine.processing().health().await.expect("a time");
        assert_eq!(health.expected_capabilities_sha256, None);
        engine.close().await;
        let engine = monitor(&disk, &clock, DIGEST).await;
        registered(&engine, "event-1").await;
        let before = status(&engine, "event-1").await;
        engine.close().await;
        let engine = unbound(&disk, &clock).await;
        let reader = Reader::once(&succeeded("event-1"));
        assert_eq!(poll(&engine, &reader).await, None);
        assert_eq!(status(&engine, "event-1").await, before, "it is untouched");
        engine.close().await;
        let engine = monitor(&disk, &clock, DIGEST).await;
        assert_eq!(poll(&engine, &reader).await.expect("due").status, "succeeded");
    });
}

#[test]
fn c8_d9_records_under_another_digest_are_held_and_the_others_go_on() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = monitor(&disk, &clock, DIGEST).await;
        registered(&engine, "event-1").await;
        engine.close().await;
        clock.set(101.0);
        let engine = monitor(&disk, &clock, OTHER_DIGEST).await;
        let health = engine.processing().health().await.expect("a time");
        assert_eq!((health.status, health.contract_mismatches, health.due), ("blocked", 1, 0));
        let again = register(&engine, &notification("event-1"), 5).await;
        assert_eq!(code(again), "terminal_processing_monitor.idempotency_collision");
        registered(&engine, "event-2").await;
        let answer = with(succeeded("event-2"), &json!({"capabilities_sha256": OTHER_DIGEST}));
        let reader = Reader::once(&answer);
        let attempt = poll(&engine, &reader).await.expect("the younger one is due");
        assert_eq!((attempt.event_id.as_str(), attempt.status), ("event-2", "succeeded"));
        assert_eq!(poll(&engine, &reader).await, None);
        assert_eq!(reader.asked().len(), 1, "nobody was asked about the held one");
        let held = status(&engine, "event-1").await;
        assert_eq!((held.status, held.poll_attempts), ("pending", 0));
        engine.close().await;
        let engine = monitor(&disk, &clock, DIGEST).await;
        let attempt = poll(&engine, &Reader::once(&succeeded("event-1"))).await.expect("due");
        assert_eq!((attempt.event_id.as_str(), attempt.status), ("event-1", "succeeded"));
        let health = engine.processing().health().await.expect("a time");
        assert_eq!((health.status, health.contract_mismatches), ("ok", 0));
    });
}
