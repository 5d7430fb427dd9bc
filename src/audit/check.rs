//! The audit: chain, anchors, decoding, replay, invariants, projections.

use super::report::{Finding, Report};
use super::source::{Source, Walked};
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
use leasehold_journal::chain::{Digest, Head};
use leasehold_journal::log::AnchorCheck;
use leasehold_journal::medium::Anchors;
use leasehold_journal::walk::Item;
use leasehold_journal::{JournalError, JournalId, Record, StreamId};
use std::collections::BTreeMap;

/// Audits everything a source holds. With `expected_head`, that hash must have been the head at some
/// time: a journal that was rewritten or cut before it does not have it any more.
#[must_use]
pub fn audit(source: &Source, expected_head: Option<Digest>) -> Report {
    let mut flows = FlowAudits::default();
    let mut findings = Vec::new();
    let mut heads = Vec::new();
    let mut records = 0;
    let walked = source.walk(&mut |item| {
        match item {
            Item::Record { sequence, stream, record } => {
                records += 1;
                findings.extend(flows.take(sequence, stream, record));
            }
            Item::Frame(head) => heads.push(head),
        }
        Ok(())
    });
    findings.extend(whole_journal(&walked, &heads, expected_head));
    findings.extend(flows.projections());
    let head = walked.head.or(heads.last().copied());
    Report {
        clean: findings.is_empty(),
        journal: walked.journal.map(|id| id.to_string()),
        sequence: head.map_or(0, |head| head.sequence),
        head: head.map(|head| head.hash.to_string()),
        frames: heads.len() as u64,
        records,
        flows: flows.counts(),
        findings,
    }
}

/// What does not hold for the journal as a whole: the chain, the anchors, the expected head.
fn whole_journal(walked: &Walked, heads: &[Head], expected: Option<Digest>) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(walked.stopped.as_ref().map(stopped));
    if let (Some(id), Some(anchors)) = (walked.journal, &walked.anchors) {
        // A walk that stopped early has its own finding; the anchors would repeat it.
        if walked.stopped.is_none() {
            findings.extend(anchored(id, anchors, heads));
        }
        if anchors.damaged > 0 {
            let message = "a copy of the anchor does not verify";
            findings.push(finding("journal_anchor_damaged", None, message));
        }
    }
    if let Some(expected) = expected {
        let genesis = walked.journal.map(Head::genesis);
        let found = heads.iter().copied().chain(genesis).any(|head| head.hash == expected);
        if !found {
            let message = "the expected head was never the head of this journal";
            findings.push(finding("head_not_found", None, message));
        }
    }
    findings
}

fn finding(code: &str, sequence: Option<u64>, message: &str) -> Finding {
    Finding { code: code.to_owned(), sequence, flow: None, id: None, message: message.to_owned() }
}

#[allow(clippy::wildcard_enum_match_arm)] // the rest reads alike, whatever it is
fn stopped(error: &JournalError) -> Finding {
    match error {
        JournalError::Corrupt { sequence: 0 } => {
            finding(error.code(), None, "the database does not say what it holds")
        }
        JournalError::Corrupt { sequence } => {
            let message = "the chain breaks here; nothing from here on is verified";
            finding(error.code(), Some(*sequence), message)
        }
        JournalError::Newer { .. } => {
            finding(error.code(), None, "written by a newer version; not understood from here on")
        }
        other => finding(other.code(), None, "reading stopped here"),
    }
}

fn anchored(id: JournalId, anchors: &Anchors, heads: &[Head]) -> Option<Finding> {
    let mut check = AnchorCheck::new(id, anchors);
    for head in heads {
        check.pass(*head);
    }
    match check.finish(heads.last().copied().unwrap_or_else(|| Head::genesis(id))) {
        Ok(()) => None,
        Err(error @ JournalError::BehindAnchor { sequence, missing }) => {
            let message = format!("{missing} records after this one were durable and are gone");
            Some(finding(error.code(), Some(sequence), &message))
        }
        Err(error @ JournalError::Diverged { sequence }) => {
            let message = "the anchor knows another history up to here, or another journal";
            Some(finding(error.code(), Some(sequence), message))
        }
        Err(error) => {
            Some(finding(error.code(), None, "the anchor is gone although there are records"))
        }
    }
}

/// The audits of all flows.
#[derive(Default)]
struct FlowAudits {
    dispatch: FlowAudit<Dispatch>,
    lifecycle: FlowAudit<Lifecycle>,
    notification: FlowAudit<Notify>,
    processing: FlowAudit<Processing>,
    delivery: FlowAudit<Delivery>,
}

impl FlowAudits {
    fn take(
        &mut self,
        sequence: u64,
        stream: StreamId,
        record: Result<Record, JournalError>,
    ) -> Option<Finding> {
        match flow_of(stream) {
            Some(FlowTag::Dispatch) => self.dispatch.take(sequence, stream, record),
            Some(FlowTag::Lifecycle) => self.lifecycle.take(sequence, stream, record),
            Some(FlowTag::Notification) => self.notification.take(sequence, stream, record),
            Some(FlowTag::Processing) => self.processing.take(sequence, stream, record),
            Some(FlowTag::Delivery) => self.delivery.take(sequence, stream, record),
            None => Some(finding("record_invalid", Some(sequence), "of no known flow")),
        }
    }

    fn projections(&self) -> Vec<Finding> {
        let found = [
            self.dispatch.projections(),
            self.lifecycle.projections(),
            self.notification.projections(),
            self.processing.projections(),
            self.delivery.projections(),
        ];
        found.into_iter().flatten().collect()
    }

    /// The flows that have records.
    fn counts(&self) -> BTreeMap<&'static str, BTreeMap<&'static str, u64>> {
        let all = [
            (FlowTag::Dispatch, self.dispatch.counts()),
            (FlowTag::Lifecycle, self.lifecycle.counts()),
            (FlowTag::Notification, self.notification.counts()),
            (FlowTag::Processing, self.processing.counts()),
            (FlowTag::Delivery, self.delivery.counts()),
        ];
        let known = all.into_iter().filter(|(_, counts)| !counts.is_empty());
        known.map(|(flow, counts)| (flow.name(), counts)).collect()
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
            let mut found = finding(&error.to_string(), Some(sequence), message);
            found.flow = Some(F::TAG.name());
            return Some(found);
        }
        let Some(Replayed::Sound(state)) = self.replay.get(stream) else { return None };
        self.tally.shift(before, class(state));
        let broken = invariants::broken(state)?;
        let mut found = finding(broken.id, Some(sequence), broken.sentence);
        found.flow = Some(F::TAG.name());
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

fn identity<F: Answers>(state: &State<F>) -> Option<String> {
    state.record().map(|record| F::identity(&record.binding).to_string())
}
