//! Scenarios D10 to D17.

use super::*;

#[test]
fn scenario_d10_a_damaged_record_is_quarantined_and_never_sent_and_the_next_goes_on() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = open(&disk, &clock, "a").await;
        let long = change_with("event-1", &"Kaffee. ".repeat(4_000));
        engine.delivery().enqueue_change(long, 4, 3).await.expect("it is valid");
        clock.set(101.0);
        engine.delivery().enqueue_change(change("event-2"), 4, 3).await.expect("it is valid");
        engine.close().await;
        disk.lose_chunks();
        let engine = open(&disk, &clock, "a").await;
        let flow = engine.delivery();
        let health = flow.health().await.expect("a time");
        assert_eq!((health.status, health.quarantined, health.due), ("blocked", 1, 1));
        assert_eq!(health.error_code.expect("a reason").as_str(), "source_delivery.integrity");
        let source = Source::new([]);
        let next = attempt(flow, &source).await;
        assert_eq!((next.event_id.as_str(), next.status), ("event-2", "succeeded"));
        assert!(idle(flow, &source).await);
        assert_eq!(source.calls().len(), 1);
    });
}

#[test]
fn scenario_d11_d9_records_under_another_digest_are_held_and_the_others_go_on() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = open(&disk, &clock, "a").await;
        engine.delivery().enqueue_change(change("event-1"), 4, 3).await.expect("it is valid");
        engine.close().await;
        let engine = open(&disk, &clock, "b").await;
        let flow = engine.delivery();
        let health = flow.health().await.expect("a time");
        assert_eq!((health.status, health.contract_mismatches), ("blocked", 1));
        assert_eq!((health.due, health.held), (0, 1));
        let reason = health.error_code.expect("a reason");
        assert_eq!(reason.as_str(), "source_delivery.contract_changed");
        let other = Source { letter: "b", ..Source::new([]) };
        assert!(idle(flow, &other).await);
        assert_eq!(other.calls().len(), 0);
        let again = flow.enqueue_change(change("event-1"), 4, 3).await;
        assert_eq!(code(again), "source_delivery.idempotency_collision");
        flow.enqueue_change(change("event-2"), 4, 3).await.expect("it is valid");
        let next = attempt(flow, &other).await;
        assert_eq!((next.event_id.as_str(), next.status), ("event-2", "succeeded"));
        assert!(idle(flow, &other).await);
        let held = flow.status("change", "event-1").await.expect("it is there");
        assert_eq!((held.status, held.attempts), ("pending", 0));
        engine.close().await;
        let engine = open(&disk, &clock, "a").await;
        let flow = engine.delivery();
        let next = attempt(flow, &Source::new([])).await;
        assert_eq!((next.event_id.as_str(), next.status), ("event-1", "succeeded"));
        let health = flow.health().await.expect("a time");
        assert_eq!((health.status, health.contract_mismatches), ("ok", 0));
    });
}

#[test]
fn scenario_d12_a_lease_has_to_outlast_the_longest_call() {
    run(async {
        let engine = open(&MemoryDisk::new(), &ManualClock::at(100.0), "a").await;
        let flow = engine.delivery();
        let known = flow.enqueue_change(change("event-1"), 4, 3).await.expect("it is valid");
        let source = Source::new([]);
        let short = flow.run_once(&source, "w", 30.0).await;
        assert_eq!(code(short), "source_delivery.lease_too_short");
        let short = flow.claim("w", 30.0).await;
        assert_eq!(code(short), "source_delivery.lease_too_short");
        assert_eq!(flow.status("change", "event-1").await.expect("it is there"), known.status);
        assert_eq!(source.calls().len(), 0);
        let run = flow.run_once(&source, "w", 31.0).await.expect("it runs").expect("due");
        assert_eq!(run.status, "succeeded");
    });
}

#[test]
fn scenario_d13_a_settlement_before_the_claim_is_refused_and_nothing_is_damaged_by_it() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = open(&disk, &clock, "a").await;
        let flow = engine.delivery();
        flow.enqueue_change(change("event-1"), 4, 3).await.expect("it is valid");
        flow.enqueue_change(change("event-2"), 4, 3).await.expect("it is valid");
        let claim = flow.claim("w", 60.0).await.expect("a claim").expect("due");
        let accepted = answer(&claim.request(), "a").to_string();
        clock.set(99.0);
        let early = flow.complete(&claim, &accepted).await;
        assert_eq!(code(early), "source_delivery.clock_regressed");
        assert_eq!(flow.health().await.expect("a time").status, "ok");
        clock.set(100.0);
        let next = attempt(flow, &Source::new([])).await;
        assert_eq!((next.event_id.as_str(), next.status), ("event-2", "succeeded"));
        let status = flow.complete(&claim, &accepted).await.expect("the claim stayed good");
        assert_eq!(status.status, "succeeded");
    });
}

