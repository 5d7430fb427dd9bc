//! Lives that begin elsewhere: every state a record can be imported in, and what cannot be.

use super::lives::{Sample, at, claimed, dismissed, released, requeued, retried};
use leasehold_actors::contract::text::{ErrorCode, Sha256, WorkerToken};
use leasehold_actors::record::{Event, Flow, ImportedRecord, ImportedState, Lease};

fn refused() -> ErrorCode {
    ErrorCode::known("refused")
}

fn leased<F: Flow>(expires: f64) -> ImportedState<F> {
    let owner = WorkerToken::new("worker-1").expect("a worker");
    let lease = Lease { owner, token_sha256: Sha256::of(b"token"), expires_at: at(expires) };
    ImportedState::Leased(lease)
}

impl<F: Flow> Sample<F> {
    /// Registered elsewhere at 100, last touched at 110, due at 120, imported at 500.
    fn imported(&self, state: ImportedState<F>, attempts: u32) -> Event<F> {
        let record = ImportedRecord {
            binding: self.binding.clone(),
            created_at: at(100.0),
            updated_at: at(110.0),
            next_at: at(120.0),
            attempts,
            failures: 0,
            progress: self.progress.clone(),
            state,
        };
        self.event(record, self.payload.clone())
    }

    fn event(&self, record: ImportedRecord<F>, payload: F::Payload) -> Event<F> {
        let row_sha256 = Sha256::of(b"row");
        Event::Imported {
            at: at(500.0),
            schema_version: 1,
            row_sha256,
            record: Box::new(record),
            payload,
        }
    }

    fn changed(&self, change: impl FnOnce(&mut ImportedRecord<F>)) -> Vec<Event<F>> {
        let Event::Imported { mut record, payload, .. } =
            self.imported(ImportedState::RetryWait(refused()), 2)
        else {
            unreachable!("it is imported")
        };
        change(&mut record);
        vec![self.event(*record, payload)]
    }

    /// Lives that go on from every state, and imports that cannot be.
    pub(super) fn imported_lives(&self) -> Vec<Vec<Event<F>>> {
        use ImportedState::{Completed, Failed, Pending, RetryWait, Watching};
        let outcome = || self.outcome.clone();
        vec![
            vec![self.imported(Pending, 0), claimed(1, 120.0), retried(1, 121.0)],
            vec![self.imported(Watching, 2), claimed(3, 120.0), self.unchanged(121.0)],
            vec![
                self.imported(RetryWait(refused()), 2),
                claimed(3, 120.0),
                released(2, 121.0, 120.0),
            ],
            vec![self.imported(leased(170.0), 1), retried(1, 160.0)],
            // It was not claimed here, and cannot be given back.
            vec![self.imported(leased(170.0), 1), released(0, 160.0, 120.0)],
            vec![self.imported(Completed(outcome()), 3)],
            vec![self.imported(Failed(refused()), 5), requeued(600.0), claimed(1, 600.0)],
            vec![self.imported(Failed(refused()), 5), dismissed(109.0)],
            // None of these is a state: R1 to R4.
            vec![self.imported(Failed(refused()), 6)],
            self.changed(|record| record.failures = 6),
            self.changed(|record| record.updated_at = at(99.0)),
            self.changed(|record| record.next_at = at(99.0)),
            vec![self.imported(leased(110.0), 1)],
            vec![self.imported(leased(170.0), 0)],
            vec![self.imported(Pending, 1)],
            vec![self.imported(Watching, 0)],
            // What is there already cannot be brought again.
            vec![self.registered(None), self.imported(Pending, 0)],
            vec![self.imported(Pending, 0), self.imported(Pending, 0)],
        ]
    }
}
