//! The CMS client's reads and removals (scenarios E, contract 3.2): lifecycle, status,
//! capabilities, cancellation, tombstone.

use crate::source_client::{JSON, SECRET, Server, answer, http, payload, read, token, with};
use crate::support::{change, marked, run};
use leasehold::http::cms_reads::CmsPins;
use leasehold::http::{CmsClient, CmsOptions, HmacSha256Signer, StaticAuthHeader};
use leasehold::sandbox::{DEMO_KEY, DEMO_KEY_ID, Sandbox, SandboxOptions};
use leasehold::{CallFailure, ChangeRequest, Entropy, ManualClock};
use leasehold_actors::contract::change::Change;
use leasehold_actors::contract::removal::RemovalKind;
use leasehold_actors::contract::text::Sha256;
use serde_json::json;

const REQUEST_ID: &str = "9f0c4d5e6a7b8c9d0e1f2a3b4c5d6e7f";

/// Draws the bytes of the contract's example.
struct Known;

impl Entropy for Known {
    fn fill(&self, bytes: &mut [u8]) {
        for (place, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&REQUEST_ID[2 * place..2 * place + 2], 16).expect("hex");
        }
    }
}

fn signer() -> HmacSha256Signer {
    HmacSha256Signer::new(token(DEMO_KEY_ID), DEMO_KEY.to_vec().into()).expect("a key")
}

fn client(origin: &str) -> CmsClient {
    let options =
        CmsOptions { allow_http_loopback: true, timeout_seconds: 5.0, ..CmsOptions::new(origin) };
    let header = StaticAuthHeader::new("Authorization".to_owned(), SECRET.to_owned().into());
    CmsClient::new(&options, signer(), header).expect("a client")
}

/// A client at the time and with the randomness of the contract's example.
fn fixed(origin: &str) -> CmsClient {
    client(origin).with_clock(ManualClock::at(1_900_000_000.0)).with_entropy(Known)
}

fn removal(kind: RemovalKind, id: &str, event_id: &str) -> String {
    let document = json!({
        "schema": kind.schema(),
        kind.identity_field(): id,
        "event_id": event_id,
        "site_id": "site-1",
        "website_version": "web-1",
        "source_id": "landing.intro",
        "source_sequence": 1,
    });
    document.to_string()
}

async fn submitted(client: &CmsClient) {
    let change = Change::parse(change("event-1").as_bytes()).expect("a change");
    let request = ChangeRequest { event_id: change.event_id.clone(), change: change.payload };
    client.submit_change(&request).await.expect("it is accepted");
}

/// The status a lifecycle read finds.
async fn step(client: &CmsClient) -> String {
    let answer = client.lifecycle(&token("event-1"), &token("site-1")).await.expect("an answer");
    let answer: serde_json::Value = serde_json::from_slice(&answer).expect("JSON");
    assert!(!answer.to_string().contains("Kaffee"));
    answer["status"].as_str().expect("text").to_owned()
}

async fn progress(client: &CmsClient) -> serde_json::Value {
    read(&client.status(&token("event-1"), &token("site-1")).await.expect("an answer"))
}

/// An answer in its canonical form.
fn canonical(status: &str, value: &serde_json::Value) -> Vec<u8> {
    http(status, &[JSON], payload(&value.to_string()).as_bytes())
}

fn lifecycle() -> serde_json::Value {
    json!({
        "schema": "blun.cms-localization-lifecycle.v3",
        "request_id": REQUEST_ID,
        "event_id": "event-1",
        "site_id": "site-1",
        "plan_id": "plan-1",
        "website_version": "web-1",
        "source_sequence": 1,
        "status": "processing",
        "required_locales": ["fi-FI", "mt-MT"],
        "approved_locales": [],
        "blocked_locales": [],
        "queue_counts":
            { "failed": 0, "leased": 0, "pending": 2, "retry_wait": 0, "succeeded": 0 },
        "delivery": null,
        "tombstone": null,
    })
}

