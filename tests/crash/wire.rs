//! Every message between a victim and its server, in turn: the victim is killed there, or the connection is
//! cut before or behind it.
//!
//! Owns the wire: a victim reaches its server through it alone, and it counts what passes. What it is asked
//! for is done to the message with one number. Must not know what a message says.

use super::facts::{Facts, Verdict, check};
use super::task::{Launcher, Task};
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What is done at a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// The victim is killed, and the message goes nowhere.
    Kill,
    /// The connection ends, and the message goes nowhere: a request, or an answer, that was never given.
    CutBefore,
    /// The message arrives, and the connection ends: the next answer is lost.
    CutBehind,
}

/// What the victim does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// Makes a journal.
    Create,
    /// Opens one, and closes it.
    Open,
    /// Registers changes; only what comes after opening.
    Append,
    /// Claims and settles what is registered; only what comes after opening.
    Deliver,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Messages of an undisturbed life that were points.
    pub(crate) points: u64,
    /// Victims that met their fault.
    pub(crate) met: u64,
    pub(crate) lost: Vec<String>,
    pub(crate) unopenable: Vec<String>,
    /// Ended with something else than a code.
    pub(crate) without_code: Vec<String>,
}

impl Report {
    pub(crate) fn is_clean(&self) -> bool {
        let wrong = self.lost.len() + self.unopenable.len() + self.without_code.len();
        wrong == 0 && self.met > 0
    }
}

/// Messages at the end of a life that are tried where only its last steps count.
const LAST: u64 = 23;

/// The wire.
struct Wire {
    server: SocketAddr,
    seen: AtomicU64,
    at: Option<(u64, Action)>,
    victim: Mutex<Option<u32>>,
}

impl Wire {
    /// Stands between a port of its own, which is answered, and the server.
    fn stretch(server: SocketAddr, at: Option<(u64, Action)>) -> io::Result<(Arc<Self>, u16)> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let (seen, victim) = (AtomicU64::new(0), Mutex::new(None));
        let wire = Arc::new(Self { server, seen, at, victim });
        let carrier = Arc::clone(&wire);
        std::thread::spawn(move || {
            for near in listener.incoming() {
                let (Ok(near), Ok(far)) = (near, TcpStream::connect(carrier.server)) else {
                    continue;
                };
                carrier.carry(&near, &far);
                carrier.carry(&far, &near);
            }
        });
        Ok((wire, port))
    }

    fn carry(self: &Arc<Self>, from: &TcpStream, to: &TcpStream) {
        let (Ok(mut from), Ok(mut to)) = (from.try_clone(), to.try_clone()) else { return };
        let wire = Arc::clone(self);
        std::thread::spawn(move || {
            let mut bytes = vec![0; 1 << 17];
            while let Ok(read) = from.read(&mut bytes) {
                if read == 0 || !wire.pass(&mut to, &bytes[..read]) {
                    break;
                }
            }
            for end in [&from, &to] {
                drop(end.shutdown(Shutdown::Both));
            }
        });
    }

    /// Lets one message pass, or does what is to be done; whether the connection goes on.
    fn pass(&self, to: &mut TcpStream, message: &[u8]) -> bool {
        let number = self.seen.fetch_add(1, Ordering::SeqCst) + 1;
        let action = self.at.filter(|(at, _)| *at == number).map(|(_, action)| action);
        match action {
            None => to.write_all(message).is_ok(),
            Some(Action::CutBefore) => false,
            Some(Action::CutBehind) => {
                drop(to.write_all(message));
                false
            }
            Some(Action::Kill) => {
                let victim = *self.victim.lock().unwrap_or_else(PoisonError::into_inner);
                let victim = victim.expect("it speaks, so it was started").to_string();
                drop(Command::new("kill").args(["-9", &victim]).status());
                false
            }
        }
    }
}

