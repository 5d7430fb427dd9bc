//! Lives side by side, each timed from its enqueue to its settlement.
//!
//! Owns the bound of what is under way, and the tickets of peers whose worker fetches by itself. Must not
//! know any peer.

use crate::work::{Failed, Measured, Work, failed};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

/// Runs `life` for every record of the work, numbered on from the backlog, at most `in_flight` at once.
pub(crate) async fn drive<L, F>(work: &Work, life: L) -> Result<Measured, Failed>
where
    L: Fn(u64) -> F + Clone + Send + 'static,
    F: Future<Output = Result<(), Failed>> + Send,
{
    let next = Arc::new(AtomicU64::new(work.backlog));
    let end = work.backlog + work.records;
    let started = Instant::now();
    let mut hands = JoinSet::new();
    for _ in 0..work.in_flight {
        let (next, life) = (Arc::clone(&next), life.clone());
        hands.spawn(async move {
            let mut seconds = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= end {
                    return Ok::<_, Failed>(seconds);
                }
                let enqueued = Instant::now();
                life(number).await?;
                seconds.push(enqueued.elapsed().as_secs_f64());
            }
        });
    }
    let mut lives = Vec::new();
    while let Some(hand) = hands.join_next().await {
        lives.extend(hand.map_err(failed("run a life"))??);
    }
    Ok(Measured::new(started.elapsed().as_secs_f64(), lives))
}

/// What a life waits for: somebody settles a record for it.
pub(crate) type Ticket = oneshot::Sender<()>;

/// One ticket for each enqueued change.
///
/// A worker that fetches by itself would empty the backlog beside the lives, which is other work than was
/// asked for. So its handler takes a ticket before it answers: one record is settled for each one that was
/// enqueued, the oldest first, as a life of `leasehold bench` does it, and the backlog stays.
#[derive(Debug)]
pub(crate) struct Tickets {
    queue: Mutex<VecDeque<Ticket>>,
    /// Tickets nobody has taken and nobody waits for.
    pub(crate) free: Semaphore,
}

impl Tickets {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { queue: Mutex::new(VecDeque::new()), free: Semaphore::new(0) })
    }

    /// The caller enqueued a change; what it gets tells when a record was settled for it.
    pub(crate) fn give(&self) -> oneshot::Receiver<()> {
        let (ticket, settled) = oneshot::channel();
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(ticket);
        self.free.add_permits(1);
        settled
    }

    /// The oldest ticket, once there is one; none any more when `free` was closed.
    pub(crate) async fn take(&self) -> Option<Ticket> {
        self.free.acquire().await.ok()?.forget();
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// Waits until a record was settled for this life.
pub(crate) async fn settled(ticket: oneshot::Receiver<()>) -> Result<(), Failed> {
    ticket.await.map_err(failed("settle a record"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_ticket_is_taken_first_and_none_after_the_end() {
        let tickets = Tickets::new();
        let (mut first, mut second) = (tickets.give(), tickets.give());
        let taken = tickets.take().await.expect("a ticket");
        taken.send(()).expect("somebody waits");
        assert_eq!(first.try_recv(), Ok(()));
        assert!(second.try_recv().is_err());
        tickets.free.close();
        assert!(tickets.take().await.is_none());
    }
}
