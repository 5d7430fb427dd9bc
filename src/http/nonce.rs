//! Signed requests that are good once (contract 3.6): one way to answer a context.
//!
//! Owns the text that is signed, the headers that carry the proof, and the window in which it is
//! good. Must not keep nonces: whoever verifies has to spend (credential id, version, nonce) once,
//! atomically, and keep it until `issued_at` and the window are over.
//!
//! The text has a `payload_sha256`, which is null here: a context knows the hash of the body, not of
//! the document in it. `source_payload_sha256` is the hash of the body where the source client says
//! so in a header, and `idempotency_key` is the identity it or the adapter sends as one.

use super::context::{AuthContext, ContextHeaders, ContextSchema};
use super::credentials::{AuthenticationFailed, HmacSha256Signer};
use crate::clock::{Clock, Entropy};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use leasehold_actors::contract::json::{Integer, Object, Value};
use leasehold_actors::contract::payload::Payload;
use leasehold_actors::contract::text::{Sha256, Token};
use secrecy::{ExposeSecret as _, SecretSlice, SecretString};
use std::fmt;
use std::sync::Arc;
use subtle::ConstantTimeEq as _;

/// Schema of the text that is signed.
pub const PROOF_SCHEMA: &str = "blun.cms-source-delivery-sidecar-hmac-proof.v1";

/// Random bytes in a nonce.
const NONCE_BYTES: usize = 24;

/// The first second whose number a float may not hold exactly.
const SECONDS_MAX: f64 = 9_007_199_254_740_992.0;

/// Who signs, and between whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NonceCredential {
    /// The caller.
    pub principal_id: Token,
    /// Its credential.
    pub credential_id: Token,
    /// Which version of it.
    pub credential_version: Token,
    /// Digest of the surface that is called.
    pub sidecar_capabilities_sha256: Sha256,
    /// Digest of the surface behind it.
    pub remote_capabilities_sha256: Sha256,
}

/// A credential and its secret: signs and verifies proofs.
pub struct NonceKey {
    credential: NonceCredential,
    signer: HmacSha256Signer,
}

impl fmt::Debug for NonceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NonceKey(..)")
    }
}

/// How old a proof may be, and how far ahead of the verifier's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    past_seconds: u32,
    future_seconds: u32,
}

impl Window {
    /// A window; `None` for one over 300 seconds, and for a future part over the past one.
    #[must_use]
    pub fn new(past_seconds: u32, future_seconds: u32) -> Option<Self> {
        let good = past_seconds <= 300 && future_seconds <= past_seconds;
        good.then_some(Self { past_seconds, future_seconds })
    }

    /// Whether a proof of that second is good now; both ends are.
    fn holds(self, issued_at: u64, now_seconds: f64) -> bool {
        let issued_at = issued_at as f64;
        now_seconds - f64::from(self.past_seconds) <= issued_at
            && issued_at <= now_seconds + f64::from(self.future_seconds)
    }
}

impl Default for Window {
    /// 60 seconds back, 5 ahead.
    fn default() -> Self {
        Self { past_seconds: 60, future_seconds: 5 }
    }
}

/// What the headers of a request state. `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Proof {
    /// When it was made, in whole seconds.
    pub issued_at: u64,
    /// What makes it good only once.
    pub nonce: String,
    /// The signature, in lower hex.
    pub signature: String,
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Proof(..)")
    }
}

/// A proof that is none, whatever is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("proof_invalid")]
pub struct ProofInvalid;

impl NonceKey {
    /// A key; `None` for a secret that is not 32 to 4,096 bytes.
    #[must_use]
    pub fn new(credential: NonceCredential, secret: SecretSlice<u8>) -> Option<Self> {
        if !(32..=4096).contains(&secret.expose_secret().len()) {
            return None;
        }
        let signer = HmacSha256Signer::new(credential.credential_id.clone(), secret)?;
        Some(Self { credential, signer })
    }

