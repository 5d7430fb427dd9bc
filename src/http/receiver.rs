//! The receiver client (contract 3.5): the capability document, then the call.
//!
//! Owns what a call to the receiver of terminal notifications sends and what its answer must be bound
//! to. Must not know what a failure costs, nor what a registration says about a notification: the
//! flow compares an answer with that. Its codes start with `terminal_receiver_client.`.

use super::address::Origin;
use super::context::{Caller, ContextHeaders, ContextSchema, Request, Rules, Subject};
use super::notification;
pub use super::pinned::PinnedOptions as ReceiverOptions;
use super::transport::ClientInvalid;
use crate::clock::Clock;
use crate::worker::CallFailure;
use leasehold_actors::contract::capabilities::receiver::{CAPABILITIES, HEALTH, READINESS, STATUS};
use leasehold_actors::contract::capabilities::{Route, receiver_notification_path};
use leasehold_actors::contract::json::{Object, Value};
use leasehold_actors::contract::notification::parse_acknowledgement;
use leasehold_actors::contract::payload::Payload;
use leasehold_actors::contract::text::{Sha256, Token};

/// Largest answer (contract 1.3), in bytes.
const RESPONSE_BYTES_MAX: usize = 16_384;

static RULES: Rules = Rules {
    prefix: "terminal_receiver_client",
    schema: ContextSchema::Terminal,
    reserved: &[
        "idempotency-key",
        "x-localization-terminal-notification-id",
        "x-localization-terminal-notification-sha256",
        "x-localization-terminal-status-sha256",
    ],
    headers_max: usize::MAX, // the contract knows none
    response_bytes_max: RESPONSE_BYTES_MAX,
};

/// Statuses of an answer about the receiver itself; one that is not well says so with 503.
const OBSERVED: &[u16] = &[200, 503];

/// Calls the receiver of terminal notifications.
#[derive(Debug, Clone)]
pub struct ReceiverClient {
    caller: Caller,
    expected: Sha256,
}

