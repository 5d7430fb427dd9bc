//! What each flow says of a record, and what is read back of one: sites, payloads, repeats, times,
//! images.
//!
//! Owns one small record of every flow, made of a document from the examples and handed over from
//! flow to flow. Must not know the engine, nor how a journal keeps what it is given.

use leasehold_actors::carried::{self, Carried, Origin};
use leasehold_actors::codec::{self, DecodeError};
use leasehold_actors::contract::change::Change;
use leasehold_actors::contract::dispatch::{DispatchResponse, DispatchedAs};
use leasehold_actors::contract::lifecycle::RemoteStatus;
use leasehold_actors::contract::notification::Notification;
use leasehold_actors::contract::payload::Payload;
use leasehold_actors::contract::receiver::{ReceiverState, WorkStatus};
use leasehold_actors::contract::removal::TOMBSTONE_SCHEMA;
use leasehold_actors::contract::source::Document;
use leasehold_actors::contract::text::{Sha256, Token, WorkerToken};
use leasehold_actors::contract::time::{Ceiling, Timestamp};
use leasehold_actors::flows::all::AllFlows;
use leasehold_actors::flows::delivery::{Delivered, Delivery, DeliveryBinding};
use leasehold_actors::flows::dispatch::{Dispatch, DispatchBinding};
use leasehold_actors::flows::handover::{Follows, Terms};
use leasehold_actors::flows::lifecycle::{Lifecycle, LifecycleOutcome, RequestNote, Snapshot};
use leasehold_actors::flows::notification::{Acknowledged, Notify, NotifyBinding};
use leasehold_actors::flows::processing::Processing;
use leasehold_actors::record::{
    Command, Event, Flow, IllegalEvent, State, StateKind, evolve, stream_of,
};
use leasehold_journal::{StreamId, payload};

const CHANGES: &str = include_str!("../../examples/changes.ndjson");
const MIXED: &str = include_str!("../../examples/mixed.ndjson");

/// When every record here is registered.
const REGISTERED: f64 = 5.0;

fn at(seconds: f64) -> Timestamp {
    Timestamp::new(seconds).expect("a time")
}

fn token(text: &str) -> Token {
    Token::new(text).expect("a token")
}

fn ceiling() -> Ceiling {
    Ceiling::new(5).expect("in range")
}

/// A record of a flow: what registers it, and what it ends in.
struct Sample<F: Flow> {
    binding: F::Binding,
    payload: F::Payload,
    outcome: F::Outcome,
}

impl<F: Flow> Sample<F> {
    fn registration(&self, payload: F::Payload, settled: Option<F::Outcome>) -> Event<F> {
        Event::Registered { at: at(REGISTERED), binding: self.binding.clone(), payload, settled }
    }

    /// What comes of its binding with this payload.
    fn with(&self, payload: F::Payload) -> Result<State<F>, IllegalEvent> {
        evolve(State::Vacant, &self.registration(payload, None))
    }

    fn ready(&self) -> State<F> {
        self.with(self.payload.clone()).expect("the payload is its own")
    }

    fn leased(&self) -> State<F> {
        let event = Event::<F>::Claimed {
            at: at(6.0),
            attempt: 1,
            owner: WorkerToken::new("w").expect("a worker"),
            token_sha256: Sha256::of(b"token"),
            expires_at: at(60.0),
        };
        evolve(self.ready(), &event).expect("it is due")
    }

    fn completed(&self) -> State<F> {
        let event = self.registration(self.payload.clone(), Some(self.outcome.clone()));
        evolve(State::Vacant, &event).expect("the payload is its own")
    }

    fn stream(&self) -> StreamId {
        stream_of(F::TAG, F::identity(&self.binding).as_str())
    }

    /// The body of its registration.
    fn body(&self) -> Vec<u8> {
        codec::encode(&self.registration(self.payload.clone(), None)).expect("it is small")
    }
}

/// What an image reads back as; writing it checks nothing.
fn read_back<F: Flow>(image: &Carried<F>) -> Result<Carried<F>, DecodeError> {
    carried::decode(&carried::encode(image).expect("it is small"))
}

/// One line of the example changes.
fn line(number: usize) -> &'static str {
    CHANGES.lines().nth(number).expect("there are more")
}

fn change(number: usize) -> Change {
    Change::parse(line(number).as_bytes()).expect("a change")
}

