//! Scenarios G1 to G7 of the notification outbox, read with our deviations.

use crate::support::{Scripted, accepted, change, code, engine_with, marked, run};
use leasehold::{
    CallFailure, Client, Engine, LifecycleStatus, ManualClock, MemoryDisk, NotificationAttempt,
    NotificationRequest, Notify,
};
use leasehold_actors::codec;
use leasehold_actors::contract::lifecycle::RemoteStatus;
use leasehold_actors::contract::notification::Notification;
use leasehold_actors::contract::payload::Payload;
use leasehold_actors::contract::text::{Sha256, Token};
use leasehold_actors::contract::time::{Ceiling, Timestamp};
use leasehold_actors::flows::notification::NotifyBinding;
use leasehold_actors::record::{Event, FlowTag, stream_of};
use leasehold_journal::{Append, JournalId, Log, LogOptions, Store as _};
use serde_json::json;
use std::collections::VecDeque;
use std::sync::Mutex;

/// What the host's callback does.
enum Answer {
    /// Gives the one acknowledgement.
    Acknowledges,
    /// Gives it with one text in place of another.
    Alters(&'static str, &'static str),
    /// Gives something else.
    Says(&'static str),
    /// Fails.
    Fails(CallFailure),
}

/// A callback that answers from a script and remembers what it was given.
struct Callback {
    answers: Mutex<VecDeque<Answer>>,
    given: Mutex<Vec<String>>,
}

impl Callback {
    fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let answers = Mutex::new(answers.into_iter().collect());
        Self { answers, given: Mutex::new(Vec::new()) }
    }

    fn given(&self) -> Vec<String> {
        self.given.lock().expect("not poisoned").clone()
    }
}

impl Client<Notify> for Callback {
    fn longest_call_seconds(&self) -> Option<f64> {
        None
    }

    async fn call(&self, request: NotificationRequest) -> Result<Vec<u8>, CallFailure> {
        let text = request.notification.as_str().to_owned();
        let read = Notification::parse(text.as_bytes()).expect("what is sent keeps every rule");
        self.given.lock().expect("not poisoned").push(text);
        let acknowledgement = read.acknowledgement().as_str().to_owned();
        let answer = self.answers.lock().expect("not poisoned").pop_front();
        match answer.expect("the script has an answer for every call") {
            Answer::Acknowledges => Ok(acknowledgement.into_bytes()),
            Answer::Alters(from, to) => Ok(acknowledgement.replace(from, to).into_bytes()),
            Answer::Says(text) => Ok(text.as_bytes().to_vec()),
            Answer::Fails(failure) => Err(failure),
        }
    }
}

/// An engine with base 2 and max 8.
async fn outbox(disk: &MemoryDisk, clock: &ManualClock) -> Engine {
    engine_with(disk, clock, 2.0, 8.0).await
}

/// What the CMS answers about the change with this id.
fn snapshot(event_id: &str, status: &str) -> String {
    json!({
        "schema": "blun.cms-localization-lifecycle.v3",
        "request_id": "9f0c4d5e6a7b8c9d0e1f2a3b4c5d6e7f",
        "event_id": event_id,
        "site_id": "site-1",
        "plan_id": "plan-1",
        "website_version": "web-1",
        "source_sequence": 1,
        "status": status,
        "required_locales": ["fi-FI", "mt-MT"],
        "approved_locales": [],
        "blocked_locales": [],
        "queue_counts": {"failed": 0, "leased": 0, "pending": 0, "retry_wait": 0, "succeeded": 2},
        "delivery": null,
        "tombstone": null,
    })
    .to_string()
}

/// The lifecycle record of a change the CMS answered with this status at once.
async fn dispatched(engine: &Engine, event_id: &str, status: &str) -> LifecycleStatus {
    let dispatch = engine.dispatch();
    dispatch.enqueue(change(event_id), 5).await.expect("it is valid");
    let answer = accepted(event_id, 2).replace("\"enqueued\"", &format!("\"{status}\""));
    let client = Scripted::new([Ok(answer)]);
    dispatch.run_once(&client, "w", 60.0).await.expect("it runs").expect("due");
    let shown = dispatch.status(event_id).await.expect("it is there");
    let shown = serde_json::to_string(&shown).expect("it serialises");
    let flow = engine.lifecycle();
    flow.register_change(change(event_id), shown, 5).await.expect("it was accepted").status
}

