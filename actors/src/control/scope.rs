//! What can be paused, and which stream that makes.

use crate::contract::text::Token;
use crate::record::FlowTag;
use crate::record::identity::stream_under;
use leasehold_journal::StreamId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The first byte of the stream of a scope, and of all its bodies. Flows have 1 to 5.
pub const NUMBER: u8 = 9;

/// The other side of some flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// The CMS: flows `dispatch` and `lifecycle`.
    Cms,
    /// The receiver: flows `notification` and `processing`.
    Receiver,
    /// The source runtime: flow `delivery`.
    Source,
}

impl Side {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Cms, Self::Receiver, Self::Source];

    /// Whom a flow calls.
    #[must_use]
    pub fn of(flow: FlowTag) -> Self {
        match flow {
            FlowTag::Dispatch | FlowTag::Lifecycle => Self::Cms,
            FlowTag::Notification | FlowTag::Processing => Self::Receiver,
            FlowTag::Delivery => Self::Source,
        }
    }

    /// Its name, as on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cms => "cms",
            Self::Receiver => "receiver",
            Self::Source => "source",
        }
    }
}

/// What is paused as one. Its text is `flow/NAME`, `site/ID` or `destination/NAME`; so it is kept in the
/// journal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Box<str>", into = "Box<str>")]
pub enum Scope {
    /// One flow.
    Flow(FlowTag),
    /// Every record of one site, in all flows.
    Site(Token),
    /// Every flow that calls one side.
    Destination(Side),
}

impl Scope {
    /// The scope with this text; `None` for one that there cannot be.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        match text.split_once('/')? {
            ("flow", name) => FlowTag::from_name(name).map(Self::Flow),
            ("site", id) => Token::new(id).map(Self::Site),
            ("destination", name) => {
                Side::ALL.into_iter().find(|side| side.name() == name).map(Self::Destination)
            }
            _ => None,
        }
    }

    /// Whether records of this flow and site are in it.
    #[must_use]
    pub fn covers(&self, flow: FlowTag, site: &str) -> bool {
        match self {
            Self::Flow(paused) => *paused == flow,
            Self::Site(paused) => paused.as_str() == site,
            Self::Destination(side) => *side == Side::of(flow),
        }
    }

    /// Its stream: [`NUMBER`], then the first 15 bytes of the SHA-256 of that number and the text.
    #[must_use]
    pub fn stream(&self) -> StreamId {
        stream_under(NUMBER, &self.to_string())
    }
}

/// Whether a stream is that of a scope, and not of a record.
#[must_use]
pub fn is_control(stream: StreamId) -> bool {
    stream.0[0] == NUMBER
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flow(flow) => write!(f, "flow/{}", flow.name()),
            Self::Site(site) => write!(f, "site/{site}"),
            Self::Destination(side) => write!(f, "destination/{}", side.name()),
        }
    }
}

impl TryFrom<Box<str>> for Scope {
    type Error = &'static str;
    fn try_from(text: Box<str>) -> Result<Self, Self::Error> {
        Self::new(&text).ok_or("scope_invalid")
    }
}

impl From<Scope> for Box<str> {
    fn from(scope: Scope) -> Self {
        scope.to_string().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::identity::flow_of;

    fn all() -> Vec<Scope> {
        let flows = FlowTag::ALL.into_iter().map(Scope::Flow);
        let sides = Side::ALL.into_iter().map(Scope::Destination);
        let sites = ["cms", "site-1"].map(|id| Scope::Site(Token::new(id).expect("a token")));
        flows.chain(sides).chain(sites).collect()
    }

    #[test]
    fn a_scope_reads_back_from_its_text_and_has_a_stream_of_its_own() {
        let mut streams = std::collections::HashSet::new();
        for scope in all() {
            assert_eq!(Scope::new(&scope.to_string()), Some(scope.clone()));
            assert!(is_control(scope.stream()) && flow_of(scope.stream()).is_none());
            assert!(streams.insert(scope.stream()), "{scope}");
        }
    }

    #[test]
    fn a_text_that_names_nothing_is_no_scope() {
        let long = format!("site/{}", "x".repeat(257));
        for text in ["", "flow", "flow/", "flow/cms", "destination/dispatch", "site/", &long] {
            assert_eq!(Scope::new(text), None, "{text}");
        }
        for text in ["site/a b", "site/a/b", "sites/a", "Flow/dispatch", "/dispatch"] {
            assert_eq!(Scope::new(text), None, "{text}");
        }
    }

    #[test]
    fn every_flow_belongs_to_one_destination() {
        for flow in FlowTag::ALL {
            let covering = |scope: &Scope| scope.covers(flow, "site-1");
            let covers: Vec<String> =
                all().iter().filter(|it| covering(it)).map(ToString::to_string).collect();
            let side = Side::of(flow).name();
            let expected = [
                format!("flow/{}", flow.name()),
                format!("destination/{side}"),
                "site/site-1".into(),
            ];
            assert_eq!(covers, expected);
        }
    }
}
