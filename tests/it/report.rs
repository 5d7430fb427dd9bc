//! `leasehold report`: one page that is whole, true, and safe to open.

use crate::damage;
use crate::main_job::Place;
use crate::support::{Scripted, accepted, change, example, marked, program, run, snapshots};
use crate::time_travel::exported;
use crate::wire_flows;
use leasehold::audit::{Finding, Pins, Source};
use leasehold::report::facts::Failure;
use leasehold::report::operation::Leases;
use leasehold::report::{About, Facts, Verdict, document};
use leasehold::{Engine, JournalError, ManualClock, MemoryDisk, Scope};
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::explain::{self, explain_quarantined};
use leasehold_actors::flows::dispatch::Dispatch;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const HOSTILE: &str = "<img src=x onerror=alert(1)>&\"'";

fn at(seconds: f64) -> Timestamp {
    Timestamp::new(seconds).expect("a time")
}

/// A whole life in every flow, one that failed, one that waits and one that is leased.
fn lived(place: &Place) -> PathBuf {
    let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
    run(async {
        let engine = wire_flows::engine(&disk, &clock).await;
        wire_flows::live(&engine, &clock).await;
        let flow = engine.dispatch();
        for (id, retryable) in [("event-3", false), ("event-4", true)] {
            clock.set(350.0);
            flow.enqueue(change(id), 3).await.expect("it is valid");
            let client = Scripted::new([Err(marked("cms.unavailable", retryable))]);
            flow.run_once(&client, "w", 60.0).await.expect("it runs").expect("it is due");
        }
        clock.set(352.0);
        flow.enqueue(change("event-5"), 3).await.expect("it is valid");
        flow.claim("worker-1", 60.0).await.expect("a claim").expect("it is due");
        engine.close().await;
    });
    exported(&disk, place)
}

fn read(path: &Path, now: f64) -> Facts {
    let source = Source::open(path).expect("an archive");
    Facts::read(&source, &Pins::default(), at(now))
}

fn about(now: f64) -> About<'static> {
    let (title, name) = ("Journal report", "somewhere/lived.leasehold");
    About { title, name, is_archive: true, now: at(now) }
}

#[test]
fn a_report_is_as_it_was_read() {
    let place = Place::new();
    let facts = read(&lived(&place), 353.0);
    assert!(facts.audit.clean);
    let page = document(&facts, &about(353.0));
    // The style is read in its own file, and every tag begins a line, so that a difference is seen.
    let (before, rest) = page.split_once("<style>").expect("it has a style");
    let (_, after) = rest.split_once("</style>").expect("it ends");
    let text = format!("{before}{after}").replace("><", ">\n<");
    snapshots("report").bind(|| insta::assert_snapshot!("lived", text));
}

#[test]
fn a_report_counts_what_happened_and_says_what_needs_somebody() {
    let place = Place::new();
    let path = lived(&place);
    let facts = read(&path, 353.0);
    assert_eq!(facts.verdict(), Verdict::NeedsSomebody);
    assert_eq!(facts.span_seconds, Some((100.0, 352.0)));
    let activity = &facts.activity;
    let counts = [&activity.registered, &activity.settled, &activity.failed].map(Vec::len);
    assert_eq!(counts, [9, 5, 2]);
    // Delivery took two attempts, notification two, dispatch one.
    assert_eq!(facts.attempts.iter().collect::<Vec<_>>(), [(&1, &1), (&2, &2)]);
    assert_eq!(facts.polls.iter().collect::<Vec<_>>(), [(&3, &1), (&4, &1)]);
    let of_code = |code: &str| {
        let found = facts.failures.iter().find(|one| one.code == code).expect("it is there");
        (found.flow, found.attempts, found.records, found.example.as_deref())
    };
    assert_eq!(of_code("cms.unavailable"), ("dispatch", 2, 1, Some("event-3")));
    assert_eq!(of_code("network"), ("lifecycle", 1, 0, Some("event-1")));
    assert_eq!((facts.stuck.open, facts.stuck.need_somebody), (4, 2));
    let states: Vec<_> = facts.stuck.most_urgent().iter().map(|one| one.state).collect();
    assert_eq!(states, ["failed", "failed", "retry_wait", "leased"]);
    // Once the lease is over, it needs somebody too.
    assert_eq!(read(&path, 412.0).stuck.need_somebody, 3);
}

