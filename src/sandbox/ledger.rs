//! What the sandbox keeps in writing: the log of what arrived, and the file of what it accepted.
//!
//! Owns the lines of that file, its version, how lines are written and read back. Must not know which
//! line may be written when.
//!
//! Version 1 named no version, and of a notification kept nothing but its body. A file of it goes on as
//! version 2: the line that says so comes after what was there, which stays as it is.

use super::processing::{StateInvalid, Step};
use leasehold_actors::contract::payload::Payload;
use leasehold_actors::contract::removal::RemovalKind;
use leasehold_actors::contract::source::Operation;
use leasehold_actors::contract::text::{Sha256, Token};
use leasehold_actors::contract::time::{Ceiling, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;

/// The version that is written.
pub const VERSION: u32 = 2;

/// A state file that cannot be used. It is left as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BookInvalid {
    /// The system does not let it be read or written.
    #[error("sandbox_state: the state file cannot be read or written")]
    Unusable,
    /// A line is none of ours, or not in its place.
    #[error("sandbox_state_invalid: the state file has a line that cannot be")]
    Line,
    /// It has a version of later.
    #[error("sandbox_state_newer: a newer leasehold wrote the state file")]
    Newer,
    /// Something is said to have happened to a notification that cannot have.
    #[error("{0}: the state file tells of a notification what cannot have happened")]
    Inbox(#[from] StateInvalid),
}

/// One line of the state file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Line {
    /// The lines after this one are of this version.
    Format {
        /// The version.
        version: u32,
        /// When it was begun.
        #[serde(with = "super::exact")]
        at: Timestamp,
    },
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
    /// The receiver accepted a notification; in version 1 only.
    Notification {
        /// Its exact body, from which everything else derives.
        body: Payload,
    },
    /// The receiver accepted a notification.
    Receipt {
        /// Its exact body.
        body: Payload,
        /// When it came first.
        #[serde(with = "super::exact")]
        received_at: Timestamp,
        /// Attempts it may have.
        max_attempts: Ceiling,
    },
    /// The work on a notification went on.
    Work {
        /// The change it is about.
        event_id: Token,
        /// What happened.
        step: Step,
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
    /// Whether the half of a line may follow them.
    frayed: bool,
}

impl Ledger {
    /// Opens a file, or makes an empty one, and reads its lines. A last line that was cut short by a
    /// kill is passed over, and goes when the next one is written.
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
        let file = options.open(path).map_err(|_| BookInvalid::Unusable)?;
        let (lines, length) = read_lines(&file)?;
        let metadata = file.metadata().map_err(|_| BookInvalid::Unusable)?;
        let frayed = length < metadata.len();
        Ok((Self(Some(Open { file, length, frayed })), lines))
    }

    /// Writes one line; it is in the file when this returns. Without a file there is nothing to do.
    ///
    /// # Errors
    /// [`BookInvalid::Unusable`]; the line is not in the file then.
    pub fn write(&mut self, line: &Line) -> Result<(), BookInvalid> {
        let Some(open) = &mut self.0 else { return Ok(()) };
        let mut bytes = serde_json::to_vec(line).map_err(|_| BookInvalid::Unusable)?;
        bytes.push(b'\n');
        if open.frayed {
            // This line must not be glued to the half of another.
            open.file.set_len(open.length).map_err(|_| BookInvalid::Unusable)?;
        }
        open.frayed = true;
        open.file.write_all(&bytes).map_err(|_| BookInvalid::Unusable)?;
        open.frayed = false;
        open.length += bytes.len() as u64;
        Ok(())
    }
}

/// The whole lines of a file, and how many bytes they are.
fn read_lines(file: &File) -> Result<(Vec<Line>, u64), BookInvalid> {
    let mut reader = BufReader::new(file);
    let (mut lines, mut length, mut bytes) = (Vec::new(), 0, Vec::new());
    let mut is_current = false;
    while reader.read_until(b'\n', &mut bytes).map_err(|_| BookInvalid::Unusable)? > 0 {
        if bytes.last() != Some(&b'\n') {
            break;
        }
        let line: Line = serde_json::from_slice(&bytes).map_err(|_| BookInvalid::Line)?;
        is_current = in_its_place(&line, is_current)?;
        lines.push(line);
        length += bytes.len() as u64;
        bytes.clear();
    }
    Ok((lines, length))
}

