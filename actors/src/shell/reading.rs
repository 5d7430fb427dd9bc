//! One record, read from its stream and folded.
//!
//! Owns the one way from the journal to a record in a running engine: whoever activates it and whoever takes over
//! what other engines wrote to it read it here. Must hold no rule.

use crate::carried::Origin;
use crate::record::{Flow, State};
use crate::replay;
use leasehold_journal::{JournalError, Record, StoreReader, StreamId, View};

/// A record as its stream says.
pub(super) struct Reading<F: Flow> {
    /// Up to where it was read.
    pub(super) view: View,
    /// The stream's version there.
    pub(super) version: u32,
    /// What it is; `None` where it does not replay.
    pub(super) state: Option<State<F>>,
    /// What it was before other engines wrote to it, where they did and it replays up to there.
    pub(super) earlier: Option<State<F>>,
    /// Where its payload is.
    pub(super) origin: Origin,
}

/// Reads a record.
///
/// # Errors
/// When the journal does not answer; damage is in what is read.
pub(super) fn read<F: Flow>(
    reader: &dyn StoreReader,
    stream: StreamId,
) -> Result<Reading<F>, JournalError> {
    let view = reader.view(stream);
    let read = reader
        .carried(stream)
        .and_then(|carried| Ok((carried, reader.read_stream_to(stream, view.tip)?)));
    let (carried, records) = match read {
        Ok(read) => read,
        Err(JournalError::Corrupt { .. }) => {
            let (version, origin) = (view.tip.version, Origin::default());
            return Ok(Reading { view, version, state: None, earlier: None, origin });
        }
        Err(error) => return Err(error),
    };
    let archived = carried.as_ref().map_or(0, |entry| entry.tip.version);
    let version = records.last().map_or(archived, |record| record.version);
    let image = carried.map(|entry| entry.image);
    let first = records.first().map(|record| record.body.clone());
    let folded = |records: Vec<Record>| {
        let bodies = records.into_iter().map(|record| record.body);
        replay::state_of(stream, image.as_deref(), bodies).ok()
    };
    let earlier = view.known.and_then(|known| {
        let before = records.iter().filter(|record| record.version <= known).cloned();
        folded(before.collect())
    });
    let state = folded(records);
    Ok(Reading { view, version, state, earlier, origin: Origin { image, first } })
}
