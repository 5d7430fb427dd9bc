//! The source client (contract 3.3): the capability document, then the call.
//!
//! Owns what a call to the source runtime sends and what its answer must be bound to. Must not know
//! what a failure costs.
//!
//! Its codes start with `source_client.`. `local_contract_invalid` of the contract is not among them:
//! the document that is compared is fixed.

use super::address::Origin;
use super::context::{Caller, ContextHeaders, ContextSchema, Request, Rules, Subject};
pub use super::pinned::PinnedOptions as SourceOptions;
use super::transport::ClientInvalid;
use crate::clock::Clock;
use crate::worker::CallFailure;
use leasehold_actors::contract::MESSAGE_BYTES_MAX;
use leasehold_actors::contract::capabilities::source::{
    CAPABILITIES, CHANGE, HEALTH, READINESS, REMOVAL, STATUS,
};
use leasehold_actors::contract::capabilities::{Route, digest, source_document};
use leasehold_actors::contract::json::{Object, Value};
use leasehold_actors::contract::payload::Payload;
use leasehold_actors::contract::source::{Document, Expected, Operation, envelope, parse_response};
use leasehold_actors::contract::text::{Sha256, Token};

static RULES: Rules = Rules {
    prefix: "source_client",
    schema: ContextSchema::Source,
    reserved: &["idempotency-key", "x-localization-source-payload-sha256"],
    headers_max: 58,
    response_bytes_max: MESSAGE_BYTES_MAX,
};

/// Statuses of an answer about the runtime itself; a runtime that is not well says so with 503.
const OBSERVED: &[u16] = &[200, 503];

/// Calls the source runtime.
#[derive(Debug, Clone)]
pub struct SourceClient {
    caller: Caller,
    expected: Sha256,
}

impl SourceClient {
    /// A client; nothing is sent yet.
    ///
    /// # Errors
    /// [`ClientInvalid`].
    pub fn new(
        options: &SourceOptions,
        headers: impl ContextHeaders + 'static,
    ) -> Result<Self, ClientInvalid> {
        let origin = Origin::strict(&options.origin, options.allow_http_loopback)?;
        let caller = Caller::new(origin, options.timeout_seconds, headers, &RULES)?;
        Ok(Self { caller, expected: options.expected_capabilities_sha256 })
    }

