//! Every record's state, and one record's history, from a walk.

use super::check::{Heads, anchored};
use super::explain::Pins;
use super::source::{Source, Walked};
use leasehold_actors::agenda::{Agenda, Slot};
use leasehold_actors::codec;
use leasehold_actors::contract::text::Sha256;
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::control::{Controls, PausedScope, is_control};
use leasehold_actors::explain::{Brought, Pinned};
use leasehold_actors::flows::all::AllFlows;
use leasehold_actors::flows::delivery::DeliveryHealth;
use leasehold_actors::flows::dispatch::DispatchHealth;
use leasehold_actors::flows::lifecycle::LifecycleHealth;
use leasehold_actors::flows::notification::NotificationHealth;
use leasehold_actors::flows::processing::ProcessingHealth;
use leasehold_actors::flows::{Answers, HealthView};
use leasehold_actors::health::{Tally, class};
use leasehold_actors::record::{Event, Flow, Record, State, StateKind, stream_of};
use leasehold_actors::replay::{Replay, ReplayError, Replayed};
use leasehold_journal::walk::Item;
use leasehold_journal::{JournalError, StreamId};
use serde::Serialize;
use serde_json::{Map, Value};

/// Every record, as it was at the end of the walk.
#[derive(Debug, Default)]
pub struct States {
    /// The flows.
    pub flows: AllFlows,
}

/// Health of every flow.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AllHealth {
    /// Flow `dispatch`.
    pub dispatch: DispatchHealth,
    /// Flow `lifecycle`.
    pub lifecycle: LifecycleHealth,
    /// Flow `notification`.
    pub notification: NotificationHealth,
    /// Flow `processing`.
    pub processing: ProcessingHealth,
    /// Flow `delivery`.
    pub delivery: DeliveryHealth,
}

impl AllHealth {
    /// Whether no flow is blocked.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        let Self { dispatch, lifecycle, notification, processing, delivery } = self;
        let statuses = [
            dispatch.status,
            lifecycle.status,
            notification.status,
            processing.status,
            delivery.status,
        ];
        statuses.iter().all(|status| *status == "ok")
    }

    /// Each flow's health under its name, as `leasehold health --json` prints it.
    #[must_use]
    pub fn by_flow(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(flows)) => flows,
            Ok(_) | Err(_) => unreachable!("health is a struct of structs with text for keys"),
        }
    }
}

/// One record in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Its flow.
    pub flow: &'static str,
    /// Its identity; null when it does not replay.
    pub id: Option<String>,
    /// Its site; null when it does not replay.
    pub site_id: Option<String>,
    /// Its state.
    pub state: &'static str,
    /// Leases taken.
    pub attempts: u32,
    /// When it is, or was, due.
    pub next_at: Option<f64>,
    /// The last error.
    pub error_code: Option<String>,
    /// When it was registered.
    pub created_at: Option<f64>,
    /// The pinned digest it is registered under, where its flow has one.
    pub capabilities_sha256: Option<Sha256>,
}

impl States {
    /// Reads all of a source. What the anchors know better is told in [`Walked::doubt`].
    ///
    /// # Errors
    /// What stopped the walk: a list of half a journal would mislead. `audit` says more.
    pub fn read(source: &Source) -> Result<(Self, Walked), JournalError> {
        Self::read_beside(source, &mut |_, _| {})
    }

    /// The same; `look` is shown every event's stream and body, as far as they can be read.
    pub(super) fn read_beside(
        source: &Source,
        look: &mut dyn FnMut(StreamId, &[u8]),
    ) -> Result<(Self, Walked), JournalError> {
        let (mut states, mut heads) = (Self::default(), Heads::default());
        let walked = source.walk(&mut |item| {
            let applied = match item {
                Item::Record { stream, record, .. } => {
                    let body = record.ok().map(|record| record.body);
                    body.iter().for_each(|body| look(stream, body));
                    states.flows.apply(stream, body.as_deref())
                }
                Item::Carried { stream, image, .. } => {
                    states.flows.carry(stream, image.ok().as_deref())
                }
                Item::Base(base) => {
                    heads.base = Some(base);
                    None
                }
                Item::Frame(head) => {
                    heads.frames.push(head);
                    None
                }
            };
            // What does not replay is quarantined in the replay itself; `audit` names it.
            if let Some(Err(error)) = applied {
                tracing::debug!(code = %error, "a record does not replay");
            }
            Ok(())
        });
        Ok((states, compared(walked, &heads)?))
    }

    /// Health of every flow as of a time. The journal alone does not tell which digests are expected.
    #[must_use]
    pub fn health(&self, now: Timestamp) -> AllHealth {
        self.health_with(now, &Pins::default())
    }

