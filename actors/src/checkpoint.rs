//! What the flows need to go on where an earlier life was closed, and its bytes.
//!
//! Owns the note that a journal's checkpoint carries. Pure. Must not know when one is left, nor how the
//! journal keeps it.
//!
//! Everything in it follows from the journal and the settings of the life that left it. So it names a
//! fingerprint of those settings, and is of use only to a life that has the same ones; any other one
//! replays the journal.
//!
//! # Bytes
//!
//! | size | field |
//! | --- | --- |
//! | 1 | version, 1 |
//! | 32 | fingerprint of the settings |
//! | 5 parts | the flows, by their numbers |
//! | a list | each scope that was ever paused: its stream and what became of it |
//!
//! A part is four lists: the latest time, where there is one; each class with the number of its records;
//! each record that waits or is leased; each second identity with its record. A list is the number of
//! its items (8 bytes, little-endian) and the items in parcels: its length (4 bytes) and at most
//! [`PARCEL`] items as [`leasehold_journal::payload`] encodes them, which has a limit for each value.

use crate::agenda::{Slot, Waiting};
use crate::contract::text::Sha256;
use crate::contract::time::{Ceiling, Timestamp};
use crate::control::Controls;
use crate::flows::delivery::Delivery;
use crate::flows::dispatch::Dispatch;
use crate::flows::lifecycle::Lifecycle;
use crate::flows::notification::Notify;
use crate::flows::processing::Processing;
use crate::health::{Class, Tally};
use crate::record::{Flow, Identity, Key, Link, StateKind};
use leasehold_journal::{JournalError, payload};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The version that is written. It changes with whatever a slot, a class or a key is made of.
pub const VERSION: u8 = 1;
/// Items in one parcel at most.
pub const PARCEL: usize = 1024;

/// What one flow's next life starts from.
#[derive(Debug, Clone, PartialEq)]
pub struct Marks<F: Flow> {
    /// The latest time anything had happened; `None` for a flow without records.
    pub latest: Option<Timestamp>,
    /// How many records there are of each class; none is quarantined.
    pub tally: Tally<F::Facet>,
    /// Where in the agenda each record is that waits or is leased.
    pub entries: Vec<(Identity, Slot<Class<F::Facet>>)>,
    /// Which record has which second identity (D17).
    pub keys: Vec<(Key, Identity)>,
}

/// What the next life of all flows starts from.
#[derive(Debug, Clone, PartialEq)]
pub struct AllMarks {
    /// Flow `dispatch`.
    pub dispatch: Marks<Dispatch>,
    /// Flow `lifecycle`.
    pub lifecycle: Marks<Lifecycle>,
    /// Flow `notification`.
    pub notification: Marks<Notify>,
    /// Flow `processing`.
    pub processing: Marks<Processing>,
    /// Flow `delivery`.
    pub delivery: Marks<Delivery>,
    /// Every scope that was ever paused.
    pub controls: Controls,
}

impl AllMarks {
    /// The latest time anything had happened; `None` for a journal without records.
    #[must_use]
    pub fn latest(&self) -> Option<Timestamp> {
        let Self { dispatch, lifecycle, notification, processing, delivery, controls } = self;
        let latest = [
            dispatch.latest,
            lifecycle.latest,
            notification.latest,
            processing.latest,
            delivery.latest,
            controls.latest(),
        ];
        latest.into_iter().flatten().max()
    }
}

/// The settings that marks depend on: each flow's pinned digest, and the ceilings of what is handed over
/// to `lifecycle`, `notification` and `processing`. The program's version counts among them: another one
/// may see the same journal otherwise.
#[must_use]
pub fn fingerprint(digests: [Option<Sha256>; 5], ceilings: [Option<Ceiling>; 3]) -> Sha256 {
    let mut settings = b"leasehold.checkpoint.settings.v1\0".to_vec();
    settings.extend_from_slice(env!("CARGO_PKG_VERSION").as_bytes());
    settings.push(0);
    // What a class is written by.
    for kind in StateKind::ALL {
        settings.extend_from_slice(kind.name("completed").as_bytes());
        settings.push(0);
    }
    for digest in digests {
        settings.push(u8::from(digest.is_some()));
        settings.extend_from_slice(digest.as_ref().map_or(&[], |digest| digest.as_bytes()));
    }
    for ceiling in ceilings {
        settings.push(ceiling.map_or(0, u8::from)); // which is 1 at least
    }
    Sha256::of(&settings)
}

