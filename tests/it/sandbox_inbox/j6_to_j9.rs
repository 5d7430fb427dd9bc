//! J6 to J9: files that were kept, failures and what the flow `processing` makes of them, intake.

use super::{Alone, EVENT, Receiver, UNAVAILABLE, kept, options, sound, time, told};
use crate::notification_client::{altered, notification};
use crate::receiver_client::{BASE, PIN};
use crate::sandbox_receiver::{agreeing, code, sent};
use crate::support::run;
use leasehold::sandbox::book::BookInvalid;
use leasehold::sandbox::handler::Handling;
use leasehold::sandbox::processing::{Phase, StateInvalid};
use leasehold::sandbox::{Sandbox, SandboxInvalid};
use leasehold::{Delays, Engine, FlowDelays, ManualClock, MemoryDisk};
use leasehold_actors::contract::payload::Payload;
use leasehold_actors::contract::receiver::WorkStatus;
use leasehold_actors::contract::text::ErrorCode;
use serde_json::{Value, json};
use std::path::Path;

const CALLBACK_FAILURE: &str = "notification_receiver.processing_callback_failure";
const RESPONSE_INVALID: &str = "notification_receiver.processing_response_invalid";

/// A state file of version 1 that holds these notifications.
fn version_1(notifications: &[Payload]) -> String {
    let line = |body: &Payload| json!({ "kind": "notification", "body": body.as_str() });
    notifications.iter().map(|body| format!("{}\n", line(body))).collect()
}

#[test]
fn scenario_j6_a_file_of_version_1_goes_on_with_one_pending_entry_for_each_receipt() {
    run(async {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, clock) = (folder.path().join("state"), ManualClock::at(50.0));
        let other = altered("event_id", json!("event-2"));
        let old = version_1(&[notification(), other]);
        std::fs::write(&path, &old).expect("writable");
        let receiver = Receiver::start(kept(sound(2), &path), &clock).await;
        let health = receiver.health().await;
        assert_eq!(health["processing_counts"]["pending"], json!(2));
        assert_eq!((&health["received"], &health["processing_due"]), (&json!(2), &json!(2)));
        receiver.sandbox.stop().await;
        clock.set(60.0);
        let receiver = Receiver::start(kept(sound(2), &path), &clock).await;
        for event_id in [EVENT, "event-2"] {
            let status = receiver.status(event_id).await;
            assert_eq!(status["processing_status"], "pending");
            assert_eq!((&status["attempts"], &status["max_attempts"]), (&json!(0), &json!(5)));
            assert_eq!(status["next_attempt_at"], json!(50.0));
        }
        let text = std::fs::read_to_string(&path).expect("text");
        let added = text.strip_prefix(&old).expect("what was there is still there");
        assert!(added.starts_with("{\"kind\":\"format\",\"version\":2,"), "{added}");
        receiver.sandbox.stop().await;
    });
}

/// Why this state file is refused; it stays as it was.
async fn refused(path: &Path, text: &str) -> BookInvalid {
    std::fs::write(path, text).expect("writable");
    let started = Sandbox::start_at(kept(sound(2), path), ManualClock::at(300.0)).await;
    assert_eq!(std::fs::read_to_string(path).expect("text"), text);
    match started.expect_err("it is damaged") {
        SandboxInvalid::State(invalid) => invalid,
        other @ (SandboxInvalid::Listen | SandboxInvalid::Clock) => panic!("{other}"),
    }
}

#[test]
fn scenario_j6_an_altered_file_of_version_1_is_left_as_it_was() {
    run(async {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state");
        let old = version_1(&[notification()]);
        let altered = old.replace("\\\"job_count\\\":2", "\\\"job_count\\\":3");
        assert_ne!(altered, old);
        for cut in ["", "{\"kind\":\"notif"] {
            assert_eq!(refused(&path, &format!("{altered}{cut}")).await, BookInvalid::Line);
        }
        assert_eq!(refused(&path, &old.repeat(2)).await, BookInvalid::Inbox(StateInvalid));
    });
}

