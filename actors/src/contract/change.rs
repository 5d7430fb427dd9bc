//! The change event (contract 2.1).

use super::json::{Object, Value};
use super::locale;
use super::payload::Payload;
use super::text::{Token, is_content, is_label};
use super::{MESSAGE_BYTES_MAX, json::JsonInvalid};

/// Schema of a change event.
pub const SCHEMA: &str = "blun.cms-content-change.v2";
/// Largest source text, in bytes of UTF-8.
pub const SOURCE_TEXT_BYTES_MAX: usize = 1_000_000;

const FIELDS: [&str; 6] =
    ["schema", "event_id", "site_id", "website_version", "source_sequence", "localization"];
const LABELS: [&str; 8] = [
    "source_id",
    "source_revision",
    "glossary_version",
    "policy_version",
    "provider_id",
    "model_id",
    "model_version",
    "software_version",
];
const CONTENT_TYPES: [&str; 8] =
    ["headline", "cta", "marketing", "ui", "documentation", "seo", "legal", "commercial"];

/// A change event that keeps every rule, exactly as it was submitted. `Debug` shows its identity.
#[derive(Clone, PartialEq, Eq)]
pub struct Change {
    /// Its identity.
    pub event_id: Token,
    /// The site it belongs to.
    pub site_id: Token,
    /// The version of the website.
    pub website_version: Token,
    /// Its place among the site's changes, 1 to 2^63 - 1.
    pub source_sequence: u64,
    /// The text it changes. A label: not always a token.
    pub source_id: Box<str>,
    /// The locales it asks for, in normal form and in the order they are named.
    pub target_locales: Vec<Box<str>>,
    /// Its canonical form.
    pub payload: Payload,
}

impl std::fmt::Debug for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Change")
            .field("event_id", &self.event_id)
            .field("payload", &self.payload)
            .finish_non_exhaustive()
    }
}

/// A document that is no change event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("change_invalid")]
pub struct ChangeInvalid;

impl From<JsonInvalid> for ChangeInvalid {
    fn from(_: JsonInvalid) -> Self {
        Self
    }
}

impl Change {
    /// Reads a change event.
    ///
    /// # Errors
    /// [`ChangeInvalid`], whatever is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, ChangeInvalid> {
        let (value, payload) = Payload::parse(bytes, MESSAGE_BYTES_MAX)?;
        Self::check(&value, payload).ok_or(ChangeInvalid)
    }

    fn check(value: &Value, payload: Payload) -> Option<Self> {
        let event = value.as_object()?;
        if !event.has_exactly(&FIELDS) || event.text("schema")? != SCHEMA {
            return None;
        }
        let localization = event.get("localization")?.as_object()?;
        Some(Self {
            event_id: Token::new(event.text("event_id")?)?,
            site_id: Token::new(event.text("site_id")?)?,
            website_version: Token::new(event.text("website_version")?)?,
            source_sequence: event.get("source_sequence")?.as_count().filter(|count| *count > 0)?,
            source_id: localization.text("source_id")?.into(),
            target_locales: check_localization(localization)?,
            payload,
        })
    }
}

/// Checks the localization and answers the locales it asks for.
fn check_localization(localization: &Object) -> Option<Vec<Box<str>>> {
    let known = |key: &str| {
        LABELS.contains(&key)
            || matches!(key, "source_text" | "source_locale" | "content_type" | "target_locales")
    };
    if !localization.members().all(|(key, _)| known(key)) {
        return None;
    }
    let labels = LABELS.iter().all(|label| localization.text(label).is_some_and(is_label));
    let text = localization.text("source_text")?;
    if !labels
        || text.len() > SOURCE_TEXT_BYTES_MAX
        || !is_content(text)
        || !CONTENT_TYPES.contains(&localization.text("content_type")?)
    {
        return None;
    }
    let source = locale::normal_form(localization.text("source_locale")?)?;
    let source_language = locale::language(&source);
    match localization.get("target_locales") {
        None | Some(Value::Null) => {
            Some(locale::default_targets(source_language).into_iter().map(Box::from).collect())
        }
        Some(Value::Array(items)) => check_targets(items, source_language),
        Some(_) => None,
    }
}

fn check_targets(items: &[Value], source_language: &str) -> Option<Vec<Box<str>>> {
    if items.is_empty() {
        return None;
    }
    let mut targets: Vec<Box<str>> = Vec::with_capacity(items.len());
    for item in items {
        let target = locale::normal_form(item.as_str()?)?;
        let supported = locale::SUPPORTED.contains(&target.as_str());
        let other_language = locale::language(&target) != source_language;
        let first_time = !targets.iter().any(|known| **known == *target);
        if !(supported && other_language && first_time) {
            return None;
        }
        targets.push(target.into());
    }
    Some(targets)
}
