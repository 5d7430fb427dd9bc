//! Engines that share a journal on a server, under what breaks such things: one of them is killed every few
//! seconds, the server is stopped and started again, and half of them have clocks that are wrong.
//!
//! Enqueues changes as a web server would, with an engine of its own that delivers nothing, and starts
//! engines with `leasehold serve` that deliver them to a sandbox in this process. In the end every change has
//! to be settled, once, and the journal to be clean. Beside it a stale holder tries to settle what it lost:
//! every one of its appends has to be refused. The verdict is one line on standard output; the exit code is 0
//! when all is as it has to be.
//!
//! ```sh
//! cargo build --release --features postgres
//! cargo run --release --features postgres --example scale -- \
//!     --journal 'postgres://app@localhost/site?schema=scale' --engines 4 --records 20000 --kill-seconds 5
//! ```

mod engines;

use clap::Parser;
use engines::Engines;
use leasehold::audit::{Source, States, audit};
use leasehold::sandbox::ledger::Arrived;
use leasehold::sandbox::{Sandbox, SandboxOptions};
use leasehold::{Claim, Clock as _, Dispatch, Engine, PostgresPlace, SystemClock};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

type Failed = Box<dyn std::error::Error>;

/// Changes the stale holder takes and loses.
const STALE: usize = 16;
/// How long its leases last, in seconds.
const STALE_LEASE_SECONDS: f64 = 1.0;
/// Changes in one call.
const MANY: u64 = 1_000;
/// Between two looks, in seconds.
const LOOK_SECONDS: f64 = 0.5;

/// Several engines on one journal
#[derive(Debug, Parser)]
struct Arguments {
    /// The journal, in a new schema
    #[arg(long)]
    journal: String,
    /// The program
    #[arg(long, default_value = "target/release/leasehold")]
    program: PathBuf,
    /// Engines that deliver
    #[arg(long, default_value_t = 4)]
    engines: usize,
    /// Changes
    #[arg(long, default_value_t = 20_000)]
    records: u64,
    /// Changes that are enqueued a second; 0 is as fast as it goes
    #[arg(long, default_value_t = 300)]
    per_second: u64,
    /// One engine is killed with -9 so often, in seconds; 0 kills none
    #[arg(long, default_value_t = 5.0)]
    kill_seconds: f64,
    /// A command that stops the server and starts it again
    #[arg(long)]
    restart: Option<String>,
    /// How often it is run
    #[arg(long, default_value_t = 20)]
    restarts: u32,
    /// What every second engine is started with, such as `faketime -f +10m`
    #[arg(long)]
    under: Option<String>,
    /// How long it may take, in seconds
    #[arg(long, default_value_t = 600.0)]
    patience_seconds: f64,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("scale: {error}");
            ExitCode::from(3)
        }
    }
}

async fn run(arguments: Arguments) -> Result<bool, Failed> {
    let place = PostgresPlace::parse(&arguments.journal)?;
    let sandbox = Sandbox::start(SandboxOptions::default()).await?;
    let own = Engine::on_server(place.clone()).open().await?;
    if own.head().sequence > 0 {
        return Err("the journal has to be a new one".into());
    }
    let started = SystemClock.steady_seconds();
    let stale = stale_claims(&own).await?;
    let mut engines = Engines::prepare(&arguments.program, &arguments.journal, &sandbox.origin())?;
    engines.start(arguments.engines, arguments.under.as_deref())?;
    let over = Arc::new(AtomicBool::new(false));
    let restarts = restarting(&arguments, &over);
    let enqueuing = enqueue(own.dispatch(), arguments.records, arguments.per_second);
    let watching = watch(&arguments, &own, &mut engines, started);
    let ((), settled) = tokio::join!(enqueuing, watching);
    let settled = settled?;
    over.store(true, Ordering::SeqCst);
    let restarts = restarts.join().map_err(|_| "the restarting thread is gone")?;
    let seconds = SystemClock.steady_seconds() - started;
    let refused = settle_late(&own, &stale).await;
    let died = engines.died_by_themselves();
    engines.stop()?;
    own.close().await;
    let report = audit(&Source::on_server(&place)?, None);
    let (states, _) = States::read(&Source::on_server(&place)?)?;
    let all = |flow: &str, state: &str| {
        states.rows().iter().filter(|row| row.flow == flow && row.state == state).count() as u64
    };
    let records = arguments.records + STALE as u64;
    let dispatched = all("dispatch", "succeeded");
    let fine =
        settled && report.clean && dispatched == records && refused == STALE as u64 && died == 0;
    println!(
        "{}",
        serde_json::json!({
            "fine": fine,
            "records": records,
            "dispatched": dispatched,
            "watched_to_their_end": all("lifecycle", "terminal"),
            "failed": all("dispatch", "failed") + all("lifecycle", "failed"),
            "requests_of_changes": sandbox.summary(),
            "changes_arrived": sandbox.arrivals().iter().filter(|it| it.operation == Arrived::Change).count(),
            "engines": arguments.engines,
            "killed": engines.killed(),
            "died_by_themselves": died,
            "restarts": restarts,
            "stale_appends": STALE,
            "stale_appends_refused": refused,
            "audit_clean": report.clean,
            "seconds": seconds,
        })
    );
    Ok(fine)
}

