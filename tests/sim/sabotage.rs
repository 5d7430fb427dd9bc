//! Null controls: ways in which the simulated shell can be told to act wrongly.
//!
//! Owns their names and which invariant has to notice each. A simulation that cannot fail proves
//! nothing.

/// What the shell does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sabotage {
    /// Callers are answered when their append is queued.
    AckBeforeCommit,
    /// A copy of a lease is given out when nothing is due.
    TwoLeases,
    /// A settlement is taken with any proof.
    TokenUnchecked,
    /// A worker is given its claim when the append is queued.
    SendBeforeLease,
    /// A failed record is requeued without an operator.
    AutoRequeue,
    /// A registration under another binding is answered as if it were known.
    CollisionSwallowed,
    /// Each attempt sends other bytes.
    BodyChanges,
    /// Removals do not wait for their change.
    IgnoreD5,
    /// Records that wait after a failure are not counted.
    WrongCount,
    /// A record's actor keeps its old state after its append.
    StaleEntity,
    /// A byte of the journal is changed on disk.
    Tamper,
    /// The record that is due first is dropped from the agenda.
    SkipDue,
    /// Leases are never ended.
    NeverExpire,
    /// A refusal carries a payload.
    TellPayload,
    /// A completed record is handed over under a second identity too.
    HandOverTwice,
    /// Hand-overs wait for the next open.
    HandOverForgotten,
}

impl Sabotage {
    /// All of them, each with its name and the id of the invariant that notices it.
    pub(crate) const ALL: [(Self, &'static str, &'static str); 16] = [
        (Self::AckBeforeCommit, "ack_before_commit", "I1"),
        (Self::TwoLeases, "two_leases", "I2"),
        (Self::TokenUnchecked, "token_unchecked", "I3"),
        (Self::SendBeforeLease, "send_before_lease", "I4"),
        (Self::AutoRequeue, "auto_requeue", "I5"),
        (Self::CollisionSwallowed, "collision_swallowed", "I6"),
        (Self::BodyChanges, "body_changes", "I7"),
        (Self::IgnoreD5, "ignore_d5", "I8"),
        (Self::WrongCount, "wrong_count", "I9"),
        (Self::StaleEntity, "stale_entity", "I10"),
        (Self::Tamper, "tamper", "I11"),
        (Self::SkipDue, "skip_due", "I12"),
        (Self::NeverExpire, "never_expire", "I13"),
        (Self::TellPayload, "tell_payload", "I14"),
        (Self::HandOverTwice, "hand_over_twice", "I15"),
        (Self::HandOverForgotten, "hand_over_forgotten", "I15"),
    ];

    /// The one of this name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known, _)| *known == name).map(|(sabotage, _, _)| *sabotage)
    }
}
