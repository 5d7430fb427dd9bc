//! Being gentle to the other sides: outages, sides that hang, `Retry-After`, clients that break.

mod lives;

use crate::support::{accepted, change, engine, marked, run};
use leasehold::http::response::retry_after_seconds;
use leasehold::{
    CallFailure, ChangeRequest, Client, Destination, Destinations, Dispatch, DrainOptions, Engine,
    GateState, Limits, LimitsInvalid, ManualClock, MemoryDisk, Outcome, drain,
};
use reqwest::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;
use tokio::task::{JoinHandle, yield_now};

/// Everything at once, three failures open it.
pub(crate) const LIMITS: Limits = Limits {
    in_flight_max: 64,
    requests_per_second: None,
    burst: 10,
    breaker_failures: 3,
    breaker_open_seconds: 5.0,
    breaker_open_max_seconds: 20.0,
    retry_after_max_seconds: 60.0,
    slow_start: false,
};

/// What a side does with a call.
#[derive(Debug, Clone)]
pub(crate) enum Mood {
    Accepts,
    Fails(CallFailure),
    Hangs,
}

/// One other side: its mood, what it does first, and when it was called.
pub(crate) struct Side {
    clock: ManualClock,
    first: Mutex<VecDeque<Mood>>,
    mood: Mutex<Mood>,
    calls: Mutex<Vec<f64>>,
    poison: Option<&'static str>,
}

impl Side {
    pub(crate) fn new(
        clock: &ManualClock,
        first: impl IntoIterator<Item = Mood>,
        mood: Mood,
    ) -> Self {
        Self {
            clock: clock.clone(),
            first: Mutex::new(first.into_iter().collect()),
            mood: Mutex::new(mood),
            calls: Mutex::default(),
            poison: None,
        }
    }

    pub(crate) fn turn(&self, mood: Mood) {
        *self.mood.lock().expect("not poisoned") = mood;
    }

    pub(crate) fn calls(&self) -> Vec<f64> {
        self.calls.lock().expect("not poisoned").clone()
    }
}

impl Client<Dispatch> for Side {
    fn longest_call_seconds(&self) -> Option<f64> {
        None
    }

    async fn call(&self, request: ChangeRequest) -> Result<Vec<u8>, CallFailure> {
        let id = request.event_id.as_str();
        assert_ne!(Some(id), self.poison, "a client's own fault");
        self.calls.lock().expect("not poisoned").push(leasehold::Clock::now_seconds(&self.clock));
        let first = self.first.lock().expect("not poisoned").pop_front();
        let mood = first.unwrap_or_else(|| self.mood.lock().expect("not poisoned").clone());
        match mood {
            Mood::Accepts => Ok(accepted(id, 2).into_bytes()),
            Mood::Fails(failure) => Err(failure),
            Mood::Hangs => std::future::pending().await,
        }
    }
}

pub(crate) fn workers(in_flight: usize, destination: &Destination) -> DrainOptions {
    let destination = Some(destination.clone());
    DrainOptions { in_flight, lease_seconds: 600.0, worker: "w".to_owned(), destination }
}

async fn enqueue(engine: &Engine, records: usize) {
    let changes: Vec<_> = (0..records).map(|number| change(&format!("event-{number}"))).collect();
    for answer in engine.dispatch().enqueue_many(&changes, 20).await {
        answer.expect("it is valid");
    }
}

/// An engine with that many records, which an earlier one took in, and one destination of its own.
pub(crate) async fn one(
    clock: &ManualClock,
    records: usize,
    limits: Limits,
) -> (Engine, Destination) {
    let disk = MemoryDisk::new();
    let earlier = engine(&disk, clock).await;
    enqueue(&earlier, records).await;
    earlier.close().await;
    let engine = engine(&disk, clock).await;
    let side = Destinations::new(&engine, 1024).expect("within limits").add("cms", limits);
    (engine, side.expect("within limits"))
}

pub(crate) type Draining = (JoinHandle<Result<(), leasehold::Error>>, watch::Sender<bool>);

