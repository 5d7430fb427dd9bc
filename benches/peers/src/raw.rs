//! What the disk allows: the bytes of the lives, appended, and nothing else.
//!
//! Owns the appending. Must not know what the bytes mean.

use crate::work::{Failed, Line, Measured, Work, failed};
use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::time::Instant;

/// Lives per sync of `raw`.
const BATCH: u64 = 256;
/// Enqueued, leased, settled.
const RECORDS_PER_LIFE: u64 = 3;

/// The bytes of 256 lives per fdatasync.
pub(crate) fn batched(work: &Work, life_bytes: u64) -> Result<Line, Failed> {
    let mut file = preallocated(work, life_bytes)?;
    let mut lives = Vec::new();
    let started = Instant::now();
    let mut left = work.records;
    while left > 0 {
        let batch = left.min(BATCH);
        let enqueued = Instant::now();
        append(&mut file, &vec![0x5a; (batch * life_bytes) as usize])?;
        lives.extend(std::iter::repeat_n(enqueued.elapsed().as_secs_f64(), batch as usize));
        left -= batch;
    }
    let measured = Measured::new(started.elapsed().as_secs_f64(), lives);
    Ok(work.line("raw", "fdatasync for each 256 lives", &measured))
}

/// The bytes of one record per fdatasync, three of them a life.
pub(crate) fn single(work: &Work, life_bytes: u64) -> Result<Line, Failed> {
    let mut file = preallocated(work, life_bytes)?;
    let record = vec![0x5a; (life_bytes / RECORDS_PER_LIFE) as usize];
    let mut lives = Vec::new();
    let started = Instant::now();
    for _ in 0..work.records {
        let enqueued = Instant::now();
        for _ in 0..RECORDS_PER_LIFE {
            append(&mut file, &record)?;
        }
        lives.push(enqueued.elapsed().as_secs_f64());
    }
    let measured = Measured::new(started.elapsed().as_secs_f64(), lives);
    Ok(work.line("raw-single", "fdatasync for each record, one life at a time", &measured))
}

fn preallocated(work: &Work, life_bytes: u64) -> Result<File, Failed> {
    if life_bytes < RECORDS_PER_LIFE {
        return Err(Failed::Usage("--life-bytes is at least 3"));
    }
    let step = "preallocate the raw file";
    let mut file = File::create(work.path("raw")).map_err(failed(step))?;
    // Written, not only reserved: a first write into a reserved block costs a change of the file's map.
    let block = vec![0; (BATCH * life_bytes) as usize];
    for _ in 0..work.records.div_ceil(BATCH) {
        file.write_all(&block).map_err(failed(step))?;
    }
    file.sync_all().map_err(failed(step))?;
    file.seek(SeekFrom::Start(0)).map_err(failed(step))?;
    Ok(file)
}

fn append(file: &mut File, bytes: &[u8]) -> Result<(), Failed> {
    file.write_all(bytes).map_err(failed("append to the raw file"))?;
    file.sync_data().map_err(failed("sync the raw file"))
}
