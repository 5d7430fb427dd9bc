//! The one lifecycle every flow shares.
//!
//! Owns what may happen to a record, in which order, at which price. Pure: functions of (state,
//! command, now), without a clock, randomness, I/O or actors. What differs between flows are the
//! constants in [`rules::Rules`] and the flow's own `judge`.
//!
//! ```text
//! Vacant ──Registered──► Ready ──Claimed──► Leased ──Completed──► Completed
//!                          ▲                  │ └─────Failed────► Failed
//!                          └─Watched, Retried─┘
//!                            LeaseLost, Released
//! ```
//!
//! An operator's own events (D12): `Requeued` makes a failed or dismissed record ready again,
//! `RequeuedLater` does so from some time on, `Dismissed` ends a failed or held one for good measure,
//! `Repinned` moves a held one to another digest.
//!
//! `Imported` is the other way in beside `Registered`: the record starts in any state, as another program
//! left it.

pub mod command;
pub mod decide;
pub mod event;
pub mod evolve;
pub mod identity;
pub mod imported;
pub mod intervention;
pub mod jitter;
pub mod lease;
pub mod policy;
pub mod rules;
#[cfg(test)]
mod sample;
pub mod state;

pub use command::{Command, Proof, Settlement};
pub use decide::{Refusal, decide};
pub use event::Event;
pub use evolve::{IllegalEvent, evolve};
pub use identity::{Identity, Key, Link, flow_of, stream_of};
pub use imported::{ImportedRecord, ImportedState};
pub use intervention::{Intervention, OperatorName, Reason};
pub use jitter::Part;
pub use lease::{Lease, LeaseToken};
pub use policy::Policy;
pub use rules::Rules;
pub use state::{DismissedFrom, Record, State, StateKind, Wait};

use crate::contract::text::{ErrorCode, Sha256};
use crate::contract::time::Ceiling;
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

/// Which flow a record belongs to. The number is its first byte in every stream id and record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum FlowTag {
    /// Change events to the CMS (contract 4.1).
    Dispatch = 1,
    /// The CMS's lifecycle of a change (4.2).
    Lifecycle = 2,
    /// Terminal notifications to the receiver (4.5).
    Notification = 3,
    /// The receiver's processing of a notification (4.3).
    Processing = 4,
    /// Changes and removals to the source runtime (4.4).
    Delivery = 5,
}

impl FlowTag {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Dispatch, Self::Lifecycle, Self::Notification, Self::Processing, Self::Delivery];

    /// The flow with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|tag| *tag as u8 == number)
    }

    /// The flow with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tag| tag.name() == name)
    }

    /// Its name, as on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dispatch => "dispatch",
            Self::Lifecycle => "lifecycle",
            Self::Notification => "notification",
            Self::Processing => "processing",
            Self::Delivery => "delivery",
        }
    }
}

/// What one flow adds to the shared lifecycle.
pub trait Flow: Sized + Clone + Debug + PartialEq + Send + Sync + 'static {
    /// Its number and name.
    const TAG: FlowTag;
    /// How it differs from the others (contract 4.8).
    const RULES: Rules;
    /// What a registration fixes for good: registering again is compared with it.
    type Binding: Clone + Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync;
    /// What is kept with the registration and needed for the call, beside the binding.
    type Payload: Clone + Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + Unpin;
    /// What is remembered from one attempt to the next.
    type Progress: Clone
        + Debug
        + Default
        + PartialEq
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + Unpin;
    /// A valid answer of the other side.
    type Report: Debug + Clone + Send;
    /// What a completed record keeps.
    type Outcome: Clone + Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + Unpin;
    /// What health tells apart beside the state.
    type Facet: Copy + Debug + Ord + Serialize + DeserializeOwned + Send + Sync + Unpin;

    /// What a repeated answer still brings although it says the same as before.
    type Note: Clone + Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + Unpin;

    /// What a valid answer means.
    fn judge(
        binding: &Self::Binding,
        progress: &Self::Progress,
        report: Self::Report,
    ) -> Verdict<Self>;
    /// The record's identity.
    fn identity(binding: &Self::Binding) -> Identity;
    /// The site it belongs to.
    fn site(binding: &Self::Binding) -> &str;
    /// How many attempts, or failures in a row, it may have.
    fn ceiling(binding: &Self::Binding) -> Ceiling;
    /// Whether payload and binding belong together (the payload's hash, where there is one).
    fn belongs(binding: &Self::Binding, payload: &Self::Payload) -> bool;
    /// Which of the due records go first; smaller is earlier. The same for all where nothing else is said.
    fn rank(_: &Self::Binding) -> u8 {
        0
    }
    /// What health tells apart.
    fn facet(state: &State<Self>) -> Self::Facet;
    /// Whether an answer says the same as before: then what it brings all the same.
    fn repeats(before: &Self::Progress, now: &Self::Progress) -> Option<Self::Note>;
    /// What is known after a repeated answer; `None` when nothing can be repeated.
    fn repeated(before: &Self::Progress, note: &Self::Note) -> Option<Self::Progress>;

    /// A refusal that is an end and no failure (D6).
    #[must_use]
    fn ended_by(_code: &ErrorCode) -> Option<Self::Outcome> {
        None
    }

    /// An identity beside the record's own that no other record may have (D17).
    #[must_use]
    fn unique_key(_binding: &Self::Binding) -> Option<Key> {
        None
    }

    /// Whom the record waits for, or keeps waiting (D5).
    #[must_use]
    fn link(_binding: &Self::Binding) -> Link {
        Link::None
    }

    /// The pinned digest the record was registered under; under another one it is held (D9).
    #[must_use]
    fn digest(_binding: &Self::Binding) -> Option<Sha256> {
        None
    }

    /// The binding under another pinned digest; `None` for a flow that pins none.
    #[must_use]
    fn repin(_binding: &Self::Binding, _digest: Sha256) -> Option<Self::Binding> {
        None
    }
}

/// What a valid answer means for the record.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict<F: Flow> {
    /// It is done.
    Complete(F::Outcome),
    /// Ask again after the poll interval.
    Watch(F::Progress),
    /// The other side says that it failed: final, and no failure of ours.
    Fail {
        /// Our code for it.
        code: ErrorCode,
        /// What the other side said.
        progress: F::Progress,
    },
}
