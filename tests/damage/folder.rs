//! A journal's folder with known records, and the judgement on one that was damaged.
//!
//! Owns the files before the damage. The judgement asks the library twice: the audit, which reads a
//! copy, and an opening for writing, as an engine does it but on this thread, so that a panic cannot
//! hide behind a code.

use super::caught;
use super::lives::{Life, leave, live, open, run};
use leasehold::audit::{Report, Row, Source, States, audit};
use leasehold::{Durability, Engine, Head, JournalError, ManualClock};
use leasehold_journal::folder::tighten;
use leasehold_journal::sled::SledMedium;
use leasehold_journal::walk::Item;
use leasehold_journal::{JournalId, Log, LogOptions, StoreReader as _};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// The journal inside of its place; its outer anchor lies beside it.
pub(crate) const JOURNAL: &str = "journal";
/// What is left out where it is all zeros.
pub(crate) const BLOCK_BYTES: usize = 4096;

/// A file's bytes. Blocks of zeros are left out: sled's files are mostly padding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    /// Bytes of the file.
    pub(crate) length: u64,
    /// Where each block that is not zero starts, and what it holds.
    pub(crate) blocks: Vec<(u64, Vec<u8>)>,
}

impl Image {
    fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).expect("readable");
        let zeros = [0_u8; BLOCK_BYTES];
        let blocks = bytes.chunks(BLOCK_BYTES).zip(0_u64..);
        let written = blocks.filter(|(block, _)| **block != zeros[..block.len()]);
        Self {
            length: bytes.len() as u64,
            blocks: written
                .map(|(block, number)| (number * BLOCK_BYTES as u64, block.to_vec()))
                .collect(),
        }
    }

    /// Writes the file, in place of what was there.
    pub(crate) fn write(&self, path: &Path) {
        let mut file = File::create(path).expect("writable");
        file.set_len(self.length).expect("it can grow");
        for (at, block) in &self.blocks {
            file.seek(SeekFrom::Start(*at)).expect("inside the file");
            file.write_all(block).expect("writable");
        }
    }
}

/// The files of a place by their names in it.
pub(crate) type Tree = BTreeMap<PathBuf, Image>;

fn read_tree(place: &Path) -> Tree {
    let (mut tree, mut folders) = (Tree::new(), vec![place.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("readable") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(place).expect("below the place").to_path_buf();
                tree.insert(name, Image::read(&path));
            }
        }
    }
    tree
}

/// Writes the files whose name starts with `below`, as a journal wants its files.
pub(crate) fn write_tree(tree: &Tree, below: &Path, place: &Path) {
    let journal = place.join(JOURNAL);
    std::fs::create_dir_all(journal.join("db").join("blobs")).expect("writable");
    for (name, image) in tree.iter().filter(|(name, _)| name.starts_with(below)) {
        image.write(&place.join(name));
    }
    tighten(&journal).expect("ours");
}

/// What a journal holds.
#[derive(Debug, PartialEq)]
struct Held {
    head: Head,
    rows: Vec<Row>,
}

/// A journal's folder, before any damage.
pub(crate) struct Sample {
    /// All files.
    pub(crate) newest: Tree,
    /// All files as they were one life of the engine earlier.
    pub(crate) older: Tree,
    held: Held,
}

/// What the library said to a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All is well, and everything is there.
    Harmless,
    /// It cannot be opened for writing, with this code.
    Refused(&'static str),
    /// It opens up to its last record, and the audit tells of the damage with this code.
    Found(String),
    /// Less or something else is there, and nobody says so.
    Silent,
    /// A panic came out.
    Panicked,
}

