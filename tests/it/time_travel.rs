//! Time travel: every point of a journal is told as it was lived, by number and by time.

mod model;

use crate::main_job::{Place, printed};
use crate::support::{change, engine, program, run};
use leasehold::audit::{Past, Source, TravelError, Until};
use leasehold::{
    Delivery, Dispatch, Durability, Engine, JournalError, Lifecycle, ManualClock, MemoryDisk,
    Notify, Processing,
};
use leasehold_actors::codec;
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::record::{Flow, FlowTag, identity};
use leasehold_journal::archive;
use leasehold_journal::walk::Item;
use model::{Note, live, moves, told};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Output;

const IDS: [&str; 3] = ["event-1", "event-2", "event-3"];
/// 2023-11-14T22:13:20Z.
const START: f64 = 1_700_000_000.0;

/// The time of each journal record, read without the code under test.
fn times(source: &Source) -> Vec<Timestamp> {
    fn at<F: Flow>(body: &[u8]) -> Timestamp {
        codec::decode::<F>(body).expect("the engine wrote it").at()
    }
    let mut times = Vec::new();
    let walked = source.walk(&mut |item| {
        if let Item::Record { stream, record, .. } = item {
            let body = record?.body;
            times.push(match identity::flow_of(stream).expect("a flow of ours") {
                FlowTag::Dispatch => at::<Dispatch>(&body),
                FlowTag::Lifecycle => at::<Lifecycle>(&body),
                FlowTag::Notification => at::<Notify>(&body),
                FlowTag::Processing => at::<Processing>(&body),
                FlowTag::Delivery => at::<Delivery>(&body),
            });
        }
        Ok(())
    });
    assert_eq!(walked.stopped, None);
    times
}

/// Everything on a disk as an archive in this folder.
pub(crate) fn exported(disk: &MemoryDisk, place: &Place) -> PathBuf {
    let (path, mut bytes) = (place.path("archive"), Vec::new());
    archive::export(&disk.medium(), &mut bytes).expect("it verifies");
    std::fs::write(&path, bytes).expect("writable");
    path
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_point_is_told_as_it_was_lived_by_number_and_by_time(moves in moves()) {
        let (disk, place) = (MemoryDisk::new(), Place::new());
        let notes = run(live(&moves, &disk));
        let source = Source::open(&exported(&disk, &place)).expect("an archive");
        let times = times(&source);
        for Note { sequence, now, lived } in notes {
            let past = Past::read(&source, Until::Sequence(sequence)).expect("it is there");
            prop_assert_eq!((past.sequence, past.end), (sequence, times.len() as u64));
            let last = times[..sequence as usize].last().copied();
            prop_assert_eq!((past.at, past.as_of), (last, last.unwrap_or(Timestamp::ZERO)));
            prop_assert_eq!(&past.damaged, &None);
            prop_assert_eq!(told(&past, now), lived);
            // By time it is the longest beginning of the journal in which nothing is later.
            let early = times.iter().take_while(|at| **at <= now).count() as u64;
            let past = Past::read(&source, Until::Time(now)).expect("it is there");
            prop_assert_eq!((past.sequence, past.as_of), (early, now));
            let same = Past::read(&source, Until::Sequence(early)).expect("it is there");
            prop_assert_eq!(told(&past, now), told(&same, now));
        }
    }
}

/// An archive of four changes, of which the third was enqueued after the clock went back.
fn four() -> (Place, PathBuf) {
    let (disk, place) = (MemoryDisk::new(), Place::new());
    run(async {
        let clock = ManualClock::at(START);
        let engine = engine(&disk, &clock).await;
        for (number, after) in [0.0, 100.0, 50.0, 200.0].into_iter().enumerate() {
            clock.set(START + after);
            let change = change(&format!("event-{}", number + 1));
            engine.dispatch().enqueue(change, 5).await.expect("it is valid");
        }
        engine.close().await;
    });
    let path = exported(&disk, &place);
    (place, path)
}

fn read(path: &Path, until: Until) -> Result<Past, TravelError> {
    Past::read(&Source::open(path).expect("an archive"), until)
}

fn at(seconds: f64) -> Until {
    Until::Time(Timestamp::new(seconds).expect("a time"))
}

#[test]
fn a_time_ends_before_the_first_later_record_whatever_stands_after_it() {
    let (_place, path) = four();
    for (after, sequence) in [(-1.0, 0), (0.0, 1), (60.0, 1), (99.5, 1), (100.0, 3), (999.0, 4)] {
        let past = read(&path, at(START + after)).expect("it is there");
        assert_eq!((past.sequence, past.end), (sequence, 4), "{after}");
        assert_eq!(past.states.rows().len() as u64, sequence, "{after}");
        assert_eq!(past.as_of.seconds(), START + after);
    }
}

#[test]
fn a_record_that_was_never_written_is_refused_and_the_last_one_is_not() {
    let (_place, path) = four();
    assert_eq!(read(&path, Until::Sequence(4)).expect("the last one").states.rows().len(), 4);
    let error = read(&path, Until::Sequence(5)).expect_err("there is none");
    assert_eq!(error, TravelError::SequenceMissing { end: 4 });
    assert_eq!(error.code(), "sequence_missing");
    let before = read(&path, Until::Sequence(0)).expect("before the first one");
    assert_eq!((before.at, before.states.rows()), (None, Vec::new()));
}

