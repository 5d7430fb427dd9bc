//! The CMS's operations over HTTP (contract 3.2): change, lifecycle, capabilities.
//!
//! Owns the order of the server's checks: signature, shape, then what the book says.

use super::World;
use super::book::{Accepted, Entry};
use super::faults::Fault;
use super::lifecycle;
use super::reply::{count, json, object, raw, refusal, text};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use axum::routing::{get, post};
use leasehold_actors::contract::MESSAGE_BYTES_MAX;
use leasehold_actors::contract::canonical;
use leasehold_actors::contract::change::{self, Change};
use leasehold_actors::contract::dispatch::SCHEMA;
use leasehold_actors::contract::json::{Object, Value};
use leasehold_actors::contract::payload::Payload;
use leasehold_actors::contract::text::Token;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// How late a slow answer is, in seconds.
const SLOW_SECONDS: f64 = 1.5;
/// How old a read may be, in seconds.
const FRESH_SECONDS: f64 = 300.0;

const LIFECYCLE_REQUEST: &str = "blun.cms-localization-lifecycle-request.v1";
const CAPABILITIES_REQUEST: &str = "blun.cms-localization-capabilities-request.v1";

pub(crate) fn router(world: Arc<World>) -> Router {
    Router::new()
        .route("/v2/localization/changes", post(changes))
        .route("/v2/localization/lifecycle", post(read_lifecycle))
        .route("/v2/localization/capabilities", post(capabilities))
        .route("/sandbox/summary", get(summary))
        .layer(DefaultBodyLimit::max(MESSAGE_BYTES_MAX + 1))
        .with_state(world)
}

async fn changes(
    State(world): State<Arc<World>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let change = match signed(&world, &headers, &body) {
        Ok(value) if has_schema(&value, change::SCHEMA) => Change::parse(&body),
        Ok(_) => return refusal("cms.event.invalid"),
        Err(code) => return refusal(code),
    };
    let Ok(change) = change else { return refusal("cms.event.invalid") };
    world.receive(&change);
    misbehaving(&world, || {
        // The guard is let go before anything is awaited.
        match world.book().accept(&change) {
            Ok(Entry::New(accepted)) if accepted.superseded => {
                dispatched(&accepted, StatusCode::OK, 0)
            }
            Ok(Entry::New(accepted)) => {
                let jobs = accepted.locales.len() as u64;
                dispatched(&accepted, StatusCode::ACCEPTED, jobs)
            }
            Ok(Entry::Known(accepted)) => dispatched(&accepted, StatusCode::OK, 0),
            Ok(Entry::Refused(code)) => refusal(code),
            Err(_) => refusal("cms.queue.rejected"),
        }
    })
    .await
}

fn dispatched(accepted: &Accepted, status: StatusCode, inserted: u64) -> Response<Body> {
    let value = object(vec![
        ("schema", text(SCHEMA)),
        ("event_id", text(&accepted.event_id)),
        ("plan_id", text(&accepted.plan_id())),
        ("job_count", count(accepted.locales.len() as u64)),
        ("inserted_jobs", count(inserted)),
        ("status", text(if accepted.superseded { "superseded" } else { "enqueued" })),
    ]);
    json(status, &value)
}

async fn read_lifecycle(
    State(world): State<Arc<World>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let request = match signed(&world, &headers, &body) {
        Ok(value) => value,
        Err(code) => return refusal(code),
    };
    let now = world.clock.now_seconds();
    let Some((request_id, event_id, site_id, requested_at)) = lifecycle_request(&request) else {
        return refusal("cms.lifecycle.request_invalid");
    };
    if (now - requested_at).abs() > FRESH_SECONDS {
        return refusal("cms.lifecycle.request_expired");
    }
    misbehaving(&world, || match world.book().read(event_id.as_str()) {
        None => refusal("cms.event.not_enqueued"),
        Some((accepted, ..)) if accepted.site_id != site_id.as_str() => {
            refusal("cms.lifecycle.scope_rejected")
        }
        Some((_, _, true)) => refusal("cms.event.superseded"),
        Some((accepted, reads, false)) => {
            json(StatusCode::OK, &lifecycle::response(&accepted, request_id.as_str(), reads, now))
        }
    })
    .await
}

fn lifecycle_request(value: &Value) -> Option<(Token, Token, Token, f64)> {
    let request = value.as_object()?;
    let fields = ["schema", "request_id", "event_id", "site_id", "requested_at"];
    if !request.has_exactly(&fields) || request.text("schema")? != LIFECYCLE_REQUEST {
        return None;
    }
    let token = |key| Token::new(request.text(key)?);
    let Value::Float(requested_at) = request.get("requested_at")? else { return None };
    Some((token("request_id")?, token("event_id")?, token("site_id")?, *requested_at))
}

async fn capabilities(
    State(world): State<Arc<World>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    match signed(&world, &headers, &body) {
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

async fn summary(State(world): State<Arc<World>>) -> Response<Body> {
    let summary = world.book().summary();
    json(
        StatusCode::OK,
        &object(vec![
            ("received", count(summary.received)),
            ("events", count(summary.events)),
            ("accepted", count(summary.accepted)),
            ("differing", count(summary.differing)),
        ]),
    )
}

/// A signed body in its canonical form, or the code of the refusal.
fn signed(world: &World, headers: &HeaderMap, body: &[u8]) -> Result<Value, &'static str> {
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
    let value = Value::parse(body).map_err(|_| "cms.event.invalid")?;
    if canonical::print(&value).as_bytes() == body { Ok(value) } else { Err("cms.event.invalid") }
}

fn has_schema(value: &Value, schema: &str) -> bool {
    value.as_object().and_then(|object: &Object| object.text("schema")) == Some(schema)
}

/// Answers as asked, or as the next fault has it.
async fn misbehaving(world: &World, answer: impl FnOnce() -> Response<Body>) -> Response<Body> {
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
