//! The archive files of one journal, in their order.
//!
//! Owns the names of archive files and the walk over them. Must not judge what it comes by.

use leasehold_journal::chain::{Head, JournalId};
use leasehold_journal::walk::{Visit, Walk};
use leasehold_journal::{JournalError, archive};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// How archive files end.
const EXTENSION: &str = "leasehold";

/// The name of the archive with the records from `first` to `last`.
#[must_use]
pub fn name(journal: JournalId, first: u64, last: u64) -> String {
    format!("{journal}-{first}-{last}.{EXTENSION}")
}

/// The archives of one journal in a folder, by the record they start with.
#[derive(Debug)]
pub struct Archives {
    files: Vec<(u64, u64, PathBuf)>,
}

impl Archives {
    /// Finds the archives of a journal by their names; other files are not looked at.
    ///
    /// # Errors
    /// [`JournalError::ArchiveMissing`] without the folder; what the disk answers.
    pub fn find(folder: &Path, journal: JournalId) -> Result<Self, JournalError> {
        let prefix = format!("{journal}-");
        let mut files = Vec::new();
        if !folder.is_dir() {
            return Err(JournalError::ArchiveMissing { sequence: 1 });
        }
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let named = path.file_name().and_then(|name| name.to_str());
            let numbers = named
                .and_then(|name| name.strip_prefix(&prefix)?.strip_suffix(EXTENSION))
                .and_then(|numbers| numbers.strip_suffix('.')?.split_once('-'))
                .and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
            files.extend(numbers.map(|(first, last)| (first, last, path)));
        }
        files.sort();
        Ok(Self { files })
    }

    /// Walks over them, from the genesis to `until` or as far as they go.
    ///
    /// # Errors
    /// What does not verify; [`JournalError::ArchiveMissing`] where one is not there,
    /// [`JournalError::Diverged`] for a file of another journal, or one that ends elsewhere than it says.
    pub fn walk(
        &self,
        walk: &mut Walk,
        until: Head,
        visit: &mut Visit<'_>,
    ) -> Result<(), JournalError> {
        while walk.head().sequence < until.sequence {
            let next = walk.head().sequence + 1;
            let file = self.files.iter().find(|(first, ..)| *first == next);
            let (_, last, path) = file.ok_or(JournalError::ArchiveMissing { sequence: next })?;
            let mut input = BufReader::new(File::open(path)?);
            archive::read_on(&mut input, walk, visit)?;
            if walk.head().sequence != *last {
                return Err(JournalError::Diverged { sequence: *last });
            }
        }
        Ok(())
    }
}
