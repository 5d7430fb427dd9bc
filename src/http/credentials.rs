//! Signatures and authentication headers.
//!
//! Owns what a host supplies to prove who is calling, and its checks. Secrets are kept in types that
//! print nothing and are wiped when they are dropped.

use hmac::{Hmac, KeyInit as _, Mac as _};
use leasehold_actors::contract::text::Token;
use secrecy::{ExposeSecret as _, SecretSlice, SecretString};
use sha2::Sha256;
use std::fmt;

/// Longest header value, in characters.
pub const HEADER_VALUE_CHARACTERS_MAX: usize = 4096;

/// Headers no host may set: they are the transport's.
const RESERVED: [&str; 7] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
];

/// Headers that are the CMS client's signature.
const SIGNATURE_RESERVED: [&str; 3] =
    ["x-localization-key-id", "x-localization-signature", "x-localization-signature-algorithm"];

/// What a signer answers.
#[derive(Clone, PartialEq, Eq)]
pub struct Signature {
    /// Name of the algorithm, a token.
    pub algorithm: String,
    /// Which key, a token.
    pub key_id: String,
    /// The signature: `[A-Za-z0-9_.:/+=-]{1,4096}`.
    pub value: String,
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signature(..)")
    }
}

impl Signature {
    /// Whether every part has its form.
    #[must_use]
    pub fn is_well_formed(&self) -> bool {
        Token::new(&self.algorithm).is_some()
            && Token::new(&self.key_id).is_some()
            && (1..=4096).contains(&self.value.len())
            && self
                .value
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_.:/+=-".contains(&byte))
    }
}

/// A signer that could not sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("signing")]
pub struct SigningFailed;

/// Signs the exact bytes that go on the wire.
pub trait Signer: Send + Sync {
    /// Signs a body.
    ///
    /// # Errors
    /// [`SigningFailed`]; nothing is sent then.
    fn sign(&self, body: &[u8]) -> Result<Signature, SigningFailed>;
}

/// HMAC-SHA256 over the body, in lower hex.
pub struct HmacSha256Signer {
    key_id: Token,
    key: SecretSlice<u8>,
}

impl HmacSha256Signer {
    /// Name of the algorithm.
    pub const ALGORITHM: &'static str = "hmac-sha256";

    /// A signer with this key; `None` for an empty key.
    #[must_use]
    pub fn new(key_id: Token, key: SecretSlice<u8>) -> Option<Self> {
        (!key.expose_secret().is_empty()).then_some(Self { key_id, key })
    }

    /// The signature of a body, in lower hex.
    #[must_use]
    pub fn hex(&self, body: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.key.expose_secret())
            .expect("HMAC takes keys of any length");
        mac.update(body);
        let mut hex = String::with_capacity(64);
        for byte in mac.finalize().into_bytes() {
            for digit in [byte >> 4, byte & 15] {
                hex.push(char::from_digit(digit.into(), 16).expect("half a byte is a hex digit"));
            }
        }
        hex
    }
}

impl fmt::Debug for HmacSha256Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HmacSha256Signer(..)")
    }
}

impl Signer for HmacSha256Signer {
    fn sign(&self, body: &[u8]) -> Result<Signature, SigningFailed> {
        Ok(Signature {
            algorithm: Self::ALGORITHM.to_owned(),
            key_id: self.key_id.as_str().to_owned(),
            value: self.hex(body),
        })
    }
}

/// Headers that could not be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("authentication")]
pub struct AuthenticationFailed;

/// Gives the authentication headers of one call.
pub trait AuthHeaders: Send + Sync {
    /// Names and values. Names match the header pattern and are unique ignoring case; values are
    /// visible ASCII, 1 to 4,096 characters; no reserved name.
    ///
    /// # Errors
    /// [`AuthenticationFailed`]; nothing is sent then.
    fn headers(&self) -> Result<Vec<(String, SecretString)>, AuthenticationFailed>;
}

/// No headers: the signature is all.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoAuthHeaders;

impl AuthHeaders for NoAuthHeaders {
    fn headers(&self) -> Result<Vec<(String, SecretString)>, AuthenticationFailed> {
        Ok(Vec::new())
    }
}

/// The same header on every call.
pub struct StaticAuthHeader {
    name: String,
    value: SecretString,
}

impl StaticAuthHeader {
    /// A header; checked when it is used.
    #[must_use]
    pub fn new(name: String, value: SecretString) -> Self {
        Self { name, value }
    }
}

impl fmt::Debug for StaticAuthHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StaticAuthHeader(..)")
    }
}

