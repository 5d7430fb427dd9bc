//! Scenarios C9 to C14.

use super::*;

#[test]
fn c9_an_expired_lease_is_leased_again_at_once_and_the_ceiling_ends_it() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = monitor(&disk, &clock, DIGEST).await;
        let flow = engine.processing();
        register(&engine, &notification("event-1"), 2).await.expect("it is valid");
        flow.claim("w1", 5.0).await.expect("a claim").expect("due");
        clock.set(105.0);
        let health = flow.health().await.expect("a time");
        assert_eq!((health.status, health.expired_leases), ("blocked", 1));
        let attempt = poll(&engine, &Reader::once(&pending("event-1"))).await.expect("at once");
        assert_eq!((attempt.status, attempt.attempt), ("watching", 2));
        assert_eq!(status(&engine, "event-1").await.failures, 0, "a good answer forgives");
        for now in [115.0, 120.0] {
            clock.set(now);
            flow.claim("w1", 5.0).await.expect("a claim").expect("due");
        }
        clock.set(125.0);
        assert!(flow.claim("w1", 5.0).await.expect("a claim").is_none());
        let shown = status(&engine, "event-1").await;
        let error = shown.last_error_code.expect("an error");
        assert_eq!((shown.status, shown.failures, shown.next_poll_at), ("failed", 2, 125.0));
        assert_eq!(error.as_str(), "terminal_processing_monitor.lease_expired");
        assert_eq!(shown.receiver_attempts, Some(0), "what was known last is kept");
    });
}

#[test]
fn c10_d13_answers_of_the_wrong_kind_are_refused_and_a_time_past_64_bits_is_none() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = monitor(&disk, &clock, DIGEST).await;
        for (number, members) in [
            json!({"processing_status": "succeeded", "attempts": 1}),
            json!({"processing_status": []}),
            json!({"last_error_code": []}),
            json!({"attempts": 6}),
            json!({"attempts": true}),
            json!({"lease_expired": true}),
            json!({"more": null}),
        ]
        .iter()
        .enumerate()
        {
            let id = format!("kind-{number}");
            let judged = judged(&engine, &id, with(pending(&id), members).to_string()).await;
            assert_eq!(judged, ("failed", RESPONSE_INVALID.to_owned()), "{members}");
        }
        let enormous = format!("1{}", "0".repeat(400));
        for (number, text) in ["-1", "true", enormous.as_str()].into_iter().enumerate() {
            let id = format!("time-{number}");
            let judged = judged(&engine, &id, next_attempt_at(&pending(&id), text)).await;
            assert_eq!(judged, ("failed", RESPONSE_INVALID.to_owned()), "{text}");
        }
        for (number, text) in ["[]", "null", "\"pending\"", "no JSON"].into_iter().enumerate() {
            let judged = judged(&engine, &format!("shape-{number}"), text.to_owned()).await;
            assert_eq!(judged, ("failed", RESPONSE_INVALID.to_owned()), "{text}");
        }
        let large = next_attempt_at(&pending("event-1"), "10000000000000000000");
        assert_eq!(judged(&engine, "event-1", large).await.0, "watching");
    });
}

#[test]
fn c11_an_expired_lease_over_there_is_watched_and_a_failure_without_attempts_is_one() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = monitor(&disk, &clock, DIGEST).await;
        let leased = json!({
            "processing_status": "leased", "attempts": 1, "lease_expires_at": 90,
            "lease_expired": true,
        });
        let answer = with(pending("event-1"), &leased).to_string();
        assert_eq!(judged(&engine, "event-1", answer).await, ("watching", String::new()));
        let failed = json!({"processing_status": "failed", "last_error_code": "cms.gone"});
        let answer = with(pending("event-2"), &failed).to_string();
        let (state, error) = judged(&engine, "event-2", answer).await;
        assert_eq!((state, error.as_str()), ("failed", REMOTE_FAILED));
        assert_eq!(status(&engine, "event-2").await.receiver_attempts, Some(0));
    });
}

