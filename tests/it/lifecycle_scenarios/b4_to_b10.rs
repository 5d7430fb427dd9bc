//! Scenarios B4 to B10.

use super::*;

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
