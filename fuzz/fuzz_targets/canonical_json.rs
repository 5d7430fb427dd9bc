//! JSON as the contract reads and prints it.

#![no_main]

#[path = "../../tests/fuzz_bodies/canonical_json.rs"]
mod canonical_json;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    canonical_json::body(data);
});
