//! How everything stands, in one document: for the dashboard, for `top`, for whoever asks the door.
//!
//! Owns its shape and what follows from the figures: whether all is well, and what an operator can do
//! about what is stuck. Pure: figures, records and the time come in. Must not know HTTP or a journal.

mod rings;
mod stuck;
mod verdict;

pub use rings::Rings;
pub use stuck::{StuckFacts, StuckRecord, StuckState};
pub use verdict::Verdict;

use crate::destination::DestinationView;
use crate::pages::Tone;
use leasehold_actors::control::PausedScope;
use leasehold_actors::destination::GateState;
use leasehold_actors::health::Depths;
use leasehold_actors::record::FlowTag;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Length of a bucket of attempts, in seconds.
pub const BUCKET_SECONDS: f64 = 10.0;
/// Buckets that are kept.
pub const BUCKETS: usize = 60;
/// Stuck records that are told of.
pub const STUCK_MAX: usize = 20;

/// Whether somebody has to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// As hoped.
    Ok,
    /// Something failed, is damaged, or waits for an operator.
    Blocked,
}

impl Standing {
    /// In words, and how they look.
    #[must_use]
    pub fn told(self) -> (&'static str, Tone) {
        match self {
            Self::Ok => ("ok", Tone::Fine),
            Self::Blocked => ("blocked", Tone::Trouble),
        }
    }
}

/// How everything stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Overview {
    /// When, in seconds since 1970.
    pub at: f64,
    /// The program's version.
    pub version: String,
    /// The journal.
    pub journal: JournalOverview,
    /// `blocked` when any flow is.
    pub status: Standing,
    /// Every flow, in the order in which they hand over.
    pub flows: Vec<FlowOverview>,
    /// The other sides; empty where nothing limits the calls to them.
    pub destinations: Vec<DestinationOverview>,
    /// What is stuck, the newest first, at most [`STUCK_MAX`].
    pub stuck: Vec<StuckRecord>,
    /// What an operator paused.
    pub paused: Vec<PausedOverview>,
}

/// The journal of an [`Overview`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalOverview {
    /// Its id, 32 hex digits.
    pub id: String,
    /// The last record that is durable.
    pub sequence: u64,
    /// The hash of the last frame, 64 hex digits.
    pub head: String,
    /// Bytes it takes on disk.
    pub disk_bytes: u64,
}

/// One flow of an [`Overview`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowOverview {
    /// Its name.
    pub flow: String,
    /// As its health says.
    pub status: Standing,
    /// Records in each state, by the flow's own names.
    pub counts: BTreeMap<String, u64>,
    /// Records that could be claimed now. Of what is paused, those that no claim came by yet count too: a
    /// pause costs nothing then, however much waits behind it.
    pub due: u64,
    /// How long the one is due that is due longest; null when none is.
    pub oldest_due_age_seconds: Option<f64>,
    /// When the next thing has to be done, in seconds since 1970; null when nothing waits.
    pub next_at: Option<f64>,
    /// Records a worker is at.
    pub in_flight: u64,
    /// Records that wait for another one or for an operator.
    pub held: u64,
    /// Records that do not replay.
    pub quarantined: u64,
    /// Records that settled in each of the last [`BUCKETS`] buckets, oldest first.
    pub throughput: Vec<u64>,
    /// Attempts that failed for now, likewise.
    pub retries: Vec<u64>,
}

/// How calls to one side are let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DestinationState {
    /// Calls go through.
    Closed,
    /// None goes through.
    Open,
    /// One goes through, to see.
    HalfOpen,
    /// More and more go through.
    Recovering,
}

impl DestinationState {
    /// In words, and how they look.
    #[must_use]
    pub fn told(self) -> (&'static str, Tone) {
        match self {
            Self::Closed => ("calls go through", Tone::Fine),
            Self::Open => ("no call goes through", Tone::Trouble),
            Self::HalfOpen => ("one call is tried", Tone::Waiting),
            Self::Recovering => ("recovering", Tone::Waiting),
        }
    }
}

/// One other side of an [`Overview`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DestinationOverview {
    /// `cms`, `receiver` or `source`.
    pub name: String,
    /// How calls are let through.
    pub state: DestinationState,
    /// Calls under way.
    pub in_flight: u64,
    /// Calls that may be under way at once.
    pub in_flight_max: u64,
    /// Workers that wait to call.
    pub waiting: u64,
    /// Seconds until one call may find out, and a `Retry-After` is over; null while calls go through.
    pub opens_in_seconds: Option<f64>,
    /// Calls that failed since the last one that did not.
    pub failures_in_a_row: u64,
    /// Code of the last failure, whenever that was.
    pub last_error_code: Option<String>,
}

impl From<DestinationView> for DestinationOverview {
    fn from(view: DestinationView) -> Self {
        Self {
            name: view.name.to_owned(),
            state: match view.state {
                GateState::Closed => DestinationState::Closed,
                GateState::Open => DestinationState::Open,
                GateState::HalfOpen => DestinationState::HalfOpen,
                GateState::Recovering => DestinationState::Recovering,
            },
            in_flight: view.in_flight as u64,
            in_flight_max: view.in_flight_max as u64,
            waiting: view.waiting as u64,
            // Nothing goes through before the later of the two.
            opens_in_seconds: [view.probes_in_seconds, view.retry_in_seconds]
                .into_iter()
                .flatten()
                .reduce(f64::max),
            failures_in_a_row: view.failures_in_a_row.into(),
            last_error_code: view.last_error_code.map(|code| code.to_string()),
        }
    }
}

