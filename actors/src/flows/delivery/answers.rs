//! The shapes flow `delivery` answers in.

use super::{Delivery, DeliveryBinding};
use crate::arguments::Blocked;
use crate::contract::payload::Payload;
use crate::contract::source::{self, Operation};
use crate::contract::text::{ErrorCode, Sha256, Token, WorkerToken};
use crate::contract::time::Timestamp;
use crate::flows::{Answers, HealthView, counts, digest_key, health_status};
use crate::health::Class;
use crate::record::{Record, State, StateKind};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Schema of the flow's health.
pub const HEALTH_SCHEMA: &str = "blun.cms-source-delivery-health.v1";

/// Status of one document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeliveryStatus {
    /// Which of the three.
    pub operation: Operation,
    /// Its identity.
    pub request_id: Token,
    /// The change it is, or concerns.
    pub event_id: Token,
    /// The site.
    pub site_id: Token,
    /// Hash of its canonical form.
    pub payload_sha256: Sha256,
    /// The source runtime's pinned digest.
    pub capabilities_sha256: Sha256,
    /// `pending`, `leased`, `retry_wait`, `succeeded` or `failed`.
    pub status: &'static str,
    /// Leases taken so far.
    pub attempts: u32,
    /// Leases it may take.
    pub delivery_max_attempts: u32,
    /// Sent along.
    pub source_max_attempts: u32,
    /// When it is, or was, due, in seconds since 1970.
    pub next_attempt_at: f64,
    /// When the lease ends, where there is one.
    pub lease_expires_at: Option<f64>,
    /// Whether that is over.
    pub lease_expired: bool,
    /// The last error, in `retry_wait` and `failed`.
    pub last_error_code: Option<ErrorCode>,
    /// Hash of the answer, once there is one.
    pub response_sha256: Option<Sha256>,
}

/// How one attempt left a document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeliveryAttempt {
    /// Which of the three.
    pub operation: Operation,
    /// Its identity.
    pub request_id: Token,
    /// The change it is, or concerns.
    pub event_id: Token,
    /// The state it is in now.
    pub status: &'static str,
    /// Which attempt it was.
    pub attempt: u32,
    /// Leases it may take.
    pub delivery_max_attempts: u32,
    /// When it is due again, in seconds since 1970.
    pub next_attempt_at: f64,
    /// The error, if it failed.
    pub error_code: Option<ErrorCode>,
}

/// A claim on one document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeliveryClaim {
    /// Which of the three.
    pub operation: Operation,
    /// Its identity.
    pub request_id: Token,
    /// The change it is, or concerns.
    pub event_id: Token,
    /// The site.
    pub site_id: Token,
    /// Hash of its canonical form.
    pub payload_sha256: Sha256,
    /// The source runtime's pinned digest.
    pub capabilities_sha256: Sha256,
    /// Which attempt this is.
    pub attempt: u32,
    /// Leases it may take.
    pub delivery_max_attempts: u32,
    /// Sent along.
    pub source_max_attempts: u32,
    /// Who holds the lease.
    pub lease_owner: WorkerToken,
    /// When it ends, in seconds since 1970.
    pub lease_expires_at: f64,
}

/// Health of the flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeliveryHealth {
    /// The contract's name of this shape.
    pub schema: &'static str,
    /// `blocked` when a lease expired, or a record failed, is quarantined or under another digest.
    pub status: &'static str,
    /// Records in each state.
    pub counts: BTreeMap<&'static str, u64>,
    /// Records of each operation.
    pub operations: BTreeMap<&'static str, u64>,
    /// Records that could be claimed now.
    pub due: u64,
    /// Leases that are over and not settled.
    pub expired_leases: u64,
    /// Records given up.
    pub failed: u64,
    /// Unsettled records under another digest, which are held (D9).
    pub contract_mismatches: u64,
    /// The first reason that applies, where it is blocked.
    pub error_code: Option<ErrorCode>,
    /// Records that do not replay (D8).
    pub quarantined: u64,
    /// Records an operator let be (D12).
    pub dismissed: u64,
    /// Removals that wait for their change, and records under another digest.
    pub held: u64,
}

/// What a client submits.
#[derive(Debug, Clone)]
pub struct DeliveryRequest {
    /// Which of the three.
    pub operation: Operation,
    /// Its identity.
    pub request_id: Token,
    /// The change it is, or concerns.
    pub event_id: Token,
    /// The document in its canonical form.
    pub document: Payload,
    /// The ceiling to send along.
    pub max_attempts: u32,
}

