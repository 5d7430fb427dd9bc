//! The text of a configuration file.

#![no_main]

#[path = "../../tests/fuzz_bodies/configuration.rs"]
mod configuration;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    configuration::body(data);
});
