//! The actors: thin shells that carry decisions out.
//!
//! Owns threads, mailboxes, activation and the order "decide, append, wait until durable, evolve,
//! reply". Must hold no rule: an `if` about leases, attempts or bindings belongs in
//! [`crate::record`].
//!
//! | module | owns |
//! | --- | --- |
//! | [`scribe`] | the single writer, on its own thread: group commit without a timer |
//! | [`entity`] | one actor per active record |
//! | [`supervisor`] | one actor per flow: agenda, activation, passivation, expiry, restarts |
//! | [`roster`], [`reservations`] | which records are active; who has which second identity |
//! | [`reading`] | one record, read from its stream and folded |
//! | [`granting`] | how a record is given out |
//! | [`following`] | what other engines of a shared journal did |
//! | [`controls`], [`shelf`] | what is paused, and the records that are put aside for it |
//! | [`projector`] | one actor per flow: health |
//! | [`waves`] | one command to many records |
//! | [`waking`] | when there is something to do |
//! | [`port`] | `Send + Sync` handles for any host |
//! | [`start`] | from a replayed journal, or its checkpoint, to running flows, hand-overs |
//! | [`checkpoint`] | leaving what the next life can start from |
//! | [`runtime`] | the engine's thread, from open to close |

pub mod checkpoint;
pub mod controls;
pub mod entity;
pub mod following;
pub mod granting;
pub mod message;
pub mod port;
pub mod projector;
pub mod reading;
pub mod reservations;
pub mod roster;
pub mod runtime;
pub mod scribe;
pub mod shelf;
pub mod start;
pub mod supervisor;
pub mod waking;
pub mod waves;

pub use controls::{Steered, Steering};
pub use message::Failure;
pub use port::{Granted, Port, Recorded};
pub use runtime::{FlowOptions, HandOvers, OpenStore, Ports, Runtime, RuntimeOptions};
pub use start::replayed;
