//! One scope's pause: state, command, event, decide, evolve.
//!
//! Owns the rule: a scope is paused or open, and saying so again changes nothing.

use super::Scope;
use crate::contract::time::Timestamp;
use crate::record::{IllegalEvent, Intervention, Refusal};
use serde::{Deserialize, Serialize};

/// How one scope stands. The order of the variants and of their fields is part of the format.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Control {
    /// Nobody ever paused it.
    #[default]
    Vacant,
    /// Its records are given out.
    Open {
        /// Which scope.
        scope: Scope,
        /// Since when.
        since: Timestamp,
    },
    /// None of its records is given out.
    Paused {
        /// Which scope.
        scope: Scope,
        /// Since when.
        since: Timestamp,
        /// Who paused it and why.
        intervention: Intervention,
    },
}

/// What an operator asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Give nothing out.
    Pause {
        /// Who and why.
        intervention: Intervention,
    },
    /// Go on.
    Resume {
        /// Who and why.
        intervention: Intervention,
    },
}

/// One thing that happened. The order of the variants and of their fields is part of the format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// This is the stream of that scope.
    Named {
        /// When.
        at: Timestamp,
        /// Which one.
        scope: Scope,
    },
    /// An operator paused it.
    Paused {
        /// When.
        at: Timestamp,
        /// Who and why.
        intervention: Intervention,
    },
    /// An operator let it go on.
    Resumed {
        /// When.
        at: Timestamp,
        /// Who and why.
        intervention: Intervention,
    },
}

impl Event {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Named { .. } => "named",
            Self::Paused { .. } => "paused",
            Self::Resumed { .. } => "resumed",
        }
    }

    /// When it happened.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Named { at, .. } | Self::Paused { at, .. } | Self::Resumed { at, .. } => *at,
        }
    }
}

impl Control {
    /// What it is called where controls are counted.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Vacant => "vacant",
            Self::Open { .. } => "open",
            Self::Paused { .. } => "paused",
        }
    }

    /// The scope; `None` where none was named yet.
    #[must_use]
    pub fn scope(&self) -> Option<&Scope> {
        match self {
            Self::Vacant => None,
            Self::Open { scope, .. } | Self::Paused { scope, .. } => Some(scope),
        }
    }

    /// Its last time.
    #[must_use]
    pub fn since(&self) -> Option<Timestamp> {
        match self {
            Self::Vacant => None,
            Self::Open { since, .. } | Self::Paused { since, .. } => Some(*since),
        }
    }
}

/// A scope of which nothing is given out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PausedScope {
    /// Which one.
    pub scope: Scope,
    /// Since when, in seconds since 1970.
    pub since: Timestamp,
    /// Who paused it and why.
    #[serde(flatten)]
    pub intervention: Intervention,
}

impl PausedScope {
    /// What there is to say of a control; `None` for one that is not paused.
    #[must_use]
    pub fn of(control: &Control) -> Option<Self> {
        match control {
            Control::Vacant | Control::Open { .. } => None,
            Control::Paused { scope, since, intervention } => Some(Self {
                scope: scope.clone(),
                since: *since,
                intervention: intervention.clone(),
            }),
        }
    }
}

/// Decides one command on a scope; no events mean that it is so already.
///
/// # Errors
/// [`Refusal::ClockRegressed`] for a time before the last one.
pub fn decide(
    control: &Control,
    scope: &Scope,
    command: Command,
    now: Timestamp,
) -> Result<Vec<Event>, Refusal> {
    let events = match (control, command) {
        (Control::Vacant, Command::Pause { intervention }) => vec![
            Event::Named { at: now, scope: scope.clone() },
            Event::Paused { at: now, intervention },
        ],
        (Control::Open { .. }, Command::Pause { intervention }) => {
            vec![Event::Paused { at: now, intervention }]
        }
        (Control::Paused { .. }, Command::Resume { intervention }) => {
            vec![Event::Resumed { at: now, intervention }]
        }
        (Control::Paused { .. }, Command::Pause { .. })
        | (Control::Vacant | Control::Open { .. }, Command::Resume { .. }) => Vec::new(),
    };
    let regressed = control.since().is_some_and(|since| now < since);
    if regressed && !events.is_empty() { Err(Refusal::ClockRegressed) } else { Ok(events) }
}

