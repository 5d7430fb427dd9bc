//! Answers of a door, as they are shown.
//!
//! Owns what an answer has to be, and that nothing in it can steer a terminal: control characters, and
//! characters that turn the direction of text or cannot be seen, are replaced before anything is shown.

use crate::overview::Overview;
use crate::times;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Largest answer that is read, in bytes.
pub const REPLY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What a door answered. `Debug` shows its status and size only.
#[derive(Clone, PartialEq, Eq)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Its body, at most [`REPLY_BYTES_MAX`] bytes; a longer one is refused.
    pub body: Vec<u8>,
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reply")
            .field("status", &self.status)
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

/// A door that does not answer as it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DoorFault {
    /// No answer came, or none in time.
    #[error("door_unreachable: nobody answers; does `leasehold serve` run there?")]
    Unreachable,
    /// It wants a token, or another one.
    #[error("door_token_refused: the door knows another token")]
    TokenRefused,
    /// It turned the question down.
    #[error("door_answer_refused: the answer has status {status}")]
    Refused {
        /// HTTP status.
        status: u16,
    },
    /// The answer is not of the form it has to be.
    #[error("door_answer_invalid: what answers is no door that this program understands")]
    Invalid,
}

/// The answer about everything; `None` stands for one that did not come.
pub(super) fn overview(reply: Option<&Reply>) -> Result<Overview, DoorFault> {
    serde_json::from_value(value(reply)?).map_err(|_| DoorFault::Invalid)
}

/// All there is to say of one record.
#[derive(Deserialize)]
pub(super) struct History {
    /// Why it stands where it stands.
    pub(super) explained: Vec<Said>,
    /// Events in archives.
    pub(super) archived: u64,
    /// Events that are not among those that follow.
    pub(super) earlier: u64,
    pub(super) events: Vec<Happened>,
    pub(super) replays: bool,
    status: Option<Map<String, Value>>,
}

/// Something said of it, by name.
#[derive(Deserialize)]
pub(super) struct Said {
    pub(super) name: String,
    pub(super) said: String,
}

/// One thing that happened to it.
#[derive(Deserialize)]
pub(super) struct Happened {
    pub(super) at: f64,
    pub(super) event: String,
    pub(super) error_code: Option<String>,
    pub(super) by: Option<String>,
    pub(super) why: Option<String>,
    pub(super) due_at: Option<f64>,
}

impl History {
    /// The members of its status in their order, nulls left out.
    pub(super) fn members(&self) -> Vec<Said> {
        let known = self.status.iter().flatten().filter(|(_, value)| !value.is_null());
        let shown = known.map(|(name, value)| {
            let said = match (value.as_str(), value.as_f64()) {
                (Some(text), _) => text.to_owned(),
                (None, Some(seconds)) if name.ends_with("_at") => times::exact(seconds),
                (None, _) => value.to_string(),
            };
            Said { name: name.clone(), said }
        });
        shown.collect()
    }
}

/// The answer about one record; `None` when there is no such record.
pub(super) fn history(reply: Option<&Reply>) -> Result<Option<History>, DoorFault> {
    match value(reply) {
        Err(DoorFault::Refused { status: 404 }) => Ok(None),
        other => serde_json::from_value(other?).map(Some).map_err(|_| DoorFault::Invalid),
    }
}

fn value(reply: Option<&Reply>) -> Result<Value, DoorFault> {
    let Reply { status, body } = reply.ok_or(DoorFault::Unreachable)?;
    match status {
        200 => {}
        401 => return Err(DoorFault::TokenRefused),
        status => return Err(DoorFault::Refused { status: *status }),
    }
    if body.len() > REPLY_BYTES_MAX {
        return Err(DoorFault::Invalid);
    }
    serde_json::from_slice(body).map(harmless).map_err(|_| DoorFault::Invalid)
}

/// The same value without a character that could do more on a terminal than be seen.
fn harmless(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(visible(&text)),
        Value::Array(values) => Value::Array(values.into_iter().map(harmless).collect()),
        Value::Object(members) => Value::Object(
            members.into_iter().map(|(name, value)| (visible(&name), harmless(value))).collect(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

fn visible(text: &str) -> String {
    text.chars()
        .map(|character| match character {
            '\n' | '\t' => ' ',
            character if steers(character) => char::REPLACEMENT_CHARACTER,
            character => character,
        })
        .collect()
}

/// Whether a character is a control, turns the direction of text, or is there without being seen.
fn steers(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: u16, body: &str) -> Reply {
        Reply { status, body: body.as_bytes().to_vec() }
    }

    /// The answer about a record with this status.
    fn told(status: &str) -> History {
        let body = format!(
            r#"{{"explained":[],"archived":0,"earlier":0,"events":[],"replays":true,"status":{status}}}"#
        );
        history(Some(&reply(200, &body))).expect("it is read").expect("a record")
    }

    #[test]
    fn what_could_steer_a_terminal_is_replaced_in_names_and_values_at_any_depth() {
        let members = told(
            r#"{"a\u001b":"x\u001b[2Jy\u009b","b":["\u202e",{"c":"\u0007\r\u200b"}],"d":"ü ✓\n"}"#,
        )
        .members();
        let all: String = members.iter().map(|it| format!("{}{}", it.name, it.said)).collect();
        assert!(!all.chars().any(steers), "{all:?}");
        let [first, nested, kept] = &members[..] else { panic!("three") };
        assert_eq!((&*first.name, &*first.said), ("a\u{fffd}", "x\u{fffd}[2Jy\u{fffd}"));
        assert_eq!(nested.said.matches('\u{fffd}').count(), 4);
        assert_eq!(kept.said, "ü ✓ ");
    }

    #[test]
    fn an_answer_that_is_none_says_what_is_wrong_with_it_and_nothing_of_what_it_held() {
        let long = format!("\"{}\"", "x".repeat(REPLY_BYTES_MAX));
        for (answer, fault) in [
            (None, DoorFault::Unreachable),
            (Some(reply(401, "canary")), DoorFault::TokenRefused),
            (Some(reply(503, "canary")), DoorFault::Refused { status: 503 }),
            (Some(reply(404, "")), DoorFault::Refused { status: 404 }),
            (Some(reply(200, "canary")), DoorFault::Invalid),
            (Some(reply(200, "{\"at\":1}")), DoorFault::Invalid),
            (Some(reply(200, &long)), DoorFault::Invalid),
        ] {
            assert_eq!(overview(answer.as_ref()), Err(fault));
            assert!(!format!("{fault} {fault:?} {answer:?}").contains("canary"));
        }
        assert!(matches!(history(Some(&reply(404, ""))), Ok(None)), "a record may be gone");
        assert!(matches!(history(Some(&reply(200, "[]"))), Err(DoorFault::Invalid)));
    }

    #[test]
    fn members_that_are_times_read_as_times_and_nulls_are_left_out() {
        let told =
            told(r#"{"next_attempt_at":1700000000.25,"attempts":2,"lease_expires_at":null}"#);
        let mut members: Vec<_> = told.members().into_iter().map(|it| (it.name, it.said)).collect();
        members.sort();
        let expected = [("attempts", "2"), ("next_attempt_at", "2023-11-14T22:13:20.25Z")];
        assert_eq!(members, expected.map(|(name, said)| (name.to_owned(), said.to_owned())));
        assert!(history(Some(&reply(200, "{\"status\":null}"))).is_err(), "that is no history");
    }
}
