//! Damages of a journal's folder, drawn from a seed, and what came of many of them.

use super::folder::{BLOCK_BYTES, Image, JOURNAL, Outcome, Sample, writable, write_tree};
use super::in_parts;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// One thing that is wrong with a folder; the anchor beside it is one of its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Damage {
    /// One bit of a file is another one.
    Flip { file: PathBuf, bit: u64 },
    /// A file ends here.
    Cut { file: PathBuf, at: u64 },
    /// A file is gone.
    Remove { file: PathBuf },
    /// From here on, one page of a file is zeros.
    Zero { file: PathBuf, at: u64 },
    /// A file is as it was in an earlier life.
    OlderFile { file: PathBuf },
    /// The whole folder is as it was in an earlier life; the anchor beside it is not.
    OlderFolder,
}

/// Numbers that look random and are the same for the same seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is not 0.
    fn below(&mut self, limit: u64) -> u64 {
        self.draw() % limit
    }

    fn one_of<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }

    /// A byte of a file: three times in four one that is not zero, since most are padding.
    fn spot(&mut self, image: &Image) -> u64 {
        if image.blocks.is_empty() || self.below(4) == 0 {
            return self.below(image.length);
        }
        let (start, block) = self.one_of(&image.blocks);
        let from = self.below(block.len() as u64) as usize;
        let mut places = (from..block.len()).chain(0..from);
        let at = places.find(|at| block[*at] != 0).expect("blocks of zeros are left out");
        start + at as u64
    }

    /// A file that is not empty: six times in ten the database's own.
    fn file<'a>(&mut self, sample: &'a Sample) -> (&'a PathBuf, &'a Image) {
        let database = Path::new(JOURNAL).join("db").join("db");
        let files: Vec<_> = sample.newest.iter().filter(|(_, image)| image.length > 0).collect();
        let only = files.iter().find(|(name, _)| **name == database);
        match only {
            Some(found) if self.below(10) < 6 => *found,
            Some(_) | None => *self.one_of(&files),
        }
    }
}

impl Damage {
    fn draw(sample: &Sample, mut dice: Dice) -> Self {
        let kind = dice.below(20);
        let (file, image) = dice.file(sample);
        let (file, at) = (file.clone(), dice.spot(image));
        match kind {
            0..=9 => Self::Flip { file, bit: at * 8 + dice.below(8) },
            10..=12 => Self::Cut { file, at },
            13..=14 => {
                let names: Vec<_> = sample.newest.keys().collect();
                Self::Remove { file: (*dice.one_of(&names)).clone() }
            }
            15..=17 => Self::Zero { file, at: at - at % BLOCK_BYTES as u64 },
            18 => {
                let changed = |(name, older): &(&PathBuf, &Image)| {
                    sample.newest.get(*name).is_some_and(|newest| newest != *older)
                };
                let older: Vec<_> = sample.older.iter().filter(changed).collect();
                Self::OlderFile { file: dice.one_of(&older).0.clone() }
            }
            _ => Self::OlderFolder,
        }
    }

    /// Its kind.
    fn name(&self) -> &'static str {
        match self {
            Self::Flip { .. } => "flip",
            Self::Cut { .. } => "cut",
            Self::Remove { .. } => "remove",
            Self::Zero { .. } => "zero",
            Self::OlderFile { .. } => "older_file",
            Self::OlderFolder => "older_folder",
        }
    }

    /// Does it to the files of a place.
    pub(crate) fn act(&self, sample: &Sample, place: &Path) {
        match self {
            Self::Flip { file, bit } => {
                let mut file = writable(&place.join(file));
                let (at, mut byte) = (SeekFrom::Start(bit / 8), [0_u8]);
                file.seek(at).expect("inside the file");
                file.read_exact(&mut byte).expect("inside the file");
                file.seek(at).expect("inside the file");
                file.write_all(&[byte[0] ^ (1 << (bit % 8))]).expect("writable");
            }
            Self::Cut { file, at } => {
                writable(&place.join(file)).set_len(*at).expect("it can be cut");
            }
            Self::Remove { file } => {
                std::fs::remove_file(place.join(file)).expect("it was there");
            }
            Self::Zero { file, at } => {
                let mut opened = writable(&place.join(file));
                let rest = sample.newest[file].length - at;
                let zeros = vec![0; BLOCK_BYTES.min(rest as usize)];
                opened.seek(SeekFrom::Start(*at)).expect("inside the file");
                opened.write_all(&zeros).expect("writable");
            }
            Self::OlderFile { file } => sample.older[file].write(&place.join(file)),
            Self::OlderFolder => {
                std::fs::remove_dir_all(place.join(JOURNAL)).expect("it was there");
                write_tree(&sample.older, Path::new(JOURNAL), place);
            }
        }
    }
}

