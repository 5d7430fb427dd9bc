//! What the simulation needs to know of each flow.
//!
//! Owns the trait beside the engine's own, and which registrations are drawn for each flow. Answers of
//! the other sides are in [`super::answers`]. Must not know actors or workers.

use super::answers;
use super::documents::OPERATIONS;
use super::shared::Shared;
use leasehold_actors::contract::source::Operation;
use leasehold_actors::contract::text::{Sha256, Token};
use leasehold_actors::contract::time::Ceiling;
use leasehold_actors::flows::Answers;
use leasehold_actors::flows::all::AllFlows;
use leasehold_actors::flows::delivery::{Delivery, DeliveryBinding, DeliveryRequest, identity_of};
use leasehold_actors::flows::dispatch::{ChangeRequest, Dispatch, DispatchBinding};
use leasehold_actors::flows::handover::{Follows, Registration, Terms};
use leasehold_actors::flows::lifecycle::{Lifecycle, LifecycleBinding, LifecycleRequest};
use leasehold_actors::flows::notification::{NotificationRequest, Notify, NotifyBinding};
use leasehold_actors::flows::processing::{Processing, ProcessingBinding, ProcessingRequest};
use leasehold_actors::record::{Command, Flow, FlowTag, Identity, State, stream_of};
use leasehold_actors::replay::Replay;
use leasehold_journal::StreamId;

/// What a registration is drawn as.
pub(crate) type Drawn<F> = Option<(<F as Flow>::Binding, <F as Flow>::Payload)>;

/// A registration on its way to the next flow.
#[derive(Debug)]
pub(crate) enum Handed {
    /// To be watched.
    Lifecycle(Registration<Lifecycle>),
    /// To be told.
    Notification(Registration<Notify>),
    /// To be watched at the receiver.
    Processing(Registration<Processing>),
}

impl Handed {
    /// Which flow it is for.
    pub(crate) fn to(&self) -> FlowTag {
        match self {
            Self::Lifecycle(_) => FlowTag::Lifecycle,
            Self::Notification(_) => FlowTag::Notification,
            Self::Processing(_) => FlowTag::Processing,
        }
    }

    /// Whose record it makes.
    pub(crate) fn identity(&self) -> &Identity {
        match self {
            Self::Lifecycle(registration) => &registration.identity,
            Self::Notification(registration) => &registration.identity,
            Self::Processing(registration) => &registration.identity,
        }
    }

    /// The stream of that record.
    pub(crate) fn stream(&self) -> StreamId {
        stream_of(self.to(), self.identity().as_str())
    }

    /// The same under an identity that nothing leads to, for the null control.
    pub(crate) fn doubled(&self) -> Option<Self> {
        let Self::Lifecycle(Registration {
            command: Command::Register { binding, .. }, at, ..
        }) = self
        else {
            return None;
        };
        let binding = LifecycleBinding { event_id: Token::new("event-77")?, ..binding.clone() };
        Some(Self::Lifecycle(Registration {
            identity: Lifecycle::identity(&binding),
            command: Command::Register { binding, payload: (), settled: None },
            at: *at,
        }))
    }
}

/// A flow that can be simulated.
pub(crate) trait SimFlow: Answers + PartialEq {
    /// Its part of a journal.
    fn part(all: &mut AllFlows) -> &mut Replay<Self>;
    /// What the other side is sent, as bytes.
    fn body(request: &Self::Request) -> Vec<u8>;
    /// What the other side answers; `temper` is drawn once for each identity, `progress` grows with
    /// each call that it takes, `read` is drawn for each call.
    fn answer(binding: &Self::Binding, temper: u64, progress: u64, read: u64) -> String;

    /// A registration a host makes, where hosts make any; `other` draws one that collides.
    fn draw(_shared: &mut Shared, _expected: Option<Sha256>, _other: bool) -> Drawn<Self> {
        None
    }
    /// A registration of another record with what only this one may have (D17).
    fn steal(_binding: &Self::Binding) -> Drawn<Self> {
        None
    }
    /// What a completed record registers next.
    fn hand_over(_state: &State<Self>, _terms: Terms) -> Option<Handed> {
        None
    }
    /// A registration that came from the flow before.
    fn take(_handed: Handed) -> Option<Registration<Self>> {
        None
    }
    /// The record that has to be settled first (D5).
    fn waits_for(_binding: &Self::Binding) -> Option<Identity> {
        None
    }
}

impl SimFlow for Dispatch {
    fn part(all: &mut AllFlows) -> &mut Replay<Self> {
        &mut all.dispatch
    }

