//! Leases that ran out, among many that did not.

use super::{enqueue, ids};
use crate::support::{engine, run};
use leasehold::{Dispatch, Handle, ManualClock, MemoryDisk};

/// More than are ended side by side.
const MANY: usize = 2_000;

/// The id of the change that is claimed next, and which attempt that is.
async fn claimed(flow: &Handle<Dispatch>, lease_seconds: f64) -> Option<(String, u32)> {
    let claim = flow.claim("w", lease_seconds).await.expect("it answers")?;
    Some((claim.request().event_id.to_string(), claim.view().attempt))
}

#[test]
fn a_full_batch_of_leases_that_run_hides_no_lease_that_ran_out() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let (flow, ids) = (engine.dispatch(), ids(MANY + 1));
        enqueue(&engine, &ids, 5).await;
        for (number, id) in ids.iter().enumerate() {
            let lease_seconds = if number == MANY / 2 { 30.0 } else { 600.0 };
            assert_eq!(claimed(flow, lease_seconds).await, Some((id.clone(), 1)));
        }
        clock.set(129.9);
        assert_eq!(claimed(flow, 600.0).await, None);
        clock.set(130.0);
        assert_eq!(flow.health().await.expect("it answers").expired_leases, 1);
        assert_eq!(claimed(flow, 600.0).await, Some((ids[MANY / 2].clone(), 2)));
        assert_eq!(claimed(flow, 600.0).await, None);
    });
}

#[test]
fn leases_that_only_a_jump_of_the_clock_ended_hide_no_lease_that_ran_out() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let (before, ids) = (engine(&disk, &clock).await, ids(MANY + 1));
        enqueue(&before, &ids, 5).await;
        assert_eq!(claimed(before.dispatch(), 60.0).await, Some((ids[0].clone(), 1)));
        before.close().await;
        // Its worker is gone with its engine. The others are at work, and all their leases end before its.
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        for id in &ids[1..] {
            assert_eq!(claimed(flow, 10.0).await, Some((id.clone(), 1)));
        }
        clock.jump(3_600.0);
        assert_eq!(flow.health().await.expect("it answers").expired_leases, MANY as u64 + 1);
        assert_eq!(claimed(flow, 60.0).await, Some((ids[0].clone(), 2)));
        assert_eq!(claimed(flow, 60.0).await, None);
    });
}
