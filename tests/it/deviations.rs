//! Where we answer differently from the reference, by the ids of the README's table; the rows that
//! concern flow `dispatch` and the CMS client.

use crate::support::{Scripted, accepted, change, code, engine, marked, run};
use leasehold::{CallFailure, ChangeRequest, Client, Dispatch, Error, ManualClock, MemoryDisk};
use leasehold_journal::JournalError;
use leasehold_journal::memory::Fault;

#[test]
fn d3_a_settlement_before_the_claims_time_is_refused_and_the_claim_stays_good() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        flow.enqueue(change("event-1"), 5).await.expect("it is valid");
        let claim = flow.claim("w", 60.0).await.expect("a claim").expect("due");
        clock.set(99.0);
        let early = flow.complete(&claim, accepted("event-1", 2)).await;
        assert_eq!(code(early), "dispatch.clock_regressed");
        clock.set(100.0);
        assert!(flow.complete(&claim, accepted("event-1", 2)).await.is_ok());
    });
}

#[test]
fn d7_a_storage_fault_while_an_answer_is_recorded_is_never_judged() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        flow.enqueue(change("event-1"), 5).await.expect("it is valid");
        let claim = flow.claim("w", 60.0).await.expect("a claim").expect("due");
        disk.inject(Fault::SyncFails(JournalError::Full));
        let fault = flow.complete(&claim, accepted("event-1", 2)).await;
        assert_eq!(code(fault), "storage_full");
        assert_eq!(code(flow.enqueue(change("event-2"), 5).await), "journal_poisoned");
        engine.close().await;
        disk.crash(0);
        let engine = crate::support::engine(&disk, &clock).await;
        let flow = engine.dispatch();
        assert_eq!(flow.status("event-1").await.expect("it is there").status, "leased");
        clock.set(160.0);
        let client = Scripted::new([Ok(accepted("event-1", 0))]);
        let attempt = flow.run_once(&client, "w", 60.0).await.expect("it runs").expect("expired");
        assert_eq!((attempt.attempt, attempt.status), (2, "succeeded"));
        assert_eq!(client.calls()[0].change, claim.request().change);
    });
}

/// A client during whose call the clock moves on.
struct Slow {
    clock: ManualClock,
    until: f64,
}

impl Client<Dispatch> for Slow {
    fn longest_call_seconds(&self) -> Option<f64> {
        None
    }

    async fn call(&self, request: ChangeRequest) -> Result<Vec<u8>, CallFailure> {
        self.clock.set(self.until);
        Ok(accepted(request.event_id.as_str(), 2).into_bytes())
    }
}

#[test]
fn d10_the_clock_is_read_again_when_the_answer_is_recorded() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        flow.enqueue(change("event-1"), 5).await.expect("it is valid");
        let slow = Slow { clock: clock.clone(), until: 160.0 };
        let late = flow.run_once(&slow, "w", 60.0).await;
        assert_eq!(code(late), "dispatch.lease_expired");
        let quick = Slow { clock: clock.clone(), until: 219.0 };
        let attempt = flow.run_once(&quick, "w", 60.0).await.expect("it runs").expect("expired");
        assert_eq!((attempt.status, attempt.next_attempt_at), ("succeeded", 219.0));
    });
}

#[test]
fn d11_a_client_with_an_impossible_longest_call_is_refused() {
    run(async {
        let engine = engine(&MemoryDisk::new(), &ManualClock::at(100.0)).await;
        for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let client = Scripted::default().with_timeout(seconds);
            let refused = engine.dispatch().run_once(&client, "w", 60.0).await;
            assert_eq!(code(refused), "dispatch.client_invalid", "{seconds}");
        }
    });
}

