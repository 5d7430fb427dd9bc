//! `kill -9` at seeded moments, again and again on one journal.
//!
//! Owns the moments: after so many acknowledgements were read, and then so many turns of an empty loop, which
//! puts the kill anywhere in the step that follows, in opening and in closing. Nothing waits for a clock.

use super::facts::{Facts, Verdict, check};
use super::task::{Launcher, Task};
use serde::Serialize;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdout};
use tempfile::TempDir;

/// Lives on one journal before the next begins with a new one.
const LIVES: u64 = 25;
/// Turns of the empty loop at most, as a power of two: about the time of a whole life.
const SPIN_BITS_MAX: u64 = 22;

/// What is tried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Lives.
    pub(crate) cycles: u64,
    /// Of the moments.
    pub(crate) seed: u64,
    /// Changes that each life registers and delivers, unless it is killed before.
    pub(crate) records: u64,
    /// Whether the victims lie; then they are killed at once.
    pub(crate) ack_early: bool,
}

/// What came of it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    seed: u64,
    /// Lives.
    pub(crate) cycles: u64,
    /// Lives that were cut off; the others were over before.
    pub(crate) killed: u64,
    /// Steps that were acknowledged.
    pub(crate) acknowledged: u64,
    /// Lives of which something acknowledged was gone.
    pub(crate) lost: Vec<String>,
    /// Lives after which the journal did not open.
    pub(crate) unopenable: Vec<String>,
}

impl Report {
    /// Whether nothing went wrong, and something was tried.
    pub(crate) fn is_clean(&self) -> bool {
        self.lost.is_empty() && self.unopenable.is_empty() && self.killed > 0
    }
}

/// Runs a plan.
///
/// # Errors
/// When the harness cannot do its work; what becomes of a journal is in the report.
pub(crate) fn run(launcher: &Launcher, plan: Plan) -> io::Result<Report> {
    run_in(launcher, plan, &|folder| folder.path().join("journal"))
}

/// The same with journals at other places; each has a folder of its own.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_in(
    launcher: &Launcher,
    plan: Plan,
    place: &dyn Fn(&TempDir) -> PathBuf,
) -> io::Result<Report> {
    let Plan { cycles, seed, records, ack_early } = plan;
    let (lost, unopenable) = (Vec::new(), Vec::new());
    let mut report = Report { seed, cycles, killed: 0, acknowledged: 0, lost, unopenable };
    let mut chance = Chance(seed);
    let mut folder = tempfile::tempdir()?;
    let mut journal = place(&folder);
    let mut promised = Facts::default();
    for cycle in 0..cycles {
        if cycle % LIVES == 0 {
            folder = tempfile::tempdir()?;
            journal = place(&folder);
            promised = Facts::default();
        }
        let task = Task::registering(&journal, cycle * records, records).delivering();
        let task = Task { ack_early, ..task };
        let moment = Moment::draw(&mut chance, records, ack_early);
        let before = promised.steps();
        let (said, killed) = cut_off(launcher, &task, moment)?;
        promised.acknowledge(&said)?;
        report.killed += u64::from(killed);
        report.acknowledged += promised.steps() - before;
        match check(&journal, &promised, 1)? {
            Verdict::Whole(found) => {
                promised = found;
                continue;
            }
            Verdict::Lost(what) => report.lost.push(format!("{cycle}: {what}")),
            Verdict::Unopenable(code) => report.unopenable.push(format!("{cycle}: {code}")),
        }
        // A later life on the same journal would only say it again.
        folder = tempfile::tempdir()?;
        journal = place(&folder);
        promised = Facts::default();
    }
    Ok(report)
}

/// When a life is cut off.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    acknowledgements: u64,
    turns: u64,
}

impl Moment {
    /// Anywhere in a life of so many records: before the first word, or after any of them.
    pub(crate) fn draw(chance: &mut Chance, records: u64, at_once: bool) -> Self {
        // Opened, then registered, claimed and settled for each record, then closed.
        let acknowledgements = chance.below(3 * records + 2);
        let bits = chance.below(SPIN_BITS_MAX);
        let turns = if at_once { 0 } else { chance.below(1 << bits) };
        Self { acknowledgements, turns }
    }
}

/// Runs a victim up to a moment and kills it; gives what it said, and whether it was still alive.
pub(crate) fn cut_off(
    launcher: &Launcher,
    task: &Task,
    moment: Moment,
) -> io::Result<(String, bool)> {
    let mut child = launcher.command(&[], task)?.spawn()?;
    let heard = listen_and_kill(&mut child, moment);
    // Waited for whatever was heard, so that no victim is left behind.
    let status = child.wait()?;
    let said = heard?;
    match (status.signal(), status.code()) {
        (Some(9), _) => Ok((said, true)),
        (_, Some(0)) => Ok((said, false)),
        _ => Err(io::Error::other(format!("a victim ended by itself: {status}"))),
    }
}

fn listen_and_kill(child: &mut Child, moment: Moment) -> io::Result<String> {
    let output = child.stdout.take().ok_or_else(|| io::Error::other("a pipe was asked for"))?;
    let mut output = BufReader::new(output);
    let mut said = String::new();
    read_until(&mut output, moment.acknowledgements, &mut said)?;
    for _ in 0..moment.turns {
        std::hint::spin_loop();
    }
    child.kill()?;
    // What it said before it was killed is still in the pipe.
    output.read_to_string(&mut said)?;
    Ok(said)
}

fn read_until(
    output: &mut BufReader<ChildStdout>,
    acknowledgements: u64,
    said: &mut String,
) -> io::Result<()> {
    let mut seen = 0;
    while seen < acknowledgements {
        let before = said.len();
        if output.read_line(said)? == 0 {
            return Ok(());
        }
        seen += u64::from(said[before..].starts_with("ack "));
    }
    Ok(())
}

/// Random numbers that are the same for the same seed (SplitMix64).
#[derive(Debug, Clone)]
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    /// A number below `bound`, which is more than 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}
