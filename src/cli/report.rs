//! `leasehold report`: a journal as one HTML page for an auditor.
//!
//! Owns the file: it is there whole or not at all, and another one is never written over unasked.

use super::explain::pins;
use super::failure::Failed;
use super::records::{as_of, open};
use super::{Ended, print};
use crate::report::document::{headline, not_compared};
use crate::report::{About, Facts, Verdict, document};
use clap::Args;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Write a report for an auditor: one HTML page without scripts that needs nothing else.
///
/// It says whether the journal verifies, how every flow does, what happened when, what failed, what is not
/// done and why, and how to verify all of that. No payload, token or address is in it. Exits with 1
/// when something does not verify or needs somebody; the report is written then too.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  leasehold report demo-journal -o demo-report.html")]
pub(super) struct ReportArguments {
    /// A journal's folder, the URL of one on a server (postgres://…), or an exported archive
    path: PathBuf,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace the file if it is there
    #[arg(long)]
    force: bool,
    /// Its heading
    #[arg(long, value_name = "TEXT", default_value = "Journal report")]
    title: String,
    /// The time to judge leases and due times by, in seconds since 1970; now if not given
    #[arg(long, value_name = "T")]
    as_of: Option<f64>,
    /// Configuration file with the digests that are pinned and unclean_losses_max; without one it is not
    /// told which records are held under another digest, nor how many leases one may still lose
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The folder with the archives of this journal: they are verified first
    #[arg(long, value_name = "DIR")]
    archives: Option<PathBuf>,
}

const EXISTS: Failed = Failed::Output("the file exists already; --force replaces it");
const UNWRITTEN: Failed = Failed::Output("the report cannot be written");

pub(super) fn run(arguments: &ReportArguments) -> Result<Ended, Failed> {
    let now = as_of(arguments.as_of)?;
    let pins = pins(arguments.config.as_deref())?;
    if !arguments.force && arguments.output.exists() {
        return Err(EXISTS);
    }
    let name = arguments.path.display().to_string();
    let is_archive = arguments.path.is_file();
    let facts = match open(&arguments.path) {
        Ok(source) => {
            let source = source.with_archives(arguments.archives.clone());
            Facts::read(&source, &pins, now)
        }
        // A damaged journal is what a report is there to tell of.
        Err(Failed::Journal(error)) if error.is_damage() => Facts::unreadable(&error),
        Err(failed) => return Err(failed),
    };
    if let Some(refused) = super::audit::refused(&facts.audit) {
        return Err(refused.into());
    }
    let about = About { title: &arguments.title, name: &name, is_archive, now };
    write(&arguments.output, arguments.force, &document(&facts, &about))?;
    print::line(&headline(&facts))?;
    if let Some(said) = not_compared(&facts) {
        print::line(said)?;
    }
    Ok(match facts.verdict() {
        Verdict::Done | Verdict::OnItsWay | Verdict::Paused => Ended::Fine,
        Verdict::NeedsSomebody | Verdict::DoesNotVerify => Ended::Findings,
    })
}

/// Writes beside the file and renames into place.
fn write(path: &Path, force: bool, text: &str) -> Result<(), Failed> {
    let folder = leasehold_journal::folder::parent(path).map_err(|_| UNWRITTEN)?;
    let mut file = tempfile::NamedTempFile::new_in(&folder).map_err(|_| UNWRITTEN)?;
    file.write_all(text.as_bytes()).map_err(|_| UNWRITTEN)?;
    file.as_file().sync_all().map_err(|_| UNWRITTEN)?;
    if force {
        file.persist(path).map_err(|_| UNWRITTEN)?;
    } else {
        #[allow(clippy::wildcard_enum_match_arm)] // a foreign, non-exhaustive enum
        file.persist_noclobber(path).map_err(|error| match error.error.kind() {
            std::io::ErrorKind::AlreadyExists => EXISTS,
            _ => UNWRITTEN,
        })?;
    }
    leasehold_journal::folder::sync_directory(&folder).map_err(|_| UNWRITTEN)
}