    /// Another clock than the system's, for reading `Retry-After` dates.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock) -> Self {
        self.caller = self.caller.with_clock(clock);
        self
    }

    /// The pinned digest.
    #[must_use]
    pub fn capabilities_sha256(&self) -> Sha256 {
        self.expected
    }

    /// The longest time one call can take, both its requests, in seconds.
    #[must_use]
    pub fn longest_call_seconds(&self) -> f64 {
        2.0 * self.caller.transport().timeout_seconds()
    }

    /// Submits a change, a cancellation or a tombstone. The answer belongs to it.
    ///
    /// # Errors
    /// [`CallFailure::Marked`] with the codes of contract 3.3; `request_invalid`, before anything is
    /// sent, for a document that is not this operation's or not this request's, and for a ceiling
    /// that is not 1 to 20.
    pub async fn submit(
        &self,
        operation: Operation,
        request_id: &Token,
        event_id: &Token,
        document: &Payload,
        max_attempts: u32,
    ) -> Result<Vec<u8>, CallFailure> {
        let body = checked_envelope(operation, request_id, event_id, document, max_attempts)
            .ok_or_else(|| self.caller.failure("request_invalid", false))?;
        self.check_capabilities().await?;
        let route = route_of(operation);
        let subject = Subject {
            event_id: Some(event_id.clone()),
            request_id: Some(request_id.clone()),
            ..Subject::default()
        };
        let mut request = Request { subject, ..request(route, Some(&body)) };
        request.headers.push(("Idempotency-Key", request_id.as_str().to_owned()));
        let (_, answer) = self.caller.exchange(request).await?;
        let expected = Expected {
            operation,
            request_id,
            event_id,
            payload_sha256: document.sha256(),
            max_attempts,
            capabilities_sha256: self.expected,
        };
        match parse_response(&answer, &expected) {
            Ok(_) => Ok(answer),
            Err(_) => Err(self.caller.failure("enqueue_binding", false)),
        }
    }

    /// Where an event stands: the whole answer, which names this event and this site.
    ///
    /// # Errors
    /// [`CallFailure::Marked`] with the codes of contract 3.3.
    pub async fn status(&self, event_id: &Token, site_id: &Token) -> Result<Value, CallFailure> {
        self.check_capabilities().await?;
        let body = STATUS.question(event_id, site_id);
        let subject = Subject {
            event_id: Some(event_id.clone()),
            site_id: Some(site_id.clone()),
            ..Subject::default()
        };
        let request = Request { subject, ..request(&STATUS, Some(&body)) };
        let (answer, _) = self.caller.exchange(request).await?;
        let bound = carried(&STATUS, self.expected, &answer).is_some_and(|status| {
            status.text("event_id") == Some(event_id.as_str())
                && status.text("site_id") == Some(site_id.as_str())
        });
        if bound { Ok(answer) } else { Err(self.caller.failure("status_binding", false)) }
    }

    /// How the runtime is: the whole answer, also of one that is not well.
    ///
    /// # Errors
    /// [`CallFailure::Marked`] with the codes of contract 3.3.
    pub async fn health(&self) -> Result<Value, CallFailure> {
        self.observe(&HEALTH, "health_binding").await
    }

    /// Whether the runtime takes work: the whole answer, also of one that does not.
    ///
    /// # Errors
    /// [`CallFailure::Marked`] with the codes of contract 3.3.
    pub async fn readiness(&self) -> Result<Value, CallFailure> {
        self.observe(&READINESS, "readiness_binding").await
    }

    async fn observe(
        &self,
        route: &'static Route,
        binding: &'static str,
    ) -> Result<Value, CallFailure> {
        self.check_capabilities().await?;
        let request = Request { successes: OBSERVED, ..request(route, None) };
        let (answer, _) = self.caller.exchange(request).await?;
        let bound = carried(route, self.expected, &answer).is_some();
        if bound { Ok(answer) } else { Err(self.caller.failure(binding, false)) }
    }

    /// Fetches the document; it has to be the one built here, and the pinned one.
    async fn check_capabilities(&self) -> Result<(), CallFailure> {
        let (answer, _) = self.caller.exchange(request(&CAPABILITIES, None)).await?;
        if is_document(&answer, self.expected) {
            Ok(())
        } else {
            Err(self.caller.failure("capabilities_binding", false))
        }
    }
}

fn route_of(operation: Operation) -> &'static Route {
    match operation {
        Operation::Change => &CHANGE,
        Operation::Cancellation | Operation::Tombstone => &REMOVAL,
    }
}

/// A request of this route about nothing in particular.
fn request<'a>(route: &'static Route, body: Option<&'a Payload>) -> Request<'a> {
    let hash = |body: &Payload| ("X-Localization-Source-Payload-Sha256", body.sha256().to_string());
    Request {
        path: route.path,
        body,
        scope: Some(route.scope),
        subject: Subject::default(),
        headers: body.map(hash).into_iter().collect(),
        successes: std::slice::from_ref(&route.success_status),
    }
}

/// The envelope of a document that is what it is said to be.
fn checked_envelope(
    operation: Operation,
    request_id: &Token,
    event_id: &Token,
    document: &Payload,
    max_attempts: u32,
) -> Option<Payload> {
    let known = Document::parse(document.as_bytes()).ok()?;
    let agrees = known.operation == operation
        && known.request_id == *request_id
        && known.event_id == *event_id
        && known.payload == *document
        && (1..=20).contains(&max_attempts);
    if agrees { envelope(operation, document, max_attempts) } else { None }
}

/// Whether an answer brings the document, whole and with the pinned digest.
fn is_document(answer: &Value, pin: Sha256) -> bool {
    let document = source_document();
    answer.as_object().is_some_and(|answer| {
        CAPABILITIES.is_answer(answer) && answer.get("capabilities") == Some(&document)
    }) && digest(&document) == Some(pin)
}

