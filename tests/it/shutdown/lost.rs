//! Tokens and reads that came too late, and records that lose one lease after the other.

use super::engine;
use crate::support::{Scripted, accepted, change, code, marked, run};
use leasehold::{Engine, ManualClock, MemoryDisk};
use leasehold_actors::codec;
use leasehold_actors::flows::dispatch::Dispatch;
use leasehold_actors::record::policy::Delays;
use leasehold_actors::record::{Command, FlowTag, Policy, State, decide, evolve, stream_of};
use leasehold_actors::replay::state_of;
use leasehold_journal::{
    Append, AppendError, JournalId, Log, LogOptions, Store as _, StoreReader as _,
};
use std::num::NonZeroU32;

const LATER: f64 = 700.0;

#[test]
fn a_token_from_before_a_restart_or_an_expiry_cannot_complete() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let before = engine(&disk, &clock).await;
        before.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
        let restarted = before.dispatch().claim("w", 60.0).await.expect("a claim").expect("due");
        drop(before);
        let after = engine(&disk, &clock).await;
        let flow = after.dispatch();
        let answer = || accepted("event-1", 2);
        assert_eq!(code(flow.complete(&restarted, answer()).await), "dispatch.claim_lost");
        let expired = flow.claim("w", 60.0).await.expect("a claim").expect("due");
        clock.set(160.0);
        assert_eq!(code(flow.complete(&expired, answer()).await), "dispatch.lease_expired");
        let live = flow.claim("w", 60.0).await.expect("a claim").expect("expired");
        for stale in [&restarted, &expired] {
            assert_eq!(code(flow.complete(stale, answer()).await), "dispatch.claim_lost");
            assert_eq!(code(flow.release(stale).await), "dispatch.claim_lost");
        }
        let status = flow.complete(&live, answer()).await.expect("it is live");
        assert_eq!((status.status, status.attempts), ("succeeded", 3));
    });
}

/// The state of the one change on this disk, its stream's version, and a log to write more.
fn read(disk: &MemoryDisk) -> (State<Dispatch>, u32, impl leasehold_journal::Store) {
    let options = LogOptions { new_id: JournalId([0; 16]), create: false };
    let log = Log::open(disk.medium(), options, &mut |_| Ok(())).expect("it verifies");
    let stream = stream_of(FlowTag::Dispatch, "event-1");
    let records = log.reader().read_stream(stream).expect("it reads");
    let version = records.last().expect("it has records").version;
    let bodies = records.into_iter().map(|record| record.body);
    (state_of(stream, None, bodies).expect("it replays"), version, log)
}

#[test]
fn a_reaper_acting_on_an_old_read_cannot_bring_a_finished_record_back() {
    let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
    let claim = run(async {
        let engine = engine(&disk, &clock).await;
        engine.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
        let claim = engine.dispatch().claim("w", 60.0).await.expect("a claim").expect("due");
        engine.close().await;
        claim
    });
    let (old, version, _) = read(&disk);
    run(async {
        let builder = Engine::in_memory(&disk).clock(clock.clone()).end_leases_on_open(false);
        let engine = builder.open().await.expect("it opens");
        let done = engine.dispatch().complete(&claim, accepted("event-1", 2)).await;
        assert_eq!(done.expect("it is live").status, "succeeded");
        engine.close().await;
    });
    let (finished, _, mut log) = read(&disk);
    let policy = Policy::new(Delays::default()).expect("the defaults are valid");
    let later = leasehold_actors::contract::time::Timestamp::new(LATER).expect("a time");
    for reap in [|| Command::<Dispatch>::Expire, || Command::Abandon] {
        // On what it read the reaper decides well; what is there now knows better, and so does the log.
        let events = decide(&policy, &old, reap(), later).expect("the lease ran out");
        let [lost] = &events[..] else { panic!("{events:?}") };
        assert_eq!(decide(&policy, &finished, reap(), later), Ok(vec![]));
        assert!(evolve(finished.clone(), lost).is_err());
        let append = Append {
            stream: stream_of(FlowTag::Dispatch, "event-1"),
            expected_version: version,
            bodies: vec![codec::encode(lost).expect("it encodes")],
            alone: None,
        };
        let placed = log.commit(&[append]).expect("the log works");
        assert!(matches!(placed[..], [Err(AppendError::Conflict { .. })]), "{placed:?}");
    }
    drop(log);
    assert_eq!(read(&disk).0, finished);
}

