//! The figures of `leasehold bench`.
//!
//! Owns the work that is measured. Every figure is taken from the engine as a host uses it, on a real
//! journal, fully durable.

use super::failure::Failed;
use crate::audit::{Source, audit};
use crate::clock::Stopwatch;
use crate::engine::Engine;
use crate::error::Error;
use crate::handle::Handle;
use leasehold_actors::flows::dispatch::Dispatch;
use serde::Serialize;
use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinSet;

/// Records per sync of the raw limit.
const RAW_BATCH: u64 = 256;
/// Single appends that are timed.
const RAW_SINGLES: u64 = 500;
/// Registered, claimed, completed.
const RECORDS_OF_A_LIFE: f64 = 3.0;
/// Changes in one call of `enqueue_many`.
const MANY: u64 = 10_000;

/// One line.
#[derive(Debug, Serialize)]
pub(super) struct Figure {
    figure: &'static str,
    value: f64,
    unit: &'static str,
    records: u64,
    backlog: u64,
    in_flight: u64,
}

/// What is measured.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) records: u64,
    pub(super) backlog: u64,
    pub(super) in_flight: u64,
    pub(super) folder: PathBuf,
}

type Show<'a> = dyn FnMut(Figure) -> Result<(), Failed> + 'a;

impl Bench {
    fn figure(&self, figure: &'static str, value: f64, unit: &'static str) -> Figure {
        let Self { records, backlog, in_flight, .. } = *self;
        Figure { figure, value, unit, records, backlog, in_flight }
    }

    pub(super) async fn run(&self, show: &mut Show<'_>) -> Result<(), Failed> {
        let journal = self.folder.join("journal");
        let engine = Engine::builder(&journal).open().await?;
        let flow = engine.dispatch().clone();
        let watch = Stopwatch::start();
        self.enqueue(&flow, 0, self.backlog.max(1)).await?;
        let rate = self.backlog.max(1) as f64 / watch.seconds();
        show(self.figure("enqueue_per_second", rate, "1/s"))?;
        if let Some(bytes) = resident_bytes() {
            show(self.figure("resident_bytes", bytes, "bytes"))?;
        }
        let before = engine.disk_bytes()?;
        let watch = Stopwatch::start();
        let mut each = self.lives(&flow, self.backlog.max(1)).await?;
        let lives = self.records as f64 / watch.seconds();
        show(self.figure("lives_per_second", lives, "1/s"))?;
        let life = quantile(&mut each, 0.5).unwrap_or(f64::NAN);
        show(self.figure("life_p50_seconds", life, "s"))?;
        let grown = engine.disk_bytes()?.saturating_sub(before) as f64;
        show(self.figure("disk_bytes_per_life", grown / self.records as f64, "bytes"))?;
        self.enqueue_many(&flow, self.backlog.max(1) + self.records, show).await?;
        self.claims(&flow, show).await?;
        self.health(&flow, show).await?;
        let (records, disk) = (engine.head().sequence, engine.disk_bytes()? as f64);
        engine.close().await;
        self.reopen(&journal, show).await?;
        let archived = self.archive_bytes()?;
        show(self.figure("disk_of_record_bytes", disk / archived, "ratio"))?;
        let bytes_per_record = archived / records as f64;
        self.raw_limit(bytes_per_record, lives, show)?;
        self.raw_single(bytes_per_record, life, show)
    }

