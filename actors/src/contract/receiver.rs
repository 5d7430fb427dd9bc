//! What the receiver says about a notification it holds (contract 2.6).

use super::dispatch::ResponseInvalid;
use super::json::{Object, Value};
use super::payload::Payload;
use super::text::{ErrorCode, Sha256, Token};
use serde::{Deserialize, Serialize};

/// Schema of a request.
pub const REQUEST_SCHEMA: &str = "blun.cms-terminal-receiver-status-request.v1";
/// Schema of a response.
pub const RESPONSE_SCHEMA: &str = "blun.cms-terminal-receiver-status-response.v1";

/// Members of a response.
pub const RESPONSE_FIELDS: [&str; 15] = [
    "schema",
    "notification_id",
    "event_id",
    "site_id",
    "terminal_status",
    "notification_sha256",
    "processing_status",
    "attempts",
    "max_attempts",
    "next_attempt_at",
    "lease_expires_at",
    "lease_expired",
    "last_error_code",
    "processed_at",
    "capabilities_sha256",
];

/// A runtime's own state of one piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkStatus {
    /// Not tried yet.
    Pending,
    /// Being tried.
    Leased,
    /// Waits after a failure.
    RetryWait,
    /// Done.
    Succeeded,
    /// Given up.
    Failed,
}

impl WorkStatus {
    /// The status of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "pending" => Self::Pending,
            "leased" => Self::Leased,
            "retry_wait" => Self::RetryWait,
            "succeeded" => Self::Succeeded,
            "failed" => Self::Failed,
            _ => return None,
        })
    }
}

/// What the receiver said last; a time may be any finite number that is not negative (D13).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReceiverState {
    /// Its state of the notification.
    pub status: WorkStatus,
    /// Attempts it made.
    pub attempts: u8,
    /// Attempts it may make, 1 to 20.
    pub max_attempts: u8,
    /// When it tries again.
    pub next_attempt_at: f64,
    /// When its own lease ends; present exactly when leased.
    pub lease_expires_at: Option<f64>,
    /// Whether that is over.
    pub lease_expired: bool,
    /// Its last error; present exactly in retry_wait and failed (D1).
    pub error_code: Option<ErrorCode>,
    /// When it was done; present exactly when succeeded.
    pub processed_at: Option<f64>,
}

impl ReceiverState {
    /// Whether its parts belong together.
    #[must_use]
    pub fn holds(&self) -> bool {
        let leased = self.status == WorkStatus::Leased;
        let failing = matches!(self.status, WorkStatus::RetryWait | WorkStatus::Failed);
        self.attempts <= self.max_attempts
            && (1..=20).contains(&self.max_attempts)
            && self.lease_expires_at.is_some() == leased
            && (leased || !self.lease_expired)
            && self.error_code.is_some() == failing
            && self.processed_at.is_some() == (self.status == WorkStatus::Succeeded)
    }
}

/// What a registration knows and an answer has to agree with.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// The change.
    pub event_id: &'a Token,
    /// Its site.
    pub site_id: &'a Token,
    /// The notification.
    pub notification_id: &'a Token,
    /// How the change ended.
    pub terminal_status: &'a str,
    /// Hash of the notification.
    pub notification_sha256: Sha256,
    /// The pinned digest of the receiver.
    pub capabilities_sha256: Sha256,
}

/// Reads an answer.
///
/// # Errors
/// [`ResponseInvalid`], whatever is wrong.
pub fn parse(bytes: &[u8], expected: &Expected<'_>) -> Result<ReceiverState, ResponseInvalid> {
    let (value, _) = Payload::parse(bytes, usize::MAX)?;
    check(&value, expected).ok_or(ResponseInvalid)
}

fn check(value: &Value, expected: &Expected<'_>) -> Option<ReceiverState> {
    let answer = value.as_object()?;
    let digest = Sha256::from_hex(answer.text("capabilities_sha256")?)?;
    let sha256 = Sha256::from_hex(answer.text("notification_sha256")?)?;
    if !answer.has_exactly(&RESPONSE_FIELDS)
        || answer.text("schema")? != RESPONSE_SCHEMA
        || answer.text("notification_id")? != expected.notification_id.as_str()
        || answer.text("event_id")? != expected.event_id.as_str()
        || answer.text("site_id")? != expected.site_id.as_str()
        || answer.text("terminal_status")? != expected.terminal_status
        || sha256 != expected.notification_sha256
        || digest != expected.capabilities_sha256
    {
        return None;
    }
    state(answer).filter(ReceiverState::holds)
}

fn state(answer: &Object) -> Option<ReceiverState> {
    let small = |key| u8::try_from(answer.get(key)?.as_count()?).ok();
    let time = |key| {
        let value = answer.get(key)?;
        if value.is_null() { Some(None) } else { value.as_time().map(Some) }
    };
    let error_code = answer.get("last_error_code")?;
    let error_code =
        if error_code.is_null() { None } else { Some(ErrorCode::new(error_code.as_str()?)?) };
    Some(ReceiverState {
        status: WorkStatus::from_name(answer.text("processing_status")?)?,
        attempts: small("attempts")?,
        max_attempts: small("max_attempts")?,
        next_attempt_at: answer.get("next_attempt_at")?.as_time()?,
        lease_expires_at: time("lease_expires_at")?,
        lease_expired: answer.get("lease_expired")?.as_bool()?,
        error_code,
        processed_at: time("processed_at")?,
    })
}
