//! The audit: archives, chain, anchors, and the records of every flow.

use super::records::FlowAudits;
use super::report::{Finding, Report};
use super::source::{Source, Walked};
use leasehold_journal::base::Base;
use leasehold_journal::beside::beside;
use leasehold_journal::chain::{Digest, Head};
use leasehold_journal::log::AnchorCheck;
use leasehold_journal::medium::Anchors;
use leasehold_journal::walk::Item;
use leasehold_journal::{JournalError, JournalId};

/// Audits everything a source holds. With `expected_head`, that hash must have been the head at some
/// time: a journal that was rewritten or cut before it does not have it any more.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("journal");
/// # let changes = std::fs::read_to_string("examples/changes.ndjson")?;
/// # let change = changes.lines().next().ok_or("an example")?;
/// use leasehold::audit::{Source, audit};
///
/// let engine = leasehold::Engine::builder(&path).open().await?;
/// engine.dispatch().enqueue(change, 5).await?;
/// let kept_elsewhere = engine.head();
/// engine.close().await;
/// let report = audit(&Source::open(&path)?, Some(kept_elsewhere.hash));
/// assert!(report.clean && report.sequence == 1);
/// # Ok(()) }
/// ```
#[must_use]
pub fn audit(source: &Source, expected_head: Option<Digest>) -> Report {
    let mut flows = FlowAudits::default();
    let mut findings = Vec::new();
    let mut heads = Heads::default();
    let mut records = 0;
    let mut take = |item| {
        match item {
            Item::Record { sequence, stream, record } => {
                records += 1;
                findings.extend(flows.take(sequence, stream, record));
            }
            Item::Carried { stream, tip, image } => {
                findings.extend(flows.carry(tip.sequence, stream, image));
            }
            Item::Base(base) => heads.base = Some(base),
            Item::Frame(head) => heads.frames.push(head),
        }
        Ok(())
    };
    // Reading, hashing and the chain on one processor, the records on another.
    let (walked, _) = beside(|visit| source.walk(visit), &mut take);
    findings.extend(whole_journal(&walked, &heads, expected_head));
    findings.extend(flows.projections());
    let head = walked.head.or(heads.frames.last().copied());
    Report {
        clean: findings.is_empty(),
        journal: walked.journal.map(|id| id.to_string()),
        sequence: head.map_or(0, |head| head.sequence),
        head: head.map(|head| head.hash.to_string()),
        frames: heads.frames.len() as u64,
        records,
        archived: walked.archived,
        flows: flows.counts(),
        findings,
    }
}

/// The heads of a journal, as a walk came by them.
#[derive(Default)]
pub(super) struct Heads {
    pub(super) base: Option<Base>,
    pub(super) frames: Vec<Head>,
}

impl Heads {
    /// Where the walk started: at the base when it came over no archives.
    fn start(&self) -> Option<Head> {
        let base = self.base?.head;
        let from_the_base = self.frames.first().is_none_or(|first| first.sequence > base.sequence);
        from_the_base.then_some(base)
    }

    /// Compares them with the anchors of a journal.
    ///
    /// # Errors
    /// As [`AnchorCheck::finish`].
    pub(super) fn compare(&self, id: JournalId, anchors: &Anchors) -> Result<(), JournalError> {
        let mut check = AnchorCheck::new(id, anchors);
        if let Some(base) = self.start() {
            check.start(base);
        }
        for head in &self.frames {
            check.pass(*head);
        }
        check.finish(self.last().unwrap_or_else(|| Head::genesis(id)))
    }

    /// Whether this was one of them.
    pub(super) fn knows(&self, head: Head) -> bool {
        self.frames.contains(&head) || self.start() == Some(head)
    }

    /// The last of them.
    pub(super) fn last(&self) -> Option<Head> {
        self.frames.last().copied().or(self.start())
    }
}

/// What does not hold for the journal as a whole: the chain, the anchors, the expected head.
fn whole_journal(walked: &Walked, heads: &Heads, expected: Option<Digest>) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(walked.stopped.as_ref().map(stopped));
    if let (Some(id), Some(anchors)) = (walked.journal, &walked.anchors) {
        // A walk that stopped early has its own finding; the anchors would repeat it.
        if walked.stopped.is_none() {
            findings.extend(anchored(id, anchors, heads));
        }
        if anchors.damaged > 0 {
            let message = "a copy of the anchor does not verify";
            findings.push(finding("journal_anchor_damaged", None, message));
        }
    }
    if let Some(expected) = expected {
        let genesis = walked.journal.map(Head::genesis);
        let base = heads.base.map(|base| base.head);
        let known = heads.frames.iter().copied().chain(genesis).chain(base);
        let found = known.into_iter().any(|head| head.hash == expected);
        if !found {
            let message = if walked.archived > 0 {
                "the expected head is none of this journal's; look with --archives among the older ones"
            } else {
                "the expected head was never the head of this journal"
            };
            findings.push(finding("head_not_found", None, message));
        }
    }
    findings
}

pub(super) fn finding(code: &str, sequence: Option<u64>, message: &str) -> Finding {
    Finding { code: code.to_owned(), sequence, flow: None, id: None, message: message.to_owned() }
}

#[allow(clippy::wildcard_enum_match_arm)] // the rest reads alike, whatever it is
fn stopped(error: &JournalError) -> Finding {
    match error {
        JournalError::Corrupt { sequence: 0 } => {
            finding(error.code(), None, "the database does not say what it holds")
        }
        JournalError::Corrupt { sequence } => {
            let message = "the chain breaks here; nothing from here on is verified";
            finding(error.code(), Some(*sequence), message)
        }
        JournalError::ArchiveMissing { sequence } => {
            let message = "no archive starts with this record; nothing from here on is verified";
            finding(error.code(), Some(*sequence), message)
        }
        JournalError::Diverged { sequence } => {
            let message = "an archive that does not belong here; nothing from it on is verified";
            finding(error.code(), Some(*sequence), message)
        }
        JournalError::Newer { .. } => {
            finding(error.code(), None, "written by a newer version; not understood from here on")
        }
        other => finding(other.code(), None, "reading stopped here"),
    }
}

/// What the anchors know that the walk did not come by.
pub(super) fn anchored(id: JournalId, anchors: &Anchors, heads: &Heads) -> Option<Finding> {
    match heads.compare(id, anchors) {
        Ok(()) => None,
        Err(error @ JournalError::BehindAnchor { sequence, missing }) => {
            let message = format!("{missing} records after this one were durable and are gone");
            Some(finding(error.code(), Some(sequence), &message))
        }
        Err(error @ JournalError::Diverged { sequence }) => {
            let message = "the anchor knows another history up to here, or another journal";
            Some(finding(error.code(), Some(sequence), message))
        }
        Err(error) => {
            Some(finding(error.code(), None, "the anchor is gone although there are records"))
        }
    }
}
