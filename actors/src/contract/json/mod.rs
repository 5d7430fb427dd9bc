//! JSON as the contract reads it (1.2).
//!
//! Owns the parser and the value it makes. Must not know any document.
//!
//! Its own parser, because the common ones answer differently where it matters here: they keep the
//! last of repeated keys, turn long integers into floats, or accept what cannot be printed again.
//! Refused: repeated keys at any depth, lone surrogates, numbers that overflow, a byte order mark,
//! raw control characters in strings, integers over [`INTEGER_DIGITS_MAX`] digits, nesting over
//! [`DEPTH_MAX`], anything after the value.

mod parser;

use parser::Parser;
use serde::{Serialize, Serializer};
use std::cmp::Ordering;
use std::fmt;

/// Digits an integer may have, its sign not counted (contract 1.2).
pub const INTEGER_DIGITS_MAX: usize = 4300;
/// Nesting this parser follows. No document of the contract nests deeper than five levels.
pub const DEPTH_MAX: usize = 64;

/// A JSON value. Integers stay integers, however long; objects are sorted by key.
#[derive(Clone, PartialEq)]
pub enum Value {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number without fraction or exponent.
    Integer(Integer),
    /// Any other number; finite.
    Float(f64),
    /// A string.
    String(String),
    /// A list.
    Array(Vec<Value>),
    /// An object.
    Object(Object),
}

/// An integer that keeps every digit.
#[derive(Clone, PartialEq, Eq)]
pub enum Integer {
    /// One that fits.
    Small(i64),
    /// One that does not: its digits, with a minus sign where negative.
    Large(Box<str>),
}

/// An object: keys in code point order, each once.
#[derive(Clone, PartialEq, Default)]
pub struct Object(Vec<(String, Value)>);

/// Bytes that are no JSON the contract accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("json_invalid")]
pub struct JsonInvalid;

impl fmt::Debug for Value {
    /// Names the kind only: a value may hold source text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Integer(_) => "integer",
            Self::Float(_) => "float",
            Self::String(_) => "string",
            Self::Array(_) => "array",
            Self::Object(_) => "object",
        })
    }
}

impl Integer {
    /// Whether it is below 0.
    #[must_use]
    pub fn is_negative(&self) -> bool {
        match self {
            Self::Small(value) => *value < 0,
            Self::Large(digits) => digits.starts_with('-'),
        }
    }
}

impl PartialOrd for Integer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Integer {
    /// By value. A large one is beyond every small one on its side of 0.
    fn cmp(&self, other: &Self) -> Ordering {
        let side =
            |large: &Self| if large.is_negative() { Ordering::Less } else { Ordering::Greater };
        match (self, other) {
            (Self::Small(left), Self::Small(right)) => left.cmp(right),
            (Self::Large(_), Self::Small(_)) => side(self),
            (Self::Small(_), Self::Large(_)) => side(other).reverse(),
            (Self::Large(left), Self::Large(right)) => {
                match (self.is_negative(), other.is_negative()) {
                    (true, false) => Ordering::Less,
                    (false, true) => Ordering::Greater,
                    (false, false) => (left.len(), left).cmp(&(right.len(), right)),
                    (true, true) => (right.len(), right).cmp(&(left.len(), left)),
                }
            }
        }
    }
}

impl Serialize for Value {
    /// Integers stay integers where a 64-bit one holds them; longer ones are written as their digits
    /// in a string, since no serialisation keeps them otherwise.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_none(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Integer(Integer::Small(value)) => serializer.serialize_i64(*value),
            Self::Integer(Integer::Large(digits)) => match digits.parse::<u64>() {
                Ok(value) => serializer.serialize_u64(value),
                Err(_) => serializer.serialize_str(digits),
            },
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::String(text) => serializer.serialize_str(text),
            Self::Array(items) => serializer.collect_seq(items),
            Self::Object(object) => serializer.collect_map(object.members()),
        }
    }
}