#[test]
fn d13_values_of_the_wrong_kind_end_in_the_code_of_their_kind() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        let large = "9".repeat(40);
        for (number, (from, to)) in [
            ("\"enqueued\"", "[\"enqueued\"]"),
            ("\"plan-1\"", "\"\\ud800\""),
            ("\"job_count\":2", "\"job_count\":9223372036854775808"),
            ("\"job_count\":2", "\"job_count\":2.0"),
            ("\"inserted_jobs\":2", "\"inserted_jobs\":true"),
            ("\"job_count\":2", &format!("\"job_count\":{large}")),
        ]
        .into_iter()
        .enumerate()
        {
            let id = format!("event-{number}");
            flow.enqueue(change(&id), 5).await.expect("it is valid");
            let answer = accepted(&id, 2).replace(from, to);
            let client = Scripted::new([Ok(answer)]);
            let attempt = flow.run_once(&client, "w", 60.0).await.expect("it runs").expect("due");
            assert_eq!(attempt.error_code.expect("an error").as_str(), "dispatch.response_invalid");
        }
        for (from, to) in [
            ("\"source_sequence\":1", "\"source_sequence\":9223372036854775808"),
            ("\"event-9\"", "\"\\udc00\""),
            ("\"event-9\"", "[\"event-9\"]"),
        ] {
            let refused = flow.enqueue(change("event-9").replace(from, to), 5).await;
            assert_eq!(code(refused), "dispatch.change_invalid", "{to}");
        }
        clock.set(f64::NAN);
        assert_eq!(code(flow.health().await), "dispatch.time_invalid");
        assert_eq!(code(flow.enqueue(change("event-9"), 5).await), "dispatch.time_invalid");
    });
}

#[test]
fn d18_repeated_keys_are_refused_on_every_way_in() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        let twice = |text: String| text.replacen('{', "{\"schema\":\"x\",", 1);
        let refused = flow.enqueue(twice(change("event-1")), 5).await;
        assert_eq!(code(refused), "dispatch.change_invalid");
        flow.enqueue(change("event-1"), 5).await.expect("it is valid");
        let claim = flow.claim("w", 60.0).await.expect("a claim").expect("due");
        let refused = flow.complete(&claim, twice(accepted("event-1", 2))).await;
        assert_eq!(code(refused), "dispatch.response_invalid");
    });
}

#[test]
fn d19_a_retry_after_lengthens_the_delay_and_never_shortens_it() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        for (number, (asked, due)) in
            [(None, 105.0), (Some(60.0), 160.0), (Some(1.0), 105.0), (Some(86_400.0), 3_700.0)]
                .into_iter()
                .enumerate()
        {
            flow.enqueue(change(&format!("event-{number}")), 5).await.expect("it is valid");
            let CallFailure::Marked { code, retryable, .. } = marked("http_status", true) else {
                panic!("it is marked")
            };
            let failure = CallFailure::Marked { code, retryable, retry_after_seconds: asked };
            let client = Scripted::new([Err(failure)]);
            let attempt = flow.run_once(&client, "w", 60.0).await.expect("it runs").expect("due");
            assert_eq!(attempt.next_attempt_at, due, "{asked:?}");
        }
    });
}

#[test]
fn a_clients_panic_is_an_unmarked_failure_and_the_next_call_goes_on() {
    struct Panics;
    impl Client<Dispatch> for Panics {
        fn longest_call_seconds(&self) -> Option<f64> {
            None
        }
        async fn call(&self, _: ChangeRequest) -> Result<Vec<u8>, CallFailure> {
            panic!("a client's own fault")
        }
    }
    /// Panics before it gives a future at all.
    struct PanicsAtOnce;
    impl Client<Dispatch> for PanicsAtOnce {
        fn longest_call_seconds(&self) -> Option<f64> {
            None
        }
        #[allow(clippy::manual_async_fn)]
        fn call(
            &self,
            request: ChangeRequest,
        ) -> impl Future<Output = Result<Vec<u8>, CallFailure>> + Send {
            assert!(request.event_id.as_str().is_empty(), "a client's own fault");
            async { Ok(Vec::new()) }
        }
    }
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        for id in ["event-1", "event-2"] {
            flow.enqueue(change(id), 5).await.expect("it is valid");
            let attempt = match id {
                "event-1" => flow.run_once(&Panics, "w", 60.0).await,
                _ => flow.run_once(&PanicsAtOnce, "w", 60.0).await,
            };
            let attempt = attempt.expect("it runs").expect("due");
            assert_eq!(attempt.error_code.expect("an error").as_str(), "dispatch.client_failure");
        }
    });
}

#[test]
fn a_stopped_engine_answers_so() {
    run(async {
        let engine = engine(&MemoryDisk::new(), &ManualClock::at(100.0)).await;
        let flow = engine.dispatch().clone();
        engine.close().await;
        assert_eq!(flow.enqueue(change("event-1"), 5).await.err(), Some(Error::Stopped));
    });
}
