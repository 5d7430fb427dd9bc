//! `leasehold run`: the main job.

use super::documents::{self, Document};
use super::failure::Failed;
use super::remote::{Between, Clients, Plan, Remote, Sides, workers};
use super::summary::{Registered, Stages, Summary};
use super::{Ended, pauses, signals};
use crate::clock::Stopwatch;
use crate::engine::Engine;
use crate::error::Error;
use crate::pipeline::Pipeline;
use crate::sandbox::Sandbox;
use clap::{Args, ValueEnum};
use futures_util::stream::{self, StreamExt as _};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::path::PathBuf;
use tokio::sync::watch;

/// How long calls may take after a signal: five seconds less than most supervisors wait before they kill.
pub(super) const DRAIN_SECONDS: f64 = 25.0;
/// Registrations under way at once while files are read.
const ENQUEUE_WIDTH: usize = 256;

/// Deliver documents and follow them until they settle.
///
/// Each document is registered durably, delivered, and followed. A document that is refused is named
/// with its file, line and code; the others go on. Ctrl-C and SIGTERM drain: no call is begun, those
/// under way end first; what is left of them after --drain-seconds, or at a second signal, is dropped
/// and its lease given back without spending an attempt. Running the same command again continues
/// where it stopped; what is settled is not sent again.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  leasehold run --sandbox examples/changes.ndjson --journal demo-journal"
)]
pub(super) struct RunArguments {
    /// JSON files: one document, or one per line; `-` is standard input; none goes on with what is there
    files: Vec<PathBuf>,
    #[command(flatten)]
    between: Between,
    /// How documents travel
    #[arg(long, value_enum, default_value_t = Via::Cms)]
    via: Via,
    /// How far a document has to come
    #[arg(long, value_enum, default_value_t = Until::Settled)]
    until: Until,
    /// How long calls under way may take when the run is told to stop, in seconds, at most 86400
    #[arg(long, value_name = "S", default_value_t = DRAIN_SECONDS, value_parser = drain_seconds)]
    drain_seconds: f64,
    /// Stay when nothing is left, until it is stopped: more may be due later
    #[arg(long)]
    watch: bool,
    /// Print the summary as one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn drain_seconds(text: &str) -> Result<f64, &'static str> {
    let seconds = text.parse().ok().filter(|seconds| (0.0..=86_400.0).contains(seconds));
    seconds.ok_or("a number of seconds, 0 to 86400")
}

/// How documents travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Via {
    /// Change events to the CMS, watched until their end, which the receiver is told
    Cms,
    /// Changes, cancellations and tombstones to the source runtime
    Source,
}

/// How far a document has to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Until {
    /// Through every stage that is configured
    Settled,
    /// Accepted by the other side
    Accepted,
}

pub(super) async fn run(arguments: RunArguments) -> Result<Ended, Failed> {
    let watch = Stopwatch::start();
    let documents = documents::read(&arguments.files)?;
    let (remote, plan) = Remote::of(arguments.between.config.as_deref())?;
    let stages = stages(&arguments, remote.sides())?;
    let engine = remote.engine(&arguments.between.journal, &plan)?.open().await?;
    for line in pauses::lines(&engine.paused()) {
        eprintln!("{line}"); // what stays unsettled for that
    }
    let (clients, sandbox) = remote.start(&arguments.between.journal, &engine).await?;
    let stop = signals::wind_down(engine.stopper(), arguments.drain_seconds);
    let mut summary = Summary { read: documents.len() as u64, ..Summary::default() };
    let mut registered = Registered::default();
    let result = match arguments.via {
        Via::Cms => {
            register_changes(&engine, documents, &plan, &stop, &mut summary, &mut registered).await
        }
        Via::Source => {
            register_documents(&engine, documents, &plan, &stop, &mut summary, &mut registered)
                .await
        }
    };
    let result = match result {
        Ok(()) => deliver(&engine, clients, &plan, (&arguments, stages), &stop).await,
        Err(failed) => Err(failed),
    };
    let counted = match result {
        Ok(()) => summary.count(&engine, &registered, stages).await,
        Err(failed) => Err(failed),
    };
    let head = engine.head();
    // The pipeline has ended, and its calls with it.
    let remaining = engine.shutdown(0.0).await;
    counted?;
    let remaining = remaining?;
    summary.seconds = watch.seconds();
    summary.sequence = head.sequence;
    summary.head = head.hash.to_string();
    if *stop.borrow() {
        eprintln!(
            "stopped before the end: {} leases given back, {} left, {} records wait; the same command \
             continues",
            remaining.released, remaining.leased, remaining.waiting
        );
    }
    if let Some(sandbox) = sandbox {
        report_sandbox(&sandbox);
        sandbox.stop().await;
    }
    summary.print(arguments.json)?;
    let fine = summary.refused == 0 && summary.failed == 0 && summary.unsettled == 0;
    Ok(if fine { Ended::Fine } else { Ended::Findings })
}

/// Which stages there are, and whether the way that was asked for is among them.
fn stages(arguments: &RunArguments, sides: Sides) -> Result<Stages, Failed> {
    match arguments.via {
        Via::Cms if !sides.cms => {
            Err(Failed::Usage("--via cms needs the section [cms] in the configuration"))
        }
        Via::Source if !sides.source => {
            Err(Failed::Usage("--via source needs the section [source] in the configuration"))
        }
        Via::Source => Ok(Stages { lifecycle: false, receiver: false }),
        Via::Cms => {
            let further = arguments.until == Until::Settled;
            Ok(Stages { lifecycle: further, receiver: further && sides.receiver })
        }
    }
}

