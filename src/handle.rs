//! One handle per flow: what a host calls.
//!
//! Owns the order in which arguments are checked (contract 4.9) and the reading of the clock. Must
//! not decide anything about a record.

use crate::clock::{Clock, Entropy};
use crate::error::Error;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use leasehold_actors::arguments::{self, Blocked};
use leasehold_actors::contract::change::Change;
use leasehold_actors::contract::text::{ErrorCode, Sha256, Token};
use leasehold_actors::contract::time::{Ceiling, Timestamp};
use leasehold_actors::flows::Answers;
use leasehold_actors::flows::dispatch::{Dispatch, DispatchBinding};
use leasehold_actors::record::{Command, Flow, Identity, LeaseToken, Settlement, State};
use leasehold_actors::shell::{Granted, Port};
use serde::{Serialize, Serializer};
use std::sync::Arc;
use tokio::sync::watch;

/// Length of a lease where nothing is said, in seconds.
pub const LEASE_SECONDS: f64 = 600.0;
/// Random bytes in a lease token (contract 1.3).
const TOKEN_BYTES: usize = 32;

/// A lease on one record, and what is needed to make the call.
///
/// Serialises to the contract's names, without the token and the payload; `Debug` shows neither.
#[derive(Debug, Clone)]
pub struct Claim<F: Flow> {
    granted: Granted<F>,
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

/// A handle on one flow; cheap to clone.
pub struct Handle<F: Answers> {
    port: Port<F>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
}

impl<F: Answers> Clone for Handle<F> {
    fn clone(&self) -> Self {
        Self {
            port: self.port.clone(),
            clock: Arc::clone(&self.clock),
            entropy: Arc::clone(&self.entropy),
        }
    }
}

impl<F: Answers> std::fmt::Debug for Handle<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("flow", &F::TAG.name()).finish_non_exhaustive()
    }
}

