//! Where each stream ends.
//!
//! Owns the map from a stream to its last record. It is derived: it is built from the base and the
//! frames when a journal is opened, and every frame read later is checked against it.

use crate::record::{Stored, StreamId};
use std::collections::HashMap;

/// A stream's last record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tip {
    /// Its sequence number; 0 for a stream without records.
    pub sequence: u64,
    /// Its version; 0 for a stream without records.
    pub version: u32,
}

/// The tips of all streams.
#[derive(Debug, Default, Clone)]
pub struct StreamIndex {
    tips: HashMap<StreamId, Tip>,
}

impl StreamIndex {
    /// An index with room for so many streams.
    #[must_use]
    pub fn with_capacity(streams: usize) -> Self {
        Self { tips: HashMap::with_capacity(streams) }
    }

    /// The stream's tip; sequence and version 0 when it has no records.
    #[must_use]
    pub fn tip(&self, stream: StreamId) -> Tip {
        self.tips.get(&stream).copied().unwrap_or_default()
    }

    /// How many streams have records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tips.len()
    }

    /// Whether no stream has records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tips.is_empty()
    }

    /// All streams that have records, in their order.
    #[must_use]
    pub fn sorted(&self) -> Vec<(StreamId, Tip)> {
        let mut tips: Vec<_> = self.tips.iter().map(|(stream, tip)| (*stream, *tip)).collect();
        tips.sort_unstable_by_key(|(stream, _)| *stream);
        tips
    }

    /// Moves a stream's tip.
    pub fn set(&mut self, stream: StreamId, tip: Tip) {
        self.tips.insert(stream, tip);
    }

    /// Takes the next record of a stream; false when it does not follow the tip (J4).
    #[must_use]
    pub fn follow(&mut self, record: &Stored<'_>) -> bool {
        let tip = self.tips.entry(record.stream).or_default();
        let follows =
            record.previous == tip.sequence && Some(record.version) == tip.version.checked_add(1);
        if follows {
            *tip = Tip { sequence: record.sequence, version: record.version };
        }
        follows
    }
}