#[test]
fn scenario_j7_a_file_that_tells_what_cannot_have_happened_is_refused_by_name() {
    run(async {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, clock) = (folder.path().join("state"), ManualClock::at(100.0));
        let receiver = Receiver::start(kept(sound(2), &path), &clock).await;
        receiver.notify(&notification()).await;
        receiver.sandbox.stop().await;
        let good = std::fs::read_to_string(&path).expect("text");
        let receipt = good.lines().last().expect("a line").to_owned();
        let work = |event_id: &str, step: Value| {
            json!({ "kind": "work", "event_id": event_id, "step": step }).to_string()
        };
        let early = json!({ "did": "claimed", "at": "99", "ends_at": "104", "handling": "done" });
        let claimed =
            json!({ "did": "claimed", "at": "100", "ends_at": "105", "handling": "done" });
        let waits = json!({ "did": "retried", "at": "100", "next_at": "102", "code": "a" });
        for forged in [
            // An error on a pending entry.
            work(EVENT, json!({ "did": "failed", "at": "100", "code": UNAVAILABLE })),
            work(EVENT, waits),
            work(EVENT, json!({ "did": "succeeded", "at": "100" })),
            work(EVENT, early),
            work("event-9", claimed),
            receipt,
        ] {
            let refused = refused(&path, &format!("{good}{forged}\n")).await;
            assert_eq!(refused, BookInvalid::Inbox(StateInvalid), "{forged}");
            let said = refused.to_string();
            assert!(said.starts_with("notification_receiver.processing_state_invalid: "), "{said}");
        }
        std::fs::write(&path, good).expect("writable");
        let receiver = Receiver::start(kept(sound(2), &path), &clock).await;
        assert_eq!(receiver.told().await, told("pending", 0, 100.0, ""));
        receiver.sandbox.stop().await;
    });
}

#[test]
fn scenario_j8_an_exception_and_an_answer_for_another_event_are_final() {
    for (handling, expected) in
        [(Handling::Crash, CALLBACK_FAILURE), (Handling::Wrong, RESPONSE_INVALID)]
    {
        let mut alone = Alone::received(100.0);
        let outcome = handling.outcome(&alone.notification).expect("it ends");
        assert!(alone.claims(100.0));
        assert_eq!(alone.ends(1, &outcome, 101.0), Ok(()));
        let code = ErrorCode::new(expected).expect("a code");
        assert_eq!(alone.work.phase(), &Phase::Failed { code });
        assert_eq!((alone.work.attempts(), alone.work.next_at()), (1, time(101.0)));
        assert!(!alone.claims(1_000.0));
    }
}

/// What the flow `processing` was told by a receiver with this handler, second by second, and the
/// error of its record in the end.
async fn watched(handler: &str) -> (Vec<(WorkStatus, u8, String)>, String) {
    let clock = ManualClock::at(100.0);
    let receiver = Receiver::start(options(2, handler), &clock).await;
    receiver.notify(&notification()).await;
    let every_second = Delays { poll_interval_seconds: 1.0, ..Delays::default() };
    let builder = Engine::in_memory(&MemoryDisk::new())
        .clock(clock.clone())
        .delays(FlowDelays { processing: every_second, ..FlowDelays::default() })
        .receiver_digest(PIN);
    let engine = builder.open().await.expect("the engine opens");
    let (flow, document) = (engine.processing(), notification());
    let sha256 = document.sha256().to_string();
    flow.register_notification(document.as_bytes(), &sha256, 5).await.expect("it is valid");
    let (mut seen, mut seconds) = (Vec::new(), 100.0);
    let error = loop {
        clock.set(seconds);
        let attempt = flow.run_once(&receiver.client, "w", 600.0).await.expect("it runs");
        let state = attempt.expect("it is due every second").status;
        let known = flow.status(EVENT).await.expect("it is there");
        let code = known.receiver_error_code.map(|code| code.to_string()).unwrap_or_default();
        let (status, attempts) = known.receiver_status.zip(known.receiver_attempts).expect("read");
        seen.push((status, attempts, code));
        if state != "watching" {
            assert_eq!((state, known.failures), ("failed", 0));
            break known.last_error_code.expect("a code").to_string();
        }
        seconds += 1.0;
    };
    let health = receiver.health().await;
    assert_eq!((&health["status"], &health["failed"]), (&json!("blocked"), &json!(1)));
    assert_eq!(flow.health().await.expect("a time").status, "blocked");
    engine.close().await;
    receiver.sandbox.stop().await;
    (seen, error)
}

