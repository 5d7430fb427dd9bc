//! The engines that deliver: processes that are started and killed.

use crate::Failed;
use leasehold::sandbox::DEMO_KEY;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The processes, and the folder they work in.
pub(crate) struct Engines {
    program: PathBuf,
    journal: String,
    folder: TempDir,
    running: Vec<Running>,
    killed: u64,
    sockets: u64,
}

struct Running {
    child: Child,
    under: Option<String>,
}

impl Engines {
    pub(crate) fn prepare(program: &Path, journal: &str, origin: &str) -> Result<Self, Failed> {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("key"), DEMO_KEY)?;
        let delays = "base_delay_seconds = 0.5\nmax_delay_seconds = 5.0\nlease_seconds = 10.0\n";
        let configuration = format!(
            "unclean_losses_max = 0\n[cms]\norigin = \"{origin}\"\nallow_http_loopback = true\n\
             timeout_seconds = 4.0\nin_flight_max = 256\n\n\
             [cms.signing]\nkey_id = \"sandbox\"\nkey_file = \"key\"\n\n\
             [dispatch]\nmax_attempts = 20\nin_flight = 48\n{delays}\n\
             [lifecycle]\nmax_failures = 20\nin_flight = 48\n{delays}poll_interval_seconds = 1.0\n"
        );
        fs::write(folder.path().join("scale.toml"), configuration)?;
        let (program, journal) = (fs::canonicalize(program)?, journal.to_owned());
        Ok(Self { program, journal, folder, running: Vec::new(), killed: 0, sockets: 0 })
    }

    /// Starts so many; every second one under the command.
    pub(crate) fn start(&mut self, count: usize, under: Option<&str>) -> Result<(), Failed> {
        for number in 0..count {
            let under = under.filter(|_| number % 2 == 1).map(str::to_owned);
            let child = self.spawn(under.as_deref())?;
            self.running.push(Running { child, under });
        }
        Ok(())
    }

    fn spawn(&mut self, under: Option<&str>) -> Result<Child, Failed> {
        self.sockets += 1;
        let mut words = under.unwrap_or_default().split_whitespace();
        let mut command = match words.next() {
            None => Command::new(&self.program),
            Some(first) => {
                let mut command = Command::new(first);
                command.args(words).arg(&self.program);
                command
            }
        };
        command
            .current_dir(self.folder.path())
            .args(["serve", "--journal", &self.journal, "--config", "scale.toml", "--socket"])
            .arg(format!("engine-{}.sock", self.sockets))
            .stdout(Stdio::null());
        Ok(command.spawn()?)
    }

    /// Kills one with -9 and starts another in its place.
    pub(crate) fn kill(&mut self, number: usize) -> Result<(), Failed> {
        let under = self.running[number].under.clone();
        let child = &mut self.running[number].child;
        child.kill()?;
        child.wait()?;
        self.killed += 1;
        let child = self.spawn(under.as_deref())?;
        self.running[number].child = child;
        Ok(())
    }

    pub(crate) fn killed(&self) -> u64 {
        self.killed
    }

    /// How many ended without being asked.
    pub(crate) fn died_by_themselves(&mut self) -> usize {
        let over = |running: &mut Running| !matches!(running.child.try_wait(), Ok(None));
        self.running.iter_mut().map(over).filter(|over| *over).count()
    }

    /// Asks all of them to end.
    pub(crate) fn stop(&mut self) -> Result<(), Failed> {
        for running in &mut self.running {
            Command::new("kill").args(["-TERM", &running.child.id().to_string()]).status()?;
        }
        for running in &mut self.running {
            running.child.wait()?;
        }
        self.running.clear();
        Ok(())
    }
}

impl Drop for Engines {
    fn drop(&mut self) {
        for running in &mut self.running {
            if running.child.kill().is_err() {
                eprintln!("scale: an engine is left behind");
            }
        }
    }
}

/// A change with this id; each has a sequence of its own.
pub(crate) fn change(event_id: &str, sequence: u64) -> String {
    serde_json::json!({
        "schema": "blun.cms-content-change.v2",
        "event_id": event_id,
        "site_id": "site-1",
        "website_version": "web-1",
        "source_sequence": sequence,
        "localization": {
            "source_id": "landing.intro",
            "content_type": "marketing",
            "glossary_version": "g-1",
            "policy_version": "p-1",
            "provider_id": "p",
            "model_id": "m",
            "model_version": "1",
            "software_version": "1",
            "source_locale": "de-AT",
            "source_revision": "1",
            "source_text": "Guten Morgen.",
            "target_locales": ["fi-FI"],
        },
    })
    .to_string()
}

/// An answer that accepts it.
pub(crate) fn accepted(event_id: &str) -> String {
    serde_json::json!({
        "schema": "blun.website-localization-api.v2",
        "event_id": event_id,
        "plan_id": "plan-1",
        "job_count": 1,
        "inserted_jobs": 1,
        "status": "enqueued",
    })
    .to_string()
}
