//! The receiver's inbox: the notifications it took, and what its worker does about them.
//!
//! Owns which are known, how they are counted, and what one read of a status sets going: the worker
//! turns to that notification then, and to no other. Pure; must not know where a step is written.

use super::handler::{self, Handling};
use super::processing::{Phase, Processing, StateInvalid, Step};
use leasehold_actors::contract::notification::Notification;
use leasehold_actors::contract::text::Token;
use leasehold_actors::contract::time::{Ceiling, Duration, Timestamp};
use leasehold_actors::record::policy::{Delays, Policy};
use std::collections::HashMap;

/// How long one attempt may take where nothing is said, in seconds.
pub const LEASE_SECONDS: f64 = 60.0;

/// Attempts of a notification whose file does not say (version 1 of it): what its status told then.
const UNDATED_ATTEMPTS_MAX: i64 = 5;

/// How the worker goes about it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// Attempts a notification may have; fixed for each when it is received.
    pub max_attempts: Ceiling,
    /// How long one attempt may take.
    pub lease: Duration,
    /// How long a failed one waits.
    pub back_off: Policy,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            max_attempts: Ceiling::new(Ceiling::DEFAULT).expect("the default is within its limits"),
            lease: Duration::new(LEASE_SECONDS).expect("a minute is shorter than a day"),
            back_off: Policy::new(Delays::default()).expect("the defaults are within their limits"),
        }
    }
}

/// A notification and the work on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The notification.
    pub notification: Notification,
    /// How far the work on it has come.
    pub processing: Processing,
}

/// What a read finds, and what it sets going.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// The work as the answer tells it.
    pub seen: Processing,
    /// What has to be written down, in this order: what `seen` knows already, then what the worker
    /// does when the answer is given.
    pub steps: Vec<Step>,
}

impl Held {
    /// One turn of the worker: it ends a lease that is over, hears the handler, and takes up what is
    /// due, as far as there is any of it.
    ///
    /// A handler that is not stuck is heard with the read after the claim. If that comes when the lease
    /// is over already, it was heard at once: how often somebody asks must not cost attempts.
    ///
    /// # Errors
    /// [`StateInvalid`] never, as far as this module is right.
    pub fn turn(
        &self,
        now: Timestamp,
        rules: &Rules,
        handling: impl FnOnce() -> Handling,
    ) -> Result<Turn, StateInvalid> {
        let mut steps = Vec::new();
        let mut seen = self.processing.clone();
        if let Some(step) = self.unheard(now, rules) {
            seen = seen.after(&step)?;
            steps.push(step);
        }
        let mut working = seen.clone();
        if let Some(step) = seen.expire(now).or_else(|| self.heard(&seen, now, rules)) {
            working = working.after(&step)?;
            steps.push(step);
        }
        steps.extend(working.claim(now, rules.lease, handling));
        Ok(Turn { seen, steps })
    }

    /// How the handler of a lease that is over ended, unless it is stuck.
    fn unheard(&self, now: Timestamp, rules: &Rules) -> Option<Step> {
        match self.processing.phase() {
            Phase::Leased { since, .. } if self.processing.is_expired(now) => {
                self.heard(&self.processing, *since, rules)
            }
            Phase::Pending
            | Phase::Leased { .. }
            | Phase::RetryWait { .. }
            | Phase::Succeeded { .. }
            | Phase::Failed { .. } => None,
        }
    }

    /// How the handler ended, if it is at work and not stuck.
    fn heard(&self, processing: &Processing, at: Timestamp, rules: &Rules) -> Option<Step> {
        let Phase::Leased { handling, .. } = processing.phase() else { return None };
        let outcome = handling.outcome(&self.notification)?;
        let expected = handler::acknowledgement(&self.notification);
        let attempt = processing.attempts();
        // Refused is only a lease that was over when it began, where time has no finer steps.
        processing.settle(attempt, &outcome, &expected, at, &rules.back_off).ok()
    }
}

