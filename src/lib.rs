//! **Leasehold** delivers content changes of a website or CMS to a localization service, follows each
//! one until it is settled, and can prove afterwards what happened.
//!
//! It is embedded in the host's process. Every change is a record whose state is rebuilt from an
//! append-only, hash-chained journal; workers lease records, call the other side, and settle.
//!
//! # The map
//!
//! | module | owns |
//! | --- | --- |
//! | [`builder`] | how an engine is set up |
//! | [`engine`] | one open journal and the actors over it |
//! | [`handle`] | one handle per flow: enqueue, claim, settle, status, health |
//! | [`flows`] | what each flow offers beside: registering and status |
//! | [`intervene`] | what an operator may do to a record |
//! | [`controls`] | what an operator may pause |
//! | [`worker`] | claim, call, settle; a host's own client |
//! | [`pipeline`] | workers of several flows side by side |
//! | [`destination`] | being gentle to the other sides: limits, rate, breaker |
//! | [`door`] | the engine over HTTP, and pages for operators |
//! | [`overview`] | how everything stands, in one document |
//! | [`metrics`] | what is counted, under which names |
//! | [`http`] | the other sides over HTTPS |
//! | [`shutdown`] | winding an engine down in two phases |
//! | [`retention`] | moving old history to archive files |
//! | [`audit`] | walk a journal, rebuild every record, findings |
//! | `import` | records of the reference's SQLite stores |
//! | [`sandbox`] | a local CMS, source runtime and receiver with faults on demand |
//! | [`config`] | the command line's configuration file |
//! | [`pages`] | what HTML pages are made of |
//! | [`report`] | a journal as one page for an auditor |
//! | [`times`] | times as people read them |
//! | [`top`] | the dashboard in a terminal |
//! | [`clock`] | time and randomness |
//!
//! Decisions are in `leasehold-actors`, bytes in `leasehold-journal`; arrows point this way only.

pub mod audit;
pub mod builder;
pub mod cli;
pub mod clock;
pub mod config;
pub mod controls;
pub mod destination;
pub mod door;
pub mod engine;
pub mod error;
pub mod flows;
pub mod handle;
pub mod http;
#[cfg(feature = "import")]
pub mod import;
pub mod intervene;
pub mod metrics;
pub mod overview;
pub mod pages;
pub mod pipeline;
pub mod report;
pub mod retention;
pub mod sandbox;
pub mod shutdown;
pub mod times;
pub mod top;
mod unwinding;
pub mod worker;

pub use builder::{EngineBuilder, FlowDelays, HandOver, SourceRuntime};
pub use clock::{Clock, Entropy, ManualClock, SystemClock, SystemEntropy};
pub use destination::{Destination, DestinationView, Destinations, Permit};
pub use engine::Engine;
pub use error::Error;
pub use flows::DispatchClaimParts;
pub use handle::{Claim, Handle, LEASE_SECONDS, Registered};
pub use intervene::Intervened;
pub use leasehold_actors::contract::text::{ErrorCode, Sha256, Token};
pub use leasehold_actors::contract::time::Timestamp;
pub use leasehold_actors::control::{PausedScope, Scope, Side};
pub use leasehold_actors::destination::{GateState, Limits, LimitsInvalid, Outcome};
pub use leasehold_actors::flows::delivery::{
    Delivery, DeliveryAttempt, DeliveryClaim, DeliveryHealth, DeliveryRequest, DeliveryStatus,
};
pub use leasehold_actors::flows::dispatch::{
    ChangeRequest, Dispatch, DispatchAttempt, DispatchClaim, DispatchHealth, DispatchStatus,
};
pub use leasehold_actors::flows::lifecycle::{
    Lifecycle, LifecycleAttempt, LifecycleClaim, LifecycleHealth, LifecycleRequest, LifecycleStatus,
};
pub use leasehold_actors::flows::notification::{
    NotificationAttempt, NotificationClaim, NotificationHealth, NotificationRequest,
    NotificationStatus, Notify,
};
pub use leasehold_actors::flows::processing::{
    Processing, ProcessingAttempt, ProcessingClaim, ProcessingHealth, ProcessingRequest,
    ProcessingStatus,
};
pub use leasehold_actors::record::FlowTag;
pub use leasehold_actors::record::policy::Delays;
pub use leasehold_journal::memory::MemoryDisk;
#[cfg(feature = "postgres")]
pub use leasehold_journal::postgres::PostgresPlace;
pub use leasehold_journal::{Durability, Head, JournalError};
pub use pipeline::Pipeline;
pub use shutdown::{Remaining, Stopper};
pub use worker::{CallFailure, Client, DrainOptions, drain};

/// The Rust in the guide, so that it is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../docs/embed.md")]
mod guide {}
