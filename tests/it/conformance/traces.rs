//! The traces of the four components.

use super::{Compared, Expect, Script, StepClient, json, lines};
use crate::support::run;
use leasehold::{
    Claim, Delays, Delivery, Dispatch, Engine, EngineBuilder, Error, FlowDelays, Handle, Lifecycle,
    ManualClock, Processing, SourceRuntime,
};
use leasehold_actors::flows::Answers;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashMap;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Trace {
    pub(crate) component: String,
    pub(crate) name: String,
    pub(crate) config: Config,
    steps: Vec<Step>,
    /// Only of traces that begin in a store of the reference.
    #[serde(default)]
    pub(crate) store: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    base_delay_seconds: f64,
    max_delay_seconds: f64,
    poll_interval_seconds: Option<f64>,
    expected_capabilities_sha256: Option<String>,
    timeout: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    op: String,
    now: f64,
    expect: Expect,
    change: Option<Box<RawValue>>,
    dispatch: Option<Box<RawValue>>,
    document: Option<Box<RawValue>>,
    notification: Option<Box<RawValue>>,
    notification_sha256: Option<String>,
    max_attempts: Option<i64>,
    max_consecutive_failures: Option<i64>,
    max_failures: Option<i64>,
    source_max_attempts: Option<i64>,
    delivery_max_attempts: Option<i64>,
    worker: Option<String>,
    lease_seconds: Option<f64>,
    timeout: Option<f64>,
    client: Option<Script>,
    save: Option<String>,
    claim: Option<String>,
    response: Option<Box<RawValue>>,
    error_code: Option<String>,
    event_id: Option<String>,
    operation: Option<String>,
    request_id: Option<String>,
}

impl Step {
    fn text<'a>(&self, document: &'a Option<Box<RawValue>>) -> &'a str {
        document.as_ref().expect("a document").get()
    }

    fn worker(&self) -> &str {
        self.worker.as_deref().expect("a worker")
    }

    fn lease(&self) -> f64 {
        self.lease_seconds.expect("a lease")
    }

    fn saved<'a, F: Answers>(&self, claims: &'a Claims<F>) -> &'a Claim<F> {
        &claims[self.claim.as_deref().expect("a claim")]
    }

    fn code(&self) -> &str {
        self.error_code.as_deref().expect("a code")
    }

    fn event(&self) -> &str {
        self.event_id.as_deref().expect("an id")
    }

    fn client(&self) -> StepClient<'_> {
        StepClient { script: self.client.as_ref().expect("a client"), timeout: self.timeout }
    }
}

pub(crate) type Claims<F> = HashMap<String, Claim<F>>;

/// One component, driven step by step.
pub(crate) trait Component: Answers {
    fn handle(engine: &Engine) -> &Handle<Self>;
    async fn other(flow: &Handle<Self>, step: &Step, claims: &Claims<Self>)
    -> Result<Value, Error>;
}

async fn step<F: Component>(
    engine: &Engine,
    step: &Step,
    claims: &mut Claims<F>,
) -> Result<Value, Error> {
    let flow = F::handle(engine);
    match step.op.as_str() {
        "claim" => {
            let claimed = flow.claim(step.worker(), step.lease()).await;
            if let (Ok(Some(claim)), Some(name)) = (&claimed, &step.save) {
                claims.insert(name.clone(), claim.clone());
            }
            json(claimed)
        }
        "run_once" => json(flow.run_once(&step.client(), step.worker(), step.lease()).await),
        "health" => json(flow.health().await),
        _ => F::other(flow, step, claims).await,
    }
}

impl Component for Dispatch {
    fn handle(engine: &Engine) -> &Handle<Self> {
        engine.dispatch()
    }

    async fn other(
        flow: &Handle<Self>,
        step: &Step,
        claims: &Claims<Self>,
    ) -> Result<Value, Error> {
        match step.op.as_str() {
            "enqueue" => {
                let ceiling = step.max_attempts.expect("a ceiling");
                json(flow.enqueue(step.text(&step.change), ceiling).await.map(|known| known.status))
            }
            "complete" => json(flow.complete(step.saved(claims), step.text(&step.response)).await),
            "retry" => json(flow.retry(step.saved(claims), step.code()).await),
            "fail" => json(flow.fail(step.saved(claims), step.code()).await),
            "status" => json(flow.status(step.event()).await),
            other => panic!("no operation {other}"),
        }
    }
}

impl Component for Lifecycle {
    fn handle(engine: &Engine) -> &Handle<Self> {
        engine.lifecycle()
    }

    async fn other(
        flow: &Handle<Self>,
        step: &Step,
        claims: &Claims<Self>,
    ) -> Result<Value, Error> {
        match step.op.as_str() {
            "register" => {
                let ceiling = step.max_consecutive_failures.expect("a ceiling");
                let (change, dispatch) = (step.text(&step.change), step.text(&step.dispatch));
                json(
                    flow.register_change(change, dispatch, ceiling).await.map(|known| known.status),
                )
            }
            "complete" => json(flow.complete(step.saved(claims), step.text(&step.response)).await),
            "retry" => json(flow.retry(step.saved(claims), step.code()).await),
            "fail" => json(flow.fail(step.saved(claims), step.code()).await),
            "status" => json(flow.status(step.event()).await),
            other => panic!("no operation {other}"),
        }
    }
}

impl Component for Processing {
    fn handle(engine: &Engine) -> &Handle<Self> {
        engine.processing()
    }

