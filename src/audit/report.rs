//! What an audit found.

use leasehold_journal::JournalError;
use serde::Serialize;
use std::collections::BTreeMap;

/// One thing that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// A stable code, or the id of an invariant.
    pub code: String,
    /// The record, where there is one.
    pub sequence: Option<u64>,
    /// The flow, where it can be told; `control` for what was paused.
    pub flow: Option<&'static str>,
    /// The record's identity, where it can be told.
    pub id: Option<String>,
    /// What it means; no text from outside.
    pub message: String,
}

/// The whole audit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Whether nothing was found.
    pub clean: bool,
    /// The journal's id in hex, if it could be told.
    pub journal: Option<String>,
    /// Sequence number of the last verified record.
    pub sequence: u64,
    /// Hash of the last verified frame, in hex.
    pub head: Option<String>,
    /// Verified frames.
    pub frames: u64,
    /// Verified records.
    pub records: u64,
    /// Records 1 to this one are in archives and were not verified; 0 when all were.
    pub archived: u64,
    /// Records by flow and state; under `control` the scopes that were ever paused, where there are any.
    pub flows: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
    /// What does not hold.
    pub findings: Vec<Finding>,
}

impl Report {
    /// The report on a journal whose database cannot be opened.
    #[must_use]
    pub fn unreadable(error: &JournalError) -> Self {
        let finding = Finding {
            code: error.code().to_owned(),
            sequence: None,
            flow: None,
            id: None,
            message: "the database cannot be opened; nothing in it could be verified".to_owned(),
        };
        Self {
            clean: false,
            journal: None,
            sequence: 0,
            head: None,
            frames: 0,
            records: 0,
            archived: 0,
            flows: BTreeMap::new(),
            findings: vec![finding],
        }
    }
}
