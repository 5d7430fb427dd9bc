//! The notification adapter against servers that answer as a test says (scenarios H, contract 3.4).

use crate::source_client::{Given, JSON, SECRET, Server, Witness, answer, http, payload, with};
use crate::support::{change, engine_with, marked, run};
use leasehold::http::{AdapterOptions, NotificationAdapter};
use leasehold::{CallFailure, Engine, ManualClock, MemoryDisk, NotificationStatus};
use leasehold_actors::contract::json::Value;
use leasehold_actors::contract::notification::acknowledgement;
use leasehold_actors::contract::payload::Payload;
use serde_json::json;

const ID: &str = "terminal-dcec26690ddd0f3c27e401118630e141f7bbe9babfbf6d326f9a1ee31ed70418";
const HASH: &str = "6d0a7975f4b0d68976c93cbc8fd94a46af7f6f012a1ade43f4c919bbc49114a3";
const PATH: &str = "/hooks/terminal";

/// The contract's example.
pub(crate) fn notification() -> Payload {
    payload(&with(without_id(), "notification_id", json!(ID)).to_string())
}

fn without_id() -> serde_json::Value {
    json!({
        "schema": "blun.cms-source-terminal-notification.v1",
        "event_id": "evt-2031-0007",
        "site_id": "shop-north",
        "plan_id": "plan-6f1c",
        "website_version": "web-2031.4",
        "source_sequence": 7,
        "job_count": 2,
        "change_sha256": "4a8cffca989b485a5b8a79ef3041d60a145847fe334ff8bc8baaea4e446ed2e7",
        "lifecycle_binding_sha256":
            "372f7a8cd4ea99c537a595c84ac54af307925b3738ab2ecbd10d4d69130588bf",
        "lifecycle_sha256": "68f517fe5b4230e976f0dc5862a85bd5d7cc66e9e85ef7932420cc72931c71cf",
        "terminal_status": "published",
    })
}

/// The example with another value under one key, and the id that derives from it.
pub(crate) fn altered(key: &str, value: serde_json::Value) -> Payload {
    let other = with(without_id(), key, value);
    let id = format!("terminal-{}", payload(&other.to_string()).sha256());
    payload(&with(other, "notification_id", json!(id)).to_string())
}

/// The one acknowledgement of the example.
pub(crate) fn acknowledged() -> serde_json::Value {
    json!({
        "schema": "blun.cms-source-terminal-notification-ack.v1",
        "notification_id": ID,
        "event_id": "evt-2031-0007",
        "site_id": "shop-north",
        "status": "accepted",
        "notification_sha256": HASH,
    })
}

fn options(endpoint: String) -> AdapterOptions {
    AdapterOptions {
        allow_http_loopback: true,
        timeout_seconds: 5.0,
        ..AdapterOptions::new(endpoint)
    }
}

fn adapter(
    server: &Server,
    headers: impl leasehold::http::ContextHeaders + 'static,
) -> NotificationAdapter {
    let options = options(format!("{}{PATH}", server.origin));
    NotificationAdapter::new(&options, headers).expect("an adapter")
}

#[test]
fn h1_one_exact_post_and_a_printed_form_without_the_secret() {
    run(async {
        let server = Server::start([answer("200 OK", &acknowledged())]).await;
        let witness = Witness::default();
        let adapter = adapter(&server, witness.clone());
        let given = adapter.notify(&notification()).await.expect("it is acknowledged");
        let given: serde_json::Value = serde_json::from_slice(&given).expect("JSON");
        assert_eq!(given, acknowledged());
        let seen = server.requests();
        assert_eq!(server.lines(), [format!("POST {PATH}")]);
        assert_eq!(seen[0].body, notification().as_str());
        let secret = format!("Bearer {SECRET}");
        for (name, value) in [
            ("accept", "application/json"),
            ("accept-encoding", "identity"),
            ("content-type", "application/json; charset=utf-8"),
            ("idempotency-key", ID),
            ("x-localization-terminal-notification-id", ID),
            ("x-localization-terminal-notification-sha256", HASH),
            ("authorization", secret.as_str()),
        ] {
            assert_eq!(seen[0].header(name), Some(value), "{name}");
        }
        let context = json!({
            "schema": "blun.cms-source-terminal-notification-http-auth.v1",
            "method": "POST",
            "origin": server.origin,
            "path": PATH,
            "body_sha256": HASH,
            "notification_id": ID,
            "event_id": "evt-2031-0007",
            "site_id": "shop-north",
        });
        assert_eq!(witness.contexts(), [context]);
        let shown = format!("{adapter:?} {:?}", options(format!("https://{SECRET}/x")));
        assert!(!shown.contains(SECRET) && !shown.contains("127.0.0.1"), "{shown}");
    });
}