/// Whether the lines after this one are of the version that is written now, when those before it are
/// or are not. A newer version ends it here: what follows may be no line to us.
fn in_its_place(line: &Line, is_current: bool) -> Result<bool, BookInvalid> {
    match line {
        Line::Format { version, .. } if *version > VERSION => Err(BookInvalid::Newer),
        Line::Format { version: VERSION, .. } if !is_current => Ok(true),
        Line::Notification { .. } if !is_current => Ok(false),
        Line::Receipt { .. } | Line::Work { .. } if is_current => Ok(true),
        Line::Format { .. }
        | Line::Notification { .. }
        | Line::Receipt { .. }
        | Line::Work { .. } => Err(BookInvalid::Line),
        Line::Change(_)
        | Line::Published { .. }
        | Line::Cancellation(_)
        | Line::Tombstone(_)
        | Line::Source(_) => Ok(is_current),
    }
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

    fn time(seconds: f64) -> Timestamp {
        Timestamp::new(seconds).expect("a time")
    }

    fn one_of_each() -> Vec<Line> {
        let body = || Payload::from_canonical("{\"a\":1}".into());
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
            Line::Notification { body: body() },
            Line::Format { version: VERSION, at: time(1_900_000_000.123_456_7) },
            Line::Receipt {
                body: body(),
                received_at: time(123.5),
                max_attempts: Ceiling::new(2).expect("within the limits"),
            },
            Line::Work { event_id: token("e-1"), step: Step::Expired { at: time(0.0) } },
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
        let before = ["change", "published", "cancellation", "tombstone", "source", "notification"];
        assert_eq!(kinds, [&before[..], &["format", "receipt", "work"]].concat());
        let (_, lines) = Ledger::open(path).expect("the same file");
        assert_eq!(lines, one_of_each());
    }

    #[test]
    fn a_line_that_is_none_or_is_out_of_place_is_not_skipped_and_the_file_stays() {
        let format =
            |version: u32| format!("{{\"kind\":\"format\",\"version\":{version},\"at\":\"1\"}}");
        let body = "{\"kind\":\"notification\",\"body\":\"{}\"}".to_owned();
        let work =
            "{\"kind\":\"work\",\"event_id\":\"e-1\",\"step\":{\"did\":\"expired\",\"at\":\"1\"}}";
        let work = work.to_owned();
        let gossip = "{\"kind\":\"gossip\",\"event_id\":\"e-1\"}".to_owned();
        for (lines, expected) in [
            (vec![gossip.clone()], BookInvalid::Line),
            (vec![work], BookInvalid::Line),
            (vec![format(2), body], BookInvalid::Line),
            (vec![format(2), format(2)], BookInvalid::Line),
            (vec![format(1)], BookInvalid::Line),
            (vec![format(3), gossip], BookInvalid::Newer),
        ] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let path = folder.path().join("state");
            let text = format!("{}\n{{\"cut", lines.join("\n"));
            std::fs::write(&path, &text).expect("writable");
            assert_eq!(Ledger::open(path.clone()).err(), Some(expected), "{text}");
            assert_eq!(std::fs::read_to_string(&path).expect("text"), text);
        }
    }

    #[test]
    fn the_half_of_a_line_goes_when_the_next_one_is_written() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("state");
        std::fs::write(&path, "{\"kind\":\"published\",\"event").expect("writable");
        let (mut ledger, none) = Ledger::open(path.clone()).expect("the rest is sound");
        assert!(none.is_empty());
        let line = Line::Published { event_id: "e-1".into() };
        ledger.write(&line).expect("writable");
        drop(ledger);
        assert_eq!(Ledger::open(path).expect("the same file").1, [line]);
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
