//! Flow `dispatch`: change events to the CMS (contract 4.1).

use super::{Answers, HealthView};
use crate::arguments::Blocked;
use crate::contract::change::Change;
use crate::contract::dispatch::{DispatchResponse, DispatchedAs};
use crate::contract::payload::Payload;
use crate::contract::text::{ErrorCode, Sha256, Token, WorkerToken};
use crate::contract::time::{Ceiling, Timestamp};
use crate::record::rules::{Arguments, Counted, Due, Late};
use crate::record::{Flow, FlowTag, Identity, Record, Rules, State, StateKind, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dispatch;

/// What an enqueued change fixes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DispatchBinding {
    /// The change's identity.
    pub event_id: Token,
    /// Its site.
    pub site_id: Token,
    /// The version of the website.
    pub website_version: Token,
    /// Its place among the site's changes.
    pub source_sequence: u64,
    /// Hash of its canonical form.
    pub payload_sha256: Sha256,
    /// Leases it may take.
    pub max_attempts: Ceiling,
}

impl DispatchBinding {
    /// The binding of a change.
    #[must_use]
    pub fn of(change: &Change, max_attempts: Ceiling) -> Self {
        Self {
            event_id: change.event_id.clone(),
            site_id: change.site_id.clone(),
            website_version: change.website_version.clone(),
            source_sequence: change.source_sequence,
            payload_sha256: change.payload.sha256(),
            max_attempts,
        }
    }
}

impl Flow for Dispatch {
    const TAG: FlowTag = FlowTag::Dispatch;
    const RULES: Rules = Rules {
        prefix: "dispatch",
        counted: Counted::Leases,
        expiry_code: "lease_expired",
        losses_code: "dispatch.lease_lost_repeatedly",
        expiry_due: Due::Now,
        expiry_final_due: Due::Unchanged,
        complete_due: Due::Now,
        late: Late::Named,
        unmarked: "client_failure",
        not_a_lease: "lease_invalid",
        arguments: Arguments::LeaseFirst,
    };
    type Binding = DispatchBinding;
    type Payload = Payload;
    type Progress = ();
    type Report = DispatchResponse;
    type Outcome = DispatchResponse;
    type Facet = ();
    type Note = ();

    fn judge(_: &DispatchBinding, (): &(), report: DispatchResponse) -> Verdict<Self> {
        Verdict::Complete(report)
    }

    fn identity(binding: &DispatchBinding) -> Identity {
        Identity::new(binding.event_id.as_str())
    }

    fn site(binding: &DispatchBinding) -> &str {
        binding.site_id.as_str()
    }

    fn ceiling(binding: &DispatchBinding) -> Ceiling {
        binding.max_attempts
    }

    fn belongs(binding: &DispatchBinding, payload: &Payload) -> bool {
        binding.payload_sha256 == payload.sha256()
    }

    fn facet(_: &State<Self>) {}

    fn repeats((): &(), (): &()) -> Option<()> {
        None // no answer leaves a change watched
    }

    fn repeated((): &(), (): &()) -> Option<()> {
        None
    }
}

/// Status of one enqueued change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DispatchStatus {
    /// The change's identity.
    pub event_id: Token,
    /// Hash of its canonical form.
    pub payload_sha256: Sha256,
    /// `pending`, `leased`, `retry_wait`, `succeeded` or `failed`.
    pub status: &'static str,
    /// Leases taken so far.
    pub attempts: u32,
    /// Leases it may take.
    pub max_attempts: u32,
    /// When it is, or was, due, in seconds since 1970.
    pub next_attempt_at: f64,
    /// When the lease ends, where there is one.
    pub lease_expires_at: Option<f64>,
    /// Whether that is over.
    pub lease_expired: bool,
    /// The last error, in `retry_wait` and `failed`.
    pub last_error_code: Option<ErrorCode>,
    /// Always null: no component records one.
    pub last_error_detail_hash: Option<Sha256>,
    /// The CMS's plan, once accepted.
    pub remote_plan_id: Option<Token>,
    /// Its jobs.
    pub remote_job_count: Option<u64>,
    /// What the CMS did with the change.
    pub remote_status: Option<DispatchedAs>,
    /// Hash of its answer.
    pub response_sha256: Option<Sha256>,
}

/// How one attempt left a change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DispatchAttempt {
    /// The change's identity.
    pub event_id: Token,
    /// The state it is in now.
    pub status: &'static str,
    /// Which attempt it was.
    pub attempt: u32,
    /// Leases it may take.
    pub max_attempts: u32,
    /// When it is due again, in seconds since 1970.
    pub next_attempt_at: f64,
    /// The error, if it failed.
    pub error_code: Option<ErrorCode>,
}

