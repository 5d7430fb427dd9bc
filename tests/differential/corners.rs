//! The documents every comparison begins with: one for each rule, and both sides of each limit.

use leasehold_actors::contract::MESSAGE_BYTES_MAX;
use leasehold_actors::contract::json::{DEPTH_MAX, INTEGER_DIGITS_MAX};

const TEXTS: &[&str] = &[
    "",
    " ",
    "null",
    "[]",
    "{}",
    " \t\r\n{ } \n",
    "\u{feff}{}",
    "{}\u{feff}",
    "{} {}",
    "[1,]",
    "{\"a\":1,}",
    "{\"a\":1,\"a\":1}",
    "[{\"b\":{\"a\":1,\"\\u0061\":2}}]",
    "{\"\u{1f600}\":1,\"\u{ffff}\":2,\"\\ud83d\\ude01\":3,\"\\uFFFE\":4,\"\u{e9}\":5,\"Z\":6}",
    "\"\\ud800\"",
    "\"\\udc00\"",
    "\"\\ud800\\ud800\\udc00\"",
    "\"\\udc00\\ud800\"",
    "\"\\ud83d\\u0041\"",
    "\"\\uD83D\\uDE00\"",
    "\"\u{7f}\u{85}\u{2028}\u{2029}\u{feff}\"",
    "\"\\u0000\\u001F\\b\\f\\n\\r\\t\\/\\\\\\\"\"",
    "\"\u{0}\"",
    "\"\t\"",
    "\"\\x41\"",
    "[NaN]",
    "[Infinity]",
    "[-Infinity]",
    "[1e400,-1e400]",
    "[-0,-0.0,0e9,0.0e-9,1e-400,-1e-400]",
    "[1e-05,0.0001,1e15,1e16,1e21,1e22,1e23,123456789012345678.0]",
    "[5e-324,4e-324,3e-324,2e-324,2.4703282292062327e-324,2.4703282292062328e-324]",
    "[2.2250738585072011e-308,2.2250738585072014e-308,1.7976931348623157e308]",
    "[1.7976931348623158e308,1.7976931348623159e308]",
    "[9007199254740993,9007199254740993.0,9007199254740992.5,0.30000000000000004]",
    "[2.98023223876953125e-08,1900000000.00390625,1125899906842624.25]",
    "[1e99999999999999999999]",
    "[0e99999999999999999999,1e-99999999999999999999,0.0e+00007]",
    "[9223372036854775807,9223372036854775808,-9223372036854775808,-9223372036854775809]",
    "[01]",
    "[1.]",
    "[\u{ff11}]",
];

/// The corner at this place. Those made here are at a limit, or no text at all.
pub(super) fn corner(place: usize) -> Option<Vec<u8>> {
    if let Some(text) = TEXTS.get(place) {
        return Some(text.as_bytes().to_vec());
    }
    let nested = |open: &str, inside: &str, close: &str, depth: usize| {
        format!("{}{inside}{}", open.repeat(depth), close.repeat(depth))
    };
    let digits = |sign: &str, count: usize| format!("{sign}{}", "7".repeat(count));
    let string = |letter: &str, count: usize| format!("\"{}\"", letter.repeat(count));
    let text = match place - TEXTS.len() {
        0 => nested("[", "", "]", DEPTH_MAX),
        1 => nested("[", "", "]", DEPTH_MAX + 1),
        2 => nested("{\"a\":", "1", "}", DEPTH_MAX),
        3 => nested("{\"a\":", "{}", "}", DEPTH_MAX),
        4 => nested("[", "", "]", 100_000),
        5 => digits("", INTEGER_DIGITS_MAX),
        6 => digits("", INTEGER_DIGITS_MAX + 1),
        7 => digits("-", INTEGER_DIGITS_MAX),
        8 => digits("-", INTEGER_DIGITS_MAX + 1),
        9 => digits("0.", INTEGER_DIGITS_MAX * 2),
        10 => digits("", INTEGER_DIGITS_MAX + 1) + "e-4300",
        11 => string("x", MESSAGE_BYTES_MAX - 2),
        12 => string("x", MESSAGE_BYTES_MAX - 1),
        // Longer as it is written than its canonical form is.
        13 => string("\\u0078", MESSAGE_BYTES_MAX / 2),
        14 => return Some(b"\"\xff\"".to_vec()),
        15 => return Some(b"\"\xed\xa0\xbd\xed\xb8\x80\"".to_vec()),
        16 => return Some(b"\"\xc0\x80\"".to_vec()),
        17 => return Some(b"\"\xf4\x90\x80\x80\"".to_vec()),
        18 => return Some(b"\"\xe2\x82\"".to_vec()),
        19 => return Some(b"{\0}\0".to_vec()),
        _ => return None,
    };
    Some(text.into_bytes())
}
