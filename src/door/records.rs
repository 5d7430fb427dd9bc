//! The requests about records: registering, reading, listing, and what operators do.
//!
//! Owns the form of these requests. Must not judge a document or decide anything about a record.

use super::answer::{Refused, json};
use super::{Inside, history, why};
use crate::audit::Row;
use crate::audit::live::{Place, Wanted, is_state};
use crate::handle::{Handle, Registered};
use crate::intervene::Intervened;
use axum::body::{Body, Bytes};
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse as _;
use leasehold_actors::flows::Answers;
use leasehold_actors::record::FlowTag;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

type Answer = Result<Response<Body>, Refused>;
type Shared = State<Arc<Inside>>;
pub(super) type Given = Result<Bytes, BytesRejection>;

/// Records on a page where nothing is said.
const LIMIT: usize = 100;
/// Most records on a page.
const LIMIT_MAX: usize = 1000;

/// A body, whole and within the limit.
pub(super) fn body(given: Given) -> Result<Bytes, Refused> {
    given.map_err(|rejection| match rejection.into_response().status() {
        StatusCode::PAYLOAD_TOO_LARGE => Refused::TooLarge,
        _ => Refused::Body,
    })
}

#[derive(Serialize)]
struct RegisteredAnswer<S> {
    already_known: bool,
    status: S,
}

fn registered<S: Serialize>(registered: Registered<S>) -> Answer {
    let Registered { status, already_known } = registered;
    let code = if already_known { StatusCode::OK } else { StatusCode::CREATED };
    json(code, &RegisteredAnswer { already_known, status })
}

pub(super) async fn register_change(State(inside): Shared, given: Given) -> Answer {
    let desk = &inside.desk;
    let ceiling = desk.ceilings.dispatch_max_attempts;
    registered(desk.dispatch.enqueue(body(given)?, ceiling).await?)
}

pub(super) async fn register_document(State(inside): Shared, given: Given) -> Answer {
    let (document, desk) = (body(given)?, &inside.desk);
    let (source, ceiling) =
        (desk.ceilings.source_max_attempts, desk.ceilings.delivery_max_attempts);
    registered(desk.delivery.enqueue_document(&document, source, ceiling, None).await?)
}

/// The flow with this name.
pub(super) fn flow(name: &str) -> Result<FlowTag, Refused> {
    FlowTag::from_name(name).ok_or(Refused::Route)
}

/// One record's status, its explanation, or its history.
pub(super) async fn read(
    State(inside): Shared,
    Path((name, rest)): Path<(String, String)>,
) -> Answer {
    let flow = flow(&name)?;
    let about = |what| why::asked_about(flow, &rest, what);
    match (about("explain"), about("history")) {
        (Some(id), _) => why::explain(&inside, flow, id).await,
        (None, Some(id)) => history::history(&inside, flow, id).await,
        (None, None) => status(&inside, flow, rest).await,
    }
}

