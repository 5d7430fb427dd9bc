//! The page itself: what stands on it, in which order.
//!
//! Owns its sentences. Everything from outside goes through the template, which escapes it.

use super::facts::{Facts, Verdict};
use super::sections;
use crate::audit::Finding;
use crate::audit::explain::NOT_COMPARED;
use crate::pages::{Column, Tone, badge, commands, facts as named, notice, page, table};
use crate::times::{exact, to_the_second};
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::explain::action::quoted;
use leasehold_actors::{carried, codec};
use leasehold_journal::{archive, base, frame};
use maud::{Markup, html};

/// Findings that are listed.
const FINDINGS_MAX: usize = 100;
/// Paused scopes that the headline names.
const SCOPES_MAX: usize = 3;

/// What a report is about, beside its facts.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    /// Its heading.
    pub title: &'a str,
    /// The journal's folder or the archive, as it was named; only its last part is printed.
    pub name: &'a str,
    /// Whether it is an archive.
    pub is_archive: bool,
    /// When it was made, and what leases and due times are judged by.
    pub now: Timestamp,
}

/// The page.
#[must_use]
pub fn document(facts: &Facts, about: &About<'_>) -> String {
    let body = html! {
        h1 { (about.title) }
        (verdict(facts))
        (summary(facts, about))
        @if !facts.pauses.scopes.is_empty() {
            h2 { "What is paused" }
            (sections::paused(facts, about.now))
        }
        h2 { "Does it verify?" }
        (audited(facts, about))
        @if let Some(health) = &facts.health {
            h2 { "Health of each flow" }
            (sections::health(health))
        }
        h2 { "Activity" }
        (sections::activity(facts))
        h2 { "Attempts" }
        (sections::attempts(facts))
        (sections::leases(facts))
        h2 { "Failures" }
        (sections::failures(facts))
        h2 { "What is not done, and why" }
        (sections::stuck(facts, about.now))
        h2 { "How to verify this report" }
        (verification(facts, about))
        h2 { "Versions of the formats" }
        (formats())
    };
    page(about.title, &body).into_string()
}

/// What it comes to, in one sentence.
#[must_use]
pub fn headline(facts: &Facts) -> String {
    let paused = paused(facts);
    match facts.verdict() {
        Verdict::Done => {
            "All is well: everything verifies and every record is at its end.".to_owned()
        }
        Verdict::OnItsWay => {
            let open = sections::records(facts.stuck.open);
            format!("All is well: everything verifies, {open} on the way.")
        }
        Verdict::Paused => {
            let waits = match facts.stuck.paused {
                0 => "No record waits".to_owned(),
                1 => "1 record waits".to_owned(),
                waiting => format!("{waiting} records wait"),
            };
            format!("Everything verifies{paused}. {waits} for that.")
        }
        Verdict::NeedsSomebody => {
            format!("Everything verifies, and something needs somebody{paused}.")
        }
        Verdict::DoesNotVerify => format!("Not everything in this journal verifies{paused}."),
    }
}

/// The scopes that are paused, as a sentence ends; the first ones, where there are many.
fn paused(facts: &Facts) -> String {
    let scopes = &facts.pauses.scopes;
    if scopes.is_empty() {
        return String::new();
    }
    let first = scopes.iter().take(SCOPES_MAX).map(|paused| paused.scope.to_string());
    let more = match scopes.len().saturating_sub(SCOPES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("; paused: {}{more}", first.collect::<Vec<_>>().join(", "))
}

/// What could not be told for want of a configuration, where that matters.
#[must_use]
pub fn not_compared(facts: &Facts) -> Option<&'static str> {
    (facts.stuck.digest_unknown > 0).then_some(NOT_COMPARED)
}

fn verdict(facts: &Facts) -> Markup {
    let tone = match facts.verdict() {
        Verdict::Done | Verdict::OnItsWay => Tone::Fine,
        Verdict::Paused => Tone::Waiting,
        Verdict::NeedsSomebody | Verdict::DoesNotVerify => Tone::Trouble,
    };
    let troubles = sections::troubles(facts);
    let more = html! {
        @if !troubles.is_empty() {
            ul { @for trouble in &troubles { li { (trouble) } } }
        }
        @if let Some(said) = not_compared(facts) {
            p { (said) }
        }
    };
    notice(tone, &headline(facts), &more)
}