/// Something that is paused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PausedOverview {
    /// A flow, a site or a destination.
    pub scope: String,
    /// Since when, in seconds since 1970.
    pub since: f64,
    /// Who asked.
    pub by: String,
    /// Why.
    pub why: String,
}

impl From<PausedScope> for PausedOverview {
    fn from(paused: PausedScope) -> Self {
        let PausedScope { scope, since, intervention } = paused;
        Self {
            scope: scope.to_string(),
            since: since.seconds(),
            by: intervention.by.as_str().to_owned(),
            why: intervention.why.as_str().to_owned(),
        }
    }
}

/// What a flow's health says, as far as an overview needs it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct HealthFigures {
    /// Its verdict.
    pub status: Standing,
    /// Records in each state.
    pub counts: BTreeMap<String, u64>,
    /// Records that do not replay.
    pub quarantined: u64,
}

/// Everything known of one flow.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowFigures {
    /// Which.
    pub flow: FlowTag,
    /// Its health.
    pub health: HealthFigures,
    /// What waits.
    pub depths: Depths,
    /// When the next thing has to be done.
    pub next_at: Option<f64>,
}

/// What holds calls back beside the records themselves.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sides {
    /// The other sides that are limited.
    pub destinations: Vec<DestinationOverview>,
    /// What an operator paused.
    pub paused: Vec<PausedOverview>,
}

/// Puts an overview together.
#[must_use]
pub fn assemble(
    at: f64,
    journal: JournalOverview,
    flows: Vec<FlowFigures>,
    sides: Sides,
    rings: &Rings,
    stuck: Vec<StuckRecord>,
) -> Overview {
    let flows: Vec<FlowOverview> =
        flows.into_iter().map(|flow| overview(flow, rings, at)).collect();
    let blocked = flows.iter().any(|flow| flow.status == Standing::Blocked);
    Overview {
        at,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        journal,
        status: if blocked { Standing::Blocked } else { Standing::Ok },
        flows,
        destinations: sides.destinations,
        stuck,
        paused: sides.paused,
    }
}

fn overview(figures: FlowFigures, rings: &Rings, at: f64) -> FlowOverview {
    let FlowFigures { flow, health, depths, next_at } = figures;
    let (throughput, retries) = rings.read(flow, at);
    FlowOverview {
        flow: flow.name().to_owned(),
        status: health.status,
        counts: health.counts,
        due: depths.due,
        oldest_due_age_seconds: depths.oldest_due_at.map(|due| (at - due.seconds()).max(0.0)),
        next_at,
        in_flight: depths.leased,
        held: depths.held,
        quarantined: health.quarantined,
        throughput,
        retries,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_actors::contract::time::Timestamp;

    pub(super) fn figures(flow: FlowTag, status: Standing) -> FlowFigures {
        let health = HealthFigures { status, counts: BTreeMap::new(), quarantined: 0 };
        let depths = Depths { due: 2, oldest_due_at: Timestamp::new(940.0), leased: 1, held: 0 };
        FlowFigures { flow, health, depths, next_at: Some(1000.0) }
    }

    pub(super) fn journal() -> JournalOverview {
        JournalOverview { id: "1".into(), sequence: 3, head: "2".into(), disk_bytes: 4 }
    }

    #[test]
    fn one_blocked_flow_blocks_the_whole() {
        for (status, whole) in
            [(Standing::Ok, Standing::Ok), (Standing::Blocked, Standing::Blocked)]
        {
            let flows =
                vec![figures(FlowTag::Dispatch, Standing::Ok), figures(FlowTag::Delivery, status)];
            let overview =
                assemble(1000.0, journal(), flows, Sides::default(), &Rings::default(), Vec::new());
            assert_eq!(overview.status, whole);
            assert_eq!(overview.flows[1].flow, "delivery");
            assert_eq!(overview.flows[0].oldest_due_age_seconds, Some(60.0));
        }
    }

    #[test]
    fn an_overview_reads_back_what_it_says() {
        let flows = vec![figures(FlowTag::Dispatch, Standing::Blocked)];
        let stuck = vec![StuckRecord {
            flow: "dispatch".to_owned(),
            id: Some("a".to_owned()),
            state: StuckState::Failed,
            since: Some(1.0),
            code: Some("network".to_owned()),
            why: "an operator".to_owned(),
            action: "curl".to_owned(),
        }];
        let overview =
            assemble(1000.0, journal(), flows, Sides::default(), &Rings::default(), stuck);
        let text = serde_json::to_string(&overview).expect("JSON");
        assert_eq!(serde_json::from_str::<Overview>(&text).expect("an overview"), overview);
        assert!(text.contains("\"status\":\"blocked\"") && text.contains("\"state\":\"failed\""));
    }

    #[test]
    fn nothing_goes_through_before_the_later_of_a_breaker_and_a_retry_after() {
        let view = |probes_in_seconds, retry_in_seconds| DestinationView {
            name: "cms",
            state: GateState::Open,
            in_flight: 0,
            in_flight_allowed: 0,
            in_flight_max: 64,
            tokens: None,
            waiting: 0,
            probes_in_seconds,
            retry_in_seconds,
            failures_in_a_row: 10,
            last_error_code: None,
        };
        for (probes, retry, opens) in [
            (Some(5.0), Some(3600.0), Some(3600.0)),
            (Some(5.0), None, Some(5.0)),
            (None, Some(7.0), Some(7.0)),
            (None, None, None),
        ] {
            assert_eq!(DestinationOverview::from(view(probes, retry)).opens_in_seconds, opens);
        }
    }
}
