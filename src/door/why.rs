//! Why one record stands where it stands: as JSON, and on its page.
//!
//! Owns how that is asked for and where it is shown. Must not hold a rule: the explanations do.

use super::Inside;
use super::answer::{Refused, json};
use crate::audit::explain::{at, brought, moves_on, pause};
use crate::error::Error;
use crate::overview::{DestinationOverview, DestinationState};
use crate::pages::facts;
use axum::body::Body;
use axum::http::{Response, StatusCode};
use leasehold_actors::arguments::Blocked;
use leasehold_actors::explain::{Explains, Explanation};
use leasehold_actors::flows::delivery::Delivery;
use leasehold_actors::flows::dispatch::Dispatch;
use leasehold_actors::flows::lifecycle::Lifecycle;
use leasehold_actors::flows::notification::Notify;
use leasehold_actors::flows::processing::Processing;
use leasehold_actors::record::{FlowTag, Refusal};
use maud::{Markup, html};

type Answer = Result<Response<Body>, Refused>;

/// The id in a path that ends in `what`, such as `explain`. An id of delivery has an operation before it,
/// so that one that is itself `explain` is none.
pub(super) fn asked_about<'a>(flow: FlowTag, rest: &'a str, what: &str) -> Option<&'a str> {
    let id = rest.strip_suffix(what)?.strip_suffix('/')?;
    (flow != FlowTag::Delivery || id.contains('/')).then_some(id)
}

pub(super) async fn explain(inside: &Inside, flow: FlowTag, id: &str) -> Answer {
    match flow {
        FlowTag::Dispatch => of_flow::<Dispatch>(inside, id).await,
        FlowTag::Lifecycle => of_flow::<Lifecycle>(inside, id).await,
        FlowTag::Notification => of_flow::<Notify>(inside, id).await,
        FlowTag::Processing => of_flow::<Processing>(inside, id).await,
        FlowTag::Delivery => of_flow::<Delivery>(inside, id).await,
    }
}

async fn of_flow<F: Explains>(inside: &Inside, id: &str) -> Answer {
    let (asked, outlook, paused) = (id.to_owned(), inside.desk.outlook()?, inside.desk.paused());
    let explained = inside.desk.looking(move |live| live.explain::<F>(&asked, &outlook, paused));
    match explained.await? {
        Some(explanation) => json(StatusCode::OK, &explanation),
        None => Err(Error::from(Blocked::refusal::<F>(Refusal::RecordMissing)).into()),
    }
}

/// An explanation in words, by name, but for what there is to do; `side` is whom the record's flow calls,
/// where calls are limited.
pub(super) fn words(
    explanation: &Explanation,
    side: Option<&DestinationOverview>,
    now_seconds: f64,
) -> Vec<(&'static str, String)> {
    let mut said = vec![("waits for", explanation.reason())];
    if let Some(since) = explanation.since {
        said.push(("since", at(since, now_seconds)));
    }
    if let Some(imported) = &explanation.imported {
        let when = at(imported.at, now_seconds);
        said.push(("imported", format!("{when}, {}", brought(imported))));
    }
    for paused in &explanation.paused {
        said.push(("paused", pause(paused, now_seconds)));
    }
    said.push(("moves on", moves_on(explanation, now_seconds)));
    if let Some(barred) = side.filter(|_| explanation.is_open()).and_then(barred) {
        said.push(("destination", barred));
    }
    let (rule, sentence) = (explanation.rule.id(), explanation.rule.sentence());
    said.push(("rule", format!("{rule}: {sentence}")));
    said
}

/// An explanation as a part of a page.
pub(super) fn section(
    explanation: &Explanation,
    side: Option<&DestinationOverview>,
    now_seconds: f64,
) -> Markup {
    let words = words(explanation, side, now_seconds).into_iter();
    let mut said: Vec<_> = words.map(|(name, text)| (name, html! { (text) })).collect();
    for action in &explanation.actions {
        said.push(("to do", html! { code { (action.command) } " " (action.does) }));
    }
    facts(&said)
}

/// What the other side's state means for whoever is due; `None` where calls go through.
fn barred(side: &DestinationOverview) -> Option<String> {
    let what = match side.state {
        DestinationState::Closed => return None,
        DestinationState::Open => "no call goes through",
        DestinationState::HalfOpen => "one call is tried",
        DestinationState::Recovering => "more and more calls go through",
    };
    let code = side.last_error_code.as_ref();
    let after = code.map_or_else(String::new, |code| format!(", after {code}"));
    Some(format!("{}: {what}{after}", side.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_is_asked_for_behind_the_whole_identity() {
        for (flow, rest, id) in [
            (FlowTag::Dispatch, "e/explain", Some("e")),
            (FlowTag::Dispatch, "explain/explain", Some("explain")),
            (FlowTag::Dispatch, "explain", None),
            (FlowTag::Dispatch, "e/history", None),
            (FlowTag::Dispatch, "e/unexplain", None),
            (FlowTag::Delivery, "change/e/explain", Some("change/e")),
            (FlowTag::Delivery, "change/explain", None),
            (FlowTag::Delivery, "change/explain/explain", Some("change/explain")),
        ] {
            assert_eq!(asked_about(flow, rest, "explain"), id, "{rest}");
        }
    }

    #[test]
    fn a_side_that_lets_calls_through_is_no_reason() {
        let side = |state| DestinationOverview {
            name: "cms".to_owned(),
            state,
            in_flight: 0,
            in_flight_max: 1,
            waiting: 0,
            opens_in_seconds: None,
            failures_in_a_row: 1,
            last_error_code: Some("network".to_owned()),
        };
        assert_eq!(barred(&side(DestinationState::Closed)), None);
        let open = barred(&side(DestinationState::Open));
        assert_eq!(open.as_deref(), Some("cms: no call goes through, after network"));
    }
}
