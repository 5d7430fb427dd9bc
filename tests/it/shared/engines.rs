//! What engines on one journal do with each other.

use super::Place;
use crate::support::{accepted, change, code, notification, run, sha256};
use leasehold::{Engine, ManualClock, Scope};
use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

const DIGEST: &str = "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc";

async fn engine(place: &impl Place, clock: &ManualClock) -> Engine {
    let builder = place.engine().clock(clock.clone()).receiver_digest(DIGEST);
    builder.open().await.expect("the engine opens")
}

/// Looks again until it is so: engines look at each other's records a few times a second.
pub(super) async fn eventually<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    for _ in 0..600 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

/// Both engines count what this says.
async fn both_count(engines: [&Engine; 2], state: &str, count: u64) {
    for engine in engines {
        eventually(state, || async {
            let health = engine.dispatch().health().await.expect("a health");
            health.counts[state] == count
        })
        .await;
    }
}

pub(super) fn one_registers_another_delivers(place: &impl Place) {
    run(async {
        let clock = ManualClock::at(100.0);
        let (first, second) = (engine(place, &clock).await, engine(place, &clock).await);
        first.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
        both_count([&first, &second], "pending", 1).await;
        let claim = second.dispatch().claim("b", 60.0).await.expect("a claim").expect("it is due");
        // At once, although the first engine may not have looked yet.
        assert!(first.dispatch().claim("a", 60.0).await.expect("a claim").is_none());
        both_count([&first, &second], "leased", 1).await;
        second.dispatch().complete(&claim, accepted("event-1", 2)).await.expect("it settles");
        both_count([&first, &second], "succeeded", 1).await;
        let known = first.dispatch().status("event-1").await.expect("a status");
        assert_eq!((known.status, known.attempts), ("succeeded", 1));
        // Registered again there: it is known.
        let again = first.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
        assert!(again.already_known);
        assert_eq!(first.head().sequence, 3);
        second.close().await;
        first.close().await;
    });
}

pub(super) fn each_record_is_claimed_once(place: &impl Place) {
    run(async {
        let clock = ManualClock::at(100.0);
        let (first, second) = (engine(place, &clock).await, engine(place, &clock).await);
        for number in 0..60 {
            let name = format!("event-{number}");
            first.dispatch().enqueue(change(&name), 5).await.expect("it is valid");
        }
        both_count([&first, &second], "pending", 60).await;
        let drain = async |engine: &Engine, worker: &str| {
            let mut claimed = Vec::new();
            while let Some(claim) = engine.dispatch().claim(worker, 60.0).await.expect("a claim") {
                claimed.push(claim.request().event_id.as_str().to_owned());
            }
            claimed
        };
        let (one, other) = tokio::join!(drain(&first, "a"), drain(&second, "b"));
        let names: BTreeSet<_> = one.iter().chain(&other).cloned().collect();
        assert_eq!((names.len(), one.len() + other.len()), (60, 60));
        both_count([&first, &second], "leased", 60).await;
        first.close().await;
        second.close().await;
    });
}

pub(super) fn a_stale_holder_is_refused(place: &impl Place) {
    run(async {
        let clock = ManualClock::at(100.0);
        let (first, second) = (engine(place, &clock).await, engine(place, &clock).await);
        first.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
        let stale = first.dispatch().claim("a", 60.0).await.expect("a claim").expect("it is due");
        both_count([&first, &second], "leased", 1).await;
        assert!(second.dispatch().claim("b", 60.0).await.expect("a claim").is_none());
        clock.set(160.0);
        // The second engine ends it, and the first has not heard of that yet.
        let claim = second.dispatch().claim("b", 60.0).await.expect("a claim").expect("it is due");
        let late =
            || async { code(first.dispatch().complete(&stale, accepted("event-1", 2)).await) };
        // As far as the first engine knows, its lease is over; then, that another has it.
        let refused = late().await;
        assert!(["lease_expired", "claim_lost"].iter().any(|code| refused.ends_with(code)));
        eventually("lost", || async { late().await.ends_with("claim_lost") }).await;
        let settled = second.dispatch().complete(&claim, accepted("event-1", 2)).await;
        assert_eq!(settled.expect("it settles").attempts, 2);
        both_count([&first, &second], "succeeded", 1).await;
        first.close().await;
        second.close().await;
    });
}

/// The notification of an event, under this id, and its hash.
fn notified(event_id: &str, notification_id: &str) -> (String, String) {
    let document = notification(event_id, notification_id);
    (document.to_string(), sha256(&document))
}

pub(super) fn a_second_identity_is_one_records(place: &impl Place) {
    run(async {
        let clock = ManualClock::at(100.0);
        let (first, second) = (engine(place, &clock).await, engine(place, &clock).await);
        for round in 0..10 {
            let shared = format!("notification-{round}");
            let one = notified(&format!("event-{round}-a"), &shared);
            let other = notified(&format!("event-{round}-b"), &shared);
            let (one, other) = tokio::join!(
                first.processing().register_notification(one.0, &one.1, 5),
                second.processing().register_notification(other.0, &other.1, 5),
            );
            let (won, lost) = if one.is_ok() { (one, other) } else { (other, one) };
            assert!(!won.expect("one of them is registered").already_known);
            assert_eq!(code(lost), "terminal_processing_monitor.idempotency_collision");
        }
        first.close().await;
        second.close().await;
    });
}

pub(super) fn a_pause_holds_everywhere(place: &impl Place) {
    run(async {
        let clock = ManualClock::at(100.0);
        let (first, second) = (engine(place, &clock).await, engine(place, &clock).await);
        second.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
        let cms = || Scope::new("destination/cms").expect("a scope");
        first.pause(cms(), "maria", "it moves").await.expect("it is paused");
        eventually("paused", || async { second.paused().len() == 1 }).await;
        assert!(second.dispatch().claim("b", 60.0).await.expect("a claim").is_none());
        let resumed = second.resume(cms(), "maria", "it has moved").await.expect("it is open");
        assert!(resumed.changed);
        eventually("open", || async { first.paused().is_empty() }).await;
        assert!(first.dispatch().claim("a", 60.0).await.expect("a claim").is_some());
        first.close().await;
        second.close().await;
    });
}
