//! Where everything stands: on a terminal, and as text.
//!
//! Owns what comes first and what gives way where there is no room: first the records of each state,
//! then what is above the stuck records. Pure: the same model is the same screen.

use super::figures::wrapped;
use super::model::{Model, Opened, Told};
use super::tables::{
    Counts, destinations, details, flows, members, named, paused, stuck, style, title,
};
use crate::overview::{DestinationState, NOT_STUCK, Overview, STUCK_MAX, Standing};
use crate::pages::Tone;
use crate::times::to_the_second;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Text};

/// Lines that stuck records get on a screen that is too small for everything.
const STUCK_LINES_MIN: usize = 8;

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, model: &Model) {
    let area = frame.area();
    let width = usize::from(area.width);
    let head = head(model, width);
    let head_lines = u16::try_from(head.len()).unwrap_or(u16::MAX);
    let rows = [Constraint::Length(head_lines), Constraint::Fill(1), Constraint::Length(1)];
    let [top, middle, bottom] = Layout::vertical(rows).areas(area);
    frame.render_widget(Text::from(head), top);
    frame.render_widget(Line::styled(keys(model), style(Tone::Quiet)), bottom);
    match (&model.opened, &model.overview) {
        (Some(opened), _) => {
            let lines = record(opened, width);
            let most = lines.len().saturating_sub(usize::from(middle.height));
            let shown = lines.into_iter().skip(opened.scrolled.min(most)).collect::<Vec<_>>();
            frame.render_widget(Text::from(shown), middle);
        }
        (None, Some(overview)) => everything(frame, middle, model, overview),
        (None, None) => {}
    }
}

fn everything(frame: &mut Frame<'_>, area: Rect, model: &Model, overview: &Overview) {
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let mut list = Vec::new();
    let mut selected = 0..0;
    for (place, record) in overview.stuck.iter().enumerate() {
        let chosen = place == model.selected;
        let first = list.len();
        list.push(stuck(record, overview.at, chosen));
        if chosen {
            list.extend(details(record, Some(width)));
            selected = first..list.len();
        }
    }
    let heading = usize::from(!list.is_empty());
    let wanted = list.len() + heading;
    let mut above = upper(overview, width, Counts::Told);
    if above.len() + wanted > height {
        above = upper(overview, width, Counts::LeftOut);
    }
    let room_above = height.saturating_sub(wanted.min(STUCK_LINES_MIN));
    above.truncate(room_above);
    let room = (height - above.len()).saturating_sub(heading);
    // As far down as it takes to see all of the selected record, but never past its first line.
    let skipped = selected.end.saturating_sub(room).min(selected.start);
    if heading == 1 {
        above.push(title(stuck_title(overview)));
    }
    above.extend(list.into_iter().skip(skipped).take(room));
    frame.render_widget(Text::from(above), area);
}

/// Everything as text: what is stuck comes with all that can be done about it. Only tables keep to the
/// width, so that a command can be copied.
#[must_use]
pub fn text(model: &Model, width: u16) -> String {
    let width = usize::from(width);
    let mut lines = head(model, width);
    if let Some(overview) = &model.overview {
        lines.extend(upper(overview, width, Counts::Told));
        if !overview.stuck.is_empty() {
            lines.push(title(stuck_title(overview)));
        }
        for record in &overview.stuck {
            lines.push(stuck(record, overview.at, false));
            lines.extend(details(record, None));
        }
    }
    let texts = lines.iter().map(|line| format!("{}\n", line.to_string().trim_end()));
    texts.collect()
}

/// What is above the stuck records.
fn upper(overview: &Overview, width: usize, counts: Counts) -> Vec<Line<'static>> {
    let mut lines = flows(&overview.flows, width, counts);
    lines.extend(destinations(&overview.destinations, width));
    lines.extend(paused(&overview.paused, overview.at, width));
    lines
}

fn stuck_title(overview: &Overview) -> String {
    format!("stuck, the newest first: {}", number_of_stuck(overview))
}

