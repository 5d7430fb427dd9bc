//! `leasehold top`: how a running engine stands, in a terminal.
//!
//! Owns the terminal, the questions to the door and the time between them. What is shown is decided in
//! [`crate::top`].

use super::failure::Failed;
use super::serve::token;
use super::{Ended, print, signals};
use crate::clock::{Clock as _, Sleep, SystemClock};
use crate::http::address::Origin;
use crate::http::transport::Transport;
use crate::overview::{Overview, Standing};
use crate::top::{Event, Key, Model, Next, Question, REPLY_BYTES_MAX, Reply, draw, key, text};
use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::{event, terminal};
use secrecy::SecretString;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use tokio::sync::mpsc;

/// Longest a door may take to answer, in seconds.
const TIMEOUT_SECONDS: f64 = 10.0;
/// Columns of a text that goes to no terminal.
const COLUMNS: u16 = 100;
/// Keys that were pressed while the screen was drawn.
const KEYS_MAX: usize = 64;

/// Show how a running engine stands, live, in the terminal: what is blocked, why, and what to type.
///
/// It asks the door of `leasehold serve`. Per flow it shows what is due, since when, in flight and held,
/// and what settled and was retried in the last ten minutes; then the other sides, what is paused, and
/// each stuck record with its command. Enter opens the selected record: why it stands where it stands, and
/// what happened to it. p freezes the screen, q ends it.
/// When the door goes away it says so and keeps asking. With --once it prints that as text and ends, with
/// exit code 1 when something is blocked.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  leasehold top --socket demo-journal.sock")]
pub(super) struct TopArguments {
    /// The Unix socket that `leasehold serve` listens at
    #[arg(long, value_name = "PATH", required_unless_present = "url", conflicts_with = "url")]
    socket: Option<PathBuf>,
    /// Its address, such as http://127.0.0.1:8790; https where a proxy is in front of it
    #[arg(long, value_name = "URL", requires = "token_file")]
    url: Option<String>,
    /// File with the token of the door
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Time between two questions, in seconds, 0.1 to 3600
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = every)]
    every: f64,
    /// Print how it stands now, and end; needs no terminal
    #[arg(long)]
    once: bool,
}

fn every(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=3_600.0).contains(seconds));
    seconds.ok_or_else(|| "0.1 to 3600 seconds".to_owned())
}

/// A door of another process.
#[derive(Clone)]
struct Asked {
    transport: Transport,
    token: Option<(String, SecretString)>,
}

impl Asked {
    fn of(arguments: &TopArguments) -> Result<Self, Failed> {
        const URL: Failed = Failed::Usage(
            "--url is https, or http to this machine (localhost, 127.0.0.1 or [::1]), without a path",
        );
        let transport = match (&arguments.url, &arguments.socket) {
            (Some(url), _) => {
                let origin = Origin::new(url, true).map_err(|_| URL)?;
                Transport::new(origin, TIMEOUT_SECONDS).map_err(|_| Failed::Runtime)?
            }
            (None, Some(path)) => at_socket(path)?,
            (None, None) => return Err(Failed::Usage("--socket PATH or --url URL")),
        };
        let token = token(arguments.token_file.as_deref())?.map(|token| token.header());
        Ok(Self { transport, token })
    }

    async fn ask(self, questions: Vec<Question>) -> Vec<Event> {
        let mut heard = Vec::new();
        for question in questions {
            let headers = self.token.iter().cloned().collect();
            let answer = self.transport.get(&question.path(), headers, REPLY_BYTES_MAX).await;
            let reply = answer.ok().map(|it| Reply { status: it.status, body: it.body });
            heard.push(Event::Heard { question, reply });
        }
        heard
    }
}

#[cfg(unix)]
fn at_socket(path: &Path) -> Result<Transport, Failed> {
    Transport::at_socket(path, TIMEOUT_SECONDS).map_err(|_| Failed::Runtime)
}

#[cfg(not(unix))]
fn at_socket(_path: &Path) -> Result<Transport, Failed> {
    Err(Failed::Usage("this system has no such sockets: --url URL"))
}