/// Opens the journal with a limit of three, claims the change, and is gone.
async fn lost(disk: &MemoryDisk, clock: &ManualClock) {
    let engine = limited(disk, clock, 3).await;
    engine.dispatch().claim("w", 60.0).await.expect("a claim").expect("due");
}

async fn limited(disk: &MemoryDisk, clock: &ManualClock, max: u32) -> Engine {
    let builder = Engine::in_memory(disk).clock(clock.clone());
    builder.unclean_losses_max(NonZeroU32::new(max)).open().await.expect("it opens")
}

#[test]
fn a_record_that_ends_engine_after_engine_is_left_to_an_operator() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let first = engine(&disk, &clock).await;
        first.dispatch().enqueue(change("event-1"), 20).await.expect("it is valid");
        drop(first);
        for _ in 0..3 {
            lost(&disk, &clock).await;
        }
        let engine = limited(&disk, &clock, 3).await;
        let flow = engine.dispatch();
        let status = flow.status("event-1").await.expect("it is there");
        assert_eq!((status.status, status.attempts), ("failed", 3));
        let code = status.last_error_code.expect("it failed");
        assert_eq!(code.as_str(), "dispatch.lease_lost_repeatedly");
        let health = flow.health().await.expect("it answers");
        assert_eq!((health.status, health.failed), ("blocked", 1));
        let requeued = flow.requeue("event-1", "maria", "it was mended").await.expect("it failed");
        assert_eq!((requeued.status.status, requeued.status.attempts), ("pending", 0));
        drop(engine);
        lost(&disk, &clock).await;
        let engine = limited(&disk, &clock, 3).await;
        let status = engine.dispatch().status("event-1").await.expect("it is there");
        assert_eq!(status.status, "retry_wait", "a requeue starts the count again");
    });
}

#[test]
fn any_end_of_a_call_starts_the_count_again_and_a_lease_given_back_does_not() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let first = engine(&disk, &clock).await;
        first.dispatch().enqueue(change("event-1"), 20).await.expect("it is valid");
        drop(first);
        lost(&disk, &clock).await;
        lost(&disk, &clock).await;
        let second = limited(&disk, &clock, 3).await;
        let client = Scripted::new([Err(marked("network", true))]);
        second.dispatch().run_once(&client, "w", 60.0).await.expect("it runs").expect("due");
        drop(second);
        clock.set(400.0);
        lost(&disk, &clock).await;
        lost(&disk, &clock).await;
        let third = limited(&disk, &clock, 3).await;
        let flow = third.dispatch();
        assert_eq!(flow.status("event-1").await.expect("it is there").status, "retry_wait");
        let claim = flow.claim("w", 60.0).await.expect("a claim").expect("due");
        flow.release(&claim).await.expect("it is its own");
        drop(third);
        lost(&disk, &clock).await;
        let fourth = limited(&disk, &clock, 3).await;
        let status = fourth.dispatch().status("event-1").await.expect("it is there");
        assert_eq!(status.status, "failed");
    });
}

#[test]
fn without_a_limit_a_record_is_tried_up_to_its_ceiling() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let first = engine(&disk, &clock).await;
        first.dispatch().enqueue(change("event-1"), 7).await.expect("it is valid");
        drop(first);
        for attempt in 1..=7 {
            let engine = engine(&disk, &clock).await;
            let claim = engine.dispatch().claim("w", 60.0).await.expect("a claim").expect("due");
            assert_eq!(claim.view().attempt, attempt);
        }
        let last = engine(&disk, &clock).await;
        let status = last.dispatch().status("event-1").await.expect("it is there");
        assert_eq!(status.status, "failed");
        assert_eq!(status.last_error_code.expect("it failed").as_str(), "lease_expired");
    });
}
