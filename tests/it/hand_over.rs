//! Changes through all flows: a process killed at each hand-over, and other sides that misbehave.

use crate::main_job::{Place, printed};
use crate::support::{Scripted, accepted, change, example, program, run};
use leasehold::http::{
    CmsClient, CmsOptions, HmacSha256Signer, NoAuthHeaders, ReceiverClient, ReceiverOptions,
    StaticAuthHeader,
};
use leasehold::sandbox::faults::{Rate, Rates};
use leasehold::sandbox::ledger::Arrived;
use leasehold::sandbox::{DEMO_KEY, DEMO_KEY_ID, Sandbox, SandboxOptions, receiver_digest};
use leasehold::{
    Delays, DrainOptions, Engine, FlowDelays, HandOver, JournalError, ManualClock, MemoryDisk,
    Pipeline,
};
use leasehold_actors::contract::text::Token;
use leasehold_journal::memory::Fault;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;
use tracing::field::{Field, Visit};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};

/// Where the child finds what it is to do: `origin|journal|message|flow|how many times`.
const CHILD: &str = "LEASEHOLD_TEST_KILLED_CHILD";
const FLOWS: [&str; 4] = ["dispatch", "lifecycle", "notification", "processing"];
const EVENTS: usize = 12;

/// Kills its own process, with -9, when a hand-over is told of often enough.
struct Killer {
    message: String,
    flow: String,
    left: AtomicU64,
}

/// What one log line says.
#[derive(Default)]
struct Said {
    message: String,
    to: String,
}

impl Visit for Said {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "to" {
            value.clone_into(&mut self.to);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            write!(self.message, "{value:?}").expect("a string takes everything");
        }
    }
}

impl<S: tracing::Subscriber> Layer<S> for Killer {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut said = Said::default();
        event.record(&mut said);
        if said.message != self.message || said.to != self.flow {
            return;
        }
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            let own = std::process::id().to_string();
            let killed = Command::new("kill").args(["-9", &own]).status();
            panic!("still alive after {killed:?}");
        }
    }
}

/// The life of a child: everything to its end, or to the hand-over at which it is killed.
async fn deliver(task: &str) {
    let parts: Vec<&str> = task.split('|').collect();
    let [origin, journal, message, flow, times] = parts[..] else { panic!("five parts") };
    let left = AtomicU64::new(times.parse().expect("a number"));
    let killer = Killer { message: message.to_owned(), flow: flow.to_owned(), left };
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(killer))
        .expect("the child sets it first");
    let quick = Delays { poll_interval_seconds: 0.02, ..Delays::default() };
    let pin = receiver_digest().expect("the sandbox has one");
    let engine = Engine::builder(journal)
        .receiver_digest(pin.to_string())
        .delays(FlowDelays {
            dispatch: quick,
            lifecycle: quick,
            notification: quick,
            processing: quick,
            delivery: quick,
        })
        .hand_over(HandOver {
            lifecycle_max_failures: Some(5),
            notification_max_attempts: Some(5),
            processing_max_failures: Some(5),
        })
        .open()
        .await
        .expect("it opens");
    let changes = std::fs::read_to_string(example("changes.ndjson")).expect("readable");
    for change in changes.lines().take(EVENTS) {
        engine.dispatch().enqueue(change, 5).await.expect("it is valid");
    }
    let mut cms = CmsOptions::new(origin);
    cms.allow_http_loopback = true;
    let signer =
        HmacSha256Signer::new(Token::new(DEMO_KEY_ID).expect("a token"), DEMO_KEY.to_vec().into());
    let cms = CmsClient::new(&cms, signer.expect("a key"), NoAuthHeaders).expect("a client");
    let mut receiver = ReceiverOptions::new(origin, pin);
    receiver.allow_http_loopback = true;
    let header = StaticAuthHeader::new("Authorization".to_owned(), "Bearer demo".to_owned().into());
    let receiver = ReceiverClient::new(&receiver, header).expect("a client");
    let workers = DrainOptions {
        in_flight: 4,
        lease_seconds: 120.0,
        worker: "w".to_owned(),
        destination: None,
    };
    let (_asked, stop) = watch::channel(false);
    let mut pipeline = Pipeline::new(&engine, stop);
    pipeline.add(engine.dispatch(), cms.clone(), &workers, |_| {});
    pipeline.add(engine.lifecycle(), cms, &workers, |_| {});
    pipeline.add(engine.notification(), receiver.clone(), &workers, |_| {});
    pipeline.add(engine.processing(), receiver, &workers, |_| {});
    pipeline.finish().await.expect("nothing is wrong with the journal");
    engine.close().await;
}

