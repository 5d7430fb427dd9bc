//! Who a record is, and which stream that makes.

use super::FlowTag;
use leasehold_journal::StreamId;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::Arc;

/// A record's identity within its flow: an event id, or an operation and a request id.
///
/// Compared by bytes: no normalisation, no case folding.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity(Arc<str>);

impl Identity {
    /// The identity with this text; made of tokens by the flows.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name by its hash: equal names have equal keys, different ones practically never.
///
/// Bytes and not a number, highest first: a million schedule entries hold one each, and next to a byte
/// or two a number would cost as much again in padding. The order is that of the number, and so is the
/// written form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "u64", into = "u64")]
pub struct Key([u8; 8]);

impl Key {
    /// The key of a name.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let digest: [u8; 32] = Sha256::digest(name.as_bytes()).into();
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        u64::from_le_bytes(first).into()
    }
}

impl From<u64> for Key {
    fn from(number: u64) -> Self {
        Self(number.to_be_bytes())
    }
}

impl From<Key> for u64 {
    fn from(key: Key) -> Self {
        Self::from_be_bytes(key.0)
    }
}

impl Identity {
    /// Which of so many engines starts with this record, from 0: the same answer in each of them.
    #[must_use]
    pub fn share_of(&self, count: u32) -> u32 {
        let key: u64 = Key::of(self.as_str()).into();
        u32::try_from(key % u64::from(count.max(1))).unwrap_or(0)
    }
}

/// How records of one flow wait for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Not at all.
    None,
    /// Until it is settled, those that wait for this key are not due.
    Holds(Key),
    /// It is not due while another record holds this key.
    Waits(Key),
}

const STREAM_TAG: &[u8] = b"leasehold.stream.v1\0";

/// The stream of a record: the flow's number, then the first 15 bytes of the SHA-256 of the flow and
/// the identity. A damaged record can so still be told to a flow.
#[must_use]
pub fn stream_of(flow: FlowTag, identity: &str) -> StreamId {
    stream_under(flow as u8, identity)
}

/// The stream of what has this text under a number of its own.
pub(crate) fn stream_under(number: u8, text: &str) -> StreamId {
    let digest: [u8; 32] = Sha256::new()
        .chain_update(STREAM_TAG)
        .chain_update([number])
        .chain_update(text.as_bytes())
        .finalize()
        .into();
    let mut id = [0; 16];
    id[0] = number;
    id[1..].copy_from_slice(&digest[..15]);
    StreamId(id)
}

/// The flow of a stream; `None` for one that is not ours.
#[must_use]
pub fn flow_of(stream: StreamId) -> Option<FlowTag> {
    FlowTag::from_number(stream.0[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_id_in_two_flows_is_two_streams() {
        let dispatch = stream_of(FlowTag::Dispatch, "event-1");
        assert_ne!(dispatch, stream_of(FlowTag::Lifecycle, "event-1"));
        assert_ne!(dispatch, stream_of(FlowTag::Dispatch, "event-2"));
        assert_eq!(flow_of(dispatch), Some(FlowTag::Dispatch));
        assert_eq!(flow_of(StreamId([99; 16])), None);
    }

    #[test]
    fn a_key_is_kept_in_bytes_and_is_ordered_and_written_as_its_number() {
        for (low, high) in [(0, 1), (255, 256), (u64::MAX - 1, u64::MAX)] {
            let (low_key, high_key) = (Key::from(low), Key::from(high));
            assert!(low_key < high_key, "{low} {high}");
            assert_eq!((u64::from(low_key), u64::from(high_key)), (low, high));
        }
        assert_eq!(serde_json::to_value(Key::from(300)).expect("it has a form"), 300);
        assert_eq!(serde_json::from_str::<Key>("300").expect("a number"), Key::from(300));
        assert_eq!((size_of::<Link>(), align_of::<Link>()), (9, 1));
    }

    #[test]
    fn an_identity_shows_its_text() {
        let identity = Identity::new("event-1");
        assert_eq!([format!("{identity}"), format!("{identity:?}")], ["event-1", "event-1"]);
    }
}
