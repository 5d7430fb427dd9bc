//! JSON as the contract reads it (1.2).
//!
//! Owns the parser and the value it makes. Must not know any document.
//!
//! Its own parser, because the common ones answer differently where it matters here: they keep the
//! last of repeated keys, turn long integers into floats, or accept what cannot be printed again.
//! Refused: repeated keys at any depth, lone surrogates, numbers that overflow, a byte order mark,
//! raw control characters in strings, integers over [`INTEGER_DIGITS_MAX`] digits, nesting over
//! [`DEPTH_MAX`], anything after the value.

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

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn white_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, JsonInvalid> {
        match self.peek().ok_or(JsonInvalid)? {
            b'{' => self.object(depth),
            b'[' => self.array(depth),
            b'"' => Ok(Value::String(self.string()?)),
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.literal("true", Value::Bool(true)),
            b'f' => self.literal("false", Value::Bool(false)),
            b'n' => self.literal("null", Value::Null),
            _ => Err(JsonInvalid),
        }
    }

    fn literal(&mut self, word: &str, value: Value) -> Result<Value, JsonInvalid> {
        if !self.text[self.at..].starts_with(word) {
            return Err(JsonInvalid);
        }
        self.at += word.len();
        Ok(value)
    }

    fn object(&mut self, depth: usize) -> Result<Value, JsonInvalid> {
        if depth == DEPTH_MAX {
            return Err(JsonInvalid);
        }
        self.at += 1;
        let mut members = Vec::new();
        self.white_space();
        if self.eat(b'}') {
            return Ok(Value::Object(Object::default()));
        }
        loop {
            self.white_space();
            let key = self.string()?;
            self.white_space();
            if !self.eat(b':') {
                return Err(JsonInvalid);
            }
            self.white_space();
            members.push((key, self.value(depth + 1)?));
            self.white_space();
            if self.eat(b'}') {
                return Object::new(members).map(Value::Object);
            }
            if !self.eat(b',') {
                return Err(JsonInvalid);
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, JsonInvalid> {
        if depth == DEPTH_MAX {
            return Err(JsonInvalid);
        }
        self.at += 1;
        let mut items = Vec::new();
        self.white_space();
        if self.eat(b']') {
            return Ok(Value::Array(items));
        }
        loop {
            self.white_space();
            items.push(self.value(depth + 1)?);
            self.white_space();
            if self.eat(b']') {
                return Ok(Value::Array(items));
            }
            if !self.eat(b',') {
                return Err(JsonInvalid);
            }
        }
    }

    fn string(&mut self) -> Result<String, JsonInvalid> {
        if !self.eat(b'"') {
            return Err(JsonInvalid);
        }
        let mut out = String::new();
        loop {
            let plain = self.at;
            while !matches!(self.peek(), None | Some(b'"' | b'\\' | 0..=0x1f)) {
                self.at += 1;
            }
            out.push_str(&self.text[plain..self.at]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    self.at += 1;
                    out.push(self.escape()?);
                }
                Some(_) | None => return Err(JsonInvalid),
            }
        }
    }

    fn escape(&mut self) -> Result<char, JsonInvalid> {
        let byte = self.peek().ok_or(JsonInvalid)?;
        self.at += 1;
        Ok(match byte {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.code_point(),
            _ => return Err(JsonInvalid),
        })
    }

    /// After `\u`: one code point, from one escape or from a proper pair of them.
    fn code_point(&mut self) -> Result<char, JsonInvalid> {
        let first = self.hex4()?;
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first).ok_or(JsonInvalid);
        }
        if !(self.eat(b'\\') && self.eat(b'u')) {
            return Err(JsonInvalid);
        }
        let second = self.hex4()?;
        if !(0xdc00..0xe000).contains(&second) {
            return Err(JsonInvalid);
        }
        char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)).ok_or(JsonInvalid)
    }

    fn hex4(&mut self) -> Result<u32, JsonInvalid> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4).ok_or(JsonInvalid)?;
        let mut value = 0;
        for digit in digits {
            value = value << 4 | char::from(*digit).to_digit(16).ok_or(JsonInvalid)?;
        }
        self.at += 4;
        Ok(value)
    }

    fn number(&mut self) -> Result<Value, JsonInvalid> {
        let start = self.at;
        self.eat(b'-');
        let whole = self.at;
        if self.digits() == 0 || (self.at - whole > 1 && self.text.as_bytes()[whole] == b'0') {
            return Err(JsonInvalid);
        }
        let integer_end = self.at;
        if self.eat(b'.') && self.digits() == 0 {
            return Err(JsonInvalid);
        }
        if self.eat(b'e') || self.eat(b'E') {
            if !self.eat(b'-') {
                self.eat(b'+');
            }
            if self.digits() == 0 {
                return Err(JsonInvalid);
            }
        }
        let text = &self.text[start..self.at];
        if self.at == integer_end {
            return integer(text, self.at - whole);
        }
        let value: f64 = text.parse().map_err(|_| JsonInvalid)?;
        if value.is_finite() { Ok(Value::Float(value)) } else { Err(JsonInvalid) }
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }
}

fn integer(text: &str, digits: usize) -> Result<Value, JsonInvalid> {
    if digits > INTEGER_DIGITS_MAX {
        return Err(JsonInvalid);
    }
    // `-0` reads as the integer 0, which parsing gives by itself.
    Ok(Value::Integer(match text.parse() {
        Ok(value) => Integer::Small(value),
        Err(_) => Integer::Large(text.into()),
    }))
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
    fn debug_shows_no_content() {
        let value = Value::parse(b"{\"a\":\"secret\"}").expect("an object");
        assert_eq!(format!("{value:?}"), "object");
    }
}
