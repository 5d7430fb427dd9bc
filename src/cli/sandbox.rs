//! `leasehold sandbox`: the other sides on this machine, for trying things out.

use super::failure::Failed;
use super::{Ended, print, signals};
use crate::sandbox::faults::{Rate, Rates};
use crate::sandbox::{Sandbox, SandboxOptions, receiver_digest, source_digest};
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Start a local CMS, receiver and source runtime that speak the contract.
///
/// All three are at the address it prints, with the digests to pin. The CMS verifies signatures made
/// with the demo key of examples/sandbox.key; the others want an Authorization header. It keeps what
/// it accepted, and misbehaves on demand. GET /sandbox/summary tells what it has seen,
/// /sandbox/received each document. Ctrl-C ends it.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  leasehold sandbox --listen 127.0.0.1:8700 --fault drop=0.1 --fault 5xx=0.1"
)]
pub(super) struct SandboxArguments {
    /// Where to listen; port 0 picks a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8700")]
    listen: SocketAddr,
    /// File in which it remembers what it accepted
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
    /// Print the address and the digests as one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: SandboxArguments) -> Result<Ended, Failed> {
    let rates = Rates::new(&arguments.fault)
        .ok_or(Failed::Usage("the rates of all faults must not be over 1 together"))?;
    let sandbox = Sandbox::start(SandboxOptions {
        listen: arguments.listen,
        state: arguments.state,
        seed: arguments.seed,
        latency_milliseconds: arguments.latency,
        rates,
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
