//! What the sandbox accepted.
//!
//! Owns its memory: which events, removals, deliveries and notifications are known, which events were
//! overtaken, which bodies arrived. With a file it still knows after a restart what it accepted and how
//! far its receiver came, even one by `kill -9`: what is remembered is in the file first, and the file
//! is read by the same path.

pub use super::ledger::{Accepted, BookInvalid};

use super::Wrong;
use super::cms_removals::{collision, judge};
use super::handler::Handling;
use super::inbox::{Counts, Held, Inbox, Rules};
use super::ledger::{Arrival, Arrivals, Arrived, Delivered, Ledger, Line, Removed, VERSION};
use super::lifecycle::{Standing, Step};
use leasehold_actors::contract::change::Change;
use leasehold_actors::contract::notification::Notification;
use leasehold_actors::contract::payload::Payload;
use leasehold_actors::contract::removal::{Removal, RemovalKind};
use leasehold_actors::contract::source::Operation;
use leasehold_actors::contract::text::{Sha256, Token};
use leasehold_actors::contract::time::{Ceiling, Timestamp};
use serde::Serialize;
use std::collections::HashMap;
use std::path::PathBuf;

/// The refusal of what cannot be written down.
const UNWRITTEN: &str = "cms.queue.rejected";

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

/// What the book says to a removal it does not refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receipt {
    /// Accepted now.
    New,
    /// Accepted before, with the same body.
    Known,
}

/// An accepted change as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// The change.
    pub accepted: Accepted,
    /// What became of it.
    pub standing: Standing,
    /// How often its lifecycle was read since the start.
    pub reads: u64,
    /// Whether a newer change of its source is known.
    pub overtaken: bool,
}

/// What was seen so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Changes that arrived at the CMS, repeats and misbehaviour included.
    pub received: u64,
    /// Different events among them.
    pub events: u64,
    /// Events the CMS accepted.
    pub accepted: u64,
    /// Identities whose bodies were not all the same, byte for byte: of changes, removals, source
    /// requests and notifications.
    pub differing: u64,
    /// Documents the source runtime accepted.
    pub source_requests: u64,
    /// Cancellations and tombstones the CMS accepted.
    pub removals: u64,
    /// Notifications the receiver accepted.
    pub notifications: u64,
}

/// An accepted change and what became of it.
#[derive(Debug)]
struct Event {
    accepted: Accepted,
    standing: Standing,
    reads: u64,
}

/// The book.
#[derive(Debug, Default)]
pub struct Book {
    events: HashMap<String, Event>,
    /// The newest sequence of each source.
    newest: HashMap<(String, String), (u64, String)>,
    removals: HashMap<(Arrived, Token), Sha256>,
    delivered: HashMap<(Operation, Token), Delivered>,
    inbox: Inbox,
    arrivals: Arrivals,
    ledger: Ledger,
}

impl Book {
    /// An empty book, or what the file remembers. A last line that was cut short by a kill is dropped.
    /// A file of version 1 becomes one of this version, in which its notifications came now.
    ///
    /// # Errors
    /// [`BookInvalid`]; the file is as it was then.
    pub fn open(path: Option<PathBuf>, now: Timestamp) -> Result<Self, BookInvalid> {
        let mut book = Self::default();
        let Some(path) = path else { return Ok(book) };
        let (ledger, lines) = Ledger::open(path)?;
        let is_current = lines.iter().any(|line| matches!(line, Line::Format { .. }));
        for line in lines {
            book.apply(line)?;
        }
        book.ledger = ledger;
        if !is_current {
            book.record(Line::Format { version: VERSION, at: now })?;
        }
        Ok(book)
    }

    /// Writes a line, then remembers it.
    fn record(&mut self, line: Line) -> Result<(), BookInvalid> {
        self.ledger.write(&line)?;
        self.apply(line)
    }

