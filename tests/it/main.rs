//! What goes through the door: one binary for all integration tests.

mod canary;
mod checkpoint;
mod clocks;
mod cms_client;
mod cms_reads_client;
mod command_line;
mod conformance;
#[path = "../crash/mod.rs"]
mod crash;
mod crash_points;
mod damage;
mod delivery_scenarios;
mod destination;
mod deviations;
mod differential;
mod dispatch_scenarios;
mod door;
mod engine;
mod events;
mod every_bit;
mod explain;
mod fuzz_bodies;
#[cfg(unix)]
mod guide;
mod hand_over;
mod interventions;
mod kill;
mod lifecycle_model;
mod lifecycle_scenarios;
mod main_job;
#[cfg(feature = "import")]
mod migration;
mod notification_client;
mod notification_scenarios;
mod pauses;
#[cfg(feature = "postgres")]
mod postgres;
mod processing_scenarios;
mod receiver_client;
mod report;
mod reports;
mod retention;
mod salvage;
mod sandbox_inbox;
mod sandbox_receiver;
mod shared;
mod shutdown;
mod simulation;
mod source_client;
mod support;
mod tidy;
mod time_travel;
mod top;
mod verify_archive;
mod wire;
mod wire_flows;
mod wire_later;
