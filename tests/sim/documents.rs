//! The documents that go in, built once for each thread.
//!
//! Owns valid changes, cancellations and tombstones, each in two forms under one identity, so that a
//! registration can be repeated or collide. The marker is in each of them.

use leasehold_actors::contract::change::Change;
use leasehold_actors::contract::source::Document;
use leasehold_actors::contract::text::Sha256;

/// What must never be printed.
pub(crate) const CANARY: &str = "canary";
/// Changes there are.
pub(crate) const EVENTS: usize = 3;
/// Documents of one change for the source runtime: itself, a cancellation, a tombstone.
pub(crate) const OPERATIONS: usize = 3;

/// All documents.
#[derive(Debug)]
pub(crate) struct Documents {
    /// By change, then by form.
    pub(crate) changes: Vec<[Change; 2]>,
    /// By change times [`OPERATIONS`] plus operation, then by form.
    pub(crate) deliveries: Vec<[Document; 2]>,
    /// The digests another side may have.
    pub(crate) digests: [Sha256; 2],
}

impl Documents {
    /// Builds them.
    pub(crate) fn new() -> Self {
        let parsed = |text: String| Change::parse(text.as_bytes()).expect("a valid change");
        let document = |text: String| Document::parse(text.as_bytes()).expect("a valid document");
        let forms = |event| [0, 1].map(|form| parsed(change(event, form)));
        let mut deliveries = Vec::new();
        for event in 0..EVENTS {
            deliveries.push([0, 1].map(|form| document(change(event, form))));
            deliveries.push([0, 1].map(|form| document(removal(event, form, "cancellation", 10))));
            deliveries.push([0, 1].map(|form| document(removal(event, form, "tombstone", 20))));
        }
        Self {
            changes: (0..EVENTS).map(forms).collect(),
            deliveries,
            digests: [Sha256::of(b"one"), Sha256::of(b"two")],
        }
    }
}

fn change(event: usize, form: usize) -> String {
    format!(
        r#"{{"schema": "blun.cms-content-change.v2", "event_id": "event-{event}",
            "site_id": "site-1", "website_version": "web-{form}", "source_sequence": {},
            "localization": {{"source_id": "landing.intro", "source_revision": "1",
                "source_text": "{CANARY} text {form}", "source_locale": "de-AT",
                "content_type": "marketing", "glossary_version": "g-1", "policy_version": "p-1",
                "provider_id": "prov", "model_id": "m", "model_version": "2",
                "software_version": "1.0", "target_locales": ["fi-FI", "mt-MT"]}}}}"#,
        event + 1
    )
}

fn removal(event: usize, form: usize, kind: &str, from: usize) -> String {
    format!(
        r#"{{"schema": "blun.cms-content-{kind}.v1", "{kind}_id": "removal-{}",
            "event_id": "event-{event}", "site_id": "site-1", "website_version": "web-{form}",
            "source_id": "{CANARY}", "source_sequence": {}}}"#,
        from + event,
        event + 1
    )
}
