//! The receiver of terminal notifications over HTTP (contract 2.6, 3.5, 4.6).
//!
//! Owns the order of its checks, its answers, and how the work on a notification goes on: by one step
//! with each read of its status.

use super::cms::misbehaving;
use super::ledger::Arrived;
use super::reply::{count, json, object, raw, text};
use super::{Surface, World, Wrong, admitted, bound, site_event};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Response, StatusCode};
use axum::routing::{get, post};
use leasehold_actors::contract::capabilities::receiver::{
    CAPABILITIES, HEALTH, NOTIFICATION, READINESS, STATUS,
};
use leasehold_actors::contract::capabilities::{digest, receiver_document};
use leasehold_actors::contract::json::Value;
use leasehold_actors::contract::notification::{NOTIFICATION_BYTES_MAX, Notification};
use leasehold_actors::contract::payload::Payload;
use leasehold_actors::contract::text::{Sha256, Token};
use std::sync::{Arc, LazyLock};

/// How long the worker of the receiver leases a notification, in seconds.
const LEASE_SECONDS: f64 = 60.0;

static SURFACE: Surface = Surface {
    error_schema: "blun.cms-source-terminal-notification-http-error.v1",
    code_prefix: "notification_receiver",
    content_types: &["application/json;charset=utf-8"],
};

/// What the receiver offers.
pub(super) static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| receiver_document(NOTIFICATION.path));
/// Its digest.
static DIGEST: LazyLock<String> =
    LazyLock::new(|| digest(&DOCUMENT).expect("our own document has its digest").to_string());

/// How far the work on a notification has come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Processing {
    /// Its status was not read yet.
    Unread,
    /// Not tried yet.
    Pending,
    /// Being tried.
    Leased {
        /// When the lease ends.
        expires_at: f64,
    },
    /// Done.
    Succeeded {
        /// When it was.
        processed_at: f64,
    },
}

impl Processing {
    /// One step on, at this time; what is done stays as it is.
    #[must_use]
    pub fn next(self, now_seconds: f64) -> Self {
        match self {
            Self::Unread => Self::Pending,
            Self::Pending => Self::Leased { expires_at: now_seconds + LEASE_SECONDS },
            Self::Leased { .. } => Self::Succeeded { processed_at: now_seconds },
            Self::Succeeded { processed_at } => Self::Succeeded { processed_at },
        }
    }
}

pub(super) fn routes() -> Router<Arc<World>> {
    Router::new()
        .route(NOTIFICATION.path, post(notify))
        .route(CAPABILITIES.path, get(offer))
        .route(HEALTH.path, get(health))
        .route(READINESS.path, get(readiness))
        .route(STATUS.path, post(status))
        .layer(DefaultBodyLimit::max(NOTIFICATION_BYTES_MAX))
}

async fn notify(
    State(world): State<Arc<World>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let notification = match read_notification(&headers, &body) {
        Ok(notification) => notification,
        Err(wrong) => return SURFACE.refuse(wrong),
    };
    let sha256 = notification.payload.sha256();
    world.arrive(Arrived::Notification, &notification.event_id, sha256);
    misbehaving(&world, || match world.book().hold(&notification) {
        Ok(()) => raw(StatusCode::OK, notification.acknowledgement().as_str().to_owned()),
        Err(wrong) => SURFACE.refuse(wrong),
    })
    .await
}

/// A notification in its canonical form whose headers agree with it.
fn read_notification(headers: &HeaderMap, body: &[u8]) -> Result<Notification, Wrong> {
    admitted(&SURFACE, headers)?;
    let notification = Notification::parse(body).map_err(|_| Wrong::Malformed)?;
    if notification.payload.as_bytes() != body {
        return Err(Wrong::Malformed);
    }
    let id = notification.notification_id.as_str();
    let sha256 = notification.payload.sha256().to_string();
    bound(headers, "idempotency-key", id)?;
    bound(headers, "x-localization-terminal-notification-id", id)?;
    bound(headers, "x-localization-terminal-notification-sha256", &sha256)?;
    Ok(notification)
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
    let now = world.clock.now_seconds();
    misbehaving(&world, || match world.book().process(&event_id, &site_id, now) {
        Some((notification, processing)) => {
            json(StatusCode::OK, &standing(&notification, processing, now))
        }
        None => SURFACE.refuse(Wrong::Unknown),
    })
    .await
}

