//! `leasehold health`, `list` and `show`: what is in a journal.

use super::explain::pins;
use super::failure::Failed;
use super::place;
use super::{Ended, pauses, print};
use crate::audit::explain::{NOT_COMPARED, brought};
use crate::audit::source::{LARGE_BYTES, Walked};
use crate::audit::{Finding, Happening, History, Row, Source, States};
use crate::clock::{Clock as _, SystemClock};
use clap::{Args, ValueEnum};
use comfy_table::{Table, presets};
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::control::PausedScope;
use leasehold_actors::flows::Answers;
use leasehold_actors::flows::delivery::Delivery;
use leasehold_actors::flows::dispatch::Dispatch;
use leasehold_actors::flows::lifecycle::Lifecycle;
use leasehold_actors::flows::notification::Notify;
use leasehold_actors::flows::processing::Processing;
use serde::Serialize;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// A flow, as on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum FlowName {
    /// Change events to the CMS
    Dispatch,
    /// Accepted changes, watched until the CMS says how they ended
    Lifecycle,
    /// How changes ended, told to the receiver
    Notification,
    /// Notifications, watched until the receiver has acted on them
    Processing,
    /// Changes and removals to the source runtime
    Delivery,
}

/// A state, as on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum StateName {
    /// Waiting, nothing tried yet
    Pending,
    /// A worker is at it
    Leased,
    /// Waiting for the next poll
    Watching,
    /// Waiting after a failure
    RetryWait,
    /// Done
    Succeeded,
    /// Done, of a watched change
    Terminal,
    /// Given up
    Failed,
    /// Let be by an operator
    Dismissed,
    /// Does not replay
    Quarantined,
}

impl StateName {
    fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Leased => "leased",
            Self::Watching => "watching",
            Self::RetryWait => "retry_wait",
            Self::Succeeded => "succeeded",
            Self::Terminal => "terminal",
            Self::Failed => "failed",
            Self::Dismissed => "dismissed",
            Self::Quarantined => "quarantined",
        }
    }
}

impl FlowName {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Dispatch => "dispatch",
            Self::Lifecycle => "lifecycle",
            Self::Notification => "notification",
            Self::Processing => "processing",
            Self::Delivery => "delivery",
        }
    }
}

