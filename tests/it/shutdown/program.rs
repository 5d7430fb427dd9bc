//! The program under SIGTERM, with calls that hang.

use crate::main_job::{Place, printed};
use crate::support::{example, program, run};
use leasehold::sandbox::{Sandbox, SandboxOptions};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Longer than any test: a call of the program ends with its own deadline or is dropped.
const HANGS_MILLISECONDS: u64 = 3_600_000;

/// Workers of flow `dispatch` where the configuration says nothing.
const WORKERS: u64 = 16;

fn started(config: &Path, journal: &Path, drain_seconds: &str) -> Command {
    let mut command = program();
    command.args(["run", "--json", "--drain-seconds", drain_seconds, "--config"]).arg(config);
    command.arg("--journal").arg(journal).arg(example("changes.ndjson"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn terminate(child: &Child) {
    let sent = Command::new("kill").arg(child.id().to_string()).status();
    assert!(sent.expect("kill runs").success());
}

/// Sends SIGTERM so often, each after the program said that it heard the last one; answers its exit code
/// and what it said.
fn told(mut child: Child, signals: usize) -> (Option<i32>, String) {
    let mut said = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut text = String::new();
    terminate(&child);
    for _ in 1..signals {
        while !text.contains("stopping") {
            assert!(said.read_line(&mut text).expect("text") > 0, "it ended: {text}");
        }
        terminate(&child);
    }
    said.read_to_string(&mut text).expect("text");
    (child.wait().expect("it ends").code(), text)
}

/// The state, the attempts and the error of every record.
fn listed(journal: &Path) -> Vec<(String, u64, Value)> {
    let output = program().args(["list", "--json"]).arg(journal).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    rows.map(|row| {
        let state = row["state"].as_str().expect("a text").to_owned();
        (state, row["attempts"].as_u64().expect("a count"), row["error_code"].clone())
    })
    .collect()
}

#[test]
fn sigterm_makes_no_in_flight_work_final() {
    // Once, with hardly any time for calls; or twice, before a budget that no test outlasts is over.
    for (drain_seconds, signals) in [("0.05", 1), ("86400", 2)] {
        run(async {
            let place = Place::new();
            let options = SandboxOptions {
                latency_milliseconds: HANGS_MILLISECONDS,
                ..SandboxOptions::default()
            };
            let hanging = Sandbox::start(options).await.expect("it starts");
            let (config, journal) = (place.config(&hanging.origin()), place.path("journal"));
            let child = started(&config, &journal, drain_seconds).spawn().expect("it runs");
            // The journal is new, so every worker is let through at once.
            let all = |count: &u64| *count >= WORKERS;
            hanging.received().wait_for(all).await.expect("the sandbox lives");
            let ended = tokio::task::spawn_blocking(move || told(child, signals)).await;
            let (code, said) = ended.expect("no panic");
            assert_eq!(code, Some(1), "{said}");
            let expected = format!("{WORKERS} leases given back, 0 left, 240 records wait");
            assert!(said.contains(&expected), "{said}");
            let records = listed(&journal);
            assert_eq!(records.len(), 240);
            let untried = ("pending".to_owned(), 0, Value::Null);
            assert!(records.iter().all(|record| *record == untried), "{records:?}");
            // The other side had received them, and recognises them.
            let sandbox = Sandbox::start(SandboxOptions::default()).await.expect("it starts");
            let config = place.config(&sandbox.origin());
            let mut again = started(&config, &journal, drain_seconds);
            let output = tokio::task::spawn_blocking(move || again.output()).await;
            let output = output.expect("no panic").expect("it runs");
            assert_eq!(printed(&output)["succeeded"], 240);
            let audit = program().args(["audit", "--json"]).arg(&journal).output();
            assert_eq!(printed(&audit.expect("it runs"))["clean"], true);
            sandbox.stop().await;
        });
    }
}
