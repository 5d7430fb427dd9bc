//! When the sides are gone, and when the engine is terminated or killed.
//!
//! Owns the timetable. Pure.

/// What is done to one of the processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// Both sides are gone.
    Shut,
    /// Both sides are back.
    Open,
    /// SIGTERM to the engine, then a new one.
    Terminate,
    /// SIGKILL to the engine, then a new one.
    Kill,
}

/// The timetable.
#[derive(Debug)]
pub(crate) struct Plan(Vec<(u64, Act)>);

impl Plan {
    /// Two outages and six ends, three of each kind, spread over so many seconds; one of each during an
    /// outage.
    pub(crate) fn over(seconds: u64, outage_seconds: u64) -> Self {
        let at = |twelfth: u64| seconds * twelfth / 12;
        let outage = outage_seconds.min(seconds / 6);
        Self(vec![
            (at(1), Act::Terminate),
            (at(2), Act::Kill),
            (at(4), Act::Shut),
            (at(4) + outage / 2, Act::Terminate),
            (at(4) + outage, Act::Open),
            (at(7), Act::Shut),
            (at(7) + outage / 2, Act::Kill),
            (at(7) + outage, Act::Open),
            (at(10), Act::Terminate),
            (at(11), Act::Kill),
        ])
    }

    /// What is done in this second.
    pub(crate) fn at(&self, second: u64) -> impl Iterator<Item = Act> {
        self.0.iter().filter(move |(at, _)| *at == second).map(|(_, act)| *act)
    }

    /// The seconds in which outages end.
    pub(crate) fn ends(&self) -> impl Iterator<Item = u64> {
        self.0.iter().filter(|(_, act)| *act == Act::Open).map(|(at, _)| *at)
    }
}
