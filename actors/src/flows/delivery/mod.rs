//! Flow `delivery`: changes, cancellations and tombstones to the source runtime (contract 4.4).

mod answers;

pub use answers::{
    DeliveryAttempt, DeliveryClaim, DeliveryHealth, DeliveryRequest, DeliveryStatus, HEALTH_SCHEMA,
};

use super::digest_key;
use crate::contract::payload::Payload;
use crate::contract::source::{Document, Expected, Operation};
use crate::contract::text::{Sha256, Token};
use crate::contract::time::Ceiling;
use crate::record::rules::{Arguments, Counted, Due, Late};
use crate::record::{Flow, FlowTag, Identity, Key, Link, Rules, State, Verdict};
use serde::{Deserialize, Serialize};

/// The flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery;

/// What an enqueued document fixes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryBinding {
    /// Which of the three.
    pub operation: Operation,
    /// Its identity: the event id, the cancellation id or the tombstone id.
    pub request_id: Token,
    /// The change it is, or concerns.
    pub event_id: Token,
    /// The site.
    pub site_id: Token,
    /// Hash of its canonical form.
    pub payload_sha256: Sha256,
    /// The source runtime's pinned digest (D9).
    pub capabilities_sha256: Sha256,
    /// Leases it may take here.
    pub delivery_max_attempts: Ceiling,
    /// Sent along, for the source runtime's own attempts.
    pub source_max_attempts: Ceiling,
}

impl DeliveryBinding {
    /// The binding of a document.
    #[must_use]
    pub fn of(document: &Document, digest: Sha256, delivery: Ceiling, source: Ceiling) -> Self {
        Self {
            operation: document.operation,
            request_id: document.request_id.clone(),
            event_id: document.event_id.clone(),
            site_id: document.site_id.clone(),
            payload_sha256: document.payload.sha256(),
            capabilities_sha256: digest,
            delivery_max_attempts: delivery,
            source_max_attempts: source,
        }
    }

    pub(super) fn expected(&self) -> Expected<'_> {
        Expected {
            operation: self.operation,
            request_id: &self.request_id,
            event_id: &self.event_id,
            payload_sha256: self.payload_sha256,
            max_attempts: self.source_max_attempts.get(),
            capabilities_sha256: self.capabilities_sha256,
        }
    }
}

/// What a delivered document keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivered {
    /// Hash of the answer.
    pub response_sha256: Sha256,
}

/// The identity of a document: operation and request id. Neither holds a `/`.
#[must_use]
pub fn identity_of(operation: Operation, request_id: &Token) -> Identity {
    Identity::new(&format!("{}/{request_id}", operation.name()))
}

impl Flow for Delivery {
    const TAG: FlowTag = FlowTag::Delivery;
    const RULES: Rules = Rules {
        prefix: "source_delivery",
        counted: Counted::Leases,
        expiry_code: "source_delivery.lease_expired",
        losses_code: "source_delivery.lease_lost_repeatedly",
        expiry_due: Due::Now,
        expiry_final_due: Due::Now,
        complete_due: Due::Unchanged,
        late: Late::Lost,
        unmarked: "client_failure",
        not_a_lease: "lease_invalid",
        arguments: Arguments::WorkerFirst,
    };
    type Binding = DeliveryBinding;
    type Payload = Payload;
    type Progress = ();
    type Report = Sha256;
    type Outcome = Delivered;
    /// The operation, and the digest it was registered under.
    type Facet = (Option<Operation>, Option<Key>);
    type Note = ();

    fn judge(_: &DeliveryBinding, (): &(), response_sha256: Sha256) -> Verdict<Self> {
        Verdict::Complete(Delivered { response_sha256 })
    }

    fn identity(binding: &DeliveryBinding) -> Identity {
        identity_of(binding.operation, &binding.request_id)
    }

    fn site(binding: &DeliveryBinding) -> &str {
        binding.site_id.as_str()
    }

    fn ceiling(binding: &DeliveryBinding) -> Ceiling {
        binding.delivery_max_attempts
    }

    fn belongs(binding: &DeliveryBinding, payload: &Payload) -> bool {
        binding.payload_sha256 == payload.sha256()
    }

    /// Removals go before changes.
    fn rank(binding: &DeliveryBinding) -> u8 {
        match binding.operation {
            Operation::Cancellation | Operation::Tombstone => 0,
            Operation::Change => 1,
        }
    }

    fn facet(state: &State<Self>) -> (Option<Operation>, Option<Key>) {
        let binding = state.record().map(|record| &record.binding);
        (
            binding.map(|binding| binding.operation),
            binding.map(|binding| digest_key(binding.capabilities_sha256)),
        )
    }

    fn repeats((): &(), (): &()) -> Option<()> {
        None // no answer leaves a document watched
    }

    fn repeated((): &(), (): &()) -> Option<()> {
        None
    }

    /// A removal waits while the change it concerns is unsettled here (D5).
    fn link(binding: &DeliveryBinding) -> Link {
        let key = Key::of(binding.event_id.as_str());
        match binding.operation {
            Operation::Change => Link::Holds(key),
            Operation::Cancellation | Operation::Tombstone => Link::Waits(key),
        }
    }

    fn digest(binding: &DeliveryBinding) -> Option<Sha256> {
        Some(binding.capabilities_sha256)
    }

    fn repin(binding: &DeliveryBinding, digest: Sha256) -> Option<DeliveryBinding> {
        Some(DeliveryBinding { capabilities_sha256: digest, ..binding.clone() })
    }
}
