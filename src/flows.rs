//! What each flow offers beside claims: registering and status.
//!
//! Owns the order in which a registration's arguments are checked (contract 4.9). Must not decide
//! anything about a record.

use crate::error::Error;
use crate::handle::{Claim, Handle, Registered};
use futures_util::stream::{self, StreamExt as _};
use leasehold_actors::arguments::{self, Blocked};
use leasehold_actors::contract::change::Change;
use leasehold_actors::contract::dispatch::DispatchedAs;
use leasehold_actors::contract::json::{Object, Value};
use leasehold_actors::contract::notification::Notification;
use leasehold_actors::contract::source::{Document, Operation};
use leasehold_actors::contract::text::{Sha256, Token, WorkerToken};
use leasehold_actors::contract::time::{Ceiling, Timestamp};
use leasehold_actors::flows::Answers;
use leasehold_actors::flows::delivery::{Delivery, DeliveryBinding, DeliveryStatus, identity_of};
use leasehold_actors::flows::dispatch::{Dispatch, DispatchBinding, DispatchStatus};
use leasehold_actors::flows::handover::ended;
use leasehold_actors::flows::lifecycle::{Lifecycle, LifecycleBinding, LifecycleStatus};
use leasehold_actors::flows::notification::{NotificationStatus, Notify, NotifyBinding};
use leasehold_actors::flows::processing::{Processing, ProcessingBinding, ProcessingStatus};
use leasehold_actors::record::{Flow, Identity, LeaseToken, Record};
use leasehold_actors::shell::Granted;
use std::sync::Arc;

/// Registrations of one caller on their way at once.
const MANY: usize = 2048;

/// An id of an event, or the flow's code for what is none.
fn event<F: Flow>(event_id: &str, code: &str) -> Result<Identity, Blocked> {
    let token = Token::new(event_id).ok_or_else(|| Blocked::new::<F>(code))?;
    Ok(Identity::new(token.as_str()))
}

impl<F: Answers> Handle<F> {
    async fn status_of(&self, identity: Identity, missing: &str) -> Result<F::Status, Error> {
        let status = self.read(identity, self.now()?).await?;
        status.ok_or_else(|| Blocked::new::<F>(missing).into())
    }
}

impl Handle<Dispatch> {
    /// Enqueues a change event, a JSON document (contract 2.1), to be submitted with at most
    /// `max_attempts` (1 to 20) attempts. It is durable when this returns.
    ///
    /// The same change with the same ceiling again changes nothing, whatever its state.
    ///
    /// # Errors
    /// [`Error::Blocked`] with `dispatch.max_attempts_invalid`, `dispatch.time_invalid`,
    /// `dispatch.change_invalid` or `dispatch.idempotency_collision`; [`Error::Journal`].
    pub async fn enqueue(
        &self,
        change: impl AsRef<[u8]>,
        max_attempts: i64,
    ) -> Result<Registered<DispatchStatus>, Error> {
        let ceiling = arguments::ceiling::<Dispatch>(max_attempts, "max_attempts_invalid")?;
        let now = self.now()?;
        let change = Change::parse(change.as_ref())
            .map_err(|_| Blocked::new::<Dispatch>("change_invalid"))?;
        let binding = DispatchBinding::of(&change, ceiling);
        self.register(binding, change.payload, None, now).await
    }

    /// Enqueues many change events, each as [`Self::enqueue`] does, and answers for each in their order.
    /// They become durable together, many at a time; all are when this returns.
    pub async fn enqueue_many<C: AsRef<[u8]>>(
        &self,
        changes: impl IntoIterator<Item = C>,
        max_attempts: i64,
    ) -> Vec<Result<Registered<DispatchStatus>, Error>> {
        let enqueued = changes.into_iter().map(|change| self.enqueue(change, max_attempts));
        stream::iter(enqueued).buffered(MANY).collect().await
    }

    /// Status of the change with this event id.
    ///
    /// # Errors
    /// [`Error::Blocked`] with `dispatch.event_invalid`, `dispatch.time_invalid`,
    /// `dispatch.event_missing`, `dispatch.state_invalid`.
    pub async fn status(&self, event_id: &str) -> Result<DispatchStatus, Error> {
        self.status_of(event::<Dispatch>(event_id, "event_invalid")?, "event_missing").await
    }
}

