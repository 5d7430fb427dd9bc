//! Flow `processing`: an acknowledged notification is watched until the receiver has acted on it
//! (contract 4.3).

use super::{Answers, HealthView, counts, health_status};
use crate::arguments::Blocked;
use crate::contract::lifecycle::RemoteStatus;
use crate::contract::receiver::{self, Expected, ReceiverState, WorkStatus};
use crate::contract::text::{ErrorCode, Sha256, Token, WorkerToken};
use crate::contract::time::{Ceiling, Timestamp};
use crate::health::Class;
use crate::record::rules::{Arguments, Counted, Due, Late};
use crate::record::{Flow, FlowTag, Identity, Key, Record, Rules, State, StateKind, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Processing;

/// What a registered notification fixes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessingBinding {
    /// The change's identity.
    pub event_id: Token,
    /// The notification's id; no other record may have it (D17).
    pub notification_id: Token,
    /// The change's site.
    pub site_id: Token,
    /// How the change ended.
    pub terminal_status: RemoteStatus,
    /// Hash of the notification.
    pub notification_sha256: Sha256,
    /// The receiver's pinned digest at registration (D9).
    pub capabilities_sha256: Sha256,
    /// Failures in a row it may have.
    pub max_failures: Ceiling,
}

impl ProcessingBinding {
    fn expected(&self) -> Expected<'_> {
        Expected {
            event_id: &self.event_id,
            site_id: &self.site_id,
            notification_id: &self.notification_id,
            terminal_status: self.terminal_status.name(),
            notification_sha256: self.notification_sha256,
            capabilities_sha256: self.capabilities_sha256,
        }
    }
}

impl Flow for Processing {
    const TAG: FlowTag = FlowTag::Processing;
    const RULES: Rules = Rules {
        prefix: "terminal_processing_monitor",
        counted: Counted::Failures,
        expiry_code: "terminal_processing_monitor.lease_expired",
        losses_code: "terminal_processing_monitor.lease_lost_repeatedly",
        expiry_due: Due::Now,
        expiry_final_due: Due::Now,
        complete_due: Due::Now,
        late: Late::Named,
        unmarked: "reader_failure",
        not_a_lease: "time_invalid",
        arguments: Arguments::TimeFirst,
    };
    type Binding = ProcessingBinding;
    type Payload = ();
    type Progress = Option<ReceiverState>;
    type Report = ReceiverState;
    type Outcome = ReceiverState;
    /// The digest a record was registered under.
    type Facet = Option<Key>;
    type Note = ();

    fn judge(
        _: &ProcessingBinding,
        _: &Option<ReceiverState>,
        report: ReceiverState,
    ) -> Verdict<Self> {
        match report.status {
            WorkStatus::Succeeded => Verdict::Complete(report),
            WorkStatus::Failed => Verdict::Fail {
                code: Blocked::new::<Self>("remote_failed").0,
                progress: Some(report),
            },
            WorkStatus::Pending | WorkStatus::Leased | WorkStatus::RetryWait => {
                Verdict::Watch(Some(report))
            }
        }
    }

    fn identity(binding: &ProcessingBinding) -> Identity {
        Identity::new(binding.event_id.as_str())
    }

    fn site(binding: &ProcessingBinding) -> &str {
        binding.site_id.as_str()
    }

    fn ceiling(binding: &ProcessingBinding) -> Ceiling {
        binding.max_failures
    }

    fn belongs(_: &ProcessingBinding, (): &()) -> bool {
        true
    }

    fn facet(state: &State<Self>) -> Option<Key> {
        state.record().map(|record| super::digest_key(record.binding.capabilities_sha256))
    }

    fn repeats(before: &Option<ReceiverState>, now: &Option<ReceiverState>) -> Option<()> {
        (before.is_some() && before == now).then_some(())
    }

    fn repeated(before: &Option<ReceiverState>, (): &()) -> Option<Option<ReceiverState>> {
        before.is_some().then(|| before.clone())
    }

