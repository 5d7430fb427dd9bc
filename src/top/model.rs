//! What the screen shows, and what a key does to it.
//!
//! Owns what is known of the engine, what is selected or opened, whether the screen is frozen, and which
//! questions follow from that. Must not know how anything looks.

use super::reading::{self, DoorFault, History, Reply};
use crate::overview::{Overview, StuckRecord};
use ratatui::crossterm::event::{Event as Input, KeyCode, KeyModifiers};
use std::cell::Cell;

/// How far a page key goes.
const PAGE: isize = 10;

/// A key, by what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// Ends it.
    Quit,
    /// Closes the record, or ends it where none is open.
    Back,
    /// One up.
    Up,
    /// One down.
    Down,
    /// Ten up.
    PageUp,
    /// Ten down.
    PageDown,
    /// Opens the record that is selected.
    Open,
    /// Freezes the screen, or lets it go on.
    Freeze,
}

/// What an input of the terminal is for; `None` for everything that has no meaning here.
#[must_use]
pub fn key(input: &Input) -> Option<Key> {
    let pressed = input.as_key_event().filter(|pressed| !pressed.is_release())?;
    let control = pressed.modifiers.contains(KeyModifiers::CONTROL);
    let code = pressed.code;
    if control {
        return (code == KeyCode::Char('c')).then_some(Key::Quit);
    }
    let keys = [
        (KeyCode::Char('q'), Key::Quit),
        (KeyCode::Esc, Key::Back),
        (KeyCode::Up, Key::Up),
        (KeyCode::Down, Key::Down),
        (KeyCode::PageUp, Key::PageUp),
        (KeyCode::PageDown, Key::PageDown),
        (KeyCode::Enter, Key::Open),
        (KeyCode::Char('p'), Key::Freeze),
    ];
    keys.into_iter().find(|(known, _)| *known == code).map(|(_, key)| key)
}

/// Something to ask a door. `Debug` shows no id.
#[derive(Clone, PartialEq, Eq)]
pub enum Question {
    /// How everything stands.
    Overview,
    /// All there is to say of one record.
    Record {
        /// Its flow.
        flow: String,
        /// Its identity.
        id: String,
    },
}

impl Question {
    /// About a record of the overview; `None` without an identity, and for one that would not be a part
    /// of a path as it is written.
    fn about(record: &StuckRecord) -> Option<Self> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
        let part = |part: &str| !matches!(part, "" | "." | "..") && part.bytes().all(plain);
        let id = record.id.as_ref().filter(|id| id.split('/').all(part))?;
        part(&record.flow).then(|| Self::Record { flow: record.flow.clone(), id: id.clone() })
    }

    /// The path of its request.
    #[must_use]
    pub fn path(&self) -> String {
        match self {
            Self::Overview => "/v1/overview".to_owned(),
            Self::Record { flow, id } => format!("/v1/{flow}/{id}/history"),
        }
    }
}

impl std::fmt::Debug for Question {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Overview => "Overview",
            Self::Record { .. } => "Record(..)",
        })
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A question was asked.
    Heard {
        /// Which.
        question: Question,
        /// The answer; `None` when none came.
        reply: Option<Reply>,
    },
    /// A key was pressed.
    Pressed(Key),
}

/// What is to be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing.
    Stay,
    /// The questions of [`Model::questions`], at once.
    Ask,
    /// It is over.
    Quit,
}

/// What is known of the record that is open.
pub(super) enum Told {
    /// Nothing yet.
    NotYet,
    /// There is no such record.
    Missing,
    /// All there is to say of it.
    All(History),
}

/// The record that is open.
pub(super) struct Opened {
    /// What it is, as it was when it was opened.
    pub(super) record: StuckRecord,
    pub(super) told: Told,
    /// Lines of it that are above the screen.
    scrolled: usize,
    /// How many may be, as it was drawn last: only there it is known how many lines it takes.
    scrolled_max: Cell<usize>,
    question: Question,
}

impl Opened {
    /// Lines above a screen on which `lines` of all its lines find room.
    pub(super) fn scrolled(&self, all: usize, lines: usize) -> usize {
        self.scrolled_max.set(all.saturating_sub(lines));
        self.scrolled.min(self.scrolled_max.get())
    }

