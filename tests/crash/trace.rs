//! strace: counting the calls that touch a journal, and injecting a fault at one of them.
//!
//! Owns strace's options and what its output says. Must not know what a fault leads to.
//!
//! strace counts the calls for `when=N` per call name *and per thread*, and sled writes in a pool of seven
//! threads, of which any takes the next write. So the calls are addressed in two ways, see [`Counting`].
//! Which call of a counted run is met first is worked out from that run ([`Call::met_first`]); the ones that
//! never are stay hidden behind a call of the same kind in another thread, and are reported.
//!
//! `--seccomp-bpf` would be faster, and with it strace 6.1 injects no signal.

use clap::ValueEnum;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::process::{Command, Stdio};

/// What is done to a victim at a call, instead of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Action {
    /// `kill -9`.
    Kill,
    /// The call fails: no space is left.
    Enospc,
    /// The call fails: the disk does not answer.
    Eio,
}

/// How strace is told which call is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counting {
    /// The nth call of a name on one path. Nearly every path is touched by one thread only.
    OnPath,
    /// The nth call of a name in a victim whose pool has one thread. sled starts its pool where it first
    /// writes, and goes on with fewer threads when the system refuses some. The victim opens another
    /// journal first: the thread that opens it starts sled's opener (1), the pool (2 to 8) and the writer
    /// (9), and 3 to 8 are refused. No other thread starts that many.
    SingleWriter,
}

impl Counting {
    /// Both of them.
    pub(crate) const ALL: [Self; 2] = [Self::OnPath, Self::SingleWriter];
}

/// One call of a counted run that changes a journal, or makes a change durable.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// Its name.
    pub(crate) name: String,
    /// What it touched, below the folder in which the journal lies.
    pub(crate) path: String,
    /// Which one it is of its name and path, from 1.
    pub(crate) ordinal: u64,
    /// Which one it is as strace counts, from 1.
    pub(crate) nth: u64,
    /// Whether no other thread makes its nth call before: then it is this one that is met.
    pub(crate) met_first: bool,
    /// Whether the victim had said by then that the journal is open.
    pub(crate) after_open: bool,
}

impl Call {
    /// How it is named in a report.
    pub(crate) fn label(&self) -> String {
        let Self { name, path, ordinal, .. } = self;
        let path = if path.is_empty() { "the folder above" } else { path.trim_start_matches('/') };
        format!("{name} {path} {ordinal}")
    }
}

/// A call at which something is done to the victim.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    /// The call.
    pub(crate) call: Call,
    /// How it was counted.
    pub(crate) counting: Counting,
}

/// Every call by which a journal's files or names change, or are synced. Not all exist on every machine.
const CALLS: [&str; 19] = [
    "write",
    "pwrite64",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "ftruncate",
    "fallocate",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "mkdir",
    "mkdirat",
    "link",
    "linkat",
    "chmod",
    "fchmod",
    "openat",
];
/// Calls that sled makes in its pool.
pub(crate) const POOLED: [&str; 2] = ["pwrite64", "sync_file_range"];
/// A victim that takes longer than this hangs.
const PATIENCE_SECONDS: &str = "120";
const ONE_POOL_THREAD: &str = "inject=?clone,?clone3:error=EAGAIN:when=3..8";

/// Whether this machine has strace and lets it trace; says so where it has not.
pub(crate) fn available() -> bool {
    let mut probe = Command::new("timeout");
    probe.args([PATIENCE_SECONDS, "strace", "-f", "-qq", "-o", "/dev/null"]);
    probe.args(["-e", "trace=none", "true"]).stderr(Stdio::null());
    let there = probe.status().is_ok_and(|status| status.success());
    if !there {
        eprintln!("skipped: needs strace, and a system that lets it trace");
    }
    there
}

fn strace(log: &Path, options: &[String]) -> Vec<String> {
    // The strings are long enough for an acknowledgement and short enough for everything else.
    let start = ["timeout", PATIENCE_SECONDS, "strace", "-f", "-qq", "-y", "-s", "16", "-o"];
    let mut command: Vec<String> = start.iter().map(|word| (*word).to_owned()).collect();
    command.push(log.display().to_string());
    command.extend(options.iter().cloned());
    command
}

fn option(words: String) -> [String; 2] {
    ["-e".to_owned(), words]
}

