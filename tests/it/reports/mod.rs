//! Reports that users of other systems wrote, each as a test that it cannot happen here.
//!
//! The list, with those that are tested elsewhere, is in `docs/reliability.md`.

mod counters;
mod hanging;
mod herd;
mod leases;
mod poison;
mod probes;
mod requeued;
mod retry_after;

use crate::support::change;
use leasehold::Engine;

/// Registers changes with these ids, each with so many attempts.
async fn enqueue(engine: &Engine, ids: &[String], max_attempts: i64) {
    let changes: Vec<_> = ids.iter().map(|id| change(id)).collect();
    for answer in engine.dispatch().enqueue_many(&changes, max_attempts).await {
        answer.expect("it is valid");
    }
}

/// Ids whose order is that of their numbers.
fn ids(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("event-{number:05}")).collect()
}

/// Registers a change and gives it up.
async fn given_up(engine: &Engine, id: &str) {
    let flow = engine.dispatch();
    flow.enqueue(change(id), 5).await.expect("it is valid");
    let claim = flow.claim("w", 60.0).await.expect("a claim").expect("due");
    assert_eq!(claim.request().event_id.as_str(), id);
    flow.fail(&claim, "cms.refused").await.expect("it is its own");
}

async fn requeue(engine: &Engine, id: &str) {
    engine.dispatch().requeue(id, "maria", "it was mended").await.expect("it was given up");
}

/// Lets everything run that can.
async fn settle_down() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}
