//! Cancellation and tombstone (contract 2.2): the same shape but for schema and identity.

use super::MESSAGE_BYTES_MAX;
use super::json::{JsonInvalid, Value};
use super::payload::Payload;
use super::text::Token;
use serde::{Deserialize, Serialize};

/// Schema of a cancellation.
pub const CANCELLATION_SCHEMA: &str = "blun.cms-content-cancellation.v1";
/// Schema of a tombstone.
pub const TOMBSTONE_SCHEMA: &str = "blun.cms-content-tombstone.v1";

/// Which removal it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemovalKind {
    /// Stops a change that is not published yet.
    Cancellation,
    /// Takes a published change away.
    Tombstone,
}

impl RemovalKind {
    /// The member that holds its identity.
    #[must_use]
    pub fn identity_field(self) -> &'static str {
        match self {
            Self::Cancellation => "cancellation_id",
            Self::Tombstone => "tombstone_id",
        }
    }

    /// Its schema.
    #[must_use]
    pub fn schema(self) -> &'static str {
        match self {
            Self::Cancellation => CANCELLATION_SCHEMA,
            Self::Tombstone => TOMBSTONE_SCHEMA,
        }
    }
}

/// A removal that keeps every rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// Which one.
    pub kind: RemovalKind,
    /// Its own identity: the cancellation id or the tombstone id.
    pub request_id: Token,
    /// The change it concerns.
    pub event_id: Token,
    /// The site.
    pub site_id: Token,
    /// The version of the website.
    pub website_version: Token,
    /// What the change changed.
    pub source_id: Token,
    /// The change's place, 1 to 2^63 - 1.
    pub source_sequence: u64,
    /// Its canonical form.
    pub payload: Payload,
}

/// A document that is no removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("removal_invalid")]
pub struct RemovalInvalid;

impl From<JsonInvalid> for RemovalInvalid {
    fn from(_: JsonInvalid) -> Self {
        Self
    }
}

impl Removal {
    /// Reads a removal.
    ///
    /// # Errors
    /// [`RemovalInvalid`], whatever is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, RemovalInvalid> {
        let (value, payload) = Payload::parse(bytes, MESSAGE_BYTES_MAX)?;
        Self::check(&value, payload).ok_or(RemovalInvalid)
    }

    fn check(value: &Value, payload: Payload) -> Option<Self> {
        let removal = value.as_object()?;
        let kind = match removal.text("schema")? {
            CANCELLATION_SCHEMA => RemovalKind::Cancellation,
            TOMBSTONE_SCHEMA => RemovalKind::Tombstone,
            _ => return None,
        };
        let fields = [
            "schema",
            kind.identity_field(),
            "event_id",
            "site_id",
            "website_version",
            "source_id",
            "source_sequence",
        ];
        if !removal.has_exactly(&fields) {
            return None;
        }
        let token = |key| Token::new(removal.text(key)?);
        Some(Self {
            kind,
            request_id: token(kind.identity_field())?,
            event_id: token("event_id")?,
            site_id: token("site_id")?,
            website_version: token("website_version")?,
            source_id: token("source_id")?,
            source_sequence: removal.get("source_sequence")?.as_count().filter(|n| *n > 0)?,
            payload,
        })
    }
}
