//! The pages: is all well, and if not what is stuck, why, and what to do.
//!
//! Owns what stands on which page. They work without scripts: the first page and the list of what is
//! stuck ask for themselves again every ten seconds, and a link on them switches that off.

use super::Inside;
use super::answer::{Refused, with_type};
use super::history::{self, Found};
use super::records::flow;
use super::table::{destinations, flows, paused, stuck as stuck_table};
use super::why;
use crate::audit::Happening;
use crate::audit::explain::brought;
use crate::overview::{Overview, Verdict};
use crate::pages::{Column, Tone, facts, notice, page_with_head, table};
use crate::times::to_the_second;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{Response, StatusCode};
use leasehold_actors::explain::Explains;
use leasehold_actors::flows::delivery::Delivery;
use leasehold_actors::flows::dispatch::Dispatch;
use leasehold_actors::flows::lifecycle::Lifecycle;
use leasehold_actors::flows::notification::Notify;
use leasehold_actors::flows::processing::Processing;
use leasehold_actors::record::FlowTag;
use maud::{Markup, html};
use std::sync::Arc;

type Answer = Result<Response<Body>, Refused>;
type Shared = State<Arc<Inside>>;

/// Stuck records on the first page: what follows it has to be seen without scrolling far.
const STUCK_SHOWN: usize = 3;
/// Time until a page asks for itself again, in seconds.
const REFRESH_SECONDS: u32 = 10;

/// Whether a page asks for itself again.
fn refreshes(query: Option<String>) -> Result<bool, Refused> {
    match query.as_deref() {
        None | Some("") => Ok(true),
        Some("refresh=off") => Ok(false),
        Some(_) => Err(Refused::Query),
    }
}

fn answer(status: StatusCode, title: &str, path: Option<(&str, bool)>, body: &Markup) -> Answer {
    let head = html! {
        @if let Some((_, true)) = path {
            meta http-equiv="refresh" content=(REFRESH_SECONDS);
        }
    };
    let body = html! {
        (body)
        @match path {
            Some((path, true)) => p.pale {
                "This page asks for itself again every " (REFRESH_SECONDS) " seconds. "
                a href={ (path) "?refresh=off" } { "Stop that" }
            },
            Some((path, false)) => p.pale {
                "This page stands still. " a href=(path) { "Keep it up to date" }
            },
            None => {},
        }
    };
    let text = page_with_head(title, &head, &body).into_string();
    Ok(with_type(status, "text/html; charset=utf-8", text))
}

pub(super) async fn dashboard(State(inside): Shared, RawQuery(query): RawQuery) -> Answer {
    let refreshes = refreshes(query)?;
    let overview = inside.desk.overview().await?;
    let title = format!("Leasehold: {}", overview.verdict().word.to_lowercase());
    answer(StatusCode::OK, &title, Some(("/", refreshes)), &dashboard_body(&overview))
}

fn dashboard_body(overview: &Overview) -> Markup {
    let journal = &overview.journal;
    html! {
        h1 { "Leasehold" }
        (headline(overview))
        @if !overview.stuck.is_empty() {
            @let shown = overview.stuck.len().min(STUCK_SHOWN);
            h2 { "Stuck" }
            (stuck_table(&overview.stuck[..shown], overview.at))
            @if overview.stuck.len() > shown {
                p { a href="/stuck" { "The " (overview.stuck.len()) " newest that are stuck" } }
            }
        }
        @if !overview.paused.is_empty() {
            h2 { "Paused" }
            (paused(&overview.paused))
        }
        h2 { "Flows" }
        (flows(&overview.flows, overview.at))
        @if !overview.destinations.is_empty() {
            h2 { "Destinations" }
            (destinations(&overview.destinations))
        }
        h2 { "Journal" }
        (facts(&[
            ("id", html! { code { (journal.id) } }),
            ("last record", html! { (journal.sequence) }),
            ("head", html! { code { (journal.head) } }),
            ("on disk", html! { (journal.disk_bytes) " bytes" }),
            ("as of", html! { (to_the_second(overview.at)) }),
            ("version", html! { (overview.version) }),
        ]))
    }
}

