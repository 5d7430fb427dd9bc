//! What the other sides answer, as the contract has it.
//!
//! Owns the text of good answers and how far the other side has come with each. Must not know whether an
//! answer arrives.

use leasehold_actors::contract::lifecycle::RESPONSE_SCHEMA;
use leasehold_actors::contract::notification::acknowledgement;
use leasehold_actors::contract::receiver;
use leasehold_actors::flows::delivery::DeliveryBinding;
use leasehold_actors::flows::dispatch::DispatchBinding;
use leasehold_actors::flows::lifecycle::LifecycleBinding;
use leasehold_actors::flows::notification::NotifyBinding;
use leasehold_actors::flows::processing::ProcessingBinding;

/// How a change goes on at the CMS, before its end.
const COURSE: [&str; 4] = ["queue_recovery", "processing", "awaiting_approval", "publishing"];
/// How it may end there.
const ENDS: [&str; 6] = [
    "published",
    "localization_failed",
    "published",
    "cancelled",
    "deleted",
    "publication_blocked",
];

/// The CMS takes a change.
pub(crate) fn dispatch(binding: &DispatchBinding, temper: u64, progress: u64) -> String {
    let status = match temper % 8 {
        0 => "superseded",
        1 => "cancelled",
        2.. => "enqueued",
    };
    let inserted = if progress == 0 { 2 } else { 0 };
    format!(
        r#"{{"schema": "blun.website-localization-api.v2", "event_id": "{}", "plan_id": "plan-1",
            "job_count": 2, "inserted_jobs": {inserted}, "status": "{status}"}}"#,
        binding.event_id
    )
}

/// The CMS says where a change stands.
pub(crate) fn lifecycle(binding: &LifecycleBinding, temper: u64, stage: u64, read: u64) -> String {
    let end = ENDS[(temper % 6) as usize];
    let status = COURSE.get(stage as usize).copied().unwrap_or(end);
    let (pending, succeeded) = match stage {
        0 => (0, 0),
        1 => (2, 0),
        2 => (1, 1),
        3.. => (0, 2),
    };
    let request_id =
        if read.is_multiple_of(2) { format!("{read:032x}") } else { format!("read-{read}") };
    format!(
        r#"{{"schema": "{RESPONSE_SCHEMA}", "request_id": "{request_id}", "event_id": "{}",
            "site_id": "{}", "plan_id": "{}", "website_version": "{}", "source_sequence": {},
            "status": "{status}", "required_locales": ["fi-FI", "mt-MT"], "approved_locales": [],
            "blocked_locales": [], "queue_counts": {{"failed": 0, "leased": 0,
            "pending": {pending}, "retry_wait": 0, "succeeded": {succeeded}}},
            "delivery": null, "tombstone": null}}"#,
        binding.event_id,
        binding.site_id,
        binding.plan_id,
        binding.website_version,
        binding.source_sequence
    )
}

/// The receiver acknowledges.
pub(crate) fn notification(binding: &NotifyBinding) -> String {
    let NotifyBinding { event_id, site_id, notification_id, notification_sha256, .. } = binding;
    acknowledgement(event_id, site_id, notification_id, *notification_sha256).as_str().to_owned()
}

/// The receiver says how far it has come.
pub(crate) fn processing(binding: &ProcessingBinding, temper: u64, stage: u64) -> String {
    let error = r#""receiver.busy""#;
    let (status, attempts, lease, code, done) = match (stage, temper % 5) {
        (0, _) => ("pending", 0, "null", "null", "null"),
        (1, _) => ("leased", 1, "60.5", "null", "null"),
        (2, _) => ("retry_wait", 1, "null", error, "null"),
        (_, 0) => ("failed", 2, "null", error, "null"),
        (_, _) => ("succeeded", 2, "null", "null", "90"),
    };
    format!(
        r#"{{"schema": "{}", "notification_id": "{}", "event_id": "{}", "site_id": "{}",
            "terminal_status": "{}", "notification_sha256": "{}",
            "processing_status": "{status}", "attempts": {attempts}, "max_attempts": 5,
            "next_attempt_at": 50, "lease_expires_at": {lease}, "lease_expired": false,
            "last_error_code": {code}, "processed_at": {done}, "capabilities_sha256": "{}"}}"#,
        receiver::RESPONSE_SCHEMA,
        binding.notification_id,
        binding.event_id,
        binding.site_id,
        binding.terminal_status.name(),
        binding.notification_sha256,
        binding.capabilities_sha256
    )
}

/// The source runtime takes a document.
pub(crate) fn delivery(binding: &DeliveryBinding) -> String {
    format!(
        r#"{{"schema": "{}", "operation": "{}", "request_id": "{}", "event_id": "{}",
            "payload_sha256": "{}", "status": "pending", "attempts": 0, "max_attempts": {},
            "capabilities_sha256": "{}"}}"#,
        binding.operation.response_schema(),
        binding.operation.name(),
        binding.request_id,
        binding.event_id,
        binding.payload_sha256,
        binding.source_max_attempts.get(),
        binding.capabilities_sha256
    )
}
