//! What came of a run's documents.

use super::failure::Failed;
use super::print;
use crate::engine::Engine;
use crate::error::Error;
use leasehold_actors::contract::lifecycle::Course;
use leasehold_actors::contract::text::ErrorCode;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The summary; its names are the command line's.
#[derive(Debug, Default, Serialize)]
pub(super) struct Summary {
    pub(super) read: u64,
    pub(super) enqueued: u64,
    pub(super) already_known: u64,
    pub(super) refused: u64,
    pub(super) succeeded: u64,
    pub(super) failed: u64,
    pub(super) unsettled: u64,
    pub(super) seconds: f64,
    pub(super) sequence: u64,
    pub(super) head: String,
    /// How the documents ended, by the CMS's own words, or by operation.
    pub(super) ended: BTreeMap<String, u64>,
}

/// Which stages a run follows its documents through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stages {
    pub(super) lifecycle: bool,
    pub(super) receiver: bool,
}

/// How one document stands.
enum Standing {
    Succeeded,
    Failed(Option<ErrorCode>),
    Unsettled,
}

/// What has been registered, and by which flow.
#[derive(Debug, Default)]
pub(super) struct Registered {
    /// Event ids of flow `dispatch`.
    pub(super) events: BTreeSet<String>,
    /// Operations and request ids of flow `delivery`.
    pub(super) documents: BTreeSet<(String, String)>,
}

impl Summary {
    /// Counts what became of the documents of this run; failed ones are named on stderr.
    pub(super) async fn count(
        &mut self,
        engine: &Engine,
        registered: &Registered,
        stages: Stages,
    ) -> Result<(), Failed> {
        for event_id in &registered.events {
            let standing = self.event(engine, event_id, stages).await?;
            self.add(event_id, standing);
        }
        for (operation, request_id) in &registered.documents {
            let status = engine.delivery().status(operation, request_id).await?;
            let standing = standing(status.status, status.last_error_code);
            if matches!(standing, Standing::Succeeded) {
                *self.ended.entry(operation.clone()).or_default() += 1;
            }
            self.add(request_id, standing);
        }
        Ok(())
    }

    fn add(&mut self, id: &str, standing: Standing) {
        match standing {
            Standing::Succeeded => self.succeeded += 1,
            Standing::Unsettled => self.unsettled += 1,
            Standing::Failed(code) => {
                self.failed += 1;
                let code = code.map_or_else(String::new, |code| code.to_string());
                eprintln!("{id}: failed: {code}");
            }
        }
    }

    /// One change through its stages, as far as they were asked for.
    async fn event(
        &mut self,
        engine: &Engine,
        event_id: &str,
        stages: Stages,
    ) -> Result<Standing, Error> {
        let dispatched = engine.dispatch().status(event_id).await?;
        let mut stand = standing(dispatched.status, dispatched.last_error_code);
        if !stages.lifecycle || !matches!(stand, Standing::Succeeded) {
            return Ok(stand);
        }
        let watched = engine.lifecycle().status(event_id).await?;
        stand = standing(watched.state, watched.last_error_code);
        let course = watched.remote_status.map(|status| (status.name(), status.course()));
        if let (Standing::Succeeded, Some((name, course))) = (&stand, course) {
            *self.ended.entry(name.to_owned()).or_default() += 1;
            if course == Course::Failed {
                stand = Standing::Failed(ErrorCode::new(name));
            }
        }
        if !stages.receiver || watched.state != "terminal" {
            return Ok(stand);
        }
        let told = engine.notification().status(event_id).await?;
        let mut rest = standing(told.status, told.last_error_code);
        if matches!(rest, Standing::Succeeded) {
            let processed = engine.processing().status(event_id).await?;
            rest = standing(processed.status, processed.last_error_code);
        }
        Ok(if matches!(rest, Standing::Succeeded) { stand } else { rest })
    }

    /// Prints it.
    pub(super) fn print(&self, as_json: bool) -> Result<(), Failed> {
        if as_json {
            return print::json(self);
        }
        print::line(&format!(
            "read {}, enqueued {}, already known {}, refused {}",
            self.read, self.enqueued, self.already_known, self.refused
        ))?;
        print::line(&format!(
            "succeeded {}, failed {}, unsettled {} in {:.1} s",
            self.succeeded, self.failed, self.unsettled, self.seconds
        ))?;
        if !self.ended.is_empty() {
            let ended: Vec<_> =
                self.ended.iter().map(|(name, count)| format!("{name} {count}")).collect();
            print::line(&format!("ended: {}", ended.join(", ")))?;
        }
        print::line(&format!("journal at record {}, head {}", self.sequence, self.head))
    }
}

fn standing(state: &str, code: Option<ErrorCode>) -> Standing {
    match state {
        "succeeded" | "terminal" => Standing::Succeeded,
        "failed" => Standing::Failed(code),
        _ => Standing::Unsettled,
    }
}
