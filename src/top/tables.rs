//! The parts of the screen, as lines.
//!
//! Owns words, order and columns. A colour never stands alone: what it says is in the words beside it.

use super::figures::{age, columns, count, sparkline, sum, wrapped};
use super::reading::{Happened, History, Said};
use crate::overview::{BUCKETS, DestinationOverview, FlowOverview, PausedOverview, StuckRecord};
use crate::pages::Tone;
use crate::times::to_the_second;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

/// Columns from which on there is room for bars.
const BARS_FROM: usize = 72;
/// Columns from which on a destination has one line.
const DESTINATION_FROM: usize = 60;
/// Columns the names and figures of a flow take.
const FIGURES: usize = 48;
/// Columns of a sum beside its bars, and the gaps before both.
const SUM: usize = 8;

/// How something that stands like this is set.
pub(super) fn style(tone: Tone) -> Style {
    match tone {
        Tone::Fine => Style::new().fg(Color::Green),
        Tone::Waiting => Style::new().fg(Color::Yellow),
        Tone::Trouble => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        Tone::Quiet => Style::new().add_modifier(Modifier::DIM),
    }
}

/// A line that says what follows.
pub(super) fn title(text: impl Into<String>) -> Line<'static> {
    Line::styled(text.into(), Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED))
}

/// A text in a column; one that is too long loses its end.
fn left(text: &str, width: usize) -> String {
    let mut kept: String = text.chars().take(width).collect();
    while columns(&kept) > width {
        kept.pop();
    }
    let gap = width - columns(&kept);
    kept + &" ".repeat(gap)
}

/// A figure in a column.
fn right(text: &str, width: usize) -> String {
    format!("{text:>width$}")
}

fn dashed(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

/// Whether the records of each state are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counts {
    Told,
    /// Where there is no room for them.
    LeftOut,
}

/// Every flow.
pub(super) fn flows(flows: &[FlowOverview], width: usize, counts: Counts) -> Vec<Line<'static>> {
    let bars = bars(width);
    let heading = match bars {
        Some(bars) => format!(
            "{} {} {:>5} {:>6} {:>9} {:>4}  {}  retried",
            left("flow", 12),
            left("state", 7),
            "due",
            "oldest",
            "in flight",
            "held",
            left(if bars < 8 { "settled" } else { "settled 10min" }, bars + SUM - 2),
        ),
        None => format!("{} {}  due   age run held", left("flow", 12), left("state", 7)),
    };
    let mut lines = vec![title(heading)];
    for flow in flows {
        lines.push(flow_line(flow, bars));
        if counts == Counts::Told {
            lines.extend(counts_line(flow, bars.is_none()));
        }
    }
    lines
}

/// Columns of the bars of a flow, where there is room.
fn bars(width: usize) -> Option<usize> {
    (width >= BARS_FROM).then(|| ((width - FIGURES) / 2 - SUM).min(BUCKETS))
}

fn flow_line(flow: &FlowOverview, bars: Option<usize>) -> Line<'static> {
    let (state, tone) = flow.status.told();
    let oldest = dashed(flow.oldest_due_age_seconds.map(age));
    let figures = [flow.due, flow.in_flight, flow.held].map(count);
    let [due, in_flight, held] = &figures;
    let mut spans =
        vec![Span::raw(left(&flow.flow, 12) + " "), Span::styled(left(state, 7), style(tone))];
    match bars {
        Some(bars) => {
            spans.push(Span::raw(format!(" {due:>5} {oldest:>6} {in_flight:>9} {held:>4}")));
            spans.push(recent(Tone::Fine, &flow.throughput, bars));
            spans.push(recent(Tone::Waiting, &flow.retries, bars));
        }
        None => spans.push(Span::raw(format!(" {due:>4} {oldest:>5} {in_flight:>3} {held:>4}"))),
    }
    Line::from(spans)
}