/// The bytes of a note.
///
/// # Errors
/// Where an item cannot be encoded; none of ours is.
pub fn encode(fingerprint: Sha256, marks: &AllMarks) -> Result<Vec<u8>, JournalError> {
    let AllMarks { dispatch, lifecycle, notification, processing, delivery, controls } = marks;
    let mut note = vec![VERSION];
    note.extend_from_slice(fingerprint.as_bytes());
    put_part(&mut note, dispatch)?;
    put_part(&mut note, lifecycle)?;
    put_part(&mut note, notification)?;
    put_part(&mut note, processing)?;
    put_part(&mut note, delivery)?;
    put(&mut note, controls.entries())?;
    Ok(note)
}

/// Reads a note; `None` for one of another version, of other settings, or of anything else.
#[must_use]
pub fn decode(fingerprint: Sha256, note: &[u8]) -> Option<AllMarks> {
    let mut rest = note.strip_prefix(&[VERSION])?.strip_prefix(fingerprint.as_bytes())?;
    let rest = &mut rest;
    let marks = AllMarks {
        dispatch: take_part(rest)?,
        lifecycle: take_part(rest)?,
        notification: take_part(rest)?,
        processing: take_part(rest)?,
        delivery: take_part(rest)?,
        controls: Controls::of(take(rest, Some)?),
    };
    rest.is_empty().then_some(marks)
}

fn put_part<F: Flow>(note: &mut Vec<u8>, marks: &Marks<F>) -> Result<(), JournalError> {
    let Marks { latest, tally, entries, keys } = marks;
    put(note, latest.iter().copied())?;
    put(note, tally.classes().map(|(class, count)| (ClassForm::of(class), count)))?;
    put(note, entries.iter().map(|(identity, slot)| (identity.as_str(), SlotForm::of(*slot))))?;
    put(note, keys.iter().map(|(key, identity)| (*key, identity.as_str())))
}

fn take_part<F: Flow>(rest: &mut &[u8]) -> Option<Marks<F>> {
    let latest: Vec<Timestamp> = take(rest, Some)?;
    let counts =
        take(rest, |(class, count): (ClassForm<F::Facet>, u64)| Some((class.class()?, count)))?;
    let entries = take(rest, |(identity, slot): (String, SlotForm<F::Facet>)| {
        Some((Identity::new(&identity), slot.slot()?))
    })?;
    let keys = take(rest, |(key, identity): (Key, String)| Some((key, Identity::new(&identity))))?;
    let latest = latest.into_iter().max();
    Some(Marks { latest, tally: Tally::of(counts), entries, keys })
}

fn put<T: Serialize>(
    note: &mut Vec<u8>,
    items: impl Iterator<Item = T>,
) -> Result<(), JournalError> {
    let counted_at = note.len();
    note.extend_from_slice(&[0; 8]);
    let (mut count, mut items) = (0_u64, items.peekable());
    while items.peek().is_some() {
        let parcel: Vec<T> = items.by_ref().take(PARCEL).collect();
        count += parcel.len() as u64;
        let at = note.len();
        note.extend_from_slice(&[0; 4]);
        payload::encode_into(note, &parcel)?;
        let bytes = u32::try_from(note.len() - at - 4).map_err(|_| JournalError::TooLarge)?;
        note[at..at + 4].copy_from_slice(&bytes.to_le_bytes());
    }
    note[counted_at..counted_at + 8].copy_from_slice(&count.to_le_bytes());
    Ok(())
}