pub(super) async fn run(arguments: TopArguments) -> Result<Ended, Failed> {
    let door = Asked::of(&arguments)?;
    let mut model = Model::new();
    for event in door.clone().ask(model.questions()).await {
        model.take(event);
    }
    // Who cannot be asked at all was named wrongly; who goes away later may come back.
    if let Some(fault) = model.fault() {
        return Err(Failed::Asked(fault));
    }
    let on_terminal = std::io::stdout().is_terminal();
    if arguments.once {
        let size = on_terminal.then(terminal::size).and_then(Result::ok);
        print::text(&text(&model, size.map_or(COLUMNS, |(columns, _)| columns)))?;
        return Ok(ended(model.overview()));
    }
    if !on_terminal {
        return Err(Failed::Usage("the output is no terminal; --once needs none"));
    }
    const UNUSABLE: Failed = Failed::Output("the terminal cannot be used");
    let watched = match ratatui::try_init() {
        Ok(mut screen) => watch(&mut screen, &door, model, arguments.every).await,
        Err(_) => Err(UNUSABLE), // perhaps half of it was done
    };
    ratatui::try_restore().map_err(|_| UNUSABLE)?;
    watched.map(|()| Ended::Fine)
}

fn ended(overview: Option<&Overview>) -> Ended {
    match overview.map(|overview| overview.status) {
        Some(Standing::Ok) | None => Ended::Fine,
        Some(Standing::Blocked) => Ended::Findings,
    }
}

/// What is waited for beside keys.
enum Turn {
    Asking(Pin<Box<dyn Future<Output = Vec<Event>> + Send>>),
    Waiting(Sleep),
}

impl Turn {
    fn ask(door: &Asked, model: &Model) -> Self {
        Self::Asking(Box::pin(door.clone().ask(model.questions())))
    }

    /// Answers what was heard; `None` when it is time to ask.
    async fn over(&mut self) -> Option<Vec<Event>> {
        match self {
            Self::Asking(asking) => Some(asking.await),
            Self::Waiting(waiting) => {
                waiting.await;
                None
            }
        }
    }
}

/// Asks and draws until a key or a signal ends it.
async fn watch(
    screen: &mut DefaultTerminal,
    door: &Asked,
    mut model: Model,
    every_seconds: f64,
) -> Result<(), Failed> {
    let mut keys = keys()?;
    let mut stopped = pin!(async {
        if signals::asked_to_stop().await.is_err() {
            // No signals are to be had; keys are.
            std::future::pending::<()>().await;
        }
    });
    let mut turn = Turn::Waiting(SystemClock.sleep(every_seconds));
    loop {
        screen
            .draw(|frame| draw(frame, &model))
            .map_err(|_| Failed::Output("the terminal is closed"))?;
        tokio::select! {
            () = &mut stopped => return Ok(()),
            pressed = keys.recv() => {
                let pressed = pressed.ok_or(Failed::Output("the terminal gives no keys"))?;
                match pressed.map_or(Next::Stay, |key| model.take(Event::Pressed(key))) {
                    Next::Stay => {}
                    Next::Ask => turn = Turn::ask(door, &model),
                    Next::Quit => return Ok(()),
                }
            }
            heard = turn.over() => turn = match heard {
                None => Turn::ask(door, &model),
                Some(events) => {
                    for event in events {
                        model.take(event);
                    }
                    Turn::Waiting(SystemClock.sleep(every_seconds))
                }
            },
        }
    }
}

/// What is pressed from now on; `None` for what only makes it necessary to draw again. The thread waits
/// for a key that may never come, so nobody waits for the thread: it ends with the process.
fn keys() -> Result<mpsc::Receiver<Option<Key>>, Failed> {
    let (send, keys) = mpsc::channel(KEYS_MAX);
    let read = move || {
        while let Ok(input) = event::read() {
            if send.blocking_send(key(&input)).is_err() {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("leasehold-keys".to_owned()).spawn(read);
    thread.map_err(|_| Failed::Runtime)?;
    Ok(keys)
}