/// The answer to the first question.
fn headline(overview: &Overview) -> Markup {
    let Verdict { tone, word, of, more } = overview.verdict();
    let more = html! { @for sentence in &more { p { (sentence) } } };
    notice(tone, &format!("{word}{of}."), &more)
}

pub(super) async fn stuck(State(inside): Shared, RawQuery(query): RawQuery) -> Answer {
    let refreshes = refreshes(query)?;
    let overview = inside.desk.overview().await?;
    let body = html! {
        p { a href="/" { "Everything" } }
        h1 { "Stuck records" }
        @if overview.stuck.is_empty() {
            (notice(Tone::Fine, "Nothing is stuck.", &html! {}))
        } @else {
            (stuck_table(&overview.stuck, overview.at))
        }
    };
    answer(StatusCode::OK, "Leasehold: stuck", Some(("/stuck", refreshes)), &body)
}

pub(super) async fn record(
    State(inside): Shared,
    Path((name, id)): Path<(String, String)>,
) -> Answer {
    match flow(&name)? {
        FlowTag::Dispatch => timeline::<Dispatch>(&inside, id).await,
        FlowTag::Lifecycle => timeline::<Lifecycle>(&inside, id).await,
        FlowTag::Notification => timeline::<Notify>(&inside, id).await,
        FlowTag::Processing => timeline::<Processing>(&inside, id).await,
        FlowTag::Delivery => timeline::<Delivery>(&inside, id).await,
    }
}

async fn timeline<F: Explains>(inside: &Inside, id: String) -> Answer {
    let Some(Found { now, status, events, archived, replays, explanation }) =
        history::found::<F>(inside, &id).await?
    else {
        let body = html! {
            p { a href="/" { "Everything" } }
            (notice(Tone::Quiet, "There is no such record.", &html! {}))
        };
        return answer(StatusCode::NOT_FOUND, "Leasehold: no record", None, &body);
    };
    let title = format!("{} {id}", F::TAG.name());
    let side = inside.desk.side_of(F::TAG);
    let body = html! {
        p { a href="/" { "Everything" } }
        h1 { (title) }
        @if !replays {
            (notice(Tone::Trouble, "This record does not replay.", &html! {}))
        }
        @if let Some(explanation) = &explanation {
            h2 { "Why it stands where it stands" }
            (why::section(explanation, side.as_ref(), now.seconds()))
        }
        h2 { "What happened" }
        @if archived > 0 {
            p { "Earlier events in archives: " (archived) }
        }
        (happenings(&events))
        @if !status.is_null() {
            h2 { "As it is now" }
            (members(&status))
        }
    };
    answer(StatusCode::OK, &title, None, &body)
}

fn happenings(events: &[Happening]) -> Markup {
    let columns = [
        ("record", Column::Number),
        ("at", Column::Text),
        ("event", Column::Text),
        ("error, or who and why", Column::Text),
    ];
    let rows: Vec<_> = events
        .iter()
        .map(|it| {
            vec![
                html! { (it.sequence) },
                html! { (to_the_second(it.at)) },
                html! { (it.word()) },
                html! {
                    @if let Some(code) = &it.error_code { code { (code) } }
                    @if let Some(due) = it.due_at { "due " (to_the_second(due)) " " }
                    @if let (Some(by), Some(why)) = (&it.by, &it.why) { (by) ": " (why) }
                    @if let Some(imported) = &it.imported { (brought(imported)) }
                },
            ]
        })
        .collect();
    table("What happened, oldest first", &columns, &rows)
}

/// The members of a status, nulls left out.
fn members(status: &serde_json::Value) -> Markup {
    let known = status.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    let members: Vec<_> = known
        .map(|(name, value)| {
            let said = match value.as_str() {
                Some(text) => text.to_owned(),
                None => match (name.ends_with("_at"), value.as_f64()) {
                    (true, Some(seconds)) => to_the_second(seconds),
                    (_, _) => value.to_string(),
                },
            };
            (name.as_str(), html! { (said) })
        })
        .collect();
    facts(&members)
}
