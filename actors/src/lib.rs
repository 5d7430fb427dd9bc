//! The record lifecycle, the flows, and the actors that run them.
//!
//! Owns decisions: which event follows from which command in which state. Must not know HTTP, the
//! command line, or what kind of store is below. Everything but [`shell`] is pure: no clock, no
//! randomness, no I/O, no actors; arrows go from `shell` to the pure modules and never back.
//!
//! | module | owns |
//! | --- | --- |
//! | [`contract`] | documents and their checks |
//! | [`record`] | the one lifecycle: state, decide, evolve |
//! | [`flows`] | what each flow adds to it |
//! | [`arguments`] | the caller's arguments and the codes for bad ones |
//! | [`codec`] | where events meet bytes |
//! | [`replay`] | states from records |
//! | [`carried`] | what archived records came to |
//! | [`control`] | what an operator pauses |
//! | [`agenda`] | what is due when, in which order |
//! | [`checkpoint`] | what the next life starts from, and its bytes |
//! | [`tenure`] | leases by a clock that never jumps |
//! | [`destination`] | what one other side is asked for at most |
//! | [`health`] | counts per flow and state |
//! | [`invariants`] | what is always true, with ids |
//! | [`explain`] | why a record stands where it stands |
//! | [`import`] | records from the reference's stores |
//! | [`shell`] | actix: scribe, entity, supervisor, projector |

pub mod agenda;
pub mod arguments;
pub mod carried;
pub mod checkpoint;
pub mod codec;
pub mod contract;
pub mod control;
pub mod destination;
pub mod explain;
pub mod flows;
pub mod health;
pub mod import;
pub mod invariants;
pub mod record;
pub mod replay;
pub mod shell;
pub mod tenure;
