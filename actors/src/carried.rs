//! What a record's archived events came to.
//!
//! Owns the image a journal keeps of each archived record, and its bytes. Pure. Must not know when
//! records are archived, nor the journal's frames.
//!
//! A completed record keeps no payload: nothing follows for it any more. Every other one keeps its
//! payload, so that it goes on, or is requeued, as if nothing had been archived.
//!
//! | size | field |
//! | --- | --- |
//! | 1 | flow number |
//! | 1 | version of the image's form, 1 or 2 |
//! | n | the image, as [`leasehold_journal::payload`] encodes it |
//! | m | version 2: what that does not tell, encoded likewise |
//!
//! Version 2 adds how many leases the record lost in a row and, while it is leased, why it was waiting
//! before. A record without either is still written as version 1, so that most archived journals can be
//! read by an older library. An older library wrote all its images as version 1: such a one tells
//! nothing of the two, and the record counts from there on. Where such a one fell between lost leases and
//! the journal was archived once more before any settlement, the audit over all archives counts more than
//! the newest image tells, and says that they differ: fewer losses than there were could be an edit.
//!
//! Hex samples of every flow lie in `snapshots/wire/`.

use crate::codec::{self, DecodeError};
use crate::record::{Event, Flow, State, Wait};
use crate::replay::Replayed;
use leasehold_journal::{JournalError, payload};
use serde::{Deserialize, Serialize};

/// The newest version that is written.
pub const VERSION: u8 = 2;
/// The version that tells neither losses nor what a leased record waited for.
const FIRST: u8 = 1;

/// The image of one record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum Carried<F: Flow> {
    /// It is completed.
    Completed(State<F>),
    /// It goes on, or may be requeued.
    Open {
        /// Its state.
        state: State<F>,
        /// What is kept for its calls.
        payload: F::Payload,
    },
    /// Its archived events do not replay (D8).
    Quarantined,
}

/// What version 2 adds to an image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Later {
    losses: u32,
    waited: Option<Wait>,
}

impl<F: Flow> Carried<F> {
    /// Whether its parts belong together.
    fn is_sound(&self) -> bool {
        match self {
            Self::Completed(state) => matches!(state, State::Completed { .. }),
            Self::Open { state, payload } => {
                let open = !matches!(state, State::Completed { .. });
                open && state.record().is_some_and(|it| {
                    let pending = state.waited().map(|wait| *wait == Wait::Pending);
                    F::belongs(&it.binding, payload)
                        && it.losses <= it.attempts
                        && pending.is_none_or(|pending| pending == (it.attempts == 1))
                })
            }
            Self::Quarantined => true,
        }
    }

    fn state(&self) -> Option<&State<F>> {
        match self {
            Self::Completed(state) | Self::Open { state, .. } => Some(state),
            Self::Quarantined => None,
        }
    }

    /// What the first form does not tell of it.
    fn later(&self) -> Later {
        let state = self.state();
        Later {
            losses: state.and_then(State::record).map_or(0, |record| record.losses),
            waited: state.and_then(State::waited).cloned(),
        }
    }

    /// The same with what the first form does not tell; `None` for what has no place for it.
    fn with(self, Later { losses, waited }: Later) -> Option<Self> {
        let Self::Open { mut state, payload } = self else { return None };
        match &mut state {
            State::Leased { record, waited: known, .. } => {
                (record.losses, *known) = (losses, waited);
            }
            State::Ready { record, .. }
            | State::Failed { record, .. }
            | State::Dismissed { record, .. }
                if waited.is_none() =>
            {
                record.losses = losses;
            }
            State::Vacant
            | State::Ready { .. }
            | State::Completed { .. }
            | State::Failed { .. }
            | State::Dismissed { .. } => return None,
        }
        Some(Self::Open { state, payload })
    }

    /// The record as it replays.
    #[must_use]
    pub fn replayed(self) -> Replayed<F> {
        match self {
            Self::Completed(state) | Self::Open { state, .. } => Replayed::Sound(state),
            Self::Quarantined => Replayed::Quarantined,
        }
    }

    /// What is kept for its calls.
    #[must_use]
    pub fn into_payload(self) -> Option<F::Payload> {
        match self {
            Self::Open { payload, .. } => Some(payload),
            Self::Completed(_) | Self::Quarantined => None,
        }
    }
}

