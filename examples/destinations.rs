//! Being gentle to the other side: calls at once, calls a second, and a breaker that leaves a side alone
//! while it is down.
//!
//! Workers ask their destination before they claim, so that no lease is held while a side rests.

use leasehold::{
    CallFailure, ChangeRequest, Client, Clock as _, Delays, Destinations, Dispatch, DrainOptions,
    Engine, FlowDelays, GateState, Limits, MemoryDisk, SystemClock, drain,
};
use std::error::Error;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// How long the side is left alone, in seconds; a real one gets more.
const OPEN_SECONDS: f64 = 0.2;
/// Calls that fail before the side is up again.
const FAILURES: usize = 3;
const CHANGES: usize = 20;

/// A side that is down at first. It notes when it was called.
#[derive(Default)]
struct Side {
    calls: Mutex<Vec<f64>>,
}

impl Side {
    fn calls(&self) -> Vec<f64> {
        self.calls.lock().expect("nobody panics while holding it").clone()
    }
}

impl Client<Dispatch> for Side {
    fn longest_call_seconds(&self) -> Option<f64> {
        Some(30.0)
    }

    async fn call(&self, request: ChangeRequest) -> Result<Vec<u8>, CallFailure> {
        let calls = {
            let mut calls = self.calls.lock().expect("nobody panics while holding it");
            calls.push(SystemClock.steady_seconds());
            calls.len()
        };
        if calls <= FAILURES {
            let code = "cms.unavailable".to_owned();
            return Err(CallFailure::Marked { code, retryable: true, retry_after_seconds: None });
        }
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
    let quick = Delays { base_delay_seconds: 0.01, max_delay_seconds: 0.01, ..Delays::default() };
    let disk = MemoryDisk::new();
    let open = || {
        let delays = FlowDelays { dispatch: quick, ..FlowDelays::default() };
        Engine::in_memory(&disk).delays(delays).open()
    };
    let earlier = open().await?;
    for change in include_str!("changes.ndjson").lines().take(CHANGES) {
        earlier.dispatch().enqueue(change, 20).await?;
    }
    earlier.close().await;
    let engine = open().await?;

    // All sides together have 32 calls at once, this one 8 of them and 1000 a second.
    let sides = Destinations::new(&engine, 32)?;
    let cms = sides.add(
        "cms",
        Limits {
            in_flight_max: 8,
            requests_per_second: Some(1000.0),
            breaker_failures: FAILURES as u32,
            breaker_open_seconds: OPEN_SECONDS,
            ..Limits::default()
        },
    )?;
    // A run on a journal with records starts as after an outage, with one call at once.
    assert_eq!((cms.view().state, cms.view().in_flight_allowed), (GateState::Recovering, 1));

    let options = DrainOptions {
        in_flight: 8,
        lease_seconds: 600.0,
        worker: "example".to_owned(),
        destination: Some(cms.clone()),
    };
    let (side, (_stop, stopped)) = (Arc::new(Side::default()), watch::channel(false));
    drain(engine.dispatch(), Arc::clone(&side), &options, stopped, |_| {}).await?;

    println!("{}", serde_json::to_string(&cms.view())?);
    let calls = side.calls();
    let rest = calls[FAILURES] - calls[FAILURES - 1];
    println!("left alone for {rest:.3} seconds");
    assert!(rest >= OPEN_SECONDS, "the breaker was open");
    assert_eq!(calls.len(), CHANGES + FAILURES, "one call found out that the side is up again");
    assert_eq!(engine.dispatch().health().await?.counts.get("succeeded"), Some(&(CHANGES as u64)));
    assert_eq!((cms.view().state, cms.view().in_flight_allowed), (GateState::Closed, 8));
    engine.close().await;
    Ok(())
}

#[test]
fn a_side_that_is_down_is_left_alone() {
    main().expect("it runs to its end");
}
