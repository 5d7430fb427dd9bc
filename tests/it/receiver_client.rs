//! The receiver client against servers that answer as a test says (scenarios I, contract 3.5).

use crate::notification_client::{acknowledged, altered, notification};
use crate::source_client::{
    EMPTY, Given, JSON, SECRET, Server, Witness, answer, http, payload, read, token, with,
};
use crate::support::{marked, run};
use leasehold::CallFailure;
use leasehold::http::{ContextHeaders, ReceiverClient, ReceiverOptions};
use leasehold::sandbox::{Sandbox, SandboxOptions};
use leasehold_actors::contract::capabilities::{digest, receiver_document};
use leasehold_actors::contract::payload::Payload;
use leasehold_actors::contract::text::Sha256;
use serde_json::json;

/// The digest of the receiver of the contract.
pub(crate) const PIN: &str = "0aaae401a02d914a572d389a89b22da00d2df2e07c8a2331c69d1609456e8690";
const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// Where notifications go, and the start of every other path.
pub(crate) const BASE: &str = "/v1/localization/terminal-notifications";
const HASH: &str = "6d0a7975f4b0d68976c93cbc8fd94a46af7f6f012a1ade43f4c919bbc49114a3";
const AUTH: &str = "blun.cms-source-terminal-notification-http-auth.v1";

fn pinned(origin: &str, pin: &str) -> ReceiverOptions {
    let pin = Sha256::from_hex(pin).expect("64 digits");
    ReceiverOptions {
        allow_http_loopback: true,
        timeout_seconds: 5.0,
        ..ReceiverOptions::new(origin, pin)
    }
}

/// A client with the receiver's pin.
pub(crate) fn client(origin: &str, headers: impl ContextHeaders + 'static) -> ReceiverClient {
    ReceiverClient::new(&pinned(origin, PIN), headers).expect("a client")
}

/// The document with this notification path, as the receiver answers it.
fn document(path: &str) -> Vec<u8> {
    let document = Payload::of(&receiver_document(path));
    offered(&serde_json::from_str(document.as_str()).expect("JSON"))
}

fn offered(document: &serde_json::Value) -> Vec<u8> {
    let schema = "blun.cms-terminal-receiver-capabilities-response.v2";
    answer("200 OK", &json!({ "schema": schema, "capabilities": document }))
}

fn health() -> serde_json::Value {
    json!({
        "schema": "blun.cms-terminal-receiver-health.v1",
        "status": "ok",
        "runtime_state": "running",
        "worker_state": "running",
        "inbox_status": "ok",
        "received": 3,
        "processing_counts":
            { "pending": 1, "leased": 0, "retry_wait": 0, "succeeded": 2, "failed": 0 },
        "processing_due": 1,
        "expired_leases": 0,
        "failed": 0,
        "error_code": null,
        "capabilities_sha256": PIN,
    })
}

fn readiness(status: &str) -> serde_json::Value {
    json!({
        "schema": "blun.cms-terminal-receiver-readiness.v1",
        "status": status,
        "worker_state": "running",
        "inbox_status": "ok",
        "error_code": null,
        "capabilities_sha256": PIN,
    })
}

fn status() -> serde_json::Value {
    json!({
        "schema": "blun.cms-terminal-receiver-status-response.v1",
        "notification_id": acknowledged()["notification_id"],
        "event_id": "evt-2031-0007",
        "site_id": "shop-north",
        "terminal_status": "published",
        "notification_sha256": HASH,
        "processing_status": "succeeded",
        "attempts": 1,
        "max_attempts": 5,
        "next_attempt_at": 1_900_000_031.0,
        "lease_expires_at": null,
        "lease_expired": false,
        "last_error_code": null,
        "processed_at": 1_900_000_031.0,
        "capabilities_sha256": PIN,
    })
}

async fn asked(client: &ReceiverClient) -> Result<Vec<u8>, CallFailure> {
    client.status(&token("evt-2031-0007"), &token("shop-north")).await
}

fn failed(name: &str, retryable: bool) -> CallFailure {
    marked(&format!("terminal_receiver_client.{name}"), retryable)
}

