//! The soak: half an hour of a served engine against a sandbox that misbehaves, is gone twice for a minute,
//! and sees the engine terminated and killed in between.
//!
//! Enqueues through the door of `leasehold serve`, twenty changes a second. Between engine and sandbox stand
//! two gates, one for the CMS and one for the receiver, which count requests and can be shut. At the end
//! everything has to be settled, nothing received twice with another body, and no second after an outage may
//! have seen more requests than configured. Samples go to a file, one JSON line a second; the verdict is one
//! line on standard output, and the exit code is 0 when all is as it has to be.
//!
//! ```sh
//! cargo build --release
//! cargo run --release --example soak -- --minutes 30 --samples soak.jsonl --plot soak.svg
//! ```

mod engine;
mod gate;
mod plan;
mod plot;
mod watch;

use clap::Parser;
use engine::{Served, Tally};
use gate::Gate;
use leasehold::sandbox::{Sandbox, SandboxOptions};
use leasehold::{Clock as _, SystemClock};
use plan::{Act, Plan};
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use watch::{Sample, Samples};

/// Calls a second each side is asked for at most, and how many may start at once after a pause.
const RATE: u32 = 250;
const BURST: u32 = 20;
/// A call to the receiver is two requests, its capabilities and the document.
const REQUESTS_PER_CALL: u64 = 2;
/// How long after an outage seconds are looked at: a breaker that is open finds out a little later.
const RECOVERY_SECONDS: u64 = 20;
/// How long everything may take to settle after the last change, in seconds.
const SETTLE_SECONDS: u64 = 600;

/// Half an hour in the life of an engine.
#[derive(Debug, Parser)]
struct Arguments {
    /// How long changes are enqueued, in minutes, at least 1; outages and signals are spread over it
    #[arg(long, default_value_t = 30)]
    minutes: u64,
    /// Changes a second
    #[arg(long, default_value_t = 20)]
    per_second: u64,
    /// How long each of the two outages lasts, in seconds
    #[arg(long, default_value_t = 60)]
    outage_seconds: u64,
    /// The program
    #[arg(long, default_value = "target/release/leasehold")]
    program: PathBuf,
    /// Where samples go
    #[arg(long, default_value = "soak.jsonl")]
    samples: PathBuf,
    /// Where the samples are drawn, as SVG
    #[arg(long)]
    plot: Option<PathBuf>,
    /// Draw the samples of an earlier run, and do nothing else
    #[arg(long, requires = "plot")]
    only_plot: bool,
}

type Failed = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    match soak(&Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failed) => {
            eprintln!("soak: {failed}");
            ExitCode::from(3)
        }
    }
}

async fn soak(arguments: &Arguments) -> Result<bool, Failed> {
    if arguments.only_plot {
        draw(arguments, &watch::read(&arguments.samples)?)?;
        return Ok(true);
    }
    let folder = tempfile::tempdir()?;
    let rates = ["drop=0.02", "5xx=0.03", "429=0.003", "slow=0.01"];
    let rates = rates.iter().map(|rate| rate.parse()).collect::<Result<Vec<_>, _>>()?;
    let options = SandboxOptions {
        rates: leasehold::sandbox::faults::Rates::new(&rates).ok_or("rates over 1")?,
        ..Default::default()
    };
    let sandbox = Sandbox::start(options).await?;
    let cms = Gate::open(sandbox.address()).await?;
    let receiver = Gate::open(sandbox.address()).await?;
    let mut served = Served::prepare(folder.path(), &arguments.program, &cms, &receiver)?;
    served.start().await?;
    let seconds = arguments.minutes.max(1) * 60;
    let plan = Plan::over(seconds, arguments.outage_seconds);
    let enqueued = Arc::new(AtomicU64::new(0));
    let sender = tokio::spawn(served.sender().keep_sending(
        arguments.per_second * seconds,
        arguments.per_second,
        Arc::clone(&enqueued),
    ));
    let mut samples = Samples::create(&arguments.samples)?;
    let mut watch =
        Watch { cms: &cms, receiver: &receiver, enqueued: &enqueued, samples: &mut samples };
    for second in 0..seconds {
        for act in plan.at(second) {
            eprintln!("second {second}: {act:?}");
            act_on(act, &mut served, &[&cms, &receiver]).await?;
        }
        watch.second(second, &served).await?;
    }
    sender.await??;
    let mut tally = served.tally().await?;
    let mut second = seconds;
    while tally.unsettled() > 0 && second < seconds + SETTLE_SECONDS {
        watch.second(second, &served).await?;
        tally = served.tally().await?;
        second += 1;
    }
    served.terminate().await?;
    let audit = served.audit()?;
    draw(arguments, samples.all())?;
    verdict(&sandbox, &tally, audit, arguments.per_second * seconds, &plan, &samples)
}

fn draw(arguments: &Arguments, samples: &[Sample]) -> Result<(), Failed> {
    if let Some(plot) = &arguments.plot {
        std::fs::write(plot, plot::svg(samples))?;
    }
    Ok(())
}

async fn act_on(act: Act, served: &mut Served, gates: &[&Gate]) -> Result<(), Failed> {
    match act {
        Act::Shut => gates.iter().for_each(|gate| gate.shut(true)),
        Act::Open => gates.iter().for_each(|gate| gate.shut(false)),
        Act::Terminate => {
            served.terminate().await?;
            served.start().await?;
        }
        Act::Kill => {
            served.kill()?;
            served.start().await?;
        }
    }
    Ok(())
}

/// What is looked at every second.
struct Watch<'a> {
    cms: &'a Gate,
    receiver: &'a Gate,
    enqueued: &'a AtomicU64,
    samples: &'a mut Samples,
}

impl Watch<'_> {
    /// Waits for the end of a second and notes what it saw.
    async fn second(&mut self, second: u64, served: &Served) -> Result<(), Failed> {
        SystemClock.sleep(1.0).await;
        let process = served.process();
        self.samples.add(Sample {
            second,
            enqueued: self.enqueued.load(Ordering::Relaxed),
            cms_requests: self.cms.take(),
            receiver_requests: self.receiver.take(),
            resident_bytes: watch::resident_bytes(process),
            open_files: watch::open_files(process),
            shut: self.cms.is_shut(),
        })
    }
}

fn verdict(
    sandbox: &Sandbox,
    tally: &Tally,
    audit: bool,
    sent: u64,
    plan: &Plan,
    samples: &Samples,
) -> Result<bool, Failed> {
    let seen = sandbox.summary();
    let most_after =
        plan.ends().map(|end| samples.most_within(end, RECOVERY_SECONDS)).max().unwrap_or_default();
    let allowed = u64::from(RATE + BURST) * REQUESTS_PER_CALL;
    let fine = tally.unsettled() == 0
        && tally.failed == 0
        && tally.settled == sent
        && seen.differing == 0
        && audit
        && most_after <= allowed;
    let line = serde_json::json!({
        "sent": sent,
        "settled": tally.settled,
        "failed": tally.failed,
        "unsettled": tally.unsettled(),
        "accepted": seen.accepted,
        "differing": seen.differing,
        "audit_clean": audit,
        "most_requests_in_a_second_after_an_outage": most_after,
        "allowed": allowed,
        "resident_bytes_first_and_last": samples.ends(|sample| sample.resident_bytes),
        "open_files_first_and_last": samples.ends(|sample| sample.open_files),
        "fine": fine,
    });
    println!("{line}");
    Ok(fine)
}
