//! Names the contract allows (1.1): tokens, labels, codes, hashes.
//!
//! Owns one checked type for each pattern; a value of the type is proof that the text matches.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use sha2::{Digest as _, Sha256 as Hasher};
use std::borrow::Cow;
use std::fmt;
use unicode_normalization::is_nfc;

/// Whether every byte is one of a token's: letters, digits and `_ . : -`.
fn is_token(text: &str, length_max: usize) -> bool {
    (1..=length_max).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':' | b'-'))
}

/// A token: `[A-Za-z0-9_.:-]{1,256}`. Identities of events, sites, plans, versions.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Box<str>", into = "Box<str>")]
pub struct Token(Box<str>);

impl Token {
    /// Checks the pattern.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        is_token(text, 256).then(|| Self(text.into()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<Box<str>> for Token {
    type Error = &'static str;
    fn try_from(text: Box<str>) -> Result<Self, Self::Error> {
        if is_token(&text, 256) { Ok(Self(text)) } else { Err("token_invalid") }
    }
}

impl From<Token> for Box<str> {
    fn from(token: Token) -> Self {
        token.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A worker's name: a token of at most 128 characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Box<str>", into = "Box<str>")]
pub struct WorkerToken(Box<str>);

impl WorkerToken {
    /// Checks the pattern.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        is_token(text, 128).then(|| Self(text.into()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<Box<str>> for WorkerToken {
    type Error = &'static str;
    fn try_from(text: Box<str>) -> Result<Self, Self::Error> {
        if is_token(&text, 128) { Ok(Self(text)) } else { Err("worker_invalid") }
    }
}

impl From<WorkerToken> for Box<str> {
    fn from(token: WorkerToken) -> Self {
        token.0
    }
}

/// An error code: `[a-z][a-z0-9_.-]{0,127}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Box<str>", into = "Box<str>")]
pub struct ErrorCode(Cow<'static, str>);

impl ErrorCode {
    /// Checks the pattern.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        Self::matches(text).then(|| Self(Cow::Owned(text.to_owned())))
    }

    /// One of our own codes, which are known to match.
    #[must_use]
    pub const fn known(code: &'static str) -> Self {
        Self(Cow::Borrowed(code))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn matches(text: &str) -> bool {
        let bytes = text.as_bytes();
        (1..=128).contains(&bytes.len())
            && bytes[0].is_ascii_lowercase()
            && bytes.iter().all(|b| {
                b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'.' | b'-')
            })
    }
}

impl TryFrom<Box<str>> for ErrorCode {
    type Error = &'static str;
    fn try_from(text: Box<str>) -> Result<Self, Self::Error> {
        if Self::matches(&text) { Ok(Self(Cow::Owned(text.into()))) } else { Err("error_invalid") }
    }
}

impl From<ErrorCode> for Box<str> {
    fn from(code: ErrorCode) -> Self {
        code.0.into()
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A SHA-256. Text: 64 lower-case hex digits. In the journal: 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sha256([u8; 32]);

impl Sha256 {
    /// The hash of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Hasher::digest(bytes).into())
    }

    /// Reads 64 lower-case hex digits.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        leasehold_journal::Digest::from_hex(text).map(|digest| Self(digest.0))
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", leasehold_journal::Digest(self.0))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Sha256 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Sha256 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = Box::<str>::deserialize(deserializer)?;
            Self::from_hex(&text).ok_or_else(|| D::Error::custom("sha256_invalid"))
        } else {
            <[u8; 32]>::deserialize(deserializer).map(Self)
        }
    }
}

/// Whether a code point is white space to the contract: Unicode's set and U+001C..U+001F, which a
/// plain `trim` leaves alone.
#[must_use]
pub fn is_white_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}

/// Whether a text is a label: 1 to 256 code points, no NUL, no white space at either end, NFC.
#[must_use]
pub fn is_label(text: &str) -> bool {
    (1..=256).contains(&text.chars().count())
        && !text.contains('\0')
        && !text.starts_with(is_white_space)
        && !text.ends_with(is_white_space)
        && is_composed(text)
}

/// Whether a text is in NFC; ASCII always is, which spares most texts the tables.
fn is_composed(text: &str) -> bool {
    text.is_ascii() || is_nfc(text)
}

/// Whether a text is free of NUL, in NFC and more than white space.
#[must_use]
pub fn is_content(text: &str) -> bool {
    !text.contains('\0') && !text.chars().all(is_white_space) && is_composed(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_match_whole_and_never_more() {
        for good in ["a", "A.b:c_d-9", &"x".repeat(256)] {
            assert!(Token::new(good).is_some(), "{good}");
        }
        for bad in ["", "a b", "é", "a\n", "a/b", &"x".repeat(257)] {
            assert!(Token::new(bad).is_none(), "{bad:?}");
        }
        assert!(WorkerToken::new(&"x".repeat(128)).is_some());
        assert!(WorkerToken::new(&"x".repeat(129)).is_none());
    }

    #[test]
    fn codes_have_no_colon_and_no_upper_case() {
        for good in ["a", "cms.queue.rejected", "x.y-z_0", &"a".repeat(128)] {
            assert!(ErrorCode::new(good).is_some(), "{good}");
        }
        for bad in ["", "UPPER", "0lead", "a:b", "Bad Code", "a\n", &"a".repeat(129)] {
            assert!(ErrorCode::new(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn white_space_is_the_contracts_list() {
        let listed = |c: u32| {
            matches!(c, 0x9..=0xd | 0x1c..=0x20 | 0x85 | 0xa0 | 0x1680 | 0x2000..=0x200a | 0x2028
                | 0x2029 | 0x202f | 0x205f | 0x3000)
        };
        for c in (0..=u32::from(char::MAX)).filter_map(char::from_u32) {
            assert_eq!(is_white_space(c), listed(c.into()), "U+{:04X}", u32::from(c));
        }
    }

    #[test]
    fn labels_count_code_points_and_refuse_padding_nul_and_decomposed_text() {
        assert!(is_label(&"é".repeat(256)));
        assert!(!is_label(&"é".repeat(257)));
        for bad in ["", " a", "a\u{1f}", "a\0b", "Cafe\u{301}", "\u{3000}a"] {
            assert!(!is_label(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_hash_is_hex_in_text_and_bytes_in_the_journal() {
        let hash = Sha256::of(b"");
        let text = serde_json::to_string(&hash).expect("a string");
        assert_eq!(text, "\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"");
        assert_eq!(format!("\"{hash:?}\""), text);
        let mut bytes = Vec::new();
        leasehold_journal::payload::encode_into(&mut bytes, &hash).expect("32 bytes");
        assert_eq!(bytes, hash.as_bytes());
    }
}