fn dispatch(number: usize) -> Sample<Dispatch> {
    let change = change(number);
    let outcome = DispatchResponse {
        plan_id: token("plan-1"),
        job_count: 2,
        status: DispatchedAs::Enqueued,
        sha256: Sha256::of(b"answer"),
    };
    Sample { binding: DispatchBinding::of(&change, ceiling()), payload: change.payload, outcome }
}

/// What the next flow registers once this record is completed.
fn next<P: Flow, F: Follows<P>>(before: &Sample<P>, outcome: F::Outcome) -> Sample<F> {
    let terms = Terms { ceiling: ceiling(), digest: Some(Sha256::of(b"digest")) };
    let registration = F::follow(&before.completed(), terms).expect("it is completed");
    let Command::Register { binding, payload, .. } = registration.command else {
        panic!("a hand-over registers")
    };
    Sample { binding, payload, outcome }
}

fn lifecycle(number: usize) -> Sample<Lifecycle> {
    let outcome = LifecycleOutcome { status: RemoteStatus::Cancelled, snapshot: None };
    next(&dispatch(number), outcome)
}

fn notification(number: usize) -> Sample<Notify> {
    let outcome = Acknowledged { acknowledgement_sha256: Sha256::of(b"acknowledgement") };
    next(&lifecycle(number), outcome)
}

fn processing(number: usize) -> Sample<Processing> {
    next(&notification(number), said(WorkStatus::Succeeded))
}

fn said(status: WorkStatus) -> ReceiverState {
    ReceiverState {
        status,
        attempts: 1,
        max_attempts: 5,
        next_attempt_at: 45.0,
        lease_expires_at: None,
        lease_expired: false,
        error_code: None,
        processed_at: (status == WorkStatus::Succeeded).then_some(45.0),
    }
}

fn delivery_of(text: &str) -> Sample<Delivery> {
    let document = Document::parse(text.as_bytes()).expect("a document");
    let digest = Sha256::of(b"digest");
    let binding = DeliveryBinding::of(&document, digest, ceiling(), ceiling());
    let outcome = Delivered { response_sha256: Sha256::of(b"answer") };
    Sample { binding, payload: document.payload, outcome }
}

fn delivery(number: usize) -> Sample<Delivery> {
    delivery_of(line(number))
}

fn tombstone() -> &'static str {
    MIXED.lines().find(|line| line.contains(TOMBSTONE_SCHEMA)).expect("one is there")
}

#[track_caller]
fn is_of<F: Flow>(sample: &Sample<F>, site: &Token) {
    assert_eq!(F::site(&sample.binding), site.as_str(), "{}", F::TAG.name());
}

#[test]
fn a_record_is_of_its_documents_site_in_every_flow_it_goes_through() {
    assert_ne!(change(0).site_id, change(1).site_id);
    for number in [0, 1] {
        let site = change(number).site_id;
        is_of(&dispatch(number), &site);
        is_of(&lifecycle(number), &site);
        is_of(&notification(number), &site);
        is_of(&processing(number), &site);
        is_of(&delivery(number), &site);
    }
    let removal = Document::parse(tombstone().as_bytes()).expect("a removal");
    is_of(&delivery_of(tombstone()), &removal.site_id);
}

/// It registers and is carried with its own payload, and with no other one.
#[track_caller]
fn has_its_own_payload_only<F: Flow<Payload = Payload>>(own: &Sample<F>, others: Payload) {
    let name = F::TAG.name();
    let open = |payload: Payload| Carried::Open { state: own.ready(), payload };
    let right = open(own.payload.clone());
    assert_eq!(own.ready().kind(), Some(StateKind::Pending), "{name}");
    assert_eq!(read_back(&right), Ok(right), "{name}");
    let longer = Payload::from_canonical(format!("{} ", own.payload.as_str()).into());
    for (payload, what) in [(others, "another document"), (longer, "one more byte")] {
        assert_eq!(own.with(payload.clone()), Err(IllegalEvent), "{name}: {what}");
        assert_eq!(read_back(&open(payload)), Err(DecodeError::Invalid), "{name}: {what}");
    }
}

#[test]
fn a_payload_that_is_not_its_bindings_is_refused_in_a_registration_and_in_an_image() {
    has_its_own_payload_only(&dispatch(0), dispatch(1).payload);
    has_its_own_payload_only(&notification(0), notification(1).payload);
    has_its_own_payload_only(&delivery(0), delivery(1).payload);
    has_its_own_payload_only(&delivery_of(tombstone()), delivery(0).payload);
}

