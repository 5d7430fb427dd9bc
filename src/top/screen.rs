//! Where everything stands: on a terminal, and as text.
//!
//! Owns what comes first and what gives way where there is no room: first the records of each state,
//! then the other sides and the flows. What is paused stays, since it explains why nothing moves. Pure:
//! the same model is the same screen.

use super::figures::wrapped;
use super::model::{Model, Opened, Told};
use super::tables::{
    Counts, destinations, details, flows, happened, members, named, paused, stuck, style, title,
};
use crate::overview::{Overview, Verdict};
use crate::pages::Tone;
use crate::times::to_the_second;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Text};

/// Lines that stuck records get on a screen that is too small for everything.
const STUCK_LINES_MIN: usize = 8;
/// Columns of a name in an explanation, and in a status.
const NAMES: [usize; 2] = [12, 24];
/// Columns from which on the keys are told in whole words.
const KEYS_FROM: usize = 60;

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, model: &Model) {
    let area = frame.area();
    let width = usize::from(area.width);
    let head = head(model, width);
    let head_lines = u16::try_from(head.len()).unwrap_or(u16::MAX);
    let rows = [Constraint::Length(head_lines), Constraint::Fill(1), Constraint::Length(1)];
    let [top, middle, bottom] = Layout::vertical(rows).areas(area);
    frame.render_widget(Text::from(head), top);
    frame.render_widget(Line::styled(keys(model, width), style(Tone::Quiet)), bottom);
    match (&model.opened, &model.overview) {
        (Some(opened), _) => {
            let lines = record(opened, width);
            let above = opened.scrolled(lines.len(), usize::from(middle.height));
            let shown = lines.into_iter().skip(above).collect::<Vec<_>>();
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
        list.extend(stuck(record, overview.at, chosen, Some(width)));
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
    // What is paused comes first there, and has half of the screen for itself.
    let told_always = paused(&overview.paused, overview.at, width).len().min(height / 2);
    let room_above = height.saturating_sub(wanted.min(STUCK_LINES_MIN)).max(told_always);
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
            lines.extend(stuck(record, overview.at, false, None));
            lines.extend(details(record, None));
        }
    }
    let texts = lines.iter().map(|line| format!("{}\n", line.to_string().trim_end()));
    texts.collect()
}

/// What is above the stuck records.
fn upper(overview: &Overview, width: usize, counts: Counts) -> Vec<Line<'static>> {
    let mut lines = paused(&overview.paused, overview.at, width);
    lines.extend(flows(&overview.flows, width, counts));
    lines.extend(destinations(&overview.destinations, width));
    lines
}

fn stuck_title(overview: &Overview) -> String {
    format!("stuck, the newest first: {}", overview.number_of_stuck())
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
            let Verdict { tone, word, of, more } = overview.verdict();
            said.push((tone, format!("{}{of}. {}", word.to_uppercase(), more.join(" "))));
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

/// What the keys do now.
fn keys(model: &Model, width: usize) -> String {
    let freeze = if model.frozen { "p go on" } else { "p freeze" };
    match (model.opened.is_some(), width >= KEYS_FROM) {
        (true, true) => format!("Esc back  arrows and page keys scroll  {freeze}  q quit"),
        (true, false) => format!("Esc back  arrows  {freeze}  q quit"),
        (false, true) => format!("q quit  arrows select  Enter open  {freeze}"),
        (false, false) => format!("q quit  arrows  Enter open  {freeze}"),
    }
}

/// The record that is open.
fn record(opened: &Opened, width: usize) -> Vec<Line<'static>> {
    let mut lines: Vec<_> = wrapped(&named(&opened.record), width).into_iter().map(title).collect();
    let history = match &opened.told {
        Told::NotYet => {
            lines.extend(details(&opened.record, Some(width)));
            lines.push(Line::raw("The door is asked."));
            return lines;
        }
        Told::Missing => {
            lines.push(Line::raw("There is no such record."));
            return lines;
        }
        Told::All(history) => history,
    };
    let [explained, status] = NAMES;
    lines.extend(members(&history.explained, explained, width));
    if !history.replays {
        lines.push(Line::styled("This record does not replay.", style(Tone::Trouble)));
    }
    lines.push(title("what happened, oldest first"));
    lines.extend(happened(history, width));
    lines.push(title("as it is now"));
    lines.extend(members(&history.members(), status, width));
    lines
}
