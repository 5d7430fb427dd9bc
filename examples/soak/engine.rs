//! The served engine: a process that is started, terminated and killed, and its door.
//!
//! Owns the process, its configuration and what is asked through the door.

use crate::gate::Gate;
use crate::{BURST, Failed, RATE};
use leasehold::sandbox::{DEMO_KEY, receiver_digest};
use leasehold::{Clock as _, SystemClock};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const TOKEN: &str = "soak-token-of-no-importance";
/// Between two tries to reach the door, in seconds.
const AGAIN_SECONDS: f64 = 0.1;
/// Tries before the door counts as closed for good.
const TRIES: u32 = 600;

/// The process and where it lives.
pub(crate) struct Served {
    program: PathBuf,
    folder: PathBuf,
    door: String,
    client: reqwest::Client,
    child: Option<Child>,
}

impl Served {
    /// Writes what it needs into the folder.
    pub(crate) fn prepare(
        folder: &Path,
        program: &Path,
        cms: &Gate,
        receiver: &Gate,
    ) -> Result<Self, Failed> {
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        fs::write(folder.join("key"), DEMO_KEY)?;
        fs::write(folder.join("authorization"), "Bearer soak")?;
        fs::write(folder.join("token"), TOKEN)?;
        fs::write(folder.join("soak.toml"), configuration(cms, receiver)?)?;
        let client = reqwest::Client::builder().build()?;
        let door = format!("127.0.0.1:{port}");
        let (program, folder) = (fs::canonicalize(program)?, folder.to_path_buf());
        Ok(Self { program, folder, door, client, child: None })
    }

    /// Starts it and waits until its door answers.
    pub(crate) async fn start(&mut self) -> Result<(), Failed> {
        let child = Command::new(&self.program)
            .current_dir(&self.folder)
            .args(["serve", "--journal", "journal", "--config", "soak.toml"])
            .args(["--listen", &self.door, "--token-file", "token"])
            .stdout(Stdio::null())
            .spawn()?;
        self.child = Some(child);
        for _ in 0..TRIES {
            if self.client.get(format!("http://{}/healthz", self.door)).send().await.is_ok() {
                return Ok(());
            }
            SystemClock.sleep(AGAIN_SECONDS).await;
        }
        Err("the door does not open".into())
    }

    /// Asks it to end and waits for that.
    pub(crate) async fn terminate(&mut self) -> Result<(), Failed> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        Command::new("kill").args(["-TERM", &child.id().to_string()]).status()?;
        let ended = tokio::task::spawn_blocking(move || child.wait()).await??;
        if ended.success() { Ok(()) } else { Err("it did not end by itself".into()) }
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) -> Result<(), Failed> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Its process; 0 while there is none.
    pub(crate) fn process(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Somebody who enqueues.
    pub(crate) fn sender(&self) -> Sender {
        Sender { client: self.client.clone(), url: format!("http://{}/v1/dispatch", self.door) }
    }

    /// How far everything has come.
    pub(crate) async fn tally(&self) -> Result<Tally, Failed> {
        let url = format!("http://{}/v1/overview", self.door);
        let answer = self.client.get(url).bearer_auth(TOKEN).send().await?.error_for_status()?;
        let overview: Value = serde_json::from_str(&answer.text().await?)?;
        let flows = overview["flows"].as_array().ok_or("an overview without flows")?;
        let count = |flow: &Value, state: &str| flow["counts"][state].as_u64().unwrap_or_default();
        let quarantined = |flow: &Value| flow["quarantined"].as_u64().unwrap_or_default();
        let failed = flows.iter().map(|flow| count(flow, "failed") + quarantined(flow)).sum();
        let total = |flow: &Value| {
            flow["counts"]
                .as_object()
                .map_or(0, |counts| counts.values().filter_map(Value::as_u64).sum())
        };
        let of = |name: &str| flows.iter().find(|flow| flow["flow"] == name);
        let registered: u64 = of("dispatch").map_or(0, total);
        let settled = of("processing").map_or(0, |flow| count(flow, "succeeded"));
        Ok(Tally { registered, settled, failed })
    }

    /// Whether the journal it left is clean.
    pub(crate) fn audit(&self) -> Result<bool, Failed> {
        let mut audit = Command::new(&self.program);
        let audit =
            audit.current_dir(&self.folder).args(["audit", "journal"]).stdout(Stdio::null());
        Ok(audit.status()?.success())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if self.kill().is_err() {
            eprintln!("soak: the engine is left behind");
        }
    }
}

