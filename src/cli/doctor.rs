//! `leasehold doctor`: what is wrong with a journal that its database does not say?

use super::failure::Failed;
use super::{Ended, print};
use crate::audit::doctor::{AnchorSeen, Diagnosis, Given, Raw, Symptom, examine};
use crate::audit::source::LARGE_BYTES;
use clap::Args;
use leasehold_journal::salvage::{Span, Standing};
use std::path::PathBuf;

/// Spans of sequence numbers shown in a line; `--json` has all of them.
const SPANS_SHOWN: usize = 12;

/// Say what is wrong with a journal that its database does not report, and what to do about it.
///
/// Looks at permissions, leftovers, missing and empty files, the anchors, whether a copy of the
/// database opens, and what the raw bytes hold that the database does not give. Nothing is changed.
/// Works on a journal that cannot be opened, too. Exits with 1 when something is wrong.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  leasehold doctor demo-journal")]
pub(super) struct DoctorArguments {
    /// A journal's folder, or an exported archive
    path: PathBuf,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &DoctorArguments) -> Result<Ended, Failed> {
    super::place::folder_only(&arguments.path)?;
    let bytes = leasehold_journal::folder::bytes(&arguments.path).unwrap_or(0);
    if arguments.path.is_dir() && bytes > LARGE_BYTES {
        eprintln!("copying {} MiB to read them without changing them", bytes / (1024 * 1024));
    }
    let diagnosis = examine(&arguments.path)?;
    if arguments.json {
        print::json(&diagnosis)?;
    } else {
        text(&diagnosis)?;
    }
    Ok(if diagnosis.healthy { Ended::Fine } else { Ended::Findings })
}

fn text(diagnosis: &Diagnosis) -> Result<(), Failed> {
    diagnosis.findings.iter().try_for_each(finding)?;
    print::line(&format!("journal {}", diagnosis.journal.as_deref().unwrap_or("unknown")))?;
    print::line(&given(&diagnosis.database))?;
    print::line(&raw(&diagnosis.raw))?;
    print::line(&format!("anchor inside: {}", anchor(&diagnosis.anchor_inside)))?;
    print::line(&format!("anchor beside: {}", anchor(&diagnosis.anchor_beside)))?;
    print::line(&match diagnosis.findings.len() {
        0 => "healthy".to_owned(),
        1 => "not healthy: 1 finding".to_owned(),
        count => format!("not healthy: {count} findings"),
    })
}

fn finding(symptom: &Symptom) -> Result<(), Failed> {
    let place = match symptom.sequences.as_slice() {
        [] => String::new(),
        sequences => format!(" ({})", records(sequences)),
    };
    print::line(&format!("{}: {}{place}", symptom.code, symptom.message))?;
    print::line(&format!("  next: {}", symptom.next))
}

fn given(given: &Given) -> String {
    match (given.opens, given.code) {
        (false, code) => format!("database: does not open ({})", code.unwrap_or("unknown")),
        (true, None) if given.archived > 0 => format!(
            "database: {} records, all read; records 1 to {} are in archives",
            given.records, given.archived
        ),
        (true, None) => format!("database: {} records, all read", given.records),
        (true, Some(code)) => {
            format!("database: {} records, reading stopped ({code})", given.records)
        }
    }
}

fn raw(raw: &Raw) -> String {
    let found = match raw.found.as_slice() {
        [] => "no records".to_owned(),
        found => records(found),
    };
    let mut text = format!("raw bytes: {found} in {} frames, {} bytes", raw.frames, raw.bytes);
    if raw.unreadable > 0 {
        text += &format!(", {} of them unreadable", raw.unreadable);
    }
    if raw.forks > 0 {
        text += &format!(", {} frames of another history", raw.forks);
    }
    text
}

fn anchor(seen: &AnchorSeen) -> String {
    let standing = standing(seen.standing);
    seen.sequence.map_or_else(|| standing.to_owned(), |at| format!("at record {at}, {standing}"))
}

/// An anchor's standing in words.
pub(super) fn standing(standing: Standing) -> &'static str {
    match standing {
        Standing::Absent => "none",
        Standing::Damaged => "does not verify",
        Standing::OtherJournal => "of another journal",
        Standing::Reached => "reached",
        Standing::NotReached => "not reached",
    }
}

/// Sequence numbers in words, the first few spans of them.
pub(super) fn records(spans: &[Span]) -> String {
    let total: u64 = spans.iter().map(|span| span.count()).sum();
    let shown: Vec<String> = spans
        .iter()
        .take(SPANS_SHOWN)
        .map(|span| match span.count() {
            1 => span.first.to_string(),
            _ => format!("{} to {}", span.first, span.last),
        })
        .collect();
    let more = if spans.len() > SPANS_SHOWN { ", ..." } else { "" };
    let noun = if total == 1 { "record" } else { "records" };
    format!("{total} {noun}: {}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_counted_and_only_the_first_spans_shown() {
        let span = |first, last| Span { first, last };
        assert_eq!(records(&[span(4, 4)]), "1 record: 4");
        assert_eq!(records(&[span(1, 3), span(9, 9)]), "4 records: 1 to 3, 9");
        let many: Vec<Span> = (0..20).map(|at| span(at * 2 + 1, at * 2 + 1)).collect();
        assert!(records(&many).ends_with("21, 23, ..."), "{}", records(&many));
    }
}