impl Sample {
    /// A journal with at least so many records, written in three lives of an engine: sled notes what it
    /// has only when it is opened, so each part of the file is guarded differently.
    pub(crate) fn new(records: u64) -> Self {
        let place = tempfile::tempdir().expect("a temporary folder");
        let journal = place.path().join(JOURNAL);
        let clock = ManualClock::at(0.0);
        let long = "Kaffee. ".repeat(2_500);
        let (mut number, mut trees, mut heads) = (0, Vec::new(), Vec::new());
        for session in 1..=3 {
            let head = run(async {
                let engine = open(Engine::builder(&journal), &clock).await;
                while engine.head().sequence < records * session / 3 {
                    let text = if number % 4 == 1 { long.as_str() } else { "Kaffee." };
                    live(&engine, &clock, Life { number, text, full: number % 2 == 1 }).await;
                    number += 1;
                }
                if session == 3 {
                    leave(&engine, &clock, number).await;
                }
                let head = engine.head();
                engine.close().await;
                head
            });
            trees.push(read_tree(place.path()));
            heads.push(head);
        }
        let [_, older, newest]: [Tree; 3] = trees.try_into().expect("three lives");
        let restored = tempfile::tempdir().expect("a temporary folder");
        write_tree(&newest, Path::new(""), restored.path());
        let held = opened(&restored.path().join(JOURNAL)).expect("it is sound");
        // Everything that was acknowledged is there, so what is compared later is the truth.
        assert_eq!(Some(&held.head), heads.last());
        assert!(heads.windows(2).all(|two| two[0].sequence < two[1].sequence));
        Self { newest, older, held }
    }

    /// How many journal records there are.
    pub(crate) fn records(&self) -> u64 {
        self.held.head.sequence
    }

    /// What the library says after this was done to the place with the journal.
    pub(crate) fn after(&self, damage: impl FnOnce(&Path)) -> Outcome {
        let place = tempfile::tempdir().expect("a temporary folder");
        write_tree(&self.newest, Path::new(""), place.path());
        damage(place.path());
        self.judge(&place.path().join(JOURNAL))
    }

    fn judge(&self, journal: &Path) -> Outcome {
        let audited = || match Source::open(journal) {
            Ok(source) => audit(&source, None),
            Err(error) => Report::unreadable(&error),
        };
        // The audit first: opening for writing may mend an anchor.
        let (Some(report), Some(opened)) = (caught(audited), caught(|| opened(journal))) else {
            return Outcome::Panicked;
        };
        let Head { sequence, hash } = self.held.head;
        let whole = report.sequence == sequence && report.head == Some(hash.to_string());
        if report.clean && !whole {
            return Outcome::Silent;
        }
        match (opened, report.findings.first()) {
            (Err(error), _) => Outcome::Refused(error.code()),
            // Written on from an earlier head, the loss could not be told any more.
            (Ok(held), _) if held.head != self.held.head => Outcome::Silent,
            (Ok(_), Some(finding)) => Outcome::Found(finding.code.clone()),
            (Ok(held), None) if held == self.held => Outcome::Harmless,
            (Ok(_), None) => Outcome::Silent,
        }
    }
}

/// Opens a journal for writing and replays it.
fn opened(journal: &Path) -> Result<Held, JournalError> {
    let medium = SledMedium::open(journal, true, Durability::ProcessSafe)?;
    let mut states = States::default();
    let options = LogOptions { new_id: JournalId([9; 16]), create: true };
    let log = Log::open(medium, options, &mut |item| {
        let Item::Record { sequence, stream, record } = item else { return Ok(()) };
        let body = match record {
            Ok(record) => Some(record.body),
            Err(JournalError::Corrupt { .. }) => None,
            Err(error) => return Err(error),
        };
        match states.flows.apply(stream, body.as_deref()) {
            // One that does not replay is quarantined, and shows among the rows.
            Some(Ok(()) | Err(_)) => Ok(()),
            None => Err(JournalError::Corrupt { sequence }),
        }
    })?;
    Ok(Held { head: log.reader().head(), rows: states.rows() })
}

/// A file of a place, open to be damaged.
pub(crate) fn writable(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).expect("it is there")
}
