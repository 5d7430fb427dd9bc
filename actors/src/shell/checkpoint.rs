//! Leaving what the next life can start from.
//!
//! Owns the gathering when an engine is closed: what each flow has, and whether anything was still under
//! way. Must not know the bytes: they are [`crate::checkpoint`]'s.

use super::controls::Steering;
use super::message::{Followed, Leave};
use super::projector::Sum;
use super::start::Shared;
use super::supervisor::Supervisor;
use crate::checkpoint::{self, AllMarks, Marks};
use crate::contract::text::Sha256;
use crate::flows::Answers;
use crate::flows::delivery::Delivery;
use crate::flows::dispatch::Dispatch;
use crate::flows::lifecycle::Lifecycle;
use crate::flows::notification::Notify;
use crate::flows::processing::Processing;
use crate::shell::message::{answer, asked};
use actix::{Addr, Handler, Recipient};

/// One supervisor per flow.
pub(crate) struct Supervisors {
    pub(crate) dispatch: Addr<Supervisor<Dispatch>>,
    pub(crate) lifecycle: Addr<Supervisor<Lifecycle>>,
    pub(crate) notification: Addr<Supervisor<Notify>>,
    pub(crate) processing: Addr<Supervisor<Processing>>,
    pub(crate) delivery: Addr<Supervisor<Delivery>>,
    pub(crate) steering: Steering,
}

impl Supervisors {
    /// Whoever is to be told that other engines may have written something.
    pub(crate) fn followers(&self) -> Vec<Recipient<Followed>> {
        vec![
            self.dispatch.clone().recipient(),
            self.lifecycle.clone().recipient(),
            self.notification.clone().recipient(),
            self.processing.clone().recipient(),
            self.delivery.clone().recipient(),
            self.steering.follower(),
        ]
    }

    /// What all flows have; `None` when anything is under way in one of them. A flow is asked before the one
    /// it hands over to, whose mailbox has all of that by then.
    async fn marks(&self) -> Option<AllMarks> {
        Some(AllMarks {
            dispatch: marks(&self.dispatch).await?,
            lifecycle: marks(&self.lifecycle).await?,
            notification: marks(&self.notification).await?,
            processing: marks(&self.processing).await?,
            delivery: marks(&self.delivery).await?,
            controls: self.steering.controls().await?,
        })
    }

    /// Leaves a note with the writer, unless something is under way, a record is quarantined or a
    /// hand-over waits: all of that is found again by reading the journal. `settings` is the
    /// fingerprint of how this life ran.
    pub(crate) async fn leave(&self, settings: Sha256, shared: &Shared) {
        let marks = self.marks().await;
        // Asked after the flows: what they began meanwhile counts.
        let waits = *shared.handing_over.borrow() > 0 || shared.missed.get();
        let Some(marks) = marks.filter(|_| !waits) else {
            tracing::debug!(code = "checkpoint_not_left", "the next open reads the whole journal");
            return;
        };
        match checkpoint::encode(settings, &marks) {
            Ok(note) => shared.scribe.leave(note),
            Err(error) => {
                tracing::warn!(code = error.code(), "no checkpoint is left");
            }
        }
    }
}

async fn marks<F: Answers>(supervisor: &Addr<Supervisor<F>>) -> Option<Marks<F>> {
    asked(supervisor, |reply| Leave { reply }).await.ok()?
}

impl<F: Answers> Handler<Leave<F>> for Supervisor<F> {
    type Result = ();

    fn handle(&mut self, leave: Leave<F>, _: &mut Self::Context) {
        let Leave { reply } = leave;
        match self.marks() {
            Some(marks) => self.counts.sum(Sum { marks, reply }),
            None => {
                answer(reply, Ok(None));
            }
        }
    }
}