/// A terminal record, registered for delivery.
async fn registered(engine: &Engine) -> NotificationStatus {
    let change = payload(&change("event-1"));
    let dispatched = json!({
        "event_id": "event-1",
        "payload_sha256": change.sha256().to_string(),
        "status": "succeeded",
        "remote_status": "cancelled",
        "remote_plan_id": "plan-1",
        "remote_job_count": 2,
        "response_sha256": HASH,
    });
    let watched = engine
        .lifecycle()
        .register_change(change.as_bytes(), dispatched.to_string(), 5)
        .await
        .expect("it was accepted");
    let known = engine.notification().register_terminal(&watched.status, 2).await;
    known.expect("it is terminal").status
}

#[test]
fn h2_retries_belong_to_the_outbox() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = engine_with(&disk, &clock, 2.0, 8.0).await;
        let known = registered(&engine).await;
        let exact = acknowledgement(
            &known.event_id,
            &known.site_id,
            &known.notification_id,
            known.notification_sha256,
        );
        let unwell = http("503 Service Unavailable", &[], b"");
        let server = Server::start([unwell, http("200 OK", &[JSON], exact.as_bytes())]).await;
        let adapter = adapter(&server, Witness::default());
        let flow = engine.notification();
        let first = flow.run_once(&adapter, "w", 60.0).await.expect("it runs").expect("due");
        assert_eq!((first.status, first.next_attempt_at), ("retry_wait", 102.0));
        let code = first.error_code.expect("an error");
        assert_eq!(code.as_str(), "notification_http.http_status");
        assert_eq!(server.requests().len(), 1);
        clock.set(101.0);
        assert_eq!(flow.run_once(&adapter, "w", 60.0).await.expect("it runs"), None);
        clock.set(102.0);
        let second = flow.run_once(&adapter, "w", 60.0).await.expect("it runs").expect("due");
        assert_eq!((second.status, second.attempt), ("succeeded", 2));
        let seen = server.requests();
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[0].body, seen[1].body);
    });
}

#[test]
fn h3_d19_the_status_decides_first_with_one_call_each() {
    run(async {
        let elsewhere = Server::start([]).await;
        let location = format!("Location: {}/", elsewhere.origin);
        let headers = ["Content-Type: text/html", "Retry-After: 7", location.as_str()];
        for (status, name, retryable) in [
            ("302 Found", "redirect", false),
            ("308 Permanent Redirect", "redirect", false),
            ("401 Unauthorized", "http_status", false),
            ("202 Accepted", "http_status", false),
            ("408 Request Timeout", "http_status", true),
            ("425 Too Early", "http_status", true),
            ("429 Too Many Requests", "http_status", true),
            ("503 Service Unavailable", "http_status", true),
        ] {
            let body = acknowledged().to_string();
            let server = Server::start([http(status, &headers, body.as_bytes())]).await;
            let refused = adapter(&server, Witness::default()).notify(&notification()).await;
            let expected = CallFailure::Marked {
                code: format!("notification_http.{name}"),
                retryable,
                retry_after_seconds: retryable.then_some(7.0),
            };
            assert_eq!(refused, Err(expected), "{status}");
            assert_eq!(server.requests().len(), 1, "{status}");
        }
        assert!(elsewhere.requests().is_empty(), "no redirect is followed");
    });
}

#[test]
fn h4_bad_addresses_and_bad_headers_are_refused_before_the_transport() {
    run(async {
        for bad in [
            "http://cms.example/hook",
            "https://user:secret@cms.example/hook",
            "https://cms.example/hook?query",
            "https://cms.example/hook#part",
            "https://cms.example",
            "https://cms.example//hook",
        ] {
            let options = options(bad.to_owned());
            assert!(NotificationAdapter::new(&options, Witness::default()).is_err(), "{bad}");
        }
        let good = AdapterOptions::new("https://cms.example/hook");
        assert!(NotificationAdapter::new(&good, Witness::default()).is_ok());
        let server = Server::start([]).await;
        for bad in [
            Given::of(&[]),
            Given::of(&[("Idempotency-Key", "x")]),
            Given::of(&[("X-Localization-Terminal-Notification-SHA256", "x")]),
            Given::of(&[("Content-Type", "x")]),
            Given::of(&[("X-A", "1"), ("x-a", "1")]),
            Given::of(&[("X-A", "1\n2")]),
            Given::of(&[("X A", "1")]),
            Given::of(&[("fail", "")]),
            Given::of(&[("panic", "")]),
        ] {
            let refused = adapter(&server, bad).notify(&notification()).await;
            assert_eq!(refused, Err(marked("notification_http.authentication", false)));
        }
        assert!(server.requests().is_empty());
    });
}

