//! The sandbox as the receiver of terminal notifications, byte by byte (scenarios J, contract 4.6).
//!
//! By the system's clock and with a handler that never fails; `sandbox_inbox` has the rest.

use crate::notification_client::{acknowledged, altered, notification};
use crate::receiver_client::{BASE, client};
use crate::source_client::{Witness, payload, read, token};
use crate::support::run;
use leasehold::sandbox::{Sandbox, SandboxOptions};
use leasehold_actors::contract::payload::Payload;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const KIND: &str = "application/json;charset=utf-8";

async fn sandbox() -> Sandbox {
    Sandbox::start(SandboxOptions::default()).await.expect("it starts")
}

/// The headers of a notification that agree with it.
pub(crate) fn agreeing(notification: &Payload) -> Vec<(&'static str, String)> {
    let document: serde_json::Value = serde_json::from_str(notification.as_str()).expect("JSON");
    let id = document["notification_id"].as_str().expect("text").to_owned();
    vec![
        ("authorization", "Bearer x".to_owned()),
        ("content-type", KIND.to_owned()),
        ("idempotency-key", id.clone()),
        ("x-localization-terminal-notification-id", id),
        ("x-localization-terminal-notification-sha256", notification.sha256().to_string()),
    ]
}

/// Posts these bytes with these headers where notifications go; answers the status and the body.
async fn post(sandbox: &Sandbox, headers: &[(&'static str, String)], body: &str) -> (u16, String) {
    let length = ("content-length", body.len().to_string());
    sent(sandbox, BASE, &[headers, &[length]].concat(), body).await
}

/// The same to another path, with these headers and no others.
pub(crate) async fn sent(
    sandbox: &Sandbox,
    path: &str,
    headers: &[(&'static str, String)],
    body: &str,
) -> (u16, String) {
    let mut request = format!("POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str(&format!("\r\n{body}"));
    let mut stream = TcpStream::connect(sandbox.address()).await.expect("a connection");
    stream.write_all(request.as_bytes()).await.expect("writable");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("readable");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
    (status, body.to_owned())
}

/// The code of a refusal.
pub(crate) fn code(body: &str) -> String {
    let answer: serde_json::Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(answer["schema"], "blun.cms-source-terminal-notification-http-error.v1");
    assert_eq!(answer["status"], "BLOCK");
    answer["error_code"].as_str().expect("text").to_owned()
}

#[test]
fn j1_receipt_and_work_begin_together() {
    run(async {
        let sandbox = sandbox().await;
        let client = client(&sandbox.origin(), Witness::default());
        let empty = read(&client.health().await.expect("an answer"));
        assert_eq!((&empty["received"], &empty["processing_due"]), (&json!(0), &json!(0)));
        client.notify(&notification()).await.expect("it is acknowledged");
        let health = read(&client.health().await.expect("an answer"));
        assert_eq!(health["status"], "ok");
        assert_eq!((&health["received"], &health["processing_due"]), (&json!(1), &json!(1)));
        let (event, site) = (token("evt-2031-0007"), token("shop-north"));
        let status = client.status(&event, &site).await.expect("an answer");
        let status: serde_json::Value = serde_json::from_slice(&status).expect("JSON");
        assert_eq!(status["processing_status"], "pending");
        assert_eq!((&status["attempts"], &status["max_attempts"]), (&json!(0), &json!(5)));
        sandbox.stop().await;
    });
}

#[test]
fn j2_the_work_ends_after_one_attempt_and_stays_done() {
    run(async {
        let sandbox = sandbox().await;
        let client = client(&sandbox.origin(), Witness::default());
        client.notify(&notification()).await.expect("it is acknowledged");
        let (event, site) = (token("evt-2031-0007"), token("shop-north"));
        let mut seen = Vec::new();
        for _ in 0..4 {
            let status = client.status(&event, &site).await.expect("an answer");
            let status: serde_json::Value = serde_json::from_slice(&status).expect("JSON");
            seen.push((status["processing_status"].clone(), status["attempts"].clone()));
            if status["processing_status"] == "succeeded" {
                assert_eq!(status["processed_at"], status["next_attempt_at"]);
            }
        }
        let expected = [("pending", 0), ("leased", 1), ("succeeded", 1), ("succeeded", 1)];
        assert_eq!(seen, expected.map(|(status, attempts)| (json!(status), json!(attempts))));
        let health = read(&client.health().await.expect("an answer"));
        assert_eq!(health["processing_counts"]["succeeded"], 1);
        assert_eq!(health["processing_due"], 0);
        sandbox.stop().await;
    });
}

#[test]
fn j9_a_replay_is_acknowledged_alike_and_stored_once_also_after_a_restart() {
    run(async {
        let folder = tempfile::tempdir().expect("a folder");
        let options =
            || SandboxOptions { state: Some(folder.path().join("book")), ..Default::default() };
        let first = Sandbox::start(options()).await.expect("it starts");
        let notification = notification();
        let headers = agreeing(&notification);
        let exact = (200, payload(&acknowledged().to_string()).as_str().to_owned());
        let posts = (0..24).map(|_| post(&first, &headers, notification.as_str()));
        for answer in futures_util::future::join_all(posts).await {
            assert_eq!(answer, exact);
        }
        assert_eq!(first.summary().notifications, 1);
        first.stop().await;
        let second = Sandbox::start(options()).await.expect("it starts");
        assert_eq!(second.summary().notifications, 1);
        assert_eq!(post(&second, &headers, notification.as_str()).await, exact);
        assert_eq!(second.summary().notifications, 1);
        second.stop().await;
    });
}

#[test]
fn j9_another_body_for_the_event_is_a_collision() {
    run(async {
        let sandbox = sandbox().await;
        let (first, other) = (notification(), altered("job_count", json!(3)));
        assert_eq!(post(&sandbox, &agreeing(&first), first.as_str()).await.0, 200);
        let (status, body) = post(&sandbox, &agreeing(&other), other.as_str()).await;
        assert_eq!(status, 409);
        assert_eq!(code(&body), "notification_receiver.idempotency_collision");
        let summary = sandbox.summary();
        assert_eq!((summary.notifications, summary.differing), (1, 1));
        sandbox.stop().await;
    });
}

#[test]
fn j9_what_does_not_keep_the_rules_is_refused_and_not_stored() {
    run(async {
        let sandbox = sandbox().await;
        let notification = notification();
        let good = agreeing(&notification);
        let with = |name: &str, value: &str| {
            let mut headers = good.clone();
            for (known, old) in &mut headers {
                if *known == name {
                    *old = value.to_owned();
                }
            }
            headers
        };
        let without = |name: &str| {
            let mut headers = good.clone();
            headers.retain(|(known, _)| *known != name);
            headers
        };
        let zeros = "0".repeat(64);
        let body = notification.as_str();
        let spaced = body.replacen(':', ": ", 1);
        let repeated = body.replacen('{', "{\"job_count\":2,", 1);
        let hash = "x-localization-terminal-notification-sha256";
        for (headers, body, expected) in [
            (without("authorization"), body, 401),
            (with("content-type", "application/json"), body, 415),
            (with("content-type", "text/html"), body, 415),
            (without("content-type"), body, 415),
            (with(hash, &zeros), body, 400),
            (without(hash), body, 400),
            (with("idempotency-key", "other"), body, 400),
            (without("idempotency-key"), body, 400),
            (with("x-localization-terminal-notification-id", "other"), body, 400),
            (good.clone(), spaced.as_str(), 400),
            (good.clone(), repeated.as_str(), 400),
            (good.clone(), "{}", 400),
            (good.clone(), "[", 400),
        ] {
            let (status, answer) = post(&sandbox, &headers, body).await;
            assert_eq!(status, expected, "{body}");
            assert!(code(&answer).starts_with("notification_receiver."));
        }
        let large = " ".repeat(16_385);
        assert_eq!(post(&sandbox, &good, &large).await.0, 413);
        let client = client(&sandbox.origin(), Witness::default());
        let elsewhere = client.status(&token("evt-2031-0007"), &token("shop-south")).await;
        assert!(elsewhere.is_err(), "nothing is known of another site's event");
        assert_eq!(sandbox.summary().notifications, 0);
        sandbox.stop().await;
    });
}
