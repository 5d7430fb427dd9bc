//! Authentication that knows the request (contract 3.1), and the exchange it is a part of.
//!
//! Owns the context a host is asked about, the check of the headers it gives, and the order of checks
//! of one exchange. The source client, the notification adapter and the receiver client share these
//! and differ in a few rules. Must not know any message.

use super::address::Origin;
use super::credentials::{AuthHeaders, AuthenticationFailed, StaticAuthHeader, are_allowed_beside};
use super::response::{is_retryable, read_object, retry_after_seconds};
use super::transport::{Answer, ClientInvalid, Transport};
use crate::clock::{Clock, SystemClock};
use crate::worker::CallFailure;
use leasehold_actors::contract::json::{Object, Value};
use leasehold_actors::contract::payload::Payload;
use leasehold_actors::contract::text::{Sha256, Token};
use secrecy::SecretString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Which of the two contexts it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextSchema {
    /// Of a request to the source runtime.
    Source,
    /// Of a request about a terminal notification.
    Terminal,
}

impl ContextSchema {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Source => "blun.cms-source-runtime-http-auth-request.v1",
            Self::Terminal => "blun.cms-source-terminal-notification-http-auth.v1",
        }
    }
}

/// What a request is about, as far as its context says so.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subject {
    /// The change.
    pub event_id: Option<Token>,
    /// The identity of a document that is written.
    pub request_id: Option<Token>,
    /// The site.
    pub site_id: Option<Token>,
    /// The notification.
    pub notification_id: Option<Token>,
}

/// One request as its authentication sees it. `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthContext {
    schema: ContextSchema,
    origin: Box<str>,
    path: Box<str>,
    body_sha256: Option<Sha256>,
    scope: Option<&'static str>,
    subject: Subject,
}

impl AuthContext {
    /// The context of a GET of this path, about nothing in particular.
    #[must_use]
    pub fn new(schema: ContextSchema, origin: &str, path: &str) -> Self {
        Self {
            schema,
            origin: origin.into(),
            path: path.into(),
            body_sha256: None,
            scope: None,
            subject: Subject::default(),
        }
    }

    /// The same with a body of this hash, which makes it a POST.
    #[must_use]
    pub fn with_body(self, body_sha256: Sha256) -> Self {
        Self { body_sha256: Some(body_sha256), ..self }
    }

    /// The same with what the caller must be allowed.
    #[must_use]
    pub fn with_scope(self, scope: &'static str) -> Self {
        Self { scope: Some(scope), ..self }
    }

    /// The same about something.
    #[must_use]
    pub fn about(self, subject: Subject) -> Self {
        Self { subject, ..self }
    }

    /// Which of the two contexts it is.
    #[must_use]
    pub fn schema(&self) -> ContextSchema {
        self.schema
    }

    /// `POST` where there is a body, else `GET`.
    #[must_use]
    pub fn method(&self) -> &'static str {
        if self.has_body() { "POST" } else { "GET" }
    }

    /// Whether there is a body.
    #[must_use]
    pub fn has_body(&self) -> bool {
        self.body_sha256.is_some()
    }

    /// Where it goes.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The path there.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Hash of the exact body; of nothing where there is none.
    #[must_use]
    pub fn body_sha256(&self) -> Sha256 {
        self.body_sha256.unwrap_or_else(|| Sha256::of(b""))
    }

    /// What the caller must be allowed; only the source client says.
    #[must_use]
    pub fn scope(&self) -> Option<&'static str> {
        self.scope
    }

    /// The change it is about.
    #[must_use]
    pub fn event_id(&self) -> Option<&Token> {
        self.subject.event_id.as_ref()
    }

    /// The identity of the document it writes.
    #[must_use]
    pub fn request_id(&self) -> Option<&Token> {
        self.subject.request_id.as_ref()
    }

    /// The site it is about.
    #[must_use]
    pub fn site_id(&self) -> Option<&Token> {
        self.subject.site_id.as_ref()
    }

    /// The notification it delivers.
    #[must_use]
    pub fn notification_id(&self) -> Option<&Token> {
        self.subject.notification_id.as_ref()
    }

    /// The context object of contract 3.1; what does not apply is absent.
    #[must_use]
    pub fn to_payload(&self) -> Payload {
        let body_sha256 = self.body_sha256().to_string();
        let mut members = vec![
            ("schema", self.schema.name()),
            ("method", self.method()),
            ("origin", self.origin()),
            ("path", self.path()),
            ("body_sha256", body_sha256.as_str()),
        ];
        for (key, value) in [
            ("scope", self.scope),
            ("event_id", self.event_id().map(Token::as_str)),
            ("request_id", self.request_id().map(Token::as_str)),
            ("site_id", self.site_id().map(Token::as_str)),
            ("notification_id", self.notification_id().map(Token::as_str)),
        ] {
            members.extend(value.map(|value| (key, value)));
        }
        let members = members
            .into_iter()
            .map(|(key, value)| (key.to_owned(), Value::String(value.to_owned())))
            .collect();
        Payload::of(&Value::Object(Object::new(members).expect("a context repeats no key")))
    }
}