#[test]
fn e1_reads_and_a_cancellation_against_the_sandbox() {
    run(async {
        let sandbox = Sandbox::start(SandboxOptions::default()).await.expect("it starts");
        let client = client(&sandbox.origin());
        client.capabilities(CmsPins::default()).await.expect("an answer");
        submitted(&client).await;
        let before = progress(&client).await;
        assert_eq!((&before["status"], &before["cancelled"]), (&json!("PROGRESS"), &json!(false)));
        assert_eq!(step(&client).await, "processing");
        let kind = RemovalKind::Cancellation;
        let document = removal(kind, "cancellation-1", "event-1");
        let taken = client.submit_removal(kind, document.as_bytes()).await.expect("it is taken");
        assert_eq!(read(&taken)["status"], "cancelled");
        let again = client.submit_removal(kind, document.as_bytes()).await.expect("a repeat");
        assert_eq!(taken, again);
        let after = progress(&client).await;
        assert_eq!(after["cancelled"], true);
        assert!(!after.to_string().contains("Kaffee"));
        assert_eq!(step(&client).await, "cancelled");
        sandbox.stop().await;
    });
}

#[test]
fn e1_a_tombstone_is_taken_after_publication_and_refused_before() {
    run(async {
        let sandbox = Sandbox::start(SandboxOptions::default()).await.expect("it starts");
        let client = client(&sandbox.origin());
        submitted(&client).await;
        let kind = RemovalKind::Tombstone;
        let document = removal(kind, "tombstone-1", "event-1");
        let early = client.submit_removal(kind, document.as_bytes()).await.err();
        assert_eq!(early, Some(marked("cms.tombstone.not_published", false)));
        for _ in 0..4 {
            assert_ne!(step(&client).await, "published");
        }
        assert_eq!(step(&client).await, "published");
        let taken = client.submit_removal(kind, document.as_bytes()).await.expect("it is taken");
        assert_eq!(read(&taken)["status"], "pending");
        assert_eq!(read(&taken)["tombstone_id"], "tombstone-1");
        assert_eq!(step(&client).await, "deleting");
        assert_eq!(step(&client).await, "deleted");
        sandbox.stop().await;
    });
}

#[test]
fn e2_each_operation_is_one_signed_post_to_its_own_path() {
    run(async {
        let server = Server::start([]).await;
        let client = fixed(&server.origin);
        let (event, site) = (token("evt-2031-0007"), token("shop-north"));
        let cancellation = removal(RemovalKind::Cancellation, "c-1", "event-1");
        let tombstone = removal(RemovalKind::Tombstone, "t-1", "event-1");
        let broken = Some(marked("network", true));
        assert_eq!(client.lifecycle(&event, &site).await.err(), broken);
        assert_eq!(client.status(&event, &site).await.err(), broken);
        assert_eq!(client.capabilities(CmsPins::default()).await.err(), broken);
        for (kind, document) in
            [(RemovalKind::Cancellation, &cancellation), (RemovalKind::Tombstone, &tombstone)]
        {
            let refused = client.submit_removal(kind, document.as_bytes()).await;
            assert_eq!(refused.err(), broken);
        }
        let example = "{\"event_id\":\"evt-2031-0007\",\
            \"request_id\":\"9f0c4d5e6a7b8c9d0e1f2a3b4c5d6e7f\",\"requested_at\":1900000000.0,\
            \"schema\":\"blun.cms-localization-lifecycle-request.v1\",\"site_id\":\"shop-north\"}";
        let status = example.replace("lifecycle-request.v1", "status-request.v2");
        let capabilities = "{\"request_id\":\"9f0c4d5e6a7b8c9d0e1f2a3b4c5d6e7f\",\
            \"requested_at\":1900000000.0,\
            \"schema\":\"blun.cms-localization-capabilities-request.v1\"}";
        let (cancellation, tombstone) = (payload(&cancellation), payload(&tombstone));
        let seen = server.requests();
        assert_eq!(seen.len(), 5);
        for (request, (name, body)) in seen.iter().zip([
            ("lifecycle", example),
            ("status", status.as_str()),
            ("capabilities", capabilities),
            ("cancellations", cancellation.as_str()),
            ("tombstones", tombstone.as_str()),
        ]) {
            assert_eq!(request.line, format!("POST /v2/localization/{name}"));
            assert_eq!(request.body, body);
            let signature = signer().hex(body.as_bytes());
            assert_eq!(request.header("x-localization-signature"), Some(signature.as_str()));
            assert_eq!(request.header("x-localization-key-id"), Some(DEMO_KEY_ID));
            assert_eq!(request.header("authorization"), Some(SECRET));
        }
    });
}

