//! `leasehold pause` and `resume`: what an operator stops for a while (D12).
//!
//! Owns how a scope is named on the command line, the report, and the lines other commands print about
//! what is paused.

use super::failure::Failed;
use super::interventions::Who;
use super::place;
use super::records::{FlowName, states};
use super::{Ended, print};
use crate::audit::States;
use clap::{Args, ValueEnum};
use leasehold_actors::control::{PausedScope, Scope};
use leasehold_actors::record::{FlowTag, OperatorName, Reason};
use serde::Serialize;
use std::path::PathBuf;

/// The other side of some flows, as on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DestinationName {
    /// The CMS: dispatch and lifecycle
    Cms,
    /// The receiver: notification and processing
    Receiver,
    /// The source runtime: delivery
    Source,
}

impl DestinationName {
    fn name(self) -> &'static str {
        match self {
            Self::Cms => "cms",
            Self::Receiver => "receiver",
            Self::Source => "source",
        }
    }
}

/// One scope.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct ScopeName {
    /// This flow
    #[arg(long)]
    flow: Option<FlowName>,
    /// This site, in all flows
    #[arg(long, value_name = "ID")]
    site: Option<String>,
    /// Every flow that calls this side
    #[arg(long)]
    destination: Option<DestinationName>,
}

/// Which scope, and who asks and why.
#[derive(Debug, Args)]
struct Choice {
    /// A journal's folder, which no engine may have open (a running one is asked at its door), or the URL of one
    /// on a server (postgres://…)
    path: PathBuf,
    #[command(flatten)]
    scope: ScopeName,
    #[command(flatten)]
    who: Who,
    /// Only say what it would do
    #[arg(long)]
    dry_run: bool,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Pause a flow, a site or a destination: nothing of it is given out until it is resumed.
///
/// Records are still registered and read, and calls under way may settle. A pause outlives restarts.
/// `health` shows what is paused, with who and why.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  leasehold pause demo-journal --destination cms --by maria --why \"the CMS is being moved\" --dry-run"
)]
pub(super) struct PauseArguments {
    #[command(flatten)]
    choice: Choice,
}

/// Let a paused flow, site or destination go on.
///
/// A record goes on when none of its flow, its site and its destination is paused.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  leasehold resume demo-journal --destination cms --by maria --why \"the CMS is back\""
)]
pub(super) struct ResumeArguments {
    #[command(flatten)]
    choice: Choice,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Pause,
    Resume,
}

impl Deed {
    fn done(self) -> &'static str {
        match self {
            Self::Pause => "paused",
            Self::Resume => "resumed",
        }
    }
}

/// What came of it.
#[derive(Debug, Serialize)]
struct Outcome {
    scope: Scope,
    /// Whether it was otherwise before.
    changed: bool,
    /// Records of the scope that wait.
    waiting: u64,
    /// Whether nothing was written on purpose.
    dry_run: bool,
}

pub(super) async fn pause(arguments: PauseArguments) -> Result<Ended, Failed> {
    steer(Deed::Pause, &arguments.choice).await
}

pub(super) async fn resume(arguments: ResumeArguments) -> Result<Ended, Failed> {
    steer(Deed::Resume, &arguments.choice).await
}

async fn steer(deed: Deed, choice: &Choice) -> Result<Ended, Failed> {
    let (scope, by, why) = (scope(&choice.scope)?, by(choice)?, why(choice)?);
    let (states, _) = states(&choice.path)?;
    let waiting = waiting(&states, &scope);
    let changed = if choice.dry_run {
        let paused = states.flows.controls.paused().iter().any(|paused| paused.scope == scope);
        paused != (deed == Deed::Pause)
    } else {
        let engine = place::engine(&choice.path)?.open().await?;
        let intervened = match deed {
            Deed::Pause => engine.pause(scope.clone(), by, why).await,
            Deed::Resume => engine.resume(scope.clone(), by, why).await,
        };
        engine.close().await;
        intervened?.changed
    };
    let outcome = Outcome { scope, changed, waiting, dry_run: choice.dry_run };
    report(deed, choice, &outcome)?;
    Ok(Ended::Fine)
}

fn scope(name: &ScopeName) -> Result<Scope, Failed> {
    let text = match (name.flow, &name.site, name.destination) {
        (Some(flow), _, _) => format!("flow/{}", flow.name()),
        (None, Some(site), _) => format!("site/{site}"),
        (None, None, side) => format!("destination/{}", side.map_or("", DestinationName::name)),
    };
    const NO_SITE: &str = "--site takes 1 to 256 letters, digits and the signs _ . : -";
    Scope::new(&text).ok_or(Failed::Usage(NO_SITE))
}

/// Looked at before the journal is: a dry run needs neither.
fn by(choice: &Choice) -> Result<&str, Failed> {
    let by = choice.who.by.as_deref();
    if by.is_some_and(|by| OperatorName::new(by).is_none()) {
        return Err(Failed::Usage("--by takes 1 to 128 visible ASCII characters"));
    }
    Ok(by.unwrap_or_default())
}

fn why(choice: &Choice) -> Result<&str, Failed> {
    let why = choice.who.why.as_deref();
    if why.is_some_and(|why| Reason::new(why).is_none()) {
        return Err(Failed::Usage("--why takes 1 to 500 characters on one line"));
    }
    Ok(why.unwrap_or_default())
}

/// Records of a scope that are neither settled nor at a worker.
fn waiting(states: &States, scope: &Scope) -> u64 {
    let rows = states.rows().into_iter().filter(|row| {
        let flow = FlowTag::from_name(row.flow);
        let waits = matches!(row.state, "pending" | "watching" | "retry_wait");
        let site = row.site_id.as_deref().unwrap_or_default();
        waits && flow.is_some_and(|flow| scope.covers(flow, site))
    });
    rows.count() as u64
}

fn report(deed: Deed, choice: &Choice, outcome: &Outcome) -> Result<(), Failed> {
    if choice.json {
        return print::json(outcome);
    }
    let Outcome { scope, changed, waiting, dry_run } = outcome;
    let done = match (deed, changed, dry_run) {
        (deed, true, true) => format!("would be {}", deed.done()),
        (deed, true, false) => deed.done().to_owned(),
        (Deed::Pause, false, _) => "is paused already".to_owned(),
        (Deed::Resume, false, _) => "is not paused".to_owned(),
    };
    print::line(&format!("{scope} {done}; records of it that wait: {waiting}"))
}

/// One line for each scope that is paused.
pub(super) fn lines(paused: &[PausedScope]) -> Vec<String> {
    let line = |paused: &PausedScope| {
        let PausedScope { scope, since, intervention } = paused;
        let (by, why) = (intervention.by.as_str(), intervention.why.as_str());
        format!("paused: {scope} since {}, by {by}: {why}", print::time(since.seconds()))
    };
    paused.iter().map(line).collect()
}
