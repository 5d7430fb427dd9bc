//! A file in stretches, each of which shows enough for whatever starts in it.
//!
//! Owns reading files that a disk no longer gives whole. Must not know what is looked for.

use crate::error::JournalError;
use crate::frame::FRAME_BYTES_MAX;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// What a disk gives or refuses as a whole.
const SECTOR_BYTES: usize = 4096;
/// Bytes that are looked at together.
pub(super) const STEP_BYTES: usize = 1024 * 1024;
/// How far a frame or a chunk that starts in a stretch may reach beyond it, and what stands before it.
pub(super) const REACH_BYTES: usize = FRAME_BYTES_MAX + SECTOR_BYTES;

/// How much of a file was shown.
pub(super) struct Extent {
    /// All its bytes.
    pub(super) bytes: u64,
    /// Those that the disk did not give; zeros were shown for them.
    pub(super) unreadable: u64,
}

/// Shows a file in stretches: where one lies, its bytes, and how many of them are looked at as the
/// start of something. The others are shown again, with what follows them.
pub(super) fn over_file(
    path: &Path,
    visit: &mut dyn FnMut(u64, &[u8], usize),
) -> Result<Extent, JournalError> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut extent = Extent { bytes: 0, unreadable: 0 };
    let mut buffer = Vec::new();
    let mut at = 0;
    loop {
        let kept = buffer.len();
        let room = (STEP_BYTES + REACH_BYTES - kept) as u64;
        buffer.resize(kept + room.min(length - extent.bytes) as usize, 0);
        extent.unreadable += fill(&mut file, extent.bytes, &mut buffer[kept..]);
        extent.bytes += (buffer.len() - kept) as u64;
        if extent.bytes == length {
            visit(at, &buffer, buffer.len());
            return Ok(extent);
        }
        visit(at, &buffer, STEP_BYTES);
        buffer.drain(..STEP_BYTES);
        at += STEP_BYTES as u64;
    }
}

/// Reads from `at` on. A sector that the disk does not give is zeros; answers how many bytes that
/// were.
fn fill(file: &mut File, at: u64, bytes: &mut [u8]) -> u64 {
    if read_exactly(file, at, bytes).is_ok() {
        return 0;
    }
    let mut lost = 0;
    for (number, sector) in bytes.chunks_mut(SECTOR_BYTES).enumerate() {
        if read_exactly(file, at + (number * SECTOR_BYTES) as u64, sector).is_err() {
            sector.fill(0);
            lost += sector.len() as u64;
        }
    }
    lost
}

/// Fills `bytes` from `at` on.
pub(super) fn read_exactly(file: &mut File, at: u64, bytes: &mut [u8]) -> std::io::Result<()> {
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(bytes)
}
