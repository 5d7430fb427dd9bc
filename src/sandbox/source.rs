//! The source runtime's operations over HTTP (contract 2.7, 2.8, 3.3).
//!
//! Owns the order of its checks and its answers. It takes documents and does nothing with them: each
//! stays pending.

use super::cms::misbehaving;
use super::ledger::{Arrived, Delivered};
use super::reply::{count, json, object, text};
use super::{Surface, World, Wrong, admitted, bound, site_event};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode};
use axum::routing::{get, post};
use leasehold_actors::contract::MESSAGE_BYTES_MAX;
use leasehold_actors::contract::capabilities::source::{
    CAPABILITIES, CHANGE, HEALTH, READINESS, REMOVAL, STATUS,
};
use leasehold_actors::contract::capabilities::{Route, digest, source_document};
use leasehold_actors::contract::json::Value;
use leasehold_actors::contract::payload::Payload;
use leasehold_actors::contract::source::{Document, Operation};
use leasehold_actors::contract::text::{Sha256, Token};
use leasehold_actors::contract::time::CEILING_MAX;
use std::sync::{Arc, LazyLock};

static SURFACE: Surface = Surface {
    error_schema: "blun.cms-source-runtime-http-error.v1",
    code_prefix: "source_http",
    content_types: &["application/json", "application/json;charset=utf-8"],
};

/// What the runtime offers.
pub(super) static DOCUMENT: LazyLock<Value> = LazyLock::new(source_document);
/// Its digest.
static DIGEST: LazyLock<String> =
    LazyLock::new(|| digest(&DOCUMENT).expect("our own document has its digest").to_string());

/// The route that takes documents of this operation.
fn route_of(operation: Operation) -> &'static Route {
    match operation {
        Operation::Change => &CHANGE,
        Operation::Cancellation | Operation::Tombstone => &REMOVAL,
    }
}

pub(super) fn routes() -> Router<Arc<World>> {
    Router::new()
        .route(CAPABILITIES.path, get(offer))
        .route(CHANGE.path, post(changes))
        .route(REMOVAL.path, post(removals))
        .route(STATUS.path, post(status))
        .route(HEALTH.path, get(health))
        .route(READINESS.path, get(readiness))
}

async fn offer(State(world): State<Arc<World>>, headers: HeaderMap) -> Response<Body> {
    SURFACE.offer(&world, &headers, (&CAPABILITIES, &DOCUMENT)).await
}

async fn changes(
    State(world): State<Arc<World>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    enqueue(&world, &headers, &body, &CHANGE).await
}

async fn removals(
    State(world): State<Arc<World>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    enqueue(&world, &headers, &body, &REMOVAL).await
}

async fn enqueue(
    world: &World,
    headers: &HeaderMap,
    body: &[u8],
    route: &'static Route,
) -> Response<Body> {
    let delivered = match read_request(headers, body, route) {
        Ok(delivered) => delivered,
        Err(wrong) => return SURFACE.refuse(wrong),
    };
    let operation = Arrived::delivery(delivered.operation);
    world.arrive(operation, &delivered.request_id, Sha256::of(body));
    misbehaving(world, || match world.book().deliver(&delivered) {
        Ok(()) => json(StatusCode::ACCEPTED, &taken(&delivered)),
        Err(wrong) => SURFACE.refuse(wrong),
    })
    .await
}

/// A request of this route whose headers agree with its body.
fn read_request(headers: &HeaderMap, body: &[u8], route: &Route) -> Result<Delivered, Wrong> {
    admitted(&SURFACE, headers)?;
    bind_body(headers, body)?;
    let delivered = open(body, route).ok_or(Wrong::Malformed)?;
    bound(headers, "idempotency-key", delivered.request_id.as_str())?;
    Ok(delivered)
}

fn bind_body(headers: &HeaderMap, body: &[u8]) -> Result<(), Wrong> {
    bound(headers, "x-localization-source-payload-sha256", &Sha256::of(body).to_string())
}

