//! Traces into OpenTelemetry: each attempt is a span, with its flow and its number, in whatever subscriber
//! the host has set.
//!
//! The exporter here keeps spans in memory, so that nothing but this process is needed; a host uses that of
//! `opentelemetry-otlp`. No span carries a text, an id or an answer.

use leasehold::{CallFailure, ChangeRequest, Client, Dispatch, Engine, MemoryDisk};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Stands for the host's own transport.
struct Transport;

impl Client<Dispatch> for Transport {
    fn longest_call_seconds(&self) -> Option<f64> {
        Some(30.0)
    }

    async fn call(&self, request: ChangeRequest) -> Result<Vec<u8>, CallFailure> {
        // Spans of the host's own transport become children of the attempt.
        let _span = tracing::info_span!("host_call").entered();
        let answer = format!(
            r#"{{"schema": "blun.website-localization-api.v2", "event_id": "{}", "plan_id": "plan-1",
                "job_count": 2, "inserted_jobs": 2, "status": "enqueued"}}"#,
            request.event_id
        );
        Ok(answer.into_bytes())
    }
}

#[derive(Debug, Clone, Default)]
struct Kept(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for Kept {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(batch);
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let kept = Kept::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(kept.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("host"));
    tracing_subscriber::registry().with(layer).try_init()?;

    let engine = Engine::in_memory(&MemoryDisk::new()).open().await?;
    let change = include_str!("changes.ndjson").lines().next().ok_or("an example")?;
    engine.dispatch().enqueue(change, 5).await?;
    engine.dispatch().run_once(&Transport, "worker-1", 600.0).await?.ok_or("it is due")?;
    engine.close().await;
    provider.shutdown()?;

    let spans = kept.0.lock().unwrap_or_else(PoisonError::into_inner);
    let span = |name: &str| spans.iter().find(|span| span.name == name).ok_or("it was exported");
    let (attempt, call) = (span("attempt")?, span("host_call")?);
    for pair in &attempt.attributes {
        println!("{} = {}", pair.key, pair.value);
    }
    let value = |key: &str| {
        let found = attempt.attributes.iter().find(|pair| pair.key.as_str() == key);
        found.map(|pair| pair.value.to_string())
    };
    assert_eq!(
        (value("flow").as_deref(), value("attempt").as_deref()),
        (Some("dispatch"), Some("1"))
    );
    assert_eq!(call.parent_span_id, attempt.span_context.span_id());
    Ok(())
}

#[test]
fn an_attempt_is_a_span() {
    main().expect("it runs to its end");
}
