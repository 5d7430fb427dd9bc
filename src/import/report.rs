//! What became of each row.
//!
//! Owns the counts and the names of what was left out; they serialise to what `--json` prints.

use super::Options;
use leasehold_actors::import::Component;
use leasehold_journal::Head;
use serde::Serialize;
use std::collections::BTreeMap;

/// What an import did, or would do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Whether nothing was written.
    pub dry_run: bool,
    /// The time of the import, in seconds since 1970.
    pub at: f64,
    /// Rows of each component.
    pub components: BTreeMap<&'static str, Counts>,
    /// Rows that are not in the journal, or are there otherwise.
    pub left_out: Vec<LeftOut>,
    /// The journal's head afterwards, 64 hex digits.
    pub head: String,
    /// Its last record.
    pub sequence: u64,
}

/// Rows of one component, by what became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Written.
    pub imported: u64,
    /// There already.
    pub unchanged: u64,
    /// There otherwise, and left alone.
    pub conflicts: u64,
    /// Left out for what is wrong with them.
    pub damaged: u64,
}

/// Why a row was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It breaks a rule of its component.
    Damaged,
    /// The journal has the record otherwise.
    Conflict,
}

/// A row that was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Its component.
    pub component: &'static str,
    /// The record's identity, as far as it is one.
    pub id: Option<String>,
    /// The source it is in, from 0.
    pub file: usize,
    /// The row's number in its table.
    pub row: i64,
    /// Which of the two.
    pub why: Why,
    /// The stable code.
    pub code: &'static str,
}

impl Report {
    pub(super) fn new(options: Options) -> Self {
        let Options { at, dry_run } = options;
        Self {
            dry_run,
            at: at.seconds(),
            components: BTreeMap::new(),
            left_out: Vec::new(),
            head: String::new(),
            sequence: 0,
        }
    }

    pub(super) fn counts(&mut self, component: Component) -> &mut Counts {
        self.components.entry(component.name()).or_default()
    }

    pub(super) fn leave_out(&mut self, left_out: LeftOut) {
        let counts = self.components.entry(left_out.component).or_default();
        match left_out.why {
            Why::Damaged => counts.damaged += 1,
            Why::Conflict => counts.conflicts += 1,
        }
        self.left_out.push(left_out);
    }

    pub(super) fn at_end(&mut self, head: Head) {
        (self.head, self.sequence) = (head.hash.to_string(), head.sequence);
    }

    /// Whether every row is in the journal as it says.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.left_out.is_empty()
    }

    /// All components together.
    #[must_use]
    pub fn total(&self) -> Counts {
        self.components.values().fold(Counts::default(), |sum, one| Counts {
            imported: sum.imported + one.imported,
            unchanged: sum.unchanged + one.unchanged,
            conflicts: sum.conflicts + one.conflicts,
            damaged: sum.damaged + one.damaged,
        })
    }
}