fn report_sandbox(sandbox: &Sandbox) {
    let seen = sandbox.summary();
    eprintln!(
        "sandbox: {} documents received, {} differing bodies under one identity",
        *sandbox.received().borrow(),
        seen.differing
    );
}

fn bar(length: u64, message: &'static str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{msg:>10} [{bar:40}] {pos}/{len} {per_sec} {eta}");
    if let Ok(style) = style {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_message(message);
    bar
}

/// Counts one registration; a refused document is named, any other error ends the run.
fn take(
    summary: &mut Summary,
    bar: &ProgressBar,
    place: (&PathBuf, usize),
    result: Result<bool, Error>,
) -> Result<bool, Failed> {
    bar.inc(1);
    match result {
        Ok(already_known) => {
            let counted =
                if already_known { &mut summary.already_known } else { &mut summary.enqueued };
            *counted += 1;
            Ok(true)
        }
        Err(Error::Blocked(blocked)) => {
            summary.refused += 1;
            let (file, line) = place;
            bar.suspend(|| eprintln!("{}:{line}: {}", file.display(), blocked.code()));
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

/// What was not reached before a signal counts as unsettled.
fn not_reached(summary: &mut Summary) {
    summary.unsettled = summary.read - summary.enqueued - summary.already_known - summary.refused;
}

/// Registers change events with flow `dispatch`, in the order of the files.
async fn register_changes(
    engine: &Engine,
    documents: Vec<Document>,
    plan: &Plan,
    stop: &watch::Receiver<bool>,
    summary: &mut Summary,
    registered: &mut Registered,
) -> Result<(), Failed> {
    let bar = bar(documents.len() as u64, "register");
    let (flow, max_attempts) = (engine.dispatch(), plan.dispatch.max_attempts);
    let reached = documents.into_iter().take_while(|_| !*stop.borrow());
    let mut answers = stream::iter(reached)
        .map(|document| async move {
            let result = flow.enqueue(&document.text, max_attempts).await;
            (document.file, document.line, result)
        })
        .buffered(ENQUEUE_WIDTH);
    while let Some((file, line, result)) = answers.next().await {
        let id = result.as_ref().ok().map(|known| known.status.event_id.to_string());
        let known = result.map(|known| known.already_known);
        if take(summary, &bar, (&file, line), known)? {
            registered.events.extend(id);
        }
    }
    bar.finish_and_clear();
    not_reached(summary);
    Ok(())
}

/// Registers changes and removals with flow `delivery`, in the order of the files.
async fn register_documents(
    engine: &Engine,
    documents: Vec<Document>,
    plan: &Plan,
    stop: &watch::Receiver<bool>,
    summary: &mut Summary,
    registered: &mut Registered,
) -> Result<(), Failed> {
    let bar = bar(documents.len() as u64, "register");
    let (flow, source) = (engine.delivery(), plan.source_max_attempts);
    let ceiling = plan.delivery.max_attempts;
    let reached = documents.into_iter().take_while(|_| !*stop.borrow());
    let mut answers = stream::iter(reached)
        .map(|document| async move {
            let result = flow.enqueue_document(&document.text, source, ceiling, None).await;
            (document.file, document.line, result)
        })
        .buffered(ENQUEUE_WIDTH);
    while let Some((file, line, result)) = answers.next().await {
        let id = result.as_ref().ok().map(|known| {
            let status = &known.status;
            (status.operation.name().to_owned(), status.request_id.to_string())
        });
        let known = result.map(|known| known.already_known);
        if take(summary, &bar, (&file, line), known)? {
            registered.documents.extend(id);
        }
    }
    bar.finish_and_clear();
    not_reached(summary);
    Ok(())
}

/// Works until nothing is left of what was asked for.
async fn deliver(
    engine: &Engine,
    clients: Clients,
    plan: &Plan,
    (arguments, stages): (&RunArguments, Stages),
    stop: &watch::Receiver<bool>,
) -> Result<(), Failed> {
    let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    spinner.set_message("deliver");
    let mut pipeline = Pipeline::new(engine, stop.clone());
    let gates = plan.gates(engine)?;
    let tick = || {
        let spinner = spinner.clone();
        move || spinner.inc(1)
    };
    match (arguments.via, clients) {
        (Via::Source, Clients { source: Some(client), .. }) => {
            let tick = tick();
            let delivery = workers(&plan.delivery, &gates.source);
            pipeline.add(engine.delivery(), client, &delivery, move |_| tick());
        }
        (Via::Cms, Clients { cms: Some(client), receiver, .. }) => {
            let seen = tick();
            let dispatch = workers(&plan.dispatch, &gates.cms);
            pipeline.add(engine.dispatch(), client.clone(), &dispatch, move |_| seen());
            if stages.lifecycle {
                let seen = tick();
                let lifecycle = workers(&plan.lifecycle, &gates.cms);
                pipeline.add(engine.lifecycle(), client, &lifecycle, move |_| seen());
            }
            if let (true, Some(receiver)) = (stages.receiver, receiver) {
                let (seen, also_seen) = (tick(), tick());
                let notification = workers(&plan.notification, &gates.receiver);
                pipeline
                    .add(engine.notification(), receiver.clone(), &notification, move |_| seen());
                let processing = workers(&plan.processing, &gates.receiver);
                pipeline.add(engine.processing(), receiver, &processing, move |_| also_seen());
            }
        }
        (Via::Source | Via::Cms, Clients { .. }) => return Err(Failed::Runtime),
    }
    if arguments.watch {
        pipeline.stay().await?
    } else {
        pipeline.finish().await?
    }
    spinner.finish_and_clear();
    Ok(())
}
