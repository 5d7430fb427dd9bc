//! The main job with the real program, the real database and HTTP over loopback.

use crate::support::{example, program, run};
use leasehold::sandbox::faults::{Rate, Rates};
use leasehold::sandbox::ledger::Arrived;
use leasehold::sandbox::{Sandbox, SandboxOptions, receiver_digest, source_digest};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use tempfile::TempDir;

/// Short delays, so that a test with faults does not wait.
const QUICK: &str = "poll_interval_seconds = 0.02\nbase_delay_seconds = 0.05\n\
                     max_delay_seconds = 0.2\nretry_after_max_seconds = 0.02\n";

/// A folder with a configuration that calls a sandbox.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The same with a receiver and a source runtime, all three at this address.
    pub(crate) fn config_of_all(&self, origin: &str) -> PathBuf {
        let path = self.config(origin);
        let mut text = std::fs::read_to_string(&path).expect("just written");
        std::fs::write(self.path("value"), "Bearer demo").expect("writable");
        let pins = [("receiver", receiver_digest()), ("source", source_digest())];
        for (section, pin) in pins {
            let pin = pin.expect("the sandbox has one");
            text += &format!(
                "[{section}]\norigin = \"{origin}\"\nallow_http_loopback = true\n\
                 capabilities_sha256 = \"{pin}\"\n\
                 [{section}.authorization]\nvalue_file = \"value\"\n"
            );
        }
        for (flow, ceiling) in [
            ("notification", "max_attempts"),
            ("processing", "max_failures"),
            ("delivery", "max_attempts"),
        ] {
            text += &format!("[{flow}]\n{QUICK}{ceiling} = 20\n");
        }
        std::fs::write(&path, text).expect("writable");
        path
    }

    pub(crate) fn config(&self, origin: &str) -> PathBuf {
        let text = format!(
            "[cms]\norigin = \"{origin}\"\nallow_http_loopback = true\n\
             [cms.signing]\nkey_id = \"sandbox\"\nkey_file = \"{}\"\n\
             [dispatch]\n{QUICK}max_attempts = 20\n[lifecycle]\n{QUICK}max_failures = 20\n",
            example("sandbox.key")
        );
        let path = self.path("leasehold.toml");
        std::fs::write(&path, text).expect("writable");
        path
    }
}

/// The JSON object the program printed last.
pub(crate) fn printed(output: &Output) -> Value {
    let text = String::from_utf8(output.stdout.clone()).expect("text");
    let line = text
        .lines()
        .last()
        .unwrap_or_else(|| panic!("nothing printed: {}", String::from_utf8_lossy(&output.stderr)));
    serde_json::from_str(line).expect("JSON")
}

fn run_sandboxed(journal: &Path, file: &str) -> Output {
    program()
        .args(["run", "--sandbox", file, "--json", "--journal"])
        .arg(journal)
        .output()
        .expect("the program runs")
}

#[test]
fn the_main_job_delivers_every_example_and_sends_nothing_twice() {
    let place = Place::new();
    let journal = place.path("journal");
    let first = run_sandboxed(&journal, &example("changes.ndjson"));
    assert_eq!(first.status.code(), Some(0), "{}", String::from_utf8_lossy(&first.stderr));
    let summary = printed(&first);
    let read = summary["read"].as_u64().expect("a count");
    assert!(read >= 200);
    assert_eq!(summary["enqueued"], read);
    assert_eq!(summary["succeeded"], read);
    let again = run_sandboxed(&journal, &example("changes.ndjson"));
    assert_eq!(again.status.code(), Some(0));
    let repeated = printed(&again);
    assert_eq!((&repeated["already_known"], &repeated["enqueued"]), (&read.into(), &0.into()));
    assert_eq!(repeated["head"], summary["head"], "nothing was written");
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(said.contains("sandbox: 0 documents received"), "{said}");
}

#[test]
fn a_refused_document_is_named_by_file_line_and_code_and_the_others_go_on() {
    let place = Place::new();
    let good = std::fs::read_to_string(example("changes.ndjson")).expect("readable");
    let good: Vec<&str> = good.lines().take(2).collect();
    let file = place.path("some.ndjson");
    let bad = "{\"event_id\":\"canary\",\"canary\":1}";
    let text = format!("{}\n{bad}\n\n{}\nnonsense\n", good[0], good[1]);
    std::fs::write(&file, text).expect("writable");
    let output = run_sandboxed(&place.path("journal"), file.to_str().expect("text"));
    assert_eq!(output.status.code(), Some(1));
    let summary = printed(&output);
    assert_eq!((&summary["refused"], &summary["succeeded"]), (&2.into(), &2.into()));
    let said = String::from_utf8(output.stderr).expect("text");
    for line in [2, 5] {
        let expected = format!("some.ndjson:{line}: dispatch.change_invalid");
        assert!(said.contains(&expected), "{said}");
    }
    assert!(!said.contains("canary"), "{said}");
}

#[test]
fn documents_are_registered_in_the_order_of_their_file() {
    let place = Place::new();
    let file = place.path("some.ndjson");
    let mut text: String = (0..300)
        .map(|number| crate::support::change_with(&format!("event-{number:03}"), "first") + "\n")
        .collect();
    text += &crate::support::change_with("event-000", "second");
    std::fs::write(&file, text).expect("ok");
    let journal = place.path("journal");
    let output = run_sandboxed(&journal, file.to_str().expect("text"));
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(said.contains("some.ndjson:301: dispatch.idempotency_collision"), "{said}");
    let list = program()
        .args(["list", "--json", "--flow", "dispatch"])
        .arg(&journal)
        .output()
        .expect("the program runs");
    let list = String::from_utf8(list.stdout).expect("text");
    let ids: Vec<String> = list
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["id"].to_string())
        .collect();
    assert!(ids.is_sorted(), "the order of the file");
    assert_eq!(ids.len(), 300);
}

