//! Scenarios D1 to D17 of the source delivery outbox, read with our deviations D3, D5, D8, D9, D10,
//! D14 and D15. Scenario ids are `scenario_d..` here; a bare `d..` is a deviation's id.

mod d10_to_d17;

use crate::support::{change, change_with, code, marked, run};
use leasehold::{
    CallFailure, Client, Delays, Delivery, DeliveryAttempt, DeliveryRequest, Engine, FlowDelays,
    Handle, ManualClock, MemoryDisk, SourceRuntime,
};
use leasehold_actors::contract::payload::Payload;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Mutex;

/// A digest of one letter.
fn digest(letter: &str) -> String {
    letter.repeat(64)
}

/// An engine with the scenarios' delays and this source digest; calls take up to 30 seconds.
async fn open(disk: &MemoryDisk, clock: &ManualClock, letter: &str) -> Engine {
    let delivery = Delays { base_delay_seconds: 5.0, max_delay_seconds: 20.0, ..Delays::default() };
    let source = SourceRuntime { capabilities_sha256: digest(letter), longest_call_seconds: 30.0 };
    Engine::in_memory(disk)
        .clock(clock.clone())
        .delays(FlowDelays { delivery, ..FlowDelays::default() })
        .source_runtime(source)
        .end_leases_on_open(false)
        .open()
        .await
        .expect("the engine opens")
}

/// A `cancellation` or a `tombstone` of the change with this event id.
fn removal(kind: &str, id: &str, event_id: &str) -> String {
    let mut removal = json!({
        "schema": format!("blun.cms-content-{kind}.v1"),
        "event_id": event_id,
        "site_id": "site-1",
        "website_version": "web-1",
        "source_id": "landing.intro",
        "source_sequence": 1,
    });
    removal[format!("{kind}_id")] = json!(id);
    removal.to_string()
}

/// The source runtime's valid answer to a request, under the digest of this letter.
fn answer(request: &DeliveryRequest, letter: &str) -> Value {
    json!({
        "schema": request.operation.response_schema(),
        "operation": request.operation.name(),
        "request_id": request.request_id.as_str(),
        "event_id": request.event_id.as_str(),
        "payload_sha256": request.document.sha256().to_string(),
        "status": "pending",
        "attempts": 0,
        "max_attempts": request.max_attempts,
        "capabilities_sha256": digest(letter),
    })
}

