//! Bytes as they lie on disk: frames, records, anchors, manifests, events, values.

#![no_main]

#[path = "../../tests/fuzz_bodies/frame_and_record_decode.rs"]
mod frame_and_record_decode;
#[path = "../../tests/fuzz_bodies/framing.rs"]
mod framing;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    frame_and_record_decode::body(data);
});