/// Opens an envelope; `None` when it is none, or holds no document of this route.
fn open(body: &[u8], route: &Route) -> Option<Delivered> {
    let (value, _) = Payload::parse(body, MESSAGE_BYTES_MAX).ok()?;
    let envelope = value.as_object()?;
    let named = Some(envelope.text("schema")?) == route.request_schema;
    if !named || !envelope.has_exactly(route.request_fields) {
        return None;
    }
    let ceilings = 1..=u64::from(CEILING_MAX);
    let max_attempts =
        envelope.get("max_attempts")?.as_count().filter(|count| ceilings.contains(count))?;
    let member = Payload::of(envelope.get(route.name)?);
    let document = Document::parse(member.as_bytes()).ok()?;
    (route_of(document.operation) == route).then(|| Delivered {
        operation: document.operation,
        request_id: document.request_id,
        event_id: document.event_id,
        site_id: document.site_id,
        sha256: document.payload.sha256(),
        max_attempts,
    })
}

/// The answer to a document that was taken, the same each time.
fn taken(delivered: &Delivered) -> Value {
    object(vec![
        ("schema", text(delivered.operation.response_schema())),
        ("operation", text(delivered.operation.name())),
        ("request_id", text(delivered.request_id.as_str())),
        ("event_id", text(delivered.event_id.as_str())),
        ("payload_sha256", text(&delivered.sha256.to_string())),
        ("status", text("pending")),
        ("attempts", count(0)),
        ("max_attempts", count(delivered.max_attempts)),
        ("capabilities_sha256", text(&DIGEST)),
    ])
}

async fn status(
    State(world): State<Arc<World>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let (event_id, site_id) = match read_status(&headers, &body) {
        Ok(asked) => asked,
        Err(wrong) => return SURFACE.refuse(wrong),
    };
    misbehaving(&world, || match world.book().delivered_change(&event_id, &site_id) {
        Some(change) => json(StatusCode::OK, &standing(change)),
        None => SURFACE.refuse(Wrong::Unknown),
    })
    .await
}

fn read_status(headers: &HeaderMap, body: &[u8]) -> Result<(Token, Token), Wrong> {
    admitted(&SURFACE, headers)?;
    bind_body(headers, body)?;
    let value = Value::parse(body).map_err(|_| Wrong::Malformed)?;
    site_event(&value, &STATUS).ok_or(Wrong::Malformed)
}

/// Where a change stands: taken, and not passed on yet.
fn standing(change: &Delivered) -> Value {
    wrapped(
        &STATUS,
        vec![
            ("event_id", text(change.event_id.as_str())),
            ("site_id", text(change.site_id.as_str())),
            ("change_sha256", text(&change.sha256.to_string())),
            ("dispatch_status", text("pending")),
            ("dispatch_attempts", count(0)),
            ("dispatch_max_attempts", count(change.max_attempts)),
        ],
    )
}

async fn health(State(world): State<Arc<World>>, headers: HeaderMap) -> Response<Body> {
    SURFACE
        .show(&world, &headers, || {
            let pending = world.book().summary().source_requests;
            wrapped(
                &HEALTH,
                vec![
                    ("status", text("ok")),
                    ("pending", count(pending)),
                    ("error_code", Value::Null),
                ],
            )
        })
        .await
}

async fn readiness(State(world): State<Arc<World>>, headers: HeaderMap) -> Response<Body> {
    SURFACE
        .show(&world, &headers, || {
            wrapped(
                &READINESS,
                vec![
                    ("status", text("ready")),
                    ("worker_state", text("running")),
                    ("service_status", text("ok")),
                    ("error_code", Value::Null),
                ],
            )
        })
        .await
}

