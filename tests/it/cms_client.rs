//! The CMS client against servers that answer byte by byte as a test says (scenarios E, contract 3.2).

use crate::support::{accepted, change, code, engine, run};
use leasehold::http::{
    AuthHeaders, CmsClient, CmsOptions, HmacSha256Signer, NoAuthHeaders, Signature, Signer,
    StaticAuthHeader,
};
use leasehold::sandbox::{DEMO_KEY, DEMO_KEY_ID, Sandbox, SandboxOptions};
use leasehold::{CallFailure, ChangeRequest, ManualClock, MemoryDisk};
use leasehold_actors::contract::change::Change;
use leasehold_actors::contract::text::Token;
use secrecy::SecretString;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

fn signer() -> HmacSha256Signer {
    let key_id = Token::new(DEMO_KEY_ID).expect("a token");
    HmacSha256Signer::new(key_id, DEMO_KEY.to_vec().into()).expect("a key")
}

pub(crate) fn client(address: SocketAddr, timeout_seconds: f64) -> CmsClient {
    let options = CmsOptions {
        origin: format!("http://{address}"),
        allow_http_loopback: true,
        timeout_seconds,
    };
    CmsClient::new(&options, signer(), NoAuthHeaders).expect("a client")
}

fn request() -> ChangeRequest {
    let change = Change::parse(change("event-1").as_bytes()).expect("a change");
    ChangeRequest { event_id: change.event_id.clone(), change: change.payload }
}

/// How a server ends its answer.
#[derive(Clone, Copy)]
pub(crate) enum Ending {
    /// Closes in an orderly way.
    Close,
    /// Says nothing more and keeps the connection.
    Hang,
}

/// A server for one connection: reads a whole request, then writes these bytes. Answers the request.
pub(crate) async fn server(answer: Vec<u8>, ending: Ending) -> (SocketAddr, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let task = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut seen = Vec::new();
        let mut buffer = [0; 4096];
        while !whole(&seen) {
            match stream.read(&mut buffer).await.expect("readable") {
                0 => break,
                read => seen.extend_from_slice(&buffer[..read]),
            }
        }
        stream.write_all(&answer).await.expect("writable");
        if matches!(ending, Ending::Hang) {
            std::future::pending::<()>().await;
        }
        stream.shutdown().await.expect("closable");
        seen
    });
    (address, task)
}

/// Whether a request has its whole body.
fn whole(seen: &[u8]) -> bool {
    let text = String::from_utf8_lossy(seen);
    let Some((head, _)) = text.split_once("\r\n\r\n") else { return false };
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok())
        .unwrap_or(0);
    seen.len() >= head.len() + 4 + length
}

pub(crate) fn http(status: &str, headers: &[&str], body: &[u8]) -> Vec<u8> {
    let mut answer = format!("HTTP/1.1 {status}\r\n");
    for header in headers {
        answer.push_str(header);
        answer.push_str("\r\n");
    }
    answer.push_str(&format!("Content-Length: {}\r\nConnection: close\r\n\r\n", body.len()));
    [answer.into_bytes(), body.to_vec()].concat()
}

/// An answer in its canonical form.
fn canonical(text: &str) -> Vec<u8> {
    let value = leasehold_actors::contract::json::Value::parse(text.as_bytes()).expect("JSON");
    leasehold_actors::contract::canonical::print(&value).into_bytes()
}

pub(crate) const JSON: &str = "Content-Type: application/json; charset=utf-8";

async fn failure(answer: Vec<u8>) -> (String, bool, Option<f64>) {
    let (address, served) = server(answer, Ending::Close).await;
    let result = client(address, 5.0).submit_change(&request()).await;
    served.await.expect("no panic");
    match result {
        Err(CallFailure::Marked { code, retryable, retry_after_seconds }) => {
            (code, retryable, retry_after_seconds)
        }
        other => panic!("{other:?} where a marked failure is expected"),
    }
}

