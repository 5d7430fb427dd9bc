//! Workers: claim, call, settle.
//!
//! Owns one whole attempt, and loops of them. Generic over the flow and over the client. Workers are
//! not actors: a slow other side holds a lease, never a mailbox. Must hold no rule: what an answer
//! means is the flow's, what a failure costs is the record's.

mod client;

pub use client::{CallFailure, Client};

use crate::destination::{Destination, Lane, Permit, Turn, outcome};
use crate::error::Error;
use crate::handle::{Claim, Handle};
use crate::unwinding::Unwinding;
use leasehold_actors::arguments::Blocked;
use leasehold_actors::contract::text::ErrorCode;
use leasehold_actors::contract::time::{DURATION_SECONDS_MAX, Duration};
use leasehold_actors::flows::Answers;
use leasehold_actors::record::Settlement;
use leasehold_journal::JournalError;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::Instrument as _;

/// Longest time a worker sleeps while anything waits, whatever the clocks say.
const TICK_SECONDS_MAX: f64 = 30.0;
/// Time between two tries while the journal's server is away.
const UNREACHABLE_SECONDS: f64 = 1.0;

impl<F: Answers> Handle<F> {
    /// One whole attempt: claim, call, settle. `None` when nothing is due; the client is not called
    /// then. The clock is read again when the answer is recorded (D10).
    ///
    /// # Errors
    /// [`Error::Blocked`] with `lease_invalid`, `client_invalid`, `lease_too_short`, then as
    /// [`Self::claim`]; a settlement that is refused (`claim_lost`, `lease_expired`,
    /// `clock_regressed`) leaves the record as it is. [`Error::Journal`]: the record stays leased and
    /// nothing is judged (D7). [`Error::Stopped`] once the engine is shut down: nothing was claimed, or
    /// the call was dropped and its lease given back.
    pub async fn run_once<C: Client<F>>(
        &self,
        client: &C,
        worker: &str,
        lease_seconds: f64,
    ) -> Result<Option<F::Attempt>, Error> {
        match self.attempt(client, worker, lease_seconds, None).await? {
            Attempted::Settled(attempt) => Ok(Some(attempt)),
            Attempted::Nothing | Attempted::GivenBack => Ok(None),
        }
    }

    /// The same with leave of a destination, which goes back unused when nothing is due.
    ///
    /// A call that finds out whether a side works again is made each time with another record, and where it
    /// fails as calls to a side that is down do, the lease is given back: an outage must spend nobody's
    /// attempts, however long it lasts.
    async fn attempt<C: Client<F>>(
        &self,
        client: &C,
        worker: &str,
        lease_seconds: f64,
        mut permit: Option<Permit>,
    ) -> Result<Attempted<F>, Error> {
        self.check_run(worker, lease_seconds, client.longest_call_seconds())?;
        let under_way = self.stopper().begin()?;
        let probe = permit.as_ref().and_then(Permit::probe);
        let asked_at = self.clock().steady_seconds();
        let claim = self.claim_behind(worker, lease_seconds, probe.unwrap_or(0)).await?;
        let Some(claim) = claim else { return Ok(Attempted::Nothing) };
        let spent = self.clock().steady_seconds() - asked_at;
        if !ends_in_time(spent, client.longest_call_seconds(), lease_seconds) {
            tracing::warn!(code = "lease_too_old", "a lease took too long to be granted");
            self.release(&claim).await?;
            return Ok(Attempted::GivenBack);
        }
        let attempt = claim.granted.record.attempts;
        let span = tracing::info_span!("attempt", flow = F::TAG.name(), attempt);
        if let Some(permit) = &mut permit {
            permit.begin();
        }
        let attempted = async {
            let started = self.clock().steady_seconds();
            // Inside the async block, so that a client that panics before its future is caught too.
            let call = Unwinding::new(async { client.call(claim.request()).await });
            let Some(called) = under_way.unless_stopped(call).await else {
                // The permit goes with it, unreported: an abandoned call says nothing about the side.
                self.release(&claim).await?;
                self.stopper().note_released();
                return Err(Error::Stopped);
            };
            crate::metrics::called(F::TAG, self.clock().steady_seconds() - started);
            if let Some(permit) = permit {
                let outcome = outcome(called.as_ref());
                let is_down = probe.is_some() && outcome.is_transient();
                permit.report(outcome);
                if is_down {
                    self.release(&claim).await?;
                    return Ok(Attempted::GivenBack);
                }
            }
            let settlement = self.settlement(&claim, called);
            self.settle_in_time(&claim, settlement, asked_at + lease_seconds).await
        };
        attempted.instrument(span).await
    }

