//! Killed, or failed by the disk, at every call that touches the journal: nothing acknowledged is lost
//! and the journal opens. Skipped, with a notice, where there is no strace that may trace.

use crate::crash::points::{self, Plan, Report, Scenario};
use crate::crash::task::Launcher;
use crate::crash::trace::{self, Action};
use crate::crash::victim;

/// Tries a plan; its victims are this test program, led to the first test below.
fn tried(scenario: Scenario, action: Action, records: u64, ack_early: bool) -> Option<Report> {
    if !trace::available() {
        return None;
    }
    let name = "crash_points::killed_at_every_call_of_an_append_nothing_acknowledged_is_lost";
    let launcher = Launcher::own(&["--exact", name, "--nocapture"]).expect("this program");
    let plan = Plan { scenario, action, records, double: false, ack_early };
    Some(points::run(&launcher, plan).expect("the harness does its work"))
}

/// Nothing went wrong, and nearly every call was met.
fn assert_clean(report: &Report, calls_min: usize) {
    assert!(report.is_clean(), "{report:?}");
    assert!(report.calls >= calls_min, "{report:?}");
    assert!(report.hidden.len() <= 4, "{report:?}");
    // Threads do not take the same turns each time, so that a point now and then does not come.
    assert!(report.met * 10 >= report.tried * 9, "{report:?}");
}

/// A write or a sync of the records themselves that failed is never taken for done.
fn assert_nothing_swallowed(report: &Report) {
    let records = |label: &&String| label.contains("journal/db/db") && !label.starts_with("fsync");
    let swallowed: Vec<&String> = report.went_on.iter().filter(records).collect();
    assert!(swallowed.is_empty(), "{report:?}");
}

#[test]
fn killed_at_every_call_of_an_append_nothing_acknowledged_is_lost() {
    victim::take_part();
    let Some(report) = tried(Scenario::Append, Action::Kill, 2, false) else { return };
    assert_clean(&report, 12);
}

#[test]
fn killed_at_every_call_of_a_delivery_nothing_acknowledged_is_lost() {
    let Some(report) = tried(Scenario::Deliver, Action::Kill, 1, false) else { return };
    assert_clean(&report, 12);
}

#[test]
fn killed_at_every_call_of_opening_the_journal_opens() {
    let Some(report) = tried(Scenario::Open, Action::Kill, 0, false) else { return };
    assert_clean(&report, 30);
}

#[test]
fn killed_at_every_call_of_making_a_journal_it_can_be_made_again() {
    let Some(report) = tried(Scenario::Create, Action::Kill, 0, false) else { return };
    assert_clean(&report, 30);
}

#[test]
fn a_disk_that_is_full_at_any_call_of_an_append_ends_in_a_code_and_loses_nothing() {
    let Some(report) = tried(Scenario::Append, Action::Enospc, 2, false) else { return };
    assert_clean(&report, 12);
    assert_nothing_swallowed(&report);
}

#[test]
fn a_disk_that_fails_at_any_call_of_an_append_ends_in_a_code_and_loses_nothing() {
    let Some(report) = tried(Scenario::Append, Action::Eio, 2, false) else { return };
    assert_clean(&report, 12);
    assert_nothing_swallowed(&report);
}

#[test]
fn a_victim_that_acknowledges_before_it_wrote_is_found_out() {
    let Some(report) = tried(Scenario::Append, Action::Kill, 1, true) else { return };
    assert!(report.lost.iter().any(|lost| lost.ends_with("is not there")), "{report:?}");
}

/// The same on a server: killed at every message, and every message lost, or the answer to it.
#[cfg(feature = "postgres")]
mod server {
    use super::{Launcher, victim};
    use crate::crash::wire::{Action, Plan, Report, Scenario};
    use crate::postgres::cluster;

    /// Tries a plan; its victims are this test program, led to the first test below.
    fn tried(scenario: Scenario, action: Action, ack_early: bool) -> Option<Report> {
        let cluster = cluster()?;
        let name =
            "crash_points::server::killed_at_every_call_of_an_append_nothing_acknowledged_is_lost";
        let launcher = Launcher::own(&["--exact", name, "--nocapture"]).expect("this program");
        let url = |port| {
            let url = cluster.url();
            let through = url.replace(&format!(":{}/", cluster.port()), &format!(":{port}/"));
            (url.into(), through.into())
        };
        let server = ([127, 0, 0, 1], cluster.port()).into();
        let plan = Plan { launcher: &launcher, scenario, action, ack_early, server, url: &url };
        Some(plan.run().expect("the harness does its work"))
    }

    fn assert_clean(report: &Report, points_min: u64) {
        assert!(report.is_clean(), "{report:?}");
        assert!(report.points >= points_min, "{report:?}");
        // Connections and their messages do not come in the same order each time.
        assert!(report.met * 3 >= report.points, "{report:?}");
    }

    #[test]
    fn killed_at_every_call_of_an_append_nothing_acknowledged_is_lost() {
        victim::take_part();
        let Some(report) = tried(Scenario::Append, Action::Kill, false) else { return };
        assert_clean(&report, 4);
    }

    #[test]
    fn killed_at_every_call_of_a_delivery_nothing_acknowledged_is_lost() {
        let Some(report) = tried(Scenario::Deliver, Action::Kill, false) else { return };
        assert_clean(&report, 4);
    }

    #[test]
    fn killed_at_every_call_of_opening_the_journal_opens() {
        let Some(report) = tried(Scenario::Open, Action::Kill, false) else { return };
        assert_clean(&report, 10);
    }

    #[test]
    fn killed_at_every_call_of_making_a_journal_it_can_be_made_again() {
        let Some(report) = tried(Scenario::Create, Action::Kill, false) else { return };
        assert_clean(&report, 10);
    }

    #[test]
    fn a_request_that_is_lost_at_any_message_of_an_append_loses_nothing() {
        let Some(report) = tried(Scenario::Append, Action::CutBefore, false) else { return };
        assert_clean(&report, 4);
    }

    #[test]
    fn an_answer_that_is_lost_at_any_message_of_a_delivery_loses_and_doubles_nothing() {
        let Some(report) = tried(Scenario::Deliver, Action::CutBehind, false) else { return };
        assert_clean(&report, 4);
    }

    #[test]
    fn a_victim_that_acknowledges_before_it_wrote_is_found_out() {
        let Some(report) = tried(Scenario::Append, Action::Kill, true) else { return };
        assert!(report.lost.iter().any(|lost| lost.ends_with("is not there")), "{report:?}");
    }
}
