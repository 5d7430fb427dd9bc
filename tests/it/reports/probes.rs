//! Calls that find out whether a side works again, in an outage that is longer than any record's patience.

use super::{enqueue, ids, settle_down};
use crate::destination::{LIMITS, draining, ends, one, until_waiting, workers};
use crate::support::{accepted, marked, run};
use leasehold::{
    CallFailure, ChangeRequest, Client, Clock as _, Dispatch, Engine, GateState, Limits,
    ManualClock,
};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

const WORKERS: usize = 4;

/// A side that is down until it is up, and fails with one change even then.
struct Down {
    up: AtomicBool,
    poison: Option<String>,
    called: Mutex<Vec<String>>,
}

impl Down {
    fn new(poison: Option<String>) -> Arc<Self> {
        Arc::new(Self { up: AtomicBool::new(false), poison, called: Mutex::default() })
    }

    fn called(&self) -> Vec<String> {
        self.called.lock().expect("not poisoned").clone()
    }
}

impl Client<Dispatch> for Down {
    fn longest_call_seconds(&self) -> Option<f64> {
        None
    }

    async fn call(&self, request: ChangeRequest) -> Result<Vec<u8>, CallFailure> {
        let id = request.event_id.to_string();
        self.called.lock().expect("not poisoned").push(id.clone());
        let works = self.up.load(Ordering::Relaxed) && self.poison.as_ref() != Some(&id);
        if works { Ok(accepted(&id, 2).into_bytes()) } else { Err(marked("network", true)) }
    }
}

/// The state and the attempts of each.
async fn standing(engine: &Engine, ids: &[String]) -> Vec<(&'static str, u32)> {
    let mut found = Vec::new();
    for id in ids {
        let status = engine.dispatch().status(id).await.expect("it is there");
        found.push((status.status, status.attempts));
    }
    found
}

/// Lets time pass, but never while anybody is at a record, until nothing of the flow is left to do.
async fn until_done(engine: &Engine, clock: &ManualClock) {
    for _ in 0..2_000 {
        settle_down().await;
        let leased = engine.dispatch().health().await.expect("it answers").counts["leased"];
        if leased == 0 && engine.dispatch().next_at().await.expect("it answers").is_none() {
            return;
        }
        if leased == 0 {
            clock.set(clock.now_seconds() + 1.0);
        }
    }
    panic!("something is still left");
}

#[test]
fn an_outage_of_an_hour_spends_no_attempt_of_a_record_and_fails_none() {
    run(async {
        let clock = ManualClock::at(100.0);
        let (engine, destination) = one(&clock, 0, LIMITS).await;
        let ids = ids(40);
        enqueue(&engine, &ids, 5).await;
        let side = Down::new(None);
        let working = draining(&engine, &side, workers(WORKERS, &destination));
        until_waiting(&destination, WORKERS).await;
        assert_eq!(destination.view().state, GateState::Open);
        let before = standing(&engine, &ids).await;
        let spent: u32 = before.iter().map(|(_, attempts)| attempts).sum();
        assert_eq!(spent as usize, side.called().len(), "until it was known to be down");
        for second in 1..=3_600 {
            clock.set(100.0 + f64::from(second));
            until_waiting(&destination, WORKERS).await;
        }
        let probes = side.called().split_off(spent as usize);
        assert!((170..=200).contains(&probes.len()), "{} probes", probes.len());
        // Each was made with another record, so that none is to blame for all of them.
        assert_eq!(probes.iter().collect::<BTreeSet<_>>().len(), ids.len());
        assert!(probes.windows(2).all(|pair| pair[0] != pair[1]), "{probes:?}");
        assert_eq!(standing(&engine, &ids).await, before);
        side.up.store(true, Ordering::Relaxed);
        until_done(&engine, &clock).await;
        let done = standing(&engine, &ids).await;
        assert!(done.iter().all(|(state, attempts)| *state == "succeeded" && *attempts <= 3));
        ends(working).await;
    });
}

#[test]
fn a_record_that_no_side_could_take_does_not_keep_the_side_closed_to_the_others() {
    run(async {
        let clock = ManualClock::at(100.0);
        let limits = Limits { breaker_failures: 8, ..LIMITS };
        let (engine, destination) = one(&clock, 0, limits).await;
        let ids = ids(20);
        enqueue(&engine, &ids, 5).await;
        // The one that goes first wherever it is due.
        let side = Down::new(Some(ids[0].clone()));
        let working = draining(&engine, &side, workers(WORKERS, &destination));
        until_waiting(&destination, WORKERS).await;
        assert_eq!(destination.view().state, GateState::Open);
        side.up.store(true, Ordering::Relaxed);
        until_done(&engine, &clock).await;
        let done = standing(&engine, &ids).await;
        assert_eq!(done[0], ("failed", 5), "outside of probes it pays for its calls");
        assert!(done[1..].iter().all(|(state, _)| *state == "succeeded"), "{done:?}");
        ends(working).await;
    });
}
