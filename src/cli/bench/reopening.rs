//! Opening, auditing and exporting a journal that is closed.

use super::figures::{Bench, Show, unwritable};
use crate::audit::{Source, audit};
use crate::cli::failure::Failed;
use crate::clock::{Stopwatch, processor_seconds};
use crate::engine::Engine;
use leasehold_journal::folder::Layout;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

impl Bench {
    /// Opens the journal as it was left, then without a checkpoint, then audits it.
    pub(super) async fn reopen(&self, journal: &Path, show: &mut Show<'_>) -> Result<(), Failed> {
        show(self.figure("open_seconds", open(journal).await?, "s"))?;
        // It may always be removed.
        match std::fs::remove_file(Layout::new(journal).checkpoint()) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(unwritable(error)),
            Ok(()) | Err(_) => {}
        }
        show(self.figure("open_verifying_seconds", open(journal).await?, "s"))?;
        self.audit(journal, show)
    }

    fn audit(&self, journal: &Path, show: &mut Show<'_>) -> Result<(), Failed> {
        let source = Source::open(journal)?;
        let (watch, before) = (Stopwatch::start(), processor_seconds());
        let report = audit(&source, None);
        let (seconds, after) = (watch.seconds(), processor_seconds());
        if !report.clean {
            return Err(Failed::Unmeasured("the audit of the bench's own journal is not clean"));
        }
        let events = report.records as f64;
        show(self.figure("audit_events_per_second", events / seconds, "1/s"))?;
        let Some((before, after)) = before.zip(after) else { return Ok(()) };
        let used = after - before;
        show(self.figure("audit_cpu_seconds", used, "s"))?;
        show(self.figure("audit_events_per_cpu_second", events / used, "1/s"))
    }

    /// Bytes of all records of a journal: of an archive, which has no database around it.
    pub(super) fn archive_bytes(&self, journal: &Path) -> Result<f64, Failed> {
        let archive = self.folder.join("archive");
        let mut out = File::create(&archive).map_err(unwritable)?;
        Source::open(journal)?.export(&mut out)?;
        Ok(archive.metadata().map_err(unwritable)?.len() as f64)
    }
}

/// The seconds until the journal is open.
async fn open(journal: &Path) -> Result<f64, Failed> {
    let watch = Stopwatch::start();
    let engine = Engine::builder(journal).open().await?;
    let seconds = watch.seconds();
    engine.close().await;
    Ok(seconds)
}