async fn status(inside: &Inside, flow: FlowTag, id: String) -> Answer {
    let desk = &inside.desk;
    match flow {
        FlowTag::Dispatch => json(StatusCode::OK, &desk.dispatch.status(&id).await?),
        FlowTag::Lifecycle => json(StatusCode::OK, &desk.lifecycle.status(&id).await?),
        FlowTag::Notification => json(StatusCode::OK, &desk.notification.status(&id).await?),
        FlowTag::Processing => json(StatusCode::OK, &desk.processing.status(&id).await?),
        FlowTag::Delivery => {
            // An operation without an id is none that is known.
            let (operation, id) = id.split_once('/').unwrap_or((&id, ""));
            json(StatusCode::OK, &desk.delivery.status(operation, id).await?)
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Deed {
    Requeue,
    Dismiss,
    Repin,
}

impl Deed {
    fn named(name: &str) -> Option<Self> {
        match name {
            "requeue" => Some(Self::Requeue),
            "dismiss" => Some(Self::Dismiss),
            "repin" => Some(Self::Repin),
            _ => None,
        }
    }
}

/// Who asks and why.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    by: String,
    why: String,
}

pub(super) async fn intervene(
    State(inside): Shared,
    Path((name, rest)): Path<(String, String)>,
    given: Given,
) -> Answer {
    let flow = flow(&name)?;
    let (id, deed) = rest.rsplit_once('/').ok_or(Refused::Route)?;
    let deed = Deed::named(deed).ok_or(Refused::Route)?;
    let asked: Asked = serde_json::from_slice(&body(given)?).map_err(|_| Refused::Body)?;
    let desk = &inside.desk;
    let answer = match flow {
        FlowTag::Dispatch => touch(&desk.dispatch, deed, id, &asked).await,
        FlowTag::Lifecycle => touch(&desk.lifecycle, deed, id, &asked).await,
        FlowTag::Notification => touch(&desk.notification, deed, id, &asked).await,
        FlowTag::Processing => touch(&desk.processing, deed, id, &asked).await,
        FlowTag::Delivery => touch(&desk.delivery, deed, id, &asked).await,
    };
    desk.changed();
    answer
}

#[derive(Serialize)]
struct IntervenedAnswer<S> {
    changed: bool,
    status: S,
}

async fn touch<F: Answers>(handle: &Handle<F>, deed: Deed, id: &str, asked: &Asked) -> Answer {
    let Asked { by, why } = asked;
    let Intervened { status, changed } = match deed {
        Deed::Requeue => handle.requeue(id, by, why).await?,
        Deed::Dismiss => handle.dismiss(id, by, why).await?,
        Deed::Repin => handle.repin(id, by, why).await?,
    };
    json(StatusCode::OK, &IntervenedAnswer { changed, status })
}

#[derive(Serialize)]
struct PageAnswer {
    records: Vec<Row>,
    /// What to ask for as `after`; null on the last page.
    next: Option<String>,
}

pub(super) async fn list(State(inside): Shared, RawQuery(query): RawQuery) -> Answer {
    let wanted = wanted(query.as_deref().unwrap_or_default()).ok_or(Refused::Query)?;
    let now = inside.desk.steady_seconds();
    let (records, next) = inside.desk.looking(move |live| live.list(now, &wanted)).await?;
    let next = next.map(|place| place.to_string());
    json(StatusCode::OK, &PageAnswer { records, next })
}

/// Reads a question about records; `None` for a key that is not known or there twice, and for a value
/// that is none.
fn wanted(query: &str) -> Option<Wanted> {
    let mut wanted = Wanted { flow: None, state: None, site: None, after: None, limit: LIMIT };
    let mut seen = Vec::new();
    for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match key.as_ref() {
            "flow" => wanted.flow = Some(flow(&value).ok()?),
            "state" => wanted.state = Some(Some(value.into_owned()).filter(|it| is_state(it))?),
            "site" => wanted.site = Some(value.into_owned()),
            "after" => wanted.after = Some(Place::parse(&value)?),
            "limit" => {
                wanted.limit =
                    value.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit))?;
            }
            _ => return None,
        }
        if seen.contains(&key) {
            return None;
        }
        seen.push(key);
    }
    Some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_read_whole_or_refused() {
        let all = Wanted { flow: None, state: None, site: None, after: None, limit: LIMIT };
        assert_eq!(wanted(""), Some(all.clone()));
        let full = wanted("flow=delivery&state=failed&site=s%2D1&limit=1000").expect("valid");
        assert_eq!((full.flow, full.limit), (Some(FlowTag::Delivery), 1000));
        assert_eq!((full.state.as_deref(), full.site.as_deref()), (Some("failed"), Some("s-1")));
        for bad in [
            "flow=pigeon",
            "state=bogus",
            "after=7",
            "limit=0",
            "limit=1001",
            "limit=x",
            "canary=1",
            "site=a&site=b",
        ] {
            assert_eq!(wanted(bad), None, "{bad}");
        }
    }
}
