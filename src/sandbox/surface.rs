//! What the source runtime and the receiver share: who may ask, in which form, and how they refuse.
//!
//! Owns those checks and the form of a refusal. Must not know any document but the question about one
//! event of one site.

use super::World;
use super::cms::misbehaving;
use super::reply::{json, object, text};
use axum::body::Body;
use axum::http::{HeaderMap, Response, StatusCode, header};
use leasehold_actors::contract::capabilities::Route;
use leasehold_actors::contract::json::Value;
use leasehold_actors::contract::text::Token;

/// What is wrong with a request to the source runtime or the receiver. Its text is the last part of
/// the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// No document of this operation, or headers that do not agree with it.
    #[error("request_invalid")]
    Malformed,
    /// Nobody is named as the caller.
    #[error("authentication_required")]
    Unauthenticated,
    /// About an event that is not known, or that belongs to another site.
    #[error("event_unknown")]
    Unknown,
    /// Another body is known under this identity.
    #[error("idempotency_collision")]
    Collision,
    /// Another content type than the surface takes.
    #[error("content_type_invalid")]
    ContentType,
    /// What would be accepted cannot be written down.
    #[error("unavailable")]
    Unavailable,
}

impl Wrong {
    fn status(self) -> StatusCode {
        match self {
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Unknown => StatusCode::NOT_FOUND,
            Self::Collision => StatusCode::CONFLICT,
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// How the source runtime and the receiver differ where they check and refuse alike.
pub(crate) struct Surface {
    pub(crate) error_schema: &'static str,
    pub(crate) code_prefix: &'static str,
    /// In lower case and without spaces.
    pub(crate) content_types: &'static [&'static str],
}

impl Surface {
    pub(crate) fn refuse(&self, wrong: Wrong) -> Response<Body> {
        let code = format!("{}.{wrong}", self.code_prefix);
        let value = object(vec![
            ("schema", text(self.error_schema)),
            ("status", text("BLOCK")),
            ("error_code", text(&code)),
        ]);
        json(wrong.status(), &value)
    }

    /// Answers with the capability document, in the envelope of its route.
    pub(crate) async fn offer(
        &self,
        world: &World,
        headers: &HeaderMap,
        (route, document): (&Route, &Value),
    ) -> Response<Body> {
        let answer = || {
            object(vec![
                ("schema", text(route.response_schema)),
                ("capabilities", document.clone()),
            ])
        };
        self.show(world, headers, answer).await
    }

    /// Answers a read without a body, with 200.
    pub(crate) async fn show(
        &self,
        world: &World,
        headers: &HeaderMap,
        answer: impl FnOnce() -> Value,
    ) -> Response<Body> {
        self.answer(world, headers, || json(StatusCode::OK, &answer())).await
    }

    /// Answers a read without a body, with a status of the answer's own.
    pub(crate) async fn answer(
        &self,
        world: &World,
        headers: &HeaderMap,
        answer: impl FnOnce() -> Response<Body>,
    ) -> Response<Body> {
        match authenticated(headers) {
            Ok(()) => misbehaving(world, answer).await,
            Err(wrong) => self.refuse(wrong),
        }
    }
}

/// Whether a caller is named; who it is does not matter here.
fn authenticated(headers: &HeaderMap) -> Result<(), Wrong> {
    if headers.contains_key(header::AUTHORIZATION) { Ok(()) } else { Err(Wrong::Unauthenticated) }
}

/// What every request with a body has to pass before the body is looked at.
pub(crate) fn admitted(surface: &Surface, headers: &HeaderMap) -> Result<(), Wrong> {
    authenticated(headers)?;
    let given = single(headers, "content-type").map(|kind| kind.replace(' ', ""));
    let known = |kind: &String| surface.content_types.contains(&kind.to_ascii_lowercase().as_str());
    if given.as_ref().is_some_and(known) { Ok(()) } else { Err(Wrong::ContentType) }
}

/// Whether a header is there once and says this.
pub(crate) fn bound(headers: &HeaderMap, name: &str, value: &str) -> Result<(), Wrong> {
    if single(headers, name) == Some(value) { Ok(()) } else { Err(Wrong::Malformed) }
}

fn single<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// The event and the site a route's question is about; `None` when it is no question of this route.
pub(crate) fn site_event(value: &Value, route: &Route) -> Option<(Token, Token)> {
    let request = value.as_object()?;
    let named = Some(request.text("schema")?) == route.request_schema;
    if !named || !request.has_exactly(route.request_fields) {
        return None;
    }
    Some((Token::new(request.text("event_id")?)?, Token::new(request.text("site_id")?)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    const ANY: Surface = Surface {
        error_schema: "s",
        code_prefix: "surface",
        content_types: &["application/json;charset=utf-8"],
    };

    fn headers(named: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in named.iter().copied() {
            headers.append(name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn a_caller_is_named_and_the_content_type_is_one_of_the_surface() {
        let (caller, kind) = ("authorization", "content-type");
        for (named, admits) in [
            (vec![(caller, "x"), (kind, "application/json;charset=utf-8")], Ok(())),
            (vec![(caller, "x"), (kind, "Application/JSON ; Charset=UTF-8")], Ok(())),
            (vec![(kind, "application/json;charset=utf-8")], Err(Wrong::Unauthenticated)),
            (vec![(caller, "x")], Err(Wrong::ContentType)),
            (vec![(caller, "x"), (kind, "application/json")], Err(Wrong::ContentType)),
            (
                vec![
                    (caller, "x"),
                    (kind, "application/json;charset=utf-8"),
                    (kind, "application/json;charset=utf-8"),
                ],
                Err(Wrong::ContentType),
            ),
        ] {
            assert_eq!(admitted(&ANY, &headers(&named)), admits, "{named:?}");
        }
    }

    #[test]
    fn a_binding_header_is_there_once_and_says_the_same() {
        let once = headers(&[("idempotency-key", "a")]);
        assert_eq!(bound(&once, "idempotency-key", "a"), Ok(()));
        assert_eq!(bound(&once, "idempotency-key", "b"), Err(Wrong::Malformed));
        assert_eq!(bound(&once, "other", "a"), Err(Wrong::Malformed));
        let twice = headers(&[("idempotency-key", "a"), ("idempotency-key", "a")]);
        assert_eq!(bound(&twice, "idempotency-key", "a"), Err(Wrong::Malformed));
    }

    #[test]
    fn each_refusal_has_its_status() {
        for (wrong, status) in [
            (Wrong::Malformed, 400),
            (Wrong::Unauthenticated, 401),
            (Wrong::Unknown, 404),
            (Wrong::Collision, 409),
            (Wrong::ContentType, 415),
            (Wrong::Unavailable, 503),
        ] {
            assert_eq!(ANY.refuse(wrong).status().as_u16(), status, "{wrong}");
        }
    }
}
