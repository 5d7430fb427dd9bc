//! A checked row, ready to be written, or to be compared with what is there.
//!
//! Owns what counts as the same record. Must not know a store.

use crate::codec;
use crate::flows::all::AllFlows;
use crate::flows::delivery::Delivery;
use crate::flows::dispatch::Dispatch;
use crate::flows::lifecycle::Lifecycle;
use crate::flows::processing::Processing;
use crate::record::{Event, Flow, Identity, Key, stream_of};
use crate::replay::{Replay, Replayed};
use leasehold_journal::{JournalError, StreamId};

/// The event that brings a row here, which is [`Event::Imported`].
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// Of the change dispatcher.
    Dispatch(Event<Dispatch>),
    /// Of the lifecycle monitor.
    Lifecycle(Event<Lifecycle>),
    /// Of the terminal processing monitor.
    Processing(Event<Processing>),
    /// Of the source delivery outbox.
    Delivery(Event<Delivery>),
}

/// How a journal has a record already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// As the row says.
    Same,
    /// Otherwise.
    Other,
    /// It does not replay (D8).
    Quarantined,
}

impl Entry {
    /// The record's identity; `None` cannot happen to what [`super::check`] made.
    #[must_use]
    pub fn identity(&self) -> Option<Identity> {
        match self {
            Self::Dispatch(event) => event.identity(),
            Self::Lifecycle(event) => event.identity(),
            Self::Processing(event) => event.identity(),
            Self::Delivery(event) => event.identity(),
        }
    }

    /// Its stream.
    #[must_use]
    pub fn stream(&self) -> Option<StreamId> {
        let identity = self.identity()?;
        let tag = match self {
            Self::Dispatch(_) => Dispatch::TAG,
            Self::Lifecycle(_) => Lifecycle::TAG,
            Self::Processing(_) => Processing::TAG,
            Self::Delivery(_) => Delivery::TAG,
        };
        Some(stream_of(tag, identity.as_str()))
    }

    /// Its bytes.
    ///
    /// # Errors
    /// [`JournalError::TooLarge`] for one that no journal keeps.
    pub fn body(&self) -> Result<Vec<u8>, JournalError> {
        match self {
            Self::Dispatch(event) => codec::encode(event),
            Self::Lifecycle(event) => codec::encode(event),
            Self::Processing(event) => codec::encode(event),
            Self::Delivery(event) => codec::encode(event),
        }
    }

    /// What no other record may have beside it (D17).
    #[must_use]
    pub fn unique(&self) -> Option<Key> {
        match self {
            Self::Processing(Event::Imported { record, .. }) => {
                Processing::unique_key(&record.binding)
            }
            Self::Processing(_) | Self::Dispatch(_) | Self::Lifecycle(_) | Self::Delivery(_) => {
                None
            }
        }
    }

    /// How a journal has the record: `None` when it has none. `first` is the body of the first of its
    /// events that is not archived.
    #[must_use]
    pub fn known(&self, flows: &AllFlows, first: Option<&[u8]>) -> Option<Known> {
        let stream = self.stream()?;
        match self {
            Self::Dispatch(event) => known(event, &flows.dispatch, stream, first),
            Self::Lifecycle(event) => known(event, &flows.lifecycle, stream, first),
            Self::Processing(event) => known(event, &flows.processing, stream, first),
            Self::Delivery(event) => known(event, &flows.delivery, stream, first),
        }
    }
}

/// It is the same when it was brought here from the very same row, whatever became of it since, or when it
/// stands exactly as the row says.
fn known<F: Flow>(
    event: &Event<F>,
    replay: &Replay<F>,
    stream: StreamId,
    first: Option<&[u8]>,
) -> Option<Known> {
    let there = match replay.get(stream)? {
        Replayed::Sound(state) => state,
        Replayed::Quarantined => return Some(Known::Quarantined),
    };
    let Event::Imported { schema_version, row_sha256, record, payload, .. } = event else {
        return Some(Known::Other);
    };
    let brought = first.and_then(|body| codec::decode::<F>(body).ok());
    // From the same row: only the time of the import is another one.
    let again = brought.is_some_and(|brought| {
        let (at, schema_version, row_sha256) = (brought.at(), *schema_version, *row_sha256);
        let (record, payload) = (record.clone(), payload.clone());
        brought == Event::Imported { at, schema_version, row_sha256, record, payload }
    });
    Some(if again || *there == record.state() { Known::Same } else { Known::Other })
}
