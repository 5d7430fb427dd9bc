//! Lives of records as the library encodes them, with every kind of event in every flow.

use super::ID;
use crate::support::{accepted, change};
use crate::wire_flows::{DIGEST, lifecycle};
use leasehold_actors::codec;
use leasehold_actors::contract::change::Change;
use leasehold_actors::contract::dispatch::DispatchResponse;
use leasehold_actors::contract::lifecycle::RemoteStatus;
use leasehold_actors::contract::notification::{Notification, Terminal};
use leasehold_actors::contract::payload::Payload;
use leasehold_actors::contract::receiver::{ReceiverState, WorkStatus};
use leasehold_actors::contract::source::Document;
use leasehold_actors::contract::text::{ErrorCode, Sha256, Token, WorkerToken};
use leasehold_actors::contract::time::{Ceiling, Timestamp};
use leasehold_actors::flows::all::home;
use leasehold_actors::flows::delivery::{Delivered, Delivery, DeliveryBinding};
use leasehold_actors::flows::dispatch::{Dispatch, DispatchBinding};
use leasehold_actors::flows::lifecycle::{
    Lifecycle, LifecycleBinding, LifecycleOutcome, RequestNote, Snapshot,
};
use leasehold_actors::flows::notification::{Acknowledged, Notify, NotifyBinding};
use leasehold_actors::flows::processing::{Processing, ProcessingBinding};
use leasehold_actors::record::event::{Ending, Loss};
use leasehold_actors::record::{Event, Flow, FlowTag, Intervention, OperatorName, Reason};
use leasehold_journal::memory::MemoryDisk;
use leasehold_journal::{Append, Log, LogOptions, Store as _, StreamId, archive};
use std::collections::BTreeMap;

/// One record's life: the bodies of its events.
#[derive(Clone)]
pub(super) struct Life {
    pub(super) flow: FlowTag,
    pub(super) bodies: Vec<Vec<u8>>,
}

/// Archives of journals that hold these lives between them. Each life lies under its own stream, so
/// those of one identity are in different archives; one that does not begin with a registration lies
/// anywhere.
pub(super) fn exported(lives: &[Life]) -> Vec<Vec<u8>> {
    let mut taken: BTreeMap<StreamId, usize> = BTreeMap::new();
    let mut parts: Vec<Vec<Append>> = Vec::new();
    for life in lives {
        let stream = home(&life.bodies[0]).unwrap_or(StreamId([life.flow as u8; 16]));
        let place = taken.entry(stream).or_default();
        if parts.len() == *place {
            parts.push(Vec::new());
        }
        let bodies = life.bodies.clone();
        parts[*place].push(Append { stream, expected_version: 0, bodies, alone: None });
        *place += 1;
    }
    parts.iter().map(|appends| archived(appends)).collect()
}

fn archived(appends: &[Append]) -> Vec<u8> {
    let disk = MemoryDisk::new();
    let options = LogOptions { new_id: ID, create: true };
    let mut log = Log::open(disk.medium(), options, &mut |_| Ok(())).expect("a new one");
    let placed = log.commit(appends).expect("memory takes everything");
    assert!(placed.iter().all(Result::is_ok), "every stream is new");
    bytes_of(&disk)
}

pub(super) fn bytes_of(disk: &MemoryDisk) -> Vec<u8> {
    let mut bytes = Vec::new();
    archive::export(&disk.medium(), &mut bytes).expect("it verifies");
    bytes
}

/// What a flow's events are made of.
pub(super) struct Sample<F: Flow> {
    pub(super) binding: F::Binding,
    pub(super) payload: F::Payload,
    pub(super) progress: F::Progress,
    note: F::Note,
    pub(super) outcome: F::Outcome,
}

pub(super) fn at(seconds: f64) -> Timestamp {
    Timestamp::new(seconds).expect("a time")
}

fn ceiling() -> Ceiling {
    Ceiling::new(5).expect("in range")
}

fn encoded<F: Flow>(event: &Event<F>) -> Vec<u8> {
    codec::encode(event).expect("an event encodes")
}

pub(super) fn claimed<F: Flow>(attempt: u32, seconds: f64) -> Event<F> {
    let owner = WorkerToken::new("worker-1").expect("a worker");
    let (token_sha256, expires_at) = (Sha256::of(b"token"), at(seconds + 60.0));
    Event::Claimed { at: at(seconds), attempt, owner, token_sha256, expires_at }
}

