//! Golden samples of what came later than the first form: leases that were given back, and the images of
//! records that lost leases or are leased; and what the first form of an image does not tell.

use crate::support::{change, run, snapshots};
use crate::wire_flows::{acknowledge, answering, attempt, engine, lifecycle, processing, there};
use leasehold::{Engine, Handle, ManualClock, MemoryDisk};
use leasehold_actors::carried::{self, Carried, Origin};
use leasehold_actors::codec::{self, DecodeError};
use leasehold_actors::contract::text::ErrorCode;
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::flows::Answers;
use leasehold_actors::flows::all::AllFlows;
use leasehold_actors::flows::dispatch::Dispatch;
use leasehold_actors::record::event::{Ending, Loss};
use leasehold_actors::record::{Event, FlowTag, State, Wait, stream_of};
use leasehold_actors::replay::{Replay, ReplayError, Replayed};
use leasehold_journal::walk::Item;
use leasehold_journal::{JournalId, Log, LogOptions, StoreReader as _, StreamId, payload};
use std::collections::BTreeMap;

/// The version that leases given back came with.
const RELEASED_VERSION: u8 = 3;

/// Claims what is due and gives it back.
async fn give_back<F: Answers>(flow: &Handle<F>) {
    let claim = flow.claim("w", 60.0).await.expect("a claim").expect("due");
    flow.release(&claim).await.expect("it is its own");
}

/// One change through the flows: in each a lease is given back, one lost, and one is out at the end.
async fn live(engine: &Engine, clock: &ManualClock) {
    engine.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
    give_back(engine.dispatch()).await;
    let accepted = crate::support::accepted("event-1", 2);
    attempt(engine.dispatch(), &answering(move |_| Ok(accepted.clone()))).await;
    there(|| engine.lifecycle().status("event-1")).await;
    give_back(engine.lifecycle()).await;
    attempt(engine.lifecycle(), &answering(|_| Ok(lifecycle("0c", "cancelled")))).await;
    there(|| engine.notification().status("event-1")).await;
    give_back(engine.notification()).await;
    attempt(engine.notification(), &answering(acknowledge)).await;
    there(|| engine.processing().status("event-1")).await;
    give_back(engine.processing()).await;
    let known = engine.processing().status("event-1").await.expect("it is there");
    let answer = processing(&known, "pending", None);
    attempt(engine.processing(), &answering(move |_| answer.clone())).await;
    engine.delivery().enqueue_change(change("event-1"), 4, 5).await.expect("it is valid");
    give_back(engine.delivery()).await;
    engine.dispatch().enqueue(change("event-2"), 5).await.expect("it is valid");
    for now in [200.0, 300.0, 400.0] {
        clock.set(now);
        for claimed in [
            engine.dispatch().claim("w", 60.0).await.expect("a claim").is_some(),
            engine.processing().claim("w", 60.0).await.expect("a claim").is_some(),
            engine.delivery().claim("w", 60.0).await.expect("a claim").is_some(),
        ] {
            assert!(claimed, "due at {now}");
        }
    }
}

#[test]
fn what_came_later_keeps_its_bytes_in_every_flow() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        live(&engine, &clock).await;
        engine.close().await;
        let mut flows = AllFlows::default();
        let mut first: BTreeMap<StreamId, Vec<u8>> = BTreeMap::new();
        let (mut released, mut images) = (BTreeMap::<&str, String>::new(), BTreeMap::new());
        let options = LogOptions { new_id: JournalId([5; 16]), create: false };
        let mut visit = |item| {
            let Item::Record { stream, record, .. } = item else { return Ok(()) };
            let body = record?.body;
            flows.apply(stream, Some(&body)).expect("ours").expect("it happened");
            let flow = codec::flow_of(&body).expect("a flow of ours").name();
            if body[1] == RELEASED_VERSION {
                *released.entry(flow).or_default() += &format!("{}\n", crate::wire::hex(&body));
            }
            let first = first.entry(stream).or_insert(body).clone();
            let mut origin = || Ok(Origin { image: None, first: Some(first.clone()) });
            let image = flows.image(stream, &mut origin).expect("it is sound");
            assert_eq!(flows.carry(stream, Some(&image)), Some(Ok(())), "it comes to the same");
            if image[1] == carried::VERSION {
                for length in 0..image.len() {
                    let cut = AllFlows::default().carry(stream, Some(&image[..length]));
                    assert!(matches!(cut, Some(Err(ReplayError::Decode(_)))), "cut at {length}");
                }
                // The last one of each flow: leased, and more than once where it was lost before.
                images.insert(flow, crate::wire::hex(&image));
            }
            Ok(())
        };
        drop(Log::open(disk.medium(), options, &mut visit).expect("it verifies"));
        let all = FlowTag::ALL.len();
        assert_eq!((released.len(), images.len()), (all, all));
        snapshots("wire").bind(|| {
            for (flow, samples) in released {
                insta::assert_snapshot!(format!("released_v3_{flow}"), samples);
            }
            for (flow, image) in images {
                insta::assert_snapshot!(format!("carried_v2_{flow}"), image);
            }
        });
    });
}

