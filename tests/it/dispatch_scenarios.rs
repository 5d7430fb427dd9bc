//! Scenarios A1 to A16 of the change dispatcher, read with our deviations.

use crate::support::{Scripted, accepted, change, change_with, code, engine, marked, run};
use leasehold::{CallFailure, Claim, Dispatch, ManualClock, MemoryDisk};
use leasehold_actors::codec;
use leasehold_actors::record::{FlowTag, stream_of};
use leasehold_journal::{Append, JournalError, JournalId, Log, LogOptions, Store as _};

#[test]
fn a1_a_crash_after_acceptance_submits_the_same_bytes_again_and_succeeds() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        flow.enqueue(change("event-1"), 5).await.expect("it is valid");
        let first = flow.claim("worker-1", 10.0).await.expect("a claim").expect("due");
        clock.set(110.0);
        let second = flow.claim("worker-2", 10.0).await.expect("a claim").expect("expired");
        assert_eq!(first.request().change, second.request().change);
        let status = flow.complete(&second, accepted("event-1", 0)).await.expect("it is live");
        assert_eq!((status.status, status.remote_job_count), ("succeeded", Some(2)));
        let health = flow.health().await.expect("a time");
        assert_eq!(health.status, "ok");
        let shown = format!("{status:?} {health:?} {second:?}");
        assert!(!shown.contains("Kaffee"), "no status shows the source text");
    });
}

#[test]
fn a2_a_failure_that_may_pass_is_tried_again_when_it_is_due() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        flow.enqueue(change("event-1"), 3).await.expect("it is valid");
        let client = Scripted::new([Err(marked("network", true)), Ok(accepted("event-1", 2))]);
        let attempt = flow.run_once(&client, "w", 60.0).await.expect("it runs").expect("due");
        assert_eq!((attempt.status, attempt.next_attempt_at), ("retry_wait", 105.0));
        clock.set(104.0);
        assert_eq!(flow.run_once(&client, "w", 60.0).await.expect("it runs"), None);
        clock.set(105.0);
        let attempt = flow.run_once(&client, "w", 60.0).await.expect("it runs").expect("due");
        assert_eq!(attempt.status, "succeeded");
        let calls = client.calls();
        assert_eq!((calls.len(), calls[0].change == calls[1].change), (2, true));
    });
}

#[test]
fn a3_a_completion_of_an_overtaken_claim_is_refused() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        flow.enqueue(change("event-1"), 3).await.expect("it is valid");
        let first = flow.claim("worker-1", 10.0).await.expect("a claim").expect("due");
        clock.set(109.0);
        assert!(flow.claim("worker-2", 10.0).await.expect("a claim").is_none());
        clock.set(110.0);
        let second = flow.claim("worker-2", 10.0).await.expect("a claim").expect("expired");
        assert_eq!(second.view().attempt, 2);
        let late = flow.complete(&first, accepted("event-1", 2)).await;
        assert_eq!(code(late), "dispatch.claim_lost");
        assert!(flow.complete(&second, accepted("event-1", 2)).await.is_ok());
    });
}

#[test]
fn a4_a12_enqueuing_again_changes_nothing_and_another_binding_collides() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        let first = flow.enqueue(change("event-1"), 5).await.expect("it is valid");
        clock.set(101.0);
        let again = flow.enqueue(change("event-1"), 5).await.expect("it is known");
        assert_eq!((first.already_known, again.already_known), (false, true));
        assert_eq!(first.status, again.status);
        let altered = flow.enqueue(change_with("event-1", "Tee."), 5).await;
        assert_eq!(code(altered), "dispatch.idempotency_collision");
        let ceiling = flow.enqueue(change("event-1"), 4).await;
        assert_eq!(code(ceiling), "dispatch.idempotency_collision");
        let claim = flow.claim("w", 10.0).await.expect("a claim").expect("due");
        assert!(claim.request().change.as_str().contains("Kaffee"));
        let bad = flow.enqueue("{\"event_id\": \"bad\"}", 5).await;
        assert_eq!(code(bad), "dispatch.change_invalid");
        let decomposed = flow.enqueue(change_with("event-2", "Cafe\u{301}"), 5).await;
        assert_eq!(code(decomposed), "dispatch.change_invalid");
    });
}

