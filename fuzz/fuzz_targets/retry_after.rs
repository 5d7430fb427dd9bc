//! The header `Retry-After`.

#![no_main]

#[path = "../../tests/fuzz_bodies/retry_after.rs"]
mod retry_after;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    retry_after::body(data);
});
