//! `leasehold archive`: old history moves out of a journal.

use super::failure::Failed;
use super::place;
use super::{Ended, print};
use crate::clock::{Clock as _, SystemClock};
use crate::retention::{self, Moved, RetentionError};
use clap::Args;
use leasehold_actors::contract::time::Timestamp;
use leasehold_journal::folder;
use std::path::{Path, PathBuf};

const DAY_SECONDS: f64 = 86_400.0;

/// Move old history out of a journal to an archive file, and give its room back.
///
/// Whole frames move, from the oldest on. Every record stays known: of a completed one the journal
/// keeps its final state, any other is kept whole and goes on. Keep the archives: `audit --archives`
/// follows the chain across them. No engine may have the journal open.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  leasehold archive demo-journal --to demo-archives --older-than 90"
)]
pub(super) struct ArchiveArguments {
    /// A journal's folder
    path: PathBuf,
    /// The folder for archives; it is made when it is not there
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// What happened more than so many days ago
    #[arg(
        long,
        value_name = "DAYS",
        value_parser = clap::value_parser!(u32).range(..=36_500),
        required_unless_present = "before",
        conflicts_with = "before"
    )]
    older_than: Option<u32>,
    /// What happened before this time, in seconds since 1970
    #[arg(long, value_name = "T")]
    before: Option<f64>,
    /// Only print what would move
    #[arg(long)]
    dry_run: bool,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &ArchiveArguments) -> Result<Ended, Failed> {
    let ArchiveArguments { path, to, older_than, before, dry_run, json } = arguments;
    let days = f64::from(older_than.unwrap_or(0));
    let before = before.unwrap_or_else(|| SystemClock.now_seconds() - days * DAY_SECONDS);
    let before = Timestamp::new(before)
        .ok_or(Failed::Usage("a time is a number of seconds, not negative"))?;
    let bytes = || folder::bytes(path).unwrap_or(0);
    let bytes_before = bytes();
    let moved = if *dry_run {
        retention::plan(&place::source(path)?, before).map_err(failed)?
    } else if place::is_server(path) {
        on_server(path, to, before)?
    } else {
        retention::archive(path, to, before).map_err(failed)?
    };
    let after = (!dry_run && !place::is_server(path)).then(bytes);
    if *json {
        print::json(&serde_json::json!({
            "moved": moved, "bytes_before": bytes_before, "bytes_after": after,
        }))?;
        return Ok(Ended::Fine);
    }
    let Some(moved) = moved else {
        print::line("nothing is old enough")?;
        return Ok(Ended::Fine);
    };
    let Moved { first, last, frames, completed, others, file, head, .. } = &moved;
    let file = to.join(file);
    let verb = if *dry_run { "would move" } else { "moved" };
    print::line(&format!(
        "records {first} to {last} in {frames} frames {verb} to {}",
        file.display()
    ))?;
    print::line(&format!("kept: final states {completed}, whole records {others}"))?;
    if let Some(after) = after {
        print::line(&format!("bytes of the journal: {bytes_before} before, {after} after"))?;
    }
    print::line(&format!("head {head} at record {last}"))?;
    Ok(Ended::Fine)
}

#[cfg(feature = "postgres")]
fn on_server(path: &Path, to: &Path, before: Timestamp) -> Result<Option<Moved>, Failed> {
    retention::archive_on_server(&place::server(path)?, to, before).map_err(failed)
}

#[cfg(not(feature = "postgres"))]
fn on_server(_: &Path, _: &Path, _: Timestamp) -> Result<Option<Moved>, Failed> {
    Err(place::WITHOUT)
}

#[allow(clippy::wildcard_enum_match_arm)] // it may grow
fn failed(error: RetentionError) -> Failed {
    match error {
        RetentionError::Journal(error) => Failed::Journal(error),
        RetentionError::Folder => Failed::Output("the folder for archives cannot be made"),
        RetentionError::Inside => {
            Failed::Usage("the folder for archives has to be outside of the journal's")
        }
        RetentionError::Differs => {
            Failed::Output("an archive of this name exists and says something else")
        }
    }
}