#[test]
fn i1_i2_health_and_readiness_are_two_gets_and_one_that_is_not_well_is_an_answer() {
    run(async {
        let blocked = with(health(), "status", json!("blocked"));
        let blocked = with(blocked, "received", json!(null));
        let blocked = with(blocked, "processing_counts", json!(null));
        let answers = [
            document(BASE),
            answer("200 OK", &health()),
            document(BASE),
            answer("503 Service Unavailable", &blocked),
            document(BASE),
            answer("503 Service Unavailable", &readiness("not_ready")),
        ];
        let server = Server::start(answers).await;
        let witness = Witness::default();
        let client = client(&server.origin, witness.clone());
        assert_eq!(read(&client.health().await.expect("an answer")), health());
        assert_eq!(read(&client.health().await.expect("an answer")), blocked);
        let ready = client.readiness().await.expect("an answer");
        assert_eq!(read(&ready), readiness("not_ready"));
        let paths = ["capabilities", "health", "capabilities", "health", "capabilities"];
        let gets = paths.into_iter().chain(["readiness"]);
        assert_eq!(server.lines(), Vec::from_iter(gets.map(|name| format!("GET {BASE}/{name}"))));
        let seen = server.requests();
        assert!(seen.iter().all(|request| request.header("content-type").is_none()));
        assert!(seen.iter().all(|request| request.body.is_empty()));
        let context = |name: &str| {
            json!({
                "schema": AUTH, "method": "GET", "origin": server.origin,
                "path": format!("{BASE}/{name}"), "body_sha256": EMPTY,
            })
        };
        assert_eq!(witness.contexts()[..2], [context("capabilities"), context("health")]);
    });
}

#[test]
fn i3_status_is_a_get_and_a_post_bound_to_its_body() {
    run(async {
        let server = Server::start([document(BASE), answer("200 OK", &status())]).await;
        let witness = Witness::default();
        let given = asked(&client(&server.origin, witness.clone())).await.expect("an answer");
        let given: serde_json::Value = serde_json::from_slice(&given).expect("JSON");
        assert_eq!(given, status());
        let posted = &server.requests()[1];
        assert_eq!(posted.line, format!("POST {BASE}/status"));
        let question = json!({
            "schema": "blun.cms-terminal-receiver-status-request.v1",
            "event_id": "evt-2031-0007",
            "site_id": "shop-north",
        });
        let question = payload(&question.to_string());
        assert_eq!(posted.body, question.as_str());
        let hash = question.sha256().to_string();
        assert_eq!(posted.header("x-localization-terminal-status-sha256"), Some(hash.as_str()));
        assert_eq!(posted.header("idempotency-key"), None);
        let context = json!({
            "schema": AUTH, "method": "POST", "origin": server.origin,
            "path": format!("{BASE}/status"), "body_sha256": hash,
            "event_id": "evt-2031-0007", "site_id": "shop-north",
        });
        assert_eq!(witness.contexts()[1], context);
    });
}

#[test]
fn i3_asking_writes_nothing_and_an_unknown_event_is_final() {
    run(async {
        let sandbox = Sandbox::start(SandboxOptions::default()).await.expect("it starts");
        let client = client(&sandbox.origin(), Witness::default());
        assert_eq!(asked(&client).await, Err(failed("http_status", false)));
        assert_eq!(sandbox.summary().notifications, 0);
        client.notify(&notification()).await.expect("it is acknowledged");
        let given = asked(&client).await.expect("an answer");
        let given: serde_json::Value = serde_json::from_slice(&given).expect("JSON");
        assert_eq!(given["processing_status"], "pending");
        assert_eq!(sandbox.summary().notifications, 1);
        sandbox.stop().await;
    });
}

