//! Scenarios F2 to F6.

use super::*;

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
