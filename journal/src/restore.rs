//! An archive put into a journal, frame by frame as it is.
//!
//! Owns the way from one store to another: the journal's id, every frame and so every hash stay what they
//! were, and whoever kept a head can prove it in the new place. Must not know what a record says.

use crate::anchor::Anchor;
use crate::archive::{head_bytes, known, next_item, start};
use crate::chain::{Head, chunk_hash};
use crate::error::JournalError;
use crate::medium::{Batch, Medium, Step, Written};
use crate::walk::Walk;
use std::collections::HashSet;
use std::io::BufRead;

/// Bytes of frames and chunks in one batch, about.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Puts an archive into an empty medium, verifying all of it on the way; answers where it ends.
///
/// # Errors
/// [`JournalError::NotAJournal`] for a file that is no archive, [`JournalError::ArchivePart`] for one that
/// needs those before it, [`JournalError::NotEmpty`] for a medium that holds records or is another journal,
/// [`JournalError::Corrupt`] with the first sequence number that does not verify or whose chunks are gone; whatever the medium
/// answers. What was written until then stays, and is a whole journal up to there.
pub fn restore<M: Medium>(medium: &M, input: &mut dyn BufRead) -> Result<Head, JournalError> {
    let (id, after) = start(input)?;
    if after.sequence > 0 {
        return Err(JournalError::ArchivePart);
    }
    let there = medium.journal_id()?;
    if there.is_some_and(|there| there != id) || medium.frame_at_or_after(0)?.is_some() {
        return Err(JournalError::NotEmpty);
    }
    if there.is_none() {
        medium.initialise(id)?;
    }
    let mut walk = Walk::new(id);
    let mut chunks = HashSet::new();
    let mut load = Load { from: walk.head(), batch: Batch::default(), bytes: 0 };
    loop {
        let corrupt = JournalError::Corrupt { sequence: walk.head().sequence + 1 };
        let (kind, bytes) = next_item(input).ok_or(corrupt.clone())?;
        load.bytes += bytes.len();
        match kind {
            b'C' => {
                let hash = chunk_hash(&bytes);
                chunks.insert(hash);
                load.batch.chunks.push((hash, bytes));
            }
            b'F' => {
                let first = walk.head().sequence + 1;
                // A chunk that was changed is another one, and the record's own is not there.
                for record in walk.step(&bytes)?.iter().filter(|record| record.chunked) {
                    known(&chunks, record.stored, record.sequence)?;
                }
                load.batch.frames.push((first, bytes));
                if load.bytes >= BATCH_BYTES {
                    load.put(medium, walk.head())?;
                }
            }
            b'E' => {
                let over = input.fill_buf().map_err(JournalError::from)?.is_empty();
                if bytes != head_bytes(walk.head()) || !over {
                    return Err(corrupt);
                }
                load.put(medium, walk.head())?;
                medium.set_anchor(Anchor { journal: id, head: walk.head() }, true)?;
                return Ok(walk.head());
            }
            _ => return Err(corrupt),
        }
    }
}

/// What is to be written next.
struct Load {
    from: Head,
    batch: Batch,
    bytes: usize,
}

impl Load {
    fn put<M: Medium>(&mut self, medium: &M, to: Head) -> Result<(), JournalError> {
        let batch = std::mem::take(&mut self.batch);
        self.bytes = 0;
        if batch.frames.is_empty() {
            return Ok(());
        }
        let step = Step { from: self.from, to };
        self.from = to;
        match medium.step(step, batch)? {
            Written::Here => Ok(()),
            // Somebody began to work on it.
            Written::Overtaken => Err(JournalError::NotEmpty),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::export;
    use crate::chain::JournalId;
    use crate::log::{Log, LogOptions};
    use crate::memory::MemoryDisk;
    use crate::record::StreamId;
    use crate::store::{Append, Store as _, StoreReader as _};

    /// A journal with small and large records.
    fn filled() -> MemoryDisk {
        let disk = MemoryDisk::new();
        let options = LogOptions { new_id: JournalId([5; 16]), create: true };
        let mut log = Log::open(disk.medium(), options, &mut |_| Ok(())).expect("it is made");
        for number in 0..20_u8 {
            let bodies = vec![vec![number; 10], vec![number; 40_000]];
            let stream = StreamId([number; 16]);
            let append = Append { stream, expected_version: 0, bodies, alone: None };
            assert!(log.commit(&[append]).expect("it commits")[0].is_ok());
        }
        disk
    }

    fn archived(disk: &MemoryDisk) -> (Head, Vec<u8>) {
        let mut bytes = Vec::new();
        let head = export(&disk.medium(), &mut bytes).expect("it verifies");
        (head, bytes)
    }

    #[test]
    fn what_is_restored_is_the_same_journal_to_the_last_hash_and_goes_on() {
        let (head, bytes) = archived(&filled());
        for disk in [MemoryDisk::new(), MemoryDisk::shared()] {
            assert_eq!(restore(&disk.medium(), &mut bytes.as_slice()), Ok(head));
            assert_eq!(archived(&disk), (head, bytes.clone()));
            let options = LogOptions { new_id: JournalId([9; 16]), create: false };
            let mut log = Log::open(disk.medium(), options, &mut |_| Ok(())).expect("it opens");
            assert_eq!(log.id(), JournalId([5; 16]));
            let stream = StreamId([3; 16]);
            let append = Append { stream, expected_version: 2, bodies: vec![vec![1]], alone: None };
            assert!(log.commit(&[append]).expect("it commits")[0].is_ok());
            assert_eq!(log.reader().head().sequence, head.sequence + 1);
            let again = restore(&disk.medium(), &mut bytes.as_slice());
            assert_eq!(again, Err(JournalError::NotEmpty));
        }
    }

    #[test]
    fn damage_is_named_and_a_cut_archive_leaves_a_whole_beginning() {
        let (head, bytes) = archived(&filled());
        for place in [100, bytes.len() / 2, bytes.len() - 3] {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1;
            let restored = restore(&MemoryDisk::new().medium(), &mut damaged.as_slice());
            assert!(restored.is_err(), "{place}");
        }
        let cut = &bytes[..bytes.len() - 40];
        let disk = MemoryDisk::new();
        let expected = Err(JournalError::Corrupt { sequence: head.sequence + 1 });
        assert_eq!(restore(&disk.medium(), &mut &cut[..]), expected);
    }
}
