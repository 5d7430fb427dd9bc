//! Metrics: what is counted, under which names, in which units.
//!
//! Owns every name and its description, and the stopwatch around a commit. Labels are flows, states and
//! outcomes and nothing else: an id or a code of the other side would make a series of its own.
//!
//! Recorded through the facade `metrics`: a host brings whatever recorder it likes and calls
//! [`describe`]; without one a count is one atomic read. [`Prometheus`] is the recorder of `serve`.

use crate::clock::Stopwatch;
use crate::overview::{FlowOverview, Overview, Standing};
use leasehold_actors::record::{FlowTag, StateKind};
use leasehold_journal::{Append, AppendError, JournalError, Placed, Store};
use metrics::{Key, KeyName, Label, Metadata, Unit, with_recorder};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::sync::LazyLock;

/// Registrations through a handle, by flow and outcome: `new` or `known`. Hand-overs are not among them.
pub const REGISTRATIONS: &str = "leasehold_registrations_total";
/// Leases given out, by flow.
pub const CLAIMS: &str = "leasehold_claims_total";
/// Attempts settled, by flow and outcome: `completed`, `watched`, `retried`, `failed` or `released`.
pub const SETTLEMENTS: &str = "leasehold_settlements_total";
/// Length of a call to the other side, all its requests together, by flow.
pub const CALL_DURATION: &str = "leasehold_call_duration_seconds";
/// Time until a group of records is durable.
pub const COMMIT_DURATION: &str = "leasehold_commit_duration_seconds";
/// The last record that is durable.
pub const JOURNAL_SEQUENCE: &str = "leasehold_journal_sequence";
/// Bytes the journal takes on disk.
pub const JOURNAL_DISK: &str = "leasehold_journal_disk_bytes";
/// Records, by flow and state.
pub const RECORDS: &str = "leasehold_records";
/// 1 for a flow whose health is blocked.
pub const BLOCKED: &str = "leasehold_flow_blocked";
/// Records that could be claimed now, by flow; of what is paused, those that no claim came by yet too.
pub const DUE: &str = "leasehold_due_records";
/// Records that wait for another one or for an operator, by flow.
pub const HELD: &str = "leasehold_held_records";
/// Records that do not replay, by flow.
pub const QUARANTINED: &str = "leasehold_quarantined_records";
/// How long the record is due that is due longest, by flow; 0 when none is.
pub const OLDEST_DUE_AGE: &str = "leasehold_oldest_due_age_seconds";
/// Memory of the process that is in use.
pub const RESIDENT: &str = "process_resident_memory_bytes";
/// Files and connections the process has open.
pub const OPEN_FDS: &str = "process_open_fds";

/// Where the buckets of durations end, in seconds.
const BUCKETS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

#[derive(Debug, Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// Every metric there is.
const ALL: [(&str, Kind, Unit, &str); 15] = [
    (REGISTRATIONS, Kind::Counter, Unit::Count, "Registrations asked for, new or known"),
    (CLAIMS, Kind::Counter, Unit::Count, "Leases given out"),
    (SETTLEMENTS, Kind::Counter, Unit::Count, "Attempts settled, by what came of them"),
    (CALL_DURATION, Kind::Histogram, Unit::Seconds, "Length of a call to the other side, seconds"),
    (COMMIT_DURATION, Kind::Histogram, Unit::Seconds, "Time until records are durable, seconds"),
    (JOURNAL_SEQUENCE, Kind::Gauge, Unit::Count, "The last record that is durable"),
    (JOURNAL_DISK, Kind::Gauge, Unit::Bytes, "Bytes the journal takes on disk"),
    (RECORDS, Kind::Gauge, Unit::Count, "Records in each state"),
    (BLOCKED, Kind::Gauge, Unit::Count, "1 when the flow needs somebody to look"),
    (
        DUE,
        Kind::Gauge,
        Unit::Count,
        "Records that could be claimed now, with those paused ones no claim came by yet",
    ),
    (HELD, Kind::Gauge, Unit::Count, "Records that wait for another one or for an operator"),
    (QUARANTINED, Kind::Gauge, Unit::Count, "Records that do not replay"),
    (OLDEST_DUE_AGE, Kind::Gauge, Unit::Seconds, "How long the oldest due record is due, seconds"),
    (RESIDENT, Kind::Gauge, Unit::Bytes, "Memory of the process that is in use, bytes"),
    (OPEN_FDS, Kind::Gauge, Unit::Count, "Files and connections the process has open"),
];