    fn apply(&mut self, line: Line) -> Result<(), BookInvalid> {
        match line {
            Line::Format { at, .. } => self.inbox.date(at)?,
            Line::Change(accepted) => self.remember(accepted),
            Line::Published { event_id } => {
                self.event(&event_id)?.standing = Standing::Published;
            }
            Line::Cancellation(removed) => {
                self.event(removed.event_id.as_str())?.standing = Standing::Cancelled;
                self.removals.insert((Arrived::Cancellation, removed.request_id), removed.sha256);
            }
            Line::Tombstone(removed) => {
                let event = self.event(removed.event_id.as_str())?;
                let tombstone_id = removed.request_id.clone();
                event.standing = Standing::Leaving { tombstone_id, reads_before: event.reads };
                self.removals.insert((Arrived::Tombstone, removed.request_id), removed.sha256);
            }
            Line::Source(delivered) => {
                let identity = (delivered.operation, delivered.request_id.clone());
                self.delivered.insert(identity, delivered);
            }
            Line::Notification { body } => self.inbox.receive_undated(read_back(&body)?)?,
            Line::Receipt { body, received_at, max_attempts } => {
                self.inbox.receive(read_back(&body)?, received_at, max_attempts)?;
            }
            Line::Work { event_id, step } => self.inbox.advance(&event_id, &step)?,
        }
        Ok(())
    }

    fn remember(&mut self, accepted: Accepted) {
        let source = (accepted.site_id.clone(), accepted.source_id.clone());
        let newest = self.newest.entry(source).or_insert((0, String::new()));
        if accepted.source_sequence > newest.0 {
            *newest = (accepted.source_sequence, accepted.event_id.clone());
        }
        let event_id = accepted.event_id.clone();
        self.events.insert(event_id, Event { accepted, standing: Standing::Moving, reads: 0 });
    }

    fn event(&mut self, event_id: &str) -> Result<&mut Event, BookInvalid> {
        self.events.get_mut(event_id).ok_or(BookInvalid::Line)
    }

    /// Notes that a change arrived, whatever becomes of it.
    pub fn receive(&mut self, change: &Change) {
        self.arrive(Arrived::Change, &change.event_id, change.payload.sha256());
    }

    /// Notes that a body arrived, whatever becomes of it.
    pub fn arrive(&mut self, operation: Arrived, id: &Token, sha256: Sha256) {
        self.arrivals.note(operation, id.as_str(), sha256);
    }

    /// Every body that arrived, in the order in which it arrived first.
    #[must_use]
    pub fn arrivals(&self) -> &[Arrival] {
        self.arrivals.bodies()
    }

