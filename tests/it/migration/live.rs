//! Importing again, beside a writer, and into a journal that has records already.

use super::{Changed, brought, here, opened, options};
use crate::support::{accepted, change, engine, run};
use leasehold::import::report::Why;
use leasehold::import::{Counts, SourceFault, SqliteStore, import};
use leasehold::{Dispatch, Engine, ManualClock, MemoryDisk};
use leasehold_actors::codec;
use leasehold_actors::record::Event;
use leasehold_journal::StoreReader as _;
use leasehold_journal::walk::Item;
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

const CHANGES: &str = "cms_source_change_outbox";

fn dispatch() -> PathBuf {
    here().join("dispatch-7-000.sqlite")
}

#[test]
fn the_same_import_again_changes_nothing() {
    let disk = MemoryDisk::new();
    let first = brought(&disk, &[&dispatch()], options(false));
    let head = opened(&disk).reader().head();
    for dry_run in [false, true] {
        let again = brought(&disk, &[&dispatch(), &dispatch()], options(dry_run));
        assert!(again.is_whole());
        let Counts { imported, unchanged, .. } = again.total();
        assert_eq!((imported, unchanged), (0, first.total().imported * 2));
        assert_eq!(opened(&disk).reader().head(), head);
    }
    assert_eq!(first.sequence, head.sequence);
}

#[test]
fn a_store_that_is_named_twice_is_imported_once() {
    let disk = MemoryDisk::new();
    let Counts { imported, unchanged, .. } =
        brought(&disk, &[&dispatch(), &dispatch()], options(false)).total();
    assert_eq!(imported, unchanged);
    assert_eq!(opened(&disk).reader().head().sequence, imported);
}

#[test]
fn a_dry_run_says_what_would_be_done_and_writes_nothing() {
    let disk = MemoryDisk::new();
    let look = brought(&disk, &[&dispatch()], options(true));
    assert_eq!(opened(&disk).reader().head().sequence, 0);
    let done = brought(&disk, &[&dispatch()], options(false));
    assert_eq!((look.total(), look.dry_run, done.dry_run), (done.total(), true, false));
}

#[test]
fn a_record_that_is_there_otherwise_is_a_conflict_and_left_alone() {
    let disk = MemoryDisk::new();
    let Counts { imported, .. } = brought(&disk, &[&dispatch()], options(false)).total();
    let head = opened(&disk).reader().head();
    let moved = Changed::of("dispatch-7-000.sqlite");
    moved
        .run(&format!("UPDATE {CHANGES} SET updated_at = updated_at + 1 WHERE event_id = 'evt-0'"));
    let report = brought(&disk, &[&moved.path()], options(false));
    let [left_out] = &report.left_out[..] else { panic!("{:?}", report.left_out) };
    assert_eq!((left_out.id.as_deref(), left_out.code), (Some("evt-0"), "record_differs"));
    assert_eq!((left_out.why, report.total().unchanged), (Why::Conflict, imported - 1));
    assert_eq!(opened(&disk).reader().head(), head);
}

#[test]
fn what_became_of_a_record_since_does_not_matter_when_it_is_imported_again() {
    let disk = MemoryDisk::new();
    let first = brought(&disk, &[&dispatch()], options(false)).total();
    let worked = run(async {
        let engine = engine(&disk, &ManualClock::at(super::AT)).await;
        let mut worked = 0;
        while let Some(claim) = engine.dispatch().claim("w", 60.0).await.expect("a claim") {
            let answer = accepted(claim.request().event_id.as_str(), 2);
            engine.dispatch().complete(&claim, answer).await.expect("it is live");
            worked += 1;
        }
        engine.close().await;
        worked
    });
    assert!(worked > 0);
    let again = brought(&disk, &[&dispatch()], options(false));
    assert!(again.is_whole(), "{:?}", again.left_out);
    assert_eq!((again.total().imported, again.total().unchanged), (0, first.imported));
}

#[test]
fn a_record_of_our_own_is_a_conflict_and_a_second_identity_is_taken_once() {
    let disk = MemoryDisk::new();
    run(async {
        let engine = engine(&disk, &ManualClock::at(100.0)).await;
        engine.dispatch().enqueue(change("evt-0"), 5).await.expect("it is valid");
        engine.close().await;
    });
    let report = brought(&disk, &[&dispatch()], options(false));
    let codes: Vec<_> = report.left_out.iter().map(|it| (it.id.as_deref(), it.code)).collect();
    assert_eq!(codes, [(Some("evt-0"), "record_differs")]);

    let processing = here().join("processing-7-000.sqlite");
    brought(&disk, &[&processing], options(false));
    let other = Changed::of("processing-7-000.sqlite");
    other.run(
        "DELETE FROM cms_source_terminal_processing WHERE rowid > 1;
               UPDATE cms_source_terminal_processing SET event_id = 'evt-another'",
    );
    let report = brought(&disk, &[&other.path()], options(false));
    let codes: Vec<_> = report.left_out.iter().map(|it| (it.id.as_deref(), it.code)).collect();
    assert_eq!(codes, [(Some("evt-another"), "notification_id_taken")]);
}

/// Every file of a folder: its bytes and when it was last written to.
fn files(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| {
        let entry = entry.expect("readable");
        let written = entry.metadata().and_then(|it| it.modified()).expect("a time");
        (entry.path(), (std::fs::read(entry.path()).expect("readable"), written))
    });
    entries.collect()
}