impl<F: Answers> Handle<F> {
    pub(crate) fn new(port: Port<F>, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        Self { port, clock, entropy }
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    fn now(&self) -> Result<Timestamp, Blocked> {
        arguments::time::<F>(self.clock.now_seconds())
    }

    /// Leases the next due record for this worker; `None` when nothing is due. Before that, every
    /// lease that ran out is settled.
    ///
    /// `worker` is a token of at most 128 characters, `lease_seconds` more than 0 and at most 86,400.
    ///
    /// # Errors
    /// [`Error::Blocked`] with `worker_invalid`, `time_invalid` or `lease_invalid`;
    /// [`Error::Journal`].
    pub async fn claim(&self, worker: &str, lease_seconds: f64) -> Result<Option<Claim<F>>, Error> {
        let owner = arguments::worker::<F>(worker)?;
        let now = self.now()?;
        let lease = arguments::lease::<F>(lease_seconds)?;
        let mut bytes = [0; TOKEN_BYTES];
        self.entropy.fill(&mut bytes);
        let token = LeaseToken::new(URL_SAFE_NO_PAD.encode(bytes).into());
        let granted = self.port.claim(owner, token, lease, now).await.map_err(Error::of::<F>)?;
        Ok(granted.map(Claim::new))
    }

    async fn settle(
        &self,
        claim: &Claim<F>,
        settlement: Settlement<F>,
        now: Timestamp,
    ) -> Result<State<F>, Error> {
        let command = Command::Settle { proof: claim.granted.proof(), settlement };
        let identity = claim.granted.identity.clone();
        let recorded = self.port.command(identity, command, now).await.map_err(Error::of::<F>)?;
        Ok(recorded.state)
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

    /// Settles the attempt with the other side's answer, a JSON document.
    ///
    /// # Errors
    /// [`Error::Blocked`] with `time_invalid`, `response_invalid`, then what the record says:
    /// `claim_missing`, `claim_lost`, `lease_expired`, `clock_regressed`; [`Error::Journal`].
    pub async fn complete(
        &self,
        claim: &Claim<F>,
        answer: impl AsRef<[u8]>,
    ) -> Result<F::Status, Error> {
        let now = self.now()?;
        let report = Self::report(claim, answer.as_ref())?;
        let state = self.settle(claim, Settlement::Report(report), now).await?;
        F::status(&state, now).ok_or(Error::Stopped)
    }

    /// Settles the attempt as failed for now: it is tried again after the back-off, unless its ceiling
    /// is reached. `code` is an error code of the contract's form.
    ///
    /// # Errors
    /// [`Error::Blocked`] with `error_invalid`, `time_invalid`, then as [`Self::complete`].
    pub async fn retry(&self, claim: &Claim<F>, code: &str) -> Result<F::Status, Error> {
        let code = error_code(code)?;
        let now = self.now()?;
        let settlement = Settlement::Retry { code, retry_after: None };
        let state = self.settle(claim, settlement, now).await?;
        F::status(&state, now).ok_or(Error::Stopped)
    }

    /// Settles the attempt as failed for good.
    ///
    /// # Errors
    /// As [`Self::retry`].
    pub async fn fail(&self, claim: &Claim<F>, code: &str) -> Result<F::Status, Error> {
        let code = error_code(code)?;
        let now = self.now()?;
        let state = self.settle(claim, Settlement::Fail { code }, now).await?;
        F::status(&state, now).ok_or(Error::Stopped)
    }

    /// The flow's health. Costs the same however many records there are.
    ///
    /// # Errors
    /// [`Error::Blocked`] with `time_invalid`.
    pub async fn health(&self) -> Result<F::Health, Error> {
        self.port.health(self.now()?).await.map_err(Error::of::<F>)
    }

    /// When the next thing has to be done, in seconds since 1970: a record is due, a lease ends.
    /// `None` when nothing waits and nothing is leased.
    ///
    /// # Errors
    /// [`Error::Blocked`] with `time_invalid`.
    pub async fn next_at(&self) -> Result<Option<f64>, Error> {
        let next = self.port.next_at(self.now()?).await.map_err(Error::of::<F>)?;
        Ok(next.map(Timestamp::seconds))
    }

    /// Counts up whenever a record of the flow moved.
    #[must_use]
    pub fn moves(&self) -> watch::Receiver<u64> {
        self.port.moves()
    }
}

/// `retry` and `fail` of every flow that has them use the dispatcher's code (contract 4.2).
fn error_code(code: &str) -> Result<ErrorCode, Blocked> {
    ErrorCode::new(code).ok_or_else(|| Blocked::new::<Dispatch>("error_invalid"))
}

impl Handle<Dispatch> {
    /// Enqueues a change event, a JSON document (contract 2.1), to be submitted with at most
    /// `max_attempts` (1 to 20) attempts. It is durable when this returns.
    ///
    /// The same change with the same ceiling again changes nothing, whatever its state.
    ///
    /// # Errors
    /// [`Error::Blocked`] with `dispatch.max_attempts_invalid`, `dispatch.time_invalid`,
    /// `dispatch.change_invalid` or `dispatch.idempotency_collision`; [`Error::Journal`].
    pub async fn enqueue(
        &self,
        change: impl AsRef<[u8]>,
        max_attempts: i64,
    ) -> Result<Registered<<Dispatch as Answers>::Status>, Error> {
        let ceiling = arguments::ceiling::<Dispatch>(max_attempts, "max_attempts_invalid")?;
        let now = self.now()?;
        let change = Change::parse(change.as_ref())
            .map_err(|_| Blocked::new::<Dispatch>("change_invalid"))?;
        let binding = DispatchBinding::of(&change, ceiling);
        let identity = Dispatch::identity(&binding);
        let command = Command::Register { binding, payload: change.payload, settled: None };
        let recorded =
            self.port.command(identity, command, now).await.map_err(Error::of::<Dispatch>)?;
        let status = Dispatch::status(&recorded.state, now).ok_or(Error::Stopped)?;
        Ok(Registered { status, already_known: !recorded.changed })
    }

    /// Status of the change with this event id.
    ///
    /// # Errors
    /// [`Error::Blocked`] with `dispatch.event_invalid`, `dispatch.time_invalid`,
    /// `dispatch.event_missing`, `dispatch.state_invalid`.
    pub async fn status(&self, event_id: &str) -> Result<<Dispatch as Answers>::Status, Error> {
        let event_id =
            Token::new(event_id).ok_or_else(|| Blocked::new::<Dispatch>("event_invalid"))?;
        let now = self.now()?;
        let state = self
            .port
            .read(Identity::new(event_id.as_str()), now)
            .await
            .map_err(Error::of::<Dispatch>)?;
        let missing = || Blocked::new::<Dispatch>("event_missing").into();
        Dispatch::status(&state, now).ok_or_else(missing)
    }
}

/// A claim on a change, in parts: for a worker in another process.
#[derive(Clone)]
pub struct DispatchClaimParts {
    /// The change in its canonical form.
    pub payload: String,
    /// Its hash, 64 hex digits.
    pub payload_sha256: String,
    /// Which attempt it is.
    pub attempt: u32,
    /// Leases it may take.
    pub max_attempts: i64,
    /// Who holds the lease.
    pub lease_owner: String,
    /// Its token; a secret.
    pub lease_token: String,
    /// When it ends, in seconds since 1970.
    pub lease_expires_at: f64,
}

impl std::fmt::Debug for DispatchClaimParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DispatchClaimParts").field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

impl Claim<Dispatch> {
    /// Takes the claim apart.
    #[must_use]
    pub fn to_parts(&self) -> DispatchClaimParts {
        let granted = &self.granted;
        DispatchClaimParts {
            payload: granted.payload.as_str().to_owned(),
            payload_sha256: granted.payload.sha256().to_string(),
            attempt: granted.record.attempts,
            max_attempts: granted.record.binding.max_attempts.get().into(),
            lease_owner: granted.owner.as_str().to_owned(),
            lease_token: granted.token.expose().to_owned(),
            lease_expires_at: granted.expires_at.seconds(),
        }
    }

    /// Puts a claim together again.
    ///
    /// # Errors
    /// [`Error::Blocked`] with `dispatch.claim_invalid` when it is not well formed or its payload does
    /// not match its hash.
    pub fn from_parts(parts: &DispatchClaimParts) -> Result<Self, Error> {
        Self::joined(parts).ok_or_else(|| Blocked::new::<Dispatch>("claim_invalid").into())
    }

    fn joined(parts: &DispatchClaimParts) -> Option<Self> {
        let change = Change::parse(parts.payload.as_bytes()).ok()?;
        let max_attempts = Ceiling::new(parts.max_attempts)?;
        let token = Token::new(&parts.lease_token)?;
        let expires_at = Timestamp::new(parts.lease_expires_at)?;
        let canonical = change.payload.as_str() == parts.payload;
        let matches = Sha256::from_hex(&parts.payload_sha256)? == change.payload.sha256();
        if !canonical || !matches || !(1..=max_attempts.get()).contains(&parts.attempt) {
            return None;
        }
        let binding = DispatchBinding::of(&change, max_attempts);
        let record = leasehold_actors::record::Record {
            binding: Arc::new(binding),
            created_at: Timestamp::ZERO,
            updated_at: Timestamp::ZERO,
            next_at: Timestamp::ZERO,
            attempts: parts.attempt,
            failures: 0,
            progress: (),
        };
        Some(Self::new(Granted {
            identity: Dispatch::identity(&record.binding),
            record,
            payload: change.payload,
            token: LeaseToken::new(token.as_str().into()),
            owner: leasehold_actors::contract::text::WorkerToken::new(&parts.lease_owner)?,
            expires_at,
        }))
    }
}