/// The events of a change that lost two leases and has a third one.
async fn lost_twice() -> Vec<Vec<u8>> {
    let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
    let engine = crate::support::engine(&disk, &clock).await;
    engine.dispatch().enqueue(change("event-1"), 20).await.expect("it is valid");
    for now in [100.0, 200.0, 300.0] {
        clock.set(now);
        engine.dispatch().claim("w", 60.0).await.expect("a claim").expect("due");
    }
    engine.close().await;
    let mut bodies = Vec::new();
    let options = LogOptions { new_id: JournalId([5; 16]), create: false };
    let log = Log::open(disk.medium(), options, &mut |_| Ok(())).expect("it verifies");
    let stream = stream_of(FlowTag::Dispatch, "event-1");
    bodies
        .extend(log.reader().read_stream(stream).expect("it reads").into_iter().map(|it| it.body));
    bodies
}

fn replayed(bodies: &[Vec<u8>]) -> Replay<Dispatch> {
    let mut replay = Replay::default();
    for body in bodies {
        let stream = stream_of(FlowTag::Dispatch, "event-1");
        replay.apply(stream, Some(body)).expect("it happened");
    }
    replay
}

fn image_of(replay: &Replay<Dispatch>, bodies: &[Vec<u8>]) -> Vec<u8> {
    let record = replay.get(stream_of(FlowTag::Dispatch, "event-1"));
    let mut origin = || Ok(Origin { image: None, first: bodies.first().cloned() });
    carried::image_of(record, &mut origin).expect("it has its payload")
}

/// What an older library wrote of a record.
fn as_first(image: &[u8]) -> Vec<u8> {
    let carried = carried::decode::<Dispatch>(image).expect("it is sound");
    let mut first = vec![FlowTag::Dispatch as u8, 1];
    payload::encode_into(&mut first, &carried).expect("it encodes");
    first
}

fn told(replay: &Replay<Dispatch>) -> (u32, Option<Wait>) {
    let record = replay.get(stream_of(FlowTag::Dispatch, "event-1"));
    let Some(Replayed::Sound(state)) = record else { panic!("it is sound") };
    (state.record().expect("a record").losses, state.waited().cloned())
}

#[test]
fn an_image_of_the_first_form_tells_no_losses_and_its_record_counts_from_there_on() {
    run(async {
        let (bodies, stream) = (lost_twice().await, stream_of(FlowTag::Dispatch, "event-1"));
        let mut walked = replayed(&bodies);
        let image = image_of(&walked, &bodies);
        let (losses, waited) = told(&walked);
        assert!(losses == 2 && matches!(waited, Some(Wait::Retry(_))));
        let first = as_first(&image);
        assert!(
            image.starts_with(&[FlowTag::Dispatch as u8, 2]) && image[2..].starts_with(&first[2..])
        );
        let mut alone = Replay::<Dispatch>::default();
        alone.carry(stream, Some(&first)).expect("it reads");
        assert_eq!(told(&alone), (0, None));
        // Whoever walked over the archives goes on with what the engine knew.
        walked.carry(stream, Some(&first)).expect("it comes to the same, as far as it tells");
        assert_eq!(told(&walked), (0, None));
        let lost = Event::<Dispatch>::LeaseLost {
            at: Timestamp::new(360.0).expect("a time"),
            next_at: Timestamp::new(360.0).expect("a time"),
            failures: 0,
            code: ErrorCode::known("lease_expired"),
            loss: Loss::Expired,
            ending: Ending::Retry,
        };
        let lost = codec::encode(&lost).expect("it encodes");
        for replay in [&mut alone, &mut walked] {
            replay.apply(stream, Some(&lost)).expect("the lease is out");
            assert_eq!(told(replay), (1, None));
        }
    });
}

#[test]
fn an_image_that_tells_other_losses_than_its_events_is_found() {
    run(async {
        let (bodies, stream) = (lost_twice().await, stream_of(FlowTag::Dispatch, "event-1"));
        let image = image_of(&replayed(&bodies), &bodies);
        let first = as_first(&image);
        let place = first.len();
        assert_eq!(image[place], 2, "what the first form does not tell begins with the losses");
        let with = |losses: u8| {
            let mut image = image.clone();
            image[place] = losses;
            image
        };
        let carry = |image: Vec<u8>| replayed(&bodies).carry(stream, Some(&image));
        assert_eq!(carry(with(2)), Ok(()));
        assert_eq!(carry(with(1)), Err(ReplayError::Illegal), "sound in itself");
        let more_than_attempts = carried::decode::<Dispatch>(&with(4));
        assert_eq!(more_than_attempts, Err(DecodeError::Invalid));
        // What adds nothing is not written, so it does not read.
        let mut nothing = [&first[..], &[0, 0]].concat();
        nothing[1] = carried::VERSION;
        assert_eq!(carried::decode::<Dispatch>(&nothing), Err(DecodeError::Invalid));
    });
}

#[test]
fn a_record_that_is_not_leased_was_waiting_for_nothing() {
    run(async {
        let bodies = lost_twice().await;
        let ready = &bodies[..5];
        let image = image_of(&replayed(ready), ready);
        let Ok(Carried::Open { state: State::Ready { record, .. }, .. }) =
            carried::decode::<Dispatch>(&image)
        else {
            panic!("it waits")
        };
        assert_eq!(record.losses, 2);
        assert_eq!(image[image.len() - 2..], [2, 0], "two losses, and no reason");
        let waits = [&image[..image.len() - 1], &[1, 0]].concat();
        assert_eq!(carried::decode::<Dispatch>(&waits), Err(DecodeError::Invalid));
        assert_eq!(image_of(&replayed(&bodies[..1]), &bodies)[1], 1, "nothing to add");
    });
}