    async fn other(flow: &Handle<Self>, step: &Step, _: &Claims<Self>) -> Result<Value, Error> {
        match step.op.as_str() {
            "register" => {
                let ceiling = step.max_failures.expect("a ceiling");
                let sha256 = step.notification_sha256.as_deref().expect("a hash");
                let notification = step.text(&step.notification);
                let known = flow.register_notification(notification, sha256, ceiling).await;
                json(known.map(|known| known.status))
            }
            "status" => json(flow.status(step.event()).await),
            other => panic!("no operation {other}"),
        }
    }
}

impl Component for Delivery {
    fn handle(engine: &Engine) -> &Handle<Self> {
        engine.delivery()
    }

    async fn other(
        flow: &Handle<Self>,
        step: &Step,
        claims: &Claims<Self>,
    ) -> Result<Value, Error> {
        let source = step.source_max_attempts.unwrap_or_default();
        let delivery = step.delivery_max_attempts.unwrap_or_default();
        match step.op.as_str() {
            "enqueue_change" => {
                let known = flow.enqueue_change(step.text(&step.document), source, delivery).await;
                json(known.map(|known| known.status))
            }
            "enqueue_removal" => {
                let known = flow.enqueue_removal(step.text(&step.document), source, delivery).await;
                json(known.map(|known| known.status))
            }
            "complete" => json(flow.complete(step.saved(claims), step.text(&step.response)).await),
            "status" => {
                let operation = step.operation.as_deref().expect("an operation");
                json(flow.status(operation, step.request_id.as_deref().expect("an id")).await)
            }
            other => panic!("no operation {other}"),
        }
    }
}

async fn open(
    journal: EngineBuilder,
    config: &Config,
    clock: &ManualClock,
    end_leases: bool,
) -> Engine {
    let delays = Delays {
        base_delay_seconds: config.base_delay_seconds,
        max_delay_seconds: config.max_delay_seconds,
        poll_interval_seconds: config.poll_interval_seconds.unwrap_or(30.0),
        ..Delays::default()
    };
    let delays = FlowDelays {
        dispatch: delays,
        lifecycle: delays,
        notification: delays,
        processing: delays,
        delivery: delays,
    };
    let mut builder = journal.clock(clock.clone()).delays(delays).end_leases_on_open(end_leases);
    if let Some(digest) = &config.expected_capabilities_sha256 {
        builder = builder.receiver_digest(digest);
        if let Some(longest_call_seconds) = config.timeout {
            let capabilities_sha256 = digest.clone();
            builder =
                builder.source_runtime(SourceRuntime { capabilities_sha256, longest_call_seconds });
        }
    }
    builder.open().await.expect("the engine opens")
}

/// Replays a trace against a journal; `end_leases` is whether leases of an earlier life end when it is opened.
pub(crate) fn against<F: Component>(
    trace: &Trace,
    journal: EngineBuilder,
    end_leases: bool,
    compared: &mut Compared,
) {
    run(async {
        let clock = ManualClock::at(trace.steps.first().map_or(0.0, |first| first.now));
        let engine = open(journal, &trace.config, &clock, end_leases).await;
        let mut claims = Claims::<F>::new();
        for (number, one) in trace.steps.iter().enumerate() {
            clock.set(one.now);
            let ours = step::<F>(&engine, one, &mut claims).await;
            let place = format!("{} step {number} {}", trace.name, one.op);
            compared.step(ours, &one.expect, &place);
        }
        engine.close().await;
    });
}

fn replay<F: Component>(name: &str, journal: &dyn Fn() -> EngineBuilder) {
    let mut compared = Compared::default();
    for line in lines(&format!("{name}.jsonl")) {
        let trace: Trace = serde_json::from_str(&line).expect("a trace");
        assert_eq!((trace.component.as_str(), &trace.store), (name, &None));
        against::<F>(&trace, journal(), false, &mut compared);
    }
    println!("{name}: {} steps, {} fields compared", compared.steps, compared.fields);
    assert!(compared.steps > 0 && compared.fields > compared.steps);
}

mod memory {
    use super::{Delivery, Dispatch, Engine, EngineBuilder, Lifecycle, Processing, replay};
    use leasehold::MemoryDisk;

    fn journal() -> EngineBuilder {
        Engine::in_memory(&MemoryDisk::new())
    }

    #[test]
    fn conformance_of_dispatch_traces() {
        replay::<Dispatch>("dispatch", &journal);
    }

    #[test]
    fn conformance_of_lifecycle_traces() {
        replay::<Lifecycle>("lifecycle", &journal);
    }

    #[test]
    fn conformance_of_processing_traces() {
        replay::<Processing>("processing", &journal);
    }

    #[test]
    fn conformance_of_delivery_traces() {
        replay::<Delivery>("delivery", &journal);
    }
}

#[cfg(feature = "postgres")]
mod server {
    use super::{Delivery, Dispatch, Lifecycle, Processing, replay};
    use crate::postgres::{builder, cluster};

    #[test]
    fn conformance_of_dispatch_traces() {
        let Some(cluster) = cluster() else { return };
        replay::<Dispatch>("dispatch", &|| builder(&cluster.place()));
    }

    #[test]
    fn conformance_of_lifecycle_traces() {
        let Some(cluster) = cluster() else { return };
        replay::<Lifecycle>("lifecycle", &|| builder(&cluster.place()));
    }

    #[test]
    fn conformance_of_processing_traces() {
        let Some(cluster) = cluster() else { return };
        replay::<Processing>("processing", &|| builder(&cluster.place()));
    }

    #[test]
    fn conformance_of_delivery_traces() {
        let Some(cluster) = cluster() else { return };
        replay::<Delivery>("delivery", &|| builder(&cluster.place()));
    }
}
