//! `leasehold requeue`, `dismiss` and `repin`: what an operator does to records (D12).
//!
//! Owns the choice of records and the report. Every record decides for itself whether it takes the
//! intervention; one that does not is reported with its code, and the others go on.

use super::failure::Failed;
use super::place;
use super::records::{FlowName, states};
use super::{Ended, print};
use crate::audit::Row;
use crate::intervene::Intervened;
use crate::{Engine, Error, Handle, SourceRuntime};
use clap::{Args, ValueEnum};
use futures_util::future::join_all;
use leasehold_actors::flows::Answers;
use leasehold_actors::record::FlowTag;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Any length will do: these commands make no calls.
const LONGEST_CALL_SECONDS: f64 = 1.0;
/// Records written side by side: they share what a commit takes.
const SIDE_BY_SIDE: usize = 256;

/// Who asks for something, and why; neither is needed to see what it would do.
#[derive(Debug, Args)]
pub(super) struct Who {
    /// Who asks: 1 to 128 visible ASCII characters; kept in the journal
    #[arg(long, value_name = "NAME", required_unless_present = "dry_run")]
    pub(super) by: Option<String>,
    /// Why: 1 to 500 characters; kept in the journal
    #[arg(long, value_name = "TEXT", required_unless_present = "dry_run")]
    pub(super) why: Option<String>,
}

/// Which records, and who asks and why.
#[derive(Debug, Args)]
struct Choice {
    /// A journal's folder, which no engine may have open (a running one is asked at its door), or the URL of one
    /// on a server (postgres://…)
    path: PathBuf,
    /// Only this flow
    #[arg(long)]
    flow: Option<FlowName>,
    /// Only the record with this identity, as `list` prints it
    #[arg(long, requires = "flow")]
    id: Option<String>,
    /// Only this site
    #[arg(long, value_name = "ID")]
    site: Option<String>,
    /// Only records with this error
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
    /// All that can be; needed when neither an id, a site nor a code is given
    #[arg(long, required_unless_present_any = ["id", "site", "code"])]
    all: bool,
    #[command(flatten)]
    who: Who,
    /// Only print the records it would touch
    #[arg(long)]
    dry_run: bool,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// How fast records are written.
#[derive(Debug, Args)]
struct Pace {
    /// At most so many records a second are written, which says nothing about when they are due; as fast as
    /// the disk allows if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: Option<u32>,
}

/// Try failed records again, from their first attempt on.
///
/// A record keeps its identity and its payload, so the other side recognises what it had already
/// accepted. Its history stays, with who asked and why.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  leasehold requeue demo-journal --code network --by maria --why \"the provider is back\" --dry-run"
)]
pub(super) struct RequeueArguments {
    #[command(flatten)]
    choice: Choice,
    /// Records in this state
    #[arg(long, value_enum, default_value_t = Given::Failed)]
    state: Given,
    /// So many records are due a second, one after the other from now on; all of them at once if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: Option<u32>,
}

/// What can be requeued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Given {
    /// Given up
    Failed,
    /// Let be by an operator
    Dismissed,
}

/// Let failed or held records be: health does not count them as trouble any more.
///
/// Their history stays, and `requeue --state dismissed` takes it back.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  leasehold dismiss demo-journal --code network --by maria --why \"pages were removed\""
)]
pub(super) struct DismissArguments {
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    pace: Pace,
    /// Not failed records, but those that are held: registered under another digest than this one
    #[arg(long, value_name = "HEX", requires = "flow")]
    held_unless: Option<String>,
}

/// Move held records to the digest that is pinned now.
///
/// A record keeps the due time it had. Where that has come while it was held, it is due as soon as an engine
/// opens; many of them together are sent no faster than the
/// `requests_per_second` of their destination.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  leasehold repin demo-source --flow delivery --all --by maria --why \"new release\" \\\n    --digest a2107b04b586ef004ac3338fea42f666add3a03cd7d2b8bc19628274e5d5eb7a"
)]
pub(super) struct RepinArguments {
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    pace: Pace,
    /// The digest, 64 hex digits
    #[arg(long, value_name = "HEX")]
    digest: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    /// With so many records due a second, where that is said.
    Requeue(Option<u32>),
    /// With so many records written a second, where that is said.
    Dismiss(Option<u32>),
    /// The same.
    Repin(Option<u32>),
}

