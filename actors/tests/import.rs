//! Rows of the reference's stores, without a store: what they become, and what is no row.

use leasehold_actors::carried::{self, Carried, Origin, image_of};
use leasehold_actors::codec;
use leasehold_actors::contract::change::Change;
use leasehold_actors::contract::text::{Sha256, WorkerToken};
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::flows::all::AllFlows;
use leasehold_actors::flows::dispatch::Dispatch;
use leasehold_actors::import::entry::Known;
use leasehold_actors::import::{Cell, Component, Entry, Meta, RowFault, check};
use leasehold_actors::record::policy::Delays;
use leasehold_actors::record::{
    Command, Event, ImportedRecord, ImportedState, Policy, State, StateKind, decide, evolve,
};
use leasehold_actors::replay::Replayed;

const CHANGES: &str = include_str!("../../examples/changes.ndjson");

fn at(seconds: f64) -> Timestamp {
    Timestamp::new(seconds).expect("a time")
}

fn change() -> Change {
    Change::parse(CHANGES.lines().next().expect("a line").as_bytes()).expect("a change")
}

fn text(value: impl Into<String>) -> Cell {
    Cell::Text(value.into())
}

const META: Meta = Meta { schema_version: 1, digest: None };

/// A row of the dispatcher, registered at 100, last touched at 110, with these columns changed.
fn row(changes: &[(&str, Cell)]) -> Vec<Cell> {
    let change = change();
    let columns = Component::Dispatch.columns();
    let mut cells: Vec<Cell> = columns
        .iter()
        .map(|column| match *column {
            "event_id" => text(change.event_id.as_str()),
            "payload_json" => text(change.payload.as_str()),
            "payload_sha256" => text(change.payload.sha256().to_string()),
            "status" => text("pending"),
            "attempts" => Cell::Integer(0),
            "max_attempts" => Cell::Integer(5),
            "created_at" => Cell::Real(100.0),
            "updated_at" => Cell::Integer(110),
            "next_attempt_at" => Cell::Real(120.5),
            _ => Cell::Null,
        })
        .collect();
    for (name, cell) in changes {
        let place = columns.iter().position(|column| column == name).expect("a column");
        cells[place] = cell.clone();
    }
    cells
}

fn retry() -> Vec<(&'static str, Cell)> {
    vec![
        ("status", text("retry_wait")),
        ("attempts", Cell::Integer(2)),
        ("last_error_code", text("network")),
    ]
}

fn leased() -> Vec<(&'static str, Cell)> {
    vec![
        ("status", text("leased")),
        ("attempts", Cell::Integer(2)),
        ("lease_owner", text("worker-1")),
        ("lease_token", text("secret")),
        ("lease_expires_at", Cell::Real(170.0)),
    ]
}

fn succeeded() -> Vec<(&'static str, Cell)> {
    vec![
        ("status", text("succeeded")),
        ("attempts", Cell::Integer(1)),
        ("remote_plan_id", text("plan-1")),
        ("remote_job_count", Cell::Integer(2)),
        ("remote_status", text("enqueued")),
        ("response_sha256", text("a".repeat(64))),
    ]
}

fn event(changes: &[(&str, Cell)]) -> Result<Event<Dispatch>, RowFault> {
    match check(Component::Dispatch, &META, &row(changes), at(500.0))? {
        Entry::Dispatch(event) => Ok(event),
        other @ (Entry::Lifecycle(_) | Entry::Processing(_) | Entry::Delivery(_)) => {
            panic!("{other:?}")
        }
    }
}

fn state(changes: &[(&str, Cell)]) -> State<Dispatch> {
    evolve(State::Vacant, &event(changes).expect("a sound row")).expect("it enters")
}

#[test]
fn a_row_becomes_the_state_it_is() {
    let failed = [&retry()[..], &[("status", text("failed"))]].concat();
    for (changes, kind, attempts) in [
        (vec![], StateKind::Pending, 0),
        (retry(), StateKind::RetryWait, 2),
        (leased(), StateKind::Leased, 2),
        (succeeded(), StateKind::Completed, 1),
        (failed, StateKind::Failed, 2),
    ] {
        let state = state(&changes);
        let record = state.record().expect("a record");
        assert_eq!((state.kind(), record.attempts), (Some(kind), attempts));
        let times = [record.created_at, record.updated_at, record.next_at];
        assert_eq!(times, [at(100.0), at(110.0), at(120.5)]);
        assert_eq!(record.binding.event_id, change().event_id);
    }
    let lease = state(&leased()).lease().cloned().expect("a lease");
    assert_eq!(lease.owner, WorkerToken::new("worker-1").expect("a worker"));
    assert!(lease.token_sha256 == Sha256::of(b"secret") && lease.expires_at == at(170.0));
}

