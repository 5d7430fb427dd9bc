//! The names under which records begin, for engines that share a journal.
//!
//! Owns which of a record's keys two engines must not decide on apart: a second identity that is one record's
//! (D17), and the change a removal waits for (D5). Pure.

use super::delivery::Delivery;
use super::processing::Processing;
use crate::codec;
use crate::record::{Flow, FlowTag, Key, Link, State, evolve, flow_of};
use leasehold_journal::Record;
use leasehold_journal::store::Name;

/// The name that a stream's first record begins it under; `None` for most flows, and for a record that does
/// not replay.
#[must_use]
pub fn name_of(record: &Record) -> Option<Name> {
    match flow_of(record.stream)? {
        FlowTag::Processing => key_of::<Processing>(&record.body),
        FlowTag::Delivery => key_of::<Delivery>(&record.body),
        FlowTag::Dispatch | FlowTag::Lifecycle | FlowTag::Notification => None,
    }
    .map(|key| u64::from(key).to_be_bytes())
}

fn key_of<F: Flow>(body: &[u8]) -> Option<Key> {
    let begun = evolve(State::Vacant, &codec::decode::<F>(body).ok()?).ok()?;
    let binding = &begun.record()?.binding;
    match F::link(binding) {
        Link::Holds(key) => Some(key),
        Link::Waits(_) | Link::None => F::unique_key(binding),
    }
}
