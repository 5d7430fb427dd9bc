//! What is paused, as it lies in a journal: audit, time travel, archives, bytes.

use super::{change_of, pause, resume, scope};
use crate::main_job::Place;
use crate::support::{change, engine, run, snapshots};
use crate::time_travel::exported;
use crate::wire::hex;
use leasehold::audit::{Past, Report, Source, States, Until, audit};
use leasehold::{Engine, ManualClock, MemoryDisk, retention};
use leasehold_actors::codec::DecodeError;
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::control::{Control, Event, Kept, Scope, form};
use leasehold_actors::invariants::{P1, P2};
use leasehold_actors::record::{Intervention, OperatorName, Reason};
use leasehold_journal::{
    Append, JournalId, Log, LogOptions, Store as _, StoreReader as _, StreamId,
};

fn at(seconds: f64) -> Timestamp {
    Timestamp::new(seconds).expect("a time")
}

fn by(name: &str) -> Intervention {
    let why = Reason::new("Schlüssel erneuert").expect("a reason");
    Intervention { by: OperatorName::new(name).expect("a name"), why }
}

fn told(paused: &[leasehold::PausedScope]) -> Vec<String> {
    paused.iter().map(|paused| paused.scope.to_string()).collect()
}

#[test]
fn a_pause_and_what_it_put_aside_are_in_the_checkpoint_of_a_close() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let first = engine(&disk, &clock).await;
        first.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
        pause(&first, "site/site-1").await;
        let claimed = first.dispatch().claim("w", 60.0).await.expect("it can be asked");
        assert!(claimed.is_none(), "its record is put aside");
        first.close().await;
        let second = engine(&disk, &clock).await;
        assert!(second.resumed());
        assert_eq!(told(&second.paused()), ["site/site-1"]);
        let claimed = second.dispatch().claim("w", 60.0).await.expect("it can be asked");
        assert!(claimed.is_none());
        resume(&second, "site/site-1").await;
        second.close().await;
        let third = engine(&disk, &clock).await;
        assert!(third.resumed() && third.paused().is_empty());
        let claimed = third.dispatch().claim("w", 60.0).await.expect("it can be asked");
        assert!(claimed.is_some());
    });
}

#[test]
fn what_was_paused_is_audited_counted_and_told_as_it_was_at_every_point() {
    run(async {
        let (disk, place) = (MemoryDisk::new(), Place::new());
        let clock = ManualClock::at(100.0);
        let engine = engine(&disk, &clock).await;
        engine.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
        pause(&engine, "flow/dispatch").await; // 2 and 3
        clock.set(200.0);
        pause(&engine, "site/site-1").await; // 4 and 5
        clock.set(300.0);
        resume(&engine, "flow/dispatch").await; // 6
        engine.close().await;
        let path = exported(&disk, &place);
        let source = || Source::open(&path).expect("an archive");
        let report = audit(&source(), None);
        assert!(report.clean, "{report:?}");
        let counts = &report.flows["control"];
        assert_eq!((counts["open"], counts["paused"], report.records), (1, 1, 6));
        let (states, _) = States::read(&source()).expect("it verifies");
        assert_eq!(told(&states.flows.controls.paused()), ["site/site-1"]);
        let both = vec!["flow/dispatch", "site/site-1"];
        for (sequence, expected) in [
            (1, vec![]),
            (2, vec![]),
            (3, vec!["flow/dispatch"]),
            (4, vec!["flow/dispatch"]),
            (5, both.clone()),
            (6, vec!["site/site-1"]),
        ] {
            let past = Past::read(&source(), Until::Sequence(sequence)).expect("it is there");
            assert_eq!(told(&past.states.flows.controls.paused()), expected, "{sequence}");
        }
        let past = Past::read(&source(), Until::Time(at(299.0))).expect("it is there");
        assert_eq!(told(&past.states.flows.controls.paused()), both);
        assert_eq!((past.sequence, past.at), (5, Some(at(200.0))));
    });
}

/// The report on a journal with these events in this stream.
fn judged(stream: StreamId, bodies: Vec<Vec<u8>>) -> Report {
    let (disk, place) = (MemoryDisk::new(), Place::new());
    let options = LogOptions { new_id: JournalId([7; 16]), create: true };
    let mut log = Log::open(disk.medium(), options, &mut |_| Ok(())).expect("a new one");
    let append = Append { stream, expected_version: 0, bodies, alone: None };
    log.commit(&[append]).expect("it is written")[0].expect("the stream is new");
    drop(log);
    audit(&Source::open(&exported(&disk, &place)).expect("an archive"), None)
}

