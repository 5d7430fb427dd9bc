//! What the reference answered, replayed: every step, every field.
//!
//! The folder is `LEASEHOLD_CONFORMANCE_DIR`, or `tests/conformance`; any set of the same form passes.

use crate::support::{change, engine_with, run};
use leasehold::{
    CallFailure, ChangeRequest, Claim, Client, Dispatch, Engine, Error, ManualClock, MemoryDisk,
};
use leasehold_actors::contract::json::Value as Json;
use leasehold_actors::contract::payload::Payload;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::path::PathBuf;

fn folder() -> PathBuf {
    std::env::var_os("LEASEHOLD_CONFORMANCE_DIR").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance")),
        PathBuf::from,
    )
}

fn lines(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder().join(name)).expect("the vectors are readable");
    text.split('\n').filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Counts what was compared, so that a test that compares nothing fails.
#[derive(Debug, Default)]
struct Compared {
    steps: usize,
    fields: usize,
}

impl Compared {
    /// Every field of `expected` must be there, equal in type and value; what we have beside it must
    /// be empty.
    fn values(&mut self, ours: &Value, expected: &Value, place: &str) {
        match (ours, expected) {
            (Value::Object(ours), Value::Object(expected)) => {
                for (key, value) in expected {
                    let found = ours.get(key).unwrap_or_else(|| panic!("{place}: no {key}"));
                    self.values(found, value, &format!("{place}.{key}"));
                }
                for (key, value) in ours.iter().filter(|(key, _)| !expected.contains_key(*key)) {
                    let empty = match value {
                        Value::Null => true,
                        Value::Bool(value) => !value,
                        Value::Number(value) => value.as_f64() == Some(0.0),
                        Value::String(value) => value.is_empty(),
                        Value::Array(value) => value.is_empty(),
                        Value::Object(value) => value.is_empty(),
                    };
                    assert!(empty, "{place}: {key} is ours and not empty");
                }
            }
            (ours, expected) => {
                assert_eq!(ours, expected, "{place}");
                self.fields += 1;
            }
        }
    }

