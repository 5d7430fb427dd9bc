//! The way of one flow's workers to their destination.
//!
//! Owns when a worker that waits there gives up: when it is told to, or when nothing is left to do.

use super::{Destination, Permit};
use crate::error::Error;
use crate::handle::Handle;
use crate::worker::Stops;
use leasehold_actors::flows::Answers;
use tokio::sync::watch;

/// What the workers of one flow share.
#[derive(Debug, Clone)]
pub(crate) struct Lane {
    destination: Option<Destination>,
    /// Told when one of them found nothing left. Those who wait at a closed gate would not see it: they
    /// have to look for themselves, and doing that whenever a record moves would be work for nothing.
    emptied: watch::Sender<()>,
}

/// What a worker does next.
#[derive(Debug)]
pub(crate) enum Turn {
    /// Claims; with leave where there is a destination.
    Claim(Option<Permit>),
    /// Looks whether it has to stop.
    Look,
    /// Ends: nothing waits and nothing is leased.
    End,
}

impl Lane {
    pub(crate) fn new(destination: Option<Destination>) -> Self {
        Self { destination, emptied: watch::Sender::new(()) }
    }

    /// Waits for leave.
    pub(crate) async fn turn<F: Answers>(
        &self,
        handle: &Handle<F>,
        stops: &mut Stops,
    ) -> Result<Turn, Error> {
        let Some(destination) = &self.destination else { return Ok(Turn::Claim(None)) };
        if let Some(permit) = destination.try_admit() {
            return Ok(Turn::Claim(Some(permit)));
        }
        let mut emptied = self.emptied.subscribe();
        loop {
            emptied.mark_unchanged();
            if stops.stays.is_none() && handle.next_at().await?.is_none() {
                self.tell_emptied();
                return Ok(Turn::End);
            }
            tokio::select! {
                permit = destination.admit() => return Ok(Turn::Claim(Some(permit))),
                () = stops.changed() => return Ok(Turn::Look),
                () = handle.stopper().begun() => return Ok(Turn::Look),
                _ = emptied.changed() => {}
            }
        }
    }

    /// Nothing waits and nothing is leased.
    pub(crate) fn tell_emptied(&self) {
        self.emptied.send_replace(());
    }
}
