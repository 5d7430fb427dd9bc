//! How a browser gets to see the pages: it shows the token once, in a form.
//!
//! Owns that form. What it gets for the token is a session, which is good for reading pages alone.

use super::Inside;
use super::answer::{Refused, see_other, with_type};
use super::records::body;
use crate::pages::{Tone, notice, page_with_head};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderValue, Response, StatusCode, header};
use maud::html;
use std::sync::{Arc, PoisonError};

type Answer = Result<Response<Body>, Refused>;

pub(super) async fn show(State(inside): State<Arc<Inside>>) -> Response<Body> {
    if inside.token.is_none() { see_other("/") } else { form(StatusCode::OK, false) }
}

pub(super) async fn begin(
    State(inside): State<Arc<Inside>>,
    given: Result<Bytes, BytesRejection>,
) -> Answer {
    let Some(token) = &inside.token else { return Ok(see_other("/")) };
    let body = body(given)?;
    let shown = url::form_urlencoded::parse(&body).find(|(key, _)| key == "token");
    if !shown.is_some_and(|(_, shown)| token.is(&shown)) {
        return Ok(form(StatusCode::UNAUTHORIZED, true));
    }
    let now = inside.desk.steady_seconds();
    let mut sessions = inside.sessions.lock().unwrap_or_else(PoisonError::into_inner);
    let cookie = sessions.begin(inside.entropy.as_ref(), now);
    let mut response = see_other("/");
    let cookie = HeaderValue::from_str(&cookie).map_err(|_| Refused::Failed)?;
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

fn form(status: StatusCode, refused: bool) -> Response<Body> {
    let body = html! {
        h1 { "Leasehold" }
        @if refused { (notice(Tone::Trouble, "That is not the token.", &html! {})) }
        form method="post" action="/login" {
            p { label for="token" { "The token of this door" } }
            p {
                input id="token" name="token" type="password" required
                    autocomplete="current-password";
                " "
                button type="submit" { "Look" }
            }
        }
        p.pale { "A session ends after twelve hours, and when the engine is restarted." }
    };
    let text = page_with_head("Leasehold", &html! {}, &body).into_string();
    with_type(status, "text/html; charset=utf-8", text)
}