/// The lifecycle record of a change that was polled once and had this status then.
async fn polled(engine: &Engine, event_id: &str, status: &str) -> LifecycleStatus {
    dispatched(engine, event_id, "enqueued").await;
    let flow = engine.lifecycle();
    let claim = flow.claim("w", 60.0).await.expect("a claim").expect("due");
    flow.complete(&claim, snapshot(event_id, status)).await.expect("it is live")
}

async fn register(engine: &Engine, ended: &LifecycleStatus) {
    engine.notification().register_terminal(ended, 5).await.expect("it is terminal");
}

async fn deliver(engine: &Engine, callback: &Callback) -> Option<NotificationAttempt> {
    engine.notification().run_once(callback, "w", 60.0).await.expect("it runs")
}

#[test]
fn g1_registering_again_keeps_one_id_and_no_text_of_the_change_is_stored() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = outbox(&disk, &clock).await;
        let ended = polled(&engine, "event-1", "published").await;
        let flow = engine.notification();
        let first = flow.register_terminal(&ended, 5).await.expect("it is terminal");
        clock.set(101.0);
        let again = flow.register_terminal(&ended, 5).await.expect("it is known");
        assert_eq!((first.already_known, again.already_known), (false, true));
        assert_eq!((first.status.status, &again.status), ("pending", &first.status));
        assert_eq!(flow.health().await.expect("a time").counts["pending"], 1);
        let claim = flow.claim("w", 60.0).await.expect("a claim").expect("due");
        let stored = claim.request().notification;
        let read = Notification::parse(stored.as_bytes()).expect("it keeps every rule");
        assert_eq!(read.notification_id, first.status.notification_id);
        assert_eq!(stored.sha256(), first.status.notification_sha256);
        for text in ["Kaffee", "landing.intro", "fi-FI"] {
            assert!(!stored.as_str().contains(text), "{text}");
        }
    });
}

#[test]
fn g2_an_exact_acknowledgement_succeeds_with_one_call() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = outbox(&disk, &clock).await;
        register(&engine, &polled(&engine, "event-1", "published").await).await;
        let callback = Callback::new([Answer::Acknowledges]);
        let attempt = deliver(&engine, &callback).await.expect("due");
        assert_eq!((attempt.status, attempt.attempt, attempt.error_code), ("succeeded", 1, None));
        assert_eq!(deliver(&engine, &callback).await, None);
        let given = callback.given();
        assert_eq!(given.len(), 1);
        let read = Notification::parse(given[0].as_bytes()).expect("it keeps every rule");
        let shown = engine.notification().status("event-1").await.expect("it is there");
        assert_eq!(shown.acknowledgement_sha256, Some(read.acknowledgement().sha256()));
        assert_eq!(engine.notification().health().await.expect("a time").status, "ok");
    });
}

#[test]
fn a_lease_that_ran_out_blocks_health_until_it_is_settled() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = outbox(&disk, &clock).await;
        register(&engine, &polled(&engine, "event-1", "published").await).await;
        let flow = engine.notification();
        flow.claim("gone", 60.0).await.expect("a claim").expect("due");
        clock.set(159.0);
        let health = flow.health().await.expect("a time");
        assert_eq!((health.status, health.expired_leases), ("ok", 0));
        clock.set(160.0);
        let health = flow.health().await.expect("a time");
        assert_eq!((health.status, health.expired_leases), ("blocked", 1));
        flow.claim("w", 60.0).await.expect("it ends the other's lease");
        let health = flow.health().await.expect("a time");
        assert_eq!((health.status, health.expired_leases), ("ok", 0));
    });
}

#[test]
fn g3_after_a_lost_answer_the_same_notification_is_sent_again() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = outbox(&disk, &clock).await;
        let ended = polled(&engine, "event-1", "published").await;
        engine.notification().register_terminal(&ended, 2).await.expect("it is terminal");
        let lost = marked("notification.network_unavailable", true);
        let callback = Callback::new([Answer::Fails(lost), Answer::Acknowledges]);
        let attempt = deliver(&engine, &callback).await.expect("due");
        assert_eq!((attempt.status, attempt.next_attempt_at), ("retry_wait", 102.0));
        let error = attempt.error_code.expect("an error");
        assert_eq!(error.as_str(), "notification.network_unavailable");
        clock.set(101.0);
        assert_eq!(deliver(&engine, &callback).await, None);
        clock.set(102.0);
        let attempt = deliver(&engine, &callback).await.expect("due");
        assert_eq!((attempt.status, attempt.attempt), ("succeeded", 2));
        let given = callback.given();
        assert_eq!((given.len(), given[0] == given[1]), (2, true));
    });
}