impl Deed {
    fn done(self) -> &'static str {
        match self {
            Self::Requeue(_) => "requeued",
            Self::Dismiss(_) => "dismissed",
            Self::Repin(_) => "repinned",
        }
    }

    /// How many records are written side by side, and the time from one such lot to the next.
    fn pace(self) -> (usize, Option<Duration>) {
        match self {
            Self::Dismiss(Some(rate)) | Self::Repin(Some(rate)) => {
                (1, Some(Duration::from_secs_f64(1.0 / f64::from(rate))))
            }
            Self::Requeue(_) | Self::Dismiss(None) | Self::Repin(None) => (SIDE_BY_SIDE, None),
        }
    }

    /// When the record at this place, from 0, is due; at once where nothing is said.
    fn due_at(self, from: f64, place: usize) -> Option<f64> {
        match self {
            Self::Requeue(Some(rate)) => Some(from + place as f64 / f64::from(rate)),
            Self::Requeue(None) | Self::Dismiss(_) | Self::Repin(_) => None,
        }
    }
}

/// A record that did not take it.
#[derive(Debug, Serialize)]
struct Refused {
    flow: &'static str,
    id: Option<String>,
    error_code: String,
}

/// What came of it.
#[derive(Debug, Default, Serialize)]
struct Outcome {
    matched: u64,
    changed: u64,
    unchanged: u64,
    refused: Vec<Refused>,
    dry_run: bool,
    /// Whether a record was named that is not there.
    missing: bool,
}

pub(super) async fn requeue(arguments: RequeueArguments) -> Result<Ended, Failed> {
    let wanted = match arguments.state {
        Given::Failed => "failed",
        Given::Dismissed => "dismissed",
    };
    let (deed, choice) = (Deed::Requeue(arguments.rate), arguments.choice);
    intervene(deed, &choice, None, |row| row.state == wanted).await
}

pub(super) async fn dismiss(arguments: DismissArguments) -> Result<Ended, Failed> {
    let (choice, digest) = (arguments.choice, arguments.held_unless);
    let deed = Deed::Dismiss(arguments.pace.rate);
    match digest.as_deref() {
        None => intervene(deed, &choice, None, |row| row.state == "failed").await,
        Some(pinned) => intervene(deed, &choice, Some(pinned), |row| held(row, pinned)).await,
    }
}

pub(super) async fn repin(arguments: RepinArguments) -> Result<Ended, Failed> {
    let (choice, digest) = (arguments.choice, arguments.digest);
    if !matches!(choice.flow, Some(FlowName::Processing | FlowName::Delivery)) {
        return Err(Failed::Usage("--flow processing or --flow delivery: only these pin a digest"));
    }
    let deed = Deed::Repin(arguments.pace.rate);
    intervene(deed, &choice, Some(&digest), |row| held(row, &digest)).await
}

/// Whether a record waits under another digest.
fn held(row: &Row, pinned: &str) -> bool {
    let waits = matches!(row.state, "pending" | "watching" | "retry_wait");
    waits && row.capabilities_sha256.is_some_and(|digest| digest.to_string() != pinned)
}

async fn intervene(
    deed: Deed,
    choice: &Choice,
    digest: Option<&str>,
    fits: impl Fn(&Row) -> bool,
) -> Result<Ended, Failed> {
    let (states, _) = states(&choice.path)?;
    // Whoever names a record is told what is wrong with it; a filter only finds what fits.
    let candidates: Vec<Row> =
        states.rows().into_iter().filter(|row| chosen(choice, row)).collect();
    let missing = choice.id.is_some() && candidates.is_empty();
    let rows: Vec<Row> = candidates
        .into_iter()
        .filter(|row| fits(row) || (choice.id.is_some() && !choice.dry_run))
        .collect();
    let mut outcome = Outcome {
        matched: rows.len() as u64,
        missing,
        dry_run: choice.dry_run,
        ..Outcome::default()
    };
    if choice.dry_run {
        return report(deed, choice, &rows, &outcome);
    }
    let engine = engine(choice, digest).await?;
    touch_all(&engine, deed, &rows, choice, &mut outcome).await?;
    engine.close().await;
    report(deed, choice, &rows, &outcome)
}

