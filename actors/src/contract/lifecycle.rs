//! The lifecycle of an accepted change, as the CMS tells it (contract 2.4).

use super::MESSAGE_BYTES_MAX;
use super::dispatch::ResponseInvalid;
use super::json::{Integer, Object, Value};
use super::payload::Payload;
use super::text::{ErrorCode, Sha256, Token};
use serde::{Deserialize, Serialize};

/// Schema of a response.
pub const RESPONSE_SCHEMA: &str = "blun.cms-localization-lifecycle.v3";
/// Schema of a request.
pub const REQUEST_SCHEMA: &str = "blun.cms-localization-lifecycle-request.v1";

const FIELDS: [&str; 14] = [
    "schema",
    "request_id",
    "event_id",
    "site_id",
    "plan_id",
    "website_version",
    "source_sequence",
    "status",
    "required_locales",
    "approved_locales",
    "blocked_locales",
    "queue_counts",
    "delivery",
    "tombstone",
];
const ATTEMPT_FIELDS: [&str; 9] = [
    "delivery_id",
    "status",
    "attempts",
    "max_attempts",
    "next_attempt_at",
    "lease_expires_at",
    "lease_expired",
    "last_error_code",
    "last_error_detail_hash",
];
const QUEUES: [&str; 5] = ["failed", "leased", "pending", "retry_wait", "succeeded"];

/// Where a change stands at the CMS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemoteStatus {
    /// Cancelled before publication.
    Cancelled,
    /// Taken away after publication.
    Deleted,
    /// Published.
    Published,
    /// Overtaken by a newer change of the same source.
    Superseded,
    /// Taking away failed.
    DeletionFailed,
    /// A localization failed.
    LocalizationFailed,
    /// Publication is blocked.
    PublicationBlocked,
    /// Publication failed.
    PublicationFailed,
    /// Waits for approvals.
    AwaitingApproval,
    /// Being taken away.
    Deleting,
    /// Being localized.
    Processing,
    /// Being published.
    Publishing,
    /// Accepted and not queued yet.
    QueueRecovery,
    /// Approved.
    Ready,
}

/// What a status means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// More is to come.
    Moving,
    /// The end, as hoped.
    Succeeded,
    /// The end, and not as hoped.
    Failed,
}

const NAMES: [(&str, RemoteStatus); 14] = [
    ("cancelled", RemoteStatus::Cancelled),
    ("deleted", RemoteStatus::Deleted),
    ("published", RemoteStatus::Published),
    ("superseded", RemoteStatus::Superseded),
    ("deletion_failed", RemoteStatus::DeletionFailed),
    ("localization_failed", RemoteStatus::LocalizationFailed),
    ("publication_blocked", RemoteStatus::PublicationBlocked),
    ("publication_failed", RemoteStatus::PublicationFailed),
    ("awaiting_approval", RemoteStatus::AwaitingApproval),
    ("deleting", RemoteStatus::Deleting),
    ("processing", RemoteStatus::Processing),
    ("publishing", RemoteStatus::Publishing),
    ("queue_recovery", RemoteStatus::QueueRecovery),
    ("ready", RemoteStatus::Ready),
];

impl RemoteStatus {
    /// The status of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, status)| *status)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, status)| *status == self).map_or("", |(name, _)| name)
    }

    /// What it means.
    #[must_use]
    pub fn course(self) -> Course {
        match self {
            Self::Cancelled | Self::Deleted | Self::Published | Self::Superseded => {
                Course::Succeeded
            }
            Self::DeletionFailed
            | Self::LocalizationFailed
            | Self::PublicationBlocked
            | Self::PublicationFailed => Course::Failed,
            Self::AwaitingApproval
            | Self::Deleting
            | Self::Processing
            | Self::Publishing
            | Self::QueueRecovery
            | Self::Ready => Course::Moving,
        }
    }

    /// Whether it is an end.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        self.course() != Course::Moving
    }
}

/// What a registration knows and an answer has to agree with.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// The change.
    pub event_id: &'a Token,
    /// Its site.
    pub site_id: &'a Token,
    /// The CMS's plan.
    pub plan_id: &'a Token,
    /// The version of the website.
    pub website_version: &'a Token,
    /// The change's place.
    pub source_sequence: u64,
    /// Jobs of the plan.
    pub job_count: u64,
}

/// A valid answer to one read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LifecycleResponse {
    /// Which read it answers.
    pub request_id: Token,
    /// Where the change stands.
    pub status: RemoteStatus,
    /// Its canonical form.
    pub payload: Payload,
}

impl LifecycleResponse {
    /// Reads an answer and compares it with the registration. `superseded` is no answer, and the
    /// request id has to be a token (D2).
    ///
    /// # Errors
    /// [`ResponseInvalid`], whatever is wrong.
    pub fn parse(bytes: &[u8], expected: &Expected<'_>) -> Result<Self, ResponseInvalid> {
        let (value, payload) = Payload::parse(bytes, MESSAGE_BYTES_MAX)?;
        let response = Self::check(&value, payload).ok_or(ResponseInvalid)?;
        let object = value.as_object().ok_or(ResponseInvalid)?;
        let agrees = |key, token: &Token| object.text(key) == Some(token.as_str());
        let count = |key| object.get(key).and_then(Value::as_count);
        let locales = object.get("required_locales").and_then(Value::as_array).map(<[Value]>::len);
        let good = agrees("event_id", expected.event_id)
            && agrees("site_id", expected.site_id)
            && agrees("plan_id", expected.plan_id)
            && agrees("website_version", expected.website_version)
            && count("source_sequence") == Some(expected.source_sequence)
            && locales.map(|count| count as u64) == Some(expected.job_count);
        if good { Ok(response) } else { Err(ResponseInvalid) }
    }

