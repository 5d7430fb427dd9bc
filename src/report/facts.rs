//! What a report is made of, read in one walk beside the audit's.
//!
//! Owns the counting. A journal that verifies only so far is told so far: the audit says where it ends.

use super::activity::Activity;
use super::operation::{Leases, Pauses};
use super::stuck::Stuck;
use crate::audit::states::AllHealth;
use crate::audit::{Damage, Pins, Report, Source, States, audit};
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::explain::{Explains, Place, View, explain_quarantined, explain_record};
use leasehold_actors::flows::all::AllFlows;
use leasehold_actors::record::event::Ending;
use leasehold_actors::record::identity::flow_of;
use leasehold_actors::record::rules::Counted;
use leasehold_actors::record::{Event, FlowTag, State};
use leasehold_actors::replay::{Replay, ReplayError, Replayed};
use leasehold_journal::walk::Item;
use leasehold_journal::{JournalError, StreamId};
use std::collections::{BTreeMap, HashMap};

/// Everything a report says.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The audit.
    pub audit: Report,
    /// Health of every flow; `None` when nothing could be read.
    pub health: Option<AllHealth>,
    /// The first and the last time of an event, in seconds since 1970.
    pub span_seconds: Option<(f64, f64)>,
    /// When records were registered, settled and failed.
    pub activity: Activity,
    /// Records that were brought here from another program's store.
    pub imported: u64,
    /// How many records took so many attempts until they were settled, of flows that submit.
    pub attempts: BTreeMap<u32, u64>,
    /// How many records took so many polls until they were settled, of flows that poll.
    pub polls: BTreeMap<u32, u64>,
    /// Failures by flow and code.
    pub failures: Vec<Failure>,
    /// How leases ended.
    pub leases: Leases,
    /// What is paused.
    pub pauses: Pauses,
    /// The records that are not done.
    pub stuck: Stuck,
}

/// Failures with one code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The flow.
    pub flow: &'static str,
    /// The code.
    pub code: String,
    /// Attempts that ended so.
    pub attempts: u64,
    /// Records that failed with it and were neither requeued nor dismissed.
    pub records: u64,
    /// The first record it happened to; `None` for one that does not replay.
    pub example: Option<String>,
}

/// What it comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Everything verifies, and every record is at its end.
    Done,
    /// Everything verifies, and what is not done is on its way.
    OnItsWay,
    /// Everything verifies, nothing needs somebody, and an operator paused something.
    Paused,
    /// Everything verifies, and something needs somebody.
    NeedsSomebody,
    /// Not everything verifies.
    DoesNotVerify,
}

impl Facts {
    /// Reads a journal or an archive.
    #[must_use]
    pub fn read(source: &Source, pins: &Pins, now: Timestamp) -> Self {
        let audit = audit(source, None);
        let mut seen = Seen::default();
        let mut flows = AllFlows::default();
        // Where it stops, the audit stopped too and says why.
        source.walk(&mut |item| {
            seen.take(&mut flows, item);
            Ok(())
        });
        let states = States { flows };
        let mut facts = Self {
            health: Some(states.health_with(now, pins)),
            span_seconds: seen.span,
            leases: seen.leases,
            pauses: Pauses::of(states.flows.controls.paused()),
            activity: std::mem::take(&mut seen.activity),
            imported: seen.imported,
            ..Self::empty(audit)
        };
        let flows = &states.flows;
        // What can be typed is not told here: a report is read where the journal may not be.
        let place = Place::folder("JOURNAL");
        for flow in FlowTag::ALL {
            let view = pins.view(flow, now, &place);
            match flow {
                FlowTag::Dispatch => facts.count(&flows.dispatch, flows, &seen, &view),
                FlowTag::Lifecycle => facts.count(&flows.lifecycle, flows, &seen, &view),
                FlowTag::Notification => facts.count(&flows.notification, flows, &seen, &view),
                FlowTag::Processing => facts.count(&flows.processing, flows, &seen, &view),
                FlowTag::Delivery => facts.count(&flows.delivery, flows, &seen, &view),
            }
        }
        facts
    }

