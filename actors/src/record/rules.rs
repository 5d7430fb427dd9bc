//! How the flows differ (contract 4.8), as constants.

/// What the ceiling counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Leases taken: every attempt, a crashed one included.
    Leases,
    /// Failures in a row: a good answer starts again at 0.
    Failures,
}

/// When a record is due again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// At once.
    Now,
    /// After the back-off of its failures.
    BackOff,
    /// When it was due before.
    Unchanged,
}

/// How a settlement after the lease's end is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// With `lease_expired`, and `claim_missing` for a record that is not there.
    Named,
    /// With `claim_lost`, whatever the reason.
    Lost,
}

/// In which order `run_once` looks at its arguments (contract 4.9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arguments {
    /// Lease, client, lease against client, then as `claim`: worker, time, lease.
    LeaseFirst,
    /// Time, then as `claim`: worker, time, lease; then lease against client.
    TimeFirst,
    /// As `claim`: worker, lease, lease against client, time.
    WorkerFirst,
}

/// The constants of one flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// What its codes start with, without the dot.
    pub prefix: &'static str,
    /// What the ceiling counts.
    pub counted: Counted,
    /// The code an expired lease leaves in the record.
    pub expiry_code: &'static str,
    /// The code of a record that failed because it lost too many leases in a row.
    pub losses_code: &'static str,
    /// When a record whose lease expired is due again.
    pub expiry_due: Due,
    /// The due time of a record that an expiry made final.
    pub expiry_final_due: Due,
    /// The due time of a completed record.
    pub complete_due: Due,
    /// How late settlements are refused.
    pub late: Late,
    /// The code, without prefix, of a call that failed without anybody vouching for how.
    pub unmarked: &'static str,
    /// The code, without prefix, of a lease that is no length of time at all.
    pub not_a_lease: &'static str,
    /// In which order arguments are looked at.
    pub arguments: Arguments,
}
