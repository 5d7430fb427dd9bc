//! The terminal notification, what it is bound to, and its acknowledgement (contract 2.5).

use super::dispatch::ResponseInvalid;
use super::json::{Integer, JsonInvalid, Object, Value};
use super::lifecycle::RemoteStatus;
use super::payload::Payload;
use super::text::{Sha256, Token};

/// Schema of a notification.
pub const SCHEMA: &str = "blun.cms-source-terminal-notification.v1";
/// Schema of its acknowledgement.
pub const ACK_SCHEMA: &str = "blun.cms-source-terminal-notification-ack.v1";
/// Schema of the binding that registers an event for monitoring.
pub const BINDING_SCHEMA: &str = "blun.cms-source-lifecycle-monitor-binding.v1";
/// Largest notification as a request, in bytes.
pub const NOTIFICATION_BYTES_MAX: usize = 16_384;
/// Largest acknowledgement, in bytes.
pub const ACK_BYTES_MAX: usize = 8_192;

const FIELDS: [&str; 12] = [
    "schema",
    "event_id",
    "site_id",
    "plan_id",
    "website_version",
    "source_sequence",
    "job_count",
    "change_sha256",
    "lifecycle_binding_sha256",
    "terminal_status",
    "lifecycle_sha256",
    "notification_id",
];

/// What a notification is built from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terminal {
    /// The change.
    pub event_id: Token,
    /// Its site.
    pub site_id: Token,
    /// The CMS's plan.
    pub plan_id: Token,
    /// The version of the website.
    pub website_version: Token,
    /// The change's place.
    pub source_sequence: u64,
    /// Jobs of the plan.
    pub job_count: u64,
    /// Hash of the change.
    pub change_sha256: Sha256,
    /// Hash of the binding.
    pub lifecycle_binding_sha256: Sha256,
    /// How it ended.
    pub terminal_status: RemoteStatus,
    /// Hash of the last lifecycle response; null when there was none (D4).
    pub lifecycle_sha256: Option<Sha256>,
}

/// A notification that keeps every rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// The change.
    pub event_id: Token,
    /// Its site.
    pub site_id: Token,
    /// Derived from everything else.
    pub notification_id: Token,
    /// How it ended.
    pub terminal_status: RemoteStatus,
    /// Its canonical form, id included.
    pub payload: Payload,
}

/// A document that is no notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("notification_invalid")]
pub struct NotificationInvalid;

impl From<JsonInvalid> for NotificationInvalid {
    fn from(_: JsonInvalid) -> Self {
        Self
    }
}

fn text(value: &str) -> Value {
    Value::String(value.to_owned())
}

/// An integer of our own: counts and sequences are below 2^63.
fn count(value: u64) -> Value {
    Value::Integer(Integer::Small(i64::try_from(value).unwrap_or(i64::MAX)))
}

fn object(members: Vec<(&str, Value)>) -> Object {
    let members = members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    Object::new(members).expect("our own documents repeat no key")
}

/// The id of a notification: a prefix and the hash of the object without it.
fn derive_id(without_id: &Object) -> String {
    format!("terminal-{}", Payload::of(&Value::Object(without_id.clone())).sha256())
}

impl Notification {
    /// Builds the notification of a terminal record; `None` when the status is no end.
    #[must_use]
    pub fn build(terminal: &Terminal) -> Option<Self> {
        if !terminal.terminal_status.is_terminal() {
            return None;
        }
        let without_id = object(vec![
            ("schema", text(SCHEMA)),
            ("event_id", text(terminal.event_id.as_str())),
            ("site_id", text(terminal.site_id.as_str())),
            ("plan_id", text(terminal.plan_id.as_str())),
            ("website_version", text(terminal.website_version.as_str())),
            ("source_sequence", count(terminal.source_sequence)),
            ("job_count", count(terminal.job_count)),
            ("change_sha256", text(&terminal.change_sha256.to_string())),
            ("lifecycle_binding_sha256", text(&terminal.lifecycle_binding_sha256.to_string())),
            ("terminal_status", text(terminal.terminal_status.name())),
            (
                "lifecycle_sha256",
                terminal.lifecycle_sha256.map_or(Value::Null, |hash| text(&hash.to_string())),
            ),
        ]);
        let id = derive_id(&without_id);
        let payload = Payload::of(&Value::Object(without_id.with("notification_id", text(&id))));
        Some(Self {
            event_id: terminal.event_id.clone(),
            site_id: terminal.site_id.clone(),
            notification_id: Token::new(&id)?,
            terminal_status: terminal.terminal_status,
            payload,
        })
    }

