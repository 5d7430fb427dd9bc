//! Seeded JSON documents: sound ones, odd ones, broken ones.
//!
//! Owns which documents there are: the first ones are the corners, all others follow from the seed and
//! their place alone. Must not know what is right: no document is left out because of what it is.

use super::corners::corner;
use super::numbers::Numbers;
use leasehold_actors::contract::json::INTEGER_DIGITS_MAX;

/// Nesting of generated documents at most; the corners go further.
const GENERATED_DEPTH_MAX: u32 = 6;

/// The document at this place under this seed.
pub(crate) fn document(seed: u64, index: u64) -> Vec<u8> {
    if let Some(corner) = usize::try_from(index).ok().and_then(corner) {
        return corner;
    }
    let mut writer = Writer { numbers: Numbers::new(seed, index), out: Vec::new() };
    writer.document();
    writer.out
}

const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCXYZ0123456789 _-:,.{}[]/'#";
const ESCAPES: &[&str] = &["\\\"", "\\\\", "\\/", "\\b", "\\f", "\\n", "\\r", "\\t"];
const ODD_CHARACTERS: &[&str] = &[
    "\u{7f}", "\u{80}", "\u{85}", "\u{a0}", "\u{2028}", "\u{2029}", "\u{d7ff}", "\u{e000}",
    "\u{feff}", "\u{fffe}", "\u{ffff}", "e\u{301}",
];
const BAD_IN_STRINGS: &[&str] = &[
    "\\ud800",
    "\\udc00",
    "\\uDBFF\\uD800",
    "\\ud83d\\u0041",
    "\\ude00\\ud83d",
    "\\ud83d\\n",
    "\\ud83d\\\\ude00",
    "\\x41",
    "\\u12",
    "\\u12g4",
    "\\u+041",
    "\\u 041",
    "\\u0_41",
    "\\U0041",
    "\\'",
    "\\",
    "\t",
    "\u{0}",
];
const ODD_NUMBERS: &[&str] = &[
    "-0",
    "-0.0",
    "0e0",
    "0E+0",
    "1e-5",
    "1e21",
    "1E22",
    "5e-324",
    "1e400",
    "1e-400",
    "9007199254740993",
    "9007199254740993.0",
    "1.7976931348623158e308",
    "2.2250738585072011e-308",
];
const BAD_NUMBERS: &[&str] = &[
    "01",
    "-01",
    "+1",
    ".5",
    "1.",
    "1e",
    "1e+",
    "1.e5",
    "-",
    "--1",
    "0x10",
    "1_000",
    "NaN",
    "Infinity",
    "-Infinity",
    "\u{661}",
];
const KEYS: &[&str] = &[
    "a",
    "b",
    "Z",
    "",
    "\\u0061",
    "\u{e9}",
    "e\u{301}",
    "\u{ffff}",
    "\u{1f600}",
    "\\ud83d\\ude00",
    "\\u00e9",
    "__proto__",
];
const BAD_SPACE: &[&str] = &["\u{b}", "\u{c}", "\u{a0}", "\u{feff}", "/**/", "//\n"];

/// Writes one document.
struct Writer {
    numbers: Numbers,
    out: Vec<u8>,
}

impl Writer {
    fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn document(&mut self) {
        self.space();
        self.value(0);
        self.space();
        match self.numbers.below(16) {
            0 => self.damage(),
            1 => {
                let more = self.numbers.pick(&["x", ",", "{}", "]", "\0", "\u{feff}", " \n"]);
                self.text(more);
            }
            _ => {}
        }
    }

    fn value(&mut self, depth: u32) {
        // A document is mostly a list or an object; what is deep inside is neither.
        let least = if depth == 0 && !self.numbers.one_in(4) { 6 } else { 0 };
        let kinds = if depth < GENERATED_DEPTH_MAX { 10 } else { 6 };
        match least + self.numbers.below(kinds - least) {
            0..=2 => self.number(),
            3 | 4 => self.string(),
            5 => {
                let word = self.numbers.pick(&["null", "true", "false"]);
                self.text(word);
            }
            6 | 7 => self.array(depth),
            _ => self.object(depth),
        }
    }

    fn space(&mut self) {
        if self.numbers.one_in(4) {
            for _ in 0..self.numbers.below(3) {
                let space = self.numbers.pick(&[" ", "\t", "\n", "\r"]);
                self.text(space);
            }
        }
        if self.numbers.one_in(2000) {
            let space = self.numbers.pick(BAD_SPACE);
            self.text(space);
        }
    }

    fn array(&mut self, depth: u32) {
        self.text("[");
        for place in 0..self.numbers.below(5) {
            self.comma(place);
            self.value(depth + 1);
            self.space();
        }
        self.text("]");
    }

    fn object(&mut self, depth: u32) {
        self.text("{");
        for place in 0..self.numbers.below(5) {
            self.comma(place);
            if self.numbers.one_in(2) {
                let key = self.numbers.pick(KEYS);
                self.text("\"");
                self.text(key);
                self.text("\"");
            } else {
                self.string();
            }
            self.space();
            self.text(":");
            self.space();
            self.value(depth + 1);
            self.space();
        }
        self.text("}");
    }

