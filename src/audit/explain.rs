//! Why one record stands where it stands, read from a journal or an archive, and as lines of text.
//!
//! Owns the reading. Must not know a rule: those are in [`leasehold_actors::explain`].

use super::source::{Source, Walked};
use super::states::States;
use crate::times::{exact, relative};
use leasehold_actors::codec;
use leasehold_actors::contract::text::Sha256;
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::control::PausedScope;
use leasehold_actors::explain::{
    Action, Brought, Changes, Explains, Explanation, LossesMax, Pinned, Place, View,
    explain_quarantined, explain_record,
};
use leasehold_actors::flows::all::AllFlows;
use leasehold_actors::record::{FlowTag, stream_of};
use leasehold_actors::replay::{ReplayError, Replayed};
use leasehold_journal::walk::Item;
use leasehold_journal::{JournalError, StreamId};
use std::num::NonZeroU32;

/// What is said once where waiting records were not compared with the digests that are pinned now.
pub const NOT_COMPARED: &str = "digests were not compared: give --config";

/// What explanations need of a configuration: the digests that are pinned now, and how many leases a
/// record may lose in a row; as far as these are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pins {
    digests: Option<(Option<Sha256>, Option<Sha256>)>,
    losses_max: LossesMax,
}

impl Pins {
    /// As configured: the receiver's and the source runtime's digest.
    #[must_use]
    pub fn configured(receiver: Option<Sha256>, source: Option<Sha256>) -> Self {
        Self { digests: Some((receiver, source)), losses_max: LossesMax::Unknown }
    }

    /// The same with how many leases a record may lose in a row; `None` is no limit.
    #[must_use]
    pub fn with_unclean_losses_max(self, max: Option<NonZeroU32>) -> Self {
        Self { losses_max: LossesMax::Configured(max), ..self }
    }

    /// Whether the digests are known.
    #[must_use]
    pub fn are_known(&self) -> bool {
        self.digests.is_some()
    }

    /// What a record of a flow is looked at with.
    #[must_use]
    pub fn view<'a>(&self, flow: FlowTag, now: Timestamp, place: &'a Place) -> View<'a> {
        View { now, pinned: self.of(flow), losses_max: self.losses_max, place }
    }

    /// What is known of a flow's digest.
    #[must_use]
    pub fn of(&self, flow: FlowTag) -> Pinned {
        let Some((receiver, source)) = self.digests else { return Pinned::Unknown };
        match flow {
            FlowTag::Processing => Pinned::Configured(receiver),
            FlowTag::Delivery => Pinned::Configured(source),
            FlowTag::Dispatch | FlowTag::Lifecycle | FlowTag::Notification => {
                Pinned::Configured(None)
            }
        }
    }
}

/// Explains the record of a flow with this identity; `None` when there is none. What the anchors know
/// better is told in [`Walked::doubt`].
///
/// # Errors
/// What stopped the walk.
pub fn explain<F: Explains>(
    source: &Source,
    id: &str,
    pins: &Pins,
    place: &Place,
    now: Timestamp,
) -> Result<(Option<Explanation>, Walked), JournalError> {
    let (stream, mut first) = (stream_of(F::TAG, id), None);
    let (states, walked) = States::read_beside(source, &mut |of, body| {
        if of == stream {
            first.get_or_insert_with(|| body.to_vec());
        }
    })?;
    let brought = first.and_then(|body| Brought::of(&codec::decode::<F>(&body).ok()?));
    let explanation = match F::records(&states.flows).get(stream) {
        None => None,
        Some(Replayed::Sound(state)) => {
            explain_record(state, &states.flows, &pins.view(F::TAG, now, place))
        }
        Some(Replayed::Quarantined) => {
            let Damage { sequence, code, since } = damage(source, stream)?;
            Some(explain_quarantined::<F>(Some(id), sequence, &code, since, place))
        }
    };
    let explanation = explanation.map(|told| Explanation { imported: brought, ..told });
    Ok((explanation, walked))
}

/// Where a record stopped to replay.
#[derive(Debug, Clone)]
pub(crate) struct Damage {
    /// The journal record, where it is known.
    pub(crate) sequence: Option<u64>,
    /// What is wrong with it.
    pub(crate) code: String,
    /// When the last event before it happened.
    pub(crate) since: Option<Timestamp>,
}

