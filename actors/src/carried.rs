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
//! | 1 | version of the image's form, 1 |
//! | n | the image, as [`leasehold_journal::payload`] encodes it |
//!
//! Hex samples of every flow lie in `snapshots/wire/`.

use crate::codec::{self, DecodeError};
use crate::record::{Event, Flow, State};
use crate::replay::Replayed;
use leasehold_journal::{JournalError, payload};
use serde::{Deserialize, Serialize};

/// The newest version that is written.
pub const VERSION: u8 = 1;

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

impl<F: Flow> Carried<F> {
    /// Whether its parts belong together.
    fn is_sound(&self) -> bool {
        match self {
            Self::Completed(state) => matches!(state, State::Completed { .. }),
            Self::Open { state, payload } => {
                let open = !matches!(state, State::Completed { .. });
                open && state.record().is_some_and(|it| F::belongs(&it.binding, payload))
            }
            Self::Quarantined => true,
        }
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
    let mut image = vec![F::TAG as u8, VERSION];
    payload::encode_into(&mut image, carried)?;
    Ok(image)
}

/// Reads an image.
///
/// # Errors
/// [`DecodeError`].
pub fn decode<F: Flow>(image: &[u8]) -> Result<Carried<F>, DecodeError> {
    let (_, form) = codec::open::<F>(image, VERSION)?;
    let carried: Carried<F> = payload::decode(form).map_err(|_| DecodeError::Invalid)?;
    if carried.is_sound() { Ok(carried) } else { Err(DecodeError::Invalid) }
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
            Event::Registered { payload, .. } => Some(payload),
            Event::Claimed { .. }
            | Event::Completed { .. }
            | Event::Watched { .. }
            | Event::Unchanged { .. }
            | Event::Retried { .. }
            | Event::Failed { .. }
            | Event::LeaseLost { .. }
            | Event::Requeued { .. }
            | Event::Dismissed { .. }
            | Event::Repinned { .. } => None,
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