/// How far everything has come.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Changes that were enqueued.
    pub(crate) registered: u64,
    /// Changes that came to their good end in the last flow.
    pub(crate) settled: u64,
    /// Records given up, in any flow.
    pub(crate) failed: u64,
}

impl Tally {
    pub(crate) fn unsettled(&self) -> u64 {
        self.registered.saturating_sub(self.settled + self.failed)
    }
}

/// Enqueues through the door.
pub(crate) struct Sender {
    client: reqwest::Client,
    url: String,
}

impl Sender {
    /// Enqueues so many changes, so many a second; each is sent again until it is answered.
    pub(crate) async fn keep_sending(
        self,
        count: u64,
        per_second: u64,
        enqueued: Arc<AtomicU64>,
    ) -> Result<(), Failed> {
        let start = SystemClock.steady_seconds();
        for number in 0..count {
            let due = start + number as f64 / per_second as f64;
            SystemClock.sleep((due - SystemClock.steady_seconds()).max(0.0)).await;
            self.send(number).await?;
            enqueued.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn send(&self, number: u64) -> Result<(), Failed> {
        for _ in 0..TRIES {
            let request = self.client.post(&self.url).bearer_auth(TOKEN).body(change(number));
            match request.send().await {
                Ok(answer) if answer.status().is_success() => return Ok(()),
                Ok(answer) if answer.status().is_client_error() => {
                    return Err(format!("a change was refused: {}", answer.status()).into());
                }
                Ok(_) | Err(_) => SystemClock.sleep(AGAIN_SECONDS).await,
            }
        }
        Err("a change could not be enqueued".into())
    }
}

/// One change, of a source of its own, so that none supersedes another.
fn change(number: u64) -> String {
    serde_json::json!({
        "schema": "blun.cms-content-change.v2",
        "event_id": format!("soak-{number:07}"),
        "site_id": format!("site-{}", number % 7),
        "website_version": "web-1",
        "source_sequence": number + 1,
        "localization": {
            "content_type": "marketing",
            "glossary_version": "glossary-1",
            "model_id": "writer",
            "model_version": "1",
            "policy_version": "policy-1",
            "provider_id": "inhouse",
            "software_version": "1.0.0",
            "source_id": format!("page.{number}"),
            "source_locale": "de-AT",
            "source_revision": "1",
            "source_text": "Guten Morgen.",
            "target_locales": ["fi-FI"],
        },
    })
    .to_string()
}

fn configuration(cms: &Gate, receiver: &Gate) -> Result<String, Failed> {
    let digest = receiver_digest().ok_or("the sandbox has no digest")?;
    let limits = format!(
        "timeout_seconds = 5.0\nallow_http_loopback = true\nrequests_per_second = {RATE}.0\nburst = {BURST}\n\
         breaker_failures = 10\nbreaker_open_seconds = 2.0\nbreaker_open_max_seconds = 10.0\n"
    );
    let delays = "base_delay_seconds = 1.0\nmax_delay_seconds = 20.0\nlease_seconds = 30.0\n";
    Ok(format!(
        "[cms]\norigin = \"{}\"\n{limits}\n[cms.signing]\nkey_id = \"sandbox\"\nkey_file = \"key\"\n\n\
         [receiver]\norigin = \"{}\"\n{limits}capabilities_sha256 = \"{digest}\"\n\n\
         [receiver.authorization]\nvalue_file = \"authorization\"\n\n\
         [dispatch]\nmax_attempts = 20\n{delays}\n[lifecycle]\nmax_failures = 20\n{delays}poll_interval_seconds = 1.0\n\n\
         [notification]\nmax_attempts = 20\n{delays}\n[processing]\nmax_failures = 20\n{delays}poll_interval_seconds = 1.0\n",
        cms.origin(),
        receiver.origin(),
    ))
}