/// Runs the child; killed or ended.
async fn child(task: String) -> Output {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.env(CHILD, task).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
        .args(["--exact", "hand_over::killed_at_each_hand_over_every_event_is_in_each_flow_once"]);
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("no panic");
    output.expect("it ran")
}

/// How many records of each flow there are in each state, and how many of their `registered` events.
fn records(journal: &Path) -> BTreeMap<(String, String), usize> {
    let output = program().args(["list", "--json"]).arg(journal).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0));
    let mut found = BTreeMap::new();
    for line in String::from_utf8(output.stdout).expect("text").lines() {
        let record: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let part = |key: &str| record[key].as_str().expect("a text").to_owned();
        *found.entry((part("flow"), part("state"))).or_default() += 1;
    }
    found
}

#[test]
fn killed_at_each_hand_over_every_event_is_in_each_flow_once() {
    if let Ok(task) = std::env::var(CHILD) {
        return run(deliver(&task));
    }
    run(async {
        let mut killed = 0;
        for flow in &FLOWS[1..] {
            for message in ["handing over", "handed over"] {
                for times in [1, 5] {
                    let point = format!("{message} to {flow}, {times}");
                    let place = Place::new();
                    let sandbox = Sandbox::start(SandboxOptions::default()).await.expect("starts");
                    let (origin, journal) = (sandbox.origin(), place.path("journal"));
                    let shown = journal.display();
                    let output = child(format!("{origin}|{shown}|{message}|{flow}|{times}")).await;
                    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
                    assert_eq!(signal, Some(9), "{point}");
                    killed += 1;
                    let output = child(format!("{origin}|{shown}|never|{flow}|1")).await;
                    assert!(output.status.success(), "{point}: {output:?}");
                    let expected = FLOWS.map(|flow| {
                        let state = if flow == "lifecycle" { "terminal" } else { "succeeded" };
                        ((flow.to_owned(), state.to_owned()), EVENTS)
                    });
                    assert_eq!(records(&journal), expected.into(), "{point}");
                    // A record that was registered twice does not replay.
                    let audit = program().args(["audit", "--json"]).arg(&journal).output();
                    let audit = audit.expect("it runs");
                    assert_eq!(audit.status.code(), Some(0), "{point}: {:?}", printed(&audit));
                    assert_eq!(sandbox.summary().differing, 0, "{point}");
                    let told = sandbox.arrivals().into_iter();
                    let told = told.filter(|arrival| arrival.operation == Arrived::Notification);
                    assert!(told.count() >= EVENTS, "{point}");
                    sandbox.stop().await;
                }
            }
        }
        assert_eq!(killed, 12);
    });
}

fn rates(of: &[&str]) -> Rates {
    let rates: Vec<Rate> = of.iter().map(|rate| rate.parse().expect("a rate")).collect();
    Rates::new(&rates).expect("at most 1 together")
}

const ALL_FAULTS: [&str; 5] = ["drop=0.1", "5xx=0.1", "429=0.1", "slow=0.1", "garbage=0.1"];

#[test]
fn through_every_fault_every_event_is_followed_to_processed() {
    run(async {
        let place = Place::new();
        let options = SandboxOptions { rates: rates(&ALL_FAULTS), ..SandboxOptions::default() };
        let sandbox = Sandbox::start(options).await.expect("it starts");
        let mut command = program();
        command.args(["run", "--json", "--config"]).arg(place.config_of_all(&sandbox.origin()));
        command.arg("--journal").arg(place.path("journal")).arg(example("changes.ndjson"));
        let output = tokio::task::spawn_blocking(move || command.output()).await;
        let output = output.expect("no panic").expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let summary = printed(&output);
        assert_eq!(summary["unsettled"], 0, "{summary} {said}");
        let (succeeded, failed) = (&summary["succeeded"], &summary["failed"]);
        let both = succeeded.as_u64().expect("a count") + failed.as_u64().expect("a count");
        assert_eq!(both, 240);
        // What may not be tried again is named with its code.
        let named = said.lines().filter(|line| line.contains(": failed: ")).count();
        assert_eq!(Some(named as u64), failed.as_u64(), "{said}");
        assert_eq!(sandbox.summary().differing, 0);
    });
}

