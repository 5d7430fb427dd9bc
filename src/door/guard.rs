//! Who may ask, and how much at once.
//!
//! Owns what every request passes before anything else looks at it, and the headers every answer has.
//! A browser's session is good for reading pages and for nothing else, so that no other site can make
//! a browser change anything; whatever changes something needs the token itself.

use super::Inside;
use super::answer::{Refused, see_other};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderMap, HeaderName};
use axum::http::uri::Authority;
use axum::http::{HeaderValue, Method, Response, Uri};
use axum::middleware::Next;
use axum::response::IntoResponse as _;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// How long one request may take, its body included.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// On every answer. Styles are in the page itself; nothing else is loaded, and nothing runs.
fn every_answer() -> [(HeaderName, &'static str); 5] {
    [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; \
             form-action 'self'; frame-ancestors 'none'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ]
}

/// Lets a request through, or turns it away.
pub(crate) async fn guard(
    State(inside): State<Arc<Inside>>,
    request: Request,
    next: Next,
) -> Response<Body> {
    let mut response = match admit(&inside, &request) {
        Ok(()) => limited(&inside, request, next).await,
        Err(Turned::Refused(refused)) => refused.into_response(),
        Err(Turned::ToLogin) => see_other("/login"),
    };
    for (name, value) in every_answer() {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn limited(inside: &Inside, request: Request, next: Next) -> Response<Body> {
    let Ok(_admitted) = inside.requests.try_acquire() else {
        return Refused::Busy.into_response();
    };
    match tokio::time::timeout(REQUEST_TIMEOUT, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Refused::TimedOut.into_response(),
    }
}

/// Why a request does not get through.
#[derive(Debug, PartialEq, Eq)]
enum Turned {
    Refused(Refused),
    /// A page that is asked for by somebody who is not known yet.
    ToLogin,
}

fn admit(inside: &Inside, request: &Request) -> Result<(), Turned> {
    let (uri, headers) = (request.uri(), request.headers());
    if inside.on_address && !is_for_us(uri, headers) {
        return Err(Turned::Refused(Refused::Host));
    }
    let path = uri.path();
    let Some(token) = &inside.token else { return Ok(()) };
    if matches!(path, "/healthz" | "/login") || bearer(headers).is_some_and(|it| token.is(it)) {
        return Ok(());
    }
    let reads = request.method() == Method::GET || request.method() == Method::HEAD;
    if !(reads && is_page(path)) {
        return Err(Turned::Refused(Refused::Unauthorized));
    }
    let now = inside.desk.steady_seconds();
    let sessions = inside.sessions.lock().unwrap_or_else(PoisonError::into_inner);
    let mut cookies = headers.get_all(header::COOKIE).iter().filter_map(|it| it.to_str().ok());
    if cookies.any(|cookies| sessions.know(cookies, now)) { Ok(()) } else { Err(Turned::ToLogin) }
}

fn is_page(path: &str) -> bool {
    matches!(path, "/" | "/stuck") || path.starts_with("/records/")
}

/// The token of a request that shows one.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next()?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let alone = values.next().is_none();
    (alone && scheme.eq_ignore_ascii_case("bearer")).then_some(token)
}

/// Whether a request names this machine, by a name that is its own everywhere: a name of the outside
/// that leads here was turned to us by somebody else (DNS rebinding).
fn is_for_us(uri: &Uri, headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let named = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
    named.is_some_and(|authority| is_loopback(&authority))
        && uri.authority().is_none_or(is_loopback)
}

fn is_loopback(authority: &Authority) -> bool {
    if authority.as_str().contains('@') {
        return false;
    }
    let host = authority.host();
    let number = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || number.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn only_names_that_are_this_machine_everywhere_are_for_us() {
        let path = Uri::from_static("/v1/health");
        for (host, ours) in [
            ("localhost", true),
            ("LOCALHOST:8790", true),
            ("127.0.0.1:8790", true),
            ("127.1.2.3", true),
            ("[::1]:8790", true),
            ("10.0.0.1", false),
            ("rebound.example", false),
            ("localhost.example", false),
            ("127.0.0.1.example", false),
            ("user@localhost", false),
            ("", false),
        ] {
            assert_eq!(is_for_us(&path, &headers(&[(header::HOST, host)])), ours, "{host}");
        }
        assert!(!is_for_us(&path, &HeaderMap::new()));
        let twice = headers(&[(header::HOST, "localhost"), (header::HOST, "localhost")]);
        assert!(!is_for_us(&path, &twice));
        let whole = Uri::from_static("http://rebound.example/v1/health");
        assert!(!is_for_us(&whole, &headers(&[(header::HOST, "localhost")])));
    }

    #[test]
    fn a_token_is_shown_once_and_as_a_bearer() {
        let shown = |values: &[&'static str]| {
            let pairs: Vec<_> = values.iter().map(|it| (header::AUTHORIZATION, *it)).collect();
            bearer(&headers(&pairs)).map(ToOwned::to_owned)
        };
        assert_eq!(shown(&["Bearer abc"]).as_deref(), Some("abc"));
        assert_eq!(shown(&["bearer abc"]).as_deref(), Some("abc"));
        for bad in [&["Basic abc"][..], &["abc"], &[], &["Bearer abc", "Bearer abc"]] {
            assert_eq!(shown(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_session_is_good_for_pages_alone() {
        assert!(is_page("/") && is_page("/stuck") && is_page("/records/dispatch/a"));
        for path in ["/v1/overview", "/metrics", "/v1/records", "/records", "/stuck/"] {
            assert!(!is_page(path), "{path}");
        }
    }
}
