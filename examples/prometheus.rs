//! Metrics: recorded through the facade `metrics`, here into Prometheus' text format.
//!
//! A host with a recorder of its own sets that one and calls `leasehold::metrics::describe` after it.

use leasehold::metrics::{
    CALL_DURATION, CLAIMS, COMMIT_DURATION, Prometheus, REGISTRATIONS, SETTLEMENTS,
};
use leasehold::{CallFailure, ChangeRequest, Client, Dispatch, Engine, MemoryDisk};
use std::error::Error;

/// Stands for the host's own transport.
struct Transport;

impl Client<Dispatch> for Transport {
    fn longest_call_seconds(&self) -> Option<f64> {
        Some(30.0)
    }

    async fn call(&self, request: ChangeRequest) -> Result<Vec<u8>, CallFailure> {
        let answer = format!(
            r#"{{"schema": "blun.website-localization-api.v2", "event_id": "{}", "plan_id": "plan-1",
                "job_count": 2, "inserted_jobs": 2, "status": "enqueued"}}"#,
            request.event_id
        );
        Ok(answer.into_bytes())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Before the engine: what comes before a recorder is there is counted nowhere.
    let prometheus = Prometheus::install().ok_or("this process has a recorder already")?;
    let engine = Engine::in_memory(&MemoryDisk::new()).open().await?;
    for change in include_str!("changes.ndjson").lines().take(3) {
        engine.dispatch().enqueue(change, 5).await?;
    }
    engine.dispatch().run_once(&Transport, "worker-1", 600.0).await?.ok_or("one is due")?;
    engine.close().await;

    let text = prometheus.text();
    print!("{text}");
    for line in [
        format!(r#"{REGISTRATIONS}{{flow="dispatch",outcome="new"}} 3"#),
        format!(r#"{CLAIMS}{{flow="dispatch"}} 1"#),
        format!(r#"{SETTLEMENTS}{{flow="dispatch",outcome="completed"}} 1"#),
        format!(r#"{CALL_DURATION}_count{{flow="dispatch"}} 1"#),
    ] {
        assert!(text.lines().any(|it| it == line), "{line}");
    }
    assert!(text.contains(&format!("{COMMIT_DURATION}_count ")));
    Ok(())
}

#[test]
fn what_happens_is_counted() {
    main().expect("it runs to its end");
}