pub(crate) fn draining<C>(engine: &Engine, side: &Arc<C>, options: DrainOptions) -> Draining
where
    C: Client<Dispatch> + 'static,
{
    let (flow, side) = (engine.dispatch().clone(), Arc::clone(side));
    let (asking, stop) = watch::channel(false);
    (tokio::spawn(async move { drain(&flow, side, &options, stop, |_| {}).await }), asking)
}

pub(crate) async fn ends((working, asking): Draining) {
    asking.send_replace(true);
    working.await.expect("no panic").expect("it ends well");
}

/// Lets happen what can happen while the clock stands, until so many workers wait for leave.
pub(crate) async fn until_waiting(destination: &Destination, workers: usize) {
    for _ in 0..16 {
        yield_now().await;
    }
    while destination.view().waiting < workers {
        yield_now().await;
    }
}

async fn until_called(side: &Side, times: usize) {
    while side.calls().len() < times {
        yield_now().await;
    }
}

pub(crate) fn counts(
    engine: &Engine,
) -> impl Future<Output = std::collections::BTreeMap<String, u64>> {
    let flow = engine.dispatch().clone();
    async move {
        let counts = flow.health().await.expect("a time").counts;
        counts.iter().map(|(state, count)| ((*state).to_owned(), *count)).collect()
    }
}

#[test]
fn ten_thousand_records_meet_an_outage_with_few_attempts_and_its_end_below_the_rate() {
    const WORKERS: usize = 32;
    run(async {
        let clock = ManualClock::at(100.0);
        let limits = Limits {
            in_flight_max: WORKERS,
            requests_per_second: Some(100.0),
            breaker_failures: 5,
            slow_start: true,
            ..LIMITS
        };
        let (engine, destination) = one(&clock, 10_000, limits).await;
        let side = Arc::new(Side::new(&clock, [], Mood::Fails(marked("network", true))));
        let working = draining(&engine, &side, workers(WORKERS, &destination));
        let mut step = 0_u32;
        let mut tick = async || {
            until_waiting(&destination, WORKERS).await;
            step += 1;
            clock.set(100.0 + f64::from(step) * 0.02);
            f64::from(step) * 0.02
        };
        while tick().await < 60.0 {}
        let tried = side.calls().len();
        assert!((6..=10).contains(&tried), "{tried} attempts in a minute");
        let view = destination.view();
        assert_eq!((view.state, view.in_flight), (GateState::Open, 0));
        assert_eq!(view.last_error_code.expect("it failed").as_str(), "network");
        side.turn(Mood::Accepts);
        while side.calls().len() == tried {
            tick().await;
        }
        let up_at = side.calls()[tried];
        assert!(up_at <= 180.0, "it is found to be up within the longest opening");
        while tick().await < up_at - 100.0 + 5.0 {}
        ends(working).await;
        let calls = side.calls();
        let within = |from: f64, to: f64| {
            calls.iter().filter(|call| (up_at + from..up_at + to).contains(*call)).count()
        };
        assert!((10..=100).contains(&within(0.0, 1.0)), "{}", within(0.0, 1.0));
        assert!((80..=110).contains(&within(3.0, 4.0)), "{}", within(3.0, 4.0));
        assert_eq!(destination.view().state, GateState::Closed);
        let counts = counts(&engine).await;
        assert_eq!((counts["leased"], counts["failed"]), (0, 0));
        assert_eq!(counts["succeeded"] as usize, calls.len() - tried);
    });
}