    /// Accepts a change, answers again, or refuses. A new one is in the file when this returns.
    ///
    /// # Errors
    /// [`BookInvalid`] when the file cannot be written; nothing is accepted then.
    pub fn accept(&mut self, change: &Change) -> Result<Entry, BookInvalid> {
        if let Some(known) = self.events.get(change.event_id.as_str()) {
            return Ok(if known.accepted.sha256 == change.payload.sha256() {
                Entry::Known(known.accepted.clone())
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
        self.record(Line::Change(accepted.clone()))?;
        Ok(Entry::New(accepted))
    }

    /// An accepted event, and how often its lifecycle was read, this time included; `None` when it is
    /// not known. The flag tells whether a newer change of its source has arrived since.
    pub fn read(&mut self, event_id: &str) -> Option<(Accepted, u64, bool)> {
        self.events.get_mut(event_id)?.reads += 1;
        let look = self.look(event_id)?;
        Some((look.accepted, look.reads, look.overtaken))
    }

    /// An accepted event as it stands; `None` when it is not known. This counts as no read.
    #[must_use]
    pub fn look(&self, event_id: &str) -> Option<Look> {
        let Event { accepted, standing, reads } = self.events.get(event_id)?;
        let source = (accepted.site_id.clone(), accepted.source_id.clone());
        let overtaken = self.newest.get(&source).is_some_and(|(_, newest)| newest != event_id);
        let (accepted, standing) = (accepted.clone(), standing.clone());
        Some(Look { accepted, standing, reads: *reads, overtaken })
    }

    /// Reads the lifecycle of an event of this site, which advances its plan. That it was published is
    /// in the file when this returns.
    ///
    /// # Errors
    /// The code of the refusal (contract 3.2); no read is counted then, except when the file cannot be
    /// written.
    pub fn follow(&mut self, event_id: &Token, site_id: &Token) -> Result<Look, &'static str> {
        let before = self.look(event_id.as_str()).ok_or("cms.event.not_enqueued")?;
        if before.accepted.site_id != site_id.as_str() {
            return Err("cms.lifecycle.scope_rejected");
        }
        if before.overtaken {
            return Err("cms.event.superseded");
        }
        let (_, reads, _) = self.read(event_id.as_str()).ok_or("cms.event.not_enqueued")?;
        let look = Look { reads, ..before };
        if look.standing == Standing::Moving && look.standing.step(reads) == Step::Published {
            let event_id = look.accepted.event_id.clone();
            self.record(Line::Published { event_id }).map_err(|_| UNWRITTEN)?;
        }
        Ok(look)
    }

    /// Whether an event was cancelled.
    #[must_use]
    pub fn is_cancelled(&self, event_id: &str) -> bool {
        self.events.get(event_id).is_some_and(|event| event.standing == Standing::Cancelled)
    }

    /// Takes a cancellation or a tombstone of a change the CMS accepted. A new one is in the file when
    /// this returns.
    ///
    /// # Errors
    /// The code of the refusal (contract 3.2).
    pub fn remove(&mut self, removal: &Removal) -> Result<Receipt, &'static str> {
        let identity = (Arrived::removal(removal.kind), removal.request_id.clone());
        let sha256 = removal.payload.sha256();
        if let Some(known) = self.removals.get(&identity) {
            let same = *known == sha256;
            return if same { Ok(Receipt::Known) } else { Err(collision(removal.kind)) };
        }
        let event = self.events.get(removal.event_id.as_str()).ok_or("cms.event.not_enqueued")?;
        judge(removal, &event.accepted, &event.standing)?;
        let (request_id, event_id) = (removal.request_id.clone(), removal.event_id.clone());
        let removed = Removed { request_id, event_id, sha256 };
        let line = match removal.kind {
            RemovalKind::Cancellation => Line::Cancellation(removed),
            RemovalKind::Tombstone => Line::Tombstone(removed),
        };
        self.record(line).map_err(|_| UNWRITTEN)?;
        Ok(Receipt::New)
    }

    /// Takes a document at the source runtime, or the same one again: a change, or a removal of a
    /// change that was taken here. A new one is in the file when this returns.
    ///
    /// # Errors
    /// [`Wrong::Collision`], [`Wrong::Unknown`], [`Wrong::Unavailable`].
    pub fn deliver(&mut self, delivered: &Delivered) -> Result<(), Wrong> {
        let identity = (delivered.operation, delivered.request_id.clone());
        if let Some(known) = self.delivered.get(&identity) {
            return if known == delivered { Ok(()) } else { Err(Wrong::Collision) };
        }
        let has_its_change = match delivered.operation {
            Operation::Change => true,
            Operation::Cancellation | Operation::Tombstone => {
                self.delivered_change(&delivered.event_id, &delivered.site_id).is_some()
            }
        };
        if !has_its_change {
            return Err(Wrong::Unknown);
        }
        self.record(Line::Source(delivered.clone())).map_err(|_| Wrong::Unavailable)
    }

    /// A change of this site that the source runtime took.
    #[must_use]
    pub fn delivered_change(&self, event_id: &Token, site_id: &Token) -> Option<&Delivered> {
        let change = self.delivered.get(&(Operation::Change, event_id.clone()))?;
        (change.site_id == *site_id).then_some(change)
    }

    /// Takes a notification at the receiver, or the same one again, which keeps the time and the ceiling
    /// of the first. A new one is in the file when this returns. Its own id needs no look-up: it derives
    /// from the body, so that another body under a known id is no notification at all.
    ///
    /// # Errors
    /// [`Wrong::Collision`], [`Wrong::Unavailable`].
    pub fn hold(
        &mut self,
        notification: &Notification,
        received_at: Timestamp,
        max_attempts: Ceiling,
    ) -> Result<(), Wrong> {
        if let Some(known) = self.inbox.get(&notification.event_id) {
            let same = known.notification == *notification;
            return if same { Ok(()) } else { Err(Wrong::Collision) };
        }
        let body = notification.payload.clone();
        let line = Line::Receipt { body, received_at, max_attempts };
        self.record(line).map_err(|_| Wrong::Unavailable)
    }

    /// Reads how far the work on the notification of this event has come, and lets the worker turn to
    /// it then. What it does is in the file when this returns.
    ///
    /// # Errors
    /// [`Wrong::Unknown`], [`Wrong::Unavailable`].
    pub fn process(
        &mut self,
        event_id: &Token,
        site_id: &Token,
        now: Timestamp,
        rules: &Rules,
        handling: impl FnOnce() -> Handling,
    ) -> Result<Held, Wrong> {
        let held = self.inbox.get(event_id).filter(|held| held.notification.site_id == *site_id);
        let held = held.ok_or(Wrong::Unknown)?;
        let turn = held.turn(now, rules, handling).map_err(|_| Wrong::Unavailable)?;
        let seen = Held { notification: held.notification.clone(), processing: turn.seen };
        for step in turn.steps {
            let line = Line::Work { event_id: event_id.clone(), step };
            self.record(line).map_err(|_| Wrong::Unavailable)?;
        }
        Ok(seen)
    }

    /// How many notifications there are of each kind.
    #[must_use]
    pub fn counts(&self, now: Timestamp) -> Counts {
        self.inbox.counts(now)
    }

    /// What was seen so far.
    #[must_use]
    pub fn summary(&self) -> Summary {
        Summary {
            received: self.arrivals.times(Arrived::Change),
            events: self.arrivals.identities(Arrived::Change),
            accepted: self.events.len() as u64,
            differing: self.arrivals.differing(),
            source_requests: self.delivered.len() as u64,
            removals: self.removals.len() as u64,
            notifications: self.inbox.total(),
        }
    }
}

/// A notification as a line of the file has it.
fn read_back(body: &Payload) -> Result<Notification, BookInvalid> {
    Notification::parse(body.as_bytes()).map_err(|_| BookInvalid::Line)
}

#[cfg(test)]
mod tests {
    use super::super::processing::{self, StateInvalid};
    use super::*;
    use leasehold_actors::contract::lifecycle::RemoteStatus;
    use leasehold_actors::contract::notification::Terminal;

