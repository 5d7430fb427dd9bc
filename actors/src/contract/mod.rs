//! The contract: names, limits, documents and their checks.
//!
//! Owns what a document must look like and what its canonical bytes and hash are. Must not know who
//! sends it, how often, or what is stored. Everything here is a function of bytes.
//!
//! | module | contract |
//! | --- | --- |
//! | [`json`], [`canonical`] | 1.2 canonical JSON |
//! | [`text`] | 1.1 tokens, labels, codes, hashes |
//! | [`time`] | 1.3 timestamps, durations, ceilings |
//! | [`locale`] | 2.1 locale tags and the registry |
//! | [`change`] | 2.1 change event |
//! | [`dispatch`] | 2.3 dispatch response and the API's error |

pub mod canonical;
pub mod change;
pub mod dispatch;
pub mod json;
pub mod locale;
pub mod payload;
pub mod text;
pub mod time;

/// Largest canonical form of a message to or from the CMS and the source (contract 1.3), in bytes.
pub const MESSAGE_BYTES_MAX: usize = 4_000_000;
