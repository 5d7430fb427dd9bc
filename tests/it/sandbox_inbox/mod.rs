//! The sandbox's receiver as an inbox (scenarios J, contract 4.6): by itself, over HTTP, and watched by
//! the flow `processing`.
//!
//! Over HTTP its one worker goes on as a status is read: each read is answered first.

mod j6_to_j9;

use crate::notification_client::{altered, notification};
use crate::receiver_client::client;
use crate::source_client::{Witness, read, token};
use crate::support::run;
use leasehold::http::ReceiverClient;
use leasehold::sandbox::faults::{Rate, Rates};
use leasehold::sandbox::handler::{Handling, Outcome, acknowledgement};
use leasehold::sandbox::inbox::Rules;
use leasehold::sandbox::processing::{Phase, Processing, Refused, Step};
use leasehold::sandbox::{Sandbox, SandboxOptions};
use leasehold::{Delays, ManualClock};
use leasehold_actors::contract::notification::Notification;
use leasehold_actors::contract::payload::Payload;
use leasehold_actors::contract::text::ErrorCode;
use leasehold_actors::contract::time::{Ceiling, Duration, Timestamp};
use leasehold_actors::record::policy::Policy;
use serde_json::{Value, json};
use std::path::Path;

const EVENT: &str = "evt-2031-0007";
const UNAVAILABLE: &str = "cms_backend.unavailable";
const LEASE_EXPIRED: &str = "notification_receiver.processing_lease_expired";

/// So many attempts, a lease of 5 s, back-off from 2 s, and a handler that does nothing but this.
fn options(max_attempts: i64, handler: &str) -> SandboxOptions {
    let rate: Rate<Handling> = format!("{handler}=1").parse().expect("a rate");
    let handler = Rates::new(&[rate]).expect("not over 1");
    SandboxOptions { handler, ..sound(max_attempts) }
}

/// The same with a handler that acts on everything.
fn sound(max_attempts: i64) -> SandboxOptions {
    let delays = Delays { base_delay_seconds: 2.0, ..Delays::default() };
    let inbox = Rules {
        max_attempts: Ceiling::new(max_attempts).expect("within the limits"),
        lease: Duration::new(5.0).expect("within the limits"),
        back_off: Policy::new(delays).expect("within the limits"),
    };
    SandboxOptions { inbox, ..SandboxOptions::default() }
}

/// A running receiver, and who calls it.
struct Receiver {
    sandbox: Sandbox,
    client: ReceiverClient,
}

impl Receiver {
    async fn start(options: SandboxOptions, clock: &ManualClock) -> Self {
        let sandbox = Sandbox::start_at(options, clock.clone()).await.expect("it starts");
        let client = client(&sandbox.origin(), Witness::default());
        Self { sandbox, client }
    }

    async fn notify(&self, notification: &Payload) {
        self.client.notify(notification).await.expect("it is acknowledged");
    }

    async fn status(&self, event_id: &str) -> Value {
        let answer = self.client.status(&token(event_id), &token("shop-north")).await;
        serde_json::from_slice(&answer.expect("an answer")).expect("JSON")
    }

    /// Status, attempts, next attempt and error of the example.
    async fn told(&self) -> (String, u64, f64, String) {
        let status = self.status(EVENT).await;
        let text = |key: &str| status[key].as_str().unwrap_or_default().to_owned();
        let attempts = status["attempts"].as_u64().expect("a count");
        let next_at = status["next_attempt_at"].as_f64().expect("a time");
        (text("processing_status"), attempts, next_at, text("last_error_code"))
    }

    async fn health(&self) -> Value {
        read(&self.client.health().await.expect("an answer"))
    }
}

fn told(status: &str, attempts: u64, next_at: f64, code: &str) -> (String, u64, f64, String) {
    (status.to_owned(), attempts, next_at, code.to_owned())
}

/// The same in this file, which is there already or not yet.
fn kept(options: SandboxOptions, path: &Path) -> SandboxOptions {
    SandboxOptions { state: Some(path.to_owned()), ..options }
}

fn time(seconds: f64) -> Timestamp {
    Timestamp::new(seconds).expect("a time")
}

/// The work on one notification by itself, with two attempts, a lease of 5 s and back-off from 2 s.
struct Alone {
    notification: Notification,
    rules: Rules,
    work: Processing,
}

impl Alone {
    fn received(at: f64) -> Self {
        let rules = sound(2).inbox;
        let notification = Notification::parse(notification().as_bytes()).expect("it is one");
        Self { notification, rules, work: Processing::received(time(at), rules.max_attempts) }
    }

