//! `leasehold explain`: why a record is not delivered yet.

use super::failure::Failed;
use super::records::{FlowName, as_of, doubted, open};
use super::{Ended, print};
use crate::audit::explain::text;
use crate::audit::{Pins, explain};
use crate::config::Config;
use clap::Args;
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::explain::{Explains, Place, WaitsFor};
use leasehold_actors::flows::delivery::Delivery;
use leasehold_actors::flows::dispatch::Dispatch;
use leasehold_actors::flows::lifecycle::Lifecycle;
use leasehold_actors::flows::notification::Notify;
use leasehold_actors::flows::processing::Processing;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

/// Say why a record is not delivered yet, when that changes, and what can be done.
///
/// It names what the record waits for, the rule behind it (a section of the contract, or a deviation from
/// the reference), since when, when it moves on by itself, and the commands that change it. Of a settled
/// record it says how it ended and which flow has it now.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  leasehold explain demo-journal dispatch hut-0001")]
pub(super) struct ExplainArguments {
    /// A journal's folder, the URL of one on a server (postgres://…), or an exported archive
    path: PathBuf,
    /// The record's flow
    flow: FlowName,
    /// The record's identity: the event id; of delivery, operation/id, such as change/hut-0001
    id: String,
    /// The time to judge leases and due times by, in seconds since 1970; now if not given
    #[arg(long, value_name = "T")]
    as_of: Option<f64>,
    /// Configuration file with the digests that are pinned and unclean_losses_max; without one it is not
    /// told whether a record is held under another digest, nor how many leases it may still lose
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// What explanations need of a configuration.
pub(super) fn pins(config: Option<&Path>) -> Result<Pins, Failed> {
    let Some(path) = config else { return Ok(Pins::default()) };
    let config = Config::read(path)?;
    let (receiver, source) = config.digests()?;
    let losses_max = NonZeroU32::new(config.unclean_losses_max);
    Ok(Pins::configured(receiver, source).with_unclean_losses_max(losses_max))
}

pub(super) fn run(arguments: &ExplainArguments) -> Result<Ended, Failed> {
    let now = as_of(arguments.as_of)?;
    let pins = pins(arguments.config.as_deref())?;
    match arguments.flow {
        FlowName::Dispatch => of_flow::<Dispatch>(arguments, &pins, now),
        FlowName::Lifecycle => of_flow::<Lifecycle>(arguments, &pins, now),
        FlowName::Notification => of_flow::<Notify>(arguments, &pins, now),
        FlowName::Processing => of_flow::<Processing>(arguments, &pins, now),
        FlowName::Delivery => of_flow::<Delivery>(arguments, &pins, now),
    }
}

fn of_flow<F: Explains>(
    arguments: &ExplainArguments,
    pins: &Pins,
    now: Timestamp,
) -> Result<Ended, Failed> {
    let path = arguments.path.display().to_string();
    let place = if arguments.path.is_file() { Place::archive(&path) } else { Place::folder(&path) };
    let source = open(&arguments.path)?;
    let (explanation, walked) = explain::<F>(&source, &arguments.id, pins, &place, now)?;
    doubted(&walked);
    let Some(explanation) = explanation else {
        eprintln!("leasehold: record_missing: no record of this flow has this id");
        return Ok(Ended::Findings);
    };
    if arguments.json {
        print::json(&explanation)?;
    } else {
        print::line(&text(&explanation, now))?;
    }
    let sound = !matches!(explanation.waits_for, WaitsFor::Repair { .. });
    Ok(if sound && walked.doubt.is_none() { Ended::Fine } else { Ended::Findings })
}
