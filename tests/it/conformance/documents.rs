//! Single documents: the hash of what is accepted, the code of what is refused.

use super::lines;
use crate::support::{change, run};
use leasehold::{Engine, EngineBuilder, Error, ManualClock, SourceRuntime};
use leasehold_actors::contract::json::Value as Json;
use leasehold_actors::contract::payload::Payload;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

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

    fn context(&self, key: &str) -> &str {
        self.context[key].as_str().expect("a text")
    }

    async fn engine(&self, journal: EngineBuilder) -> Engine {
        let digest = self.context["capabilities_sha256"].as_str().unwrap_or_default();
        let digest = if digest.is_empty() { "a".repeat(64) } else { digest.to_owned() };
        journal
            .clock(ManualClock::at(1.0))
            .receiver_digest(&digest)
            .source_runtime(SourceRuntime {
                capabilities_sha256: digest,
                longest_call_seconds: 30.0,
            })
            .open()
            .await
            .expect("the engine opens")
    }
}

/// A change with the ids that a context names.
fn change_of(context: &Value) -> String {
    let mut value: Value =
        serde_json::from_str(&change(context["event_id"].as_str().expect("an id"))).expect("JSON");
    for key in ["site_id", "website_version", "source_sequence"] {
        if !context[key].is_null() {
            value[key] = context[key].clone();
        }
    }
    value.to_string()
}

/// The dispatch status that registers the change of a context.
fn dispatched(context: &Value, change: &str) -> String {
    let sha256 = Payload::of(&Json::parse(change.as_bytes()).expect("JSON")).sha256().to_string();
    json!({
        "event_id": context["event_id"],
        "payload_sha256": sha256,
        "status": "succeeded",
        "remote_plan_id": context["plan_id"],
        "remote_job_count": context["job_count"],
        "remote_status": "enqueued",
        "response_sha256": "b".repeat(64),
    })
    .to_string()
}

/// What the engine makes of a document: the hash it keeps, or the code.
async fn arrival(engine: &Engine, document: &Document) -> Result<String, Error> {
    let context = &document.context;
    match document.kind.as_str() {
        "change" => {
            let known = engine.dispatch().enqueue(&document.text, 5).await?;
            Ok(known.status.payload_sha256.to_string())
        }
        "removal" => {
            let known = engine.delivery().enqueue_removal(&document.text, 5, 5).await?;
            Ok(known.status.payload_sha256.to_string())
        }
        "dispatch_response" => {
            let flow = engine.dispatch();
            flow.enqueue(change(document.context("event_id")), 5).await?;
            let claim = flow.claim("w", 60.0).await?.expect("it is due");
            let status = flow.complete(&claim, &document.text).await?;
            Ok(status.response_sha256.expect("it succeeded").to_string())
        }
        "lifecycle_response" => {
            let flow = engine.lifecycle();
            let change = change_of(context);
            flow.register_change(&change, dispatched(context, &change), 5).await?;
            let claim = flow.claim("w", 60.0).await?.expect("it is due");
            let status = flow.complete(&claim, &document.text).await?;
            Ok(status.lifecycle_sha256.expect("there is an answer").to_string())
        }
        "receiver_status" => answered(engine, document).await,
        "source_response" => {
            let flow = engine.delivery();
            let source = context["source_max_attempts"].as_i64().expect("a ceiling");
            let given = context["document"].to_string();
            if context["document"]["schema"] == "blun.cms-content-change.v2" {
                flow.enqueue_change(&given, source, 5).await?;
            } else {
                flow.enqueue_removal(&given, source, 5).await?;
            }
            let claim = flow.claim("w", 60.0).await?.expect("it is due");
            let status = flow.complete(&claim, &document.text).await?;
            Ok(status.response_sha256.expect("it succeeded").to_string())
        }
        other => panic!("no kind {other}"),
    }
}

/// A receiver's answer cannot be completed by hand; the attempt tells whether it was taken.
async fn answered(engine: &Engine, document: &Document) -> Result<String, Error> {
    struct Answer<'a>(&'a str);
    impl leasehold::Client<leasehold::Processing> for Answer<'_> {
        fn longest_call_seconds(&self) -> Option<f64> {
            None
        }
        async fn call(
            &self,
            _: leasehold::ProcessingRequest,
        ) -> Result<Vec<u8>, leasehold::CallFailure> {
            Ok(self.0.as_bytes().to_vec())
        }
    }
    let flow = engine.processing();
    let notification = document.context["notification"].to_string();
    let sha256 = document.context("notification_sha256");
    flow.register_notification(&notification, sha256, 5).await?;
    let attempt = flow.run_once(&Answer(&document.text), "w", 60.0).await?.expect("it is due");
    let code = attempt.error_code.map(|code| code.to_string()).unwrap_or_default();
    if code == "terminal_processing_monitor.response_invalid" {
        return Err(Error::Blocked(leasehold_actors::arguments::Blocked::new::<
            leasehold::Processing,
        >("response_invalid")));
    }
    let status = flow.status(document.context["notification"]["event_id"].as_str().expect("an id"));
    assert!(status.await?.receiver_status.is_some());
    Ok(document.canonical().expect("what is accepted is JSON"))
}

/// Every document, or every so many: what is accepted is the parser's decision and not the store's.
fn replay(journal: &dyn Fn() -> EngineBuilder, every: usize) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let all: Vec<String> = lines("documents.jsonl").into_iter().step_by(every).collect();
    for line in &all {
        let document: Document = serde_json::from_str(line).expect("a document");
        if document.kind == "canonical" {
            let expected = if document.accept { document.sha256.clone() } else { None };
            assert_eq!(document.canonical(), expected, "{line}");
        } else {
            run(async {
                let engine = document.engine(journal()).await;
                match arrival(&engine, &document).await {
                    Ok(sha256) => assert_eq!(Some(sha256), document.sha256, "{line}"),
                    Err(error) => {
                        assert_eq!(Some(error.code()), document.error.as_deref(), "{line}")
                    }
                }
            });
        }
        *counts.entry(document.kind).or_default() += 1;
    }
    println!("documents compared: {counts:?}");
    assert_eq!(counts.values().sum::<usize>(), all.len(), "no line is skipped");
    assert_eq!(counts.len(), 7, "every kind is there");
}

mod memory {
    use leasehold::{Engine, MemoryDisk};

    #[test]
    fn conformance_of_documents() {
        super::replay(&|| Engine::in_memory(&MemoryDisk::new()), 1);
    }
}

#[cfg(feature = "postgres")]
mod server {
    use crate::postgres::{builder, cluster};

    #[test]
    fn conformance_of_documents() {
        let Some(cluster) = cluster() else { return };
        super::replay(&|| builder(&cluster.place()), 5);
    }
}