#[test]
fn g3_a_second_lost_answer_uses_the_ceiling_up() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = outbox(&disk, &clock).await;
        let ended = polled(&engine, "event-1", "published").await;
        engine.notification().register_terminal(&ended, 2).await.expect("it is terminal");
        let lost = || Answer::Fails(marked("notification.network_unavailable", true));
        let callback = Callback::new([lost(), lost()]);
        assert_eq!(deliver(&engine, &callback).await.expect("due").status, "retry_wait");
        clock.set(102.0);
        let attempt = deliver(&engine, &callback).await.expect("due");
        assert_eq!((attempt.status, attempt.next_attempt_at), ("failed", 102.0));
        assert_eq!(engine.notification().health().await.expect("a time").status, "blocked");
    });
}

#[test]
fn g4_anything_but_the_acknowledgement_fails_and_nothing_private_shows() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = outbox(&disk, &clock).await;
        let (invalid, failure) =
            ("terminal_notification.response_invalid", "terminal_notification.callback_failure");
        let cases = [
            (Answer::Alters("\"accepted\"", "\"queued\""), invalid),
            (Answer::Alters("\"site-1\"", "\"site-2\""), invalid),
            (Answer::Alters("{", "{\"status\":\"accepted\","), invalid),
            (Answer::Says("Private words"), invalid),
            (Answer::Fails(CallFailure::Unmarked), failure),
            (Answer::Fails(marked("Private words", true)), failure),
            (Answer::Fails(marked("some.code", false)), "some.code"),
        ];
        for (number, (answer, expected)) in cases.into_iter().enumerate() {
            let id = format!("event-{number}");
            register(&engine, &polled(&engine, &id, "published").await).await;
            let attempt = deliver(&engine, &Callback::new([answer])).await.expect("due");
            assert_eq!((attempt.event_id.as_str(), attempt.status), (id.as_str(), "failed"));
            let shown = engine.notification().status(&id).await.expect("it is there");
            let health = engine.notification().health().await.expect("a time");
            assert!(!format!("{attempt:?} {shown:?} {health:?}").contains("Private"));
            assert_eq!(shown.acknowledgement_sha256, None);
            assert_eq!(attempt.error_code.expect("an error").as_str(), expected);
        }
    });
}

#[test]
fn g5_another_version_collides_and_what_is_not_terminal_is_refused() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = outbox(&disk, &clock).await;
        let flow = engine.notification();
        let ended = polled(&engine, "event-1", "published").await;
        let mut other = ended.clone();
        other.website_version = Token::new("web-2").expect("a token");
        register(&engine, &ended).await;
        for (record, ceiling) in [(&other, 5), (&ended, 4)] {
            let refused = flow.register_terminal(record, ceiling).await;
            assert_eq!(code(refused), "terminal_notification.idempotency_collision");
        }
        let invalid = "terminal_notification.lifecycle_invalid";
        let watched = polled(&engine, "event-2", "ready").await;
        assert_eq!(code(flow.register_terminal(&watched, 5).await), invalid);
        let mut moving = ended.clone();
        moving.remote_status = Some(RemoteStatus::Publishing);
        assert_eq!(code(flow.register_terminal(&moving, 5).await), invalid);
        assert_eq!(code(flow.status("event-2").await), "terminal_notification.missing");
        assert_eq!(code(flow.status("no id").await), "terminal_notification.payload_invalid");
    });
}