/// The name of every metric.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.into_iter().map(|(name, ..)| name)
}

/// Tells the recorder of this process what every metric means and its unit. Call it once, after the
/// recorder was set.
pub fn describe() {
    for (name, kind, unit, text) in ALL {
        let (name, unit) = (KeyName::from_const_str(name), Some(unit));
        with_recorder(|recorder| match kind {
            Kind::Counter => recorder.describe_counter(name, unit, text.into()),
            Kind::Gauge => recorder.describe_gauge(name, unit, text.into()),
            Kind::Histogram => recorder.describe_histogram(name, unit, text.into()),
        });
    }
}

static METADATA: Metadata<'static> =
    Metadata::new("leasehold", metrics::Level::INFO, Some("leasehold"));

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Completed,
    Watched,
    Retried,
    Failed,
    Released,
}

impl Outcome {
    const ALL: [Self; 5] =
        [Self::Completed, Self::Watched, Self::Retried, Self::Failed, Self::Released];

    fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Watched => "watched",
            Self::Retried => "retried",
            Self::Failed => "failed",
            Self::Released => "released",
        }
    }

    /// What a settled attempt came to, by the state it left; `None` for a state no attempt leaves.
    fn of(left: StateKind) -> Option<Self> {
        match left {
            StateKind::Completed => Some(Self::Completed),
            StateKind::Watching => Some(Self::Watched),
            StateKind::RetryWait => Some(Self::Retried),
            StateKind::Failed => Some(Self::Failed),
            StateKind::Pending => Some(Self::Released),
            StateKind::Leased | StateKind::Dismissed | StateKind::Quarantined => None,
        }
    }
}

/// The keys of one flow, made once: a count makes none.
struct FlowKeys {
    new: Key,
    known: Key,
    claims: Key,
    calls: Key,
    settlements: [Key; 5],
}

static KEYS: LazyLock<[FlowKeys; 5]> = LazyLock::new(|| FlowTag::ALL.map(FlowKeys::of));
static COMMITS: Key = Key::from_static_name(COMMIT_DURATION);

impl FlowKeys {
    fn of(flow: FlowTag) -> Self {
        let outcome = |name, outcome| key(name, flow, Some(("outcome", outcome)));
        Self {
            new: outcome(REGISTRATIONS, "new"),
            known: outcome(REGISTRATIONS, "known"),
            claims: key(CLAIMS, flow, None),
            calls: key(CALL_DURATION, flow, None),
            settlements: Outcome::ALL.map(|ended| outcome(SETTLEMENTS, ended.name())),
        }
    }
}

fn key(name: &'static str, flow: FlowTag, second: Option<(&'static str, &'static str)>) -> Key {
    let labels = [Some(("flow", flow.name())), second];
    let labels = labels.into_iter().flatten();
    Key::from_parts(
        name,
        labels.map(|(key, value)| Label::from_static_parts(key, value)).collect::<Vec<_>>(),
    )
}

fn keys(flow: FlowTag) -> &'static FlowKeys {
    &KEYS[flow as usize - 1]
}

fn count(key: &Key) {
    with_recorder(|recorder| recorder.register_counter(key, &METADATA).increment(1));
}

fn measure(key: &Key, seconds: f64) {
    with_recorder(|recorder| recorder.register_histogram(key, &METADATA).record(seconds));
}

fn set(key: &Key, value: f64) {
    with_recorder(|recorder| recorder.register_gauge(key, &METADATA).set(value));
}

/// A registration was answered.
pub(crate) fn registered(flow: FlowTag, new: bool) {
    let keys = keys(flow);
    count(if new { &keys.new } else { &keys.known });
}

/// A lease was given out.
pub(crate) fn claimed(flow: FlowTag) {
    count(&keys(flow).claims);
}

/// A call ended, however it did.
pub(crate) fn called(flow: FlowTag, seconds: f64) {
    measure(&keys(flow).calls, seconds);
}

/// An attempt was settled and left its record in this state.
pub(crate) fn settled(flow: FlowTag, left: Option<StateKind>) {
    if let Some(outcome) = left.and_then(Outcome::of) {
        count(&keys(flow).settlements[outcome as usize]);
    }
}

/// A lease was given back. Its state cannot tell: the record is as it was before.
pub(crate) fn released(flow: FlowTag) {
    count(&keys(flow).settlements[Outcome::Released as usize]);
}

