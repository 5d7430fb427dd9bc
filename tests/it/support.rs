//! What several tests share.

use leasehold::{
    CallFailure, ChangeRequest, Client, Dispatch, Engine, FlowDelays, ManualClock, MemoryDisk,
};
use leasehold_actors::contract::payload::Payload;
use std::collections::VecDeque;
use std::future::Future;
use std::sync::Mutex;

/// Runs a future to its end on a runtime of its own.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(future)
}

/// A change event with this id, valid in every respect.
pub(crate) fn change(event_id: &str) -> String {
    change_with(event_id, "Frischer Kaffee für 3 €.")
}

/// A change event with this id and text.
pub(crate) fn change_with(event_id: &str, text: &str) -> String {
    serde_json::json!({
        "schema": "blun.cms-content-change.v2",
        "event_id": event_id,
        "site_id": "site-1",
        "website_version": "web-1",
        "source_sequence": 1,
        "localization": {
            "source_id": "landing.intro",
            "source_revision": "rev 1",
            "source_text": text,
            "source_locale": "de-AT",
            "content_type": "marketing",
            "glossary_version": "g-1",
            "policy_version": "p-1",
            "provider_id": "prov",
            "model_id": "m",
            "model_version": "2",
            "software_version": "1.0",
            "target_locales": ["fi-FI", "mt-MT"],
        },
    })
    .to_string()
}

/// The acknowledged notification of a published change, under this id.
pub(crate) fn notification(event_id: &str, notification_id: &str) -> serde_json::Value {
    serde_json::json!({
        "schema": "blun.cms-source-terminal-notification.v1",
        "event_id": event_id,
        "site_id": "site-1",
        "plan_id": "plan-1",
        "website_version": "web-1",
        "source_sequence": 7,
        "job_count": 2,
        "change_sha256": "d".repeat(64),
        "lifecycle_binding_sha256": "e".repeat(64),
        "terminal_status": "published",
        "lifecycle_sha256": "f".repeat(64),
        "notification_id": notification_id,
    })
}

/// The hash of a document's canonical form, in hex.
pub(crate) fn sha256(document: &serde_json::Value) -> String {
    let text = document.to_string();
    let (_, payload) = Payload::parse(text.as_bytes(), usize::MAX).expect("it is JSON");
    payload.sha256().to_string()
}

/// A valid answer to the change with this id.
pub(crate) fn accepted(event_id: &str, inserted: u64) -> String {
    serde_json::json!({
        "schema": "blun.website-localization-api.v2",
        "event_id": event_id,
        "plan_id": "plan-1",
        "job_count": 2,
        "inserted_jobs": inserted,
        "status": "enqueued",
    })
    .to_string()
}

/// A marked failure.
pub(crate) fn marked(code: &str, retryable: bool) -> CallFailure {
    CallFailure::Marked { code: code.to_owned(), retryable, retry_after_seconds: None }
}

/// A client that answers from a script and remembers what it was given.
#[derive(Default)]
pub(crate) struct Scripted {
    answers: Mutex<VecDeque<Result<String, CallFailure>>>,
    seen: Mutex<Vec<ChangeRequest>>,
    timeout: Option<f64>,
}

impl Scripted {
    pub(crate) fn new(answers: impl IntoIterator<Item = Result<String, CallFailure>>) -> Self {
        Self { answers: Mutex::new(answers.into_iter().collect()), ..Self::default() }
    }

    pub(crate) fn with_timeout(mut self, seconds: f64) -> Self {
        self.timeout = Some(seconds);
        self
    }

    pub(crate) fn calls(&self) -> Vec<ChangeRequest> {
        self.seen.lock().expect("not poisoned").clone()
    }
}

impl Client<Dispatch> for Scripted {
    fn longest_call_seconds(&self) -> Option<f64> {
        self.timeout
    }

    async fn call(&self, request: ChangeRequest) -> Result<Vec<u8>, CallFailure> {
        self.seen.lock().expect("not poisoned").push(request);
        let answer = self.answers.lock().expect("not poisoned").pop_front();
        answer.expect("the script has an answer for every call").map(String::into_bytes)
    }
}

/// An engine in memory at a manual clock, with the scenarios' delays: base 5, max 20.
pub(crate) async fn engine(disk: &MemoryDisk, clock: &ManualClock) -> Engine {
    engine_with(disk, clock, 5.0, 20.0).await
}

/// The same with other delays.
pub(crate) async fn engine_with(
    disk: &MemoryDisk,
    clock: &ManualClock,
    base: f64,
    max: f64,
) -> Engine {
    let delays = leasehold::Delays {
        base_delay_seconds: base,
        max_delay_seconds: max,
        ..leasehold::Delays::default()
    };
    Engine::in_memory(disk)
        .clock(clock.clone())
        .delays(FlowDelays {
            dispatch: delays,
            lifecycle: delays,
            notification: delays,
            processing: delays,
            delivery: delays,
        })
        .end_leases_on_open(false)
        .open()
        .await
        .expect("the engine opens")
}

/// The code of a refused call.
pub(crate) fn code<T: std::fmt::Debug>(result: Result<T, leasehold::Error>) -> String {
    result.expect_err("it is refused").code().to_owned()
}

/// Snapshot settings of one area: files under `snapshots/<area>/`, without a module prefix and
/// without redactions: what would need one has found a leak.
pub(crate) fn snapshots(area: &str) -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(format!("{}/snapshots/{area}", env!("CARGO_MANIFEST_DIR")));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings
}

/// The program, ready to be given arguments.
pub(crate) fn program() -> std::process::Command {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_leasehold"));
    command.env_remove("RUST_LOG");
    command
}

/// A file of the project's own examples.
pub(crate) fn example(name: &str) -> String {
    format!("{}/examples/{name}", env!("CARGO_MANIFEST_DIR"))
}