    /// The same with the digests that are pinned, where these are known: what is registered under another
    /// one is held (D9).
    #[must_use]
    pub fn health_with(&self, now: Timestamp, pins: &Pins) -> AllHealth {
        AllHealth {
            dispatch: health(&self.flows.dispatch, now, pins),
            lifecycle: health(&self.flows.lifecycle, now, pins),
            notification: health(&self.flows.notification, now, pins),
            processing: health(&self.flows.processing, now, pins),
            delivery: health(&self.flows.delivery, now, pins),
        }
    }

    /// Whether a record is under way that would be held under another digest (D9): then it matters
    /// whether the pinned ones are known.
    #[must_use]
    pub fn depend_on_digests(&self) -> bool {
        under_way(&self.flows.processing) || under_way(&self.flows.delivery)
    }

    /// All records, oldest first.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        let flows = &self.flows;
        let mut rows: Vec<Row> = flows.dispatch.iter().map(|(_, record)| row(record)).collect();
        rows.extend(flows.lifecycle.iter().map(|(_, record)| row(record)));
        rows.extend(flows.notification.iter().map(|(_, record)| row(record)));
        rows.extend(flows.processing.iter().map(|(_, record)| row(record)));
        rows.extend(flows.delivery.iter().map(|(_, record)| row(record)));
        rows.sort_by(|left, right| {
            let time = |row: &Row| row.created_at.unwrap_or(-1.0);
            time(left)
                .total_cmp(&time(right))
                .then_with(|| (&left.id, left.flow).cmp(&(&right.id, right.flow)))
        });
        rows
    }
}

/// Compares a walk that came to its end with the anchors.
fn compared(mut walked: Walked, heads: &Heads) -> Result<Walked, JournalError> {
    if let Some(error) = walked.stopped {
        return Err(error);
    }
    if let (Some(id), Some(anchors)) = (walked.journal, &walked.anchors) {
        walked.doubt = anchored(id, anchors, heads);
    }
    Ok(walked)
}

/// Whether a record is under way that was registered under a digest.
fn under_way<F: Answers>(replay: &Replay<F>) -> bool {
    replay.iter().filter_map(|(_, record)| record.state()).any(|state| {
        let active = state.kind().is_some_and(StateKind::is_active);
        active && state.record().is_some_and(|record| F::digest(&record.binding).is_some())
    })
}

fn health<F: Answers>(replay: &Replay<F>, now: Timestamp, pins: &Pins) -> F::Health {
    let pinned = pins.of(F::TAG);
    let mut tally = Tally::default();
    let mut agenda = Agenda::default();
    for (_, record) in replay.iter() {
        match record {
            Replayed::Sound(state) => {
                let class = class(state);
                tally.shift(None, class);
                if let Some(record) = state.record() {
                    // Where nothing is known of it, every record's own digest is as good as the pinned one.
                    let digest = match pinned {
                        Pinned::Configured(digest) => digest,
                        Pinned::Unknown => F::digest(&record.binding),
                    };
                    let slot = Slot::of(state, class, digest);
                    agenda.place(&F::identity(&record.binding), Slot::Idle, slot);
                }
            }
            Replayed::Quarantined => tally.quarantine(None),
        }
    }
    let (due, expired) = (agenda.due_count(now), agenda.expired_count(now));
    let (held, parked) = (agenda.held_count(), agenda.parked_count());
    let expected = match pinned {
        Pinned::Configured(digest) => digest,
        Pinned::Unknown => None,
    };
    F::health(&HealthView { tally: &tally, due, expired, held, parked, expected })
}

pub(super) fn row<F: Answers>(record: &Replayed<F>) -> Row {
    let state = record.state();
    let known: Option<&Record<F>> = state.and_then(State::record);
    Row {
        flow: F::TAG.name(),
        id: known.map(|record| F::identity(&record.binding).to_string()),
        site_id: known.map(|record| F::site(&record.binding).to_owned()),
        state: state.and_then(State::kind).map_or("quarantined", |kind| kind.name(F::COMPLETED)),
        attempts: known.map_or(0, |record| record.attempts),
        next_at: known.map(|record| record.next_at.seconds()),
        error_code: state.and_then(State::error).map(ToString::to_string),
        created_at: known.map(|record| record.created_at.seconds()),
        capabilities_sha256: known.and_then(|record| F::digest(&record.binding)),
    }
}

