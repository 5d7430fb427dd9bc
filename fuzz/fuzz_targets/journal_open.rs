//! Journals of any bytes: archives, frames on a disk, damage to a sound journal.

#![no_main]

#[path = "../../tests/fuzz_bodies/framing.rs"]
mod framing;
#[path = "../../tests/fuzz_bodies/journal_open.rs"]
mod journal_open;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    journal_open::body(data);
});
