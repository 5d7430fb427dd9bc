//! `leasehold serve`: an engine that stays, with a door.

use super::failure::Failed;
use super::remote::{Between, Clients, Gates, Plan, Remote, workers};
use super::run::{DRAIN_SECONDS, drain_seconds};
use super::{Ended, print, signals};
use crate::clock::SystemEntropy;
use crate::door::desk::{Activity, Ceilings};
use crate::door::session::Token;
use crate::door::{Address, Door, DoorInvalid, DoorOptions};
use crate::engine::Engine;
use crate::metrics::Prometheus;
use crate::pipeline::Pipeline;
use clap::Args;
use leasehold_actors::record::FlowTag;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::watch;

/// Where it listens where nothing is said.
const LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8790);

/// Run the engine until it is stopped, with an HTTP API, metrics and a dashboard beside it.
///
/// Works on every flow that is configured. It listens on this machine alone and speaks no TLS: to be
/// reached from elsewhere it needs a proxy that does. On an address every caller needs the token of
/// --token-file (a browser is asked for it once); a --socket is its owner's alone (0600) and needs none.
/// Ctrl-C and SIGTERM end it: calls under way have --drain-seconds to end, then their leases are given
/// back, which spends no attempt; a second signal does that at once.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  leasehold serve --sandbox --journal demo-journal --socket demo-journal.sock"
)]
pub(super) struct ServeArguments {
    #[command(flatten)]
    between: Between,
    /// A loopback address to listen on, 127.0.0.1:8790 if not given; port 0 picks a free one
    #[arg(long, value_name = "ADDR", conflicts_with = "socket")]
    listen: Option<SocketAddr>,
    /// Listen at this Unix socket instead
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// File with the token callers have to show: 16 to 4096 visible ASCII characters
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// How long calls under way may take when it is told to stop, in seconds, at most 86400
    #[arg(long, value_name = "S", default_value_t = DRAIN_SECONDS, value_parser = drain_seconds)]
    drain_seconds: f64,
    /// Print where it listens as one JSON object
    #[arg(long)]
    json: bool,
}

impl ServeArguments {
    fn address(&self) -> Result<Address, Failed> {
        let address = match &self.socket {
            Some(path) => return Ok(Address::Socket(path.clone())),
            None => self.listen.unwrap_or(LISTEN),
        };
        if !address.ip().is_loopback() {
            return Err(Failed::Door(DoorInvalid::NotLoopback));
        }
        if self.token_file.is_none() {
            return Err(Failed::Usage(
                "an address needs --token-file FILE; a --socket PATH does not",
            ));
        }
        Ok(Address::Tcp(address))
    }
}

/// The token of a file, where one is named.
pub(super) fn token(file: Option<&Path>) -> Result<Option<Token>, Failed> {
    let Some(file) = file else { return Ok(None) };
    let content = std::fs::read_to_string(file).map_err(|_| Failed::Input(file.to_path_buf()))?;
    Ok(Some(Token::new(&content)?))
}

pub(super) async fn run(arguments: ServeArguments) -> Result<Ended, Failed> {
    let address = arguments.address()?;
    let token = token(arguments.token_file.as_deref())?;
    let (remote, plan) = Remote::of(arguments.between.config.as_deref())?;
    let sides = remote.sides();
    if !(sides.cms || sides.receiver || sides.source) {
        return Err(Failed::Usage("the configuration names no other side: nothing to work on"));
    }
    let metrics = Prometheus::install();
    let engine = remote.engine(&arguments.between.journal, &plan)?.open().await?;
    let (clients, sandbox) = remote.start(&arguments.between.journal, &engine).await?;
    let stop = signals::wind_down(engine.stopper(), arguments.drain_seconds);
    let gates = plan.gates(&engine)?;
    let activity = Arc::new(Activity::new(&engine));
    let options = DoorOptions {
        address,
        token,
        ceilings: Ceilings {
            dispatch_max_attempts: plan.dispatch.max_attempts,
            delivery_max_attempts: plan.delivery.max_attempts,
            source_max_attempts: plan.source_max_attempts,
        },
        activity: Arc::clone(&activity),
        destinations: gates.of(sides),
        metrics,
        entropy: Arc::new(SystemEntropy),
    };
    let worked = match Door::open(&engine, options).await {
        Ok(door) => {
            // Where nobody can read where it listens it does not begin, and ends as it always does.
            let worked = match announce(&arguments, &door) {
                Ok(()) => work(&engine, clients, &plan, (&activity, &gates), stop).await,
                Err(failed) => Err(failed),
            };
            door.close().await;
            worked
        }
        Err(invalid) => Err(invalid.into()),
    };
    // The pipeline has ended, and its calls with it.
    let remaining = engine.shutdown(0.0).await;
    if let Some(sandbox) = sandbox {
        sandbox.stop().await;
    }
    let remaining = remaining?;
    eprintln!(
        "stopped: {} leases given back, {} left, {} records wait; the same command continues",
        remaining.released, remaining.leased, remaining.waiting
    );
    worked.map(|()| Ended::Fine)
}

fn announce(arguments: &ServeArguments, door: &Door) -> Result<(), Failed> {
    let origin = door.address().map(|address| format!("http://{address}"));
    if arguments.json {
        let socket = arguments.socket.as_ref().map(|path| path.display().to_string());
        return print::json(&serde_json::json!({ "origin": origin, "socket": socket }));
    }
    match (origin, &arguments.socket) {
        (Some(origin), _) => print::line(&format!("listening on {origin}")),
        (None, Some(path)) => print::line(&format!("listening at {}", path.display())),
        (None, None) => Ok(()),
    }
}

/// Works on every flow there is a client for, until it is asked to stop.
async fn work(
    engine: &Engine,
    clients: Clients,
    plan: &Plan,
    (activity, gates): (&Arc<Activity>, &Gates),
    stop: watch::Receiver<bool>,
) -> Result<(), Failed> {
    let mut pipeline = Pipeline::new(engine, stop);
    let note = |flow: FlowTag| {
        let activity = Arc::clone(activity);
        move |left: &str| activity.note(flow, left)
    };
    let Clients { cms, receiver, source } = clients;
    if let Some(cms) = cms {
        let (seen, also_seen) = (note(FlowTag::Dispatch), note(FlowTag::Lifecycle));
        let dispatch = workers(&plan.dispatch, &gates.cms);
        pipeline.add(engine.dispatch(), cms.clone(), &dispatch, move |it| seen(it.status));
        let lifecycle = workers(&plan.lifecycle, &gates.cms);
        pipeline.add(engine.lifecycle(), cms, &lifecycle, move |it| also_seen(it.state));
    }
    if let Some(receiver) = receiver {
        let (seen, also_seen) = (note(FlowTag::Notification), note(FlowTag::Processing));
        let notification = workers(&plan.notification, &gates.receiver);
        pipeline
            .add(engine.notification(), receiver.clone(), &notification, move |it| seen(it.status));
        let processing = workers(&plan.processing, &gates.receiver);
        pipeline.add(engine.processing(), receiver, &processing, move |it| also_seen(it.status));
    }
    if let Some(source) = source {
        let seen = note(FlowTag::Delivery);
        let delivery = workers(&plan.delivery, &gates.source);
        pipeline.add(engine.delivery(), source, &delivery, move |it| seen(it.status));
    }
    pipeline.stay().await?;
    Ok(())
}