/// Bars and their sum, so that nobody has to see the bars.
fn recent(tone: Tone, buckets: &[u64], width: usize) -> Span<'static> {
    let bars = left(&sparkline(buckets, width), width);
    Span::styled(format!("  {bars} {}", right(&count(sum(buckets)), SUM - 3)), style(tone))
}

/// The records in each state, and the last ten minutes where there are no bars.
fn counts_line(flow: &FlowOverview, without_bars: bool) -> Option<Line<'static>> {
    let counts = flow.counts.iter().filter(|(_, count)| **count > 0);
    let mut said: Vec<_> = counts.map(|(state, number)| format!("{state} {number}")).collect();
    if flow.quarantined > 0 {
        said.push(format!("quarantined {}", flow.quarantined));
    }
    let [settled, retried] = [&flow.throughput, &flow.retries].map(|buckets| sum(buckets));
    if without_bars && settled.max(retried) > 0 {
        said.push(format!("10 min: settled {settled}, retried {retried}"));
    }
    (!said.is_empty()).then(|| Line::styled(format!("  {}", said.join(", ")), style(Tone::Quiet)))
}

/// The other sides.
pub(super) fn destinations(sides: &[DestinationOverview], width: usize) -> Vec<Line<'static>> {
    if sides.is_empty() {
        return Vec::new();
    }
    let wide = width >= DESTINATION_FROM;
    let mut heading = format!("{} {}", left("destination", 11), left("state", 20));
    heading += if wide { " in flight waiting opens failures in a row" } else { " running" };
    let mut lines = vec![title(heading)];
    for side in sides {
        let (state, tone) = side.state.told();
        let in_flight = format!("{}/{}", count(side.in_flight), count(side.in_flight_max));
        let name = Span::raw(left(&side.name, 11) + " ");
        let state = Span::styled(left(state, 20), style(tone));
        if wide {
            let (waiting, failures) = (count(side.waiting), failures(side));
            let opens = dashed(side.opens_in_seconds.map(age));
            let figures = format!(" {in_flight:>9} {waiting:>7} {opens:>5} {failures}");
            lines.push(Line::from(vec![name, state, Span::raw(figures)]));
            continue;
        }
        let whole = Line::from(vec![name, state, Span::raw(format!(" {in_flight:>7}"))]);
        let mut more = Vec::new();
        if whole.width() > width {
            more.push(format!("in flight {in_flight}"));
        }
        if side.waiting > 0 {
            more.push(format!("waiting {}", count(side.waiting)));
        }
        if let Some(seconds) = side.opens_in_seconds {
            more.push(format!("opens in {}", age(seconds)));
        }
        if side.failures_in_a_row > 0 {
            more.push(format!("failures {}", failures(side)));
        }
        lines.push(whole);
        if !more.is_empty() {
            lines.extend(indented(&more.join(", "), 2, width));
        }
    }
    lines
}

/// How many calls failed in a row, and how the last one did.
fn failures(side: &DestinationOverview) -> String {
    let code = side.last_error_code.as_ref();
    count(side.failures_in_a_row) + &code.map_or_else(String::new, |it| format!(", last {it}"))
}

/// What an operator paused.
pub(super) fn paused(paused: &[PausedOverview], at: f64, width: usize) -> Vec<Line<'static>> {
    if paused.is_empty() {
        return Vec::new();
    }
    let heading = wrapped("paused; goes on with POST /v1/resume at the door", width);
    let mut lines: Vec<_> = heading.into_iter().map(title).collect();
    for PausedOverview { scope, since, by, why } in paused {
        let said = format!("paused {scope} for {} by {by}: {why}", age(at - since));
        lines.extend(
            wrapped(&said, width).into_iter().map(|it| Line::styled(it, style(Tone::Waiting))),
        );
    }
    lines
}