impl Damage {
    /// At this journal record; `since` is the last time of the record before it.
    pub(crate) fn at(sequence: u64, error: ReplayError, since: Option<Timestamp>) -> Self {
        Self { sequence: Some(sequence), code: error.to_string(), since }
    }

    /// Of a record that was archived as one that does not replay: what the journal kept says no more.
    pub(crate) fn archived() -> Self {
        Self { sequence: None, code: ReplayError::Quarantined.to_string(), since: None }
    }
}

/// Walks once more, for the first of a record's events that does not replay.
fn damage(source: &Source, stream: StreamId) -> Result<Damage, JournalError> {
    let (mut flows, mut damage) = (AllFlows::default(), None);
    let walked = source.walk(&mut |item| {
        let since = flows.latest_after(stream, None);
        let (sequence, applied) = match item {
            Item::Record { sequence, stream: of, record } if of == stream => {
                let body = record.ok().map(|record| record.body);
                (sequence, flows.apply(stream, body.as_deref()))
            }
            Item::Carried { stream: of, tip, image } if of == stream => {
                (tip.sequence, flows.carry(stream, image.ok().as_deref()))
            }
            Item::Record { .. } | Item::Carried { .. } | Item::Base(_) | Item::Frame(_) => {
                return Ok(());
            }
        };
        if let Some(Err(error)) = applied {
            // The first one is what it was quarantined for.
            damage.get_or_insert_with(|| Damage::at(sequence, error, since));
        }
        Ok(())
    });
    match walked.stopped {
        Some(error) => Err(error),
        None => Ok(damage.unwrap_or_else(Damage::archived)),
    }
}

/// An explanation as lines of text.
#[must_use]
pub fn text(explanation: &Explanation, now: Timestamp) -> String {
    let now = now.seconds();
    let id = explanation.id.as_deref().unwrap_or("-");
    let mut lines = vec![format!("{} {id}: {}", explanation.flow, explanation.state)];
    let mut line = |name: &str, value: &str| lines.push(format!("  {name:<11}{value}"));
    line("waits for", &explanation.reason());
    if let Some(since) = explanation.since {
        line("since", &at(since, now));
    }
    if let Some(imported) = &explanation.imported {
        line("imported", &format!("{}, {}", at(imported.at, now), brought(imported)));
    }
    for paused in &explanation.paused {
        line("paused", &pause(paused, now));
    }
    line("moves on", &moves_on(explanation, now));
    line("rule", &format!("{}: {}", explanation.rule.id(), explanation.rule.sentence()));
    if explanation.digest_unknown {
        line("digest", "whether it is held under another one cannot be told without --config");
    }
    for (number, Action { command, does }) in explanation.actions.iter().enumerate() {
        line(if number == 0 { "to do" } else { "" }, command);
        line("", &format!("  {does}"));
    }
    lines.join("\n")
}

/// What is paused, since when, by whom and why.
#[must_use]
pub fn pause(paused: &PausedScope, now_seconds: f64) -> String {
    let PausedScope { scope, since, intervention } = paused;
    let (by, why) = (intervention.by.as_str(), intervention.why.as_str());
    format!("{scope} since {}, by {by}: {why}", at(since.seconds(), now_seconds))
}

/// As what a record was brought here.
#[must_use]
pub fn brought(imported: &Brought) -> String {
    let Brought { state, attempts, created_at, updated_at, .. } = imported;
    let (created, updated) = (exact(*created_at), exact(*updated_at));
    format!(
        "as {state}, registered {created} and last touched {updated} in another program; \
         attempts made there, which are not in this journal: {attempts}"
    )
}

/// When it moves on, and by what.
#[must_use]
pub fn moves_on(explanation: &Explanation, now_seconds: f64) -> String {
    let by = explanation.moved_by();
    match (explanation.changes, explanation.changes_at) {
        (Changes::AtItsTime, Some(then)) => format!("{}, {by}", at(then, now_seconds)),
        (Changes::NextClaim, Some(then)) => format!("{by}; its time was {}", at(then, now_seconds)),
        (
            Changes::AtItsTime
            | Changes::NextClaim
            | Changes::OtherSettles
            | Changes::Operator
            | Changes::Never,
            _,
        ) => by.to_owned(),
    }
}

/// A time, and how far that is from now.
#[must_use]
pub fn at(seconds: f64, now_seconds: f64) -> String {
    format!("{} ({})", exact(seconds), relative(seconds, now_seconds))
}
