//! The records of a journal that an engine has open: lists, what is stuck, one record's history.
//!
//! Owns a replay that follows the writer: each look walks over what became durable since the last one.
//! What nobody looks at is let go, since it takes the memory of all states once more. Blocking; must
//! not be called where others wait.

mod one;

use super::explain::Pins;
use super::states::{History, Row, happening, row};
use crate::overview::{STUCK_MAX, StuckFacts, StuckState};
use leasehold_actors::codec;
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::explain::{self, Explains, Pinned, explain_quarantined, explain_record};
use leasehold_actors::flows::Answers;
use leasehold_actors::flows::all::AllFlows;
use leasehold_actors::record::identity::flow_of;
use leasehold_actors::record::{FlowTag, State, StateKind, stream_of};
use leasehold_actors::replay::{Replay, ReplayError, Replayed};
use leasehold_journal::walk::{Item, Walk};
use leasehold_journal::{JournalError, StoreReader, StreamId};
use std::sync::{Arc, Mutex, PoisonError};

/// How long a replay is kept that nobody looks at, in seconds.
const KEPT_SECONDS: f64 = 300.0;

/// A journal's records beside its writer.
pub(crate) struct Live {
    reader: Arc<dyn StoreReader>,
    kept: Mutex<Option<Kept>>,
}

struct Kept {
    walk: Walk,
    flows: AllFlows,
    looked_at: f64,
}

/// Where a record stands in a list: the oldest first. As text it is how the next page is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    created: u64,
    stream: u128,
}

impl Place {
    fn of(stream: StreamId, created: Option<Timestamp>) -> Self {
        // The bits of numbers that are not negative are in the order of the numbers.
        let created = created.map_or(0, |at| (at.seconds() + 0.0).to_bits());
        Self { created, stream: u128::from_be_bytes(stream.0) }
    }

    /// Reads a place back; `None` for what is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let fits = text.len() == 48 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let (created, stream) = fits.then(|| text.split_at(16))?;
        Some(Self {
            created: u64::from_str_radix(created, 16).ok()?,
            stream: u128::from_str_radix(stream, 16).ok()?,
        })
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}{:032x}", self.created, self.stream)
    }
}

/// Which records are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) flow: Option<FlowTag>,
    /// A state, as its flow calls it.
    pub(crate) state: Option<String>,
    pub(crate) site: Option<String>,
    pub(crate) after: Option<Place>,
    pub(crate) limit: usize,
}

/// Whether any flow calls a state so.
pub(crate) fn is_state(name: &str) -> bool {
    let completed = ["succeeded", "terminal"];
    completed.into_iter().any(|word| StateKind::ALL.iter().any(|kind| kind.name(word) == name))
}

/// What explanations are made with: what the engine is configured with, how it is asked, and the time.
#[derive(Debug, Clone)]
pub(crate) struct Outlook {
    pub(crate) pins: Pins,
    pub(crate) place: explain::Place,
    pub(crate) now: Timestamp,
}

impl Outlook {
    fn view<F: Explains>(&self) -> explain::View<'_> {
        self.pins.view(F::TAG, self.now, &self.place)
    }
}

impl Live {
    pub(crate) fn new(reader: Arc<dyn StoreReader>) -> Self {
        Self { reader, kept: Mutex::new(None) }
    }

    pub(crate) fn reader(&self) -> &Arc<dyn StoreReader> {
        &self.reader
    }

    /// Lets the replay go when nobody looked for a while, and waits for nobody; `now` is of a clock that
    /// never jumps.
    pub(crate) fn let_go(&self, now: f64) {
        // Whoever holds it is looking.
        let Ok(mut kept) = self.kept.try_lock() else { return };
        if kept.as_ref().is_some_and(|kept| now - kept.looked_at >= KEPT_SECONDS) {
            *kept = None;
        }
    }

