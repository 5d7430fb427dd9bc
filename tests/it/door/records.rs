//! Records over the door: registering, reading, listing, and what operators do.

use super::Served;
use crate::support::{change, change_with, run};

const ASKED: &str = "{\"by\":\"maria\",\"why\":\"the provider is back\"}";

#[test]
fn a_change_is_registered_once_and_found_by_its_id() {
    run(async {
        let served = Served::at_port().await;
        let first = served.post("/v1/dispatch", &change("event-1")).await;
        assert_eq!((first.status, &first.json()["already_known"]), (201, &false.into()));
        let again = served.post("/v1/dispatch", &change("event-1")).await;
        assert_eq!((again.status, &again.json()["already_known"]), (200, &true.into()));
        assert_eq!(first.json()["status"], again.json()["status"]);
        let status = served.get("/v1/dispatch/event-1").await;
        assert_eq!((status.status, status.json()), (200, first.json()["status"].clone()));
        let other = served.post("/v1/dispatch", &change_with("event-1", "canary")).await;
        assert_eq!(other.code(), (409, "dispatch.idempotency_collision".to_owned()));
        for bad in ["", "canary", "{}", "{\"event_id\":\"canary\"}"] {
            let answer = served.post("/v1/dispatch", bad).await;
            assert_eq!(answer.code(), (400, "dispatch.change_invalid".to_owned()));
            assert!(!answer.body.contains("canary"));
        }
        served.close().await;
    });
}

#[test]
fn a_document_for_the_source_runtime_is_found_by_operation_and_id() {
    run(async {
        let served = Served::at_port().await;
        let first = served.post("/v1/delivery", &change("event-1")).await;
        assert_eq!((first.status, &first.json()["already_known"]), (201, &false.into()));
        let status = served.get("/v1/delivery/change/event-1").await;
        assert_eq!((status.status, status.json()["status"].as_str()), (200, Some("pending")));
        for (path, code) in [
            ("/v1/delivery/change/nobody", (404, "source_delivery.status_not_found")),
            ("/v1/delivery/tombstone/event-1", (404, "source_delivery.status_not_found")),
            ("/v1/delivery/event-1", (400, "source_delivery.status_invalid")),
            ("/v1/delivery/canary/event-1", (400, "source_delivery.status_invalid")),
        ] {
            assert_eq!(served.get(path).await.code(), (code.0, code.1.to_owned()), "{path}");
        }
        let removal = served.post("/v1/delivery", "{\"schema\":\"canary\"}").await;
        assert_eq!(removal.code(), (400, "source_delivery.request_invalid".to_owned()));
        served.close().await;
    });
}

#[test]
fn an_id_that_is_not_known_or_no_id_at_all_has_the_code_of_its_flow() {
    run(async {
        let served = Served::at_port().await;
        for (path, code) in [
            ("/v1/dispatch/nobody", (404, "dispatch.event_missing")),
            ("/v1/lifecycle/nobody", (404, "lifecycle_monitor.event_missing")),
            ("/v1/notification/nobody", (404, "terminal_notification.missing")),
            ("/v1/processing/nobody", (404, "terminal_processing_monitor.missing")),
            ("/v1/dispatch/a%20canary", (400, "dispatch.event_invalid")),
            ("/v1/dispatch/a/canary", (400, "dispatch.event_invalid")),
            ("/v1/dispatch/%2e%2e%2fcanary", (400, "dispatch.event_invalid")),
        ] {
            let answer = served.get(path).await;
            assert_eq!(answer.code(), (code.0, code.1.to_owned()), "{path}");
            assert!(!answer.body.contains("canary"));
        }
        served.close().await;
    });
}

#[test]
fn an_operator_requeues_and_dismisses_with_a_name_and_a_reason() {
    run(async {
        let served = Served::at_port().await;
        served.failed("event-1").await;
        assert_eq!(served.get("/v1/overview").await.json()["stuck"][0]["id"], "event-1");
        let path = "/v1/dispatch/event-1/dismiss";
        let dismissed = served.post(path, ASKED).await;
        assert_eq!((dismissed.status, &dismissed.json()["changed"]), (200, &true.into()));
        let again = served.post(path, ASKED).await;
        assert_eq!((again.status, &again.json()["changed"]), (200, &false.into()));
        let requeued = served.post("/v1/dispatch/event-1/requeue", ASKED).await;
        assert_eq!(requeued.json()["status"]["status"], "pending");
        let overview = served.get("/v1/overview").await.json();
        assert_eq!(overview["stuck"], serde_json::json!([]), "it is seen at once");
        served.close().await;
    });
}