    fn step(&mut self, ours: Result<Value, Error>, expected: &Expect, place: &str) {
        self.steps += 1;
        match (ours, expected) {
            (Ok(ours), Expect::Ok(expected)) => self.values(&ours, expected, place),
            (Err(error), Expect::Error(code)) => {
                assert_eq!(error.code(), code, "{place}");
                self.fields += 1;
            }
            (ours, expected) => panic!("{place}: {ours:?} where {expected:?} is expected"),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Expect {
    Ok(Value),
    Error(String),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Script {
    Respond(Box<RawValue>),
    Fail { code: Value, retryable: Value, marked: bool },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Trace {
    component: String,
    name: String,
    config: HashMap<String, Value>,
    steps: Vec<Step>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    op: String,
    now: f64,
    expect: Expect,
    change: Option<Box<RawValue>>,
    max_attempts: Option<i64>,
    worker: Option<String>,
    lease_seconds: Option<f64>,
    timeout: Option<f64>,
    client: Option<Script>,
    save: Option<String>,
    claim: Option<String>,
    response: Option<Box<RawValue>>,
    error_code: Option<String>,
    event_id: Option<String>,
}

/// Answers one call as a step says, and notes whether it was made.
struct StepClient<'a> {
    script: &'a Script,
    timeout: Option<f64>,
}

impl Client<Dispatch> for StepClient<'_> {
    fn longest_call_seconds(&self) -> Option<f64> {
        self.timeout
    }

    async fn call(&self, _: ChangeRequest) -> Result<Vec<u8>, CallFailure> {
        match self.script {
            Script::Respond(document) => Ok(document.get().as_bytes().to_vec()),
            Script::Fail { marked: false, .. } => Err(CallFailure::Unmarked),
            Script::Fail { code, retryable, .. } => Err(CallFailure::Marked {
                // A code that is no text is malformed, as an empty one is.
                code: code.as_str().unwrap_or_default().to_owned(),
                retryable: *retryable == Value::Bool(true),
                retry_after_seconds: None,
            }),
        }
    }
}

fn json<T: serde::Serialize>(result: Result<T, Error>) -> Result<Value, Error> {
    result.map(|value| serde_json::to_value(value).expect("our types serialise"))
}

async fn dispatch_step(
    engine: &Engine,
    step: &Step,
    claims: &mut HashMap<String, Claim<Dispatch>>,
) -> Result<Value, Error> {
    let flow = engine.dispatch();
    let text =
        |document: &Option<Box<RawValue>>| document.as_ref().expect("a document").get().to_owned();
    let worker = || step.worker.as_deref().expect("a worker");
    let lease = || step.lease_seconds.expect("a lease");
    let claim = |claims: &HashMap<String, Claim<Dispatch>>| {
        claims[step.claim.as_deref().expect("a claim")].clone()
    };
    let error_code = || step.error_code.as_deref().expect("a code");
    match step.op.as_str() {
        "enqueue" => {
            let ceiling = step.max_attempts.expect("a ceiling");
            json(flow.enqueue(text(&step.change), ceiling).await.map(|known| known.status))
        }
        "claim" => {
            let claimed = flow.claim(worker(), lease()).await;
            if let (Ok(Some(claim)), Some(name)) = (&claimed, &step.save) {
                claims.insert(name.clone(), claim.clone());
            }
            json(claimed)
        }
        "run_once" => {
            let script = step.client.as_ref().expect("a client");
            let client = StepClient { script, timeout: step.timeout };
            json(flow.run_once(&client, worker(), lease()).await)
        }
        "complete" => json(flow.complete(&claim(claims), text(&step.response)).await),
        "retry" => json(flow.retry(&claim(claims), error_code()).await),
        "fail" => json(flow.fail(&claim(claims), error_code()).await),
        "status" => json(flow.status(step.event_id.as_deref().expect("an id")).await),
        "health" => json(flow.health().await),
        other => panic!("no operation {other}"),
    }
}

#[test]
fn conformance_of_dispatch_traces() {
    let mut compared = Compared::default();
    for line in lines("dispatch.jsonl") {
        let trace: Trace = serde_json::from_str(&line).expect("a trace");
        assert_eq!(trace.component, "dispatch");
        let delay = |key: &str| trace.config[key].as_f64().expect("a delay");
        assert_eq!(trace.config.len(), 2, "{}: a setting we do not know", trace.name);
        run(async {
            let clock = ManualClock::at(0.0);
            let (base, max) = (delay("base_delay_seconds"), delay("max_delay_seconds"));
            let engine = engine_with(&MemoryDisk::new(), &clock, base, max).await;
            let mut claims = HashMap::new();
            for (number, step) in trace.steps.iter().enumerate() {
                clock.set(step.now);
                let ours = dispatch_step(&engine, step, &mut claims).await;
                let place = format!("{} step {number} {}", trace.name, step.op);
                compared.step(ours, &step.expect, &place);
            }
            engine.close().await;
        });
    }
    println!("dispatch: {} steps, {} fields compared", compared.steps, compared.fields);
    assert!(compared.steps > 0 && compared.fields > compared.steps);
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    kind: String,
    context: Value,
    text: String,
    accept: bool,
    sha256: Option<String>,
    error: Option<String>,
}

impl Document {
    fn canonical(&self) -> Option<String> {
        Json::parse(self.text.as_bytes()).ok().map(|value| Payload::of(&value).sha256().to_string())
    }
}

/// What the engine makes of a document: the hash it keeps, or the code.
async fn arrival(engine: &Engine, document: &Document) -> Result<String, Error> {
    let flow = engine.dispatch();
    match document.kind.as_str() {
        "change" => {
            let known = flow.enqueue(&document.text, 5).await?;
            Ok(known.status.payload_sha256.to_string())
        }
        "dispatch_response" => {
            let event_id = document.context["event_id"].as_str().expect("an id");
            flow.enqueue(change(event_id), 5).await?;
            let claim = flow.claim("w", 60.0).await?.expect("it is due");
            let status = flow.complete(&claim, &document.text).await?;
            Ok(status.response_sha256.expect("it succeeded").to_string())
        }
        other => panic!("no kind {other}"),
    }
}

#[test]
fn conformance_of_documents() {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for line in lines("documents.jsonl") {
        let document: Document = serde_json::from_str(&line).expect("a document");
        match document.kind.as_str() {
            "canonical" => {
                let expected = if document.accept { document.sha256.clone() } else { None };
                assert_eq!(document.canonical(), expected, "{line}");
            }
            "change" | "dispatch_response" => run(async {
                let engine =
                    engine_with(&MemoryDisk::new(), &ManualClock::at(1.0), 5.0, 20.0).await;
                match arrival(&engine, &document).await {
                    Ok(sha256) => assert_eq!(Some(sha256), document.sha256, "{line}"),
                    Err(error) => {
                        assert_eq!(Some(error.code()), document.error.as_deref(), "{line}")
                    }
                }
            }),
            // Of flows that are not written yet.
            "lifecycle_response" | "removal" | "receiver_status" | "source_response" => continue,
            other => panic!("no kind {other}"),
        }
        *counts.entry(document.kind).or_default() += 1;
    }
    println!("documents compared: {counts:?}");
    for kind in ["canonical", "change", "dispatch_response"] {
        assert!(counts.get(kind).is_some_and(|count| *count > 0), "no {kind} document");
    }
}
