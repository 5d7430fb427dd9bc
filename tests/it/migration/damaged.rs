//! Rows and stores that are not as the reference leaves them.

use super::{Changed, brought, options};
use leasehold::MemoryDisk;
use leasehold::import::report::Why;
use leasehold::import::{SourceFault, SqliteStore};
use leasehold_actors::codec;
use leasehold_actors::flows::delivery::Delivery;
use leasehold_actors::import::StoreFault;
use leasehold_actors::record::Event;
use leasehold_journal::StoreReader as _;
use leasehold_journal::walk::Item;
use std::collections::BTreeSet;

const CHANGES: &str = "cms_source_change_outbox";
const WATCHED: &str = "cms_source_lifecycle_monitor";
const NOTICES: &str = "cms_source_terminal_processing";
const DOCUMENTS: &str = "cms_source_delivery_outbox";

/// What one changed row is left out with; all others go in.
fn damage(name: &str, table: &str, change: &str) -> (Option<String>, &'static str) {
    let store = Changed::of(name);
    store.run(&format!("UPDATE {table} SET {change} WHERE rowid = 1"));
    let report = brought(&MemoryDisk::new(), &[&store.path()], options(false));
    let [left_out] = &report.left_out[..] else { panic!("{change}: {:?}", report.left_out) };
    assert_eq!((left_out.row, left_out.file, left_out.why), (1, 0, Why::Damaged), "{change}");
    let (total, before) =
        (report.total(), brought(&MemoryDisk::new(), &[&here(name)], options(true)));
    assert_eq!(total.imported, before.total().imported - 1, "{change}");
    assert_eq!(total.damaged, 1, "{change}");
    (left_out.id.clone(), left_out.code)
}

fn here(name: &str) -> std::path::PathBuf {
    super::here().join(name)
}

#[test]
fn a_damaged_change_is_named_and_left_out_and_the_others_go_in() {
    for (change, code) in [
        ("status = 'sent'", "state_invalid"),
        ("status = CAST(x'ff' AS TEXT)", "value_invalid"),
        ("attempts = -1", "attempts_invalid"),
        ("attempts = 21", "attempts_invalid"),
        ("attempts = 1e300", "value_invalid"),
        ("max_attempts = 0", "ceiling_invalid"),
        ("max_attempts = 21", "ceiling_invalid"),
        (
            "payload_sha256 = replace(payload_sha256, substr(payload_sha256, 1, 1), 'x')",
            "hash_mismatch",
        ),
        (
            "payload_sha256 = '0000000000000000000000000000000000000000000000000000000000000000'",
            "hash_mismatch",
        ),
        ("payload_json = payload_json || ' '", "payload_invalid"),
        ("payload_json = '{}'", "payload_invalid"),
        ("created_at = -1.0", "time_invalid"),
        ("created_at = 9e999", "time_invalid"),
        ("updated_at = created_at - 1", "time_invalid"),
        ("next_attempt_at = created_at - 1", "time_invalid"),
        ("lease_owner = 'w'", "lease_invalid"),
        ("last_error_code = 'No Code'", "error_invalid"),
        ("last_error_detail_hash = payload_sha256", "error_invalid"),
        ("remote_plan_id = 'plan-1'", "answer_invalid"),
    ] {
        let (id, found) = damage("dispatch-7-000.sqlite", CHANGES, change);
        assert_eq!((found, id.as_deref()), (code, Some("evt-0")), "{change}");
    }
}

#[test]
fn an_identity_that_is_none_is_not_told() {
    for name in ["''", "'two words'", "x'00'", "'" /* 257 */] {
        let long = format!("'{}'", "e".repeat(257));
        let value = if name == "'" { &long } else { name };
        let (id, code) = damage("dispatch-7-000.sqlite", CHANGES, &format!("event_id = {value}"));
        let expected = if name.starts_with('x') { "value_invalid" } else { "identity_invalid" };
        assert_eq!((id, code), (None, expected), "{value}");
    }
    // Another one than its document's is told, and is not its own.
    let (id, code) = damage("dispatch-7-000.sqlite", CHANGES, "event_id = 'evt-other'");
    assert_eq!((id.as_deref(), code), (Some("evt-other"), "binding_invalid"));
}