#[test]
fn e2_the_body_is_canonical_and_signed_and_the_headers_are_the_contracts() {
    run(async {
        let answer = http("202 Accepted", &[JSON], &canonical(&accepted("event-1", 2)));
        let (address, served) = server(answer, Ending::Close).await;
        let options = CmsOptions {
            origin: format!("http://{address}/"),
            allow_http_loopback: true,
            timeout_seconds: 5.0,
        };
        let secret = SecretString::from("Bearer secret".to_owned());
        let auth = StaticAuthHeader::new("Authorization".to_owned(), secret);
        let client = CmsClient::new(&options, signer(), auth).expect("a client");
        let request = request();
        client.submit_change(&request).await.expect("it is accepted");
        let seen = String::from_utf8(served.await.expect("no panic")).expect("text");
        let (head, body) = seen.split_once("\r\n\r\n").expect("a head and a body");
        assert_eq!(body, request.change.as_str());
        assert!(body.contains('€'), "the euro sign stands for itself");
        assert!(head.starts_with("POST /v2/localization/changes HTTP/1.1\r\n"), "{head}");
        let lower = head.to_ascii_lowercase();
        for header in [
            "accept: application/json".to_owned(),
            "accept-encoding: identity".to_owned(),
            "content-type: application/json; charset=utf-8".to_owned(),
            "authorization: bearer secret".to_owned(),
            "x-localization-signature-algorithm: hmac-sha256".to_owned(),
            "x-localization-key-id: sandbox".to_owned(),
            format!("x-localization-signature: {}", signer().hex(body.as_bytes())),
        ] {
            assert!(lower.lines().any(|line| line == header), "{header} in {head}");
        }
    });
}

#[test]
fn e3_d19_the_status_decides_first_and_a_proper_error_object_names_the_code() {
    run(async {
        let error = |code: &str| {
            canonical(&format!(
                "{{\"schema\":\"blun.website-localization-api.v2\",\"status\":\"BLOCK\",\"error\":\"{code}\"}}"
            ))
        };
        let html = "Content-Type: text/html";
        for (status, header, body, code, retryable) in [
            ("503 Unavailable", JSON, error("cms.queue.rejected"), "cms.queue.rejected", true),
            ("500 Error", JSON, error("api.internal"), "api.internal", true),
            ("409 Conflict", JSON, error("cms.event.superseded"), "cms.event.superseded", false),
            ("404 Not Found", html, b"<html>".to_vec(), "http_status", false),
            ("401 Unauthorized", html, b"<html>".to_vec(), "http_status", false),
            ("502 Bad Gateway", html, b"<html>".to_vec(), "http_status", true),
            ("429 Too Many", html, b"<html>".to_vec(), "http_status", true),
            ("408 Timeout", JSON, b"{}".to_vec(), "http_status", true),
            ("425 Too Early", JSON, Vec::new(), "http_status", true),
            ("400 Bad", JSON, error("Bad Code"), "http_status", false),
            ("204 No Content", JSON, Vec::new(), "http_status", false),
            ("201 Created", JSON, canonical(&accepted("event-1", 2)), "http_status", false),
        ] {
            let found = failure(http(status, &[header], &body)).await;
            assert_eq!(found, (code.to_owned(), retryable, None), "{status}");
        }
    });
}

#[test]
fn d19_a_retry_after_is_taken_from_what_may_be_retried_and_nothing_else() {
    run(async {
        let asked = |status: &'static str, value: &'static str| async move {
            let header = format!("Retry-After: {value}");
            failure(http(status, &[JSON, &header], b"{}")).await.2
        };
        assert_eq!(asked("429 Too Many", "7").await, Some(7.0));
        assert_eq!(asked("503 Unavailable", "-7").await, None);
        assert_eq!(asked("400 Bad", "7").await, None);
        assert_eq!(asked("503 Unavailable", "Fri, 31 Dec 9999 23:59:59 GMT").await, Some(86_400.0));
    });
}

#[test]
fn e5_an_answer_that_does_not_belong_to_the_change_is_worth_another_try() {
    run(async {
        for (from, to) in [("event-1", "event-9"), ("\"enqueued\"", "\"lost\""), ("plan-1", "")] {
            let answer = canonical(&accepted("event-1", 2).replace(from, to));
            let found = failure(http("200 OK", &[JSON], &answer)).await;
            assert_eq!(found, ("response_binding".to_owned(), true, None), "{to}");
        }
    });
}

