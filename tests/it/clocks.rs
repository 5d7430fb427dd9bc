//! Clocks that jump: forward, back, and after a suspend.

use crate::support::{accepted, change, code, engine, run};
use leasehold::{Clock as _, ManualClock, MemoryDisk};

#[test]
fn a_wall_clock_that_jumps_forward_starts_no_second_attempt_beside_a_running_one() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        flow.enqueue(change("event-1"), 5).await.expect("it is valid");
        let first = flow.claim("w", 60.0).await.expect("a claim").expect("due");
        clock.jump(3600.0);
        // The lease is over by the wall clock; its call may still be under way.
        assert!(flow.claim("w", 60.0).await.expect("it answers").is_none());
        assert_eq!(flow.next_at().await.expect("it answers"), Some(3760.0));
        assert_eq!(
            code(flow.complete(&first, accepted("event-1", 2)).await),
            "dispatch.lease_expired"
        );
        clock.set(clock.now_seconds() + 59.9);
        assert!(flow.claim("w", 60.0).await.expect("it answers").is_none());
        clock.set(clock.now_seconds() + 0.2);
        let second = flow.claim("w", 60.0).await.expect("a claim").expect("expired");
        assert_eq!(second.view().attempt, 2);
        assert!(flow.complete(&second, accepted("event-1", 2)).await.is_ok());
    });
}

#[test]
fn a_jump_holds_back_only_what_may_be_under_way() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        for id in ["event-1", "event-2", "event-3"] {
            flow.enqueue(change(id), 5).await.expect("it is valid");
        }
        let first = flow.claim("w", 60.0).await.expect("a claim").expect("due");
        let second = flow.claim("w", 60.0).await.expect("a claim").expect("due");
        flow.retry(&second, "network").await.expect("its own claim");
        clock.jump(3600.0);
        // What waits for its next attempt, or was never tried, goes on.
        let next: Vec<_> = [
            flow.claim("w", 60.0).await.expect("a claim").expect("due"),
            flow.claim("w", 60.0).await.expect("a claim").expect("due"),
        ]
        .map(|claim| claim.view().event_id.as_str().to_owned())
        .into();
        assert_eq!(next, ["event-2", "event-3"]);
        assert!(flow.claim("w", 60.0).await.expect("it answers").is_none());
        assert_eq!(first.view().event_id.as_str(), "event-1");
    });
}

#[test]
fn leases_of_an_earlier_life_end_by_the_wall_clock_alone() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let before = engine(&disk, &clock).await;
        before.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
        before.dispatch().claim("w", 60.0).await.expect("a claim").expect("due");
        before.close().await;
        let builder = leasehold::Engine::in_memory(&disk).clock(clock.clone());
        let after = builder.end_leases_on_open(false).open().await.expect("it opens");
        clock.jump(59.0);
        assert!(after.dispatch().claim("w", 60.0).await.expect("it answers").is_none());
        clock.jump(1.0);
        let again = after.dispatch().claim("w", 60.0).await.expect("a claim").expect("expired");
        assert_eq!(again.view().attempt, 2);
    });
}

#[test]
fn a_clock_behind_the_journals_last_time_is_told_and_nothing_is_moved() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(5000.0));
        let before = engine(&disk, &clock).await;
        assert_eq!(before.clock_behind_seconds(), 0.0);
        before.dispatch().enqueue(change("event-1"), 5).await.expect("it is valid");
        before.close().await;
        clock.set(2000.0);
        let after = engine(&disk, &clock).await;
        assert_eq!(after.clock_behind_seconds(), 3000.0);
        // Not due before its own time; and a new one has the time of now.
        assert!(after.dispatch().claim("w", 60.0).await.expect("it answers").is_none());
        let new = after.dispatch().enqueue(change("event-2"), 5).await.expect("it is valid");
        assert_eq!(new.status.next_attempt_at, 2000.0);
        clock.set(5000.0);
        assert_eq!(after.clock_behind_seconds(), 0.0);
        assert!(after.dispatch().claim("w", 60.0).await.expect("it answers").is_some());
    });
}

#[test]
fn the_steady_clock_stands_while_the_wall_clock_jumps() {
    let clock = ManualClock::at(100.0);
    clock.jump(50.0);
    assert_eq!((clock.now_seconds(), clock.steady_seconds()), (150.0, 100.0));
    clock.jump(-80.0);
    assert_eq!((clock.now_seconds(), clock.steady_seconds()), (70.0, 100.0));
    clock.set(90.0);
    assert_eq!((clock.now_seconds(), clock.steady_seconds()), (90.0, 120.0));
}
