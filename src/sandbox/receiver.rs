//! The receiver of terminal notifications over HTTP (contract 2.6, 3.5, 4.6).
//!
//! Owns the order of its checks and its answers. A read of a status is answered and then sets the
//! worker going; how, is the inbox's.

use super::cms::misbehaving;
use super::inbox::{Counts, Held};
use super::ledger::Arrived;
use super::processing::Phase;
use super::reply::{count, json, object, raw, text};
use super::{Surface, World, Wrong, admitted, bound, site_event};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Response, StatusCode, Uri, header};
use axum::routing::{get, post};
use leasehold_actors::contract::capabilities::receiver::{
    CAPABILITIES, HEALTH, NOTIFICATION, READINESS, STATUS,
};
use leasehold_actors::contract::capabilities::{digest, receiver_document};
use leasehold_actors::contract::json::Value;
use leasehold_actors::contract::notification::{NOTIFICATION_BYTES_MAX, Notification};
use leasehold_actors::contract::payload::Payload;
use leasehold_actors::contract::text::{Sha256, Token};
use leasehold_actors::contract::time::Timestamp;
use std::sync::{Arc, LazyLock};

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
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let read = plain(&uri, &headers).and_then(|()| read_notification(&headers, &body));
    let (notification, now) = match read.and_then(|read| Ok((read, world.now()?))) {
        Ok(received) => received,
        Err(wrong) => return SURFACE.refuse(wrong),
    };
    let sha256 = notification.payload.sha256();
    world.arrive(Arrived::Notification, &notification.event_id, sha256);
    let max_attempts = world.inbox.max_attempts;
    misbehaving(&world, || match world.book().hold(&notification, now, max_attempts) {
        Ok(()) => raw(StatusCode::OK, notification.acknowledgement().as_str().to_owned()),
        Err(wrong) => SURFACE.refuse(wrong),
    })
    .await
}