    fn body(request: &ChangeRequest) -> Vec<u8> {
        request.change.as_bytes().to_vec()
    }

    fn answer(binding: &DispatchBinding, temper: u64, progress: u64, _: u64) -> String {
        answers::dispatch(binding, temper, progress)
    }

    fn draw(shared: &mut Shared, _: Option<Sha256>, other: bool) -> Drawn<Self> {
        let event = shared.rng.index(shared.plan.dispatched);
        let change = &shared.documents.changes[event][usize::from(other)];
        let binding = DispatchBinding::of(change, shared.plan.ceilings[event]);
        Some((binding, change.payload.clone()))
    }

    fn hand_over(state: &State<Self>, terms: Terms) -> Option<Handed> {
        <Lifecycle as Follows<Self>>::follow(state, terms).map(Handed::Lifecycle)
    }
}

impl SimFlow for Lifecycle {
    fn part(all: &mut AllFlows) -> &mut Replay<Self> {
        &mut all.lifecycle
    }

    fn body(request: &LifecycleRequest) -> Vec<u8> {
        format!("{} {}", request.event_id, request.site_id).into_bytes()
    }

    fn answer(binding: &LifecycleBinding, temper: u64, progress: u64, read: u64) -> String {
        answers::lifecycle(binding, temper, progress, read)
    }

    fn hand_over(state: &State<Self>, terms: Terms) -> Option<Handed> {
        <Notify as Follows<Self>>::follow(state, terms).map(Handed::Notification)
    }

    fn take(handed: Handed) -> Option<Registration<Self>> {
        if let Handed::Lifecycle(registration) = handed { Some(registration) } else { None }
    }
}

impl SimFlow for Notify {
    fn part(all: &mut AllFlows) -> &mut Replay<Self> {
        &mut all.notification
    }

    fn body(request: &NotificationRequest) -> Vec<u8> {
        request.notification.as_bytes().to_vec()
    }

    fn answer(binding: &NotifyBinding, _: u64, _: u64, _: u64) -> String {
        answers::notification(binding)
    }

    fn hand_over(state: &State<Self>, terms: Terms) -> Option<Handed> {
        <Processing as Follows<Self>>::follow(state, terms).map(Handed::Processing)
    }

    fn take(handed: Handed) -> Option<Registration<Self>> {
        if let Handed::Notification(registration) = handed { Some(registration) } else { None }
    }
}

impl SimFlow for Processing {
    fn part(all: &mut AllFlows) -> &mut Replay<Self> {
        &mut all.processing
    }

    fn body(request: &ProcessingRequest) -> Vec<u8> {
        format!("{} {}", request.event_id, request.site_id).into_bytes()
    }

    fn answer(binding: &ProcessingBinding, temper: u64, progress: u64, _: u64) -> String {
        answers::processing(binding, temper, progress)
    }

    fn steal(binding: &ProcessingBinding) -> Drawn<Self> {
        let event_id = Token::new("event-88").expect("a token");
        Some((ProcessingBinding { event_id, ..binding.clone() }, ()))
    }

    fn take(handed: Handed) -> Option<Registration<Self>> {
        if let Handed::Processing(registration) = handed { Some(registration) } else { None }
    }
}

impl SimFlow for Delivery {
    fn part(all: &mut AllFlows) -> &mut Replay<Self> {
        &mut all.delivery
    }

    fn body(request: &DeliveryRequest) -> Vec<u8> {
        let envelope = format!("{} {} ", request.operation.name(), request.max_attempts);
        [envelope.as_bytes(), request.document.as_bytes()].concat()
    }

    fn answer(binding: &DeliveryBinding, _: u64, _: u64, _: u64) -> String {
        answers::delivery(binding)
    }

    fn draw(shared: &mut Shared, expected: Option<Sha256>, other: bool) -> Drawn<Self> {
        let event = shared.rng.index(shared.plan.delivered);
        let place = event * OPERATIONS + shared.rng.index(OPERATIONS);
        let document = &shared.documents.deliveries[place][usize::from(other)];
        let source = Ceiling::new(5).expect("1 to 20");
        let binding = DeliveryBinding::of(document, expected?, shared.plan.ceilings[event], source);
        Some((binding, document.payload.clone()))
    }

    fn waits_for(binding: &DeliveryBinding) -> Option<Identity> {
        match binding.operation {
            Operation::Change => None,
            Operation::Cancellation | Operation::Tombstone => {
                Some(identity_of(Operation::Change, &binding.event_id))
            }
        }
    }
}
