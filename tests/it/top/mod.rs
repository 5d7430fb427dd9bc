//! The dashboard in a terminal: answers of a door and keys in, a screen out.

mod keys;
mod program;
mod screens;

use leasehold::top::{Event, Model, Question, Reply, draw};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::{Value, json};

/// What a flow's last ten minutes look like when `newest` settled just now.
fn buckets(newest: u64) -> Vec<u64> {
    (0..60).map(|place| if place < 40 { 0 } else { (place - 40) * newest / 20 + 1 }).collect()
}

fn flow(name: &str) -> Value {
    json!({
        "flow": name, "status": "ok", "counts": { "pending": 0, "succeeded": 0 }, "due": 0,
        "oldest_due_age_seconds": null, "next_at": null, "in_flight": 0, "held": 0,
        "quarantined": 0, "throughput": vec![0; 60], "retries": vec![0; 60],
    })
}

fn side(name: &str) -> Value {
    json!({
        "name": name, "state": "closed", "in_flight": 1, "in_flight_max": 64, "waiting": 0,
        "opens_in_seconds": null, "failures_in_a_row": 0, "last_error_code": null,
    })
}

/// An engine at work that needs nobody.
fn well() -> Value {
    let names = ["dispatch", "lifecycle", "notification", "processing", "delivery"];
    let mut flows = names.map(flow);
    flows[0]["counts"] =
        json!({ "leased": 2, "pending": 12, "retry_wait": 1, "succeeded": 12_345 });
    flows[0]["due"] = 12.into();
    flows[0]["oldest_due_age_seconds"] = 42.5.into();
    flows[0]["in_flight"] = 2.into();
    flows[0]["throughput"] = json!(buckets(40));
    flows[0]["retries"] = json!(buckets(0));
    flows[1]["counts"] = json!({ "scheduled": 3 });
    let sides = ["cms", "receiver", "source"].map(side);
    json!({
        "at": 1_800_000_042.0, "version": "0.1.0", "status": "ok", "flows": flows,
        "journal": { "id": "07".repeat(16), "sequence": 4_711, "head": "0a".repeat(32), "disk_bytes": 5 },
        "destinations": sides, "stuck": [], "paused": [],
    })
}

fn stuck(id: &str) -> Value {
    json!({
        "flow": "dispatch", "id": id, "state": "failed", "since": 1_800_000_000.0, "code": "network",
        "why": "given up after 5 attempts",
        "action": format!("curl --unix-socket demo.sock -d '{{\"by\":\"NAME\",\"why\":\"REASON\"}}' \
                           http://localhost/v1/dispatch/{id}/requeue"),
    })
}

/// The same with records that do not go on by themselves.
fn blocked(ids: &[&str]) -> Value {
    let mut overview = well();
    overview["status"] = "blocked".into();
    overview["flows"][0]["status"] = "blocked".into();
    overview["flows"][0]["counts"]["failed"] = ids.len().into();
    overview["stuck"] = ids.iter().map(|id| stuck(id)).collect();
    overview
}

fn paused(mut overview: Value, why: &str) -> Value {
    overview["paused"] = json!([
        { "scope": "flow/dispatch", "since": 1_799_999_742.0, "by": "maria", "why": why },
    ]);
    overview
}

/// The answer to a question.
fn heard(question: Question, status: u16, body: &Value) -> Event {
    Event::Heard { question, reply: Some(Reply { status, body: body.to_string().into_bytes() }) }
}

/// All there is to say of a failed record, with a status like this.
fn history(status: &Value) -> Value {
    json!({
        "explained": [
            { "name": "waits for", "said": "an operator, since it used up its 5 attempts" },
            { "name": "moves on", "said": "when an operator does something" },
            { "name": "to do", "said": "curl --unix-socket demo.sock http://localhost/v1/dispatch/event-3/requeue" },
            { "name": "", "said": "tries it again" },
        ],
        "archived": 2, "earlier": 3,
        "events": [
            {
                "sequence": 9, "at": 1_799_999_000.0, "event": "requeued_later", "error_code": null,
                "by": "maria", "why": "the provider is back", "due_at": 1_799_999_060.0,
            },
            {
                "sequence": 10, "at": 1_799_999_061.5, "event": "failed", "error_code": "network",
                "by": null, "why": null,
            },
        ],
        "replays": true, "status": status,
    })
}

/// A model that was told this.
fn model(overview: &Value) -> Model {
    let mut model = Model::new();
    model.take(heard(Question::Overview, 200, overview));
    assert_eq!(model.fault(), None);
    model
}

/// What is on a screen of this size.
fn drawn(model: &Model, columns: u16, lines: u16) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(columns, lines)).expect("a screen");
    terminal.draw(|frame| draw(frame, model)).expect("it is drawn");
    terminal.backend().clone()
}