    /// What can be said of a journal whose database cannot be opened.
    #[must_use]
    pub fn unreadable(error: &JournalError) -> Self {
        Self::empty(Report::unreadable(error))
    }

    fn empty(audit: Report) -> Self {
        Self {
            audit,
            health: None,
            span_seconds: None,
            activity: Activity::default(),
            imported: 0,
            attempts: BTreeMap::new(),
            polls: BTreeMap::new(),
            failures: Vec::new(),
            leases: Leases::default(),
            pauses: Pauses::default(),
            stuck: Stuck::default(),
        }
    }

    /// What it comes to.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let blocked = self.health.as_ref().is_some_and(|health| !health.is_ok());
        if !self.audit.clean {
            Verdict::DoesNotVerify
        } else if blocked || self.stuck.need_somebody > 0 {
            Verdict::NeedsSomebody
        } else if !self.pauses.scopes.is_empty() {
            Verdict::Paused
        } else if self.stuck.open > 0 {
            Verdict::OnItsWay
        } else {
            Verdict::Done
        }
    }

    /// Counts the records of one flow.
    fn count<F: Explains>(
        &mut self,
        replay: &Replay<F>,
        flows: &AllFlows,
        seen: &Seen,
        view: &View<'_>,
    ) {
        let mut failed: BTreeMap<&str, u64> = BTreeMap::new();
        for (stream, replayed) in replay.iter() {
            let state = match replayed {
                Replayed::Sound(state) => state,
                Replayed::Quarantined => {
                    let Damage { sequence, code, since } = seen.damage(stream);
                    let one = explain_quarantined::<F>(None, sequence, &code, since, view.place);
                    self.stuck.take(one);
                    continue;
                }
            };
            match state {
                State::Completed { record, .. } => {
                    let tries = match F::RULES.counted {
                        Counted::Leases => &mut self.attempts,
                        Counted::Failures => &mut self.polls,
                    };
                    *tries.entry(record.attempts).or_insert(0) += 1;
                }
                State::Failed { code, .. } => *failed.entry(code.as_str()).or_insert(0) += 1,
                State::Vacant
                | State::Ready { .. }
                | State::Leased { .. }
                | State::Dismissed { .. } => {}
            }
            // A settled record has nothing to explain here.
            if !matches!(state, State::Completed { .. })
                && let Some(one) = explain_record(state, flows, view)
            {
                if let Some(lost) = one.lost_leases.filter(|_| one.is_open()) {
                    let most = &mut self.leases.lost_in_a_row_max;
                    *most = (*most).max(lost.lost);
                }
                self.pauses.take(&one);
                self.stuck.take(one);
            }
        }
        self.fail(replay, seen, &failed);
    }

    /// Failures by code; `failed` counts the records that are given up with each.
    fn fail<F: Explains>(&mut self, replay: &Replay<F>, seen: &Seen, failed: &BTreeMap<&str, u64>) {
        let of_flow = seen.failures.iter().filter(|((flow, _), _)| *flow == F::TAG);
        let mut found: BTreeMap<&str, (u64, Option<String>)> = of_flow
            .map(|((_, code), (attempts, first))| {
                (code.as_str(), (*attempts, identity(replay, *first)))
            })
            .collect();
        for code in failed.keys() {
            // Its attempts are in archives that were not walked.
            found.entry(code).or_insert((0, example(replay, code)));
        }
        self.failures.extend(found.into_iter().map(|(code, (attempts, example))| Failure {
            flow: F::TAG.name(),
            code: code.to_owned(),
            attempts,
            records: failed.get(code).copied().unwrap_or(0),
            example,
        }));
    }
}

fn identity<F: Explains>(replay: &Replay<F>, stream: StreamId) -> Option<String> {
    let record = replay.get(stream)?.state()?.record()?;
    Some(F::identity(&record.binding).to_string())
}