#[test]
fn e3_the_servers_own_codes_come_through_and_nothing_else_of_its_answer() {
    run(async {
        let sandbox = Sandbox::start(SandboxOptions::default()).await.expect("it starts");
        let unknown = client(&sandbox.origin()).status(&token("event-9"), &token("site-1")).await;
        assert_eq!(unknown.err(), Some(marked("cms.status.scope_rejected", false)));
        sandbox.stop().await;
        let error = json!({
            "schema": "blun.website-localization-api.v2",
            "status": "BLOCK",
            "error": "api.internal",
        });
        let private = with(error.clone(), "detail", json!(SECRET));
        let elsewhere = Server::start([]).await;
        let location = format!("Location: {}/", elsewhere.origin);
        for (given, code, retryable) in [
            (canonical("500 Internal Server Error", &error), "api.internal", true),
            (canonical("500 Internal Server Error", &private), "http_status", true),
            (canonical("404 Not Found", &private), "http_status", false),
            (http("302 Found", &[location.as_str()], b""), "redirect", false),
            (answer("200 OK", &json!([SECRET])), "response_json", true),
        ] {
            let server = Server::start([given]).await;
            let client = client(&server.origin);
            let refused = client.lifecycle(&token("event-1"), &token("site-1")).await.err();
            let shown = format!("{refused:?} {client:?}");
            assert_eq!(refused, Some(marked(code, retryable)));
            assert!(!shown.contains(SECRET) && !shown.contains("127.0.0.1"), "{shown}");
            assert_eq!(server.requests().len(), 1);
        }
        assert!(elsewhere.requests().is_empty(), "no redirect is followed");
    });
}

#[test]
fn e4_a_change_that_is_not_queued_yet_shows_as_recovery() {
    run(async {
        let zeros = json!({
            "failed": 0, "leased": 0, "pending": 0, "retry_wait": 0, "succeeded": 0,
        });
        let waiting =
            json!([["fi-FI", "awaiting_queue_resume"], ["mt-MT", "awaiting_queue_resume"]]);
        let recovering = with(lifecycle(), "status", json!("queue_recovery"));
        let recovering = with(recovering, "queue_counts", zeros);
        let recovering = with(recovering, "blocked_locales", waiting);
        let status = json!({ "event_id": "event-1", "queue_recovery_pending": true });
        let rejected = json!({
            "schema": "blun.website-localization-api.v2",
            "status": "BLOCK",
            "error": "cms.queue.rejected",
        });
        let retry_after = ["Retry-After: 7", JSON];
        let rejected = payload(&rejected.to_string());
        let rejected = http("503 Service Unavailable", &retry_after, rejected.as_bytes());
        let answers = [rejected, canonical("200 OK", &status), canonical("200 OK", &recovering)];
        let server = Server::start(answers).await;
        let client = fixed(&server.origin);
        let kind = RemovalKind::Cancellation;
        let document = removal(kind, "cancellation-1", "event-1");
        let refused = client.submit_removal(kind, document.as_bytes()).await.err();
        let expected = CallFailure::Marked {
            code: "cms.queue.rejected".to_owned(),
            retryable: true,
            retry_after_seconds: Some(7.0),
        };
        assert_eq!(refused, Some(expected));
        assert_eq!(progress(&client).await, status);
        assert_eq!(step(&client).await, "queue_recovery");
    });
}

