//! The hot pure functions, one by one: `cargo bench`.

use divan::{Bencher, black_box};
use leasehold_actors::codec;
use leasehold_actors::contract::canonical;
use leasehold_actors::contract::change::Change;
use leasehold_actors::contract::json::Value;
use leasehold_actors::contract::text::WorkerToken;
use leasehold_actors::contract::time::{Ceiling, Duration, Timestamp};
use leasehold_actors::flows::dispatch::{Dispatch, DispatchBinding};
use leasehold_actors::record::policy::Delays;
use leasehold_actors::record::{Command, Event, LeaseToken, Policy, State, decide, evolve};
use leasehold_journal::StreamId;
use leasehold_journal::chain::{Head, JournalId, frame_hash};
use leasehold_journal::frame::{Frame, FrameBuilder};
use leasehold_journal::record::Stored;

fn main() {
    divan::main();
}

fn example() -> &'static str {
    include_str!("../examples/changes.ndjson").lines().next().expect("the examples have a line")
}

fn at(seconds: f64) -> Timestamp {
    Timestamp::new(seconds).expect("a time")
}

fn registered() -> Event<Dispatch> {
    let change = Change::parse(example().as_bytes()).expect("the examples are valid");
    let binding = DispatchBinding::of(&change, Ceiling::new(5).expect("in range"));
    Event::Registered { at: at(1.0), binding, payload: change.payload, settled: None }
}

#[divan::bench]
fn parse_json(bencher: Bencher<'_, '_>) {
    bencher.bench(|| Value::parse(black_box(example().as_bytes())));
}

#[divan::bench]
fn print_canonical_json(bencher: Bencher<'_, '_>) {
    let value = Value::parse(example().as_bytes()).expect("JSON");
    bencher.bench(|| canonical::print(black_box(&value)));
}

#[divan::bench]
fn check_a_change(bencher: Bencher<'_, '_>) {
    bencher.bench(|| Change::parse(black_box(example().as_bytes())));
}

#[divan::bench]
fn decide_and_evolve_a_claim(bencher: Bencher<'_, '_>) {
    let policy = Policy::new(Delays::default()).expect("the defaults are valid");
    let state = evolve(State::Vacant, &registered()).expect("it registers");
    let token_sha256 = LeaseToken::new("token".into()).sha256();
    bencher.bench(|| {
        let owner = WorkerToken::new("w").expect("a worker");
        let lease = Duration::new(60.0).expect("a lease");
        let command = Command::<Dispatch>::Claim { owner, token_sha256, lease };
        let events = decide(&policy, &state, command, at(2.0)).expect("it is due");
        events.iter().try_fold(state.clone(), evolve)
    });
}

#[divan::bench]
fn encode_a_registration(bencher: Bencher<'_, '_>) {
    let event = registered();
    bencher.bench(|| codec::encode(black_box(&event)));
}

#[divan::bench]
fn decode_a_registration(bencher: Bencher<'_, '_>) {
    let body = codec::encode(&registered()).expect("it encodes");
    bencher.bench(|| codec::decode::<Dispatch>(black_box(&body)));
}

fn frame(records: u64) -> Vec<u8> {
    let mut builder = FrameBuilder::after(Head::genesis(JournalId([1; 16])));
    let body = codec::encode(&registered()).expect("it encodes");
    for number in 1..=records {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_le_bytes());
        builder.push(&Stored {
            sequence: number,
            stream: StreamId(id),
            version: 1,
            previous: 0,
            stored: &body,
            chunked: false,
        });
    }
    builder.finish().0
}

#[divan::bench]
fn build_a_frame_of_64_records() -> Vec<u8> {
    frame(64)
}

#[divan::bench]
fn verify_a_frame_of_64_records(bencher: Bencher<'_, '_>) {
    let bytes = frame(64);
    bencher.bench(|| {
        Frame::parse(black_box(&bytes)).and_then(|frame| frame.records().map(|r| r.len()))
    });
}

#[divan::bench]
fn chain_hash_of_64_kibibytes(bencher: Bencher<'_, '_>) {
    let bytes = vec![7; 65_536];
    bencher.bench(|| frame_hash(black_box(&bytes)));
}
