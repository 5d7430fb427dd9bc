//! Properties of the record lifecycle: any commands, in any order, at any time.

use crate::events::{every_event, intervention};
use crate::support::{accepted, change};
use leasehold_actors::agenda::{Agenda, Slot};
use leasehold_actors::carried::{Origin, image_of};
use leasehold_actors::codec;
use leasehold_actors::contract::change::Change;
use leasehold_actors::contract::dispatch::DispatchResponse;
use leasehold_actors::contract::text::{ErrorCode, WorkerToken};
use leasehold_actors::contract::time::{Ceiling, Duration, Timestamp};
use leasehold_actors::flows::dispatch::{Dispatch, DispatchBinding};
use leasehold_actors::health::{Tally, class};
use leasehold_actors::invariants::{self, broken};
use leasehold_actors::record::policy::Delays;
use leasehold_actors::record::{
    Command, Event, Flow, LeaseToken, Policy, Proof, Refusal, Settlement, State, StateKind, decide,
    evolve, stream_of,
};
use leasehold_actors::replay::{Replay, ReplayError, Replayed, state_of};
use proptest::prelude::*;

/// One command of the model; numbers pick which lease's proof is shown.
#[derive(Debug, Clone)]
enum Move {
    Register { ceiling: i64 },
    Claim { lease: f64 },
    Complete { lease: usize },
    Retry { lease: usize },
    Fail { lease: usize },
    Release { lease: usize },
    Expire,
    Abandon,
    Requeue,
    RequeueAt { due: f64 },
    Dismiss,
}

fn moves() -> impl Strategy<Value = Vec<(Move, f64)>> {
    let one = prop_oneof![
        1 => (1_i64..=4).prop_map(|ceiling| Move::Register { ceiling }),
        4 => (1.0..100.0).prop_map(|lease| Move::Claim { lease }),
        1 => (0_usize..4).prop_map(|lease| Move::Complete { lease }),
        3 => (0_usize..4).prop_map(|lease| Move::Retry { lease }),
        1 => (0_usize..4).prop_map(|lease| Move::Fail { lease }),
        2 => (0_usize..4).prop_map(|lease| Move::Release { lease }),
        2 => Just(Move::Expire),
        1 => Just(Move::Abandon),
        1 => Just(Move::Requeue),
        1 => (-50.0..200.0).prop_map(|due| Move::RequeueAt { due }),
        1 => Just(Move::Dismiss),
    ];
    // Time mostly goes forward, sometimes back.
    proptest::collection::vec((one, -20.0..120.0), 1..40)
}

struct Model {
    policy: Policy,
    state: State<Dispatch>,
    now: f64,
    proofs: Vec<Proof<Dispatch>>,
    events: Vec<Event<Dispatch>>,
    tokens: u32,
}

impl Model {
    fn new() -> Self {
        let policy = Policy::new(Delays::default()).expect("the defaults are valid");
        let policy = policy.with_unclean_losses_max(std::num::NonZeroU32::new(2));
        Self {
            policy,
            state: State::Vacant,
            now: 1000.0,
            proofs: vec![],
            events: vec![],
            tokens: 0,
        }
    }

    fn proof(&self, lease: usize) -> Option<Proof<Dispatch>> {
        // 0 is the newest lease, others are stale.
        self.proofs.iter().rev().nth(lease).cloned()
    }

    fn command(&mut self, step: &Move) -> Option<Command<Dispatch>> {
        let code = ErrorCode::known("network");
        let settle = |proof, settlement| Command::Settle { proof, settlement };
        Some(match step {
            Move::Register { ceiling } => {
                let change = Change::parse(change("event-1").as_bytes()).expect("a change");
                let ceiling = Ceiling::new(*ceiling).expect("in range");
                let binding = DispatchBinding::of(&change, ceiling);
                Command::Register { binding, payload: change.payload, settled: None }
            }
            Move::Claim { lease } => {
                self.tokens += 1;
                let token_sha256 = LeaseToken::new(self.tokens.to_string().into()).sha256();
                let lease = Duration::new(*lease).expect("in range");
                let owner = WorkerToken::new("w").expect("a worker");
                Command::Claim { owner, token_sha256, lease }
            }
            Move::Complete { lease } => {
                let id = leasehold_actors::contract::text::Token::new("event-1").expect("a token");
                let answer = accepted("event-1", 2);
                let report = DispatchResponse::parse(answer.as_bytes(), &id).expect("an answer");
                settle(self.proof(*lease)?, Settlement::Report(report))
            }
            Move::Retry { lease } => {
                settle(self.proof(*lease)?, Settlement::Retry { code, retry_after: None })
            }
            Move::Fail { lease } => settle(self.proof(*lease)?, Settlement::Fail { code }),
            Move::Release { lease } => Command::Release { proof: self.proof(*lease)? },
            Move::Expire => Command::Expire,
            Move::Abandon => Command::Abandon,
            Move::Requeue => Command::Requeue { next_at: None, intervention: intervention() },
            Move::RequeueAt { due } => {
                let next_at = Timestamp::new((self.now + due).max(0.0));
                Command::Requeue { next_at, intervention: intervention() }
            }
            Move::Dismiss => Command::Dismiss { expected: None, intervention: intervention() },
        })
    }