#[test]
fn scenario_d14_an_answer_after_the_lease_has_ended_is_not_recorded() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = open(&disk, &clock, "a").await;
        let flow = engine.delivery();
        flow.enqueue_change(change("event-1"), 4, 3).await.expect("it is valid");
        let slow = Source { moves: Some((clock.clone(), 1e9)), ..Source::new([]) };
        let late = flow.run_once(&slow, "w", 60.0).await;
        assert_eq!(code(late), "source_delivery.claim_lost");
        let status = flow.status("change", "event-1").await.expect("it is there");
        assert_eq!((status.status, status.lease_expired), ("leased", true));
        let quick = Source { moves: Some((clock.clone(), 1e9 + 59.0)), ..Source::new([]) };
        assert_eq!(left(&attempt(flow, &quick).await), ("succeeded", 2, None));
    });
}

#[test]
fn scenario_d15_d15_each_door_takes_only_its_own_documents() {
    run(async {
        let engine = open(&MemoryDisk::new(), &ManualClock::at(100.0), "a").await;
        let flow = engine.delivery();
        let cancel = removal("cancellation", "cancel-1", "event-9");
        let tombstone = removal("tombstone", "tomb-1", "event-9");
        for refused in [
            flow.enqueue_change(&cancel, 4, 3).await,
            flow.enqueue_change(&tombstone, 4, 3).await,
            flow.enqueue_removal(change("event-1"), 4, 3).await,
        ] {
            assert_eq!(code(refused), "source_delivery.request_invalid");
        }
        let missing = flow.status("change", "event-1").await;
        assert_eq!(code(missing), "source_delivery.status_not_found", "nothing was written");
        flow.enqueue_change(change("event-1"), 4, 3).await.expect("its own door");
        flow.enqueue_removal(&cancel, 4, 3).await.expect("its own door");
        flow.enqueue_removal(&tombstone, 4, 3).await.expect("its own door");
        let counted = flow.health().await.expect("a time").operations;
        assert!(counted.into_values().all(|count| count == 1));
    });
}

/// How a change ends whose answer has this member replaced; the source ceiling is `ceiling`.
async fn ends(ceiling: i64, member: &'static str, value: Value) -> Option<String> {
    let engine = open(&MemoryDisk::new(), &ManualClock::at(100.0), "a").await;
    let flow = engine.delivery();
    flow.enqueue_change(change("event-1"), ceiling, 3).await.expect("it is valid");
    let source = Source::new([Ok(Some((member, value)))]);
    let ended = attempt(flow, &source).await;
    assert_eq!(ended.error_code.is_some(), ended.status == "failed");
    ended.error_code.map(|code| code.as_str().to_owned())
}

#[test]
fn scenario_d16_d14_counts_in_an_answer_are_compared_by_type_and_value() {
    run(async {
        let invalid = Some("source_delivery.response_invalid");
        let cases = [
            (5, "max_attempts", json!(5), None),
            (5, "max_attempts", json!(5.0), invalid),
            (1, "max_attempts", json!(1), None),
            (1, "max_attempts", json!(true), invalid),
            (5, "max_attempts", json!(4), invalid),
            (5, "max_attempts", json!("5"), invalid),
            (5, "attempts", json!(1), None),
            (5, "attempts", json!(5), None),
            (5, "attempts", json!(1.0), invalid),
            (5, "attempts", json!(true), invalid),
            (5, "attempts", json!(6), invalid),
            (5, "attempts", json!(-1), invalid),
        ];
        for (ceiling, member, value, expected) in cases {
            let place = format!("{member} {value} of {ceiling}");
            let ended = ends(ceiling, member, value).await;
            assert_eq!(ended.as_deref(), expected, "{place}");
        }
    });
}

#[test]
fn scenario_d17_failures_nobody_vouches_for_are_final() {
    run(async {
        let engine = open(&MemoryDisk::new(), &ManualClock::at(100.0), "a").await;
        let flow = engine.delivery();
        let cases = [
            (CallFailure::Unmarked, "failed", "source_delivery.client_failure"),
            (marked("Bad Code", true), "failed", "source_delivery.client_failure"),
            (marked("some.code", true), "retry_wait", "some.code"),
        ];
        for (number, (failure, status, expected)) in cases.into_iter().enumerate() {
            let event = change(&format!("event-{number}"));
            flow.enqueue_change(event, 4, 3).await.expect("it is valid");
            let ended = attempt(flow, &Source::new([Err(failure)])).await;
            assert_eq!(left(&ended), (status, 1, Some(expected)));
        }
    });
}