    fn change(event_id: &str, sequence: u64, text: &str) -> Change {
        let example = include_str!("../../examples/changes.ndjson").lines().next().expect("a line");
        let mut value: serde_json::Value = serde_json::from_str(example).expect("JSON");
        value["event_id"] = event_id.into();
        value["source_sequence"] = sequence.into();
        value["localization"]["source_text"] = text.into();
        Change::parse(value.to_string().as_bytes()).expect("a change")
    }

    fn token(text: &str) -> Token {
        Token::new(text).expect("a token")
    }

    fn time(seconds: f64) -> Timestamp {
        Timestamp::new(seconds).expect("a time")
    }

    fn ceiling(attempts: i64) -> Ceiling {
        Ceiling::new(attempts).expect("within the limits")
    }

    /// Reads the status of the one notification.
    fn process(book: &mut Book, site_id: &str, now: f64) -> Result<Held, Wrong> {
        let rules = Rules::default();
        book.process(&token("e-1"), &token(site_id), time(now), &rules, || Handling::Done)
    }

    /// A removal of the change with this event id and sequence.
    fn removal(kind: RemovalKind, id: &str, event_id: &str, sequence: u64) -> Removal {
        let document = serde_json::json!({
            "schema": kind.schema(),
            kind.identity_field(): id,
            "event_id": event_id,
            "site_id": "pebble-help",
            "website_version": "web-2026.3",
            "source_id": "home.hero",
            "source_sequence": sequence,
        });
        Removal::parse(document.to_string().as_bytes()).expect("a removal")
    }

