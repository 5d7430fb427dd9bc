//! What a side is met with in the first life of a journal and in later ones.

use super::{LIMITS, enqueue};
use crate::support::{engine, run};
use leasehold::{Destinations, Engine, GateState, Limits, ManualClock, MemoryDisk};

/// How a side of an engine stands that was just added, and how many calls at once it lets through.
fn met(engine: &Engine) -> (GateState, usize) {
    let limits = Limits { in_flight_max: 4, slow_start: true, ..LIMITS };
    let sides = Destinations::new(engine, 16).expect("within limits");
    let view = sides.add("cms", limits).expect("within limits").view();
    (view.state, view.in_flight_allowed)
}

#[test]
fn a_new_journal_has_no_side_to_be_gentle_with_and_each_later_life_does() {
    run(async {
        for killed in [false, true] {
            let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
            // A life without a record called nobody.
            engine(&disk, &clock).await.close().await;
            let first = engine(&disk, &clock).await;
            // What is taken in before its sides are there makes it no later life.
            enqueue(&first, 4).await;
            assert_eq!(met(&first), (GateState::Closed, 4));
            if killed {
                disk.crash(0);
            } else {
                first.close().await;
            }
            let later = engine(&disk, &clock).await;
            assert_eq!(met(&later), (GateState::Recovering, 1), "killed: {killed}");
        }
    });
}
