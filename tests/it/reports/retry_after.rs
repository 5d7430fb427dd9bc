//! What a side, or a host's own client, asks to wait, sensible or not.

use crate::cms_client::{Ending, JSON, client, http, server};
use crate::destination::{LIMITS, draining, ends, one, workers};
use crate::support::{Scripted, change, engine, run};
use leasehold::{CallFailure, ManualClock, MemoryDisk};
use std::sync::Arc;

/// 10 to the power of 40.
const HUGE: &str = "10000000000000000000000000000000000000000";

/// The record's due time and the side's rest after a call that is answered with this header, at 100.
async fn asked(status: &str, header: &str) -> (f64, Option<f64>) {
    let clock = ManualClock::at(100.0);
    let (engine, destination) = one(&clock, 1, LIMITS).await;
    let header = format!("Retry-After: {header}");
    let (address, served) = server(http(status, &[JSON, &header], b"{}"), Ending::Close).await;
    let client = Arc::new(client(address, 5.0).with_clock(clock.clone()));
    let working = draining(&engine, &client, workers(1, &destination));
    served.await.expect("no panic");
    let status = loop {
        let status = engine.dispatch().status("event-0").await.expect("it is there");
        if !["pending", "leased"].contains(&status.status) {
            break status;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!((status.status, status.attempts), ("retry_wait", 1));
    let left = destination.view().retry_in_seconds;
    ends(working).await;
    (status.next_attempt_at, left)
}

#[test]
fn a_senseless_retry_after_of_a_real_answer_moves_neither_the_record_nor_the_side() {
    run(async {
        for (header, next_at, left) in [
            ("-5", 105.0, None),
            ("0", 105.0, None),
            ("1e40", 105.0, None),
            ("Thu, 01 Jan 1970 00:01:35 GMT", 105.0, None),
            ("Thu, 01 Jan 1970 00:01:40 GMT", 105.0, None),
            // What is too long is cut: the record's limit is an hour here, the side's a minute.
            (HUGE, 3_700.0, Some(60.0)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", 3_700.0, Some(60.0)),
            ("30", 130.0, Some(30.0)),
            ("Thu, 01 Jan 1970 00:02:10 GMT", 130.0, Some(30.0)),
        ] {
            for status in ["429 Too Many Requests", "503 Service Unavailable"] {
                assert_eq!(asked(status, header).await, (next_at, left), "{status} {header}");
            }
        }
    });
}

#[test]
fn a_host_that_asks_to_wait_for_no_number_at_all_is_not_heard() {
    run(async {
        for (seconds, next_at) in [
            (f64::NAN, 105.0),
            (f64::NEG_INFINITY, 105.0),
            (-5.0, 105.0),
            (0.0, 105.0),
            (1e40, 3_700.0),
            (f64::INFINITY, 3_700.0),
            (7.0, 107.0),
        ] {
            let engine = engine(&MemoryDisk::new(), &ManualClock::at(100.0)).await;
            engine.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
            let client = Scripted::new([Err(CallFailure::Marked {
                code: "network".to_owned(),
                retryable: true,
                retry_after_seconds: Some(seconds),
            })]);
            let attempt = engine.dispatch().run_once(&client, "w", 60.0).await;
            let attempt = attempt.expect("it runs").expect("due");
            assert_eq!(attempt.next_attempt_at, next_at, "{seconds}");
        }
    });
}
