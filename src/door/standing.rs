//! The requests about everything: health, the overview, what is counted.

use super::Inside;
use super::answer::{Refused, json, with_type};
use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use std::sync::Arc;

type Answer = Result<Response<Body>, Refused>;
type Shared = State<Arc<Inside>>;

pub(super) async fn health(State(inside): Shared) -> Answer {
    json(StatusCode::OK, &inside.desk.health().await?)
}

pub(super) async fn overview(State(inside): Shared) -> Answer {
    json(StatusCode::OK, &inside.desk.overview().await?)
}

pub(super) async fn healthz(State(inside): Shared) -> Answer {
    let fine = inside.desk.health().await?.is_ok();
    let (code, status) =
        if fine { (StatusCode::OK, "ok") } else { (StatusCode::SERVICE_UNAVAILABLE, "blocked") };
    json(code, &serde_json::json!({ "status": status }))
}

pub(super) async fn metrics(State(inside): Shared) -> Answer {
    let recorder = inside.metrics.as_ref().ok_or(Refused::MetricsOff)?;
    crate::metrics::set_levels(&inside.desk.levels().await?);
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    Ok(with_type(StatusCode::OK, kind, recorder.text()))
}
