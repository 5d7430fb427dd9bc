//! Withdrawing a change at the CMS, and asking for its progress (contract 2.2, 3.2).
//!
//! Owns the order of the server's checks there, and what a removal has to share with its change.

use super::World;
use super::book::{Accepted, Look, Receipt};
use super::cms::{Purpose, asked, misbehaving, signed};
use super::ledger::Arrived;
use super::lifecycle::Standing;
use super::reply::{count, json, object, refusal, text};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode};
use axum::routing::post;
use leasehold_actors::contract::dispatch::SCHEMA;
use leasehold_actors::contract::json::Value;
use leasehold_actors::contract::removal::{Removal, RemovalKind};
use leasehold_actors::contract::text::Token;
use std::sync::Arc;

/// Schema of a read of the progress.
pub const STATUS_REQUEST: &str = "blun.cms-localization-status-request.v2";

/// A read of the progress.
const STATUS: Purpose = Purpose {
    schema: STATUS_REQUEST,
    invalid: "cms.status.request_invalid",
    expired: "cms.status.request_expired",
};

/// The refusals of a removal that are conflicts (contract 3.2).
const CONFLICTS: [&str; 4] = [
    "cms.cancellation.idempotency_collision",
    "cms.cancellation.already_published",
    "cms.tombstone.idempotency_collision",
    "cms.tombstone.not_published",
];

pub(super) fn routes() -> Router<Arc<World>> {
    Router::new()
        .route("/v2/localization/cancellations", post(cancellations))
        .route("/v2/localization/tombstones", post(tombstones))
        .route("/v2/localization/status", post(status))
}

async fn cancellations(
    State(world): State<Arc<World>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    remove(&world, &headers, &body, RemovalKind::Cancellation).await
}

async fn tombstones(
    State(world): State<Arc<World>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    remove(&world, &headers, &body, RemovalKind::Tombstone).await
}

async fn remove(
    world: &World,
    headers: &HeaderMap,
    body: &[u8],
    kind: RemovalKind,
) -> Response<Body> {
    let removal = match read(world, headers, body, kind) {
        Ok(removal) => removal,
        Err(code) => return refused(code),
    };
    world.arrive(Arrived::removal(kind), &removal.request_id, removal.payload.sha256());
    misbehaving(world, || match world.book().remove(&removal) {
        Ok(Receipt::New) => json(StatusCode::ACCEPTED, &taken(&removal)),
        Ok(Receipt::Known) => json(StatusCode::OK, &taken(&removal)),
        Err(code) => refused(code),
    })
    .await
}

fn read(
    world: &World,
    headers: &HeaderMap,
    body: &[u8],
    kind: RemovalKind,
) -> Result<Removal, &'static str> {
    signed(world, headers, body, invalid(kind))?;
    let removal = Removal::parse(body).map_err(|_| invalid(kind))?;
    if removal.kind == kind { Ok(removal) } else { Err(invalid(kind)) }
}

/// The answer to a removal that was taken.
fn taken(removal: &Removal) -> Value {
    object(vec![
        ("schema", text(SCHEMA)),
        ("event_id", text(removal.event_id.as_str())),
        (removal.kind.identity_field(), text(removal.request_id.as_str())),
        (
            "status",
            text(match removal.kind {
                RemovalKind::Cancellation => "cancelled",
                RemovalKind::Tombstone => "pending",
            }),
        ),
    ])
}

/// The code for a removal that is none, or does not fit its change.
fn invalid(kind: RemovalKind) -> &'static str {
    match kind {
        RemovalKind::Cancellation => "cms.cancellation.invalid",
        RemovalKind::Tombstone => "cms.tombstone.invalid",
    }
}

/// The code for another body under a known identity.
pub(super) fn collision(kind: RemovalKind) -> &'static str {
    match kind {
        RemovalKind::Cancellation => "cms.cancellation.idempotency_collision",
        RemovalKind::Tombstone => "cms.tombstone.idempotency_collision",
    }
}

/// Whether a removal fits a change that stands like this: every shared field is the same, and the
/// change still takes it.
pub(super) fn judge(
    removal: &Removal,
    accepted: &Accepted,
    standing: &Standing,
) -> Result<(), &'static str> {
    let same = removal.event_id.as_str() == accepted.event_id
        && removal.site_id.as_str() == accepted.site_id
        && removal.website_version.as_str() == accepted.website_version
        && removal.source_id.as_str() == accepted.source_id
        && removal.source_sequence == accepted.source_sequence;
    if same { standing.takes(removal.kind) } else { Err(invalid(removal.kind)) }
}

fn refused(code: &str) -> Response<Body> {
    let mut response = refusal(code);
    if CONFLICTS.contains(&code) {
        *response.status_mut() = StatusCode::CONFLICT;
    }
    response
}

