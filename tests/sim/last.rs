//! The last phase: faults have stopped, and everything has to settle (I13).
//!
//! Owns the order of it: workers work, the clock goes to the next time that anything is due, an operator
//! moves held records to the digest of now. Must not help a record in any other way.

use super::invariant::{Break, Checked, I13, broken};
use super::world::{Ended, World};

/// Rounds after which every record has to be settled.
const ROUNDS_MAX: u32 = 600;
/// Claims that workers of one flow ask for in one round.
const CLAIMS: usize = 3;

impl World {
    /// Opens the journal once more, on a disk without faults, and works until every record is settled.
    pub(crate) fn settle_everything(&mut self) -> Result<Ended, Break> {
        self.shared.calm = true;
        self.stop();
        self.shared.journal.calm();
        // No record's last time is ahead of the clock any more, and the clock only goes forward.
        self.shared.now = self.shared.latest;
        if let Some(ended) = self.open()? {
            return Ok(ended);
        }
        for _ in 0..ROUNDS_MAX {
            self.round()?;
            self.check_rest()?;
            if self.desks.iter().all(|desk| desk.is_settled() && !desk.has_claims()) {
                return self.finish();
            }
            if !self.desks.iter().any(|desk| desk.has_claims()) {
                self.clock_to_next();
            }
        }
        Err(broken(I13, "some record does not settle"))
    }

    fn round(&mut self) -> Checked {
        let Self { shared, desks, .. } = self;
        for desk in desks {
            desk.repin_all(shared);
            for _ in 0..CLAIMS {
                desk.ask(shared);
            }
        }
        self.rest()?;
        while self.call()? {}
        let Self { shared, desks, .. } = self;
        for desk in desks {
            while desk.settle(shared) {}
        }
        self.rest()
    }

    fn finish(&mut self) -> Result<Ended, Break> {
        self.check_all()?;
        let Self { shared, desks, .. } = self;
        for desk in desks.iter() {
            desk.write_ends(shared);
        }
        // The head depends on every byte of the journal, so the trace's hash does too.
        let head = shared.journal.head().map_or([0; 32], |head| head.hash.0);
        for part in head.chunks_exact(8) {
            shared.trace.mix(part.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte)));
        }
        self.close()?;
        Ok(Ended::Settled)
    }
}