impl std::fmt::Debug for AuthContext {
    /// An address can carry what should not be in a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AuthContext(..)")
    }
}

/// Gives the authentication headers of one request.
pub trait ContextHeaders: Send + Sync {
    /// Names and values, at least one. Names match the header pattern and are unique ignoring case;
    /// values are visible ASCII, 1 to 4,096 characters; no name the client sets itself. The source
    /// client takes at most 58.
    ///
    /// # Errors
    /// [`AuthenticationFailed`]; nothing is sent then.
    fn headers(
        &self,
        context: &AuthContext,
    ) -> Result<Vec<(String, SecretString)>, AuthenticationFailed>;
}

impl<T: ContextHeaders + ?Sized> ContextHeaders for Arc<T> {
    fn headers(
        &self,
        context: &AuthContext,
    ) -> Result<Vec<(String, SecretString)>, AuthenticationFailed> {
        T::headers(self, context)
    }
}

impl ContextHeaders for StaticAuthHeader {
    /// The same header, whatever the request.
    fn headers(
        &self,
        _: &AuthContext,
    ) -> Result<Vec<(String, SecretString)>, AuthenticationFailed> {
        AuthHeaders::headers(self)
    }
}

/// A host's headers for one request, checked: at least one and at most `count_max`, none of them in
/// `reserved`. `None` when they are not to be had, also by a panic, or not allowed.
#[must_use]
pub fn context_headers(
    source: &dyn ContextHeaders,
    context: &AuthContext,
    reserved: &[&str],
    count_max: usize,
) -> Option<Vec<(String, SecretString)>> {
    let given = catch_unwind(AssertUnwindSafe(|| source.headers(context))).ok()?.ok()?;
    let allowed = (1..=count_max).contains(&given.len()) && are_allowed_beside(&given, reserved);
    allowed.then_some(given)
}

/// What the exchanges of one client keep to.
pub(super) struct Rules {
    /// What its codes start with, without the dot.
    pub(super) prefix: &'static str,
    /// Schema of its contexts.
    pub(super) schema: ContextSchema,
    /// Headers it sets itself, in lower case.
    pub(super) reserved: &'static [&'static str],
    /// Most headers a host may add.
    pub(super) headers_max: usize,
    /// Largest answer, in bytes.
    pub(super) response_bytes_max: usize,
}

/// One request.
pub(super) struct Request<'a> {
    pub(super) path: &'a str,
    /// A GET has none.
    pub(super) body: Option<&'a Payload>,
    pub(super) scope: Option<&'static str>,
    pub(super) subject: Subject,
    /// The client's own headers.
    pub(super) headers: Vec<(&'static str, String)>,
    /// Statuses whose body is an answer.
    pub(super) successes: &'static [u16],
}

/// Makes the exchanges of one client.
#[derive(Clone)]
pub(super) struct Caller {
    transport: Transport,
    headers: Arc<dyn ContextHeaders>,
    clock: Arc<dyn Clock>,
    rules: &'static Rules,
}

impl Caller {
    pub(super) fn new(
        origin: Origin,
        timeout_seconds: f64,
        headers: impl ContextHeaders + 'static,
        rules: &'static Rules,
    ) -> Result<Self, ClientInvalid> {
        let transport = Transport::new(origin, timeout_seconds)?;
        Ok(Self { transport, headers: Arc::new(headers), clock: Arc::new(SystemClock), rules })
    }

    pub(super) fn with_clock(self, clock: impl Clock) -> Self {
        Self { clock: Arc::new(clock), ..self }
    }

    pub(super) fn transport(&self) -> &Transport {
        &self.transport
    }

