//! Records of the reference's stores: from a row to the event that brings it here.
//!
//! Owns which tables and columns there are, the rules every row keeps (contract, section 4), and what such a
//! row is in this journal. Pure. Must not know what a store is read with, nor what is written where.
//!
//! | module | owns |
//! | --- | --- |
//! | [`store`] | the four components: tables, columns, versions |
//! | [`cells`] | values of a row, and their checks |
//! | [`standing`] | what all components share: times, lease, error, state |
//! | `dispatch`, `lifecycle`, `processing`, `delivery` | what each adds |
//! | [`entry`] | a checked row, ready to be written or compared |

pub mod cells;
mod delivery;
mod dispatch;
pub mod entry;
mod lifecycle;
mod processing;
pub mod standing;
pub mod store;

pub use cells::{Cell, Cells};
pub use entry::Entry;
pub use store::{Component, Meta, StoreFault};

use crate::contract::text::Sha256;
use crate::contract::time::Timestamp;
use crate::flows::delivery::Delivery;
use crate::flows::dispatch::Dispatch;
use crate::flows::lifecycle::Lifecycle;
use crate::flows::processing::Processing;
use crate::invariants::{self, broken};
use crate::record::rules::Counted;
use crate::record::{Event, Flow, ImportedRecord, ImportedState};

/// Why a row is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum RowFault {
    /// A value of another kind than its column has, or text that is no UTF-8.
    #[error("value_invalid")]
    Value,
    /// Its identity, or one of the names in it, is none.
    #[error("identity_invalid")]
    Identity,
    /// Its document is none, or not in its canonical form.
    #[error("payload_invalid")]
    Payload,
    /// Its document, or its answer, has another hash than the row says.
    #[error("hash_mismatch")]
    Hash,
    /// What was registered does not hang together.
    #[error("binding_invalid")]
    Binding,
    /// A ceiling outside of 1 to 20.
    #[error("ceiling_invalid")]
    Ceiling,
    /// Attempts or failures that cannot be in its state, or under its ceiling.
    #[error("attempts_invalid")]
    Attempts,
    /// A time that is none, or before its creation.
    #[error("time_invalid")]
    Time,
    /// Half a lease, one outside of `leased`, or one that ends before it began.
    #[error("lease_invalid")]
    Lease,
    /// An error that is none, is missing, or has no place in its state.
    #[error("error_invalid")]
    Error,
    /// What the other side answered is not whole, or does not fit its state.
    #[error("answer_invalid")]
    Answer,
    /// No state of the component.
    #[error("state_invalid")]
    State,
}

impl RowFault {
    /// The stable code.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Value => "value_invalid",
            Self::Identity => "identity_invalid",
            Self::Payload => "payload_invalid",
            Self::Hash => "hash_mismatch",
            Self::Binding => "binding_invalid",
            Self::Ceiling => "ceiling_invalid",
            Self::Attempts => "attempts_invalid",
            Self::Time => "time_invalid",
            Self::Lease => "lease_invalid",
            Self::Error => "error_invalid",
            Self::Answer => "answer_invalid",
            Self::State => "state_invalid",
        }
    }
}

/// A record as a row tells it, and its payload.
type Told<F> = (ImportedRecord<F>, <F as Flow>::Payload);

/// Checks a row of a component's table, whose cells are in the order of [`Component::columns`].
///
/// # Errors
/// [`RowFault`]; the row is to be left out then.
pub fn check(
    component: Component,
    meta: &Meta,
    cells: &[Cell],
    at: Timestamp,
) -> Result<Entry, RowFault> {
    let row = Cells::new(component.columns(), cells).ok_or(RowFault::Value)?;
    Ok(match component {
        Component::Dispatch => {
            Entry::Dispatch(event::<Dispatch>(dispatch::read(&row)?, meta, &row, at)?)
        }
        Component::Lifecycle => {
            Entry::Lifecycle(event::<Lifecycle>(lifecycle::read(&row)?, meta, &row, at)?)
        }
        Component::Processing => {
            Entry::Processing(event::<Processing>(processing::read(&row, meta)?, meta, &row, at)?)
        }
        Component::Delivery => {
            Entry::Delivery(event::<Delivery>(delivery::read(&row)?, meta, &row, at)?)
        }
    })
}

fn event<F: Flow>(
    (record, payload): Told<F>,
    meta: &Meta,
    row: &Cells<'_>,
    at: Timestamp,
) -> Result<Event<F>, RowFault> {
    hold(&record)?;
    let (schema_version, row_sha256) = (meta.schema_version, row_sha256(row)?);
    Ok(Event::Imported { at, schema_version, row_sha256, record: Box::new(record), payload })
}

fn row_sha256(row: &Cells<'_>) -> Result<Sha256, RowFault> {
    Ok(Sha256::of(row.canonical()?.as_bytes()))
}

/// What is true of every record. One that goes on has something of its ceiling left: the reference never
/// leaves another one waiting, and here it would be tried once too often.
fn hold<F: Flow>(record: &ImportedRecord<F>) -> Result<(), RowFault> {
    match broken(&record.state()) {
        None => {}
        Some(invariant) if invariant == invariants::R2 => return Err(RowFault::Time),
        Some(invariant) if invariant == invariants::R3 && record.attempts > 0 => {
            return Err(RowFault::Lease);
        }
        Some(_) => return Err(RowFault::Attempts),
    }
    let ceiling = F::ceiling(&record.binding).get();
    let waiting = match &record.state {
        ImportedState::Pending | ImportedState::Watching | ImportedState::RetryWait(_) => true,
        ImportedState::Leased(_) => F::RULES.counted == Counted::Failures,
        ImportedState::Completed(_) | ImportedState::Failed(_) => false,
    };
    let used = match F::RULES.counted {
        Counted::Leases => record.attempts,
        Counted::Failures => record.failures,
    };
    if waiting && used >= ceiling { Err(RowFault::Attempts) } else { Ok(()) }
}