#[test]
fn scenario_j3_j8_the_watching_flow_records_what_the_receiver_says_of_its_failure() {
    use WorkStatus::{Failed, Leased, Pending, RetryWait};
    run(async {
        let remote_failed = "terminal_processing_monitor.remote_failed";
        let waits = (RetryWait, 1, UNAVAILABLE);
        let given_up = (Failed, 2, UNAVAILABLE);
        let begun = [(Pending, 0, ""), (Leased, 1, "")];
        for (handler, rest) in [
            ("retry", vec![waits, waits, (Leased, 2, ""), given_up]),
            ("crash", vec![(Failed, 1, CALLBACK_FAILURE)]),
            ("wrong", vec![(Failed, 1, RESPONSE_INVALID)]),
        ] {
            let (seen, error) = watched(handler).await;
            let told = |(status, attempts, code): (_, _, &str)| (status, attempts, code.to_owned());
            let expected = begun.into_iter().chain(rest).map(told).collect::<Vec<_>>();
            assert_eq!((seen, error.as_str()), (expected, remote_failed), "{handler}");
        }
    });
}

#[test]
fn scenario_j9_a_replay_keeps_the_first_time_of_receipt() {
    run(async {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, clock) = (folder.path().join("state"), ManualClock::at(123.5));
        for now in [123.5, 130.0, 1_900_000_000.123_456_7] {
            clock.set(now);
            let receiver = Receiver::start(kept(options(2, "stuck"), &path), &clock).await;
            receiver.notify(&notification()).await;
            receiver.notify(&notification()).await;
            assert_eq!(receiver.sandbox.summary().notifications, 1);
            let health = receiver.health().await;
            assert_eq!((&health["received"], &health["processing_due"]), (&json!(1), &json!(1)));
            receiver.sandbox.stop().await;
        }
        let receiver = Receiver::start(kept(sound(2), &path), &clock).await;
        assert_eq!(receiver.told().await, told("pending", 0, 123.5, ""));
        receiver.sandbox.stop().await;
    });
}

#[test]
fn scenario_j9_a_query_and_a_body_in_chunks_store_nothing() {
    run(async {
        let receiver = Receiver::start(sound(2), &ManualClock::at(100.0)).await;
        let (document, sandbox) = (notification(), &receiver.sandbox);
        let body = document.as_str();
        let with = |name, value| [agreeing(&document), vec![(name, value)]].concat();
        let whole = with("content-length", body.len().to_string());
        let chunked = with("transfer-encoding", "chunked".to_owned());
        let chunks = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
        let query = format!("{BASE}?site=shop-north");
        for (path, headers, body) in
            [(query.as_str(), &whole, body), (BASE, &chunked, chunks.as_str())]
        {
            let (status, answer) = sent(sandbox, path, headers, body).await;
            assert_eq!(status, 400, "{path}");
            assert_eq!(code(&answer), "notification_receiver.request_invalid");
            assert_eq!(sandbox.summary().notifications, 0);
        }
        assert_eq!(sent(sandbox, BASE, &whole, body).await.0, 200);
        assert_eq!(sandbox.summary().notifications, 1);
        receiver.sandbox.stop().await;
    });
}
