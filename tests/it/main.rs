//! What goes through the door: one binary for all integration tests.

mod canary;
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
mod deviations;
mod dispatch_scenarios;
mod engine;
mod every_bit;
mod hand_over;
mod interventions;
mod kill;
mod lifecycle_model;
mod lifecycle_scenarios;
mod main_job;
mod notification_client;
mod notification_scenarios;
mod processing_scenarios;
mod python;
mod receiver_client;
mod sandbox_inbox;
mod sandbox_receiver;
mod source_client;
mod support;
mod tidy;
mod time_travel;
mod wire;
mod wire_flows;
