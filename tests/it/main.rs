//! What goes through the door: one binary for all integration tests.

mod conformance;
mod support;