#[test]
fn i4_the_notification_path_is_the_one_of_the_pinned_document() {
    run(async {
        let path = "/inbox/terminal";
        let pin = digest(&receiver_document(path)).expect("a digest").to_string();
        let server = Server::start([document(path), answer("200 OK", &acknowledged())]).await;
        let witness = Witness::default();
        let options = pinned(&server.origin, &pin);
        let client = ReceiverClient::new(&options, witness.clone()).expect("a client");
        client.notify(&notification()).await.expect("it is acknowledged");
        let expected = [format!("GET {BASE}/capabilities"), format!("POST {path}")];
        assert_eq!(server.lines(), expected);
        let posted = &server.requests()[1];
        assert_eq!(posted.body, notification().as_str());
        let id = acknowledged()["notification_id"].as_str().expect("text").to_owned();
        for (name, value) in [
            ("idempotency-key", id.as_str()),
            ("x-localization-terminal-notification-id", id.as_str()),
            ("x-localization-terminal-notification-sha256", HASH),
        ] {
            assert_eq!(posted.header(name), Some(value), "{name}");
        }
        let context = json!({
            "schema": AUTH, "method": "POST", "origin": server.origin, "path": path,
            "body_sha256": HASH, "notification_id": id, "event_id": "evt-2031-0007",
            "site_id": "shop-north",
        });
        assert_eq!(witness.contexts()[1], context);
    });
}

#[test]
fn i5_another_document_ends_the_call_after_one_request() {
    run(async {
        let sandbox = Sandbox::start(SandboxOptions::default()).await.expect("it starts");
        let options = pinned(&sandbox.origin(), ZEROS);
        let client = ReceiverClient::new(&options, Witness::default()).expect("a client");
        let refused = client.notify(&notification()).await;
        assert_eq!(refused, Err(failed("capabilities_binding", false)));
        assert_eq!(sandbox.summary().notifications, 0);
        sandbox.stop().await;
        let known = Payload::of(&receiver_document(BASE));
        let mut bare: serde_json::Value = serde_json::from_str(known.as_str()).expect("JSON");
        bare["limits"]["max_body_bytes"] = json!(1);
        bare.as_object_mut().expect("an object").remove("sha256");
        let own = payload(&bare.to_string()).sha256().to_string();
        let again = with(bare.clone(), "sha256", json!(own));
        let stale = with(bare, "sha256", json!(PIN));
        for (document, pin) in [(again, own.as_str()), (stale, PIN), (json!(null), PIN)] {
            let server = Server::start([offered(&document)]).await;
            let options = pinned(&server.origin, pin);
            let client = ReceiverClient::new(&options, Witness::default()).expect("a client");
            let refused = client.notify(&notification()).await;
            assert_eq!(refused, Err(failed("capabilities_binding", false)));
            assert_eq!(server.requests().len(), 1);
        }
        let stale = with(health(), "capabilities_sha256", json!(ZEROS));
        let server = Server::start([document(BASE), answer("200 OK", &stale)]).await;
        let refused = self::client(&server.origin, Witness::default()).health().await.err();
        assert_eq!(refused, Some(failed("health_binding", false)));
    });
}

#[test]
fn i6_a_bad_notification_is_not_sent_and_a_bad_acknowledgement_is_not_taken() {
    run(async {
        let server = Server::start([]).await;
        let witness = Witness::default();
        let bad = altered("job_count", json!(0));
        let refused = client(&server.origin, witness.clone()).notify(&bad).await;
        assert_eq!(refused, Err(failed("request_invalid", false)));
        assert!(server.requests().is_empty() && witness.contexts().is_empty());
        for (key, value) in [
            ("site_id", json!("shop-south")),
            ("notification_sha256", json!(ZEROS)),
            ("status", json!(SECRET)),
        ] {
            let other = answer("200 OK", &with(acknowledged(), key, value));
            let server = Server::start([document(BASE), other]).await;
            let refused = client(&server.origin, Witness::default()).notify(&notification()).await;
            let shown = format!("{refused:?}");
            assert_eq!(refused, Err(failed("notification_binding", false)), "{key}");
            assert!(!shown.contains(SECRET));
        }
        let server = Server::start([document(BASE)]).await;
        let client = client(&server.origin, Witness::default());
        let broken = client.notify(&notification()).await.expect_err("no answer");
        assert_eq!(broken, failed("network", true));
        assert_eq!(server.requests().len(), 2);
        let shown = format!("{broken:?} {client:?} {:?}", pinned(&server.origin, PIN));
        assert!(!shown.contains(SECRET) && !shown.contains("127.0.0.1"), "{shown}");
    });
}