    /// A failure under the client's prefix.
    pub(super) fn failure(&self, name: &str, retryable: bool) -> CallFailure {
        CallFailure::Marked {
            code: format!("{}.{name}", self.rules.prefix),
            retryable,
            retry_after_seconds: None,
        }
    }

    /// Asks the host for headers, sends, and reads a successful answer: the object and its bytes.
    pub(super) async fn exchange(
        &self,
        request: Request<'_>,
    ) -> Result<(Value, Vec<u8>), CallFailure> {
        let rules = self.rules;
        let own = |(name, value): (&str, String)| (name.to_owned(), SecretString::from(value));
        let mut headers: Vec<_> = request.headers.into_iter().map(own).collect();
        let origin = self.transport.origin().as_str();
        let context = AuthContext {
            body_sha256: request.body.map(Payload::sha256),
            scope: request.scope,
            subject: request.subject,
            ..AuthContext::new(rules.schema, origin, request.path)
        };
        let given =
            context_headers(self.headers.as_ref(), &context, rules.reserved, rules.headers_max);
        headers.extend(given.ok_or_else(|| self.failure("authentication", false))?);
        let (path, bytes_max) = (request.path, rules.response_bytes_max);
        let sent = match request.body {
            Some(body) => {
                self.transport.post(path, headers, body.as_bytes().to_vec(), bytes_max).await
            }
            None => self.transport.get(path, headers, bytes_max).await,
        };
        let answer = sent.map_err(|_| self.failure("network", true))?;
        self.judge(answer, request.successes)
    }

    /// The status decides first (D19); the body of a success is read, of nothing else.
    fn judge(&self, answer: Answer, successes: &[u16]) -> Result<(Value, Vec<u8>), CallFailure> {
        let status = answer.status;
        if !(100..=599).contains(&status) {
            return Err(self.failure("transport_invalid", true));
        }
        if (300..=399).contains(&status) {
            return Err(self.failure("redirect", false));
        }
        if !successes.contains(&status) {
            if !is_retryable(status) {
                return Err(self.failure("http_status", false));
            }
            let now = self.clock.now_seconds();
            return Err(CallFailure::Marked {
                code: format!("{}.http_status", self.rules.prefix),
                retryable: true,
                retry_after_seconds: retry_after_seconds(&answer.headers, now),
            });
        }
        match read_object(&answer, self.rules.response_bytes_max) {
            Ok(object) => Ok((object, answer.body)),
            Err(code) => Err(self.failure(code, false)),
        }
    }
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller").field("transport", &self.transport).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use reqwest::header::{HeaderMap, HeaderValue};

    static RULES: Rules = Rules {
        prefix: "some_client",
        schema: ContextSchema::Terminal,
        reserved: &["idempotency-key"],
        headers_max: 2,
        response_bytes_max: 16,
    };

    /// Answers what a test says; `None` panics.
    struct Given(Option<Vec<(&'static str, &'static str)>>);

    impl ContextHeaders for Given {
        fn headers(
            &self,
            _: &AuthContext,
        ) -> Result<Vec<(String, SecretString)>, AuthenticationFailed> {
            let given = self.0.as_ref().expect("what a test says");
            let pair = |(name, value): &(&str, &str)| {
                ((*name).to_owned(), SecretString::from((*value).to_owned()))
            };
            Ok(given.iter().map(pair).collect())
        }
    }

    fn token(text: &str) -> Option<Token> {
        Some(Token::new(text).expect("a token"))
    }

    fn context() -> AuthContext {
        AuthContext::new(ContextSchema::Terminal, "https://cms.example", "/path")
    }

    #[test]
    fn i1_the_context_of_a_get_is_method_origin_path_and_the_empty_hash() {
        assert_eq!(
            context().to_payload().as_str(),
            "{\"body_sha256\":\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\",\
             \"method\":\"GET\",\"origin\":\"https://cms.example\",\"path\":\"/path\",\
             \"schema\":\"blun.cms-source-terminal-notification-http-auth.v1\"}"
        );
        assert_eq!(format!("{:?}", context()), "AuthContext(..)");
    }

