//! The other side of one flow, by a script that is drawn.
//!
//! Owns what it does with a call, what it remembers of each identity, and that all bodies it gets for
//! one are the same (I7). Must not know leases.

use super::flow::SimFlow;
use super::invariant::{Break, Checked, I7, must};
use super::note::Note;
use super::shared::Shared;
use leasehold_actors::arguments::Blocked;
use leasehold_actors::contract::text::ErrorCode;
use leasehold_actors::contract::time::Duration;
use leasehold_actors::record::{Identity, Settlement};
use leasehold_actors::shell::Granted;
use std::collections::BTreeMap;

/// What a worker hears.
#[derive(Debug, Clone)]
pub(crate) enum Heard {
    /// An answer.
    Answer(String),
    /// A failure that may pass, and after how many seconds to ask again.
    Retry(Option<f64>),
    /// A failure that will not, with this code.
    Refused(&'static str),
    /// Its own client panicked.
    Panic,
}

impl Heard {
    /// What it means for the attempt: as in the engine's worker.
    pub(crate) fn settlement<F: SimFlow>(&self, granted: &Granted<F>) -> Settlement<F> {
        match self {
            Self::Answer(answer) => match F::report(&granted.record.binding, answer.as_bytes()) {
                Ok(report) => Settlement::Report(report),
                Err(Blocked(code)) => Settlement::Fail { code },
            },
            Self::Retry(after) => Settlement::Retry {
                code: ErrorCode::known("network"),
                retry_after: after.and_then(Duration::new),
            },
            Self::Refused(code) => Settlement::Fail { code: ErrorCode::known(code) },
            Self::Panic => Settlement::Fail { code: Blocked::new::<F>(F::RULES.unmarked).0 },
        }
    }
}

/// What it remembers of one identity.
#[derive(Debug)]
struct Seen {
    body: Vec<u8>,
    /// Drawn once: how it is going to end.
    temper: u64,
    /// How far it has come.
    progress: u64,
}

/// The other side of one flow.
#[derive(Debug, Default)]
pub(crate) struct Remote {
    seen: BTreeMap<Identity, Seen>,
}

impl Remote {
    /// Takes a call; `None` when the worker never hears of it again.
    pub(crate) fn call<F: SimFlow>(
        &mut self,
        granted: &Granted<F>,
        body: Vec<u8>,
        shared: &mut Shared,
    ) -> Result<Option<Heard>, Break> {
        let identity = &granted.identity;
        self.arrives::<F>(identity, body, shared)?;
        let Some(seen) = self.seen.get_mut(identity) else { return Ok(None) };
        let read = shared.rng.below(1 << 40);
        let answer = F::answer(&granted.record.binding, seen.temper, seen.progress, read);
        let roll = if shared.calm { u64::MAX } else { shared.rng.below(24) };
        let accepts = !matches!(roll, 0..=4 | 6);
        if shared.calm {
            seen.progress += 3;
        } else if accepts && shared.rng.one_in(2) {
            seen.progress += 1;
        }
        let refusals = ["cms.refused", "cms.event.superseded"];
        let (note, heard) = match roll {
            0..=2 => (Note::RemoteRetries, Some(Heard::Retry(None))),
            3 => (Note::RemoteRetriesLater, Some(Heard::Retry(Some(30.0)))),
            4 => {
                let code = refusals[shared.rng.index(refusals.len())];
                (Note::RemoteRefuses, Some(Heard::Refused(code)))
            }
            5 => (Note::RemoteAnswersNonsense, Some(Heard::Answer("{}".to_owned()))),
            6 => (Note::RemoteClientPanics, Some(Heard::Panic)),
            7 | 8 => (Note::RemoteAnswerLost, None),
            9 => (Note::RemoteTimesOut, Some(Heard::Retry(None))),
            10.. => (Note::RemoteAccepts, Some(Heard::Answer(answer))),
        };
        shared.note_of(note, F::TAG, identity, seen.progress);
        Ok(heard)
    }

    fn arrives<F: SimFlow>(
        &mut self,
        identity: &Identity,
        body: Vec<u8>,
        shared: &mut Shared,
    ) -> Checked {
        match self.seen.get(identity) {
            None => {
                let seen = Seen { body, temper: shared.rng.draw(), progress: 0 };
                self.seen.insert(identity.clone(), seen);
                Ok(())
            }
            Some(seen) => {
                shared.note_of(Note::RemoteSeesAgain, F::TAG, identity, seen.progress);
                must(seen.body == body, I7, "another body for a known identity")
            }
        }
    }
}
