//! The shapes flow `lifecycle` answers in.

use super::{Lifecycle, LifecycleBinding, Snapshot};
use crate::arguments::Blocked;
use crate::contract::json::Value;
use crate::contract::lifecycle::{LifecycleResponse, RemoteStatus};
use crate::contract::text::{ErrorCode, Sha256, Token, WorkerToken};
use crate::contract::time::Timestamp;
use crate::flows::{Answers, HealthView, counts, health_status};
use crate::record::{Record, State, StateKind};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Status of one watched change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LifecycleStatus {
    /// The change's identity.
    pub event_id: Token,
    /// Its site.
    pub site_id: Token,
    /// The CMS's plan.
    pub plan_id: Token,
    /// The version of the website.
    pub website_version: Token,
    /// The change's place.
    pub source_sequence: u64,
    /// Jobs of the plan.
    pub job_count: u64,
    /// Hash of the change.
    pub change_sha256: Sha256,
    /// Hash of the binding.
    pub binding_sha256: Sha256,
    /// `pending`, `leased`, `watching`, `retry_wait`, `terminal` or `failed`.
    pub state: &'static str,
    /// Reads so far.
    pub poll_attempts: u32,
    /// Failures since the last good answer.
    pub consecutive_failures: u32,
    /// Failures in a row it may have.
    pub max_consecutive_failures: u32,
    /// When it is, or was, due, in seconds since 1970.
    pub next_poll_at: f64,
    /// When the lease ends, where there is one.
    pub lease_expires_at: Option<f64>,
    /// Whether that is over.
    pub lease_expired: bool,
    /// The last error, in `retry_wait` and `failed`.
    pub last_error_code: Option<ErrorCode>,
    /// Where the change stood last.
    pub remote_status: Option<RemoteStatus>,
    /// Hash of the last answer.
    pub lifecycle_sha256: Option<Sha256>,
    /// Of the last answer, or empty.
    pub required_locales: Value,
    /// Of the last answer, or empty.
    pub approved_locales: Value,
    /// Of the last answer, or empty.
    pub blocked_locales: Value,
    /// Of the last answer, or empty.
    pub queue_counts: Value,
    /// Of the last answer, or null.
    pub delivery: Value,
    /// Of the last answer, or null.
    pub tombstone: Value,
}

/// How one read left a change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LifecycleAttempt {
    /// The change's identity.
    pub event_id: Token,
    /// The state it is in now.
    pub state: &'static str,
    /// Where the change stood last.
    pub remote_status: Option<RemoteStatus>,
    /// Which read it was.
    pub attempt: u32,
    /// Failures since the last good answer.
    pub consecutive_failures: u32,
    /// When it is due again, in seconds since 1970.
    pub next_poll_at: f64,
    /// The error, if it failed.
    pub error_code: Option<ErrorCode>,
}

/// A claim on one watched change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LifecycleClaim {
    /// The change's identity.
    pub event_id: Token,
    /// Its site.
    pub site_id: Token,
    /// The CMS's plan.
    pub plan_id: Token,
    /// The version of the website.
    pub website_version: Token,
    /// The change's place.
    pub source_sequence: u64,
    /// Jobs of the plan.
    pub job_count: u64,
    /// Hash of the change.
    pub change_sha256: Sha256,
    /// Which read this is.
    pub attempt: u32,
    /// Failures in a row it may have.
    pub max_consecutive_failures: u32,
    /// Who holds the lease.
    pub lease_owner: WorkerToken,
    /// When it ends, in seconds since 1970.
    pub lease_expires_at: f64,
}

/// Health of the flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LifecycleHealth {
    /// `blocked` when a lease expired, a record or a change failed, or a record is quarantined.
    pub status: &'static str,
    /// Records in each state.
    pub counts: BTreeMap<&'static str, u64>,
    /// Records that could be claimed now.
    pub due: u64,
    /// Leases that are over and not settled.
    pub expired_leases: u64,
    /// Records given up.
    pub failed: u64,
    /// Changes that ended at the CMS in a failure.
    pub remote_failures: u64,
    /// Records that do not replay (D8).
    pub quarantined: u64,
    /// Records an operator let be (D12).
    pub dismissed: u64,
}

/// What a client reads.
#[derive(Debug, Clone)]
pub struct LifecycleRequest {
    /// The change's identity.
    pub event_id: Token,
    /// Its site.
    pub site_id: Token,
}

/// The last answer of a record, whatever state it is in, and the status known beside it.
fn last(state: &State<Lifecycle>) -> (Option<RemoteStatus>, Option<&Snapshot>) {
    match state.outcome() {
        Some(outcome) => (Some(outcome.status), outcome.snapshot.as_ref()),
        None => {
            let snapshot = state.record().and_then(|record| record.progress.as_ref());
            (snapshot.map(|snapshot| snapshot.status), snapshot)
        }
    }
}

