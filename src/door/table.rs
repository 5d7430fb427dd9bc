//! The tables of the pages, and how figures and lengths of time read there.
//!
//! Owns words and order. Pure: an overview comes in, markup goes out; every text is escaped by the
//! template.

use crate::overview::{DestinationOverview, FlowOverview, PausedOverview, Standing, StuckRecord};
use crate::pages::charts::sparkline;
use crate::pages::{Column, Tone, badge, table};
use crate::times::to_the_second;
use maud::{Markup, html};

/// A length of time, in its largest unit, not rounded up.
pub(super) fn length(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 120.0 => format!("{} s", seconds.floor()),
        seconds if seconds < 7200.0 => format!("{} min", (seconds / 60.0).floor()),
        seconds if seconds < 172_800.0 => format!("{} h", (seconds / 3600.0).floor()),
        seconds => format!("{} days", (seconds / 86_400.0).floor()),
    }
}

fn verdict(standing: Standing) -> Markup {
    let (word, tone) = standing.told();
    badge(tone, word)
}

/// Every flow's health and its last ten minutes.
pub(super) fn flows(flows: &[FlowOverview], at: f64) -> Markup {
    let columns = [
        ("flow", Column::Name),
        ("health", Column::Text),
        ("due", Column::Number),
        ("oldest due", Column::Number),
        ("next", Column::Number),
        ("in flight", Column::Number),
        ("held", Column::Number),
        ("records", Column::Text),
        ("settled", Column::Text),
        ("retried", Column::Text),
    ];
    let rows: Vec<_> = flows.iter().map(|flow| flow_row(flow, at)).collect();
    table("Flows; settled and retried attempts of the last ten minutes", &columns, &rows)
}

fn flow_row(flow: &FlowOverview, at: f64) -> Vec<Markup> {
    let counts = flow.counts.iter().filter(|(_, count)| **count > 0);
    let counts: Vec<_> = counts.map(|(state, count)| format!("{state} {count}")).collect();
    let next = flow.next_at.map(|next| (next - at).max(0.0));
    vec![
        html! { (flow.flow) },
        verdict(flow.status),
        html! { (flow.due) },
        html! { (dashed(flow.oldest_due_age_seconds.map(length))) },
        html! { (dashed(next.map(length))) },
        html! { (flow.in_flight) },
        html! { (flow.held) },
        html! {
            (dashed((!counts.is_empty()).then(|| counts.join(", "))))
            @if flow.quarantined > 0 { ", quarantined " (flow.quarantined) }
        },
        recent("settled", Tone::Fine, &flow.throughput),
        recent("retried", Tone::Waiting, &flow.retries),
    ]
}

/// A line and its sum, so that nobody has to see the line.
fn recent(what: &str, tone: Tone, buckets: &[u64]) -> Markup {
    let sum: u64 = buckets.iter().sum();
    let values: Vec<f64> = buckets.iter().map(|count| *count as f64).collect();
    let title = format!("{what}: {sum} in the last ten minutes");
    html! { (sparkline(&title, tone, &values)) " " (sum) }
}

fn dashed(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

/// What is stuck, why, and what to type.
pub(super) fn stuck(records: &[StuckRecord], at: f64) -> Markup {
    let columns = [
        ("record", Column::Name),
        ("since", Column::Text),
        ("waits for", Column::Text),
        ("what to do", Column::Text),
    ];
    let rows: Vec<_> = records.iter().map(|record| stuck_row(record, at)).collect();
    table("Stuck records, the newest first", &columns, &rows)
}

fn stuck_row(record: &StuckRecord, at: f64) -> Vec<Markup> {
    vec![
        html! {
            (record.flow) " "
            @match &record.id {
                Some(id) => a href={ "/records/" (record.flow) "/" (id) } { (id) },
                None => "-",
            }
            " " (badge(Tone::Trouble, record.state.name()))
        },
        html! {
            @match record.since {
                Some(since) => { (to_the_second(since)) " (" (length((at - since).max(0.0))) " ago)" },
                None => "-",
            }
        },
        html! { (record.why) },
        html! { code { (record.action) } },
    ]
}

/// The other sides.
pub(super) fn destinations(destinations: &[DestinationOverview]) -> Markup {
    let columns = [
        ("destination", Column::Name),
        ("state", Column::Text),
        ("in flight", Column::Number),
        ("waiting", Column::Number),
        ("failures in a row", Column::Text),
        ("opens in", Column::Number),
    ];
    let rows: Vec<_> = destinations
        .iter()
        .map(|side| {
            let (word, tone) = side.state.told();
            vec![
                html! { (side.name) },
                badge(tone, word),
                html! { (side.in_flight) " of " (side.in_flight_max) },
                html! { (side.waiting) },
                html! {
                    (side.failures_in_a_row)
                    @if let Some(code) = &side.last_error_code { ", last " code { (code) } }
                },
                html! { (dashed(side.opens_in_seconds.map(length))) },
            ]
        })
        .collect();
    table("Destinations", &columns, &rows)
}

/// What an operator paused.
pub(super) fn paused(paused: &[PausedOverview]) -> Markup {
    let columns = [
        ("paused", Column::Name),
        ("since", Column::Text),
        ("by", Column::Text),
        ("why", Column::Text),
    ];
    let rows: Vec<_> = paused
        .iter()
        .map(|paused| {
            vec![
                html! { (paused.scope) },
                html! { (to_the_second(paused.since)) },
                html! { (paused.by) },
                html! { (paused.why) },
            ]
        })
        .collect();
    table("Paused by an operator", &columns, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overview::DestinationState;

    #[test]
    fn lengths_read_in_their_largest_unit() {
        for (seconds, text) in [
            (0.2, "0 s"),
            (119.0, "119 s"),
            (119.9, "119 s"),
            (120.0, "2 min"),
            (179.0, "2 min"),
            (7200.0, "2 h"),
            (172_800.0, "2 days"),
        ] {
            assert_eq!(length(seconds), text);
        }
    }

    #[test]
    fn a_state_a_flow_and_a_side_are_told_in_words_and_not_by_colour_alone() {
        let side = DestinationOverview {
            name: "cms".to_owned(),
            state: DestinationState::Open,
            in_flight: 1,
            in_flight_max: 64,
            waiting: 3,
            opens_in_seconds: Some(4.6),
            failures_in_a_row: 10,
            last_error_code: Some("network".to_owned()),
        };
        let text = destinations(&[side]).into_string();
        assert!(text.contains("no call goes through") && text.contains("1 of 64"));
        assert!(text.contains("4 s") && text.contains("10, last <code>network</code>"));
        let why = "<script>&".to_owned();
        let held = PausedOverview { scope: "cms".into(), since: 0.0, by: "maria".into(), why };
        let text = paused(&[held]).into_string();
        assert!(text.contains("&lt;script&gt;&amp;") && text.contains("1970-01-01T00:00:00Z"));
    }
}