    fn unique_key(binding: &ProcessingBinding) -> Option<Key> {
        Some(Key::of(binding.notification_id.as_str()))
    }

    fn digest(binding: &ProcessingBinding) -> Option<Sha256> {
        Some(binding.capabilities_sha256)
    }

    fn repin(binding: &ProcessingBinding, digest: Sha256) -> Option<ProcessingBinding> {
        Some(ProcessingBinding { capabilities_sha256: digest, ..binding.clone() })
    }
}

/// Status of one watched notification.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProcessingStatus {
    /// The change's identity.
    pub event_id: Token,
    /// The notification's id.
    pub notification_id: Token,
    /// The change's site.
    pub site_id: Token,
    /// Hash of the notification.
    pub notification_sha256: Sha256,
    /// `pending`, `leased`, `watching`, `retry_wait`, `succeeded` or `failed`.
    pub status: &'static str,
    /// Reads so far.
    pub poll_attempts: u32,
    /// Failures since the last good answer.
    pub failures: u32,
    /// Failures in a row it may have.
    pub max_failures: u32,
    /// When it is, or was, due, in seconds since 1970.
    pub next_poll_at: f64,
    /// When the lease ends, where there is one.
    pub lease_expires_at: Option<f64>,
    /// Whether that is over.
    pub lease_expired: bool,
    /// The last error, in `retry_wait` and `failed`.
    pub last_error_code: Option<ErrorCode>,
    /// The receiver's own state.
    pub receiver_status: Option<WorkStatus>,
    /// Attempts the receiver made.
    pub receiver_attempts: Option<u8>,
    /// Attempts the receiver may make.
    pub receiver_max_attempts: Option<u8>,
    /// The receiver's last error.
    pub receiver_error_code: Option<ErrorCode>,
    /// When the receiver was done, in seconds since 1970.
    pub receiver_processed_at: Option<f64>,
}

/// How one read left a notification.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProcessingAttempt {
    /// The change's identity.
    pub event_id: Token,
    /// The notification's id.
    pub notification_id: Token,
    /// The state it is in now.
    pub status: &'static str,
    /// Which read it was.
    pub attempt: u32,
    /// The error, if it failed.
    pub error_code: Option<ErrorCode>,
}

/// A claim on one watched notification.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProcessingClaim {
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
    /// Which read this is.
    pub poll_attempts: u32,
    /// Failures since the last good answer.
    pub failures: u32,
    /// Failures in a row it may have.
    pub max_failures: u32,
    /// Who holds the lease.
    pub lease_owner: WorkerToken,
    /// When it ends, in seconds since 1970.
    pub lease_expires_at: f64,
}

/// Health of the flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessingHealth {
    /// `blocked` when a lease expired, a record failed, is quarantined or held; else `ok`.
    pub status: &'static str,
    /// Records in each state.
    pub counts: BTreeMap<&'static str, u64>,
    /// Records that could be claimed now.
    pub due: u64,
    /// Leases that are over and not settled.
    pub expired_leases: u64,
    /// Records given up.
    pub failed: u64,
    /// The receiver's pinned digest; null where none is configured.
    pub expected_capabilities_sha256: Option<Sha256>,
    /// Records that do not replay (D8).
    pub quarantined: u64,
    /// Records an operator let be (D12).
    pub dismissed: u64,
    /// Unsettled records under another digest, which are held (D9).
    pub contract_mismatches: u64,
}

/// What a client reads.
#[derive(Debug, Clone)]
pub struct ProcessingRequest {
    /// The change's identity.
    pub event_id: Token,
    /// Its site.
    pub site_id: Token,
}

impl Answers for Processing {
    const COMPLETED: &'static str = "succeeded";
    const WATCHES: bool = true;
    type Status = ProcessingStatus;
    type Attempt = ProcessingAttempt;
    type Health = ProcessingHealth;
    type ClaimView = ProcessingClaim;
    type Request = ProcessingRequest;