#[test]
fn a_mixed_file_goes_to_the_source_runtime_and_a_second_run_sends_nothing() {
    run(async {
        let place = Place::new();
        let options = SandboxOptions { rates: rates(&ALL_FAULTS), ..SandboxOptions::default() };
        let sandbox = Sandbox::start(options).await.expect("it starts");
        let config = place.config_of_all(&sandbox.origin());
        let start = || {
            let mut command = program();
            command.args(["run", "--via", "source", "--json", "--config"]).arg(&config);
            command.arg("--journal").arg(place.path("journal")).arg(example("mixed.ndjson"));
            command
        };
        let mut command = start();
        let output = tokio::task::spawn_blocking(move || command.output()).await;
        let output = output.expect("no panic").expect("it runs");
        let summary = printed(&output);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(summary["unsettled"], 0, "{summary} {said}");
        assert_eq!(summary["read"], 40);
        let named = said.lines().filter(|line| line.contains(": failed: ")).count();
        assert_eq!(Some(named as u64), summary["failed"].as_u64(), "{said}");
        assert_eq!(sandbox.summary().differing, 0);
        let before = *sandbox.received().borrow();
        let mut command = start();
        let output = tokio::task::spawn_blocking(move || command.output()).await;
        let again = printed(&output.expect("no panic").expect("it runs"));
        assert_eq!((&again["already_known"], &again["head"]), (&40.into(), &summary["head"]));
        assert_eq!(*sandbox.received().borrow(), before);
    });
}

#[test]
fn the_sandboxed_run_follows_every_example_to_its_end_and_says_how_they_ended() {
    let place = Place::new();
    let run = |arguments: &[&str], journal: &str| {
        let mut command = program();
        command.args(["run", "--sandbox", "--json"]).args(arguments);
        let output = command.arg("--journal").arg(place.path(journal)).output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        printed(&output)
    };
    let summary = run(&[&example("changes.ndjson")], "cms");
    assert_eq!(summary["succeeded"], 240);
    // An older change is published or overtaken, whichever comes first; nothing else happens to it.
    let ended = ["published", "superseded"].map(|end| summary["ended"][end].as_u64().unwrap_or(0));
    assert_eq!((ended[0] + ended[1], ended[0] > 200), (240, true), "{summary}");
    let summary = run(&["--via", "source", &example("mixed.ndjson")], "source");
    let ended = serde_json::json!({ "change": 20, "cancellation": 12, "tombstone": 8 });
    assert_eq!((&summary["succeeded"], &summary["ended"]), (&40.into(), &ended));
}

#[test]
fn a_receiver_that_is_configured_later_is_told_of_everything_that_ended_before() {
    run(async {
        let place = Place::new();
        let sandbox = Sandbox::start(SandboxOptions::default()).await.expect("it starts");
        let journal = place.path("journal");
        let mut ended = Vec::new();
        for told in [false, true] {
            let origin = sandbox.origin();
            let config = if told { place.config_of_all(&origin) } else { place.config(&origin) };
            let mut command = program();
            command.args(["run", "--json", "--config"]).arg(config).arg("--journal").arg(&journal);
            command.arg(example("changes.ndjson"));
            let output = tokio::task::spawn_blocking(move || command.output()).await;
            let output = output.expect("no panic").expect("it runs");
            assert_eq!(
                output.status.code(),
                Some(0),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            assert_eq!(printed(&output)["succeeded"], 240);
            ended.push(records(&journal));
        }
        let processed = ("processing".to_owned(), "succeeded".to_owned());
        let counts: Vec<_> = ended.iter().map(|found| found.get(&processed).copied()).collect();
        assert_eq!(counts, [None, Some(240)]);
        assert_eq!(sandbox.summary().notifications, 240);
    });
}

#[test]
fn a_hand_over_that_cannot_be_written_is_told_and_found_again_at_the_next_open() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let alone = crate::support::engine(&disk, &clock).await;
        alone.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
        let client = Scripted::new([Ok(accepted("event-1", 2))]);
        alone.dispatch().run_once(&client, "w", 60.0).await.expect("it runs").expect("due");
        alone.close().await;
        let watching = || {
            let hand_over = HandOver { lifecycle_max_failures: Some(5), ..HandOver::default() };
            Engine::in_memory(&disk).clock(clock.clone()).hand_over(hand_over).open()
        };
        // The first sync is that of opening.
        disk.inject(Fault::SyncLies);
        disk.inject(Fault::SyncFails(JournalError::Storage));
        let engine = watching().await.expect("it opens");
        let (_stop, stopped) = watch::channel(false);
        let mut pipeline = Pipeline::new(&engine, stopped);
        let options = DrainOptions {
            in_flight: 1,
            lease_seconds: 60.0,
            worker: "w".to_owned(),
            destination: None,
        };
        pipeline.add(engine.dispatch(), Scripted::default(), &options, |_| ());
        let finished = pipeline.finish().await;
        assert_eq!(crate::support::code(finished), "storage_failed");
        assert_eq!(crate::support::code(engine.handed_over()), "storage_failed");
        engine.close().await;
        disk.crash(0);
        let engine = watching().await.expect("it opens");
        crate::wire_flows::there(|| engine.lifecycle().status("event-1")).await;
        assert_eq!(engine.handed_over(), Ok(()));
    });
}