fn summary(facts: &Facts, about: &About<'_>) -> Markup {
    let audit = &facts.audit;
    let unknown = || html! { span.pale { "unknown" } };
    let code = |text: &Option<String>| match text {
        Some(text) => html! { code { (text) } },
        None => unknown(),
    };
    let span = match facts.span_seconds {
        Some((first, last)) => {
            html! { (to_the_second(first)) " to " (to_the_second(last)) }
        }
        None => html! { span.pale { "no events" } },
    };
    named(&[
        ("Journal", code(&audit.journal)),
        ("Head", code(&audit.head)),
        ("at record", html! { (audit.sequence) }),
        ("Records verified", html! { (audit.records) " in " (audit.frames) " frames" }),
        ("First to last event", span),
        ("Judged as of", html! { (exact(about.now.seconds())) }),
        ("Made by", html! { "leasehold " (env!("CARGO_PKG_VERSION")) }),
    ])
}

fn audited(facts: &Facts, about: &About<'_>) -> Markup {
    let anchors = if about.is_archive { "" } else { " compared its end with the anchors," };
    let audit = &facts.audit;
    let hidden = audit.findings.len().saturating_sub(FINDINGS_MAX);
    html! {
        p {
            @if audit.clean {
                (badge(Tone::Fine, "clean")) " "
            } @else {
                (badge(Tone::Trouble, "not clean")) " "
            }
            "The audit verified the hash of every frame and the chain across them," (anchors) " replayed \
             every record, checked every invariant, and counted the health of each flow anew."
        }
        @if audit.archived > 0 {
            p { "Records 1 to " (audit.archived) " are in archives and were not verified here." }
        }
        @if !audit.findings.is_empty() {
            (table("What does not hold", &[
                ("code", Column::Name),
                ("record", Column::Number),
                ("flow", Column::Text),
                ("id", Column::Text),
                ("what it means", Column::Text),
            ], &audit.findings.iter().take(FINDINGS_MAX).map(finding).collect::<Vec<_>>()))
        }
        @if hidden > 0 {
            p { (hidden) " more findings are not listed; the audit prints all of them." }
        }
    }
}

fn finding(finding: &Finding) -> Vec<Markup> {
    let Finding { code, sequence, flow, id, message } = finding;
    vec![
        html! { (code) },
        html! { @if let Some(sequence) = sequence { (sequence) } },
        html! { (flow.unwrap_or_default()) },
        html! { (id.as_deref().unwrap_or_default()) },
        html! { (message) },
    ]
}

fn verification(facts: &Facts, about: &About<'_>) -> Markup {
    let name = std::path::Path::new(about.name).file_name();
    // What has no last part, such as "..", is named by the reader.
    let name = name.map_or_else(|| "JOURNAL".to_owned(), |name| quoted(&name.to_string_lossy()));
    let head = facts
        .audit
        .head
        .as_deref()
        .map_or_else(String::new, |head| format!(" --expect-head {head}"));
    let archives = if facts.audit.archived > 0 { " --archives DIR" } else { "" };
    let lines = if about.is_archive {
        vec![format!("leasehold verify {name}{archives}{head}")]
    } else {
        vec![
            format!("leasehold audit {name}{archives}{head}"),
            format!("leasehold export {name} copy.leasehold"),
            format!("leasehold verify copy.leasehold{archives}{head}"),
        ]
    };
    html! {
        p {
            "The commands below read the journal again. They answer clean only if the head above was once \
             its head: a journal that was rewritten or cut before it does not have it any more. It may \
             have grown since. This page itself proves nothing; keep its head where whoever can write the \
             journal cannot write."
        }
        (commands(&lines))
        p { "Why one record stands where it stands:" }
        (commands(&[format!("leasehold explain {name} FLOW ID")]))
    }
}

/// The four letters of a file's kind.
fn letters(magic: [u8; 4]) -> String {
    magic.iter().map(|byte| char::from(*byte)).collect()
}

fn formats() -> Markup {
    named(&[
        ("Frame", html! { "version " (frame::VERSION) }),
        ("Event", html! { "up to version " (codec::VERSION) }),
        ("Image of archived events", html! { "version " (carried::VERSION) }),
        ("Base", html! { (letters(base::MAGIC)) }),
        ("Archive", html! { (letters(archive::MAGIC)) ", " (letters(archive::MAGIC_LATER)) }),
    ])
}