    /// Makes one move; answers the states before and after, and the refusal.
    fn step(&mut self, step: &Move, by: f64) -> (State<Dispatch>, Option<Refusal>) {
        self.now = (self.now + by).max(0.0);
        let now = Timestamp::new(self.now).expect("a time");
        let before = self.state.clone();
        let Some(command) = self.command(step) else { return (before, None) };
        match decide(&self.policy, &self.state, command, now) {
            Err(refusal) => (before, Some(refusal)),
            Ok(events) => {
                for event in events {
                    self.state =
                        evolve(self.state.clone(), &event).expect("decided events are legal");
                    self.events.push(event);
                }
                if let State::Leased { record, lease, .. } = &self.state
                    && !matches!(before, State::Leased { .. })
                {
                    self.proofs.push(Proof {
                        binding: record.binding.clone(),
                        attempt: record.attempts,
                        owner: lease.owner.clone(),
                        token_sha256: lease.token_sha256,
                        expires_at: lease.expires_at,
                    });
                }
                (before, None)
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    /// R1 to R4 after every move; R5 and I5: nothing but an operator leaves a final state; I3: a refusal, or a stale
    /// token, changes nothing.
    #[test]
    fn r1_r2_r3_r4_r5_hold_after_every_move(moves in moves()) {
        let mut model = Model::new();
        for (step, by) in &moves {
            let newest = model.proofs.len();
            let (before, refusal) = model.step(step, *by);
            prop_assert_eq!(broken(&model.state), None);
            let given_up =
                matches!(before.kind(), Some(StateKind::Failed | StateKind::Dismissed))
                    && !matches!(step, Move::Requeue | Move::RequeueAt { .. } | Move::Dismiss);
            if refusal.is_some() || given_up || before.kind() == Some(StateKind::Completed) {
                prop_assert_eq!(&model.state, &before);
            }
            if let Move::Complete { lease }
            | Move::Retry { lease }
            | Move::Fail { lease }
            | Move::Release { lease } = step
            {
                // Only the newest lease, while it is held, moves anything.
                if *lease > 0 || newest == 0 {
                    prop_assert_eq!(&model.state, &before);
                }
            }
        }
    }

    /// I10: replaying the stored bytes of any prefix gives the live state.
    #[test]
    fn i10_replaying_any_prefix_gives_the_state_that_was_live_then(moves in moves()) {
        let mut model = Model::new();
        let mut lived = vec![State::Vacant];
        for (step, by) in &moves {
            let events = model.events.len();
            model.step(step, *by);
            lived.extend(std::iter::repeat_n(model.state.clone(), model.events.len() - events));
        }
        let mut replayed = State::<Dispatch>::Vacant;
        for (event, live) in model.events.iter().zip(&lived[1..]) {
            let body = codec::encode(event).expect("an event encodes");
            let event = codec::decode::<Dispatch>(&body).expect("it reads back");
            replayed = evolve(replayed, &event).expect("it happened");
            prop_assert_eq!(&replayed, live);
        }
    }

    /// I10 with archives: the image of any prefix and the events after it give the same state, and the
    /// payload stays for as long as anything may follow.
    #[test]
    fn i10_an_image_of_any_prefix_and_the_events_after_it_give_the_same_state(
        moves in moves(),
        part in 0.0..1.0_f64,
    ) {
        let mut model = Model::new();
        for (step, by) in &moves {
            model.step(step, *by);
        }
        let bodies: Vec<_> =
            model.events.iter().map(|it| codec::encode(it).expect("an event encodes")).collect();
        let (before, after) = bodies.split_at((bodies.len() as f64 * part).ceil() as usize);
        let stream = stream_of(Dispatch::TAG, "event-1");
        let mut archived = Replay::<Dispatch>::default();
        for body in before {
            archived.apply(stream, Some(body)).expect("it happened");
        }
        let image = archived.get(stream).map(|record| {
            let mut origin = || Ok(Origin { image: None, first: before.first().cloned() });
            image_of(Some(record), &mut origin).expect("it has its payload")
        });
        let whole = state_of::<Dispatch>(stream, image.as_deref(), after.to_vec());
        prop_assert_eq!(whole.as_ref(), Ok(&model.state));
        if let Some(image) = image {
            // Under another stream nobody would find it by its identity.
            let other = stream_of(Dispatch::TAG, "event-2");
            let carried = Replay::<Dispatch>::default().carry(other, Some(&image));
            prop_assert_eq!(carried, Err(ReplayError::Illegal));
            let completed = matches!(archived.get(stream), Some(Replayed::Sound(State::Completed { .. })));
            let origin = Origin { image: Some(image), first: after.first().cloned() };
            prop_assert_eq!(origin.payload::<Dispatch>().is_none(), completed);
        }
    }

    /// I9: the tally and the agenda that followed every transition equal those of the last state.
    #[test]
    fn i9_the_tally_and_the_agenda_follow_from_the_states(moves in moves()) {
        let mut model = Model::new();
        let (mut tally, mut agenda) = (Tally::default(), Agenda::default());
        let identity = leasehold_actors::record::Identity::new("event-1");
        for (step, by) in &moves {
            let (before, _) = model.step(step, *by);
            let (old, new) = (class(&before), class(&model.state));
            if before != model.state {
                tally.shift(old, new);
                let slots = (Slot::of(&before, old, None), Slot::of(&model.state, new, None));
                agenda.place(&identity, slots.0, slots.1);
            }
            let now = Timestamp::new(model.now).expect("a time");
            let mut counted = Tally::default();
            counted.shift(None, new);
            prop_assert_eq!(&tally, &counted);
            let due = matches!(&model.state, State::Ready { record, .. } if record.next_at <= now);
            prop_assert_eq!(agenda.due_count(now), u64::from(due));
            let expired = model.state.lease().is_some_and(|lease| lease.expired(now));
            prop_assert_eq!(agenda.expired_count(now), u64::from(expired));
        }
    }

    /// I4: every grant that was not given back adds one attempt, and no grant comes after the ceiling of its round.
    #[test]
    fn i4_attempts_count_every_grant_and_end_at_the_ceiling(moves in moves()) {
        let mut model = Model::new();
        for (step, by) in &moves {
            model.step(step, *by);
            let round = model.events.iter().rev();
            let round = round.take_while(|event| {
                !matches!(event, Event::Requeued { .. } | Event::RequeuedLater { .. })
            });
            let round: Vec<_> = round.collect();
            let count = |wanted: fn(&Event<Dispatch>) -> bool| {
                round.iter().filter(|event| wanted(event)).count()
            };
            let grants = count(|e| matches!(e, Event::Claimed { .. }))
                - count(|e| matches!(e, Event::Released { .. }));
            if let Some(record) = model.state.record() {
                prop_assert_eq!(record.attempts as usize, grants);
                prop_assert!(record.attempts <= Dispatch::ceiling(&record.binding).get());
            }
        }
    }
}

#[test]
fn r5_only_an_operator_leaves_a_final_state_and_only_registration_or_import_enters() {
    let events = every_event();
    let apply = |names: &[usize]| {
        names.iter().fold(State::Vacant, |state, at| {
            evolve(state, &events[*at]).expect("this order is legal")
        })
    };
    let vacant = State::<Dispatch>::Vacant;
    let (ready, leased) = (apply(&[0]), apply(&[0, 1]));
    let (completed, failed) = (apply(&[0, 1, 2]), apply(&[0, 1, 6]));
    let dismissed = apply(&[0, 1, 6, 9]);
    for (number, event) in events.iter().enumerate() {
        let enters = number == 0 || event.name() == "imported";
        assert_eq!(evolve(vacant.clone(), event).is_ok(), enters, "{}", event.name());
        assert_eq!(evolve(ready.clone(), event).is_ok(), number == 1, "{}", event.name());
        // No answer leaves a dispatched change watched, so none can be repeated.
        let ends = ((2..8).contains(&number) && event.name() != "unchanged") || number == 11;
        assert_eq!(evolve(leased.clone(), event).is_ok(), ends, "{}", event.name());
        assert!(evolve(completed.clone(), event).is_err(), "{}", event.name());
        let requeued = matches!(event.name(), "requeued" | "requeued_later");
        let given_up = requeued || event.name() == "dismissed";
        assert_eq!(evolve(failed.clone(), event).is_ok(), given_up, "{}", event.name());
        assert_eq!(evolve(dismissed.clone(), event).is_ok(), requeued, "{}", event.name());
    }
}

#[test]
fn a_state_that_breaks_an_invariant_is_told_by_its_id() {
    let events = every_event();
    let at = |seconds| Timestamp::new(seconds).expect("a time");
    let ready = evolve(State::Vacant, &events[0]).expect("it registers");
    let leased = evolve(ready.clone(), &events[1]).expect("it is claimed");
    let broken_id = |state: &State<Dispatch>| broken(state).map(|invariant| invariant.id);
    assert_eq!(broken_id(&ready), None);
    let State::Leased { record, lease, waited } = leased else { panic!("it is leased") };
    let mut over = record.clone();
    over.attempts = 6;
    let leased = |record, lease| State::Leased { record, lease, waited: waited.clone() };
    assert_eq!(broken_id(&leased(over, lease.clone())), Some("R1"));
    let mut early = record.clone();
    early.next_at = at(1.0);
    assert_eq!(broken_id(&leased(early, lease.clone())), Some("R2"));
    let mut short = lease;
    short.expires_at = record.updated_at;
    assert_eq!(broken_id(&leased(record.clone(), short)), Some("R3"));
    let wait = leasehold_actors::record::Wait::Pending;
    assert_eq!(broken_id(&State::Ready { record, wait }), Some("R4"));
    assert_eq!(invariants::ALL.len(), 7);
}
