//! The simulation: messages, crashes, faults and clocks in any order, drawn from a seed.
//!
//! The big numbers are run by `cargo run --release --example simulate`; here are enough seeds to reach
//! everything that can happen, and the proof that what is checked can fail.

#[path = "../sim/mod.rs"]
#[allow(dead_code)] // the example uses what is left
mod sim;

use proptest::prelude::*;
use sim::disk::Disk;
use sim::documents::Documents;
use sim::note::NAMES;
use sim::sabotage::Sabotage;
use sim::trace::Coverage;
use sim::{Options, Outcome, invariant};
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

/// Steps of each seed.
const STEPS: u32 = 200;
/// Seeds that have to reach everything.
const SEEDS: u64 = 320;
/// Threads they are run on.
const THREADS: u64 = 4;
/// Worlds of any length in which every invariant has to hold after every step.
const WORLDS: u32 = 10_000;
/// Seeds within which each sabotage has to be noticed.
const SABOTAGED_SEEDS: u64 = 150;

thread_local! {
    static DOCUMENTS: Rc<Documents> = Rc::new(Documents::new());
}

const HONEST: Options = Options { steps: STEPS, sabotage: None, disk: Disk::memory };

/// Runs seeds that have to break nothing.
fn hold(seeds: Range<u64>, options: Options) -> Coverage {
    let documents = Rc::new(Documents::new());
    let mut coverage = Coverage::default();
    for seed in seeds {
        let Outcome { broken, trace } = sim::run(seed, options, &documents);
        if let Some((broken, step)) = broken {
            let last: Vec<String> =
                trace.lines.iter().rev().take(20).map(ToString::to_string).collect();
            panic!("seed {seed} broke {broken:?} at step {step}, last first: {last:#?}");
        }
        coverage.add(&trace.coverage);
    }
    coverage
}

#[test]
fn whatever_happens_in_whatever_order_no_invariant_breaks() {
    let coverage = std::thread::scope(|scope| {
        let part = SEEDS / THREADS;
        let runs: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || hold(thread * part..(thread + 1) * part, HONEST)))
            .collect();
        let mut all = Coverage::default();
        for run in runs {
            all.add(&run.join().expect("no seed breaks anything"));
        }
        all
    });
    let never: Vec<&str> =
        coverage.counts().filter(|(_, count)| *count == 0).map(|(name, _)| name).collect();
    assert!(never.is_empty(), "never reached: {never:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: WORLDS, failure_persistence: None, ..ProptestConfig::default() })]

    /// I1 to I15 and R1 to R5 in worlds of any length; what breaks one is told in its fewest steps.
    #[test]
    fn every_invariant_holds_in_any_world(seed in any::<u64>(), steps in 1..=STEPS / 4) {
        prop_assert_eq!(broken(seed, Options { steps, ..HONEST }), None);
    }
}

/// What a seed breaks: the invariant, how, and at which step.
fn broken(seed: u64, options: Options) -> Option<(&'static str, &'static str, u32)> {
    let documents = DOCUMENTS.with(Rc::clone);
    let Outcome { broken, .. } = sim::run(seed, options, &documents);
    broken.map(|(broken, step)| (broken.invariant.id, broken.detail, step))
}