fn read_status(headers: &HeaderMap, body: &[u8]) -> Result<(Token, Token), Wrong> {
    admitted(&SURFACE, headers)?;
    bound(headers, "x-localization-terminal-status-sha256", &Sha256::of(body).to_string())?;
    let (value, payload) =
        Payload::parse(body, NOTIFICATION_BYTES_MAX).map_err(|_| Wrong::Malformed)?;
    if payload.as_bytes() != body {
        return Err(Wrong::Malformed);
    }
    site_event(&value, &STATUS).ok_or(Wrong::Malformed)
}

/// What the receiver says about a notification (contract 2.6).
fn standing(notification: &Notification, processing: Processing, now_seconds: f64) -> Value {
    let (status, attempts, next_at, lease, processed) = match processing {
        Processing::Unread | Processing::Pending => {
            ("pending", 0, now_seconds, Value::Null, Value::Null)
        }
        Processing::Leased { expires_at } => {
            ("leased", 1, now_seconds, Value::Float(expires_at), Value::Null)
        }
        Processing::Succeeded { processed_at } => {
            ("succeeded", 1, processed_at, Value::Null, Value::Float(processed_at))
        }
    };
    object(vec![
        ("schema", text(STATUS.response_schema)),
        ("notification_id", text(notification.notification_id.as_str())),
        ("event_id", text(notification.event_id.as_str())),
        ("site_id", text(notification.site_id.as_str())),
        ("terminal_status", text(notification.terminal_status.name())),
        ("notification_sha256", text(&notification.payload.sha256().to_string())),
        ("processing_status", text(status)),
        ("attempts", count(attempts)),
        ("max_attempts", count(5)),
        ("next_attempt_at", Value::Float(next_at)),
        ("lease_expires_at", lease),
        ("lease_expired", Value::Bool(false)),
        ("last_error_code", Value::Null),
        ("processed_at", processed),
        ("capabilities_sha256", text(&DIGEST)),
    ])
}

async fn offer(State(world): State<Arc<World>>, headers: HeaderMap) -> Response<Body> {
    SURFACE.offer(&world, &headers, (&CAPABILITIES, &DOCUMENT)).await
}

async fn health(State(world): State<Arc<World>>, headers: HeaderMap) -> Response<Body> {
    SURFACE.show(&world, &headers, || condition(world.book().processings())).await
}

/// How the receiver is, with its work by state.
fn condition(processings: impl Iterator<Item = Processing>) -> Value {
    let (mut pending, mut leased, mut succeeded) = (0, 0, 0);
    for processing in processings {
        match processing {
            Processing::Unread | Processing::Pending => pending += 1,
            Processing::Leased { .. } => leased += 1,
            Processing::Succeeded { .. } => succeeded += 1,
        }
    }
    let counts = object(vec![
        ("pending", count(pending)),
        ("leased", count(leased)),
        ("retry_wait", count(0)),
        ("succeeded", count(succeeded)),
        ("failed", count(0)),
    ]);
    object(vec![
        ("schema", text(HEALTH.response_schema)),
        ("status", text("ok")),
        ("runtime_state", text("running")),
        ("worker_state", text("running")),
        ("inbox_status", text("ok")),
        ("received", count(pending + leased + succeeded)),
        ("processing_counts", counts),
        ("processing_due", count(pending)),
        ("expired_leases", count(0)),
        ("failed", count(0)),
        ("error_code", Value::Null),
        ("capabilities_sha256", text(&DIGEST)),
    ])
}

