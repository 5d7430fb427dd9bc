//! Every call of a scenario that touches the journal, in turn: the victim is killed there, or the call
//! fails.
//!
//! Owns the scenarios and the verdicts. Must not know strace's options.
//!
//! For each point the prepared folder is copied, a victim is run on the copy and meets its fault there, and
//! the copy is checked: it opens, every acknowledged step is in it, at most one more, the audit is clean.
//! A victim whose call failed has to end by itself, with an error code or, where the fault is of no
//! consequence, well.
//!
//! A call that fails can fail once in every thread that counts so far: strace counts per thread.

use super::facts::{Facts, Verdict, check};
use super::task::{Launcher, Task};
use super::trace::{self, Action, Counting, POOLED, Point};
use clap::ValueEnum;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use tempfile::TempDir;

/// What the victim does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scenario {
    /// Makes a journal where none was.
    Create,
    /// Registers changes in a journal; only what comes after opening it.
    Append,
    /// Claims and settles what is registered; only what comes after opening.
    Deliver,
    /// Opens a journal that was closed, and closes it.
    Open,
    /// Opens a journal whose victim was killed with a lease out, and killed again inside sled's own
    /// recovery.
    Recover,
}

/// What is tried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// What the victim does.
    pub(crate) scenario: Scenario,
    /// What is done to it.
    pub(crate) action: Action,
    /// Changes that are registered or delivered.
    pub(crate) records: u64,
    /// Whether a second victim meets the same point in what the first one left.
    pub(crate) double: bool,
    /// Whether the victim lies.
    pub(crate) ack_early: bool,
}

/// What came of it. A clean report has nothing in its last three lists.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    scenario: Scenario,
    action: Action,
    /// Calls that touch the journal, in an undisturbed run.
    pub(crate) calls: usize,
    /// Of these, calls that no point meets.
    pub(crate) hidden: Vec<String>,
    /// Victims that were started on a copy.
    pub(crate) tried: usize,
    /// Victims that met their fault.
    pub(crate) met: usize,
    /// Faults after which the victim ended well.
    pub(crate) went_on: Vec<String>,
    /// Points after which something acknowledged was gone.
    pub(crate) lost: Vec<String>,
    /// Points after which the journal did not open.
    pub(crate) unopenable: Vec<String>,
    /// Points at which the victim ended with something else than a code.
    pub(crate) without_code: Vec<String>,
}

impl Report {
    /// Whether nothing went wrong, and something was tried.
    pub(crate) fn is_clean(&self) -> bool {
        let wrong = self.lost.len() + self.unopenable.len() + self.without_code.len();
        wrong == 0 && self.met > 0
    }
}

/// Tries every point of a plan.
///
/// # Errors
/// When the harness cannot do its work; what a victim does is in the report.
pub(crate) fn run(launcher: &Launcher, plan: Plan) -> io::Result<Report> {
    let stage = Stage::new()?;
    let prepared = stage.prepare(launcher, &plan)?;
    let bench = Bench { launcher, plan, stage, prepared };
    let (points, calls, hidden) = bench.points()?;
    let mut report = Report {
        scenario: plan.scenario,
        action: plan.action,
        calls,
        hidden,
        tried: 0,
        met: 0,
        went_on: Vec::new(),
        lost: Vec::new(),
        unopenable: Vec::new(),
        without_code: Vec::new(),
    };
    for point in &points {
        bench.attempt(point, &mut report)?;
    }
    Ok(report)
}

/// The folders of one run.
struct Stage {
    _folder: TempDir,
    root: PathBuf,
}

/// What the prepared folder holds.
struct Prepared {
    promised: Facts,
    /// Lives that were cut off while it was prepared.
    unsaid: u64,
}

impl Stage {
    fn new() -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        // strace shows paths without links.
        let root = folder.path().canonicalize()?;
        Ok(Self { _folder: folder, root })
    }

    /// Where the victims work; the journal and its anchor are the only things in it.
    fn site(&self) -> PathBuf {
        self.root.join("site")
    }

    fn journal(&self) -> PathBuf {
        self.site().join("journal")
    }

    fn log(&self) -> PathBuf {
        self.root.join("log")
    }

    /// Puts a fresh copy of the prepared folder to the site.
    fn reset(&self) -> io::Result<()> {
        remove(&self.site())?;
        remove(&self.root.join("first"))?;
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(self.root.join("prepared")).arg(self.site());
        if copy.status()?.success() { Ok(()) } else { Err(io::Error::other("cp failed")) }
    }

    /// The same journal, in a victim whose pool has one thread.
    fn task(&self, task: &Task, counting: Counting) -> io::Result<Task> {
        let single_writer = match counting {
            Counting::OnPath => None,
            Counting::SingleWriter => {
                let first = self.root.join("first");
                std::fs::create_dir(&first)?;
                Some(first.join("journal"))
            }
        };
        Ok(Task { single_writer, ..task.clone() })
    }

    fn prepare(&self, launcher: &Launcher, plan: &Plan) -> io::Result<Prepared> {
        std::fs::create_dir(self.site())?;
        let mut prepared = Prepared { promised: Facts::default(), unsaid: 0 };
        let journal = self.journal();
        let mut said = String::new();
        match plan.scenario {
            Scenario::Create => {}
            Scenario::Deliver => {
                said +=
                    &launcher.undisturbed(&[], &Task::registering(&journal, 0, plan.records))?;
            }
            Scenario::Append | Scenario::Open | Scenario::Recover => {
                said +=
                    &launcher.undisturbed(&[], &Task::registering(&journal, 0, 1).delivering())?;
            }
        }
        if plan.scenario == Scenario::Recover {
            // Three registrations are synced; the fourth sync is that of a claim. Then sled's recovery is
            // cut off before it has renamed its snapshot.
            let database = journal.join("db").join("db");
            let cut = trace::killing("fdatasync", 4, Some(&database), &self.log());
            said += &killed(launcher, &cut, &Task::registering(&journal, 1, 3).delivering())?;
            let cut = trace::killing("?rename,?renameat,?renameat2", 1, None, &self.log());
            said += &killed(launcher, &cut, &Task::opening(&journal))?;
            prepared.unsaid = 1;
        }
        prepared.promised.acknowledge(&said)?;
        std::fs::rename(self.site(), self.root.join("prepared"))?;
        Ok(prepared)
    }
}

