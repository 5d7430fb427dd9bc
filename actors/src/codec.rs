//! Where events meet bytes, and nowhere else.
//!
//! Owns the header in front of every body and the versions it names. Must not know the journal's
//! frames. Written: the newest version. Read: all of them.
//!
//! | size | field |
//! | --- | --- |
//! | 1 | flow number |
//! | 1 | version of the event's form, 1 |
//! | n | the event, as [`leasehold_journal::payload`] encodes it |
//!
//! Hex samples of every event in every version lie in `snapshots/wire/`.

use crate::record::{Event, Flow, FlowTag};
use leasehold_journal::{JournalError, payload};

/// The version that is written.
pub const VERSION: u8 = 1;

/// Why a body is no event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Written by a newer version of this library.
    #[error("schema_newer: version {0}")]
    Newer(u8),
    /// Of another flow, cut short, or malformed.
    #[error("record_invalid")]
    Invalid,
}

/// The body of an event.
///
/// # Errors
/// [`JournalError::TooLarge`] for one that no journal keeps.
pub fn encode<F: Flow>(event: &Event<F>) -> Result<Vec<u8>, JournalError> {
    let mut body = vec![F::TAG as u8, VERSION];
    payload::encode_into(&mut body, event)?;
    Ok(body)
}

/// The flow a body belongs to; `None` when it is too short or of no flow of ours.
#[must_use]
pub fn flow_of(body: &[u8]) -> Option<FlowTag> {
    FlowTag::from_number(*body.first()?)
}

/// The event of a body.
///
/// # Errors
/// [`DecodeError`].
pub fn decode<F: Flow>(body: &[u8]) -> Result<Event<F>, DecodeError> {
    let [flow, version, event @ ..] = body else { return Err(DecodeError::Invalid) };
    if *flow != F::TAG as u8 || *version == 0 {
        return Err(DecodeError::Invalid);
    }
    if *version > VERSION {
        return Err(DecodeError::Newer(*version));
    }
    payload::decode(event).map_err(|_| DecodeError::Invalid)
}
