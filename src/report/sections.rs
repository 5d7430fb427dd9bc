//! The tables and drawings of a report.
//!
//! Owns how counts become rows and bars. Must not count anything itself.

use super::activity::Stretches;
use super::facts::{Facts, Failure};
use super::operation::Leases;
use super::stuck::KEPT_MAX;
use crate::audit::explain::{at, moves_on};
use crate::audit::states::AllHealth;
use crate::pages::charts::{Chart, Series, bars};
use crate::pages::{Column, Tone, badge, facts as named, figure, table};
use crate::times::to_the_second;
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::control::PausedScope;
use leasehold_actors::explain::Explanation;
use maud::{Markup, html};
use serde_json::Value;
use std::collections::BTreeMap;

/// From so many attempts on, they are counted together.
const ATTEMPTS_MAX: u32 = 20;

/// So many records, as a sentence goes on.
pub(super) fn records(count: u64) -> String {
    if count == 1 { "1 record is".to_owned() } else { format!("{count} records are") }
}

/// How many of so many records need somebody, as a sentence goes on.
fn need(open: u64, needing: u64) -> String {
    match (open, needing) {
        (_, 0) => "nothing of that needs".to_owned(),
        (1, _) => "it needs".to_owned(),
        (_, 1) => "1 of them needs".to_owned(),
        (_, needing) => format!("{needing} of them need"),
    }
}

fn number(health: &Value, name: &str) -> u64 {
    health[name].as_u64().unwrap_or(0) // a flow without such a count has none
}

fn counted(health: &Value, states: &[&str]) -> u64 {
    states.iter().map(|state| number(&health["counts"], state)).sum()
}

/// What is not as it should be, one line each.
pub(super) fn troubles(facts: &Facts) -> Vec<String> {
    let mut troubles = Vec::new();
    if !facts.audit.clean {
        let first = facts.audit.findings.first().map_or("", |finding| finding.code.as_str());
        let count = facts.audit.findings.len();
        troubles.push(format!("findings of the audit: {count}, the first one {first}"));
    }
    for (flow, health) in facts.health.iter().flat_map(AllHealth::by_flow) {
        for (name, what) in [
            ("failed", "failed, waiting for an operator"),
            ("quarantined", "quarantined, with events that do not replay"),
            ("expired_leases", "leased for a time that is over"),
            ("remote_failures", "ended at the other side in a failure"),
        ] {
            let count = number(&health, name);
            if count > 0 {
                troubles.push(format!("{flow}: {count} {what}"));
            }
        }
    }
    if facts.stuck.held > 0 {
        troubles.push(format!(
            "{} held under another digest than the pinned one",
            records(facts.stuck.held)
        ));
    }
    troubles
}

pub(super) fn health(health: &AllHealth) -> Markup {
    let columns = [
        ("flow", Column::Name),
        ("health", Column::Text),
        ("waiting", Column::Number),
        ("leased", Column::Number),
        ("settled", Column::Number),
        ("failed", Column::Number),
        ("quarantined", Column::Number),
        ("dismissed", Column::Number),
        ("due", Column::Number),
        ("leases run out", Column::Number),
        ("held", Column::Number),
        ("failed at the other side", Column::Number),
    ];
    let rows = health.by_flow().into_iter().map(|(flow, health)| {
        let fine = health["status"] == "ok";
        let status = if fine { badge(Tone::Fine, "ok") } else { badge(Tone::Trouble, "blocked") };
        let counts = [
            counted(&health, &["pending", "watching", "retry_wait"]),
            counted(&health, &["leased"]),
            counted(&health, &["succeeded", "terminal"]),
            number(&health, "failed"),
            number(&health, "quarantined"),
            number(&health, "dismissed"),
            number(&health, "due"),
            number(&health, "expired_leases"),
            number(&health, "held"),
            number(&health, "remote_failures"),
        ];
        let mut row = vec![html! { (flow) }, status];
        row.extend(counts.map(|count| html! { (count) }));
        row
    });
    table("Records of each flow by state", &columns, &rows.collect::<Vec<_>>())
}

pub(super) fn activity(facts: &Facts) -> Markup {
    let Some((first, last)) = facts.span_seconds else {
        return html! { p.pale { "Nothing happened." } };
    };
    let stretches = Stretches::over(first, last);
    let activity = &facts.activity;
    let all = [&activity.registered, &activity.settled, &activity.failed];
    let [registered, settled, failed] = all.map(|times| stretches.count(times));
    let description = format!(
        "{} registered, {} settled and {} failed between {} and {}.",
        activity.registered.len(),
        activity.settled.len(),
        activity.failed.len(),
        to_the_second(first),
        to_the_second(last),
    );
    let along = format!("time (UTC); one bar is {}", stretches.length());
    let drawing = bars(&Chart {
        id: "activity",
        title: "Records registered, settled and failed over time",
        description: &description,
        along: &along,
        labels: &stretches.labels(),
        series: &[
            Series { name: "registered", tone: Tone::Quiet, values: &registered },
            Series { name: "settled", tone: Tone::Fine, values: &settled },
            Series { name: "failed", tone: Tone::Trouble, values: &failed },
        ],
    });
    html! {
        (figure("Records registered, settled and failed over time", &drawing))
        p { (description) " Records are counted in every flow they pass." }
        @if facts.imported > 0 {
            p {
                "Imported records: " (facts.imported) ". What happened to them until then, in another "
                "program, is not in this journal and not in this drawing."
            }
        }
        @if facts.audit.archived > 0 {
            p { "Events that are in archives are not in this drawing." }
        }
    }
}

/// Numbers of attempts as bars, the largest ones together.
fn histogram(tries: &BTreeMap<u32, u64>, most: u32) -> Vec<f64> {
    let mut bars = vec![0.0; most as usize + 1];
    for (tries, records) in tries {
        bars[(*tries).min(most) as usize] += *records as f64;
    }
    bars
}