#[test]
fn an_operator_without_a_name_or_about_the_wrong_record_is_refused() {
    run(async {
        let served = Served::at_port().await;
        served.post("/v1/dispatch", &change("event-1")).await;
        for (path, body, code) in [
            ("/v1/dispatch/event-1/requeue", ASKED, (409, "dispatch.not_failed")),
            ("/v1/dispatch/event-1/repin", ASKED, (409, "dispatch.not_held")),
            ("/v1/dispatch/nobody/requeue", ASKED, (404, "dispatch.record_missing")),
            ("/v1/dispatch/event-1/requeue", "", (400, "door.body_invalid")),
            ("/v1/dispatch/event-1/requeue", "{\"by\":\"canary\"}", (400, "door.body_invalid")),
            (
                "/v1/dispatch/event-1/requeue",
                "{\"by\":\"a\",\"why\":\"b\",\"canary\":1}",
                (400, "door.body_invalid"),
            ),
            (
                "/v1/dispatch/event-1/requeue",
                "{\"by\":\"\",\"why\":\"b\"}",
                (400, "dispatch.operator_invalid"),
            ),
            (
                "/v1/dispatch/event-1/requeue",
                "{\"by\":\"a\",\"why\":\"\"}",
                (400, "dispatch.reason_invalid"),
            ),
        ] {
            let answer = served.post(path, body).await;
            assert_eq!(answer.code(), (code.0, code.1.to_owned()), "{path} {body}");
        }
        served.close().await;
    });
}

/// The ids of one page, and what comes after it.
async fn page(served: &Served, query: &str) -> (Vec<String>, Option<String>) {
    let answer = served.get(&format!("/v1/records?{query}")).await;
    assert_eq!(answer.status, 200, "{query}: {}", answer.body);
    let page = answer.json();
    let ids = page["records"].as_array().expect("a list").iter();
    let ids = ids.map(|row| row["id"].as_str().expect("an id").to_owned()).collect();
    (ids, page["next"].as_str().map(ToOwned::to_owned))
}

#[test]
fn lists_come_in_pages_oldest_first_and_grow_with_the_journal() {
    run(async {
        let served = Served::at_port().await;
        for number in 0..5 {
            served.clock.set(1_800_000_000.0 + f64::from(number));
            served.post("/v1/dispatch", &change(&format!("event-{number}"))).await;
        }
        let (first, after) = page(&served, "limit=2").await;
        assert_eq!(first, ["event-0", "event-1"]);
        // What is registered between two pages is on none before its turn.
        served.clock.set(1_800_000_009.0);
        served.post("/v1/delivery", &change("event-9")).await;
        let after = after.expect("there is more");
        let (second, after) = page(&served, &format!("limit=2&after={after}")).await;
        assert_eq!(second, ["event-2", "event-3"]);
        let after = after.expect("there is more");
        let (third, after) = page(&served, &format!("limit=2&after={after}")).await;
        assert_eq!((third, after), (vec!["event-4".to_owned(), "change/event-9".to_owned()], None));
        served.close().await;
    });
}

#[test]
fn lists_are_narrowed_by_flow_state_and_site() {
    run(async {
        let served = Served::at_port().await;
        served.failed("event-1").await;
        served.post("/v1/dispatch", &change("event-2")).await;
        served.post("/v1/delivery", &change("event-2")).await;
        for (query, ids) in [
            ("", &["event-1", "event-2", "change/event-2"][..]),
            ("flow=delivery", &["change/event-2"]),
            ("state=failed", &["event-1"]),
            ("state=succeeded", &[]),
            ("site=site-1&flow=dispatch&state=pending", &["event-2"]),
            ("site=nowhere", &[]),
        ] {
            let (mut found, next) = page(&served, query).await;
            found.sort();
            let mut ids: Vec<_> = ids.to_vec();
            ids.sort_unstable();
            assert!(found == ids && next.is_none(), "{query}: {found:?} {next:?}");
        }
        served.close().await;
    });
}