    /// Settles the attempt, and tries again while the journal's server is away, for as long as the lease
    /// cannot be over: the call was made, and a settlement that is lost would have it made again.
    async fn settle_in_time(
        &self,
        claim: &Claim<F>,
        settlement: Settlement<F>,
        until_steady: f64,
    ) -> Result<Attempted<F>, Error> {
        loop {
            match self.settle_attempt(claim, settlement.clone()).await {
                Err(Error::Journal(JournalError::Unreachable))
                    if self.clock().steady_seconds() < until_steady =>
                {
                    self.clock().sleep(UNREACHABLE_SECONDS).await;
                }
                settled => return settled.map(Attempted::Settled),
            }
        }
    }

    /// What a call's end means for the attempt.
    fn settlement(
        &self,
        claim: &Claim<F>,
        called: Option<Result<Vec<u8>, CallFailure>>,
    ) -> Settlement<F> {
        let client_failure = || Settlement::Fail { code: Blocked::new::<F>(F::RULES.unmarked).0 };
        match called {
            Some(Ok(answer)) => match Self::report(claim, &answer) {
                Ok(report) => Settlement::Report(report),
                Err(Blocked(code)) => Settlement::Fail { code },
            },
            Some(Err(CallFailure::Marked { code, retryable, retry_after_seconds })) => {
                // The shorter of a day and no number at all would be a day.
                let retry_after = retry_after_seconds
                    .filter(|seconds| !seconds.is_nan())
                    .and_then(|seconds| Duration::new(seconds.min(DURATION_SECONDS_MAX)));
                match (ErrorCode::new(&code), retryable) {
                    (Some(code), true) => Settlement::Retry { code, retry_after },
                    (Some(code), false) => Settlement::Fail { code },
                    (None, _) => client_failure(),
                }
            }
            Some(Err(CallFailure::Unmarked)) | None => client_failure(),
        }
    }
}

/// Whether a call that begins so long after its lease was asked for is over before the lease can be, with a
/// margin for clocks that do not run alike. A journal that answers late must not let two calls overlap.
fn ends_in_time(spent_seconds: f64, longest_seconds: Option<f64>, lease_seconds: f64) -> bool {
    let room = lease_seconds - longest_seconds.unwrap_or(0.0);
    let margin = (lease_seconds / 1_000.0).min(room / 2.0);
    spent_seconds < room - margin
}

/// What came of one turn of a worker.
enum Attempted<F: Answers> {
    /// Nothing was due.
    Nothing,
    /// The side is still down; the record is as it was.
    GivenBack,
    /// The call was made and is settled.
    Settled(F::Attempt),
}

/// How a [`drain`] works.
#[derive(Debug, Clone)]
pub struct DrainOptions {
    /// Attempts side by side, at least 1.
    pub in_flight: usize,
    /// Length of each lease, in seconds.
    pub lease_seconds: f64,
    /// What the workers' names start with.
    pub worker: String,
    /// Whom the workers ask for leave before each claim; the workers of all flows that call one side
    /// share it. `None`: they call as fast as they can. While it is down, the calls that find out whether it
    /// works again spend no attempt.
    pub destination: Option<Destination>,
}

