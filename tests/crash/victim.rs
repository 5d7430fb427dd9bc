//! A victim's life: the engine as a host uses it, one step after the other, each acknowledged.
//!
//! Owns the script and the words of an acknowledgement. Must not know when it is going to be killed.
//!
//! Acknowledgements go to standard output, a line `ack …` each, written in one call: what the harness has
//! read was said. A pipe outlives its writer, so nothing that was said is lost with it.
//!
//! Exit codes: 0 the script was done, 3 the engine answered with an error code. Anything else is a panic or
//! a signal.

use super::task::{Task, VARIABLE};
use leasehold::{Durability, Engine, EngineBuilder, Error, JournalError, ManualClock};
use std::future::Future;
use std::io::Write as _;
use std::path::Path;

/// Leases a record may take; more than any run of the harness ends for one record.
const ATTEMPTS_MAX: i64 = 20;
/// The time of all victims: every life is the same life, and nothing waits for a back-off.
const NOW_SECONDS: f64 = 1_000_000_000.0;
/// See [`open`].
pub(crate) const LOCK_TRIES: u32 = 2_000;

/// Does the task this process was started with, and ends it; returns at once when there is none.
pub(crate) fn take_part() {
    let Ok(task) = std::env::var(VARIABLE) else { return };
    let task: Task = serde_json::from_str(&task).expect("a launcher wrote it");
    std::process::exit(run(&task));
}

/// Does a task; gives the exit code.
pub(crate) fn run(task: &Task) -> i32 {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    match runtime.block_on(live(task)) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{}", error.code());
            3
        }
    }
}

/// Opens a journal as every victim does.
///
/// While another thread of the harness starts a child, that child holds a copy of every open file until
/// it has become another program, a lock that was let go among them. So a locked journal is tried again,
/// a bounded number of times.
///
/// # Errors
/// What the engine answers.
pub(crate) async fn open(journal: &Path, durability: Durability) -> Result<Engine, Error> {
    let mut tries = 0;
    loop {
        let clock = ManualClock::at(NOW_SECONDS);
        let opened = engine(journal).clock(clock).durability(durability).open().await;
        tries += 1;
        let locked = matches!(opened, Err(Error::Journal(JournalError::Locked)));
        if !locked || tries == LOCK_TRIES {
            return opened;
        }
        std::thread::yield_now();
    }
}

/// An engine on a folder, or on a server where the path is the URL of one.
fn engine(journal: &Path) -> EngineBuilder {
    #[cfg(feature = "postgres")]
    if let Some(place) = server(journal) {
        return Engine::on_server(place);
    }
    Engine::builder(journal)
}

/// The server that a path names; `None` for a folder.
#[cfg(feature = "postgres")]
pub(crate) fn server(journal: &Path) -> Option<leasehold::PostgresPlace> {
    let url = journal.to_str().filter(|path| path.starts_with("postgres://"))?;
    Some(leasehold::PostgresPlace::parse(url).expect("a launcher wrote it"))
}

async fn live(task: &Task) -> Result<(), Error> {
    let durability =
        if task.process_safe { Durability::ProcessSafe } else { Durability::PowerSafe };
    if let Some(first) = &task.single_writer {
        open(first, durability).await?.close().await;
    }
    let engine = open(&task.journal, durability).await?;
    acknowledge("opened");
    let flow = engine.dispatch();
    for number in task.first..task.first + task.records {
        let id = format!("event-{number:06}");
        let registered = flow.enqueue(change(&id), ATTEMPTS_MAX);
        step(task.ack_early, &format!("registered {id}"), registered).await?;
    }
    while task.deliver
        && let Some(claim) = flow.claim("victim", 600.0).await?
    {
        let view = claim.view();
        let id = view.event_id.as_str();
        acknowledge(&format!("claimed {id} {}", view.attempt));
        let settled = flow.complete(&claim, accepted(id));
        step(task.ack_early, &format!("settled {id}"), settled).await?;
    }
    engine.close().await;
    acknowledge("closed");
    Ok(())
}

/// Takes a step and acknowledges it, or the other way round.
async fn step<T>(
    early: bool,
    words: &str,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<(), Error> {
    if early {
        acknowledge(words);
    }
    call.await?;
    if !early {
        acknowledge(words);
    }
    Ok(())
}

/// Starts with a line's end: a test's own output may stand on the line before.
fn acknowledge(words: &str) {
    let line = format!("\nack {words}\n");
    std::io::stdout().write_all(line.as_bytes()).expect("the harness reads to the end");
}

fn change(event_id: &str) -> String {
    serde_json::json!({
        "schema": "blun.cms-content-change.v2",
        "event_id": event_id,
        "site_id": "site-1",
        "website_version": "web-1",
        "source_sequence": 1,
        "localization": {
            "source_id": "landing.intro",
            "source_revision": "rev 1",
            "source_text": "Frischer Kaffee für 3 €.",
            "source_locale": "de-AT",
            "content_type": "marketing",
            "glossary_version": "g-1",
            "policy_version": "p-1",
            "provider_id": "prov",
            "model_id": "m",
            "model_version": "2",
            "software_version": "1.0",
            "target_locales": ["fi-FI", "mt-MT"],
        },
    })
    .to_string()
}

fn accepted(event_id: &str) -> String {
    serde_json::json!({
        "schema": "blun.website-localization-api.v2",
        "event_id": event_id,
        "plan_id": "plan-1",
        "job_count": 2,
        "inserted_jobs": 2,
        "status": "enqueued",
    })
    .to_string()
}