impl Handle<Lifecycle> {
    /// Registers an accepted change to be watched: the change event, and its dispatch status as a JSON
    /// object, of which seven fields are read. With hand-over switched on the engine does this itself.
    ///
    /// # Errors
    /// [`Error::Blocked`] with `lifecycle_monitor.max_failures_invalid`, `.time_invalid`,
    /// `dispatch.change_invalid`, `lifecycle_monitor.dispatch_invalid` or `.idempotency_collision`;
    /// [`Error::Journal`].
    pub async fn register_change(
        &self,
        change: impl AsRef<[u8]>,
        dispatch_status: impl AsRef<[u8]>,
        max_consecutive_failures: i64,
    ) -> Result<Registered<LifecycleStatus>, Error> {
        let ceiling =
            arguments::ceiling::<Lifecycle>(max_consecutive_failures, "max_failures_invalid")?;
        let now = self.now()?;
        let change = Change::parse(change.as_ref())
            .map_err(|_| Blocked::new::<Dispatch>("change_invalid"))?;
        let accepted = Value::parse(dispatch_status.as_ref())
            .ok()
            .and_then(|status| accepted(status.as_object()?, &change))
            .ok_or_else(|| Blocked::new::<Lifecycle>("dispatch_invalid"))?;
        let binding = LifecycleBinding {
            event_id: change.event_id,
            site_id: change.site_id,
            plan_id: accepted.0,
            website_version: change.website_version,
            source_sequence: change.source_sequence,
            job_count: accepted.1,
            change_sha256: change.payload.sha256(),
            max_consecutive_failures: ceiling,
        };
        self.register(binding, (), ended(accepted.2), now).await
    }

    /// Status of the watched change with this event id.
    ///
    /// # Errors
    /// [`Error::Blocked`] with `lifecycle_monitor.event_invalid`, `.time_invalid`, `.event_missing`,
    /// `.state_invalid`.
    pub async fn status(&self, event_id: &str) -> Result<LifecycleStatus, Error> {
        self.status_of(event::<Lifecycle>(event_id, "event_invalid")?, "event_missing").await
    }
}

/// The plan, its jobs and the remote status of a succeeded dispatch of this change.
fn accepted(status: &Object, change: &Change) -> Option<(Token, u64, DispatchedAs)> {
    let remote = match status.text("remote_status")? {
        "enqueued" => DispatchedAs::Enqueued,
        "superseded" => DispatchedAs::Superseded,
        "cancelled" => DispatchedAs::Cancelled,
        _ => return None,
    };
    let plan_id = Token::new(status.text("remote_plan_id")?)?;
    let job_count = status.get("remote_job_count")?.as_count().filter(|count| *count > 0)?;
    Sha256::from_hex(status.text("response_sha256")?)?;
    let same = status.text("event_id")? == change.event_id.as_str()
        && Sha256::from_hex(status.text("payload_sha256")?)? == change.payload.sha256()
        && status.text("status")? == "succeeded";
    same.then_some((plan_id, job_count, remote))
}

impl Handle<Notify> {
    /// Registers the notification of a terminal change. With hand-over switched on the engine does
    /// this itself.
    ///
    /// # Errors
    /// [`Error::Blocked`] with `terminal_notification.max_attempts_invalid`, `.time_invalid`,
    /// `.lifecycle_invalid` (not terminal, or a hash where there was no answer), `.payload_invalid`,
    /// `.idempotency_collision`; [`Error::Journal`].
    pub async fn register_terminal(
        &self,
        lifecycle: &LifecycleStatus,
        max_attempts: i64,
    ) -> Result<Registered<NotificationStatus>, Error> {
        let ceiling = arguments::ceiling::<Notify>(max_attempts, "max_attempts_invalid")?;
        let now = self.now()?;
        let terminal = lifecycle
            .remote_status
            .filter(|status| lifecycle.state == Lifecycle::COMPLETED && status.is_terminal())
            .ok_or_else(|| Blocked::new::<Notify>("lifecycle_invalid"))?;
        let notification =
            Notification::build(&leasehold_actors::contract::notification::Terminal {
                event_id: lifecycle.event_id.clone(),
                site_id: lifecycle.site_id.clone(),
                plan_id: lifecycle.plan_id.clone(),
                website_version: lifecycle.website_version.clone(),
                source_sequence: lifecycle.source_sequence,
                job_count: lifecycle.job_count,
                change_sha256: lifecycle.change_sha256,
                lifecycle_binding_sha256: lifecycle.binding_sha256,
                terminal_status: terminal,
                lifecycle_sha256: lifecycle.lifecycle_sha256,
            })
            .and_then(|built| Notification::parse(built.payload.as_bytes()).ok())
            .ok_or_else(|| Blocked::new::<Notify>("lifecycle_invalid"))?;
        let binding = NotifyBinding::of(&notification, ceiling);
        self.register(binding, notification.payload, None, now).await
    }