#[test]
fn a_run_without_files_goes_on_with_what_is_there() {
    let place = Place::new();
    let journal = place.path("journal");
    run_sandboxed(&journal, &example("changes.ndjson"));
    let output = program()
        .args(["run", "--sandbox", "--json", "--journal"])
        .arg(&journal)
        .output()
        .expect("the program runs");
    assert_eq!((output.status.code(), &printed(&output)["read"]), (Some(0), &0.into()));
}

#[test]
fn with_faults_everything_still_succeeds_and_every_body_is_the_same() {
    run(async {
        let place = Place::new();
        let rates: Vec<Rate> = ["drop=0.1", "5xx=0.1", "429=0.05", "garbage=0.05"]
            .iter()
            .map(|rate| rate.parse().expect("a rate"))
            .collect();
        let rates = Rates::new(&rates).expect("below 1");
        let sandbox = Sandbox::start(SandboxOptions { rates, ..SandboxOptions::default() })
            .await
            .expect("it starts");
        let mut command = program();
        command
            .args(["run", "--json", "--config"])
            .arg(place.config(&sandbox.origin()))
            .arg("--journal")
            .arg(place.path("journal"))
            .arg(example("changes.ndjson"));
        let output = tokio::task::spawn_blocking(move || command.output())
            .await
            .expect("no panic")
            .expect("the program runs");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let seen = sandbox.summary();
        assert_eq!((seen.accepted, seen.differing), (240, 0));
        assert!(seen.received > seen.accepted, "the faults were met");
        assert_eq!(printed(&output)["succeeded"], 240);
    });
}

#[test]
fn killed_at_twenty_points_the_same_command_loses_nothing() {
    run(async {
        // The points are spread over the run by a fixed rule, so that each is always tried.
        for point in 0..20_u64 {
            let place = Place::new();
            let options = SandboxOptions { latency_milliseconds: 1, ..SandboxOptions::default() };
            let sandbox = Sandbox::start(options).await.expect("it starts");
            let config = place.config(&sandbox.origin());
            let start = || {
                let mut command = program();
                command.args(["run", "--json", "--config"]).arg(&config);
                command.arg("--journal").arg(place.path("journal")).arg(example("changes.ndjson"));
                command.stdout(Stdio::piped()).stderr(Stdio::null());
                command
            };
            let mut child = start().spawn().expect("the program runs");
            let mut received = sandbox.received();
            let target = 1 + point * 12;
            received.wait_for(|count| *count >= target).await.expect("the sandbox lives");
            child.kill().expect("it was running, or has just ended");
            child.wait().expect("it ended");
            let mut command = start();
            let output = tokio::task::spawn_blocking(move || command.output())
                .await
                .expect("no panic")
                .expect("the program runs");
            assert_eq!(output.status.code(), Some(0), "point {point}");
            let summary = printed(&output);
            assert_eq!(summary["succeeded"], 240, "point {point}");
            let seen = sandbox.summary();
            assert_eq!((seen.accepted, seen.differing), (240, 0), "point {point}");
            let audit = program().args(["audit", "--json"]).arg(place.path("journal")).output();
            let audit = audit.expect("the program runs");
            assert_eq!(audit.status.code(), Some(0), "point {point}: {:?}", printed(&audit));
            sandbox.stop().await;
        }
    });
}

#[test]
fn a_terminated_run_ends_by_itself_and_the_same_command_continues() {
    run(async {
        let place = Place::new();
        let options = SandboxOptions { latency_milliseconds: 5, ..SandboxOptions::default() };
        let sandbox = Sandbox::start(options).await.expect("it starts");
        let config = place.config(&sandbox.origin());
        let start = || {
            let mut command = program();
            command.args(["run", "--json", "--config"]).arg(&config);
            command.arg("--journal").arg(place.path("journal")).arg(example("changes.ndjson"));
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command
        };
        let child = start().spawn().expect("the program runs");
        sandbox.received().wait_for(|count| *count >= 40).await.expect("the sandbox lives");
        let killed = std::process::Command::new("kill").arg(child.id().to_string()).status();
        assert!(killed.expect("kill runs").success());
        let output = tokio::task::spawn_blocking(move || child.wait_with_output())
            .await
            .expect("no panic")
            .expect("it ended");
        assert_eq!(output.status.code(), Some(1));
        let summary = printed(&output);
        let unsettled = summary["unsettled"].as_u64().expect("a count");
        assert!(unsettled > 0, "it stopped before the end");
        let health = program().args(["health", "--json"]).arg(place.path("journal")).output();
        let health = printed(&health.expect("the program runs"));
        assert_eq!(health["dispatch"]["counts"]["leased"], 0, "calls under way ended first");
        let mut command = start();
        let output = tokio::task::spawn_blocking(move || command.output())
            .await
            .expect("no panic")
            .expect("the program runs");
        assert_eq!(printed(&output)["succeeded"], 240);
        let arrived = sandbox.arrivals();
        let changes = arrived.iter().filter(|arrival| arrival.operation == Arrived::Change);
        assert_eq!(changes.count(), 240, "nothing was sent twice");
    });
}
