//! What happened in one run: its lines, their hash, and how often each kind of thing came up.
//!
//! Owns no decision: the hash is over what is written here and nothing else, so that two runs of a seed
//! can be compared.

use super::note::{COUNT, NAMES, Note};
use leasehold_actors::record::{FlowTag, Identity};
use std::fmt;

/// One thing that happened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    step: u32,
    note: Note,
    /// In which flow, where in one.
    flow: Option<FlowTag>,
    /// Digits of the record's identity.
    record: u32,
    /// A time in quarters of seconds, a sequence number or a count: whatever tells runs apart.
    number: u64,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>4} {}", self.step, self.note.name())?;
        match self.flow {
            Some(flow) => write!(f, " {} {} ({})", flow.name(), self.record, self.number),
            None => write!(f, " ({})", self.number),
        }
    }
}

/// How often each kind of thing came up.
#[derive(Debug, Clone)]
pub(crate) struct Coverage([u64; COUNT]);

impl Default for Coverage {
    fn default() -> Self {
        Self([0; COUNT])
    }
}

impl Coverage {
    /// Adds another run's.
    pub(crate) fn add(&mut self, other: &Self) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own += other;
        }
    }

    /// All counts with their names.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        NAMES.iter().zip(self.0).map(|((_, name), count)| (*name, count))
    }
}

/// The trace of one run.
#[derive(Debug)]
pub(crate) struct Trace {
    /// All lines, oldest first.
    pub(crate) lines: Vec<Line>,
    /// How often each kind of thing came up.
    pub(crate) coverage: Coverage,
    /// Hash of the lines, and of the journal's head at the end.
    pub(crate) hash: u64,
    /// The step that is being made.
    pub(crate) step: u32,
}

impl Trace {
    /// An empty trace.
    pub(crate) fn new(seed: u64) -> Self {
        let mut trace = Self {
            lines: Vec::with_capacity(1024),
            coverage: Coverage::default(),
            hash: 0xcbf2_9ce4_8422_2325,
            step: 0,
        };
        trace.mix(seed);
        trace
    }

    /// Writes a line.
    pub(crate) fn write(&mut self, note: Note, of: Option<(FlowTag, &Identity)>, number: u64) {
        let (flow, record) = of.map_or((None, 0), |(flow, who)| (Some(flow), digits(who)));
        self.coverage.0[note as usize] += 1;
        self.mix(note as u64);
        self.mix(u64::from(record) << 8 | flow.map_or(0, |flow| flow as u64));
        self.mix(number);
        self.lines.push(Line { step: self.step, note, flow, record, number });
    }

    /// Mixes a number into the hash.
    pub(crate) fn mix(&mut self, number: u64) {
        let mixed = (self.hash ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.hash = mixed.rotate_left(29);
    }
}

/// The number at the end of an identity.
fn digits(identity: &Identity) -> u32 {
    let last = identity.as_str().rsplit('-').next();
    last.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}