    fn happens(&mut self, step: Option<Step>) -> bool {
        let Some(step) = step else { return false };
        self.work = self.work.after(&step).expect("what was decided can happen");
        true
    }

    /// A worker ends what is over and takes up what is due.
    fn claims(&mut self, at: f64) -> bool {
        self.happens(self.work.expire(time(at)));
        self.happens(self.work.claim(time(at), self.rules.lease, || Handling::Stuck))
    }

    fn ends(&mut self, attempt: u32, outcome: &Outcome, at: f64) -> Result<(), Refused> {
        let expected = acknowledgement(&self.notification);
        let step = self.work.settle(attempt, outcome, &expected, time(at), &self.rules.back_off)?;
        self.happens(Some(step));
        Ok(())
    }
}

#[test]
fn scenario_j1_receipt_and_work_begin_together() {
    run(async {
        let receiver = Receiver::start(sound(2), &ManualClock::at(100.0)).await;
        receiver.notify(&notification()).await;
        let health = receiver.health().await;
        assert_eq!((&health["status"], &health["error_code"]), (&json!("ok"), &json!(null)));
        assert_eq!((&health["received"], &health["processing_due"]), (&json!(1), &json!(1)));
        let status = receiver.status(EVENT).await;
        assert_eq!((&status["attempts"], &status["max_attempts"]), (&json!(0), &json!(2)));
        assert_eq!(status["processing_status"], "pending");
        assert_eq!(status["next_attempt_at"], json!(100.0));
        receiver.sandbox.stop().await;
    });
}

#[test]
fn scenario_j2_what_is_done_stays_done_and_its_ceiling_is_the_one_of_its_receipt() {
    run(async {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, clock) = (folder.path().join("state"), ManualClock::at(100.0));
        let receiver = Receiver::start(kept(sound(2), &path), &clock).await;
        receiver.notify(&notification()).await;
        for expected in ["pending", "leased", "succeeded"] {
            assert_eq!(receiver.told().await.0, expected);
        }
        receiver.sandbox.stop().await;
        clock.set(200.0);
        let receiver = Receiver::start(kept(sound(7), &path), &clock).await;
        let status = receiver.status(EVENT).await;
        assert_eq!((&status["attempts"], &status["max_attempts"]), (&json!(1), &json!(2)));
        assert_eq!(status["processing_status"], "succeeded");
        assert_eq!(status["processed_at"], json!(100.0));
        receiver.notify(&altered("event_id", json!("event-2"))).await;
        assert_eq!(receiver.status("event-2").await["max_attempts"], json!(7));
        receiver.sandbox.stop().await;
    });
}

#[test]
fn scenario_j3_a_failure_that_may_pass_waits_and_is_final_at_the_ceiling() {
    let mut alone = Alone::received(100.0);
    let failure = Outcome::Failure { code: ErrorCode::known(UNAVAILABLE), retryable: true };
    assert!(alone.claims(100.0));
    assert_eq!(alone.ends(1, &failure, 100.0), Ok(()));
    assert_eq!(alone.work.next_at(), time(102.0));
    assert!(!alone.claims(101.0));
    assert!(alone.claims(102.0));
    assert_eq!(alone.ends(2, &failure, 102.0), Ok(()));
    let code = ErrorCode::known(UNAVAILABLE);
    assert_eq!((alone.work.phase(), alone.work.attempts()), (&Phase::Failed { code }, 2));
    assert!(!alone.claims(1_000.0));
}

#[test]
fn scenario_j3_over_http_a_failed_notification_blocks_health_but_not_readiness() {
    run(async {
        let clock = ManualClock::at(100.0);
        let receiver = Receiver::start(options(2, "retry"), &clock).await;
        receiver.notify(&notification()).await;
        let waits = || told("retry_wait", 1, 102.0, UNAVAILABLE);
        assert_eq!(receiver.told().await, told("pending", 0, 100.0, ""));
        assert_eq!(receiver.told().await, told("leased", 1, 100.0, ""));
        assert_eq!(receiver.told().await, waits());
        clock.set(101.0);
        assert_eq!(receiver.told().await, waits());
        let health = receiver.health().await;
        assert_eq!((&health["status"], &health["processing_due"]), (&json!("ok"), &json!(0)));
        assert_eq!(health["processing_counts"]["retry_wait"], json!(1));
        clock.set(102.0);
        assert_eq!(receiver.told().await, waits());
        assert_eq!(receiver.told().await, told("leased", 2, 102.0, ""));
        assert_eq!(receiver.told().await, told("failed", 2, 102.0, UNAVAILABLE));
        let health = receiver.health().await;
        assert_eq!((&health["status"], &health["failed"]), (&json!("blocked"), &json!(1)));
        assert_eq!(health["error_code"], "notification_receiver.processing_failed");
        let ready = read(&receiver.client.readiness().await.expect("an answer"));
        assert_eq!(ready["status"], "ready");
        assert_eq!(ready["inbox_status"], "blocked");
        receiver.notify(&altered("event_id", json!("event-2"))).await;
        receiver.sandbox.stop().await;
    });
}