/// Works until nothing of the flow waits and nothing is leased (what is paused does not count), or until
/// `stop` turns true or the engine is shut down: then no new claim is made and the calls under way end
/// first, or are dropped when the engine's shutdown says so. `seen` is told every attempt that was settled.
///
/// # Errors
/// The first [`Error`] that is not about one record.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::sync::Arc;
/// # struct Transport;
/// # impl leasehold::Client<leasehold::Dispatch> for Transport {
/// #     fn longest_call_seconds(&self) -> Option<f64> { Some(30.0) }
/// #     async fn call(
/// #         &self,
/// #         request: leasehold::ChangeRequest,
/// #     ) -> Result<Vec<u8>, leasehold::CallFailure> {
/// #         let answer = r#"{"schema": "blun.website-localization-api.v2", "event_id": "ID",
/// #             "plan_id": "plan-1", "job_count": 1, "inserted_jobs": 1, "status": "enqueued"}"#;
/// #         Ok(answer.replace("ID", request.event_id.as_str()).into_bytes())
/// #     }
/// # }
/// # let changes = std::fs::read_to_string("examples/changes.ndjson")?;
/// # let change = changes.lines().next().ok_or("an example")?;
/// # let engine = leasehold::Engine::in_memory(&leasehold::MemoryDisk::new()).open().await?;
/// let options = leasehold::DrainOptions {
///     in_flight: 2,
///     lease_seconds: 600.0,
///     worker: "worker".to_owned(),
///     destination: None,
/// };
/// engine.dispatch().enqueue(change, 5).await?;
/// let (_stop, stopped) = tokio::sync::watch::channel(false);
/// let seen = |attempt: &leasehold::DispatchAttempt| println!("{}", attempt.status);
/// leasehold::drain(engine.dispatch(), Arc::new(Transport), &options, stopped, seen).await?;
/// assert_eq!(engine.dispatch().status("help-0001").await?.status, "succeeded");
/// # Ok(()) }
/// ```
pub async fn drain<F, C>(
    handle: &Handle<F>,
    client: Arc<C>,
    options: &DrainOptions,
    stop: watch::Receiver<bool>,
    seen: impl Fn(&F::Attempt) + Clone + Send + 'static,
) -> Result<(), Error>
where
    F: Answers,
    C: Client<F> + 'static,
{
    let mut workers = JoinSet::new();
    let failed = watch::Sender::new(false);
    let stops = Stops { asked: stop, failed: failed.subscribe(), stays: None };
    start_workers(&mut workers, handle, &client, options, &stops, seen);
    ended(workers, &failed).await
}

/// Starts the workers of one flow.
pub(crate) fn start_workers<F, C>(
    workers: &mut JoinSet<Result<(), Error>>,
    handle: &Handle<F>,
    client: &Arc<C>,
    options: &DrainOptions,
    stops: &Stops,
    seen: impl Fn(&F::Attempt) + Clone + Send + 'static,
) where
    F: Answers,
    C: Client<F> + 'static,
{
    let lane = Lane::new(options.destination.clone());
    for number in 0..options.in_flight.max(1) {
        let worker = format!("{}-{number}", options.worker);
        let (handle, client, seen) = (handle.clone(), Arc::clone(client), seen.clone());
        let (stops, lease_seconds, lane) = (stops.clone(), options.lease_seconds, lane.clone());
        workers.spawn(async move {
            work(&handle, client.as_ref(), &worker, lease_seconds, &lane, stops, seen).await
        });
    }
}

/// Waits for all workers; the first failure ends the others.
pub(crate) async fn ended(
    mut workers: JoinSet<Result<(), Error>>,
    failed: &watch::Sender<bool>,
) -> Result<(), Error> {
    let mut result = Ok(());
    while let Some(ended) = workers.join_next().await {
        // A worker's panic is ours; a client's is caught in `attempt`.
        let ended = ended.unwrap_or(Err(Error::Stopped));
        if ended.is_err() {
            failed.send_replace(true);
        }
        result = result.and(ended);
    }
    result
}

/// When a worker ends.
#[derive(Debug, Clone)]
pub(crate) struct Stops {
    /// The caller says so.
    pub(crate) asked: watch::Receiver<bool>,
    /// Another worker met an error that is not about one record.
    pub(crate) failed: watch::Receiver<bool>,
    /// Set for workers that stay while nothing waits, since another flow may bring more: turns true
    /// when none will.
    pub(crate) stays: Option<watch::Receiver<bool>>,
}

