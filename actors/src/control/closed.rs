//! What is held back right now, as a claim asks for it.

use super::{Controls, Scope, Side};
use crate::record::FlowTag;
use std::collections::{BTreeSet, HashSet};

/// The scopes that are paused. Asking costs the same however many there are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Closed {
    flows: BTreeSet<FlowTag>,
    sides: BTreeSet<Side>,
    sites: HashSet<Box<str>>,
}

impl Closed {
    /// What is paused in a journal.
    #[must_use]
    pub fn of(controls: &Controls) -> Self {
        let mut closed = Self::default();
        for paused in controls.paused() {
            closed.set(&paused.scope, true);
        }
        closed
    }

    /// Notes that a scope is paused, or is no more.
    pub fn set(&mut self, scope: &Scope, paused: bool) {
        match (scope, paused) {
            (Scope::Flow(flow), true) => self.flows.insert(*flow),
            (Scope::Flow(flow), false) => self.flows.remove(flow),
            (Scope::Destination(side), true) => self.sides.insert(*side),
            (Scope::Destination(side), false) => self.sides.remove(side),
            (Scope::Site(site), true) => self.sites.insert(site.as_str().into()),
            (Scope::Site(site), false) => self.sites.remove(site.as_str()),
        };
    }

    /// Whether nothing of this flow is given out.
    #[must_use]
    pub fn stops(&self, flow: FlowTag) -> bool {
        self.flows.contains(&flow) || self.sides.contains(&Side::of(flow))
    }

    /// Whether nothing of this site is given out, in whichever flow.
    #[must_use]
    pub fn stops_site(&self, site: &str) -> bool {
        self.sites.contains(site)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(text: &str) -> Scope {
        Scope::new(text).expect("a scope")
    }

    #[test]
    fn a_flow_is_stopped_by_itself_or_by_its_destination_until_both_are_open() {
        let mut closed = Closed::default();
        assert!(!FlowTag::ALL.into_iter().any(|flow| closed.stops(flow)));
        closed.set(&scope("destination/cms"), true);
        closed.set(&scope("flow/lifecycle"), true);
        let stopped = |closed: &Closed| FlowTag::ALL.map(|flow| closed.stops(flow));
        assert_eq!(stopped(&closed), [true, true, false, false, false]);
        closed.set(&scope("destination/cms"), false);
        assert_eq!(stopped(&closed), [false, true, false, false, false]);
        closed.set(&scope("flow/lifecycle"), false);
        assert_eq!(closed, Closed::default());
    }

    #[test]
    fn a_site_is_stopped_by_its_own_name_alone() {
        let mut closed = Closed::default();
        closed.set(&scope("site/cms"), true);
        assert!(closed.stops_site("cms") && !closed.stops_site("cms2"));
        assert!(!closed.stops(FlowTag::Dispatch));
        closed.set(&scope("site/cms"), false);
        assert!(!closed.stops_site("cms"));
    }
}