/// What came of many damages.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Counts {
    /// Damages, one at a time, each to a folder that was whole before.
    pub(crate) damages: u64,
    /// How many there were of each kind.
    pub(crate) kinds: BTreeMap<&'static str, u64>,
    /// Those that touched nothing that is read.
    pub(crate) harmless: u64,
    /// Those that were refused for writing, by code.
    pub(crate) refused: BTreeMap<&'static str, u64>,
    /// Those that the audit told of, by its first finding.
    pub(crate) found: BTreeMap<String, u64>,
    /// Those that took something away and were not told of.
    pub(crate) silent: u64,
    /// Those that made the library panic.
    pub(crate) panicked: u64,
}

impl Counts {
    fn take(&mut self, damage: &Damage, outcome: Outcome) {
        self.damages += 1;
        *self.kinds.entry(damage.name()).or_default() += 1;
        match outcome {
            Outcome::Harmless => self.harmless += 1,
            Outcome::Refused(code) => *self.refused.entry(code).or_default() += 1,
            Outcome::Found(code) => *self.found.entry(code).or_default() += 1,
            Outcome::Silent => self.silent += 1,
            Outcome::Panicked => self.panicked += 1,
        }
    }

    fn add(&mut self, other: Self) {
        self.damages += other.damages;
        self.harmless += other.harmless;
        self.silent += other.silent;
        self.panicked += other.panicked;
        for (kind, count) in other.kinds {
            *self.kinds.entry(kind).or_default() += count;
        }
        for (code, count) in other.refused {
            *self.refused.entry(code).or_default() += count;
        }
        for (code, count) in other.found {
            *self.found.entry(code).or_default() += count;
        }
    }
}

/// Does so many damages, each to a whole folder. The same seed makes the same damages; one that was a
/// failure is named on stderr.
pub(crate) fn many(sample: &Sample, count: u64, seed: u64) -> Counts {
    let parts = in_parts(|part, parts| {
        let mut counts = Counts::default();
        for number in (part as u64..count).step_by(parts) {
            let damage = Damage::draw(sample, Dice(seed.rotate_left(32) ^ number));
            let outcome = sample.after(|place| damage.act(sample, place));
            if matches!(outcome, Outcome::Silent | Outcome::Panicked) {
                eprintln!("damage {number} of seed {seed}: {damage:?}: {outcome:?}");
            }
            counts.take(&damage, outcome);
        }
        counts
    });
    let mut all = Counts::default();
    parts.into_iter().for_each(|part| all.add(part));
    all
}

/// A loss that nothing in the files can tell of: the folder as it was in an earlier life, with its own
/// anchor, and the anchor beside it gone. Only a head that was kept elsewhere tells. It has to be
/// counted as silent: if it were not, the other counts would prove nothing.
pub(crate) fn unnoticeable(sample: &Sample) -> Outcome {
    sample.after(|place| {
        Damage::OlderFolder.act(sample, place);
        std::fs::remove_file(place.join(JOURNAL).with_extension("anchor")).expect("it was there");
    })
}