    /// Verifies a proof for a request: its form, then its window, then its signature, in constant
    /// time. A proof that is good has still to be spent.
    ///
    /// # Errors
    /// [`ProofInvalid`].
    pub fn verify(
        &self,
        context: &AuthContext,
        proof: &Proof,
        window: Window,
        now_seconds: f64,
    ) -> Result<(), ProofInvalid> {
        let well_formed = (32..=128).contains(&proof.nonce.len())
            && proof.nonce.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        if !well_formed || !window.holds(proof.issued_at, now_seconds) {
            return Err(ProofInvalid);
        }
        let expected = self.signature(context, proof.issued_at, &proof.nonce);
        if bool::from(expected.as_bytes().ct_eq(proof.signature.as_bytes())) {
            Ok(())
        } else {
            Err(ProofInvalid)
        }
    }

    fn signature(&self, context: &AuthContext, issued_at: u64, nonce: &str) -> String {
        self.signer.hex(self.proof_text(context, issued_at, nonce).as_bytes())
    }

    /// The text that is signed; what does not apply is null.
    fn proof_text(&self, context: &AuthContext, issued_at: u64, nonce: &str) -> Payload {
        let text = |value: &str| Value::String(value.to_owned());
        let hash = |value: Sha256| Value::String(value.to_string());
        let token = |value: Option<&Token>| value.map_or(Value::Null, |token| text(token.as_str()));
        let issued_at = i64::try_from(issued_at).unwrap_or(i64::MAX);
        let source_body = context.has_body() && context.schema() == ContextSchema::Source;
        let source_payload_sha256 = source_body.then(|| context.body_sha256());
        let idempotency_key = context.request_id().or(context.notification_id());
        let who = &self.credential;
        let members = [
            ("schema", text(PROOF_SCHEMA)),
            ("algorithm", text(HmacSha256Signer::ALGORITHM)),
            ("origin", text(context.origin())),
            ("sidecar_capabilities_sha256", hash(who.sidecar_capabilities_sha256)),
            ("remote_capabilities_sha256", hash(who.remote_capabilities_sha256)),
            ("method", text(context.method())),
            ("path", text(context.path())),
            ("scope", context.scope().map_or(Value::Null, text)),
            ("body_sha256", hash(context.body_sha256())),
            ("principal_id", text(who.principal_id.as_str())),
            ("credential_id", text(who.credential_id.as_str())),
            ("credential_version", text(who.credential_version.as_str())),
            ("issued_at", Value::Integer(Integer::Small(issued_at))),
            ("nonce", text(nonce)),
            ("site_id", token(context.site_id())),
            ("event_id", token(context.event_id())),
            ("request_id", token(context.request_id())),
            ("payload_sha256", Value::Null),
            ("idempotency_key", token(idempotency_key)),
            ("source_payload_sha256", source_payload_sha256.map_or(Value::Null, hash)),
        ];
        let members = members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Payload::of(&Value::Object(Object::new(members).expect("a proof repeats no key")))
    }
}

/// Signs each request with a fresh nonce.
pub struct NonceSigner {
    key: NonceKey,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
}

impl NonceSigner {
    /// A signer with this key.
    #[must_use]
    pub fn new(key: NonceKey, clock: impl Clock, entropy: impl Entropy) -> Self {
        Self { key, clock: Arc::new(clock), entropy: Arc::new(entropy) }
    }
}

impl fmt::Debug for NonceSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NonceSigner(..)")
    }
}

