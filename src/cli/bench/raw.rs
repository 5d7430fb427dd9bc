//! What the disk allows: the same bytes, appended to a preallocated file with fdatasync.

use super::figures::{Bench, Show, quantile, unwritable};
use crate::cli::failure::Failed;
use crate::clock::Stopwatch;
use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};

/// Records per sync of the raw limit.
const RAW_BATCH: u64 = 256;
/// Single appends that are timed.
const RAW_SINGLES: u64 = 500;
/// Registered, claimed, completed.
const RECORDS_OF_A_LIFE: f64 = 3.0;

impl Bench {
    /// The bytes of as many lives, in batches of 256.
    pub(super) fn raw_limit(
        &self,
        bytes_per_record: f64,
        lives: f64,
        show: &mut Show<'_>,
    ) -> Result<(), Failed> {
        let batch = (bytes_per_record * RECORDS_OF_A_LIFE) as usize * RAW_BATCH as usize;
        let batches = self.records.div_ceil(RAW_BATCH);
        let seconds: f64 = self.raw_appends(batch, batches)?.into_iter().sum();
        let raw = (batches * RAW_BATCH) as f64 / seconds;
        show(self.figure("raw_limit_lives_per_second", raw, "1/s"))?;
        show(self.figure("lives_of_raw_limit", lives / raw, "ratio"))
    }

    /// One record at a time.
    pub(super) fn raw_single(
        &self,
        bytes_per_record: f64,
        life: f64,
        show: &mut Show<'_>,
    ) -> Result<(), Failed> {
        let mut seconds = self.raw_appends(bytes_per_record as usize, RAW_SINGLES)?;
        let single = quantile(&mut seconds, 0.5).unwrap_or(f64::NAN);
        show(self.figure("raw_single_append_p50_seconds", single, "s"))?;
        show(self.figure("life_in_raw_single_appends", life / single, "ratio"))
    }

    /// The seconds of each append of so many bytes to a preallocated file, synced.
    fn raw_appends(&self, bytes: usize, times: u64) -> Result<Vec<f64>, Failed> {
        let batch = vec![0x5a; bytes];
        let mut file = File::create(self.folder.join("raw")).map_err(unwritable)?;
        let room = vec![0; bytes];
        for _ in 0..times {
            file.write_all(&room).map_err(unwritable)?;
        }
        file.sync_all().map_err(unwritable)?;
        file.seek(SeekFrom::Start(0)).map_err(unwritable)?;
        let mut seconds = Vec::new();
        for _ in 0..times {
            let watch = Stopwatch::start();
            file.write_all(&batch).map_err(unwritable)?;
            file.sync_data().map_err(unwritable)?;
            seconds.push(watch.seconds());
        }
        Ok(seconds)
    }
}
