//! All there is to say of one record: why it stands where it stands, what happened, how it is now.
//!
//! Owns the reading, for its page and as JSON. Must not hold a rule.

use super::answer::{Refused, json};
use super::{Inside, why};
use crate::audit::{Happening, History};
use crate::error::Error;
use axum::body::Body;
use axum::http::{Response, StatusCode};
use leasehold_actors::arguments::Blocked;
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::explain::{Explains, Explanation};
use leasehold_actors::flows::Answers;
use leasehold_actors::flows::delivery::Delivery;
use leasehold_actors::flows::dispatch::Dispatch;
use leasehold_actors::flows::lifecycle::Lifecycle;
use leasehold_actors::flows::notification::Notify;
use leasehold_actors::flows::processing::Processing;
use leasehold_actors::record::{FlowTag, Refusal};
use leasehold_journal::JournalError;
use serde::Serialize;

/// Events in an answer; a record that was polled for months has more.
const EVENTS_MAX: usize = 1_000;

/// What is known of a record.
pub(super) struct Found {
    /// When it was looked at.
    pub(super) now: Timestamp,
    /// As JSON.
    pub(super) status: serde_json::Value,
    pub(super) events: Vec<Happening>,
    /// Events that are in archives.
    pub(super) archived: u32,
    pub(super) replays: bool,
    pub(super) explanation: Option<Explanation>,
}

/// `None` when there is no such record.
pub(super) async fn found<F: Explains>(inside: &Inside, id: &str) -> Result<Option<Found>, Error> {
    let outlook = inside.desk.outlook()?;
    let (id, now, paused) = (id.to_owned(), outlook.now, inside.desk.paused());
    let found = inside.desk.looking(move |live| {
        let history = live.history::<F>(&id, now)?;
        of_history::<F>(now, history, live.explain::<F>(&id, &outlook, paused)?)
    });
    found.await
}

fn of_history<F: Answers>(
    now: Timestamp,
    history: Option<History<F::Status>>,
    explanation: Option<Explanation>,
) -> Result<Option<Found>, JournalError> {
    let Some(History { archived, events, replays, status, .. }) = history else {
        return Ok(None);
    };
    let status = serde_json::to_value(status).map_err(|_| JournalError::Payload)?;
    Ok(Some(Found { now, status, events, archived, replays, explanation }))
}

#[derive(Serialize)]
struct HistoryAnswer {
    /// Why it stands where it stands, in words.
    explained: Vec<Said>,
    /// How many of its events are in archives.
    archived: u32,
    /// How many are in the journal, before the first of those that follow.
    earlier: usize,
    /// The newest of them, the oldest first.
    events: Vec<Happening>,
    replays: bool,
    status: serde_json::Value,
}

#[derive(Serialize)]
struct Said {
    name: &'static str,
    said: String,
}

pub(super) async fn history(
    inside: &Inside,
    flow: FlowTag,
    id: &str,
) -> Result<Response<Body>, Refused> {
    match flow {
        FlowTag::Dispatch => of_flow::<Dispatch>(inside, id).await,
        FlowTag::Lifecycle => of_flow::<Lifecycle>(inside, id).await,
        FlowTag::Notification => of_flow::<Notify>(inside, id).await,
        FlowTag::Processing => of_flow::<Processing>(inside, id).await,
        FlowTag::Delivery => of_flow::<Delivery>(inside, id).await,
    }
}

async fn of_flow<F: Explains>(inside: &Inside, id: &str) -> Result<Response<Body>, Refused> {
    let Some(found) = found::<F>(inside, id).await? else {
        return Err(Error::from(Blocked::refusal::<F>(Refusal::RecordMissing)).into());
    };
    let Found { now, status, mut events, archived, replays, explanation } = found;
    let side = inside.desk.side_of(F::TAG);
    let explained = explanation.as_ref().map_or_else(Vec::new, |explanation| {
        let mut said = why::words(explanation, side.as_ref(), now.seconds());
        for action in &explanation.actions {
            said.extend([("to do", action.command.clone()), ("", action.does.to_owned())]);
        }
        said
    });
    let explained = explained.into_iter().map(|(name, said)| Said { name, said }).collect();
    let earlier = events.len().saturating_sub(EVENTS_MAX);
    events.drain(..earlier);
    json(StatusCode::OK, &HistoryAnswer { explained, archived, earlier, events, replays, status })
}
