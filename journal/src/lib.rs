//! An append-only, hash-chained log of opaque records.
//!
//! Owns: bytes and their hashes, the order of records, what "durable" means, the folder a
//! journal lives in. Must not know: what a record says. No flow, lease or event is named here.
//!
//! Layers, each with its own module and tests:
//!
//! | module | owns |
//! | --- | --- |
//! | [`record`] | one record's header and body, sequence numbers, streams, versions |
//! | [`frame`] | many records under one header, one hash over all of them |
//! | [`chain`] | what is hashed, in which order, from which genesis |
//! | [`base`] | where a journal starts whose first frames are in archives |
//! | [`chunk`] | bodies too large for a frame, as content-addressed pieces |
//! | [`payload`] | bincode and every one of its options; nowhere else |
//! | [`medium`] | the place that keeps frames: [`sled`] on disk, `postgres` on a server, [`memory`] for tests |
//! | [`anchor`] | what the head was when it was last known durable |
//! | [`checkpoint`], [`opening`] | what a clean close leaves; where a journal stands when it is opened |
//! | [`folder`] | files, permissions, the lock, leftovers, copies for reading |
//! | [`log`], [`reader`] | the writer and its readers over a medium |
//! | [`follower`] | what other writers wrote to a journal that is shared |
//! | [`beside`] | a walk on a thread of its own |
//! | [`scan`], [`salvage`] | frames and chunks in raw bytes; what belongs together, what is missing |
//! | [`archive`] | frames outside of any database, and their verification |
//! | [`retention`], [`restore`] | moving frames to an archive; an archive put into a journal |
//!
//! Promises, named by tests and by the audit: **J1** one writer per journal, or one frame after each: of those who
//! share a journal, no two ever write behind the same head. **J2** sequence
//! numbers start at 1 without gaps. **J3** each frame holds the hash of the frame before. **J4** a
//! stream's versions start at 1 without gaps. **J5** what `commit` answered `Ok` for survives a
//! crash of the process and, under [`Durability::PowerSafe`], of the machine. **J6** a record is
//! never changed or removed; records may move, whole frames from the oldest on, to archives, whose last
//! head the journal keeps and goes on from.

pub mod anchor;
pub mod archive;
pub mod base;
pub mod beside;
pub mod chain;
pub mod checkpoint;
pub mod chunk;
pub mod error;
pub mod folder;
pub mod follower;
pub mod frame;
pub mod index;
pub mod log;
pub mod medium;
pub mod memory;
pub mod opening;
pub mod payload;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod reader;
pub mod record;
pub mod restore;
pub mod retention;
pub mod salvage;
pub mod scan;
pub mod sled;
pub mod store;
pub mod walk;

pub use base::{Base, Entry};
pub use chain::{Digest, Head, JournalId};
pub use error::JournalError;
pub use index::Tip;
pub use log::{Log, LogOptions};
pub use medium::Durability;
pub use reader::LogReader;
pub use record::{Record, StreamId};
pub use store::{Alone, Append, AppendError, Peers, Placed, Store, StoreReader, View};