#[test]
fn a_destination_that_hangs_does_not_delay_another() {
    run(async {
        let clock = ManualClock::at(100.0);
        let hanging = engine(&MemoryDisk::new(), &clock).await;
        let other = engine(&MemoryDisk::new(), &clock).await;
        enqueue(&hanging, 100).await;
        enqueue(&other, 300).await;
        let all = Destinations::new(&hanging, 16).expect("within limits");
        let [cms, source] = ["cms", "source"].map(|name| all.add(name, LIMITS).expect("valid"));
        let stuck = Arc::new(Side::new(&clock, [], Mood::Hangs));
        let (held, _asking) = draining(&hanging, &stuck, workers(32, &cms));
        until_called(&stuck, 12).await;
        until_waiting(&cms, 20).await;
        assert_eq!((stuck.calls().len(), cms.view().in_flight), (12, 12), "all but 4 of 16");
        let side = Arc::new(Side::new(&clock, [], Mood::Accepts));
        // Nobody stops it and the clock stands: it ends because everything went through.
        let (working, _stop) = draining(&other, &side, workers(32, &source));
        working.await.expect("no panic").expect("it ends well");
        assert_eq!((counts(&other).await["succeeded"], side.calls().len()), (300, 300));
        held.abort();
        assert!(held.await.expect_err("it was aborted").is_cancelled());
        while cms.view().in_flight > 0 {
            yield_now().await;
        }
        let view = cms.view();
        assert_eq!((view.state, view.failures_in_a_row), (GateState::Closed, 0));
    });
}

/// A failure with what a `Retry-After` header of this text comes to on 9 September 2001.
fn told(header: &str) -> CallFailure {
    let mut headers = HeaderMap::new();
    headers.insert(RETRY_AFTER, HeaderValue::from_str(header).expect("a header value"));
    asked(retry_after_seconds(&headers, 1_000_000_000.0))
}

fn asked(retry_after_seconds: Option<f64>) -> CallFailure {
    CallFailure::Marked { code: "http_status".to_owned(), retryable: true, retry_after_seconds }
}

#[test]
fn a_retry_after_stops_the_whole_destination_and_a_senseless_one_does_not() {
    for (failure, left) in [
        (told("30"), Some(30.0)),
        (told("10000000000000000000000000000000000000000"), Some(60.0)),
        (told("Fri, 31 Dec 9999 23:59:59 GMT"), Some(60.0)),
        (asked(Some(1e40)), Some(60.0)),
        (asked(Some(f64::INFINITY)), Some(60.0)),
        (told("-5"), None),
        (told("Sun, 06 Nov 1994 08:49:37 GMT"), None),
        (asked(Some(-5.0)), None),
        (asked(Some(f64::NAN)), None),
        (asked(None), None),
    ] {
        run(async {
            let clock = ManualClock::at(100.0);
            let (engine, destination) = one(&clock, 3, LIMITS).await;
            let side = Arc::new(Side::new(&clock, [Mood::Fails(failure.clone())], Mood::Accepts));
            let working = draining(&engine, &side, workers(1, &destination));
            let Some(left) = left else {
                until_called(&side, 3).await;
                let view = destination.view();
                assert_eq!((view.state, view.retry_in_seconds), (GateState::Closed, None));
                return ends(working).await;
            };
            until_waiting(&destination, 1).await;
            assert_eq!(destination.view().retry_in_seconds, Some(left), "{failure:?}");
            clock.set(100.0 + left - 0.1);
            until_waiting(&destination, 1).await;
            assert_eq!(side.calls(), [100.0], "{failure:?}");
            clock.set(100.0 + left);
            until_called(&side, 3).await;
            assert_eq!(side.calls()[1], 100.0 + left);
            ends(working).await;
        });
    }
}

#[test]
fn a_record_whose_client_panics_does_not_stop_the_others() {
    run(async {
        let clock = ManualClock::at(100.0);
        let limits = Limits { in_flight_max: 1, slow_start: true, ..LIMITS };
        let (engine, destination) = one(&clock, 20, limits).await;
        let mut side = Side::new(&clock, [], Mood::Accepts);
        side.poison = Some("event-0");
        let (working, _stop) = draining(&engine, &Arc::new(side), workers(4, &destination));
        working.await.expect("no panic").expect("it ends well");
        let counts = counts(&engine).await;
        assert_eq!((counts["succeeded"], counts["failed"]), (19, 1));
        let view = destination.view();
        assert_eq!((view.state, view.in_flight, view.waiting), (GateState::Closed, 0, 0));
    });
}

