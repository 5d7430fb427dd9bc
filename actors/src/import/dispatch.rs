//! Rows of the change dispatcher (contract 4.1).

use super::standing::{Times, state};
use super::{Cells, RowFault, Told};
use crate::contract::change::Change;
use crate::contract::dispatch::{DispatchResponse, DispatchedAs};
use crate::contract::text::Token;
use crate::flows::dispatch::{Dispatch, DispatchBinding};
use crate::record::ImportedRecord;

pub(super) fn read(row: &Cells<'_>) -> Result<Told<Dispatch>, RowFault> {
    let (event_id, text) = (row.token("event_id")?, row.text("payload_json")?);
    let sha256 = row.sha256("payload_sha256")?;
    let change = Change::parse(text.as_bytes()).map_err(|_| RowFault::Payload)?;
    if change.payload.as_str() != text {
        return Err(RowFault::Payload);
    }
    if change.payload.sha256() != sha256 {
        return Err(RowFault::Hash);
    }
    if change.event_id != event_id {
        return Err(RowFault::Binding);
    }
    // The reference writes none, and there is no place for one here: it is not to get lost unseen.
    if row.has("last_error_detail_hash") {
        return Err(RowFault::Error);
    }
    let binding = DispatchBinding::of(&change, row.ceiling("max_attempts")?);
    let Times { created_at, updated_at, next_at } = Times::read(row, "next_attempt_at")?;
    let record = ImportedRecord {
        binding,
        created_at,
        updated_at,
        next_at,
        attempts: row.tries("attempts")?,
        failures: 0,
        progress: (),
        state: state(row, row.text("status")?, outcome(row)?)?,
    };
    Ok((record, change.payload))
}

/// The four columns of the answer, whole or absent.
fn outcome(row: &Cells<'_>) -> Result<Option<DispatchResponse>, RowFault> {
    let members = ["remote_plan_id", "remote_job_count", "remote_status", "response_sha256"];
    let there = members.iter().filter(|column| row.has(column)).count();
    if there == 0 {
        return Ok(None);
    }
    if there < members.len() {
        return Err(RowFault::Answer);
    }
    let status = match row.text("remote_status")? {
        "enqueued" => DispatchedAs::Enqueued,
        "superseded" => DispatchedAs::Superseded,
        "cancelled" => DispatchedAs::Cancelled,
        _ => return Err(RowFault::Answer),
    };
    let job_count = u64::try_from(row.integer("remote_job_count")?).ok().filter(|it| *it > 0);
    Ok(Some(DispatchResponse {
        plan_id: Token::new(row.text("remote_plan_id")?).ok_or(RowFault::Answer)?,
        job_count: job_count.ok_or(RowFault::Answer)?,
        status,
        sha256: row.sha256("response_sha256")?,
    }))
}