/// Sets the gauges to how things stand.
pub(crate) fn set_levels(overview: &Overview) {
    set(&Key::from_static_name(JOURNAL_SEQUENCE), overview.journal.sequence as f64);
    set(&Key::from_static_name(JOURNAL_DISK), overview.journal.disk_bytes as f64);
    for (flow, tag) in overview.flows.iter().zip(FlowTag::ALL) {
        set_flow(flow, tag);
    }
    if let Some(bytes) = resident_bytes() {
        set(&Key::from_static_name(RESIDENT), bytes);
    }
    if let Some(files) = open_files() {
        set(&Key::from_static_name(OPEN_FDS), files);
    }
}

fn set_flow(flow: &FlowOverview, tag: FlowTag) {
    // A state's name comes out of our own health, so it is one of a handful.
    for (state, records) in &flow.counts {
        let labels =
            vec![Label::from_static_parts("flow", tag.name()), Label::new("state", state.clone())];
        set(&Key::from_parts(RECORDS, labels), *records as f64);
    }
    let blocked = f64::from(u8::from(flow.status == Standing::Blocked));
    for (name, value) in [
        (BLOCKED, blocked),
        (DUE, flow.due as f64),
        (HELD, flow.held as f64),
        (QUARANTINED, flow.quarantined as f64),
        (OLDEST_DUE_AGE, flow.oldest_due_age_seconds.unwrap_or(0.0)),
    ] {
        set(&key(name, tag, None), value);
    }
}

/// Memory of this process; `None` where the system does not say.
pub(crate) fn resident_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024.0)
}

/// `None` where the system does not say. The folder that is looked through is open itself.
fn open_files() -> Option<f64> {
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1) as f64)
}

/// A store whose commits are measured.
pub(crate) struct Timed<S>(pub(crate) S);

impl<S: Store> Store for Timed<S> {
    fn commit(
        &mut self,
        batch: &[Append],
    ) -> Result<Vec<Result<Placed, AppendError>>, JournalError> {
        let watch = Stopwatch::start();
        let committed = self.0.commit(batch);
        measure(&COMMITS, watch.seconds());
        committed
    }

    fn follow(&mut self) -> Result<bool, JournalError> {
        self.0.follow()
    }

    fn settle_anchor(&mut self) -> Result<(), JournalError> {
        self.0.settle_anchor()
    }

    fn leave(self: Box<Self>, note: &[u8]) -> Result<(), JournalError> {
        Box::new(self.0).leave(note)
    }
}

/// The recorder of this process that Prometheus reads; it listens nowhere by itself.
#[derive(Clone)]
pub struct Prometheus {
    handle: PrometheusHandle,
}

impl std::fmt::Debug for Prometheus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Prometheus(..)")
    }
}

impl Prometheus {
    /// Sets the recorder of this process; `None` when it has one already.
    #[must_use]
    pub fn install() -> Option<Self> {
        let durations = Matcher::Suffix("_duration_seconds".to_owned());
        let builder = PrometheusBuilder::new().set_buckets_for_metric(durations, &BUCKETS).ok()?;
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        metrics::set_global_recorder(recorder).ok()?;
        describe();
        Some(Self { handle })
    }

    /// Everything recorded, in the text format of Prometheus.
    #[must_use]
    pub fn text(&self) -> String {
        self.handle.render()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_an_attempt_can_leave_has_an_outcome_and_a_key_of_its_own() {
        let outcomes: Vec<_> = StateKind::ALL.into_iter().filter_map(Outcome::of).collect();
        assert_eq!(outcomes.len(), Outcome::ALL.len());
        for outcome in Outcome::ALL {
            assert_eq!(Outcome::ALL[outcome as usize], outcome);
        }
        for (place, flow) in FlowTag::ALL.into_iter().enumerate() {
            assert_eq!(flow as usize - 1, place);
            let labels: Vec<_> = keys(flow).claims.labels().map(|label| label.value()).collect();
            assert_eq!(labels, [flow.name()]);
        }
    }

    #[test]
    fn names_end_in_what_they_are_measured_in() {
        for (name, kind, unit, text) in ALL {
            let ending = match (kind, unit) {
                (Kind::Counter, _) => "_total",
                (Kind::Gauge | Kind::Histogram, Unit::Seconds) => "_seconds",
                (Kind::Gauge | Kind::Histogram, Unit::Bytes) => "_bytes",
                (Kind::Gauge | Kind::Histogram, _) => "",
            };
            assert!(name.ends_with(ending) && !text.is_empty(), "{name}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_process_knows_its_memory_and_its_files() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 100_000.0));
        assert!(open_files().is_some_and(|files| files >= 3.0));
    }
}