    /// Reads a notification by every rule, its id derived again.
    ///
    /// # Errors
    /// [`NotificationInvalid`], whatever is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, NotificationInvalid> {
        let (value, payload) = Payload::parse(bytes, NOTIFICATION_BYTES_MAX)?;
        Self::check(&value, payload).ok_or(NotificationInvalid)
    }

    fn check(value: &Value, payload: Payload) -> Option<Self> {
        let known = Self::check_loosely(value, payload)?;
        let notification = value.as_object()?;
        for key in ["plan_id", "website_version"] {
            Token::new(notification.text(key)?)?;
        }
        for key in ["source_sequence", "job_count"] {
            notification.get(key)?.as_count().filter(|count| *count > 0)?;
        }
        for key in ["change_sha256", "lifecycle_binding_sha256"] {
            Sha256::from_hex(notification.text(key)?)?;
        }
        let hash = notification.get("lifecycle_sha256")?;
        let hashed = hash.as_str().and_then(Sha256::from_hex).is_some();
        // Null only when there was no snapshot: never after a published end, say (D4).
        let may_be_null =
            matches!(known.terminal_status, RemoteStatus::Cancelled | RemoteStatus::Superseded);
        let derived = derive_id(&notification.without("notification_id"));
        let good = (hashed || (hash.is_null() && may_be_null))
            && derived == known.notification_id.as_str();
        good.then_some(known)
    }

    /// Reads a notification as the processing monitor does (contract 4.3): fields, schema, tokens and
    /// a terminal status; the id is not derived again. `bytes` have no limit there.
    ///
    /// # Errors
    /// [`NotificationInvalid`].
    pub fn parse_loosely(bytes: &[u8]) -> Result<Self, NotificationInvalid> {
        let (value, payload) = Payload::parse(bytes, usize::MAX)?;
        Self::check_loosely(&value, payload).ok_or(NotificationInvalid)
    }

    fn check_loosely(value: &Value, payload: Payload) -> Option<Self> {
        let notification = value.as_object()?;
        if !notification.has_exactly(&FIELDS) || notification.text("schema")? != SCHEMA {
            return None;
        }
        let status = RemoteStatus::from_name(notification.text("terminal_status")?)?;
        let token = |key| Token::new(notification.text(key)?);
        Some(Self {
            event_id: token("event_id")?,
            site_id: token("site_id")?,
            notification_id: token("notification_id")?,
            terminal_status: Some(status).filter(|status| status.is_terminal())?,
            payload,
        })
    }

    /// Its acknowledgement, the only one there is.
    #[must_use]
    pub fn acknowledgement(&self) -> Payload {
        acknowledgement(&self.event_id, &self.site_id, &self.notification_id, self.payload.sha256())
    }
}

/// The one acknowledgement of a notification.
#[must_use]
pub fn acknowledgement(event_id: &Token, site_id: &Token, id: &Token, sha256: Sha256) -> Payload {
    Payload::of(&Value::Object(object(vec![
        ("schema", text(ACK_SCHEMA)),
        ("event_id", text(event_id.as_str())),
        ("site_id", text(site_id.as_str())),
        ("notification_id", text(id.as_str())),
        ("notification_sha256", text(&sha256.to_string())),
        ("status", text("accepted")),
    ])))
}

/// Reads an acknowledgement: exactly the expected one. Answers its hash.
///
/// # Errors
/// [`ResponseInvalid`].
pub fn parse_acknowledgement(bytes: &[u8], expected: &Payload) -> Result<Sha256, ResponseInvalid> {
    let (_, payload) = Payload::parse(bytes, ACK_BYTES_MAX)?;
    if payload == *expected { Ok(payload.sha256()) } else { Err(ResponseInvalid) }
}

/// Hash of the binding that registers an event for monitoring.
#[must_use]
pub fn binding_sha256(
    terminal: (&Token, &Token, &Token, &Token),
    source_sequence: u64,
    job_count: u64,
    change_sha256: Sha256,
    max_consecutive_failures: u32,
) -> Sha256 {
    let (event_id, site_id, plan_id, website_version) = terminal;
    let binding = object(vec![
        ("schema", text(BINDING_SCHEMA)),
        ("event_id", text(event_id.as_str())),
        ("site_id", text(site_id.as_str())),
        ("plan_id", text(plan_id.as_str())),
        ("website_version", text(website_version.as_str())),
        ("source_sequence", count(source_sequence)),
        ("job_count", count(job_count)),
        ("change_sha256", text(&change_sha256.to_string())),
        ("max_consecutive_failures", count(max_consecutive_failures.into())),
    ]);
    Payload::of(&Value::Object(binding)).sha256()
}
