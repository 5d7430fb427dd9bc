//! How far a change has come: a plan that advances by one step with each read, its cancellation
//! before the end, its way out after it.
//!
//! Owns the lifecycle response (contract 2.4) of an accepted change, and which removal it still
//! takes. Pure.

use super::book::Look;
use super::ledger::Accepted;
use super::reply::{count, object, text};
use leasehold_actors::contract::json::Value;
use leasehold_actors::contract::lifecycle;
use leasehold_actors::contract::removal::RemovalKind;
use leasehold_actors::contract::text::Token;

/// Schema of the answer.
pub const SCHEMA: &str = lifecycle::RESPONSE_SCHEMA;

/// Where an accepted change stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Its plan goes on with each read.
    Moving,
    /// A read found its plan at the end.
    Published,
    /// It was cancelled before that.
    Cancelled,
    /// It was published and is taken away.
    Leaving {
        /// The tombstone that asked for it.
        tombstone_id: Token,
        /// Reads there had been when it came.
        reads_before: u64,
    },
}

impl Standing {
    /// The step after so many reads, this one included.
    #[must_use]
    pub fn step(&self, reads: u64) -> Step {
        match self {
            Self::Moving => Step::after(reads),
            Self::Published => Step::Published,
            Self::Cancelled => Step::Cancelled,
            Self::Leaving { reads_before, .. } if reads.saturating_sub(*reads_before) > 1 => {
                Step::Deleted
            }
            Self::Leaving { .. } => Step::Deleting,
        }
    }

    /// Whether a removal can still be taken: a cancellation before publication, a tombstone after
    /// it, one of each.
    ///
    /// # Errors
    /// The code of the refusal (contract 3.2).
    pub fn takes(&self, kind: RemovalKind) -> Result<(), &'static str> {
        match (kind, self) {
            (RemovalKind::Cancellation, Self::Moving)
            | (RemovalKind::Tombstone, Self::Published) => Ok(()),
            (RemovalKind::Cancellation, Self::Cancelled) => {
                Err("cms.cancellation.idempotency_collision")
            }
            (RemovalKind::Cancellation, Self::Published | Self::Leaving { .. }) => {
                Err("cms.cancellation.already_published")
            }
            (RemovalKind::Tombstone, Self::Moving | Self::Cancelled) => {
                Err("cms.tombstone.not_published")
            }
            (RemovalKind::Tombstone, Self::Leaving { .. }) => {
                Err("cms.tombstone.idempotency_collision")
            }
        }
    }
}

/// The step a change is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Being localized.
    Processing,
    /// Localized, and waits for approvals.
    AwaitingApproval,
    /// Approved.
    Ready,
    /// Being published.
    Publishing,
    /// Published.
    Published,
    /// Cancelled.
    Cancelled,
    /// Being taken away.
    Deleting,
    /// Taken away.
    Deleted,
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

    /// Its name in the answer.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Processing => "processing",
            Self::AwaitingApproval => "awaiting_approval",
            Self::Ready => "ready",
            Self::Publishing => "publishing",
            Self::Published => "published",
            Self::Cancelled => "cancelled",
            Self::Deleting => "deleting",
            Self::Deleted => "deleted",
        }
    }

    /// Whether nothing more comes by itself.
    #[must_use]
    pub fn is_end(self) -> bool {
        match self {
            Self::Processing
            | Self::AwaitingApproval
            | Self::Ready
            | Self::Publishing
            | Self::Deleting => false,
            Self::Published | Self::Cancelled | Self::Deleted => true,
        }
    }

    fn is_approved(self) -> bool {
        match self {
            Self::Processing | Self::AwaitingApproval | Self::Cancelled => false,
            Self::Ready | Self::Publishing | Self::Published | Self::Deleting | Self::Deleted => {
                true
            }
        }
    }
}

/// The answer to one read.
#[must_use]
pub fn response(look: &Look, request_id: &str, now_seconds: f64) -> Value {
    let accepted = &look.accepted;
    let step = look.standing.step(look.reads);
    let locales = |wanted: bool| {
        let items = accepted.locales.iter().filter(|_| wanted).map(|locale| text(locale));
        Value::Array(items.collect())
    };
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
        ("approved_locales", locales(step.is_approved())),
        ("blocked_locales", Value::Array(blocked)),
        ("queue_counts", queue_counts(accepted.locales.len() as u64, step)),
        ("delivery", delivery(accepted, step, now_seconds)),
        ("tombstone", tombstone(look, step, now_seconds)),
    ])
}

/// Jobs by state. Those of a cancelled change are all counted as cancelled, since nothing of them is
/// used.
fn queue_counts(jobs: u64, step: Step) -> Value {
    let (succeeded, cancelled) = match step {
        Step::Processing => (jobs / 2, None),
        Step::Cancelled => (0, Some(jobs)),
        Step::AwaitingApproval
        | Step::Ready
        | Step::Publishing
        | Step::Published
        | Step::Deleting
        | Step::Deleted => (jobs, None),
    };
    let mut counts = vec![
        ("failed", count(0)),
        ("leased", count(0)),
        ("pending", count(jobs - succeeded - cancelled.unwrap_or(0))),
        ("retry_wait", count(0)),
        ("succeeded", count(succeeded)),
    ];
    counts.extend(cancelled.map(|jobs| ("cancelled", count(jobs))));
    object(counts)
}