#[test]
fn a_notification_in_another_spelling_is_not_what_was_registered() {
    let own = notification(0);
    let spelt = Payload::from_canonical(format!(" {}", own.payload.as_str()).into());
    // It says the same; only the bytes, which are what is sent, are others.
    let read = Notification::parse(spelt.as_bytes()).expect("it is a notification");
    assert_eq!(NotifyBinding::of(&read, ceiling()), own.binding);
    assert_eq!(own.with(spelt), Err(IllegalEvent));
    assert!(own.with(own.payload.clone()).is_ok());
}

#[test]
fn a_notification_with_the_right_hash_still_has_to_say_what_its_binding_says() {
    let Sample { binding, payload: own, .. } = notification(0);
    let register = |binding: NotifyBinding, payload: &Payload| {
        Sample { binding, ..notification(0) }.with(payload.clone())
    };
    for (other, what) in [
        (NotifyBinding { event_id: token("other"), ..binding.clone() }, "event"),
        (NotifyBinding { site_id: token("other"), ..binding.clone() }, "site"),
        (NotifyBinding { notification_id: token("other"), ..binding.clone() }, "id"),
        (NotifyBinding { terminal_status: RemoteStatus::Superseded, ..binding.clone() }, "status"),
    ] {
        assert_eq!(other.notification_sha256, own.sha256(), "{what}");
        assert_eq!(register(other, &own), Err(IllegalEvent), "{what}");
    }
    let empty = Payload::from_canonical("{}".into());
    let of_empty = NotifyBinding { notification_sha256: empty.sha256(), ..binding.clone() };
    assert_eq!(register(of_empty, &empty), Err(IllegalEvent), "no notification");
    assert!(register(binding, &own).is_ok());
}

/// No answer leaves a record of this flow watched, so none can be a repetition.
#[track_caller]
fn repeats_nothing<F: Flow<Progress = (), Note = ()>>(sample: &Sample<F>) {
    let name = F::TAG.name();
    assert_eq!(F::repeats(&(), &()), None, "{name}");
    assert_eq!(F::repeated(&(), &()), None, "{name}");
    let (at, next_at) = (at(7.0), at(8.0));
    let unchanged = Event::<F>::Unchanged { at, next_at, note: () };
    assert_eq!(evolve(sample.leased(), &unchanged), Err(IllegalEvent), "{name}");
    let completed = Event::<F>::Completed { at, next_at, outcome: sample.outcome.clone() };
    let kind = evolve(sample.leased(), &completed).map(|it| it.kind());
    assert_eq!(kind, Ok(Some(StateKind::Completed)), "{name}");
}

#[test]
fn an_answer_is_a_repetition_only_in_a_flow_that_watches() {
    repeats_nothing(&dispatch(0));
    repeats_nothing(&notification(0));
    repeats_nothing(&delivery(0));
    let (pending, waiting) = (Some(said(WorkStatus::Pending)), Some(said(WorkStatus::RetryWait)));
    assert_eq!(Processing::repeats(&pending, &pending), Some(()));
    assert_eq!(Processing::repeats(&pending, &waiting), None);
    assert_eq!(Processing::repeats(&None, &pending), None);
    assert_eq!(Processing::repeated(&pending, &()), Some(pending));
    assert_eq!(Processing::repeated(&None, &()), None);
}

fn answer(request_id: &str, status: &str) -> Option<Snapshot> {
    let text = format!("{{\"request_id\":\"{request_id}\",\"status\":\"{status}\"}}");
    let (_, answer) = Payload::parse(text.as_bytes(), 1_000).expect("JSON");
    Some(Snapshot { status: RemoteStatus::Processing, answer })
}

#[test]
fn a_repeated_answers_request_id_comes_back_exactly_and_32_hex_digits_take_half_the_room() {
    let digits = "0a".repeat(32);
    let before = answer("first", "processing");
    for (request_id, length) in [
        // Which form it is, and 16 bytes.
        (digits[..32].to_owned(), 1 + 16),
        // Which form it is, how long, and the text.
        (digits[..31].to_owned(), 2 + 31),
        (digits[..33].to_owned(), 2 + 33),
        (digits[..64].to_owned(), 2 + 64),
        (digits[..32].to_uppercase(), 2 + 32),
        ("0g".repeat(16), 2 + 32),
    ] {
        let now = answer(&request_id, "processing");
        let note = Lifecycle::repeats(&before, &now).expect("it says the same");
        let mut bytes = Vec::new();
        payload::encode_into(&mut bytes, &note).expect("it is small");
        assert_eq!(bytes.len(), length, "{request_id}");
        let note: RequestNote = payload::decode(&bytes).expect("we wrote it");
        assert_eq!(Lifecycle::repeated(&before, &note), Some(now.clone()), "{request_id}");
        let news = answer(&request_id, "ready");
        assert_eq!(Lifecycle::repeats(&before, &news), None, "{request_id}");
        assert_eq!(Lifecycle::repeats(&None, &now), None, "{request_id}");
        assert_eq!(Lifecycle::repeated(&None, &note), None, "{request_id}");
    }
}

