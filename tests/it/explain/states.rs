//! A record in each of its states, for every flow.

use leasehold::{Delivery, Dispatch, Lifecycle, Notify, Processing};
use leasehold_actors::contract::dispatch::{DispatchResponse, DispatchedAs};
use leasehold_actors::contract::lifecycle::RemoteStatus;
use leasehold_actors::contract::payload::Payload;
use leasehold_actors::contract::receiver::{ReceiverState, WorkStatus};
use leasehold_actors::contract::source::Operation;
use leasehold_actors::contract::text::{ErrorCode, Sha256, Token, WorkerToken};
use leasehold_actors::contract::time::{Ceiling, Timestamp};
use leasehold_actors::control::{PausedScope, Scope};
use leasehold_actors::explain::{Explains, LossesMax, Next, Pinned, Situation};
use leasehold_actors::flows::delivery::{Delivered, DeliveryBinding};
use leasehold_actors::flows::dispatch::DispatchBinding;
use leasehold_actors::flows::lifecycle::{LifecycleBinding, LifecycleOutcome, Snapshot};
use leasehold_actors::flows::notification::{Acknowledged, NotifyBinding};
use leasehold_actors::flows::processing::ProcessingBinding;
use leasehold_actors::record::rules::Counted;
use leasehold_actors::record::{
    DismissedFrom, FlowTag, Identity, Intervention, Lease, OperatorName, Reason, Record, State,
    Wait,
};
use std::num::NonZeroU32;
use std::sync::Arc;

/// 2023-11-14T22:13:20Z.
pub(super) const NOW: f64 = 1_700_000_000.0;

pub(super) fn at(seconds: f64) -> Timestamp {
    Timestamp::new(seconds).expect("a time")
}

/// The digest records are registered under.
pub(super) fn digest() -> Sha256 {
    Sha256::of(b"older")
}

/// A record and all that is known of it.
pub(super) struct Case<F: Explains> {
    pub(super) name: &'static str,
    pub(super) state: State<F>,
    pub(super) situation: Situation,
    pub(super) pinned: Pinned,
    pub(super) losses_max: LossesMax,
}

fn case<F: Explains>(name: &'static str, state: State<F>) -> Case<F> {
    let pinned = Pinned::Configured(Some(digest()));
    let losses_max = LossesMax::Configured(NonZeroU32::new(5));
    Case { name, state, situation: Situation::default(), pinned, losses_max }
}

/// Scopes that maria paused an hour ago.
fn paused(scopes: &[&str]) -> Situation {
    let paused = scopes.iter().map(|scope| PausedScope {
        scope: Scope::new(scope).expect("a scope"),
        since: at(NOW - 3_600.0),
        intervention: Intervention {
            by: OperatorName::new("maria").expect("a name"),
            why: Reason::new("it is being mended").expect("a reason"),
        },
    });
    Situation { paused: paused.collect(), ..Situation::default() }
}

fn code(text: &str) -> ErrorCode {
    ErrorCode::new(text).expect("a code")
}

fn token(text: &str) -> Token {
    Token::new(text).expect("a token")
}

fn ceiling() -> Ceiling {
    Ceiling::new(5).expect("in range")
}

/// A record tried so often, last touched a minute ago.
fn record<F: Explains>(binding: F::Binding, tried: u32, next_at: f64) -> Record<F> {
    Record {
        binding: Arc::new(binding),
        created_at: at(NOW - 600.0),
        updated_at: at(NOW - 60.0),
        next_at: at(next_at),
        attempts: tried,
        failures: tried,
        losses: 0,
        progress: F::Progress::default(),
    }
}

fn leased<F: Explains>(record: Record<F>, expires_at: f64) -> State<F> {
    let owner = WorkerToken::new("worker-1").expect("a worker");
    let token_sha256 = Sha256::of(b"token");
    let lease = Lease { owner, token_sha256, expires_at: at(expires_at) };
    State::Leased { record, waited: None, lease }
}

/// The states every flow has.
fn shared<F: Explains>(binding: &F::Binding) -> Vec<Case<F>> {
    let record = |tried, next_at| record::<F>(binding.clone(), tried, next_at);
    let retry = |text: &str| Wait::Retry(code(text));
    let (soon, due) = (NOW + 30.0, NOW - 60.0);
    let lost = F::RULES.expiry_code;
    let network = || code("network");
    // A lease counts when it is taken, a failure when it is there.
    let last = match F::RULES.counted {
        Counted::Leases => 5,
        Counted::Failures => 4,
    };
    let mut cases = vec![
        case("registered, due", State::Ready { record: record(0, due), wait: Wait::Pending }),
        case(
            "registered, not due yet",
            State::Ready { record: record(0, soon), wait: Wait::Pending },
        ),
        case("after a failure", State::Ready { record: record(2, soon), wait: retry("network") }),
        case(
            "after a failure, due",
            State::Ready { record: record(2, due), wait: retry("network") },
        ),
        case(
            "after a lease that ran out",
            State::Ready { record: record(1, soon), wait: retry(lost) },
        ),
        case("leased", leased(record(1, due), NOW + 540.0)),
        case("leased for the last time", leased(record(last, due), NOW + 540.0)),
        case("leased, and the lease is over", leased(record(1, due), NOW)),
        case(
            "failed, not retryable",
            State::Failed { record: record(1, due), code: code("cms.refused") },
        ),
        case("failed, ceiling reached", State::Failed { record: record(5, due), code: network() }),
        case(
            "dismissed after it failed",
            State::Dismissed { record: record(5, due), from: DismissedFrom::Failed(network()) },
        ),
    ];
    cases.extend(paused_cases(binding));
    cases.extend(lost_cases(binding));
    cases
}