    /// Status of the notification of this event.
    ///
    /// # Errors
    /// [`Error::Blocked`] with `terminal_notification.payload_invalid`, `.time_invalid`, `.missing`,
    /// `.state_invalid`.
    pub async fn status(&self, event_id: &str) -> Result<NotificationStatus, Error> {
        self.status_of(event::<Notify>(event_id, "payload_invalid")?, "missing").await
    }
}

impl Handle<Processing> {
    /// Registers an acknowledged notification, a JSON document with its hash in hex, to be watched.
    /// With hand-over switched on the engine does this itself.
    ///
    /// # Errors
    /// [`Error::Blocked`] with `terminal_processing_monitor.time_invalid`, `.max_failures_invalid`,
    /// `.capabilities_invalid` (no receiver digest is configured), `.notification_invalid`,
    /// `.idempotency_collision`; [`Error::Journal`].
    pub async fn register_notification(
        &self,
        notification: impl AsRef<[u8]>,
        notification_sha256: &str,
        max_failures: i64,
    ) -> Result<Registered<ProcessingStatus>, Error> {
        let now = self.now()?;
        let ceiling = arguments::ceiling::<Processing>(max_failures, "max_failures_invalid")?;
        let digest = self
            .terms
            .expected
            .ok_or_else(|| Blocked::new::<Processing>("capabilities_invalid"))?;
        let invalid = || Blocked::new::<Processing>("notification_invalid");
        let notification =
            Notification::parse_loosely(notification.as_ref()).map_err(|_| invalid())?;
        let sha256 = notification.payload.sha256();
        if Sha256::from_hex(notification_sha256) != Some(sha256) {
            return Err(invalid().into());
        }
        let binding = ProcessingBinding {
            event_id: notification.event_id,
            notification_id: notification.notification_id,
            site_id: notification.site_id,
            terminal_status: notification.terminal_status,
            notification_sha256: sha256,
            capabilities_sha256: digest,
            max_failures: ceiling,
        };
        self.register(binding, (), None, now).await
    }

    /// Status of the watched notification of this event.
    ///
    /// # Errors
    /// [`Error::Blocked`] with `terminal_processing_monitor.event_invalid`, `.time_invalid`,
    /// `.missing`, `.state_invalid`.
    pub async fn status(&self, event_id: &str) -> Result<ProcessingStatus, Error> {
        self.status_of(event::<Processing>(event_id, "event_invalid")?, "missing").await
    }
}

impl Handle<Delivery> {
    /// Enqueues a change event for the source runtime, with our own ceiling and the one to send along.
    ///
    /// # Errors
    /// [`Error::Blocked`] with `source_delivery.source_attempts_invalid`, `.attempts_invalid`,
    /// `.time_invalid`, `.request_invalid`, `.capabilities_invalid` (no source digest is configured),
    /// `.idempotency_collision`; [`Error::Journal`].
    pub async fn enqueue_change(
        &self,
        change: impl AsRef<[u8]>,
        source_max_attempts: i64,
        delivery_max_attempts: i64,
    ) -> Result<Registered<DeliveryStatus>, Error> {
        let kind = Some(true);
        self.enqueue_document(change.as_ref(), source_max_attempts, delivery_max_attempts, kind)
            .await
    }

    /// Enqueues a cancellation or a tombstone; changes are refused at this door (D15). It is not due
    /// while a change with the same event id is unsettled here (D5).
    ///
    /// # Errors
    /// As [`Self::enqueue_change`].
    pub async fn enqueue_removal(
        &self,
        removal: impl AsRef<[u8]>,
        source_max_attempts: i64,
        delivery_max_attempts: i64,
    ) -> Result<Registered<DeliveryStatus>, Error> {
        let kind = Some(false);
        self.enqueue_document(removal.as_ref(), source_max_attempts, delivery_max_attempts, kind)
            .await
    }