fn found(report: &Report) -> Vec<(&str, Option<u64>, Option<&str>)> {
    report.findings.iter().map(|it| (it.code.as_str(), it.sequence, it.flow)).collect()
}

fn body(event: &Event) -> Vec<u8> {
    form::encode(event).expect("it is small")
}

#[test]
fn p1_p2_what_does_not_alternate_or_lies_elsewhere_is_found_by_the_audit() {
    let (home, now) = (scope("site/site-1"), at(5.0));
    let named = body(&Event::Named { at: now, scope: home.clone() });
    let paused = body(&Event::Paused { at: now, intervention: by("maria") });
    let resumed = body(&Event::Resumed { at: at(4.0), intervention: by("maria") });
    let illegal = |sequence| vec![("replay_invalid", Some(sequence), Some("control"))];
    let stream = home.stream();
    let life = |bodies: &[&Vec<u8>]| bodies.iter().map(|it| (*it).clone()).collect::<Vec<_>>();
    assert_eq!(found(&judged(stream, life(&[&named, &paused]))), []);
    let twice = judged(stream, life(&[&named, &paused, &paused, &paused]));
    assert_eq!(found(&twice), illegal(3), "{}", P1.sentence);
    assert_eq!(twice.flows["control"]["quarantined"], 1);
    let early = judged(stream, life(&[&named, &paused, &resumed]));
    assert_eq!(found(&early), illegal(3), "{}", P1.sentence);
    assert_eq!(found(&judged(stream, life(&[&paused]))), illegal(1), "{}", P1.sentence);
    let elsewhere = judged(scope("site/site-2").stream(), life(&[&named]));
    assert_eq!(found(&elsewhere), illegal(1), "{}", P2.sentence);
    // An empty name is no intervention, and no event.
    let mut nobody = paused.clone();
    let place = nobody.iter().position(|byte| *byte == b'm').expect("maria");
    nobody.splice(place - 1..place + 5, [0]);
    let nameless = judged(stream, life(&[&named, &nobody]));
    assert_eq!(found(&nameless), [("record_invalid", Some(2), Some("control"))]);
}

#[test]
fn a_scope_that_does_not_replay_holds_nothing_back_and_takes_no_command() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let first = engine(&disk, &clock).await;
        first.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
        pause(&first, "site/site-1").await;
        first.close().await;
        let options = LogOptions { new_id: JournalId([5; 16]), create: false };
        let mut log = Log::open(disk.medium(), options, &mut |_| Ok(())).expect("it verifies");
        let (stream, expected_version) = (scope("site/site-1").stream(), 2);
        let bodies = vec![body(&Event::Named { at: at(100.0), scope: scope("site/site-1") })];
        assert_eq!(log.reader().version(stream), expected_version);
        let placed = log.commit(&[Append { stream, expected_version, bodies, alone: None }]);
        placed.expect("it is written")[0].expect("it is where it was");
        drop(log);
        let second = engine(&disk, &clock).await;
        assert_eq!(second.paused(), []);
        let refused = second.pause(scope("site/site-1"), "maria", "because").await;
        assert_eq!(crate::support::code(refused), "control.state_invalid");
        assert!(second.dispatch().claim("w", 60.0).await.expect("it answers").is_some());
        pause(&second, "site/site-2").await;
    });
}

#[test]
fn a_newer_form_of_a_pause_refuses_the_journal() {
    run(async {
        let disk = MemoryDisk::new();
        let stream = scope("site/site-1").stream();
        let options = LogOptions { new_id: JournalId([5; 16]), create: true };
        let mut log = Log::open(disk.medium(), options, &mut |_| Ok(())).expect("a new one");
        let bodies = vec![vec![stream.0[0], form::VERSION + 1, 0]];
        let placed = log.commit(&[Append { stream, expected_version: 0, bodies, alone: None }]);
        placed.expect("it is written")[0].expect("the stream is new");
        drop(log);
        let opened = Engine::in_memory(&disk).open().await;
        assert_eq!(opened.expect_err("it is newer").code(), "schema_newer");
    });
}

