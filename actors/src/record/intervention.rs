//! What an operator did, with who and why (D12).
//!
//! Owns the two texts an operator gives. They are kept in the journal and shown by `show`; `Debug`
//! prints neither, like everything that comes from outside.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Characters of an operator's name at most.
pub const OPERATOR_NAME_MAX: usize = 128;
/// Characters of a reason at most.
pub const REASON_MAX: usize = 500;

/// Who and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intervention {
    /// Who did it.
    pub by: OperatorName,
    /// Why.
    pub why: Reason,
}

/// An operator's name: 1 to 128 visible ASCII characters, such as an address or a login.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Box<str>", into = "Box<str>")]
pub struct OperatorName(Box<str>);

/// A reason: 1 to 500 characters, not all white space, no control characters.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Box<str>", into = "Box<str>")]
pub struct Reason(Box<str>);

impl OperatorName {
    /// Checks the pattern.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        (visible && (1..=OPERATOR_NAME_MAX).contains(&text.len())).then(|| Self(text.into()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Reason {
    /// Checks the pattern.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let length = text.chars().count();
        let plain = !text.chars().any(char::is_control) && !text.trim().is_empty();
        (plain && length <= REASON_MAX).then(|| Self(text.into()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<Box<str>> for OperatorName {
    type Error = &'static str;
    fn try_from(text: Box<str>) -> Result<Self, Self::Error> {
        Self::new(&text).ok_or("operator_invalid")
    }
}

impl TryFrom<Box<str>> for Reason {
    type Error = &'static str;
    fn try_from(text: Box<str>) -> Result<Self, Self::Error> {
        Self::new(&text).ok_or("reason_invalid")
    }
}

impl From<OperatorName> for Box<str> {
    fn from(name: OperatorName) -> Self {
        name.0
    }
}

impl From<Reason> for Box<str> {
    fn from(reason: Reason) -> Self {
        reason.0
    }
}

impl fmt::Debug for OperatorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperatorName({} bytes)", self.0.len())
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reason({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_visible_ascii_and_reasons_are_plain_text() {
        for good in ["maria", "maria@example.org", &"x".repeat(128)] {
            assert_eq!(OperatorName::new(good).expect("a name").as_str(), good);
        }
        for bad in ["", "maria k", "märia", "a\n", &"x".repeat(129)] {
            assert!(OperatorName::new(bad).is_none(), "{bad:?}");
        }
        for good in ["fixed upstream", "Schlüssel erneuert", &"ä".repeat(500)] {
            assert_eq!(Reason::new(good).expect("a reason").as_str(), good);
        }
        for bad in ["", "  ", "two\nlines", "\u{1b}[31mred", &"ä".repeat(501)] {
            assert!(Reason::new(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn debug_shows_neither() {
        let by = OperatorName::new("canary-name").expect("a name");
        let why = Reason::new("canary reason").expect("a reason");
        let shown = format!("{:?}", Intervention { by, why });
        assert!(!shown.contains("canary"), "{shown}");
        assert!(shown.contains("OperatorName(11 bytes)") && shown.contains("Reason(13 bytes)"));
    }
}
