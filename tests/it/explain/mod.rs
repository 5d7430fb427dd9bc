//! Every state of every flow is explained, the explanation agrees with the rules, and its commands work
//! as typed.

mod program;
mod states;

use crate::support::snapshots;
use leasehold::audit::explain::text;
use leasehold::{Delivery, Dispatch, Lifecycle, Notify, Processing};
use leasehold_actors::contract::text::{Sha256, WorkerToken};
use leasehold_actors::contract::time::{Duration, Timestamp};
use leasehold_actors::explain::{
    Changes, Explains, Explanation, LossesMax, Pinned, Place, Rule, View, WaitsFor, explain,
    explain_quarantined,
};
use leasehold_actors::record::policy::Delays;
use leasehold_actors::record::{Command, Policy, Refusal, State, StateKind, decide};
use states::{Case, NOW, at};
use std::collections::BTreeSet;

fn explained<F: Explains>(case: &Case<F>) -> Explanation {
    let place = Place::folder("demo-journal");
    let view =
        View { now: at(NOW), pinned: case.pinned, losses_max: case.losses_max, place: &place };
    explain(&case.state, case.situation.clone(), &view).expect("there is a record")
}

fn told<F: Explains>(cases: &[Case<F>]) -> String {
    let texts =
        cases.iter().map(|case| format!("# {}\n{}\n", case.name, text(&explained(case), at(NOW))));
    let place = Place::folder("demo-journal");
    let id = Some("event-1");
    let since = Some(at(NOW - 60.0));
    let damaged = explain_quarantined::<F>(id, Some(17), "record_damaged", since, &place);
    let damaged = format!("# quarantined\n{}\n", text(&damaged, at(NOW)));
    texts.chain([damaged]).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_state_of_every_flow_is_explained_as_it_was_read() {
    snapshots("explain").bind(|| {
        insta::assert_snapshot!("dispatch", told(&states::dispatch()));
        insta::assert_snapshot!("lifecycle", told(&states::lifecycle()));
        insta::assert_snapshot!("notification", told(&states::notification()));
        insta::assert_snapshot!("processing", told(&states::processing()));
        insta::assert_snapshot!("delivery", told(&states::delivery()));
    });
}

fn kinds<F: Explains>(cases: &[Case<F>]) -> BTreeSet<StateKind> {
    cases.iter().filter_map(|case| case.state.kind()).collect()
}

#[test]
fn no_state_of_any_flow_is_left_out() {
    let all = |watches: bool| -> BTreeSet<StateKind> {
        let known = StateKind::ALL.into_iter();
        known
            .filter(|kind| *kind != StateKind::Quarantined)
            .filter(|kind| watches || *kind != StateKind::Watching)
            .collect()
    };
    assert_eq!(kinds::<Dispatch>(&states::dispatch()), all(false));
    assert_eq!(kinds::<Lifecycle>(&states::lifecycle()), all(true));
    assert_eq!(kinds::<Notify>(&states::notification()), all(false));
    assert_eq!(kinds::<Processing>(&states::processing()), all(true));
    assert_eq!(kinds::<Delivery>(&states::delivery()), all(false));
    let place = Place::folder("j");
    let (pinned, losses_max) = (Pinned::Unknown, LossesMax::Unknown);
    let view = View { now: at(NOW), pinned, losses_max, place: &place };
    assert_eq!(explain::<Dispatch>(&State::Vacant, Default::default(), &view), None);
}

/// Whether a claim would get the record at this time.
fn claimable<F: Explains>(state: &State<F>, now: Timestamp) -> bool {
    let policy = Policy::new(Delays::default()).expect("the defaults are valid");
    let owner = WorkerToken::new("w").expect("a worker");
    let lease = Duration::new(60.0).expect("a lease");
    let command = Command::Claim { owner, token_sha256: Sha256::of(b"token"), lease };
    match decide(&policy, state, command, now) {
        Ok(_) => true,
        Err(refusal) => {
            assert_eq!(refusal, Refusal::NotDue);
            false
        }
    }
}

fn ends_lease<F: Explains>(state: &State<F>, now: Timestamp) -> bool {
    let policy = Policy::new(Delays::default()).expect("the defaults are valid");
    decide(&policy, state, Command::Expire, now).is_ok_and(|events| !events.is_empty())
}

fn agrees<F: Explains>(cases: &[Case<F>]) {
    for case in cases {
        let found = explained(case);
        let (flow, name) = (found.flow, case.name);
        let waits = !matches!(found.waits_for, WaitsFor::Lease { .. });
        match (found.changes, found.changes_at.and_then(Timestamp::new)) {
            (Changes::AtItsTime, Some(then)) => {
                assert!(then > at(NOW), "{flow} {name}");
                let moves = |now| {
                    if waits { claimable(&case.state, now) } else { ends_lease(&case.state, now) }
                };
                assert!(!moves(at(NOW)) && !moves(at(then.seconds() - 0.5)), "{flow} {name}");
                assert!(moves(then), "{flow} {name}");
            }
            (Changes::NextClaim, Some(_)) if waits => {
                assert!(claimable(&case.state, at(NOW)), "{flow} {name}");
            }
            (Changes::NextClaim, Some(_)) => {
                assert!(ends_lease(&case.state, at(NOW)), "{flow} {name}")
            }
            // Held by another record, or for an operator: the agenda gives it to nobody.
            (Changes::OtherSettles | Changes::Operator, None) => {
                let known = matches!(case.state, State::Ready { .. } | State::Failed { .. });
                assert!(known && found.is_open(), "{flow} {name}");
            }
            (Changes::Never, None) => {
                assert!(!claimable(&case.state, at(1e12)) && !found.is_open(), "{flow} {name}");
            }
            (changes, then) => panic!("{flow} {name}: {changes:?} at {then:?}"),
        }
    }
}

#[test]
fn what_is_said_of_the_future_is_what_the_rules_decide_then() {
    agrees(&states::dispatch());
    agrees(&states::lifecycle());
    agrees(&states::notification());
    agrees(&states::processing());
    agrees(&states::delivery());
}

fn named<F: Explains>(cases: Vec<Case<F>>, name: &str) -> Explanation {
    explained(&cases.into_iter().find(|case| case.name == name).expect("it is among them"))
}

#[test]
fn what_waits_for_a_pause_is_no_trouble_and_a_held_record_is_whatever_is_paused() {
    let waits = named(states::dispatch(), "its site is paused");
    assert_eq!((waits.needs_somebody(), waits.is_open()), (false, true));
    assert!(waits.reason().contains("site/site-1 (paused by maria: it is being mended)"));
    let held = named(states::delivery(), "held, and its site is paused");
    assert!(matches!(held.waits_for, WaitsFor::Digest { .. }) && held.needs_somebody());
    let verbs = held.actions.iter().map(|action| action.command.split(' ').nth(1));
    assert_eq!(verbs.collect::<Vec<_>>(), ["repin", "dismiss", "resume"].map(Some));
    let leased = named(states::lifecycle(), "leased, and its site is paused");
    assert_eq!((leased.changes, leased.paused.len()), (Changes::AtItsTime, 1));
}

#[test]
fn a_lease_is_the_last_one_when_losing_it_reaches_the_limit_and_not_before() {
    let last = |name| {
        let explained = named(states::processing(), name);
        let WaitsFor::Lease { last, .. } = explained.waits_for else { panic!("it is leased") };
        last
    };
    assert!(last("leased after four lost leases") && !last("leased after three lost leases"));
    let mut case = states::processing();
    case.retain(|case| case.name == "leased after four lost leases");
    case[0].losses_max = LossesMax::Configured(None);
    let found = explained(&case[0]);
    assert!(matches!(found.waits_for, WaitsFor::Lease { last: false, .. }), "{found:?}");
    let failed = named(states::dispatch(), "failed after five lost leases").reason();
    assert!(
        failed.contains("dispatch.lease_lost_repeatedly") && failed.contains("; 5 leases lost")
    );
}

fn rules<F: Explains>(cases: &[Case<F>]) -> BTreeSet<&'static str> {
    cases.iter().map(|case| explained(case).rule.sentence()).collect()
}

