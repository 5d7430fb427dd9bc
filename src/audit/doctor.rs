//! What is wrong with a journal that its database does not report.
//!
//! Owns the examination: permissions, leftovers, files, whether the database opens, the chain, the
//! anchors, and what the raw bytes hold beside what the database gives. Must not change what it
//! reads, and repairs nothing. The database is asked on a copy and may refuse or fail; the raw bytes
//! are searched in any case.

mod files;

use super::check::Heads;
use super::source::Source;
use files::of_folder;
use leasehold_journal::anchor::Reading;
use leasehold_journal::folder::Layout;
use leasehold_journal::medium::Anchors;
use leasehold_journal::salvage::{Salvage, Span, Standing};
use leasehold_journal::walk::Item;
use leasehold_journal::{JournalError, JournalId};
use serde::Serialize;
use std::path::Path;

const SALVAGE: &str = "do not open it for writing, which may overwrite what is left: \
                       run `leasehold salvage PATH OUT` first";
const BACKUP: &str = "nothing here has them any more: look in a backup or an exported archive; \
                      `leasehold salvage PATH OUT` saves the rest";
const ANCHOR: &str =
    "look with `leasehold audit`; the next open for writing is refused until this is settled";

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Symptom {
    /// A stable code.
    pub code: &'static str,
    /// What it means; no text from outside.
    pub message: String,
    /// What to do about it.
    pub next: &'static str,
    /// The records it is about, where it is about some.
    pub sequences: Vec<Span>,
}

/// What the database gives, or an archive read in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Given {
    /// Whether it opens.
    pub opens: bool,
    /// Why it does not open, or why reading stopped.
    pub code: Option<&'static str>,
    /// The last record that is in archives and not here; 0 when there is none.
    pub archived: u64,
    /// Verified records.
    pub records: u64,
    /// Sequence number of the last one.
    pub sequence: u64,
    /// Hash of the last verified frame.
    pub head: Option<String>,
}

/// What the raw bytes hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Raw {
    /// Bytes that were searched.
    pub bytes: u64,
    /// Bytes among them that the disk does not give.
    pub unreadable: u64,
    /// Verified frames.
    pub frames: usize,
    /// Where they stand.
    pub found: Vec<Span>,
    /// Those behind the last record that the database gives.
    pub unreachable: Vec<Span>,
    /// Sequence numbers that neither the raw bytes nor the database have.
    pub missing: Vec<Span>,
    /// Verified frames of another history.
    pub forks: usize,
}

/// One anchor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AnchorSeen {
    /// How it stands to what the raw bytes hold.
    pub standing: Standing,
    /// The record it names.
    pub sequence: Option<u64>,
    /// Copies in its file that do not verify.
    pub damaged: u32,
}

/// The whole examination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// Whether nothing is wrong.
    pub healthy: bool,
    /// The journal's id in hex, if it could be told.
    pub journal: Option<String>,
    /// What the database gives.
    pub database: Given,
    /// What the raw bytes hold.
    pub raw: Raw,
    /// The anchor inside the folder.
    pub anchor_inside: AnchorSeen,
    /// The anchor beside the folder.
    pub anchor_beside: AnchorSeen,
    /// What is wrong.
    pub findings: Vec<Symptom>,
}

/// Examines a folder or an archive.
///
/// # Errors
/// [`JournalError::Missing`], [`JournalError::NotAJournal`], [`JournalError::Locked`] while an engine
/// has the folder open; what the disk answers when there is nothing to examine.
pub fn examine(path: &Path) -> Result<Diagnosis, JournalError> {
    let salvage = Salvage::open(path)?;
    let reading = Walked::through(path)?;
    let mut findings = Vec::new();
    if !path.is_file() {
        findings.extend(of_folder(&Layout::new(path))?);
    }
    findings.extend(of_database(&reading));
    if !path.is_file() {
        findings.extend(of_anchors(&salvage, &reading));
    }
    findings.extend(of_records(&salvage, &reading));
    let reached = reading.sequence();
    let scan = salvage.scan();
    Ok(Diagnosis {
        healthy: findings.is_empty(),
        journal: salvage.journal().map(|id| id.to_string()),
        database: reading.given(),
        raw: Raw {
            bytes: scan.bytes(),
            unreadable: scan.unreadable(),
            frames: salvage.frames(),
            found: salvage.kept(),
            unreachable: after(&salvage.kept(), reached),
            missing: after(&salvage.missing(), reached),
            forks: salvage.forks().len(),
        },
        anchor_inside: seen(salvage.inner(), &reading),
        anchor_beside: seen(salvage.outer(), &reading),
        findings,
    })
}

