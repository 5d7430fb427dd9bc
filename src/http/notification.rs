//! The notification adapter (contract 3.4): one POST per notification, to one URL.
//!
//! Owns what a notification is sent with and that only its own acknowledgement is a success. Must not
//! know what a failure costs; it never tries again. Its codes start with `notification_http.`.

use super::address::Endpoint;
use super::context::{Caller, ContextHeaders, ContextSchema, Request, Rules, Subject};
use super::transport::ClientInvalid;
use crate::clock::Clock;
use crate::worker::CallFailure;
use leasehold_actors::contract::notification::{
    ACK_BYTES_MAX, Notification, parse_acknowledgement,
};
use leasehold_actors::contract::payload::Payload;

static RULES: Rules = Rules {
    prefix: "notification_http",
    schema: ContextSchema::Terminal,
    reserved: &[
        "idempotency-key",
        "x-localization-terminal-notification-id",
        "x-localization-terminal-notification-sha256",
    ],
    headers_max: usize::MAX, // the contract knows none
    response_bytes_max: ACK_BYTES_MAX,
};

/// How an adapter is set up. `Debug` does not print the URL, which was not checked yet.
#[derive(Clone)]
pub struct AdapterOptions {
    /// `https://host[:port]/path`.
    pub endpoint: String,
    /// Whether `http` to this machine is allowed too.
    pub allow_http_loopback: bool,
    /// Deadline of one call in seconds, more than 0 and at most 300; default 30.
    pub timeout_seconds: f64,
}

impl AdapterOptions {
    /// Options for this URL, the rest as by default.
    #[must_use]
    pub fn new(endpoint: impl Into<String>) -> Self {
        Self { endpoint: endpoint.into(), allow_http_loopback: false, timeout_seconds: 30.0 }
    }
}

impl std::fmt::Debug for AdapterOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdapterOptions")
            .field("timeout_seconds", &self.timeout_seconds)
            .finish_non_exhaustive()
    }
}

/// Delivers notifications to one URL.
#[derive(Debug, Clone)]
pub struct NotificationAdapter {
    caller: Caller,
    endpoint: Endpoint,
}

impl NotificationAdapter {
    /// An adapter; nothing is sent yet.
    ///
    /// # Errors
    /// [`ClientInvalid`].
    pub fn new(
        options: &AdapterOptions,
        headers: impl ContextHeaders + 'static,
    ) -> Result<Self, ClientInvalid> {
        let endpoint = Endpoint::new(&options.endpoint, options.allow_http_loopback)?;
        let origin = endpoint.origin().clone();
        let caller = Caller::new(origin, options.timeout_seconds, headers, &RULES)?;
        Ok(Self { caller, endpoint })
    }

    /// Another clock than the system's, for reading `Retry-After` dates.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock) -> Self {
        self.caller = self.caller.with_clock(clock);
        self
    }

    /// The longest time one call can take, in seconds.
    #[must_use]
    pub fn longest_call_seconds(&self) -> f64 {
        self.caller.transport().timeout_seconds()
    }

    /// Delivers one notification, which is checked again first; answers its acknowledgement.
    ///
    /// # Errors
    /// [`CallFailure::Marked`] with the codes of contract 3.4.
    pub async fn notify(&self, notification: &Payload) -> Result<Vec<u8>, CallFailure> {
        let notification =
            checked(notification).ok_or_else(|| self.caller.failure("request_invalid", false))?;
        let request = request(&notification, self.endpoint.path());
        let (_, answer) = self.caller.exchange(request).await?;
        match parse_acknowledgement(&answer, &notification.acknowledgement()) {
            Ok(_) => Ok(answer),
            Err(_) => Err(self.caller.failure("response_binding", false)),
        }
    }
}

/// A notification by every rule, in its canonical form.
pub(super) fn checked(notification: &Payload) -> Option<Notification> {
    let known = Notification::parse(notification.as_bytes()).ok()?;
    (known.payload == *notification).then_some(known)
}

