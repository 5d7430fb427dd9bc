//! What all parts of one simulated world share.
//!
//! Owns the clock, the randomness, the trace, the disk and the writer's queue. Must not know what an
//! actor does with them.

use super::Options;
use super::documents::{CANARY, Documents, EVENTS};
use super::flow::Handed;
use super::invariant::{Checked, I14, must};
use super::journal::{Journal, Mishap};
use super::note::Note;
use super::rng::Rng;
use super::sabotage::Sabotage;
use super::trace::Trace;
use super::witness::LOSSES_MAX;
use leasehold_actors::contract::time::{Ceiling, Timestamp};
use leasehold_actors::record::policy::Delays;
use leasehold_actors::record::{FlowTag, Identity, Policy};
use leasehold_journal::{Append, JournalId, StreamId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::{Debug, Display, Write as _};
use std::num::NonZeroU32;
use std::rc::Rc;

/// An append that waits for the writer, and whose it is.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The flow of the actor.
    pub(crate) flow: FlowTag,
    /// The actor.
    pub(crate) entity: u64,
    /// What it wants written.
    pub(crate) append: Append,
}

/// What is drawn once for a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Changes that may be dispatched.
    pub(crate) dispatched: usize,
    /// Changes that may be delivered, each with its removals.
    pub(crate) delivered: usize,
    /// The ceiling of each change's records.
    pub(crate) ceilings: [Ceiling; EVENTS],
    /// The ceiling of all records that are handed over.
    pub(crate) handed: Ceiling,
    /// Delays of all flows.
    pub(crate) policy: Policy,
}

impl Plan {
    fn draw(rng: &mut Rng) -> Self {
        let ceiling = |value: u64| Ceiling::new(value as i64).expect("1 to 20");
        let delays = Delays {
            base_delay_seconds: 2.0 + rng.seconds(8),
            max_delay_seconds: 40.0,
            poll_interval_seconds: 5.0 + rng.seconds(10),
            retry_after_max_seconds: 60.0,
            jitter_share: 0.25,
        };
        Self {
            dispatched: 1 + rng.index(EVENTS),
            delivered: 1 + rng.index(EVENTS - 1),
            ceilings: [0; EVENTS].map(|_| ceiling(1 + rng.below(4))),
            handed: ceiling(2 + rng.below(3)),
            policy: Policy::new(delays)
                .expect("delays within their limits")
                .with_unclean_losses_max(NonZeroU32::new(LOSSES_MAX)),
        }
    }
}

/// What is shared.
pub(crate) struct Shared {
    pub(crate) rng: Rng,
    /// The time on the wall, in seconds since 1970.
    pub(crate) now: f64,
    /// The latest that it ever was.
    pub(crate) latest: f64,
    pub(crate) trace: Trace,
    pub(crate) journal: Journal,
    pub(crate) documents: Rc<Documents>,
    pub(crate) plan: Plan,
    pub(crate) sabotage: Option<Sabotage>,
    /// Appends that wait for the writer.
    pub(crate) queue: VecDeque<Entry>,
    /// Registrations on their way to the next flow.
    pub(crate) handed: VecDeque<Handed>,
    /// Claims whose caller went away.
    pub(crate) gone: BTreeSet<u64>,
    /// The version of each stream that somebody was told of.
    pub(crate) acked: BTreeMap<StreamId, u32>,
    /// The last sequence number whose commit was good.
    pub(crate) committed: u64,
    /// A commit failed, and the journal was not opened since.
    pub(crate) unknown: bool,
    /// A hand-over of this life was told that the journal failed: it waits for the next open.
    pub(crate) hand_over_failed: bool,
    /// No more faults: only liveness is looked at.
    pub(crate) calm: bool,
    ticks: u64,
    said: String,
}

impl Shared {
    /// The beginning of the world of a seed.
    pub(crate) fn new(seed: u64, options: Options, documents: &Rc<Documents>) -> Self {
        let sabotage = options.sabotage;
        let mut rng = Rng::new(seed);
        let mut id = [0; 16];
        id[..8].copy_from_slice(&rng.draw().to_le_bytes());
        let plan = Plan::draw(&mut rng);
        let now = 1000.0 + rng.seconds(1000);
        Self {
            rng,
            now,
            latest: now,
            trace: Trace::new(seed),
            journal: Journal::new(JournalId(id), (options.disk)()),
            documents: Rc::clone(documents),
            plan,
            sabotage,
            queue: VecDeque::new(),
            handed: VecDeque::new(),
            gone: BTreeSet::new(),
            acked: BTreeMap::new(),
            committed: 0,
            unknown: false,
            hand_over_failed: false,
            calm: false,
            ticks: 0,
            said: String::new(),
        }
    }

    /// What every call that needs the time is given.
    pub(crate) fn time(&self) -> Timestamp {
        Timestamp::new(self.now).expect("the clock never goes below 0")
    }

    /// Counts up: the order in which things really happened, whatever the clock says.
    pub(crate) fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    /// Whether the shell was told to do this wrong.
    pub(crate) fn sabotaged(&self, sabotage: Sabotage) -> bool {
        self.sabotage == Some(sabotage)
    }

    /// Writes a line that is about no record.
    pub(crate) fn note(&mut self, note: Note) {
        let quarters = (self.now * 4.0) as u64;
        self.trace.write(note, None, quarters);
    }

    /// Writes a line about a record.
    pub(crate) fn note_of(&mut self, note: Note, flow: FlowTag, who: &Identity, number: u64) {
        self.trace.write(note, Some((flow, who)), number);
    }

    /// Looks at what would be printed or logged.
    pub(crate) fn said(&mut self, what: &(impl Display + Debug)) -> Checked {
        self.said.clear();
        write!(self.said, "{what} {what:?}").expect("a string takes everything");
        if self.sabotaged(Sabotage::TellPayload) {
            self.said.push_str(self.documents.changes[0][0].payload.as_str());
        }
        must(!self.said.contains(CANARY), I14, "an error or a refusal")
    }

    /// Looks at the `Debug` output of what is not printed as it is.
    pub(crate) fn shown(&mut self, what: &impl Debug) -> Checked {
        self.said.clear();
        write!(self.said, "{what:?}").expect("a string takes everything");
        must(!self.said.contains(CANARY), I14, "a state or a claim")
    }

    /// What goes wrong with the next commit.
    pub(crate) fn mishap(&mut self) -> Option<Mishap> {
        if self.calm || self.journal.read_fault || self.journal.poisoned || !self.rng.one_in(50) {
            return None;
        }
        let mishap = Mishap::ALL[self.rng.index(Mishap::ALL.len())];
        self.note(mishap.note());
        Some(mishap)
    }

    /// What goes wrong with the sync while the journal is opened.
    pub(crate) fn opening_mishap(&mut self) -> Option<Mishap> {
        if self.calm || self.journal.read_fault {
            return None;
        }
        match self.rng.below(24) {
            0 | 1 => {
                self.note(Note::SyncFailsOpening);
                Some(Mishap::SyncFails)
            }
            2 => {
                self.note(Note::SyncLiesOpening);
                Some(Mishap::SyncLies)
            }
            3.. => None,
        }
    }
}
