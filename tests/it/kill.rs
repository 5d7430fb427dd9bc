//! `kill -9` at seeded moments, many lives on one journal.

use crate::crash::kills::{self, Plan, Report};
use crate::crash::task::Launcher;
use crate::crash::victim;

/// Runs a plan; its victims are this test program, led to the first test below.
fn lives(cycles: u64, seed: u64, ack_early: bool) -> Report {
    let name = "kill::killed_fifty_times_nothing_acknowledged_is_lost_and_the_journal_opens";
    let launcher = Launcher::own(&["--exact", name, "--nocapture"]).expect("this program");
    let plan = Plan { cycles, seed, records: 4, ack_early };
    kills::run(&launcher, plan).expect("the harness does its work")
}

#[test]
fn killed_fifty_times_nothing_acknowledged_is_lost_and_the_journal_opens() {
    victim::take_part();
    let report = lives(50, 7, false);
    assert!(report.is_clean(), "{report:?}");
    assert!(report.killed >= 25 && report.acknowledged >= 100, "{report:?}");
    assert_eq!(report.cycles, 50);
}

#[test]
fn a_victim_that_acknowledges_before_it_is_done_is_found_out() {
    let report = lives(20, 7, true);
    assert!(!report.lost.is_empty(), "{report:?}");
    assert_eq!(report.unopenable, Vec::<String>::new());
}

/// The same with the victims' journals in schemas of a server.
#[cfg(feature = "postgres")]
mod server {
    use super::{Launcher, Plan, Report, kills, victim};
    use crate::postgres::{Cluster, cluster};

    fn lives(cluster: &Cluster, cycles: u64, seed: u64, ack_early: bool) -> Report {
        let name =
            "kill::server::killed_fifty_times_nothing_acknowledged_is_lost_and_the_journal_opens";
        let launcher = Launcher::own(&["--exact", name, "--nocapture"]).expect("this program");
        let plan = Plan { cycles, seed, records: 4, ack_early };
        kills::run_in(&launcher, plan, &|_| cluster.url().into())
            .expect("the harness does its work")
    }

    #[test]
    fn killed_fifty_times_nothing_acknowledged_is_lost_and_the_journal_opens() {
        victim::take_part();
        let Some(cluster) = cluster() else { return };
        let report = lives(cluster, 50, 7, false);
        assert!(report.is_clean(), "{report:?}");
        assert!(report.killed >= 25 && report.acknowledged >= 100, "{report:?}");
        assert_eq!(report.cycles, 50);
    }

    #[test]
    fn a_victim_that_acknowledges_before_it_is_done_is_found_out() {
        let Some(cluster) = cluster() else { return };
        let report = lives(cluster, 20, 7, true);
        assert!(!report.lost.is_empty(), "{report:?}");
        assert_eq!(report.unopenable, Vec::<String>::new());
    }
}
