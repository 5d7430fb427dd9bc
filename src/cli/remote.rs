//! The other sides of a run: as configured, or a sandbox.
//!
//! Owns which flows are switched on by which endpoints.

use super::failure::Failed;
use super::place;
use crate::builder::{EngineBuilder, FlowDelays, HandOver, SourceRuntime};
use crate::config::{Config, FlowConfig, SideLimits, UNCLEAN_LOSSES_MAX};
use crate::destination::{Destination, Destinations};
use crate::engine::Engine;
use crate::http::{
    CmsClient, CmsOptions, HmacSha256Signer, NoAuthHeaders, ReceiverClient, ReceiverOptions,
    SourceClient, SourceOptions, StaticAuthHeader,
};
use crate::sandbox::{DEMO_KEY, DEMO_KEY_ID, Sandbox, SandboxOptions};
use crate::worker::DrainOptions;
use clap::Args;
use leasehold_actors::contract::text::{Sha256, Token};
use leasehold_actors::destination::LimitsInvalid;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

/// Calls at once over the three sides of a sandbox.
const SANDBOX_IN_FLIGHT_MAX: usize = 192;
/// How often a run against its own sandbox polls: everything is on this machine.
const SANDBOX_POLL_SECONDS: f64 = 0.05;

/// How each flow works.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) dispatch: FlowConfig,
    pub(super) lifecycle: FlowConfig,
    pub(super) notification: FlowConfig,
    pub(super) processing: FlowConfig,
    pub(super) delivery: FlowConfig,
    pub(super) source_max_attempts: i64,
    pub(super) unclean_losses_max: Option<NonZeroU32>,
    /// What each side is asked for at most.
    pub(super) limits: SideLimits,
    /// Calls at once over all sides.
    pub(super) in_flight_max: usize,
}

/// The journal that is worked on, and the other sides.
#[derive(Debug, Args)]
pub(super) struct Between {
    /// The journal's folder, made when it is not there; or postgres://[USER@]HOST/DATABASE[?schema=NAME], a
    /// journal that several engines share
    #[arg(long, value_name = "DIR|URL")]
    pub(super) journal: PathBuf,
    /// Configuration file (TOML); see examples/leasehold.toml
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "sandbox",
        required_unless_present = "sandbox"
    )]
    pub(super) config: Option<PathBuf>,
    /// Deliver to a sandbox started for this run, with its memory beside the journal
    #[arg(long)]
    sandbox: bool,
}

/// Whom the workers ask for leave.
pub(super) struct Gates {
    pub(super) cms: Destination,
    pub(super) receiver: Destination,
    pub(super) source: Destination,
}

impl Gates {
    /// Those that there are.
    pub(super) fn of(&self, sides: Sides) -> Vec<Destination> {
        let all = [
            (sides.cms, &self.cms),
            (sides.receiver, &self.receiver),
            (sides.source, &self.source),
        ];
        all.into_iter().filter(|(there, _)| *there).map(|(_, side)| side.clone()).collect()
    }
}

impl Plan {
    /// The sides of a run. Their limits were checked with the configuration.
    pub(super) fn gates(&self, engine: &Engine) -> Result<Gates, Failed> {
        let gates = || {
            let all = Destinations::new(engine, self.in_flight_max)?;
            Ok(Gates {
                cms: all.add("cms", self.limits.cms)?,
                receiver: all.add("receiver", self.limits.receiver)?,
                source: all.add("source", self.limits.source)?,
            })
        };
        gates().map_err(|_: LimitsInvalid| Failed::Runtime)
    }
}

/// How the workers of a flow work, and whom they ask for leave.
pub(super) fn workers(flow: &FlowConfig, side: &Destination) -> DrainOptions {
    DrainOptions { destination: Some(side.clone()), ..flow.workers() }
}

/// Clients of the endpoints that there are.
pub(super) struct Clients {
    pub(super) cms: Option<CmsClient>,
    pub(super) receiver: Option<ReceiverClient>,
    pub(super) source: Option<SourceClient>,
}

impl Clients {
    /// The same by the engine's clock: what they sign is as old as what the engine writes.
    fn by(self, engine: &Engine) -> Self {
        Self {
            cms: self.cms.map(|client| client.with_clock(engine.clock())),
            receiver: self.receiver.map(|client| client.with_clock(engine.clock())),
            source: self.source.map(|client| client.with_clock(engine.clock())),
        }
    }
}

/// Which other sides there are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sides {
    pub(super) cms: bool,
    pub(super) receiver: bool,
    pub(super) source: bool,
}

/// What a run talks to.
pub(super) enum Remote {
    /// As configured.
    Configured(Box<Clients>),
    /// A sandbox for this run.
    Sandbox,
}

/// The pinned digests of a run.
struct Pins {
    receiver: Option<Sha256>,
    source: Option<(Sha256, f64)>,
}

impl Remote {
    /// Reads the configuration; without one it is the sandbox.
    pub(super) fn of(config: Option<&Path>) -> Result<(Self, Plan), Failed> {
        let Some(path) = config else {
            let quick =
                FlowConfig { poll_interval_seconds: SANDBOX_POLL_SECONDS, ..FlowConfig::default() };
            let plan = Plan {
                dispatch: quick.clone(),
                lifecycle: quick.clone(),
                notification: quick.clone(),
                processing: quick.clone(),
                delivery: quick,
                source_max_attempts: 5,
                unclean_losses_max: NonZeroU32::new(UNCLEAN_LOSSES_MAX),
                limits: SideLimits::default(),
                in_flight_max: SANDBOX_IN_FLIGHT_MAX,
            };
            return Ok((Self::Sandbox, plan));
        };
        let config = Config::read(path)?;
        let folder = config.folder();
        let clients = Clients {
            cms: config.cms.as_ref().map(|cms| cms.client(folder)).transpose()?,
            receiver: config.receiver.as_ref().map(|side| side.client(folder)).transpose()?,
            source: config.source.as_ref().map(|side| side.client(folder)).transpose()?,
        };
        let plan = Plan {
            unclean_losses_max: NonZeroU32::new(config.unclean_losses_max),
            limits: config.limits(),
            in_flight_max: config.in_flight_max,
            source_max_attempts: config.source.as_ref().map_or(5, |side| side.source_max_attempts),
            dispatch: config.dispatch,
            lifecycle: config.lifecycle,
            notification: config.notification,
            processing: config.processing,
            delivery: config.delivery,
        };
        Ok((Self::Configured(Box::new(clients)), plan))
    }