pub(super) fn retried<F: Flow>(failures: u32, seconds: f64) -> Event<F> {
    let code = ErrorCode::known("network");
    Event::Retried { at: at(seconds), next_at: at(seconds + 5.0), failures, code }
}

fn lost<F: Flow>(seconds: f64, loss: Loss, ending: Ending) -> Event<F> {
    let code = ErrorCode::known("lease_expired");
    Event::LeaseLost { at: at(seconds), next_at: at(seconds), failures: 1, code, loss, ending }
}

pub(super) fn released<F: Flow>(attempts: u32, seconds: f64, due: f64) -> Event<F> {
    Event::Released { at: at(seconds), next_at: at(due), attempts }
}

fn intervention() -> Intervention {
    let by = OperatorName::new("maria@example.org").expect("a name");
    Intervention { by, why: Reason::new("Schlüssel erneuert").expect("a reason") }
}

pub(super) fn requeued<F: Flow>(seconds: f64) -> Event<F> {
    Event::Requeued { at: at(seconds), intervention: intervention() }
}

fn requeued_later<F: Flow>(seconds: f64, due: f64) -> Event<F> {
    Event::RequeuedLater { at: at(seconds), next_at: at(due), intervention: intervention() }
}

pub(super) fn dismissed<F: Flow>(seconds: f64) -> Event<F> {
    Event::Dismissed { at: at(seconds), intervention: intervention() }
}

fn repinned<F: Flow>(seconds: f64) -> Event<F> {
    let digest = Sha256::of(b"another");
    Event::Repinned { at: at(seconds), digest, intervention: intervention() }
}

impl<F: Flow> Sample<F> {
    pub(super) fn registered(&self, settled: Option<F::Outcome>) -> Event<F> {
        let (binding, payload) = (self.binding.clone(), self.payload.clone());
        Event::Registered { at: at(100.0), binding, payload, settled }
    }

    fn completed(&self, seconds: f64) -> Event<F> {
        let outcome = self.outcome.clone();
        Event::Completed { at: at(seconds), next_at: at(seconds), outcome }
    }

    fn watched(&self, seconds: f64) -> Event<F> {
        let progress = self.progress.clone();
        Event::Watched { at: at(seconds), next_at: at(seconds + 30.0), progress }
    }

    pub(super) fn unchanged(&self, seconds: f64) -> Event<F> {
        let note = self.note.clone();
        Event::Unchanged { at: at(seconds), next_at: at(seconds + 30.0), note }
    }

    fn failed(&self, seconds: f64, progress: Option<F::Progress>) -> Event<F> {
        let code = ErrorCode::known("refused");
        Event::Failed { at: at(seconds), next_at: at(seconds), failures: 0, code, progress }
    }

    /// Lives with every kind of event. Some events cannot have happened in some flows: that has to be
    /// found as well, as a ceiling that was not kept.
    fn lives(&self) -> Vec<Life> {
        let polled = vec![
            claimed(1, 100.0),
            released(0, 100.5, 100.0),
            claimed(1, 100.5),
            self.watched(101.0),
            claimed(2, 131.0),
            self.unchanged(132.0),
            claimed(3, 162.0),
            released(2, 162.0, 162.0),
            claimed(3, 162.0),
            retried(1, 163.0),
            claimed(4, 168.0),
            self.failed(169.0, Some(self.progress.clone())),
        ];
        let lost_twice = vec![
            claimed(1, 100.0),
            lost(160.0, Loss::Expired, Ending::Retry),
            claimed(2, 160.0),
            lost(165.0, Loss::Abandoned, Ending::Final),
            dismissed(170.0),
            requeued(180.0),
            claimed(1, 180.0),
            self.failed(181.0, None),
            requeued(190.0),
        ];
        let failed = [claimed(1, 100.0), self.failed(101.0, None)];
        let put_off = [&failed[..], &[requeued_later(110.0, 120.5), claimed(1, 120.5)]].concat();
        // Neither of these can have happened: due no later than it was requeued, claimed before it is due.
        let not_later = [&failed[..], &[requeued_later(110.0, 110.0)]].concat();
        let too_soon = [&failed[..], &[requeued_later(110.0, 120.5), claimed(1, 120.0)]].concat();
        let over_the_ceiling = (1..=7_u32).flat_map(|attempt| {
            let seconds = 100.0 * f64::from(attempt);
            [claimed(attempt, seconds), retried(attempt, seconds + 1.0)]
        });
        let after_registration: [Vec<Event<F>>; 10] = [
            Vec::new(),
            vec![claimed(1, 100.0), self.completed(101.0)],
            polled,
            lost_twice,
            put_off,
            not_later,
            too_soon,
            over_the_ceiling.collect(),
            vec![repinned(101.0), claimed(1, 101.0)],
            vec![dismissed(101.0)],
        ];
        let lives = after_registration.map(|rest| [vec![self.registered(None)], rest].concat());
        let settled = vec![self.registered(Some(self.outcome.clone()))];
        let all = lives.into_iter().chain([settled]).chain(self.imported_lives());
        all.map(|events| Life { flow: F::TAG, bodies: events.iter().map(encoded).collect() })
            .collect()
    }
}