impl AuthHeaders for StaticAuthHeader {
    fn headers(&self) -> Result<Vec<(String, SecretString)>, AuthenticationFailed> {
        Ok(vec![(self.name.clone(), self.value.clone())])
    }
}

/// Whether headers keep the rules of contract 3.1 for the CMS client.
#[must_use]
pub fn are_allowed(headers: &[(String, SecretString)]) -> bool {
    are_allowed_beside(headers, &SIGNATURE_RESERVED)
}

/// Whether headers keep the rules of contract 3.1 for a client that sets headers of its own, the
/// names in `extra_reserved`, beside the transport's.
///
/// Values are ASCII for every client: nothing says what other bytes would mean on the wire.
#[must_use]
pub fn are_allowed_beside(headers: &[(String, SecretString)], extra_reserved: &[&str]) -> bool {
    headers.iter().enumerate().all(|(place, (name, value))| {
        let value = value.expose_secret();
        let repeated =
            headers[..place].iter().any(|(earlier, _)| earlier.eq_ignore_ascii_case(name));
        is_header_name(name)
            && !repeated
            && !RESERVED
                .iter()
                .chain(extra_reserved)
                .any(|reserved| reserved.eq_ignore_ascii_case(name))
            && (1..=HEADER_VALUE_CHARACTERS_MAX).contains(&value.len())
            && value.bytes().all(|byte| (0x20..0x7f).contains(&byte))
    })
}

fn is_header_name(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(name: &str, value: &str) -> (String, SecretString) {
        (name.to_owned(), SecretString::from(value.to_owned()))
    }

    #[test]
    fn the_signature_is_the_known_one() {
        // RFC 4231, test case 2.
        let key_id = Token::new("k").expect("a token");
        let signer = HmacSha256Signer::new(key_id, b"Jefe".to_vec().into()).expect("a key");
        assert_eq!(
            signer.hex(b"what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert!(signer.sign(b"").expect("it signs").is_well_formed());
        let key_id = Token::new("k").expect("a token");
        assert!(HmacSha256Signer::new(key_id, Vec::new().into()).is_none());
    }

    #[test]
    fn malformed_signatures_are_told_apart() {
        let good =
            Signature { algorithm: "a".into(), key_id: "k".into(), value: "AZ09_.:/+=-".into() };
        assert!(good.is_well_formed());
        for bad in [
            Signature { algorithm: "a b".into(), ..good.clone() },
            Signature { key_id: String::new(), ..good.clone() },
            Signature { value: String::new(), ..good.clone() },
            Signature { value: "a\nb".into(), ..good.clone() },
            Signature { value: "x".repeat(4097), ..good.clone() },
        ] {
            assert!(!bad.is_well_formed());
        }
    }

    #[test]
    fn headers_outside_of_their_rules_are_refused() {
        assert!(are_allowed(&[]));
        assert!(are_allowed(&[header("Authorization", "Bearer x"), header("X-A", "1")]));
        for bad in [
            vec![header("X-Localization-Signature", "x")],
            vec![header("Content-Type", "x")],
            vec![header("X-A", "1"), header("x-a", "2")],
            vec![header("X A", "1")],
            vec![header("", "1")],
            vec![header("X-A", "")],
            vec![header("X-A", "a\r\nX-B: 2")],
            vec![header("X-A", "é")],
            vec![header("X-A", &"x".repeat(4097))],
        ] {
            assert!(!are_allowed(&bad), "{bad:?}");
        }
    }

    #[test]
    fn each_client_reserves_the_headers_it_sets_itself() {
        let key_id = [header("X-Localization-Key-Id", "k")];
        assert!(!are_allowed(&key_id));
        assert!(are_allowed_beside(&key_id, &["idempotency-key"]));
        let idempotency = [header("Idempotency-Key", "k")];
        assert!(are_allowed(&idempotency));
        assert!(!are_allowed_beside(&idempotency, &["idempotency-key"]));
        assert!(!are_allowed_beside(&[header("Host", "k")], &[]));
    }

    #[test]
    fn secrets_are_not_in_debug_output() {
        let header = StaticAuthHeader::new("Authorization".into(), "canary".to_owned().into());
        let key_id = Token::new("k").expect("a token");
        let signer = HmacSha256Signer::new(key_id, b"canary".to_vec().into()).expect("a key");
        let signature = signer.sign(b"canary").expect("it signs");
        assert_eq!(
            format!("{header:?} {signer:?} {signature:?}"),
            "StaticAuthHeader(..) HmacSha256Signer(..) Signature(..)"
        );
    }
}