    /// Whether there is a CMS, a receiver and a source runtime to talk to.
    pub(super) fn sides(&self) -> Sides {
        match self {
            Self::Configured(clients) => Sides {
                cms: clients.cms.is_some(),
                receiver: clients.receiver.is_some(),
                source: clients.source.is_some(),
            },
            Self::Sandbox => Sides { cms: true, receiver: true, source: true },
        }
    }

    fn pins(&self) -> Result<Pins, Failed> {
        match self {
            Self::Configured(clients) => Ok(Pins {
                receiver: clients.receiver.as_ref().map(ReceiverClient::capabilities_sha256),
                source: clients
                    .source
                    .as_ref()
                    .map(|source| (source.capabilities_sha256(), source.longest_call_seconds())),
            }),
            Self::Sandbox => {
                let (receiver, source) = sandbox_digests()?;
                Ok(Pins { receiver: Some(receiver), source: Some((source, 60.0)) })
            }
        }
    }

    /// Sets the engine up for what there is to talk to.
    pub(super) fn engine(&self, journal: &Path, plan: &Plan) -> Result<EngineBuilder, Failed> {
        let pins = self.pins()?;
        let watched = self.sides().cms;
        let told = pins.receiver.is_some();
        let mut builder = place::engine(journal)?
            .unclean_losses_max(plan.unclean_losses_max)
            .delays(FlowDelays {
                dispatch: plan.dispatch.delays(),
                lifecycle: plan.lifecycle.delays(),
                notification: plan.notification.delays(),
                processing: plan.processing.delays(),
                delivery: plan.delivery.delays(),
            })
            .hand_over(HandOver {
                lifecycle_max_failures: watched.then_some(plan.lifecycle.max_attempts),
                notification_max_attempts: told.then_some(plan.notification.max_attempts),
                processing_max_failures: told.then_some(plan.processing.max_attempts),
            });
        if let Some(digest) = pins.receiver {
            builder = builder.receiver_digest(digest.to_string());
        }
        if let Some((digest, longest_call_seconds)) = pins.source {
            let capabilities_sha256 = digest.to_string();
            builder =
                builder.source_runtime(SourceRuntime { capabilities_sha256, longest_call_seconds });
        }
        Ok(builder)
    }

    /// Starts the sandbox where there is one. Only who holds the journal may: the sandbox's memory
    /// lies beside it.
    pub(super) async fn start(
        self,
        journal: &Path,
        engine: &Engine,
    ) -> Result<(Clients, Option<Sandbox>), Failed> {
        match self {
            Self::Configured(clients) => Ok((clients.by(engine), None)),
            Self::Sandbox => {
                // Beside a server there is no place for its memory.
                let state = match place::is_server(journal) {
                    true => None,
                    false => Some(beside(journal, "sandbox")?),
                };
                let options = SandboxOptions { state, ..SandboxOptions::default() };
                let sandbox = Sandbox::start(options).await?;
                Ok((sandbox_clients(&sandbox.origin())?, Some(sandbox)))
            }
        }
    }
}

/// The digests of the sandbox's own documents.
fn sandbox_digests() -> Result<(Sha256, Sha256), Failed> {
    crate::sandbox::receiver_digest().zip(crate::sandbox::source_digest()).ok_or(Failed::Runtime)
}

/// Clients of a sandbox at this origin.
pub(super) fn sandbox_clients(origin: &str) -> Result<Clients, Failed> {
    let (receiver_pin, source_pin) = sandbox_digests()?;
    let key_id = Token::new(DEMO_KEY_ID).ok_or(Failed::Runtime)?;
    let signer = HmacSha256Signer::new(key_id, DEMO_KEY.to_vec().into()).ok_or(Failed::Runtime)?;
    let header =
        || StaticAuthHeader::new("Authorization".to_owned(), "Bearer demo".to_owned().into());
    let cms = CmsOptions { allow_http_loopback: true, ..CmsOptions::new(origin) };
    let mut receiver = ReceiverOptions::new(origin.to_owned(), receiver_pin);
    receiver.allow_http_loopback = true;
    let mut source = SourceOptions::new(origin.to_owned(), source_pin);
    source.allow_http_loopback = true;
    let unusable = |_| Failed::Runtime;
    Ok(Clients {
        cms: Some(CmsClient::new(&cms, signer, NoAuthHeaders).map_err(unusable)?),
        receiver: Some(ReceiverClient::new(&receiver, header()).map_err(unusable)?),
        source: Some(SourceClient::new(&source, header()).map_err(unusable)?),
    })
}

/// A file beside the journal's folder, named after it.
fn beside(journal: &Path, extension: &str) -> Result<PathBuf, Failed> {
    const NAMELESS: Failed = Failed::Usage("--journal names no folder");
    let absolute = std::path::absolute(journal).map_err(|_| NAMELESS)?;
    let mut name = absolute.file_name().ok_or(NAMELESS)?.to_owned();
    name.push(".");
    name.push(extension);
    Ok(absolute.with_file_name(name))
}
