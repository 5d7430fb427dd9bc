//! The source client against servers that answer as a test says (scenarios F, contract 3.3).
//!
//! Holds too what the tests of the clients beside it share: the server, and the host's headers.

mod f2_to_f6;

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

/// An answer a client gave, as tests compare it.
pub(crate) fn read(value: &leasehold_actors::contract::json::Value) -> serde_json::Value {
    serde_json::from_str(Payload::of(value).as_str()).expect("JSON")
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