impl ContextHeaders for NonceSigner {
    fn headers(
        &self,
        context: &AuthContext,
    ) -> Result<Vec<(String, SecretString)>, AuthenticationFailed> {
        let now = self.clock.now_seconds();
        if !(0.0..SECONDS_MAX).contains(&now) {
            return Err(AuthenticationFailed);
        }
        let issued_at = now as u64;
        let mut bytes = [0; NONCE_BYTES];
        self.entropy.fill(&mut bytes);
        let nonce = URL_SAFE_NO_PAD.encode(bytes);
        let signature = self.key.signature(context, issued_at, &nonce);
        let who = &self.key.credential;
        let text = |token: &Token| token.as_str().to_owned();
        let mut headers = vec![
            ("Credential-Id", text(&who.credential_id)),
            ("Credential-Version", text(&who.credential_version)),
            ("Timestamp", issued_at.to_string()),
            ("Nonce", nonce),
            ("Signature", signature),
        ];
        for (name, value) in [
            ("Site-Id", context.site_id()),
            ("Event-Id", context.event_id()),
            ("Request-Id", context.request_id()),
        ] {
            headers.extend(value.map(|value| (name, text(value))));
        }
        let named = |(name, value): (&str, String)| {
            (format!("X-Localization-Auth-{name}"), SecretString::from(value))
        };
        Ok(headers.into_iter().map(named).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::http::context::{Subject, context_headers};

    const NOW: f64 = 1_900_000_000.75;

    /// Counts up from 0 on every draw.
    struct Counting;

    impl Entropy for Counting {
        fn fill(&self, bytes: &mut [u8]) {
            for (byte, value) in bytes.iter_mut().zip(0..) {
                *byte = value;
            }
        }
    }

    fn token(text: &str) -> Token {
        Token::new(text).expect("a token")
    }

    fn key() -> NonceKey {
        let credential = NonceCredential {
            principal_id: token("shop"),
            credential_id: token("key-1"),
            credential_version: token("3"),
            sidecar_capabilities_sha256: Sha256::of(b"sidecar"),
            remote_capabilities_sha256: Sha256::of(b"remote"),
        };
        NonceKey::new(credential, vec![7_u8; 32].into()).expect("a key")
    }

    /// A removal on its way to the source runtime.
    fn write() -> AuthContext {
        AuthContext::new(
            ContextSchema::Source,
            "https://source.example",
            "/v1/localization/source/removals",
        )
        .with_body(Sha256::of(b"{}"))
        .with_scope("source-removal:write")
        .about(Subject {
            event_id: Some(token("event-1")),
            request_id: Some(token("cancellation-1")),
            ..Subject::default()
        })
    }

    fn signed(context: &AuthContext) -> Vec<(String, String)> {
        let signer = NonceSigner::new(key(), ManualClock::at(NOW), Counting);
        let headers = context_headers(&signer, context, &[], 58).expect("allowed headers");
        headers.into_iter().map(|(name, value)| (name, value.expose_secret().to_owned())).collect()
    }

    fn proof(headers: &[(String, String)]) -> Proof {
        let value = |name: &str| {
            let name = format!("X-Localization-Auth-{name}");
            let found = headers.iter().find(|(other, _)| *other == name);
            found.expect("the header").1.clone()
        };
        Proof {
            issued_at: value("Timestamp").parse().expect("a number"),
            nonce: value("Nonce"),
            signature: value("Signature"),
        }
    }

    /// From another implementation of HMAC, over the text in the test below.
    const SIGNATURE: &str = "660703c3d9739be05a83caf74ced0b0a49887802dcc574d7814ab2e998e6100e";

    #[test]
    fn the_proof_is_the_known_one() {
        let headers = signed(&write());
        let expected = [
            ("X-Localization-Auth-Credential-Id", "key-1"),
            ("X-Localization-Auth-Credential-Version", "3"),
            ("X-Localization-Auth-Timestamp", "1900000000"),
            ("X-Localization-Auth-Nonce", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"),
            ("X-Localization-Auth-Signature", SIGNATURE),
            ("X-Localization-Auth-Event-Id", "event-1"),
            ("X-Localization-Auth-Request-Id", "cancellation-1"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(headers, expected);
    }

    #[test]
    fn the_signature_is_over_the_canonical_text() {
        use hmac::{Hmac, KeyInit as _, Mac as _};
        let text = "{\"algorithm\":\"hmac-sha256\",\
             \"body_sha256\":\"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a\",\
             \"credential_id\":\"key-1\",\"credential_version\":\"3\",\"event_id\":\"event-1\",\
             \"idempotency_key\":\"cancellation-1\",\"issued_at\":1900000000,\"method\":\"POST\",\
             \"nonce\":\"AAECAwQFBgcICQoLDA0ODxAREhMUFRYX\",\
             \"origin\":\"https://source.example\",\"path\":\"/v1/localization/source/removals\",\
             \"payload_sha256\":null,\"principal_id\":\"shop\",\
             \"remote_capabilities_sha256\":\"b71199ebd070b36beab7317920c2c2f1d777df8d05e5527d8458fda57cb17a7a\",\
             \"request_id\":\"cancellation-1\",\
             \"schema\":\"blun.cms-source-delivery-sidecar-hmac-proof.v1\",\
             \"scope\":\"source-removal:write\",\
             \"sidecar_capabilities_sha256\":\"6c8b4535ccc87f19061c4646189e33d78f01c8b63dc4e3cb2f630b1796ee93b6\",\
             \"site_id\":null,\
             \"source_payload_sha256\":\"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a\"}";
        let proof_text =
            key().proof_text(&write(), 1_900_000_000, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX");
        assert_eq!(proof_text.as_str(), text);
        let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&[7; 32]).expect("a key");
        mac.update(text.as_bytes());
        let hex: String =
            mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, SIGNATURE);
    }

    #[test]
    fn a_notification_is_keyed_by_its_id_and_names_its_site() {
        let context = AuthContext::new(ContextSchema::Terminal, "https://cms.example", "/path")
            .with_body(Sha256::of(b"{}"))
            .about(Subject {
                event_id: Some(token("event-1")),
                request_id: None,
                site_id: Some(token("site-1")),
                notification_id: Some(token("terminal-1")),
            });
        let text = key().proof_text(&context, 1, "nonce");
        let value = Value::parse(text.as_bytes()).expect("JSON");
        let text = value.as_object().expect("an object");
        assert_eq!(text.text("idempotency_key"), Some("terminal-1"));
        assert_eq!(text.text("site_id"), Some("site-1"));
        for absent in ["scope", "request_id", "payload_sha256", "source_payload_sha256"] {
            assert_eq!(text.get(absent), Some(&Value::Null), "{absent}");
        }
        let headers = signed(&context);
        assert!(headers.contains(&("X-Localization-Auth-Site-Id".to_owned(), "site-1".to_owned())));
    }

    #[test]
    fn a_proof_is_good_in_its_window_and_for_its_own_request() {
        let (key, context, window) = (key(), write(), Window::default());
        let good = proof(&signed(&context));
        let issued_at = 1_900_000_000.0;
        for (now, expected) in [
            (issued_at, Ok(())),
            (issued_at + 60.0, Ok(())),
            (issued_at + 60.5, Err(ProofInvalid)),
            (issued_at - 5.0, Ok(())),
            (issued_at - 5.5, Err(ProofInvalid)),
            (f64::NAN, Err(ProofInvalid)),
        ] {
            assert_eq!(key.verify(&context, &good, window, now), expected, "{now}");
        }
        for bad in [
            Proof { issued_at: good.issued_at + 1, ..good.clone() },
            Proof { nonce: "A".repeat(32), ..good.clone() },
            Proof { nonce: "short".to_owned(), ..good.clone() },
            Proof { signature: good.signature.to_uppercase(), ..good.clone() },
            Proof { signature: String::new(), ..good.clone() },
        ] {
            assert_eq!(key.verify(&context, &bad, window, NOW), Err(ProofInvalid));
        }
        let other = context.with_body(Sha256::of(b"[]"));
        assert_eq!(key.verify(&other, &good, window, NOW), Err(ProofInvalid));
    }

    #[test]
    fn windows_and_secrets_have_limits() {
        assert!(Window::new(300, 300).is_some());
        assert!(Window::new(301, 5).is_none());
        assert!(Window::new(60, 61).is_none());
        for (bytes, good) in [(31, false), (32, true), (4096, true), (4097, false)] {
            let made = NonceKey::new(key().credential, vec![7_u8; bytes].into());
            assert_eq!(made.is_some(), good, "{bytes}");
        }
    }

    #[test]
    fn a_clock_that_cannot_tell_signs_nothing() {
        for now in [-1.0, f64::NAN, f64::INFINITY, SECONDS_MAX] {
            let signer = NonceSigner::new(key(), ManualClock::at(now), Counting);
            assert!(context_headers(&signer, &write(), &[], 58).is_none(), "{now}");
        }
    }

    #[test]
    fn secrets_are_not_in_debug_output() {
        let signer = NonceSigner::new(key(), ManualClock::at(NOW), Counting);
        let proof = proof(&signed(&write()));
        assert_eq!(
            format!("{signer:?} {:?} {proof:?}", key()),
            "NonceSigner(..) NonceKey(..) Proof(..)"
        );
    }
}