/// Lives with every kind of event in every flow.
pub(super) fn every_life() -> Vec<Life> {
    let event = Change::parse(change("event-1").as_bytes()).expect("a change");
    let answer = DispatchResponse::parse(accepted("event-1", 2).as_bytes(), &event.event_id);
    let dispatch = Sample::<Dispatch> {
        binding: DispatchBinding::of(&event, ceiling()),
        payload: event.payload.clone(),
        progress: (),
        note: (),
        outcome: answer.expect("an answer"),
    };
    let digest = Sha256::from_hex(DIGEST).expect("a hash");
    let document = Document::parse(change("event-1").as_bytes()).expect("a document");
    let delivery = Sample::<Delivery> {
        binding: DeliveryBinding::of(&document, digest, ceiling(), ceiling()),
        payload: document.payload,
        progress: (),
        note: (),
        outcome: Delivered { response_sha256: digest },
    };
    [dispatch.lives(), followed(&event, digest), delivery.lives()].concat()
}

/// Of the flows that follow an accepted change.
fn followed(event: &Change, digest: Sha256) -> Vec<Life> {
    let answer = lifecycle("0a", "published");
    let (_, answer) = Payload::parse(answer.as_bytes(), usize::MAX).expect("JSON");
    let snapshot = Snapshot { status: RemoteStatus::Published, answer };
    let binding = LifecycleBinding {
        event_id: event.event_id.clone(),
        site_id: event.site_id.clone(),
        plan_id: Token::new("plan-1").expect("a token"),
        website_version: event.website_version.clone(),
        source_sequence: event.source_sequence,
        job_count: 300,
        change_sha256: event.payload.sha256(),
        max_consecutive_failures: ceiling(),
    };
    let notification = Notification::build(&Terminal {
        event_id: event.event_id.clone(),
        site_id: event.site_id.clone(),
        plan_id: binding.plan_id.clone(),
        website_version: event.website_version.clone(),
        source_sequence: event.source_sequence,
        job_count: binding.job_count,
        change_sha256: binding.change_sha256,
        lifecycle_binding_sha256: binding.sha256(),
        terminal_status: snapshot.status,
        lifecycle_sha256: Some(snapshot.answer.sha256()),
    })
    .expect("it is terminal");
    let watched = Sample::<Lifecycle> {
        binding,
        payload: (),
        progress: Some(snapshot.clone()),
        note: RequestNote::Hex([11; 16]),
        outcome: LifecycleOutcome { status: snapshot.status, snapshot: Some(snapshot) },
    };
    let told = Sample::<Notify> {
        binding: NotifyBinding::of(&notification, ceiling()),
        payload: notification.payload.clone(),
        progress: (),
        note: (),
        outcome: Acknowledged { acknowledgement_sha256: digest },
    };
    [watched.lives(), told.lives(), processed(&notification, digest)].concat()
}

fn processed(notification: &Notification, digest: Sha256) -> Vec<Life> {
    let state = ReceiverState {
        status: WorkStatus::RetryWait,
        attempts: 1,
        max_attempts: 5,
        next_attempt_at: 100.5,
        lease_expires_at: None,
        lease_expired: false,
        error_code: Some(ErrorCode::known("cms.busy")),
        processed_at: Some(99.0),
    };
    let binding = ProcessingBinding {
        event_id: notification.event_id.clone(),
        notification_id: notification.notification_id.clone(),
        site_id: notification.site_id.clone(),
        terminal_status: notification.terminal_status,
        notification_sha256: notification.payload.sha256(),
        capabilities_sha256: digest,
        max_failures: ceiling(),
    };
    let (progress, outcome) = (Some(state.clone()), state);
    Sample::<Processing> { binding, payload: (), progress, note: (), outcome }.lives()
}