/// The one POST of a notification; the receiver client makes the same.
pub(super) fn request<'a>(notification: &'a Notification, path: &'a str) -> Request<'a> {
    let id = notification.notification_id.as_str();
    Request {
        path,
        body: Some(&notification.payload),
        scope: None,
        subject: Subject {
            event_id: Some(notification.event_id.clone()),
            request_id: None,
            site_id: Some(notification.site_id.clone()),
            notification_id: Some(notification.notification_id.clone()),
        },
        headers: vec![
            ("Idempotency-Key", id.to_owned()),
            ("X-Localization-Terminal-Notification-Id", id.to_owned()),
            (
                "X-Localization-Terminal-Notification-Sha256",
                notification.payload.sha256().to_string(),
            ),
        ],
        successes: &[200],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_actors::contract::json::{Integer, Object, Value};

    const EXAMPLE: &str = "{\
        \"change_sha256\":\"4a8cffca989b485a5b8a79ef3041d60a145847fe334ff8bc8baaea4e446ed2e7\",\
        \"event_id\":\"evt-2031-0007\",\"job_count\":2,\
        \"lifecycle_binding_sha256\":\
        \"372f7a8cd4ea99c537a595c84ac54af307925b3738ab2ecbd10d4d69130588bf\",\
        \"lifecycle_sha256\":\"68f517fe5b4230e976f0dc5862a85bd5d7cc66e9e85ef7932420cc72931c71cf\",\
        \"notification_id\":\
        \"terminal-dcec26690ddd0f3c27e401118630e141f7bbe9babfbf6d326f9a1ee31ed70418\",\
        \"plan_id\":\"plan-6f1c\",\"schema\":\"blun.cms-source-terminal-notification.v1\",\
        \"site_id\":\"shop-north\",\"source_sequence\":7,\"terminal_status\":\"published\",\
        \"website_version\":\"web-2031.4\"}";

    fn example() -> Object {
        let value = Value::parse(EXAMPLE.as_bytes()).expect("JSON");
        value.as_object().expect("an object").clone()
    }

    #[test]
    fn h1_one_exact_post() {
        let payload = Payload::of(&Value::Object(example()));
        let notification = checked(&payload).expect("a notification");
        let request = request(&notification, "/terminal");
        let id = "terminal-dcec26690ddd0f3c27e401118630e141f7bbe9babfbf6d326f9a1ee31ed70418";
        let hash = "6d0a7975f4b0d68976c93cbc8fd94a46af7f6f012a1ade43f4c919bbc49114a3";
        assert_eq!(
            request.headers,
            [
                ("Idempotency-Key", id.to_owned()),
                ("X-Localization-Terminal-Notification-Id", id.to_owned()),
                ("X-Localization-Terminal-Notification-Sha256", hash.to_owned()),
            ]
        );
        assert_eq!(request.body.map(Payload::as_str), Some(EXAMPLE));
        assert_eq!(request.path, "/terminal");
        let named = request.subject.notification_id.expect("an id");
        assert_eq!(named.as_str(), id);
    }

    #[test]
    fn h5_a_notification_is_checked_again_before_anything_is_asked() {
        let text = |text: &str| Value::String(text.to_owned());
        let id = format!("terminal-{}", "0".repeat(64));
        for (key, value) in [
            ("notification_id", text(&id)),
            ("job_count", Value::Bool(true)),
            ("job_count", Value::Integer(Integer::Small(0))),
            ("terminal_status", text("processing")),
            ("lifecycle_sha256", Value::Null),
            ("more", Value::Null),
        ] {
            let changed = Payload::of(&Value::Object(example().with(key, value)));
            assert!(checked(&changed).is_none(), "{key}");
        }
        let spaced = Payload::from_canonical(format!("{EXAMPLE} ").into());
        assert!(checked(&spaced).is_none());
    }
}
