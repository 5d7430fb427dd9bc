//! What a journal takes on disk after it was opened, written and closed many times.

use super::figures::{Bench, Show};
use super::lives::lives;
use crate::cli::failure::Failed;
use crate::engine::Engine;
use leasehold_journal::folder;

/// How often it is opened.
const ROUNDS: u64 = 10;

impl Bench {
    /// The lives, a tenth of them in each round.
    pub(super) async fn rounds(&self, show: &mut Show<'_>) -> Result<(), Failed> {
        let place = self.place()?;
        let journal = place.path().join("journal");
        let share = self.records.div_ceil(ROUNDS);
        for round in 0..ROUNDS {
            let engine = Engine::builder(&journal).open().await?;
            let numbers = round * share..(round + 1) * share;
            drop(lives(engine.dispatch(), numbers, self.in_flight).await?);
            engine.close().await;
        }
        let disk = folder::bytes(&journal)? as f64;
        let records = self.archive_bytes(&journal)?;
        let mut told = |figure, value, unit| {
            let figure = self.figure(figure, value, unit);
            show(figure.of_work(share * ROUNDS, 0, self.in_flight))
        };
        told("disk_bytes_after_rounds", disk, "bytes")?;
        told("disk_of_record_bytes_after_rounds", disk / records, "ratio")
    }
}
