//! What the bodies begin with: for each target some bytes that are accepted, and many that nearly are.
//!
//! They come from the conformance vectors, the golden samples of the wire and the examples, and are
//! otherwise made by the library itself.

use super::framing::ID;
use leasehold_actors::contract::canonical;
use leasehold_actors::contract::capabilities::{self, Route, receiver_document, source_document};
use leasehold_actors::contract::json::{Object, Value};
use leasehold_actors::contract::notification::Notification;
use leasehold_actors::flows::all::home;
use leasehold_journal::anchor::{self, Anchor};
use leasehold_journal::chunk::{self, INLINE_BYTES_MAX};
use leasehold_journal::frame::{HEADER_BYTES, TRAILER_BYTES};
use leasehold_journal::medium::Medium as _;
use leasehold_journal::memory::MemoryDisk;
use leasehold_journal::{
    Append, Digest, Head, JournalId, Log, LogOptions, Store as _, StreamId, archive, payload,
};
use std::path::Path;

/// Every target, each of them a file beside this one and a program in `fuzz/`.
pub(crate) const TARGETS: [&str; 7] = [
    "frame_and_record_decode",
    "journal_open",
    "canonical_json",
    "documents",
    "answers",
    "retry_after",
    "configuration",
];

/// The samples of a target; `root` is the folder of the repository.
pub(crate) fn of(root: &Path, target: &str) -> Vec<Vec<u8>> {
    match target {
        "frame_and_record_decode" => on_disk(root),
        "journal_open" => journals(root),
        "canonical_json" => [conformance(root, &["canonical"]), values()].concat(),
        "documents" => [conformance(root, &["change", "removal"]), notification(root)].concat(),
        "answers" => answers(root),
        "retry_after" => waits(),
        "configuration" => configurations(root),
        _ => panic!("there is no such target"),
    }
}

fn read(root: &Path, name: &str) -> String {
    std::fs::read_to_string(root.join(name)).expect("a file of ours is readable")
}

/// The lines of the conformance vectors, each an object.
fn vectors(root: &Path) -> Vec<Object> {
    let text = read(root, "tests/conformance/documents.jsonl");
    let lines = text.split('\n').filter(|line| !line.is_empty());
    let value = |line: &str| Value::parse(line.as_bytes()).expect("a line is JSON");
    lines.map(|line| value(line).as_object().expect("a line is an object").clone()).collect()
}

fn conformance(root: &Path, kinds: &[&str]) -> Vec<Vec<u8>> {
    let mut texts = Vec::new();
    for line in vectors(root) {
        let kind = line.text("kind").expect("a document has a kind");
        if kinds.contains(&kind) {
            texts.push(line.text("text").expect("a document has a text").as_bytes().to_vec());
        }
    }
    texts
}

