//! What the simulation holds true at every step, with ids.
//!
//! Owns the sentences and what a break of one of them is. R1 to R5 are
//! [`leasehold_actors::invariants`]' own and are checked beside these.

use leasehold_actors::invariants::Invariant;

const fn invariant(id: &'static str, sentence: &'static str) -> Invariant {
    Invariant { id, sentence }
}

/// Acknowledged is durable.
pub(crate) const I1: Invariant =
    invariant("I1", "what was acknowledged is there after a crash, or its loss is noticed");
/// One lease.
pub(crate) const I2: Invariant = invariant("I2", "a record has at most one live lease");
/// Tokens.
pub(crate) const I3: Invariant =
    invariant("I3", "a stale token changes nothing, and a live one settles");
/// Attempts.
pub(crate) const I4: Invariant = invariant(
    "I4",
    "an attempt is counted durably before its call, and no round has more than its ceiling",
);
/// The end.
pub(crate) const I5: Invariant = invariant("I5", "final is final, but for an operator's event");
/// Identities.
pub(crate) const I6: Invariant = invariant(
    "I6",
    "the same identity under the same binding is known already, under another it collides",
);
/// Bodies.
pub(crate) const I7: Invariant =
    invariant("I7", "all bodies the other side gets for one identity are the same bytes");
/// Order (D5).
pub(crate) const I8: Invariant = invariant(
    "I8",
    "a removal is not given out while its change, known before the worker asked, is unsettled",
);
/// Health.
pub(crate) const I9: Invariant = invariant("I9", "the tally is the fold of the journal");
/// Replay.
pub(crate) const I10: Invariant =
    invariant("I10", "the journal replays to the states that are live");
/// The chain.
pub(crate) const I11: Invariant =
    invariant("I11", "the chain verifies and no anchor is ahead of it");
/// The agenda.
pub(crate) const I12: Invariant =
    invariant("I12", "nobody sleeps past what is due, and what is due first is given out first");
/// Liveness.
pub(crate) const I13: Invariant =
    invariant("I13", "once faults stop every record settles within a bounded number of rounds");
/// Content.
pub(crate) const I14: Invariant =
    invariant("I14", "no error, refusal or state prints a payload, a token or an operator's words");
/// Hand-over.
pub(crate) const I15: Invariant =
    invariant("I15", "each completed record is registered with the next flow exactly once");

/// All of them.
pub(crate) const ALL: [Invariant; 15] =
    [I1, I2, I3, I4, I5, I6, I7, I8, I9, I10, I11, I12, I13, I14, I15];

/// An invariant that does not hold, and by which check that was noticed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Break {
    /// Which one.
    pub(crate) invariant: Invariant,
    /// What was seen.
    pub(crate) detail: &'static str,
}

/// A check.
pub(crate) type Checked = Result<(), Break>;

/// The break of an invariant.
pub(crate) fn broken(invariant: Invariant, detail: &'static str) -> Break {
    Break { invariant, detail }
}

/// Checks one thing.
pub(crate) fn must(holds: bool, invariant: Invariant, detail: &'static str) -> Checked {
    if holds { Ok(()) } else { Err(broken(invariant, detail)) }
}
