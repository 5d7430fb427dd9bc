//! Power cuts: a victim on a file system of its own, whose image is copied at a seeded moment.
//!
//! Owns images and mounts; used by `examples/crash.rs` only, since it needs root and loop devices.
//!
//! The image file is the disk. What the victim's file system still holds in memory is not in it; what was
//! written to the loop device is, in the order in which it was written, so this disk has no volatile cache
//! of its own and a real one is worse. The victim is killed just before the copy, so that nothing is written
//! while it is made; the file system's own periodic writing is put off for longer than a victim lives. Then
//! the copy is mounted, which replays the file system's journal, and the journal in it is checked against
//! everything that was read from the victim before the copy.

use crate::crash::facts::{Facts, Verdict, check};
use crate::crash::kills::{Chance, Moment, cut_off};
use crate::crash::task::{Launcher, Task};
use serde::Serialize;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Room for some segments of sled's and the file system's own journal.
const IMAGE_BYTES: u64 = 160 * 1024 * 1024;

/// What is tried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Power cuts.
    pub(crate) cycles: u64,
    /// Of the moments.
    pub(crate) seed: u64,
    /// Changes that each victim registers and delivers, unless it is cut off before.
    pub(crate) records: u64,
    /// Whether the victims flush and do not sync: what the harness must catch.
    pub(crate) without_sync: bool,
}

/// What came of it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    seed: u64,
    without_sync: bool,
    /// Power cuts.
    cycles: u64,
    /// Victims that were cut off; the others were over before.
    killed: u64,
    /// Steps that were acknowledged before a cut.
    acknowledged: u64,
    /// Cuts after which something acknowledged was gone.
    lost: Vec<String>,
    /// Cuts after which the journal did not open.
    unopenable: Vec<String>,
}

impl Report {
    /// Nothing wrong where the victims synced; something found where they did not.
    pub(crate) fn is_as_expected(&self) -> bool {
        let fine = self.lost.is_empty() && self.unopenable.is_empty();
        self.killed > 0 && fine != self.without_sync
    }
}

/// Runs a plan; `None` where this user may not mount an image.
///
/// # Errors
/// When the harness cannot do its work; what becomes of a journal is in the report.
pub(crate) fn run(launcher: &Launcher, plan: Plan) -> io::Result<Option<Report>> {
    let Plan { cycles, seed, without_sync, .. } = plan;
    let (lost, unopenable) = (Vec::new(), Vec::new());
    let mut report =
        Report { seed, without_sync, cycles, killed: 0, acknowledged: 0, lost, unopenable };
    let mut chance = Chance(seed);
    if !has_mkfs() {
        return Ok(None);
    }
    for cycle in 0..cycles {
        let folder = tempfile::tempdir()?;
        let image = folder.path().join("disk");
        make_image(&image)?;
        let Some(disk) = Mounted::new(&image, &folder.path().join("mounted"))? else {
            let refused = || io::Error::other("an image cannot be mounted any more");
            return if cycle == 0 { Ok(None) } else { Err(refused()) };
        };
        // Every other cut hits a journal that had a whole life before, safe on the disk.
        let grown = cycle % 2 == 1;
        let promised = one_life(launcher, plan, &disk, grown, &mut chance, &mut report)?;
        let copy = folder.path().join("copy");
        done(
            Command::new("cp").args(["--reflink=auto", "--sparse=always"]).arg(&image).arg(&copy),
        )?;
        drop(disk);
        let Some(disk) = Mounted::new(&copy, &folder.path().join("after"))? else {
            return Err(io::Error::other("the copy cannot be mounted"));
        };
        match check(&disk.journal(), &promised, 1)? {
            Verdict::Whole(_) => {}
            Verdict::Lost(what) => report.lost.push(format!("{cycle}: {what}")),
            Verdict::Unopenable(code) => report.unopenable.push(format!("{cycle}: {code}")),
        }
    }
    Ok(Some(report))
}

/// Lets a victim work on a disk up to a moment; gives what was acknowledged.
fn one_life(
    launcher: &Launcher,
    plan: Plan,
    disk: &Mounted,
    grown: bool,
    chance: &mut Chance,
    report: &mut Report,
) -> io::Result<Facts> {
    let Plan { records, without_sync, .. } = plan;
    let mut promised = Facts::default();
    let journal = disk.journal();
    if grown {
        let before = Task::registering(&journal, records, records).delivering();
        promised.acknowledge(&launcher.undisturbed(&[], &before)?)?;
        done(Command::new("sync").arg("-f").arg(&disk.at))?;
    }
    let task = Task::registering(&journal, 0, records).delivering();
    let task = Task { process_safe: without_sync, ..task };
    let before = promised.steps();
    let (said, killed) = cut_off(launcher, &task, Moment::draw(chance, records, false))?;
    promised.acknowledge(&said)?;
    report.killed += u64::from(killed);
    report.acknowledged += promised.steps() - before;
    Ok(promised)
}

/// An image in use as a file system, until it is dropped.
struct Mounted {
    at: PathBuf,
}

impl Mounted {
    fn new(image: &Path, at: &Path) -> io::Result<Option<Self>> {
        std::fs::create_dir(at)?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "ext4", "-o", "loop,commit=300"]).arg(image).arg(at);
        let mounted = mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        Ok(mounted.then(|| Self { at: at.to_path_buf() }))
    }

    fn journal(&self) -> PathBuf {
        self.at.join("journal")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(error) = done(Command::new("umount").arg(&self.at)) {
            eprintln!("an image stays mounted: {error}");
        }
    }
}

fn has_mkfs() -> bool {
    let mut version = Command::new("mkfs.ext4");
    version.arg("-V").stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn make_image(path: &Path) -> io::Result<()> {
    File::create(path)?.set_len(IMAGE_BYTES)?;
    done(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(path))
}

fn done(command: &mut Command) -> io::Result<()> {
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{command:?}: {status}"))) }
}