/// The least identity of those that failed with a code.
fn example<F: Explains>(replay: &Replay<F>, wanted: &str) -> Option<String> {
    let failed = replay.iter().filter_map(|(_, replayed)| match replayed {
        Replayed::Sound(State::Failed { record, code }) if code.as_str() == wanted => {
            Some(F::identity(&record.binding).to_string())
        }
        Replayed::Sound(_) | Replayed::Quarantined => None,
    });
    failed.min()
}

/// What a walk comes by.
#[derive(Default)]
struct Seen {
    span: Option<(f64, f64)>,
    activity: Activity,
    imported: u64,
    leases: Leases,
    /// Attempts that failed, and the first record of each code.
    failures: BTreeMap<(FlowTag, String), (u64, StreamId)>,
    /// Where records stopped to replay, and why.
    damages: HashMap<StreamId, Damage>,
}

impl Seen {
    fn take(&mut self, flows: &mut AllFlows, item: Item) {
        match item {
            Item::Record { sequence, stream, record } => {
                let body = record.ok().map(|record| record.body);
                let body = body.as_deref();
                let since = flows.latest_after(stream, None);
                let broken = match flow_of(stream) {
                    Some(FlowTag::Dispatch) => self.apply(&mut flows.dispatch, stream, body),
                    Some(FlowTag::Lifecycle) => self.apply(&mut flows.lifecycle, stream, body),
                    Some(FlowTag::Notification) => {
                        self.apply(&mut flows.notification, stream, body)
                    }
                    Some(FlowTag::Processing) => self.apply(&mut flows.processing, stream, body),
                    Some(FlowTag::Delivery) => self.apply(&mut flows.delivery, stream, body),
                    // A pause or a resume; the audit names what is neither, or does not replay.
                    None => {
                        flows.apply(stream, body);
                        None
                    }
                };
                if let Some(error) = broken {
                    self.damages.entry(stream).or_insert(Damage::at(sequence, error, since));
                }
            }
            Item::Carried { stream, tip, image } => {
                let since = flows.latest_after(stream, None);
                if let Some(Err(error)) = flows.carry(stream, image.ok().as_deref()) {
                    self.damages.entry(stream).or_insert(Damage::at(tip.sequence, error, since));
                }
            }
            Item::Base(_) | Item::Frame(_) => {}
        }
    }

    /// Takes one event; answers what is wrong with it.
    fn apply<F: Explains>(
        &mut self,
        replay: &mut Replay<F>,
        stream: StreamId,
        body: Option<&[u8]>,
    ) -> Option<ReplayError> {
        let event = match replay.apply(stream, body) {
            Ok(event) => event,
            Err(error) => return Some(error),
        };
        let at = event.at().seconds();
        let (first, last) = self.span.unwrap_or((at, at));
        self.span = Some((first.min(at), last.max(at)));
        self.leases.take(&event);
        match &event {
            Event::Registered { settled, .. } => {
                self.activity.registered.push(at);
                if settled.is_some() {
                    self.activity.settled.push(at);
                }
            }
            Event::Imported { .. } => self.imported += 1,
            Event::Completed { .. } => self.activity.settled.push(at),
            Event::Failed { .. } | Event::LeaseLost { ending: Ending::Final, .. } => {
                self.activity.failed.push(at);
            }
            Event::Claimed { .. }
            | Event::Watched { .. }
            | Event::Unchanged { .. }
            | Event::Retried { .. }
            | Event::LeaseLost { ending: Ending::Retry, .. }
            | Event::Requeued { .. }
            | Event::RequeuedLater { .. }
            | Event::Dismissed { .. }
            | Event::Repinned { .. }
            | Event::Released { .. } => {}
        }
        if let Some(code) = event.code() {
            let key = (F::TAG, code.to_string());
            self.failures.entry(key).or_insert((0, stream)).0 += 1;
        }
        None
    }

    fn damage(&self, stream: StreamId) -> Damage {
        self.damages.get(&stream).cloned().unwrap_or_else(Damage::archived)
    }
}
