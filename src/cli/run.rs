//! `leasehold run`: the main job.

use super::documents::{self, Document};
use super::failure::Failed;
use super::{Ended, print, signals};
use crate::clock::Stopwatch;
use crate::config::{Config, DispatchConfig};
use crate::engine::Engine;
use crate::error::Error;
use crate::http::{CmsClient, CmsOptions, HmacSha256Signer, NoAuthHeaders};
use crate::sandbox::{DEMO_KEY, DEMO_KEY_ID, Sandbox, SandboxOptions};
use crate::worker::{DrainOptions, drain};
use clap::{Args, ValueEnum};
use futures_util::stream::{self, StreamExt as _};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use leasehold_actors::contract::text::Token;
use leasehold_actors::flows::dispatch::DispatchStatus;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::watch;

/// Registrations under way at once while files are read.
const ENQUEUE_WIDTH: usize = 256;

/// Deliver documents and follow them until they settle.
///
/// Each document is registered durably, delivered, and followed. A document that is refused is named
/// with its file, line and code; the others go on. Ctrl-C drains: calls under way end first. Running
/// the same command again continues where it stopped; what is settled is not sent again.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  leasehold run --sandbox examples/changes.ndjson --journal demo-journal"
)]
pub(super) struct RunArguments {
    /// JSON files: one document, or one per line; `-` is standard input; none goes on with what is there
    files: Vec<PathBuf>,
    /// The journal's folder; made when it is not there
    #[arg(long, value_name = "DIR")]
    journal: PathBuf,
    /// Configuration file (TOML); see examples/leasehold.toml
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "sandbox",
        required_unless_present = "sandbox"
    )]
    config: Option<PathBuf>,
    /// Deliver to a sandbox started for this run, with its memory beside the journal
    #[arg(long)]
    sandbox: bool,
    /// How documents travel
    #[arg(long, value_enum, default_value_t = Via::Cms)]
    via: Via,
    /// How far a document has to come
    #[arg(long, value_enum, default_value_t = Until::Settled)]
    until: Until,
    /// Print the summary as one JSON object
    #[arg(long)]
    json: bool,
}

/// How documents travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Via {
    /// Change events to the CMS
    Cms,
}

/// How far a document has to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Until {
    /// Through every stage that is configured
    Settled,
    /// Accepted by the CMS
    Accepted,
}

/// What came of a run.
#[derive(Debug, Default, Serialize)]
struct Summary {
    read: u64,
    enqueued: u64,
    already_known: u64,
    refused: u64,
    succeeded: u64,
    failed: u64,
    unsettled: u64,
    seconds: f64,
    sequence: u64,
    head: String,
}

pub(super) async fn run(arguments: RunArguments) -> Result<Ended, Failed> {
    let watch = Stopwatch::start();
    // With one flow configured both ends are the same one: the CMS's acceptance.
    let (Via::Cms, Until::Settled | Until::Accepted) = (arguments.via, arguments.until);
    let documents = documents::read(&arguments.files)?;
    let (remote, settings) = Remote::of(&arguments)?;
    let engine =
        Engine::builder(&arguments.journal).dispatch_delays(settings.delays()).open().await?;
    // Only who holds the journal may touch the sandbox's memory beside it.
    let (client, sandbox) = remote.start(&arguments.journal).await?;
    let stop = signals::draining();
    let mut summary = Summary { read: documents.len() as u64, ..Summary::default() };
    let registered =
        register(&engine, documents, settings.max_attempts, &stop, &mut summary).await?;
    let result = deliver(&engine, client, &settings, &stop).await;
    let outcome = count(&engine, &registered, &mut summary).await;
    let head = engine.head();
    engine.close().await;
    result?;
    outcome?;
    summary.seconds = watch.seconds();
    summary.sequence = head.sequence;
    summary.head = head.hash.to_string();
    report(&summary, &arguments, sandbox.as_ref(), *stop.borrow())?;
    if let Some(sandbox) = sandbox {
        sandbox.stop().await;
    }
    let fine = summary.refused == 0 && summary.failed == 0 && summary.unsettled == 0;
    Ok(if fine { Ended::Fine } else { Ended::Findings })
}

/// The other side.
enum Remote {
    /// As configured.
    Configured(Box<CmsClient>),
    /// A sandbox for this run.
    Sandbox,
}

impl Remote {
    fn of(arguments: &RunArguments) -> Result<(Self, DispatchConfig), Failed> {
        match &arguments.config {
            None => Ok((Self::Sandbox, DispatchConfig::default())),
            Some(path) => {
                let config = Config::read(path)?;
                Ok((Self::Configured(Box::new(config.cms_client()?)), config.dispatch))
            }
        }
    }

