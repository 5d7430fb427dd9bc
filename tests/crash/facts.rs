//! What was acknowledged, and whether a journal holds it.
//!
//! Owns the comparison. Must not know how the journal came to be as it is.

use super::victim::{self, LOCK_TRIES};
use leasehold::audit::{Source, States, audit};
use leasehold::{Durability, Error, Head, JournalError};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// How far one record has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Progress {
    attempts: u32,
    settled: bool,
}

/// What is known of the records of one journal, by their event ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    records: BTreeMap<String, Progress>,
}

/// What is left of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Everything that was acknowledged, and no more than can be explained: what there is now.
    Whole(Facts),
    /// Something acknowledged is gone, or something is there that nobody asked for, or does not verify.
    Lost(String),
    /// The journal does not open; the code.
    Unopenable(String),
}

impl Facts {
    /// Takes over what a victim said. A last line without its end was not said.
    ///
    /// # Errors
    /// For an acknowledgement that is none.
    pub(crate) fn acknowledge(&mut self, output: &str) -> io::Result<()> {
        let lines = output.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        for words in lines.filter_map(|line| line.strip_prefix("ack ")) {
            let known = self.take(words);
            known.ok_or_else(|| io::Error::other("an acknowledgement that is none"))?;
        }
        Ok(())
    }

    fn take(&mut self, words: &str) -> Option<()> {
        let words: Vec<&str> = words.split(' ').collect();
        match words[..] {
            ["opened" | "closed"] => {}
            ["registered", id] => {
                self.records.entry(id.to_owned()).or_default();
            }
            ["claimed", id, attempt] => {
                let attempt = attempt.parse().ok()?;
                let progress = self.records.entry(id.to_owned()).or_default();
                progress.attempts = progress.attempts.max(attempt);
            }
            ["settled", id] => self.records.entry(id.to_owned()).or_default().settled = true,
            _ => return None,
        }
        Some(())
    }

    /// Steps that were taken: one for each registration, claim and settlement.
    pub(crate) fn steps(&self) -> u64 {
        let steps =
            |progress: &Progress| 1 + u64::from(progress.attempts) + u64::from(progress.settled);
        self.records.values().map(steps).sum()
    }

    /// What of these facts is not in `found`.
    fn missing_in(&self, found: &Self) -> Vec<String> {
        let mut missing = Vec::new();
        for (id, promised) in &self.records {
            let Some(progress) = found.records.get(id) else {
                missing.push(format!("{id} is not there"));
                continue;
            };
            if progress.attempts < promised.attempts {
                missing.push(format!("{id} has {} attempts", progress.attempts));
            }
            if promised.settled && !progress.settled {
                missing.push(format!("{id} is not settled"));
            }
        }
        missing
    }
}

/// Opens a journal, closes it, audits it, and compares it with what was promised. `unsaid` is how many
/// steps may have been taken without a word: one for each life that was cut off.
///
/// # Errors
/// When this process cannot do its work.
pub(crate) fn check(journal: &Path, promised: &Facts, unsaid: u64) -> io::Result<Verdict> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let head = match runtime.block_on(reopened(journal)) {
        Ok(head) => head,
        Err(error) => return Ok(Verdict::Unopenable(error.code().to_owned())),
    };
    let source = match source(journal) {
        Ok(source) => source,
        Err(error) => return Ok(Verdict::Unopenable(error.code().to_owned())),
    };
    let report = audit(&source, Some(head.hash));
    if !report.clean {
        let codes: Vec<String> = report.findings.into_iter().map(|found| found.code).collect();
        return Ok(Verdict::Lost(format!("audit: {}", codes.join(", "))));
    }
    let (states, _) = States::read(&source).map_err(io::Error::other)?;
    let mut found = Facts::default();
    for row in states.rows() {
        let id = row.id.ok_or_else(|| io::Error::other("a clean audit and a record without id"))?;
        let progress = Progress { attempts: row.attempts, settled: row.state == "succeeded" };
        found.records.insert(id, progress);
    }
    let missing = promised.missing_in(&found);
    if !missing.is_empty() {
        return Ok(Verdict::Lost(missing.join(", ")));
    }
    let more = found.steps() - promised.steps();
    if more > unsaid {
        return Ok(Verdict::Lost(format!("{more} steps more than were acknowledged")));
    }
    Ok(Verdict::Whole(found))
}

async fn reopened(journal: &Path) -> Result<Head, Error> {
    let engine = victim::open(journal, Durability::PowerSafe).await?;
    let head = engine.head();
    engine.close().await;
    Ok(head)
}

/// Tried again while locked, for the reason given at [`victim::open`].
fn source(journal: &Path) -> Result<Source, JournalError> {
    #[cfg(feature = "postgres")]
    if let Some(place) = victim::server(journal) {
        return Source::on_server(&place);
    }
    for _ in 0..LOCK_TRIES {
        let opened = Source::open(journal);
        if !matches!(opened, Err(JournalError::Locked)) {
            return opened;
        }
        std::thread::yield_now();
    }
    Err(JournalError::Locked)
}
