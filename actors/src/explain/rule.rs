//! The rules that hold a record where it is, each with its id and one sentence.
//!
//! Owns the sentences. The ids are sections of the contract, deviations from the reference (D), or the
//! configuration's key for a rule that is off unless it is set.

use super::Final;
use serde::ser::{Serialize, SerializeStruct as _, Serializer};

/// A rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Who is due, and who goes first.
    Due,
    /// Polls.
    Poll,
    /// Delays after failures.
    BackOff,
    /// What a lease that ran out leaves.
    LeaseLost,
    /// Leases.
    Lease,
    /// Leases that are over.
    LeaseOver,
    /// Removals wait for their change.
    RemovalWaits,
    /// Records under another digest.
    OtherDigest,
    /// What an operator paused.
    Paused,
    /// Ceilings.
    Ceiling,
    /// Leases lost in a row.
    LeasesLost,
    /// Failures that are not tried again.
    NotRetryable,
    /// The receiver's own failures.
    ReceiverFailed,
    /// What an operator let be.
    LetBe,
    /// Records that do not replay.
    Quarantine,
    /// What is registered with the next flow.
    HandOver,
    /// The end.
    Settled,
    /// Changes that were overtaken.
    Superseded,
    /// Changes that were at their end when they were registered.
    SettledAtOnce,
}

const DUE: &str = "A record is due from its time on; of those that are due, the one registered first \
    goes first, and in flow delivery removals go before changes.";
const POLL: &str = "A good answer that is not final is followed by another poll after the poll interval, \
    as often as it takes.";
const BACK_OFF: &str = "After a failure it waits: the base delay, doubled with every further failure, at most \
    the longest delay, less the jitter where the flow has any; longer where the other side asked for it.";
const LEASE_LOST: &str = "A lease that ended unsettled leaves its record to be tried again: at once, or, in flow \
    lifecycle, after the back-off.";
const LEASE: &str = "One worker has it and nobody else, until it settles or its lease ends; at that very \
    instant the lease is over.";
const LEASE_OVER: &str = "A lease that is over is ended by the next claim in its flow, or when the journal is \
    opened again; nothing else happens to the record before.";
const REMOVAL_WAITS: &str = "A cancellation or tombstone waits while the change it concerns is unsettled here, so \
    that it cannot overtake it.";
const OTHER_DIGEST: &str = "A record registered under another digest than the pinned one is held for an operator; \
    the others go on.";
const PAUSED: &str = "What an operator paused is given to nobody until it is resumed; it is registered and \
    read as before, and a lease that is out may settle.";
const LEASES_LOST: &str = "A record that loses so many leases in a row, each to a process that died or hung, \
    fails before it takes down the next one; a call that ends starts the count again.";
const CEILING: &str = "A record has at most as many attempts, or failures in a row, as its ceiling says; with \
    the last one it fails.";
const NOT_RETRYABLE: &str =
    "A failure that nobody marked as one that may pass is final the first time.";
const LET_BE: &str = "What an operator dismissed stays in the history, is no trouble any more, and is never \
    tried unless it is requeued.";
const QUARANTINE: &str = "A record whose events do not replay is left alone, and all others go on.";
const SUPERSEDED: &str = "A change that a newer one of the same source overtook has ended well.";
const SETTLED_AT_ONCE: &str =
    "A change that the CMS did not queue is terminal at once and never polled.";

impl Rule {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::Due,
        Self::Poll,
        Self::BackOff,
        Self::LeaseLost,
        Self::Lease,
        Self::LeaseOver,
        Self::RemovalWaits,
        Self::OtherDigest,
        Self::Paused,
        Self::Ceiling,
        Self::LeasesLost,
        Self::NotRetryable,
        Self::ReceiverFailed,
        Self::LetBe,
        Self::Quarantine,
        Self::HandOver,
        Self::Settled,
        Self::Superseded,
        Self::SettledAtOnce,
    ];

    pub(super) fn of_failure(because: Final) -> Self {
        match because {
            Final::CeilingReached => Self::Ceiling,
            Final::LeasesLost => Self::LeasesLost,
            Final::NotRetryable => Self::NotRetryable,
            Final::OtherSideFailed => Self::ReceiverFailed,
        }
    }

    /// The section of the contract, the deviation, or the configuration's key.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::Due | Self::Poll | Self::BackOff | Self::Lease | Self::Ceiling => "contract 1.3",
            Self::NotRetryable | Self::Settled => "contract 4",
            Self::SettledAtOnce => "contract 4.2",
            Self::ReceiverFailed => "contract 4.3",
            Self::HandOver => "contract 4.7",
            Self::LeaseLost | Self::LeaseOver => "contract 4.8",
            Self::RemovalWaits => "D5",
            Self::Superseded => "D6",
            Self::Quarantine => "D8",
            Self::OtherDigest => "D9",
            Self::Paused | Self::LetBe => "D12",
            Self::LeasesLost => "unclean_losses_max",
        }
    }

    /// What it says.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Due => DUE,
            Self::Poll => POLL,
            Self::BackOff => BACK_OFF,
            Self::LeaseLost => LEASE_LOST,
            Self::Lease => LEASE,
            Self::LeaseOver => LEASE_OVER,
            Self::RemovalWaits => REMOVAL_WAITS,
            Self::OtherDigest => OTHER_DIGEST,
            Self::Paused => PAUSED,
            Self::LeasesLost => LEASES_LOST,
            Self::Ceiling => CEILING,
            Self::NotRetryable => NOT_RETRYABLE,
            Self::ReceiverFailed => "What failed at the receiver for good has failed here.",
            Self::LetBe => LET_BE,
            Self::Quarantine => QUARANTINE,
            Self::HandOver => "A record that settled is registered with the flow that follows.",
            Self::Settled => "A settled record is at its end: nothing is done to it any more.",
            Self::Superseded => SUPERSEDED,
            Self::SettledAtOnce => SETTLED_AT_ONCE,
        }
    }
}

impl Serialize for Rule {
    /// As its id and its sentence.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut rule = serializer.serialize_struct("Rule", 2)?;
        rule.serialize_field("id", self.id())?;
        rule.serialize_field("sentence", self.sentence())?;
        rule.end()
    }
}
