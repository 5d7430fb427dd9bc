//! The pages, as they were read.

use super::{Answer, Served, bearer, snapshots};
use crate::support::{change, change_with, run};
use leasehold_actors::record::FlowTag;
use serde_json::json;

const ASKED: &str = "{\"by\":\"maria\",\"why\":\"<b>canary & \\\"more\\\"</b>\"}";

/// A page without its style, which has tests of its own, and with the port it always has.
fn read(served: &Served, answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
    let (before, rest) = answer.body.split_once("<style>").expect("a style");
    let (_, after) = rest.split_once("</style>").expect("it ends");
    let page = format!("{before}{after}").replace(&served.address().to_string(), "127.0.0.1:8790");
    // One element a line, so that a change can be read.
    page.replace('<', "\n<")
        .lines()
        .filter(|line| !line.is_empty())
        .map(|it| format!("{it}\n"))
        .collect()
}

#[test]
fn the_dashboard_is_as_it_was_read() {
    run(async {
        let served = Served::at_port().await;
        let well = read(&served, &served.get("/").await);
        served.failed("event-1").await;
        served.engine.dispatch().enqueue(change("event-2"), 5).await.expect("it is valid");
        served.activity.note(FlowTag::Dispatch, "failed");
        served.clock.set(1_800_000_042.0);
        let blocked = read(&served, &served.get("/?refresh=off").await);
        snapshots("pages").bind(|| {
            insta::assert_snapshot!("dashboard_well", well);
            insta::assert_snapshot!("dashboard_blocked", blocked);
        });
        served.close().await;
    });
}

#[test]
fn the_dashboard_says_in_its_title_and_first_line_that_something_is_paused() {
    run(async {
        let served = Served::at_port().await;
        let paused = json!({ "scope": "flow/dispatch", "by": "maria", "why": "it moves" });
        assert_eq!(served.post("/v1/pause", &paused.to_string()).await.status, 200);
        let page = served.get("/").await.body;
        assert!(page.contains("<title>Leasehold: paused</title>"), "{page}");
        assert!(page.contains("Paused: flow/dispatch.") && !page.contains("All is well"), "{page}");
        served.close().await;
    });
}

#[test]
fn a_record_has_a_page_with_its_whole_history() {
    run(async {
        let served = Served::at_port().await;
        served.failed("event-1").await;
        served.clock.set(1_800_000_100.0);
        assert_eq!(served.post("/v1/dispatch/event-1/requeue", ASKED).await.status, 200);
        let page = read(&served, &served.get("/records/dispatch/event-1").await);
        assert!(page.contains("&lt;b&gt;canary &amp; &quot;more&quot;&lt;/b&gt;"), "{page}");
        snapshots("pages").bind(|| insta::assert_snapshot!("record", page));
        served.post("/v1/delivery", &change("event-1")).await;
        assert_eq!(served.get("/records/delivery/change/event-1").await.status, 200);
        served.close().await;
    });
}

#[test]
fn a_page_of_no_record_says_so_and_repeats_nothing() {
    run(async {
        let served = Served::at_port().await;
        let answer = served.get("/records/dispatch/canary").await;
        assert_eq!(answer.status, 404);
        assert!(answer.body.contains("no such record") && !answer.body.contains("canary"));
        assert_eq!(served.get("/records/canary/a").await.status, 404);
        served.close().await;
    });
}

#[test]
fn a_page_asks_for_itself_again_unless_it_is_told_not_to() {
    run(async {
        let served = Served::at_port().await;
        for path in ["/", "/stuck"] {
            let refresh = "<meta http-equiv=\"refresh\" content=\"10\">";
            assert!(served.get(path).await.body.contains(refresh), "{path}");
            let still = served.get(&format!("{path}?refresh=off")).await;
            assert!(!still.body.contains(refresh), "{path}");
            assert!(still.body.contains(&format!("<a href=\"{path}\">Keep")), "{path}");
        }
        served.close().await;
    });
}

#[test]
fn no_page_and_no_answer_carries_a_source_text_or_the_token() {
    run(async {
        let served = Served::at_port().await;
        let change = change_with("event-1", "canary source text");
        assert_eq!(served.post("/v1/dispatch", &change).await.status, 201);
        assert_eq!(served.post("/v1/delivery", &change).await.status, 201);
        let claim = served.engine.dispatch().claim("worker-1", 600.0).await;
        let claim = claim.expect("a claim").expect("due");
        let lease_token = claim.token().expose().to_owned();
        for path in [
            "/",
            "/stuck",
            "/login",
            "/records/dispatch/event-1",
            "/records/delivery/change/event-1",
            "/v1/dispatch/event-1",
            "/v1/dispatch/event-1/explain",
            "/v1/delivery/change/event-1",
            "/v1/delivery/change/event-1/explain",
            "/v1/records",
            "/v1/overview",
            "/v1/health",
            "/metrics",
            "/healthz",
        ] {
            let answer = served.get(path).await;
            assert_eq!(answer.status, 200, "{path}");
            for secret in ["canary", lease_token.as_str()] {
                assert!(!answer.body.contains(secret), "{path}: {}", answer.body);
                assert!(!answer.head.contains(secret), "{path}: {}", answer.head);
            }
        }
        let wrong = served.ask("GET", "/v1/health", &bearer("canary-canary-canary"), "").await;
        assert!(!wrong.body.contains("canary") && !wrong.head.contains("canary"));
        served.close().await;
    });
}