/// Print the health of every flow.
///
/// Exits with 1 when a flow is blocked: a lease ran out, or a record failed, is quarantined, or, where the
/// configuration says which digests are pinned, is registered under another one. What is paused is shown
/// beside the flows, with who and why, and blocks none.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  leasehold health demo-journal")]
pub(super) struct HealthArguments {
    /// A journal's folder, the URL of one on a server (postgres://…), or an exported archive
    path: PathBuf,
    /// The time to judge leases and due times by, in seconds since 1970; now if not given
    #[arg(long, value_name = "T")]
    as_of: Option<f64>,
    /// Configuration file with the digests that are pinned; without one it is not told which records are
    /// held under another digest
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// List records, oldest first.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  leasehold list demo-journal --state failed")]
pub(super) struct ListArguments {
    /// A journal's folder, the URL of one on a server (postgres://…), or an exported archive
    path: PathBuf,
    /// Only this flow
    #[arg(long)]
    flow: Option<FlowName>,
    /// Only this state
    #[arg(long, value_enum)]
    state: Option<StateName>,
    /// Only this site
    #[arg(long, value_name = "ID")]
    site: Option<String>,
    /// One JSON object per record
    #[arg(long)]
    json: bool,
}

/// Print one record's whole history and state.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  leasehold show demo-journal dispatch hut-0001")]
pub(super) struct ShowArguments {
    /// A journal's folder, the URL of one on a server (postgres://…), or an exported archive
    path: PathBuf,
    /// The record's flow
    flow: FlowName,
    /// The record's identity: the event id; of delivery, operation/id, such as change/hut-0001
    id: String,
    /// The folder with the archives of this journal, for events that are in them
    #[arg(long, value_name = "DIR")]
    archives: Option<PathBuf>,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Opens a source; a large folder is announced, since it is copied first.
pub(super) fn open(path: &Path) -> Result<Source, Failed> {
    let bytes = leasehold_journal::folder::bytes(path).unwrap_or(0);
    if path.is_dir() && bytes > LARGE_BYTES {
        eprintln!("copying {} MiB to read them without changing them", bytes / (1024 * 1024));
    }
    place::source(path)
}

pub(super) fn as_of(given: Option<f64>) -> Result<Timestamp, Failed> {
    let seconds = given.unwrap_or_else(|| SystemClock.now_seconds());
    Timestamp::new(seconds).ok_or(Failed::Usage("a time is a number of seconds, not negative"))
}

/// All records, and whether the anchors agree; what they know better is announced.
pub(super) fn states(path: &Path) -> Result<(States, bool), Failed> {
    let (states, walked) = States::read(&open(path)?)?;
    doubted(&walked);
    Ok((states, walked.doubt.is_none()))
}

/// Announces what the anchors know better.
pub(super) fn doubted(walked: &Walked) {
    if let Some(Finding { code, message, .. }) = &walked.doubt {
        eprintln!("leasehold: {code}: {message}; see `leasehold audit`");
    }
}

pub(super) fn health(arguments: &HealthArguments) -> Result<Ended, Failed> {
    let now = as_of(arguments.as_of)?;
    let pins = pins(arguments.config.as_deref())?;
    let (states, whole) = states(&arguments.path)?;
    let health = states.health_with(now, &pins);
    let compared = pins.are_known() || !states.depend_on_digests();
    let flows = &health.by_flow();
    let paused = states.flows.controls.paused();
    if arguments.json {
        let digests_compared = (!compared).then_some(false);
        print::json(&Told { flows, paused: &paused, digests_compared })?;
    } else {
        flows.iter().try_for_each(|(flow, health)| health_lines(flow, health))?;
        pauses::lines(&paused).iter().try_for_each(|line| print::line(line))?;
        if !compared {
            print::line(NOT_COMPARED)?;
        }
    }
    Ok(if whole && health.is_ok() { Ended::Fine } else { Ended::Findings })
}

/// Health as `--json` prints it: the flows, and beside them what is paused, where anything is.
#[derive(Debug, Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    flows: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "<[PausedScope]>::is_empty")]
    paused: &'a [PausedScope],
    /// `false` where it matters and no configuration was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    digests_compared: Option<bool>,
}

/// One flow's health; a flow without records takes no lines.
pub(super) fn health_lines(flow: &str, health: &serde_json::Value) -> Result<(), Failed> {
    let counts = health["counts"].as_object().into_iter().flatten();
    let counts: Vec<_> = counts
        .filter(|(_, count)| **count != 0)
        .map(|(state, count)| format!("{state} {count}"))
        .collect();
    if counts.is_empty() && health["quarantined"] == 0 && health["dismissed"] == 0 {
        return Ok(());
    }
    let status = health["status"].as_str().unwrap_or_default();
    print::line(&format!("{flow}: {status}"))?;
    print::line(&format!("  {}", counts.join(", ")))?;
    let others: Vec<_> =
        ["due", "expired_leases", "remote_failures", "held", "quarantined", "dismissed"]
            .into_iter()
            .filter(|name| !health[*name].is_null())
            .map(|name| format!("{} {}", name.replace('_', " "), health[name]))
            .collect();
    print::line(&format!("  {}", others.join(", ")))
}

pub(super) fn list(arguments: &ListArguments) -> Result<Ended, Failed> {
    let (states, whole) = states(&arguments.path)?;
    let ended = if whole { Ended::Fine } else { Ended::Findings };
    for line in pauses::lines(&states.flows.controls.paused()) {
        eprintln!("{line}"); // beside the records, whose lines are for machines too
    }
    let rows = states.rows().into_iter().filter(|row| {
        arguments.flow.is_none_or(|flow| row.flow == flow.name())
            && arguments.state.is_none_or(|state| row.state == state.name())
            && arguments.site.as_deref().is_none_or(|site| row.site_id.as_deref() == Some(site))
    });
    if arguments.json {
        rows.into_iter().try_for_each(|row| print::json(&row))?;
        return Ok(ended);
    }
    print::line(&table(rows).to_string())?;
    Ok(ended)
}

/// Records as lines under a heading.
pub(super) fn table(rows: impl IntoIterator<Item = Row>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["flow", "id", "site", "state", "attempts", "next", "error"]);
    for row in rows {
        table.add_row([
            row.flow.to_owned(),
            row.id.unwrap_or_else(|| "-".to_owned()),
            row.site_id.unwrap_or_else(|| "-".to_owned()),
            row.state.to_owned(),
            row.attempts.to_string(),
            print::time_or_dash(row.next_at),
            row.error_code.unwrap_or_default(),
        ]);
    }
    table
}

