//! Bytes as they lie on disk: frames and their records, anchors, manifests, events, encoded values.
//!
//! What reads has one spelling, or settles on one when it is written again; everything else is
//! refused.

use super::framing::{ID, around, resealed};
use leasehold_actors::codec::{self, DecodeError};
use leasehold_actors::contract::receiver::ReceiverState;
use leasehold_actors::flows::delivery::Delivery;
use leasehold_actors::flows::dispatch::Dispatch;
use leasehold_actors::flows::lifecycle::{Lifecycle, LifecycleBinding};
use leasehold_actors::flows::notification::Notify;
use leasehold_actors::flows::processing::Processing;
use leasehold_actors::record::Flow;
use leasehold_journal::chunk::{self, BODY_BYTES_MAX, CHUNK_BYTES};
use leasehold_journal::frame::{FRAME_BYTES_MAX, Frame, FrameBuilder};
use leasehold_journal::walk::Walk;
use leasehold_journal::{Head, anchor, payload};
use serde::{Serialize, de::DeserializeOwned};

/// Holds for any bytes; answers what they were accepted as.
pub(crate) fn body(data: &[u8]) -> Vec<&'static str> {
    let outside = data.split_at_checked(2).map(|(count, body)| {
        let bytes = around(Head::genesis(ID), [count[0], count[1]], body);
        let small = bytes.len() <= FRAME_BYTES_MAX && count != [0, 0];
        assert_eq!(Frame::parse(&bytes).is_ok(), small, "the outside is right");
        bytes
    });
    let sealed = resealed(data);
    let whole = |bytes: &Option<Vec<u8>>| bytes.as_deref().is_some_and(frame);
    let walks = |bytes: &Option<Vec<u8>>| bytes.as_deref().is_some_and(walked);
    let accepted = [
        ("frame", frame(data)),
        ("frame under its right hash", whole(&sealed)),
        ("records in a right frame", whole(&outside)),
        ("walk", walked(data)),
        ("walk under its right hash", walks(&sealed)),
        ("walk over records in a right frame", walks(&outside)),
        ("anchor", anchored(data)),
        ("manifest", manifest(data)),
        ("event of dispatch", event::<Dispatch>(data)),
        ("event of lifecycle", event::<Lifecycle>(data)),
        ("event of notification", event::<Notify>(data)),
        ("event of processing", event::<Processing>(data)),
        ("event of delivery", event::<Delivery>(data)),
        ("number and text", encoded::<(u64, String)>(data)),
        ("list of floats", encoded::<Vec<Option<f64>>>(data)),
        ("binding", encoded::<LifecycleBinding>(data)),
        ("receiver's state", encoded::<ReceiverState>(data)),
    ];
    accepted.into_iter().filter(|(_, good)| *good).map(|(name, _)| name).collect()
}

/// A frame that reads is, written again, the same bytes.
fn frame(bytes: &[u8]) -> bool {
    let Ok(frame) = Frame::parse(bytes) else { return false };
    assert!(bytes.len() <= FRAME_BYTES_MAX);
    let last = frame.first_sequence + u64::from(frame.count) - 1;
    assert_eq!(frame.head(), Head { sequence: last, hash: frame.hash });
    let Ok(records) = frame.records() else { return false };
    assert_eq!(records.len(), usize::from(frame.count));
    let before = Head { sequence: frame.first_sequence - 1, hash: frame.previous };
    let mut builder = FrameBuilder::after(before);
    for record in &records {
        assert_eq!(record.version == 1, record.previous == 0, "J4");
        assert!(record.previous < record.sequence, "J4");
        builder.push(record);
    }
    let (again, head) = builder.finish();
    assert!(again == bytes, "records have one spelling");
    assert_eq!(head, frame.head());
    true
}

/// A first frame moves a walk to its head, once; anything else leaves it where it was.
fn walked(bytes: &[u8]) -> bool {
    let mut walk = Walk::new(ID);
    match walk.step(bytes) {
        Ok(records) => {
            let head = walk.head();
            assert_eq!(head.sequence, records.len() as u64, "J2");
            assert!(walk.step(bytes).is_err(), "J3: no frame follows itself");
            assert_eq!((walk.head(), walk.frames()), (head, 1));
            true
        }
        Err(error) => {
            assert!(["journal_corrupt", "schema_newer"].contains(&error.code()), "{error}");
            assert_eq!((walk.head(), walk.frames()), (Head::genesis(ID), 0));
            false
        }
    }
}

fn anchored(data: &[u8]) -> bool {
    let Some((known, turn)) = anchor::decode(data) else { return false };
    assert!(anchor::encode(&known, turn).as_slice() == data, "an anchor has one spelling");
    true
}

/// A manifest never names more chunks than the largest body has, and is nothing without them.
fn manifest(data: &[u8]) -> bool {
    let Some(hashes) = chunk::hashes(data) else { return false };
    assert!(hashes.len() <= BODY_BYTES_MAX.div_ceil(CHUNK_BYTES));
    let body = chunk::assemble(data, 9, &|_| Ok(None));
    assert!(body.is_err() || hashes.is_empty());
    true
}

/// An event that reads takes up all of its bytes, and settles on one spelling no longer than they are.
fn event<F: Flow>(data: &[u8]) -> bool {
    let event = match codec::decode::<F>(data) {
        Ok(event) => event,
        Err(DecodeError::Newer(version)) => {
            assert!(version > codec::VERSION);
            return false;
        }
        Err(DecodeError::Invalid) => return false,
    };
    assert_eq!(codec::flow_of(data), Some(F::TAG));
    assert!(codec::decode::<F>(&data[..data.len() - 1]).is_err(), "one byte less");
    assert!(codec::decode::<F>(&[data, &[0]].concat()).is_err(), "one byte more");
    let once = codec::encode(&event).expect("what was read can be written");
    let again = codec::decode::<F>(&once).expect("what was written can be read");
    let twice = codec::encode(&again).expect("what was read can be written");
    // Bytes are compared and not events: a time of the other side may be no number.
    assert!(once == twice, "an event settles on one spelling");
    assert!(once.len() <= data.len());
    assert_eq!(event.name(), again.name());
    true
}

/// The same for a value without the header in front of it.
fn encoded<T: Serialize + DeserializeOwned>(data: &[u8]) -> bool {
    let Ok(value) = payload::decode::<T>(data) else { return false };
    let write = |value: &T| {
        let mut bytes = Vec::new();
        payload::encode_into(&mut bytes, value).expect("what was read can be written");
        bytes
    };
    let once = write(&value);
    let again = payload::decode::<T>(&once).expect("what was written can be read");
    assert!(write(&again) == once, "a value settles on one spelling");
    assert!(once.len() <= data.len());
    true
}