pub(super) fn attempts(facts: &Facts) -> Markup {
    let keys = facts.attempts.keys().chain(facts.polls.keys());
    let Some(most) = keys.copied().max() else {
        return html! { p.pale { "No record is settled." } };
    };
    let most = most.min(ATTEMPTS_MAX);
    let mut labels: Vec<String> = (0..=most).map(|number| number.to_string()).collect();
    if most == ATTEMPTS_MAX {
        labels[most as usize].push('+');
    }
    let settled: u64 = facts.attempts.values().sum();
    let first: u64 = facts.attempts.range(..=1).map(|(_, records)| records).sum();
    let description = format!("{first} of {settled} submitted records took one attempt.");
    let drawing = bars(&Chart {
        id: "attempts",
        title: "Settled records by the attempts they took",
        description: &description,
        along: "attempts or polls until it was settled",
        labels: &labels,
        series: &[
            Series {
                name: "submitted: attempts",
                tone: Tone::Fine,
                values: &histogram(&facts.attempts, most),
            },
            Series {
                name: "watched: polls",
                tone: Tone::Quiet,
                values: &histogram(&facts.polls, most),
            },
        ],
    });
    html! {
        (figure("Settled records by the attempts they took", &drawing))
        p { (description) }
    }
}

/// How leases ended that settled nothing.
pub(super) fn leases(facts: &Facts) -> Markup {
    let Leases { taken, released, expired, abandoned, lost_in_a_row_max } = facts.leases;
    html! {
        (named(&[
            ("Leases given out", html! { (taken) }),
            ("given back, and their attempts count no more", html! { (released) }),
            ("run out unsettled", html! { (expired) }),
            ("ended because their engine was gone", html! { (abandoned) }),
            ("most lost in a row by a record that is not done", html! { (lost_in_a_row_max) }),
        ]))
        @if facts.audit.archived > 0 {
            p { "Leases whose events are in archives are not counted." }
        }
    }
}

/// What an operator paused.
pub(super) fn paused(facts: &Facts, now: Timestamp) -> Markup {
    let columns = [
        ("paused", Column::Name),
        ("since", Column::Text),
        ("by", Column::Text),
        ("why", Column::Text),
        ("records not done", Column::Number),
    ];
    let rows = facts.pauses.scopes.iter().map(|PausedScope { scope, since, intervention }| {
        vec![
            html! { (scope) },
            html! { (at(since.seconds(), now.seconds())) },
            html! { (intervention.by.as_str()) },
            html! { (intervention.why.as_str()) },
            html! { (facts.pauses.waiting(scope)) },
        ]
    });
    let about =
        "Nothing of these is given out until it is resumed. A record may belong to several.";
    html! {
        p { (about) }
        (table("Paused by an operator", &columns, &rows.collect::<Vec<_>>()))
    }
}

pub(super) fn failures(facts: &Facts) -> Markup {
    if facts.failures.is_empty() {
        return html! { p { "No attempt failed." } };
    }
    let mut failures: Vec<&Failure> = facts.failures.iter().collect();
    failures
        .sort_by_key(|one| (std::cmp::Reverse((one.records, one.attempts)), one.flow, &one.code));
    let columns = [
        ("code", Column::Name),
        ("flow", Column::Text),
        ("failed attempts", Column::Number),
        ("failed records", Column::Number),
        ("for example", Column::Text),
    ];
    let rows = failures.into_iter().map(|Failure { flow, code, attempts, records, example }| {
        vec![
            html! { (code) },
            html! { (flow) },
            html! { (attempts) },
            html! { (records) },
            html! { (example.as_deref().unwrap_or_default()) },
        ]
    });
    table("Failures by code", &columns, &rows.collect::<Vec<_>>())
}

pub(super) fn stuck(facts: &Facts, now: Timestamp) -> Markup {
    let all = &facts.stuck;
    if all.open == 0 {
        return html! { p { "Nothing: every record is at its end." } };
    }
    let columns = [
        ("id", Column::Name),
        ("flow", Column::Text),
        ("state", Column::Text),
        ("waits for", Column::Text),
        ("moves on", Column::Text),
        ("since", Column::Text),
        ("rule", Column::Text),
    ];
    let kept = all.most_urgent();
    let rows: Vec<_> = kept.iter().map(|one| stuck_row(one, now.seconds())).collect();
    html! {
        p {
            (records(all.open)) " not done; " (need(all.open, all.need_somebody)) " somebody."
            @if all.open > KEPT_MAX as u64 {
                " The " (KEPT_MAX) " most urgent ones are listed."
            }
        }
        (table("Records that are not done, the most urgent first", &columns, &rows))
    }
}

fn stuck_row(one: &Explanation, now_seconds: f64) -> Vec<Markup> {
    let tone = if one.needs_somebody() { Tone::Trouble } else { Tone::Waiting };
    vec![
        html! { (one.id.as_deref().unwrap_or("unknown")) },
        html! { (one.flow) },
        badge(tone, one.state),
        html! { (one.reason()) },
        html! { (moves_on(one, now_seconds)) },
        html! {
            @if let Some(since) = one.since {
                (at(since, now_seconds))
            }
        },
        html! { (one.rule.id()) ": " (one.rule.sentence()) },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_agree_with_their_words() {
        for (open, needing, said) in [
            (1, 0, "1 record is not done; nothing of that needs"),
            (1, 1, "1 record is not done; it needs"),
            (4, 1, "4 records are not done; 1 of them needs"),
            (4, 2, "4 records are not done; 2 of them need"),
        ] {
            assert_eq!(format!("{} not done; {}", records(open), need(open, needing)), said);
        }
    }
}
