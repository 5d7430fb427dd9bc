//! The answers of the other sides, each read for the registration it belongs to.
//!
//! What is accepted says what the registration knows; for any other registration it is refused.

use leasehold::http::response::{read_canonical, read_object};
use leasehold::http::transport::Answer;
use leasehold_actors::contract::canonical;
use leasehold_actors::contract::capabilities::{
    self, Route, receiver_document, receiver_notification_path, source_document,
};
use leasehold_actors::contract::dispatch::{DispatchResponse, api_error};
use leasehold_actors::contract::json::Value;
use leasehold_actors::contract::lifecycle::{
    self, LifecycleResponse, RemoteStatus, with_request_id,
};
use leasehold_actors::contract::notification::{acknowledgement, parse_acknowledgement};
use leasehold_actors::contract::payload::Payload;
use leasehold_actors::contract::receiver::{self, WorkStatus};
use leasehold_actors::contract::source::{self, Operation};
use leasehold_actors::contract::text::{ErrorCode, Sha256, Token};
use leasehold_actors::flows::lifecycle::{Lifecycle, Snapshot};
use leasehold_actors::record::Flow as _;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

const EVENT_ID: &str = "evt-2031-0007";
const SITE_ID: &str = "shop-north";
const NOTIFICATION_ID: &str =
    "terminal-dcec26690ddd0f3c27e401118630e141f7bbe9babfbf6d326f9a1ee31ed70418";
const NOTIFICATION_SHA256: &str =
    "6d0a7975f4b0d68976c93cbc8fd94a46af7f6f012a1ade43f4c919bbc49114a3";
const RECEIVER_SHA256: &str = "0aaae401a02d914a572d389a89b22da00d2df2e07c8a2331c69d1609456e8690";
const SOURCE_SHA256: &str = "a2107b04b586ef004ac3338fea42f666add3a03cd7d2b8bc19628274e5d5eb7a";
/// What was delivered to the source runtime: its operation, its id and its hash.
const DELIVERED: [(Operation, &str, &str); 3] = [
    (
        Operation::Change,
        EVENT_ID,
        "4a8cffca989b485a5b8a79ef3041d60a145847fe334ff8bc8baaea4e446ed2e7",
    ),
    (
        Operation::Cancellation,
        "cancellation-2031-0003",
        "018d70b6155063adeaa554351a25c24ccf5598e1b602051350d8272dec3276c6",
    ),
    (
        Operation::Tombstone,
        "tombstone-2031-0003",
        "bcbbb78a886b5938eadd2dc1c5431608c97341f9b0da1b39863b27e3bf470894",
    ),
];
/// Largest body that is read here, in bytes.
const BODY_BYTES_MAX: usize = 16_384;

/// Holds for any bytes; answers what they were accepted as.
pub(crate) fn body(data: &[u8]) -> Vec<&'static str> {
    content_headers(data);
    let mut accepted = Vec::new();
    for (name, good) in [
        ("canonical body", canonical_body(data)),
        ("object", object_body(data)),
        ("dispatch response", dispatch(data)),
        ("error of the CMS", error(data)),
        ("lifecycle response", lifecycle(data)),
        ("acknowledgement", acknowledged(data)),
        ("receiver's status", receiver_status(data)),
    ] {
        if good {
            accepted.push(name);
        }
    }
    accepted.extend(DELIVERED.into_iter().filter_map(|delivered| source_response(data, delivered)));
    if let Ok(value) = Value::parse(data) {
        accepted.extend(routes(&value));
        accepted.extend(documents(&value));
    }
    accepted
}

fn token(text: &str) -> Token {
    Token::new(text).expect("a token")
}

fn hash(text: &str) -> Sha256 {
    Sha256::from_hex(text).expect("64 digits")
}

fn canonical_of(data: &[u8]) -> Payload {
    Payload::parse(data, usize::MAX).expect("an accepted answer is JSON").1
}

fn answer(headers: &[(HeaderName, HeaderValue)], body: &[u8]) -> Answer {
    let headers: HeaderMap = headers.iter().cloned().collect();
    Answer { status: 200, headers, body: body.to_vec() }
}