#[test]
fn a5_the_ceiling_and_a_permanent_failure_end_a_record_and_block_health() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        flow.enqueue(change("event-1"), 1).await.expect("it is valid");
        let client =
            Scripted::new([Err(marked("network", true)), Err(marked("cms.event.invalid", false))]);
        let attempt = flow.run_once(&client, "w", 60.0).await.expect("it runs").expect("due");
        assert_eq!(attempt.status, "failed");
        assert_eq!(attempt.error_code.expect("an error").as_str(), "network");
        assert_eq!(flow.health().await.expect("a time").status, "blocked");
        clock.set(101.0);
        flow.enqueue(change("event-2"), 5).await.expect("it is valid");
        let attempt = flow.run_once(&client, "w", 60.0).await.expect("it runs").expect("due");
        assert_eq!(attempt.error_code.expect("an error").as_str(), "cms.event.invalid");
    });
}

#[test]
fn a6_an_answer_for_another_event_fails_the_record_and_an_altered_claim_is_no_claim() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        flow.enqueue(change("event-1"), 5).await.expect("it is valid");
        let client = Scripted::new([Ok(accepted("event-9", 2))]);
        let attempt = flow.run_once(&client, "w", 60.0).await.expect("it runs").expect("due");
        assert_eq!(attempt.error_code.expect("an error").as_str(), "dispatch.response_invalid");
        flow.enqueue(change("event-2"), 5).await.expect("it is valid");
        let claim = flow.claim("w", 60.0).await.expect("a claim").expect("due");
        let mut parts = claim.to_parts();
        let whole = Claim::<Dispatch>::from_parts(&parts).expect("nothing was altered");
        parts.payload.push(' ');
        assert_eq!(code(Claim::<Dispatch>::from_parts(&parts)), "dispatch.claim_invalid");
        assert!(flow.complete(&whole, accepted("event-2", 2)).await.is_ok());
    });
}

/// An older record whose payload is gone, and a younger sound one.
async fn one_damaged_of_two(disk: &MemoryDisk, clock: &ManualClock) {
    let engine = engine(disk, clock).await;
    let long = "Kaffee. ".repeat(4_000);
    engine.dispatch().enqueue(change_with("event-1", &long), 5).await.expect("it is valid");
    clock.set(101.0);
    engine.dispatch().enqueue(change("event-2"), 5).await.expect("it is valid");
    engine.close().await;
    disk.lose_chunks();
}

#[test]
fn a7_a16_d8_a_damaged_record_is_quarantined_and_the_next_goes_on() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        one_damaged_of_two(&disk, &clock).await;
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        let health = flow.health().await.expect("a time");
        assert_eq!(
            (health.status, health.quarantined, health.counts["pending"]),
            ("blocked", 1, 1)
        );
        assert_eq!(code(flow.status("event-1").await), "dispatch.state_invalid");
        let client = Scripted::new([Ok(accepted("event-2", 2))]);
        let attempt = flow.run_once(&client, "w", 60.0).await.expect("it runs").expect("due");
        assert_eq!((attempt.event_id.as_str(), attempt.status), ("event-2", "succeeded"));
        assert_eq!(flow.run_once(&client, "w", 60.0).await.expect("it runs"), None);
        assert_eq!(client.calls().len(), 1, "the damaged one was never sent");
    });
}

#[test]
fn d8_damage_that_shows_while_the_engine_runs_quarantines_that_record_alone() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        let long = "Kaffee. ".repeat(4_000);
        flow.enqueue(change_with("event-1", &long), 5).await.expect("it is valid");
        clock.set(101.0);
        flow.enqueue(change("event-2"), 5).await.expect("it is valid");
        disk.lose_chunks();
        let claim = flow.claim("w", 60.0).await.expect("a claim").expect("the younger one");
        assert_eq!(claim.view().event_id.as_str(), "event-2");
        let health = flow.health().await.expect("a time");
        assert_eq!(
            (health.quarantined, health.counts["pending"], health.counts["leased"]),
            (1, 0, 1)
        );
    });
}

#[test]
fn a8_two_workers_at_one_instant_get_one_claim() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        engine.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
        let claims = (0..8).map(|number| {
            let flow = engine.dispatch().clone();
            tokio::spawn(async move { flow.claim(&format!("w{number}"), 60.0).await })
        });
        let mut granted = 0;
        for claim in claims.collect::<Vec<_>>() {
            granted += usize::from(claim.await.expect("no panic").expect("a claim").is_some());
        }
        assert_eq!(granted, 1);
    });
}

#[test]
fn a9_a_record_of_a_newer_version_is_refused_and_nothing_is_written() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let options = LogOptions { new_id: JournalId([1; 16]), create: true };
        let mut log = Log::open(disk.medium(), options, &mut |_| Ok(())).expect("a new one");
        let body = vec![FlowTag::Dispatch as u8, codec::VERSION + 1, 0];
        let stream = stream_of(FlowTag::Dispatch, "event-1");
        log.commit(&[Append { stream, expected_version: 0, bodies: vec![body], alone: None }])
            .expect("a commit");
        drop(log);
        let syncs = disk.syncs();
        let refused = leasehold::Engine::in_memory(&disk).clock(clock.clone()).open().await;
        let version = u16::from(codec::VERSION) + 1;
        let newer = leasehold::Error::Journal(JournalError::Newer { version });
        assert_eq!(refused.err(), Some(newer));
        assert_eq!(disk.syncs(), syncs);
    });
}