#[test]
fn a_damaged_registration_of_the_monitors_is_named_and_left_out() {
    for (change, code) in [
        ("state = 'gone'", "state_invalid"),
        ("plan_id = 'plan-other'", "binding_invalid"),
        ("job_count = job_count + 1", "binding_invalid"),
        ("source_sequence = 0", "binding_invalid"),
        ("binding_sha256 = change_sha256", "binding_invalid"),
        ("consecutive_failures = -1", "attempts_invalid"),
        ("consecutive_failures = max_consecutive_failures + 1", "attempts_invalid"),
        ("remote_status = 'asleep'", "answer_invalid"),
        ("site_id = 'a b'", "identity_invalid"),
        ("delivery_json = NULL, lifecycle_json = '{}'", "answer_invalid"),
    ] {
        let (_, found) = damage("lifecycle-7-000.sqlite", WATCHED, change);
        assert_eq!(found, code, "{change}");
    }
    for (change, code) in [
        ("status = 'gone'", "state_invalid"),
        ("terminal_status = 'ready'", "binding_invalid"),
        ("failures = poll_attempts + 1", "attempts_invalid"),
        ("receiver_status = 'asleep'", "answer_invalid"),
        ("receiver_attempts = NULL, receiver_status = 'pending'", "value_invalid"),
        ("receiver_status = NULL, receiver_attempts = 1", "answer_invalid"),
        ("notification_id = ''", "identity_invalid"),
    ] {
        let (_, found) = damage("processing-7-000.sqlite", NOTICES, change);
        assert_eq!(found, code, "{change}");
    }
}

#[test]
fn a_snapshot_that_does_not_hang_together_is_no_answer() {
    let store = Changed::of("lifecycle-7-000.sqlite");
    let with = "SELECT count(*) FROM cms_source_lifecycle_monitor WHERE lifecycle_json IS NOT NULL";
    let count: u32 = rusqlite::Connection::open(store.path())
        .and_then(|connection| connection.query_row(with, [], |row| row.get(0)))
        .expect("a count");
    assert!(count > 0);
    for (change, code) in [
        ("lifecycle_sha256 = change_sha256", "hash_mismatch"),
        ("lifecycle_json = lifecycle_json || ' '", "answer_invalid"),
        ("required_locales_json = '[]'", "answer_invalid"),
        ("tombstone_json = NULL", "answer_invalid"),
        ("remote_status = 'superseded'", "answer_invalid"),
    ] {
        let store = Changed::of("lifecycle-7-000.sqlite");
        store.run(&format!("UPDATE {WATCHED} SET {change} WHERE lifecycle_json IS NOT NULL"));
        let report = brought(&MemoryDisk::new(), &[&store.path()], options(false));
        assert_eq!(report.total().damaged, u64::from(count), "{change}");
        assert!(report.left_out.iter().all(|it| it.code == code), "{:?}", report.left_out);
    }
}

#[test]
fn a_damaged_document_is_named_with_both_parts_of_its_identity() {
    for (change, code) in [
        ("status = 'sent'", "state_invalid"),
        ("event_id = 'evt-other'", "binding_invalid"),
        ("capabilities_sha256 = 'none'", "hash_mismatch"),
        ("source_max_attempts = 0", "ceiling_invalid"),
        ("payload_json = '[]'", "payload_invalid"),
    ] {
        let (id, found) = damage("delivery-7-000.sqlite", DOCUMENTS, change);
        assert_eq!(found, code, "{change}");
        assert!(id.is_some_and(|id| id.contains('/')), "{change}");
    }
    let (id, code) = damage("delivery-7-000.sqlite", DOCUMENTS, "operation = 'gift'");
    assert_eq!(
        (id.as_deref().map(|id| id.starts_with("gift/")), code),
        (Some(true), "identity_invalid")
    );
}

/// Why a store is refused after these statements.
fn refused(name: &str, statements: &str) -> SourceFault {
    let store = Changed::of(name);
    store.run(statements);
    SqliteStore::open(&store.path()).expect_err("it is refused")
}

