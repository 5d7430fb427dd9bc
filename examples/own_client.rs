//! A client of the host's own, and what each of its answers means to a record.
//!
//! A call ends in one of four ways: with the other side's document, with a failure that may pass, with one
//! that will not, or with a fault of the client. The clock is a manual one, so that nothing has to wait.

use leasehold::{CallFailure, ChangeRequest, Client, Dispatch, Engine, ManualClock, MemoryDisk};
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};

/// Stands for the host's own transport.
#[derive(Default)]
struct Transport {
    was_busy: AtomicBool,
}

impl Client<Dispatch> for Transport {
    /// Every lease has to be longer than this.
    fn longest_call_seconds(&self) -> Option<f64> {
        Some(30.0)
    }

    async fn call(&self, request: ChangeRequest) -> Result<Vec<u8>, CallFailure> {
        match request.event_id.as_str() {
            // The other side is busy and says when to come again.
            "help-0001" if !self.was_busy.swap(true, Ordering::Relaxed) => {
                Err(CallFailure::Marked {
                    code: "cms.busy".to_owned(),
                    retryable: true,
                    retry_after_seconds: Some(60.0),
                })
            }
            // It will never take this one.
            "lib-0001" => Err(CallFailure::Marked {
                code: "cms.site_unknown".to_owned(),
                retryable: false,
                retry_after_seconds: None,
            }),
            // It answers what the contract does not know.
            "bike-0001" => Ok(b"{\"status\": \"fine\"}".to_vec()),
            event_id => Ok(accepted(event_id).into_bytes()),
        }
    }
}

fn accepted(event_id: &str) -> String {
    format!(
        r#"{{"schema": "blun.website-localization-api.v2", "event_id": "{event_id}", "plan_id": "plan-1",
            "job_count": 2, "inserted_jobs": 2, "status": "enqueued"}}"#
    )
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (disk, clock) = (MemoryDisk::new(), ManualClock::at(1_000.0));
    let engine = Engine::in_memory(&disk).clock(clock.clone()).open().await?;
    let dispatch = engine.dispatch();
    for change in include_str!("changes.ndjson").lines().take(3) {
        dispatch.enqueue(change, 5).await?;
    }
    let transport = Transport::default();
    while let Some(attempt) = dispatch.run_once(&transport, "worker-1", 600.0).await? {
        println!("{}", serde_json::to_string(&attempt)?);
    }

    let busy = dispatch.status("help-0001").await?;
    assert_eq!((busy.status, busy.next_attempt_at), ("retry_wait", 1_060.0));
    let refused = dispatch.status("lib-0001").await?;
    let code = |code: Option<leasehold::ErrorCode>| code.map(|code| code.to_string());
    assert_eq!(refused.status, "failed");
    assert_eq!(code(refused.last_error_code).as_deref(), Some("cms.site_unknown"));
    let nonsense = dispatch.status("bike-0001").await?;
    assert_eq!(nonsense.status, "failed");
    assert_eq!(code(nonsense.last_error_code).as_deref(), Some("dispatch.response_invalid"));

    // The time the other side asked for has come: the same identity, the same bytes.
    assert_eq!(dispatch.next_at().await?, Some(1_060.0));
    clock.set(1_060.0);
    let attempt = dispatch.run_once(&transport, "worker-1", 600.0).await?.ok_or("it is due")?;
    println!("{}", serde_json::to_string(&attempt)?);
    assert_eq!((attempt.status, attempt.attempt), ("succeeded", 2));
    engine.close().await;
    Ok(())
}

#[test]
fn each_answer_means_what_the_example_says() {
    main().expect("it runs to its end");
}
