//! What the sandbox keeps in writing: the log of what arrived, and the file of what it accepted.
//!
//! Owns the lines of that file, how they are written and read back. Must not know which line may be
//! written when.

use leasehold_actors::contract::payload::Payload;
use leasehold_actors::contract::removal::RemovalKind;
use leasehold_actors::contract::source::Operation;
use leasehold_actors::contract::text::{Sha256, Token};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;

/// A state file that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("sandbox_state: the state file cannot be read or written")]
pub struct BookInvalid;

/// One line of the state file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Line {
    /// The CMS accepted a change.
    Change(Accepted),
    /// A read of the lifecycle found this change published; it stays published.
    Published {
        /// The change.
        event_id: String,
    },
    /// The CMS accepted a cancellation.
    Cancellation(Removed),
    /// The CMS accepted a tombstone.
    Tombstone(Removed),
    /// The source runtime accepted a document.
    Source(Delivered),
    /// The receiver accepted a notification.
    Notification {
        /// Its exact body, from which everything else derives.
        body: Payload,
    },
}

/// One accepted change.
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

/// One accepted cancellation or tombstone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    /// Its own identity.
    pub request_id: Token,
    /// The change it concerns.
    pub event_id: Token,
    /// Hash of its body.
    pub sha256: Sha256,
}

/// One document the source runtime accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivered {
    /// Which of the three it is.
    pub operation: Operation,
    /// Its own identity.
    pub request_id: Token,
    /// The change it is, or concerns.
    pub event_id: Token,
    /// The site.
    pub site_id: Token,
    /// Hash of the document itself, not of its envelope.
    pub sha256: Sha256,
    /// The ceiling that came with it, 1 to 20.
    pub max_attempts: u64,
}

/// The state file, if there is one.
#[derive(Debug, Default)]
pub struct Ledger(Option<Open>);

#[derive(Debug)]
struct Open {
    file: File,
    /// Bytes of whole lines.
    length: u64,
}

impl Ledger {
    /// Opens a file, or makes an empty one, and reads its lines. A last line that was cut short by a
    /// kill is dropped.
    ///
    /// # Errors
    /// [`BookInvalid`].
    pub fn open(path: PathBuf) -> Result<(Self, Vec<Line>), BookInvalid> {
        let mut options = OpenOptions::new();
        options.create(true).read(true).append(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt as _;
            options.mode(0o600);
        }
        let file = options.open(path).map_err(|_| BookInvalid)?;
        let (lines, length) = read_lines(&file)?;
        if length < file.metadata().map_err(|_| BookInvalid)?.len() {
            file.set_len(length).map_err(|_| BookInvalid)?;
        }
        Ok((Self(Some(Open { file, length })), lines))
    }

    /// Writes one line; it is in the file when this returns. Without a file there is nothing to do.
    ///
    /// # Errors
    /// [`BookInvalid`]; the line is not in the file then.
    pub fn write(&mut self, line: &Line) -> Result<(), BookInvalid> {
        let Some(open) = &mut self.0 else { return Ok(()) };
        let mut bytes = serde_json::to_vec(line).map_err(|_| BookInvalid)?;
        bytes.push(b'\n');
        if open.file.write_all(&bytes).is_err() {
            // The next line must not be glued to the half of this one.
            open.file.set_len(open.length).map_err(|_| BookInvalid)?;
            return Err(BookInvalid);
        }
        open.length += bytes.len() as u64;
        Ok(())
    }
}

/// The whole lines of a file, and how many bytes they are.
fn read_lines(file: &File) -> Result<(Vec<Line>, u64), BookInvalid> {
    let mut reader = BufReader::new(file);
    let (mut lines, mut length, mut bytes) = (Vec::new(), 0, Vec::new());
    while reader.read_until(b'\n', &mut bytes).map_err(|_| BookInvalid)? > 0 {
        if bytes.last() != Some(&b'\n') {
            break;
        }
        lines.push(serde_json::from_slice(&bytes).map_err(|_| BookInvalid)?);
        length += bytes.len() as u64;
        bytes.clear();
    }
    Ok((lines, length))
}

/// Where a document arrived, and what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arrived {
    /// A change at the CMS.
    Change,
    /// A cancellation at the CMS.
    Cancellation,
    /// A tombstone at the CMS.
    Tombstone,
    /// A change at the source runtime.
    SourceChange,
    /// A cancellation at the source runtime.
    SourceCancellation,
    /// A tombstone at the source runtime.
    SourceTombstone,
    /// A notification at the receiver.
    Notification,
}

impl Arrived {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::Cancellation => "cancellation",
            Self::Tombstone => "tombstone",
            Self::SourceChange => "source_change",
            Self::SourceCancellation => "source_cancellation",
            Self::SourceTombstone => "source_tombstone",
            Self::Notification => "notification",
        }
    }

    /// A removal at the CMS.
    #[must_use]
    pub fn removal(kind: RemovalKind) -> Self {
        match kind {
            RemovalKind::Cancellation => Self::Cancellation,
            RemovalKind::Tombstone => Self::Tombstone,
        }
    }

    /// A document at the source runtime.
    #[must_use]
    pub fn delivery(operation: Operation) -> Self {
        match operation {
            Operation::Change => Self::SourceChange,
            Operation::Cancellation => Self::SourceCancellation,
            Operation::Tombstone => Self::SourceTombstone,
        }
    }
}

