//! Rows of the source delivery outbox (contract 4.4).

use super::standing::{Times, state};
use super::{Cells, RowFault, Told};
use crate::contract::source::{Document, Operation};
use crate::flows::delivery::{Delivered, Delivery, DeliveryBinding};
use crate::record::ImportedRecord;

pub(super) fn read(row: &Cells<'_>) -> Result<Told<Delivery>, RowFault> {
    let operation = Operation::from_name(row.text("operation")?).ok_or(RowFault::Identity)?;
    let (request_id, text) = (row.token("request_id")?, row.text("payload_json")?);
    let (event_id, site_id) = (row.token("event_id")?, row.token("site_id")?);
    let document = Document::parse(text.as_bytes()).map_err(|_| RowFault::Payload)?;
    if document.payload.as_str() != text {
        return Err(RowFault::Payload);
    }
    if document.payload.sha256() != row.sha256("payload_sha256")? {
        return Err(RowFault::Hash);
    }
    let same = (document.operation, &document.request_id) == (operation, &request_id)
        && (&document.event_id, &document.site_id) == (&event_id, &site_id);
    if !same {
        return Err(RowFault::Binding);
    }
    let binding = DeliveryBinding::of(
        &document,
        row.sha256("capabilities_sha256")?,
        row.ceiling("delivery_max_attempts")?,
        row.ceiling("source_max_attempts")?,
    );
    let outcome = if row.has("response_sha256") {
        Some(Delivered { response_sha256: row.sha256("response_sha256")? })
    } else {
        None
    };
    let Times { created_at, updated_at, next_at } = Times::read(row, "next_attempt_at")?;
    let record = ImportedRecord {
        binding,
        created_at,
        updated_at,
        next_at,
        attempts: row.tries("attempts")?,
        failures: 0,
        progress: (),
        state: state(row, row.text("status")?, outcome)?,
    };
    Ok((record, document.payload))
}