    #[test]
    fn f7_the_context_of_a_write_names_scope_event_request_and_body() {
        let body_sha256 = Sha256::of(b"{}");
        let subject = Subject {
            event_id: token("event-1"),
            request_id: token("cancellation-1"),
            ..Subject::default()
        };
        let context = AuthContext::new(ContextSchema::Source, "https://cms.example", "/path")
            .with_body(body_sha256)
            .with_scope("source-removal:write")
            .about(subject);
        assert_eq!(
            context.to_payload().as_str(),
            format!(
                "{{\"body_sha256\":\"{body_sha256}\",\"event_id\":\"event-1\",\"method\":\"POST\",\
                 \"origin\":\"https://cms.example\",\"path\":\"/path\",\
                 \"request_id\":\"cancellation-1\",\
                 \"schema\":\"blun.cms-source-runtime-http-auth-request.v1\",\
                 \"scope\":\"source-removal:write\"}}"
            )
        );
    }

    #[test]
    fn h4_headers_that_are_missing_reserved_too_many_or_panic_are_refused() {
        let checked = |given| context_headers(&Given(given), &context(), RULES.reserved, 2);
        assert!(checked(Some(vec![("Authorization", "Bearer x"), ("X-A", "1")])).is_some());
        for bad in [
            None,
            Some(vec![]),
            Some(vec![("X-A", "1"), ("X-B", "1"), ("X-C", "1")]),
            Some(vec![("Idempotency-Key", "1")]),
            Some(vec![("Content-Type", "1")]),
            Some(vec![("X-A", "1"), ("x-a", "1")]),
            Some(vec![("X-A", "1\n2")]),
            Some(vec![("X A", "1")]),
        ] {
            assert!(checked(bad.clone()).is_none(), "{bad:?}");
        }
        let fixed = StaticAuthHeader::new("X-A".to_owned(), "1".to_owned().into());
        assert!(context_headers(&fixed, &context(), RULES.reserved, 2).is_some());
    }

    fn answer(status: u16, headers: &[(&'static str, &str)], body: &[u8]) -> Answer {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).expect("a header value"));
        }
        Answer { status, headers: map, body: body.to_vec() }
    }

    fn caller() -> Caller {
        let origin = Origin::new("https://cms.example", false).expect("an origin");
        let caller = Caller::new(origin, 30.0, Given(None), &RULES).expect("a caller");
        caller.with_clock(ManualClock::at(0.0))
    }

    #[test]
    fn d19_the_status_decides_before_headers_and_body() {
        let caller = caller();
        for (status, code, retryable) in [
            (307, "some_client.redirect", false),
            (201, "some_client.http_status", false),
            (401, "some_client.http_status", false),
            (404, "some_client.http_status", false),
            (408, "some_client.http_status", true),
            (425, "some_client.http_status", true),
            (429, "some_client.http_status", true),
            (500, "some_client.http_status", true),
            (503, "some_client.http_status", true),
            (600, "some_client.transport_invalid", true),
        ] {
            let html = [("content-type", "text/html"), ("retry-after", "7"), ("retry-after", "7")];
            let judged = caller.judge(answer(status, &html, b"<p>"), &[200]);
            let waits = retryable && status < 600;
            let failure = CallFailure::Marked {
                code: code.to_owned(),
                retryable,
                retry_after_seconds: waits.then_some(7.0),
            };
            assert_eq!(judged, Err(failure), "{status}");
        }
    }

    #[test]
    fn h6_a_success_that_cannot_be_read_is_not_tried_again() {
        let caller = caller();
        let json = [("content-type", "application/json; charset=utf-8")];
        for status in [200, 503] {
            let judged = caller.judge(answer(status, &json, b"{ }"), &[200, 503]);
            assert_eq!(judged.map(|(_, body)| body), Ok(b"{ }".to_vec()), "{status}");
        }
        type Case<'a> = (&'a [(&'static str, &'a str)], &'a [u8], &'a str);
        let cases: [Case<'_>; 5] = [
            (&[], b"{}", "some_client.response_content_type"),
            (&json, b"", "some_client.response_size"),
            (&json, b"{\"a\":\"0123456789\"}", "some_client.response_size"),
            (&json, b"{\"a\":1,\"a\":1}", "some_client.response_json"),
            (&json, b"[]", "some_client.response_binding"),
        ];
        for (headers, body, code) in cases {
            let judged = caller.judge(answer(200, headers, body), &[200]);
            let failure = CallFailure::Marked {
                code: code.to_owned(),
                retryable: false,
                retry_after_seconds: None,
            };
            assert_eq!(judged, Err(failure), "{body:?}");
        }
    }
}