impl ReceiverClient {
    /// A client; nothing is sent yet.
    ///
    /// # Errors
    /// [`ClientInvalid`].
    pub fn new(
        options: &ReceiverOptions,
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

    /// What became of the notification of an event: an answer for this event and this site, under the
    /// pinned digest.
    ///
    /// # Errors
    /// [`CallFailure::Marked`] with the codes of contract 3.5.
    pub async fn status(&self, event_id: &Token, site_id: &Token) -> Result<Vec<u8>, CallFailure> {
        self.notification_path().await?;
        let body = STATUS.question(event_id, site_id);
        let request = Request {
            body: Some(&body),
            subject: Subject {
                event_id: Some(event_id.clone()),
                site_id: Some(site_id.clone()),
                ..Subject::default()
            },
            headers: vec![("X-Localization-Terminal-Status-SHA256", body.sha256().to_string())],
            ..get(&STATUS)
        };
        let (value, answer) = self.caller.exchange(request).await?;
        let bound = value.as_object().is_some_and(|status| {
            status.text("schema") == Some(STATUS.response_schema)
                && status.text("event_id") == Some(event_id.as_str())
                && status.text("site_id") == Some(site_id.as_str())
                && is_pinned(status, self.expected)
        });
        if bound { Ok(answer) } else { Err(self.caller.failure("status_binding", false)) }
    }

    /// Delivers one notification, which is checked again first, to the path of the document; answers
    /// its acknowledgement.
    ///
    /// # Errors
    /// [`CallFailure::Marked`] with the codes of contract 3.5.
    pub async fn notify(&self, notification: &Payload) -> Result<Vec<u8>, CallFailure> {
        let notification = notification::checked(notification)
            .ok_or_else(|| self.caller.failure("request_invalid", false))?;
        let path = self.notification_path().await?;
        let request = notification::request(&notification, &path);
        let (_, answer) = self.caller.exchange(request).await?;
        match parse_acknowledgement(&answer, &notification.acknowledgement()) {
            Ok(_) => Ok(answer),
            Err(_) => Err(self.caller.failure("notification_binding", false)),
        }
    }

    /// How the receiver is: the whole answer, also of one that is not well.
    ///
    /// # Errors
    /// [`CallFailure::Marked`] with the codes of contract 3.5.
    pub async fn health(&self) -> Result<Value, CallFailure> {
        let answer = self.observe(&HEALTH).await?;
        let bound = answer.as_object().is_some_and(|health| {
            HEALTH.is_answer(health)
                && is_pinned(health, self.expected)
                && adds_up(health).unwrap_or(false)
        });
        if bound { Ok(answer) } else { Err(self.caller.failure("health_binding", false)) }
    }

    /// Whether the receiver takes work: the whole answer, also of one that does not.
    ///
    /// # Errors
    /// [`CallFailure::Marked`] with the codes of contract 3.5.
    pub async fn readiness(&self) -> Result<Value, CallFailure> {
        let answer = self.observe(&READINESS).await?;
        let bound = answer.as_object().is_some_and(|readiness| {
            READINESS.is_answer(readiness) && is_pinned(readiness, self.expected)
        });
        if bound { Ok(answer) } else { Err(self.caller.failure("readiness_binding", false)) }
    }

    async fn observe(&self, route: &'static Route) -> Result<Value, CallFailure> {
        self.notification_path().await?;
        let request = Request { successes: OBSERVED, ..get(route) };
        self.caller.exchange(request).await.map(|(answer, _)| answer)
    }

    /// Fetches the document, which has to be ours but for one path, and the pinned one; answers that
    /// path.
    async fn notification_path(&self) -> Result<String, CallFailure> {
        let (answer, _) = self.caller.exchange(get(&CAPABILITIES)).await?;
        answer
            .as_object()
            .filter(|answer| CAPABILITIES.is_answer(answer))
            .and_then(|answer| answer.get("capabilities"))
            .and_then(|document| receiver_notification_path(document, self.expected))
            .filter(|path| self.caller.transport().origin().takes(path))
            .ok_or_else(|| self.caller.failure("capabilities_binding", false))
    }
}

/// A request of this route without a body, about nothing in particular.
fn get(route: &'static Route) -> Request<'static> {
    Request {
        path: route.path,
        body: None,
        scope: None,
        subject: Subject::default(),
        headers: Vec::new(),
        successes: std::slice::from_ref(&route.success_status),
    }
}

/// Whether an answer was made under this digest.
fn is_pinned(answer: &Object, pin: Sha256) -> bool {
    answer.text("capabilities_sha256").and_then(Sha256::from_hex) == Some(pin)
}

/// Whether every notification received is in one count; counts that are null say nothing.
fn adds_up(health: &Object) -> Option<bool> {
    let counts = health.get("processing_counts")?;
    if counts.is_null() {
        return Some(true);
    }
    let received = health.get("received")?.as_count()?;
    let mut sum = 0_u64;
    for (_, count) in counts.as_object()?.members() {
        sum = sum.checked_add(count.as_count()?)?;
    }
    Some(sum == received)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::StaticAuthHeader;

    fn object(text: &str) -> Object {
        let value = Value::parse(text.as_bytes()).expect("JSON");
        value.as_object().expect("an object").clone()
    }

    #[test]
    fn i7_counts_add_up_where_they_are_there() {
        for (health, expected) in [
            ("{\"received\":3,\"processing_counts\":{\"failed\":1,\"pending\":2}}", Some(true)),
            ("{\"received\":0,\"processing_counts\":{}}", Some(true)),
            ("{\"received\":null,\"processing_counts\":null}", Some(true)),
            ("{\"received\":4,\"processing_counts\":{\"failed\":1,\"pending\":2}}", Some(false)),
            ("{\"received\":null,\"processing_counts\":{\"pending\":1}}", None),
            ("{\"received\":1,\"processing_counts\":{\"pending\":-1}}", None),
            ("{\"received\":1,\"processing_counts\":{\"pending\":1.0}}", None),
            ("{\"received\":1,\"processing_counts\":[1]}", None),
            ("{\"received\":1}", None),
        ] {
            assert_eq!(adds_up(&object(health)), expected, "{health}");
        }
    }

    #[test]
    fn i5_an_answer_under_another_digest_is_not_ours() {
        let pin = Sha256::of(b"receiver");
        let answer = |digest: &str| object(&format!("{{\"capabilities_sha256\":\"{digest}\"}}"));
        assert!(is_pinned(&answer(&pin.to_string()), pin));
        assert!(!is_pinned(&answer(&Sha256::of(b"").to_string()), pin));
        assert!(!is_pinned(&answer("receiver"), pin));
        assert!(!is_pinned(&object("{}"), pin));
    }

    #[test]
    fn i8_unsafe_origins_are_refused_and_a_call_is_two_requests_long() {
        let made = |origin: &str| {
            let header = StaticAuthHeader::new("X-A".to_owned(), "1".to_owned().into());
            ReceiverClient::new(&ReceiverOptions::new(origin, Sha256::of(b"")), header)
        };
        for bad in [
            "http://receiver.example",
            "http://127.0.0.1:8700",
            "https://user:secret@receiver.example",
            "https://receiver.example/",
            "https://receiver.example/path",
            "https://receiver.example?query",
        ] {
            assert!(matches!(made(bad), Err(ClientInvalid::Address(_))), "{bad}");
        }
        let client = made("https://receiver.example").expect("a client");
        assert!((client.longest_call_seconds() - 60.0).abs() < f64::EPSILON);
    }
}