/// Runs a victim that has to be killed; gives what it said.
fn killed(launcher: &Launcher, under: &[String], task: &Task) -> io::Result<String> {
    let output = launcher.command(under, task)?.output()?;
    if !was_killed(output.status) {
        return Err(io::Error::other("the victim to prepare with was not killed"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn remove(folder: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Everything that stays the same from point to point.
struct Bench<'a> {
    launcher: &'a Launcher,
    plan: Plan,
    stage: Stage,
    prepared: Prepared,
}

impl Bench<'_> {
    fn task(&self) -> Task {
        let journal = self.stage.journal();
        let task = match self.plan.scenario {
            Scenario::Create | Scenario::Open | Scenario::Recover => Task::opening(&journal),
            Scenario::Append => Task::registering(&journal, 1, self.plan.records),
            Scenario::Deliver => Task::opening(&journal).delivering(),
        };
        Task { ack_early: self.plan.ack_early, ..task }
    }

    /// The points, the number of calls, and the calls that no point meets.
    fn points(&self) -> io::Result<(Vec<Point>, usize, Vec<String>)> {
        let open_too = match self.plan.scenario {
            Scenario::Create | Scenario::Open | Scenario::Recover => true,
            Scenario::Append | Scenario::Deliver => false,
        };
        let mut points = Vec::new();
        let mut met: BTreeMap<String, bool> = BTreeMap::new();
        for counting in Counting::ALL {
            self.stage.reset()?;
            let task = self.stage.task(&self.task(), counting)?;
            let log = self.stage.log();
            self.launcher.undisturbed(&trace::counting(counting, &log), &task)?;
            let log = std::fs::read_to_string(log)?;
            for call in trace::calls(&log, &self.stage.site(), counting) {
                let pooled = POOLED.contains(&call.name.as_str());
                // Which thread of the pool takes a write is chance, but for the first on its path.
                let here = match counting {
                    Counting::OnPath => !pooled || call.nth == 1,
                    Counting::SingleWriter => pooled,
                };
                if !here || !(open_too || call.after_open) {
                    continue;
                }
                *met.entry(call.label()).or_default() |= call.met_first;
                if call.met_first {
                    points.push(Point { call, counting });
                }
            }
        }
        let calls = met.len();
        let hidden = met.into_iter().filter(|(_, met)| !met).map(|(label, _)| label).collect();
        Ok((points, calls, hidden))
    }

    fn attempt(&self, point: &Point, report: &mut Report) -> io::Result<()> {
        let label = point.call.label();
        self.stage.reset()?;
        let lives = if self.plan.double { 2 } else { 1 };
        let mut promised = self.prepared.promised.clone();
        for _ in 0..lives {
            remove(&self.stage.root.join("first"))?;
            let task = self.stage.task(&self.task(), point.counting)?;
            let (site, log) = (self.stage.site(), self.stage.log());
            let under = trace::injecting(point, self.plan.action, &site, &log);
            let output = self.launcher.command(&under, &task)?.output()?;
            promised.acknowledge(&String::from_utf8_lossy(&output.stdout))?;
            let injected = trace::injected(point, &std::fs::read_to_string(log)?);
            report.tried += 1;
            match end(self.plan.action, output.status, injected) {
                End::Unmet => {}
                End::Met => report.met += 1,
                End::WentOn => {
                    report.met += 1;
                    report.went_on.push(label.clone());
                }
                End::WithoutCode => {
                    report.without_code.push(format!("{label}: {}", output.status));
                }
            }
        }
        match check(&self.stage.journal(), &promised, self.prepared.unsaid + lives)? {
            Verdict::Whole(_) => {}
            Verdict::Lost(what) => report.lost.push(format!("{label}: {what}")),
            Verdict::Unopenable(code) => report.unopenable.push(format!("{label}: {code}")),
        }
        Ok(())
    }
}

/// How a victim ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Well, since its point did not come: threads do not take the same turns each time.
    Unmet,
    /// Killed, or with a code after its fault.
    Met,
    /// Well, after its fault.
    WentOn,
    /// With a panic, a signal, or not at all.
    WithoutCode,
}

fn end(action: Action, status: ExitStatus, injected: bool) -> End {
    match (action, status.code()) {
        (Action::Kill, _) if was_killed(status) => End::Met,
        (Action::Kill, Some(0)) => End::Unmet,
        (Action::Enospc | Action::Eio, Some(0)) if injected => End::WentOn,
        (Action::Enospc | Action::Eio, Some(0)) => End::Unmet,
        (Action::Enospc | Action::Eio, Some(3)) if injected => End::Met,
        (Action::Kill | Action::Enospc | Action::Eio, _) => End::WithoutCode,
    }
}

/// strace, and `timeout` above it, end as the victim did.
fn was_killed(status: ExitStatus) -> bool {
    status.signal() == Some(9) || status.code() == Some(137)
}
