//! Every bit of an archive, one at a time: the audit has to tell of each.

use super::lives::{Life, live, open, run};
use super::{caught, in_parts};
use leasehold::audit::{Source, audit};
use leasehold::{Engine, ManualClock, MemoryDisk};
use leasehold_journal::archive;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;

/// What the audit says of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Something does not hold.
    Reported,
    /// All is well.
    Clean,
    /// It panicked.
    Panicked,
}

/// What came of the flips.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Bits {
    /// Size of the archive.
    pub(crate) bytes: u64,
    /// Bits that were flipped, each alone.
    pub(crate) flips: u64,
    /// Flips that were told of.
    pub(crate) reported: u64,
    /// Flips that went unnoticed.
    pub(crate) silent: u64,
    /// Flips that ended in a panic.
    pub(crate) panicked: u64,
}

/// An archive of at least so many bytes: lives through all five flows, the first one short, the second
/// one with bodies in chunks.
pub(crate) fn archive(bytes: u64) -> Vec<u8> {
    let (disk, clock) = (MemoryDisk::new(), ManualClock::at(0.0));
    let long = "Kaffee. ".repeat(2_500);
    run(async {
        let engine = open(Engine::in_memory(&disk), &clock).await;
        for number in 0.. {
            let text = if number == 1 { long.as_str() } else { "Kaffee." };
            live(&engine, &clock, Life { number, text, full: number > 0 }).await;
            if engine.disk_bytes().expect("memory answers") >= bytes {
                break;
            }
        }
        engine.close().await;
    });
    let mut archive = Vec::new();
    archive::export(&disk.medium(), &mut archive).expect("it verifies");
    archive
}

/// What the audit says of the archive at a place, as `leasehold verify` asks it.
pub(crate) fn look(source: &Source) -> Seen {
    match caught(|| audit(source, None)) {
        Some(report) if report.clean => Seen::Clean,
        Some(_) => Seen::Reported,
        None => Seen::Panicked,
    }
}

/// Flips the first bit of an archive and every `step`th after it, in files of this folder.
pub(crate) fn flip(archive: &[u8], step: usize, folder: &Path) -> Bits {
    let parts = in_parts(|part, parts| {
        let bits = (part * step..archive.len() * 8).step_by(parts * step);
        flip_each(archive, bits, &folder.join(format!("flipped-{part}")))
    });
    let mut all = Bits { bytes: archive.len() as u64, ..Bits::default() };
    for part in parts {
        all.flips += part.flips;
        all.reported += part.reported;
        all.silent += part.silent;
        all.panicked += part.panicked;
    }
    all
}

fn flip_each(archive: &[u8], bits: impl Iterator<Item = usize>, path: &Path) -> Bits {
    std::fs::write(path, archive).expect("writable");
    let mut file = OpenOptions::new().write(true).open(path).expect("just written");
    let source = Source::open(path).expect("a file is an archive");
    let mut came = Bits::default();
    for bit in bits {
        let (at, byte) = (bit / 8, archive[bit / 8]);
        put(&mut file, at, byte ^ (1 << (bit % 8)));
        came.flips += 1;
        match look(&source) {
            Seen::Reported => came.reported += 1,
            Seen::Clean => came.silent += 1,
            Seen::Panicked => came.panicked += 1,
        }
        put(&mut file, at, byte);
    }
    // Otherwise something else than the flips could have been told of.
    assert_eq!(look(&source), Seen::Clean, "the archive is whole again");
    came
}

fn put(file: &mut File, at: usize, byte: u8) {
    file.seek(SeekFrom::Start(at as u64)).expect("inside the file");
    file.write_all(&[byte]).expect("writable");
}