fn take<T: DeserializeOwned, U>(rest: &mut &[u8], read: impl Fn(T) -> Option<U>) -> Option<Vec<U>> {
    let (count, after) = rest.split_first_chunk::<8>()?;
    *rest = after;
    let count = usize::try_from(u64::from_le_bytes(*count)).ok()?;
    // An item has one byte at least, so that a number without the items takes no memory.
    let mut items = Vec::with_capacity(count.min(rest.len()));
    while items.len() < count {
        let (bytes, after) = rest.split_first_chunk::<4>()?;
        let (parcel, after) =
            after.split_at_checked(usize::try_from(u32::from_le_bytes(*bytes)).ok()?)?;
        *rest = after;
        let parcel: Vec<T> = payload::decode(parcel).ok()?;
        if parcel.is_empty() || parcel.len() > count - items.len() {
            return None;
        }
        for item in parcel {
            items.push(read(item)?);
        }
    }
    Some(items)
}

#[derive(Serialize, Deserialize)]
struct ClassForm<T> {
    /// Its place among all of them.
    kind: u8,
    facet: T,
}

impl<T> ClassForm<T> {
    fn of(class: Class<T>) -> Self {
        let Class { kind, facet } = class;
        let place = StateKind::ALL.into_iter().take_while(|other| *other != kind).count();
        Self { kind: place as u8, facet }
    }

    fn class(self) -> Option<Class<T>> {
        let Self { kind, facet } = self;
        Some(Class { kind: *StateKind::ALL.get(usize::from(kind))?, facet })
    }
}

#[derive(Serialize, Deserialize)]
enum LinkForm {
    None,
    Holds(Key),
    Waits(Key),
}

impl LinkForm {
    fn of(link: Link) -> Self {
        match link {
            Link::None => Self::None,
            Link::Holds(key) => Self::Holds(key),
            Link::Waits(key) => Self::Waits(key),
        }
    }

    fn link(self) -> Link {
        match self {
            Self::None => Link::None,
            Self::Holds(key) => Link::Holds(key),
            Self::Waits(key) => Link::Waits(key),
        }
    }
}

#[derive(Serialize, Deserialize)]
enum SlotForm<T> {
    Idle,
    Waiting {
        rank: u8,
        created_at: Timestamp,
        next_at: Timestamp,
        class: ClassForm<T>,
        link: LinkForm,
        parked: bool,
    },
    Leased {
        expires_at: Timestamp,
        class: ClassForm<T>,
        link: LinkForm,
    },
}

impl<T> SlotForm<T> {
    fn of(slot: Slot<Class<T>>) -> Self {
        match slot {
            Slot::Idle => Self::Idle,
            Slot::Waiting(Waiting { rank, created_at, next_at, class, link, parked }) => {
                let (class, link) = (ClassForm::of(class), LinkForm::of(link));
                Self::Waiting { rank, created_at, next_at, class, link, parked }
            }
            Slot::Leased { expires_at, class, link } => {
                let (class, link) = (ClassForm::of(class), LinkForm::of(link));
                Self::Leased { expires_at, class, link }
            }
        }
    }