/// One thing that happened to one record.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Happening {
    /// Its place in the journal.
    pub sequence: u64,
    /// When, in seconds since 1970.
    pub at: f64,
    /// What: the event's name.
    pub event: &'static str,
    /// The error it records.
    pub error_code: Option<String>,
    /// Who did it, where it was an operator.
    pub by: Option<String>,
    /// Why.
    pub why: Option<String>,
    /// The time an operator made it due at, in seconds since 1970, where that is a later one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at: Option<f64>,
    /// As what it was brought here, where it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imported: Option<Brought>,
}

impl Happening {
    /// What happened, as people read it: a requeue for later is told by its due time.
    #[must_use]
    pub fn word(&self) -> &'static str {
        self.due_at.map_or(self.event, |_| "requeued")
    }
}

/// One record's whole history and state.
#[derive(Debug, Serialize)]
pub struct History<S: Serialize> {
    /// How many of its events are in archives, and not among those that follow.
    pub archived: u32,
    /// What happened, oldest first.
    pub events: Vec<Happening>,
    /// Whether all of it replays.
    pub replays: bool,
    /// Its status at the end; null when there is none.
    pub status: Option<S>,
    /// What keeps it from being given out: its flow, its site, its destination, as far as these are
    /// paused. Empty for a record that is settled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paused: Vec<PausedScope>,
}

impl<S: Serialize> History<S> {
    /// Reads the history of one record of a flow. What the anchors know better is told in
    /// [`Walked::doubt`].
    ///
    /// # Errors
    /// What stopped the walk.
    pub fn read<F>(
        source: &Source,
        identity: &str,
        now: Timestamp,
    ) -> Result<(Self, Walked), JournalError>
    where
        F: Flow + Answers<Status = S>,
    {
        let wanted = stream_of(F::TAG, identity);
        let (mut replay, mut controls) = (Replay::<F>::default(), Controls::default());
        let mut heads = Heads::default();
        let (events, paused) = (Vec::new(), Vec::new());
        let mut history = Self { archived: 0, events, replays: true, status: None, paused };
        let walked = source.walk(&mut |item| {
            match item {
                Item::Record { sequence, stream, record } if stream == wanted => {
                    let body = record.ok().map(|record| record.body);
                    history.replays &= replay.apply(stream, body.as_deref()).is_ok();
                    let event = body.and_then(|body| codec::decode::<F>(&body).ok());
                    history.events.extend(event.map(|event| happening(sequence, &event)));
                }
                Item::Carried { stream, tip, image } if stream == wanted => {
                    let image = image.ok();
                    history.replays &= replay.carry(stream, image.as_deref()).is_ok();
                    // With the archives at hand they were all told already.
                    history.archived = if history.events.is_empty() { tip.version } else { 0 };
                }
                Item::Record { stream, record, .. } if is_control(stream) => {
                    let body = record.ok().map(|record| record.body);
                    named_by_the_audit(controls.apply(stream, body.as_deref()).map(drop));
                }
                Item::Carried { stream, image, .. } if is_control(stream) => {
                    named_by_the_audit(controls.carry(stream, image.ok().as_deref()));
                }
                Item::Base(base) => heads.base = Some(base),
                Item::Frame(head) => heads.frames.push(head),
                Item::Carried { .. } | Item::Record { .. } => {}
            }
            Ok(())
        });
        let walked = compared(walked, &heads)?;
        history.replays &= !matches!(replay.get(wanted), Some(Replayed::Quarantined));
        if let Some(Replayed::Sound(state)) = replay.get(wanted) {
            history.status = F::status(state, now);
            history.paused = covering(state, controls.paused());
        }
        Ok((history, walked))
    }
}

/// What is paused of that which a record belongs to, while it is not settled.
pub(super) fn covering<F: Flow>(state: &State<F>, paused: Vec<PausedScope>) -> Vec<PausedScope> {
    let record = state.record().filter(|_| state.kind().is_some_and(StateKind::is_active));
    let Some(record) = record else { return Vec::new() };
    let site = F::site(&record.binding);
    paused.into_iter().filter(|paused| paused.scope.covers(F::TAG, site)).collect()
}

/// A scope that does not replay is quarantined in the replay itself.
fn named_by_the_audit(applied: Result<(), ReplayError>) {
    if let Err(error) = applied {
        tracing::debug!(code = %error, "a pause or a resume does not replay");
    }
}

pub(super) fn happening<F: Answers>(sequence: u64, event: &Event<F>) -> Happening {
    let intervention = event.intervention();
    Happening {
        sequence,
        at: event.at().seconds(),
        event: event.name(),
        error_code: event.code().map(ToString::to_string),
        by: intervention.map(|it| it.by.as_str().to_owned()),
        why: intervention.map(|it| it.why.as_str().to_owned()),
        due_at: event.made_due_at().map(Timestamp::seconds),
        imported: Brought::of(event),
    }
}
