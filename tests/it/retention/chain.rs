//! The audit over archives and journal: one chain, and what breaks it.

use super::{archived, at, attempted, audited, copied, engine, mixed};
use crate::main_job::Place;
use crate::support::{accepted, program, run};
use leasehold::audit::{Report, Source, States, audit};
use leasehold::{Durability, HandOver, ManualClock};
use leasehold_actors::flows::all::AllFlows;
use leasehold_actors::record::{FlowTag, stream_of};
use leasehold_journal::sled::SledMedium;
use leasehold_journal::walk::Item;
use leasehold_journal::{Head, JournalId, Log, LogOptions};
use std::path::PathBuf;

/// A journal with two archives, and their files.
async fn twice(place: &Place) -> [PathBuf; 2] {
    let clock = ManualClock::at(100.0);
    mixed(place, &clock).await;
    let first = archived(place, 400.0);
    let engine = engine(place, &clock, HandOver::default()).await;
    attempted(&engine, "event-later", Ok(accepted("event-retried", 2))).await;
    engine.close().await;
    let second = archived(place, 501.0);
    [first, second].map(|moved| place.path("archives").join(moved.file))
}

fn codes(report: &Report) -> Vec<(&str, Option<u64>)> {
    report.findings.iter().map(|it| (it.code.as_str(), it.sequence)).collect()
}

#[test]
fn a_changed_byte_in_an_archive_is_found_with_its_record() {
    run(async {
        let place = Place::new();
        let files = twice(&place).await;
        assert_eq!(codes(&audited(&place, Some("archives"))), []);
        for file in files {
            let bytes = std::fs::read(&file).expect("readable");
            for at in (0..bytes.len()).step_by(bytes.len() / 40) {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x10;
                std::fs::write(&file, damaged).expect("writable");
                let report = audited(&place, Some("archives"));
                assert!(!report.clean, "byte {at}");
                let [(code, _)] = codes(&report)[..] else { panic!("byte {at}: {report:?}") };
                let known = ["journal_corrupt", "journal_diverged", "journal_not_a_journal"];
                assert!(known.contains(&code), "byte {at}: {code}");
            }
            std::fs::write(&file, bytes).expect("writable");
        }
        assert!(audited(&place, Some("archives")).clean);
    });
}

#[test]
fn a_missing_archive_is_named_by_its_first_record() {
    run(async {
        let place = Place::new();
        let files = twice(&place).await;
        for (file, first) in files.iter().zip([1, 10]) {
            let away = place.path("away");
            std::fs::rename(file, &away).expect("movable");
            let report = audited(&place, Some("archives"));
            assert_eq!(codes(&report), [("journal_archive_missing", Some(first))]);
            std::fs::rename(&away, file).expect("movable");
        }
        let report = audited(&place, Some("nowhere"));
        assert_eq!(codes(&report), [("journal_archive_missing", Some(1))]);
    });
}

#[test]
fn an_archive_of_another_journal_is_not_taken_for_ours() {
    run(async {
        let (place, other) = (Place::new(), Place::new());
        let files = twice(&place).await;
        let others = twice(&other).await;
        // Beside ours, under its own name, it is nobody's business.
        let name = others[0].file_name().expect("a name");
        std::fs::copy(&others[0], place.path("archives").join(name)).expect("copied");
        assert!(audited(&place, Some("archives")).clean);
        for (ours, foreign, first) in [(&files[0], &others[0], 0), (&files[1], &others[1], 9)] {
            let bytes = std::fs::read(ours).expect("readable");
            std::fs::copy(foreign, ours).expect("copied");
            let report = audited(&place, Some("archives"));
            assert_eq!(codes(&report), [("journal_diverged", Some(first))]);
            std::fs::write(ours, bytes).expect("writable");
        }
    });
}

#[test]
fn an_expected_head_from_before_the_base_is_found_in_the_archives() {
    run(async {
        let place = Place::new();
        let clock = ManualClock::at(100.0);
        mixed(&place, &clock).await;
        let mut heads = Vec::new();
        let journal = place.path("journal");
        Source::open(&journal).expect("it opens").walk(&mut |item| {
            heads.extend(if let Item::Frame(head) = item { Some(head) } else { None });
            Ok(())
        });
        let base = archived(&place, 400.0).last;
        for head in heads {
            let found = |archives: Option<PathBuf>| {
                let source = Source::open(&journal).expect("it opens").with_archives(archives);
                audit(&source, Some(head.hash)).clean
            };
            assert!(found(Some(place.path("archives"))));
            assert_eq!(found(None), head.sequence >= base, "the base itself is known");
        }
    });
}