/// So many seeds give the same traces again, and each another one.
fn assert_repeatable(seeds: u64, options: Options) {
    let documents = Rc::new(Documents::new());
    let hash = |seed| sim::run(seed, options, &documents).trace.hash;
    let first: Vec<u64> = (0..seeds).map(hash).collect();
    let second: Vec<u64> = (0..seeds).map(hash).collect();
    assert_eq!(first, second);
    let different: BTreeSet<u64> = first.into_iter().collect();
    assert_eq!(different.len() as u64, seeds);
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_one_another() {
    assert_repeatable(8, HONEST);
}

#[test]
fn a_shell_that_acts_wrongly_is_told_by_the_invariant_it_breaks() {
    let documents = Rc::new(Documents::new());
    for (sabotage, name, id) in Sabotage::ALL {
        let options = Options { sabotage: Some(sabotage), ..HONEST };
        let found = (0..SABOTAGED_SEEDS).find(|seed| {
            let broken = sim::run(*seed, options, &documents).broken;
            broken.is_some_and(|(broken, _)| broken.invariant.id == id)
        });
        assert!(found.is_some(), "{name} never breaks {id}");
    }
}

#[test]
fn every_invariant_has_a_sabotage_and_every_happening_its_own_name() {
    let noticed: BTreeSet<&str> = Sabotage::ALL.iter().map(|(_, _, id)| *id).collect();
    for invariant in invariant::ALL {
        assert!(noticed.contains(invariant.id), "nothing breaks {}", invariant.id);
    }
    for (sabotage, name, _) in Sabotage::ALL {
        assert_eq!(Sabotage::from_name(name), Some(sabotage));
    }
    let names: BTreeSet<&str> = NAMES.iter().map(|(_, name)| *name).collect();
    assert_eq!(names.len(), NAMES.len());
    for (place, (note, name)) in NAMES.iter().enumerate() {
        assert_eq!((*note as usize, note.name()), (place, *name));
    }
}

/// The same on a server. Coverage is the memory's business: a server takes no power cut from here.
#[cfg(feature = "postgres")]
mod server {
    use super::{Disk, Options, STEPS, Sabotage, assert_repeatable, broken, hold};
    use crate::postgres::cluster;
    use crate::simulation::sim;
    use crate::simulation::sim::documents::Documents;
    use proptest::prelude::*;
    use std::rc::Rc;

    /// Seeds, each of which opens its journal some ten times.
    const SEEDS: u64 = 24;
    /// Worlds of any length.
    const WORLDS: u32 = 40;
    /// What only a disk of its own can lose, or only whoever can write it can change.
    const OF_DISKS: [&str; 1] = ["tamper"];

    fn disk() -> Disk {
        Disk::server(cluster().expect("it was there before").place())
    }

    const HONEST: Options = Options { steps: STEPS, sabotage: None, disk };

    #[test]
    fn whatever_happens_in_whatever_order_no_invariant_breaks() {
        let Some(_) = cluster() else { return };
        std::thread::scope(|scope| {
            for half in 0..2 {
                let seeds = half * SEEDS / 2..(half + 1) * SEEDS / 2;
                scope.spawn(move || {
                    hold(seeds, HONEST);
                });
            }
        });
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: WORLDS, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_invariant_holds_in_any_world(seed in any::<u64>(), steps in 1..=STEPS / 4) {
            if cluster().is_some() {
                prop_assert_eq!(broken(seed, Options { steps, ..HONEST }), None);
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_trace_and_another_one_another() {
        let Some(_) = cluster() else { return };
        assert_repeatable(3, HONEST);
    }

    #[test]
    fn a_shell_that_acts_wrongly_is_told_by_the_invariant_it_breaks() {
        let Some(_) = cluster() else { return };
        let documents = Rc::new(Documents::new());
        for (sabotage, name, id) in Sabotage::ALL {
            if OF_DISKS.contains(&name) {
                continue;
            }
            // The seeds that notice it in memory are the first to be tried.
            let in_memory = Options { sabotage: Some(sabotage), disk: Disk::memory, ..HONEST };
            let breaks = |options: Options, seed: &u64| {
                let broken = sim::run(*seed, options, &documents).broken;
                broken.is_some_and(|(broken, _)| broken.invariant.id == id)
            };
            let seeds = (0..super::SABOTAGED_SEEDS).filter(|seed| breaks(in_memory, seed)).take(4);
            let found = seeds.into_iter().any(|seed| breaks(Options { disk, ..in_memory }, &seed));
            assert!(found, "{name} never breaks {id}");
        }
    }
}