/// What a call ends in: the valid answer, with one member replaced or none, or a failure.
type End = Result<Option<(&'static str, Value)>, CallFailure>;

/// A source runtime that answers from a script, accepts when that is over, and remembers.
struct Source {
    letter: &'static str,
    script: Mutex<VecDeque<End>>,
    seen: Mutex<Vec<DeliveryRequest>>,
    /// What the clock says after a call.
    moves: Option<(ManualClock, f64)>,
}

impl Source {
    fn new(script: impl IntoIterator<Item = End>) -> Self {
        Self {
            letter: "a",
            script: Mutex::new(script.into_iter().collect()),
            seen: Mutex::default(),
            moves: None,
        }
    }

    fn calls(&self) -> Vec<DeliveryRequest> {
        self.seen.lock().expect("not poisoned").clone()
    }
}

impl Client<Delivery> for Source {
    fn longest_call_seconds(&self) -> Option<f64> {
        Some(30.0)
    }

    async fn call(&self, request: DeliveryRequest) -> Result<Vec<u8>, CallFailure> {
        self.seen.lock().expect("not poisoned").push(request.clone());
        if let Some((clock, until)) = &self.moves {
            clock.set(*until);
        }
        let end = self.script.lock().expect("not poisoned").pop_front().unwrap_or(Ok(None));
        let mut answer = answer(&request, self.letter);
        if let Some((member, value)) = end? {
            answer[member] = value;
        }
        Ok(answer.to_string().into_bytes())
    }
}

/// One attempt at a record that is due.
async fn attempt(flow: &Handle<Delivery>, source: &Source) -> DeliveryAttempt {
    flow.run_once(source, "w", 60.0).await.expect("it runs").expect("a record is due")
}

/// Whether nothing is due.
async fn idle(flow: &Handle<Delivery>, source: &Source) -> bool {
    flow.run_once(source, "w", 60.0).await.expect("it runs").is_none()
}

/// How an attempt left its record.
fn left(attempt: &DeliveryAttempt) -> (&'static str, u32, Option<&str>) {
    (attempt.status, attempt.attempt, attempt.error_code.as_ref().map(|code| code.as_str()))
}

#[test]
fn scenario_d1_a_change_is_persisted_first_and_then_delivered_with_the_source_ceiling() {
    run(async {
        let engine = open(&MemoryDisk::new(), &ManualClock::at(100.0), "a").await;
        let flow = engine.delivery();
        let known = flow.enqueue_change(change("event-1"), 4, 3).await.expect("it is valid");
        assert!(!known.already_known);
        assert_eq!((known.status.status, known.status.attempts), ("pending", 0));
        assert_eq!(known.status.response_sha256, None);
        let source = Source::new([]);
        assert_eq!(left(&attempt(flow, &source).await), ("succeeded", 1, None));
        let calls = source.calls();
        assert_eq!((calls.len(), calls[0].max_attempts), (1, 4));
        let payload = |text: &[u8]| Payload::parse(text, 1 << 20).expect("it is JSON").1;
        assert_eq!(calls[0].document, payload(change("event-1").as_bytes()));
        let status = flow.status("change", "event-1").await.expect("it is there");
        let answered = payload(answer(&calls[0], "a").to_string().as_bytes());
        assert_eq!(status.response_sha256, Some(answered.sha256()));
        assert_eq!((status.delivery_max_attempts, status.source_max_attempts), (3, 4));
        assert_eq!(status.next_attempt_at, 100.0, "a success leaves it unchanged");
        let health = flow.health().await.expect("a time");
        assert_eq!((health.status, &health.error_code), ("ok", &None));
        assert_eq!((health.counts["succeeded"], health.operations["change"]), (1, 1));
        assert!(!format!("{status:?} {health:?} {calls:?}").contains("Kaffee"));
    });
}

#[test]
fn scenario_d2_d5_a_removal_waits_for_its_own_change_and_all_others_go_first() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = open(&disk, &clock, "a").await;
        let flow = engine.delivery();
        flow.enqueue_change(change("event-1"), 5, 5).await.expect("it is valid");
        clock.set(101.0);
        for (kind, id, event_id) in [
            ("cancellation", "cancel-1", "event-1"),
            ("tombstone", "tomb-1", "event-1"),
            ("tombstone", "tomb-2", "event-2"),
        ] {
            let removal = removal(kind, id, event_id);
            flow.enqueue_removal(removal, 5, 5).await.expect("it is valid");
        }
        let health = flow.health().await.expect("a time");
        assert_eq!((health.status, health.due, health.held), ("ok", 2, 2));
        let source = Source::new([]);
        let mut order = Vec::new();
        for _ in 0..4 {
            order.push(attempt(flow, &source).await.request_id.as_str().to_owned());
        }
        assert_eq!(order, ["tomb-2", "event-1", "cancel-1", "tomb-1"]);
        assert!(idle(flow, &source).await);
        assert_eq!(flow.health().await.expect("a time").held, 0);
    });
}

#[test]
fn d5_a_removal_waits_while_its_change_is_leased_or_tried_again_and_goes_once_it_settled() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = open(&disk, &clock, "a").await;
        let flow = engine.delivery();
        let cancel = removal("cancellation", "cancel-1", "event-1");
        flow.enqueue_removal(cancel, 5, 5).await.expect("it is valid");
        assert_eq!(flow.health().await.expect("a time").due, 1, "no change of its own yet");
        flow.enqueue_change(change("event-1"), 5, 5).await.expect("it is valid");
        let source = Source::new([Err(marked("source_client.network", true))]);
        let first = attempt(flow, &source).await;
        assert_eq!((first.operation.name(), first.status), ("change", "retry_wait"));
        assert!(idle(flow, &source).await, "the change is tried again first");
        assert_eq!(flow.next_at().await.expect("a time"), Some(105.0));
        clock.set(105.0);
        let claim = flow.claim("w", 60.0).await.expect("a claim").expect("the change");
        assert_eq!(claim.view().operation.name(), "change");
        assert!(idle(flow, &source).await, "the change is leased");
        let accepted = answer(&claim.request(), "a").to_string();
        flow.complete(&claim, accepted).await.expect("it is live");
        let second = attempt(flow, &source).await;
        assert_eq!((second.operation.name(), second.status), ("cancellation", "succeeded"));
    });
}

