//! What a disk may lose or change, on purpose.

use super::{Disk, Image, MemoryDisk};
use crate::record::StreamId;

impl MemoryDisk {
    /// Changes the bytes of the frame that starts at `sequence`, in both images; false if there is
    /// none.
    pub fn damage(&self, sequence: u64, change: impl Fn(&mut Vec<u8>)) -> bool {
        let mut disk = self.lock();
        disk.changes += 1;
        let Disk { live, durable, .. } = &mut *disk;
        let mut found = false;
        for image in [live, durable] {
            if let Some(bytes) = image.frames.get_mut(&sequence) {
                change(bytes);
                found = true;
            }
        }
        found
    }

    /// Removes all frames from `sequence` on, in both images: a tail that was lost.
    pub fn cut(&self, sequence: u64) {
        let mut disk = self.lock();
        disk.changes += 1;
        disk.live.frames.split_off(&sequence);
        disk.durable.frames.split_off(&sequence);
    }

    /// Changes the bytes of a stream's entry in the base, in both images; false if there is none.
    pub fn damage_entry(&self, stream: StreamId, change: impl Fn(&mut Vec<u8>)) -> bool {
        let mut disk = self.lock();
        disk.changes += 1;
        let Disk { live, durable, .. } = &mut *disk;
        let mut found = false;
        for image in [live, durable] {
            if let Some(bytes) = image.entries.get_mut(&stream) {
                change(bytes);
                found = true;
            }
        }
        found
    }

    /// Removes all chunks, in both images.
    pub fn lose_chunks(&self) {
        let mut disk = self.lock();
        disk.changes += 1;
        disk.live.chunks.clear();
        disk.durable.chunks.clear();
    }

    /// Removes everything but the outer anchor, in both images: another, empty folder.
    pub fn lose_folder(&self) {
        let mut disk = self.lock();
        let outer_anchor = disk.live.outer_anchor;
        disk.live = Image { outer_anchor, ..Image::default() };
        disk.durable = disk.live.clone();
        disk.unsynced.clear();
    }

    /// Removes the inner anchor, in both images.
    pub fn lose_anchor(&self) {
        let mut disk = self.lock();
        disk.live.anchor = None;
        disk.durable.anchor = None;
    }
}