/// One body that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// Where, and what it is.
    pub operation: Arrived,
    /// Its identity: of a change or a notification the event id, of a removal its own.
    pub id: String,
    /// Hash of the exact body.
    pub sha256: Sha256,
    /// How often this body arrived.
    pub times: u64,
}

/// Every body that arrived, whatever became of it. Not in the file: it starts empty.
#[derive(Debug, Default)]
pub struct Arrivals {
    /// In the order in which they arrived first.
    bodies: Vec<Arrival>,
    /// Where the bodies of an identity are.
    places: HashMap<(Arrived, String), Vec<usize>>,
}

impl Arrivals {
    /// Notes one arrival.
    pub fn note(&mut self, operation: Arrived, id: &str, sha256: Sha256) {
        let places = self.places.entry((operation, id.to_owned())).or_default();
        let known = places.iter().copied().find(|place| self.bodies[*place].sha256 == sha256);
        match known {
            Some(place) => self.bodies[place].times += 1,
            None => {
                places.push(self.bodies.len());
                self.bodies.push(Arrival { operation, id: id.to_owned(), sha256, times: 1 });
            }
        }
    }

    /// The bodies, in the order in which they arrived first.
    #[must_use]
    pub fn bodies(&self) -> &[Arrival] {
        &self.bodies
    }

    /// How often documents of this kind arrived, repeats included.
    #[must_use]
    pub fn times(&self, operation: Arrived) -> u64 {
        let bodies = self.bodies.iter().filter(|body| body.operation == operation);
        bodies.map(|body| body.times).sum()
    }

    /// Identities among the documents of this kind.
    #[must_use]
    pub fn identities(&self, operation: Arrived) -> u64 {
        self.places.keys().filter(|(known, _)| *known == operation).count() as u64
    }

    /// Identities whose bodies were not all the same.
    #[must_use]
    pub fn differing(&self) -> u64 {
        self.places.values().filter(|places| places.len() > 1).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Token {
        Token::new(text).expect("a token")
    }

    fn one_of_each() -> Vec<Line> {
        let removed = || Removed {
            request_id: token("r-1"),
            event_id: token("e-1"),
            sha256: Sha256::of(b"removal"),
        };
        vec![
            Line::Change(Accepted {
                event_id: "e-1".into(),
                sha256: Sha256::of(b"change"),
                site_id: "s".into(),
                source_id: "i d".into(),
                source_sequence: u64::MAX >> 1,
                website_version: "w".into(),
                locales: vec!["fi-FI".into()],
                superseded: false,
            }),
            Line::Published { event_id: "e-1".into() },
            Line::Cancellation(removed()),
            Line::Tombstone(removed()),
            Line::Source(Delivered {
                operation: Operation::Tombstone,
                request_id: token("r-1"),
                event_id: token("e-1"),
                site_id: token("s"),
                sha256: Sha256::of(b"document"),
                max_attempts: 20,
            }),
            Line::Notification { body: Payload::from_canonical("{\"a\":1}".into()) },
        ]
    }

    #[test]
    fn each_line_names_its_kind_and_is_read_back() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("state");
        let (mut ledger, none) = Ledger::open(path.clone()).expect("a new file");
        assert!(none.is_empty());
        for line in one_of_each() {
            ledger.write(&line).expect("writable");
        }
        drop(ledger);
        let written = std::fs::read_to_string(&path).expect("text");
        let kinds: Vec<String> = written
            .lines()
            .map(|line| {
                let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
                value["kind"].as_str().expect("a kind").to_owned()
            })
            .collect();
        assert_eq!(
            kinds,
            ["change", "published", "cancellation", "tombstone", "source", "notification"]
        );
        let (_, lines) = Ledger::open(path).expect("the same file");
        assert_eq!(lines, one_of_each());
    }

    #[test]
    fn a_line_of_no_known_kind_is_not_skipped() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("state");
        std::fs::write(&path, "{\"kind\":\"gossip\",\"event_id\":\"e-1\"}\n").expect("writable");
        assert!(matches!(Ledger::open(path), Err(BookInvalid)));
    }

    #[test]
    fn arrivals_are_counted_by_body_in_the_order_of_the_first() {
        let mut arrivals = Arrivals::default();
        let (one, other) = (Sha256::of(b"one"), Sha256::of(b"other"));
        arrivals.note(Arrived::Tombstone, "t-1", one);
        arrivals.note(Arrived::Change, "e-1", one);
        arrivals.note(Arrived::Tombstone, "t-1", one);
        assert_eq!(arrivals.differing(), 0);
        arrivals.note(Arrived::Tombstone, "t-1", other);
        let seen: Vec<_> =
            arrivals.bodies().iter().map(|body| (body.operation.name(), body.times)).collect();
        assert_eq!(seen, [("tombstone", 2), ("change", 1), ("tombstone", 1)]);
        assert_eq!(arrivals.times(Arrived::Tombstone), 3);
        assert_eq!(arrivals.identities(Arrived::Tombstone), 1);
        assert_eq!(arrivals.differing(), 1);
    }
}
