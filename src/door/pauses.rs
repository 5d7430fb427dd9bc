//! The requests that pause a flow, a site or a destination, and let it go on.
//!
//! Owns the form of these requests. Must not decide anything about a scope.

use super::Inside;
use super::answer::{Refused, json};
use super::records::{Given, body};
use crate::controls;
use crate::error::Error;
use crate::intervene::Intervened;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use leasehold_actors::arguments::Blocked;
use leasehold_actors::control::{Command, PausedScope, Scope};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

type Answer = Result<Response<Body>, Refused>;
type Shared = State<Arc<Inside>>;

/// Which scope, who asks and why.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    scope: String,
    by: String,
    why: String,
}

#[derive(Serialize)]
struct SteeredAnswer {
    changed: bool,
    /// Null when it is not paused.
    paused: Option<PausedScope>,
}

pub(super) async fn pause(State(inside): Shared, given: Given) -> Answer {
    steer(&inside, given, controls::pause).await
}

pub(super) async fn resume(State(inside): Shared, given: Given) -> Answer {
    steer(&inside, given, controls::resume).await
}

async fn steer(
    inside: &Inside,
    given: Given,
    command: fn(&str, &str) -> Result<Command, Blocked>,
) -> Answer {
    let Asked { scope, by, why } =
        serde_json::from_slice(&body(given)?).map_err(|_| Refused::Body)?;
    let scope = Scope::new(&scope).ok_or_else(|| Blocked::control("scope_invalid"));
    let (scope, command) = (scope.map_err(Error::from)?, command(&by, &why).map_err(Error::from)?);
    let Intervened { status: paused, changed } = inside.desk.steer(scope, command).await?;
    json(StatusCode::OK, &SteeredAnswer { changed, paused })
}
