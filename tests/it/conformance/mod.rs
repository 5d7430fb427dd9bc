//! What the reference answered, replayed: every step, every field.
//!
//! The folder is `LEASEHOLD_CONFORMANCE_DIR`, or `tests/conformance`; any set of the same form passes.

mod documents;
pub(crate) mod traces;

use leasehold::{CallFailure, Client, Error};
use leasehold_actors::flows::Answers;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::path::PathBuf;

fn folder() -> PathBuf {
    std::env::var_os("LEASEHOLD_CONFORMANCE_DIR").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance")),
        PathBuf::from,
    )
}

fn lines(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder().join(name)).expect("the vectors are readable");
    text.split('\n').filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Counts what was compared, so that a test that compares nothing fails.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    pub(crate) steps: usize,
    pub(crate) fields: usize,
}

impl Compared {
    /// Every field of `expected` must be there, equal in type and value; what we have beside it must
    /// be empty.
    fn values(&mut self, ours: &Value, expected: &Value, place: &str) {
        match (ours, expected) {
            (Value::Object(ours), Value::Object(expected)) => {
                for (key, value) in expected {
                    let found = ours.get(key).unwrap_or_else(|| panic!("{place}: no {key}"));
                    self.values(found, value, &format!("{place}.{key}"));
                }
                for (key, value) in ours.iter().filter(|(key, _)| !expected.contains_key(*key)) {
                    let empty = match value {
                        Value::Null => true,
                        Value::Bool(value) => !value,
                        Value::Number(value) => value.as_f64() == Some(0.0),
                        Value::String(value) => value.is_empty(),
                        Value::Array(value) => value.is_empty(),
                        Value::Object(value) => value.is_empty(),
                    };
                    assert!(empty, "{place}: {key} is ours and not empty");
                }
            }
            (ours, expected) => {
                assert_eq!(ours, expected, "{place}");
                self.fields += 1;
            }
        }
    }

    fn step(&mut self, ours: Result<Value, Error>, expected: &Expect, place: &str) {
        self.steps += 1;
        match (ours, expected) {
            (Ok(ours), Expect::Ok(expected)) => self.values(&ours, expected, place),
            (Err(error), Expect::Error(code)) => {
                assert_eq!(error.code(), code, "{place}");
                self.fields += 1;
            }
            (ours, expected) => panic!("{place}: {ours:?} where {expected:?} is expected"),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Expect {
    Ok(Value),
    Error(String),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Script {
    Respond(Box<RawValue>),
    Fail { code: Value, retryable: Value, marked: bool },
}

/// Answers one call as a step says.
struct StepClient<'a> {
    script: &'a Script,
    timeout: Option<f64>,
}

impl<F: Answers> Client<F> for StepClient<'_> {
    fn longest_call_seconds(&self) -> Option<f64> {
        self.timeout
    }

    async fn call(&self, _: F::Request) -> Result<Vec<u8>, CallFailure> {
        match self.script {
            Script::Respond(document) => Ok(document.get().as_bytes().to_vec()),
            Script::Fail { marked: false, .. } => Err(CallFailure::Unmarked),
            Script::Fail { code, retryable, .. } => Err(CallFailure::Marked {
                // A code that is no text is malformed, as an empty one is.
                code: code.as_str().unwrap_or_default().to_owned(),
                retryable: *retryable == Value::Bool(true),
                retry_after_seconds: None,
            }),
        }
    }
}

fn json<T: serde::Serialize>(result: Result<T, Error>) -> Result<Value, Error> {
    result.map(|value| serde_json::to_value(value).expect("our types serialise"))
}