    async fn start(self, journal: &Path) -> Result<(CmsClient, Option<Sandbox>), Failed> {
        if let Self::Configured(client) = self {
            return Ok((*client, None));
        }
        let state = Some(beside(journal, "sandbox")?);
        let sandbox = Sandbox::start(SandboxOptions { state, ..SandboxOptions::default() }).await?;
        let key_id = Token::new(DEMO_KEY_ID).ok_or(Failed::Runtime)?;
        let signer =
            HmacSha256Signer::new(key_id, DEMO_KEY.to_vec().into()).ok_or(Failed::Runtime)?;
        let options = CmsOptions { allow_http_loopback: true, ..CmsOptions::new(sandbox.origin()) };
        let client =
            CmsClient::new(&options, signer, NoAuthHeaders).map_err(|_| Failed::Runtime)?;
        Ok((client, Some(sandbox)))
    }
}

/// A file beside the journal's folder, named after it.
fn beside(journal: &Path, extension: &str) -> Result<PathBuf, Failed> {
    let absolute =
        std::path::absolute(journal).map_err(|_| Failed::Usage("--journal names no folder"))?;
    let mut name =
        absolute.file_name().ok_or(Failed::Usage("--journal names no folder"))?.to_owned();
    name.push(".");
    name.push(extension);
    Ok(absolute.with_file_name(name))
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

/// Registers every document, in the order of the files; answers the identities that are in the journal
/// now. A document that was not reached before a signal counts as unsettled.
async fn register(
    engine: &Engine,
    documents: Vec<Document>,
    max_attempts: i64,
    stop: &watch::Receiver<bool>,
    summary: &mut Summary,
) -> Result<BTreeSet<String>, Failed> {
    let bar = bar(documents.len() as u64, "register");
    let mut registered = BTreeSet::new();
    let flow = engine.dispatch();
    let reached = documents.into_iter().take_while(|_| !*stop.borrow());
    let mut answers = stream::iter(reached)
        .map(|document| async move {
            let result = flow.enqueue(&document.text, max_attempts).await;
            (document.file, document.line, result)
        })
        .buffered(ENQUEUE_WIDTH);
    while let Some((file, line, result)) = answers.next().await {
        bar.inc(1);
        match result {
            Ok(known) => {
                let counted = if known.already_known {
                    &mut summary.already_known
                } else {
                    &mut summary.enqueued
                };
                *counted += 1;
                registered.insert(known.status.event_id.as_str().to_owned());
            }
            Err(Error::Blocked(blocked)) => {
                summary.refused += 1;
                bar.suspend(|| eprintln!("{}:{line}: {}", file.display(), blocked.code()));
            }
            Err(error) => return Err(error.into()),
        }
    }
    bar.finish_and_clear();
    summary.unsettled = summary.read - summary.enqueued - summary.already_known - summary.refused;
    Ok(registered)
}

async fn deliver(
    engine: &Engine,
    client: CmsClient,
    settings: &DispatchConfig,
    stop: &watch::Receiver<bool>,
) -> Result<(), Failed> {
    let waiting: u64 = engine
        .dispatch()
        .health()
        .await?
        .counts
        .iter()
        .filter(|(state, _)| ["pending", "retry_wait", "leased"].contains(state))
        .map(|(_, count)| count)
        .sum();
    let bar = bar(waiting, "deliver");
    let options = DrainOptions {
        in_flight: settings.in_flight,
        lease_seconds: settings.lease_seconds,
        worker: "run".to_owned(),
    };
    let seen = {
        let bar = bar.clone();
        move |attempt: &leasehold_actors::flows::dispatch::DispatchAttempt| {
            if matches!(attempt.status, "succeeded" | "failed") {
                bar.inc(1);
            }
        }
    };
    drain(engine.dispatch(), Arc::new(client), &options, stop.clone(), seen).await?;
    bar.finish_and_clear();
    Ok(())
}

/// Counts what became of the documents of this run.
async fn count(
    engine: &Engine,
    registered: &BTreeSet<String>,
    summary: &mut Summary,
) -> Result<(), Failed> {
    for event_id in registered {
        let status: DispatchStatus = engine.dispatch().status(event_id).await?;
        match status.status {
            "succeeded" => summary.succeeded += 1,
            "failed" => {
                summary.failed += 1;
                let code = status.last_error_code.map_or_else(String::new, |code| code.to_string());
                eprintln!("{event_id}: failed: {code}");
            }
            _ => summary.unsettled += 1,
        }
    }
    Ok(())
}

fn report(
    summary: &Summary,
    arguments: &RunArguments,
    sandbox: Option<&Sandbox>,
    stopped: bool,
) -> Result<(), Failed> {
    if let Some(sandbox) = sandbox {
        let seen = sandbox.summary();
        eprintln!(
            "sandbox: {} requests received, {} events accepted, {} events with differing bodies",
            seen.received, seen.accepted, seen.differing
        );
    }
    if stopped {
        eprintln!("stopped before the end; the same command continues");
    }
    if arguments.json {
        return print::json(summary);
    }
    print::line(&format!(
        "read {}, enqueued {}, already known {}, refused {}",
        summary.read, summary.enqueued, summary.already_known, summary.refused
    ))?;
    print::line(&format!(
        "succeeded {}, failed {}, unsettled {} in {:.1} s",
        summary.succeeded, summary.failed, summary.unsettled, summary.seconds
    ))?;
    print::line(&format!("journal at record {}, head {}", summary.sequence, summary.head))
}
