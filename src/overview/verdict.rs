//! The answer to the first question: is all well, and if not, what keeps things from moving.
//!
//! Owns its words, the same on the dashboard and in a terminal. Pure.

use super::{DestinationOverview, DestinationState, Overview, STUCK_MAX, Standing};
use crate::pages::Tone;

/// What there is to say of a flow that is blocked while no record is stuck.
const NOT_STUCK: &str = "No record is stuck: a lease ran out and its record is given out again, or a change \
    failed at the other side.";
/// Names in a list; the others are counted.
const NAMES_MAX: usize = 3;

/// Whether all is well, in words.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// How it looks.
    pub tone: Tone,
    /// `All is well`, `Waiting`, `Paused` or `Blocked`.
    pub word: &'static str,
    /// Of what, from the colon on; empty where all is well.
    pub of: String,
    /// Whole sentences: what can be done, what else holds things back, and the figures.
    pub more: Vec<String>,
}

impl Overview {
    /// Whether all is well. What is paused and which side lets no call through is always said, since it
    /// explains why nothing moves; the worst comes first.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let blocked = self.flows.iter().filter(|flow| flow.status == Standing::Blocked);
        let blocked = names(blocked.map(|flow| flow.flow.as_str()));
        let paused = names(self.paused.iter().map(|paused| paused.scope.as_str()));
        let shut = names(self.destinations.iter().filter(|it| it.is_shut()).map(|it| &*it.name));
        let (tone, word, of) = match (self.status, &paused, &shut) {
            (Standing::Blocked, _, _) => (Tone::Trouble, "Blocked", blocked.clone()),
            (Standing::Ok, Some(_), _) => (Tone::Waiting, "Paused", paused.clone()),
            (Standing::Ok, None, Some(_)) => (Tone::Waiting, "Waiting", shut.clone()),
            (Standing::Ok, None, None) => (Tone::Fine, "All is well", None),
        };
        let mut more = Vec::new();
        if let Some(paused) = paused {
            more.push(match self.status {
                Standing::Ok => "Nothing of it is given out until somebody resumes it.".to_owned(),
                Standing::Blocked => format!("Paused: {paused}."),
            });
        }
        if let Some(shut) = shut {
            more.push(format!("No call goes through to {shut} for now; that ends by itself."));
        }
        if self.status == Standing::Blocked {
            more.push(self.what_to_do());
        }
        let due = self.flows.iter().fold(0, |all: u64, flow| all.saturating_add(flow.due));
        let in_flight = self.flows.iter().map(|flow| flow.in_flight);
        let in_flight = in_flight.fold(0, u64::saturating_add);
        more.push(format!("{due} due now, {in_flight} in flight."));
        let of = of.map_or_else(String::new, |of| format!(": {of}"));
        Verdict { tone, word, of, more }
    }

    fn what_to_do(&self) -> String {
        match self.stuck.len() {
            0 => NOT_STUCK.to_owned(),
            1 => {
                "1 record is stuck: type what its line says, or let it be with dismiss.".to_owned()
            }
            _ => format!(
                "{} records are stuck: type what their lines say, or let them be with dismiss.",
                self.number_of_stuck()
            ),
        }
    }

    /// How many are stuck; there may be more than are told of.
    #[must_use]
    pub fn number_of_stuck(&self) -> String {
        let number = self.stuck.len();
        if number < STUCK_MAX { number.to_string() } else { format!("{number} or more") }
    }
}

impl DestinationOverview {
    /// Whether it lets nothing through, be it for a `Retry-After`, or one call to see. A side that was not
    /// called yet also starts with one call, and is not shut.
    fn is_shut(&self) -> bool {
        if self.opens_in_seconds.is_some() {
            return true;
        }
        match self.state {
            DestinationState::Open => true,
            DestinationState::HalfOpen => self.failures_in_a_row > 0,
            DestinationState::Closed | DestinationState::Recovering => false,
        }
    }
}

