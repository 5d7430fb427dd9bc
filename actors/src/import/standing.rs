//! What the rows of all components share: times, lease, error, and the state these belong to.

use super::{Cells, RowFault};
use crate::contract::text::{ErrorCode, Token, WorkerToken};
use crate::contract::time::Timestamp;
use crate::flows::Answers;
use crate::record::{ImportedState, Lease, LeaseToken};

/// When a record was registered, last touched, and is due.
pub(super) struct Times {
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    pub(super) next_at: Timestamp,
}

impl Times {
    /// Reads them; `due` is the column of the due time.
    pub(super) fn read(row: &Cells<'_>, due: &str) -> Result<Self, RowFault> {
        Ok(Self {
            created_at: row.time("created_at")?,
            updated_at: row.time("updated_at")?,
            next_at: row.time(due)?,
        })
    }
}

/// The lease, whole or absent. Of its token the hash is kept.
fn lease(row: &Cells<'_>) -> Result<Option<Lease>, RowFault> {
    let members = ["lease_owner", "lease_token", "lease_expires_at"];
    if !members.iter().any(|column| row.has(column)) {
        return Ok(None);
    }
    let (Some(owner), Some(token)) =
        (row.optional_text("lease_owner")?, row.optional_text("lease_token")?)
    else {
        return Err(RowFault::Lease);
    };
    let expires_at = row.optional_seconds("lease_expires_at")?.and_then(Timestamp::new);
    let (Some(owner), Some(_), Some(expires_at)) =
        (WorkerToken::new(owner), Token::new(token), expires_at)
    else {
        return Err(RowFault::Lease);
    };
    let token_sha256 = LeaseToken::new(token.into()).sha256();
    Ok(Some(Lease { owner, token_sha256, expires_at }))
}

fn error(row: &Cells<'_>) -> Result<Option<ErrorCode>, RowFault> {
    let text = row.optional_text("last_error_code")?;
    text.map(|text| ErrorCode::new(text).ok_or(RowFault::Error)).transpose()
}

/// The state of a row whose component calls it so. There is a lease in `leased` alone, an error in
/// `retry_wait` and `failed`, and an outcome in what the component calls a completed record.
pub(super) fn state<F: Answers>(
    row: &Cells<'_>,
    name: &str,
    outcome: Option<F::Outcome>,
) -> Result<ImportedState<F>, RowFault> {
    let completed = name == F::COMPLETED;
    let waits = ["pending", "retry_wait"].contains(&name) || (F::WATCHES && name == "watching");
    if !(waits || completed || ["leased", "failed"].contains(&name)) {
        return Err(RowFault::State);
    }
    let (lease, error) = (lease(row)?, error(row)?);
    if lease.is_some() != (name == "leased") {
        return Err(RowFault::Lease);
    }
    if error.is_some() != matches!(name, "retry_wait" | "failed") {
        return Err(RowFault::Error);
    }
    if outcome.is_some() != completed {
        return Err(RowFault::Answer);
    }
    match (name, lease, error, outcome) {
        ("pending", None, None, None) => Ok(ImportedState::Pending),
        ("watching", None, None, None) if F::WATCHES => Ok(ImportedState::Watching),
        ("retry_wait", None, Some(code), None) => Ok(ImportedState::RetryWait(code)),
        ("leased", Some(lease), None, None) => Ok(ImportedState::Leased(lease)),
        ("failed", None, Some(code), None) => Ok(ImportedState::Failed(code)),
        (_, None, None, Some(outcome)) => Ok(ImportedState::Completed(outcome)),
        _ => Err(RowFault::State),
    }
}
