//! When apalis looks for work.
//!
//! Owns the wake-ups and the bound of what is fetched ahead. Must not know what a task is.
//!
//! By itself an idle worker is not woken by a push, nor by an answer that waits to be recorded, and it
//! fetches without end while there is a backlog. `PollWith`, its own wrapper for strategies, looks at the
//! strategy's timer and fetches whatever it says.

use crate::drive::Tickets;
use apalis_core::backend::{Backend, BackendConfig, WireFormatBackend};
use apalis_core::worker::context::WorkerContext;
use futures_util::task::AtomicWaker;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior};

/// How long a lost wake-up can last.
const TICK: Duration = Duration::from_millis(1);

/// Where the inner backend is in its round of fetching a batch and handing it out.
///
/// It records answers between two batches only. So a batch that was begun is always handed out; what is
/// held back is the next fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    /// Nothing fetched is left: answers are recorded, then the next batch may be fetched.
    Between,
    /// A fetch is under way, or found nothing.
    Fetching,
    /// So many of the batch were handed out, and there may be more.
    Within(usize),
}

/// A backend that fetches when a ticket is free.
#[derive(Debug)]
pub(crate) struct Gated<B> {
    backend: B,
    batch: usize,
    round: Round,
    tickets: Arc<Tickets>,
    bell: Arc<AtomicWaker>,
    tick: Interval,
}

impl<B> Gated<B> {
    /// `batch` is what one fetch of the backend brings at most. Whoever gives a ticket rings the bell.
    /// Needs a tokio runtime.
    pub(crate) fn new(
        backend: B,
        batch: usize,
        tickets: Arc<Tickets>,
        bell: Arc<AtomicWaker>,
    ) -> Self {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { backend, batch, round: Round::Between, tickets, bell, tick }
    }
}

impl<B: Backend> Backend for Gated<B> {
    type Task = B::Task;
    type Error = B::Error;

    fn poll_ready(
        &mut self,
        to: &mut Context<'_>,
        worker: &WorkerContext,
    ) -> Poll<Result<(), Self::Error>> {
        self.backend.poll_ready(to, worker)
    }

    fn poll_next(
        &mut self,
        to: &mut Context<'_>,
        worker: &WorkerContext,
    ) -> Poll<Option<Result<Self::Task, Self::Error>>> {
        // Until it is pending: only then does it wake.
        while self.tick.poll_tick(to).is_ready() {}
        self.bell.register(to.waker());
        if self.round == Round::Between && self.tickets.free.available_permits() == 0 {
            return Poll::Pending;
        }
        let next = self.backend.poll_next(to, worker);
        let handed_out = match self.round {
            Round::Within(before) => before + 1,
            Round::Between | Round::Fetching => 1,
        };
        self.round = match next {
            Poll::Pending => Round::Fetching,
            Poll::Ready(_) if handed_out == self.batch => Round::Between,
            Poll::Ready(_) => Round::Within(handed_out),
        };
        next
    }

    fn poll_close(
        &mut self,
        to: &mut Context<'_>,
        worker: &WorkerContext,
    ) -> Poll<Result<(), Self::Error>> {
        self.backend.poll_close(to, worker)
    }
}

impl<B: BackendConfig> BackendConfig for Gated<B> {
    type Args = B::Args;
    type Id = B::Id;
    type Kind = B::Kind;
    type Config = B::Config;
    type Layer = B::Layer;

    fn config(&self) -> &Self::Config {
        self.backend.config()
    }

    fn middleware(&mut self, worker: &mut WorkerContext) -> Self::Layer {
        self.backend.middleware(worker)
    }
}

impl<B: WireFormatBackend> WireFormatBackend for Gated<B> {
    type Codec = B::Codec;
    type Compact = B::Compact;

    fn codec(&self) -> &Self::Codec {
        self.backend.codec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::task::Waker;

    /// Has these answers to `poll_next`, one after another: a task or nothing yet.
    struct Script(Vec<Option<u64>>);

    impl Backend for Script {
        type Task = u64;
        type Error = Infallible;

        fn poll_ready(
            &mut self,
            _: &mut Context<'_>,
            _: &WorkerContext,
        ) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn poll_next(
            &mut self,
            _: &mut Context<'_>,
            _: &WorkerContext,
        ) -> Poll<Option<Result<u64, Infallible>>> {
            match self.0.remove(0) {
                Some(task) => Poll::Ready(Some(Ok(task))),
                None => Poll::Pending,
            }
        }

        fn poll_close(
            &mut self,
            _: &mut Context<'_>,
            _: &WorkerContext,
        ) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }
    }

    fn next(gated: &mut Gated<Script>) -> Option<u64> {
        let worker = WorkerContext::new("test");
        match gated.poll_next(&mut Context::from_waker(Waker::noop()), &worker) {
            Poll::Ready(task) => task.map(|task| task.expect("infallible")),
            Poll::Pending => None,
        }
    }

    #[tokio::test]
    async fn a_begun_batch_is_handed_out_and_the_next_one_waits_for_a_ticket() {
        let tickets = Tickets::new();
        let script = Script(vec![None, Some(1), Some(2), Some(3), Some(4)]);
        let bell = Arc::new(AtomicWaker::new());
        let mut gated = Gated::new(script, 2, Arc::clone(&tickets), bell);
        assert_eq!(next(&mut gated), None);
        assert_eq!(gated.backend.0.len(), 5, "no ticket, no fetch");
        let settled = tickets.give();
        assert_eq!(next(&mut gated), None, "the fetch is under way");
        drop((tickets.take().await, settled));
        assert_eq!([next(&mut gated), next(&mut gated)], [Some(1), Some(2)]);
        assert_eq!(next(&mut gated), None, "no ticket, no fetch");
        let _settled = tickets.give();
        assert_eq!(next(&mut gated), Some(3));
    }
}
