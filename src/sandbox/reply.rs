//! Answers in their canonical form.

use axum::body::Body;
use axum::http::{Response, StatusCode, header};
use leasehold_actors::contract::dispatch::SCHEMA;
use leasehold_actors::contract::json::{Integer, Object, Value};
use leasehold_actors::contract::payload::Payload;

/// A string.
#[must_use]
pub fn text(value: &str) -> Value {
    Value::String(value.to_owned())
}

/// An integer; counts here are far below the limit of what fits.
#[must_use]
pub fn count(value: u64) -> Value {
    Value::Integer(Integer::Small(i64::try_from(value).unwrap_or(i64::MAX)))
}

/// An object of these members; of repeated keys there are none in our own answers.
#[must_use]
pub fn object(members: Vec<(&str, Value)>) -> Value {
    let members = members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    Value::Object(Object::new(members).expect("our own answers repeat no key"))
}

/// An answer.
#[must_use]
pub fn json(status: StatusCode, value: &Value) -> Response<Body> {
    raw(status, Payload::of(value).as_str().to_owned())
}

/// An answer of these bytes, whatever they are.
#[must_use]
pub fn raw(status: StatusCode, body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static("application/json; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// The CMS API's refusal (contract 2.3).
#[must_use]
pub fn refusal(code: &str) -> Response<Body> {
    let value =
        object(vec![("schema", text(SCHEMA)), ("status", text("BLOCK")), ("error", text(code))]);
    json(status_of(code), &value)
}

/// The HTTP status of a refusal (contract 3.2).
fn status_of(code: &str) -> StatusCode {
    const CONFLICTS: [&str; 4] = [
        "cms.event.idempotency_collision",
        "cms.event.sequence_collision",
        "cms.event.superseded",
        "cms.event.cancelled",
    ];
    if code.ends_with(".signature_rejected")
        || code.ends_with(".request_expired")
        || code.ends_with(".scope_rejected")
        || code == "cms.signature.invalid"
    {
        StatusCode::UNAUTHORIZED
    } else if code == "cms.event.not_enqueued" {
        StatusCode::NOT_FOUND
    } else if CONFLICTS.contains(&code) {
        StatusCode::CONFLICT
    } else if code == "cms.queue.rejected" {
        StatusCode::SERVICE_UNAVAILABLE
    } else if code == "api.too_many_requests" {
        StatusCode::TOO_MANY_REQUESTS
    } else {
        StatusCode::BAD_REQUEST
    }
}
