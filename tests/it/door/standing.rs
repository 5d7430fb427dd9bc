//! Health, the overview and what is counted, over the door.

use super::Served;
use crate::support::{Scripted, accepted, change, change_with, marked, run};
use leasehold::MemoryDisk;
use leasehold::overview::{Overview, Standing, StuckState};
use leasehold_actors::record::FlowTag;
use serde_json::json;
use std::collections::BTreeSet;

#[test]
fn health_and_the_verdict_follow_the_records() {
    run(async {
        let served = Served::at_port().await;
        let verdict = served.get("/healthz").await;
        assert_eq!((verdict.status, verdict.body.as_str()), (200, "{\"status\":\"ok\"}"));
        served.failed("event-1").await;
        let verdict = served.get("/healthz").await;
        assert_eq!((verdict.status, verdict.body.as_str()), (503, "{\"status\":\"blocked\"}"));
        let health = served.get("/v1/health").await.json();
        assert_eq!(
            (&health["dispatch"]["failed"], &health["delivery"]["due"]),
            (&1.into(), &0.into())
        );
        assert_eq!(health.as_object().expect("flows").len(), 5);
        served.close().await;
    });
}

#[test]
fn the_overview_tells_what_waits_what_is_stuck_and_what_to_type() {
    run(async {
        let served = Served::at_port().await;
        served.failed("event-1").await;
        served.engine.dispatch().enqueue(change("event-2"), 5).await.expect("it is valid");
        served.activity.note(FlowTag::Dispatch, "failed");
        served.activity.note(FlowTag::Dispatch, "retry_wait");
        served.clock.set(1_800_000_042.0);
        let answer = served.get("/v1/overview").await;
        let overview: Overview = serde_json::from_str(&answer.body).expect("an overview");
        assert_eq!((overview.at, overview.status), (1_800_000_042.0, Standing::Blocked));
        assert_eq!(overview.journal.id, "07".repeat(16));
        assert_eq!(overview.journal.sequence, 4);
        let names: Vec<_> = overview.flows.iter().map(|flow| flow.flow.as_str()).collect();
        assert_eq!(names, FlowTag::ALL.map(FlowTag::name));
        let dispatch = &overview.flows[0];
        assert_eq!((dispatch.due, dispatch.oldest_due_age_seconds), (1, Some(42.0)));
        assert_eq!((dispatch.counts["failed"], dispatch.in_flight), (1, 0));
        let totals = [&dispatch.throughput, &dispatch.retries];
        assert_eq!(totals.map(|it| (it.len(), it.iter().sum::<u64>())), [(60, 1), (60, 1)]);
        assert_eq!(overview.flows[1].oldest_due_age_seconds, None);
        let [stuck] = &overview.stuck[..] else { panic!("one is stuck") };
        assert_eq!((stuck.state, stuck.id.as_deref()), (StuckState::Failed, Some("event-1")));
        assert_eq!((stuck.code.as_deref(), stuck.since), (Some("network"), Some(1_800_000_000.0)));
        let address = served.address();
        assert_eq!(
            stuck.action,
            format!(
                "curl -H \"Authorization: Bearer $LEASEHOLD_TOKEN\" -d \
                 '{{\"by\":\"NAME\",\"why\":\"REASON\"}}' \
                 http://{address}/v1/dispatch/event-1/requeue"
            )
        );
        served.close().await;
    });
}

#[test]
fn stuck_records_are_the_newest_and_not_too_many() {
    run(async {
        let served = Served::at_port().await;
        for number in 0..25 {
            served.clock.set(1_800_000_000.0 + f64::from(number));
            served.failed(&format!("event-{number}")).await;
        }
        let answer = served.get("/v1/overview").await;
        let overview: Overview = serde_json::from_str(&answer.body).expect("an overview");
        let ids: Vec<_> = overview.stuck.iter().filter_map(|it| it.id.as_deref()).collect();
        assert_eq!((ids.len(), ids[0], ids[19]), (20, "event-24", "event-5"));
        served.close().await;
    });
}

#[test]
fn a_held_and_a_damaged_record_are_stuck_and_each_says_what_can_be_done() {
    run(async {
        let disk = MemoryDisk::default();
        let served = Served::on(&disk, "c").await;
        let long = change_with("event-1", &"Kaffee. ".repeat(4_000));
        assert_eq!(served.post("/v1/dispatch", &long).await.status, 201);
        assert_eq!(served.post("/v1/delivery", &change("event-2")).await.status, 201);
        served.close().await;
        disk.lose_chunks();
        let served = Served::on(&disk, "d").await;
        let overview = served.get("/v1/overview").await;
        let overview: Overview = serde_json::from_str(&overview.body).expect("an overview");
        let [damaged, held] = &overview.stuck[..] else { panic!("two are stuck") };
        assert_eq!((damaged.state, &damaged.id), (StuckState::Quarantined, &None));
        assert!(damaged.action.contains("leasehold doctor"));
        assert_eq!((held.state, held.id.as_deref()), (StuckState::Held, Some("change/event-2")));
        assert!(held.action.ends_with("/v1/delivery/change/event-2/repin"), "{}", held.action);
        assert_eq!((overview.flows[0].quarantined, overview.flows[4].held), (1, 1));
        let listed = served.get("/v1/records?state=quarantined").await.json();
        assert_eq!(listed["records"][0]["id"], serde_json::Value::Null);
        let status = served.get("/v1/dispatch/event-1").await;
        assert_eq!(status.code(), (409, "dispatch.state_invalid".to_owned()));
        let page = served.get("/records/dispatch/event-1").await;
        assert_eq!((page.status, page.body.contains("does not replay")), (200, true));
        let asked = "{\"by\":\"maria\",\"why\":\"a new release\"}";
        let repinned = served.post("/v1/delivery/change/event-2/repin", asked).await;
        assert_eq!((repinned.status, &repinned.json()["changed"]), (200, &true.into()));
        let stuck = served.get("/v1/overview").await.json()["stuck"].clone();
        assert_eq!(stuck.as_array().map(Vec::len), Some(1));
        served.close().await;
    });
}

