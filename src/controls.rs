//! Pausing and resuming a flow, a site or a destination.
//!
//! Owns the check of who and why, and the reading of the clock. Must not decide anything about a scope
//! or a record.

use crate::clock::Clock;
use crate::engine::Engine;
use crate::error::Error;
use crate::intervene::{Intervened, intervention};
use leasehold_actors::arguments::Blocked;
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::control::{Command, PausedScope, Scope};
use leasehold_actors::flows::dispatch::Dispatch;
use leasehold_actors::shell::{Failure, Steered, Steering};
use std::sync::Arc;

impl Engine {
    /// Pauses a scope: from when this answers on, none of its records is given out. They are still
    /// registered and read, and leases that are out may settle or run out. It outlives the engine, until
    /// somebody resumes it. A record goes on only when none of its flow, its site and its destination is
    /// paused.
    ///
    /// `by` is 1 to 128 visible ASCII characters, `why` 1 to 500 characters without control characters;
    /// both are kept in the journal. Pausing what is paused changes nothing.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let changes = std::fs::read_to_string("examples/changes.ndjson")?;
    /// # let change = changes.lines().next().ok_or("an example")?;
    /// # let engine = leasehold::Engine::in_memory(&leasehold::MemoryDisk::new()).open().await?;
    /// let cms = leasehold::Scope::new("destination/cms").ok_or("there is such a side")?;
    /// engine.pause(cms.clone(), "maria", "the CMS is being moved").await?;
    /// engine.dispatch().enqueue(change, 5).await?;
    /// assert!(engine.dispatch().claim("worker-1", 600.0).await?.is_none());
    /// engine.resume(cms, "maria", "it has moved").await?;
    /// assert!(engine.dispatch().claim("worker-1", 600.0).await?.is_some());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Blocked`] with `control.operator_invalid`, `control.reason_invalid`,
    /// `control.time_invalid`, `control.clock_regressed`, or `control.state_invalid` for a scope that
    /// does not replay; [`Error::Journal`].
    pub async fn pause(
        &self,
        scope: Scope,
        by: &str,
        why: &str,
    ) -> Result<Intervened<Option<PausedScope>>, Error> {
        steer(self.steering(), self.dispatch().clock(), scope, pause(by, why)?).await
    }

    /// Lets a paused scope go on. Resuming what is open changes nothing.
    ///
    /// # Errors
    /// As [`Self::pause`].
    pub async fn resume(
        &self,
        scope: Scope,
        by: &str,
        why: &str,
    ) -> Result<Intervened<Option<PausedScope>>, Error> {
        steer(self.steering(), self.dispatch().clock(), scope, resume(by, why)?).await
    }

    /// What is paused, with who, why and since when, in the order of the scopes' texts.
    #[must_use]
    pub fn paused(&self) -> Vec<PausedScope> {
        self.steering().paused().to_vec()
    }
}

/// Carries out what was asked of a scope.
pub(crate) async fn steer(
    steering: &Steering,
    clock: &Arc<dyn Clock>,
    scope: Scope,
    command: Command,
) -> Result<Intervened<Option<PausedScope>>, Error> {
    let now =
        Timestamp::new(clock.now_seconds()).ok_or_else(|| Blocked::control("time_invalid"))?;
    let steered = steering.steer(scope, command, now).await;
    let Steered { paused, changed } = steered.map_err(failed)?;
    Ok(Intervened { status: paused, changed })
}

/// A pause, if who and why are valid.
pub(crate) fn pause(by: &str, why: &str) -> Result<Command, Blocked> {
    Ok(Command::Pause { intervention: intervention(by, why, Blocked::control)? })
}

/// The end of one, likewise.
pub(crate) fn resume(by: &str, why: &str) -> Result<Command, Blocked> {
    Ok(Command::Resume { intervention: intervention(by, why, Blocked::control)? })
}

/// A refusal is of no flow; what else fails, fails as everywhere.
fn failed(failure: Failure) -> Error {
    if let Failure::Refused(refusal) = failure {
        return Blocked::control(refusal.code()).into();
    }
    Error::of::<Dispatch>(failure)
}