/// The tracer for a counted run.
pub(crate) fn counting(counting: Counting, log: &Path) -> Vec<String> {
    let calls = CALLS.map(|name| format!("?{name}")).join(",");
    match counting {
        Counting::OnPath => strace(log, &option(format!("trace={calls}"))),
        Counting::SingleWriter => {
            let trace = option(format!("trace={calls},?clone,?clone3"));
            strace(log, &[trace, option(ONE_POOL_THREAD.to_owned())].concat())
        }
    }
}

/// The tracer that does something to the victim at a point; `folder` is where the journal lies.
pub(crate) fn injecting(point: &Point, action: Action, folder: &Path, log: &Path) -> Vec<String> {
    let Call { name, path, nth, .. } = &point.call;
    let fault = match action {
        Action::Kill => "signal=SIGKILL",
        Action::Enospc => "error=ENOSPC",
        Action::Eio => "error=EIO",
    };
    let inject = option(format!("inject={name}:{fault}:when={nth}"));
    match point.counting {
        Counting::OnPath => {
            let only = ["-P".to_owned(), format!("{}{path}", folder.display())];
            strace(log, &[only, option(format!("trace={name}")), inject].concat())
        }
        Counting::SingleWriter => {
            let trace = option(format!("trace={name},?clone,?clone3"));
            strace(log, &[trace, option(ONE_POOL_THREAD.to_owned()), inject].concat())
        }
    }
}

/// The tracer that kills a victim at the nth call of any of these names in a thread, on `path` only where
/// one is given.
pub(crate) fn killing(names: &str, nth: u64, path: Option<&Path>, log: &Path) -> Vec<String> {
    let mut options = Vec::new();
    if let Some(path) = path {
        options.extend(["-P".to_owned(), path.display().to_string()]);
    }
    options.extend(option(format!("trace={names}")));
    options.extend(option(format!("inject={names}:signal=SIGKILL:when={nth}")));
    strace(log, &options)
}

/// Whether the log of an injecting run says that the call failed as it was told to.
pub(crate) fn injected(point: &Point, log: &str) -> bool {
    log.lines().any(|line| line.contains(&point.call.name) && line.contains("(INJECTED)"))
}

/// Reads the log of a counted run.
pub(crate) fn calls(log: &str, folder: &Path, counting: Counting) -> Vec<Call> {
    let folder = folder.display().to_string();
    let mut after_open = false;
    let mut ordinals: HashMap<(&str, &str), u64> = HashMap::new();
    let mut counts: HashMap<(&str, &str, &str), u64> = HashMap::new();
    let mut met: HashSet<(&str, &str, u64)> = HashSet::new();
    let mut calls = Vec::new();
    for line in log.lines() {
        let Some((thread, rest)) = line.trim_start().split_once(' ') else { continue };
        // The second half of a call that was interrupted by another thread's is no call of its own.
        let Some((name, arguments)) = rest.trim_start().split_once('(') else { continue };
        if !CALLS.contains(&name) {
            continue;
        }
        after_open |= name == "write" && arguments.contains("ack opened");
        let path = below(arguments, &folder);
        let counted = match counting {
            Counting::OnPath => path,
            Counting::SingleWriter => Some(""),
        };
        let Some(counted) = counted else { continue };
        let nth = counts.entry((thread, name, counted)).or_default();
        *nth += 1;
        let met_first = met.insert((name, counted, *nth));
        let Some(path) = path else { continue };
        // Opening what is there changes nothing.
        if name == "openat" && !arguments.contains("O_CREAT") {
            continue;
        }
        let ordinal = ordinals.entry((name, path)).or_default();
        *ordinal += 1;
        calls.push(Call {
            name: name.to_owned(),
            path: path.to_owned(),
            ordinal: *ordinal,
            nth: *nth,
            met_first,
            after_open,
        });
    }
    calls
}

/// The first path below `folder` that a call names, without the folder; it ends with a quotation mark or,
/// where it stands for an open file, with a bracket.
fn below<'a>(arguments: &'a str, folder: &str) -> Option<&'a str> {
    let (_, rest) = arguments.split_once(folder)?;
    let path = rest.split(['"', '>']).next()?;
    (path.is_empty() || path.starts_with('/')).then_some(path)
}