async fn status(
    State(world): State<Arc<World>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let request = match asked(&world, &headers, &body, &STATUS) {
        Ok(request) => request,
        Err(code) => return refusal(code),
    };
    misbehaving(&world, || {
        let look = world.book().look(request.event_id.as_str());
        match visible(look, &request.site_id) {
            Ok(look) => json(StatusCode::OK, &progress(&look, &request.request_id)),
            Err(code) => refusal(code),
        }
    })
    .await
}

/// What this site may see of an event. One that is not known looks like one of another site.
fn visible(look: Option<Look>, site_id: &Token) -> Result<Look, &'static str> {
    let own = look.filter(|look| look.accepted.site_id == site_id.as_str());
    let look = own.ok_or("cms.status.scope_rejected")?;
    if look.overtaken { Err("cms.event.superseded") } else { Ok(look) }
}

/// The progress of an event; asking for it does not advance its plan.
fn progress(look: &Look, request_id: &Token) -> Value {
    let accepted = &look.accepted;
    let is_at_its_end = look.standing.step(look.reads).is_end();
    object(vec![
        ("schema", text(SCHEMA)),
        ("request_id", text(request_id.as_str())),
        ("event_id", text(&accepted.event_id)),
        ("site_id", text(&accepted.site_id)),
        ("plan_id", text(&accepted.plan_id())),
        ("website_version", text(&accepted.website_version)),
        ("source_sequence", count(accepted.source_sequence)),
        ("job_count", count(accepted.locales.len() as u64)),
        ("status", text(if is_at_its_end { "PASS" } else { "PROGRESS" })),
        ("cancelled", Value::Bool(look.standing == Standing::Cancelled)),
        ("queue_recovery_pending", Value::Bool(false)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_actors::contract::text::Sha256;

    fn accepted() -> Accepted {
        Accepted {
            event_id: "e-1".into(),
            sha256: Sha256::of(b""),
            site_id: "s".into(),
            source_id: "i".into(),
            source_sequence: 1,
            website_version: "w".into(),
            locales: vec!["fi-FI".into()],
            superseded: false,
        }
    }

    fn cancellation() -> Removal {
        let document = "{\"cancellation_id\":\"c-1\",\"event_id\":\"e-1\",\
             \"schema\":\"blun.cms-content-cancellation.v1\",\"site_id\":\"s\",\"source_id\":\"i\",\
             \"source_sequence\":1,\"website_version\":\"w\"}";
        Removal::parse(document.as_bytes()).expect("a cancellation")
    }

    #[test]
    fn every_field_a_removal_shares_has_to_be_the_same() {
        let removal = cancellation();
        assert_eq!(judge(&removal, &accepted(), &Standing::Moving), Ok(()));
        for other in [
            Accepted { event_id: "x".into(), ..accepted() },
            Accepted { site_id: "x".into(), ..accepted() },
            Accepted { website_version: "x".into(), ..accepted() },
            Accepted { source_id: "x y".into(), ..accepted() },
            Accepted { source_sequence: 2, ..accepted() },
        ] {
            let judged = judge(&removal, &other, &Standing::Moving);
            assert_eq!(judged, Err("cms.cancellation.invalid"), "{other:?}");
        }
        let judged = judge(&removal, &accepted(), &Standing::Published);
        assert_eq!(judged, Err("cms.cancellation.already_published"));
    }

    #[test]
    fn a_refusal_that_is_a_conflict_says_so() {
        assert_eq!(refused("cms.cancellation.invalid").status(), StatusCode::BAD_REQUEST);
        assert_eq!(refused("cms.event.not_enqueued").status(), StatusCode::NOT_FOUND);
        for code in CONFLICTS {
            assert_eq!(refused(code).status(), StatusCode::CONFLICT, "{code}");
        }
    }

    #[test]
    fn a_removal_is_answered_with_its_own_identity() {
        let answer = taken(&cancellation());
        let answer = answer.as_object().expect("an object");
        assert!(answer.has_exactly(&["schema", "event_id", "cancellation_id", "status"]));
        assert_eq!(answer.text("status"), Some("cancelled"));
    }

    #[test]
    fn progress_is_shown_to_its_own_site_only() {
        let look = |overtaken| Look {
            accepted: accepted(),
            standing: Standing::Cancelled,
            reads: 0,
            overtaken,
        };
        let (own, other) = (Token::new("s").expect("a token"), Token::new("x").expect("a token"));
        assert!(visible(Some(look(false)), &own).is_ok());
        assert_eq!(visible(Some(look(false)), &other), Err("cms.status.scope_rejected"));
        assert_eq!(visible(None, &own), Err("cms.status.scope_rejected"));
        assert_eq!(visible(Some(look(true)), &own), Err("cms.event.superseded"));
        let answer = progress(&look(false), &own);
        let answer = answer.as_object().expect("an object");
        assert_eq!(answer.get("cancelled").and_then(Value::as_bool), Some(true));
    }
}
