//! What an operator may stop for a while: a flow, a site, a destination.
//!
//! Owns the pause of one scope as a small event-sourced record of its own: who paused it, why and when,
//! and who let it go on. Pure, like [`crate::record`]. Must not know which records wait, nor how a claim
//! is held back.
//!
//! ```text
//! Vacant ──Named──► Open ──Paused──► Paused
//!                     ▲                 │
//!                     └─────Resumed─────┘
//! ```
//!
//! A stream's id is a hash, so the first event of each names the scope.

pub mod closed;
pub mod form;
pub mod replay;
pub mod scope;
pub mod state;

pub use closed::Closed;
pub use replay::{Controls, Kept};
pub use scope::{Scope, Side, is_control};
pub use state::{Command, Control, Event, PausedScope, decide, evolve};
