//! The CMS's operations over HTTP (contract 3.2): change, lifecycle, capabilities.
//!
//! Owns the order of the server's checks: signature, shape, then what the book says. Owns too how an
//! answer misbehaves, whichever surface gives it.

use super::World;
use super::book::{Accepted, Entry};
use super::cms_removals::STATUS_REQUEST;
use super::faults::Fault;
use super::lifecycle;
use super::reply::{count, json, object, raw, refusal, text};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use axum::routing::post;
use leasehold_actors::contract::MESSAGE_BYTES_MAX;
use leasehold_actors::contract::canonical;
use leasehold_actors::contract::change::{self, Change};
use leasehold_actors::contract::dispatch::SCHEMA;
use leasehold_actors::contract::json::{Object, Value};
use leasehold_actors::contract::lifecycle::REQUEST_SCHEMA as LIFECYCLE_REQUEST;
use leasehold_actors::contract::payload::Payload;
use leasehold_actors::contract::removal::RemovalKind;
use leasehold_actors::contract::text::Token;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// How late a slow answer is, in seconds.
const SLOW_SECONDS: f64 = 1.5;
/// How old a read may be, in seconds.
const FRESH_SECONDS: f64 = 300.0;

const CAPABILITIES_REQUEST: &str = "blun.cms-localization-capabilities-request.v1";

/// A read of the lifecycle.
const LIFECYCLE: Purpose = Purpose {
    schema: LIFECYCLE_REQUEST,
    invalid: "cms.lifecycle.request_invalid",
    expired: "cms.lifecycle.request_expired",
};

pub(super) fn routes() -> Router<Arc<World>> {
    Router::new()
        .route("/v2/localization/changes", post(changes))
        .route("/v2/localization/lifecycle", post(read_lifecycle))
        .route("/v2/localization/capabilities", post(capabilities))
}

async fn changes(
    State(world): State<Arc<World>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let change = match signed(&world, &headers, &body, "cms.event.invalid") {
        Ok(value) if has_schema(&value, change::SCHEMA) => Change::parse(&body),
        Ok(_) => return refusal("cms.event.invalid"),
        Err(code) => return refusal(code),
    };
    let Ok(change) = change else { return refusal("cms.event.invalid") };
    world.receive(&change);
    misbehaving(&world, || {
        // The guard is let go before anything is awaited.
        let mut book = world.book();
        match book.accept(&change) {
            Ok(Entry::New(accepted)) if accepted.superseded => {
                dispatched(&accepted, false, StatusCode::OK, 0)
            }
            Ok(Entry::New(accepted)) => {
                let jobs = accepted.locales.len() as u64;
                dispatched(&accepted, false, StatusCode::ACCEPTED, jobs)
            }
            Ok(Entry::Known(accepted)) => {
                let is_cancelled = book.is_cancelled(&accepted.event_id);
                dispatched(&accepted, is_cancelled, StatusCode::OK, 0)
            }
            Ok(Entry::Refused(code)) => refusal(code),
            Err(_) => refusal("cms.queue.rejected"),
        }
    })
    .await
}

fn dispatched(
    accepted: &Accepted,
    is_cancelled: bool,
    status: StatusCode,
    inserted: u64,
) -> Response<Body> {
    let became = if is_cancelled {
        "cancelled"
    } else if accepted.superseded {
        "superseded"
    } else {
        "enqueued"
    };
    let value = object(vec![
        ("schema", text(SCHEMA)),
        ("event_id", text(&accepted.event_id)),
        ("plan_id", text(&accepted.plan_id())),
        ("job_count", count(accepted.locales.len() as u64)),
        ("inserted_jobs", count(inserted)),
        ("status", text(became)),
    ]);
    json(status, &value)
}

async fn read_lifecycle(
    State(world): State<Arc<World>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let request = match asked(&world, &headers, &body, &LIFECYCLE) {
        Ok(request) => request,
        Err(code) => return refusal(code),
    };
    let now = world.clock.now_seconds();
    misbehaving(&world, || match world.book().follow(&request.event_id, &request.site_id) {
        Ok(look) => {
            json(StatusCode::OK, &lifecycle::response(&look, request.request_id.as_str(), now))
        }
        Err(code) => refusal(code),
    })
    .await
}

/// What a read is for: its schema, and the codes of its refusals.
pub(super) struct Purpose {
    pub(super) schema: &'static str,
    pub(super) invalid: &'static str,
    pub(super) expired: &'static str,
}

/// A read of one change.
pub(super) struct ReadRequest {
    pub(super) request_id: Token,
    pub(super) event_id: Token,
    pub(super) site_id: Token,
}

/// A signed and fresh read, or the code of the refusal.
pub(super) fn asked(
    world: &World,
    headers: &HeaderMap,
    body: &[u8],
    purpose: &Purpose,
) -> Result<ReadRequest, &'static str> {
    let value = signed(world, headers, body, purpose.invalid)?;
    let (request, requested_at) = read_request(&value, purpose.schema).ok_or(purpose.invalid)?;
    let age = (world.clock.now_seconds() - requested_at).abs();
    if age <= FRESH_SECONDS { Ok(request) } else { Err(purpose.expired) }
}