/// The first names, and how many more there are; `None` for none.
fn names<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    let names: Vec<_> = names.collect();
    let told = names.get(..NAMES_MAX).unwrap_or(&names).join(", ");
    match names.len() {
        0 => None,
        number if number > NAMES_MAX => Some(format!("{told} and {} more", number - NAMES_MAX)),
        _ => Some(told),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{figures, journal};
    use super::super::{PausedOverview, Rings, Sides, StuckRecord, StuckState, assemble};
    use super::*;
    use leasehold_actors::record::FlowTag;

    fn side(state: DestinationState, failures_in_a_row: u64) -> DestinationOverview {
        DestinationOverview {
            name: "cms".to_owned(),
            state,
            in_flight: 0,
            in_flight_max: 64,
            waiting: 0,
            opens_in_seconds: None,
            failures_in_a_row,
            last_error_code: None,
        }
    }

    fn pause(scope: &str) -> PausedOverview {
        let (by, why) = ("maria".to_owned(), "why".to_owned());
        PausedOverview { scope: scope.to_owned(), since: 1.0, by, why }
    }

    fn stuck() -> StuckRecord {
        StuckRecord {
            flow: "dispatch".to_owned(),
            id: None,
            state: StuckState::Failed,
            since: None,
            code: None,
            why: String::new(),
            action: String::new(),
        }
    }

    fn said(status: Standing, sides: Sides, stuck: Vec<StuckRecord>) -> String {
        let flows = vec![figures(FlowTag::Dispatch, status)];
        let overview = assemble(1.0, journal(), flows, sides, &Rings::default(), stuck);
        let Verdict { word, of, more, .. } = overview.verdict();
        format!("{word}{of}. {}", more.join(" "))
    }

    fn sides(destinations: Vec<DestinationOverview>, paused: &[&str]) -> Sides {
        Sides { destinations, paused: paused.iter().map(|scope| pause(scope)).collect() }
    }

    #[test]
    fn what_keeps_things_from_moving_is_said_and_the_worst_comes_first() {
        let open = || vec![side(DestinationState::Open, 5)];
        for (status, sides, begin, also) in [
            (Standing::Ok, sides(vec![], &[]), "All is well. 2 due now, 1 in flight.", ""),
            (Standing::Ok, sides(open(), &[]), "Waiting: cms. No call goes through to cms", ""),
            (Standing::Ok, sides(open(), &["site/a"]), "Paused: site/a. Nothing", "through to cms"),
            (
                Standing::Blocked,
                sides(open(), &["site/a"]),
                "Blocked: dispatch. Paused: site/a. No call goes through to cms",
                "No record is stuck",
            ),
        ] {
            let said = said(status, sides, Vec::new());
            assert!(said.starts_with(begin) && said.contains(also), "{said}");
        }
    }

    #[test]
    fn a_side_that_was_not_called_yet_is_no_reason_to_wait() {
        for (state, failures, begin) in [
            (DestinationState::HalfOpen, 0, "All is well."),
            (DestinationState::HalfOpen, 5, "Waiting: cms."),
            (DestinationState::Recovering, 0, "All is well."),
            (DestinationState::Closed, 3, "All is well."),
        ] {
            let said = said(Standing::Ok, sides(vec![side(state, failures)], &[]), Vec::new());
            assert!(said.starts_with(begin), "{state:?} {said}");
        }
    }

    #[test]
    fn a_side_that_asked_to_be_left_alone_is_one() {
        let throttled = DestinationOverview {
            opens_in_seconds: Some(7.0),
            ..side(DestinationState::Closed, 0)
        };
        let said = said(Standing::Ok, sides(vec![throttled], &[]), Vec::new());
        assert!(said.starts_with("Waiting: cms."), "{said}");
    }

    #[test]
    fn numbers_agree_with_their_words_and_long_lists_are_counted() {
        let blocked = |number| {
            said(Standing::Blocked, Sides::default(), (0..number).map(|_| stuck()).collect())
        };
        assert!(blocked(1).contains("1 record is stuck: type what its line says"));
        assert!(blocked(2).contains("2 records are stuck: type what their lines say"));
        assert!(blocked(STUCK_MAX).contains("20 or more records are stuck"));
        let four = said(Standing::Ok, sides(vec![], &["a", "b", "c", "d"]), Vec::new());
        assert!(four.starts_with("Paused: a, b, c and 1 more."), "{four}");
    }
}