#[test]
fn answers_that_cannot_be_read_end_in_the_code_of_the_first_check() {
    run(async {
        let good = canonical(&accepted("event-1", 2));
        let large = vec![b' '; 4_000_001];
        let spaced = accepted("event-1", 2).replace(':', ": ").into_bytes();
        for (headers, body, code) in [
            (vec!["Content-Type: text/html"], good.clone(), "response_content_type"),
            (vec![], good.clone(), "response_content_type"),
            (vec![JSON, JSON], good.clone(), "response_headers"),
            (vec![JSON], Vec::new(), "response_size"),
            (vec![JSON], large, "response_size"),
            (vec![JSON], spaced, "response_json"),
            (vec![JSON], b"{\"a\":1,\"a\":1}".to_vec(), "response_json"),
            (vec![JSON], b"[]".to_vec(), "response_json"),
            (vec![JSON], b"\xff".to_vec(), "response_json"),
        ] {
            let found = failure(http("200 OK", &headers, &body)).await;
            assert_eq!(found, (code.to_owned(), true, None));
        }
    });
}

#[test]
fn e8_whatever_goes_wrong_on_the_way_is_network_and_may_be_tried_again() {
    run(async {
        let good = http("200 OK", &[JSON], &canonical(&accepted("event-1", 2)));
        // The answer breaks off at points from its first byte to its last.
        for kept in (0..good.len()).step_by(37).chain([good.len() - 1]) {
            let found = failure(good[..kept].to_vec()).await;
            assert_eq!(found, ("network".to_owned(), true, None), "{kept} bytes");
        }
        let nonsense = failure(b"SSH-2.0-OpenSSH\r\n".to_vec()).await;
        assert_eq!(nonsense, ("network".to_owned(), true, None));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        drop(listener);
        let refused = client(address, 5.0).submit_change(&request()).await;
        assert!(
            matches!(refused, Err(CallFailure::Marked { code, retryable: true, .. }) if code == "network")
        );
    });
}

#[test]
fn a_server_that_hangs_at_any_point_is_left_at_the_deadline() {
    run(async {
        let good = http("200 OK", &[JSON], &canonical(&accepted("event-1", 2)));
        for kept in [0, 5, good.len() - 10] {
            let (address, served) = server(good[..kept].to_vec(), Ending::Hang).await;
            let result = client(address, 0.2).submit_change(&request()).await;
            let network = matches!(result, Err(CallFailure::Marked { code, retryable: true, .. }) if code == "network");
            assert!(network, "{kept} bytes");
            served.abort();
        }
    });
}

#[test]
fn e9_redirects_are_not_followed() {
    run(async {
        for status in ["301 Moved", "302 Found", "307 Temporary", "308 Permanent", "304 Same"] {
            let answer = http(status, &["Location: http://127.0.0.1:9/"], b"");
            assert_eq!(failure(answer).await, ("redirect".to_owned(), false, None), "{status}");
        }
    });
}

struct BadSigner(Option<Signature>);

impl Signer for BadSigner {
    fn sign(&self, _: &[u8]) -> Result<Signature, leasehold::http::credentials::SigningFailed> {
        self.0.clone().ok_or(leasehold::http::credentials::SigningFailed)
    }
}

struct BadHeaders(&'static str, &'static str);

impl AuthHeaders for BadHeaders {
    fn headers(
        &self,
    ) -> Result<Vec<(String, SecretString)>, leasehold::http::credentials::AuthenticationFailed>
    {
        assert!(self.0 != "panic", "a host's own fault");
        Ok(vec![(self.0.to_owned(), self.1.to_owned().into())])
    }
}

