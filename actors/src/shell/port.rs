//! The way in for hosts: `Send + Sync`, awaited by any executor.
//!
//! Owns admission: how many requests may be under way. Must hold no rule.

use super::message::{Act, Answer, Ask, Claim, Failure, Health, Look, NextAt, asked};
use super::supervisor::Supervisor;
use crate::contract::text::WorkerToken;
use crate::contract::time::{Duration, Timestamp};
use crate::flows::Answers;
use crate::health::Depths;
use crate::record::{Command, Flow, Identity, LeaseToken, Proof, Record, State};
use actix::dev::ToEnvelope;
use actix::{Actor, Addr, Handler, Message};
use std::sync::Arc;
use tokio::sync::{Semaphore, watch};

/// A record after a request.
#[derive(Debug, Clone)]
pub struct Recorded<F: Flow> {
    /// Its state, durable.
    pub state: State<F>,
    /// Whether the request changed it.
    pub changed: bool,
}

/// A lease that was given out.
#[derive(Debug, Clone)]
pub struct Granted<F: Flow> {
    /// Which record.
    pub identity: Identity,
    /// The record, this attempt counted.
    pub record: Record<F>,
    /// What is needed for the call.
    pub payload: F::Payload,
    /// The lease's token.
    pub token: LeaseToken,
    /// Who holds it.
    pub owner: WorkerToken,
    /// When it ends.
    pub expires_at: Timestamp,
}

impl<F: Flow> Granted<F> {
    /// What a settlement is checked against.
    #[must_use]
    pub fn proof(&self) -> Proof<F> {
        Proof {
            binding: Arc::clone(&self.record.binding),
            attempt: self.record.attempts,
            owner: self.owner.clone(),
            token_sha256: self.token.sha256(),
            expires_at: self.expires_at,
        }
    }
}

/// A handle on one flow of a running engine; cheap to clone.
#[derive(Debug)]
pub struct Port<F: Answers> {
    supervisor: Addr<Supervisor<F>>,
    admission: Arc<Semaphore>,
    moves: watch::Receiver<u64>,
}

impl<F: Answers> Clone for Port<F> {
    fn clone(&self) -> Self {
        Self {
            supervisor: self.supervisor.clone(),
            admission: Arc::clone(&self.admission),
            moves: self.moves.clone(),
        }
    }
}

impl<F: Answers> Port<F> {
    pub(crate) fn new(
        supervisor: Addr<Supervisor<F>>,
        admission: Arc<Semaphore>,
        moves: watch::Receiver<u64>,
    ) -> Self {
        Self { supervisor, admission, moves }
    }

    async fn ask<M, T>(&self, message: impl FnOnce(Answer<T>) -> M) -> Result<T, Failure>
    where
        M: Message<Result = ()> + Send + 'static,
        <Supervisor<F> as Actor>::Context: ToEnvelope<Supervisor<F>, M>,
        Supervisor<F>: Handler<M>,
    {
        let _admitted = self.admission.acquire().await.map_err(|_| Failure::Stopped)?;
        asked(&self.supervisor, message).await
    }

    /// Sends one command to one record.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn command(
        &self,
        identity: Identity,
        command: Command<F>,
        now: Timestamp,
    ) -> Result<Recorded<F>, Failure> {
        self.ask(|reply| Act::new(identity, Ask::Do(command), now, reply)).await
    }

    /// Reads one record; [`State::Vacant`] for one that is not there.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn read(&self, identity: Identity, now: Timestamp) -> Result<State<F>, Failure> {
        let recorded = self.ask(|reply| Act::new(identity, Ask::Read, now, reply)).await?;
        Ok(recorded.state)
    }

    /// Leases the next due record; `None` when nothing is due. Beside the time it is told that of a
    /// clock that never jumps, in its own seconds: a lease of this life ends when both say so. `behind` is
    /// how many due records are passed, starting again from the first after the last.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn claim(
        &self,
        owner: WorkerToken,
        token: LeaseToken,
        lease: Duration,
        (now, steady_seconds): (Timestamp, f64),
        behind: u32,
    ) -> Result<Option<Granted<F>>, Failure> {
        let misses = 0;
        self.ask(|reply| Claim { owner, token, lease, now, steady_seconds, reply, behind, misses })
            .await
    }

    /// The flow's health.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn health(&self, now: Timestamp) -> Result<F::Health, Failure> {
        self.ask(|reply| Health { now, reply }).await
    }

    /// How much waits, and since when. Costs the records that are due.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn depths(&self, now: Timestamp) -> Result<Depths, Failure> {
        self.ask(|reply| Look { now, reply }).await
    }

    /// When the next thing has to be done: a record is due, a lease ends. `None` when nothing waits.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn next_at(
        &self,
        (now, steady_seconds): (Timestamp, f64),
    ) -> Result<Option<Timestamp>, Failure> {
        self.ask(|reply| NextAt { now, steady_seconds, reply }).await
    }

    /// Counts up whenever a record of the flow moved, or something was paused or resumed.
    #[must_use]
    pub fn moves(&self) -> watch::Receiver<u64> {
        self.moves.clone()
    }
}
