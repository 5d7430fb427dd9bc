//! Where the events of a scope, and what is kept of archived ones, meet bytes.
//!
//! Owns the header in front of both. Must not know the journal's frames. Written: the newest version.
//! Read: all of them.
//!
//! | size | field |
//! | --- | --- |
//! | 1 | [`NUMBER`], 9 |
//! | 1 | version of the form, 1 |
//! | n | the event, or the image, as [`leasehold_journal::payload`] encodes it |
//!
//! A library from before there were controls knows no flow of this number: it refuses a journal that
//! holds one as a whole, and its audit names each event. A journal in which nothing was ever paused
//! holds none. Hex samples lie in `snapshots/wire/`.

use super::scope::NUMBER;
use super::{Control, Event, Kept};
use crate::codec::{self, DecodeError};
use leasehold_journal::{JournalError, payload};
use serde::Serialize;

/// The newest version that is written.
pub const VERSION: u8 = 1;

/// The body of an event.
///
/// # Errors
/// [`JournalError::TooLarge`] for one that no journal keeps.
pub fn encode(event: &Event) -> Result<Vec<u8>, JournalError> {
    written(event)
}

/// The event of a body.
///
/// # Errors
/// [`DecodeError`].
pub fn decode(body: &[u8]) -> Result<Event, DecodeError> {
    payload::decode(codec::open(NUMBER, body, VERSION)?.1).map_err(|_| DecodeError::Invalid)
}

/// The image of a scope whose events are archived.
///
/// # Errors
/// [`JournalError::TooLarge`] for one that no journal keeps.
pub fn encode_image(kept: &Kept) -> Result<Vec<u8>, JournalError> {
    written(kept)
}

/// Reads an image.
///
/// # Errors
/// [`DecodeError`]; also for one that says that nothing ever happened.
pub fn decode_image(image: &[u8]) -> Result<Kept, DecodeError> {
    match payload::decode(codec::open(NUMBER, image, VERSION)?.1) {
        Ok(Kept::Sound(Control::Vacant)) | Err(_) => Err(DecodeError::Invalid),
        Ok(kept) => Ok(kept),
    }
}

fn written<T: Serialize>(value: &T) -> Result<Vec<u8>, JournalError> {
    let mut bytes = vec![NUMBER, VERSION];
    payload::encode_into(&mut bytes, value)?;
    Ok(bytes)
}