#[test]
fn h5_a_notification_is_checked_again_before_the_host_is_asked() {
    run(async {
        let server = Server::start([]).await;
        let witness = Witness::default();
        let adapter = adapter(&server, witness.clone());
        let id = format!("terminal-{}", "0".repeat(64));
        let wrong_id = with(without_id(), "notification_id", json!(id));
        for bad in [
            payload(&wrong_id.to_string()),
            altered("job_count", json!(true)),
            altered("job_count", json!(0)),
            altered("terminal_status", json!("processing")),
            altered("lifecycle_sha256", json!(null)),
            altered("more", json!(1)),
            Payload::of(&Value::Null),
        ] {
            let refused = adapter.notify(&bad).await;
            assert_eq!(refused, Err(marked("notification_http.request_invalid", false)));
        }
        assert!(witness.contexts().is_empty());
        assert!(server.requests().is_empty());
    });
}

#[test]
fn h6_answers_that_are_not_the_acknowledgement_are_final() {
    run(async {
        let good = acknowledged().to_string();
        let changed = |key: &str, value| with(acknowledged(), key, value).to_string();
        let padded = |length: usize| format!("{good}{}", " ".repeat(length - good.len()));
        for (headers, body, name) in [
            (vec!["Content-Type: text/html"], good.clone(), "response_content_type"),
            (vec![JSON], good.replacen('{', "{\"status\":\"accepted\",", 1), "response_json"),
            (vec![JSON, "Server: a", "Server: b"], good.clone(), "response_headers"),
            (vec![JSON], format!("\u{feff}{good}"), "response_json"),
            (vec![JSON], String::new(), "response_size"),
            (vec![JSON], padded(8_193), "response_size"),
            (vec![JSON], "[]".to_owned(), "response_binding"),
            (vec![JSON], changed("event_id", json!("evt-2031-0008")), "response_binding"),
            (vec![JSON], changed("notification_sha256", json!("0".repeat(64))), "response_binding"),
            (vec![JSON], changed("status", json!("queued")), "response_binding"),
            (vec![JSON], changed("more", json!(SECRET)), "response_binding"),
        ] {
            let server = Server::start([http("200 OK", &headers, body.as_bytes())]).await;
            let refused = adapter(&server, Witness::default()).notify(&notification()).await;
            let expected = marked(&format!("notification_http.{name}"), false);
            let shown = format!("{refused:?}");
            assert_eq!(refused, Err(expected));
            assert!(!shown.contains(SECRET));
        }
        let server = Server::start([http("200 OK", &[JSON], padded(8_192).as_bytes())]).await;
        let taken = adapter(&server, Witness::default()).notify(&notification()).await;
        assert!(taken.is_ok(), "the limit itself passes");
    });
}

#[test]
fn h7_a_broken_connection_may_be_tried_again_and_says_nothing() {
    run(async {
        let good = answer("200 OK", &acknowledged());
        for kept in [0, 9, good.len() - 1] {
            let server = Server::start([good[..kept].to_vec()]).await;
            let refused = adapter(&server, Witness::default()).notify(&notification()).await;
            let shown = format!("{refused:?}");
            assert_eq!(refused, Err(marked("notification_http.network", true)), "{kept} bytes");
            assert!(!shown.contains(SECRET) && !shown.contains("127.0.0.1"), "{shown}");
        }
    });
}

#[test]
fn h8_plain_http_needs_the_opt_in_and_this_machine() {
    for (endpoint, allow_http_loopback, is_made) in [
        ("http://127.0.0.1:8700/hook", false, false),
        ("http://127.0.0.1:8700/hook", true, true),
        ("http://[::1]:8700/hook", false, false),
        ("http://[::1]:8700/hook", true, true),
        ("http://localhost/hook", true, true),
        ("http://192.0.2.1/hook", true, false),
        ("http://localhost.example/hook", true, false),
    ] {
        let options = AdapterOptions { allow_http_loopback, ..AdapterOptions::new(endpoint) };
        let made = NotificationAdapter::new(&options, Witness::default());
        assert_eq!(made.is_ok(), is_made, "{endpoint}");
    }
}
