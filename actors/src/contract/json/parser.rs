//! The reading itself.
//!
//! Owns the grammar and its refusals. Must not know any document.

use super::{DEPTH_MAX, INTEGER_DIGITS_MAX, Integer, JsonInvalid, Object, Value};

/// Members an object gets room for at once; the contract's documents have about as many.
const MEMBERS: usize = 8;

/// Where the reading of a text is.
pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
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

    pub(super) fn white_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    pub(super) fn value(&mut self, depth: usize) -> Result<Value, JsonInvalid> {
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
        let mut members = Vec::with_capacity(MEMBERS);
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
