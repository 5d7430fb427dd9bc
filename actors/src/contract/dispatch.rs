//! The answer to a submitted change, and the CMS API's error (contract 2.3).

use super::MESSAGE_BYTES_MAX;
use super::json::{JsonInvalid, Value};
use super::payload::Payload;
use super::text::{ErrorCode, Sha256, Token};
use serde::{Deserialize, Serialize};

/// Schema of every answer of the CMS API to a write, and of its errors.
pub const SCHEMA: &str = "blun.website-localization-api.v2";

const FIELDS: [&str; 6] = ["schema", "event_id", "plan_id", "job_count", "inserted_jobs", "status"];

/// What the CMS did with a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DispatchedAs {
    /// It is going to be localized.
    Enqueued,
    /// A newer change of the same source was there already.
    Superseded,
    /// It was cancelled before it arrived.
    Cancelled,
}

/// A valid answer to one submitted change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DispatchResponse {
    /// The plan the CMS made.
    pub plan_id: Token,
    /// Jobs in the plan, at least 1 and below 2^63.
    pub job_count: u64,
    /// What became of the change.
    pub status: DispatchedAs,
    /// Hash of the answer's canonical form.
    pub sha256: Sha256,
}

/// An answer that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("response_invalid")]
pub struct ResponseInvalid;

impl From<JsonInvalid> for ResponseInvalid {
    fn from(_: JsonInvalid) -> Self {
        Self
    }
}

impl DispatchResponse {
    /// Reads the answer to the change with this event id.
    ///
    /// # Errors
    /// [`ResponseInvalid`], whatever is wrong.
    pub fn parse(bytes: &[u8], event_id: &Token) -> Result<Self, ResponseInvalid> {
        let (value, payload) = Payload::parse(bytes, MESSAGE_BYTES_MAX)?;
        Self::check(&value, event_id, payload.sha256()).ok_or(ResponseInvalid)
    }

    fn check(value: &Value, event_id: &Token, sha256: Sha256) -> Option<Self> {
        let answer = value.as_object()?;
        if !answer.has_exactly(&FIELDS)
            || answer.text("schema")? != SCHEMA
            || answer.text("event_id")? != event_id.as_str()
        {
            return None;
        }
        let job_count = answer.get("job_count")?.as_count().filter(|count| *count > 0)?;
        answer.get("inserted_jobs")?.as_count().filter(|inserted| *inserted <= job_count)?;
        let status = match answer.text("status")? {
            "enqueued" => DispatchedAs::Enqueued,
            "superseded" => DispatchedAs::Superseded,
            "cancelled" => DispatchedAs::Cancelled,
            _ => return None,
        };
        Some(Self { plan_id: Token::new(answer.text("plan_id")?)?, job_count, status, sha256 })
    }
}

/// The code of an error object of the CMS API; `None` when the value is none.
#[must_use]
pub fn api_error(value: &Value) -> Option<ErrorCode> {
    let error = value.as_object()?;
    if !error.has_exactly(&["schema", "status", "error"])
        || error.text("schema")? != SCHEMA
        || error.text("status")? != "BLOCK"
    {
        return None;
    }
    ErrorCode::new(error.text("error")?)
}