/// What an answer of this route carries beside its schema and the pinned digest.
fn carried<'a>(route: &Route, pin: Sha256, answer: &'a Value) -> Option<&'a Object> {
    let answer = answer.as_object()?;
    let stated = Sha256::from_hex(answer.text("capabilities_sha256")?)?;
    let good = route.is_answer(answer) && stated == pin;
    answer.get(route.name).filter(|_| good)?.as_object()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CANCELLATION: &str = "{\"cancellation_id\":\"cancellation-2031-0003\",\
        \"event_id\":\"evt-2031-0007\",\"schema\":\"blun.cms-content-cancellation.v1\",\
        \"site_id\":\"shop-north\",\"source_id\":\"landing.intro\",\"source_sequence\":7,\
        \"website_version\":\"web-2031.4\"}";

    fn token(text: &str) -> Token {
        Token::new(text).expect("a token")
    }

    fn pin() -> Sha256 {
        digest(&source_document()).expect("a digest of our own")
    }

    fn value(text: &str) -> Value {
        Value::parse(text.as_bytes()).expect("JSON")
    }

    #[test]
    fn the_envelope_is_the_one_of_the_contract() {
        let (id, event) = (token("cancellation-2031-0003"), token("evt-2031-0007"));
        let document = Payload::of(&value(CANCELLATION));
        let body = checked_envelope(Operation::Cancellation, &id, &event, &document, 5);
        let known = "7e35ac9218374b68ed61a651e407d31c10f4d63abad8c3bf3f7a5030da2b733a";
        assert_eq!(body.map(|body| body.sha256()), Sha256::from_hex(known));
    }

    #[test]
    fn f5_what_is_not_what_it_is_said_to_be_is_not_sent() {
        let (id, event) = (token("cancellation-2031-0003"), token("evt-2031-0007"));
        let document = Payload::of(&value(CANCELLATION));
        let other = token("other");
        let spaced = Payload::from_canonical(format!("{CANCELLATION} ").into());
        let empty = Payload::from_canonical("{}".into());
        for (operation, id, event, document, ceiling) in [
            (Operation::Tombstone, &id, &event, &document, 5),
            (Operation::Change, &id, &event, &document, 5),
            (Operation::Cancellation, &other, &event, &document, 5),
            (Operation::Cancellation, &id, &other, &document, 5),
            (Operation::Cancellation, &id, &event, &spaced, 5),
            (Operation::Cancellation, &id, &event, &empty, 5),
            (Operation::Cancellation, &id, &event, &document, 0),
            (Operation::Cancellation, &id, &event, &document, 21),
        ] {
            assert_eq!(checked_envelope(operation, id, event, document, ceiling), None);
        }
    }

    #[test]
    fn f3_another_pin_or_another_document_is_no_match() {
        let schema = CAPABILITIES.response_schema;
        let answer = |document: &Value| {
            let members = vec![
                ("schema".to_owned(), Value::String(schema.to_owned())),
                ("capabilities".to_owned(), document.clone()),
            ];
            Value::Object(Object::new(members).expect("two keys"))
        };
        let document = source_document();
        assert!(is_document(&answer(&document), pin()));
        assert!(!is_document(&answer(&document), Sha256::of(b"")));
        assert!(!is_document(&document, pin()));
        let changed = document.as_object().expect("an object").with("limits", Value::Null);
        assert!(!is_document(&answer(&Value::Object(changed)), pin()));
    }

    #[test]
    fn f4_an_answer_under_another_digest_carries_nothing() {
        let schema = HEALTH.response_schema;
        let answer = |digest: Sha256, health: &str| {
            value(&format!(
                "{{\"schema\":\"{schema}\",\"capabilities_sha256\":\"{digest}\",\"health\":{health}}}"
            ))
        };
        assert!(carried(&HEALTH, pin(), &answer(pin(), "{}")).is_some());
        assert!(carried(&HEALTH, pin(), &answer(Sha256::of(b""), "{}")).is_none());
        assert!(carried(&HEALTH, pin(), &answer(pin(), "null")).is_none());
        assert!(carried(&READINESS, pin(), &answer(pin(), "{}")).is_none());
    }

    #[test]
    fn a_read_has_no_body_hash_and_a_call_is_two_requests_long() {
        assert!(request(&HEALTH, None).headers.is_empty());
        let body = STATUS.question(&token("event-1"), &token("site-1"));
        let sent = request(&STATUS, Some(&body));
        let hash = body.sha256().to_string();
        assert_eq!(sent.headers, [("X-Localization-Source-Payload-Sha256", hash)]);
        let options = SourceOptions::new("https://source.example", pin());
        let headers = crate::http::StaticAuthHeader::new("X-A".into(), "1".to_owned().into());
        let client = SourceClient::new(&options, headers).expect("a client");
        assert!((client.longest_call_seconds() - 60.0).abs() < f64::EPSILON);
        let slash = SourceOptions::new("https://source.example/", pin());
        let headers = crate::http::StaticAuthHeader::new("X-A".into(), "1".to_owned().into());
        assert!(matches!(SourceClient::new(&slash, headers), Err(ClientInvalid::Address(_))));
    }
}