fn delivery(accepted: &Accepted, step: Step, now_seconds: f64) -> Value {
    let is_done = match step {
        Step::Processing | Step::AwaitingApproval | Step::Ready | Step::Cancelled => {
            return Value::Null;
        }
        Step::Publishing => false,
        Step::Published | Step::Deleting | Step::Deleted => true,
    };
    object(attempt(&work_id("delivery", accepted), is_done, now_seconds))
}

fn tombstone(look: &Look, step: Step, now_seconds: f64) -> Value {
    let Standing::Leaving { tombstone_id, .. } = &look.standing else { return Value::Null };
    let is_done = step == Step::Deleted;
    let mut members = attempt(&work_id("removal", &look.accepted), is_done, now_seconds);
    members.push(("tombstone_id", text(tombstone_id.as_str())));
    object(members)
}

/// The id of work on a change: derived, so that it is the same after a restart.
fn work_id(prefix: &str, accepted: &Accepted) -> String {
    format!("{prefix}-{}", &accepted.sha256.to_string()[..12])
}

/// The members of an attempt record: not tried yet, or done at the first attempt.
fn attempt(delivery_id: &str, is_done: bool, now_seconds: f64) -> Vec<(&'static str, Value)> {
    let (status, attempts) = if is_done { ("succeeded", 1) } else { ("pending", 0) };
    vec![
        ("delivery_id", text(delivery_id)),
        ("status", text(status)),
        ("attempts", count(attempts)),
        ("max_attempts", count(5)),
        ("next_attempt_at", Value::Float(now_seconds)),
        ("lease_expires_at", Value::Null),
        ("lease_expired", Value::Bool(false)),
        ("last_error_code", Value::Null),
        ("last_error_detail_hash", Value::Null),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_actors::contract::lifecycle::LifecycleResponse;
    use leasehold_actors::contract::payload::Payload;
    use leasehold_actors::contract::text::Sha256;

    fn look(standing: Standing, reads: u64) -> Look {
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
        Look { accepted, standing, reads, overtaken: false }
    }

    /// The status of an answer that passes the checks of whoever asked.
    fn status(standing: Standing, reads: u64) -> &'static str {
        let value = response(&look(standing, reads), "r", 5.0);
        let answer = LifecycleResponse::check(&value, Payload::of(&value)).expect("a valid answer");
        answer.status.name()
    }

    fn leaving(reads_before: u64) -> Standing {
        Standing::Leaving { tombstone_id: Token::new("t-1").expect("a token"), reads_before }
    }

    #[test]
    fn the_plan_advances_with_each_read_and_every_answer_is_valid() {
        let seen: Vec<_> = (1..=6).map(|reads| status(Standing::Moving, reads)).collect();
        assert_eq!(
            seen,
            ["processing", "awaiting_approval", "ready", "publishing", "published", "published"]
        );
        assert_eq!(status(Standing::Published, 1), "published");
    }

    #[test]
    fn a_cancelled_change_counts_its_jobs_as_cancelled_and_has_no_delivery() {
        assert_eq!(status(Standing::Cancelled, 3), "cancelled");
        let value = response(&look(Standing::Cancelled, 3), "r", 5.0);
        let answer = value.as_object().expect("an object");
        let counts = answer.get("queue_counts").and_then(Value::as_object).expect("counts");
        assert_eq!(counts.get("cancelled").and_then(Value::as_count), Some(3));
        assert!(answer.get("delivery").is_some_and(Value::is_null));
    }

    #[test]
    fn a_tombstoned_change_is_first_on_its_way_out_and_then_gone() {
        let seen: Vec<_> = (6..=8).map(|reads| status(leaving(5), reads)).collect();
        assert_eq!(seen, ["deleting", "deleted", "deleted"]);
        let value = response(&look(leaving(5), 7), "r", 5.0);
        let tombstone = value.as_object().and_then(|answer| answer.get("tombstone"));
        let tombstone = tombstone.and_then(Value::as_object).expect("an attempt record");
        assert_eq!(tombstone.text("tombstone_id"), Some("t-1"));
        assert_eq!(tombstone.text("status"), Some("succeeded"));
    }

    #[test]
    fn a_removal_is_taken_on_its_side_of_publication_and_once() {
        let (cancellation, tombstone) = (RemovalKind::Cancellation, RemovalKind::Tombstone);
        for (standing, kind, taken) in [
            (Standing::Moving, cancellation, Ok(())),
            (Standing::Published, cancellation, Err("cms.cancellation.already_published")),
            (Standing::Cancelled, cancellation, Err("cms.cancellation.idempotency_collision")),
            (leaving(5), cancellation, Err("cms.cancellation.already_published")),
            (Standing::Moving, tombstone, Err("cms.tombstone.not_published")),
            (Standing::Published, tombstone, Ok(())),
            (Standing::Cancelled, tombstone, Err("cms.tombstone.not_published")),
            (leaving(5), tombstone, Err("cms.tombstone.idempotency_collision")),
        ] {
            assert_eq!(standing.takes(kind), taken, "{standing:?} {kind:?}");
        }
    }
}
