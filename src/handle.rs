//! One handle per flow: what a host calls.
//!
//! Owns the order in which arguments are checked (contract 4.9) and the reading of the clock. Must
//! not decide anything about a record.

mod by_hand;

pub use by_hand::{CompletedByHand, FailedByHand};

use crate::clock::{Clock, Entropy};
use crate::error::Error;
use crate::shutdown::Stopper;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use leasehold_actors::arguments::{self, Blocked};
use leasehold_actors::contract::text::Sha256;
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::flows::Answers;
use leasehold_actors::health::Depths;
use leasehold_actors::record::rules::Arguments;
use leasehold_actors::record::{Command, Flow, Identity, LeaseToken, Settlement, State};
use leasehold_actors::shell::Recorded;
use leasehold_actors::shell::{Granted, Port};
use serde::{Serialize, Serializer};
use std::num::NonZeroU32;
use std::sync::Arc;
use tokio::sync::watch;

/// Length of a lease where nothing is said, in seconds.
pub const LEASE_SECONDS: f64 = 600.0;
/// Random bytes in a lease token (contract 1.3).
const TOKEN_BYTES: usize = 32;

/// A lease on one record, and what is needed to make the call.
///
/// Serialises to the contract's names, without the token and the payload; `Debug` shows neither.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let change = std::fs::read_to_string("examples/changes.ndjson")?.lines().next().ok_or("one")?.to_owned();
/// # let engine = leasehold::Engine::in_memory(&leasehold::MemoryDisk::new()).open().await?;
/// engine.dispatch().enqueue(&change, 5).await?;
/// let claim = engine.dispatch().claim("worker-1", 600.0).await?.ok_or("it is due")?;
/// assert_eq!(claim.request().event_id.as_str(), "help-0001"); // call, and then settle
/// let status = engine.dispatch().retry(&claim, "cms.unavailable").await?;
/// assert_eq!((status.status, status.attempts), ("retry_wait", 1));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Claim<F: Flow> {
    pub(crate) granted: Granted<F>,
}

impl<F: Answers> Claim<F> {
    pub(crate) fn new(granted: Granted<F>) -> Self {
        Self { granted }
    }

    /// What a client needs to make the call.
    #[must_use]
    pub fn request(&self) -> F::Request {
        F::request(&self.granted.record.binding, &self.granted.payload)
    }

    /// What it shows of itself.
    #[must_use]
    pub fn view(&self) -> F::ClaimView {
        F::claim_view(&self.granted.record, &self.granted.owner, self.granted.expires_at)
    }

    /// When the lease ends, in seconds since 1970.
    #[must_use]
    pub fn expires_at(&self) -> f64 {
        self.granted.expires_at.seconds()
    }

    /// The lease's token, for a worker that has to carry the claim over a boundary of its own.
    #[must_use]
    pub fn token(&self) -> &LeaseToken {
        &self.granted.token
    }
}

impl<F: Answers> Serialize for Claim<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.view().serialize(serializer)
    }
}

/// The answer to a registration.
#[derive(Debug, Clone, PartialEq)]
pub struct Registered<S> {
    /// The record's status.
    pub status: S,
    /// Whether it was there already, under the same binding; nothing was written then.
    pub already_known: bool,
}

/// What was configured of the flow and its other side.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Terms {
    /// Its pinned digest.
    pub(crate) expected: Option<Sha256>,
    /// The longest time one call can take, in seconds.
    pub(crate) longest_call_seconds: Option<f64>,
    /// How many leases a record may lose in a row.
    pub(crate) unclean_losses_max: Option<NonZeroU32>,
}

/// A handle on one flow; cheap to clone.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let change = std::fs::read_to_string("examples/changes.ndjson")?.lines().next().ok_or("one")?.to_owned();
/// # let engine = leasehold::Engine::in_memory(&leasehold::MemoryDisk::new()).open().await?;
/// let dispatch = engine.dispatch().clone();
/// assert!(!dispatch.enqueue(&change, 5).await?.already_known);
/// assert!(dispatch.enqueue(&change, 5).await?.already_known);
/// assert_eq!(dispatch.status("help-0001").await?.status, "pending");
/// assert_eq!(dispatch.health().await?.due, 1);
/// # Ok(()) }
/// ```
pub struct Handle<F: Answers> {
    port: Port<F>,
    pub(crate) terms: Terms,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    stopper: Stopper,
}