#[track_caller]
fn tells_its_last_time<F: Flow>(sample: &Sample<F>) {
    let (name, mut flows) = (F::TAG.name(), AllFlows::default());
    let stream = sample.stream();
    let nobody = stream_of(F::TAG, "nobody");
    assert_eq!(flows.latest_after(stream, None), None, "{name}");
    assert_eq!(flows.apply(stream, Some(&sample.body())), Some(Ok(())), "{name}");
    for (given, expected) in [(None, 5.0), (Some(4.0), 5.0), (Some(5.0), 5.0), (Some(6.0), 6.0)] {
        let latest = flows.latest_after(stream, given.map(at));
        assert_eq!(latest, Some(at(expected)), "{name} after {given:?}");
    }
    for other in [nobody, StreamId([99; 16])] {
        for given in [None, Some(at(4.0)), Some(at(6.0))] {
            assert_eq!(flows.latest_after(other, given), given, "{name}: {other:?}");
        }
    }
}

#[test]
fn the_last_time_of_a_record_is_kept_in_every_flow_and_never_goes_back() {
    tells_its_last_time(&dispatch(0));
    tells_its_last_time(&lifecycle(0));
    tells_its_last_time(&notification(0));
    tells_its_last_time(&processing(0));
    tells_its_last_time(&delivery(0));
}

#[track_caller]
fn reads_back_sound_images_only<F: Flow>(sample: &Sample<F>) {
    let (name, ready, completed) = (F::TAG.name(), sample.ready(), sample.completed());
    let open = |state: State<F>| Carried::Open { state, payload: sample.payload.clone() };
    for sound in [
        Carried::Completed(completed.clone()),
        open(ready.clone()),
        open(sample.leased()),
        Carried::Quarantined,
    ] {
        assert_eq!(read_back(&sound), Ok(sound), "{name}");
    }
    for (unsound, what) in [
        (Carried::Completed(ready), "completed, and waits"),
        (Carried::Completed(sample.leased()), "completed, and leased"),
        (Carried::Completed(State::Vacant), "completed, and never registered"),
        (open(completed), "open, and completed"),
        (open(State::Vacant), "open, and never registered"),
    ] {
        assert_eq!(read_back(&unsound), Err(DecodeError::Invalid), "{name}: {what}");
    }
}

#[test]
fn an_image_whose_state_is_not_what_it_says_is_refused_in_every_flow() {
    reads_back_sound_images_only(&dispatch(0));
    reads_back_sound_images_only(&lifecycle(0));
    reads_back_sound_images_only(&notification(0));
    reads_back_sound_images_only(&processing(0));
    reads_back_sound_images_only(&delivery(0));
}

#[test]
fn a_body_or_an_image_of_version_0_is_none_and_one_of_a_later_version_is_newer() {
    let sample = dispatch(0);
    let open = Carried::Open { state: sample.ready(), payload: sample.payload.clone() };
    let (mut body, mut image) = (sample.body(), carried::encode(&open).expect("it is small"));
    for (version, refusal) in
        [(1, None), (0, Some(DecodeError::Invalid)), (9, Some(DecodeError::Newer(9)))]
    {
        (body[1], image[1]) = (version, version);
        assert_eq!(codec::decode::<Dispatch>(&body).err(), refusal, "body, {version}");
        assert_eq!(carried::decode::<Dispatch>(&image).err(), refusal, "image, {version}");
    }
}

#[test]
fn debug_of_an_origin_tells_where_the_payload_is_and_nothing_of_it() {
    let canary = || Some(b"canary".to_vec());
    for (image, first, shown) in [
        (None, None, "Origin { image: false, first: false }"),
        (canary(), None, "Origin { image: true, first: false }"),
        (None, canary(), "Origin { image: false, first: true }"),
        (canary(), canary(), "Origin { image: true, first: true }"),
    ] {
        assert_eq!(format!("{:?}", Origin { image, first }), shown);
    }
}