fn read_request(value: &Value, schema: &str) -> Option<(ReadRequest, f64)> {
    let request = value.as_object()?;
    let fields = ["schema", "request_id", "event_id", "site_id", "requested_at"];
    if !request.has_exactly(&fields) || request.text("schema")? != schema {
        return None;
    }
    let token = |key| Token::new(request.text(key)?);
    let (request_id, event_id) = (token("request_id")?, token("event_id")?);
    let read = ReadRequest { request_id, event_id, site_id: token("site_id")? };
    Some((read, request.get("requested_at")?.as_time()?))
}

async fn capabilities(
    State(world): State<Arc<World>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    match signed(&world, &headers, &body, "cms.capabilities.request_invalid") {
        Ok(value) if has_schema(&value, CAPABILITIES_REQUEST) => {}
        Ok(_) => return refusal("cms.capabilities.request_invalid"),
        Err(code) => return refusal(code),
    }
    misbehaving(&world, || json(StatusCode::OK, &capability_document())).await
}

/// What the sandbox offers, with its own digest (contract 2.8).
fn capability_document() -> Value {
    let operation = |path: &str, request: &str, response: &str| {
        object(vec![
            ("method", text("POST")),
            ("path", text(path)),
            ("request_schema", text(request)),
            ("response_schema", text(response)),
        ])
    };
    let members = || {
        vec![
            ("schema", text("blun.cms-localization-capabilities.v1")),
            ("max_message_bytes", count(MESSAGE_BYTES_MAX as u64)),
            ("change", operation("/v2/localization/changes", change::SCHEMA, SCHEMA)),
            (
                "cancellation",
                operation(
                    "/v2/localization/cancellations",
                    RemovalKind::Cancellation.schema(),
                    SCHEMA,
                ),
            ),
            (
                "tombstone",
                operation("/v2/localization/tombstones", RemovalKind::Tombstone.schema(), SCHEMA),
            ),
            ("status", operation("/v2/localization/status", STATUS_REQUEST, SCHEMA)),
            (
                "lifecycle",
                operation("/v2/localization/lifecycle", LIFECYCLE_REQUEST, lifecycle::SCHEMA),
            ),
        ]
    };
    let digest = Payload::of(&object(members())).sha256().to_string();
    let mut whole = members();
    whole.push(("sha256", text(&digest)));
    object(whole)
}

/// A signed body in its canonical form, or the code of the refusal: `invalid` where it is no canonical
/// JSON.
pub(super) fn signed(
    world: &World,
    headers: &HeaderMap,
    body: &[u8],
    invalid: &'static str,
) -> Result<Value, &'static str> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let expected = world.signer.hex(body);
    let same = header("x-localization-signature").is_some_and(|given| {
        use subtle::ConstantTimeEq as _;
        given.as_bytes().ct_eq(expected.as_bytes()).into()
    });
    let named = header("x-localization-signature-algorithm")
        == Some(crate::http::HmacSha256Signer::ALGORITHM)
        && header("x-localization-key-id") == Some(super::DEMO_KEY_ID);
    if !(same && named) {
        return Err("cms.signature.invalid");
    }
    let value = Value::parse(body).map_err(|_| invalid)?;
    if canonical::print(&value).as_bytes() == body { Ok(value) } else { Err(invalid) }
}

fn has_schema(value: &Value, schema: &str) -> bool {
    value.as_object().and_then(|object: &Object| object.text("schema")) == Some(schema)
}

/// Answers as asked, or as the next fault has it. A fault that answers with a refusal uses the CMS's
/// form on every surface, as a gateway in front of them would: clients go by its HTTP status.
pub(super) async fn misbehaving(
    world: &World,
    answer: impl FnOnce() -> Response<Body>,
) -> Response<Body> {
    let milliseconds = world.latency_milliseconds;
    if milliseconds > 0 {
        world.clock.sleep(milliseconds as f64 / 1000.0).await;
    }
    let fault = world.faults().draw();
    match fault {
        None => answer(),
        Some(Fault::Slow) => {
            world.clock.sleep(SLOW_SECONDS).await;
            answer()
        }
        Some(Fault::Drop) => {
            drop(answer());
            let mut response = Response::new(Body::new(Cut));
            response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("64"));
            response
        }
        Some(Fault::Garbage) => {
            drop(answer());
            raw(StatusCode::OK, "<<< not an answer >>>".to_owned())
        }
        Some(Fault::ServerError) => refusal("cms.queue.rejected"),
        Some(Fault::TooMany) => {
            let mut response = refusal("api.too_many_requests");
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            response
        }
        Some(Fault::Redirect) => {
            let mut response = raw(StatusCode::FOUND, String::new());
            let elsewhere = HeaderValue::from_static("http://127.0.0.1:9/elsewhere");
            response.headers_mut().insert(header::LOCATION, elsewhere);
            response
        }
    }
}

/// A body that breaks off, and the connection with it.
struct Cut;

impl http_body::Body for Cut {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, std::io::Error>>> {
        Poll::Ready(Some(Err(std::io::ErrorKind::ConnectionAborted.into())))
    }
}