/// The states every flow has while something is paused.
fn paused_cases<F: Explains>(binding: &F::Binding) -> Vec<Case<F>> {
    let record = |tried, next_at| record::<F>(binding.clone(), tried, next_at);
    let with =
        |name, scopes: &[&str], state| Case { situation: paused(scopes), ..case(name, state) };
    let flow = format!("flow/{}", F::TAG.name());
    let waits = |next_at| State::Ready { record: record(0, next_at), wait: Wait::Pending };
    let again = Wait::Retry(code("network"));
    let again = State::Ready { record: record(2, NOW + 30.0), wait: again };
    vec![
        with("its site is paused", &["site/site-1"], waits(NOW - 60.0)),
        with("its flow and its site are paused", &[&flow, "site/site-1"], again),
        with(
            "leased, and its site is paused",
            &["site/site-1"],
            leased(record(1, NOW - 60.0), NOW + 540.0),
        ),
    ]
}

/// The states every flow has after leases that were lost.
fn lost_cases<F: Explains>(binding: &F::Binding) -> Vec<Case<F>> {
    let record = |losses| Record { losses, ..record::<F>(binding.clone(), 1, NOW - 60.0) };
    let lost = |losses| State::Ready {
        record: record(losses),
        wait: Wait::Retry(code(F::RULES.expiry_code)),
    };
    let with = |name, losses_max, state| Case { losses_max, ..case(name, state) };
    let given_up = code(F::RULES.losses_code);
    vec![
        case("after two lost leases", lost(2)),
        with("after lost leases, without a limit", LossesMax::Configured(None), lost(2)),
        with("after one lost lease, without a configuration", LossesMax::Unknown, lost(1)),
        case("leased after three lost leases", leased(record(3), NOW + 540.0)),
        case("leased after four lost leases", leased(record(4), NOW + 540.0)),
        case("failed after five lost leases", State::Failed { record: record(5), code: given_up }),
    ]
}

/// A settled record, before and after the flow that follows knows it.
fn handed_over<F: Explains>(
    settled: &State<F>,
    flow: FlowTag,
    state: &'static str,
) -> Vec<Case<F>> {
    let next = |state| Some(Next { flow, id: "event-1".to_owned(), state });
    let with = |name, state| {
        let situation = Situation { next: next(state), ..Situation::default() };
        Case { situation, ..case(name, settled.clone()) }
    };
    vec![with("settled, handed over", Some(state)), with("settled, not handed over", None)]
}

/// What D9 adds to flows that pin a digest.
fn held<F: Explains>(binding: &F::Binding) -> Vec<Case<F>> {
    let record = |tried| record::<F>(binding.clone(), tried, NOW - 60.0);
    let with = |name, pinned, state| Case { pinned, ..case(name, state) };
    let newer = Pinned::Configured(Some(Sha256::of(b"newer")));
    let waits = || State::Ready { record: record(0), wait: Wait::Pending };
    let failed = State::Failed { record: record(5), code: code("network") };
    let from = DismissedFrom::Held(Wait::Pending);
    let again = DismissedFrom::Held(Wait::Retry(code("network")));
    let both = with("held, and its site is paused", newer, waits());
    vec![
        with("held under another digest", newer, waits()),
        Case { situation: paused(&["site/site-1"]), ..both },
        with("held, no digest is configured", Pinned::Configured(None), waits()),
        with("no configuration at hand", Pinned::Unknown, waits()),
        with("failed under another digest", newer, failed),
        with("dismissed when it was held", newer, State::Dismissed { record: record(0), from }),
        with(
            "dismissed when held after a failure",
            newer,
            State::Dismissed { record: record(1), from: again },
        ),
    ]
}

/// A record that is polled, with what the other side said.
fn watched<F: Explains>(binding: &F::Binding, progress: F::Progress) -> Vec<Case<F>> {
    let watching = |next_at| {
        let record = record::<F>(binding.clone(), 3, next_at);
        let record = Record { failures: 0, progress: progress.clone(), ..record };
        State::Ready { record, wait: Wait::Watching }
    };
    vec![case("watched", watching(NOW + 12.5)), case("watched, due", watching(NOW - 60.0))]
}