/// Leases of every end, and a pause that keeps two records of three.
fn paused(place: &Place) -> PathBuf {
    let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
    run(async {
        let first = Engine::in_memory(&disk).clock(clock.clone()).open().await.expect("it opens");
        let flow = first.dispatch();
        for id in ["event-1", "event-2"] {
            flow.enqueue(change(id), 5).await.expect("it is valid");
        }
        let claim = flow.claim("w", 60.0).await.expect("a claim").expect("due");
        flow.release(&claim).await.expect("it is its own");
        for _ in 0..2 {
            flow.claim("w", 60.0).await.expect("a claim").expect("due");
        }
        // One runs out, the other is of an engine that is gone.
        clock.set(130.0);
        drop(first);
        let second = Engine::in_memory(&disk).clock(clock.clone()).open().await.expect("it opens");
        let flow = second.dispatch();
        flow.claim("w", 60.0).await.expect("a claim").expect("due");
        clock.set(190.0);
        flow.claim("w", 60.0).await.expect("a claim").expect("due");
        let claim = flow.claim("w", 60.0).await.expect("a claim").expect("due");
        flow.complete(&claim, accepted(claim.request().event_id.as_str(), 2)).await.expect("live");
        let other = change("event-3").replace("site-1", "site-2");
        flow.enqueue(other, 5).await.expect("it is valid");
        for scope in ["site/site-1", "flow/dispatch", "site/site-9"] {
            let scope = Scope::new(scope).expect("a scope");
            second.pause(scope, "maria", "<b>it is being mended").await.expect("it is");
        }
        second.close().await;
    });
    exported(&disk, place)
}

#[test]
fn what_is_paused_is_in_the_headline_and_in_a_table_with_what_waits_for_it() {
    let place = Place::new();
    let facts = read(&paused(&place), 200.0);
    assert_eq!(facts.verdict(), Verdict::Paused);
    let headline = "Everything verifies; paused: flow/dispatch, site/site-1, site/site-9. \
                    1 record waits for that.";
    assert_eq!(document::headline(&facts), headline);
    let waiting = facts.pauses.scopes.iter().map(|paused| facts.pauses.waiting(&paused.scope));
    assert_eq!(waiting.collect::<Vec<_>>(), [2, 1, 0]);
    assert_eq!((facts.stuck.open, facts.stuck.paused, facts.stuck.need_somebody), (2, 1, 0));
    let page = document::document(&facts, &about(200.0));
    assert!(page.contains(headline) && page.contains("&lt;b&gt;it is being mended"));
    assert!(!page.contains("<b>it"), "{page}");
    // What needs somebody goes first, and the pauses are told beside.
    let facts = read(&paused(&place), 260.0);
    assert_eq!(facts.verdict(), Verdict::NeedsSomebody);
    assert!(
        document::headline(&facts).ends_with("; paused: flow/dispatch, site/site-1, site/site-9.")
    );
}

#[test]
fn leases_are_counted_by_how_they_ended() {
    let place = Place::new();
    let facts = read(&paused(&place), 200.0);
    let Leases { taken, released, expired, abandoned, lost_in_a_row_max } = facts.leases;
    assert_eq!((taken, released), (6, 1));
    assert_eq!((expired, abandoned, lost_in_a_row_max), (1, 2, 2));
}