/// A stuck record on a line, or on more where it is too narrow; without a width it is always one.
pub(super) fn stuck(
    record: &StuckRecord,
    at: f64,
    selected: bool,
    width: Option<usize>,
) -> Vec<Line<'static>> {
    let mark = if selected { '>' } else { ' ' };
    let name = format!("{mark} {} ", named(record));
    let state = Span::styled(record.state.name(), style(Tone::Trouble));
    let mut rest = record.code.as_ref().map(|code| format!(" {code}")).unwrap_or_default();
    if let Some(since) = record.since {
        rest += &format!(", {} ago", age(at - since));
    }
    let line = Line::from(vec![Span::raw(name.clone()), state.clone(), Span::raw(rest.clone())]);
    let lines = match width {
        Some(width) if line.width() > width => {
            let mut lines: Vec<_> =
                wrapped(name.trim_end(), width).into_iter().map(Line::raw).collect();
            lines.push(Line::from(vec![Span::raw("  "), state, Span::raw(rest)]));
            lines
        }
        Some(_) | None => vec![line],
    };
    if !selected {
        return lines;
    }
    lines.into_iter().map(|it| it.style(Style::new().add_modifier(Modifier::BOLD))).collect()
}

/// A stuck record's flow and identity.
pub(super) fn named(record: &StuckRecord) -> String {
    format!("{} {}", record.flow, record.id.as_deref().unwrap_or("-"))
}

/// Why a record is stuck and what to type; without a width every line is as long as it is.
pub(super) fn details(record: &StuckRecord, width: Option<usize>) -> Vec<Line<'static>> {
    let broken = |text: &str| match width {
        Some(width) => wrapped(text, width.saturating_sub(4).max(1)),
        None => vec![text.to_owned()],
    };
    let why = broken(&record.why).into_iter();
    let action = broken(&record.action).into_iter();
    let indented = |text: String| format!("    {text}");
    why.map(|text| Line::raw(indented(text)))
        .chain(action.map(|text| Line::styled(indented(text), Style::new().fg(Color::Cyan))))
        .collect()
}

/// What is said of a record, each thing by its name; names take `names` columns where there is room.
pub(super) fn members(members: &[Said], names: usize, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for Said { name, said } in members {
        if width > names * 2 {
            let mut parts = wrapped(said, width - names - 1).into_iter();
            let first = parts.next().unwrap_or_default();
            let head = Span::styled(left(name, names) + " ", style(Tone::Quiet));
            lines.push(Line::from(vec![head, Span::raw(first)]));
            lines.extend(parts.map(|part| Line::raw(" ".repeat(names + 1) + &part)));
        } else {
            if !name.is_empty() {
                lines.push(Line::styled(name.clone(), style(Tone::Quiet)));
            }
            lines.extend(indented(said, 2, width));
        }
    }
    lines
}

/// What happened to a record, the oldest first, after what is not among it.
pub(super) fn happened(history: &History, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for (number, where_they_are) in
        [(history.archived, "in archives"), (history.earlier, "in the journal, and not shown here")]
    {
        if number > 0 {
            let told = format!("{number} earlier: {where_they_are}");
            lines.extend(wrapped(&told, width).into_iter().map(Line::raw));
        }
    }
    for Happened { at, event, error_code, by, why, due_at } in &history.events {
        // A requeue for later has a name of its own, as an event.
        let event = due_at.map_or(event.as_str(), |_| "requeued");
        let mut told = format!("{} {event}", to_the_second(*at));
        if let Some(due) = due_at {
            told += &format!(" due {}", to_the_second(*due));
        }
        if let Some(code) = error_code {
            told += &format!(" {code}");
        }
        if let (Some(by), Some(why)) = (by, why) {
            told += &format!(" by {by}: {why}");
        }
        // What does not fit stands further in, so that the times are seen at a glance.
        let mut parts = wrapped(&told, width.saturating_sub(2).max(1)).into_iter();
        lines.extend(parts.next().map(Line::raw));
        lines.extend(parts.map(|part| Line::raw(format!("  {part}"))));
    }
    lines
}

/// A text in lines that stand so many columns further in.
fn indented(text: &str, by: usize, width: usize) -> Vec<Line<'static>> {
    let parts = wrapped(text, width.saturating_sub(by).max(1)).into_iter();
    parts.map(|part| Line::raw(" ".repeat(by) + &part)).collect()
}