impl Value {
    /// Reads one value that takes up all of `bytes`.
    ///
    /// # Errors
    /// [`JsonInvalid`], whatever is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, JsonInvalid> {
        let text = std::str::from_utf8(bytes).map_err(|_| JsonInvalid)?;
        let mut parser = Parser { text, at: 0 };
        parser.white_space();
        let value = parser.value(0)?;
        parser.white_space();
        if parser.at == text.len() { Ok(value) } else { Err(JsonInvalid) }
    }

    /// The string, if it is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// The object, if it is one.
    #[must_use]
    pub fn as_object(&self) -> Option<&Object> {
        if let Self::Object(object) = self { Some(object) } else { None }
    }

    /// The list, if it is one.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Value]> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    /// The integer, if it is one and not negative and below 2^63.
    #[must_use]
    pub fn as_count(&self) -> Option<u64> {
        match self {
            Self::Integer(Integer::Small(value)) => u64::try_from(*value).ok(),
            Self::Integer(Integer::Large(_))
            | Self::Null
            | Self::Bool(_)
            | Self::Float(_)
            | Self::String(_)
            | Self::Array(_)
            | Self::Object(_) => None,
        }
    }

    /// The number, if it is one, finite and not negative: a time. Integers past 64 bits too.
    #[must_use]
    pub fn as_time(&self) -> Option<f64> {
        let seconds = match self {
            Self::Integer(Integer::Small(value)) => *value as f64,
            Self::Integer(Integer::Large(digits)) => digits.parse().ok()?,
            Self::Float(value) => *value,
            Self::Null | Self::Bool(_) | Self::String(_) | Self::Array(_) | Self::Object(_) => {
                return None;
            }
        };
        (seconds.is_finite() && seconds >= 0.0).then_some(seconds)
    }

    /// The integer, if it is one: for numbers without an upper bound.
    #[must_use]
    pub fn as_integer(&self) -> Option<&Integer> {
        if let Self::Integer(integer) = self { Some(integer) } else { None }
    }

    /// The boolean, if it is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(value) = self { Some(*value) } else { None }
    }

    /// Whether it is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}

