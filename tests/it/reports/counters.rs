//! What health counts, whatever comes too late: after every step the same as a full replay.

use crate::main_job::Place;
use crate::support::{accepted, change, run};
use crate::time_travel::exported;
use crate::wire_flows::{
    End, acknowledge, answering, attempt, delivery, engine, lifecycle, processing, there,
};
use leasehold::audit::{Source, States};
use leasehold::{CallFailure, Client, Clock as _, Engine, Handle, ManualClock, MemoryDisk};
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::flows::Answers;
use serde_json::{Value, json};
use std::sync::Arc;

const LEASE_SECONDS: f64 = 60.0;
/// More than a lease, and more than any delay of a record.
const LATER_SECONDS: f64 = 400.0;

/// What happens while a call is under way.
#[derive(Clone, Copy)]
enum Meanwhile {
    /// Its lease runs out, and nobody notices.
    RunsOut,
    /// Another worker is given the record.
    Taken,
    /// The record is given up and requeued.
    Requeued,
}

type Answer<F> = Arc<dyn Fn(<F as leasehold_actors::flows::Answers>::Request) -> End + Send + Sync>;

/// A client whose answer comes too late.
struct Late<F: Answers> {
    flow: Handle<F>,
    clock: ManualClock,
    id: &'static str,
    meanwhile: Meanwhile,
    answer: Answer<F>,
}

fn pass(clock: &ManualClock) {
    clock.set(clock.now_seconds() + LATER_SECONDS);
}

impl<F: Answers> Client<F> for Late<F> {
    fn longest_call_seconds(&self) -> Option<f64> {
        None
    }

    async fn call(&self, request: F::Request) -> Result<Vec<u8>, CallFailure> {
        pass(&self.clock);
        match self.meanwhile {
            Meanwhile::RunsOut => {}
            Meanwhile::Taken => while !taken(&self.flow, &self.clock).await {},
            Meanwhile::Requeued => {
                while self.flow.requeue(self.id, "maria", "it was mended").await.is_err() {
                    taken(&self.flow, &self.clock).await;
                }
            }
        }
        (self.answer)(request).map(String::into_bytes)
    }
}

/// Whether the record was given to somebody who is never heard of again.
async fn taken<F: Answers>(flow: &Handle<F>, clock: &ManualClock) -> bool {
    let taken = flow.claim("other", LEASE_SECONDS).await.expect("it answers").is_some();
    pass(clock);
    taken
}

/// A life that is compared with its journal.
struct Life {
    disk: MemoryDisk,
    clock: ManualClock,
    place: Place,
    engine: Engine,
    compared: u32,
}

impl Life {
    async fn health(&self) -> Value {
        const CLOCK: &str = "the clock stands at a time";
        let engine = &self.engine;
        while engine.handing_over() > 0 {
            tokio::task::yield_now().await;
        }
        let mut processing = json!(engine.processing().health().await.expect(CLOCK));
        // The journal alone does not tell which digest is expected.
        processing["expected_capabilities_sha256"] = Value::Null;
        json!({
            "dispatch": engine.dispatch().health().await.expect(CLOCK),
            "lifecycle": engine.lifecycle().health().await.expect(CLOCK),
            "notification": engine.notification().health().await.expect(CLOCK),
            "processing": processing,
            "delivery": engine.delivery().health().await.expect(CLOCK),
        })
    }

    /// Health is what a replay of the whole journal comes to.
    async fn compare(&mut self, step: &str) {
        let health = self.health().await;
        let source = Source::open(&exported(&self.disk, &self.place)).expect("an archive");
        let (states, _) = States::read(&source).expect("it verifies");
        let now = Timestamp::new(self.clock.now_seconds()).expect("a time");
        assert_eq!(health, json!(states.health(now)), "{step}");
        self.compared += 1;
    }

