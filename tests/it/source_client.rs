//! The source client against servers that answer as a test says (scenarios F, contract 3.3).
//!
//! Holds too what the tests of the clients beside it share: the server, and the host's headers.

use crate::support::{change, marked, run};
use leasehold::CallFailure;
use leasehold::http::{
    AuthContext, AuthenticationFailed, ContextHeaders, SourceClient, SourceOptions,
};
use leasehold::sandbox::{Sandbox, SandboxOptions};
use leasehold_actors::contract::capabilities::source_document;
use leasehold_actors::contract::payload::Payload;
use leasehold_actors::contract::source::{Operation, envelope};
use leasehold_actors::contract::text::{Sha256, Token};
use secrecy::SecretString;
use serde_json::json;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What no error and no printed form may show.
pub(crate) const SECRET: &str = "canary-of-a-secret";
/// A content type every client takes.
pub(crate) const JSON: &str = "Content-Type: application/json; charset=utf-8";
/// Hash of nothing.
pub(crate) const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// One request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// Method and path.
    pub(crate) line: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Seen {
    fn read(bytes: &[u8]) -> Self {
        let text = String::from_utf8(bytes.to_vec()).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        let mut lines = head.lines();
        let line = lines.next().expect("a first line").trim_end_matches(" HTTP/1.1").to_owned();
        let header = |line: &str| {
            let (name, value) = line.split_once(": ").expect("a header");
            (name.to_ascii_lowercase(), value.to_owned())
        };
        Self { line, headers: lines.map(header).collect(), body: body.to_owned() }
    }

    /// A header, which is not there twice.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(known, _)| known == name);
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} is there twice");
        value
    }
}

/// A server that gives one answer after the other, and none when there are no more.
pub(crate) struct Server {
    pub(crate) origin: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    pub(crate) async fn start(answers: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let origin = format!("http://{}", listener.local_addr().expect("an address"));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, mut answers) = (Arc::clone(&seen), Vec::from_iter(answers).into_iter());
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                let request = whole(&mut stream).await;
                log.lock().expect("not poisoned").push(Seen::read(&request));
                // A client that has read enough may have gone.
                if stream.write_all(&answers.next().unwrap_or_default()).await.is_ok() {
                    drop(stream.shutdown().await);
                }
            }
        });
        Self { origin, seen }
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<Seen> {
        self.seen.lock().expect("not poisoned").clone()
    }

    /// Method and path of each.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.requests().into_iter().map(|seen| seen.line).collect()
    }
}

/// Reads a request to the end of its body.
async fn whole(stream: &mut TcpStream) -> Vec<u8> {
    let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
    while !is_whole(&seen) {
        let read = stream.read(&mut buffer).await.expect("readable");
        assert!(read > 0, "a request broke off");
        seen.extend_from_slice(&buffer[..read]);
    }
    seen
}

fn is_whole(seen: &[u8]) -> bool {
    let text = String::from_utf8_lossy(seen);
    let Some((head, _)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| {
        line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok()
    });
    seen.len() >= head.len() + 4 + length.unwrap_or(0)
}