#[test]
fn e5_an_answer_about_something_else_is_worth_another_try() {
    run(async {
        let binding = Some(marked("response_binding", true));
        for (key, value) in [
            ("event_id", json!("event-2")),
            ("site_id", json!("site-2")),
            ("request_id", json!("another")),
            ("required_locales", json!([["fi-FI"], "mt-MT"])),
            ("schema", json!("blun.cms-localization-lifecycle.v1")),
            ("more", json!(1)),
        ] {
            let server = Server::start([canonical("200 OK", &with(lifecycle(), key, value))]).await;
            let read = fixed(&server.origin).lifecycle(&token("event-1"), &token("site-1")).await;
            assert_eq!(read.err(), binding, "{key}");
        }
        let server = Server::start([canonical("200 OK", &json!({ "event_id": "event-2" }))]).await;
        let read = fixed(&server.origin).status(&token("event-1"), &token("site-1")).await;
        assert_eq!(read.err(), binding);
        for (kind, id) in
            [(RemovalKind::Cancellation, "cancellation-2"), (RemovalKind::Tombstone, "tombstone-2")]
        {
            let other = json!({
                "schema": "blun.website-localization-api.v2",
                "event_id": "event-1",
                kind.identity_field(): id,
            });
            let server = Server::start([canonical("202 Accepted", &other)]).await;
            let document = removal(kind, "removal-1", "event-1");
            let taken = fixed(&server.origin).submit_removal(kind, document.as_bytes()).await;
            assert_eq!(taken.err(), binding);
        }
    });
}

#[test]
fn e5_what_is_wrong_on_our_side_is_not_sent() {
    run(async {
        let server = Server::start([]).await;
        let client = client(&server.origin);
        let cancellation = removal(RemovalKind::Cancellation, "c-1", "event-1");
        for (kind, document, code) in [
            (RemovalKind::Tombstone, cancellation.as_str(), "tombstone_invalid"),
            (RemovalKind::Cancellation, "{}", "cancellation_invalid"),
            (RemovalKind::Cancellation, "[", "cancellation_invalid"),
        ] {
            let refused = client.submit_removal(kind, document.as_bytes()).await;
            assert_eq!(refused.err(), Some(marked(code, false)));
        }
        for now in [-1.0, f64::NAN, f64::INFINITY] {
            let client = self::client(&server.origin).with_clock(ManualClock::at(now));
            let refused = client.lifecycle(&token("event-1"), &token("site-1")).await;
            assert_eq!(refused, Err(marked("clock_invalid", false)), "{now}");
        }
        assert!(server.requests().is_empty());
    });
}

/// A capability document and its digest.
fn offered(path: &str, registry: Sha256) -> (serde_json::Value, Sha256) {
    let bare = json!({
        "schema": "blun.cms-localization-capabilities.v1",
        "change": { "path": path },
        "commercial_rendering_registry_sha256": registry.to_string(),
    });
    let digest = payload(&bare.to_string()).sha256();
    (with(bare, "sha256", json!(digest.to_string())), digest)
}

#[test]
fn e6_e7_capabilities_are_compared_with_the_pins_in_one_call() {
    run(async {
        let registry = Sha256::of(b"registry");
        let (good, digest) = offered("/v2/localization/changes", registry);
        let (moved, _) = offered("/elsewhere", registry);
        let (rendered, _) = offered("/v2/localization/changes", Sha256::of(b"other"));
        let stale = with(good.clone(), "change", json!({ "path": "/elsewhere" }));
        let both =
            CmsPins { capabilities: Some(digest), commercial_rendering_registry: Some(registry) };
        let second = CmsPins { capabilities: None, ..both };
        let mismatch = Some(marked("capabilities_pin_mismatch", false));
        let other = Some(marked("commercial_rendering_registry_pin_mismatch", false));
        let binding = Some(marked("response_binding", true));
        for (document, pins, expected) in [
            (&good, both, None),
            (&good, CmsPins::default(), None),
            (&moved, both, mismatch.clone()),
            (&stale, both, binding.clone()),
            (&stale, CmsPins::default(), binding),
            (&rendered, both, mismatch),
            (&rendered, second, other),
        ] {
            let server = Server::start([canonical("200 OK", document)]).await;
            let read = fixed(&server.origin).capabilities(pins).await;
            assert_eq!(read.err(), expected, "{document}");
            assert_eq!(server.requests().len(), 1);
        }
        let digits = digest.to_string();
        assert_eq!(Sha256::from_hex(&digits[..63]), None);
        assert_eq!(Sha256::from_hex(&"A".repeat(64)), None);
    });
}
