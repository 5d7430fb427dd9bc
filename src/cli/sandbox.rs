//! `leasehold sandbox`: the other sides on this machine, for trying things out.

use super::failure::Failed;
use super::{Ended, print, signals};
use crate::sandbox::faults::{Rate, Rates};
use crate::sandbox::handler::Handling;
use crate::sandbox::inbox::{LEASE_SECONDS, Rules};
use crate::sandbox::{Sandbox, SandboxOptions, receiver_digest, source_digest};
use clap::Args;
use leasehold_actors::contract::time::{Ceiling, Duration};
use leasehold_actors::record::policy::{Delays, Policy};
use std::net::SocketAddr;
use std::path::PathBuf;

/// How long the first failure of a handler waits where nothing is said, in seconds.
const BASE_DELAY_SECONDS: f64 = 5.0;

/// Start a local CMS, receiver and source runtime that speak the contract.
///
/// All three are at the address it prints, with the digests to pin. The CMS verifies signatures made
/// with the demo key of examples/sandbox.key; the others want an Authorization header. It keeps what
/// it accepted, and misbehaves on demand. The receiver works on a notification as its status is read.
/// GET /sandbox/summary tells what it has seen, /sandbox/received each document. Ctrl-C ends it.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  leasehold sandbox --listen 127.0.0.1:8700 --fault drop=0.1 --fault 5xx=0.1"
)]
pub(super) struct SandboxArguments {
    /// Where to listen; port 0 picks a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8700")]
    listen: SocketAddr,
    /// File in which it remembers what it accepted, and how far its receiver came
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Where misbehaviour is drawn from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Added to every answer, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0)]
    latency: u64,
    /// drop, 5xx, 429, slow, garbage or redirect, and how often, 0 to 1
    #[arg(long, value_name = "KIND=RATE")]
    fault: Vec<Rate>,
    /// How the receiver's handler ends: retry, crash, wrong or stuck, and how often, 0 to 1
    #[arg(long, value_name = "KIND=RATE")]
    handler: Vec<Rate<Handling>>,
    /// Attempts the receiver makes at a notification, 1 to 20; fixed when it is received
    #[arg(long, value_name = "N", default_value_t = Ceiling::DEFAULT)]
    inbox_max_attempts: i64,
    /// How long a handler may take, in seconds
    #[arg(long, value_name = "S", default_value_t = LEASE_SECONDS)]
    inbox_lease: f64,
    /// How long the first failure of a handler waits, in seconds; each further one twice as long
    #[arg(long, value_name = "S", default_value_t = BASE_DELAY_SECONDS)]
    inbox_base_delay: f64,
    /// Print the address and the digests as one JSON object
    #[arg(long)]
    json: bool,
}

/// How the receiver works on what it took.
fn rules(arguments: &SandboxArguments) -> Result<Rules, Failed> {
    let delays = Delays { base_delay_seconds: arguments.inbox_base_delay, ..Delays::default() };
    Ok(Rules {
        max_attempts: Ceiling::new(arguments.inbox_max_attempts)
            .ok_or(Failed::Usage("--inbox-max-attempts is 1 to 20"))?,
        lease: Duration::new(arguments.inbox_lease)
            .ok_or(Failed::Usage("--inbox-lease is more than 0 and at most 86400 seconds"))?,
        back_off: Policy::new(delays).map_err(|_| {
            Failed::Usage("--inbox-base-delay is more than 0 and at most 300 seconds")
        })?,
    })
}

pub(super) async fn run(arguments: SandboxArguments) -> Result<Ended, Failed> {
    let rates = Rates::new(&arguments.fault)
        .ok_or(Failed::Usage("the rates of all faults must not be over 1 together"))?;
    let handler = Rates::new(&arguments.handler)
        .ok_or(Failed::Usage("the rates of --handler must not be over 1 together"))?;
    let inbox = rules(&arguments)?;
    let sandbox = Sandbox::start(SandboxOptions {
        listen: arguments.listen,
        state: arguments.state,
        seed: arguments.seed,
        latency_milliseconds: arguments.latency,
        rates,
        inbox,
        handler,
    })
    .await?;
    let (receiver, source) = receiver_digest().zip(source_digest()).ok_or(Failed::Runtime)?;
    if arguments.json {
        print::json(&serde_json::json!({
            "origin": sandbox.origin(),
            "receiver_capabilities_sha256": receiver,
            "source_capabilities_sha256": source,
        }))?;
    } else {
        print::line(&format!("listening on {}", sandbox.origin()))?;
        print::line(&format!("receiver.capabilities_sha256 = {receiver}"))?;
        print::line(&format!("source.capabilities_sha256 = {source}"))?;
    }
    signals::asked_to_stop().await.map_err(|_| Failed::Runtime)?;
    let seen = sandbox.summary();
    sandbox.stop().await;
    print::json(&seen)?;
    Ok(Ended::Fine)
}