#[test]
fn i7_health_adds_up_and_a_status_is_about_its_event() {
    run(async {
        for wrong in [
            with(health(), "received", json!(4)),
            with(health(), "received", json!(null)),
            with(health(), "more", json!(1)),
        ] {
            let server = Server::start([document(BASE), answer("200 OK", &wrong)]).await;
            let refused = client(&server.origin, Witness::default()).health().await.err();
            assert_eq!(refused, Some(failed("health_binding", false)), "{wrong}");
        }
        for (key, value) in [
            ("event_id", json!("evt-2031-0008")),
            ("site_id", json!("shop-south")),
            ("capabilities_sha256", json!(ZEROS)),
            ("schema", json!("other")),
        ] {
            let wrong = answer("200 OK", &with(status(), key, value));
            let server = Server::start([document(BASE), wrong]).await;
            let refused = asked(&client(&server.origin, Witness::default())).await;
            assert_eq!(refused, Err(failed("status_binding", false)), "{key}");
        }
        let stale = with(readiness("ready"), "capabilities_sha256", json!(ZEROS));
        let server = Server::start([document(BASE), answer("200 OK", &stale)]).await;
        let refused = client(&server.origin, Witness::default()).readiness().await.err();
        assert_eq!(refused, Some(failed("readiness_binding", false)));
    });
}

#[test]
fn i7_d19_the_status_decides_first_and_what_cannot_be_read_is_final() {
    run(async {
        let large = format!("{}{}", status(), " ".repeat(16_384)).into_bytes();
        let text = status().to_string().into_bytes();
        let twice = vec![JSON, "Server: a", "Server: b"];
        let html = "Content-Type: text/html";
        let elsewhere = Server::start([]).await;
        let location = format!("Location: {}/", elsewhere.origin);
        for (code, headers, body, name, retryable) in [
            ("307 Temporary Redirect", vec![location.as_str()], vec![], "redirect", false),
            ("409 Conflict", vec![html], vec![], "http_status", false),
            ("503 Service Unavailable", vec![html], vec![], "http_status", true),
            ("429 Too Many Requests", vec![html], vec![], "http_status", true),
            ("200 OK", twice, text.clone(), "response_headers", false),
            ("200 OK", vec![html], text, "response_content_type", false),
            ("200 OK", vec![JSON], large, "response_size", false),
            ("200 OK", vec![JSON], b"{\"a\":1,\"a\":1}".to_vec(), "response_json", false),
            ("200 OK", vec![JSON], b"[]".to_vec(), "response_binding", false),
        ] {
            let server = Server::start([document(BASE), http(code, &headers, &body)]).await;
            let refused = asked(&client(&server.origin, Witness::default())).await;
            assert_eq!(refused, Err(failed(name, retryable)), "{code} {name}");
        }
        assert!(elsewhere.requests().is_empty(), "no redirect is followed");
    });
}

#[test]
fn i8_unsafe_origins_and_a_host_that_sets_the_clients_own_headers_are_refused() {
    run(async {
        for bad in [
            "http://receiver.example",
            "https://user:secret@receiver.example",
            "https://receiver.example/path",
            "https://receiver.example?query",
        ] {
            assert!(ReceiverClient::new(&pinned(bad, PIN), Witness::default()).is_err(), "{bad}");
        }
        let server = Server::start([]).await;
        for name in [
            "Content-Type",
            "Idempotency-Key",
            "X-Localization-Terminal-Status-Sha256",
            "X-Localization-Terminal-Notification-Id",
        ] {
            let client = client(&server.origin, Given::of(&[(name, "x")]));
            assert_eq!(asked(&client).await, Err(failed("authentication", false)), "{name}");
        }
        assert!(server.requests().is_empty());
    });
}