    /// Enqueues a document of whatever kind its schema says, or of one kind only: a change, or none.
    pub(crate) async fn enqueue_document(
        &self,
        document: &[u8],
        source_max_attempts: i64,
        delivery_max_attempts: i64,
        change: Option<bool>,
    ) -> Result<Registered<DeliveryStatus>, Error> {
        let source =
            arguments::ceiling::<Delivery>(source_max_attempts, "source_attempts_invalid")?;
        let delivery = arguments::ceiling::<Delivery>(delivery_max_attempts, "attempts_invalid")?;
        let now = self.now()?;
        let document = Document::parse(document)
            .ok()
            .filter(|document| {
                change.is_none_or(|change| (document.operation == Operation::Change) == change)
            })
            .ok_or_else(|| Blocked::new::<Delivery>("request_invalid"))?;
        let digest =
            self.terms.expected.ok_or_else(|| Blocked::new::<Delivery>("capabilities_invalid"))?;
        let binding = DeliveryBinding::of(&document, digest, delivery, source);
        self.register(binding, document.payload, None, now).await
    }

    /// Status of one document: its operation (`change`, `cancellation`, `tombstone`) and its id.
    ///
    /// # Errors
    /// [`Error::Blocked`] with `source_delivery.status_invalid`, `.time_invalid`, `.status_not_found`,
    /// `.state_invalid`.
    pub async fn status(&self, operation: &str, request_id: &str) -> Result<DeliveryStatus, Error> {
        let invalid = || Blocked::new::<Delivery>("status_invalid");
        let operation = Operation::from_name(operation).ok_or_else(invalid)?;
        let request_id = Token::new(request_id).ok_or_else(invalid)?;
        self.status_of(identity_of(operation, &request_id), "status_not_found").await
    }
}

/// A claim on a change, in parts: for a worker in another process.
#[derive(Clone)]
pub struct DispatchClaimParts {
    /// The change in its canonical form.
    pub payload: String,
    /// Its hash, 64 hex digits.
    pub payload_sha256: String,
    /// Which attempt it is.
    pub attempt: u32,
    /// Leases it may take.
    pub max_attempts: i64,
    /// Who holds the lease.
    pub lease_owner: String,
    /// Its token; a secret.
    pub lease_token: String,
    /// When it ends, in seconds since 1970.
    pub lease_expires_at: f64,
}

impl std::fmt::Debug for DispatchClaimParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DispatchClaimParts").field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

impl Claim<Dispatch> {
    /// Takes the claim apart.
    #[must_use]
    pub fn to_parts(&self) -> DispatchClaimParts {
        let granted = &self.granted;
        DispatchClaimParts {
            payload: granted.payload.as_str().to_owned(),
            payload_sha256: granted.payload.sha256().to_string(),
            attempt: granted.record.attempts,
            max_attempts: granted.record.binding.max_attempts.get().into(),
            lease_owner: granted.owner.as_str().to_owned(),
            lease_token: granted.token.expose().to_owned(),
            lease_expires_at: granted.expires_at.seconds(),
        }
    }

    /// Puts a claim together again.
    ///
    /// # Errors
    /// [`Error::Blocked`] with `dispatch.claim_invalid` when it is not well formed or its payload does
    /// not match its hash.
    pub fn from_parts(parts: &DispatchClaimParts) -> Result<Self, Error> {
        Self::joined(parts).ok_or_else(|| Blocked::new::<Dispatch>("claim_invalid").into())
    }

    fn joined(parts: &DispatchClaimParts) -> Option<Self> {
        let change = Change::parse(parts.payload.as_bytes()).ok()?;
        let max_attempts = Ceiling::new(parts.max_attempts)?;
        let token = Token::new(&parts.lease_token)?;
        let expires_at = Timestamp::new(parts.lease_expires_at)?;
        let canonical = change.payload.as_str() == parts.payload;
        let matches = Sha256::from_hex(&parts.payload_sha256)? == change.payload.sha256();
        if !canonical || !matches || !(1..=max_attempts.get()).contains(&parts.attempt) {
            return None;
        }
        let binding = DispatchBinding::of(&change, max_attempts);
        let record = Record {
            binding: Arc::new(binding),
            created_at: Timestamp::ZERO,
            updated_at: Timestamp::ZERO,
            next_at: Timestamp::ZERO,
            attempts: parts.attempt,
            failures: 0,
            progress: (),
            losses: 0,
        };
        Some(Self::new(Granted {
            identity: Dispatch::identity(&record.binding),
            record,
            payload: change.payload,
            token: LeaseToken::new(token.as_str().into()),
            owner: WorkerToken::new(&parts.lease_owner)?,
            expires_at,
        }))
    }
}