    fn slot(self) -> Option<Slot<Class<T>>> {
        Some(match self {
            Self::Idle => Slot::Idle,
            Self::Waiting { rank, created_at, next_at, class, link, parked } => {
                let (class, link) = (class.class()?, link.link());
                Slot::Waiting(Waiting { rank, created_at, next_at, class, link, parked })
            }
            Self::Leased { expires_at, class, link } => {
                let (class, link) = (class.class()?, link.link());
                Slot::Leased { expires_at, class, link }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::source::Operation;
    use crate::control::{Control, Kept, Scope};

    fn at(seconds: f64) -> Timestamp {
        Timestamp::new(seconds).expect("a time")
    }

    fn empty<F: Flow>() -> Marks<F> {
        Marks { latest: None, tally: Tally::default(), entries: Vec::new(), keys: Vec::new() }
    }

    /// Marks with everything in them that there can be.
    fn full() -> AllMarks {
        let (key, other) = (Key::of("one"), Key::of("other"));
        let facet = (Some(Operation::Tombstone), Some(key));
        let removal = Class { kind: StateKind::Pending, facet };
        let polled = Class { kind: StateKind::Watching, facet: true };
        let waits = Waiting {
            rank: 1,
            created_at: at(3.0),
            next_at: at(4.5),
            class: removal,
            link: Link::Waits(key),
            parked: true,
        };
        let holds = Slot::Leased { expires_at: at(9.0), class: removal, link: Link::Holds(other) };
        let delivery = Marks {
            latest: Some(at(7.0)),
            tally: Tally::of([(removal, 2)]),
            entries: vec![
                (Identity::new("tombstone/a"), Slot::Waiting(waits)),
                (Identity::new("change/b"), holds),
            ],
            keys: Vec::new(),
        };
        let processing = Marks {
            latest: Some(at(8.0)),
            tally: Tally::of(StateKind::ALL.map(|kind| (Class { kind, facet: Some(key) }, 70_000))),
            entries: Vec::new(),
            keys: vec![(key, Identity::new("a")), (other, Identity::new("b"))],
        };
        let scope = Scope::new("site/site-1").expect("a scope");
        AllMarks {
            dispatch: empty(),
            lifecycle: Marks { tally: Tally::of([(polled, 1)]), ..empty() },
            notification: empty(),
            processing,
            delivery,
            controls: Controls::of(vec![
                (scope.stream().0, Kept::Sound(Control::Open { scope, since: at(6.0) })),
                ([9; 16], Kept::Quarantined),
            ]),
        }
    }

    #[test]
    fn marks_read_back_and_the_latest_time_is_that_of_all_flows() {
        let settings = fingerprint([None; 5], [None; 3]);
        let note = encode(settings, &full()).expect("it encodes");
        assert_eq!(decode(settings, &note), Some(full()));
        assert_eq!(full().latest(), Some(at(8.0)));
    }

    #[test]
    fn a_cut_note_one_with_more_behind_it_and_one_of_another_version_are_refused() {
        let settings = fingerprint([None; 5], [None; 3]);
        let note = encode(settings, &full()).expect("it encodes");
        for length in 0..note.len() {
            assert_eq!(decode(settings, &note[..length]), None, "cut at {length}");
        }
        assert_eq!(decode(settings, &[&note[..], &[0]].concat()), None);
        assert_eq!(decode(settings, &[&[VERSION + 1], &note[1..]].concat()), None);
        let mut claims = note;
        claims[33..41].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(decode(settings, &claims), None, "a number without its items");
    }

    #[test]
    fn any_other_setting_has_another_fingerprint_and_its_note_is_refused() {
        let (digest, ceiling) = (Sha256::of(b"digest"), Ceiling::new(5));
        let mut all = vec![fingerprint([None; 5], [None; 3])];
        for flow in 0..5 {
            let mut digests = [None; 5];
            digests[flow] = Some(digest);
            all.push(fingerprint(digests, [None; 3]));
        }
        for flow in 0..3 {
            let mut ceilings = [None; 3];
            ceilings[flow] = ceiling;
            all.push(fingerprint([None; 5], ceilings));
            ceilings[flow] = Ceiling::new(6);
            all.push(fingerprint([None; 5], ceilings));
        }
        for (place, settings) in all.iter().enumerate() {
            let note = encode(*settings, &full()).expect("it encodes");
            for (other, asked) in all.iter().enumerate() {
                assert_eq!(decode(*asked, &note).is_some(), place == other, "{place} {other}");
            }
        }
    }

    #[test]
    fn lists_longer_than_a_parcel_read_back_in_their_order() {
        for count in [PARCEL - 1, PARCEL, PARCEL + 1, 3 * PARCEL] {
            let mut note = Vec::new();
            put(&mut note, 0..count as u64).expect("it encodes");
            let mut rest = &note[..];
            let read: Option<Vec<u64>> = take(&mut rest, Some);
            assert_eq!(read, Some((0..count as u64).collect()));
            assert!(rest.is_empty());
        }
    }
}