    /// Reads an answer by its own rules, without a registration to compare with.
    #[must_use]
    pub fn check(value: &Value, payload: Payload) -> Option<Self> {
        let answer = value.as_object()?;
        if !answer.has_exactly(&FIELDS) || answer.text("schema")? != RESPONSE_SCHEMA {
            return None;
        }
        for key in ["event_id", "site_id", "plan_id", "website_version"] {
            Token::new(answer.text(key)?)?;
        }
        answer.get("source_sequence")?.as_count().filter(|count| *count > 0)?;
        let status = RemoteStatus::from_name(answer.text("status")?)?;
        if status == RemoteStatus::Superseded {
            return None;
        }
        let required = ascending_tokens(answer.get("required_locales")?)?;
        let approved = ascending_tokens(answer.get("approved_locales")?)?;
        let subset = approved.iter().all(|locale| required.binary_search(locale).is_ok());
        let good = subset
            && are_blocked(answer.get("blocked_locales")?, &required)
            && are_counts(answer.get("queue_counts")?, status, required.len())
            && is_attempt(answer.get("delivery")?, None)
            && is_attempt(answer.get("tombstone")?, Some("tombstone_id"));
        let request_id = Token::new(answer.text("request_id")?)?;
        good.then_some(Self { request_id, status, payload })
    }
}

/// The same answer as if it had been given to another request.
#[must_use]
pub fn with_request_id(answer: &Payload, request_id: &Token) -> Option<Payload> {
    let value = Value::parse(answer.as_bytes()).ok()?;
    let member = Value::String(request_id.as_str().to_owned());
    Some(Payload::of(&Value::Object(value.as_object()?.with("request_id", member))))
}

fn ascending_tokens(value: &Value) -> Option<Vec<&str>> {
    let tokens: Vec<&str> = value.as_array()?.iter().map(Value::as_str).collect::<Option<_>>()?;
    let good = tokens.iter().all(|token| Token::new(token).is_some());
    (good && tokens.windows(2).all(|pair| pair[0] < pair[1])).then_some(tokens)
}

fn are_blocked(value: &Value, required: &[&str]) -> bool {
    let pair = |item: &Value| -> Option<(String, String)> {
        let [locale, code] = item.as_array()? else { return None };
        let (locale, code) = (locale.as_str()?, code.as_str()?);
        let good = required.binary_search(&locale).is_ok() && ErrorCode::new(code).is_some();
        good.then(|| (locale.to_owned(), code.to_owned()))
    };
    let pairs =
        value.as_array().and_then(|items| items.iter().map(pair).collect::<Option<Vec<_>>>());
    pairs.is_some_and(|pairs| pairs.windows(2).all(|two| two[0] < two[1]))
}

fn are_counts(value: &Value, status: RemoteStatus, locales: usize) -> bool {
    let Some(counts) = value.as_object() else { return false };
    let with_cancelled = [&QUEUES[..], &["cancelled"]].concat();
    let named = counts.has_exactly(&QUEUES)
        || (status == RemoteStatus::Cancelled && counts.has_exactly(&with_cancelled));
    let total =
        counts.members().try_fold(0_u64, |sum, (_, count)| sum.checked_add(count.as_count()?));
    let expected = if status == RemoteStatus::QueueRecovery { 0 } else { locales as u64 };
    named && total == Some(expected)
}

/// Whether a value is null or an attempt record; `identity` is one more token it has.
fn is_attempt(value: &Value, identity: Option<&str>) -> bool {
    match value {
        Value::Null => true,
        Value::Object(attempt) => attempt_holds(attempt, identity).unwrap_or(false),
        Value::Bool(_)
        | Value::Integer(_)
        | Value::Float(_)
        | Value::String(_)
        | Value::Array(_) => false,
    }
}

fn attempt_holds(attempt: &Object, identity: Option<&str>) -> Option<bool> {
    let fields: Vec<&str> = ATTEMPT_FIELDS.into_iter().chain(identity).collect();
    if !attempt.has_exactly(&fields) {
        return None;
    }
    for key in ["delivery_id"].into_iter().chain(identity) {
        Token::new(attempt.text(key)?)?;
    }
    let status = attempt.text("status")?;
    let known = ["pending", "leased", "retry_wait", "succeeded", "failed"].contains(&status);
    let attempts = attempt.get("attempts")?.as_integer()?;
    let ceiling = attempt.get("max_attempts")?.as_integer()?;
    let counted = !attempts.is_negative() && attempts <= ceiling && *ceiling >= Integer::Small(1);
    attempt.get("next_attempt_at")?.as_time()?;
    attempt.get("lease_expired")?.as_bool()?;
    let lease = attempt.get("lease_expires_at")?;
    let leased = lease.is_null() || lease.as_time().is_some();
    let error = attempt.get("last_error_code")?;
    let named = error.is_null() || error.as_str().and_then(ErrorCode::new).is_some();
    let detail = attempt.get("last_error_detail_hash")?;
    let hashed = detail.is_null() || detail.as_str().and_then(Sha256::from_hex).is_some();
    Some(
        known
            && counted
            && leased
            && named
            && hashed
            && lease.is_null() != (status == "leased")
            && error.is_null() != matches!(status, "retry_wait" | "failed"),
    )
}
