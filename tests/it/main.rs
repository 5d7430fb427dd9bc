//! What goes through the door: one binary for all integration tests.

mod canary;
mod cms_client;
mod cms_reads_client;
mod command_line;
mod conformance;
mod damage;
mod delivery_scenarios;
mod deviations;
mod dispatch_scenarios;
mod engine;
mod hand_over;
mod interventions;
mod lifecycle_model;
mod lifecycle_scenarios;
mod main_job;
mod notification_client;
mod notification_scenarios;
mod processing_scenarios;
mod python;
mod receiver_client;
mod sandbox_receiver;
mod source_client;
mod support;
mod tidy;
mod wire;
mod wire_flows;