    fn status(state: &State<Self>, now: Timestamp) -> Option<ProcessingStatus> {
        let record = state.record()?;
        let binding = &record.binding;
        let receiver = state.outcome().or(record.progress.as_ref());
        Some(ProcessingStatus {
            event_id: binding.event_id.clone(),
            notification_id: binding.notification_id.clone(),
            site_id: binding.site_id.clone(),
            notification_sha256: binding.notification_sha256,
            status: state.kind()?.name(Self::COMPLETED),
            poll_attempts: record.attempts,
            failures: record.failures,
            max_failures: binding.max_failures.get(),
            next_poll_at: record.next_at.seconds(),
            lease_expires_at: state.lease().map(|lease| lease.expires_at.seconds()),
            lease_expired: state.lease().is_some_and(|lease| lease.expired(now)),
            last_error_code: state.error().cloned(),
            receiver_status: receiver.map(|receiver| receiver.status),
            receiver_attempts: receiver.map(|receiver| receiver.attempts),
            receiver_max_attempts: receiver.map(|receiver| receiver.max_attempts),
            receiver_error_code: receiver.and_then(|receiver| receiver.error_code.clone()),
            receiver_processed_at: receiver.and_then(|receiver| receiver.processed_at),
        })
    }

    fn attempt(state: &State<Self>) -> Option<ProcessingAttempt> {
        let record = state.record()?;
        Some(ProcessingAttempt {
            event_id: record.binding.event_id.clone(),
            notification_id: record.binding.notification_id.clone(),
            status: state.kind()?.name(Self::COMPLETED),
            attempt: record.attempts,
            error_code: state.error().cloned(),
        })
    }

    fn claim_view(
        record: &Record<Self>,
        owner: &WorkerToken,
        expires_at: Timestamp,
    ) -> ProcessingClaim {
        let binding = &record.binding;
        ProcessingClaim {
            event_id: binding.event_id.clone(),
            notification_id: binding.notification_id.clone(),
            site_id: binding.site_id.clone(),
            terminal_status: binding.terminal_status,
            notification_sha256: binding.notification_sha256,
            poll_attempts: record.attempts,
            failures: record.failures,
            max_failures: binding.max_failures.get(),
            lease_owner: owner.clone(),
            lease_expires_at: expires_at.seconds(),
        }
    }

    fn health(view: &HealthView<'_, Option<Key>>) -> ProcessingHealth {
        let HealthView { tally, due, expired: expired_leases, parked, expected, .. } = *view;
        let failed = tally.count(StateKind::Failed);
        let quarantined = tally.count(StateKind::Quarantined);
        // Without a configured digest whatever waits is held; read without an engine, nothing is.
        let contract_mismatches = expected.map(super::digest_key).map_or(parked, |wanted| {
            tally.count_where(|class: &Class<Option<Key>>| {
                class.kind.is_active() && class.facet != Some(wanted)
            })
        });
        let blocked =
            failed > 0 || expired_leases > 0 || quarantined > 0 || contract_mismatches > 0;
        ProcessingHealth {
            status: health_status(blocked),
            counts: counts::<Self>(tally),
            due,
            expired_leases,
            failed,
            expected_capabilities_sha256: expected,
            quarantined,
            dismissed: tally.count(StateKind::Dismissed),
            contract_mismatches,
        }
    }

    fn request(binding: &Arc<ProcessingBinding>, (): &()) -> ProcessingRequest {
        ProcessingRequest { event_id: binding.event_id.clone(), site_id: binding.site_id.clone() }
    }

    fn report(binding: &ProcessingBinding, answer: &[u8]) -> Result<ReceiverState, Blocked> {
        receiver::parse(answer, &binding.expected())
            .map_err(|_| Blocked::new::<Self>("response_invalid"))
    }
}