/// An answer of these bytes.
pub(crate) fn http(status: &str, headers: &[&str], body: &[u8]) -> Vec<u8> {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// An answer in JSON.
pub(crate) fn answer(status: &str, body: &serde_json::Value) -> Vec<u8> {
    http(status, &[JSON], body.to_string().as_bytes())
}

/// Gives one header that carries a secret, and remembers what it was asked about.
#[derive(Clone, Default)]
pub(crate) struct Witness(Arc<Mutex<Vec<serde_json::Value>>>);

impl Witness {
    pub(crate) fn contexts(&self) -> Vec<serde_json::Value> {
        self.0.lock().expect("not poisoned").clone()
    }
}

impl ContextHeaders for Witness {
    fn headers(
        &self,
        context: &AuthContext,
    ) -> Result<Vec<(String, SecretString)>, AuthenticationFailed> {
        let asked = serde_json::from_str(context.to_payload().as_str()).expect("JSON");
        self.0.lock().expect("not poisoned").push(asked);
        Ok(vec![("Authorization".to_owned(), format!("Bearer {SECRET}").into())])
    }
}

/// Gives these headers; a host whose first one is named `panic` breaks down, `fail` fails.
pub(crate) struct Given(pub(crate) Vec<(String, String)>);

impl Given {
    pub(crate) fn of(headers: &[(&str, &str)]) -> Self {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self(headers.iter().map(pair).collect())
    }
}

impl ContextHeaders for Given {
    fn headers(
        &self,
        _: &AuthContext,
    ) -> Result<Vec<(String, SecretString)>, AuthenticationFailed> {
        let first = self.0.first().map_or("", |(name, _)| name.as_str());
        assert!(first != "panic", "{SECRET}");
        if first == "fail" {
            return Err(AuthenticationFailed);
        }
        Ok(self.0.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect())
    }
}

pub(crate) fn token(text: &str) -> Token {
    Token::new(text).expect("a token")
}

/// A document in its canonical form.
pub(crate) fn payload(text: &str) -> Payload {
    Payload::parse(text.as_bytes(), 4_000_000).expect("JSON").1
}

const PIN: &str = "a2107b04b586ef004ac3338fea42f666add3a03cd7d2b8bc19628274e5d5eb7a";
const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";
const CAPABILITIES: &str = "GET /v1/localization/source/capabilities";
const CHANGES: &str = "POST /v1/localization/source/changes";

fn pinned(origin: &str, pin: &str) -> SourceOptions {
    let pin = Sha256::from_hex(pin).expect("64 digits");
    SourceOptions {
        allow_http_loopback: true,
        timeout_seconds: 5.0,
        ..SourceOptions::new(origin, pin)
    }
}

fn client(origin: &str, headers: impl ContextHeaders + 'static) -> SourceClient {
    SourceClient::new(&pinned(origin, PIN), headers).expect("a client")
}

fn cancellation() -> Payload {
    let document = json!({
        "schema": "blun.cms-content-cancellation.v1",
        "cancellation_id": "cancellation-1",
        "event_id": "event-1",
        "site_id": "site-1",
        "website_version": "web-1",
        "source_id": "landing.intro",
        "source_sequence": 1,
    });
    payload(&document.to_string())
}

async fn submit(client: &SourceClient, operation: Operation) -> Result<Vec<u8>, CallFailure> {
    let event = token("event-1");
    match operation {
        Operation::Change => {
            client.submit(operation, &event, &event, &payload(&change("event-1")), 4).await
        }
        Operation::Cancellation | Operation::Tombstone => {
            let id = token("cancellation-1");
            client.submit(operation, &id, &event, &cancellation(), 3).await
        }
    }
}

/// The document as the runtime answers it.
fn document() -> Vec<u8> {
    let document = Payload::of(&source_document());
    let schema = "blun.cms-source-capabilities-response.v1";
    let body = format!("{{\"schema\":\"{schema}\",\"capabilities\":{}}}", document.as_str());
    http("200 OK", &[JSON], body.as_bytes())
}

fn enqueued() -> serde_json::Value {
    json!({
        "schema": "blun.cms-source-change-enqueue-response.v2",
        "operation": "change",
        "request_id": "event-1",
        "event_id": "event-1",
        "payload_sha256": payload(&change("event-1")).sha256().to_string(),
        "status": "pending",
        "attempts": 0,
        "max_attempts": 4,
        "capabilities_sha256": PIN,
    })
}

/// An answer of one of the reads.
fn carried(name: &str, version: u32, content: &serde_json::Value) -> serde_json::Value {
    json!({
        "schema": format!("blun.cms-source-{name}-response.v{version}"),
        name: content,
        "capabilities_sha256": PIN,
    })
}

fn standing() -> serde_json::Value {
    json!({ "event_id": "event-1", "site_id": "site-1", "dispatch_status": "pending" })
}

/// The same object with another value under one key.
pub(crate) fn with(
    mut object: serde_json::Value,
    key: &str,
    value: serde_json::Value,
) -> serde_json::Value {
    object[key] = value;
    object
}

#[test]
fn f1_a_repeat_is_answered_alike_and_a_removal_under_its_own_operation() {
    run(async {
        let sandbox = Sandbox::start(SandboxOptions::default()).await.expect("it starts");
        let client = client(&sandbox.origin(), Witness::default());
        let first = submit(&client, Operation::Change).await.expect("it is taken");
        let again = submit(&client, Operation::Change).await.expect("a repeat");
        assert_eq!(first, again);
        let answer: serde_json::Value = serde_json::from_slice(&first).expect("JSON");
        assert_eq!(answer, enqueued());
        let removed = submit(&client, Operation::Cancellation).await.expect("it is taken");
        let removed: serde_json::Value = serde_json::from_slice(&removed).expect("JSON");
        assert_eq!(removed["operation"], "cancellation");
        assert_eq!(removed["request_id"], "cancellation-1");
        assert_eq!(removed["max_attempts"], 3);
        assert_eq!(removed["capabilities_sha256"], PIN);
        assert_eq!(sandbox.summary().source_requests, 2);
        sandbox.stop().await;
    });
}

#[test]
fn f1_f7_a_write_is_two_requests_each_with_its_own_context() {
    run(async {
        let server = Server::start([document(), answer("202 Accepted", &enqueued())]).await;
        let witness = Witness::default();
        let client = client(&server.origin, witness.clone());
        submit(&client, Operation::Change).await.expect("it is taken");
        let body = envelope(Operation::Change, &payload(&change("event-1")), 4).expect("small");
        let hash = body.sha256().to_string();
        let seen = server.requests();
        assert_eq!(server.lines(), [CAPABILITIES, CHANGES]);
        assert_eq!((seen[0].body.as_str(), seen[1].body.as_str()), ("", body.as_str()));
        let own = "x-localization-source-payload-sha256";
        assert_eq!((seen[0].header(own), seen[1].header(own)), (None, Some(hash.as_str())));
        let key = "idempotency-key";
        assert_eq!((seen[0].header(key), seen[1].header(key)), (None, Some("event-1")));
        let kind = "content-type";
        let json_kind = Some("application/json; charset=utf-8");
        assert_eq!((seen[0].header(kind), seen[1].header(kind)), (None, json_kind));
        for request in &seen {
            assert_eq!(request.header("accept"), Some("application/json"));
            assert_eq!(request.header("accept-encoding"), Some("identity"));
            let secret = format!("Bearer {SECRET}");
            assert_eq!(request.header("authorization"), Some(secret.as_str()));
        }
        let schema = "blun.cms-source-runtime-http-auth-request.v1";
        let read = json!({
            "schema": schema, "method": "GET", "origin": server.origin, "body_sha256": EMPTY,
            "path": "/v1/localization/source/capabilities", "scope": "source-capabilities:read",
        });
        let write = json!({
            "schema": schema, "method": "POST", "origin": server.origin, "body_sha256": hash,
            "path": "/v1/localization/source/changes", "scope": "source-change:write",
            "event_id": "event-1", "request_id": "event-1",
        });
        assert_eq!(witness.contexts(), [read, write]);
    });
}

#[test]
fn f2_reads_carry_the_digest_and_a_runtime_that_is_not_ready_says_so() {
    run(async {
        let health = carried("health", 4, &json!({ "status": "ok" }));
        let readiness = carried("readiness", 2, &json!({ "status": "not_ready" }));
        let answers = [
            document(),
            answer("200 OK", &carried("status", 4, &standing())),
            document(),
            answer("200 OK", &health),
            document(),
            answer("503 Service Unavailable", &readiness),
        ];
        let server = Server::start(answers).await;
        let witness = Witness::default();
        let client = client(&server.origin, witness.clone());
        let (event, site) = (token("event-1"), token("site-1"));
        let status = client.status(&event, &site).await.expect("an answer");
        assert_eq!(read(&status), carried("status", 4, &standing()));
        assert_eq!(read(&client.health().await.expect("an answer")), health);
        assert_eq!(read(&client.readiness().await.expect("an answer")), readiness);
        let post = "POST /v1/localization/source/status";
        let (well, ready) =
            ("GET /v1/localization/source/health", "GET /v1/localization/source/readiness");
        let lines = [CAPABILITIES, post, CAPABILITIES, well, CAPABILITIES, ready];
        assert_eq!(server.lines(), lines);
        let context = &witness.contexts()[1];
        assert_eq!(context["event_id"], "event-1");
        assert_eq!(context["site_id"], "site-1");
        assert_eq!(context["scope"], "source-status:read");
        assert_eq!(context.get("request_id"), None);
        assert_eq!(server.requests()[1].header("idempotency-key"), None);
    });
}

/// An answer a client gave, as tests compare it.
pub(crate) fn read(value: &leasehold_actors::contract::json::Value) -> serde_json::Value {
    serde_json::from_str(Payload::of(value).as_str()).expect("JSON")
}

#[test]
fn f2_the_sandbox_answers_reads_without_source_text() {
    run(async {
        let sandbox = Sandbox::start(SandboxOptions::default()).await.expect("it starts");
        let client = client(&sandbox.origin(), Witness::default());
        submit(&client, Operation::Change).await.expect("it is taken");
        let status = client.status(&token("event-1"), &token("site-1")).await.expect("known");
        let health = client.health().await.expect("an answer");
        let readiness = client.readiness().await.expect("an answer");
        assert_eq!(read(&status)["status"]["dispatch_status"], "pending");
        assert_eq!(read(&health)["health"]["status"], "ok");
        for answer in [&status, &health, &readiness] {
            assert_eq!(read(answer)["capabilities_sha256"], PIN);
            assert!(!read(answer).to_string().contains("Kaffee"));
        }
        let other = client.status(&token("event-1"), &token("site-2")).await;
        assert_eq!(other.err(), Some(marked("source_client.http_status", false)));
        sandbox.stop().await;
    });
}

#[test]
fn f3_a_document_that_is_not_the_pinned_one_ends_the_call_before_anything_is_written() {
    run(async {
        let sandbox = Sandbox::start(SandboxOptions::default()).await.expect("it starts");
        let options = pinned(&sandbox.origin(), ZEROS);
        let client = SourceClient::new(&options, Witness::default()).expect("a client");
        let refused = submit(&client, Operation::Change).await;
        assert_eq!(refused, Err(marked("source_client.capabilities_binding", false)));
        assert_eq!(sandbox.summary().source_requests, 0);
        sandbox.stop().await;
        let schema = "blun.cms-source-capabilities-response.v1";
        let document: serde_json::Value =
            serde_json::from_str(Payload::of(&source_document()).as_str()).expect("JSON");
        let mut bare = document.clone();
        bare["operations"]["change"]["path"] = json!("/elsewhere");
        bare.as_object_mut().expect("an object").remove("sha256");
        // A substitute with a digest of its own, and a client pinned to that.
        let digest = payload(&bare.to_string()).sha256().to_string();
        let again = with(bare.clone(), "sha256", json!(digest));
        let stale = with(bare, "sha256", json!(PIN));
        for (document, pin) in [(again, digest.as_str()), (stale, PIN), (json!(null), PIN)] {
            let body = json!({ "schema": schema, "capabilities": document });
            let server = Server::start([answer("200 OK", &body)]).await;
            let options = pinned(&server.origin, pin);
            let client = SourceClient::new(&options, Witness::default()).expect("a client");
            let refused = client.health().await.err();
            assert_eq!(refused, Some(marked("source_client.capabilities_binding", false)));
            assert_eq!(server.lines(), [CAPABILITIES]);
        }
    });
}

#[test]
fn f4_an_answer_about_something_else_is_not_the_answer() {
    run(async {
        for (key, value) in [
            ("capabilities_sha256", json!(ZEROS)),
            ("payload_sha256", json!(ZEROS)),
            ("event_id", json!("event-2")),
            ("request_id", json!("event-2")),
            ("operation", json!("tombstone")),
            ("max_attempts", json!(5)),
            ("attempts", json!(5)),
            ("more", json!(SECRET)),
        ] {
            let other = answer("202 Accepted", &with(enqueued(), key, value));
            let server = Server::start([document(), other]).await;
            let client = client(&server.origin, Witness::default());
            let refused = submit(&client, Operation::Change).await.expect_err("it is refused");
            assert_eq!(refused, marked("source_client.enqueue_binding", false), "{key}");
            assert!(!format!("{refused:?}").contains(SECRET));
        }
        let status = carried("status", 4, &standing());
        let elsewhere = with(standing(), "site_id", json!("site-2"));
        for wrong in [
            carried("status", 4, &elsewhere),
            carried("status", 4, &with(standing(), "event_id", json!("event-2"))),
            carried("status", 3, &standing()),
            with(status, "capabilities_sha256", json!(ZEROS)),
        ] {
            let server = Server::start([document(), answer("200 OK", &wrong)]).await;
            let client = client(&server.origin, Witness::default());
            let refused = client.status(&token("event-1"), &token("site-1")).await.err();
            assert_eq!(refused, Some(marked("source_client.status_binding", false)), "{wrong}");
        }
    });
}

#[test]
fn f4_health_and_readiness_are_bound_to_the_digest_too() {
    run(async {
        let content = json!({ "status": "ok" });
        let stale = |name: &str, version| {
            with(carried(name, version, &content), "capabilities_sha256", json!(ZEROS))
        };
        let answers = [
            document(),
            answer("200 OK", &stale("health", 4)),
            document(),
            answer("200 OK", &stale("readiness", 2)),
        ];
        let server = Server::start(answers).await;
        let client = client(&server.origin, Witness::default());
        let health = client.health().await.err();
        assert_eq!(health, Some(marked("source_client.health_binding", false)));
        let readiness = client.readiness().await.err();
        assert_eq!(readiness, Some(marked("source_client.readiness_binding", false)));
    });
}

#[test]
fn f5_what_is_wrong_on_our_side_ends_before_the_network() {
    run(async {
        assert_eq!(Token::new("not valid"), None, "no call can be made about such a site");
        let many = |count: usize| {
            Given((0..count).map(|number| (format!("X-{number}"), "1".to_owned())).collect())
        };
        let server = Server::start([document(), answer("202 Accepted", &enqueued())]).await;
        let event = token("event-1");
        let document = payload(&change("event-1"));
        for (operation, ceiling) in
            [(Operation::Change, 0), (Operation::Change, 21), (Operation::Tombstone, 4)]
        {
            let client = client(&server.origin, Witness::default());
            let refused = client.submit(operation, &event, &event, &document, ceiling).await;
            assert_eq!(refused, Err(marked("source_client.request_invalid", false)));
        }
        for bad in [
            Given::of(&[("Content-Type", "application/json")]),
            Given::of(&[("X-Localization-Source-Payload-SHA256", "x")]),
            Given::of(&[("idempotency-key", "x")]),
            Given::of(&[]),
            Given::of(&[("fail", "")]),
            Given::of(&[("panic", "")]),
            many(59),
        ] {
            let refused = submit(&client(&server.origin, bad), Operation::Change).await;
            assert_eq!(refused, Err(marked("source_client.authentication", false)));
        }
        assert!(server.requests().is_empty());
        submit(&client(&server.origin, many(58)), Operation::Change).await.expect("it is taken");
        assert_eq!(server.requests()[1].header("x-57"), Some("1"));
    });
}

#[test]
fn f6_d19_the_status_decides_at_the_document_and_at_the_call() {
    run(async {
        let elsewhere = Server::start([]).await;
        let location = format!("Location: {}/", elsewhere.origin);
        let headers = ["Content-Type: text/html", location.as_str(), "Retry-After: 7"];
        for (status, code, retryable) in [
            ("307 Temporary Redirect", "source_client.redirect", false),
            ("302 Found", "source_client.redirect", false),
            ("503 Service Unavailable", "source_client.http_status", true),
            ("429 Too Many Requests", "source_client.http_status", true),
            ("425 Too Early", "source_client.http_status", true),
            ("408 Request Timeout", "source_client.http_status", true),
            ("409 Conflict", "source_client.http_status", false),
            ("401 Unauthorized", "source_client.http_status", false),
            ("204 No Content", "source_client.http_status", false),
        ] {
            let failing = http(status, &headers, b"");
            let retry_after_seconds = retryable.then_some(7.0);
            let expected =
                CallFailure::Marked { code: code.to_owned(), retryable, retry_after_seconds };
            for answers in [vec![failing.clone()], vec![document(), failing]] {
                let requests = answers.len();
                let server = Server::start(answers).await;
                let client = client(&server.origin, Witness::default());
                let refused = submit(&client, Operation::Change).await;
                assert_eq!(refused, Err(expected.clone()), "{status}");
                assert_eq!(server.requests().len(), requests, "{status}");
            }
        }
        let success = answer("200 OK", &enqueued());
        let server = Server::start([document(), success]).await;
        let refused = submit(&client(&server.origin, Witness::default()), Operation::Change).await;
        assert_eq!(refused, Err(marked("source_client.http_status", false)), "202 is the success");
        assert!(elsewhere.requests().is_empty(), "no redirect is followed");
    });
}

#[test]
fn f6_answers_that_cannot_be_read_are_final_and_a_broken_connection_is_not() {
    run(async {
        let good = enqueued().to_string();
        let repeated = good.replacen('{', "{\"attempts\":0,", 1);
        let marked_order = format!("\u{feff}{good}");
        for (headers, body, code) in [
            (vec![JSON, "Server: a", "Server: b"], good.clone(), "response_headers"),
            (vec!["Content-Type: text/html"], good.clone(), "response_content_type"),
            (vec![], good, "response_content_type"),
            (vec![JSON], String::new(), "response_size"),
            (vec![JSON], " ".repeat(4_000_001), "response_size"),
            (vec![JSON], repeated, "response_json"),
            (vec![JSON], marked_order, "response_json"),
            (vec![JSON], "[]".to_owned(), "response_binding"),
        ] {
            let wrong = http("202 Accepted", &headers, body.as_bytes());
            let server = Server::start([document(), wrong]).await;
            let client = client(&server.origin, Witness::default());
            let refused = submit(&client, Operation::Change).await;
            assert_eq!(refused, Err(marked(&format!("source_client.{code}"), false)));
        }
        for answers in [vec![], vec![document()]] {
            let server = Server::start(answers).await;
            let client = client(&server.origin, Witness::default());
            let broken = submit(&client, Operation::Change).await.expect_err("no answer");
            assert_eq!(broken, marked("source_client.network", true));
            let shown = format!("{broken:?} {client:?} {:?}", pinned(&server.origin, PIN));
            assert!(!shown.contains(SECRET) && !shown.contains("127.0.0.1"), "{shown}");
        }
    });
}