/// One plan.
pub(crate) struct Plan<'a> {
    pub(crate) launcher: &'a Launcher,
    pub(crate) scenario: Scenario,
    pub(crate) action: Action,
    /// Whether the victim lies.
    pub(crate) ack_early: bool,
    pub(crate) server: SocketAddr,
    /// The URL of a new schema at a port.
    pub(crate) url: &'a dyn Fn(u16) -> (PathBuf, PathBuf),
}

impl Plan<'_> {
    /// Tries every point.
    pub(crate) fn run(&self) -> io::Result<Report> {
        let last = self.life(None)?.seen;
        // Connections and what shows the engine to the others do not come in the same order each time, so the
        // end of a life is where its last steps are, and not behind so many messages.
        let first = match self.scenario {
            Scenario::Create | Scenario::Open => 1,
            Scenario::Append | Scenario::Deliver => last.saturating_sub(LAST).max(1),
        };
        let mut report = Report { points: last + 1 - first, ..Report::default() };
        for point in first..=last {
            self.attempt(point, &mut report)?;
        }
        Ok(report)
    }

    fn attempt(&self, point: u64, report: &mut Report) -> io::Result<()> {
        let Lived { seen, said, status, journal, mut promised } =
            self.life(Some((point, self.action)))?;
        report.met += u64::from(seen >= point);
        let killed = status.signal() == Some(9);
        if !killed && !matches!(status.code(), Some(0 | 3)) {
            report.without_code.push(format!("{point}: {status}"));
        }
        promised.acknowledge(&said)?;
        match check(&journal, &promised, 1)? {
            Verdict::Whole(_) => {}
            Verdict::Lost(what) => report.lost.push(format!("{point}: {what}")),
            Verdict::Unopenable(code) => report.unopenable.push(format!("{point}: {code}")),
        }
        Ok(())
    }

    /// One life on a new journal.
    fn life(&self, at: Option<(u64, Action)>) -> io::Result<Lived> {
        let (wire, port) = Wire::stretch(self.server, at)?;
        let (journal, through) = (self.url)(port);
        let mut promised = Facts::default();
        match self.scenario {
            Scenario::Create => {}
            Scenario::Open | Scenario::Append => {
                self.prepare(&Task::opening(&journal), &mut promised)?
            }
            Scenario::Deliver => {
                self.prepare(&Task::registering(&journal, 0, 1), &mut promised)?;
            }
        }
        let task = self.task(&through);
        let mut child = self.launcher.command(&[], &task)?.spawn()?;
        *wire.victim.lock().unwrap_or_else(PoisonError::into_inner) = Some(child.id());
        let said = heard(&mut child);
        let status = child.wait()?;
        Ok(Lived { seen: wire.seen.load(Ordering::SeqCst), said: said?, status, journal, promised })
    }

    fn task(&self, journal: &Path) -> Task {
        let task = match self.scenario {
            Scenario::Create | Scenario::Open => Task::opening(journal),
            Scenario::Append => Task::registering(journal, 0, 2),
            Scenario::Deliver => Task::opening(journal).delivering(),
        };
        Task { ack_early: self.ack_early, ..task }
    }

    fn prepare(&self, task: &Task, promised: &mut Facts) -> io::Result<()> {
        let mut child = self.launcher.command(&[], task)?.spawn()?;
        let said = heard(&mut child);
        let status = child.wait()?;
        promised.acknowledge(&said?)?;
        if status.success() { Ok(()) } else { Err(io::Error::other("nobody disturbed it")) }
    }
}

/// A life that is over.
struct Lived {
    seen: u64,
    said: String,
    status: ExitStatus,
    /// Where it is found without the wire.
    journal: PathBuf,
    promised: Facts,
}

fn heard(child: &mut Child) -> io::Result<String> {
    let output = child.stdout.take().ok_or_else(|| io::Error::other("a pipe was asked for"))?;
    let (mut output, mut said) = (output, String::new());
    output.read_to_string(&mut said)?;
    Ok(said)
}