#[test]
fn a10_delays_double_up_to_the_limit_and_a_failed_record_stays_failed() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        flow.enqueue(change("event-1"), 5).await.expect("it is valid");
        let client = Scripted::new(std::iter::repeat_n(Err(marked("network", true)), 5));
        let mut now = 100.0;
        for delay in [5.0, 10.0, 20.0, 20.0] {
            let attempt = flow.run_once(&client, "w", 60.0).await.expect("it runs").expect("due");
            assert_eq!((attempt.status, attempt.next_attempt_at), ("retry_wait", now + delay));
            now += delay;
            clock.set(now);
        }
        let attempt = flow.run_once(&client, "w", 60.0).await.expect("it runs").expect("due");
        assert_eq!((attempt.status, attempt.next_attempt_at), ("failed", now));
        let again = flow.enqueue(change("event-1"), 5).await.expect("it is known");
        assert_eq!(again.status.status, "failed");
    });
}

#[test]
fn a11_an_expired_lease_shows_until_the_next_claim_settles_it() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        flow.enqueue(change("event-1"), 2).await.expect("it is valid");
        flow.claim("w1", 10.0).await.expect("a claim").expect("due");
        clock.set(110.0);
        let health = flow.health().await.expect("a time");
        assert_eq!((health.status, health.expired_leases), ("blocked", 1));
        assert!(flow.status("event-1").await.expect("it is there").lease_expired);
        let second = flow.claim("w2", 10.0).await.expect("a claim").expect("at once");
        assert_eq!(second.view().attempt, 2);
        clock.set(120.0);
        let late = flow.complete(&second, accepted("event-1", 2)).await;
        assert_eq!(code(late), "dispatch.lease_expired");
        clock.set(109.0);
        let early = flow.complete(&second, accepted("event-1", 2)).await;
        assert_eq!(code(early), "dispatch.clock_regressed");
        clock.set(120.0);
        assert!(flow.claim("w3", 10.0).await.expect("a claim").is_none());
        let status = flow.status("event-1").await.expect("it is there");
        assert_eq!(status.status, "failed");
        assert_eq!(status.last_error_code.expect("an error").as_str(), "lease_expired");
        assert_eq!(status.next_attempt_at, 110.0, "unchanged by the last expiry");
    });
}

#[test]
fn a13_a_lease_has_to_outlast_the_clients_longest_call() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        flow.enqueue(change("event-1"), 5).await.expect("it is valid");
        let client = Scripted::new([Ok(accepted("event-1", 2))]).with_timeout(30.0);
        let short = flow.run_once(&client, "w", 30.0).await;
        assert_eq!(code(short), "dispatch.lease_too_short");
        assert_eq!(flow.status("event-1").await.expect("it is there").attempts, 0);
        assert!(flow.run_once(&client, "w", 31.0).await.expect("it runs").is_some());
    });
}

#[test]
fn a14_failures_nobody_vouches_for_are_final() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        let cases: [(Result<String, CallFailure>, &str); 3] = [
            (Err(CallFailure::Unmarked), "dispatch.client_failure"),
            (Err(marked("Bad Code", true)), "dispatch.client_failure"),
            (Err(marked("some.code", false)), "some.code"),
        ];
        for (number, (answer, expected)) in cases.into_iter().enumerate() {
            flow.enqueue(change(&format!("event-{number}")), 5).await.expect("it is valid");
            let client = Scripted::new([answer]);
            let attempt = flow.run_once(&client, "w", 60.0).await.expect("it runs").expect("due");
            assert_eq!(attempt.status, "failed");
            assert_eq!(attempt.error_code.expect("an error").as_str(), expected);
        }
    });
}

#[test]
fn a15_a_run_that_was_overtaken_says_so() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(1.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        flow.enqueue(change("event-1"), 5).await.expect("it is valid");
        let first = flow.claim("w1", 60.0).await.expect("a claim").expect("due");
        clock.set(3_601.0);
        flow.claim("w2", 60.0).await.expect("a claim").expect("expired");
        let lost = flow.complete(&first, accepted("event-1", 2)).await;
        assert_eq!(code(lost), "dispatch.claim_lost");
    });
}
