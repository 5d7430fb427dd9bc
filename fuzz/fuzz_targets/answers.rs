//! The answers of the other sides.

#![no_main]

#[path = "../../tests/fuzz_bodies/answers.rs"]
mod answers;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    answers::body(data);
});