    fn delivered(operation: Operation, request_id: &str, body: &str) -> Delivered {
        Delivered {
            operation,
            request_id: token(request_id),
            event_id: token("e-1"),
            site_id: token("s"),
            sha256: Sha256::of(body.as_bytes()),
            max_attempts: 5,
        }
    }

    fn notification(terminal_status: RemoteStatus) -> Notification {
        let terminal = Terminal {
            event_id: token("e-1"),
            site_id: token("s"),
            plan_id: token("p"),
            website_version: token("w"),
            source_sequence: 1,
            job_count: 2,
            change_sha256: Sha256::of(b"change"),
            lifecycle_binding_sha256: Sha256::of(b"binding"),
            terminal_status,
            lifecycle_sha256: Some(Sha256::of(b"lifecycle")),
        };
        Notification::build(&terminal).expect("a terminal status")
    }

    /// Reads the lifecycle so often and answers the last step.
    fn follow(book: &mut Book, event_id: &str, times: u64) -> Step {
        let mut last = None;
        for _ in 0..times {
            last = book.follow(&token(event_id), &token("pebble-help")).ok();
        }
        let look = last.expect("it was read");
        look.standing.step(look.reads)
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
        let mut book = Book::open(Some(path.clone()), time(1.0)).expect("a new file");
        book.accept(&change("e-1", 1, "text")).expect("writable");
        drop(book);
        let mut bytes = std::fs::read(&path).expect("readable");
        bytes.extend_from_slice(b"{\"event_id\":\"e-2\"");
        std::fs::write(&path, bytes).expect("writable");
        let mut book = Book::open(Some(path), time(1.0)).expect("the same file");
        assert!(matches!(book.accept(&change("e-1", 1, "text")), Ok(Entry::Known(_))));
        assert!(matches!(book.accept(&change("e-2", 2, "text")), Ok(Entry::New(_))));
    }

    #[test]
    fn bodies_that_differ_are_counted() {
        let mut book = Book::default();
        book.receive(&change("e-1", 1, "text"));
        book.receive(&change("e-1", 1, "text"));
        assert_eq!(book.summary(), Summary { received: 2, events: 1, ..Summary::default() });
        book.receive(&change("e-1", 1, "other"));
        assert_eq!(book.summary().differing, 1);
        for (operation, differing) in [(Arrived::SourceChange, 2), (Arrived::Notification, 3)] {
            book.arrive(operation, &token("e-1"), Sha256::of(b"one"));
            book.arrive(operation, &token("e-1"), Sha256::of(b"other"));
            assert_eq!(book.summary().differing, differing);
        }
        assert_eq!(book.summary().received, 3);
    }

    #[test]
    fn a_change_is_cancelled_before_publication_and_tombstoned_after_it() {
        let (cancellation, tombstone) = (RemovalKind::Cancellation, RemovalKind::Tombstone);
        let mut book = Book::default();
        book.accept(&change("e-1", 1, "text")).expect("no file");
        assert_eq!(
            book.remove(&removal(tombstone, "t-1", "e-1", 1)),
            Err("cms.tombstone.not_published")
        );
        assert_eq!(book.remove(&removal(cancellation, "c-1", "e-1", 1)), Ok(Receipt::New));
        assert_eq!(book.remove(&removal(cancellation, "c-1", "e-1", 1)), Ok(Receipt::Known));
        assert!(book.is_cancelled("e-1"));
        assert_eq!(follow(&mut book, "e-1", 9), Step::Cancelled);

        book.accept(&change("e-2", 2, "text")).expect("no file");
        assert_eq!(follow(&mut book, "e-2", 5), Step::Published);
        assert_eq!(
            book.remove(&removal(cancellation, "c-2", "e-2", 2)),
            Err("cms.cancellation.already_published")
        );
        assert_eq!(book.remove(&removal(tombstone, "t-2", "e-2", 2)), Ok(Receipt::New));
        assert_eq!(follow(&mut book, "e-2", 1), Step::Deleting);
        assert_eq!(follow(&mut book, "e-2", 1), Step::Deleted);
        assert_eq!(book.summary().removals, 2);
    }