pub(super) fn show(arguments: &ShowArguments) -> Result<Ended, Failed> {
    let now = as_of(None)?;
    let source = open(&arguments.path)?.with_archives(arguments.archives.clone());
    match arguments.flow {
        FlowName::Dispatch => history::<Dispatch>(&source, arguments, now),
        FlowName::Lifecycle => history::<Lifecycle>(&source, arguments, now),
        FlowName::Notification => history::<Notify>(&source, arguments, now),
        FlowName::Processing => history::<Processing>(&source, arguments, now),
        FlowName::Delivery => history::<Delivery>(&source, arguments, now),
    }
}

fn history<F: Answers>(
    source: &Source,
    arguments: &ShowArguments,
    now: Timestamp,
) -> Result<Ended, Failed> {
    let (history, walked) = History::read::<F>(source, &arguments.id, now)?;
    doubted(&walked);
    if arguments.json {
        print::json(&history)?;
    } else {
        if history.archived > 0 {
            let earlier = history.archived;
            print::line(&format!("earlier events in archives: {earlier} (--archives DIR)"))?;
        }
        for happening in &history.events {
            print::line(&happened(happening))?;
        }
        pauses::lines(&history.paused).iter().try_for_each(|line| print::line(line))?;
        if let Some(status) = &history.status {
            print::line(&describe(status)?)?;
        }
    }
    if history.events.is_empty() && history.archived == 0 {
        eprintln!("leasehold: record_missing: no record of this flow has this id");
    } else if !history.replays {
        eprintln!("leasehold: replay_invalid: this record does not replay; see `leasehold audit`");
    }
    let sound = history.status.is_some() && history.replays && walked.doubt.is_none();
    Ok(if sound { Ended::Fine } else { Ended::Findings })
}

/// One line of a history.
fn happened(happening: &Happening) -> String {
    let Happening { sequence, at, error_code, by, why, due_at, imported, .. } = happening;
    let mut more = match (error_code, by, why) {
        _ if imported.is_some() => imported.as_ref().map(brought).unwrap_or_default(),
        (Some(code), _, _) => code.clone(),
        (None, Some(by), Some(why)) => format!("by {by}: {why}"),
        (None, _, _) => String::new(),
    };
    if let Some(due) = due_at {
        more = format!("due {} {more}", print::time(*due));
    }
    format!("{sequence:>8}  {}  {:<10} {more}", print::time(*at), happening.word())
}

/// A status as lines of its members, nulls left out.
fn describe(status: &impl serde::Serialize) -> Result<String, Failed> {
    let value =
        serde_json::to_value(status).map_err(|_| Failed::Output("the status has no form"))?;
    let members = value.as_object().into_iter().flatten();
    let lines: Vec<_> = members
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| format!("  {key}: {}", value.to_string().trim_matches('"')))
        .collect();
    Ok(lines.join("\n"))
}