#[test]
fn a_store_of_a_newer_version_or_of_none_is_refused() {
    let fault = |fault, component| SourceFault::Store { component, fault };
    for (name, table, component, known) in [
        ("dispatch-7-000.sqlite", "cms_source_change_outbox_meta", "dispatch", 1),
        ("lifecycle-7-000.sqlite", "cms_source_lifecycle_monitor_meta", "lifecycle", 1),
        ("processing-7-000.sqlite", "cms_source_terminal_processing_meta", "processing", 2),
        ("delivery-7-000.sqlite", "cms_source_delivery_meta", "delivery", 1),
    ] {
        let set = |version: i64| format!("UPDATE {table} SET schema_version = {version}");
        assert_eq!(refused(name, &set(known + 1)), fault(StoreFault::Newer, component));
        assert_eq!(refused(name, &set(0)), fault(StoreFault::Altered, component));
        let gone = format!("DELETE FROM {table}");
        assert_eq!(refused(name, &gone), fault(StoreFault::Altered, component));
        let dropped = format!("DROP TABLE {table}");
        assert_eq!(refused(name, &dropped), fault(StoreFault::Altered, component));
    }
    let more = format!("ALTER TABLE {CHANGES} ADD COLUMN more TEXT");
    assert_eq!(refused("dispatch-7-000.sqlite", &more), fault(StoreFault::Altered, "dispatch"));
    let digest =
        "UPDATE cms_source_terminal_processing_meta SET expected_capabilities_sha256 = 'x'";
    assert_eq!(
        refused("processing-7-000.sqlite", digest),
        fault(StoreFault::Capabilities, "processing")
    );
}

#[test]
fn what_is_no_store_at_all_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = |name: &str| folder.path().join(name);
    std::fs::write(place("text"), "no database").expect("writable");
    std::fs::write(place("half"), b"SQLite format 3\0 and nothing more").expect("writable");
    let other = rusqlite::Connection::open(place("other")).expect("a new one");
    other.execute_batch("CREATE TABLE something (one INTEGER)").expect("it runs");
    drop(other);
    for (name, fault) in [
        ("nowhere", SourceFault::Unreadable),
        ("text", SourceFault::NotSqlite),
        ("half", SourceFault::NotSqlite),
        ("other", SourceFault::Unknown),
    ] {
        assert_eq!(SqliteStore::open(&place(name)).expect_err("refused"), fault, "{name}");
    }
}

#[test]
fn a_database_with_damaged_pages_is_refused_or_told_row_by_row_and_never_taken_as_it_is() {
    let sound = std::fs::read(here("delivery-7-001.sqlite")).expect("readable");
    let (folder, mut noticed) = (tempfile::tempdir().expect("a temporary folder"), 0);
    let path = folder.path().join("store");
    let bodies = |disk: &MemoryDisk| {
        let (reader, mut bodies) = (super::opened(disk).reader(), BTreeSet::new());
        let walked = reader.walk(None, &mut |item| {
            if let Item::Record { record, .. } = item {
                bodies.insert(record?.body);
            }
            Ok(())
        });
        walked.expect("it verifies");
        bodies
    };
    let whole = MemoryDisk::new();
    brought(&whole, &[&here("delivery-7-001.sqlite")], options(false));
    let whole = bodies(&whole);
    for place in (0..sound.len()).step_by(509) {
        let mut bytes = sound.clone();
        let end = bytes.len().min(place + 64);
        bytes[place..end].iter_mut().for_each(|byte| *byte ^= 0xa5);
        std::fs::write(&path, bytes).expect("writable");
        let disk = MemoryDisk::new();
        let Ok(store) = SqliteStore::open(&path) else {
            noticed += 1;
            continue;
        };
        let mut log = super::opened(&disk);
        let reader = log.reader();
        match leasehold::import::import(&mut log, &reader, &[store], options(false)) {
            Ok(report) => noticed += usize::from(!report.is_whole()),
            Err(_) => noticed += 1,
        }
        drop((log, reader));
        // A row without a hash of its own over a changed byte cannot be told from a sound one; its document can.
        for body in bodies(&disk).difference(&whole) {
            let event = codec::decode::<Delivery>(body).expect("an event");
            let Event::Imported { record, payload, .. } = event else { panic!("it is imported") };
            assert_eq!(record.binding.payload_sha256, payload.sha256());
        }
    }
    assert!(noticed > 10, "{noticed}");
}
