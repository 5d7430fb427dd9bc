//! The documents of the contract at their limits, each rule broken alone.
//!
//! Owns what is one step on either side of a limit. The recorded answers of the reference, which the
//! conformance tests replay, have the rest.

use leasehold_actors::contract::canonical;
use leasehold_actors::contract::change::{Change, SOURCE_TEXT_BYTES_MAX};
use leasehold_actors::contract::dispatch::{DispatchResponse, api_error};
use leasehold_actors::contract::json::Value;
use leasehold_actors::contract::notification::{Notification, SCHEMA};
use leasehold_actors::contract::payload::Payload;
use leasehold_actors::contract::text::{ErrorCode, Token};
use leasehold_actors::contract::time::Timestamp;
use serde_json::json;

const CHANGES: &str = include_str!("../../examples/changes.ndjson");

fn value(text: &str) -> Value {
    Value::parse(text.as_bytes()).expect("JSON")
}

fn token(text: &str) -> Token {
    Token::new(text).expect("a token")
}

/// The first example with another source text.
fn change_with(text: &str) -> Vec<u8> {
    let first = CHANGES.lines().next().expect("there is one");
    let mut change: serde_json::Value = serde_json::from_str(first).expect("JSON");
    change["localization"]["source_text"] = json!(text);
    change.to_string().into_bytes()
}

#[test]
fn a_source_text_has_a_million_bytes_at_most() {
    for (bytes, valid) in [(1, true), (999_999, true), (1_000_000, true), (1_000_001, false)] {
        let change = Change::parse(&change_with(&"x".repeat(bytes)));
        assert_eq!(change.is_ok(), valid, "{bytes}");
    }
    assert_eq!(SOURCE_TEXT_BYTES_MAX, 1_000_000);
    assert!(Change::parse(&change_with("")).is_err());
}

#[test]
fn debug_of_a_change_names_it_and_shows_nothing_of_its_text() {
    let change = Change::parse(&change_with("canary text")).expect("a change");
    let shown = format!("{change:?}");
    assert!(shown.starts_with("Change {") && shown.contains(change.event_id.as_str()));
    assert!(!shown.contains("canary"));
}

#[test]
fn debug_of_a_payload_shows_its_hash_and_size_and_nothing_of_its_text() {
    let payload = Payload::of(&value("{\"a\":\"canary\"}"));
    assert_eq!(format!("{payload:?}"), format!("Payload({}, 14 bytes)", payload.sha256()));
}

#[test]
fn lists_and_objects_nest_sixty_four_deep_and_no_deeper() {
    let nested = |open: &str, close: &str, depth: usize| {
        let text = format!("{}1{}", open.repeat(depth), close.repeat(depth));
        Value::parse(text.as_bytes()).is_ok()
    };
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        assert!(nested(open, close, 64), "{open}");
        assert!(!nested(open, close, 65), "{open}");
    }
    for (open, close) in [("[{\"a\":", "}]"), ("{\"a\":[", "]}")] {
        assert!(nested(open, close, 32), "{open}");
        assert!(!nested(open, close, 33), "{open}");
    }
}

#[test]
fn times_are_equal_where_their_seconds_are_and_ordered_by_them() {
    let at = |seconds| Timestamp::new(seconds).expect("a time");
    assert_eq!(at(1.5), at(1.5));
    assert_ne!(at(1.5), at(2.0));
    assert!(at(1.5) < at(2.0) && at(2.0) > at(1.5));
    assert_eq!(at(0.0), at(-0.0));
}

#[test]
fn an_answer_of_the_cms_counts_at_least_one_job_and_no_more_than_it_has() {
    let answer = |jobs: i64, inserted: i64| {
        let answer = json!({
            "schema": "blun.website-localization-api.v2", "event_id": "event-1",
            "plan_id": "plan-1", "job_count": jobs, "inserted_jobs": inserted,
            "status": "enqueued",
        });
        DispatchResponse::parse(answer.to_string().as_bytes(), &token("event-1")).is_ok()
    };
    assert!(answer(1, 0) && answer(1, 1) && answer(2, 1));
    assert!(!answer(0, 0) && !answer(1, 2) && !answer(-1, 0) && !answer(1, -1));
}

#[test]
fn an_error_of_the_cms_is_told_by_its_schema_its_status_and_its_fields_and_by_all_of_them() {
    let error = |schema: &str, status: &str, code: &str| {
        api_error(&value(&json!({"schema": schema, "status": status, "error": code}).to_string()))
    };
    let right = "blun.website-localization-api.v2";
    assert_eq!(error(right, "BLOCK", "cms.queue.rejected"), ErrorCode::new("cms.queue.rejected"));
    assert_eq!(error("another", "BLOCK", "cms.queue.rejected"), None);
    assert_eq!(error(right, "PASS", "cms.queue.rejected"), None);
    assert_eq!(error("another", "PASS", "cms.queue.rejected"), None);
    assert_eq!(error(right, "BLOCK", "No Code"), None);
    let longer = json!({"schema": right, "status": "BLOCK", "error": "cms.a", "more": 1});
    assert_eq!(api_error(&value(&longer.to_string())), None);
    let shorter = json!({"schema": right, "status": "BLOCK"});
    assert_eq!(api_error(&value(&shorter.to_string())), None);
    assert_eq!(api_error(&Value::Null), None);
}

/// A notification with this number in place of one of its counts, its id following from it.
fn notification(key: &str, count: u64) -> Result<Notification, ()> {
    let mut fields = json!({
        "schema": SCHEMA, "event_id": "event-1", "site_id": "site-1",
        "plan_id": "plan-1", "website_version": "web-1", "source_sequence": 3, "job_count": 2,
        "change_sha256": "a".repeat(64), "lifecycle_binding_sha256": "b".repeat(64),
        "lifecycle_sha256": "c".repeat(64), "terminal_status": "published",
    });
    fields[key] = json!(count);
    let without_id = value(&fields.to_string());
    let hash = Payload::of(&without_id).sha256();
    fields["notification_id"] = json!(format!("terminal-{hash}"));
    let text = canonical::print(&value(&fields.to_string()));
    Notification::parse(text.as_bytes()).map_err(drop)
}

#[test]
fn a_notification_counts_from_one_even_where_its_id_is_right() {
    for key in ["source_sequence", "job_count"] {
        assert!(notification(key, 1).is_ok(), "{key}");
        assert!(notification(key, 0).is_err(), "{key}");
    }
}
