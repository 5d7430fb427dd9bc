//! A journal as one page for an auditor: what is in it, whether it verifies, what is stuck and why.
//!
//! Owns what the page is about. Must hold no rule: the audit, health and the explanations are asked.
//! No payload, no token and no address comes into it.
//!
//! | module | owns |
//! | --- | --- |
//! | [`facts`] | what is read from the journal |
//! | [`stuck`] | the records that are not done, the most urgent first |
//! | [`activity`] | events in stretches of time |
//! | [`operation`] | leases given out, given back and lost; what is paused |
//! | [`mod@document`] | the page |
//! | `sections` | its tables and drawings |

pub mod activity;
pub mod document;
pub mod facts;
pub mod operation;
mod sections;
pub mod stuck;

pub use document::{About, document};
pub use facts::{Facts, Verdict};
