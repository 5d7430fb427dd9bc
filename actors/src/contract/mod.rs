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
//! | [`removal`] | 2.2 cancellation and tombstone |
//! | [`dispatch`] | 2.3 dispatch response and the API's error |
//! | [`lifecycle`] | 2.4 lifecycle request and response |
//! | [`notification`] | 2.5 terminal notification, its binding and its acknowledgement |
//! | [`receiver`] | 2.6 receiver status |
//! | [`source`] | 2.7 source delivery |
//! | [`capabilities`] | 2.8 capability documents |

pub mod canonical;
pub mod capabilities;
pub mod change;
pub mod dispatch;
pub mod json;
pub mod lifecycle;
pub mod locale;
pub mod notification;
pub mod payload;
pub mod receiver;
pub mod removal;
pub mod source;
pub mod text;
pub mod time;

/// Largest canonical form of a message to or from the CMS and the source (contract 1.3), in bytes.
pub const MESSAGE_BYTES_MAX: usize = 4_000_000;
