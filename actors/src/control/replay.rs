//! Every scope of a journal that was ever paused, replayed.
//!
//! Owns the fold, as [`crate::replay`] does for records. A scope that does not replay is quarantined: it
//! holds nothing back, the audit names it, and pausing or resuming it is refused.

use super::form;
use super::scope::{Scope, Side};
use super::state::{Control, Event, PausedScope, evolve};
use crate::contract::text::Token;
use crate::contract::time::Timestamp;
use crate::record::FlowTag;
use crate::replay::ReplayError;
use leasehold_journal::{JournalError, StreamId};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// One scope as far as it replays; also what a journal keeps of it once its events are archived. The
/// order of the variants is part of the format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kept {
    /// How it stands.
    Sound(Control),
    /// It does not replay.
    Quarantined,
}

impl Kept {
    /// What it is called where controls are counted.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sound(control) => control.name(),
            Self::Quarantined => "quarantined",
        }
    }

    fn control(&self) -> Option<&Control> {
        match self {
            Self::Sound(control) => Some(control),
            Self::Quarantined => None,
        }
    }
}

/// All scopes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Controls {
    kept: HashMap<StreamId, Kept>,
}

impl Controls {
    /// Applies one event. `body` is `None` when it cannot be read.
    ///
    /// # Errors
    /// [`ReplayError`]; the scope is quarantined then. A body of a newer version is the caller's to
    /// refuse.
    pub fn apply(&mut self, stream: StreamId, body: Option<&[u8]>) -> Result<Event, ReplayError> {
        let place = self.kept.entry(stream).or_insert(Kept::Sound(Control::Vacant));
        let Kept::Sound(control) = std::mem::replace(place, Kept::Quarantined) else {
            return Err(ReplayError::Quarantined);
        };
        let event = form::decode(body.ok_or(ReplayError::Body)?).map_err(ReplayError::Decode)?;
        let next = evolve(control, &event)?;
        at_home(stream, &next)?;
        *place = Kept::Sound(next);
        Ok(event)
    }

    /// Takes what a scope's archived events came to. `image` is `None` when it cannot be read. Where
    /// those events were applied already, both have to come to the same.
    ///
    /// # Errors
    /// [`ReplayError`]; the scope is quarantined then, or stays as it was applied.
    pub fn carry(&mut self, stream: StreamId, image: Option<&[u8]>) -> Result<(), ReplayError> {
        let decoded = image.ok_or(ReplayError::Body).and_then(|image| recall(stream, image));
        match (self.kept.get(&stream), decoded) {
            (Some(applied), Ok(carried)) if *applied == carried => Ok(()),
            (Some(_), Ok(_)) => Err(ReplayError::Illegal),
            (Some(_), Err(error)) => Err(error),
            (None, Ok(carried)) => {
                self.kept.insert(stream, carried);
                Ok(())
            }
            (None, Err(error)) => {
                self.kept.insert(stream, Kept::Quarantined);
                Err(error)
            }
        }
    }

    /// The image of a scope, to be kept when its events are archived.
    ///
    /// # Errors
    /// [`JournalError::Corrupt`] at 0 for a stream without one.
    pub fn image(&self, stream: StreamId) -> Result<Vec<u8>, JournalError> {
        let kept = self.kept.get(&stream).ok_or(JournalError::Corrupt { sequence: 0 })?;
        form::encode_image(kept)
    }

    /// Notes what became of a scope in a running engine.
    pub fn put(&mut self, scope: &Scope, control: Control) {
        self.kept.insert(scope.stream(), Kept::Sound(control));
    }

