//! When whoever waits for work wakes.
//!
//! Owns the answers to "when is there something to do" and "how much waits", and the call that something was paused or goes
//! on. Holds no rule: due times are the agenda's, leases' ends the tenures'.

use super::controls::Turned;
use super::message::{Look, NextAt, answer};
use super::supervisor::Supervisor;
use crate::contract::time::Duration;
use crate::control::Scope;
use crate::flows::Answers;
use actix::Handler;

/// When to ask again while a record is being given out, in seconds.
const SOON_SECONDS: f64 = 0.05;

impl<F: Answers> Handler<NextAt> for Supervisor<F> {
    type Result = ();

    fn handle(&mut self, next: NextAt, _: &mut Self::Context) {
        // A record that is just being given out is in no slot; it may come back in a moment.
        let soon = Duration::new(SOON_SECONDS).map(|soon| next.now.after(soon));
        let (agenda, tenures) = (&mut self.agenda, &self.tenures);
        let gate = &self.surroundings.gate;
        let next_at = gate.next_at(F::TAG, agenda, next.now, |identity| {
            let left = tenures.left(identity, next.steady_seconds)?;
            Some(next.now.after(Duration::new(left.max(SOON_SECONDS))?))
        });
        let next_at = match next_at {
            None if self.roster.is_busy() => soon,
            next_at => next_at,
        };
        answer(next.reply, Ok(next_at));
    }
}

impl<F: Answers> Handler<Turned> for Supervisor<F> {
    type Result = ();

    /// Workers wake either way: there is more to claim, or less to wait for.
    fn handle(&mut self, turned: Turned, _: &mut Self::Context) {
        if let (Scope::Site(site), false) = (&turned.scope, turned.paused) {
            self.shelf.release(&mut self.agenda, site.as_str());
        }
        self.moves.send_modify(|moves| *moves += 1);
    }
}

impl<F: Answers> Handler<Look> for Supervisor<F> {
    type Result = ();

    fn handle(&mut self, look: Look, _: &mut Self::Context) {
        answer(look.reply, Ok(self.agenda.depths(look.now)));
    }
}