    /// Looks at every record as it is durable now.
    fn look<T>(&self, now: f64, look: impl FnOnce(&AllFlows) -> T) -> Result<T, JournalError> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (from, mut flows) = match kept.take() {
            Some(Kept { walk, flows, .. }) => (Some(walk), flows),
            None => (None, AllFlows::default()),
        };
        let walk = self.reader.walk(from, &mut |item| {
            let applied = match item {
                Item::Record { stream, record, .. } => {
                    flows.apply(stream, record.ok().map(|record| record.body).as_deref())
                }
                Item::Carried { stream, image, .. } => flows.carry(stream, image.ok().as_deref()),
                Item::Base(_) | Item::Frame(_) => None,
            };
            // What does not replay is quarantined in the replay itself.
            if let Some(Err(error)) = applied {
                tracing::debug!(code = %error, "a record does not replay");
            }
            Ok(())
        })?;
        let looked = look(&flows);
        *kept = Some(Kept { walk, flows, looked_at: now });
        Ok(looked)
    }

    /// A page of records, and where the next one starts.
    pub(crate) fn list(
        &self,
        now: f64,
        wanted: &Wanted,
    ) -> Result<(Vec<Row>, Option<Place>), JournalError> {
        self.look(now, |flows| {
            let mut places = Vec::new();
            places_of(&flows.dispatch, wanted, &mut places);
            places_of(&flows.lifecycle, wanted, &mut places);
            places_of(&flows.notification, wanted, &mut places);
            places_of(&flows.processing, wanted, &mut places);
            places_of(&flows.delivery, wanted, &mut places);
            places.sort_unstable();
            let more = places.len() > wanted.limit;
            places.truncate(wanted.limit);
            let rows = places.iter().filter_map(|place| row_at(flows, place)).collect();
            (rows, places.last().copied().filter(|_| more))
        })
    }

    /// The records that do not go on by themselves, the newest first, at most [`STUCK_MAX`].
    pub(crate) fn stuck(
        &self,
        now: f64,
        outlook: &Outlook,
    ) -> Result<Vec<StuckFacts>, JournalError> {
        self.look(now, |flows| {
            let mut found = Vec::new();
            stuck_of(&flows.dispatch, flows, outlook, &mut found);
            stuck_of(&flows.lifecycle, flows, outlook, &mut found);
            stuck_of(&flows.notification, flows, outlook, &mut found);
            stuck_of(&flows.processing, flows, outlook, &mut found);
            stuck_of(&flows.delivery, flows, outlook, &mut found);
            // What does not replay has no time and goes first.
            found.sort_unstable_by(|(left, _), (right, _)| right.cmp(left));
            found.truncate(STUCK_MAX);
            found.into_iter().filter_map(|(_, facts)| facts()).collect()
        })
    }

    /// One record's history and status as of `now`; `None` for one that is not there. What is paused is
    /// told by [`Self::explain`].
    pub(crate) fn history<F: Answers>(
        &self,
        identity: &str,
        now: Timestamp,
    ) -> Result<Option<History<F::Status>>, JournalError> {
        let stream = stream_of(F::TAG, identity);
        let (events, none) = (Vec::new(), Vec::new());
        let mut history =
            History { archived: 0, events, replays: true, status: None, paused: none };
        let (carried, records) = match self.read(stream) {
            Ok((None, records)) if records.is_empty() => return Ok(None),
            Ok(read) => read,
            Err(JournalError::Corrupt { .. }) => {
                history.replays = false;
                return Ok(Some(history));
            }
            Err(error) => return Err(error),
        };
        let mut replay = Replay::<F>::default();
        if let Some(entry) = carried {
            history.archived = entry.tip.version;
            history.replays &= replay.carry(stream, Some(&entry.image)).is_ok();
        }
        for record in records {
            history.replays &= replay.apply(stream, Some(&record.body)).is_ok();
            let event = codec::decode::<F>(&record.body).ok();
            history.events.extend(event.map(|event| happening(record.sequence, &event)));
        }
        match replay.get(stream) {
            Some(Replayed::Sound(state)) => history.status = F::status(state, now),
            Some(Replayed::Quarantined) | None => history.replays = false,
        }
        Ok(Some(history))
    }
}