#[test]
fn damage_hides_what_follows_it_and_not_what_was_before() {
    let (_place, path) = four();
    let whole = std::fs::read(&path).expect("readable");
    let damage = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(&path, bytes).expect("writable");
    };
    let corrupt = |sequence| Some(JournalError::Corrupt { sequence });
    damage(whole.len() - 60); // in the last frame: only the end's 45 bytes follow it
    for until in [Until::Sequence(3), Until::Sequence(0), at(START + 60.0)] {
        let past = read(&path, until).expect("it lies before the damage");
        assert_eq!((past.end, past.damaged), (3, corrupt(4)), "{until:?}");
    }
    for until in [Until::Sequence(4), Until::Sequence(9), at(START + 999.0)] {
        let error = read(&path, until).expect_err("nobody can tell");
        assert_eq!(error, TravelError::Journal(JournalError::Corrupt { sequence: 4 }), "{until:?}");
    }
    damage(40); // in the first frame
    for until in [Until::Sequence(0), at(0.0)] {
        assert_eq!(read(&path, until).expect_err("nothing verifies").code(), "journal_corrupt");
    }
}

fn replay(path: &Path, arguments: &[&str]) -> Output {
    program().arg("replay").arg(path).args(arguments).output().expect("the program runs")
}

#[test]
fn the_program_tells_a_point_by_number_and_by_time_and_prints_where_it_stopped() {
    let (_place, path) = four();
    for (until, sequence) in [
        ("2", 2_usize),
        ("0", 0),
        ("2023-11-14T22:13:20Z", 1),
        ("2023-11-14T23:15:00+01:00", 3),
        ("@1700000000", 1),
        ("@1700000199.5", 3),
    ] {
        let output = replay(&path, &["--until", until, "--json"]);
        assert_eq!(output.status.code(), Some(0), "{until}");
        let told = printed(&output);
        assert_eq!((&told["sequence"], &told["end"]), (&sequence.into(), &4.into()), "{until}");
        assert_eq!(told["records"].as_array().map(Vec::len), Some(sequence), "{until}");
        assert_eq!(told["health"]["dispatch"]["counts"]["pending"], sequence, "{until}");
        assert_eq!(told["damaged"], Value::Null);
    }
    let due = |arguments: &[&str]| {
        let told = printed(&replay(&path, &[&["--until", "2", "--json"][..], arguments].concat()));
        (told["as_of"].clone(), told["health"]["dispatch"]["due"].clone())
    };
    assert_eq!(due(&[]), (json!(START + 100.0), json!(2)), "as of the last record");
    assert_eq!(due(&["--as-of", "1700000000"]), (json!(START), json!(1)));
    let told = printed(&replay(&path, &["--until", "2", "--json", "--flow", "delivery"]));
    let flows = told["health"].as_object().expect("an object");
    assert!(flows.keys().eq(["delivery"]), "{told}");
    assert_eq!(told["records"], json!([]));
    let text = String::from_utf8(replay(&path, &["--until", "2"]).stdout).expect("text");
    let first = "after record 2 of 4 (2023-11-14T22:15:00Z), judged as of 2023-11-14T22:15:00Z";
    assert_eq!(text.lines().next(), Some(first));
    assert!(text.contains("event-2") && !text.contains("event-3"), "{text}");
}

#[test]
fn a_folder_is_replayed_as_an_archive_is() {
    let place = Place::new();
    let path = place.path("journal");
    run(async {
        let engine = Engine::builder(&path)
            .clock(ManualClock::at(START))
            .durability(Durability::ProcessSafe)
            .open()
            .await
            .expect("a new journal");
        for id in IDS {
            engine.dispatch().enqueue(change(id), 5).await.expect("it is valid");
        }
        engine.close().await;
    });
    let output = replay(&path, &["--until", "2", "--json"]);
    assert_eq!((output.status.code(), &printed(&output)["end"]), (Some(0), &3.into()));
}

#[test]
fn the_program_refuses_what_is_no_point_and_what_is_not_there() {
    let (place, path) = four();
    let none = place.path("none");
    let cases: [(&Path, &[&str], i32, &str); 7] = [
        (&path, &["--until", "5"], 3, "sequence_missing: the journal ends at record 4"),
        (&path, &["--until", "yesterday"], 2, "2026-11-01T10:00:00Z"),
        (&path, &["--until", "@-1"], 2, "2026-11-01T10:00:00Z"),
        (&path, &["--until", "99999999999999999999"], 2, "64 bits"),
        (&path, &["--until", "1", "--as-of", "nan"], 2, "usage"),
        (&path, &[], 2, "--until"),
        (&none, &["--until", "1"], 3, "journal_missing"),
    ];
    for (path, arguments, code, said) in cases {
        let output = replay(path, arguments);
        let text = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(said), "{arguments:?}: {text}");
    }
    let mut bytes = std::fs::read(&path).expect("readable");
    let last = bytes.len() - 60;
    bytes[last] ^= 1;
    std::fs::write(&path, bytes).expect("writable");
    let output = replay(&path, &["--until", "3", "--json"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("journal_corrupt: nothing after record 3 verifies"), "{text}");
    let told = printed(&output);
    assert_eq!((output.status.code(), &told["damaged"]), (Some(1), &json!("journal_corrupt")));
}
