//! What the sandbox received and accepted.
//!
//! Owns the CMS's memory: which events are known, which were overtaken, which bodies arrived. With a
//! file it still knows after a restart what it accepted, even one by `kill -9`.

use leasehold_actors::contract::change::Change;
use leasehold_actors::contract::text::Sha256;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;

/// A state file that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("sandbox_state: the state file cannot be read or written")]
pub struct BookInvalid;

/// One accepted change; a line of the state file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// Its identity.
    pub event_id: String,
    /// Hash of its body.
    pub sha256: Sha256,
    /// Its site.
    pub site_id: String,
    /// What it changes.
    pub source_id: String,
    /// Its place.
    pub source_sequence: u64,
    /// The website's version.
    pub website_version: String,
    /// Locales of the plan's jobs, ascending.
    pub locales: Vec<String>,
    /// Whether a newer change of the same source was there first.
    pub superseded: bool,
}

impl Accepted {
    /// The plan of an event: derived, so that it is the same after a restart.
    #[must_use]
    pub fn plan_id(&self) -> String {
        format!("plan-{}", &self.sha256.to_string()[..12])
    }
}

/// What the book says to a submitted change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// Accepted now.
    New(Accepted),
    /// Accepted before, with the same body.
    Known(Accepted),
    /// Refused with this code.
    Refused(&'static str),
}

/// What was seen so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Changes that arrived, repeats and misbehaviour included.
    pub received: u64,
    /// Different events among them.
    pub events: u64,
    /// Events accepted.
    pub accepted: u64,
    /// Events whose bodies were not all the same, byte for byte.
    pub differing: u64,
}

/// The book.
#[derive(Debug, Default)]
pub struct Book {
    accepted: HashMap<String, Accepted>,
    /// The newest sequence of each source.
    newest: HashMap<(String, String), (u64, String)>,
    /// Every body that arrived, by event.
    bodies: BTreeMap<String, (Sha256, u64, bool)>,
    reads: HashMap<String, u64>,
    file: Option<File>,
}

