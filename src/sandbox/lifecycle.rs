//! How far a change has come: a plan that advances by one step with each read.
//!
//! Owns the lifecycle response (contract 2.4) of an accepted change. Pure.

use super::book::Accepted;
use super::reply::{count, object, text};
use leasehold_actors::contract::json::Value;

/// Schema of the answer.
pub const SCHEMA: &str = "blun.cms-localization-lifecycle.v3";

/// The step a change is in after so many reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Processing,
    AwaitingApproval,
    Ready,
    Publishing,
    Published,
}

impl Step {
    fn after(reads: u64) -> Self {
        match reads {
            0 | 1 => Self::Processing,
            2 => Self::AwaitingApproval,
            3 => Self::Ready,
            4 => Self::Publishing,
            _ => Self::Published,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Processing => "processing",
            Self::AwaitingApproval => "awaiting_approval",
            Self::Ready => "ready",
            Self::Publishing => "publishing",
            Self::Published => "published",
        }
    }
}

/// The answer to one read.
#[must_use]
pub fn response(accepted: &Accepted, request_id: &str, reads: u64, now_seconds: f64) -> Value {
    let step = Step::after(reads);
    let locales = |wanted: bool| {
        let items = accepted.locales.iter().filter(|_| wanted).map(|locale| text(locale));
        Value::Array(items.collect())
    };
    let jobs = accepted.locales.len() as u64;
    let succeeded = if step == Step::Processing { jobs / 2 } else { jobs };
    let approved = matches!(step, Step::Ready | Step::Publishing | Step::Published);
    let blocked = if step == Step::AwaitingApproval {
        let pairs = accepted
            .locales
            .iter()
            .map(|locale| Value::Array(vec![text(locale), text("approval.missing")]));
        pairs.collect()
    } else {
        Vec::new()
    };
    object(vec![
        ("schema", text(SCHEMA)),
        ("request_id", text(request_id)),
        ("event_id", text(&accepted.event_id)),
        ("site_id", text(&accepted.site_id)),
        ("plan_id", text(&accepted.plan_id())),
        ("website_version", text(&accepted.website_version)),
        ("source_sequence", count(accepted.source_sequence)),
        ("status", text(step.name())),
        ("required_locales", locales(true)),
        ("approved_locales", locales(approved)),
        ("blocked_locales", Value::Array(blocked)),
        ("queue_counts", queue_counts(jobs, succeeded)),
        ("delivery", delivery(accepted, step, now_seconds)),
        ("tombstone", Value::Null),
    ])
}

fn queue_counts(jobs: u64, succeeded: u64) -> Value {
    object(vec![
        ("failed", count(0)),
        ("leased", count(0)),
        ("pending", count(jobs - succeeded)),
        ("retry_wait", count(0)),
        ("succeeded", count(succeeded)),
    ])
}

fn delivery(accepted: &Accepted, step: Step, now_seconds: f64) -> Value {
    let (status, attempts) = match step {
        Step::Processing | Step::AwaitingApproval | Step::Ready => return Value::Null,
        Step::Publishing => ("pending", 0),
        Step::Published => ("succeeded", 1),
    };
    object(vec![
        ("delivery_id", text(&format!("delivery-{}", &accepted.sha256.to_string()[..12]))),
        ("status", text(status)),
        ("attempts", count(attempts)),
        ("max_attempts", count(5)),
        ("next_attempt_at", Value::Float(now_seconds)),
        ("lease_expires_at", Value::Null),
        ("lease_expired", Value::Bool(false)),
        ("last_error_code", Value::Null),
        ("last_error_detail_hash", Value::Null),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_actors::contract::text::Sha256;

    #[test]
    fn the_plan_advances_with_each_read_and_counts_add_up() {
        let accepted = Accepted {
            event_id: "e".into(),
            sha256: Sha256::of(b""),
            site_id: "s".into(),
            source_id: "i".into(),
            source_sequence: 1,
            website_version: "w".into(),
            locales: vec!["fi-FI".into(), "hu-HU".into(), "mt-MT".into()],
            superseded: false,
        };
        let status = |reads| {
            let value = response(&accepted, "r", reads, 5.0);
            let object = value.as_object().expect("an object");
            let counts = object.get("queue_counts").and_then(Value::as_object).expect("counts");
            let total: u64 = counts.members().filter_map(|(_, value)| value.as_count()).sum();
            assert_eq!(total, 3);
            object.text("status").expect("a status").to_owned()
        };
        let seen: Vec<_> = (1..=6).map(status).collect();
        assert_eq!(
            seen,
            ["processing", "awaiting_approval", "ready", "publishing", "published", "published"]
        );
    }
}
