//! JSON as the contract reads and prints it.

use leasehold_actors::contract::canonical;
use leasehold_actors::contract::json::{Integer, Value};
use leasehold_actors::contract::payload::Payload;
use leasehold_actors::contract::text::Sha256;

/// No value grows by more than this when it is printed: `1e15` becomes `1000000000000000.0`.
const GROWTH_MAX: usize = 5;

/// Holds for any bytes; answers what kind of value they are.
pub(crate) fn body(data: &[u8]) -> Vec<&'static str> {
    let Ok(value) = Value::parse(data) else {
        assert!(Payload::parse(data, usize::MAX).is_err());
        return Vec::new();
    };
    let printed = canonical::print(&value);
    assert!(printed.len() <= GROWTH_MAX * data.len());
    let again = Value::parse(printed.as_bytes()).expect("what is printed is JSON");
    assert!(again == value, "printing loses nothing");
    assert!(canonical::print(&again) == printed, "the canonical form is its own");
    limits(data, &printed);
    surroundings(data, &value);
    vec![kind(&value)]
}

/// The hash is that of what is printed; a limit is inclusive and over nothing else.
fn limits(data: &[u8], printed: &str) {
    let length = printed.len();
    let (_, payload) = Payload::parse(data, length).expect("the limit itself passes");
    assert!(payload.as_str() == printed);
    assert_eq!(payload.sha256(), Sha256::of(printed.as_bytes()));
    let (_, again) = Payload::parse(printed.as_bytes(), length).expect("it is JSON");
    assert_eq!(again.sha256(), payload.sha256(), "the hash is stable");
    assert!(Payload::parse(data, length - 1).is_err(), "one byte over the limit");
}

/// White space around a value is nothing; anything else is refused.
fn surroundings(data: &[u8], value: &Value) {
    let spaced = [&b" \t\r\n"[..], data, b"\n"].concat();
    assert!(Value::parse(&spaced).as_ref() == Ok(value));
    for (before, after) in [("\u{feff}", ""), ("", "]"), ("", "\0"), ("", ",1"), ("[", "")] {
        let more = [before.as_bytes(), data, after.as_bytes()].concat();
        assert!(Value::parse(&more).is_err(), "{before:?} before, {after:?} after");
    }
    let listed = [&b"["[..], data, b",", data, b"]"].concat();
    if let Ok(list) = Value::parse(&listed) {
        let items = list.as_array().expect("a list");
        assert!(items.len() == 2 && items.iter().all(|item| item == value));
    }
    let repeated = [&b"{\"a\":"[..], data, b",\"\\u0061\":", data, b"}"].concat();
    assert!(Value::parse(&repeated).is_err(), "a key is there once");
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Integer(Integer::Small(_)) => "integer",
        Value::Integer(Integer::Large(_)) => "long integer",
        Value::Float(number) => {
            assert!(number.is_finite());
            "float"
        }
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(object) => {
            let keys: Vec<&str> = object.members().map(|(key, _)| key).collect();
            assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "keys are sorted, each once");
            assert!(keys.iter().all(|key| object.get(key).is_some()));
            assert!(object.has_exactly(&keys));
            "object"
        }
    }
}
