//! Flow `notification`: how a change ended is told to the receiver (contract 4.5).

use super::{Answers, HealthView, counts, health_status};
use crate::arguments::Blocked;
use crate::contract::lifecycle::RemoteStatus;
use crate::contract::notification::{Notification, acknowledgement, parse_acknowledgement};
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
pub struct Notify;

/// What a registered notification fixes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotifyBinding {
    /// The change's identity.
    pub event_id: Token,
    /// Its site.
    pub site_id: Token,
    /// The notification's id, derived from all it says.
    pub notification_id: Token,
    /// How the change ended.
    pub terminal_status: RemoteStatus,
    /// Hash of the notification.
    pub notification_sha256: Sha256,
    /// Leases it may take.
    pub max_attempts: Ceiling,
}

impl NotifyBinding {
    /// The binding of a notification.
    #[must_use]
    pub fn of(notification: &Notification, max_attempts: Ceiling) -> Self {
        Self {
            event_id: notification.event_id.clone(),
            site_id: notification.site_id.clone(),
            notification_id: notification.notification_id.clone(),
            terminal_status: notification.terminal_status,
            notification_sha256: notification.payload.sha256(),
            max_attempts,
        }
    }
}

/// What an acknowledged notification keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledged {
    /// Hash of the acknowledgement.
    pub acknowledgement_sha256: Sha256,
}

impl Flow for Notify {
    const TAG: FlowTag = FlowTag::Notification;
    const RULES: Rules = Rules {
        prefix: "terminal_notification",
        counted: Counted::Leases,
        expiry_code: "lease_expired",
        losses_code: "terminal_notification.lease_lost_repeatedly",
        expiry_due: Due::Now,
        expiry_final_due: Due::Now,
        complete_due: Due::Now,
        late: Late::Named,
        unmarked: "callback_failure",
        not_a_lease: "time_invalid",
        arguments: Arguments::TimeFirst,
    };
    type Binding = NotifyBinding;
    type Payload = Payload;
    type Progress = ();
    type Report = Sha256;
    type Outcome = Acknowledged;
    type Facet = ();
    type Note = ();

    fn judge(_: &NotifyBinding, (): &(), acknowledgement_sha256: Sha256) -> Verdict<Self> {
        Verdict::Complete(Acknowledged { acknowledgement_sha256 })
    }

    fn identity(binding: &NotifyBinding) -> Identity {
        Identity::new(binding.event_id.as_str())
    }

    fn site(binding: &NotifyBinding) -> &str {
        binding.site_id.as_str()
    }

    fn ceiling(binding: &NotifyBinding) -> Ceiling {
        binding.max_attempts
    }

    /// The notification's id and hash re-derive.
    fn belongs(binding: &NotifyBinding, payload: &Payload) -> bool {
        // The hash is that of the stored bytes: they are what is sent.
        payload.sha256() == binding.notification_sha256
            && Notification::parse(payload.as_bytes()).is_ok_and(|notification| {
                NotifyBinding::of(&notification, binding.max_attempts) == *binding
            })
    }

    fn facet(_: &State<Self>) {}

    fn repeats((): &(), (): &()) -> Option<()> {
        None // no answer leaves a notification watched
    }

    fn repeated((): &(), (): &()) -> Option<()> {
        None
    }
}

/// Status of one notification.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NotificationStatus {
    /// The change's identity.
    pub event_id: Token,
    /// The notification's id.
    pub notification_id: Token,
    /// The change's site.
    pub site_id: Token,
    /// How the change ended.
    pub terminal_status: RemoteStatus,
    /// Hash of the notification.
    pub notification_sha256: Sha256,
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
    /// Hash of the acknowledgement, once there is one.
    pub acknowledgement_sha256: Option<Sha256>,
}

/// How one attempt left a notification.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NotificationAttempt {
    /// The change's identity.
    pub event_id: Token,
    /// The notification's id.
    pub notification_id: Token,
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

/// A claim on one notification.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NotificationClaim {
    /// The change's identity.
    pub event_id: Token,
    /// The notification's id.
    pub notification_id: Token,
    /// Hash of the notification.
    pub notification_sha256: Sha256,
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
pub struct NotificationHealth {
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

/// What a client delivers.
#[derive(Debug, Clone)]
pub struct NotificationRequest {
    /// The change's identity.
    pub event_id: Token,
    /// The notification in its canonical form.
    pub notification: Payload,
}

impl Answers for Notify {
    const COMPLETED: &'static str = "succeeded";
    const WATCHES: bool = false;
    type Status = NotificationStatus;
    type Attempt = NotificationAttempt;
    type Health = NotificationHealth;
    type ClaimView = NotificationClaim;
    type Request = NotificationRequest;

    fn status(state: &State<Self>, now: Timestamp) -> Option<NotificationStatus> {
        let record = state.record()?;
        let binding = &record.binding;
        let outcome = state.outcome();
        Some(NotificationStatus {
            event_id: binding.event_id.clone(),
            notification_id: binding.notification_id.clone(),
            site_id: binding.site_id.clone(),
            terminal_status: binding.terminal_status,
            notification_sha256: binding.notification_sha256,
            status: state.kind()?.name(Self::COMPLETED),
            attempts: record.attempts,
            max_attempts: binding.max_attempts.get(),
            next_attempt_at: record.next_at.seconds(),
            lease_expires_at: state.lease().map(|lease| lease.expires_at.seconds()),
            lease_expired: state.lease().is_some_and(|lease| lease.expired(now)),
            last_error_code: state.error().cloned(),
            acknowledgement_sha256: outcome.map(|outcome| outcome.acknowledgement_sha256),
        })
    }

    fn attempt(state: &State<Self>) -> Option<NotificationAttempt> {
        let record = state.record()?;
        Some(NotificationAttempt {
            event_id: record.binding.event_id.clone(),
            notification_id: record.binding.notification_id.clone(),
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
    ) -> NotificationClaim {
        NotificationClaim {
            event_id: record.binding.event_id.clone(),
            notification_id: record.binding.notification_id.clone(),
            notification_sha256: record.binding.notification_sha256,
            attempt: record.attempts,
            max_attempts: record.binding.max_attempts.get(),
            lease_owner: owner.clone(),
            lease_expires_at: expires_at.seconds(),
        }
    }

    fn health(view: &HealthView<'_, ()>) -> NotificationHealth {
        let HealthView { tally, due, expired: expired_leases, .. } = *view;
        let failed = tally.count(StateKind::Failed);
        let quarantined = tally.count(StateKind::Quarantined);
        NotificationHealth {
            status: health_status(failed > 0 || expired_leases > 0 || quarantined > 0),
            counts: counts::<Self>(tally),
            due,
            expired_leases,
            failed,
            quarantined,
            dismissed: tally.count(StateKind::Dismissed),
        }
    }

    fn request(binding: &Arc<NotifyBinding>, payload: &Payload) -> NotificationRequest {
        NotificationRequest { event_id: binding.event_id.clone(), notification: payload.clone() }
    }

    fn report(binding: &NotifyBinding, answer: &[u8]) -> Result<Sha256, Blocked> {
        let NotifyBinding { event_id, site_id, notification_id, notification_sha256, .. } = binding;
        let expected = acknowledgement(event_id, site_id, notification_id, *notification_sha256);
        parse_acknowledgement(answer, &expected)
            .map_err(|_| Blocked::new::<Self>("response_invalid"))
    }
}