#[test]
fn workers_behind_an_open_breaker_end_when_nothing_is_left() {
    run(async {
        let clock = ManualClock::at(100.0);
        let limits = Limits { breaker_failures: 1, ..LIMITS };
        let (engine, destination) = one(&clock, 0, limits).await;
        engine.dispatch().enqueue(change("event-0"), 1).await.expect("it is valid");
        let side = Arc::new(Side::new(&clock, [], Mood::Fails(marked("network", true))));
        let (working, _stop) = draining(&engine, &side, workers(4, &destination));
        working.await.expect("no panic").expect("it ends well");
        assert_eq!(counts(&engine).await["failed"], 1);
        let view = destination.view();
        assert_eq!((view.state, view.probes_in_seconds), (GateState::Open, Some(5.0)));
    });
}

#[test]
fn workers_that_wait_hold_no_lease_and_end_when_they_are_told_to() {
    run(async {
        let clock = ManualClock::at(100.0);
        let (engine, destination) = one(&clock, 10, LIMITS).await;
        let side = Arc::new(Side::new(&clock, [], Mood::Fails(marked("network", true))));
        let working = draining(&engine, &side, workers(2, &destination));
        until_waiting(&destination, 2).await;
        assert_eq!(counts(&engine).await["leased"], 0);
        let view = serde_json::to_value(destination.view()).expect("it serialises");
        assert_eq!((&view["name"], &view["state"]), (&"cms".into(), &"open".into()));
        assert_eq!(view["in_flight_allowed"], 0);
        ends(working).await;
        assert_eq!(destination.view().waiting, 0);
        assert!((3..=4).contains(&side.calls().len()), "one call more may have been under way");
    });
}

#[test]
fn workers_that_find_nothing_due_use_up_nothing() {
    run(async {
        let clock = ManualClock::at(100.0);
        let limits = Limits { requests_per_second: Some(1.0), burst: 1, ..LIMITS };
        let (engine, destination) = one(&clock, 0, limits).await;
        let side = Arc::new(Side::new(&clock, [], Mood::Accepts));
        let (working, _stop) = draining(&engine, &side, workers(4, &destination));
        working.await.expect("no panic").expect("it ends well");
        let view = destination.view();
        assert_eq!((view.tokens, view.in_flight), (Some(1.0), 0));
        let mut used = destination.try_admit().expect("the token is there");
        used.begin();
        used.report(Outcome::Answered);
        assert_eq!(destination.view().tokens, Some(0.0));
        assert!(destination.try_admit().is_none());
    });
}

#[test]
fn a_new_destination_starts_slowly_and_a_refusal_shows_that_the_side_works() {
    run(async {
        let clock = ManualClock::at(100.0);
        let limits = Limits { in_flight_max: 4, slow_start: true, ..LIMITS };
        let (engine, destination) = one(&clock, 4, limits).await;
        let view = destination.view();
        assert_eq!((view.state, view.in_flight_allowed), (GateState::Recovering, 1));
        let side = Arc::new(Side::new(&clock, [], Mood::Fails(marked("refused", false))));
        let (working, _stop) = draining(&engine, &side, workers(4, &destination));
        working.await.expect("no panic").expect("it ends well");
        assert_eq!(counts(&engine).await["failed"], 4);
        let view = destination.view();
        assert_eq!((view.state, view.failures_in_a_row), (GateState::Closed, 0));
    });
}

#[test]
fn limits_that_mean_nothing_are_refused() {
    run(async {
        let engine = engine(&MemoryDisk::new(), &ManualClock::at(100.0)).await;
        let none = Destinations::new(&engine, 0).err();
        assert_eq!(none, Some(LimitsInvalid::OverallInFlightMax));
        let all = Destinations::new(&engine, 1).expect("within limits");
        let burst = all.add("cms", Limits { burst: 0, ..LIMITS }).err();
        assert_eq!(burst.expect("out of range").to_string(), "burst_invalid");
        assert!(all.add("cms", LIMITS).is_ok());
        let second = all.add("source", LIMITS).err();
        assert_eq!(second, Some(LimitsInvalid::OverallInFlightMax));
    });
}
