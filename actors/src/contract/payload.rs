//! A document in its canonical form, with its hash.

use super::canonical;
use super::json::{JsonInvalid, Value};
use super::text::Sha256;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Canonical text and its hash. `Debug` shows the hash and the size, never the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload {
    text: Arc<str>,
    sha256: Sha256,
}

impl Payload {
    /// The canonical form of a value.
    #[must_use]
    pub fn of(value: &Value) -> Self {
        Self::from_canonical(canonical::print(value).into())
    }

    /// Parses a document and brings it to its canonical form.
    ///
    /// # Errors
    /// [`JsonInvalid`] for what is no JSON, or is over `bytes_max` in its canonical form.
    pub fn parse(bytes: &[u8], bytes_max: usize) -> Result<(Value, Self), JsonInvalid> {
        let value = Value::parse(bytes)?;
        // The canonical form is seldom longer than what it is made of.
        let room = String::with_capacity(bytes.len());
        let payload = Self::from_canonical(canonical::print_into(room, &value).into());
        if payload.text.len() > bytes_max { Err(JsonInvalid) } else { Ok((value, payload)) }
    }

    /// Takes text that is canonical already: read back from where a payload was kept.
    #[must_use]
    pub fn from_canonical(text: Arc<str>) -> Self {
        let sha256 = Sha256::of(text.as_bytes());
        Self { text, sha256 }
    }

    /// The canonical text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// Its hash.
    #[must_use]
    pub fn sha256(&self) -> Sha256 {
        self.sha256
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({}, {} bytes)", self.sha256, self.text.len())
    }
}

impl Serialize for Payload {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Arc::<str>::deserialize(deserializer).map(Self::from_canonical)
    }
}
