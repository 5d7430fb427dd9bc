//! What is seen of the engine's process, and the file it goes to.

use crate::Failed;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

/// One second.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) second: u64,
    pub(crate) enqueued: u64,
    pub(crate) cms_requests: u64,
    pub(crate) receiver_requests: u64,
    /// Of the engine; `None` while there is none.
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) open_files: Option<u64>,
    pub(crate) shut: bool,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Samples {
    file: File,
    all: Vec<Sample>,
}

impl Samples {
    pub(crate) fn create(path: &Path) -> Result<Self, Failed> {
        Ok(Self { file: File::create(path)?, all: Vec::new() })
    }

    pub(crate) fn add(&mut self, sample: Sample) -> Result<(), Failed> {
        writeln!(self.file, "{}", serde_json::to_string(&sample)?)?;
        self.all.push(sample);
        Ok(())
    }

    pub(crate) fn all(&self) -> &[Sample] {
        &self.all
    }

    /// The most requests one side saw in one of so many seconds from this one on.
    pub(crate) fn most_within(&self, second: u64, seconds: u64) -> u64 {
        let within = self.all.iter().filter(|it| (second..second + seconds).contains(&it.second));
        within.map(|it| it.cms_requests.max(it.receiver_requests)).max().unwrap_or_default()
    }

    /// What is seen a tenth of the way in, and at the end.
    pub(crate) fn ends(&self, of: impl Fn(&Sample) -> Option<u64>) -> [Option<u64>; 2] {
        let (early, late) = (&self.all[self.all.len() / 10..], &self.all[..]);
        [early.iter().find_map(&of), late.iter().rev().find_map(&of)]
    }
}

/// The samples of an earlier run.
pub(crate) fn read(path: &Path) -> Result<Vec<Sample>, Failed> {
    let text = std::fs::read_to_string(path)?;
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// Memory of a process, where the system tells.
pub(crate) fn resident_bytes(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

/// Open files of a process, where the system tells.
pub(crate) fn open_files(process: u32) -> Option<u64> {
    Some(std::fs::read_dir(format!("/proc/{process}/fd")).ok()?.count() as u64)
}
