//! `leasehold audit`: does everything hold?

use super::failure::Failed;
use super::{Ended, print, records};
use crate::audit::{Report, audit};
use clap::Args;
use leasehold_journal::{Digest, JournalError};
use std::path::PathBuf;

/// Verify a journal: chain, anchors, every record's replay, every invariant, every count.
///
/// With --archives it follows the chain across the archive files the journal goes on from.
/// Exits with 1 when something does not hold, each finding with its record's sequence number. Keep the
/// head it prints somewhere else: a journal rewritten from its first record on is noticed only with
/// --expect-head.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  leasehold audit demo-journal")]
pub(super) struct AuditArguments {
    /// A journal's folder, the URL of one on a server (postgres://…), or an exported archive
    path: PathBuf,
    /// A head that was printed earlier: it must still be part of this journal
    #[arg(long, value_name = "HEX")]
    expect_head: Option<String>,
    /// The folder with the archives of this journal: they are verified first, and compared with what
    /// the journal kept
    #[arg(long, value_name = "DIR")]
    archives: Option<PathBuf>,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &AuditArguments) -> Result<Ended, Failed> {
    let expected = match &arguments.expect_head {
        None => None,
        Some(hex) => Some(
            Digest::from_hex(hex)
                .ok_or(Failed::Usage("--expect-head takes 64 lower-case hex digits"))?,
        ),
    };
    let report = match records::open(&arguments.path) {
        Ok(source) => audit(&source.with_archives(arguments.archives.clone()), expected),
        // A damaged journal is what an audit is there to report.
        Err(Failed::Journal(error)) if error.is_damage() => Report::unreadable(&error),
        Err(failed) => return Err(failed),
    };
    if let Some(refused) = refused(&report) {
        return Err(refused.into());
    }
    if arguments.json {
        print::json(&report)?;
    } else {
        text(&report)?;
    }
    Ok(if report.clean { Ended::Fine } else { Ended::Findings })
}

/// Why nothing was audited: a file that is no archive, or cannot be read alone.
pub(super) fn refused(report: &Report) -> Option<JournalError> {
    let refusals = [JournalError::NotAJournal, JournalError::ArchivePart];
    let found = |refused: &JournalError| {
        report.records == 0 && report.findings.iter().any(|one| one.code == refused.code())
    };
    refusals.into_iter().find(found)
}

fn text(report: &Report) -> Result<(), Failed> {
    for finding in &report.findings {
        let place =
            finding.sequence.map_or_else(String::new, |sequence| format!(" at record {sequence}"));
        let id = finding.id.as_ref().map_or_else(String::new, |id| format!(" ({id})"));
        print::line(&format!("{}{place}{id}: {}", finding.code, finding.message))?;
    }
    for (flow, counts) in &report.flows {
        let counts: Vec<_> =
            counts.iter().map(|(state, count)| format!("{state} {count}")).collect();
        if !counts.is_empty() {
            print::line(&format!("{flow}: {}", counts.join(", ")))?;
        }
    }
    if report.archived > 0 {
        print::line(&format!(
            "records 1 to {} are in archives, not verified here (--archives DIR)",
            report.archived
        ))?;
    }
    let verdict = if report.clean { "clean" } else { "not clean" };
    print::line(&format!(
        "{verdict}: {} records in {} frames verified, journal {}",
        report.records,
        report.frames,
        report.journal.as_deref().unwrap_or("unknown"),
    ))?;
    print::line(&format!(
        "head {} at record {}",
        report.head.as_deref().unwrap_or("unknown"),
        report.sequence
    ))
}
