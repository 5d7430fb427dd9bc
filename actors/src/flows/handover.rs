//! From one flow to the next (contract 4.5, 4.7).
//!
//! Owns what a settled record registers where. Pure and derived from the journal alone: the same
//! record always registers the same, so that doing it again changes nothing and a crash in between
//! loses nothing.

use super::dispatch::Dispatch;
use super::lifecycle::{Lifecycle, LifecycleBinding, LifecycleOutcome};
use super::notification::{Notify, NotifyBinding};
use super::processing::{Processing, ProcessingBinding};
use crate::contract::dispatch::DispatchedAs;
use crate::contract::lifecycle::RemoteStatus;
use crate::contract::notification::{Notification, Terminal};
use crate::contract::text::Sha256;
use crate::contract::time::{Ceiling, Timestamp};
use crate::record::{Command, Flow, Identity, State};

/// What is registered next.
#[derive(Debug)]
pub struct Registration<F: Flow> {
    /// Whose record it is.
    pub identity: Identity,
    /// The command that registers it.
    pub command: Command<F>,
    /// As of when: the time the record before was settled.
    pub at: Timestamp,
}

/// What the next flow is given beside the record.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// The ceiling of its records.
    pub ceiling: Ceiling,
    /// Its pinned digest, where it has one.
    pub digest: Option<Sha256>,
}

/// A flow that takes over records which another one has settled.
pub trait Follows<P: Flow>: Flow {
    /// What a settled record registers; `None` for one that is not settled well.
    fn follow(state: &State<P>, terms: Terms) -> Option<Registration<Self>>;
}

impl Follows<Dispatch> for Lifecycle {
    fn follow(state: &State<Dispatch>, terms: Terms) -> Option<Registration<Self>> {
        let State::Completed { record, outcome } = state else { return None };
        let binding = LifecycleBinding {
            event_id: record.binding.event_id.clone(),
            site_id: record.binding.site_id.clone(),
            plan_id: outcome.plan_id.clone(),
            website_version: record.binding.website_version.clone(),
            source_sequence: record.binding.source_sequence,
            job_count: outcome.job_count,
            change_sha256: record.binding.payload_sha256,
            max_consecutive_failures: terms.ceiling,
        };
        let settled = ended(outcome.status);
        Some(Registration {
            identity: Self::identity(&binding),
            command: Command::Register { binding, payload: (), settled },
            at: record.updated_at,
        })
    }
}

/// How a change ended that the CMS did not even queue.
#[must_use]
pub fn ended(status: DispatchedAs) -> Option<LifecycleOutcome> {
    let status = match status {
        DispatchedAs::Enqueued => return None,
        DispatchedAs::Superseded => RemoteStatus::Superseded,
        DispatchedAs::Cancelled => RemoteStatus::Cancelled,
    };
    Some(LifecycleOutcome { status, snapshot: None })
}

/// The notification of a terminal record; `None` for one that is not terminal.
#[must_use]
pub fn notification_of(state: &State<Lifecycle>) -> Option<Notification> {
    let State::Completed { record, outcome } = state else { return None };
    let binding = &record.binding;
    Notification::build(&Terminal {
        event_id: binding.event_id.clone(),
        site_id: binding.site_id.clone(),
        plan_id: binding.plan_id.clone(),
        website_version: binding.website_version.clone(),
        source_sequence: binding.source_sequence,
        job_count: binding.job_count,
        change_sha256: binding.change_sha256,
        lifecycle_binding_sha256: binding.sha256(),
        terminal_status: outcome.status,
        lifecycle_sha256: outcome.snapshot.as_ref().map(|snapshot| snapshot.answer.sha256()),
    })
}

impl Follows<Lifecycle> for Notify {
    fn follow(state: &State<Lifecycle>, terms: Terms) -> Option<Registration<Self>> {
        let notification = notification_of(state)?;
        let binding = NotifyBinding::of(&notification, terms.ceiling);
        Some(Registration {
            identity: Self::identity(&binding),
            command: Command::Register { binding, payload: notification.payload, settled: None },
            at: state.record()?.updated_at,
        })
    }
}

impl Follows<Notify> for Processing {
    fn follow(state: &State<Notify>, terms: Terms) -> Option<Registration<Self>> {
        let State::Completed { record, .. } = state else { return None };
        let binding = ProcessingBinding {
            event_id: record.binding.event_id.clone(),
            notification_id: record.binding.notification_id.clone(),
            site_id: record.binding.site_id.clone(),
            terminal_status: record.binding.terminal_status,
            notification_sha256: record.binding.notification_sha256,
            capabilities_sha256: terms.digest?,
            max_failures: terms.ceiling,
        };
        Some(Registration {
            identity: Self::identity(&binding),
            command: Command::Register { binding, payload: (), settled: None },
            at: record.updated_at,
        })
    }
}
