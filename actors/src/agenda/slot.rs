//! Where in the agenda a record is.
//!
//! Owns how that follows from the record's state. Must not know the queues.

use crate::contract::text::Sha256;
use crate::contract::time::Timestamp;
use crate::record::{Flow, Link, State};

/// What the agenda knows of a record. `C` is what health tells apart ([`crate::health::Class`]).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Slot<C> {
    /// Nothing to wait for.
    Idle,
    /// Waits for its next attempt.
    Waiting(Waiting<C>),
    /// A worker is at it.
    Leased {
        /// When that ends.
        expires_at: Timestamp,
        /// What health counts it as.
        class: C,
        /// Whom it keeps waiting.
        link: Link,
    },
}

/// A record that waits for its next attempt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Waiting<C> {
    /// Smaller goes first.
    pub rank: u8,
    /// When it was registered.
    pub created_at: Timestamp,
    /// When it is due.
    pub next_at: Timestamp,
    /// What health counts it as.
    pub class: C,
    /// Whom it waits for, or keeps waiting (D5).
    pub link: Link,
    /// Whether it is left for an operator: registered under another digest (D9).
    pub parked: bool,
}

impl<C> Slot<C> {
    /// The slot of a state; `expected` is the flow's pinned digest.
    #[must_use]
    pub fn of<F: Flow>(state: &State<F>, class: Option<C>, expected: Option<Sha256>) -> Self {
        match (state, class) {
            (State::Ready { record, .. }, Some(class)) => Self::Waiting(Waiting {
                rank: F::rank(&record.binding),
                created_at: record.created_at,
                next_at: record.next_at,
                class,
                link: F::link(&record.binding),
                parked: F::digest(&record.binding).is_some_and(|digest| Some(digest) != expected),
            }),
            (State::Leased { record, lease, .. }, Some(class)) => {
                Self::Leased { expires_at: lease.expires_at, class, link: F::link(&record.binding) }
            }
            (State::Ready { .. } | State::Leased { .. }, None)
            | (
                State::Vacant
                | State::Completed { .. }
                | State::Failed { .. }
                | State::Dismissed { .. },
                _,
            ) => Self::Idle,
        }
    }

    pub(crate) fn link(&self) -> Link {
        match self {
            Self::Idle => Link::None,
            Self::Waiting(Waiting { link, .. }) | Self::Leased { link, .. } => *link,
        }
    }
}