#[test]
fn d5_a_removal_becomes_due_when_its_change_fails_or_its_last_lease_ends() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = open(&disk, &clock, "a").await;
        let flow = engine.delivery();
        for (event_id, cancel_id) in [("event-1", "cancel-1"), ("event-2", "cancel-2")] {
            flow.enqueue_change(change(event_id), 5, 1).await.expect("it is valid");
            let cancel = removal("cancellation", cancel_id, event_id);
            flow.enqueue_removal(cancel, 5, 5).await.expect("it is valid");
        }
        let source = Source::new([Err(marked("source_client.http_status", false))]);
        assert_eq!(attempt(flow, &source).await.status, "failed");
        let next = attempt(flow, &source).await;
        assert_eq!((next.request_id.as_str(), next.status), ("cancel-1", "succeeded"));
        flow.claim("w", 60.0).await.expect("a claim").expect("the second change");
        clock.set(159.0);
        assert!(idle(flow, &source).await, "its lease has not ended");
        clock.set(160.0);
        let next = attempt(flow, &source).await;
        assert_eq!((next.request_id.as_str(), next.status), ("cancel-2", "succeeded"));
        let lost = flow.status("change", "event-2").await.expect("it is there");
        let error = lost.last_error_code.expect("an error");
        assert_eq!((lost.status, error.as_str()), ("failed", "source_delivery.lease_expired"));
    });
}

#[test]
fn scenario_d3_enqueuing_again_gives_the_same_status_and_another_binding_collides() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = open(&disk, &clock, "a").await;
        let flow = engine.delivery();
        let first = flow.enqueue_change(change("event-1"), 4, 3).await.expect("it is valid");
        clock.set(101.0);
        let again = flow.enqueue_change(change("event-1"), 4, 3).await.expect("it is known");
        assert_eq!((first.status, true), (again.status, again.already_known));
        for (text, source, delivery) in
            [("Tee.", 4, 3), ("Frischer Kaffee für 3 €.", 5, 3), ("Frischer Kaffee für 3 €.", 4, 2)]
        {
            let other = change_with("event-1", text);
            let refused = flow.enqueue_change(other, source, delivery).await;
            assert_eq!(code(refused), "source_delivery.idempotency_collision");
        }
    });
}

#[test]
fn scenario_d4_a_failure_that_may_pass_is_tried_again_when_it_is_due() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = open(&disk, &clock, "a").await;
        let flow = engine.delivery();
        flow.enqueue_change(change("event-1"), 4, 3).await.expect("it is valid");
        let source = Source::new([Err(marked("source_client.network", true))]);
        let first = attempt(flow, &source).await;
        assert_eq!(left(&first), ("retry_wait", 1, Some("source_client.network")));
        assert_eq!(first.next_attempt_at, 105.0);
        assert!(idle(flow, &source).await);
        clock.set(105.0);
        assert_eq!(left(&attempt(flow, &source).await), ("succeeded", 2, None));
        assert_eq!(source.calls().len(), 2);
    });
}

#[test]
fn scenario_d5_a_permanent_failure_ends_a_record_and_blocks_health() {
    run(async {
        let engine = open(&MemoryDisk::new(), &ManualClock::at(100.0), "a").await;
        let flow = engine.delivery();
        flow.enqueue_change(change("event-1"), 4, 3).await.expect("it is valid");
        let source = Source::new([Err(marked("source_client.authentication", false))]);
        let failed = attempt(flow, &source).await;
        assert_eq!(left(&failed), ("failed", 1, Some("source_client.authentication")));
        let health = flow.health().await.expect("a time");
        assert_eq!((health.status, health.failed), ("blocked", 1));
        assert_eq!(health.error_code.expect("a reason").as_str(), "source_delivery.failed");
        assert!(idle(flow, &source).await);
    });
}

