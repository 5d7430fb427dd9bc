//! The form of answers and refusals.
//!
//! Owns codes and HTTP statuses of the door. Must not repeat anything of a request.

use crate::error::Error;
use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use leasehold_journal::JournalError;
use serde::Serialize;

/// A request that is turned down.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// Nobody is named, or somebody else.
    #[error("door.unauthorized")]
    Unauthorized,
    /// Another host is named than this machine.
    #[error("door.host_refused")]
    Host,
    /// There is nothing at this path.
    #[error("door.route_unknown")]
    Route,
    /// Not with this method.
    #[error("door.method_refused")]
    Method,
    /// A body over the limit.
    #[error("door.body_too_large")]
    TooLarge,
    /// A body that was cut off, or is not of the form it has to be.
    #[error("door.body_invalid")]
    Body,
    /// A question that is not of the form it has to be.
    #[error("door.query_invalid")]
    Query,
    /// Too much at once; nothing was done.
    #[error("door.busy")]
    Busy,
    /// It took too long. What was registered meanwhile stays.
    #[error("door.timed_out")]
    TimedOut,
    /// Nothing is counted in this process.
    #[error("door.metrics_off")]
    MetricsOff,
    /// An answer of ours has no form.
    #[error("door.failed")]
    Failed,
    /// What the engine says.
    #[error("{0}")]
    Engine(#[from] Error),
}

impl From<JournalError> for Refused {
    fn from(error: JournalError) -> Self {
        Self::Engine(error.into())
    }
}

impl Refused {
    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Host => StatusCode::FORBIDDEN,
            Self::Route | Self::MetricsOff => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Body | Self::Query => StatusCode::BAD_REQUEST,
            Self::Busy | Self::Engine(Error::Busy | Error::Stopped | Error::Journal(_)) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::TimedOut => StatusCode::REQUEST_TIMEOUT,
            Self::Failed => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Engine(Error::Blocked(blocked)) => status_of(blocked.code()),
        }
    }
}

/// The status of a code of the contract's, by its last part.
fn status_of(code: &str) -> StatusCode {
    match code.rsplit('.').next().unwrap_or_default() {
        "event_missing" | "record_missing" | "missing" | "status_not_found" => {
            StatusCode::NOT_FOUND
        }
        "idempotency_collision"
        | "not_failed"
        | "not_held"
        | "state_invalid"
        | "clock_regressed" => StatusCode::CONFLICT,
        // The clock gives no time; no digest is configured.
        "time_invalid" | "capabilities_invalid" => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_REQUEST,
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response<Body> {
        let body = serde_json::json!({ "code": self.to_string() });
        let mut response = with_type(self.status(), "application/json", body.to_string());
        if self == Self::Unauthorized {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

/// An answer in JSON.
///
/// # Errors
/// [`Refused::Failed`] for what has no form in JSON.
pub fn json(status: StatusCode, value: &impl Serialize) -> Result<Response<Body>, Refused> {
    let text = serde_json::to_string(value).map_err(|_| Refused::Failed)?;
    Ok(with_type(status, "application/json", text))
}

/// Sends a browser to another page of the door.
pub(super) fn see_other(place: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static(place));
    response
}

/// An answer of this type.
#[must_use]
pub fn with_type(status: StatusCode, kind: &'static str, body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_status_of_their_kind() {
        for (code, status) in [
            ("dispatch.event_missing", 404),
            ("terminal_notification.missing", 404),
            ("source_delivery.status_not_found", 404),
            ("dispatch.idempotency_collision", 409),
            ("lifecycle_monitor.not_failed", 409),
            ("source_delivery.capabilities_invalid", 503),
            ("dispatch.change_invalid", 400),
        ] {
            assert_eq!(status_of(code).as_u16(), status, "{code}");
        }
    }

    #[test]
    fn a_refusal_names_its_code_and_who_is_not_known_how_to_be() {
        let response = Refused::Unauthorized.into_response();
        assert_eq!(response.headers()["www-authenticate"], "Bearer");
        assert_eq!(Refused::TooLarge.to_string(), "door.body_too_large");
        assert_eq!(Refused::from(Error::Busy).status().as_u16(), 503);
    }
}
