//! Why one record stands where it stands, read from a journal or an archive, and as lines of text.
//!
//! Owns the reading. Must not know a rule: those are in [`leasehold_actors::explain`].

use super::source::{Source, Walked};
use super::states::States;
use crate::times::{exact, relative};
use leasehold_actors::contract::text::Sha256;
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::explain::{
    Action, Changes, Explains, Explanation, Pinned, Place, View, explain_quarantined,
    explain_record,
};
use leasehold_actors::record::{FlowTag, stream_of};
use leasehold_actors::replay::{Replay, Replayed};
use leasehold_journal::walk::Item;
use leasehold_journal::{JournalError, StreamId};

/// The digests that are pinned now, where that is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pins(Option<(Option<Sha256>, Option<Sha256>)>);

impl Pins {
    /// As configured: the receiver's and the source runtime's.
    #[must_use]
    pub fn configured(receiver: Option<Sha256>, source: Option<Sha256>) -> Self {
        Self(Some((receiver, source)))
    }

    /// What is known of a flow's.
    #[must_use]
    pub fn of(&self, flow: FlowTag) -> Pinned {
        let Some((receiver, source)) = self.0 else { return Pinned::Unknown };
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
    let (states, walked) = States::read(source)?;
    let stream = stream_of(F::TAG, id);
    let explanation = match F::records(&states.flows).get(stream) {
        None => None,
        Some(Replayed::Sound(state)) => {
            let view = View { now, pinned: pins.of(F::TAG), place };
            explain_record(state, &states.flows, &view)
        }
        Some(Replayed::Quarantined) => {
            let Damage { sequence, code, since } = damage::<F>(source, stream)?;
            Some(explain_quarantined::<F>(Some(id), sequence, &code, since, place))
        }
    };
    Ok((explanation, walked))
}

/// Where a record stopped to replay.
struct Damage {
    sequence: Option<u64>,
    code: String,
    since: Option<Timestamp>,
}

/// Walks once more, for the first of a record's events that does not replay.
fn damage<F: Explains>(source: &Source, stream: StreamId) -> Result<Damage, JournalError> {
    let mut replay = Replay::<F>::default();
    let mut damage = Damage { sequence: None, code: String::new(), since: None };
    let walked = source.walk(&mut |item| {
        let (sequence, applied) = match item {
            Item::Record { sequence, stream: of, record } if of == stream => {
                let body = record.ok().map(|record| record.body);
                let applied = replay.apply(stream, body.as_deref()).map(|event| Some(event.at()));
                (sequence, applied)
            }
            Item::Carried { stream: of, tip, image } if of == stream => {
                let image = image.ok();
                let carried = replay.carry(stream, image.as_deref()).map(|()| None);
                (tip.sequence, carried)
            }
            Item::Record { .. } | Item::Carried { .. } | Item::Base(_) | Item::Frame(_) => {
                return Ok(());
            }
        };
        match applied {
            Ok(at) => damage.since = at.or(damage.since),
            Err(error) if damage.sequence.is_none() => {
                damage.sequence = Some(sequence);
                damage.code = error.to_string();
            }
            // The first one is what it was quarantined for.
            Err(_) => {}
        }
        Ok(())
    });
    match walked.stopped {
        Some(error) => Err(error),
        None => Ok(damage),
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

fn at(seconds: f64, now_seconds: f64) -> String {
    format!("{} ({})", exact(seconds), relative(seconds, now_seconds))
}