/// Whether a name keeps the grammar of Prometheus.
fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    let first = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    first && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[test]
fn what_is_counted_reads_as_prometheus_reads_it() {
    run(async {
        let served = Served::at_port().await;
        let dispatch = served.engine.dispatch();
        for id in ["event-1", "event-2", "event-3"] {
            let text = change_with(id, "canary text");
            dispatch.enqueue(text, 5).await.expect("it is valid");
        }
        let client = Scripted::new([
            Ok(accepted("event-1", 1)),
            Err(marked("canary_code", true)),
            Err(marked("canary_code", false)),
        ]);
        for _ in 0..3 {
            dispatch.run_once(&client, "worker-1", 600.0).await.expect("it settles").expect("due");
        }
        dispatch.enqueue(change("event-4"), 5).await.expect("it is valid");
        let claim = dispatch.claim("worker-1", 600.0).await.expect("a claim").expect("due");
        dispatch.release(&claim).await.expect("it is held");
        let answer = served.get("/metrics").await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        assert!(!answer.body.contains("canary") && !answer.body.contains("event-"));
        let lines = answer.body.lines().map(|line| Ok(line.to_owned()));
        let scraped = prometheus_parse::Scrape::parse(lines).expect("it parses");
        let samples = answer.body.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let buckets: usize = scraped.samples.iter().map(lines_of).sum();
        assert_eq!(buckets, samples.count(), "every line was understood");
        let flows: BTreeSet<_> = FlowTag::ALL.map(FlowTag::name).into();
        for sample in &scraped.samples {
            let name = &sample.metric;
            assert!(is_name(name), "{name}");
            assert!(scraped.docs.keys().any(|it| name.starts_with(it.as_str())), "{name}: no help");
            for (label, value) in sample.labels.iter() {
                assert!(["flow", "state", "outcome"].contains(&label.as_str()), "{name} {label}");
                assert!(label != "flow" || flows.contains(value.as_str()), "{name} {value}");
            }
        }
        let value = |wanted: &str| {
            let line = answer.body.lines().find_map(|line| line.strip_prefix(wanted));
            let line = line.unwrap_or_else(|| panic!("no {wanted}"));
            line.trim().parse::<f64>().expect("a number")
        };
        for outcome in ["completed", "retried", "failed", "released"] {
            let name = "leasehold_settlements_total{flow=\"dispatch\",outcome=";
            assert!(value(&format!("{name}\"{outcome}\"}}")) >= 1.0);
        }
        assert!(value("leasehold_claims_total{flow=\"dispatch\"}") >= 3.0);
        assert!(value("leasehold_registrations_total{flow=\"dispatch\",outcome=\"new\"}") >= 3.0);
        assert!(value("leasehold_call_duration_seconds_count{flow=\"dispatch\"}") >= 3.0);
        assert!(value("leasehold_commit_duration_seconds_count") >= 1.0);
        assert!(value("leasehold_records{flow=\"delivery\",state=\"pending\"}") >= 0.0);
        assert!(value("leasehold_oldest_due_age_seconds{flow=\"dispatch\"}") >= 0.0);
        served.close().await;
    });
}

/// How many lines a sample was read from: a histogram's buckets are one.
#[test]
fn of_what_is_paused_only_what_no_claim_came_by_yet_counts_as_due_and_the_words_say_so() {
    run(async {
        let served = Served::at_port().await;
        for id in ["event-1", "event-2"] {
            served.post("/v1/dispatch", &change(id)).await;
        }
        let paused = json!({ "scope": "site/site-1", "by": "maria", "why": "it moves" });
        assert_eq!(served.post("/v1/pause", &paused.to_string()).await.status, 200);
        let due = async || served.get("/v1/overview").await.json()["flows"][0]["due"].clone();
        assert_eq!(due().await, 2);
        let claim = served.engine.dispatch().claim("worker-1", 600.0).await.expect("it answers");
        assert!(claim.is_none());
        assert_eq!(due().await, 0);
        let metrics = served.get("/metrics").await.body;
        let help = metrics.lines().find(|line| line.starts_with("# HELP leasehold_due_records "));
        assert!(help.is_some_and(|help| help.contains("paused")), "{help:?}");
        served.close().await;
    });
}

fn lines_of(sample: &prometheus_parse::Sample) -> usize {
    match &sample.value {
        prometheus_parse::Value::Histogram(buckets) => buckets.len(),
        prometheus_parse::Value::Summary(quantiles) => quantiles.len(),
        prometheus_parse::Value::Counter(_)
        | prometheus_parse::Value::Gauge(_)
        | prometheus_parse::Value::Untyped(_) => 1,
    }
}
