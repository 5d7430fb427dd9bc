//! `leasehold serve` as a program, and a pipeline that stays.

use super::{at, bearer, exchange, request};
use crate::main_job::Place;
use crate::support::{Scripted, accepted, change, engine, program, run};
use leasehold::{DrainOptions, ManualClock, MemoryDisk, Pipeline};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::watch;

/// Far longer than any of this takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_pipeline_that_stays_works_on_what_comes_after_everything_was_settled() {
    run(async {
        let engine = engine(&MemoryDisk::default(), &ManualClock::at(1000.0)).await;
        let client = Scripted::new([Ok(accepted("event-1", 1)), Ok(accepted("event-2", 1))]);
        let (stop, stopped) = watch::channel(false);
        let mut pipeline = Pipeline::new(&engine, stopped);
        let workers = DrainOptions {
            in_flight: 2,
            lease_seconds: 600.0,
            worker: "w".to_owned(),
            destination: None,
        };
        pipeline.add(engine.dispatch(), client, &workers, |_| {});
        let script = async {
            for id in ["event-1", "event-2"] {
                let dispatch = engine.dispatch();
                let mut moves = dispatch.moves();
                dispatch.enqueue(change(id), 5).await.expect("it is valid");
                while dispatch.status(id).await.expect("it is there").status != "succeeded" {
                    moves.changed().await.expect("the engine runs");
                }
            }
            stop.send_replace(true);
        };
        let both = async { tokio::join!(pipeline.stay(), script) };
        let (stayed, ()) = tokio::time::timeout(PATIENCE, both).await.expect("it ends");
        stayed.expect("nothing is wrong");
        engine.close().await;
    });
}

/// Starts the program and waits until it says where it listens.
pub(crate) fn serve(arguments: &[&str]) -> (Child, serde_json::Value) {
    let mut command = program();
    command.arg("serve").args(arguments).arg("--json");
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let stdout = child.stdout.as_mut().expect("piped");
    BufReader::new(stdout).read_line(&mut line).expect("readable");
    let said = serde_json::from_str(&line).expect("it says where it listens");
    (child, said)
}

/// Asks the program to end, and waits until it did.
pub(crate) fn stop(child: Child) -> Option<i32> {
    let id = child.id().to_string();
    let killed = std::process::Command::new("kill").args(["-TERM", &id]).status();
    assert!(killed.expect("kill runs").success());
    child.wait_with_output().expect("it ends").status.code()
}

#[test]
fn it_delivers_what_comes_in_through_the_door_until_it_is_stopped() {
    run(async {
        let place = Place::new();
        let (journal, socket) = (place.path("journal"), place.path("door.sock"));
        let paths = [journal.display().to_string(), socket.display().to_string()];
        let (child, said) = serve(&["--sandbox", "--journal", &paths[0], "--socket", &paths[1]]);
        assert_eq!((said["socket"].as_str(), &said["origin"]), (socket.to_str(), &().into()));
        assert_eq!(at(&socket, "POST", "/v1/dispatch", &change("event-1")).await.status, 201);
        let settled = async {
            // Each question takes a moment; the answer changes when the last flow is through.
            loop {
                let answer = at(&socket, "GET", "/v1/processing/event-1", "").await;
                if answer.status == 200 && answer.json()["status"] == "succeeded" {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, settled).await.expect("it settles");
        let overview = at(&socket, "GET", "/v1/overview", "").await.json();
        assert_eq!(overview["status"], "ok");
        for flow in overview["flows"].as_array().expect("flows").iter().take(4) {
            let settled = flow["throughput"].as_array().expect("buckets").iter();
            let settled: u64 = settled.filter_map(serde_json::Value::as_u64).sum();
            assert_eq!(settled, 1, "{flow}");
        }
        let metrics = at(&socket, "GET", "/metrics", "").await;
        assert!(metrics.body.contains("leasehold_claims_total{flow=\"processing\"}"));
        assert_eq!(stop(child), Some(0));
        assert!(!socket.exists());
        let audit = program().arg("audit").arg(&journal).output().expect("it runs");
        assert_eq!(audit.status.code(), Some(0));
    });
}

#[test]
fn on_an_address_it_asks_for_the_token_of_its_file() {
    run(async {
        let place = Place::new();
        let journal = place.path("journal").display().to_string();
        let token = place.path("token");
        std::fs::write(&token, "0123456789abcdef\n").expect("writable");
        let file = token.display().to_string();
        let (child, said) = serve(&[
            "--sandbox",
            "--journal",
            &journal,
            "--listen",
            "127.0.0.1:0",
            "--token-file",
            &file,
        ]);
        let origin = said["origin"].as_str().expect("an origin");
        let address = origin.strip_prefix("http://").expect("http").to_owned();
        let ask = async |headers: &str| {
            let stream = TcpStream::connect(&address).await.expect("it listens");
            exchange(stream, request("GET", "/v1/health", headers, "").as_bytes()).await.status
        };
        assert_eq!(ask("").await, 401);
        assert_eq!(ask(&bearer("0123456789abcdef")).await, 200);
        assert_eq!(stop(child), Some(0));
    });
}

#[test]
fn where_nobody_reads_its_output_it_still_ends_in_two_phases_and_leaves_a_checkpoint() {
    let place = Place::new();
    let (journal, socket) = (place.path("journal"), place.path("door.sock"));
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = program();
    command.args(["serve", "--sandbox", "--journal"]).arg(&journal);
    let output = command.arg("--socket").arg(&socket).stdout(writer).output().expect("it runs");
    let text = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("stopped: 0 leases given back") && text.contains("output_unwritable"));
    assert!(!socket.exists(), "the door is closed");
    assert!(journal.join("checkpoint").exists(), "a clean close leaves one");
}

#[test]
fn what_others_could_reach_or_anybody_could_ask_is_not_begun() {
    let place = Place::new();
    let journal = place.path("journal");
    let short = place.path("short");
    std::fs::write(&short, "canary").expect("writable");
    let short = short.display().to_string();
    let none = place.path("none").display().to_string();
    let taken = place.path("taken");
    std::fs::write(&taken, "mine").expect("writable");
    let taken = taken.display().to_string();
    for (arguments, code, said) in [
        (vec![], 2, "--token-file"),
        (vec!["--listen", "0.0.0.0:0", "--token-file", &short], 2, "door_not_loopback"),
        (vec!["--token-file", &short], 2, "door_token_invalid"),
        (vec!["--token-file", &none], 3, "input_unreadable"),
        (vec!["--listen", "127.0.0.1:0", "--socket", "s"], 2, "cannot be used with"),
    ] {
        let mut command = program();
        command.args(["serve", "--sandbox", "--journal"]).arg(&journal).args(&arguments);
        let output = command.output().expect("it runs");
        let text = String::from_utf8(output.stderr).expect("text");
        assert_eq!((output.status.code(), text.contains(said)), (Some(code), true), "{text}");
        assert!(!text.contains("canary"), "{text}");
        assert!(!journal.exists(), "nothing was made");
    }
    let mut command = program();
    command.args(["serve", "--sandbox", "--socket", &taken, "--journal"]).arg(&journal);
    let output = command.output().expect("it runs");
    let text = String::from_utf8(output.stderr).expect("text");
    assert_eq!((output.status.code(), text.contains("door_socket_taken")), (Some(3), true));
}