fn json_answer(body: &[u8]) -> Answer {
    answer(&[(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body)
}

/// The bytes as the value of a header: only what says JSON, and the right length, lets a body pass.
fn content_headers(data: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(data) else { return };
    if read_canonical(&answer(&[(CONTENT_TYPE, value.clone())], b"{}"), 2).is_ok() {
        let text = String::from_utf8_lossy(data).to_ascii_lowercase().replace(' ', "");
        let allowed = ["application/json", "application/json;charset=utf-8"];
        assert!(allowed.contains(&text.as_str()), "another content type");
    }
    let json = HeaderValue::from_static("application/json");
    let length = answer(&[(CONTENT_TYPE, json), (CONTENT_LENGTH, value)], b"{}");
    let stated = std::str::from_utf8(data).ok().and_then(|text| text.parse::<usize>().ok());
    let right = stated == Some(2) && data.iter().all(u8::is_ascii_digit);
    assert_eq!(read_canonical(&length, 2).is_ok(), right, "another content length");
}

fn canonical_body(data: &[u8]) -> bool {
    match read_canonical(&json_answer(data), BODY_BYTES_MAX) {
        Ok(value) => {
            assert!(canonical::print(&value).as_bytes() == data);
            assert!(read_object(&json_answer(data), BODY_BYTES_MAX).as_ref() == Ok(&value));
            assert_eq!(read_canonical(&json_answer(data), data.len() - 1), Err("response_size"));
            true
        }
        Err(code) => {
            assert!(["response_size", "response_json"].contains(&code), "{code}");
            false
        }
    }
}

fn object_body(data: &[u8]) -> bool {
    match read_object(&json_answer(data), BODY_BYTES_MAX) {
        Ok(value) => {
            assert!(value.as_object().is_some() && data.len() <= BODY_BYTES_MAX);
            assert!(Value::parse(data).as_ref() == Ok(&value));
            true
        }
        Err(code) => {
            let codes = ["response_size", "response_json", "response_binding"];
            assert!(codes.contains(&code), "{code}");
            false
        }
    }
}

fn dispatch(data: &[u8]) -> bool {
    let event_id = token(EVENT_ID);
    let Ok(response) = DispatchResponse::parse(data, &event_id) else { return false };
    assert!((1..=i64::MAX.unsigned_abs()).contains(&response.job_count));
    assert!(DispatchResponse::parse(data, &token("another")).is_err());
    let canonical = canonical_of(data);
    assert_eq!(response.sha256, canonical.sha256());
    assert_eq!(DispatchResponse::parse(canonical.as_bytes(), &event_id), Ok(response));
    true
}

fn error(data: &[u8]) -> bool {
    let code = Value::parse(data).ok().and_then(|value| api_error(&value));
    let Some(code) = code else { return false };
    assert_eq!(ErrorCode::new(code.as_str()), Some(code));
    assert!(DispatchResponse::parse(data, &token(EVENT_ID)).is_err());
    true
}

fn lifecycle(data: &[u8]) -> bool {
    let (event_id, site_id, plan_id) = (token(EVENT_ID), token(SITE_ID), token("plan-6f1c"));
    let website_version = token("web-2031.4");
    let expected = lifecycle::Expected {
        event_id: &event_id,
        site_id: &site_id,
        plan_id: &plan_id,
        website_version: &website_version,
        source_sequence: 7,
        job_count: 2,
    };
    let Ok(response) = LifecycleResponse::parse(data, &expected) else { return false };
    assert_ne!(response.status, RemoteStatus::Superseded);
    let value = Value::parse(data).expect("an accepted answer is JSON");
    let payload = canonical_of(data);
    assert_eq!(LifecycleResponse::check(&value, payload).as_ref(), Some(&response));
    for other in [
        lifecycle::Expected { event_id: &site_id, ..expected },
        lifecycle::Expected { plan_id: &site_id, ..expected },
        lifecycle::Expected { source_sequence: 8, ..expected },
        lifecycle::Expected { job_count: 3, ..expected },
    ] {
        assert!(LifecycleResponse::parse(data, &other).is_err());
    }
    repeated_lifecycle(&response, &expected);
    true
}

/// The same answer to another read is kept as that read's id alone, and comes back byte for byte.
fn repeated_lifecycle(response: &LifecycleResponse, expected: &lifecycle::Expected<'_>) {
    let before = Some(Snapshot { status: response.status, answer: response.payload.clone() });
    let own = response.request_id.as_str();
    for id in [own, "another-read", "0123456789abcdef0123456789abcdef"] {
        let answer = with_request_id(&response.payload, &token(id)).expect("it has one");
        let again = LifecycleResponse::parse(answer.as_bytes(), expected).expect("still an answer");
        assert_eq!((again.request_id.as_str(), again.status), (id, response.status));
        let now = Some(Snapshot { status: again.status, answer });
        let note = Lifecycle::repeats(&before, &now).expect("it says the same");
        assert_eq!(Lifecycle::repeated(&before, &note), Some(now));
    }
}

fn acknowledged(data: &[u8]) -> bool {
    let (event_id, site_id, id) = (token(EVENT_ID), token(SITE_ID), token(NOTIFICATION_ID));
    let expected = acknowledgement(&event_id, &site_id, &id, hash(NOTIFICATION_SHA256));
    let Ok(sha256) = parse_acknowledgement(data, &expected) else { return false };
    assert_eq!((canonical_of(data), sha256), (expected.clone(), expected.sha256()));
    let other = acknowledgement(&event_id, &site_id, &id, hash(RECEIVER_SHA256));
    assert!(parse_acknowledgement(data, &other).is_err());
    true
}

fn receiver_status(data: &[u8]) -> bool {
    let (event_id, site_id, id) = (token(EVENT_ID), token(SITE_ID), token(NOTIFICATION_ID));
    let expected = receiver::Expected {
        event_id: &event_id,
        site_id: &site_id,
        notification_id: &id,
        terminal_status: "published",
        notification_sha256: hash(NOTIFICATION_SHA256),
        capabilities_sha256: hash(RECEIVER_SHA256),
    };
    let Ok(state) = receiver::parse(data, &expected) else { return false };
    assert!((1..=20).contains(&state.max_attempts) && state.attempts <= state.max_attempts);
    assert_eq!(state.lease_expires_at.is_some(), state.status == WorkStatus::Leased);
    assert_eq!(state.processed_at.is_some(), state.status == WorkStatus::Succeeded);
    let failing = matches!(state.status, WorkStatus::RetryWait | WorkStatus::Failed);
    assert_eq!(state.error_code.is_some(), failing, "D1");
    let times = [Some(state.next_attempt_at), state.lease_expires_at, state.processed_at];
    assert!(times.into_iter().flatten().all(|time| time.is_finite() && time >= 0.0));
    for other in [
        receiver::Expected { site_id: &event_id, ..expected },
        receiver::Expected { terminal_status: "deleted", ..expected },
        receiver::Expected { capabilities_sha256: hash(SOURCE_SHA256), ..expected },
    ] {
        assert!(receiver::parse(data, &other).is_err());
    }
    let canonical = canonical_of(data);
    assert_eq!(receiver::parse(canonical.as_bytes(), &expected), Ok(state));
    true
}

fn source_response(
    data: &[u8],
    (operation, request_id, payload_sha256): (Operation, &str, &str),
) -> Option<&'static str> {
    let (request_id, event_id) = (token(request_id), token(EVENT_ID));
    let expected = source::Expected {
        operation,
        request_id: &request_id,
        event_id: &event_id,
        payload_sha256: hash(payload_sha256),
        max_attempts: 5,
        capabilities_sha256: hash(SOURCE_SHA256),
    };
    let sha256 = source::parse_response(data, &expected).ok()?;
    assert_eq!(sha256, canonical_of(data).sha256());
    for other in [
        source::Expected { max_attempts: 6, ..expected },
        source::Expected { payload_sha256: hash(SOURCE_SHA256), ..expected },
        source::Expected { capabilities_sha256: hash(RECEIVER_SHA256), ..expected },
    ] {
        assert!(source::parse_response(data, &other).is_err(), "D14");
    }
    Some(match operation {
        Operation::Change => "source's answer to a change",
        Operation::Cancellation => "source's answer to a cancellation",
        Operation::Tombstone => "source's answer to a tombstone",
    })
}

/// An answer of a route has exactly its fields.
fn routes(value: &Value) -> Vec<&'static str> {
    let Some(answer) = value.as_object() else { return Vec::new() };
    let known: [(&str, &Route); 12] = [
        ("source's capabilities", &capabilities::source::CAPABILITIES),
        ("source's answer", &capabilities::source::CHANGE),
        ("source's answer", &capabilities::source::REMOVAL),
        ("source's status", &capabilities::source::STATUS),
        ("source's health", &capabilities::source::HEALTH),
        ("source's readiness", &capabilities::source::READINESS),
        ("receiver's capabilities", &capabilities::receiver::CAPABILITIES),
        ("receiver's answer", &capabilities::receiver::NOTIFICATION),
        ("receiver's OpenAPI", &capabilities::receiver::OPENAPI),
        ("receiver's status by its fields", &capabilities::receiver::STATUS),
        ("receiver's health", &capabilities::receiver::HEALTH),
        ("receiver's readiness", &capabilities::receiver::READINESS),
    ];
    let accepted: Vec<_> = known.into_iter().filter(|(_, route)| route.is_answer(answer)).collect();
    assert!(accepted.len() <= 1, "every answer has a schema of its own");
    for (_, route) in &accepted {
        assert!(!route.is_answer(&answer.with("one more", Value::Null)));
        assert!(!route.is_answer(&answer.without(route.response_fields[0])));
    }
    accepted.into_iter().map(|(name, _)| name).collect()
}

/// A document is only ours when it is the one built here, whatever digest it states.
fn documents(value: &Value) -> Vec<&'static str> {
    let Some(digest) = capabilities::digest(value) else { return Vec::new() };
    let document = value.as_object().expect("a digest stands in an object");
    let rest = Value::Object(document.without("sha256"));
    assert_eq!(Payload::of(&rest).sha256(), digest);
    let mut accepted = vec!["document with its digest"];
    if let Some(path) = receiver_notification_path(value, digest) {
        assert!(path.starts_with('/') && !path.starts_with("//"));
        assert!(receiver_document(&path) == *value);
        assert_eq!(receiver_notification_path(value, hash(NOTIFICATION_SHA256)), None);
        accepted.push("receiver's document");
    }
    if source_document() == *value {
        assert_eq!(digest, hash(SOURCE_SHA256));
        accepted.push("source's document");
    }
    accepted
}