impl Answers for Delivery {
    const COMPLETED: &'static str = "succeeded";
    const WATCHES: bool = false;
    type Status = DeliveryStatus;
    type Attempt = DeliveryAttempt;
    type Health = DeliveryHealth;
    type ClaimView = DeliveryClaim;
    type Request = DeliveryRequest;

    fn status(state: &State<Self>, now: Timestamp) -> Option<DeliveryStatus> {
        let record = state.record()?;
        let binding = &record.binding;
        let outcome = state.outcome();
        Some(DeliveryStatus {
            operation: binding.operation,
            request_id: binding.request_id.clone(),
            event_id: binding.event_id.clone(),
            site_id: binding.site_id.clone(),
            payload_sha256: binding.payload_sha256,
            capabilities_sha256: binding.capabilities_sha256,
            status: state.kind()?.name(Self::COMPLETED),
            attempts: record.attempts,
            delivery_max_attempts: binding.delivery_max_attempts.get(),
            source_max_attempts: binding.source_max_attempts.get(),
            next_attempt_at: record.next_at.seconds(),
            lease_expires_at: state.lease().map(|lease| lease.expires_at.seconds()),
            lease_expired: state.lease().is_some_and(|lease| lease.expired(now)),
            last_error_code: state.error().cloned(),
            response_sha256: outcome.map(|outcome| outcome.response_sha256),
        })
    }

    fn attempt(state: &State<Self>) -> Option<DeliveryAttempt> {
        let record = state.record()?;
        Some(DeliveryAttempt {
            operation: record.binding.operation,
            request_id: record.binding.request_id.clone(),
            event_id: record.binding.event_id.clone(),
            status: state.kind()?.name(Self::COMPLETED),
            attempt: record.attempts,
            delivery_max_attempts: record.binding.delivery_max_attempts.get(),
            next_attempt_at: record.next_at.seconds(),
            error_code: state.error().cloned(),
        })
    }

    fn claim_view(
        record: &Record<Self>,
        owner: &WorkerToken,
        expires_at: Timestamp,
    ) -> DeliveryClaim {
        let binding = &record.binding;
        DeliveryClaim {
            operation: binding.operation,
            request_id: binding.request_id.clone(),
            event_id: binding.event_id.clone(),
            site_id: binding.site_id.clone(),
            payload_sha256: binding.payload_sha256,
            capabilities_sha256: binding.capabilities_sha256,
            attempt: record.attempts,
            delivery_max_attempts: binding.delivery_max_attempts.get(),
            source_max_attempts: binding.source_max_attempts.get(),
            lease_owner: owner.clone(),
            lease_expires_at: expires_at.seconds(),
        }
    }

    fn health(view: &HealthView<'_, Self::Facet>) -> DeliveryHealth {
        let HealthView { tally, due, expired: expired_leases, held, parked, expected } = *view;
        let failed = tally.count(StateKind::Failed);
        let quarantined = tally.count(StateKind::Quarantined);
        // Without a configured digest whatever waits is held; read without an engine, nothing is.
        let contract_mismatches = expected.map(digest_key).map_or(parked, |wanted| {
            tally.count_where(|class: &Class<Self::Facet>| {
                class.kind.is_active() && class.facet.1 != Some(wanted)
            })
        });
        let operations = Operation::ALL.map(|operation| {
            (operation.name(), tally.count_where(|class| class.facet.0 == Some(operation)))
        });
        let reasons = [
            (failed > 0, "failed"),
            (expired_leases > 0, "lease_expired"),
            (contract_mismatches > 0, "contract_changed"),
            (quarantined > 0, "integrity"),
        ];
        let reason = reasons.into_iter().find(|(applies, _)| *applies);
        DeliveryHealth {
            schema: HEALTH_SCHEMA,
            status: health_status(reason.is_some()),
            counts: counts::<Self>(tally),
            operations: operations.into(),
            due,
            expired_leases,
            failed,
            contract_mismatches,
            error_code: reason.map(|(_, name)| Blocked::new::<Self>(name).0),
            quarantined,
            dismissed: tally.count(StateKind::Dismissed),
            held,
        }
    }

    fn request(binding: &Arc<DeliveryBinding>, payload: &Payload) -> DeliveryRequest {
        DeliveryRequest {
            operation: binding.operation,
            request_id: binding.request_id.clone(),
            event_id: binding.event_id.clone(),
            document: payload.clone(),
            max_attempts: binding.source_max_attempts.get(),
        }
    }

    fn report(binding: &DeliveryBinding, answer: &[u8]) -> Result<Sha256, Blocked> {
        source::parse_response(answer, &binding.expected())
            .map_err(|_| Blocked::new::<Self>("response_invalid"))
    }
}