/// There may be more than are told of.
fn number_of_stuck(overview: &Overview) -> String {
    let number = overview.stuck.len();
    if number < STUCK_MAX { number.to_string() } else { format!("{number} or more") }
}

/// Whether all is well, whether it is still so, and as of when.
fn head(model: &Model, width: usize) -> Vec<Line<'static>> {
    let mut said = Vec::new();
    if let Some(fault) = model.fault {
        said.push((Tone::Trouble, format!("NO ANSWER, asked again: {fault}")));
    }
    match &model.overview {
        None if model.fault.is_none() => {
            said.push((Tone::Waiting, "The door is asked.".to_owned()))
        }
        None => {}
        Some(overview) => {
            said.push(verdict(overview));
            let mode = match (model.frozen, model.fault) {
                (true, _) => "FROZEN",
                (false, Some(_)) => "OLD",
                (false, None) => "live",
            };
            let journal: String = overview.journal.id.chars().take(8).collect();
            said.push((
                Tone::Quiet,
                format!(
                    "{mode}, as of {}; journal {journal} at record {}; version {}",
                    to_the_second(overview.at),
                    overview.journal.sequence,
                    overview.version
                ),
            ));
        }
    }
    let lines = said.into_iter().flat_map(|(tone, text)| {
        wrapped(&text, width).into_iter().map(move |line| Line::styled(line, style(tone)))
    });
    lines.collect()
}

/// The answer to the first question, and what can be done.
fn verdict(overview: &Overview) -> (Tone, String) {
    let due = overview.flows.iter().fold(0, |all: u64, flow| all.saturating_add(flow.due));
    let in_flight =
        overview.flows.iter().fold(0, |all: u64, flow| all.saturating_add(flow.in_flight));
    let now = format!("{due} due now, {in_flight} in flight.");
    let blocked = overview.flows.iter().filter(|flow| flow.status == Standing::Blocked);
    let blocked: Vec<_> = blocked.map(|flow| flow.flow.as_str()).collect();
    let open = overview.destinations.iter().filter(|side| side.state == DestinationState::Open);
    let open: Vec<_> = open.map(|side| side.name.as_str()).collect();
    let scopes: Vec<_> = overview.paused.iter().map(|paused| paused.scope.as_str()).collect();
    match overview.status {
        Standing::Blocked => {
            let cause = if overview.stuck.is_empty() {
                NOT_STUCK.to_owned()
            } else {
                format!(
                    "{} stuck: type what stands below it, or let it be with dismiss.",
                    number_of_stuck(overview)
                )
            };
            (Tone::Trouble, format!("BLOCKED: {}. {cause} {now}", blocked.join(", ")))
        }
        Standing::Ok if !scopes.is_empty() => (
            Tone::Waiting,
            format!("PAUSED: {}. Nothing of it is given out. {now}", scopes.join(", ")),
        ),
        Standing::Ok if !open.is_empty() => (
            Tone::Waiting,
            format!(
                "WAITING: no call goes through to {}; one is tried by itself. {now}",
                open.join(", ")
            ),
        ),
        Standing::Ok => (Tone::Fine, format!("ALL IS WELL. {now}")),
    }
}

/// What the keys do now.
fn keys(model: &Model) -> String {
    let freeze = if model.frozen { "p go on" } else { "p freeze" };
    if model.opened.is_some() {
        format!("Esc back  arrows scroll  {freeze}  q quit")
    } else {
        format!("q quit  arrows select  Enter open  {freeze}")
    }
}

/// The record that is open.
fn record(opened: &Opened, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![title(named(&opened.record))];
    lines.extend(details(&opened.record, Some(width)));
    match &opened.told {
        Told::NotYet => lines.push(Line::raw("The door is asked.")),
        Told::Missing => lines.push(Line::raw("There is no such record.")),
        Told::Members(told) => lines.extend(members(told, width)),
    }
    lines
}
