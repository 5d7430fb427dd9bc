//! What is said of a record.
//!
//! Owns the shapes; they serialise to what `explain --json` prints.

use super::{Action, Next, Rule};
use crate::contract::text::Sha256;
use crate::control::PausedScope;
use crate::flows::Answers;
use crate::record::rules::Counted;
use crate::record::{Event, StateKind};
use serde::{Serialize, Serializer};

/// What a record waits for.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WaitsFor {
    /// Its first attempt, or its first one since an operator requeued it.
    FirstAttempt,
    /// The next poll.
    Poll {
        /// What the other side said last.
        heard: Option<&'static str>,
    },
    /// The next attempt after a failure.
    BackOff {
        /// The failure.
        error_code: String,
    },
    /// The worker that has it.
    Lease {
        /// Who.
        owner: String,
        /// When the lease ends, in seconds since 1970.
        expires_at: f64,
        /// Whether that is over.
        expired: bool,
        /// Whether the record fails when the lease ends unsettled: its ceiling is used up then.
        last: bool,
    },
    /// The change it removes, which is not settled here (D5).
    Change {
        /// The change's identity in the same flow.
        id: String,
    },
    /// An operator: it is registered under another digest than the one that is pinned (D9).
    Digest {
        /// The digest it is registered under.
        registered: Sha256,
        /// The one that is pinned; null where none is configured.
        pinned: Option<Sha256>,
    },
    /// An operator to resume what is paused: see [`Explanation::paused`].
    Pause,
    /// An operator: it failed.
    Operator {
        /// The failure.
        error_code: String,
        /// Why that was the end.
        because: Final,
    },
    /// Nothing: an operator let it be.
    LetBe {
        /// The error it had then.
        error_code: Option<String>,
        /// Whether it was held under another digest, and had not failed.
        held: bool,
    },
    /// Nothing: it is settled.
    Nothing {
        /// How it ended.
        ended: &'static str,
        /// Where it goes on.
        next: Option<Next>,
    },
    /// Somebody who looks at the journal: its events do not replay (D8).
    Repair {
        /// The journal record that does not, where it is known.
        sequence: Option<u64>,
        /// The code of what is wrong with it.
        code: String,
    },
}

/// Why a failure was the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Final {
    /// Its ceiling was used up.
    CeilingReached,
    /// It lost too many leases in a row: see [`Explanation::lost_leases`].
    LeasesLost,
    /// The failure is one that is not tried again.
    NotRetryable,
    /// The other side gave up.
    OtherSideFailed,
}

/// What moves a record on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Changes {
    /// Time: see [`Explanation::changes_at`].
    AtItsTime,
    /// The next worker that asks for work: it is due.
    NextClaim,
    /// The end of another record.
    OtherSettles,
    /// Nothing but an operator.
    Operator,
    /// Nothing: this is its end.
    Never,
}

/// How much of its ceiling a record used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Used {
    /// What is counted; `attempts` or `failures_in_a_row` when it is printed.
    #[serde(serialize_with = "counted")]
    pub counted: Counted,
    /// How many.
    pub used: u32,
    /// How many there may be.
    pub max: u32,
}

/// Leases a record lost in a row, each to a process that died or hung.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// How many.
    pub lost: u32,
    /// With how many it fails; null where it has failed already, where there is no such limit, and where
    /// no configuration says.
    pub max: Option<u32>,
}

fn counted<S: Serializer>(counted: &Counted, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match counted {
        Counted::Leases => "attempts",
        Counted::Failures => "failures_in_a_row",
    })
}

/// Why a record stands where it stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// Its flow.
    pub flow: &'static str,
    /// Its identity; null for one that does not replay and was not asked for by it.
    pub id: Option<String>,
    /// Its state, as its flow calls it.
    pub state: &'static str,
    /// What it waits for.
    pub waits_for: WaitsFor,
    /// The rule that says so.
    pub rule: Rule,
    /// Since when, in seconds since 1970: when something last happened to it.
    pub since: Option<f64>,
    /// What moves it on.
    pub changes: Changes,
    /// When, in seconds since 1970, where it is time that does.
    pub changes_at: Option<f64>,
    /// How much of its ceiling it used.
    pub used: Option<Used>,
    /// Leases it lost in a row; null where the last one was not lost.
    pub lost_leases: Option<Lost>,
    /// What an operator paused of its flow, its site and its destination, while more is to come of it.
    pub paused: Vec<PausedScope>,
    /// Whether it cannot be told if it is held: its flow pins a digest, and it is not known which.
    pub digest_unknown: bool,
    /// What an operator can do.
    pub actions: Vec<Action>,
    /// How it was brought here from another program's store, where it was, and that is not archived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imported: Option<Brought>,
}

/// How a record was brought here: as another program left it. Its attempts until then were made there, and
/// are not in this journal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Brought {
    /// When, in seconds since 1970.
    pub at: f64,
    /// Its state then, as its flow calls it.
    pub state: &'static str,
    /// Leases taken there.
    pub attempts: u32,
    /// When it was registered there, in seconds since 1970.
    pub created_at: f64,
    /// When something last happened to it there.
    pub updated_at: f64,
    /// Version of the store's schema.
    pub schema_version: u32,
    /// Hash of the row it was: the canonical form of its columns by name.
    pub row_sha256: Sha256,
}

impl Brought {
    /// What this event says of it; `None` for another event.
    #[must_use]
    pub fn of<F: Answers>(event: &Event<F>) -> Option<Self> {
        let Event::Imported { at, schema_version, row_sha256, record, .. } = event else {
            return None;
        };
        Some(Self {
            at: at.seconds(),
            state: record.state().kind().map_or("", |kind: StateKind| kind.name(F::COMPLETED)),
            attempts: record.attempts,
            created_at: record.created_at.seconds(),
            updated_at: record.updated_at.seconds(),
            schema_version: *schema_version,
            row_sha256: *row_sha256,
        })
    }
}

impl Explanation {
    /// Whether somebody has to look: nothing moves it on by itself. What waits for a pause is as somebody
    /// wanted it.
    #[must_use]
    pub fn needs_somebody(&self) -> bool {
        match (&self.waits_for, self.changes) {
            (WaitsFor::Lease { expired, .. }, _) => *expired,
            (WaitsFor::Pause, _) => false,
            (_, Changes::Operator) => true,
            (
                _,
                Changes::AtItsTime | Changes::NextClaim | Changes::OtherSettles | Changes::Never,
            ) => false,
        }
    }

    /// Whether more is to come of it.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.changes != Changes::Never
    }
}