#[test]
fn whatever_comes_from_outside_is_escaped() {
    let mut facts = Facts::unreadable(&JournalError::Corrupt { sequence: 0 });
    let hostile = || HOSTILE.to_owned();
    facts.audit.journal = Some(hostile());
    facts.audit.head = Some(hostile());
    facts.audit.findings.push(Finding {
        code: hostile(),
        sequence: None,
        flow: None,
        id: Some(hostile()),
        message: hostile(),
    });
    let example = Some(hostile());
    facts.failures.push(Failure {
        flow: "dispatch",
        code: hostile(),
        attempts: 1,
        records: 1,
        example,
    });
    let place = explain::Place::folder(HOSTILE);
    facts.stuck.take(explain_quarantined::<Dispatch>(Some(HOSTILE), None, HOSTILE, None, &place));
    let about = About { title: HOSTILE, name: HOSTILE, is_archive: false, now: at(1.0) };
    let page = document(&facts, &about);
    assert!(page.matches("&lt;img src=x").count() >= 12, "it is shown");
    for raw in ["<img", "onerror=alert(1)>", "&\"'"] {
        assert!(!page.contains(raw), "{raw}");
    }
}

#[test]
fn a_page_needs_nothing_and_runs_nothing_and_carries_no_payload() {
    let place = Place::new();
    let page = document(&read(&lived(&place), 353.0), &about(353.0));
    for word in ["<script", "<link", "<img", "src=", "href", "@import", "url(", "://", "Kaffee"] {
        assert!(!page.contains(word), "{word}");
    }
    assert!(!page.contains("somewhere"), "no folder of the machine it was made on");
    let ids = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let ids: Vec<&str> = ids.collect();
    let once: BTreeSet<_> = ids.iter().collect();
    assert!(!ids.is_empty() && once.len() == ids.len(), "{ids:?}");
}

fn leasehold(arguments: &[&str], folder: &Path) -> (Option<i32>, String) {
    let output = program().args(arguments).current_dir(folder).output().expect("it runs");
    (output.status.code(), damage::text(&output))
}

#[test]
fn the_program_writes_a_report_whole_and_never_over_another_file_unasked() {
    let place = Place::new();
    let folder = place.path(".");
    let run = ["run", "--sandbox", &example("changes.ndjson"), "--journal", "journal"];
    assert_eq!(leasehold(&run, &folder).0, Some(0));
    let report = ["report", "journal", "-o", "report.html", "--title", "Our journal"];
    let (code, said) = leasehold(&report, &folder);
    assert_eq!(code, Some(0), "{said}");
    let page = std::fs::read_to_string(place.path("report.html")).expect("it is there");
    assert!(page.contains("All is well") && page.contains("<h1>Our journal</h1>"));
    let (code, said) = leasehold(&report, &folder);
    assert_eq!((code, said.contains("output_unwritable")), (Some(3), true), "{said}");
    assert_eq!(std::fs::read_to_string(place.path("report.html")).expect("still there"), page);
    let (code, said) = leasehold(&[&report[..], &["--force"]].concat(), &folder);
    assert_eq!(code, Some(0), "{said}");
    // The commands it names answer what it says.
    let head = page.split("--expect-head ").nth(1).expect("a head").get(..64).expect("64 digits");
    let audit = ["audit", "journal", "--expect-head", head];
    assert_eq!(leasehold(&audit, &folder).0, Some(0));
    let nowhere = ["report", "journal", "-o", "no/such/folder.html"];
    assert_eq!(leasehold(&nowhere, &folder).0, Some(3));
    let names =
        std::fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("one").file_name());
    let left = names.filter(|name| name.to_string_lossy().starts_with(".tmp")).count();
    assert_eq!(left, 0, "nothing half written is left");
}

#[test]
fn a_journal_that_does_not_verify_has_a_report_that_says_so() {
    let place = Place::new();
    let path = lived(&place);
    let mut bytes = std::fs::read(&path).expect("an archive");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).expect("writable");
    let arguments = ["report", "archive", "-o", "report.html"];
    let (code, said) = leasehold(&arguments, &place.path("."));
    assert_eq!(code, Some(1), "{said}");
    let page = std::fs::read_to_string(place.path("report.html")).expect("it is written");
    assert!(
        page.contains("Not everything in this journal verifies")
            && page.contains("journal_corrupt")
    );
    std::fs::write(place.path("no.leasehold"), "no archive").expect("writable");
    let arguments = ["report", "no.leasehold", "-o", "another.html"];
    let (code, said) = leasehold(&arguments, &place.path("."));
    assert_eq!(code, Some(3), "{said}");
    assert!(!place.path("another.html").exists());
}
