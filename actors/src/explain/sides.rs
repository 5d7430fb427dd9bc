//! What explaining needs of each flow, and what other records have to do with one.
//!
//! Owns the look at the other flows: whom a removal waits for, and who goes on after a settled record.

use super::{Explanation, Rule, View, explain};
use crate::arguments::Blocked;
use crate::contract::dispatch::DispatchedAs;
use crate::contract::lifecycle::RemoteStatus;
use crate::contract::receiver::{ReceiverState, WorkStatus};
use crate::contract::source::Operation;
use crate::contract::text::ErrorCode;
use crate::control::PausedScope;
use crate::flows::Answers;
use crate::flows::all::AllFlows;
use crate::flows::delivery::{Delivered, Delivery, DeliveryBinding, identity_of};
use crate::flows::dispatch::Dispatch;
use crate::flows::lifecycle::{Lifecycle, LifecycleOutcome, Snapshot};
use crate::flows::notification::{Acknowledged, Notify};
use crate::flows::processing::Processing;
use crate::record::{Flow as _, FlowTag, Identity, Record, State, StateKind, stream_of};
use crate::replay::{Replay, Replayed};
use leasehold_journal::StreamId;
use serde::Serialize;

/// What other records, and operators' pauses, have to do with one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Situation {
    /// The unsettled record it waits for (D5).
    pub waits_for: Option<Identity>,
    /// Who goes on after it, once it is settled.
    pub next: Option<Next>,
    /// What is paused of its flow, its site and its destination, while it is not at its end.
    pub paused: Vec<PausedScope>,
}

/// The record that goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Next {
    /// Its flow.
    pub flow: FlowTag,
    /// Its identity.
    pub id: String,
    /// Its state; null while it is not registered.
    pub state: Option<&'static str>,
}

/// What explaining needs of a flow.
pub trait Explains: Answers {
    /// Its records.
    fn records(flows: &AllFlows) -> &Replay<Self>;
    /// How a settled record ended, in one word.
    fn ended(outcome: &Self::Outcome) -> &'static str;

    /// What the other side said last, in one word.
    #[must_use]
    fn heard(_progress: &Self::Progress) -> Option<&'static str> {
        None
    }

    /// Whether this failure is the other side's own.
    #[must_use]
    fn gave_up_there(_code: &ErrorCode) -> bool {
        false
    }

    /// By which rule a record is settled; `goes_on` is whether another flow follows.
    #[must_use]
    fn settled_by(_record: &Record<Self>, _outcome: &Self::Outcome, goes_on: bool) -> Rule {
        if goes_on { Rule::HandOver } else { Rule::Settled }
    }

    /// Whom a waiting record waits for (D5).
    #[must_use]
    fn holder(_binding: &Self::Binding, _flows: &AllFlows) -> Option<Identity> {
        None
    }

    /// The one other record that explaining this one may ask for: whom it waits for, or who goes on.
    #[must_use]
    fn other(_binding: &Self::Binding) -> Option<StreamId> {
        None
    }

    /// Who goes on after a settled record.
    #[must_use]
    fn next(_id: &Identity, _flows: &AllFlows) -> Option<Next> {
        None
    }
}

/// What other records, and operators' pauses, have to do with this one.
#[must_use]
pub fn situation<F: Explains>(state: &State<F>, flows: &AllFlows) -> Situation {
    let none = Situation::default();
    let paused = |record: &Record<F>| flows.controls.covering(F::TAG, F::site(&record.binding));
    match state {
        State::Ready { record, .. } => Situation {
            waits_for: F::holder(&record.binding, flows),
            paused: paused(record),
            ..none
        },
        State::Leased { record, .. } => Situation { paused: paused(record), ..none },
        State::Completed { record, .. } => {
            Situation { next: F::next(&F::identity(&record.binding), flows), ..none }
        }
        State::Vacant | State::Failed { .. } | State::Dismissed { .. } => none,
    }
}

/// Explains a record of a journal that is replayed as a whole; `None` for one that is not there.
#[must_use]
pub fn explain_record<F: Explains>(
    state: &State<F>,
    flows: &AllFlows,
    view: &View<'_>,
) -> Option<Explanation> {
    explain(state, situation(state, flows), view)
}

/// The record of this identity in the flow that follows.
fn next_in<F: Explains>(id: &Identity, flows: &AllFlows) -> Next {
    let state = match F::records(flows).get(stream_of(F::TAG, id.as_str())) {
        Some(Replayed::Sound(state)) => state.kind().map(|kind| kind.name(F::COMPLETED)),
        Some(Replayed::Quarantined) => Some(StateKind::Quarantined.name(F::COMPLETED)),
        None => None,
    };
    Next { flow: F::TAG, id: id.to_string(), state }
}