#[test]
fn what_is_paused_is_archived_and_stays_paused_until_it_is_resumed() {
    run(async {
        let (place, clock) = (Place::new(), ManualClock::at(100.0));
        let journal = place.path("journal");
        let open = || Engine::builder(&journal).clock(clock.clone()).open();
        let audited = || {
            let source = Source::open(&journal).expect("it opens");
            audit(&source.with_archives(Some(place.path("archives"))), None)
        };
        let first = open().await.expect("it opens");
        pause(&first, "site/site-2").await;
        pause(&first, "flow/delivery").await;
        resume(&first, "flow/delivery").await;
        let paused = first.paused();
        clock.set(500.0);
        first.dispatch().enqueue(change_of("site-2", "event-1"), 5).await.expect("it is valid");
        first.close().await;
        let moved = retention::archive(&journal, &place.path("archives"), at(400.0));
        let moved = moved.expect("nothing is wrong").expect("something is old enough");
        assert_eq!((moved.last, moved.completed, moved.others), (5, 0, 2));
        let second = open().await.expect("it opens");
        assert_eq!(second.paused(), paused);
        assert!(second.dispatch().claim("w", 60.0).await.expect("it answers").is_none());
        clock.set(600.0);
        resume(&second, "site/site-2").await;
        pause(&second, "flow/delivery").await;
        assert!(second.dispatch().claim("w", 60.0).await.expect("it answers").is_some());
        second.close().await;
        let report = audited();
        assert!(report.clean && report.archived == 0, "{report:?}");
        // The next archive takes over what the first one left.
        retention::archive(&journal, &place.path("archives"), at(601.0))
            .expect("nothing is wrong")
            .expect("something is old enough");
        assert!(audited().clean);
        let (states, _) =
            States::read(&Source::open(&journal).expect("it opens")).expect("it verifies");
        assert_eq!(told(&states.flows.controls.paused()), ["flow/delivery"]);
    });
}

/// Every event, and what is kept of every state of a scope.
fn samples() -> (Vec<Event>, Vec<(&'static str, Kept)>) {
    let scope = || Scope::new("site/site-1").expect("a scope");
    let events = vec![
        Event::Named { at: at(100.0), scope: scope() },
        Event::Paused { at: at(100.0), intervention: by("maria@example.org") },
        Event::Resumed { at: at(101.5), intervention: by("paul") },
    ];
    let paused =
        Control::Paused { scope: scope(), since: at(100.0), intervention: by("maria@example.org") };
    let open = Control::Open { scope: scope(), since: at(101.5) };
    let kept = vec![
        ("open", Kept::Sound(open)),
        ("paused", Kept::Sound(paused)),
        ("quarantined", Kept::Quarantined),
    ];
    (events, kept)
}

#[test]
fn every_event_and_every_image_of_a_scope_keeps_its_bytes() {
    let (events, kept) = samples();
    snapshots("wire").bind(|| {
        for event in events {
            insta::assert_snapshot!(format!("control_v1_{}", event.name()), hex(&body(&event)));
        }
        for (name, kept) in kept {
            let image = form::encode_image(&kept).expect("it is small");
            assert_eq!(form::decode_image(&image), Ok(kept));
            insta::assert_snapshot!(format!("carried_v1_control_{name}"), hex(&image));
        }
        let streams = ["flow/dispatch", "site/site-1", "destination/cms"]
            .map(|text| format!("{text} {}", hex(&scope(text).stream().0)));
        insta::assert_snapshot!("stream_of_controls", streams.join("\n"));
    });
}

#[test]
fn every_cut_of_a_scopes_event_and_every_other_header_is_refused() {
    for event in samples().0 {
        let body = body(&event);
        assert_eq!(form::decode(&body).as_ref(), Ok(&event));
        for length in 0..body.len() {
            assert_eq!(form::decode(&body[..length]), Err(DecodeError::Invalid), "at {length}");
        }
        assert_eq!(form::decode(&[&body[..], b"\0"].concat()), Err(DecodeError::Invalid));
        for (header, error) in [
            ([1, 1], DecodeError::Invalid),
            ([9, 0], DecodeError::Invalid),
            ([9, form::VERSION + 1], DecodeError::Newer(form::VERSION + 1)),
        ] {
            let other = [&header[..], &body[2..]].concat();
            assert_eq!(form::decode(&other), Err(error));
        }
    }
}