#[test]
fn c12_d1_a_failure_without_a_code_is_no_answer_and_breaks_nothing() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = monitor(&disk, &clock, DIGEST).await;
        for state in ["failed", "retry_wait"] {
            let nameless = json!({"processing_status": state, "attempts": 1});
            let answer = with(pending(state), &nameless).to_string();
            let judged = judged(&engine, state, answer).await;
            assert_eq!(judged, ("failed", RESPONSE_INVALID.to_owned()), "{state}");
            assert_eq!(status(&engine, state).await.receiver_status, None);
        }
        let named = json!({
            "processing_status": "retry_wait", "attempts": 1, "last_error_code": "cms.busy",
        });
        let answer = with(pending("event-1"), &named).to_string();
        assert_eq!(judged(&engine, "event-1", answer).await.0, "watching");
        clock.set(110.0);
        let attempt = poll(&engine, &Reader::once(&succeeded("event-1"))).await.expect("due");
        assert_eq!(attempt.status, "succeeded");
        let health = engine.processing().health().await.expect("it never raises");
        assert_eq!((health.status, health.failed, health.quarantined), ("blocked", 2, 0));
    });
}

#[test]
fn c13_d16_a_code_is_the_readers_only_when_it_is_marked_and_well_formed() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = monitor(&disk, &clock, DIGEST).await;
        let cases = [
            (CallFailure::Unmarked, "terminal_processing_monitor.reader_failure"),
            (marked("Private words", true), "terminal_processing_monitor.reader_failure"),
            (marked("some.code", false), "some.code"),
        ];
        for (number, (failure, expected)) in cases.into_iter().enumerate() {
            let id = format!("event-{number}");
            registered(&engine, &id).await;
            let attempt = poll(&engine, &Reader::new([Err(failure)])).await.expect("due");
            assert_eq!(attempt.status, "failed");
            let shown = format!("{attempt:?} {:?}", status(&engine, &id).await);
            assert!(!shown.contains("Private"), "{shown}");
            assert_eq!(attempt.error_code.expect("an error").as_str(), expected);
        }
    });
}

#[test]
fn c14_d17_another_binding_collides_and_so_does_the_id_of_another_events_notification() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = monitor(&disk, &clock, DIGEST).await;
        let collision = "terminal_processing_monitor.idempotency_collision";
        let invalid = "terminal_processing_monitor.notification_invalid";
        let document = notification("event-1");
        register(&engine, &document, 5).await.expect("it is valid");
        let deleted = with(document.clone(), &json!({"terminal_status": "deleted"}));
        assert_eq!(code(register(&engine, &deleted, 5).await), collision);
        assert_eq!(code(register(&engine, &document, 4).await), collision);
        let ready = with(document.clone(), &json!({"terminal_status": "ready"}));
        assert_eq!(code(register(&engine, &ready, 5).await), invalid);
        for hash in ["a".repeat(64), "no hash".to_owned(), sha256(&document).to_uppercase()] {
            let text = document.to_string();
            let refused = engine.processing().register_notification(text, &hash, 5).await;
            assert_eq!(code(refused), invalid, "{hash}");
        }
        let reused = with(document.clone(), &json!({"event_id": "event-2"}));
        assert_eq!(code(register(&engine, &reused, 5).await), collision);
        let missing = engine.processing().status("event-2").await;
        assert_eq!(code(missing), "terminal_processing_monitor.missing");
        let renamed = with(document, &json!({"notification_id": "terminal-event-2"}));
        assert_eq!(code(register(&engine, &renamed, 5).await), collision);
        registered(&engine, "event-2").await; // a refused registration keeps no id
        engine.close().await;
        let engine = monitor(&disk, &clock, DIGEST).await;
        assert_eq!(code(register(&engine, &reused, 5).await), collision);
    });
}