/// The bytes of an image.
///
/// # Errors
/// [`JournalError::TooLarge`] for one that no journal keeps.
pub fn encode<F: Flow>(carried: &Carried<F>) -> Result<Vec<u8>, JournalError> {
    let later = carried.later();
    let first = later == Later::default();
    let mut image = vec![F::TAG as u8, if first { FIRST } else { VERSION }];
    payload::encode_into(&mut image, carried)?;
    if !first {
        payload::encode_into(&mut image, &later)?;
    }
    Ok(image)
}

/// Reads an image.
///
/// # Errors
/// [`DecodeError`].
pub fn decode<F: Flow>(image: &[u8]) -> Result<Carried<F>, DecodeError> {
    let (version, form) = codec::open(F::TAG as u8, image, VERSION)?;
    let carried: Carried<F> = if version == FIRST {
        payload::decode(form).map_err(|_| DecodeError::Invalid)?
    } else {
        let (carried, later): (Carried<F>, Later) =
            payload::decode(form).map_err(|_| DecodeError::Invalid)?;
        // One that adds nothing is not what is written.
        let adds = later != Later::default();
        carried.with(later).filter(|_| adds).ok_or(DecodeError::Invalid)?
    };
    if carried.is_sound() { Ok(carried) } else { Err(DecodeError::Invalid) }
}

/// A record as an image of the first form would tell it, where this is one.
pub(crate) fn as_told_by<F: Flow>(image: &[u8], record: &Replayed<F>) -> Replayed<F> {
    let Replayed::Sound(mut state) = record.clone() else { return Replayed::Quarantined };
    if image.get(1) == Some(&FIRST) {
        match &mut state {
            State::Leased { record, waited, .. } => (record.losses, *waited) = (0, None),
            State::Ready { record, .. }
            | State::Completed { record, .. }
            | State::Failed { record, .. }
            | State::Dismissed { record, .. } => record.losses = 0,
            State::Vacant => {}
        }
    }
    Replayed::Sound(state)
}

/// Where a record's payload is: in its image, or in its first event.
#[derive(Clone, Default)]
pub struct Origin {
    /// The image of its archived events.
    pub image: Option<Vec<u8>>,
    /// The body of its first event that is not archived.
    pub first: Option<Vec<u8>>,
}

impl std::fmt::Debug for Origin {
    /// Shows where the payload is, never what it says.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Origin")
            .field("image", &self.image.is_some())
            .field("first", &self.first.is_some())
            .finish()
    }
}

impl Origin {
    /// The payload; `None` when it is gone, damaged, or not kept any more.
    #[must_use]
    pub fn payload<F: Flow>(&self) -> Option<F::Payload> {
        if let Some(image) = &self.image {
            return decode::<F>(image).ok()?.into_payload();
        }
        match codec::decode::<F>(self.first.as_deref()?).ok()? {
            Event::Registered { payload, .. } | Event::Imported { payload, .. } => Some(payload),
            Event::Claimed { .. }
            | Event::Completed { .. }
            | Event::Watched { .. }
            | Event::Unchanged { .. }
            | Event::Retried { .. }
            | Event::Failed { .. }
            | Event::LeaseLost { .. }
            | Event::Requeued { .. }
            | Event::RequeuedLater { .. }
            | Event::Dismissed { .. }
            | Event::Repinned { .. }
            | Event::Released { .. } => None,
        }
    }
}

/// The image of a record; `origin` is asked only where the payload is kept.
///
/// # Errors
/// [`JournalError::Corrupt`] at 0 when the payload is gone; whatever `origin` answers.
pub fn image_of<F: Flow>(
    record: Option<&Replayed<F>>,
    origin: &mut dyn FnMut() -> Result<Origin, JournalError>,
) -> Result<Vec<u8>, JournalError> {
    let gone = JournalError::Corrupt { sequence: 0 };
    let carried = match record {
        Some(Replayed::Sound(state @ State::Completed { .. })) => Carried::Completed(state.clone()),
        Some(Replayed::Sound(state)) => {
            let payload = origin()?.payload::<F>().ok_or(gone)?;
            Carried::Open { state: state.clone(), payload }
        }
        Some(Replayed::Quarantined) => Carried::<F>::Quarantined,
        None => return Err(gone),
    };
    encode(&carried)
}