/// Makes the journal anew with one stream's image changed, as somebody might who can write the folder.
fn forged(place: &Place, until: Head, forge: impl Fn(Vec<u8>) -> Vec<u8>) {
    let medium = SledMedium::open(&place.path("journal"), false, Durability::PowerSafe);
    let mut flows = AllFlows::default();
    let options = LogOptions { new_id: JournalId([0; 16]), create: false };
    let log = Log::open(medium.expect("it opens"), options, &mut |item| {
        if let Item::Carried { stream, image, .. } = item {
            flows.carry(stream, Some(&image?)).expect("ours").expect("it is sound");
        }
        Ok(())
    });
    let done = stream_of(FlowTag::Dispatch, "event-done");
    let rebased = log.expect("it verifies").rebase(until, &mut |reader, stream| {
        let image = reader.carried(stream)?.expect("it is archived").image;
        Ok(if stream == done { forge(image) } else { image })
    });
    rebased.expect("it is the base already");
}

#[test]
fn a_final_state_that_does_not_follow_from_the_archives_is_found() {
    run(async {
        let place = Place::new();
        let clock = ManualClock::at(100.0);
        mixed(&place, &clock).await;
        let moved = archived(&place, 400.0);
        let hash = leasehold_journal::Digest::from_hex(&moved.head).expect("hex");
        let head = Head { sequence: moved.last, hash };
        forged(&place, head, |image| image);
        assert!(audited(&place, Some("archives")).clean, "nothing was changed");
        // Another number of attempts: sound in itself.
        forged(&place, head, |mut image| {
            let attempts =
                image.iter().rposition(|byte| *byte == 1).expect("it was attempted once");
            image[attempts] = 2;
            image
        });
        let report = audited(&place, Some("archives"));
        let found = codes(&report);
        assert!(matches!(found[..], [("base_differs", Some(_))]), "{found:?}");
    });
}

#[test]
fn an_export_of_a_journal_with_a_base_is_read_like_the_journal() {
    run(async {
        let place = Place::new();
        twice(&place).await;
        let (journal, export) = (place.path("journal"), place.path("whole.leasehold"));
        let status = program().arg("export").arg(&journal).arg(&export).status();
        assert_eq!(status.expect("it runs").code(), Some(0));
        let rows = |path| {
            let source = Source::open(path).expect("it opens");
            States::read(&source).expect("it verifies").0.rows()
        };
        assert_eq!(rows(&export), rows(&journal));
        let source = || Source::open(&export).expect("it opens");
        let report = audit(&source(), None);
        assert!(report.clean && report.archived > 0, "{report:?}");
        let chained = audit(&source().with_archives(Some(place.path("archives"))), None);
        let folder = audited(&place, Some("archives"));
        assert_eq!((chained.clean, chained.archived), (true, 0));
        assert_eq!((chained.head, chained.records), (folder.head, folder.records));
        let health = program().arg("health").arg(&export).output().expect("it runs");
        assert_eq!(health.status.code(), Some(1), "one failed");
        assert!(audit(&source(), None).flows == folder.flows);
    });
}

#[test]
fn a_later_part_is_verified_after_those_before_it_and_not_alone() {
    run(async {
        let place = Place::new();
        let [_, second] = twice(&place).await;
        let verify = |more: &[&str]| {
            let mut command = program();
            command.arg("verify").arg(&second).args(more);
            command.output().expect("it runs")
        };
        let alone = verify(&[]);
        assert_eq!(alone.status.code(), Some(3));
        let said = String::from_utf8(alone.stderr).expect("text");
        assert!(said.contains("journal_archive_part"), "{said}");
        let folder = place.path("archives");
        let chained = verify(&["--archives", folder.to_str().expect("text")]);
        assert_eq!(chained.status.code(), Some(0), "{chained:?}");
    });
}

#[test]
fn a_journal_put_back_to_before_it_was_archived_is_whole_and_an_older_one_is_refused() {
    run(async {
        let (place, clock) = (Place::new(), ManualClock::at(100.0));
        mixed(&place, &clock).await;
        let (journal, before) = (place.path("journal"), place.path("before"));
        copied(&journal, &before);
        archived(&place, 400.0);
        let rows = States::read(&Source::open(&journal).expect("opens")).expect("fine").0.rows();
        let after = place.path("after");
        std::fs::rename(&journal, &after).expect("movable");
        copied(&before, &journal);
        // Archiving appends nothing, so the heads are the same.
        assert!(audited(&place, None).clean);
        let back = States::read(&Source::open(&journal).expect("opens")).expect("fine").0.rows();
        assert_eq!(back, rows);
        std::fs::remove_dir_all(&journal).expect("removable");
        copied(&after, &journal);
        let engine = engine(&place, &clock, HandOver::default()).await;
        attempted(&engine, "event-later", Ok(accepted("event-retried", 2))).await;
        engine.close().await;
        std::fs::remove_dir_all(&journal).expect("removable");
        copied(&after, &journal);
        let report = audited(&place, Some("archives"));
        assert!(matches!(codes(&report)[..], [("journal_behind_anchor", Some(10))]), "{report:?}");
        let again = leasehold::retention::archive(&journal, &place.path("archives"), at(501.0));
        assert_eq!(
            again.expect_err("it is behind").to_string().split(':').next(),
            Some("journal_behind_anchor")
        );
    });
}
