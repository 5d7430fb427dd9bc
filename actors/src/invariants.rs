//! What is always true of a record, with ids.
//!
//! Owns the sentences and the predicates; the audit, the tests and the simulation use these and no
//! copies of their own.

use crate::record::{Flow, State, Wait, rules::Counted};

/// One sentence that is always true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Invariant {
    /// Its id.
    pub id: &'static str,
    /// The sentence.
    pub sentence: &'static str,
}

/// Attempts and ceilings.
pub const R1: Invariant =
    Invariant { id: "R1", sentence: "a record never uses more than its ceiling in one round" };
/// Times.
pub const R2: Invariant = Invariant {
    id: "R2",
    sentence: "a record's last time and due time are not before its creation",
};
/// Leases.
pub const R3: Invariant =
    Invariant { id: "R3", sentence: "a lease ends after it was granted, and its grant counted" };
/// Waiting.
pub const R4: Invariant = Invariant {
    id: "R4",
    sentence: "a pending record was not tried in this round, any other one was",
};
/// The end.
pub const R5: Invariant = Invariant {
    id: "R5",
    sentence: "a record that is completed, failed or dismissed has no lease, and only an operator's event \
               leads out of the last two",
};

/// What is paused.
pub const P1: Invariant = Invariant {
    id: "P1",
    sentence: "pauses and resumes of a scope alternate, after one event that names it, and no time goes \
               back",
};
/// Where that is kept.
pub const P2: Invariant =
    Invariant { id: "P2", sentence: "the events of a scope lie in the stream of its name" };

/// All of them.
pub const ALL: [Invariant; 7] = [R1, R2, R3, R4, R5, P1, P2];

/// The first invariant that the state breaks. R5 holds by the shape of the states and by `evolve`,
/// which knows no event that leaves them; a test tries every event on them. P1 and P2 are not about
/// records: they hold by the `evolve` and the replay of [`crate::control`], which take nothing else.
#[must_use]
pub fn broken<F: Flow>(state: &State<F>) -> Option<Invariant> {
    let record = state.record()?;
    let used = match F::RULES.counted {
        Counted::Leases => record.attempts,
        Counted::Failures => record.failures,
    };
    if used > F::ceiling(&record.binding).get() {
        return Some(R1);
    }
    if record.updated_at < record.created_at || record.next_at < record.created_at {
        return Some(R2);
    }
    match state {
        State::Leased { lease, .. } => {
            (lease.expires_at <= record.updated_at || record.attempts == 0).then_some(R3)
        }
        State::Ready { wait, .. } => {
            ((*wait == Wait::Pending) != (record.attempts == 0)).then_some(R4)
        }
        State::Vacant
        | State::Completed { .. }
        | State::Failed { .. }
        | State::Dismissed { .. } => None,
    }
}