    #[test]
    fn a_removal_that_does_not_fit_is_refused() {
        let kind = RemovalKind::Cancellation;
        let mut book = Book::default();
        book.accept(&change("e-1", 1, "text")).expect("no file");
        let unknown = book.remove(&removal(kind, "c-1", "e-9", 1));
        assert_eq!(unknown, Err("cms.event.not_enqueued"));
        let differs = book.remove(&removal(kind, "c-1", "e-1", 2));
        assert_eq!(differs, Err("cms.cancellation.invalid"));
        book.remove(&removal(kind, "c-1", "e-1", 1)).expect("it fits");
        let collides = book.remove(&removal(kind, "c-1", "e-1", 2));
        assert_eq!(collides, Err("cms.cancellation.idempotency_collision"));
    }

    #[test]
    fn a_read_of_another_site_or_of_an_overtaken_event_does_not_advance_the_plan() {
        let mut book = Book::default();
        book.accept(&change("e-1", 1, "text")).expect("no file");
        let elsewhere = book.follow(&token("e-1"), &token("elsewhere"));
        assert_eq!(elsewhere, Err("cms.lifecycle.scope_rejected"));
        let unknown = book.follow(&token("e-9"), &token("pebble-help"));
        assert_eq!(unknown, Err("cms.event.not_enqueued"));
        assert_eq!(follow(&mut book, "e-1", 1), Step::Processing);
        book.accept(&change("e-2", 2, "text")).expect("no file");
        let overtaken = book.follow(&token("e-1"), &token("pebble-help"));
        assert_eq!(overtaken, Err("cms.event.superseded"));
        assert_eq!(book.look("e-1").expect("known").reads, 1);
    }

    #[test]
    fn the_source_runtime_takes_a_document_once_and_a_removal_after_its_change() {
        let mut book = Book::default();
        let tombstone = delivered(Operation::Tombstone, "t-1", "tombstone");
        assert_eq!(book.deliver(&tombstone), Err(Wrong::Unknown));
        let change = delivered(Operation::Change, "e-1", "change");
        assert_eq!(book.deliver(&change), Ok(()));
        assert_eq!(book.deliver(&change), Ok(()));
        assert_eq!(book.deliver(&tombstone), Ok(()));
        let other = delivered(Operation::Change, "e-1", "other");
        assert_eq!(book.deliver(&other), Err(Wrong::Collision));
        let ceiling = Delivered { max_attempts: 6, ..change };
        assert_eq!(book.deliver(&ceiling), Err(Wrong::Collision));
        let foreign = Delivered { site_id: token("elsewhere"), ..tombstone };
        let foreign = Delivered { request_id: token("t-2"), ..foreign };
        assert_eq!(book.deliver(&foreign), Err(Wrong::Unknown));
        assert_eq!(book.summary().source_requests, 2);
    }

    #[test]
    fn the_receiver_takes_one_notification_of_an_event() {
        let mut book = Book::default();
        let published = notification(RemoteStatus::Published);
        assert_eq!(process(&mut book, "s", 7.0).err(), Some(Wrong::Unknown));
        assert_eq!(book.hold(&published, time(7.0), ceiling(2)), Ok(()));
        assert_eq!(book.hold(&published, time(8.0), ceiling(3)), Ok(()));
        let deleted = notification(RemoteStatus::Deleted);
        assert_eq!(book.hold(&deleted, time(9.0), ceiling(2)), Err(Wrong::Collision));
        assert_eq!(book.summary().notifications, 1);
        assert_eq!(process(&mut book, "elsewhere", 9.0).err(), Some(Wrong::Unknown));
        let held = process(&mut book, "s", 9.0).expect("it is known");
        assert_eq!((held.notification, held.processing.attempts()), (published, 0));
        assert_eq!(held.processing.received_at(), time(7.0));
        assert_eq!(held.processing.max_attempts(), 2);
    }