    /// What is known of a stream.
    #[must_use]
    pub fn get(&self, stream: StreamId) -> Option<&Kept> {
        self.kept.get(&stream)
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Kept> {
        self.kept.values()
    }

    /// Each with its stream, as it can be put together again; in no order.
    pub fn entries(&self) -> impl Iterator<Item = ([u8; 16], &Kept)> {
        self.kept.iter().map(|(stream, kept)| (stream.0, kept))
    }

    /// Puts them together again.
    #[must_use]
    pub fn of(entries: Vec<([u8; 16], Kept)>) -> Self {
        Self { kept: entries.into_iter().map(|(id, kept)| (StreamId(id), kept)).collect() }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.kept.len()
    }

    /// The scopes that are paused, in the order of their texts.
    #[must_use]
    pub fn paused(&self) -> Vec<PausedScope> {
        let controls = self.kept.values().filter_map(Kept::control);
        let mut paused: Vec<PausedScope> = controls.filter_map(PausedScope::of).collect();
        paused.sort_by_cached_key(|paused| paused.scope.to_string());
        paused
    }

    /// What keeps records of this flow and site from being given out: their destination, their flow and
    /// their site, as far as these are paused. Costs the same however many scopes there are.
    #[must_use]
    pub fn covering(&self, flow: FlowTag, site: &str) -> Vec<PausedScope> {
        if self.kept.is_empty() {
            return Vec::new();
        }
        let scopes = [
            Some(Scope::Destination(Side::of(flow))),
            Some(Scope::Flow(flow)),
            Token::new(site).map(Scope::Site),
        ];
        let kept = scopes.into_iter().flatten().filter_map(|scope| self.kept.get(&scope.stream()));
        kept.filter_map(Kept::control).filter_map(PausedScope::of).collect()
    }

    /// The last time of one scope.
    #[must_use]
    pub fn last(&self, stream: StreamId) -> Option<Timestamp> {
        self.kept.get(&stream)?.control()?.since()
    }

    /// The last time of all of them.
    #[must_use]
    pub fn latest(&self) -> Option<Timestamp> {
        self.kept.values().filter_map(|kept| kept.control()?.since()).max()
    }
}

fn recall(stream: StreamId, image: &[u8]) -> Result<Kept, ReplayError> {
    let kept = form::decode_image(image).map_err(ReplayError::Decode)?;
    if let Some(control) = kept.control() {
        at_home(stream, control)?;
    }
    Ok(kept)
}

/// A scope under another stream than its own cannot have happened: nobody who asks for it would find
/// it (P2).
fn at_home(stream: StreamId, control: &Control) -> Result<(), ReplayError> {
    let elsewhere = control.scope().is_some_and(|scope| scope.stream() != stream);
    if elsewhere { Err(ReplayError::Illegal) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::super::{Command, decide};
    use super::*;
    use crate::codec::DecodeError;
    use crate::record::{Intervention, OperatorName, Reason};

    fn scope(text: &str) -> Scope {
        Scope::new(text).expect("a scope")
    }

    fn at(seconds: f64) -> Timestamp {
        Timestamp::new(seconds).expect("a time")
    }

    /// The bodies of a pause.
    fn paused(scope: &Scope, seconds: f64) -> Vec<Vec<u8>> {
        let by = OperatorName::new("maria").expect("a name");
        let intervention = Intervention { by, why: Reason::new("because").expect("a reason") };
        let command = Command::Pause { intervention };
        let events = decide(&Control::Vacant, scope, command, at(seconds)).expect("it is taken");
        events.iter().map(|event| form::encode(event).expect("it is small")).collect()
    }

    fn applied(scopes: &[&str]) -> Controls {
        let mut controls = Controls::default();
        for (scope, seconds) in scopes.iter().map(|text| scope(text)).zip([5.0, 7.0, 6.0]) {
            for body in paused(&scope, seconds) {
                controls.apply(scope.stream(), Some(&body)).expect("it can happen");
            }
        }
        controls
    }

    #[test]
    fn all_that_is_paused_is_told_in_order_with_the_latest_time() {
        let controls = applied(&["site/b", "flow/dispatch", "site/a"]);
        let told = controls.paused().into_iter().map(|paused| paused.scope.to_string());
        assert_eq!(told.collect::<Vec<_>>(), ["flow/dispatch", "site/a", "site/b"]);
        assert_eq!((controls.count(), controls.latest()), (3, Some(at(7.0))));
        assert_eq!(controls.last(scope("site/b").stream()), Some(at(5.0)));
        assert_eq!(Controls::default().latest(), None);
    }

    #[test]
    fn what_covers_a_record_is_found_as_each_scope_says_itself() {
        let controls = applied(&["site/a", "flow/dispatch", "destination/cms"]);
        for flow in FlowTag::ALL {
            for site in ["a", "b"] {
                let mut one_by_one = controls.paused();
                one_by_one.retain(|paused| paused.scope.covers(flow, site));
                assert_eq!(controls.covering(flow, site), one_by_one, "{flow:?} {site}");
            }
        }
        assert_eq!(controls.covering(FlowTag::Dispatch, "a").len(), 3);
        assert_eq!(Controls::default().covering(FlowTag::Dispatch, "a"), []);
    }

    #[test]
    fn p2_a_scope_under_another_stream_and_one_that_was_never_named_are_quarantined() {
        let [named, paused] = &paused(&scope("site/a"), 5.0)[..] else { panic!("two events") };
        let (home, elsewhere) = (scope("site/a").stream(), scope("site/b").stream());
        let mut controls = Controls::default();
        assert_eq!(controls.apply(elsewhere, Some(named)), Err(ReplayError::Illegal));
        assert_eq!(controls.apply(home, Some(paused)), Err(ReplayError::Illegal));
        assert_eq!(controls.apply(home, Some(named)), Err(ReplayError::Quarantined));
        assert_eq!((controls.paused(), controls.count()), (Vec::new(), 2));
        let mut controls = Controls::default();
        assert_eq!(controls.apply(home, None), Err(ReplayError::Body));
        assert_eq!(controls.get(home), Some(&Kept::Quarantined));
    }

    #[test]
    fn what_is_kept_of_archived_events_comes_to_the_same_or_is_found_out() {
        let (whole, stream) = (applied(&["site/a"]), scope("site/a").stream());
        let image = whole.image(stream).expect("it is known");
        let mut carried = Controls::default();
        assert_eq!(carried.carry(stream, Some(&image)), Ok(()));
        assert_eq!(carried.paused(), whole.paused());
        assert_eq!(applied(&["site/a"]).carry(stream, Some(&image)), Ok(()));
        let other = applied(&["site/b", "site/a"]).image(stream).expect("it is known");
        assert_eq!(carried.carry(stream, Some(&other)), Err(ReplayError::Illegal));
        let elsewhere = scope("site/b").stream();
        assert_eq!(carried.carry(elsewhere, Some(&image)), Err(ReplayError::Illegal));
        assert_eq!(carried.get(elsewhere), Some(&Kept::Quarantined));
        assert_eq!(whole.image(elsewhere), Err(JournalError::Corrupt { sequence: 0 }));
        let vacant = form::encode_image(&Kept::Sound(Control::Vacant)).expect("it is small");
        assert_eq!(form::decode_image(&vacant), Err(DecodeError::Invalid));
        let quarantined = form::encode_image(&Kept::Quarantined).expect("it is small");
        assert_eq!(form::decode_image(&quarantined), Ok(Kept::Quarantined));
    }
}