impl Stops {
    fn now(&self) -> bool {
        let over = self.stays.as_ref().is_some_and(|over| *over.borrow());
        *self.asked.borrow() || *self.failed.borrow() || over
    }

    /// Waits for any of them; a sender that is gone counts as asking.
    pub(crate) async fn changed(&mut self) {
        let (asked, failed, stays) = (&mut self.asked, &mut self.failed, &mut self.stays);
        let over = async {
            match stays {
                Some(over) => over.changed().await,
                None => std::future::pending().await,
            }
        };
        let gone = tokio::select! {
            changed = asked.changed() => changed.is_err(),
            changed = failed.changed() => changed.is_err(),
            changed = over => changed.is_err(),
        };
        if gone {
            self.asked = watch::Sender::new(true).subscribe();
        }
    }
}

async fn work<F: Answers, C: Client<F>>(
    handle: &Handle<F>,
    client: &C,
    worker: &str,
    lease_seconds: f64,
    lane: &Lane,
    mut stops: Stops,
    seen: impl Fn(&F::Attempt),
) -> Result<(), Error> {
    let mut moves = handle.moves();
    while !stops.now() && !handle.stopper().is_stopping() {
        moves.mark_unchanged();
        let permit = match lane.turn(handle, &mut stops).await? {
            Turn::Claim(permit) => permit,
            Turn::Look => continue,
            Turn::End => return Ok(()),
        };
        match handle.attempt(client, worker, lease_seconds, permit).await {
            Ok(Attempted::Settled(attempt)) => {
                seen(&attempt);
                continue;
            }
            Ok(Attempted::GivenBack) => continue,
            Ok(Attempted::Nothing) => {}
            Err(Error::Blocked(blocked)) if about_one_record(&blocked) => {
                tracing::warn!(code = blocked.code(), "a settlement was refused");
                continue;
            }
            Err(Error::Busy) => {
                tokio::task::yield_now().await;
                continue;
            }
            Err(Error::Journal(JournalError::Unreachable)) => {
                wait_for_server(handle, &mut stops).await;
                continue;
            }
            Err(Error::Stopped) if handle.stopper().is_stopping() => return Ok(()),
            Err(error) => return Err(error),
        }
        let clock = handle.clock();
        let wait = match handle.next_at().await? {
            Some(next_at) => (next_at - clock.now_seconds()).clamp(0.0, TICK_SECONDS_MAX),
            None if stops.stays.is_some() => TICK_SECONDS_MAX,
            None => {
                lane.tell_emptied();
                return Ok(());
            }
        };
        tokio::select! {
            () = clock.sleep(wait) => {}
            _ = moves.changed() => {}
            () = stops.changed() => {}
            () = handle.stopper().begun() => {}
        }
    }
    Ok(())
}

async fn wait_for_server<F: Answers>(handle: &Handle<F>, stops: &mut Stops) {
    tracing::warn!(code = "storage_unreachable", "waiting for the journal's server");
    tokio::select! {
        () = handle.clock().sleep(UNREACHABLE_SECONDS) => {}
        () = stops.changed() => {}
        () = handle.stopper().begun() => {}
    }
}

/// Whether a refusal concerns the one record that was claimed, so that the next may go on.
fn about_one_record(blocked: &Blocked) -> bool {
    ["claim_lost", "claim_missing", "lease_expired", "clock_regressed", "state_invalid"]
        .iter()
        .any(|name| blocked.code().ends_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_begins_only_where_it_ends_before_its_lease_can() {
        assert!(ends_in_time(0.0, Some(30.0), 60.0));
        assert!(ends_in_time(29.9, Some(30.0), 60.0));
        assert!(!ends_in_time(29.95, Some(30.0), 60.0), "within the margin");
        assert!(!ends_in_time(31.0, Some(30.0), 60.0));
        assert!(ends_in_time(0.0, Some(59.999), 60.0), "as close as the lease may be");
        assert!(ends_in_time(59.0, None, 60.0) && !ends_in_time(60.0, None, 60.0));
    }
}
