//! What is on the screen, as it was read.

use super::{blocked, drawn, heard, history, model, paused, well};
use crate::support::snapshots;
use leasehold::top::{Event, Key, Model, Question, text};
use serde_json::{Value, json};

const STUCK: [&str; 2] = ["event-2", "event-1"];

fn open_side(mut overview: Value) -> Value {
    let side = &mut overview["destinations"][0];
    side["state"] = "open".into();
    side["waiting"] = 3.into();
    side["opens_in_seconds"] = 4.6.into();
    side["failures_in_a_row"] = 10.into();
    side["last_error_code"] = "network".into();
    overview
}

fn gone() -> Event {
    Event::Heard { question: Question::Overview, reply: None }
}

#[test]
fn screens_are_as_they_were_read() {
    let mut door_gone = model(&blocked(&STUCK));
    door_gone.take(gone());
    let mut never_there = Model::new();
    never_there.take(gone());
    let everything = open_side(paused(blocked(&STUCK), "the provider is down"));
    let mut frozen = model(&well());
    frozen.take(Event::Pressed(Key::Freeze));
    for (name, model, columns, lines) in [
        ("well", model(&well()), 80, 24),
        ("blocked", model(&blocked(&STUCK)), 80, 24),
        ("paused", model(&paused(well(), "the provider is down")), 80, 24),
        ("destination_open", model(&open_side(well())), 80, 24),
        ("everything_at_once", model(&everything), 80, 24),
        ("door_gone", door_gone, 80, 24),
        ("door_never_there", never_there, 80, 6),
        ("frozen", frozen, 80, 24),
        ("narrow", model(&everything), 40, 30),
        ("wide", model(&everything), 160, 30),
    ] {
        snapshots("top").bind(|| insta::assert_snapshot!(name, drawn(&model, columns, lines)));
    }
}

#[test]
fn as_text_it_is_all_there_and_a_command_is_on_one_line() {
    let everything = model(&open_side(paused(blocked(&STUCK), "the provider is down")));
    let text = text(&everything, 80);
    for id in STUCK {
        let command = format!("http://localhost/v1/dispatch/{id}/requeue");
        let mut lines = text.lines().filter(|line| line.ends_with(&command));
        assert!(lines.next().is_some_and(|line| line.trim_start().starts_with("curl ")), "{text}");
    }
    snapshots("top").bind(|| insta::assert_snapshot!("text", text));
}

#[test]
fn an_open_record_shows_why_it_stands_there_what_happened_and_its_status() {
    let mut model = model(&blocked(&STUCK));
    model.take(Event::Pressed(Key::Open));
    let asked = model.questions().pop().expect("about the record");
    let status = json!({
        "event_id": "event-2", "payload_sha256": "ab".repeat(32), "status": "failed", "attempts": 5,
        "next_attempt_at": 1_800_000_000.5, "lease_expires_at": null, "lease_expired": false,
    });
    model.take(heard(asked, 200, &history(&status)));
    snapshots("top").bind(|| {
        insta::assert_snapshot!("record", drawn(&model, 80, 30));
        insta::assert_snapshot!("record_narrow", drawn(&model, 40, 48));
    });
}

