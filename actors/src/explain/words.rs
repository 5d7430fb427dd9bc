//! What a record waits for, as a sentence without times.
//!
//! Owns the words. Times are the reader's to add: how one is written is none of a pure module's business.

use super::{Changes, Explanation, Final, Lost, Next, Used, WaitsFor};
use crate::control::PausedScope;
use crate::record::rules::Counted;

impl Explanation {
    /// What it waits for, in plain words, without an end mark.
    #[must_use]
    pub fn reason(&self) -> String {
        let mut text = waits_for(&self.waits_for, &self.paused);
        if !self.is_open() {
            return text;
        }
        if let Some(used) = self.used {
            text.push_str(&counted(used, &self.waits_for));
        }
        if let Some(lost) = self.lost_leases {
            text.push_str(&lost_in_a_row(lost));
        }
        if matches!(self.waits_for, WaitsFor::Lease { last: true, .. }) {
            text.push_str(", and it fails if the lease ends unsettled");
        }
        text
    }

    /// What moves it on, in plain words, without the time.
    #[must_use]
    pub fn moved_by(&self) -> &'static str {
        let lease = matches!(self.waits_for, WaitsFor::Lease { .. });
        match self.changes {
            Changes::AtItsTime if lease => "when its lease ends, unless it settles before",
            Changes::AtItsTime => "by itself, at its time",
            Changes::NextClaim if lease => "with the next claim in this flow",
            Changes::NextClaim => "it is due: with the next worker that asks",
            Changes::Operator if self.waits_for == WaitsFor::Pause => {
                "not by itself: when it is resumed"
            }
            Changes::OtherSettles => "by itself, when that change is settled",
            Changes::Operator => "not by itself: somebody has to act",
            Changes::Never => "no more: it is at its end",
        }
    }
}

fn waits_for(waits_for: &WaitsFor, scopes: &[PausedScope]) -> String {
    match waits_for {
        WaitsFor::FirstAttempt => "its first attempt".to_owned(),
        WaitsFor::Poll { heard: Some(heard) } => {
            format!("the next poll; the last answer was {heard}")
        }
        WaitsFor::Poll { heard: None } => "the next poll".to_owned(),
        WaitsFor::BackOff { error_code } => format!("the next attempt, after {error_code}"),
        WaitsFor::Lease { owner, expired: false, .. } => {
            format!("worker {owner}, who has its lease")
        }
        WaitsFor::Lease { owner, expired: true, .. } => {
            format!("the end of worker {owner}'s lease to be noticed; its time is over")
        }
        WaitsFor::Change { id } => format!("the change it removes to be settled first: {id}"),
        WaitsFor::Digest { registered, pinned: Some(pinned) } => {
            format!("an operator: it is registered under digest {registered}, pinned is {pinned}")
        }
        WaitsFor::Digest { registered, pinned: None } => {
            format!("an operator: it is registered under digest {registered}, none is configured")
        }
        WaitsFor::Pause => format!("an operator to resume {}", paused(scopes)),
        WaitsFor::Operator { error_code, because } => {
            let because = match because {
                Final::LeasesLost => "it lost as many leases in a row as it may",
                Final::CeilingReached => "its ceiling was used up",
                Final::NotRetryable => "that is not tried again",
                Final::OtherSideFailed => "the receiver gave up",
            };
            format!("an operator: it failed with {error_code}; {because}")
        }
        WaitsFor::LetBe { error_code, held } => {
            let was = match (held, error_code) {
                (true, None) => "it was held under another digest".to_owned(),
                (true, Some(code)) => {
                    format!("it was held under another digest, and its last error was {code}")
                }
                (false, Some(code)) => format!("it had failed with {code}"),
                (false, None) => "it had failed".to_owned(),
            };
            format!("nothing: an operator let it be; {was}")
        }
        WaitsFor::Nothing { ended, next } => settled(ended, next.as_ref()),
        WaitsFor::Repair { sequence, code } => {
            let place = sequence.map_or_else(String::new, |at| format!(" at record {at}"));
            format!("somebody who looks at the journal: it does not replay{place} ({code})")
        }
    }
}

/// What is paused, by whom and why.
fn paused(scopes: &[PausedScope]) -> String {
    let each = scopes.iter().map(|PausedScope { scope, intervention, .. }| {
        let (by, why) = (intervention.by.as_str(), intervention.why.as_str());
        format!("{scope} (paused by {by}: {why})")
    });
    each.collect::<Vec<_>>().join(" and ")
}

fn settled(ended: &str, next: Option<&Next>) -> String {
    let mut text = format!("nothing: it is settled, {ended}");
    let more = match next {
        Some(Next { flow, id, state: Some(state) }) => {
            format!("; flow {} has it now as {id}, {state}", flow.name())
        }
        Some(Next { flow, id, state: None }) => {
            format!("; flow {} takes it over as {id} and does not have it yet", flow.name())
        }
        None => return text,
    };
    text.push_str(&more);
    text
}

/// How much of the ceiling is used, where that tells anything.
fn counted(used: Used, waits_for: &WaitsFor) -> String {
    let Used { counted, used, max } = used;
    let (most, counted) = match counted {
        Counted::Leases => ("", "attempts used"),
        Counted::Failures => ("at most ", "failures in a row"),
    };
    match waits_for {
        WaitsFor::Lease { .. } | WaitsFor::BackOff { .. } | WaitsFor::Operator { .. } => {
            format!("; {used} of {most}{max} {counted}")
        }
        WaitsFor::FirstAttempt
        | WaitsFor::Poll { .. }
        | WaitsFor::Change { .. }
        | WaitsFor::Digest { .. }
        | WaitsFor::Pause
        | WaitsFor::LetBe { .. }
        | WaitsFor::Nothing { .. }
        | WaitsFor::Repair { .. } => String::new(),
    }
}

fn lost_in_a_row(lost: Lost) -> String {
    let of = lost.max.map_or_else(String::new, |max| format!(" of {max}"));
    let leases = if lost.max.unwrap_or(lost.lost) == 1 { "lease" } else { "leases" };
    format!("; {}{of} {leases} lost in a row, to processes that died or hung", lost.lost)
}