fn places_of<F: Answers>(replay: &Replay<F>, wanted: &Wanted, places: &mut Vec<Place>) {
    if wanted.flow.is_some_and(|flow| flow != F::TAG) {
        return;
    }
    for (stream, record) in replay.iter() {
        let known = record.state().and_then(State::record);
        let place = Place::of(stream, known.map(|record| record.created_at));
        let name = record
            .state()
            .and_then(State::kind)
            .unwrap_or(StateKind::Quarantined)
            .name(F::COMPLETED);
        let fits = wanted.after.is_none_or(|after| place > after)
            && wanted.state.as_ref().is_none_or(|state| state == name)
            && wanted
                .site
                .as_ref()
                .is_none_or(|site| known.is_some_and(|record| F::site(&record.binding) == site));
        if fits {
            places.push(place);
        }
    }
}

fn row_at(flows: &AllFlows, place: &Place) -> Option<Row> {
    let stream = StreamId(place.stream.to_be_bytes());
    match flow_of(stream)? {
        FlowTag::Dispatch => flows.dispatch.get(stream).map(row),
        FlowTag::Lifecycle => flows.lifecycle.get(stream).map(row),
        FlowTag::Notification => flows.notification.get(stream).map(row),
        FlowTag::Processing => flows.processing.get(stream).map(row),
        FlowTag::Delivery => flows.delivery.get(stream).map(row),
    }
}

/// When it got stuck; what is not known is the latest. Then where it stands, so that the order is whole.
type Since = (u64, u128);
/// A stuck record, explained only when it is among the first.
type Stuck<'a> = (Since, Box<dyn FnOnce() -> Option<StuckFacts> + 'a>);

fn stuck_of<'a, F: Explains>(
    replay: &'a Replay<F>,
    flows: &'a AllFlows,
    outlook: &'a Outlook,
    found: &mut Vec<Stuck<'a>>,
) {
    let pinned = match outlook.pins.of(F::TAG) {
        Pinned::Configured(pinned) => pinned,
        Pinned::Unknown => None,
    };
    for (stream, record) in replay.iter() {
        let state = match record {
            Replayed::Sound(State::Failed { .. }) => StuckState::Failed,
            Replayed::Sound(State::Ready { record, .. })
                if F::digest(&record.binding).is_some_and(|digest| Some(digest) != pinned) =>
            {
                StuckState::Held
            }
            Replayed::Sound(
                State::Vacant
                | State::Ready { .. }
                | State::Leased { .. }
                | State::Completed { .. }
                | State::Dismissed { .. },
            ) => continue,
            Replayed::Quarantined => StuckState::Quarantined,
        };
        let sound = record.state();
        let known = sound.and_then(State::record);
        let since = known.map(|record| record.updated_at.seconds());
        let order = since.map_or(u64::MAX, |since| (since + 0.0).to_bits());
        let facts = move || {
            let explanation = match sound {
                Some(sound) => explain_record(sound, flows, &outlook.view::<F>())?,
                None => {
                    let (code, place) = (ReplayError::Quarantined.to_string(), &outlook.place);
                    explain_quarantined::<F>(None, None, &code, None, place)
                }
            };
            let code = sound.and_then(State::error).map(ToString::to_string);
            Some(StuckFacts { state, code, explanation })
        };
        found.push(((order, u128::from_be_bytes(stream.0)), Box::new(facts)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_reads_back_and_nothing_else_is_one() {
        let place = Place::of(StreamId([7; 16]), Timestamp::new(12.5));
        assert_eq!(Place::parse(&place.to_string()), Some(place));
        let text = place.to_string();
        for bad in ["", "7", &text[1..], &format!("{text}0"), &text.replacen('4', "+", 1)] {
            assert_eq!(Place::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn places_are_in_the_order_of_their_times() {
        let place = |seconds| Place::of(StreamId([1; 16]), Timestamp::new(seconds));
        assert!(Place::of(StreamId([9; 16]), None) < place(0.1));
        assert!(place(0.1) < place(2.0) && place(2.0) < place(1e9));
    }

    #[test]
    fn states_are_known_by_the_names_of_their_flows() {
        for name in ["pending", "succeeded", "terminal", "quarantined", "dismissed"] {
            assert!(is_state(name), "{name}");
        }
        assert!(!is_state("completed") && !is_state(""));
    }
}