/// Notifications by what became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Not tried yet.
    pub pending: u64,
    /// Being tried.
    pub leased: u64,
    /// Waiting after a failure.
    pub retry_wait: u64,
    /// Done.
    pub succeeded: u64,
    /// Given up.
    pub failed: u64,
    /// Those of all that can be claimed.
    pub due: u64,
    /// Those of all whose lease is over.
    pub expired: u64,
}

impl Counts {
    /// All of them.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.pending + self.leased + self.retry_wait + self.succeeded + self.failed
    }

    /// Why the inbox is blocked; `None` when it is well.
    #[must_use]
    pub fn error_code(&self) -> Option<&'static str> {
        if self.failed > 0 {
            Some("notification_receiver.processing_failed")
        } else if self.expired > 0 {
            Some("notification_receiver.processing_lease_expired")
        } else {
            None
        }
    }
}

/// The inbox.
#[derive(Debug, Default)]
pub struct Inbox {
    held: HashMap<Token, Held>,
    /// Those of a file that kept neither when they came nor what became of them, by event.
    undated: HashMap<Token, Notification>,
}

impl Inbox {
    /// The notification of this event.
    #[must_use]
    pub fn get(&self, event_id: &Token) -> Option<&Held> {
        self.held.get(event_id)
    }

    /// Takes one, with the attempts it may have.
    ///
    /// # Errors
    /// [`StateInvalid`] for a second one of an event.
    pub fn receive(
        &mut self,
        notification: Notification,
        at: Timestamp,
        max_attempts: Ceiling,
    ) -> Result<(), StateInvalid> {
        let event_id = notification.event_id.clone();
        let processing = Processing::received(at, max_attempts);
        match self.held.insert(event_id, Held { notification, processing }) {
            None => Ok(()),
            Some(_) => Err(StateInvalid),
        }
    }

    /// Takes one of a file that did not say when it came; it waits until that is settled.
    ///
    /// # Errors
    /// [`StateInvalid`] for a second one of an event.
    pub fn receive_undated(&mut self, notification: Notification) -> Result<(), StateInvalid> {
        match self.undated.insert(notification.event_id.clone(), notification) {
            None => Ok(()),
            Some(_) => Err(StateInvalid),
        }
    }

    /// Settles when those came, with the attempts every one of them had.
    ///
    /// # Errors
    /// [`StateInvalid`] for a second one of an event.
    pub fn date(&mut self, at: Timestamp) -> Result<(), StateInvalid> {
        let max_attempts = Ceiling::new(UNDATED_ATTEMPTS_MAX).ok_or(StateInvalid)?;
        let undated = std::mem::take(&mut self.undated);
        undated.into_values().try_for_each(|one| self.receive(one, at, max_attempts))
    }

    /// Takes one a step on.
    ///
    /// # Errors
    /// [`StateInvalid`] for a step that cannot have happened, or of an event that is not known.
    pub fn advance(&mut self, event_id: &Token, step: &Step) -> Result<(), StateInvalid> {
        let held = self.held.get_mut(event_id).ok_or(StateInvalid)?;
        held.processing = held.processing.after(step)?;
        Ok(())
    }

    /// How many there are.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.held.len() as u64
    }

    /// How many there are of each kind.
    #[must_use]
    pub fn counts(&self, now: Timestamp) -> Counts {
        let mut counts = Counts::default();
        for held in self.held.values() {
            let processing = &held.processing;
            match processing.phase() {
                Phase::Pending => counts.pending += 1,
                Phase::Leased { .. } => counts.leased += 1,
                Phase::RetryWait { .. } => counts.retry_wait += 1,
                Phase::Succeeded { .. } => counts.succeeded += 1,
                Phase::Failed { .. } => counts.failed += 1,
            }
            counts.due += u64::from(processing.is_due(now));
            counts.expired += u64::from(processing.is_expired(now));
        }
        counts
    }
}
