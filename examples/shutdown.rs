//! Shutting down in two phases: calls under way may end, and what is left of them is dropped and its lease
//! given back, so that no attempt is spent on it.

use leasehold::{CallFailure, ChangeRequest, Client, Dispatch, Engine, Error, MemoryDisk};
use tokio::sync::Notify;

/// Answers one change when it is told to, and never answers the others.
#[derive(Default)]
struct Transport {
    begun: Notify,
    told: Notify,
}

impl Client<Dispatch> for Transport {
    fn longest_call_seconds(&self) -> Option<f64> {
        Some(30.0)
    }

    async fn call(&self, request: ChangeRequest) -> Result<Vec<u8>, CallFailure> {
        self.begun.notify_one();
        if request.event_id.as_str() != "help-0001" {
            return std::future::pending().await;
        }
        self.told.notified().await;
        let answer = format!(
            r#"{{"schema": "blun.website-localization-api.v2", "event_id": "{}", "plan_id": "plan-1",
                "job_count": 2, "inserted_jobs": 2, "status": "enqueued"}}"#,
            request.event_id
        );
        Ok(answer.into_bytes())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let disk = MemoryDisk::new();
    let engine = Engine::in_memory(&disk).open().await?;
    let transport = std::sync::Arc::new(Transport::default());
    let mut calls = Vec::new();
    for change in include_str!("changes.ndjson").lines().take(2) {
        engine.dispatch().enqueue(change, 5).await?;
        let (dispatch, transport) = (engine.dispatch().clone(), transport.clone());
        calls.push(tokio::spawn(async move {
            dispatch.run_once(transport.as_ref(), "worker-1", 600.0).await
        }));
    }
    transport.begun.notified().await;
    while engine.dispatch().health().await?.counts.get("leased") != Some(&2) {
        tokio::task::yield_now().await;
    }

    // From elsewhere, such as from a signal: nothing more is begun, and what runs goes on.
    engine.stopper().drain();
    let late = engine.dispatch().claim("worker-2", 600.0).await;
    assert_eq!(late.err(), Some(Error::Stopped));
    transport.told.notify_one();

    // One call ends within its time, the other one never would.
    let remaining = engine.shutdown(0.5).await?;
    println!("{}", serde_json::to_string(&remaining)?);
    assert_eq!((remaining.released, remaining.leased, remaining.waiting), (1, 0, 1));
    let mut ended = Vec::new();
    for call in calls {
        ended.push(call.await?.map(|attempt| attempt.map(|attempt| attempt.status)));
    }
    assert_eq!(ended, [Ok(Some("succeeded")), Err(Error::Stopped)]);

    // The next life goes on: the dropped call was of no attempt.
    let engine = Engine::in_memory(&disk).open().await?;
    let status = engine.dispatch().status("lib-0001").await?;
    println!("{}", serde_json::to_string(&status)?);
    assert_eq!((status.status, status.attempts), ("pending", 0));
    engine.close().await;
    Ok(())
}

#[test]
fn a_call_that_hangs_costs_no_attempt() {
    main().expect("it runs to its end");
}