    /// Enqueues changes number `first` to `first + count - 1`, as many side by side as asked.
    async fn enqueue(&self, flow: &Handle<Dispatch>, first: u64, count: u64) -> Result<(), Failed> {
        let next = Arc::new(AtomicU64::new(first));
        self.side_by_side(|| {
            let (flow, next) = (flow.clone(), Arc::clone(&next));
            async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= first + count {
                        return Ok(());
                    }
                    flow.enqueue(change(number), 5).await?;
                }
            }
        })
        .await
    }

    /// Enqueues as many changes again, from one caller.
    async fn enqueue_many(
        &self,
        flow: &Handle<Dispatch>,
        first: u64,
        show: &mut Show<'_>,
    ) -> Result<(), Failed> {
        let watch = Stopwatch::start();
        for from in (first..first + self.records).step_by(MANY as usize) {
            let numbers = from..(from + MANY).min(first + self.records);
            for enqueued in flow.enqueue_many(numbers.map(change), 5).await {
                enqueued?;
            }
        }
        let rate = self.records as f64 / watch.seconds();
        show(self.figure("enqueue_many_per_second", rate, "1/s"))
    }

    /// Lives: each enqueues one change, leases the oldest that waits, and settles it. Answers the seconds
    /// of each.
    async fn lives(&self, flow: &Handle<Dispatch>, first: u64) -> Result<Vec<f64>, Failed> {
        let next = Arc::new(AtomicU64::new(first));
        let end = first + self.records;
        let each = Arc::new(Mutex::new(Vec::with_capacity(self.records as usize)));
        self.side_by_side(|| {
            let (flow, next, each) = (flow.clone(), Arc::clone(&next), Arc::clone(&each));
            async move {
                let mut seconds = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= end {
                        each.lock().unwrap_or_else(PoisonError::into_inner).extend(seconds);
                        return Ok(());
                    }
                    let watch = Stopwatch::start();
                    flow.enqueue(change(number), 5).await?;
                    settle_one(&flow).await?;
                    seconds.push(watch.seconds());
                }
            }
        })
        .await?;
        Ok(std::mem::take(&mut *each.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    async fn side_by_side<T>(&self, worker: impl Fn() -> T) -> Result<(), Failed>
    where
        T: Future<Output = Result<(), Error>> + Send + 'static,
    {
        let mut workers = JoinSet::new();
        for _ in 0..self.in_flight {
            workers.spawn(worker());
        }
        while let Some(done) = workers.join_next().await {
            done.map_err(|_| Failed::Runtime)??;
        }
        Ok(())
    }

    async fn claims(&self, flow: &Handle<Dispatch>, show: &mut Show<'_>) -> Result<(), Failed> {
        let mut seconds = Vec::new();
        for _ in 0..self.backlog.min(1_000) {
            let watch = Stopwatch::start();
            let Some(claim) = flow.claim("bench", 600.0).await? else { break };
            seconds.push(watch.seconds());
            flow.complete(&claim, answer(claim.request().event_id.as_str())).await?;
        }
        if let Some(p99) = quantile(&mut seconds, 0.99) {
            show(self.figure("claim_p99_seconds", p99, "s"))?;
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

    async fn reopen(&self, journal: &Path, show: &mut Show<'_>) -> Result<(), Failed> {
        let watch = Stopwatch::start();
        let engine = Engine::builder(journal).open().await?;
        let seconds = watch.seconds();
        engine.close().await;
        show(self.figure("open_seconds", seconds, "s"))?;
        let source = Source::open(journal)?;
        let watch = Stopwatch::start();
        let report = audit(&source, None);
        let rate = report.records as f64 / watch.seconds();
        if !report.clean {
            return Err(Failed::Output("the audit of the bench's own journal is not clean"));
        }
        show(self.figure("audit_events_per_second", rate, "1/s"))
    }

    /// Bytes of all records: of an archive, which has no database around it.
    fn archive_bytes(&self) -> Result<f64, Failed> {
        let archive = self.folder.join("archive");
        let mut out = File::create(&archive).map_err(unwritable)?;
        Source::open(&self.folder.join("journal"))?.export(&mut out)?;
        Ok(archive.metadata().map_err(unwritable)?.len() as f64)
    }

    /// The same bytes, appended to a preallocated file in batches of 256 lives with fdatasync.
    fn raw_limit(
        &self,
        bytes_per_record: f64,
        lives: f64,
        show: &mut Show<'_>,
    ) -> Result<(), Failed> {
        let batch = (bytes_per_record * RECORDS_OF_A_LIFE) as usize * RAW_BATCH as usize;
        let batches = self.records.div_ceil(RAW_BATCH);
        let seconds: f64 = self.raw_appends(batch, batches)?.into_iter().sum();
        let raw = (batches * RAW_BATCH) as f64 / seconds;
        show(self.figure("raw_limit_lives_per_second", raw, "1/s"))?;
        show(self.figure("lives_of_raw_limit", lives / raw, "ratio"))
    }

    /// One record at a time, each with fdatasync.
    fn raw_single(
        &self,
        bytes_per_record: f64,
        life: f64,
        show: &mut Show<'_>,
    ) -> Result<(), Failed> {
        let mut seconds = self.raw_appends(bytes_per_record as usize, RAW_SINGLES)?;
        let single = quantile(&mut seconds, 0.5).unwrap_or(f64::NAN);
        show(self.figure("raw_single_append_p50_seconds", single, "s"))?;
        show(self.figure("life_in_raw_single_appends", life / single, "ratio"))
    }

    /// The seconds of each append of so many bytes to a preallocated file, synced.
    fn raw_appends(&self, bytes: usize, times: u64) -> Result<Vec<f64>, Failed> {
        let batch = vec![0x5a; bytes];
        let mut file = File::create(self.folder.join("raw")).map_err(unwritable)?;
        let room = vec![0; bytes];
        for _ in 0..times {
            file.write_all(&room).map_err(unwritable)?;
        }
        file.sync_all().map_err(unwritable)?;
        file.seek(SeekFrom::Start(0)).map_err(unwritable)?;
        let mut seconds = Vec::new();
        for _ in 0..times {
            let watch = Stopwatch::start();
            file.write_all(&batch).map_err(unwritable)?;
            file.sync_data().map_err(unwritable)?;
            seconds.push(watch.seconds());
        }
        Ok(seconds)
    }
}

#[allow(clippy::needless_pass_by_value)] // as `map_err` has it
fn unwritable(_: std::io::Error) -> Failed {
    Failed::Output("the raw file cannot be written")
}

async fn settle_one(flow: &Handle<Dispatch>) -> Result<(), Error> {
    if let Some(claim) = flow.claim("bench", 600.0).await? {
        flow.complete(&claim, answer(claim.request().event_id.as_str())).await?;
    }
    Ok(())
}

/// A change of the size of the contract's example: 521 bytes.
fn change(number: u64) -> String {
    format!(
        "{{\"event_id\":\"evt-{number:010}\",\"localization\":{{\"content_type\":\"marketing\",\
         \"glossary_version\":\"glossary-4\",\"model_id\":\"writer\",\"model_version\":\"2031-03\",\
         \"policy_version\":\"policy-2\",\"provider_id\":\"inhouse\",\"software_version\":\"1.4.0\",\
         \"source_id\":\"landing.intro\",\"source_locale\":\"de-AT\",\"source_revision\":\"rev 12\",\
         \"source_text\":\"Frischer Kaffee für 3 €.\\nJeden Tag „neu“.\",\
         \"target_locales\":[\"fi-FI\",\"mt-MT\"]}},\"schema\":\"blun.cms-content-change.v2\",\
         \"site_id\":\"shop-north\",\"source_sequence\":{},\"website_version\":\"web-2031.4\"}}",
        number + 1
    )
}

fn answer(event_id: &str) -> String {
    format!(
        "{{\"event_id\":\"{event_id}\",\"inserted_jobs\":2,\"job_count\":2,\"plan_id\":\"plan-6f1c\",\
         \"schema\":\"blun.website-localization-api.v2\",\"status\":\"enqueued\"}}"
    )
}

fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let place = ((values.len() as f64 * share) as usize).min(values.len().checked_sub(1)?);
    values.get(place).copied()
}

/// Memory of this process, where the system tells.
fn resident_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kibibytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_actors::contract::change::Change;

    #[test]
    fn the_measured_change_is_a_valid_one_of_the_examples_size() {
        let change = Change::parse(change(7).as_bytes()).expect("a change");
        assert!((515..=530).contains(&change.payload.as_bytes().len()));
    }

    #[test]
    fn quantiles_of_nothing_and_of_something() {
        assert_eq!(quantile(&mut [], 0.99), None);
        assert_eq!(quantile(&mut [3.0, 1.0, 2.0], 0.5), Some(2.0));
        assert_eq!(quantile(&mut [3.0, 1.0, 2.0], 0.99), Some(3.0));
    }
}