impl Explains for Dispatch {
    fn records(flows: &AllFlows) -> &Replay<Self> {
        &flows.dispatch
    }

    fn ended(outcome: &Self::Outcome) -> &'static str {
        match outcome.status {
            DispatchedAs::Enqueued => "enqueued",
            DispatchedAs::Superseded => "superseded",
            DispatchedAs::Cancelled => "cancelled",
        }
    }

    fn other(binding: &Self::Binding) -> Option<StreamId> {
        Some(stream_of(FlowTag::Lifecycle, Self::identity(binding).as_str()))
    }

    fn next(id: &Identity, flows: &AllFlows) -> Option<Next> {
        Some(next_in::<Lifecycle>(id, flows))
    }
}

impl Explains for Lifecycle {
    fn records(flows: &AllFlows) -> &Replay<Self> {
        &flows.lifecycle
    }

    fn ended(outcome: &LifecycleOutcome) -> &'static str {
        outcome.status.name()
    }

    fn heard(progress: &Option<Snapshot>) -> Option<&'static str> {
        progress.as_ref().map(|snapshot| snapshot.status.name())
    }

    fn settled_by(record: &Record<Self>, outcome: &LifecycleOutcome, _: bool) -> Rule {
        // Never polled: it was at its end when it was registered.
        if record.attempts == 0 {
            Rule::SettledAtOnce
        } else if outcome.status == RemoteStatus::Superseded {
            Rule::Superseded
        } else {
            Rule::HandOver
        }
    }

    fn other(binding: &Self::Binding) -> Option<StreamId> {
        Some(stream_of(FlowTag::Notification, Self::identity(binding).as_str()))
    }

    fn next(id: &Identity, flows: &AllFlows) -> Option<Next> {
        Some(next_in::<Notify>(id, flows))
    }
}

impl Explains for Notify {
    fn records(flows: &AllFlows) -> &Replay<Self> {
        &flows.notification
    }

    fn ended(_: &Acknowledged) -> &'static str {
        "acknowledged"
    }

    fn other(binding: &Self::Binding) -> Option<StreamId> {
        Some(stream_of(FlowTag::Processing, Self::identity(binding).as_str()))
    }

    fn next(id: &Identity, flows: &AllFlows) -> Option<Next> {
        Some(next_in::<Processing>(id, flows))
    }
}

impl Explains for Processing {
    fn records(flows: &AllFlows) -> &Replay<Self> {
        &flows.processing
    }

    fn ended(_: &ReceiverState) -> &'static str {
        "the receiver has acted on it"
    }

    fn heard(progress: &Option<ReceiverState>) -> Option<&'static str> {
        progress.as_ref().map(|state| match state.status {
            WorkStatus::Pending => "pending",
            WorkStatus::Leased => "leased",
            WorkStatus::RetryWait => "retry_wait",
            WorkStatus::Succeeded => "succeeded",
            WorkStatus::Failed => "failed",
        })
    }

    fn gave_up_there(code: &ErrorCode) -> bool {
        *code == Blocked::new::<Self>("remote_failed").0
    }
}

impl Explains for Delivery {
    fn records(flows: &AllFlows) -> &Replay<Self> {
        &flows.delivery
    }

    fn ended(_: &Delivered) -> &'static str {
        "delivered"
    }

    fn other(binding: &Self::Binding) -> Option<StreamId> {
        Some(stream_of(Self::TAG, change_of(binding)?.as_str()))
    }

    fn holder(binding: &Self::Binding, flows: &AllFlows) -> Option<Identity> {
        let change = change_of(binding)?;
        let holds = match flows.delivery.get(stream_of(Self::TAG, change.as_str())) {
            Some(Replayed::Sound(State::Ready { .. } | State::Leased { .. })) => true,
            Some(
                Replayed::Quarantined
                | Replayed::Sound(
                    State::Vacant
                    | State::Completed { .. }
                    | State::Failed { .. }
                    | State::Dismissed { .. },
                ),
            )
            | None => false,
        };
        holds.then_some(change)
    }
}

/// The change that a removal concerns; `None` for a change itself.
fn change_of(binding: &DeliveryBinding) -> Option<Identity> {
    match binding.operation {
        Operation::Change => None,
        Operation::Cancellation | Operation::Tombstone => {
            Some(identity_of(Operation::Change, &binding.event_id))
        }
    }
}