/// Values that are no object, which nearly all of the vectors are.
fn values() -> Vec<Vec<u8>> {
    let texts = [
        "null",
        "false",
        "-7",
        "-123456789012345678901234567890",
        "1e15",
        "5e-324",
        "\"\\ud83d\\ude00\\u0000\u{7f}\"",
        "[1,[2.0,{}],\"\"]",
        "{\"\u{1f600}\":1,\"\u{ffff}\":{\"b\":[],\"a\":{}}}",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// The notification that the vectors of the receiver's status are about.
fn notification(root: &Path) -> Vec<Vec<u8>> {
    let lines = vectors(root);
    let mut contexts = lines.iter().filter_map(|line| line.get("context")?.as_object());
    let notification = contexts.find_map(|context| context.get("notification"));
    vec![canonical::print(notification.expect("one is there")).into_bytes()]
}

fn object(members: &[(&str, Value)]) -> Vec<u8> {
    let members = members.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    canonical::print(&Value::Object(Object::new(members).expect("two keys"))).into_bytes()
}

fn answers(root: &Path) -> Vec<Vec<u8>> {
    let kinds = ["dispatch_response", "lifecycle_response", "receiver_status", "source_response"];
    let mut answers = conformance(root, &kinds);
    for bytes in notification(root) {
        let notification = Notification::parse(&bytes).expect("it is one");
        answers.push(notification.acknowledgement().as_bytes().to_vec());
    }
    let error = "{\"error\":\"cms.queue.rejected\",\
        \"schema\":\"blun.website-localization-api.v2\",\"status\":\"BLOCK\"}";
    answers.push(error.as_bytes().to_vec());
    answers.push(b"{\"event_id\":\"evt-2031-0007\",\"status\":\"queued\"}".to_vec());
    let receiver = receiver_document(capabilities::receiver::NOTIFICATION.path);
    for (route, document) in [
        (&capabilities::source::CAPABILITIES, source_document()),
        (&capabilities::receiver::CAPABILITIES, receiver),
    ] {
        answers.push(canonical::print(&document).into_bytes());
        let schema = Value::String(route.response_schema.to_owned());
        answers.push(object(&[("schema", schema), ("capabilities", document)]));
    }
    answers.push(answer_to_a_tombstone().into_bytes());
    answers.extend(ROUTES.iter().map(answer_of));
    for header in ["application/json", "Application/JSON; charset=UTF-8", "2", "02", "+2"] {
        answers.push(header.as_bytes().to_vec());
    }
    answers
}

/// The vectors have none of these.
fn answer_to_a_tombstone() -> String {
    let source = "a2107b04b586ef004ac3338fea42f666add3a03cd7d2b8bc19628274e5d5eb7a";
    let payload = "bcbbb78a886b5938eadd2dc1c5431608c97341f9b0da1b39863b27e3bf470894";
    format!(
        "{{\"attempts\":0,\"capabilities_sha256\":\"{source}\",\"event_id\":\"evt-2031-0007\",\
         \"max_attempts\":5,\"operation\":\"tombstone\",\"payload_sha256\":\"{payload}\",\
         \"request_id\":\"tombstone-2031-0003\",\
         \"schema\":\"blun.cms-source-removal-enqueue-response.v2\",\"status\":\"pending\"}}"
    )
}

const ROUTES: [Route; 12] = [
    capabilities::source::CAPABILITIES,
    capabilities::source::CHANGE,
    capabilities::source::REMOVAL,
    capabilities::source::STATUS,
    capabilities::source::HEALTH,
    capabilities::source::READINESS,
    capabilities::receiver::CAPABILITIES,
    capabilities::receiver::NOTIFICATION,
    capabilities::receiver::OPENAPI,
    capabilities::receiver::STATUS,
    capabilities::receiver::HEALTH,
    capabilities::receiver::READINESS,
];

/// An answer that has a route's fields and says nothing.
fn answer_of(route: &Route) -> Vec<u8> {
    let member = |field: &&'static str| {
        let schema = Value::String(route.response_schema.to_owned());
        (*field, if *field == "schema" { schema } else { Value::Null })
    };
    object(&route.response_fields.iter().map(member).collect::<Vec<_>>())
}

fn waits() -> Vec<Vec<u8>> {
    let now = 784_111_777.0_f64; // Sun, 06 Nov 1994 08:49:37 GMT
    let mut waits = Vec::new();
    for value in [
        "",
        "0",
        "7",
        " 120 ",
        "-5",
        "1.5",
        "99999999999999999999999999999999999999999",
        "soon",
        "Sun, 06 Nov 1994 08:50:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:47 GMT",
        "Sun Nov  6 08:49:47 1994",
        "Fri, 31 Dec 9999 23:59:59 GMT",
        "Thu, 29 Feb 1996 00:00:00 GMT",
    ] {
        for now in [0.0, now, now - 59.5, 1e300, f64::NAN] {
            waits.push([&now.to_le_bytes()[..], value.as_bytes()].concat());
        }
    }
    waits
}

fn configurations(root: &Path) -> Vec<Vec<u8>> {
    let smallest = "[cms]\norigin = \"https://cms.example\"\n[cms.signing]\nkey_id = \"k\"\n";
    let texts = [
        String::new(),
        smallest.to_owned(),
        format!("{smallest}[dispatch]\nmax_attempts = 21\n"),
        format!("{smallest}[lifecycle]\nmax_failures = 1\npoll_interval_seconds = nan\n"),
        format!("{smallest}[dispatch]\r\nlease_seconds = 3e1\r\nbase_delay_seconds = 1e-9\r\n"),
        format!("{smallest}secret = \"ü\"\n"),
        "a = [[[[[[[[[[[[{ b = [ { c = 1 } ] }]]]]]]]]]]]]\n".to_owned(),
        "cms = { origin = 7 }\n".to_owned(),
        read(root, "examples/leasehold.toml"),
    ];
    texts.into_iter().map(String::into_bytes).collect()
}

/// The bodies in one golden sample: hex, and lines that name what follows.
fn bodies(snapshot: &str) -> Vec<Vec<u8>> {
    let (_, content) = snapshot.rsplit_once("---\n").expect("a snapshot has a head");
    let mut bodies = vec![Vec::new()];
    for line in content.lines() {
        match unhex(line) {
            Some(bytes) => bodies.last_mut().expect("there is one").extend(bytes),
            None => bodies.push(Vec::new()),
        }
    }
    bodies.retain(|body| !body.is_empty());
    bodies
}

fn unhex(line: &str) -> Option<Vec<u8>> {
    let digits = line.bytes().map(|byte| char::from(byte).to_digit(16)).collect::<Option<Vec<_>>>();
    Some(
        digits?
            .chunks(2)
            .map(|pair| pair.iter().fold(0_u8, |all, d| all << 4 | *d as u8))
            .collect(),
    )
}

/// The golden samples whose names begin so, in the order of their names.
fn golden(root: &Path, begins: &str) -> Vec<Vec<Vec<u8>>> {
    let folder = std::fs::read_dir(root.join("snapshots/wire")).expect("a folder of ours");
    let names = folder.map(|entry| entry.expect("readable").file_name());
    let names = names.filter_map(|name| name.into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(begins)).collect();
    names.sort();
    names.iter().map(|name| bodies(&read(root, &format!("snapshots/wire/{name}")))).collect()
}

/// The bodies of whole records in all flows, oldest first, each under its own stream.
fn lives(root: &Path) -> Vec<(StreamId, Vec<Vec<u8>>)> {
    let mut lives: Vec<(StreamId, Vec<Vec<u8>>)> = Vec::new();
    for body in golden(root, "life_v").concat() {
        // Flow, version, event: a registration begins a record.
        if body[2] == 0 {
            lives.push((home(&body).expect("it is a registration"), Vec::new()));
        }
        lives.last_mut().expect("a record is registered first").1.push(body);
    }
    lives
}

/// A journal of these records, and of one whose body is in chunks.
fn journal(root: &Path) -> MemoryDisk {
    let disk = MemoryDisk::new();
    let options = LogOptions { new_id: ID, create: true };
    let log = Log::open(disk.medium(), options, &mut |_| Ok(()));
    let mut log = log.expect("an empty disk opens");
    let large = (StreamId([9; 16]), vec![vec![7; INLINE_BYTES_MAX + 1]]);
    for (stream, bodies) in lives(root).into_iter().chain([large]) {
        let append = Append { stream, expected_version: 0, bodies, alone: None };
        let answers = log.commit(&[append]).expect("memory does not fail");
        assert!(answers[0].is_ok());
    }
    disk
}

fn frames(root: &Path) -> Vec<Vec<u8>> {
    let (disk, mut from, mut frames) = (journal(root), 0, Vec::new());
    let medium = disk.medium();
    while let Some((first, bytes)) = medium.frame_at_or_after(from).expect("memory does not fail") {
        from = first + 1;
        frames.push(bytes);
    }
    frames
}

fn on_disk(root: &Path) -> Vec<Vec<u8>> {
    let mut samples = golden(root, "life_v").concat();
    samples.extend(golden(root, "dispatch_v").concat());
    for frame in frames(root) {
        let end = frame.len() - TRAILER_BYTES;
        samples.push([&frame[12..14], &frame[HEADER_BYTES..end]].concat());
        samples.push([&frame[..end], &[0; TRAILER_BYTES]].concat());
        samples.push(frame);
    }
    let head = Head { sequence: 300, hash: Digest([3; 32]) };
    samples.push(anchor::encode(&Anchor { journal: JournalId([4; 16]), head }, 5).to_vec());
    let body = vec![7; INLINE_BYTES_MAX + 1];
    samples.push(chunk::cut(&body).expect("within the limit").manifest);
    samples.push(encoded(&(300_u64, "text".to_owned())));
    samples.push(encoded(&vec![Some(1.5_f64), None, Some(-0.0)]));
    for event in golden(root, "life_v").concat() {
        // A registration of lifecycle without what stands before and behind its binding.
        if event[0] == 2 && event[2] == 0 {
            samples.push(event[11..event.len() - 1].to_vec());
        }
        // What a receiver said, behind two times.
        if event[0] == 4 && event[2] == 2 {
            samples.push(event[19..].to_vec());
        }
    }
    samples
}

fn encoded<T: serde::Serialize>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    payload::encode_into(&mut bytes, value).expect("it is small");
    bytes
}

