//! Which of the frames that were found belong to one history.
//!
//! Owns the choice between verified frames of equal numbers, and spans of sequence numbers. Must not
//! know where frames come from: everything here is pure.
//!
//! Frames are joined into runs by the hash that each keeps of the one before. Where two follow the
//! same frame, the run that meets more anchors goes on, then the longer one. The run that follows the
//! genesis comes first; behind its end, better runs are kept first. A run that overlaps one that is
//! kept, or touches it, is of another history: touching frames of one history are one run.

use crate::chain::{Digest, Head};
use crate::scan::Found;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Sequence numbers from the first to the last, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Span {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
}

impl Span {
    /// How many numbers.
    #[must_use]
    pub fn count(self) -> u64 {
        self.last - self.first + 1
    }
}

/// A verified frame of another history than the one that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fork {
    /// Sequence number of its first record.
    pub first: u64,
    /// Sequence number of its last record.
    pub last: u64,
    /// Its hash.
    pub hash: Digest,
}

/// How an anchor stands to what was salvaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// There is none.
    Absent,
    /// There is one, and nothing in it verifies.
    Damaged,
    /// It belongs to another journal.
    OtherJournal,
    /// Its head is part of the salvaged chain.
    Reached,
    /// Its head is not: records before it are gone.
    NotReached,
}

/// Frames by where they belong, as places in the slice they came in.
pub(super) struct Arranged {
    /// The chain from the genesis on.
    pub(super) prefix: Vec<usize>,
    /// What is kept behind gaps, in order.
    pub(super) rest: Vec<usize>,
    /// What is of another history, in order.
    pub(super) aside: Vec<usize>,
}

/// How good a run is; the hash decides only so that the choice is always the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Worth {
    anchors: usize,
    records: u64,
    hash: Digest,
}

struct Run {
    worth: Worth,
    frames: Vec<usize>,
}

/// Chooses among `frames`, which are in order of their first sequence number.
pub(super) fn arrange(frames: &[Found], genesis: Option<Digest>, anchors: &[Head]) -> Arranged {
    let mut runs = runs(frames, anchors);
    let first = runs.iter().position(|run| {
        let root = &frames[run.frames[0]];
        root.first_sequence == 1 && Some(root.previous) == genesis
    });
    let prefix = first.map_or_else(Vec::new, |at| runs.remove(at).frames);
    let mut kept: BTreeMap<u64, u64> = BTreeMap::new();
    if genesis.is_some() {
        kept.insert(0, prefix.last().map_or(0, |at| frames[*at].last_sequence));
    }
    let mut rest = Vec::new();
    for run in runs {
        let (first, last) = (run.frames[0], run.frames[run.frames.len() - 1]);
        let (first, last) = (frames[first].first_sequence, frames[last].last_sequence);
        let before = kept.range(..=last + 1).next_back();
        if before.is_none_or(|(_, end)| end + 1 < first) {
            kept.insert(first, last);
            rest.extend(run.frames);
        }
    }
    rest.sort_unstable();
    let taken: HashSet<usize> = prefix.iter().chain(&rest).copied().collect();
    let aside = (0..frames.len()).filter(|at| !taken.contains(at)).collect();
    Arranged { prefix, rest, aside }
}

/// The runs from each frame whose predecessor was not found, best first.
fn runs(frames: &[Found], anchors: &[Head]) -> Vec<Run> {
    let places: HashMap<Digest, usize> =
        frames.iter().enumerate().map(|(at, frame)| (frame.hash, at)).collect();
    let before: Vec<Option<usize>> = frames
        .iter()
        .map(|frame| {
            let before = places.get(&frame.previous).copied();
            before.filter(|at| frames[*at].last_sequence + 1 == frame.first_sequence)
        })
        .collect();
    let mut worths: Vec<Worth> = frames
        .iter()
        .map(|frame| Worth {
            anchors: anchors.iter().filter(|head| **head == frame.head()).count(),
            records: frame.records(),
            hash: frame.hash,
        })
        .collect();
    let mut after: Vec<Option<usize>> = vec![None; frames.len()];
    // Backwards: what follows a frame is known before the frame itself is judged.
    for at in (0..frames.len()).rev() {
        if let Some(next) = after[at] {
            worths[at].anchors += worths[next].anchors;
            worths[at].records += worths[next].records;
        }
        if let Some(parent) = before[at]
            && after[parent].is_none_or(|rival| worths[rival] < worths[at])
        {
            after[parent] = Some(at);
        }
    }
    let mut runs: Vec<Run> = (0..frames.len())
        .filter(|at| before[*at].is_none())
        .map(|root| Run {
            worth: worths[root],
            frames: std::iter::successors(Some(root), |at| after[*at]).collect(),
        })
        .collect();
    runs.sort_by_key(|run| Reverse(run.worth));
    runs
}

/// Spans in order, those that touch made one.
pub(super) fn joined(spans: impl IntoIterator<Item = Span>) -> Vec<Span> {
    let mut joined: Vec<Span> = Vec::new();
    for span in spans {
        match joined.last_mut() {
            Some(last) if last.last + 1 == span.first => last.last = span.last,
            Some(_) | None => joined.push(span),
        }
    }
    joined
}

/// Numbers in order as spans.
pub(super) fn spans(numbers: &[u64]) -> Vec<Span> {
    joined(numbers.iter().map(|number| Span { first: *number, last: *number }))
}

/// What lies between spans, from 1 up to `known` where that is beyond the last one.
pub(super) fn gaps(spans: &[Span], known: u64) -> Vec<Span> {
    let mut gaps = Vec::new();
    let mut next = 1;
    for span in spans {
        if next < span.first {
            gaps.push(Span { first: next, last: span.first - 1 });
        }
        next = span.last + 1;
    }
    if next <= known {
        gaps.push(Span { first: next, last: known });
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_that_touch_are_one_and_gaps_are_what_lies_between() {
        let kept = spans(&[1, 2, 3, 7, 9, 10]);
        let span = |first, last| Span { first, last };
        assert_eq!(kept, [span(1, 3), span(7, 7), span(9, 10)]);
        assert_eq!(gaps(&kept, 0), [span(4, 6), span(8, 8)]);
        assert_eq!(gaps(&kept, 10), [span(4, 6), span(8, 8)]);
        assert_eq!(gaps(&kept, 12), [span(4, 6), span(8, 8), span(11, 12)]);
        assert_eq!(gaps(&[], 0), []);
        assert_eq!(gaps(&[span(3, 4)], 4), [span(1, 2)]);
        assert_eq!(span(4, 6).count(), 3);
    }
}