#[test]
fn every_rule_has_its_own_sentence_and_a_state_that_it_holds() {
    let mut held: BTreeSet<_> = rules(&states::dispatch());
    held.extend(rules(&states::lifecycle()));
    held.extend(rules(&states::notification()));
    held.extend(rules(&states::processing()));
    held.extend(rules(&states::delivery()));
    held.insert(Rule::Quarantine.sentence());
    let all: BTreeSet<_> = Rule::ALL.into_iter().map(Rule::sentence).collect();
    assert_eq!(held, all);
    assert_eq!(all.len(), Rule::ALL.len());
}

#[test]
fn without_a_configuration_a_digest_is_neither_guessed_nor_passed_over() {
    for mut case in states::processing() {
        let open = matches!(case.state, State::Ready { .. } | State::Leased { .. });
        case.pinned = Pinned::Unknown;
        let found = explained(&case);
        assert_eq!(found.digest_unknown, open, "{}", case.name);
        assert!(!matches!(found.waits_for, WaitsFor::Digest { .. }), "{}", case.name);
        case.pinned = Pinned::Configured(Some(states::digest()));
        assert!(!explained(&case).digest_unknown, "{}", case.name);
    }
    for case in states::dispatch() {
        assert!(!explained(&case).digest_unknown, "{}: it pins none", case.name);
    }
}

#[test]
fn as_json_an_explanation_has_stable_names() {
    let case = states::dispatch().into_iter().find(|case| case.name == "after a failure");
    let found = serde_json::to_value(explained(&case.expect("it is among them"))).expect("a form");
    snapshots("explain").bind(|| insta::assert_json_snapshot!("json", found));
}
