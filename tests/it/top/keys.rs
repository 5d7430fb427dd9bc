//! What keys do, and what is asked then.

use super::{blocked, drawn, heard, history, model, well};
use leasehold::top::{DoorFault, Event, Key, Model, Next, Question, key};
use ratatui::crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use serde_json::json;

const STUCK: [&str; 3] = ["event-3", "event-2", "event-1"];

fn press(model: &mut Model, key: Key) -> Next {
    model.take(Event::Pressed(key))
}

/// The line with the mark of the selected record.
fn marked(model: &Model) -> String {
    let screen = format!("{}", drawn(model, 80, 40));
    let line = screen.lines().find(|line| line.contains("> dispatch"));
    line.expect("one is selected").to_owned()
}

fn about(id: &str) -> Question {
    Question::Record { flow: "dispatch".to_owned(), id: id.to_owned() }
}

#[test]
fn keys_are_told_by_what_they_are_for() {
    let pressed = |code, modifiers| key(&Input::Key(KeyEvent::new(code, modifiers)));
    for (code, meaning) in [
        (KeyCode::Char('q'), Some(Key::Quit)),
        (KeyCode::Esc, Some(Key::Back)),
        (KeyCode::Up, Some(Key::Up)),
        (KeyCode::Down, Some(Key::Down)),
        (KeyCode::PageUp, Some(Key::PageUp)),
        (KeyCode::PageDown, Some(Key::PageDown)),
        (KeyCode::Enter, Some(Key::Open)),
        (KeyCode::Char('p'), Some(Key::Freeze)),
        (KeyCode::Char('c'), None),
        (KeyCode::F(1), None),
    ] {
        assert_eq!(pressed(code, KeyModifiers::NONE), meaning, "{code:?}");
    }
    assert_eq!(pressed(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Quit));
    assert_eq!(pressed(KeyCode::Char('q'), KeyModifiers::CONTROL), None);
    let (code, none) = (KeyCode::Char('q'), KeyModifiers::NONE);
    let released = KeyEvent::new_with_kind(code, none, KeyEventKind::Release);
    assert_eq!(key(&Input::Key(released)), None);
    assert_eq!(key(&Input::Resize(80, 24)), None);
}

#[test]
fn quit_ends_it_always_and_back_only_where_no_record_is_open() {
    let mut model = model(&blocked(&STUCK));
    assert_eq!(press(&mut model, Key::Open), Next::Ask);
    assert_eq!(press(&mut model, Key::Quit), Next::Quit);
    assert_eq!(press(&mut model, Key::Back), Next::Stay);
    assert_eq!(press(&mut model, Key::Back), Next::Quit);
    assert_eq!(press(&mut Model::new(), Key::Quit), Next::Quit);
}

#[test]
fn arrows_select_and_stop_at_both_ends() {
    let mut model = model(&blocked(&STUCK));
    assert!(marked(&model).contains("event-3"));
    press(&mut model, Key::Up);
    assert!(marked(&model).contains("event-3"));
    for id in ["event-2", "event-1", "event-1"] {
        assert_eq!(press(&mut model, Key::Down), Next::Stay);
        assert!(marked(&model).contains(id));
    }
    press(&mut model, Key::Up);
    assert!(marked(&model).contains("event-2"));
}

#[test]
fn the_selected_record_stays_selected_when_others_come_and_go() {
    let mut model = model(&blocked(&STUCK));
    press(&mut model, Key::Down);
    for (ids, selected) in [
        (&["event-5", "event-4", "event-3", "event-2", "event-1"][..], "event-2"),
        (&["event-2"], "event-2"),
        (&["event-6", "event-2"], "event-2"),
        (&["event-6"], "event-6"),
    ] {
        model.take(heard(Question::Overview, 200, &blocked(ids)));
        assert!(marked(&model).contains(selected), "{ids:?}");
    }
}

#[test]
fn on_a_small_screen_the_selected_record_is_in_sight() {
    let ids: Vec<_> = (0..20).map(|number| format!("event-{number}")).collect();
    let mut model = model(&blocked(&ids.iter().map(String::as_str).collect::<Vec<_>>()));
    for id in &ids {
        let screen = format!("{}", drawn(&model, 80, 24));
        assert!(screen.contains(&format!("> dispatch {id} failed")), "{screen}");
        assert!(screen.contains(&format!("/v1/dispatch/{id}/requeue")), "{screen}");
        press(&mut model, Key::Down);
    }
}

