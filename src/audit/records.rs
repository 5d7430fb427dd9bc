//! The audit of every flow's records: decoding, replay, invariants, projections.

use super::check::finding;
use super::controls::{self, ControlAudit};
use super::report::Finding;
use leasehold_actors::control::is_control;
use leasehold_actors::flows::Answers;
use leasehold_actors::flows::delivery::Delivery;
use leasehold_actors::flows::dispatch::Dispatch;
use leasehold_actors::flows::lifecycle::Lifecycle;
use leasehold_actors::flows::notification::Notify;
use leasehold_actors::flows::processing::Processing;
use leasehold_actors::health::{Tally, class};
use leasehold_actors::invariants;
use leasehold_actors::record::identity::flow_of;
use leasehold_actors::record::{FlowTag, State, StateKind};
use leasehold_actors::replay::{Replay, ReplayError, Replayed};
use leasehold_journal::{JournalError, Record, StreamId};
use std::collections::BTreeMap;

/// The audits of all flows.
#[derive(Default)]
pub(super) struct FlowAudits {
    dispatch: FlowAudit<Dispatch>,
    lifecycle: FlowAudit<Lifecycle>,
    notification: FlowAudit<Notify>,
    processing: FlowAudit<Processing>,
    delivery: FlowAudit<Delivery>,
    controls: ControlAudit,
}

impl FlowAudits {
    pub(super) fn take(
        &mut self,
        sequence: u64,
        stream: StreamId,
        record: Result<Record, JournalError>,
    ) -> Option<Finding> {
        if is_control(stream) {
            return self.controls.take(sequence, stream, record);
        }
        match flow_of(stream) {
            Some(FlowTag::Dispatch) => self.dispatch.take(sequence, stream, record),
            Some(FlowTag::Lifecycle) => self.lifecycle.take(sequence, stream, record),
            Some(FlowTag::Notification) => self.notification.take(sequence, stream, record),
            Some(FlowTag::Processing) => self.processing.take(sequence, stream, record),
            Some(FlowTag::Delivery) => self.delivery.take(sequence, stream, record),
            None => Some(finding("record_invalid", Some(sequence), "of no known flow")),
        }
    }

    /// Takes the image of archived events, or compares it with those events.
    pub(super) fn carry(
        &mut self,
        sequence: u64,
        stream: StreamId,
        image: Result<Vec<u8>, JournalError>,
    ) -> Option<Finding> {
        let image = image.ok();
        if is_control(stream) {
            return self.controls.carry(sequence, stream, image);
        }
        match flow_of(stream) {
            Some(FlowTag::Dispatch) => self.dispatch.carry(sequence, stream, image),
            Some(FlowTag::Lifecycle) => self.lifecycle.carry(sequence, stream, image),
            Some(FlowTag::Notification) => self.notification.carry(sequence, stream, image),
            Some(FlowTag::Processing) => self.processing.carry(sequence, stream, image),
            Some(FlowTag::Delivery) => self.delivery.carry(sequence, stream, image),
            None => Some(finding("record_invalid", Some(sequence), "of no known flow")),
        }
    }

    pub(super) fn projections(&self) -> Vec<Finding> {
        let found = [
            self.dispatch.projections(),
            self.lifecycle.projections(),
            self.notification.projections(),
            self.processing.projections(),
            self.delivery.projections(),
        ];
        found.into_iter().flatten().collect()
    }

    /// The flows that have records, and the scopes that were ever paused.
    pub(super) fn counts(&self) -> BTreeMap<&'static str, BTreeMap<&'static str, u64>> {
        let all = [
            (FlowTag::Dispatch.name(), self.dispatch.counts()),
            (FlowTag::Lifecycle.name(), self.lifecycle.counts()),
            (FlowTag::Notification.name(), self.notification.counts()),
            (FlowTag::Processing.name(), self.processing.counts()),
            (FlowTag::Delivery.name(), self.delivery.counts()),
            (controls::NAME, self.controls.counts()),
        ];
        all.into_iter().filter(|(_, counts)| !counts.is_empty()).collect()
    }
}

/// The audit of one flow.
struct FlowAudit<F: Answers> {
    replay: Replay<F>,
    /// Kept up to date transition by transition, as the projector does.
    tally: Tally<F::Facet>,
}

impl<F: Answers> Default for FlowAudit<F> {
    fn default() -> Self {
        Self { replay: Replay::default(), tally: Tally::default() }
    }
}

impl<F: Answers> FlowAudit<F> {
    fn take(
        &mut self,
        sequence: u64,
        stream: StreamId,
        record: Result<Record, JournalError>,
    ) -> Option<Finding> {
        let before = match self.replay.get(stream) {
            Some(Replayed::Sound(state)) => class(state),
            Some(Replayed::Quarantined) | None => None,
        };
        let body = record.ok().map(|record| record.body);
        if let Err(error) = self.replay.apply(stream, body.as_deref()) {
            if error == ReplayError::Quarantined {
                return None; // the first one of the stream was named
            }
            self.tally.quarantine(before);
            let message = match error {
                ReplayError::Decode(_) => "the body is no event of this flow",
                ReplayError::Illegal => "the event cannot have happened in the state before it",
                ReplayError::Body | ReplayError::Quarantined => "the body is gone or damaged",
            };
            return Some(of_flow::<F>(&error.to_string(), sequence, message));
        }
        let Some(Replayed::Sound(state)) = self.replay.get(stream) else { return None };
        self.tally.shift(before, class(state));
        Self::invariants(sequence, state)
    }

    fn carry(
        &mut self,
        sequence: u64,
        stream: StreamId,
        image: Option<Vec<u8>>,
    ) -> Option<Finding> {
        let archives_walked = self.replay.get(stream).is_some();
        let carried = self.replay.carry(stream, image.as_deref());
        if archives_walked {
            let message = "what the journal kept is not what the archived events come to";
            return carried.err().map(|_| of_flow::<F>("base_differs", sequence, message));
        }
        match self.replay.get(stream) {
            Some(Replayed::Sound(state)) => {
                self.tally.shift(None, class(state));
                Self::invariants(sequence, state)
            }
            Some(Replayed::Quarantined) | None => {
                self.tally.quarantine(None);
                let (code, message) = match carried {
                    Ok(()) => ("record_quarantined", "it was archived as one that does not replay"),
                    Err(_) => ("record_damaged", "what its archived events came to is damaged"),
                };
                Some(of_flow::<F>(code, sequence, message))
            }
        }
    }

    fn invariants(sequence: u64, state: &State<F>) -> Option<Finding> {
        let broken = invariants::broken(state)?;
        let mut found = of_flow::<F>(broken.id, sequence, broken.sentence);
        found.id = identity(state);
        Some(found)
    }

    /// Compares the tally that followed every transition with one counted from the states (I9).
    fn projections(&self) -> Option<Finding> {
        let mut counted = Tally::default();
        for (_, record) in self.replay.iter() {
            match record {
                Replayed::Sound(state) => counted.shift(None, class(state)),
                Replayed::Quarantined => counted.quarantine(None),
            }
        }
        (counted != self.tally).then(|| {
            finding("projection_differs", None, "health counts do not follow from the records")
        })
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        let named = StateKind::ALL.map(|kind| (kind.name(F::COMPLETED), self.tally.count(kind)));
        named.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

fn of_flow<F: Answers>(code: &str, sequence: u64, message: &str) -> Finding {
    Finding { flow: Some(F::TAG.name()), ..finding(code, Some(sequence), message) }
}

fn identity<F: Answers>(state: &State<F>) -> Option<String> {
    state.record().map(|record| F::identity(&record.binding).to_string())
}