#[test]
fn the_event_tells_when_and_from_which_row() {
    let Event::Imported { at: when, schema_version, row_sha256, payload, .. } =
        event(&[]).expect("sound")
    else {
        panic!("it is imported")
    };
    assert_eq!((when, schema_version, payload), (at(500.0), 1, change().payload));
    let others = [retry(), leased(), vec![("updated_at", Cell::Real(110.5))]];
    for other in others {
        let Event::Imported { row_sha256: its, .. } = event(&other).expect("sound") else {
            panic!("it is imported")
        };
        assert_ne!(its, row_sha256);
    }
    // What Python's json.dumps prints of the row's columns, sorted by their names.
    let (id, text, sha256) = {
        let change = change();
        (change.event_id, change.payload.as_str().to_owned(), change.payload.sha256())
    };
    let quoted = serde_json::to_string(&text).expect("text");
    let canonical = format!(
        "{{\"attempts\":0,\"created_at\":100.0,\"event_id\":\"{id}\",\"last_error_code\":null,\
         \"last_error_detail_hash\":null,\"lease_expires_at\":null,\"lease_owner\":null,\
         \"lease_token\":null,\"max_attempts\":5,\"next_attempt_at\":120.5,\"payload_json\":{quoted},\
         \"payload_sha256\":\"{sha256}\",\"remote_job_count\":null,\"remote_plan_id\":null,\
         \"remote_status\":null,\"response_sha256\":null,\"status\":\"pending\",\"updated_at\":110}}"
    );
    assert_eq!(row_sha256, Sha256::of(canonical.as_bytes()));
}

