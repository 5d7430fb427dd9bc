//! Why a record stands where it stands, and what is paused, over the door.

use super::{Served, at, bearer};
use crate::support::{Scripted, accepted, change, change_with, run};
use leasehold::MemoryDisk;
use serde_json::{Value, json};

const BECAUSE: &str = "it is being mended";

fn asked(scope: &str) -> String {
    json!({ "scope": scope, "by": "maria", "why": BECAUSE }).to_string()
}

async fn explained(served: &Served, path: &str) -> Value {
    let answer = served.get(&format!("/v1/{path}/explain")).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    answer.json()
}

#[test]
fn every_record_is_explained_whatever_its_state_and_as_of_now() {
    run(async {
        let served = Served::at_port().await;
        served.failed("event-1").await;
        served.post("/v1/dispatch", &change("event-2")).await;
        served.post("/v1/delivery", &change("event-2")).await;
        let failed = explained(&served, "dispatch/event-1").await;
        assert_eq!([&failed["state"], &failed["waits_for"]["kind"]], ["failed", "operator"]);
        let command = failed["actions"][0]["command"].as_str().expect("a command");
        assert!(command.starts_with("curl ") && command.ends_with("/v1/dispatch/event-1/requeue"));
        let waiting = explained(&served, "dispatch/event-2").await;
        assert_eq!(
            [&waiting["waits_for"]["kind"], &waiting["changes"]],
            ["first_attempt", "next_claim"]
        );
        assert_eq!(waiting["actions"], json!([]), "the engine runs");
        let delivered = explained(&served, "delivery/change/event-2").await;
        assert_eq!(
            (&delivered["id"], &delivered["digest_unknown"]),
            (&json!("change/event-2"), &json!(false))
        );
        let claim = served.engine.dispatch().claim("worker-1", 600.0).await.expect("a claim");
        assert!(claim.is_some());
        let leased = explained(&served, "dispatch/event-2").await;
        assert_eq!(
            [&leased["waits_for"]["owner"], &leased["changes"]],
            ["worker-1", "at_its_time"]
        );
        served.clock.set(1_800_000_601.0);
        assert_eq!(explained(&served, "dispatch/event-2").await["changes"], "next_claim");
        served.close().await;
    });
}

#[test]
fn a_settled_record_is_followed_to_the_next_flow_and_a_removal_to_its_change() {
    run(async {
        let served = Served::at_port().await;
        served.post("/v1/dispatch", &change("event-1")).await;
        let client = Scripted::new([Ok(accepted("event-1", 1))]);
        let dispatch = served.engine.dispatch();
        dispatch.run_once(&client, "worker-1", 600.0).await.expect("it settles").expect("due");
        let settled = explained(&served, "dispatch/event-1").await;
        let next = json!({ "flow": "lifecycle", "id": "event-1", "state": null });
        assert_eq!((&settled["waits_for"]["next"], &settled["changes"]), (&next, &json!("never")));
        served.post("/v1/delivery", &change("event-1")).await;
        let removal = json!({
            "schema": "blun.cms-content-cancellation.v1", "cancellation_id": "cancel-1",
            "event_id": "event-1", "site_id": "site-1", "website_version": "web-1",
            "source_id": "landing.intro", "source_sequence": 1,
        });
        assert_eq!(served.post("/v1/delivery", &removal.to_string()).await.status, 201);
        let waits = explained(&served, "delivery/cancellation/cancel-1").await;
        assert_eq!(waits["waits_for"], json!({ "kind": "change", "id": "change/event-1" }));
        let command = waits["actions"][0]["command"].as_str().expect("a command").to_owned();
        let path = command.split("/v1/").nth(1).and_then(|path| path.strip_suffix("/explain"));
        assert_eq!(explained(&served, path.expect("a path")).await["id"], "change/event-1");
        served.close().await;
    });
}

