//! The figures of `leasehold bench`, and those of one journal from its first record to its audit.
//!
//! Owns their form and their order. Every figure is taken from the engine as a host uses it, on a real
//! journal, fully durable.

use super::commits::Commits;
use super::lives::{answer, enqueue, enqueue_many, lives, settle};
use crate::cli::failure::Failed;
use crate::cli::place;
use crate::clock::Stopwatch;
use crate::handle::{Handle, LEASE_SECONDS};
use leasehold_actors::flows::dispatch::Dispatch;
use serde::Serialize;
use std::path::PathBuf;
use tempfile::TempDir;

/// One line.
#[derive(Debug, Serialize)]
pub(super) struct Figure {
    figure: &'static str,
    value: f64,
    unit: &'static str,
    records: u64,
    backlog: u64,
    in_flight: u64,
    /// Of the backlog; not there where none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    settled: Option<u64>,
}

impl Figure {
    /// The same of other work than the bench's own.
    pub(super) fn of_work(self, records: u64, backlog: u64, in_flight: u64) -> Self {
        Self { records, backlog, in_flight, settled: None, ..self }
    }
}

/// What is measured.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) records: u64,
    pub(super) backlog: u64,
    pub(super) settled: u64,
    pub(super) in_flight: u64,
    pub(super) http: u64,
    pub(super) idle_seconds: f64,
    /// A journal on a server; then nothing else is measured.
    pub(super) server: Option<PathBuf>,
    pub(super) folder: PathBuf,
}

pub(super) type Show<'a> = dyn FnMut(Figure) -> Result<(), Failed> + 'a;

impl Bench {
    pub(super) fn figure(&self, figure: &'static str, value: f64, unit: &'static str) -> Figure {
        let Self { records, backlog, in_flight, .. } = *self;
        let settled = (self.settled > 0).then_some(self.settled);
        Figure { figure, value, unit, records, backlog, in_flight, settled }
    }

    /// A folder for a journal beside the first one's; gone when it is dropped.
    pub(super) fn place(&self) -> Result<TempDir, Failed> {
        tempfile::tempdir_in(&self.folder).map_err(unwritable)
    }

    /// Measures all of it. One engine runs at a time.
    pub(super) async fn run(&self, show: &mut Show<'_>) -> Result<(), Failed> {
        self.one_journal(show).await?;
        if self.server.is_some() {
            return Ok(());
        }
        self.rounds(show).await?;
        self.lives_over_http(show).await?;
        self.idle(show).await
    }

    async fn one_journal(&self, show: &mut Show<'_>) -> Result<(), Failed> {
        let journal = self.folder.join("journal");
        let commits = Commits::default();
        let timed = commits.clone();
        let place = self.server.as_deref().unwrap_or(&journal);
        let builder = place::engine(place)?.wrapping_store(move |store| timed.timed(store));
        let engine = builder.open().await?;
        if engine.head().sequence > 0 {
            return Err(Failed::Usage("a journal to measure has to be a new one"));
        }
        let flow = engine.dispatch().clone();
        let first = self.backlog.max(1);
        let watch = Stopwatch::start();
        enqueue(&flow, 0..first, self.in_flight).await?;
        show(self.figure("enqueue_per_second", first as f64 / watch.seconds(), "1/s"))?;
        settle(&flow, self.settled, self.in_flight).await?;
        if let Some(bytes) = crate::metrics::resident_bytes() {
            show(self.figure("resident_bytes", bytes, "bytes"))?;
        }
        let before = engine.disk_bytes()?;
        let watch = Stopwatch::start();
        let mut each = lives(&flow, first..first + self.records, self.in_flight).await?;
        let lives = self.records as f64 / watch.seconds();
        show(self.figure("lives_per_second", lives, "1/s"))?;
        let life = quantile(&mut each, 0.5).unwrap_or(f64::NAN);
        show(self.figure("life_p50_seconds", life, "s"))?;
        let grown = engine.disk_bytes()?.saturating_sub(before) as f64;
        show(self.figure("disk_bytes_per_life", grown / self.records as f64, "bytes"))?;
        let watch = Stopwatch::start();
        enqueue_many(&flow, first + self.records..first + 2 * self.records).await?;
        let rate = self.records as f64 / watch.seconds();
        show(self.figure("enqueue_many_per_second", rate, "1/s"))?;
        self.claims(&flow, &commits, show).await?;
        self.health(&flow, show).await?;
        let (records, disk) = (engine.head().sequence, engine.disk_bytes()? as f64);
        engine.close().await;
        if self.server.is_some() {
            return Ok(());
        }
        self.reopen(&journal, show).await?;
        let archived = self.archive_bytes(&journal)?;
        show(self.figure("disk_of_record_bytes", disk / archived, "ratio"))?;
        let bytes_per_record = archived / records as f64;
        self.raw_limit(bytes_per_record, lives, show)?;
        self.raw_single(bytes_per_record, life, show)
    }

    /// One claim at a time, so that the commits meanwhile are the claim's own.
    async fn claims(
        &self,
        flow: &Handle<Dispatch>,
        commits: &Commits,
        show: &mut Show<'_>,
    ) -> Result<(), Failed> {
        let (mut whole, mut beside) = (Vec::new(), Vec::new());
        for _ in 0..self.backlog.min(1_000) {
            let (watch, before) = (Stopwatch::start(), commits.seconds());
            let Some(claim) = flow.claim("bench", LEASE_SECONDS).await? else { break };
            let seconds = watch.seconds();
            whole.push(seconds);
            beside.push(seconds - (commits.seconds() - before));
            flow.complete(&claim, answer(claim.request().event_id.as_str())).await?;
        }
        if let Some(p99) = quantile(&mut whole, 0.99) {
            show(self.figure("claim_p99_seconds", p99, "s"))?;
        }
        if let Some(p99) = quantile(&mut beside, 0.99) {
            show(self.figure("claim_beside_commit_p99_seconds", p99, "s"))?;
        }
        Ok(())
    }

    async fn health(&self, flow: &Handle<Dispatch>, show: &mut Show<'_>) -> Result<(), Failed> {
        let mut seconds = Vec::new();
        for _ in 0..1_000 {
            let watch = Stopwatch::start();
            flow.health().await?;
            seconds.push(watch.seconds());
        }
        let median = quantile(&mut seconds, 0.5).unwrap_or(f64::NAN);
        show(self.figure("health_seconds", median, "s"))
    }
}

#[allow(clippy::needless_pass_by_value)] // as `map_err` has it
pub(super) fn unwritable(_: std::io::Error) -> Failed {
    Failed::Output("the bench's own folder cannot be written")
}

pub(super) fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let place = ((values.len() as f64 * share) as usize).min(values.len().checked_sub(1)?);
    values.get(place).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_nothing_and_of_something() {
        assert_eq!(quantile(&mut [], 0.99), None);
        assert_eq!(quantile(&mut [3.0, 1.0, 2.0], 0.5), Some(2.0));
        assert_eq!(quantile(&mut [3.0, 1.0, 2.0], 0.99), Some(3.0));
    }
}