    async fn restart(self) -> Self {
        let Self { disk, clock, place, engine: before, compared } = self;
        before.close().await;
        let engine = engine(&disk, &clock).await;
        Self { disk, clock, place, engine, compared }
    }
}

/// One record of a flow, with every way to settle too late; at last it completes.
async fn late<F: Answers>(
    mut life: Life,
    flow: fn(&Engine) -> &Handle<F>,
    id: &'static str,
    answer: impl Fn(F::Request) -> End + Send + Sync + 'static,
) -> Life {
    let (clock, answer): (_, Answer<F>) = (life.clock.clone(), Arc::new(answer));
    for (meanwhile, step) in [
        (Meanwhile::RunsOut, "settled after its lease ran out"),
        (Meanwhile::Taken, "settled after another worker was given it"),
        (Meanwhile::Requeued, "settled after it was requeued"),
    ] {
        let step = format!("{}: {step}", F::TAG.name());
        let flow = flow(&life.engine).clone();
        let answer = Arc::clone(&answer);
        let client = Late { flow: flow.clone(), clock: clock.clone(), id, meanwhile, answer };
        // Whoever had it last is gone, so that it is due again when their time is over.
        let refused = loop {
            match flow.run_once(&client, "w", LEASE_SECONDS).await {
                Ok(None) => pass(&clock),
                Ok(Some(attempt)) => panic!("{step}: {attempt:?}"),
                Err(refused) => break refused,
            }
        };
        let code = refused.code();
        assert!(code.ends_with("claim_lost") || code.ends_with("lease_expired"), "{step} {code}");
        life.compare(&step).await;
    }
    let stale = flow(&life.engine).claim("w", LEASE_SECONDS).await.expect("a claim");
    let stale = stale.expect("it was requeued");
    life.compare("leased").await;
    life = life.restart().await;
    life.compare("reopened with a lease out").await;
    flow(&life.engine).release(&stale).await.expect_err("its engine is gone");
    life.compare("given back after a restart").await;
    // It fails as often as it may, and then for good: a lease that ran out is ended by the next claim, and
    // some flows wait after that.
    for _ in 0..12 {
        taken(flow(&life.engine), &clock).await;
        life.compare("another lease ran out").await;
    }
    assert_eq!(life.health().await[F::TAG.name()]["counts"]["failed"], 1);
    flow(&life.engine).requeue(id, "maria", "it was mended").await.expect("it was given up");
    life.compare("requeued").await;
    attempt(flow(&life.engine), &answering(move |request| answer(request))).await;
    life.compare("completed").await;
    flow(&life.engine).release(&stale).await.expect_err("it is done");
    life.compare("given back after it was completed").await;
    life
}

#[test]
fn health_counts_what_a_full_replay_counts_whatever_is_settled_too_late() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        engine.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
        engine.delivery().enqueue_change(change("event-1"), 4, 5).await.expect("it is valid");
        let mut life = Life { disk, clock, place: Place::new(), engine, compared: 0 };
        life.compare("registered").await;
        let answer = |_| Ok(accepted("event-1", 2));
        life = late(life, Engine::dispatch, "event-1", answer).await;
        there(|| life.engine.lifecycle().status("event-1")).await;
        let answer = |_| Ok(lifecycle("0c", "cancelled"));
        life = late(life, Engine::lifecycle, "event-1", answer).await;
        there(|| life.engine.notification().status("event-1")).await;
        life = late(life, Engine::notification, "event-1", acknowledge).await;
        there(|| life.engine.processing().status("event-1")).await;
        let known = life.engine.processing().status("event-1").await.expect("it is there");
        let answer = processing(&known, "succeeded", Some(259));
        life = late(life, Engine::processing, "event-1", move |_| answer.clone()).await;
        let answer = |request| delivery(&request);
        life = late(life, Engine::delivery, "change/event-1", answer).await;
        assert_eq!(life.compared, 1 + 5 * 21);
        life.engine.close().await;
    });
}
