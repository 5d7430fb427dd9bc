//! The documents a host hands in.

#![no_main]

#[path = "../../tests/fuzz_bodies/documents.rs"]
mod documents;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    documents::body(data);
});
