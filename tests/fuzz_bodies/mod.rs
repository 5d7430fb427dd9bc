//! What has to hold for any bytes: one body for each target of the fuzzer in `fuzz/`.
//!
//! A body panics where something does not hold and answers the names of what it accepted, so that a
//! run can show that it came past the first check. It is one plain function; the fuzzer includes the
//! same file. [`samples`] are what both begin with.

pub(crate) mod answers;
pub(crate) mod canonical_json;
pub(crate) mod configuration;
pub(crate) mod documents;
pub(crate) mod frame_and_record_decode;
mod framing;
pub(crate) mod journal_open;
pub(crate) mod retry_after;
pub(crate) mod samples;