/// A request with nothing but its path and a body of a known length.
fn plain(uri: &Uri, headers: &HeaderMap) -> Result<(), Wrong> {
    let chunked = headers.contains_key(header::TRANSFER_ENCODING);
    if uri.query().is_some() || chunked { Err(Wrong::Malformed) } else { Ok(()) }
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
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let read = plain(&uri, &headers).and_then(|()| read_status(&headers, &body));
    let ((event_id, site_id), now) = match read.and_then(|read| Ok((read, world.now()?))) {
        Ok(asked) => asked,
        Err(wrong) => return SURFACE.refuse(wrong),
    };
    misbehaving(&world, || {
        let handling = || world.faults().handling();
        match world.book().process(&event_id, &site_id, now, &world.inbox, handling) {
            Ok(held) => json(StatusCode::OK, &standing(&held, now)),
            Err(wrong) => SURFACE.refuse(wrong),
        }
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
fn standing(held: &Held, now: Timestamp) -> Value {
    let Held { notification, processing } = held;
    let time = |at: &Timestamp| Value::Float(at.seconds());
    let (lease, code, processed) = match processing.phase() {
        Phase::Pending => (Value::Null, Value::Null, Value::Null),
        Phase::Leased { ends_at, .. } => (time(ends_at), Value::Null, Value::Null),
        Phase::RetryWait { code } | Phase::Failed { code } => {
            (Value::Null, text(code.as_str()), Value::Null)
        }
        Phase::Succeeded { processed_at } => (Value::Null, Value::Null, time(processed_at)),
    };
    object(vec![
        ("schema", text(STATUS.response_schema)),
        ("notification_id", text(notification.notification_id.as_str())),
        ("event_id", text(notification.event_id.as_str())),
        ("site_id", text(notification.site_id.as_str())),
        ("terminal_status", text(notification.terminal_status.name())),
        ("notification_sha256", text(&notification.payload.sha256().to_string())),
        ("processing_status", text(processing.phase().name())),
        ("attempts", count(processing.attempts().into())),
        ("max_attempts", count(processing.max_attempts().into())),
        ("next_attempt_at", time(&processing.next_at())),
        ("lease_expires_at", lease),
        ("lease_expired", Value::Bool(processing.is_expired(now))),
        ("last_error_code", code),
        ("processed_at", processed),
        ("capabilities_sha256", text(&DIGEST)),
    ])
}

async fn offer(State(world): State<Arc<World>>, headers: HeaderMap) -> Response<Body> {
    SURFACE.offer(&world, &headers, (&CAPABILITIES, &DOCUMENT)).await
}

async fn health(State(world): State<Arc<World>>, headers: HeaderMap) -> Response<Body> {
    let now = match world.now() {
        Ok(now) => now,
        Err(wrong) => return SURFACE.refuse(wrong),
    };
    let answer = || {
        let counts = world.book().counts(now);
        json(condition_status(&counts), &condition(&counts))
    };
    SURFACE.answer(&world, &headers, answer).await
}

/// An inbox that is blocked says so with 503.
fn condition_status(counts: &Counts) -> StatusCode {
    match counts.error_code() {
        None => StatusCode::OK,
        Some(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// Whether the inbox is blocked, and why.
fn inbox_status(counts: &Counts) -> (&'static str, Value) {
    counts.error_code().map_or(("ok", Value::Null), |code| ("blocked", text(code)))
}

/// How the receiver is, with its work by state.
fn condition(counts: &Counts) -> Value {
    let (status, error_code) = inbox_status(counts);
    let by_state = object(vec![
        ("pending", count(counts.pending)),
        ("leased", count(counts.leased)),
        ("retry_wait", count(counts.retry_wait)),
        ("succeeded", count(counts.succeeded)),
        ("failed", count(counts.failed)),
    ]);
    object(vec![
        ("schema", text(HEALTH.response_schema)),
        ("status", text(status)),
        ("runtime_state", text("running")),
        ("worker_state", text("running")),
        ("inbox_status", text(status)),
        ("received", count(counts.received())),
        ("processing_counts", by_state),
        ("processing_due", count(counts.due)),
        ("expired_leases", count(counts.expired)),
        ("failed", count(counts.failed)),
        ("error_code", error_code),
        ("capabilities_sha256", text(&DIGEST)),
    ])
}

/// Whether it takes more, which no notification that failed keeps it from.
async fn readiness(State(world): State<Arc<World>>, headers: HeaderMap) -> Response<Body> {
    let now = match world.now() {
        Ok(now) => now,
        Err(wrong) => return SURFACE.refuse(wrong),
    };
    let answer = || {
        let (status, error_code) = inbox_status(&world.book().counts(now));
        object(vec![
            ("schema", text(READINESS.response_schema)),
            ("status", text("ready")),
            ("worker_state", text("running")),
            ("inbox_status", text(status)),
            ("error_code", error_code),
            ("capabilities_sha256", text(&DIGEST)),
        ])
    };
    SURFACE.show(&world, &headers, answer).await
}

#[cfg(test)]
mod tests {
    use super::super::handler::Handling;
    use super::super::inbox::Rules;
    use super::super::processing::Processing;
    use super::*;
    use axum::http::HeaderValue;
    use leasehold_actors::contract::lifecycle::RemoteStatus;
    use leasehold_actors::contract::notification::Terminal;
    use leasehold_actors::contract::receiver::{self, Expected, ReceiverState, WorkStatus};
    use leasehold_actors::contract::text::ErrorCode;
    use leasehold_actors::contract::time::Ceiling;

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

    fn time(seconds: f64) -> Timestamp {
        Timestamp::new(seconds).expect("a time")
    }

    /// Received at 0, with 2 attempts.
    fn held() -> Held {
        let max_attempts = Ceiling::new(2).expect("within the limits");
        let processing = Processing::received(time(0.0), max_attempts);
        Held { notification: notification(), processing }
    }

    /// Reads it at these times, with a handler that always does this; answers what each read was told.
    fn told(handling: Handling, times: &[f64]) -> Vec<ReceiverState> {
        let mut held = held();
        let notification = held.notification.clone();
        let expected = Expected {
            event_id: &notification.event_id,
            site_id: &notification.site_id,
            notification_id: &notification.notification_id,
            terminal_status: "published",
            notification_sha256: notification.payload.sha256(),
            capabilities_sha256: Sha256::from_hex(&DIGEST).expect("a digest"),
        };
        let read = |now: &f64| {
            let turn = held.turn(time(*now), &Rules::default(), || handling).expect("legal");
            let seen = Held { processing: turn.seen, ..held.clone() };
            for step in turn.steps {
                held.processing = held.processing.after(&step).expect("legal");
            }
            let answer = Payload::of(&standing(&seen, time(*now)));
            receiver::parse(answer.as_bytes(), &expected).expect("a valid answer")
        };
        times.iter().map(read).collect()
    }

    /// What matters of an answer.
    fn gist(state: &ReceiverState) -> (WorkStatus, u8, f64, Option<f64>, &str) {
        let code = state.error_code.as_ref().map_or("", ErrorCode::as_str);
        let code = code.trim_start_matches("notification_receiver.processing_");
        let end = state.lease_expires_at.or(state.processed_at);
        (state.status, state.attempts, state.next_attempt_at, end, code)
    }

    #[test]
    fn the_work_goes_on_with_each_read_and_every_answer_is_valid() {
        use WorkStatus::{Failed, Leased, Pending, RetryWait, Succeeded};
        let pending = (Pending, 0, 0.0, None, "");
        let leased = (Leased, 1, 0.0, Some(70.0), "");
        let done = (Succeeded, 1, 20.0, Some(20.0), "");
        let unavailable = "cms_backend.unavailable";
        for (handling, times, expected) in [
            (Handling::Done, vec![10.0, 20.0, 30.0, 90.0], vec![pending, leased, done, done]),
            (
                Handling::Retry,
                vec![10.0, 20.0, 24.0, 25.0, 26.0, 27.0],
                vec![
                    pending,
                    leased,
                    (RetryWait, 1, 25.0, None, unavailable),
                    (RetryWait, 1, 25.0, None, unavailable),
                    (Leased, 2, 25.0, Some(85.0), ""),
                    (Failed, 2, 26.0, None, unavailable),
                ],
            ),
            (
                Handling::Crash,
                vec![10.0, 20.0, 30.0],
                vec![pending, leased, (Failed, 1, 20.0, None, "callback_failure")],
            ),
            (
                Handling::Wrong,
                vec![10.0, 20.0, 30.0],
                vec![pending, leased, (Failed, 1, 20.0, None, "response_invalid")],
            ),
            (
                Handling::Stuck,
                vec![10.0, 69.0, 70.0, 71.0, 130.0, 131.0],
                vec![
                    pending,
                    leased,
                    leased,
                    (Leased, 2, 70.0, Some(130.0), ""),
                    (Leased, 2, 70.0, Some(130.0), ""),
                    (Failed, 2, 130.0, None, "lease_expired"),
                ],
            ),
        ] {
            let told = told(handling, &times);
            assert_eq!(told.iter().map(gist).collect::<Vec<_>>(), expected, "{handling:?}");
            let over = |(state, now): (&ReceiverState, &f64)| {
                state.lease_expired == state.lease_expires_at.is_some_and(|end| end <= *now)
            };
            assert!(told.iter().zip(&times).all(over), "{handling:?}");
        }
    }

    #[test]
    fn a_handler_that_is_asked_about_after_its_lease_was_heard_in_time() {
        use WorkStatus::{Pending, RetryWait, Succeeded};
        let pending = (Pending, 0, 0.0, None, "");
        let done = (Succeeded, 1, 10.0, Some(10.0), "");
        let told_done = told(Handling::Done, &[10.0, 1_000.0, 2_000.0]);
        assert_eq!(told_done.iter().map(gist).collect::<Vec<_>>(), [pending, done, done]);
        let told_retry = told(Handling::Retry, &[10.0, 1_000.0]);
        let waits = (RetryWait, 1, 15.0, None, "cms_backend.unavailable");
        assert_eq!(told_retry.iter().map(gist).collect::<Vec<_>>(), [pending, waits]);
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
    fn the_counts_of_its_health_add_up_and_what_failed_or_ran_out_blocks_it() {
        let well = Counts { pending: 1, retry_wait: 2, succeeded: 3, due: 2, ..Counts::default() };
        let failed = "notification_receiver.processing_failed";
        let ran_out = "notification_receiver.processing_lease_expired";
        for (counts, status, code) in [
            (well, "ok", None),
            (Counts { leased: 1, expired: 1, ..well }, "blocked", Some(ran_out)),
            (Counts { failed: 1, leased: 1, expired: 1, ..well }, "blocked", Some(failed)),
        ] {
            let health = condition(&counts);
            let health = health.as_object().expect("an object");
            assert!(HEALTH.is_answer(health));
            assert_eq!((health.text("status"), health.text("error_code")), (Some(status), code));
            assert_eq!(condition_status(&counts) == StatusCode::OK, status == "ok");
            let by_state = health.get("processing_counts").and_then(Value::as_object);
            let by_state = by_state.expect("counts").members().map(|(_, value)| value.as_count());
            let total = by_state.sum::<Option<u64>>();
            assert_eq!(health.get("received").and_then(Value::as_count), total);
            assert_eq!(total, Some(counts.received()));
        }
    }

    #[test]
    fn a_query_and_a_body_of_unknown_length_are_refused() {
        let path = Uri::from_static("/v1/localization/terminal-notifications");
        let query = Uri::from_static("/v1/localization/terminal-notifications?a");
        let good = headers(&[]);
        assert_eq!(plain(&path, &good), Ok(()));
        assert_eq!(plain(&query, &good), Err(Wrong::Malformed));
        let chunked = headers(&[("transfer-encoding", "chunked")]);
        assert_eq!(plain(&path, &chunked), Err(Wrong::Malformed));
    }
}