pub(super) fn dispatch() -> Vec<Case<Dispatch>> {
    let binding = DispatchBinding {
        event_id: token("event-1"),
        site_id: token("site-1"),
        website_version: token("web-1"),
        source_sequence: 1,
        payload_sha256: Sha256::of(b"change"),
        max_attempts: ceiling(),
    };
    let outcome = DispatchResponse {
        plan_id: token("plan-1"),
        job_count: 2,
        status: DispatchedAs::Enqueued,
        sha256: Sha256::of(b"answer"),
    };
    let settled = State::Completed { record: record(binding.clone(), 1, NOW - 60.0), outcome };
    let mut cases = shared(&binding);
    cases.extend(handed_over(&settled, FlowTag::Lifecycle, "watching"));
    cases
}

pub(super) fn lifecycle() -> Vec<Case<Lifecycle>> {
    let binding = LifecycleBinding {
        event_id: token("event-1"),
        site_id: token("site-1"),
        plan_id: token("plan-1"),
        website_version: token("web-1"),
        source_sequence: 1,
        job_count: 2,
        change_sha256: Sha256::of(b"change"),
        max_consecutive_failures: ceiling(),
    };
    let answer = || Payload::from_canonical("{}".into());
    let snapshot = |status| Some(Snapshot { status, answer: answer() });
    let ended = |tried, status| State::Completed {
        record: record(binding.clone(), tried, NOW - 60.0),
        outcome: LifecycleOutcome { status, snapshot: snapshot(status) },
    };
    let mut cases = shared(&binding);
    cases.extend(watched(&binding, snapshot(RemoteStatus::AwaitingApproval)));
    let published = ended(3, RemoteStatus::Published);
    cases.extend(handed_over(&published, FlowTag::Notification, "pending"));
    cases.push(case("settled, overtaken", ended(3, RemoteStatus::Superseded)));
    cases.push(case("settled when it was registered", ended(0, RemoteStatus::Cancelled)));
    cases
}

pub(super) fn notification() -> Vec<Case<Notify>> {
    let binding = NotifyBinding {
        event_id: token("event-1"),
        site_id: token("site-1"),
        notification_id: token("terminal-1"),
        terminal_status: RemoteStatus::Published,
        notification_sha256: Sha256::of(b"notification"),
        max_attempts: ceiling(),
    };
    let outcome = Acknowledged { acknowledgement_sha256: Sha256::of(b"ack") };
    let settled = State::Completed { record: record(binding.clone(), 1, NOW - 60.0), outcome };
    let mut cases = shared(&binding);
    cases.extend(handed_over(&settled, FlowTag::Processing, "succeeded"));
    cases
}

pub(super) fn processing() -> Vec<Case<Processing>> {
    let binding = ProcessingBinding {
        event_id: token("event-1"),
        notification_id: token("terminal-1"),
        site_id: token("site-1"),
        terminal_status: RemoteStatus::Published,
        notification_sha256: Sha256::of(b"notification"),
        capabilities_sha256: digest(),
        max_failures: ceiling(),
    };
    let said = |status| ReceiverState {
        status,
        attempts: 1,
        max_attempts: 5,
        next_attempt_at: NOW,
        lease_expires_at: None,
        lease_expired: false,
        error_code: None,
        processed_at: None,
    };
    let tried = |failures| {
        let record = record(binding.clone(), 3, NOW - 60.0);
        Record { failures, ..record }
    };
    let mut cases = shared(&binding);
    cases.extend(watched(&binding, Some(said(WorkStatus::RetryWait))));
    cases.extend(held(&binding));
    let gave_up = code("terminal_processing_monitor.remote_failed");
    cases.push(case("failed at the receiver", State::Failed { record: tried(0), code: gave_up }));
    let settled = State::Completed { record: tried(0), outcome: said(WorkStatus::Succeeded) };
    cases.push(case("settled", settled));
    cases
}

pub(super) fn delivery() -> Vec<Case<Delivery>> {
    let of = |operation, request_id| DeliveryBinding {
        operation,
        request_id: token(request_id),
        event_id: token("event-1"),
        site_id: token("site-1"),
        payload_sha256: Sha256::of(b"document"),
        capabilities_sha256: digest(),
        delivery_max_attempts: ceiling(),
        source_max_attempts: ceiling(),
    };
    let binding = of(Operation::Change, "event-1");
    let mut cases = shared(&binding);
    cases.extend(held(&binding));
    let removal = of(Operation::Cancellation, "cancellation-1");
    let waits = State::Ready { record: record(removal, 0, NOW - 60.0), wait: Wait::Pending };
    let holder = Some(Identity::new("change/event-1"));
    let situation = Situation { waits_for: holder, ..Situation::default() };
    cases.push(Case {
        situation: situation.clone(),
        ..case("a removal before its change", waits.clone())
    });
    let situation = Situation { paused: paused(&["destination/source"]).paused, ..situation };
    cases.push(Case { situation, ..case("a removal before its change, paused", waits.clone()) });
    cases.push(case("a removal after its change", waits));
    let outcome = Delivered { response_sha256: Sha256::of(b"answer") };
    let settled = State::Completed { record: record(binding, 1, NOW - 60.0), outcome };
    cases.push(case("settled", settled));
    cases
}