    fn comma(&mut self, place: u64) {
        if place > 0 {
            self.text(",");
        }
        self.space();
    }

    fn string(&mut self) {
        self.text("\"");
        for _ in 0..self.numbers.below(8) {
            self.character();
        }
        self.text("\"");
    }

    fn character(&mut self) {
        match self.numbers.below(16) {
            0 => {
                let escape = self.numbers.pick(ESCAPES);
                self.text(escape);
            }
            1 => {
                let code = self.numbers.below(0xd800);
                self.escape(code);
            }
            2 => {
                let code = self.numbers.below(0x80);
                self.escape(code);
            }
            3 => {
                let code = self.numbers.below(0x10_0000);
                self.escape(0xd800 + (code >> 10));
                self.escape(0xdc00 + (code & 0x3ff));
            }
            4 => self.raw(0x80, 0xd800),
            5 => self.raw(0xe000, 0x1_0000),
            6 => self.raw(0x1_0000, 0x11_0000),
            7 => {
                let odd = self.numbers.pick(ODD_CHARACTERS);
                self.text(odd);
            }
            8 if self.numbers.one_in(20) => {
                let bad = self.numbers.pick(BAD_IN_STRINGS);
                self.text(bad);
            }
            _ => {
                let letter = self.numbers.pick(LETTERS);
                self.out.push(letter);
            }
        }
    }

    fn escape(&mut self, code: u64) {
        let lower = self.numbers.one_in(2);
        self.text(&if lower { format!("\\u{code:04x}") } else { format!("\\u{code:04X}") });
    }

    /// A code point from `from` up to and without `to`, as itself.
    fn raw(&mut self, from: u32, to: u32) {
        let code = from + self.numbers.below(u64::from(to - from)) as u32;
        let letter = char::from_u32(code).expect("the ranges leave the surrogates out");
        self.text(letter.encode_utf8(&mut [0; 4]));
    }

    fn number(&mut self) {
        let numbers = &mut self.numbers;
        let text = match numbers.below(13) {
            0 => numbers.below(1000).to_string(),
            1 => (numbers.draw() as i64).to_string(),
            2 => format!("-{}{}{}", numbers.draw() | 1, numbers.draw(), numbers.draw()),
            3 => format!("{:e}", finite(numbers)),
            // More digits than are needed, up to all of them: halves and near halves.
            4 => format!("{:.*e}", numbers.place(40), finite(numbers)),
            // Times with a binary fraction: half of them lie between two shortest spellings.
            5 => {
                let whole = numbers.below(4_000_000_000) as f64;
                format!("{:?}", whole + numbers.below(256) as f64 / 256.0)
            }
            6 => format!("{:e}", near_a_power_of_two(numbers)),
            7 => {
                let exponent = numbers.below(640) as i64 - 325;
                format!("{}.{}e{exponent}", numbers.below(10), numbers.draw())
            }
            8 => {
                let digits = numbers.pick(&["1", "9", "-1", "5", "123", "99999999999999999"]);
                let sign = numbers.pick(&["", "+", "-"]);
                let letter = numbers.pick(&["e", "E"]);
                format!("{digits}{letter}{sign}{}", numbers.below(30))
            }
            9 => {
                let places = 1 + numbers.place(20);
                format!("{}.{:0places$}", numbers.below(1000), numbers.below(1_000_000))
            }
            10 => numbers.pick(ODD_NUMBERS).to_owned(),
            11 if numbers.one_in(8) => numbers.pick(BAD_NUMBERS).to_owned(),
            12 if numbers.one_in(100) => "7".repeat(INTEGER_DIGITS_MAX - 1 + numbers.place(4)),
            _ => format!("{}.5", numbers.below(100)),
        };
        self.text(&text);
    }

    /// Breaks what was written, mostly.
    fn damage(&mut self) {
        for _ in 0..=self.numbers.below(3) {
            if self.out.is_empty() {
                return;
            }
            let place = self.numbers.place(self.out.len());
            let byte = self.numbers.draw() as u8;
            match self.numbers.below(5) {
                0 => {
                    self.out.remove(place);
                }
                1 => self.out.truncate(place),
                2 => self.out.insert(place, byte),
                3 => self.out[place] = byte,
                _ => self.out[place] = self.numbers.pick(b"{}[]:,\"\\-+.eE0 \n"),
            }
        }
    }
}

fn finite(numbers: &mut Numbers) -> f64 {
    loop {
        let number = f64::from_bits(numbers.draw());
        if number.is_finite() {
            return number;
        }
    }
}

/// A power of two, or the double before or after it.
fn near_a_power_of_two(numbers: &mut Numbers) -> f64 {
    let bits = if numbers.one_in(8) {
        1_u64 << numbers.below(52) // subnormal
    } else {
        (1 + numbers.below(2045)) << 52
    };
    f64::from_bits(bits + numbers.below(3) - 1)
}