    fn scroll(&mut self, by: isize) {
        let most = self.scrolled_max.get();
        self.scrolled = self.scrolled.min(most).saturating_add_signed(by).min(most);
    }
}

/// What the screen shows.
#[derive(Default)]
pub struct Model {
    pub(super) overview: Option<Overview>,
    pub(super) fault: Option<DoorFault>,
    pub(super) frozen: bool,
    /// Place of the selected record among the stuck ones.
    pub(super) selected: usize,
    pub(super) opened: Option<Opened>,
}

impl Model {
    /// Nothing is known yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What is wrong with the door, as far as it was asked.
    #[must_use]
    pub fn fault(&self) -> Option<DoorFault> {
        self.fault
    }

    /// How everything stands, as far as it was told.
    #[must_use]
    pub fn overview(&self) -> Option<&Overview> {
        self.overview.as_ref()
    }

    /// What to ask now. A frozen screen asks about nothing but a record that was opened since.
    #[must_use]
    pub fn questions(&self) -> Vec<Question> {
        let mut questions = Vec::new();
        if !self.frozen {
            questions.push(Question::Overview);
        }
        if let Some(opened) = &self.opened
            && (!self.frozen || matches!(opened.told, Told::NotYet))
        {
            questions.push(opened.question.clone());
        }
        questions
    }

    /// Takes in what happened.
    pub fn take(&mut self, event: Event) -> Next {
        match event {
            Event::Heard { question: Question::Overview, reply } => {
                self.stand(reply.as_ref());
                Next::Stay
            }
            Event::Heard { question, reply } => {
                self.tell(&question, reply.as_ref());
                Next::Stay
            }
            Event::Pressed(key) => self.press(key),
        }
    }

    fn stand(&mut self, reply: Option<&Reply>) {
        if self.frozen {
            return; // asked before
        }
        match reading::overview(reply) {
            Ok(overview) => {
                self.fault = None;
                let selected = self.selected().map(|record| (&record.flow, &record.id));
                let again = selected.and_then(|selected| {
                    overview.stuck.iter().position(|it| (&it.flow, &it.id) == selected)
                });
                let last = overview.stuck.len().saturating_sub(1);
                self.selected = again.unwrap_or(self.selected.min(last));
                self.overview = Some(overview);
            }
            Err(fault) => self.fault = Some(fault),
        }
    }

    fn tell(&mut self, question: &Question, reply: Option<&Reply>) {
        let Some(opened) = self.opened.as_mut().filter(|it| it.question == *question) else {
            return; // it was closed meanwhile
        };
        match reading::history(reply) {
            Ok(Some(history)) => opened.told = Told::All(history),
            Ok(None) => opened.told = Told::Missing,
            Err(fault) => self.fault = Some(fault),
        }
    }

    /// The record that is selected.
    fn selected(&self) -> Option<&StuckRecord> {
        self.overview.as_ref().and_then(|overview| overview.stuck.get(self.selected))
    }

    fn press(&mut self, key: Key) -> Next {
        match key {
            Key::Quit => return Next::Quit,
            Key::Back => {
                if self.opened.take().is_none() {
                    return Next::Quit;
                }
            }
            Key::Up => self.go(-1),
            Key::Down => self.go(1),
            Key::PageUp => self.go(-PAGE),
            Key::PageDown => self.go(PAGE),
            Key::Open => {
                let asked = self.selected().and_then(|record| {
                    Question::about(record).map(|question| (record.clone(), question))
                });
                if let (Some((record, question)), None) = (asked, &self.opened) {
                    let (told, scrolled, scrolled_max) = (Told::NotYet, 0, Cell::new(0));
                    self.opened = Some(Opened { record, told, scrolled, scrolled_max, question });
                    return Next::Ask;
                }
            }
            Key::Freeze => {
                self.frozen = !self.frozen;
                return if self.frozen { Next::Stay } else { Next::Ask };
            }
        }
        Next::Stay
    }

    /// Goes down by so many lines of the record that is open, or so many records.
    fn go(&mut self, by: isize) {
        match &mut self.opened {
            Some(opened) => opened.scroll(by),
            None => {
                let stuck = self.overview.as_ref().map_or(0, |overview| overview.stuck.len());
                let to = self.selected.saturating_add_signed(by);
                self.selected = to.min(stuck.saturating_sub(1));
            }
        }
    }
}