async fn touch_all(
    engine: &Engine,
    deed: Deed,
    rows: &[Row],
    choice: &Choice,
    outcome: &mut Outcome,
) -> Result<(), Error> {
    // One time for all of them: however long the writing takes, the due times are evenly apart.
    let from = engine.dispatch().clock().now_seconds();
    let (side_by_side, pause) = deed.pace();
    let mut pace = pause.map(tokio::time::interval);
    for (lot, rows) in rows.chunks(side_by_side).enumerate() {
        if let Some(pace) = &mut pace {
            pace.tick().await;
        }
        let touched = rows.iter().enumerate().map(|(place, row)| {
            let due_at = deed.due_at(from, lot * side_by_side + place);
            touch(engine, deed, row, choice, due_at)
        });
        for (row, touched) in rows.iter().zip(join_all(touched).await) {
            match touched {
                Ok(true) => outcome.changed += 1,
                Ok(false) => outcome.unchanged += 1,
                Err(Error::Blocked(blocked)) => outcome.refused.push(Refused {
                    flow: row.flow,
                    id: row.id.clone(),
                    error_code: blocked.code().to_owned(),
                }),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

fn chosen(choice: &Choice, row: &Row) -> bool {
    choice.flow.is_none_or(|flow| row.flow == flow.name())
        && choice.id.as_ref().is_none_or(|id| row.id.as_ref() == Some(id))
        && choice.site.as_ref().is_none_or(|site| row.site_id.as_ref() == Some(site))
        && choice.code.as_ref().is_none_or(|code| row.error_code.as_ref() == Some(code))
}

/// An engine that makes no calls and ends no lease but what opening ends.
async fn engine(choice: &Choice, digest: Option<&str>) -> Result<Engine, Failed> {
    let builder = place::engine(&choice.path)?;
    let builder = match (digest, choice.flow) {
        (Some(digest), Some(FlowName::Processing)) => builder.receiver_digest(digest),
        (Some(digest), Some(FlowName::Delivery)) => builder.source_runtime(SourceRuntime {
            capabilities_sha256: digest.to_owned(),
            longest_call_seconds: LONGEST_CALL_SECONDS,
        }),
        (Some(_), Some(FlowName::Dispatch | FlowName::Lifecycle | FlowName::Notification)) => {
            return Err(Failed::Usage("records of this flow are registered under no digest"));
        }
        (Some(_), None) | (None, _) => builder,
    };
    Ok(builder.open().await?)
}

async fn touch(
    engine: &Engine,
    deed: Deed,
    row: &Row,
    choice: &Choice,
    due_at: Option<f64>,
) -> Result<bool, Error> {
    let id = row.id.as_deref().unwrap_or_default();
    let by = choice.who.by.as_deref().unwrap_or_default();
    let why = choice.who.why.as_deref().unwrap_or_default();
    let asked = Asked { deed, id, by, why, due_at };
    match FlowTag::from_name(row.flow) {
        Some(FlowTag::Dispatch) => one(engine.dispatch(), asked).await,
        Some(FlowTag::Lifecycle) => one(engine.lifecycle(), asked).await,
        Some(FlowTag::Notification) => one(engine.notification(), asked).await,
        Some(FlowTag::Processing) => one(engine.processing(), asked).await,
        Some(FlowTag::Delivery) => one(engine.delivery(), asked).await,
        None => Err(Error::Stopped), // a row is always of a flow
    }
}

/// What is asked of one record.
#[derive(Clone, Copy)]
struct Asked<'a> {
    deed: Deed,
    id: &'a str,
    by: &'a str,
    why: &'a str,
    due_at: Option<f64>,
}

async fn one<F: Answers>(handle: &Handle<F>, asked: Asked<'_>) -> Result<bool, Error> {
    let Asked { deed, id, by, why, due_at } = asked;
    let Intervened { changed, .. } = match (deed, due_at) {
        (Deed::Requeue(_), Some(due_at)) => handle.requeue_at(id, by, why, due_at).await?,
        (Deed::Requeue(_), None) => handle.requeue(id, by, why).await?,
        (Deed::Dismiss(_), _) => handle.dismiss(id, by, why).await?,
        (Deed::Repin(_), _) => handle.repin(id, by, why).await?,
    };
    Ok(changed)
}

fn report(deed: Deed, choice: &Choice, rows: &[Row], outcome: &Outcome) -> Result<Ended, Failed> {
    if choice.json {
        print::json(outcome)?;
    } else if choice.dry_run {
        for row in rows {
            let id = row.id.as_deref().unwrap_or("-");
            let code = row.error_code.as_deref().unwrap_or_default();
            print::line(&format!("{} {id}  {} {code}", row.flow, row.state))?;
        }
        print::line(&format!("{} would be {}", outcome.matched, deed.done()))?;
    } else {
        for refused in &outcome.refused {
            let id = refused.id.as_deref().unwrap_or("-");
            print::line(&format!("{} {id}  {}", refused.flow, refused.error_code))?;
        }
        print::line(&format!(
            "{} {}, unchanged {}, refused {}",
            outcome.changed,
            deed.done(),
            outcome.unchanged,
            outcome.refused.len()
        ))?;
    }
    if outcome.missing {
        eprintln!("leasehold: record_missing: no record of this flow has this id");
    }
    let fine = outcome.refused.is_empty() && !outcome.missing;
    Ok(if fine { Ended::Fine } else { Ended::Findings })
}