/// A claim on one change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DispatchClaim {
    /// The change's identity.
    pub event_id: Token,
    /// Hash of its canonical form.
    pub payload_sha256: Sha256,
    /// Which attempt this is.
    pub attempt: u32,
    /// Leases it may take.
    pub max_attempts: u32,
    /// Who holds the lease.
    pub lease_owner: WorkerToken,
    /// When it ends, in seconds since 1970.
    pub lease_expires_at: f64,
}

/// Health of the flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DispatchHealth {
    /// `blocked` when a lease expired, a record failed or is quarantined; else `ok`.
    pub status: &'static str,
    /// Records in each state.
    pub counts: BTreeMap<&'static str, u64>,
    /// Records that could be claimed now.
    pub due: u64,
    /// Leases that are over and not settled.
    pub expired_leases: u64,
    /// Records given up.
    pub failed: u64,
    /// Records that do not replay (D8).
    pub quarantined: u64,
    /// Records an operator let be (D12).
    pub dismissed: u64,
}

/// What a client submits.
#[derive(Debug, Clone)]
pub struct ChangeRequest {
    /// The change's identity.
    pub event_id: Token,
    /// The change in its canonical form.
    pub change: Payload,
}

impl Answers for Dispatch {
    const COMPLETED: &'static str = "succeeded";
    const WATCHES: bool = false;
    type Status = DispatchStatus;
    type Attempt = DispatchAttempt;
    type Health = DispatchHealth;
    type ClaimView = DispatchClaim;
    type Request = ChangeRequest;

    fn status(state: &State<Self>, now: Timestamp) -> Option<DispatchStatus> {
        let record = state.record()?;
        let outcome = state.outcome();
        Some(DispatchStatus {
            event_id: record.binding.event_id.clone(),
            payload_sha256: record.binding.payload_sha256,
            status: state.kind()?.name(Self::COMPLETED),
            attempts: record.attempts,
            max_attempts: record.binding.max_attempts.get(),
            next_attempt_at: record.next_at.seconds(),
            lease_expires_at: state.lease().map(|lease| lease.expires_at.seconds()),
            lease_expired: state.lease().is_some_and(|lease| lease.expired(now)),
            last_error_code: state.error().cloned(),
            last_error_detail_hash: None,
            remote_plan_id: outcome.map(|outcome| outcome.plan_id.clone()),
            remote_job_count: outcome.map(|outcome| outcome.job_count),
            remote_status: outcome.map(|outcome| outcome.status),
            response_sha256: outcome.map(|outcome| outcome.sha256),
        })
    }

    fn attempt(state: &State<Self>) -> Option<DispatchAttempt> {
        let record = state.record()?;
        Some(DispatchAttempt {
            event_id: record.binding.event_id.clone(),
            status: state.kind()?.name(Self::COMPLETED),
            attempt: record.attempts,
            max_attempts: record.binding.max_attempts.get(),
            next_attempt_at: record.next_at.seconds(),
            error_code: state.error().cloned(),
        })
    }

    fn claim_view(
        record: &Record<Self>,
        owner: &WorkerToken,
        expires_at: Timestamp,
    ) -> DispatchClaim {
        DispatchClaim {
            event_id: record.binding.event_id.clone(),
            payload_sha256: record.binding.payload_sha256,
            attempt: record.attempts,
            max_attempts: record.binding.max_attempts.get(),
            lease_owner: owner.clone(),
            lease_expires_at: expires_at.seconds(),
        }
    }

    fn health(view: &HealthView<'_, ()>) -> DispatchHealth {
        let HealthView { tally, due, expired: expired_leases, .. } = *view;
        let failed = tally.count(StateKind::Failed);
        let quarantined = tally.count(StateKind::Quarantined);
        let blocked = failed > 0 || expired_leases > 0 || quarantined > 0;
        DispatchHealth {
            status: super::health_status(blocked),
            counts: super::counts::<Self>(tally),
            due,
            expired_leases,
            failed,
            quarantined,
            dismissed: tally.count(StateKind::Dismissed),
        }
    }

    fn request(binding: &Arc<DispatchBinding>, payload: &Payload) -> ChangeRequest {
        ChangeRequest { event_id: binding.event_id.clone(), change: payload.clone() }
    }

    fn report(binding: &DispatchBinding, answer: &[u8]) -> Result<DispatchResponse, Blocked> {
        DispatchResponse::parse(answer, &binding.event_id)
            .map_err(|_| Blocked::new::<Self>("response_invalid"))
    }
}