    #[test]
    fn the_work_goes_on_with_each_read_and_after_a_restart_where_it_was() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("state");
        let mut seen = Vec::new();
        for now in [10.0, 20.0, 30.0, 40.0] {
            let mut book = Book::open(Some(path.clone()), time(now)).expect("the same file");
            let published = notification(RemoteStatus::Published);
            book.hold(&published, time(now), ceiling(2)).expect("it is the same one");
            let processing = process(&mut book, "s", now).expect("it is known").processing;
            seen.push((processing.phase().name(), processing.attempts(), processing.next_at()));
        }
        let expected = [
            ("pending", 0, time(10.0)),
            ("leased", 1, time(10.0)),
            ("succeeded", 1, time(20.0)),
            ("succeeded", 1, time(20.0)),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_file_that_tells_of_work_that_cannot_have_been_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("state");
        let mut book = Book::open(Some(path.clone()), time(1.0)).expect("a new file");
        let published = notification(RemoteStatus::Published);
        book.hold(&published, time(1.0), ceiling(2)).expect("writable");
        let forged = Line::Work {
            event_id: token("e-1"),
            step: processing::Step::Expired { at: time(5.0) },
        };
        book.ledger.write(&forged).expect("writable");
        drop(book);
        let before = std::fs::read(&path).expect("readable");
        let refused = Book::open(Some(path.clone()), time(2.0)).err();
        assert_eq!(refused, Some(BookInvalid::Inbox(StateInvalid)));
        assert_eq!(std::fs::read(&path).expect("readable"), before);
    }

    #[test]
    fn everything_that_was_accepted_survives_a_restart() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("state");
        let mut book = Book::open(Some(path.clone()), time(1.0)).expect("a new file");
        for (event_id, sequence) in [("e-1", 1), ("e-2", 2), ("e-3", 3)] {
            book.accept(&change(event_id, sequence, "text")).expect("writable");
            let step = follow(&mut book, event_id, if event_id == "e-2" { 1 } else { 5 });
            assert_eq!(step == Step::Published, event_id != "e-2");
        }
        let cancellation = removal(RemovalKind::Cancellation, "c-2", "e-2", 2);
        let tombstone = removal(RemovalKind::Tombstone, "t-1", "e-1", 1);
        assert_eq!(book.remove(&cancellation), Ok(Receipt::New));
        assert_eq!(book.remove(&tombstone), Ok(Receipt::New));
        let document = delivered(Operation::Change, "e-1", "change");
        assert_eq!(book.deliver(&document), Ok(()));
        let published = notification(RemoteStatus::Published);
        assert_eq!(book.hold(&published, time(1.0), ceiling(2)), Ok(()));
        let before = book.summary();
        drop(book);

        let mut book = Book::open(Some(path), time(1.0)).expect("the same file");
        assert_eq!(book.summary(), before);
        assert_eq!(book.remove(&cancellation), Ok(Receipt::Known));
        assert_eq!(book.remove(&tombstone), Ok(Receipt::Known));
        assert!(book.is_cancelled("e-2"));
        let leaving = book.look("e-1").expect("known").standing;
        assert!(matches!(leaving, Standing::Leaving { .. }), "{leaving:?}");
        assert_eq!(follow(&mut book, "e-3", 1), Step::Published);
        let other = delivered(Operation::Change, "e-1", "other");
        assert_eq!(book.deliver(&other), Err(Wrong::Collision));
        let deleted = notification(RemoteStatus::Deleted);
        assert_eq!(book.hold(&deleted, time(1.0), ceiling(2)), Err(Wrong::Collision));
    }
}
