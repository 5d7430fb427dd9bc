//! The crash harness: victims that are killed, or failed by the disk, and what must be left of them.
//!
//! Owns nothing but the map. It runs the real engine over the real database in a process of its own, and
//! decides from the outside: what a victim acknowledged on its standard output before it ended must be
//! in the journal afterwards, whole, and the journal must open. Shared by the tests and by
//! `examples/crash.rs`, which runs the long forms.
//!
//! | module | owns |
//! | --- | --- |
//! | [`task`] | what a victim is to do, and how one is started |
//! | [`victim`] | a victim's life |
//! | [`facts`] | what was acknowledged, and whether a journal holds it |
//! | [`trace`] | strace: counting the calls that touch a journal, and injecting a fault at one |
//! | [`points`] | every such call of a scenario in turn |
//! | `wire` | every message to a server in turn |
//! | [`kills`] | `kill -9` at seeded moments, again and again on one journal |
//!
//! A harness that cannot find a loss proves nothing: victims can be told to acknowledge before they have
//! done it, and both [`points`] and [`kills`] must notice.

pub(crate) mod facts;
pub(crate) mod kills;
pub(crate) mod points;
pub(crate) mod task;
pub(crate) mod trace;
pub(crate) mod victim;
#[cfg(all(test, feature = "postgres"))]
pub(crate) mod wire;
