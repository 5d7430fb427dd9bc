//! States from records: the same `evolve` that runs live.
//!
//! Owns the fold over a journal. Pure; used when a journal is opened, by the audit, by every reading
//! command and by tests, so that there is one way to a state.

use crate::carried;
use crate::codec::{self, DecodeError};
use crate::record::{Event, Flow, Identity, IllegalEvent, State, evolve, stream_of};
use leasehold_journal::StreamId;
use std::collections::HashMap;

/// Why a record does not replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// Its body is no event.
    #[error("record_invalid")]
    Decode(DecodeError),
    /// Its event cannot have happened.
    #[error("replay_invalid")]
    Illegal,
    /// Its body is gone or damaged.
    #[error("record_damaged")]
    Body,
    /// An earlier record of its stream did not replay.
    #[error("record_quarantined")]
    Quarantined,
}

impl From<IllegalEvent> for ReplayError {
    fn from(_: IllegalEvent) -> Self {
        Self::Illegal
    }
}

/// One record as far as it replays.
#[derive(Debug, Clone, PartialEq)]
pub enum Replayed<F: Flow> {
    /// Its state.
    Sound(State<F>),
    /// It does not replay; it is quarantined and the others go on (D8).
    Quarantined,
}

impl<F: Flow> Replayed<F> {
    /// Its state, where it replays.
    #[must_use]
    pub fn state(&self) -> Option<&State<F>> {
        match self {
            Self::Sound(state) => Some(state),
            Self::Quarantined => None,
        }
    }
}

/// All records of one flow.
#[derive(Debug)]
pub struct Replay<F: Flow> {
    records: HashMap<StreamId, Replayed<F>>,
}

impl<F: Flow> Default for Replay<F> {
    fn default() -> Self {
        Self { records: HashMap::new() }
    }
}

impl<F: Flow> Replay<F> {
    /// Applies one record. `body` is `None` when it cannot be read.
    ///
    /// # Errors
    /// [`ReplayError`]; the stream is quarantined then. A body of a newer version is the caller's to
    /// refuse: nothing may be written over what is not understood.
    pub fn apply(
        &mut self,
        stream: StreamId,
        body: Option<&[u8]>,
    ) -> Result<Event<F>, ReplayError> {
        let place = self.records.entry(stream).or_insert(Replayed::Sound(State::Vacant));
        let Replayed::Sound(state) = std::mem::replace(place, Replayed::Quarantined) else {
            return Err(ReplayError::Quarantined);
        };
        let body = body.ok_or(ReplayError::Body)?;
        let event = read::<F>(stream, body)?;
        *place = Replayed::Sound(evolve(state, &event)?);
        Ok(event)
    }

    /// Takes what a record's archived events came to. `image` is `None` when it cannot be read. Where
    /// those events were applied already, both have to come to the same, as far as the image tells; what
    /// it does not tell is forgotten, as it was by whoever went on from the image.
    ///
    /// # Errors
    /// [`ReplayError`]; the stream is quarantined then, or stays as it was applied. An image of a newer
    /// version is the caller's to refuse.
    pub fn carry(&mut self, stream: StreamId, image: Option<&[u8]>) -> Result<(), ReplayError> {
        let decoded = image.ok_or(ReplayError::Body).and_then(|image| recall::<F>(stream, image));
        match (self.records.get(&stream), decoded) {
            (Some(applied), Ok(carried)) => {
                if *applied != carried {
                    if carried::as_told_by(image.unwrap_or_default(), applied) != carried {
                        return Err(ReplayError::Illegal);
                    }
                    self.records.insert(stream, carried);
                }
                Ok(())
            }
            (Some(_), Err(error)) => Err(error),
            (None, Ok(carried)) => {
                self.records.insert(stream, carried);
                Ok(())
            }
            (None, Err(error)) => {
                self.records.insert(stream, Replayed::Quarantined);
                Err(error)
            }
        }
    }

    /// The record of a stream.
    #[must_use]
    pub fn get(&self, stream: StreamId) -> Option<&Replayed<F>> {
        self.records.get(&stream)
    }

    /// All records, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (StreamId, &Replayed<F>)> {
        self.records.iter().map(|(stream, record)| (*stream, record))
    }

    /// How many records there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.records.len()
    }
}

/// The event of a body. A registration under another stream than its own cannot have happened: nobody
/// who asks for its identity would find it.
fn read<F: Flow>(stream: StreamId, body: &[u8]) -> Result<Event<F>, ReplayError> {
    let event = codec::decode::<F>(body).map_err(ReplayError::Decode)?;
    at_home::<F>(stream, event.identity())?;
    Ok(event)
}

/// The record of an image, which has to be under its own stream likewise.
fn recall<F: Flow>(stream: StreamId, image: &[u8]) -> Result<Replayed<F>, ReplayError> {
    let replayed = carried::decode::<F>(image).map_err(ReplayError::Decode)?.replayed();
    if let Replayed::Sound(state) = &replayed {
        at_home::<F>(stream, state.record().map(|record| F::identity(&record.binding)))?;
    }
    Ok(replayed)
}

fn at_home<F: Flow>(stream: StreamId, identity: Option<Identity>) -> Result<(), ReplayError> {
    let elsewhere = identity.is_some_and(|it| stream_of(F::TAG, it.as_str()) != stream);
    if elsewhere { Err(ReplayError::Illegal) } else { Ok(()) }
}

/// The state of one stream from the image of its archived events, if there are any, and the bodies of
/// the others, oldest first.
///
/// # Errors
/// [`ReplayError`] of the first one that does not replay.
pub fn state_of<F: Flow>(
    stream: StreamId,
    image: Option<&[u8]>,
    bodies: impl IntoIterator<Item = Vec<u8>>,
) -> Result<State<F>, ReplayError> {
    let mut state = State::Vacant;
    if let Some(image) = image {
        match recall::<F>(stream, image)? {
            Replayed::Sound(carried) => state = carried,
            Replayed::Quarantined => return Err(ReplayError::Quarantined),
        }
    }
    for body in bodies {
        let event = read::<F>(stream, &body)?;
        state = evolve(state, &event)?;
    }
    Ok(state)
}