impl Book {
    /// An empty book, or what the file remembers. A last line that was cut short by a kill is dropped.
    ///
    /// # Errors
    /// [`BookInvalid`].
    pub fn open(path: Option<PathBuf>) -> Result<Self, BookInvalid> {
        let mut book = Self::default();
        let Some(path) = path else { return Ok(book) };
        let mut options = OpenOptions::new();
        options.create(true).read(true).append(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt as _;
            options.mode(0o600);
        }
        let file = options.open(path).map_err(|_| BookInvalid)?;
        let length = file.metadata().map_err(|_| BookInvalid)?.len();
        let mut whole = 0;
        let mut reader = BufReader::new(&file);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).map_err(|_| BookInvalid)? > 0 {
            if line.last() != Some(&b'\n') {
                break;
            }
            let accepted = serde_json::from_slice(&line).map_err(|_| BookInvalid)?;
            book.remember(accepted);
            whole += line.len() as u64;
            line.clear();
        }
        if whole < length {
            file.set_len(whole).map_err(|_| BookInvalid)?;
        }
        book.file = Some(file);
        Ok(book)
    }

    fn remember(&mut self, accepted: Accepted) {
        let source = (accepted.site_id.clone(), accepted.source_id.clone());
        let newest = self.newest.entry(source).or_insert((0, String::new()));
        if accepted.source_sequence > newest.0 {
            *newest = (accepted.source_sequence, accepted.event_id.clone());
        }
        self.accepted.insert(accepted.event_id.clone(), accepted);
    }

    /// Notes that a body arrived, whatever becomes of it.
    pub fn receive(&mut self, change: &Change) {
        let sha256 = change.payload.sha256();
        let seen =
            self.bodies.entry(change.event_id.as_str().to_owned()).or_insert((sha256, 0, false));
        seen.1 += 1;
        seen.2 |= seen.0 != sha256;
    }

    /// Accepts a change, answers again, or refuses. A new one is in the file when this returns.
    ///
    /// # Errors
    /// [`BookInvalid`] when the file cannot be written; nothing is accepted then.
    pub fn accept(&mut self, change: &Change) -> Result<Entry, BookInvalid> {
        if let Some(known) = self.accepted.get(change.event_id.as_str()) {
            return Ok(if known.sha256 == change.payload.sha256() {
                Entry::Known(known.clone())
            } else {
                Entry::Refused("cms.event.idempotency_collision")
            });
        }
        let source = (change.site_id.as_str().to_owned(), change.source_id.to_string());
        let newest = self.newest.get(&source).map_or(0, |(sequence, _)| *sequence);
        if newest == change.source_sequence {
            return Ok(Entry::Refused("cms.event.sequence_collision"));
        }
        let mut locales: Vec<String> =
            change.target_locales.iter().map(|locale| locale.to_string()).collect();
        locales.sort();
        let accepted = Accepted {
            event_id: change.event_id.as_str().to_owned(),
            sha256: change.payload.sha256(),
            site_id: source.0,
            source_id: source.1,
            source_sequence: change.source_sequence,
            website_version: change.website_version.as_str().to_owned(),
            locales,
            superseded: newest > change.source_sequence,
        };
        if let Some(file) = &mut self.file {
            let mut line = serde_json::to_vec(&accepted).map_err(|_| BookInvalid)?;
            line.push(b'\n');
            file.write_all(&line).map_err(|_| BookInvalid)?;
        }
        self.remember(accepted.clone());
        Ok(Entry::New(accepted))
    }

    /// An accepted event, and how often its lifecycle was read, this time included; `None` when it is
    /// not known. The flag tells whether a newer change of its source has arrived since.
    pub fn read(&mut self, event_id: &str) -> Option<(Accepted, u64, bool)> {
        let accepted = self.accepted.get(event_id)?.clone();
        let source = (accepted.site_id.clone(), accepted.source_id.clone());
        let overtaken = self.newest.get(&source).is_some_and(|(_, newest)| newest != event_id);
        let reads = self.reads.entry(event_id.to_owned()).or_insert(0);
        *reads += 1;
        Some((accepted, *reads, overtaken))
    }

    /// What was seen so far.
    #[must_use]
    pub fn summary(&self) -> Summary {
        Summary {
            received: self.bodies.values().map(|(_, times, _)| times).sum(),
            events: self.bodies.len() as u64,
            accepted: self.accepted.len() as u64,
            differing: self.bodies.values().filter(|(_, _, differing)| *differing).count() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(event_id: &str, sequence: u64, text: &str) -> Change {
        let example = include_str!("../../examples/changes.ndjson").lines().next().expect("a line");
        let mut value: serde_json::Value = serde_json::from_str(example).expect("JSON");
        value["event_id"] = event_id.into();
        value["source_sequence"] = sequence.into();
        value["localization"]["source_text"] = text.into();
        Change::parse(value.to_string().as_bytes()).expect("a change")
    }

    #[test]
    fn a_change_is_accepted_once_and_answered_again() {
        let mut book = Book::default();
        let first = book.accept(&change("e-1", 1, "text")).expect("no file");
        let Entry::New(accepted) = first else { panic!("it is new") };
        assert_eq!(book.accept(&change("e-1", 1, "text")), Ok(Entry::Known(accepted)));
        let refused = Entry::Refused("cms.event.idempotency_collision");
        assert_eq!(book.accept(&change("e-1", 1, "other")), Ok(refused));
        let refused = Entry::Refused("cms.event.sequence_collision");
        assert_eq!(book.accept(&change("e-2", 1, "text")), Ok(refused));
    }

    #[test]
    fn an_older_change_is_superseded_and_an_overtaken_one_is_known_as_such() {
        let mut book = Book::default();
        book.accept(&change("e-2", 2, "new")).expect("no file");
        let Ok(Entry::New(older)) = book.accept(&change("e-1", 1, "old")) else { panic!("new") };
        assert!(older.superseded);
        assert!(!book.read("e-2").expect("known").2);
        book.accept(&change("e-3", 3, "newer")).expect("no file");
        assert!(book.read("e-2").expect("known").2);
        assert_eq!(book.read("e-9"), None);
    }

    #[test]
    fn a_book_with_a_file_survives_a_restart_and_a_cut_last_line() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("state");
        let mut book = Book::open(Some(path.clone())).expect("a new file");
        book.accept(&change("e-1", 1, "text")).expect("writable");
        drop(book);
        let mut bytes = std::fs::read(&path).expect("readable");
        bytes.extend_from_slice(b"{\"event_id\":\"e-2\"");
        std::fs::write(&path, bytes).expect("writable");
        let mut book = Book::open(Some(path)).expect("the same file");
        assert!(matches!(book.accept(&change("e-1", 1, "text")), Ok(Entry::Known(_))));
        assert!(matches!(book.accept(&change("e-2", 2, "text")), Ok(Entry::New(_))));
    }

    #[test]
    fn bodies_that_differ_are_counted() {
        let mut book = Book::default();
        book.receive(&change("e-1", 1, "text"));
        book.receive(&change("e-1", 1, "text"));
        assert_eq!(book.summary(), Summary { received: 2, events: 1, accepted: 0, differing: 0 });
        book.receive(&change("e-1", 1, "other"));
        assert_eq!(book.summary().differing, 1);
    }
}
