//! Source delivery: the envelope and its answer (contract 2.7).

use super::MESSAGE_BYTES_MAX;
use super::change::{self, Change};
use super::dispatch::ResponseInvalid;
use super::json::{Integer, Object, Value};
use super::payload::Payload;
use super::receiver::WorkStatus;
use super::removal::{Removal, RemovalKind};
use super::text::{Sha256, Token};
use serde::{Deserialize, Serialize};

/// Schema of a change's envelope.
pub const CHANGE_REQUEST_SCHEMA: &str = "blun.cms-source-change-enqueue-request.v1";
/// Schema of a removal's envelope.
pub const REMOVAL_REQUEST_SCHEMA: &str = "blun.cms-source-removal-enqueue-request.v1";
/// Schema of the answer to a change.
pub const CHANGE_RESPONSE_SCHEMA: &str = "blun.cms-source-change-enqueue-response.v2";
/// Schema of the answer to a removal.
pub const REMOVAL_RESPONSE_SCHEMA: &str = "blun.cms-source-removal-enqueue-response.v2";

const RESPONSE_FIELDS: [&str; 9] = [
    "schema",
    "operation",
    "request_id",
    "event_id",
    "payload_sha256",
    "status",
    "attempts",
    "max_attempts",
    "capabilities_sha256",
];

/// What is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// A change event.
    Change,
    /// A cancellation.
    Cancellation,
    /// A tombstone.
    Tombstone,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Change, Self::Cancellation, Self::Tombstone];

    /// The operation of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::Cancellation => "cancellation",
            Self::Tombstone => "tombstone",
        }
    }

    /// Schema of its answer.
    #[must_use]
    pub fn response_schema(self) -> &'static str {
        match self {
            Self::Change => CHANGE_RESPONSE_SCHEMA,
            Self::Cancellation | Self::Tombstone => REMOVAL_RESPONSE_SCHEMA,
        }
    }
}

/// A document that can be delivered: a change, a cancellation or a tombstone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Which of the three.
    pub operation: Operation,
    /// Its identity: the event id, the cancellation id or the tombstone id.
    pub request_id: Token,
    /// The change it is, or concerns.
    pub event_id: Token,
    /// The site.
    pub site_id: Token,
    /// Its canonical form.
    pub payload: Payload,
}

/// A document that is none of the three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("request_invalid")]
pub struct DocumentInvalid;

impl Document {
    /// Reads a document; its schema tells which of the three it is.
    ///
    /// # Errors
    /// [`DocumentInvalid`], whatever is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, DocumentInvalid> {
        let value = Value::parse(bytes).map_err(|_| DocumentInvalid)?;
        let schema = value.as_object().and_then(|object| object.text("schema"));
        if schema == Some(change::SCHEMA) {
            let change = Change::parse(bytes).map_err(|_| DocumentInvalid)?;
            return Ok(Self {
                operation: Operation::Change,
                request_id: change.event_id.clone(),
                event_id: change.event_id,
                site_id: change.site_id,
                payload: change.payload,
            });
        }
        let removal = Removal::parse(bytes).map_err(|_| DocumentInvalid)?;
        Ok(Self {
            operation: match removal.kind {
                RemovalKind::Cancellation => Operation::Cancellation,
                RemovalKind::Tombstone => Operation::Tombstone,
            },
            request_id: removal.request_id,
            event_id: removal.event_id,
            site_id: removal.site_id,
            payload: removal.payload,
        })
    }
}

/// The envelope of a document; `None` when it is over the message limit, or the payload is no JSON.
#[must_use]
pub fn envelope(operation: Operation, document: &Payload, max_attempts: u32) -> Option<Payload> {
    let (schema, member) = match operation {
        Operation::Change => (CHANGE_REQUEST_SCHEMA, "change"),
        Operation::Cancellation | Operation::Tombstone => (REMOVAL_REQUEST_SCHEMA, "removal"),
    };
    let members = vec![
        ("schema".to_owned(), Value::String(schema.to_owned())),
        ("max_attempts".to_owned(), Value::Integer(Integer::Small(max_attempts.into()))),
        (member.to_owned(), Value::parse(document.as_bytes()).ok()?),
    ];
    let envelope = Payload::of(&Value::Object(Object::new(members).ok()?));
    (envelope.as_bytes().len() <= MESSAGE_BYTES_MAX).then_some(envelope)
}

/// What a registration knows and an answer has to agree with.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// What was delivered.
    pub operation: Operation,
    /// Its identity.
    pub request_id: &'a Token,
    /// The change it is, or concerns.
    pub event_id: &'a Token,
    /// Hash of the document itself.
    pub payload_sha256: Sha256,
    /// The requested ceiling.
    pub max_attempts: u32,
    /// The pinned digest of the source runtime.
    pub capabilities_sha256: Sha256,
}

/// Reads an answer and gives its hash. Numbers are compared by type and value (D14).
///
/// # Errors
/// [`ResponseInvalid`], whatever is wrong.
pub fn parse_response(bytes: &[u8], expected: &Expected<'_>) -> Result<Sha256, ResponseInvalid> {
    let (value, payload) = Payload::parse(bytes, MESSAGE_BYTES_MAX)?;
    match agrees(&value, expected) {
        Some(true) => Ok(payload.sha256()),
        Some(false) | None => Err(ResponseInvalid),
    }
}

fn agrees(value: &Value, expected: &Expected<'_>) -> Option<bool> {
    let answer = value.as_object()?;
    let ceiling = u64::from(expected.max_attempts);
    WorkStatus::from_name(answer.text("status")?)?;
    Some(
        answer.has_exactly(&RESPONSE_FIELDS)
            && answer.text("schema")? == expected.operation.response_schema()
            && answer.text("operation")? == expected.operation.name()
            && answer.text("request_id")? == expected.request_id.as_str()
            && answer.text("event_id")? == expected.event_id.as_str()
            && Sha256::from_hex(answer.text("payload_sha256")?)? == expected.payload_sha256
            && answer.get("attempts")?.as_count()? <= ceiling
            && answer.get("max_attempts")?.as_count()? == ceiling
            && Sha256::from_hex(answer.text("capabilities_sha256")?)?
                == expected.capabilities_sha256,
    )
}