/// The state after an event. Whatever is not listed cannot have happened (P1).
///
/// # Errors
/// [`IllegalEvent`].
pub fn evolve(control: Control, event: &Event) -> Result<Control, IllegalEvent> {
    if control.since().is_some_and(|since| event.at() < since) {
        return Err(IllegalEvent);
    }
    match (control, event) {
        (Control::Vacant, Event::Named { at, scope }) => {
            Ok(Control::Open { scope: scope.clone(), since: *at })
        }
        (Control::Open { scope, .. }, Event::Paused { at, intervention }) => {
            Ok(Control::Paused { scope, since: *at, intervention: intervention.clone() })
        }
        (Control::Paused { scope, .. }, Event::Resumed { at, .. }) => {
            Ok(Control::Open { scope, since: *at })
        }
        (Control::Vacant, Event::Paused { .. } | Event::Resumed { .. })
        | (Control::Open { .. }, Event::Named { .. } | Event::Resumed { .. })
        | (Control::Paused { .. }, Event::Named { .. } | Event::Paused { .. }) => Err(IllegalEvent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{FlowTag, OperatorName, Reason};

    const SCOPE: Scope = Scope::Flow(FlowTag::Dispatch);

    fn at(seconds: f64) -> Timestamp {
        Timestamp::new(seconds).expect("a time")
    }

    fn by(name: &str) -> Intervention {
        let by = OperatorName::new(name).expect("a name");
        Intervention { by, why: Reason::new("it is mended").expect("a reason") }
    }

    fn pause(name: &str) -> Command {
        Command::Pause { intervention: by(name) }
    }

    fn resume(name: &str) -> Command {
        Command::Resume { intervention: by(name) }
    }

    fn after(control: &Control, command: Command, seconds: f64) -> Control {
        let events = decide(control, &SCOPE, command, at(seconds)).expect("it is taken");
        events.iter().try_fold(control.clone(), evolve).expect("it can happen")
    }

    #[test]
    fn a_pause_keeps_who_why_and_since_when_and_a_resume_ends_it() {
        let paused = after(&Control::Vacant, pause("maria"), 5.0);
        let told = PausedScope::of(&paused).expect("it is paused");
        assert_eq!((told.scope, told.since, told.intervention), (SCOPE, at(5.0), by("maria")));
        let open = after(&paused, resume("paul"), 9.0);
        assert_eq!(open, Control::Open { scope: SCOPE, since: at(9.0) });
        assert_eq!(PausedScope::of(&open), None);
        let again = after(&open, pause("paul"), 9.0);
        assert_eq!(again.name(), "paused");
    }

    #[test]
    fn what_is_so_already_makes_no_event_whenever_it_is_said() {
        let paused = after(&Control::Vacant, pause("maria"), 5.0);
        let open = after(&paused, resume("maria"), 6.0);
        for (control, command) in
            [(&paused, pause("paul")), (&open, resume("paul")), (&Control::Vacant, resume("paul"))]
        {
            for seconds in [1.0, 99.0] {
                let events = decide(control, &SCOPE, command.clone(), at(seconds));
                assert_eq!(events, Ok(Vec::new()), "{} at {seconds}", control.name());
            }
        }
    }

    #[test]
    fn a_clock_that_went_back_pauses_and_resumes_nothing() {
        let paused = after(&Control::Vacant, pause("maria"), 5.0);
        let early = decide(&paused, &SCOPE, resume("maria"), at(4.9));
        assert_eq!(early, Err(Refusal::ClockRegressed));
        let open = after(&paused, resume("maria"), 6.0);
        let early = decide(&open, &SCOPE, pause("maria"), at(5.9));
        assert_eq!(early, Err(Refusal::ClockRegressed));
    }

    #[test]
    fn p1_pauses_and_resumes_alternate_after_a_first_event_that_names_the_scope() {
        let named = Event::Named { at: at(5.0), scope: SCOPE };
        let paused = Event::Paused { at: at(5.0), intervention: by("maria") };
        let resumed = Event::Resumed { at: at(5.0), intervention: by("maria") };
        let all = [&named, &paused, &resumed];
        let open = Control::Open { scope: SCOPE, since: at(5.0) };
        let held = evolve(open.clone(), &paused).expect("it can happen");
        for (control, follows) in [(Control::Vacant, 0), (open, 1), (held, 2)] {
            for (number, event) in all.into_iter().enumerate() {
                let possible = evolve(control.clone(), event).is_ok();
                assert_eq!(possible, number == follows, "{} {}", control.name(), event.name());
            }
        }
        let later = Control::Open { scope: SCOPE, since: at(5.1) };
        assert_eq!(evolve(later, &paused), Err(IllegalEvent), "no time goes back");
    }
}