/// A journal in which this record's stored text is `{}`.
fn emptied(stored: &Notification) -> MemoryDisk {
    let disk = MemoryDisk::new();
    let options = LogOptions { new_id: JournalId([1; 16]), create: true };
    let mut log = Log::open(disk.medium(), options, &mut |_| Ok(())).expect("a new one");
    let event = Event::<Notify>::Registered {
        at: Timestamp::new(100.0).expect("a time"),
        binding: NotifyBinding::of(stored, Ceiling::new(5).expect("a ceiling")),
        payload: Payload::from_canonical("{}".into()),
        settled: None,
    };
    let body = codec::encode(&event).expect("it is small");
    let stream = stream_of(FlowTag::Notification, stored.event_id.as_str());
    log.commit(&[Append { stream, expected_version: 0, bodies: vec![body], alone: None }])
        .expect("a commit");
    disk
}

#[test]
fn g5_d8_a_record_whose_text_was_replaced_is_never_sent_and_the_others_go_on() {
    run(async {
        let clock = ManualClock::at(100.0);
        let engine = outbox(&MemoryDisk::new(), &clock).await;
        register(&engine, &polled(&engine, "event-1", "published").await).await;
        let claim = engine.notification().claim("w", 60.0).await.expect("a claim").expect("due");
        let stored = claim.request().notification;
        let stored = Notification::parse(stored.as_bytes()).expect("it keeps every rule");
        engine.close().await;
        let engine = outbox(&emptied(&stored), &clock).await;
        let flow = engine.notification();
        let callback = Callback::new([Answer::Acknowledges]);
        assert_eq!(deliver(&engine, &callback).await, None);
        assert_eq!(callback.given().len(), 0, "nobody was called");
        assert_eq!(code(flow.status("event-1").await), "terminal_notification.state_invalid");
        let health = flow.health().await.expect("it never raises");
        assert_eq!((health.status, health.quarantined), ("blocked", 1));
        register(&engine, &polled(&engine, "event-2", "published").await).await;
        let attempt = deliver(&engine, &callback).await.expect("due");
        assert_eq!((attempt.event_id.as_str(), attempt.status), ("event-2", "succeeded"));
    });
}

#[test]
fn g6_a_change_cancelled_at_once_is_notified_without_a_hash() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = outbox(&disk, &clock).await;
        let flow = engine.notification();
        for (id, status) in [("event-1", "cancelled"), ("event-2", "superseded")] {
            let ended = dispatched(&engine, id, status).await;
            assert_eq!((ended.state, ended.lifecycle_sha256), ("terminal", None));
            let known = flow.register_terminal(&ended, 5).await.expect("it is terminal");
            assert_eq!(known.status.status, "pending");
            let callback = Callback::new([Answer::Acknowledges]);
            assert_eq!(deliver(&engine, &callback).await.expect("due").status, "succeeded");
            let given = callback.given().concat();
            assert!(given.contains("\"lifecycle_sha256\":null"), "{given}");
            assert!(given.contains(&format!("\"terminal_status\":\"{status}\"")), "{given}");
        }
        let mut published = polled(&engine, "event-3", "published").await;
        published.lifecycle_sha256 = None;
        let refused = flow.register_terminal(&published, 5).await;
        assert_eq!(code(refused), "terminal_notification.lifecycle_invalid");
    });
}

#[test]
fn g7_d4_a_polled_cancellation_is_notified_with_its_hash_and_blocks_nothing() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = outbox(&disk, &clock).await;
        let ended = polled(&engine, "event-1", "cancelled").await;
        let (_, answer) =
            Payload::parse(snapshot("event-1", "cancelled").as_bytes(), usize::MAX).expect("JSON");
        let hash: Sha256 = answer.sha256();
        assert_eq!((ended.state, ended.lifecycle_sha256), ("terminal", Some(hash)));
        register(&engine, &ended).await;
        clock.set(101.0);
        register(&engine, &polled(&engine, "event-2", "published").await).await;
        let callback = Callback::new([Answer::Acknowledges, Answer::Acknowledges]);
        for id in ["event-1", "event-2"] {
            let attempt = deliver(&engine, &callback).await.expect("due");
            assert_eq!((attempt.event_id.as_str(), attempt.status), (id, "succeeded"));
        }
        let given = callback.given();
        assert!(given[0].contains("\"terminal_status\":\"cancelled\""), "{}", given[0]);
        assert!(given[0].contains(&format!("\"lifecycle_sha256\":\"{hash}\"")), "{}", given[0]);
        assert_eq!(engine.notification().health().await.expect("a time").status, "ok");
    });
}
