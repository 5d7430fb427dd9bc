//! A host that delivers one change with a client of its own.

use leasehold::{CallFailure, ChangeRequest, Client, Dispatch, Engine};

/// Stands for the host's own transport.
struct Printer;

impl Client<Dispatch> for Printer {
    fn longest_call_seconds(&self) -> Option<f64> {
        Some(30.0)
    }

    async fn call(&self, request: ChangeRequest) -> Result<Vec<u8>, CallFailure> {
        println!("submitting {} ({} bytes)", request.event_id, request.change.as_bytes().len());
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
    let folder = tempfile::tempdir()?;
    let engine = Engine::builder(folder.path().join("journal")).open().await?;
    let change = include_str!("changes.ndjson").lines().next().ok_or("an example")?;
    let known = engine.dispatch().enqueue(change, 5).await?;
    println!("durable: {}", serde_json::to_string(&known.status)?);
    while let Some(attempt) = engine.dispatch().run_once(&Printer, "worker-1", 600.0).await? {
        println!("{}", serde_json::to_string(&attempt)?);
    }
    engine.close().await;
    Ok(())
}

#[test]
fn one_change_is_delivered() {
    main().expect("it runs to its end");
}