impl Answers for Lifecycle {
    const COMPLETED: &'static str = "terminal";
    const WATCHES: bool = true;
    type Status = LifecycleStatus;
    type Attempt = LifecycleAttempt;
    type Health = LifecycleHealth;
    type ClaimView = LifecycleClaim;
    type Request = LifecycleRequest;

    fn status(state: &State<Self>, now: Timestamp) -> Option<LifecycleStatus> {
        let record = state.record()?;
        let binding = &record.binding;
        let (remote_status, snapshot) = last(state);
        let answer = snapshot.and_then(|snapshot| Value::parse(snapshot.answer.as_bytes()).ok());
        let member = |key: &str, empty: &str| {
            let found =
                answer.as_ref().and_then(Value::as_object).and_then(|object| object.get(key));
            found.cloned().unwrap_or_else(|| Value::parse(empty.as_bytes()).unwrap_or(Value::Null))
        };
        Some(LifecycleStatus {
            event_id: binding.event_id.clone(),
            site_id: binding.site_id.clone(),
            plan_id: binding.plan_id.clone(),
            website_version: binding.website_version.clone(),
            source_sequence: binding.source_sequence,
            job_count: binding.job_count,
            change_sha256: binding.change_sha256,
            binding_sha256: binding.sha256(),
            state: state.kind()?.name(Self::COMPLETED),
            poll_attempts: record.attempts,
            consecutive_failures: record.failures,
            max_consecutive_failures: binding.max_consecutive_failures.get(),
            next_poll_at: record.next_at.seconds(),
            lease_expires_at: state.lease().map(|lease| lease.expires_at.seconds()),
            lease_expired: state.lease().is_some_and(|lease| lease.expired(now)),
            last_error_code: state.error().cloned(),
            remote_status,
            lifecycle_sha256: snapshot.map(|snapshot| snapshot.answer.sha256()),
            required_locales: member("required_locales", "[]"),
            approved_locales: member("approved_locales", "[]"),
            blocked_locales: member("blocked_locales", "[]"),
            queue_counts: member("queue_counts", "{}"),
            delivery: member("delivery", "null"),
            tombstone: member("tombstone", "null"),
        })
    }

    fn attempt(state: &State<Self>) -> Option<LifecycleAttempt> {
        let record = state.record()?;
        Some(LifecycleAttempt {
            event_id: record.binding.event_id.clone(),
            state: state.kind()?.name(Self::COMPLETED),
            remote_status: last(state).0,
            attempt: record.attempts,
            consecutive_failures: record.failures,
            next_poll_at: record.next_at.seconds(),
            error_code: state.error().cloned(),
        })
    }

    fn claim_view(
        record: &Record<Self>,
        owner: &WorkerToken,
        expires_at: Timestamp,
    ) -> LifecycleClaim {
        let binding = &record.binding;
        LifecycleClaim {
            event_id: binding.event_id.clone(),
            site_id: binding.site_id.clone(),
            plan_id: binding.plan_id.clone(),
            website_version: binding.website_version.clone(),
            source_sequence: binding.source_sequence,
            job_count: binding.job_count,
            change_sha256: binding.change_sha256,
            attempt: record.attempts,
            max_consecutive_failures: binding.max_consecutive_failures.get(),
            lease_owner: owner.clone(),
            lease_expires_at: expires_at.seconds(),
        }
    }

    fn health(view: &HealthView<'_, bool>) -> LifecycleHealth {
        let HealthView { tally, due, expired: expired_leases, .. } = *view;
        let counts = counts::<Self>(tally);
        let failed = tally.count(StateKind::Failed);
        let quarantined = tally.count(StateKind::Quarantined);
        let remote_failures = tally.count_where(|class| class.facet);
        let blocked = failed > 0 || expired_leases > 0 || remote_failures > 0 || quarantined > 0;
        LifecycleHealth {
            status: health_status(blocked),
            counts,
            due,
            expired_leases,
            failed,
            remote_failures,
            quarantined,
            dismissed: tally.count(StateKind::Dismissed),
        }
    }

    fn request(binding: &Arc<LifecycleBinding>, (): &()) -> LifecycleRequest {
        LifecycleRequest { event_id: binding.event_id.clone(), site_id: binding.site_id.clone() }
    }

    fn report(binding: &LifecycleBinding, answer: &[u8]) -> Result<LifecycleResponse, Blocked> {
        LifecycleResponse::parse(answer, &binding.expected())
            .map_err(|_| Blocked::new::<Self>("response_invalid"))
    }
}