fn symptom(code: &'static str, message: impl Into<String>, next: &'static str) -> Symptom {
    Symptom { code, message: message.into(), next, sequences: Vec::new() }
}

fn seen((standing, reading): (Standing, Option<Reading>), walked: &Walked) -> AnchorSeen {
    let newest = reading.and_then(|it| it.newest);
    // Raw bytes alone do not show the chain of a journal whose first records are in archives.
    let given = newest.is_some_and(|anchor| walked.heads.knows(anchor.head));
    AnchorSeen {
        standing: if given { Standing::Reached } else { standing },
        sequence: newest.map(|anchor| anchor.head.sequence),
        damaged: reading.map_or(0, |it| it.damaged),
    }
}

/// How the database was read, or why it was not.
#[derive(Default)]
struct Walked {
    refused: Option<JournalError>,
    stopped: Option<JournalError>,
    journal: Option<JournalId>,
    heads: Heads,
    archived: u64,
    records: u64,
    /// Records whose body the database does not give.
    bodiless: Vec<u64>,
}

impl Walked {
    fn through(path: &Path) -> Result<Self, JournalError> {
        let mut walked = Self::default();
        if !path.is_file() && !Layout::new(path).database().is_dir() {
            walked.refused = Some(JournalError::Corrupt { sequence: 0 });
            return Ok(walked);
        }
        let source = match Source::open(path) {
            Ok(source) => source,
            // These say nothing about the journal.
            Err(error @ (JournalError::Locked | JournalError::Full | JournalError::ReadOnly)) => {
                return Err(error);
            }
            Err(error) => {
                walked.refused = Some(error);
                return Ok(walked);
            }
        };
        let ended = source.walk(&mut |item| {
            match item {
                Item::Record { sequence, record, .. } => {
                    walked.records += 1;
                    if record.is_err() {
                        walked.bodiless.push(sequence);
                    }
                }
                Item::Carried { tip, image, .. } => {
                    if image.is_err() {
                        walked.bodiless.push(tip.sequence);
                    }
                }
                // What is up to its base lies in archives; the chain goes on from there.
                Item::Base(base) => walked.heads.base = Some(base),
                Item::Frame(head) => walked.heads.frames.push(head),
            }
            Ok(())
        });
        walked.stopped = ended.stopped;
        walked.journal = ended.journal;
        walked.archived = ended.archived;
        Ok(walked)
    }

    /// Whether the database gave something from its first to its last frame.
    fn is_whole(&self) -> bool {
        self.refused.is_none() && self.stopped.is_none()
    }

    /// Last record that the database gives, verified.
    fn sequence(&self) -> u64 {
        self.heads.last().map_or(0, |head| head.sequence)
    }

    fn given(&self) -> Given {
        Given {
            opens: self.refused.is_none(),
            code: self.refused.as_ref().or(self.stopped.as_ref()).map(JournalError::code),
            archived: self.archived,
            records: self.records,
            sequence: self.sequence(),
            head: self.heads.last().map(|head| head.hash.to_string()),
        }
    }
}

#[allow(clippy::wildcard_enum_match_arm)] // the rest reads alike, whatever it is
fn of_database(walked: &Walked) -> Option<Symptom> {
    if let Some(error) = &walked.refused {
        let message = format!("the database cannot be opened ({})", error.code());
        return Some(symptom("database_unopenable", message, SALVAGE));
    }
    let found = match walked.stopped.as_ref()? {
        JournalError::Corrupt { sequence: 0 } => {
            symptom("database_unreadable", "the database opens and cannot be read", SALVAGE)
        }
        JournalError::Corrupt { sequence } => {
            let message = "the chain breaks here; nothing from here on is verified";
            let sequences = vec![Span { first: *sequence, last: *sequence }];
            Symptom { sequences, ..symptom("chain_broken", message, SALVAGE) }
        }
        JournalError::Newer { .. } => newer(),
        other => symptom(other.code(), "reading stopped here", SALVAGE),
    };
    Some(found)
}

fn newer() -> Symptom {
    let next = "use the newer version; this one must not write here";
    symptom("schema_newer", "a newer version of leasehold wrote here", next)
}