/// Takes some changes and lets their leases run out.
async fn stale_claims(own: &Engine) -> Result<Vec<Claim<Dispatch>>, Failed> {
    let flow = own.dispatch();
    for number in 0..STALE {
        flow.enqueue(engines::change(&format!("stale-{number:02}"), number as u64 + 1), 20).await?;
    }
    let mut claims = Vec::new();
    while let Some(claim) = flow.claim("stale", STALE_LEASE_SECONDS).await? {
        claims.push(claim);
    }
    Ok(claims)
}

/// Tries to settle what was lost; answers how many tries were refused.
async fn settle_late(own: &Engine, claims: &[Claim<Dispatch>]) -> u64 {
    let mut refused = 0;
    for claim in claims {
        let id = claim.request().event_id.as_str().to_owned();
        let late = own.dispatch().complete(claim, engines::accepted(&id)).await;
        refused += u64::from(late.is_err());
    }
    refused
}

async fn enqueue(flow: &leasehold::Handle<Dispatch>, records: u64, per_second: u64) {
    let started = SystemClock.steady_seconds();
    let many = if per_second == 0 { MANY } else { per_second };
    for from in (0..records).step_by(many as usize) {
        if per_second > 0 {
            let due = started + from as f64 / per_second as f64;
            SystemClock.sleep(due - SystemClock.steady_seconds()).await;
        }
        let names = from..(from + many).min(records);
        let mut changes: Vec<String> = names
            .map(|number| engines::change(&format!("change-{number:07}"), number + 1_000))
            .collect();
        // What was not taken, because the server was away, is given again: it is known or it is new.
        while !changes.is_empty() {
            let answers = flow.enqueue_many(&changes, 20).await;
            let mut answers = answers.into_iter();
            changes.retain(|_| answers.next().is_some_and(|answer| answer.is_err()));
            if !changes.is_empty() {
                SystemClock.sleep(LOOK_SECONDS).await;
            }
        }
    }
}

/// Kills engines until everything is settled; whether it is in time.
async fn watch(
    arguments: &Arguments,
    own: &Engine,
    engines: &mut Engines,
    started: f64,
) -> Result<bool, Failed> {
    let (mut last_kill, mut victim) = (SystemClock.steady_seconds(), 0);
    let records = arguments.records + STALE as u64;
    loop {
        SystemClock.sleep(LOOK_SECONDS).await;
        let now = SystemClock.steady_seconds();
        if arguments.kill_seconds > 0.0 && now - last_kill >= arguments.kill_seconds {
            engines.kill(victim)?;
            victim = (victim + 1) % arguments.engines;
            last_kill = now;
        }
        let (dispatch, lifecycle) =
            (own.dispatch().health().await?, own.lifecycle().health().await?);
        let count = |counts: &std::collections::BTreeMap<&'static str, u64>, state: &str| {
            counts.get(state).copied().unwrap_or_default()
        };
        let ended = count(&lifecycle.counts, "terminal");
        let failed = count(&dispatch.counts, "failed") + count(&lifecycle.counts, "failed");
        eprintln!(
            "{:.0} s: {:?} dispatched, {ended} watched to their end",
            now - started,
            count(&dispatch.counts, "succeeded"),
        );
        if count(&dispatch.counts, "succeeded") >= records && ended >= records {
            return Ok(true);
        }
        if failed > 0 || now - started > arguments.patience_seconds {
            eprintln!("{:?} {:?}", dispatch.counts, lifecycle.counts);
            return Ok(false);
        }
    }
}

/// Stops and starts the server, as often as asked, while there is work.
fn restarting(arguments: &Arguments, over: &Arc<AtomicBool>) -> std::thread::JoinHandle<u64> {
    let (command, times) = (arguments.restart.clone(), arguments.restarts);
    let over = Arc::clone(over);
    std::thread::spawn(move || {
        let done = AtomicU64::new(0);
        let Some(command) = command else { return 0 };
        for _ in 0..times {
            if over.load(Ordering::SeqCst) {
                break;
            }
            let restarted = Command::new("sh").args(["-c", &command]).output();
            if restarted.is_ok_and(|output| output.status.success()) {
                done.fetch_add(1, Ordering::SeqCst);
            }
        }
        done.load(Ordering::SeqCst)
    })
}