fn piece(kind: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).expect("a piece is short").to_le_bytes();
    [&[kind][..], &length, bytes].concat()
}

fn journals(root: &Path) -> Vec<Vec<u8>> {
    let mut exported = vec![0_u8];
    archive::export(&journal(root).medium(), &mut exported).expect("it verifies");
    let (mut as_they_are, mut resealed, mut records) = (vec![1_u8], vec![1_u8], vec![1_u8]);
    for frame in frames(root) {
        as_they_are.extend(piece(0, &frame));
        let end = frame.len() - TRAILER_BYTES;
        resealed.extend(piece(1, &[&frame[..end], &[0; TRAILER_BYTES]].concat()));
    }
    for (stream, bodies) in lives(root) {
        for body in bodies {
            records.extend(piece(3, &[&stream.0[..], &body].concat()));
        }
    }
    // Stream, version 1, no predecessor, three bytes.
    let small = [&[9_u8; 16][..], &[1, 0, 3 << 1], b"abc"].concat();
    let in_frame = [&[1_u8][..], &piece(2, &small)].concat();
    // A later archive, read without those before it.
    let after = [&9_u64.to_le_bytes()[..], &[3; 32]].concat();
    let part = [&[0][..], &archive::MAGIC_LATER, &ID.0, &after, b"E", &[0; 4]].concat();
    let mut samples = vec![exported, part, as_they_are, resealed, records, in_frame];
    let first = frames(root).swap_remove(0);
    for place in 0..4_u8 {
        for damage in [&[0, place][..], &[1, place], &[1, place, 9, 0, 1], &[2, place], &[3, place]]
        {
            samples.push([&[2][..], damage].concat());
        }
        samples.push([&[2, 0, place][..], &first].concat());
    }
    samples
}