#[test]
fn an_open_record_is_asked_about_until_it_is_closed() {
    let mut model = model(&blocked(&STUCK));
    assert_eq!(model.questions(), [Question::Overview]);
    assert_eq!(press(&mut model, Key::Open), Next::Ask);
    assert_eq!(press(&mut model, Key::Open), Next::Stay, "it is open");
    assert_eq!(model.questions(), [Question::Overview, about("event-3")]);
    assert_eq!(model.questions()[1].path(), "/v1/dispatch/event-3/history");
    assert!(format!("{}", drawn(&model, 80, 24)).contains("The door is asked."));
    model.take(heard(about("event-3"), 200, &history(&json!({ "attempts": 5 }))));
    assert!(format!("{}", drawn(&model, 80, 24)).contains("attempts"));
    model.take(heard(about("event-3"), 404, &json!({})));
    assert!(format!("{}", drawn(&model, 80, 24)).contains("There is no such record."));
    assert_eq!(press(&mut model, Key::Back), Next::Stay);
    model.take(heard(about("event-3"), 200, &history(&json!({ "attempts": 5 }))));
    assert_eq!(model.questions(), [Question::Overview], "an answer that comes late opens nothing");
}

#[test]
fn nothing_is_asked_about_what_has_no_identity_or_none_that_goes_into_a_path() {
    let mut nothing = model(&well());
    assert_eq!(press(&mut nothing, Key::Open), Next::Stay);
    for (flow, id, asked) in [
        ("dispatch", json!("event-1"), true),
        ("delivery", json!("change/event-1"), true),
        ("dispatch", json!(null), false),
        ("dispatch", json!(""), false),
        ("dispatch", json!("../overview"), false),
        ("dispatch", json!("a?b"), false),
        ("dispatch", json!("a b"), false),
        ("dispatch", json!("a/"), false),
        ("a/b", json!("event-1"), false),
    ] {
        let mut overview = blocked(&["event-1"]);
        overview["stuck"][0]["flow"] = flow.into();
        overview["stuck"][0]["id"] = id.clone();
        let next = if asked { Next::Ask } else { Next::Stay };
        assert_eq!(press(&mut model(&overview), Key::Open), next, "{flow} {id}");
    }
}

#[test]
fn an_open_record_scrolls_and_stops_at_both_ends_however_narrow_the_screen_is() {
    for (columns, lines) in [(80, 12), (40, 24), (20, 24)] {
        let mut model = model(&blocked(&STUCK));
        press(&mut model, Key::Open);
        let members: serde_json::Map<_, _> =
            (10..40).map(|number| (format!("member_{number}"), number.into())).collect();
        model.take(heard(about("event-3"), 200, &history(&members.into())));
        let shows =
            |model: &Model, text: &str| format!("{}", drawn(model, columns, lines)).contains(text);
        let top = |model: &Model| shows(model, "waits for");
        let bottom = |model: &Model| shows(model, "member_39");
        assert!(top(&model) && !bottom(&model), "{columns}");
        for _ in 0..200 {
            press(&mut model, Key::Down);
        }
        assert!(!top(&model) && bottom(&model), "{columns}");
        // What was pressed beyond the end has not to be taken back.
        press(&mut model, Key::Up);
        press(&mut model, Key::Up);
        assert!(!bottom(&model), "{columns}");
        for _ in 0..20 {
            press(&mut model, Key::PageUp);
        }
        assert!(top(&model), "{columns}");
        for _ in 0..20 {
            press(&mut model, Key::PageDown);
        }
        assert!(bottom(&model), "{columns}");
    }
}

#[test]
fn a_frozen_screen_stands_still_and_asks_nothing_until_it_goes_on() {
    let mut model = model(&blocked(&STUCK));
    assert_eq!(press(&mut model, Key::Freeze), Next::Stay);
    assert_eq!(model.questions(), []);
    let before = format!("{}", drawn(&model, 80, 24));
    assert!(before.contains("FROZEN"));
    // These were under way when it was frozen.
    model.take(heard(Question::Overview, 200, &well()));
    model.take(Event::Heard { question: Question::Overview, reply: None });
    assert_eq!(format!("{}", drawn(&model, 80, 24)), before);
    press(&mut model, Key::Open);
    assert_eq!(model.questions(), [about("event-3")], "a record can be opened");
    model.take(heard(about("event-3"), 200, &history(&json!({ "attempts": 5 }))));
    assert_eq!(model.questions(), []);
    assert_eq!(press(&mut model, Key::Freeze), Next::Ask);
    assert_eq!(model.questions(), [Question::Overview, about("event-3")]);
}

#[test]
fn a_door_that_goes_away_and_comes_back_is_told_of() {
    let mut model = model(&well());
    for (status, body, fault) in [
        (401, json!({}), DoorFault::TokenRefused),
        (503, json!({}), DoorFault::Refused { status: 503 }),
        (200, json!({ "canary": 1 }), DoorFault::Invalid),
    ] {
        model.take(heard(Question::Overview, status, &body));
        assert_eq!(model.fault(), Some(fault));
        let screen = format!("{}", drawn(&model, 80, 24));
        assert!(screen.contains("NO ANSWER, asked again") && screen.contains("OLD"), "{screen}");
        assert!(screen.contains("dispatch") && !screen.contains("canary"), "{screen}");
        assert_eq!(model.questions(), [Question::Overview], "it is asked again");
    }
    model.take(heard(Question::Overview, 200, &well()));
    assert_eq!(model.fault(), None);
    assert!(format!("{}", drawn(&model, 80, 24)).contains("live"));
}
