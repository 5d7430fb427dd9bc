//! Scopes that were paused: the script judges them as the library does, sound or not.

use super::lives::bytes_of;
use super::{ID, codes, flipped, verdicts};
use crate::support::run;
use leasehold::{Engine, ManualClock, MemoryDisk, Scope};
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::control::{Event, form};
use leasehold_actors::record::{Intervention, OperatorName, Reason};
use leasehold_journal::{Append, Log, LogOptions, Store as _};
use std::collections::BTreeSet;

fn scope(text: &str) -> Scope {
    Scope::new(text).expect("a scope")
}

/// The bodies of a scope that was paused twice.
fn bodies(text: &str) -> Vec<Vec<u8>> {
    let at = |seconds| Timestamp::new(seconds).expect("a time");
    let intervention = || {
        let by = OperatorName::new("maria@example.org").expect("a name");
        Intervention { by, why: Reason::new("Schlüssel erneuert").expect("a reason") }
    };
    let events = [
        Event::Named { at: at(100.0), scope: scope(text) },
        Event::Paused { at: at(100.0), intervention: intervention() },
        Event::Resumed { at: at(200.0), intervention: intervention() },
        Event::Paused { at: at(300.0), intervention: intervention() },
    ];
    events.iter().map(|event| form::encode(event).expect("it is small")).collect()
}

/// An archive with these events of one scope.
fn archived(text: &str, bodies: Vec<Vec<u8>>) -> Vec<u8> {
    let disk = MemoryDisk::new();
    let options = LogOptions { new_id: ID, create: true };
    let mut log = Log::open(disk.medium(), options, &mut |_| Ok(())).expect("a new one");
    let append = Append { stream: scope(text).stream(), expected_version: 0, bodies, alone: None };
    log.commit(&[append]).expect("memory takes everything")[0].expect("the stream is new");
    bytes_of(&disk)
}

#[test]
fn scopes_that_an_engine_paused_are_counted_alike() {
    let disk = MemoryDisk::new();
    run(async {
        let builder = Engine::in_memory(&disk).clock(ManualClock::at(100.0));
        let engine = builder.open().await.expect("it opens");
        for text in ["flow/delivery", "site/site-1", "destination/cms"] {
            engine.pause(scope(text), "maria", "because").await.expect("it is");
        }
        engine.resume(scope("site/site-1"), "maria", "because").await.expect("it does");
        engine.close().await;
    });
    let Some(reports) = verdicts(&[bytes_of(&disk)]) else { return };
    assert_eq!(reports[0]["clean"], true);
    let counts = serde_json::json!({ "control": { "open": 1, "paused": 2 } });
    assert_eq!(reports[0]["flows"], counts);
}

#[test]
fn every_damaged_life_of_a_scope_is_judged_alike() {
    let mut archives = Vec::new();
    for text in ["flow/lifecycle", "site/site-1", "destination/receiver"] {
        let whole = bodies(text);
        archives.push(archived(text, whole.clone()));
        archives.push(archived("site/elsewhere", whole.clone()));
        for (place, body) in whole.iter().enumerate() {
            let mut with = |bodies: Vec<Vec<u8>>| {
                let life = [&whole[..place], &bodies[..], &whole[place + 1..]].concat();
                archives.push(archived(text, life));
            };
            (0..body.len()).for_each(|at| with(vec![flipped(body, at)]));
            with(vec![body[..body.len() - 1].to_vec()]);
            with(vec![[&body[..], b"\0"].concat()]);
            with(vec![body.clone(), body.clone()]);
            with(Vec::new());
        }
    }
    let Some(reports) = verdicts(&archives) else { return };
    let found: BTreeSet<_> = reports.iter().flat_map(codes).collect();
    assert_eq!(found, BTreeSet::from(["record_invalid", "replay_invalid"]));
    assert_eq!(reports[0]["clean"], true);
}