/// An answer of this route that holds one object, bound to what the runtime offers.
fn wrapped(route: &Route, members: Vec<(&str, Value)>) -> Value {
    object(vec![
        ("schema", text(route.response_schema)),
        (route.name, object(members)),
        ("capabilities_sha256", text(&DIGEST)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use leasehold_actors::contract::source::{Expected, envelope, parse_response};

    fn change() -> Payload {
        let example = include_str!("../../examples/changes.ndjson").lines().next().expect("a line");
        Payload::parse(example.as_bytes(), MESSAGE_BYTES_MAX).expect("JSON").1
    }

    fn cancellation() -> Payload {
        let document = "{\"cancellation_id\":\"c-1\",\"event_id\":\"e-1\",\
             \"schema\":\"blun.cms-content-cancellation.v1\",\"site_id\":\"s\",\"source_id\":\"i\",\
             \"source_sequence\":1,\"website_version\":\"w\"}";
        Payload::from_canonical(document.into())
    }

    fn headers(body: &[u8], key: &str) -> HeaderMap {
        let sha256 = Sha256::of(body).to_string();
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("authorization", "anything"),
            ("content-type", "application/json; charset=utf-8"),
            ("idempotency-key", key),
            ("x-localization-source-payload-sha256", sha256.as_str()),
        ] {
            headers.insert(name, HeaderValue::from_str(value).expect("a header value"));
        }
        headers
    }

    #[test]
    fn an_envelope_is_opened_at_its_own_route_and_answered_as_expected() {
        for (operation, document, route, other) in [
            (Operation::Change, change(), &CHANGE, &REMOVAL),
            (Operation::Cancellation, cancellation(), &REMOVAL, &CHANGE),
        ] {
            let body = envelope(operation, &document, 20).expect("small enough");
            assert_eq!(open(body.as_bytes(), other), None);
            let delivered = open(body.as_bytes(), route).expect("an envelope");
            assert_eq!((delivered.operation, delivered.sha256), (operation, document.sha256()));
            let expected = Expected {
                operation,
                request_id: &delivered.request_id,
                event_id: &delivered.event_id,
                payload_sha256: document.sha256(),
                max_attempts: 20,
                capabilities_sha256: Sha256::from_hex(&DIGEST).expect("a digest"),
            };
            let answer = Payload::of(&taken(&delivered));
            assert!(parse_response(answer.as_bytes(), &expected).is_ok());
        }
    }

    #[test]
    fn an_envelope_outside_of_its_rules_is_none() {
        for ceiling in [0, 21] {
            let body = envelope(Operation::Change, &change(), ceiling).expect("small enough");
            assert_eq!(open(body.as_bytes(), &CHANGE), None, "{ceiling}");
        }
        let within = envelope(Operation::Change, &cancellation(), 5).expect("small enough");
        assert_eq!(open(within.as_bytes(), &CHANGE), None);
        assert_eq!(open(change().as_bytes(), &CHANGE), None);
        assert_eq!(open(b"{", &CHANGE), None);
    }

    #[test]
    fn reads_are_answered_with_the_fields_of_their_route() {
        let body = envelope(Operation::Change, &change(), 5).expect("small enough");
        let delivered = open(body.as_bytes(), &CHANGE).expect("an envelope");
        let answer = standing(&delivered);
        let answer = answer.as_object().expect("an object");
        assert!(STATUS.is_answer(answer));
        let status = answer.get("status").and_then(Value::as_object).expect("a status");
        assert_eq!(status.text("site_id"), Some(delivered.site_id.as_str()));
        let asked = STATUS.question(&delivered.event_id, &delivered.site_id);
        let read = read_status(&headers(asked.as_bytes(), "any"), asked.as_bytes());
        assert_eq!(read, Ok((delivered.event_id, delivered.site_id)));
    }

    #[test]
    fn headers_that_do_not_agree_with_the_body_are_refused() {
        let body = envelope(Operation::Cancellation, &cancellation(), 5).expect("small enough");
        let body = body.as_bytes();
        let read = |headers: &HeaderMap| read_request(headers, body, &REMOVAL);
        assert!(read(&headers(body, "c-1")).is_ok());
        assert_eq!(read(&headers(body, "e-1")), Err(Wrong::Malformed));
        assert_eq!(read(&headers(b"other", "c-1")), Err(Wrong::Malformed));
        for (name, wrong) in [
            ("authorization", Wrong::Unauthenticated),
            ("content-type", Wrong::ContentType),
            ("idempotency-key", Wrong::Malformed),
            ("x-localization-source-payload-sha256", Wrong::Malformed),
        ] {
            let mut without = headers(body, "c-1");
            without.remove(name);
            assert_eq!(read(&without), Err(wrong), "{name}");
        }
    }
}