impl<F: Answers> Clone for Handle<F> {
    fn clone(&self) -> Self {
        Self {
            port: self.port.clone(),
            terms: self.terms,
            clock: Arc::clone(&self.clock),
            entropy: Arc::clone(&self.entropy),
            stopper: self.stopper.clone(),
        }
    }
}

impl<F: Answers> std::fmt::Debug for Handle<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("flow", &F::TAG.name()).finish_non_exhaustive()
    }
}

impl<F: Answers> Handle<F> {
    pub(crate) fn new(
        port: Port<F>,
        terms: Terms,
        (clock, entropy): (Arc<dyn Clock>, Arc<dyn Entropy>),
        stopper: Stopper,
    ) -> Self {
        Self { port, terms, clock, entropy, stopper }
    }

    pub(crate) fn stopper(&self) -> &Stopper {
        &self.stopper
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    pub(crate) fn now(&self) -> Result<Timestamp, Blocked> {
        arguments::time::<F>(self.clock.now_seconds())
    }

    /// Leases the next due record for this worker; `None` when nothing is due that is not paused.
    /// Before that, every lease that ran out is settled.
    ///
    /// `worker` is a token of at most 128 characters, `lease_seconds` more than 0 and at most 86,400.
    ///
    /// # Errors
    /// [`Error::Blocked`] with `worker_invalid`, `time_invalid` or `lease_invalid`;
    /// [`Error::Journal`]; [`Error::Stopped`] once the engine is shut down.
    pub async fn claim(&self, worker: &str, lease_seconds: f64) -> Result<Option<Claim<F>>, Error> {
        self.claim_behind(worker, lease_seconds, 0).await
    }

    /// The same, passing so many due records, and starting again from the first after the last.
    pub(crate) async fn claim_behind(
        &self,
        worker: &str,
        lease_seconds: f64,
        behind: u32,
    ) -> Result<Option<Claim<F>>, Error> {
        let owner = arguments::worker::<F>(worker)?;
        let (now, lease) = match F::RULES.arguments {
            Arguments::LeaseFirst | Arguments::TimeFirst => {
                let now = self.now()?;
                (now, arguments::lease::<F>(lease_seconds)?)
            }
            Arguments::WorkerFirst => {
                let lease = arguments::lease::<F>(lease_seconds)?;
                arguments::lease_outlasts::<F>(lease, self.terms.longest_call_seconds)?;
                (self.now()?, lease)
            }
        };
        if self.stopper.is_stopping() {
            return Err(Error::Stopped);
        }
        let mut bytes = [0; TOKEN_BYTES];
        self.entropy.fill(&mut bytes);
        let token = LeaseToken::new(URL_SAFE_NO_PAD.encode(bytes).into());
        let times = (now, self.clock.steady_seconds());
        let granted = self.port.claim(owner, token, lease, times, behind).await;
        let granted = granted.map_err(Error::of::<F>)?;
        if granted.is_some() {
            crate::metrics::claimed(F::TAG);
        }
        Ok(granted.map(Claim::new))
    }

    /// Looks at the arguments of `run_once` in the flow's order, as far as `claim` does not.
    pub(crate) fn check_run(
        &self,
        worker: &str,
        lease_seconds: f64,
        longest_call: Option<f64>,
    ) -> Result<(), Blocked> {
        let outlasts = |lease| arguments::lease_outlasts::<F>(lease, longest_call);
        match F::RULES.arguments {
            Arguments::LeaseFirst => outlasts(arguments::lease::<F>(lease_seconds)?),
            Arguments::TimeFirst => {
                self.now()?;
                arguments::worker::<F>(worker)?;
                outlasts(arguments::lease::<F>(lease_seconds)?)
            }
            Arguments::WorkerFirst => {
                arguments::worker::<F>(worker)?;
                outlasts(arguments::lease::<F>(lease_seconds)?)
            }
        }
    }

    /// Sends a registration.
    pub(crate) async fn register(
        &self,
        binding: F::Binding,
        payload: F::Payload,
        settled: Option<F::Outcome>,
        now: Timestamp,
    ) -> Result<Registered<F::Status>, Error> {
        let identity = F::identity(&binding);
        let command = Command::Register { binding, payload, settled };
        let Recorded { state, changed } = self.command(identity, command, now).await?;
        crate::metrics::registered(F::TAG, changed);
        let status = F::status(&state, now).ok_or(Error::Stopped)?;
        Ok(Registered { status, already_known: !changed })
    }

    /// Reads one record; `None` for one that is not there.
    pub(crate) async fn read(
        &self,
        identity: Identity,
        now: Timestamp,
    ) -> Result<Option<F::Status>, Error> {
        let state = self.port.read(identity, now).await.map_err(Error::of::<F>)?;
        Ok(F::status(&state, now))
    }

    /// Sends a command to one record.
    pub(crate) async fn command(
        &self,
        identity: Identity,
        command: Command<F>,
        now: Timestamp,
    ) -> Result<Recorded<F>, Error> {
        self.port.command(identity, command, now).await.map_err(Error::of::<F>)
    }

    async fn settle(
        &self,
        claim: &Claim<F>,
        settlement: Settlement<F>,
        now: Timestamp,
    ) -> Result<State<F>, Error> {
        let command = Command::Settle { proof: claim.granted.proof(), settlement };
        let identity = claim.granted.identity.clone();
        let state = self.command(identity, command, now).await?.state;
        crate::metrics::settled(F::TAG, state.kind());
        Ok(state)
    }

    /// Gives a lease back: the record is as it was before the claim and due at once, and no attempt is
    /// spent. The call may have been made all the same; it is made again with the same identity and bytes.
    ///
    /// # Errors
    /// [`Error::Blocked`] with `time_invalid`, then what the record says: `claim_missing`, `claim_lost`,
    /// `lease_expired`, `clock_regressed`; [`Error::Journal`].
    pub async fn release(&self, claim: &Claim<F>) -> Result<F::Status, Error> {
        let now = self.now()?;
        let command = Command::Release { proof: claim.granted.proof() };
        let identity = claim.granted.identity.clone();
        let state = self.command(identity, command, now).await?.state;
        crate::metrics::released(F::TAG);
        F::status(&state, now).ok_or(Error::Stopped)
    }

    /// Settles an attempt without giving the status; used by `run_once`.
    pub(crate) async fn settle_attempt(
        &self,
        claim: &Claim<F>,
        settlement: Settlement<F>,
    ) -> Result<F::Attempt, Error> {
        let now = self.now()?;
        let state = self.settle(claim, settlement, now).await?;
        F::attempt(&state).ok_or(Error::Stopped)
    }

    /// Reads an answer against the claim it is for.
    pub(crate) fn report(claim: &Claim<F>, answer: &[u8]) -> Result<F::Report, Blocked> {
        F::report(&claim.granted.record.binding, answer)
    }

    /// The flow's health. Costs the same however many records there are.
    ///
    /// # Errors
    /// [`Error::Blocked`] with `time_invalid`.
    pub async fn health(&self) -> Result<F::Health, Error> {
        self.port.health(self.now()?).await.map_err(Error::of::<F>)
    }

    /// How much waits, and since when.
    pub(crate) async fn depths(&self) -> Result<Depths, Error> {
        self.port.depths(self.now()?).await.map_err(Error::of::<F>)
    }

    /// When the next thing has to be done, in seconds since 1970: a record is due, a lease ends.
    /// `None` when nothing waits and nothing is leased. What is paused is waited for by [`Self::moves`],
    /// which a resume counts up.
    ///
    /// # Errors
    /// [`Error::Blocked`] with `time_invalid`.
    pub async fn next_at(&self) -> Result<Option<f64>, Error> {
        let times = (self.now()?, self.clock.steady_seconds());
        let next = self.port.next_at(times).await.map_err(Error::of::<F>)?;
        Ok(next.map(Timestamp::seconds))
    }

    /// Counts up whenever a record of the flow moved, or something was paused or resumed.
    #[must_use]
    pub fn moves(&self) -> watch::Receiver<u64> {
        self.port.moves()
    }
}
