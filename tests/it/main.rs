//! What goes through the door: one binary for all integration tests.

mod canary;
mod cms_client;
mod command_line;
mod conformance;
mod damage;
mod deviations;
mod dispatch_scenarios;
mod engine;
mod hand_over;
mod lifecycle_model;
mod main_job;
mod python;
mod support;
mod tidy;
mod wire;