#[test]
fn scenario_d6_the_delivery_ceiling_ends_a_record() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = open(&disk, &clock, "a").await;
        let flow = engine.delivery();
        flow.enqueue_change(change("event-1"), 4, 2).await.expect("it is valid");
        let network = || Err(marked("source_client.network", true));
        let source = Source::new([network(), network()]);
        assert_eq!(attempt(flow, &source).await.status, "retry_wait");
        clock.set(105.0);
        let last = attempt(flow, &source).await;
        assert_eq!(left(&last), ("failed", 2, Some("source_client.network")));
        assert_eq!(last.next_attempt_at, 105.0);
    });
}

#[test]
fn scenario_d7_an_answer_that_does_not_agree_fails_the_record_after_one_call() {
    run(async {
        let engine = open(&MemoryDisk::new(), &ManualClock::at(100.0), "a").await;
        let flow = engine.delivery();
        let wrong = [
            ("event_id", json!("event-9")),
            ("request_id", json!("event-9")),
            ("operation", json!("cancellation")),
            ("payload_sha256", json!(digest("0"))),
            ("capabilities_sha256", json!(digest("b"))),
            ("status", json!("enqueued")),
            ("attempts", json!(5)),
            ("additional", json!(null)),
        ];
        for (number, edit) in wrong.into_iter().enumerate() {
            let event_id = format!("event-{number}");
            flow.enqueue_change(change(&event_id), 4, 3).await.expect("it is valid");
            let source = Source::new([Ok(Some(edit))]);
            let failed = attempt(flow, &source).await;
            assert_eq!(left(&failed), ("failed", 1, Some("source_delivery.response_invalid")));
            assert!(idle(flow, &source).await);
            assert_eq!(source.calls().len(), 1);
        }
        flow.enqueue_change(change("event-20"), 4, 3).await.expect("it is valid");
        let source = Source::new([Ok(Some(("status", json!("failed"))))]);
        assert_eq!(attempt(flow, &source).await.status, "succeeded", "its state is its own");
    });
}

#[test]
fn scenario_d8_a_crash_after_acceptance_delivers_the_same_request_again() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = open(&disk, &clock, "a").await;
        let flow = engine.delivery();
        flow.enqueue_change(change("event-1"), 4, 3).await.expect("it is valid");
        let first = flow.claim("w1", 60.0).await.expect("a claim").expect("due").request();
        clock.set(161.0);
        let source = Source::new([]);
        assert_eq!(left(&attempt(flow, &source).await), ("succeeded", 2, None));
        let second = &source.calls()[0];
        assert_eq!((&first.document, first.max_attempts), (&second.document, second.max_attempts));
        assert_eq!(
            (first.operation, first.request_id),
            (second.operation, second.request_id.clone())
        );
    });
}

#[test]
fn scenario_d9_a_claim_that_was_taken_over_or_ended_is_lost() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = open(&disk, &clock, "a").await;
        let flow = engine.delivery();
        flow.enqueue_change(change("event-1"), 4, 3).await.expect("it is valid");
        let first = flow.claim("w1", 60.0).await.expect("a claim").expect("due");
        let accepted = answer(&first.request(), "a").to_string();
        clock.set(161.0);
        let late = flow.complete(&first, &accepted).await;
        assert_eq!(code(late), "source_delivery.claim_lost", "its lease has ended");
        let second = flow.claim("w2", 60.0).await.expect("a claim").expect("expired");
        assert_eq!(second.view().attempt, 2);
        let late = flow.complete(&first, &accepted).await;
        assert_eq!(code(late), "source_delivery.claim_lost");
        let status = flow.complete(&second, &accepted).await.expect("it is live");
        assert_eq!(status.status, "succeeded");
    });
}
