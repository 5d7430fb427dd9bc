//! Rows of the terminal processing monitor (contract 4.3).

use super::standing::{Times, state};
use super::{Cells, Meta, RowFault, Told};
use crate::contract::lifecycle::RemoteStatus;
use crate::contract::receiver::{ReceiverState, WorkStatus};
use crate::contract::text::ErrorCode;
use crate::flows::processing::{Processing, ProcessingBinding};
use crate::record::ImportedRecord;

pub(super) fn read(row: &Cells<'_>, meta: &Meta) -> Result<Told<Processing>, RowFault> {
    let terminal = RemoteStatus::from_name(row.text("terminal_status")?);
    let binding = ProcessingBinding {
        event_id: row.token("event_id")?,
        notification_id: row.token("notification_id")?,
        site_id: row.token("site_id")?,
        terminal_status: terminal.filter(|it| it.is_terminal()).ok_or(RowFault::Binding)?,
        notification_sha256: row.sha256("notification_sha256")?,
        capabilities_sha256: meta.digest.ok_or(RowFault::Binding)?,
        max_failures: row.ceiling("max_failures")?,
    };
    let (attempts, failures) = (row.tries("poll_attempts")?, row.tries("failures")?);
    if failures > attempts {
        return Err(RowFault::Attempts);
    }
    let (name, receiver) = (row.text("status")?, receiver(row)?);
    let heard = receiver.as_ref().map(|receiver| receiver.status);
    let (outcome, progress) =
        if heard == Some(WorkStatus::Succeeded) { (receiver, None) } else { (None, receiver) };
    if name == "watching" && !heard.is_some_and(goes_on) {
        return Err(RowFault::Answer);
    }
    let Times { created_at, updated_at, next_at } = Times::read(row, "next_poll_at")?;
    let record = ImportedRecord {
        binding,
        created_at,
        updated_at,
        next_at,
        attempts,
        failures,
        progress,
        state: state(row, name, outcome)?,
    };
    Ok((record, ()))
}

fn goes_on(status: WorkStatus) -> bool {
    match status {
        WorkStatus::Pending | WorkStatus::Leased | WorkStatus::RetryWait => true,
        WorkStatus::Succeeded | WorkStatus::Failed => false,
    }
}

/// The receiver's own state, whole or absent.
fn receiver(row: &Cells<'_>) -> Result<Option<ReceiverState>, RowFault> {
    let Some(status) = row.optional_text("receiver_status")? else {
        let others = [
            "receiver_attempts",
            "receiver_max_attempts",
            "receiver_next_attempt_at",
            "receiver_lease_expires_at",
            "receiver_lease_expired",
            "receiver_error_code",
            "receiver_processed_at",
        ];
        let any = others.iter().any(|column| row.has(column));
        return if any { Err(RowFault::Answer) } else { Ok(None) };
    };
    let status = WorkStatus::from_name(status).ok_or(RowFault::Answer)?;
    let small = |column| u8::try_from(row.integer(column)?).map_err(|_| RowFault::Answer);
    let error_code = match row.optional_text("receiver_error_code")? {
        None => None,
        Some(text) => Some(ErrorCode::new(text).ok_or(RowFault::Answer)?),
    };
    let state = ReceiverState {
        status,
        attempts: small("receiver_attempts")?,
        max_attempts: small("receiver_max_attempts")?,
        next_attempt_at: row
            .optional_seconds("receiver_next_attempt_at")?
            .ok_or(RowFault::Answer)?,
        lease_expires_at: row.optional_seconds("receiver_lease_expires_at")?,
        lease_expired: match row.integer("receiver_lease_expired")? {
            0 => false,
            1 => true,
            _ => return Err(RowFault::Answer),
        },
        error_code,
        processed_at: row.optional_seconds("receiver_processed_at")?,
    };
    if state.holds() { Ok(Some(state)) } else { Err(RowFault::Answer) }
}
