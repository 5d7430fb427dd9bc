//! How a record is given out.
//!
//! Owns the way of a claim through the record that was picked for it. Holds no rule: whether the record may be
//! claimed is decided as any command is.

use super::entity::{Entity, alone, refused, settled};
use super::message::{Act, Ask, Claim, Failure, Finished, Grant, answer};
use super::port::Granted;
use crate::agenda::Slot;
use crate::contract::time::Timestamp;
use crate::flows::Answers;
use crate::health::Class;
use crate::record::{Command, Lease, Link, Proof, Refusal, decide};
use actix::fut::wrap_future;
use actix::{ActorFutureExt as _, AsyncContext as _, Handler};
use tokio::sync::oneshot;

impl<F: Answers> Handler<Grant<F>> for Entity<F> {
    type Result = ();

    fn handle(&mut self, grant: Grant<F>, context: &mut Self::Context) {
        let Grant { claim, slot, told } = grant;
        if self.gone {
            return self.claim_again(claim, Failure::Busy);
        }
        self.in_hand = true;
        if claim.reply.is_closed() {
            let now = self.mark();
            return self.finish(Finished::NotClaimed { was: slot, now, again: None });
        }
        if let Some(site) = self.paused_site() {
            let now = self.mark();
            return self.finish(Finished::SetAside { was: slot, now, site, again: claim });
        }
        let payload = match self.payload() {
            Ok(Some(payload)) => payload,
            Ok(None) => return self.finish(Finished::Damaged { slot, again: claim }),
            Err(failure) => return self.not_claimed(slot, claim, failure),
        };
        let token_sha256 = claim.token.sha256();
        let command =
            Command::Claim { owner: claim.owner.clone(), token_sha256, lease: claim.lease };
        let now = self.decided_at(claim.now);
        let planned = decide(&self.surroundings.policy, &self.state, command, now)
            .map_err(Failure::Refused)
            .and_then(|events| self.plan(&events));
        let (next, append) = match planned {
            Ok(planned) => planned,
            Err(failure) => return self.not_claimed(slot, claim, failure),
        };
        // What this record waits for may just have been begun by another engine (D5).
        let name = match slot.link() {
            Link::Waits(key) => Some(key),
            Link::Holds(_) | Link::None => None,
        };
        let durable = self.surroundings.scribe.append(alone(append, name, told));
        context.wait(wrap_future(durable).map(move |result, entity: &mut Self, _| {
            match settled(result) {
                Ok(placed) => {
                    let (before, after) = entity.advance(placed, next);
                    entity.finish(Finished::Moved { before, after });
                    let granted = entity.granted(payload, &claim);
                    // Who went away gives back what it was to be told.
                    if let Err(Ok(Some(granted))) = claim.reply.send(granted.map(Some)) {
                        entity.give_back(granted.proof(), claim.now);
                    }
                }
                Err(failure) => {
                    entity.finish(Finished::Unknown);
                    entity.claim_again(claim, failure);
                }
            }
        }));
    }
}

impl<F: Answers> Entity<F> {
    /// The record's site, where that is paused, or the flow was since the record was picked.
    fn paused_site(&self) -> Option<Box<str>> {
        let site = F::site(&self.state.record()?.binding);
        self.surroundings.gate.stops(F::TAG, site).then(|| site.into())
    }

    /// Gives a lease back whose claimant went away before it was told of it: no call was made.
    fn give_back(&self, proof: Proof<F>, now: Timestamp) {
        let (reply, _) = oneshot::channel();
        let ask = Ask::Do(Command::Release { proof });
        let release = Act::new(self.identity.clone(), ask, now, reply);
        if self.supervisor.try_send(release).is_err() {
            tracing::warn!(code = "engine_busy", "a lease nobody holds has to run out");
        }
    }

    /// Another engine took the record; the claim goes on to another one.
    fn claim_again(&self, claim: Claim<F>, failure: Failure) {
        let faster = (self.surroundings.shared || self.gone) && failure == Failure::Busy;
        if !faster || claim.misses == u8::MAX {
            return answer(claim.reply, Err(failure));
        }
        let claim = Claim { misses: claim.misses + 1, ..claim };
        if let Err(error) = self.supervisor.try_send(claim) {
            let (failure, claim) = refused(error);
            answer(claim.reply, Err(failure));
        }
    }

    fn not_claimed(&mut self, was: Slot<Class<F::Facet>>, claim: Claim<F>, failure: Failure) {
        let now = self.mark();
        if failure == Failure::Refused(Refusal::NotDue) && claim.misses < u8::MAX {
            let again = Some(Claim { misses: claim.misses + 1, ..claim });
            return self.finish(Finished::NotClaimed { was, now, again });
        }
        self.finish(Finished::NotClaimed { was, now, again: None });
        answer(claim.reply, Err(failure));
    }

    fn granted(&self, payload: F::Payload, claim: &Claim<F>) -> Result<Granted<F>, Failure> {
        let (Some(record), Some(lease)) = (self.state.record(), self.state.lease()) else {
            return Err(Failure::Refused(Refusal::StateInvalid));
        };
        let Lease { owner, token_sha256: _, expires_at } = lease.clone();
        Ok(Granted {
            identity: self.identity.clone(),
            record: record.clone(),
            payload,
            token: claim.token.clone(),
            owner,
            expires_at,
        })
    }
}
