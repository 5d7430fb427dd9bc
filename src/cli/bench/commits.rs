//! What commits take: a store that times those of the one below it.
//!
//! Owns the sum of their seconds. Nothing is different for the writer above or the journal below.

use crate::clock::Stopwatch;
use leasehold_journal::{Append, AppendError, JournalError, Placed, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The sum of what all commits so far took; clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Commits {
    nanoseconds: Arc<AtomicU64>,
}

impl Commits {
    /// Times the commits of this store.
    pub(super) fn timed(&self, store: Box<dyn Store>) -> Box<dyn Store> {
        Box::new(Timed { store, nanoseconds: Arc::clone(&self.nanoseconds) })
    }

    /// Seconds of all commits so far. A commit that was answered is in it.
    pub(super) fn seconds(&self) -> f64 {
        self.nanoseconds.load(Ordering::Acquire) as f64 * 1e-9
    }
}

struct Timed {
    store: Box<dyn Store>,
    nanoseconds: Arc<AtomicU64>,
}

impl Store for Timed {
    fn commit(
        &mut self,
        batch: &[Append],
    ) -> Result<Vec<Result<Placed, AppendError>>, JournalError> {
        let watch = Stopwatch::start();
        let committed = self.store.commit(batch);
        self.nanoseconds.fetch_add((watch.seconds() * 1e9) as u64, Ordering::AcqRel);
        committed
    }

    fn follow(&mut self) -> Result<bool, JournalError> {
        self.store.follow()
    }

    fn settle_anchor(&mut self) -> Result<(), JournalError> {
        self.store.settle_anchor()
    }

    fn leave(self: Box<Self>, note: &[u8]) -> Result<(), JournalError> {
        self.store.leave(note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_journal::StreamId;

    struct Refusing;

    impl Store for Refusing {
        fn commit(
            &mut self,
            batch: &[Append],
        ) -> Result<Vec<Result<Placed, AppendError>>, JournalError> {
            Ok(batch.iter().map(|_| Err(AppendError::Size)).collect())
        }

        fn follow(&mut self) -> Result<bool, JournalError> {
            Ok(false)
        }

        fn settle_anchor(&mut self) -> Result<(), JournalError> {
            Err(JournalError::Full)
        }
    }

    #[test]
    fn what_the_store_below_answers_is_answered() {
        let mut store = Commits::default().timed(Box::new(Refusing));
        let append = Append {
            stream: StreamId([1; 16]),
            expected_version: 0,
            bodies: Vec::new(),
            alone: None,
        };
        assert_eq!(store.commit(&[append]), Ok(vec![Err(AppendError::Size)]));
        assert_eq!(store.settle_anchor(), Err(JournalError::Full));
    }
}