#[test]
fn a_row_that_breaks_a_rule_is_refused_with_its_code() {
    let with = |base: Vec<(&'static str, Cell)>, name, cell| [base, vec![(name, cell)]].concat();
    for (changes, fault) in [
        (with(vec![], "status", Cell::Bytes), RowFault::Value),
        (with(vec![], "attempts", Cell::Real(1.0)), RowFault::Value),
        (with(vec![], "created_at", text("now")), RowFault::Value),
        (with(vec![], "status", text("watching")), RowFault::State),
        (with(vec![], "attempts", Cell::Integer(1)), RowFault::Attempts),
        (with(retry(), "attempts", Cell::Integer(0)), RowFault::Attempts),
        // The reference would never try it again; here it would be tried once too often.
        (with(retry(), "attempts", Cell::Integer(5)), RowFault::Attempts),
        (with(retry(), "attempts", Cell::Integer(-1)), RowFault::Attempts),
        (with(retry(), "attempts", Cell::Integer(i64::MAX)), RowFault::Attempts),
        (with(retry(), "last_error_code", Cell::Null), RowFault::Error),
        (with(retry(), "updated_at", Cell::Real(99.0)), RowFault::Time),
        (with(retry(), "next_attempt_at", Cell::Real(f64::INFINITY)), RowFault::Time),
        (with(leased(), "attempts", Cell::Integer(6)), RowFault::Attempts),
        (with(leased(), "attempts", Cell::Integer(0)), RowFault::Attempts),
        (with(leased(), "lease_owner", Cell::Null), RowFault::Lease),
        (with(leased(), "lease_owner", text("w".repeat(129))), RowFault::Lease),
        (with(leased(), "lease_token", text("")), RowFault::Lease),
        (with(leased(), "lease_expires_at", Cell::Real(110.0)), RowFault::Lease),
        (with(leased(), "last_error_code", text("network")), RowFault::Error),
        (with(succeeded(), "response_sha256", Cell::Null), RowFault::Answer),
        (with(succeeded(), "remote_status", text("lost")), RowFault::Answer),
        (with(succeeded(), "remote_job_count", Cell::Integer(0)), RowFault::Answer),
        (with(succeeded(), "remote_plan_id", text("two words")), RowFault::Answer),
        (with(succeeded(), "status", text("pending")), RowFault::Answer),
    ] {
        assert_eq!(event(&changes).err(), Some(fault), "{changes:?}");
    }
    // All attempts may be used where nothing more is tried.
    assert!(event(&with(leased(), "attempts", Cell::Integer(5))).is_ok());
    let short = &row(&[])[1..];
    assert_eq!(check(Component::Dispatch, &META, short, at(1.0)), Err(RowFault::Value));
}

#[test]
fn values_do_not_show_in_debug_output() {
    assert_eq!(format!("{:?}", text("secret")), "text");
}

#[test]
fn an_import_enters_nothing_that_is_there_and_needs_its_own_payload() {
    let imported = event(&retry()).expect("sound");
    assert!(evolve(state(&[]), &imported).is_err());
    let Event::Imported { at, schema_version, row_sha256, record, .. } = imported else {
        panic!("it is imported")
    };
    let other = Change::parse(CHANGES.lines().nth(1).expect("a line").as_bytes());
    let payload = other.expect("a change").payload;
    let foreign = Event::Imported { at, schema_version, row_sha256, record, payload };
    assert!(evolve(State::<Dispatch>::Vacant, &foreign).is_err());
}

#[test]
fn an_import_that_breaks_an_invariant_cannot_have_happened() {
    let Event::Imported { at: when, schema_version, row_sha256, record, payload } =
        event(&retry()).expect("sound")
    else {
        panic!("it is imported")
    };
    let over = ImportedRecord { attempts: 6, ..*record.clone() };
    let early = ImportedRecord { next_at: at(99.0), ..*record.clone() };
    let untried = ImportedRecord { attempts: 0, ..*record.clone() };
    let tried = ImportedRecord { state: ImportedState::Pending, ..*record };
    for record in [over, early, untried, tried] {
        let (record, payload) = (Box::new(record), payload.clone());
        let event = Event::Imported { at: when, schema_version, row_sha256, record, payload };
        assert!(evolve(State::<Dispatch>::Vacant, &event).is_err());
    }
}

#[test]
fn an_imported_lease_runs_out_and_is_neither_abandoned_nor_given_back() {
    let policy = Policy::new(Delays::default()).expect("the defaults are valid");
    let leased = state(&leased());
    let ended = |command, now| decide(&policy, &leased, command, at(now)).expect("it is decided");
    assert_eq!(ended(Command::Abandon, 120.0), []);
    assert_eq!(ended(Command::Expire, 169.9), []);
    let lost = ended(Command::Expire, 170.0);
    assert!(matches!(lost[..], [Event::LeaseLost { .. }]), "{lost:?}");
    let back = Event::Released { at: at(120.0), next_at: at(120.0), attempts: 1 };
    assert!(evolve(leased.clone(), &back).is_err());
}

#[test]
fn an_imported_record_keeps_its_payload_for_its_calls_and_its_image() {
    for changes in [retry(), leased()] {
        let event = event(&changes).expect("sound");
        let first = Some(codec::encode(&event).expect("it is small"));
        let origin = Origin { image: None, first };
        assert_eq!(origin.payload::<Dispatch>(), Some(change().payload));
        let known = Replayed::Sound(state(&changes));
        let image = image_of(Some(&known), &mut || Ok(origin.clone())).expect("it has its payload");
        let read: Carried<Dispatch> = carried::decode(&image).expect("an image");
        assert_eq!(read.replayed(), known);
    }
}

#[test]
fn the_same_row_is_known_again_whatever_became_of_its_record() {
    let entry = |changes: &[(&str, Cell)], now| {
        check(Component::Dispatch, &META, &row(changes), at(now)).expect("sound")
    };
    let (entry, later) = (entry(&retry(), 500.0), entry(&retry(), 900.0));
    let stream = entry.stream().expect("a stream");
    let mut flows = AllFlows::default();
    assert_eq!(entry.known(&flows, None), None);
    let body = entry.body().expect("it is small");
    flows.apply(stream, Some(&body)).expect("ours").expect("it enters");
    // Once by its event, once by its state alone, as of one that was archived.
    assert_eq!(later.known(&flows, Some(&body)), Some(Known::Same));
    assert_eq!(later.known(&flows, None), Some(Known::Same));
    let claimed = Event::<Dispatch>::Claimed {
        at: at(600.0),
        attempt: 3,
        owner: WorkerToken::new("w").expect("a worker"),
        token_sha256: Sha256::of(b"token"),
        expires_at: at(660.0),
    };
    let claimed = codec::encode(&claimed).expect("it is small");
    flows.apply(stream, Some(&claimed)).expect("ours").expect("it is due");
    assert_eq!(later.known(&flows, Some(&body)), Some(Known::Same));
    assert_eq!(later.known(&flows, None), Some(Known::Other));
    let moved = check(Component::Dispatch, &META, &row(&[]), at(500.0)).expect("sound");
    assert_eq!(moved.known(&flows, Some(&body)), Some(Known::Other));
    assert!(flows.apply(stream, None).expect("ours").is_err());
    assert_eq!(later.known(&flows, Some(&body)), Some(Known::Quarantined));
}
