//! What a victim is to do, and how one is started.
//!
//! Owns the way a task travels: as JSON in an environment variable, so that the same program can be the
//! harness and its victim. Must not know how a victim ends.

use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where a victim finds its task.
pub(crate) const VARIABLE: &str = "LEASEHOLD_CRASH_TASK";

/// The script of one life: open, register, deliver, close.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Task {
    /// The journal's folder.
    pub(crate) journal: PathBuf,
    /// Number of the first change that is registered.
    pub(crate) first: u64,
    /// How many are registered.
    pub(crate) records: u64,
    /// Whether everything that is due is claimed and settled then, one by one.
    pub(crate) deliver: bool,
    /// Whether a step is acknowledged before it is taken: the lie that the harness must catch.
    pub(crate) ack_early: bool,
    /// Whether commits are flushed and not synced.
    pub(crate) process_safe: bool,
    /// A folder for a first journal, opened and closed before: see [`super::trace::Counting`].
    pub(crate) single_writer: Option<PathBuf>,
}

impl Task {
    /// Opens the journal and closes it.
    pub(crate) fn opening(journal: &Path) -> Self {
        Self {
            journal: journal.to_path_buf(),
            first: 0,
            records: 0,
            deliver: false,
            ack_early: false,
            process_safe: false,
            single_writer: None,
        }
    }

    /// Registers changes number `first` to `first + records - 1` in between.
    pub(crate) fn registering(journal: &Path, first: u64, records: u64) -> Self {
        Self { first, records, ..Self::opening(journal) }
    }

    /// Delivers everything that is due, after whatever else it does.
    pub(crate) fn delivering(self) -> Self {
        Self { deliver: true, ..self }
    }
}

/// Starts victims: this same program, with arguments that lead it to [`super::victim::take_part`].
#[derive(Debug, Clone)]
pub(crate) struct Launcher {
    program: PathBuf,
    arguments: Vec<String>,
}

impl Launcher {
    /// Victims are this program with these arguments.
    ///
    /// # Errors
    /// When the system does not tell which program this is.
    pub(crate) fn own(arguments: &[&str]) -> io::Result<Self> {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Ok(Self { program: std::env::current_exe()?, arguments })
    }

    /// A victim that is ready to be started, below the command `under` (a tracer, or nothing).
    ///
    /// # Errors
    /// When the journal's path is not text.
    pub(crate) fn command(&self, under: &[String], task: &Task) -> io::Result<Command> {
        let mut command = match under.split_first() {
            None => Command::new(&self.program),
            Some((tracer, options)) => {
                let mut command = Command::new(tracer);
                command.args(options).arg(&self.program);
                command
            }
        };
        let task = serde_json::to_string(task).map_err(io::Error::other)?;
        command.args(&self.arguments).env(VARIABLE, task).env_remove("RUST_LOG");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    /// Runs a victim that nobody disturbs; gives what it acknowledged.
    ///
    /// # Errors
    /// When it does not end well: the ground for everything else is missing then.
    pub(crate) fn undisturbed(&self, under: &[String], task: &Task) -> io::Result<String> {
        let output = self.command(under, task)?.output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(io::Error::other(format!("an undisturbed victim failed: {said}")));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