#[test]
fn an_explanation_of_no_record_is_refused_with_the_code_of_its_flow_and_repeats_nothing() {
    run(async {
        let served = Served::at_port().await;
        for (path, code) in [
            ("/v1/dispatch/canary/explain", (404, "dispatch.record_missing")),
            ("/v1/dispatch/a%20canary/explain", (404, "dispatch.record_missing")),
            ("/v1/lifecycle/canary/explain", (404, "lifecycle_monitor.record_missing")),
            ("/v1/delivery/change/canary/explain", (404, "source_delivery.record_missing")),
            ("/v1/delivery/canary/explain", (400, "source_delivery.status_invalid")),
            ("/v1/canary/a/explain", (404, "door.route_unknown")),
        ] {
            let answer = served.get(path).await;
            assert_eq!(answer.code(), (code.0, code.1.to_owned()), "{path}");
            assert!(!answer.body.contains("canary"));
        }
        let none = served.ask("GET", "/v1/dispatch/a/explain", "", "").await;
        assert_eq!(none.code(), (401, "door.unauthorized".to_owned()));
        served.close().await;
    });
}

#[test]
fn a_history_says_why_what_happened_and_how_it_is_now_with_no_more_events_than_fit() {
    run(async {
        let served = Served::at_port().await;
        served.failed("event-1").await;
        let signed = json!({ "by": "maria", "why": BECAUSE }).to_string();
        let requeued = served.post("/v1/dispatch/event-1/requeue", &signed).await;
        assert_eq!(requeued.status, 200, "{}", requeued.body);
        let told = served.get("/v1/dispatch/event-1/history").await.json();
        assert_eq!(told["explained"][0]["name"], "waits for");
        let events: Vec<_> =
            told["events"].as_array().expect("events").iter().map(|it| &it["event"]).collect();
        assert_eq!(events, ["registered", "claimed", "failed", "requeued"]);
        assert_eq!(
            (&told["events"][3]["by"], &told["events"][3]["why"]),
            (&json!("maria"), &json!(BECAUSE))
        );
        assert_eq!(
            (&told["earlier"], &told["archived"], &told["replays"]),
            (&json!(0), &json!(0), &json!(true))
        );
        assert_eq!(told["status"]["status"], "pending");
        let dispatch = served.engine.dispatch();
        for _ in 0..334 {
            let claim = dispatch.claim("worker-1", 600.0).await.expect("a claim").expect("due");
            dispatch.fail(&claim, "network").await.expect("it settles");
            dispatch.requeue("event-1", "maria", BECAUSE).await.expect("it failed");
        }
        let told = served.get("/v1/dispatch/event-1/history").await.json();
        assert_eq!(
            (told["events"].as_array().map(Vec::len), &told["earlier"]),
            (Some(1_000), &json!(6))
        );
        for (path, code) in [
            ("/v1/dispatch/canary/history", (404, "dispatch.record_missing")),
            ("/v1/delivery/canary/history", (400, "source_delivery.status_invalid")),
            ("/v1/canary/a/history", (404, "door.route_unknown")),
        ] {
            assert_eq!(served.get(path).await.code(), (code.0, code.1.to_owned()), "{path}");
        }
        let none = served.ask("GET", "/v1/dispatch/event-1/history", "", "").await;
        assert_eq!(none.code(), (401, "door.unauthorized".to_owned()));
        served.close().await;
    });
}

#[test]
fn d8_a_record_that_does_not_replay_is_explained_and_its_page_says_what_to_do() {
    run(async {
        let disk = MemoryDisk::default();
        let served = Served::on(&disk, "c").await;
        let long = change_with("event-1", &"Kaffee. ".repeat(4_000));
        assert_eq!(served.post("/v1/dispatch", &long).await.status, 201);
        served.close().await;
        disk.lose_chunks();
        let served = Served::on(&disk, "c").await;
        let damaged = explained(&served, "dispatch/event-1").await;
        let repair = json!({ "kind": "repair", "sequence": 1, "code": "record_damaged" });
        assert_eq!((&damaged["state"], &damaged["waits_for"]), (&json!("quarantined"), &repair));
        let page = served.get("/records/dispatch/event-1").await.body;
        assert!(page.contains("leasehold doctor JOURNAL"), "{page}");
        served.close().await;
    });
}

