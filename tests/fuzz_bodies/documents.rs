//! The documents a host hands in: changes, cancellations, tombstones, notifications.

use leasehold_actors::contract::MESSAGE_BYTES_MAX;
use leasehold_actors::contract::change::Change;
use leasehold_actors::contract::json::Value;
use leasehold_actors::contract::locale;
use leasehold_actors::contract::notification::{
    NOTIFICATION_BYTES_MAX, Notification, parse_acknowledgement,
};
use leasehold_actors::contract::payload::Payload;
use leasehold_actors::contract::removal::{Removal, RemovalKind};
use leasehold_actors::contract::source::{Document, Operation, envelope};
use leasehold_actors::contract::time::Ceiling;
use leasehold_actors::flows::delivery::identity_of;
use leasehold_actors::flows::notification::{Notify, NotifyBinding};
use leasehold_actors::record::Flow as _;

/// Holds for any bytes; answers what they were accepted as.
pub(crate) fn body(data: &[u8]) -> Vec<&'static str> {
    let change = Change::parse(data).ok();
    let removal = Removal::parse(data).ok();
    let document = Document::parse(data).ok();
    let loosely = Notification::parse_loosely(data).ok();
    let notification = Notification::parse(data).ok();
    let ours = [change.is_some(), removal.is_some(), loosely.is_some()];
    assert!(ours.iter().filter(|is| **is).count() <= 1, "a document is of one kind");
    assert_eq!(document.is_some(), change.is_some() || removal.is_some());
    let mut accepted = Vec::new();
    if let Some(change) = change {
        check_change(data, &change);
        accepted.push("change");
    }
    if let Some(removal) = removal {
        accepted.push(check_removal(data, &removal));
    }
    if let Some(document) = document {
        check_document(data, &document);
        accepted.push("document");
    }
    if let Some(loosely) = loosely {
        assert!(Notification::parse_loosely(loosely.payload.as_bytes()) == Ok(loosely));
        accepted.push("notification as it is monitored");
    }
    if let Some(notification) = notification {
        check_notification(data, &notification);
        accepted.push("notification");
    }
    accepted
}

/// The payload of a document is its canonical form, and within the limit.
fn is_payload_of(data: &[u8], payload: &Payload, bytes_max: usize) {
    let (_, canonical) = Payload::parse(data, bytes_max).expect("an accepted document is JSON");
    assert!(canonical == *payload);
}

fn check_change(data: &[u8], change: &Change) {
    is_payload_of(data, &change.payload, MESSAGE_BYTES_MAX);
    assert!(Change::parse(change.payload.as_bytes()).as_ref() == Ok(change));
    assert!((1..=i64::MAX.unsigned_abs()).contains(&change.source_sequence));
    let targets = &change.target_locales;
    assert!((1..=locale::SUPPORTED.len()).contains(&targets.len()));
    for (place, target) in targets.iter().enumerate() {
        assert!(locale::SUPPORTED.contains(&&**target));
        assert!(!targets[..place].contains(target), "no locale twice");
        assert_eq!(locale::normal_form(target).as_deref(), Some(&**target));
    }
}

fn check_removal(data: &[u8], removal: &Removal) -> &'static str {
    is_payload_of(data, &removal.payload, MESSAGE_BYTES_MAX);
    assert!(Removal::parse(removal.payload.as_bytes()).as_ref() == Ok(removal));
    assert!((1..=i64::MAX.unsigned_abs()).contains(&removal.source_sequence));
    match removal.kind {
        RemovalKind::Cancellation => "cancellation",
        RemovalKind::Tombstone => "tombstone",
    }
}

/// A document is put into its envelope as it is.
fn check_document(data: &[u8], document: &Document) {
    is_payload_of(data, &document.payload, MESSAGE_BYTES_MAX);
    assert!(Document::parse(document.payload.as_bytes()).as_ref() == Ok(document));
    let change = document.operation == Operation::Change;
    assert!(!change || document.request_id == document.event_id);
    let identity = identity_of(document.operation, &document.request_id);
    let (operation, request_id) = identity.as_str().split_once('/').expect("two parts");
    assert_eq!(Operation::from_name(operation), Some(document.operation));
    assert_eq!(request_id, document.request_id.as_str());
    let Some(envelope) = envelope(document.operation, &document.payload, 5) else {
        // Only what is just below the limit has no room for an envelope.
        assert!(document.payload.as_bytes().len() + 200 > MESSAGE_BYTES_MAX);
        return;
    };
    let value = Value::parse(envelope.as_bytes()).expect("an envelope is JSON");
    let member = if change { "change" } else { "removal" };
    let inside = value.as_object().and_then(|object| object.get(member));
    assert!(inside.map(Payload::of).as_ref() == Some(&document.payload));
}

/// A notification is the only one of its id, and has one acknowledgement.
fn check_notification(data: &[u8], notification: &Notification) {
    is_payload_of(data, &notification.payload, NOTIFICATION_BYTES_MAX);
    assert!(Notification::parse(notification.payload.as_bytes()).as_ref() == Ok(notification));
    assert!(Notification::parse_loosely(data).as_ref() == Ok(notification));
    assert!(notification.terminal_status.is_terminal());
    let acknowledgement = notification.acknowledgement();
    let answer = parse_acknowledgement(acknowledgement.as_bytes(), &acknowledgement);
    assert_eq!(answer, Ok(acknowledgement.sha256()));
    assert!(parse_acknowledgement(data, &acknowledgement).is_err());
    let binding = NotifyBinding::of(notification, Ceiling::new(5).expect("in range"));
    assert!(Notify::belongs(&binding, &notification.payload));
}