impl Object {
    /// An object of these members, sorted.
    ///
    /// # Errors
    /// [`JsonInvalid`] for a repeated key.
    pub fn new(mut members: Vec<(String, Value)>) -> Result<Self, JsonInvalid> {
        members.sort_by(|(left, _), (right, _)| left.cmp(right));
        if members.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(JsonInvalid);
        }
        Ok(Self(members))
    }

    /// The member with this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        let place = self.0.binary_search_by(|(other, _)| other.as_str().cmp(key)).ok()?;
        Some(&self.0[place].1)
    }

    /// The string with this key; `None` when there is none or it is something else.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    /// The same object with this member replaced or added.
    #[must_use]
    pub fn with(&self, key: &str, value: Value) -> Self {
        let mut members = self.0.clone();
        match members.binary_search_by(|(other, _)| other.as_str().cmp(key)) {
            Ok(place) => members[place].1 = value,
            Err(place) => members.insert(place, (key.to_owned(), value)),
        }
        Self(members)
    }

    /// The same object without this member.
    #[must_use]
    pub fn without(&self, key: &str) -> Self {
        Self(self.0.iter().filter(|(other, _)| other != key).cloned().collect())
    }

    /// Whether the keys are exactly these, in any order.
    #[must_use]
    pub fn has_exactly(&self, keys: &[&str]) -> bool {
        self.0.len() == keys.len() && keys.iter().all(|key| self.get(key).is_some())
    }

    /// The members, sorted by key.
    pub fn members(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_contract_refuses_is_refused() {
        for text in [
            "",
            " ",
            "{",
            "[1",
            "{\"a\":1,}",
            "[1,]",
            "{\"a\":1 \"b\":2}",
            "{a:1}",
            "{'a':1}",
            "nul",
            "truefalse",
            "null x",
            "01",
            "+1",
            ".5",
            "1.",
            "1e",
            "1e+",
            "--1",
            "-",
            "NaN",
            "Infinity",
            "-Infinity",
            "1e999",
            "-1e999",
            "\"\t\"",
            "\"\n\"",
            "\"\\x41\"",
            "\"\\u12\"",
            "\"\\ud800\"",
            "\"\\udc00\"",
            "\"\\udc00\\ud800\"",
            "\"\\ud800\\u0041\"",
            "\"\\ud800x\"",
            "\u{feff}{}",
            "{\"a\":1,\"a\":2}",
            "{\"b\":{\"a\":1,\"\\u0061\":1}}",
            "\"",
            "\"\\",
        ] {
            assert_eq!(Value::parse(text.as_bytes()), Err(JsonInvalid), "{text:?}");
        }
        assert_eq!(Value::parse(b"\"\xff\""), Err(JsonInvalid));
    }

    #[test]
    fn integers_stay_integers_up_to_their_limit() {
        assert_eq!(Value::parse(b"-0"), Ok(Value::Integer(Integer::Small(0))));
        assert_eq!(Value::parse(b"-0.0").map(|v| v == Value::Float(0.0)), Ok(true));
        let longest = format!("-{}", "9".repeat(INTEGER_DIGITS_MAX));
        assert_eq!(
            Value::parse(longest.as_bytes()),
            Ok(Value::Integer(Integer::Large(longest.as_str().into())))
        );
        let longer = "9".repeat(INTEGER_DIGITS_MAX + 1);
        assert_eq!(Value::parse(longer.as_bytes()), Err(JsonInvalid));
        assert!(Value::parse(format!("0.{longer}").as_bytes()).is_ok());
    }

    #[test]
    fn nesting_ends_at_its_limit_and_never_overflows_the_stack() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(Value::parse(nested(DEPTH_MAX).as_bytes()).is_ok());
        assert_eq!(Value::parse(nested(DEPTH_MAX + 1).as_bytes()), Err(JsonInvalid));
        assert_eq!(Value::parse("[".repeat(2_000_000).as_bytes()), Err(JsonInvalid));
    }

    #[test]
    fn a_proper_pair_of_escapes_is_one_code_point() {
        assert_eq!(Value::parse(b"\"\\ud83d\\ude00\""), Ok(Value::String("\u{1f600}".to_owned())));
        assert_eq!(Value::parse(b"\"\\u0000\\uFFFF\""), Ok(Value::String("\0\u{ffff}".to_owned())));
    }

    #[test]
    fn integers_of_any_length_are_ordered_by_value() {
        let order = [
            "-100000000000000000000",
            "-99999999999999999999",
            "-5",
            "0",
            "7",
            "99999999999999999999",
            "100000000000000000000",
        ];
        let values: Vec<Value> =
            order.iter().map(|text| Value::parse(text.as_bytes()).expect("an integer")).collect();
        for pair in values.windows(2) {
            assert!(pair[0].as_integer() < pair[1].as_integer(), "{pair:?}");
            assert!(pair[1].as_integer() > pair[0].as_integer(), "{pair:?}");
        }
    }

    #[test]
    fn debug_shows_no_content() {
        let value = Value::parse(b"{\"a\":\"secret\"}").expect("an object");
        assert_eq!(format!("{value:?}"), "object");
    }

    #[test]
    fn each_kind_is_read_as_itself_and_as_nothing_else() {
        let value = |text: &str| Value::parse(text.as_bytes()).expect("it is JSON");
        let large = "9".repeat(30);
        let counts = ["7", "0", "-7", "7.0", "true", "null", &large].map(|it| value(it).as_count());
        assert_eq!(counts, [Some(7), Some(0), None, None, None, None, None]);
        let times = ["7", "0", "2.5", "-7", "-0.5", "true", "\"7\""].map(|it| value(it).as_time());
        assert_eq!(times, [Some(7.0), Some(0.0), Some(2.5), None, None, None, None]);
        assert_eq!(value(&large).as_time(), Some(1e30));
        // A whole number that no double holds is no time.
        assert_eq!(value(&"9".repeat(400)).as_time(), None);
        let flags = ["true", "false", "1", "null"].map(|it| value(it).as_bool());
        assert_eq!(flags, [Some(true), Some(false), None, None]);
        assert_eq!(
            ["null", "0", "\"\"", "[]"].map(|it| value(it).is_null()),
            [true, false, false, false]
        );
        let list = value("[1,true]");
        assert_eq!(list.as_array(), Some(&[value("1"), value("true")][..]));
        assert_eq!(value("{}").as_array(), None);
        let negative = ["-1", "0", "1", "-99999999999999999999", "99999999999999999999"]
            .map(|it| value(it).as_integer().map(Integer::is_negative));
        assert_eq!(negative, [Some(true), Some(false), Some(false), Some(true), Some(false)]);
    }

    #[test]
    fn white_space_may_stand_around_every_part() {
        let spaced = Value::parse(b" \t\r\n{ \"a\" : [ 1 , 2 ] , \"b\" : { } } ");
        assert_eq!(spaced, Value::parse(b"{\"a\":[1,2],\"b\":{}}"));
        assert!(spaced.is_ok());
    }
}