#[test]
fn d12_what_is_paused_over_the_door_is_explained_shown_and_resumed() {
    run(async {
        let served = Served::at_port().await;
        served.post("/v1/dispatch", &change("event-1")).await;
        let paused = json!({
            "scope": "site/site-1", "since": 1_800_000_000.0, "by": "maria", "why": BECAUSE,
        });
        for changed in [true, false] {
            let answer = served.post("/v1/pause", &asked("site/site-1")).await;
            let expected = json!({ "changed": changed, "paused": paused });
            assert_eq!((answer.status, answer.json()), (200, expected));
        }
        let claim = served.engine.dispatch().claim("worker-1", 600.0).await.expect("it answers");
        assert!(claim.is_none());
        let overview = served.get("/v1/overview").await.json();
        assert_eq!((&overview["paused"], &overview["stuck"]), (&json!([paused]), &json!([])));
        let waits = explained(&served, "dispatch/event-1").await;
        assert_eq!(
            (&waits["waits_for"]["kind"], &waits["paused"]),
            (&json!("pause"), &json!([paused]))
        );
        let command = waits["actions"][0]["command"].as_str().expect("a command");
        let body = "-d '{\"scope\":\"site/site-1\",\"by\":\"NAME\",\"why\":\"REASON\"}'";
        assert!(command.contains(body) && command.ends_with("/v1/resume"), "{command}");
        for path in ["/", "/records/dispatch/event-1"] {
            assert!(served.get(path).await.body.contains(BECAUSE), "{path}");
        }
        for changed in [true, false] {
            let answer = served.post("/v1/resume", &asked("site/site-1")).await;
            let expected = json!({ "changed": changed, "paused": null });
            assert_eq!((answer.status, answer.json()), (200, expected));
        }
        assert_eq!(explained(&served, "dispatch/event-1").await["changes"], "next_claim");
        served.close().await;
    });
}

#[test]
fn a_pause_of_nothing_by_nobody_or_without_the_token_is_refused() {
    run(async {
        let served = Served::at_port().await;
        let signed = |by: &str, why: &str| {
            json!({ "scope": "flow/dispatch", "by": by, "why": why }).to_string()
        };
        for path in ["/v1/pause", "/v1/resume"] {
            for (body, code) in [
                (asked("flow/canary"), (400, "control.scope_invalid")),
                (asked("canary"), (400, "control.scope_invalid")),
                (signed("", "because"), (400, "control.operator_invalid")),
                (signed("maria", ""), (400, "control.reason_invalid")),
                (String::new(), (400, "door.body_invalid")),
                (
                    "{\"scope\":\"flow/dispatch\",\"by\":\"a\"}".to_owned(),
                    (400, "door.body_invalid"),
                ),
            ] {
                let answer = served.post(path, &body).await;
                assert_eq!(answer.code(), (code.0, code.1.to_owned()), "{path} {body}");
                assert!(!answer.body.contains("canary"));
            }
            let asked = asked("flow/dispatch");
            assert_eq!(served.ask("POST", path, "", &asked).await.status, 401);
            let another = bearer("another-token-of-the-door");
            assert_eq!(served.ask("POST", path, &another, &asked).await.status, 401);
            assert_eq!(served.get(path).await.code(), (405, "door.method_refused".to_owned()));
        }
        assert_eq!(served.engine.paused(), []);
        served.close().await;
    });
}

#[test]
fn commands_at_a_socket_name_it() {
    run(async {
        let (served, socket, _folder) = Served::at_socket().await;
        served.failed("event-1").await;
        let answer = at(&socket, "GET", "/v1/dispatch/event-1/explain", "").await.json();
        let command = answer["actions"][0]["command"].as_str().expect("a command");
        assert!(command.starts_with("curl --unix-socket "), "{command}");
        assert!(command.ends_with("http://localhost/v1/dispatch/event-1/requeue"), "{command}");
        served.close().await;
    });
}
