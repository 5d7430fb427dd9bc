//! Scenarios B11 to B16, and the size of a poll that brings nothing new.

use super::*;

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