async fn readiness(State(world): State<Arc<World>>, headers: HeaderMap) -> Response<Body> {
    SURFACE
        .show(&world, &headers, || {
            object(vec![
                ("schema", text(READINESS.response_schema)),
                ("status", text("ready")),
                ("worker_state", text("running")),
                ("inbox_status", text("ok")),
                ("error_code", Value::Null),
                ("capabilities_sha256", text(&DIGEST)),
            ])
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use leasehold_actors::contract::lifecycle::RemoteStatus;
    use leasehold_actors::contract::notification::Terminal;
    use leasehold_actors::contract::receiver::{self, Expected, WorkStatus};

    fn token(text: &str) -> Token {
        Token::new(text).expect("a token")
    }

    fn notification() -> Notification {
        let terminal = Terminal {
            event_id: token("e-1"),
            site_id: token("s"),
            plan_id: token("p"),
            website_version: token("w"),
            source_sequence: 1,
            job_count: 2,
            change_sha256: Sha256::of(b"change"),
            lifecycle_binding_sha256: Sha256::of(b"binding"),
            terminal_status: RemoteStatus::Published,
            lifecycle_sha256: Some(Sha256::of(b"lifecycle")),
        };
        Notification::build(&terminal).expect("a terminal status")
    }

    fn headers(named: &[(&'static str, &str)]) -> HeaderMap {
        let always =
            [("authorization", "anything"), ("content-type", "Application/JSON; charset=UTF-8")];
        let mut headers = HeaderMap::new();
        for (name, value) in always.iter().chain(named) {
            headers.insert(*name, HeaderValue::from_str(value).expect("a header value"));
        }
        headers
    }

    #[test]
    fn the_work_goes_on_with_each_read_and_every_answer_is_valid() {
        let notification = notification();
        let expected = Expected {
            event_id: &notification.event_id,
            site_id: &notification.site_id,
            notification_id: &notification.notification_id,
            terminal_status: "published",
            notification_sha256: notification.payload.sha256(),
            capabilities_sha256: Sha256::from_hex(&DIGEST).expect("a digest"),
        };
        let mut processing = Processing::Unread;
        let mut seen = Vec::new();
        for now in [10.0, 20.0, 30.0, 40.0] {
            processing = processing.next(now);
            let answer = Payload::of(&standing(&notification, processing, now));
            let state = receiver::parse(answer.as_bytes(), &expected).expect("a valid answer");
            seen.push((state.status, state.attempts, state.lease_expires_at, state.processed_at));
        }
        assert_eq!(
            seen,
            [
                (WorkStatus::Pending, 0, None, None),
                (WorkStatus::Leased, 1, Some(80.0), None),
                (WorkStatus::Succeeded, 1, None, Some(30.0)),
                (WorkStatus::Succeeded, 1, None, Some(30.0)),
            ]
        );
    }

    #[test]
    fn a_notification_is_taken_in_its_canonical_form_with_headers_that_agree() {
        let notification = notification();
        let body = notification.payload.as_bytes();
        let id = notification.notification_id.as_str();
        let sha256 = notification.payload.sha256().to_string();
        let names = [
            ("idempotency-key", id),
            ("x-localization-terminal-notification-id", id),
            ("x-localization-terminal-notification-sha256", sha256.as_str()),
        ];
        assert_eq!(read_notification(&headers(&names), body), Ok(notification.clone()));
        let spaced = [body, b" "].concat();
        assert_eq!(read_notification(&headers(&names), &spaced), Err(Wrong::Malformed));
        for (name, _) in names {
            let mut other = headers(&names);
            other.insert(name, HeaderValue::from_static("other"));
            assert_eq!(read_notification(&other, body), Err(Wrong::Malformed), "{name}");
        }
        let mut plain = headers(&names);
        plain.insert("content-type", HeaderValue::from_static("application/json"));
        assert_eq!(read_notification(&plain, body), Err(Wrong::ContentType));
        let mut stranger = headers(&names);
        stranger.remove("authorization");
        assert_eq!(read_notification(&stranger, body), Err(Wrong::Unauthenticated));
    }

    #[test]
    fn a_status_request_is_bound_to_the_hash_of_its_body() {
        let asked = STATUS.question(&token("e-1"), &token("s"));
        let name = "x-localization-terminal-status-sha256";
        let sha256 = asked.sha256().to_string();
        let good = headers(&[(name, sha256.as_str())]);
        assert_eq!(read_status(&good, asked.as_bytes()), Ok((token("e-1"), token("s"))));
        let bad = headers(&[(name, "other")]);
        assert_eq!(read_status(&bad, asked.as_bytes()), Err(Wrong::Malformed));
    }

    #[test]
    fn the_counts_of_its_health_add_up() {
        let leased = Processing::Leased { expires_at: 1.0 };
        let health = condition([Processing::Unread, Processing::Pending, leased].into_iter());
        let health = health.as_object().expect("an object");
        assert!(HEALTH.is_answer(health));
        assert_eq!(health.get("received").and_then(Value::as_count), Some(3));
        let counts = health.get("processing_counts").and_then(Value::as_object).expect("counts");
        let total: u64 = counts.members().filter_map(|(_, value)| value.as_count()).sum();
        assert_eq!(total, 3);
    }
}