#[test]
fn e9_nothing_is_sent_without_a_good_signature_and_good_headers() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let origin = format!("http://{}", listener.local_addr().expect("an address"));
        let options = CmsOptions { allow_http_loopback: true, ..CmsOptions::new(origin) };
        let malformed =
            Signature { algorithm: "a b".into(), key_id: "k".into(), value: "v".into() };
        for signature in [None, Some(malformed)] {
            let client =
                CmsClient::new(&options, BadSigner(signature), NoAuthHeaders).expect("a client");
            let result = client.submit_change(&request()).await;
            assert_eq!(result, Err(crate::support::marked("signing", false)));
        }
        for (name, value) in [
            ("X-Localization-Signature", "x"),
            ("Content-Type", "x"),
            ("X A", "x"),
            ("X-A", "a\nb"),
            ("panic", ""),
        ] {
            let client =
                CmsClient::new(&options, signer(), BadHeaders(name, value)).expect("a client");
            let result = client.submit_change(&request()).await;
            assert_eq!(result, Err(crate::support::marked("authentication", false)), "{name}");
        }
        let nobody = tokio::select! {
            biased;
            connected = listener.accept() => Some(connected.is_ok()),
            () = std::future::ready(()) => None,
        };
        assert_eq!(nobody, None, "no connection was made");
    });
}

#[test]
fn e10_a_client_with_a_bad_address_or_timeout_is_not_made() {
    for (origin, loopback, timeout_seconds) in [
        ("http://cms.example", true, 30.0),
        ("https://cms.example/path", false, 30.0),
        ("http://127.0.0.1:1", false, 30.0),
        ("https://cms.example", false, 0.0),
        ("https://cms.example", false, 300.1),
        ("https://cms.example", false, f64::NAN),
    ] {
        let options = CmsOptions {
            origin: origin.to_owned(),
            allow_http_loopback: loopback,
            timeout_seconds,
        };
        assert!(CmsClient::new(&options, signer(), NoAuthHeaders).is_err(), "{origin}");
    }
    let options = CmsOptions::new("https://cms.example");
    assert!(CmsClient::new(&options, signer(), NoAuthHeaders).is_ok());
}

#[test]
fn the_sandbox_refuses_what_is_not_signed_and_answers_a_repeat_alike() {
    run(async {
        let sandbox = Sandbox::start(SandboxOptions::default()).await.expect("it starts");
        let client = client(sandbox.address(), 5.0);
        let first = client.submit_change(&request()).await.expect("accepted");
        let again = client.submit_change(&request()).await.expect("a repeat");
        let text = String::from_utf8(first).expect("text");
        assert!(text.contains("\"inserted_jobs\":2"), "{text}");
        assert!(String::from_utf8(again).expect("text").contains("\"inserted_jobs\":0"));
        let options = CmsOptions { allow_http_loopback: true, ..CmsOptions::new(sandbox.origin()) };
        let key_id = Token::new(DEMO_KEY_ID).expect("a token");
        let other = HmacSha256Signer::new(key_id, b"other".to_vec().into()).expect("a key");
        let stranger = CmsClient::new(&options, other, NoAuthHeaders).expect("a client");
        let refused = stranger.submit_change(&request()).await;
        assert_eq!(refused, Err(crate::support::marked("cms.signature.invalid", false)));
    });
}

#[test]
fn an_engine_delivers_through_the_client_and_keeps_its_code() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine(&disk, &clock).await;
        let flow = engine.dispatch();
        flow.enqueue(change("event-1"), 5).await.expect("it is valid");
        let short = flow.run_once(&client(([127, 0, 0, 1], 9).into(), 30.0), "w", 30.0).await;
        assert_eq!(code(short), "dispatch.lease_too_short");
        let answer = http("429 Too Many", &[JSON, "Retry-After: 60"], b"{}");
        let (address, served) = server(answer, Ending::Close).await;
        let attempt = flow.run_once(&client(address, 5.0), "w", 60.0).await;
        let attempt = attempt.expect("it runs").expect("due");
        assert_eq!((attempt.status, attempt.next_attempt_at), ("retry_wait", 160.0));
        assert_eq!(attempt.error_code.expect("an error").as_str(), "http_status");
        served.await.expect("no panic");
    });
}
