//! Where events meet bytes, and nowhere else.
//!
//! Owns the header in front of every body and the versions it names. Must not know the journal's
//! frames. Written: the newest version. Read: all of them.
//!
//! | size | field |
//! | --- | --- |
//! | 1 | flow number |
//! | 1 | version of the event's form: 5 for a record brought here from elsewhere, 4 for a requeue for later, 3 for a lease given back, 2 for the other events of an operator, 1 for all others |
//! | n | the event, as [`leasehold_journal::payload`] encodes it |
//!
//! Version 2 added the events of an operator, version 3 leases that are given back, version 4 requeues that
//! are due later, version 5 records that were brought here from another program's store; none changed anything else, so everything is still written in the version it came with:
//! a journal without such events can be read by an older library, and one that holds them is refused by it
//! as a whole.
//!
//! Hex samples of every event in every version lie in `snapshots/wire/`.

use crate::record::{Event, Flow, FlowTag};
use leasehold_journal::{JournalError, payload};

/// The newest version that is written.
pub const VERSION: u8 = 5;

/// The version an event came with.
fn version_of<F: Flow>(event: &Event<F>) -> u8 {
    match event {
        Event::Imported { .. } => 5,
        Event::RequeuedLater { .. } => 4,
        Event::Released { .. } => 3,
        Event::Requeued { .. } | Event::Dismissed { .. } | Event::Repinned { .. } => 2,
        Event::Registered { .. }
        | Event::Claimed { .. }
        | Event::Completed { .. }
        | Event::Watched { .. }
        | Event::Unchanged { .. }
        | Event::Retried { .. }
        | Event::Failed { .. }
        | Event::LeaseLost { .. } => 1,
    }
}

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
    let mut body = vec![F::TAG as u8, version_of(event)];
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
    let (version, event) = open(F::TAG as u8, body, VERSION)?;
    let event = payload::decode(event).map_err(|_| DecodeError::Invalid)?;
    if version_of(&event) == version { Ok(event) } else { Err(DecodeError::Invalid) }
}

/// Takes the header off, which starts with `number`: the version, which is at most `newest`, and what
/// follows it.
///
/// # Errors
/// [`DecodeError`].
pub(crate) fn open(number: u8, bytes: &[u8], newest: u8) -> Result<(u8, &[u8]), DecodeError> {
    match bytes {
        [first, version, rest @ ..] if *first == number && *version > 0 => {
            if *version > newest {
                return Err(DecodeError::Newer(*version));
            }
            Ok((*version, rest))
        }
        _ => Err(DecodeError::Invalid),
    }
}
