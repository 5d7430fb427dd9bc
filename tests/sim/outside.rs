//! Workers and hosts of one flow, with the claims in their hands.
//!
//! Owns what outlives the engine: claims that are held, claims that were settled or lost and are tried
//! again, and the other side. Must not know what the engine remembers.

use super::flow::SimFlow;
use super::invariant::{Break, Checked, I2, I4, must};
use super::message::Claim;
use super::note::Note;
use super::remote::{Heard, Remote};
use super::replies::failed;
use super::sabotage::Sabotage;
use super::shared::Shared;
use super::witness::Witness;
use leasehold_actors::contract::text::Sha256;
use leasehold_actors::record::Identity;
use leasehold_actors::shell::{Failure, Granted};
use std::collections::BTreeSet;

/// Settled or lost claims that are kept to be tried again.
const STALE_MAX: usize = 6;

/// A claim in a worker's hands.
pub(crate) struct Held<F: SimFlow> {
    pub(crate) granted: Granted<F>,
    token_sha256: Sha256,
    /// What the call came to, once it was made.
    pub(crate) heard: Option<Heard>,
}

/// All workers of one flow.
pub(crate) struct Outside<F: SimFlow> {
    /// Claims that were given out and not settled.
    pub(crate) held: Vec<Held<F>>,
    /// Claims that were.
    pub(crate) stale: Vec<Held<F>>,
    /// Claims that were asked for and not answered.
    pub(crate) asked: BTreeSet<u64>,
    remote: Remote,
}

impl<F: SimFlow> Outside<F> {
    /// Nobody yet.
    pub(crate) fn new() -> Self {
        let (held, stale) = (Vec::new(), Vec::new());
        Self { held, stale, asked: BTreeSet::new(), remote: Remote::default() }
    }

    /// A worker is told that its claim failed.
    pub(crate) fn refused(
        &mut self,
        failure: &Failure,
        number: u64,
        shared: &mut Shared,
    ) -> Checked {
        self.asked.remove(&number);
        failed::<F>(failure, &Identity::new("claim-0"), number, shared)
    }

    /// A worker is told that nothing is due.
    pub(crate) fn nothing_due(
        &mut self,
        claim: &Claim,
        witness: &Witness<F>,
        shared: &mut Shared,
    ) -> Checked {
        if shared.sabotaged(Sabotage::TwoLeases)
            && let Some(held) = self.held.first()
        {
            let copy = held.granted.clone();
            return self.granted(claim, copy, witness, shared);
        }
        self.asked.remove(&claim.number);
        shared.note(Note::NothingDue);
        Ok(())
    }

    /// A worker gets its claim.
    pub(crate) fn granted(
        &mut self,
        claim: &Claim,
        granted: Granted<F>,
        witness: &Witness<F>,
        shared: &mut Shared,
    ) -> Checked {
        self.asked.remove(&claim.number);
        let token_sha256 = granted.token.sha256();
        let mut all = self.held.iter().chain(&self.stale);
        let twice = all.any(|held| held.token_sha256 == token_sha256);
        must(!twice, I2, "two workers have the same lease")?;
        let live = witness.lease(&granted.identity);
        let other = live.is_some_and(|lease| {
            lease.token_sha256 != token_sha256 && lease.expires_at > shared.time()
        });
        must(!other, I2, "a worker has a lease while another one is live")?;
        if claim.number.is_multiple_of(8) {
            shared.shown(&granted)?;
        }
        let attempts = u64::from(granted.record.attempts);
        shared.note_of(Note::Granted, F::TAG, &granted.identity, attempts);
        self.held.push(Held { granted, token_sha256, heard: None });
        Ok(())
    }

    /// A worker makes its call; false when none has one to make.
    pub(crate) fn call(
        &mut self,
        witness: &Witness<F>,
        shared: &mut Shared,
    ) -> Result<bool, Break> {
        let Some(at) = self.any(shared, false) else { return Ok(false) };
        let held = &self.held[at];
        let granted = &held.granted;
        must(
            granted.record.attempts > 0 && witness.gave(&granted.identity, &held.token_sha256),
            I4,
            "a call was made before its lease was durable",
        )?;
        let mut body = F::body(&F::request(&granted.record.binding, &granted.payload));
        if shared.sabotaged(Sabotage::BodyChanges) {
            body.extend_from_slice(&granted.record.attempts.to_le_bytes());
        }
        shared.note_of(Note::Sends, F::TAG, &granted.identity, granted.record.attempts.into());
        match self.remote.call(granted, body, shared)? {
            Some(heard) => self.held[at].heard = Some(heard),
            None => self.let_go(at),
        }
        Ok(true)
    }

    /// Any claim whose call was made, or was not.
    pub(crate) fn any(&self, shared: &mut Shared, called: bool) -> Option<usize> {
        let fits = |held: &Held<F>| held.heard.is_some() == called;
        let count = self.held.iter().filter(|held| fits(held)).count();
        if count == 0 {
            return None;
        }
        let nth = shared.rng.index(count);
        self.held.iter().enumerate().filter(|(_, held)| fits(held)).nth(nth).map(|(at, _)| at)
    }

    /// A claim leaves its worker's hands.
    pub(crate) fn let_go(&mut self, at: usize) {
        let held = self.held.remove(at);
        if self.stale.len() == STALE_MAX {
            self.stale.remove(0);
        }
        self.stale.push(held);
    }
}
