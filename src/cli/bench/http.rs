//! Lives over HTTP: the CMS client against a sandbox in this process.

use super::figures::{Bench, Show};
use super::lives::enqueue;
use crate::cli::failure::Failed;
use crate::cli::remote::sandbox_clients;
use crate::clock::Stopwatch;
use crate::engine::Engine;
use crate::handle::LEASE_SECONDS;
use crate::sandbox::{Sandbox, SandboxOptions};
use crate::worker::{DrainOptions, drain};
use std::sync::Arc;
use tokio::sync::watch;

/// Calls side by side.
const IN_FLIGHT: u64 = 64;

impl Bench {
    /// All changes are enqueued and then delivered, as `leasehold run` does.
    pub(super) async fn lives_over_http(&self, show: &mut Show<'_>) -> Result<(), Failed> {
        let count = self.http;
        if count == 0 {
            return Ok(());
        }
        let place = self.place()?;
        let engine = Engine::builder(place.path().join("journal")).open().await?;
        let sandbox = Sandbox::start(SandboxOptions::default()).await?;
        let client = sandbox_clients(&sandbox.origin())?.cms.ok_or(Failed::Runtime)?;
        let flow = engine.dispatch();
        let options = DrainOptions {
            in_flight: IN_FLIGHT as usize,
            lease_seconds: LEASE_SECONDS,
            worker: "bench".to_owned(),
            destination: None,
        };
        // Held until the end: workers stop when nobody can ask them to.
        let stop = watch::Sender::new(false);
        let watch = Stopwatch::start();
        enqueue(flow, 0..count, IN_FLIGHT).await?;
        drain(flow, Arc::new(client), &options, stop.subscribe(), |_| {}).await?;
        let rate = count as f64 / watch.seconds();
        let succeeded = flow.health().await?.counts.get("succeeded").copied();
        let accepted = sandbox.summary().accepted;
        engine.close().await;
        sandbox.stop().await;
        if (succeeded, accepted) != (Some(count), count) {
            return Err(Failed::Unmeasured("not every life over HTTP came to its end"));
        }
        show(self.figure("http_lives_per_second", rate, "1/s").of_work(count, 0, IN_FLIGHT))
    }
}