fn of_anchors(salvage: &Salvage, walked: &Walked) -> Vec<Symptom> {
    let mut found = Vec::new();
    let ((inner, inside), (outer, beside)) = (salvage.inner(), salvage.outer());
    if [inside, beside].iter().flatten().any(|reading| reading.damaged > 0) {
        let message = "a copy of the anchor does not verify";
        let next = "one whole copy is enough to go on: the next open for writing renews both";
        found.push(symptom("journal_anchor_damaged", message, next));
    }
    let newest = |reading: Option<Reading>| reading.and_then(|it| it.newest);
    if newest(inside).is_none() && salvage.frames() > 0 {
        let message = "the anchor inside is gone: without it a lost tail is not noticed";
        found.push(symptom("journal_anchor_missing", message, ANCHOR));
    }
    if inner == Standing::OtherJournal || outer == Standing::OtherJournal {
        let message = "an anchor belongs to another journal";
        found.push(symptom("journal_diverged", message, ANCHOR));
    } else if let Some(id) = walked.journal.filter(|_| walked.is_whole()) {
        // A walk that stopped early has its own finding; the anchors would repeat it.
        let anchors = Anchors { inner: newest(inside), outer: newest(beside), damaged: 0 };
        found.extend(compared(id, &anchors, &walked.heads));
    }
    found
}

/// The anchors and the heads that the database gave.
fn compared(id: JournalId, anchors: &Anchors, heads: &Heads) -> Option<Symptom> {
    match heads.compare(id, anchors) {
        // A missing anchor was named already.
        Ok(()) | Err(JournalError::AnchorMissing) => None,
        Err(error @ JournalError::BehindAnchor { sequence, missing }) => {
            let message = format!("{missing} records that were durable are not in the database");
            let sequences = vec![Span { first: sequence + 1, last: sequence + missing }];
            Some(Symptom { sequences, ..symptom(error.code(), message, SALVAGE) })
        }
        Err(error) => {
            let message = "an anchor knows another history than the database";
            Some(symptom(error.code(), message, ANCHOR))
        }
    }
}

/// The records: whole in the raw bytes and not given, or gone.
fn of_records(salvage: &Salvage, walked: &Walked) -> Vec<Symptom> {
    let mut found = Vec::new();
    let reached = walked.sequence();
    let unreachable = after(&salvage.kept(), reached);
    // Frames behind a head that an anchor confirms were written by a commit that never ended, and
    // nobody was told of them.
    if !unreachable.is_empty() && !is_settled(salvage, walked) {
        let code = if walked.is_whole() { "tail_lost" } else { "records_unreachable" };
        let message = "these are whole in the raw bytes and the database does not give them";
        found.push(Symptom { sequences: unreachable, ..symptom(code, message, SALVAGE) });
    }
    let missing = after(&salvage.missing(), reached);
    if !missing.is_empty() {
        let message = "these are not in the raw bytes any more";
        found.push(Symptom { sequences: missing, ..symptom("records_missing", message, BACKUP) });
    }
    let gone = salvage.bodies_missing();
    let is_gone = |at: u64| gone.iter().any(|span| span.first <= at && at <= span.last);
    let bodiless = walked.bodiless.iter().copied().filter(|at| !is_gone(*at));
    let bodiless: Vec<Span> = bodiless.map(|at| Span { first: at, last: at }).collect();
    if !bodiless.is_empty() {
        let message = "the database does not give these bodies; their raw bytes are whole";
        let symptom = symptom("bodies_unreachable", message, SALVAGE);
        found.push(Symptom { sequences: bodiless, ..symptom });
    }
    if !gone.is_empty() {
        let message = "the bodies of these are gone; their place in the chain is verified";
        found.push(Symptom { sequences: gone, ..symptom("bodies_missing", message, BACKUP) });
    }
    if salvage.scan().unreadable() > 0 {
        let message = "the disk does not give all bytes";
        found.push(symptom("bytes_unreadable", message, SALVAGE));
    }
    if salvage.scan().newer().is_some() && walked.refused.is_some() {
        found.push(newer());
    }
    found
}

fn is_settled(salvage: &Salvage, walked: &Walked) -> bool {
    let newest = |reading: Option<Reading>| reading.and_then(|it| it.newest);
    let mut anchors = [newest(salvage.inner().1), newest(salvage.outer().1)].into_iter().flatten();
    walked.is_whole() && anchors.any(|anchor| Some(anchor.head) == walked.heads.last())
}

/// What lies behind a sequence number.
fn after(spans: &[Span], reached: u64) -> Vec<Span> {
    let behind = spans.iter().filter(|span| span.last > reached);
    behind.map(|span| Span { first: span.first.max(reached + 1), last: span.last }).collect()
}
