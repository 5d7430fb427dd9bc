//! Records that do not go on by themselves, as an overview tells of them.
//!
//! Owns their shape. Must not know why a record is stuck: the explanations say that, and what to type.

use leasehold_actors::explain::Explanation;
use serde::{Deserialize, Serialize};

/// Why a record does not go on by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StuckState {
    /// Its records do not replay.
    Quarantined,
    /// Registered under another digest than the one that is pinned now.
    Held,
    /// Given up.
    Failed,
}

impl StuckState {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Quarantined => "quarantined",
            Self::Held => "held",
            Self::Failed => "failed",
        }
    }
}

/// A record that does not go on by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StuckRecord {
    /// Its flow.
    pub flow: String,
    /// Its identity; null when it does not replay.
    pub id: Option<String>,
    /// What it is.
    pub state: StuckState,
    /// Since when, in seconds since 1970; null when it does not replay.
    pub since: Option<f64>,
    /// Its last error.
    pub code: Option<String>,
    /// What it waits for, as `leasehold explain` says it.
    pub why: String,
    /// The first thing an operator can do, to be typed.
    pub action: String,
}

/// What is known of a stuck record.
#[derive(Debug, Clone, PartialEq)]
pub struct StuckFacts {
    /// What it is.
    pub state: StuckState,
    /// Its last error.
    pub code: Option<String>,
    /// Why it stands where it stands.
    pub explanation: Explanation,
}

impl StuckRecord {
    /// What can be told of it.
    #[must_use]
    pub fn of(facts: StuckFacts) -> Self {
        let StuckFacts { state, code, explanation } = facts;
        let command = explanation.actions.first().map(|action| action.command.as_str());
        let command = command.unwrap_or_default();
        let action = match state {
            StuckState::Quarantined => format!("stop the engine, then: {command}"),
            StuckState::Held | StuckState::Failed => command.to_owned(),
        };
        Self {
            flow: explanation.flow.to_owned(),
            state,
            since: explanation.since,
            code,
            why: explanation.reason(),
            action,
            id: explanation.id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_actors::explain::{Action, Place, explain_quarantined};
    use leasehold_actors::flows::delivery::Delivery;

    #[test]
    fn what_is_stuck_is_told_as_it_is_explained() {
        let place = Place::door("curl", "http://localhost");
        let damaged =
            explain_quarantined::<Delivery>(None, None, "record_quarantined", None, &place);
        let facts = |state, explanation| StuckFacts { state, code: None, explanation };
        let stuck = StuckRecord::of(facts(StuckState::Quarantined, damaged.clone()));
        assert_eq!((stuck.flow.as_str(), &stuck.id, stuck.since), ("delivery", &None, None));
        assert_eq!(stuck.why, damaged.reason());
        assert_eq!(stuck.action, "stop the engine, then: leasehold doctor JOURNAL");
        let action = Action { command: "curl -d it".to_owned(), does: "it" };
        let held = Explanation { actions: vec![action], ..damaged };
        assert_eq!(StuckRecord::of(facts(StuckState::Held, held)).action, "curl -d it");
    }
}
