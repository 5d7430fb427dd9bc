//! Rows of the lifecycle monitor (contract 4.2).

use super::standing::{Times, state};
use super::{Cells, RowFault, Told};
use crate::contract::json::Value;
use crate::contract::lifecycle::{LifecycleResponse, RemoteStatus};
use crate::contract::payload::Payload;
use crate::flows::lifecycle::{Lifecycle, LifecycleBinding, LifecycleOutcome, Snapshot};
use crate::record::{ImportedRecord, ImportedState};

/// The members of an answer that have columns of their own.
const MEMBERS: [(&str, &str); 6] = [
    ("required_locales", "required_locales_json"),
    ("approved_locales", "approved_locales_json"),
    ("blocked_locales", "blocked_locales_json"),
    ("queue_counts", "queue_counts_json"),
    ("delivery", "delivery_json"),
    ("tombstone", "tombstone_json"),
];

pub(super) fn read(row: &Cells<'_>) -> Result<Told<Lifecycle>, RowFault> {
    let binding = binding(row)?;
    let remote = match row.optional_text("remote_status")? {
        None => None,
        Some(name) => Some(RemoteStatus::from_name(name).ok_or(RowFault::Answer)?),
    };
    let snapshot = snapshot(row, &binding, remote)?;
    let name = row.text("state")?;
    let (outcome, progress) = match (name, remote) {
        ("terminal", Some(status)) => (Some(ended(status, snapshot)?), None),
        (_, None) => (None, None),
        // A status without its answer is known of an end alone.
        (_, Some(_)) => (None, Some(snapshot.ok_or(RowFault::Answer)?)),
    };
    if progress.as_ref().is_some_and(|known| known.status.is_terminal()) {
        return Err(RowFault::Answer);
    }
    let Times { created_at, updated_at, next_at } = Times::read(row, "next_poll_at")?;
    let record = ImportedRecord::<Lifecycle> {
        binding,
        created_at,
        updated_at,
        next_at,
        attempts: row.tries("poll_attempts")?,
        failures: row.tries("consecutive_failures")?,
        progress,
        state: state(row, name, outcome)?,
    };
    let heard = record.progress.is_some();
    match record.state {
        ImportedState::Pending if heard => Err(RowFault::Answer),
        ImportedState::Watching if !heard => Err(RowFault::Answer),
        ImportedState::Pending
        | ImportedState::Watching
        | ImportedState::RetryWait(_)
        | ImportedState::Leased(_)
        | ImportedState::Completed(_)
        | ImportedState::Failed(_) => Ok((record, ())),
    }
}

fn binding(row: &Cells<'_>) -> Result<LifecycleBinding, RowFault> {
    let count = |column| -> Result<u64, RowFault> {
        let value = u64::try_from(row.integer(column)?).ok().filter(|value| *value > 0);
        value.ok_or(RowFault::Binding)
    };
    let binding = LifecycleBinding {
        event_id: row.token("event_id")?,
        site_id: row.token("site_id")?,
        plan_id: row.token("plan_id")?,
        website_version: row.token("website_version")?,
        source_sequence: count("source_sequence")?,
        job_count: count("job_count")?,
        change_sha256: row.sha256("change_sha256")?,
        max_consecutive_failures: row.ceiling("max_consecutive_failures")?,
    };
    if row.sha256("binding_sha256")? == binding.sha256() {
        Ok(binding)
    } else {
        Err(RowFault::Binding)
    }
}

/// How it ended: as the last answer says, or, for a change that was not even queued, without one.
fn ended(status: RemoteStatus, snapshot: Option<Snapshot>) -> Result<LifecycleOutcome, RowFault> {
    let known = match &snapshot {
        Some(_) => status.is_terminal(),
        None => matches!(status, RemoteStatus::Cancelled | RemoteStatus::Superseded),
    };
    if known { Ok(LifecycleOutcome { status, snapshot }) } else { Err(RowFault::Answer) }
}

/// The last answer, whole or absent, with the columns that repeat it.
fn snapshot(
    row: &Cells<'_>,
    binding: &LifecycleBinding,
    remote: Option<RemoteStatus>,
) -> Result<Option<Snapshot>, RowFault> {
    let repeated = MEMBERS.iter().map(|(_, column)| *column);
    let columns = ["lifecycle_sha256", "lifecycle_json"].into_iter().chain(repeated);
    let there = columns.filter(|column| row.has(column)).count();
    if there == 0 {
        return Ok(None);
    }
    if there < MEMBERS.len() + 2 {
        return Err(RowFault::Answer);
    }
    let text = row.text("lifecycle_json")?;
    let response = LifecycleResponse::parse(text.as_bytes(), &binding.expected())
        .map_err(|_| RowFault::Answer)?;
    if response.payload.as_str() != text || remote != Some(response.status) {
        return Err(RowFault::Answer);
    }
    if response.payload.sha256() != row.sha256("lifecycle_sha256")? {
        return Err(RowFault::Hash);
    }
    let answer = Value::parse(text.as_bytes()).map_err(|_| RowFault::Answer)?;
    for (member, column) in MEMBERS {
        let value = answer.as_object().and_then(|object| object.get(member));
        let told = value.map(|value| Payload::of(value).as_str() == row.text(column).unwrap_or(""));
        if told != Some(true) {
            return Err(RowFault::Answer);
        }
    }
    Ok(Some(Snapshot { status: response.status, answer: response.payload }))
}