#[test]
fn scenario_j4_an_expired_lease_is_taken_up_again_and_the_late_one_has_lost_its_claim() {
    let mut alone = Alone::received(100.0);
    let exact = Outcome::Answer(acknowledgement(&alone.notification));
    assert!(alone.claims(100.0));
    assert!(!alone.claims(104.0));
    assert_eq!(alone.ends(1, &exact, 105.0), Err(Refused::LeaseExpired));
    assert!(alone.claims(105.0));
    assert_eq!(alone.work.attempts(), 2);
    assert_eq!(alone.ends(1, &exact, 106.0), Err(Refused::ClaimLost));
    assert_eq!(Refused::ClaimLost.to_string(), "notification_receiver.processing_claim_lost");
    assert_eq!(alone.ends(2, &exact, 106.0), Ok(()));
    assert_eq!(alone.work.phase(), &Phase::Succeeded { processed_at: time(106.0) });
    assert_eq!(alone.ends(2, &exact, 106.0), Err(Refused::ClaimLost));
}

#[test]
fn scenario_j4_a_restart_keeps_the_lease_and_the_ceiling() {
    run(async {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, clock) = (folder.path().join("state"), ManualClock::at(100.0));
        let receiver = Receiver::start(kept(options(2, "stuck"), &path), &clock).await;
        receiver.notify(&notification()).await;
        assert_eq!(receiver.told().await.0, "pending");
        receiver.sandbox.stop().await;
        clock.set(104.0);
        let receiver = Receiver::start(kept(options(7, "stuck"), &path), &clock).await;
        assert_eq!(receiver.told().await, told("leased", 1, 100.0, ""));
        clock.set(105.0);
        let health = receiver.health().await;
        assert_eq!((&health["status"], &health["expired_leases"]), (&json!("blocked"), &json!(1)));
        assert_eq!(health["error_code"], LEASE_EXPIRED);
        let over = receiver.status(EVENT).await;
        assert_eq!((&over["attempts"], &over["lease_expired"]), (&json!(1), &json!(true)));
        let again = receiver.status(EVENT).await;
        assert_eq!((&again["attempts"], &again["lease_expired"]), (&json!(2), &json!(false)));
        assert_eq!(again["lease_expires_at"], json!(110.0));
        assert_eq!(receiver.health().await["status"], "ok");
        clock.set(110.0);
        assert_eq!(receiver.told().await, told("leased", 2, 105.0, ""));
        assert_eq!(receiver.told().await, told("failed", 2, 110.0, LEASE_EXPIRED));
        receiver.sandbox.stop().await;
    });
}

/// What happened to each event according to the file, in its order.
fn happened(path: &Path, event_id: &str) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("text");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let work = lines.filter(|line| line["kind"] == "work" && line["event_id"] == event_id);
    work.map(|line| line["step"]["did"].as_str().expect("a step").to_owned()).collect()
}

#[test]
fn scenario_j5_twelve_readers_at_once_lease_four_notifications_once_each() {
    let threads = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    threads.expect("a runtime").block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, clock) = (folder.path().join("state"), ManualClock::at(100.0));
        let receiver = Receiver::start(kept(options(5, "stuck"), &path), &clock).await;
        let events = ["event-0", "event-1", "event-2", "event-3"];
        for event_id in events {
            receiver.notify(&altered("event_id", json!(event_id))).await;
        }
        let mut expected = vec!["claimed"];
        for now in [100.0, 105.0, 110.0] {
            clock.set(now);
            let readers = (0..12).map(|number| {
                let client = receiver.client.clone();
                let event_id = token(events[number % 4]);
                tokio::spawn(async move { client.status(&event_id, &token("shop-north")).await })
            });
            for read in futures_util::future::join_all(readers).await {
                assert!(read.expect("no panic").is_ok());
            }
            for event_id in events {
                assert_eq!(happened(&path, event_id), expected, "{event_id} at {now}");
            }
            expected.extend(["expired", "claimed"]);
        }
        let health = receiver.health().await;
        assert_eq!(health["processing_counts"]["leased"], json!(4));
        assert_eq!((&health["processing_due"], &health["expired_leases"]), (&json!(0), &json!(0)));
        receiver.sandbox.stop().await;
    });
}