#[test]
fn a_store_in_use_is_read_as_it_was_last_committed_and_not_a_byte_of_it_changes() {
    for mode in ["wal", "delete"] {
        let store = Changed::of("dispatch-7-000.sqlite");
        let writer = Connection::open(store.path()).expect("SQLite opens it");
        writer.pragma_update(None, "journal_mode", mode).expect("a mode");
        writer.pragma_update(None, "wal_autocheckpoint", 0).expect("a setting");
        let remove = |id: &str| format!("DELETE FROM {CHANGES} WHERE event_id = '{id}'");
        writer.execute_batch(&remove("evt-0")).expect("committed");
        // Not committed: it does not count.
        writer.execute_batch(&format!("BEGIN IMMEDIATE; {}", remove("evt-2"))).expect("it runs");
        let before = files(store.folder.path());
        assert!(before.len() > 1, "{mode}: there is something beside the database");
        let report = brought(&MemoryDisk::new(), &[&store.path()], options(false));
        assert_eq!(files(store.folder.path()), before, "{mode}");
        let whole = brought(&MemoryDisk::new(), &[&dispatch()], options(true));
        assert!(report.is_whole());
        assert_eq!(report.total().imported, whole.total().imported - 1, "{mode}");
        writer.execute_batch("ROLLBACK").expect("it was open");
    }
}

#[test]
fn nothing_of_a_copy_is_left_behind() {
    let store = Changed::of("dispatch-7-000.sqlite");
    let opened = SqliteStore::open(&store.path()).expect("a store");
    let place = format!("{opened:?}");
    let copy = place.split('"').find(|part| part.contains("leasehold-")).expect("a place");
    let copy = PathBuf::from(copy.split("/store").next().expect("a folder"));
    assert!(copy.join("store").exists());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode =
            |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&copy), mode(&copy.join("store"))), (0o700, 0o600));
    }
    drop(opened);
    assert!(!copy.exists());
}

#[test]
fn an_imported_lease_runs_out_at_its_time_and_is_not_ended_when_an_engine_opens() {
    let store = Changed::of("dispatch-7-000.sqlite");
    store.run(&format!(
        "DELETE FROM {CHANGES} WHERE event_id <> 'evt-0';
         UPDATE {CHANGES} SET status = 'leased', attempts = 1, next_attempt_at = 100, created_at = 100,
             updated_at = 200, lease_owner = 'w', lease_token = 'token', lease_expires_at = 260,
             last_error_code = NULL, remote_plan_id = NULL, remote_job_count = NULL,
             remote_status = NULL, response_sha256 = NULL"
    ));
    let disk = MemoryDisk::new();
    assert!(brought(&disk, &[&store.path()], options(false)).is_whole());
    run(async {
        let clock = ManualClock::at(210.0);
        let engine = Engine::in_memory(&disk).clock(clock.clone()).open().await.expect("it opens");
        let status = engine.dispatch().status("evt-0").await.expect("it is there");
        assert_eq!((status.status, status.lease_expires_at), ("leased", Some(260.0)));
        clock.set(259.0);
        assert!(engine.dispatch().claim("w", 60.0).await.expect("a claim").is_none());
        clock.set(260.0);
        let claim = engine.dispatch().claim("w", 60.0).await.expect("a claim").expect("it is due");
        assert_eq!(serde_json::to_value(&claim).expect("it has a form")["attempt"], 2);
        engine.close().await;
    });
}

/// The last times of the records of a journal.
fn times(disk: &MemoryDisk) -> BTreeSet<u64> {
    let mut times = BTreeSet::new();
    let walked = opened(disk).reader().walk(None, &mut |item| {
        if let Item::Record { record, .. } = item {
            let event = codec::decode::<Dispatch>(&record?.body).expect("an event");
            let Event::Imported { record, .. } = event else { panic!("it is imported") };
            times.insert(record.updated_at.seconds().to_bits());
        }
        Ok(())
    });
    walked.expect("it verifies");
    times
}

#[test]
fn of_a_store_that_is_written_to_meanwhile_whole_transactions_are_read() {
    for mode in ["wal", "delete"] {
        let store = Changed::of("dispatch-7-000.sqlite");
        let (path, stop) = (store.path(), AtomicBool::new(false));
        let writer = Connection::open(&path).expect("SQLite opens it");
        writer.pragma_update(None, "journal_mode", mode).expect("a mode");
        writer.pragma_update(None, "synchronous", "off").expect("a setting");
        writer.pragma_update(None, "wal_autocheckpoint", 5).expect("a setting");
        let mut read = 0;
        let write = |round: u32| {
            // One after the other in one transaction: a half one has two different times.
            let rows = (1..=4).map(|row| {
                format!("UPDATE {CHANGES} SET updated_at = {round} WHERE rowid = {row};")
            });
            format!("BEGIN; {} COMMIT;", rows.collect::<String>())
        };
        writer.execute_batch(&write(1_000_000)).expect("it runs");
        let stopped = &stop;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for round in 1_000_001..2_000_000 {
                    if stopped.load(Ordering::Relaxed) {
                        break;
                    }
                    writer.execute_batch(&write(round)).expect("it runs");
                }
            });
            for _ in 0..40 {
                let store = match SqliteStore::open(&path) {
                    Ok(store) => store,
                    Err(fault) => {
                        assert_eq!(fault, SourceFault::Busy);
                        continue;
                    }
                };
                let disk = MemoryDisk::new();
                let mut log = opened(&disk);
                let reader = log.reader();
                let report = import(&mut log, &reader, &[store], options(false));
                assert!(report.expect("it is sound").is_whole());
                drop((log, reader));
                assert_eq!(times(&disk).len(), 1, "{mode}: {:?}", times(&disk));
                read += 1;
            }
            stop.store(true, Ordering::Relaxed);
        });
        println!("{mode}: {read} of 40 copies were read");
    }
}
