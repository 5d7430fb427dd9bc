//! Time travel: the state of everything at an earlier point of a journal.
//!
//! Owns where to stop. Must not know how a record changes: that is the one replay, as everywhere.
//!
//! A point is a place in the journal, so that every point is a state that once was: the records up to
//! it, all of them, and none after it. What is asked for by time is turned into such a place.

use super::source::Source;
use super::states::States;
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::flows::all::time_of;
use leasehold_journal::walk::Item;
use leasehold_journal::{JournalError, StreamId};

/// A point of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// After the record with this sequence number; 0 is before the first one.
    Sequence(u64),
    /// Before the first record, in the journal's order, whose own time is later than this.
    ///
    /// Times in a journal may go back: a clock is set, and a hand-over registers its record as of the
    /// time the one before it was settled. What stands after the first later record is left out then,
    /// although its own time is early enough: taking it would make up a state that never was.
    Time(Timestamp),
}

/// A journal as it was at a point.
#[derive(Debug)]
pub struct Past {
    /// Every record.
    pub states: States,
    /// The last journal record that was taken; 0 when none was.
    pub sequence: u64,
    /// When that happened; `None` before the first record. One that cannot be read has no time, and
    /// the one before it counts.
    pub at: Option<Timestamp>,
    /// The time to judge leases and due times by: the one that was asked for, or that of the last
    /// record that was taken.
    pub as_of: Timestamp,
    /// The last journal record that verifies.
    pub end: u64,
    /// Why nothing after [`Self::end`] verifies, where that is not the end of the journal. The point
    /// itself lies before it and is not touched by it.
    pub damaged: Option<JournalError>,
}

/// Why a journal cannot be told as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TravelError {
    /// The walk stopped before it came to the point.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The journal has no record of this number yet.
    #[error("sequence_missing: the journal ends at record {end}")]
    SequenceMissing {
        /// Its last record.
        end: u64,
    },
}

impl TravelError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Journal(error) => error.code(),
            Self::SequenceMissing { .. } => "sequence_missing",
        }
    }
}

impl Past {
    /// Replays a source up to a point. The rest is walked over too, so that [`Self::end`] is known.
    ///
    /// # Errors
    /// [`TravelError::SequenceMissing`] for a point past the end; [`TravelError::Journal`] when the
    /// walk stopped before the point was reached, and when the point lies in archives that are not
    /// walked. Damage behind it is told in [`Self::damaged`].
    pub fn read(source: &Source, until: Until) -> Result<Self, TravelError> {
        let mut past = Self {
            states: States::default(),
            sequence: 0,
            at: None,
            as_of: Timestamp::ZERO,
            end: 0,
            damaged: None,
        };
        let (mut over, mut archived) = (false, 0);
        let walked = source.walk(&mut |item| {
            past.visit(item, until, &mut over, &mut archived);
            Ok(())
        });
        let before = match until {
            Until::Sequence(last) => last < archived,
            Until::Time(last) => archived > 0 && past.at.is_some_and(|at| at > last),
        };
        if before {
            return Err(JournalError::ArchiveMissing { sequence: 1 }.into());
        }
        past.as_of = match until {
            Until::Sequence(_) => past.at.unwrap_or(Timestamp::ZERO),
            Until::Time(at) => at,
        };
        let reached = match until {
            Until::Sequence(last) => past.sequence == last,
            Until::Time(_) => over,
        };
        match (walked.stopped, until) {
            // Where not even the first record verifies, there is no past to tell.
            (Some(error), _) if !reached || past.end == 0 => Err(error.into()),
            (None, Until::Sequence(_)) if !reached => {
                Err(TravelError::SequenceMissing { end: past.end })
            }
            (damaged, _) => Ok(Self { damaged, ..past }),
        }
    }

    /// Takes what a walk comes by. `over` turns true behind the point; `archived` is the last record that
    /// is in archives which were not walked.
    fn visit(&mut self, item: Item, until: Until, over: &mut bool, archived: &mut u64) {
        match item {
            Item::Record { sequence, stream, record } => {
                self.end = sequence;
                let body = record.ok().map(|record| record.body);
                let at = body.as_deref().and_then(|body| time_of(stream, body));
                *over |= match until {
                    Until::Sequence(last) => sequence > last,
                    Until::Time(last) => at.is_some_and(|at| at > last),
                };
                if !*over {
                    self.take(sequence, stream, body.as_deref(), at);
                }
            }
            Item::Base(base) if self.end < base.head.sequence => {
                *archived = base.head.sequence;
                (self.end, self.sequence) = (*archived, *archived);
            }
            Item::Carried { stream, image, .. } if *archived > 0 => {
                self.carry(stream, image.ok().as_deref());
            }
            // After a walk over the archives the entries say what is known already.
            Item::Base(_) | Item::Carried { .. } | Item::Frame(_) => {}
        }
    }

    fn take(
        &mut self,
        sequence: u64,
        stream: StreamId,
        body: Option<&[u8]>,
        at: Option<Timestamp>,
    ) {
        // What does not replay is quarantined in the replay itself; `audit` names it.
        if let Some(Err(error)) = self.states.flows.apply(stream, body) {
            tracing::debug!(code = %error, "a record does not replay");
        }
        self.sequence = sequence;
        self.at = at.or(self.at);
    }

    /// Takes what a record's archived events came to; the latest of these is the time of the point.
    fn carry(&mut self, stream: StreamId, image: Option<&[u8]>) {
        if let Some(Err(error)) = self.states.flows.carry(stream, image) {
            tracing::debug!(code = %error, "an archived record does not replay");
        }
        self.at = self.states.flows.latest_after(stream, self.at);
    }
}