#[test]
fn nothing_a_door_says_can_steer_a_terminal() {
    let bad = "\u{1b}[2J\u{1b}]0;canary\u{7}\r\n\u{9b}1m\u{202e}\u{200b}\u{8}";
    let mut overview = open_side(paused(blocked(&[bad]), bad));
    for (path, value) in [
        ("/version", bad),
        ("/journal/id", bad),
        ("/flows/0/flow", bad),
        ("/destinations/0/name", bad),
        ("/destinations/0/last_error_code", bad),
        ("/paused/0/scope", bad),
        ("/paused/0/by", bad),
        ("/stuck/0/flow", bad),
        ("/stuck/0/code", bad),
        ("/stuck/0/why", bad),
        ("/stuck/0/action", bad),
    ] {
        *overview.pointer_mut(path).expect("it is there") = value.into();
    }
    overview["flows"][0]["counts"] = json!({ bad: 1 });
    let hostile = model(&overview);
    let harmless = |text: &str| {
        let bad = |it: char| it.is_control() || matches!(it, '\u{202e}' | '\u{200b}');
        text.lines().all(|line| !line.contains(bad))
    };
    let printed = text(&hostile, 80);
    assert!(harmless(&printed) && printed.contains("]0;canary"), "{printed:?}");
    // A cell of the screen is what is sent to the terminal.
    for columns in [40, 80, 160] {
        let screen = drawn(&hostile, columns, 60);
        let cells = screen.buffer().content();
        assert!(cells.iter().all(|cell| harmless(cell.symbol())), "{columns}");
    }
    let mut opened = model(&blocked(&STUCK));
    opened.take(Event::Pressed(Key::Open));
    let asked = opened.questions().pop().expect("about the record");
    let mut told = history(&json!({ bad: bad, "b": [bad] }));
    told["explained"] = json!([{ "name": bad, "said": bad }]);
    let happened = json!({ "at": 1, "event": bad, "error_code": bad, "by": bad, "why": bad });
    told["events"] = json!([happened]);
    opened.take(heard(asked, 200, &told));
    let screen = drawn(&opened, 80, 40);
    assert!(screen.buffer().content().iter().all(|cell| harmless(cell.symbol())));
    assert!(format!("{screen}").contains("]0;canary"), "{screen}");
}

#[test]
fn every_size_of_a_terminal_is_drawn_and_the_first_line_comes_first() {
    let everything = open_side(paused(blocked(&STUCK), "the provider is down"));
    for (columns, lines) in [(1, 1), (3, 2), (10, 3), (40, 5), (71, 24), (72, 24), (400, 100)] {
        let screen = drawn(&model(&everything), columns, lines);
        let first = screen.buffer().content()[0].symbol();
        assert!(columns == 1 || first == "B", "{columns} {lines} {first}");
    }
}

#[test]
fn what_is_paused_and_what_is_in_flight_is_seen_on_small_screens_too() {
    let mut overview = open_side(paused(blocked(&STUCK), "it is down"));
    overview["destinations"][0]["in_flight"] = 17.into();
    for (columns, lines) in [(80, 24), (80, 12), (40, 24), (60, 14), (41, 60)] {
        let screen = format!("{}", drawn(&model(&overview), columns, lines));
        assert!(screen.contains("paused flow/dispatch"), "{columns} {lines}\n{screen}");
        assert!(screen.contains("it is down"), "{columns} {lines}\n{screen}");
        let all = format!("{}", drawn(&model(&overview), columns, 60));
        assert!(all.contains(" 17/64"), "{all}");
        overview["destinations"][0]["in_flight_max"] = 12_000.into();
        let large = format!("{}", drawn(&model(&overview), columns, 60));
        assert!(large.contains(" 17/12k"), "{large}");
        overview["destinations"][0]["in_flight_max"] = 64.into();
    }
    for lines in [3, 5, 8] {
        let screen = format!("{}", drawn(&model(&overview), 80, lines));
        assert!(screen.contains("Paused: flow/dispatch."), "{lines}\n{screen}");
    }
}

#[test]
fn figures_that_cannot_be_are_shown_and_break_nothing() {
    let mut overview = blocked(&STUCK);
    for path in ["/flows/0/due", "/flows/1/due", "/flows/0/in_flight", "/destinations/0/waiting"] {
        *overview.pointer_mut(path).expect("it is there") = u64::MAX.into();
    }
    overview["flows"][0]["throughput"] = json!(vec![u64::MAX; 500]);
    overview["flows"][0]["retries"] = json!([]);
    overview["stuck"][0]["since"] = json!(-1e300);
    overview["at"] = json!(1e300);
    let model = model(&overview);
    assert!(text(&model, 80).contains("9999G") && text(&model, 1).contains("9999d ago"));
    assert!(format!("{}", drawn(&model, 80, 24)).contains("9999G"));
}
