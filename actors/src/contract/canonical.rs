//! The canonical form (contract 1.2): what every hash, signature and size limit is over.
//!
//! Owns the printer. It prints what Python's `json.dumps(v, ensure_ascii=False, allow_nan=False,
//! sort_keys=True, separators=(",", ":"))` prints, as UTF-8; the usual Rust printers differ in how
//! they write floats.

use super::json::{Integer, Value};
use std::fmt::Write as _;

/// Prints a value in its canonical form.
#[must_use]
pub fn print(value: &Value) -> String {
    print_into(String::new(), value)
}

/// The same into a text that has room for it.
#[must_use]
pub(crate) fn print_into(mut out: String, value: &Value) -> String {
    write(&mut out, value);
    out
}

fn write(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Integer(Integer::Small(number)) => {
            write!(out, "{number}").expect("writing to a string cannot fail");
        }
        Value::Integer(Integer::Large(digits)) => out.push_str(digits),
        Value::Float(number) => write_float(out, *number),
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                write(out, item);
            }
            out.push(']');
        }
        Value::Object(object) => {
            out.push('{');
            for (place, (key, member)) in object.members().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                write_string(out, key);
                out.push(':');
                write(out, member);
            }
            out.push('}');
        }
    }
}

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.push_str(&text[plain..at]);
        plain = at + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            0x08 => out.push_str("\\b"),
            0x09 => out.push_str("\\t"),
            0x0a => out.push_str("\\n"),
            0x0c => out.push_str("\\f"),
            0x0d => out.push_str("\\r"),
            _ => write!(out, "\\u{byte:04x}").expect("writing to a string cannot fail"),
        }
    }
    out.push_str(&text[plain..]);
    out.push('"');
}

/// The shortest digits that read back, as `d.ddde-7`; of two that are equally near, the even one, as
/// Python has it.
///
/// `{:e}` gives the shortest digits too, but of two equally near it takes the larger one. Printing the
/// exact value with the same number of digits rounds such a tie to even.
fn shortest(number: f64) -> String {
    let nearest = format!("{number:e}");
    let mantissa = nearest.split(['e', '-']).find(|part| !part.is_empty()).unwrap_or_default();
    let decimals = mantissa.len().saturating_sub(2);
    let even = format!("{number:.decimals$e}");
    if even.parse() == Ok(number) { even } else { nearest }
}

/// Python's `repr`: the shortest digits that read back; positional while the decimal exponent is
/// from -4 to 15, otherwise scientific with a sign and at least two digits.
fn write_float(out: &mut String, number: f64) {
    let scientific = shortest(number);
    let (mantissa, exponent) = scientific.split_once('e').expect("{:e} prints an e");
    let exponent: i32 = exponent.parse().expect("{:e} prints a number after the e");
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    out.push_str(sign);
    if !(-4..16).contains(&exponent) {
        let side = if exponent < 0 { '-' } else { '+' };
        write!(out, "{mantissa}e{side}{:02}", exponent.abs())
            .expect("writing to a string cannot fail");
        return;
    }
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    if exponent < 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', exponent.unsigned_abs() as usize - 1));
        out.push_str(&digits);
        return;
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        out.push_str(&digits);
        out.extend(std::iter::repeat_n('0', whole - digits.len()));
        out.push_str(".0");
    } else {
        out.push_str(&digits[..whole]);
        out.push('.');
        out.push_str(&digits[whole..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round(text: &str) -> String {
        print(&Value::parse(text.as_bytes()).expect("JSON"))
    }

    #[test]
    fn floats_are_printed_as_python_prints_them() {
        for (given, printed) in [
            ("0.0", "0.0"),
            ("-0.0", "-0.0"),
            ("1.0", "1.0"),
            ("1e0", "1.0"),
            ("0.1", "0.1"),
            ("0.0001", "0.0001"),
            ("0.00012345", "0.00012345"),
            ("0.00001", "1e-05"),
            ("1.5e-7", "1.5e-07"),
            ("1e15", "1000000000000000.0"),
            ("9999999999999998.0", "9999999999999998.0"),
            ("1e16", "1e+16"),
            ("1.2345678901234568e17", "1.2345678901234568e+17"),
            ("1.5e300", "1.5e+300"),
            ("5e-324", "5e-324"),
            ("1900000000.5", "1900000000.5"),
            ("123456.789", "123456.789"),
            ("-12.0", "-12.0"),
            ("1e100", "1e+100"),
            // Exactly between two shortest spellings: the even one.
            ("2.98023223876953125e-08", "2.9802322387695312e-08"),
            ("-2.98023223876953125e-08", "-2.9802322387695312e-08"),
            ("1900000000.00390625", "1900000000.0039062"),
            ("1125899906842624.25", "1125899906842624.2"),
            ("9007199254740993.0", "9007199254740992.0"),
            ("5e-324", "5e-324"),
            ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ] {
            assert_eq!(round(given), printed, "{given}");
        }
    }

    #[test]
    fn keys_are_sorted_by_code_point_at_every_depth() {
        assert_eq!(
            round("{\"\u{1f600}\":1,\"\u{ffff}\":{\"b\":1,\"a\":2},\"é\":3,\"a\":4,\"Z\":5}"),
            "{\"Z\":5,\"a\":4,\"é\":3,\"\u{ffff}\":{\"a\":2,\"b\":1},\"\u{1f600}\":1}"
        );
    }

    #[test]
    fn only_quotes_backslashes_and_controls_are_escaped() {
        assert_eq!(
            round(r#""\"\\\/\b\t\n\f\r\u0001\u001f\u007f\u2028\u00e9""#),
            "\"\\\"\\\\/\\b\\t\\n\\f\\r\\u0001\\u001f\u{7f}\u{2028}é\""
        );
    }

    proptest! {
        #[test]
        fn a_finite_float_reads_back_from_its_print(bits: u64) {
            let number = f64::from_bits(bits);
            prop_assume!(number.is_finite());
            let mut out = String::new();
            write_float(&mut out, number);
            prop_assert_eq!(out.parse::<f64>().map(f64::to_bits), Ok(bits));
            prop_assert_eq!(round(&out), out);
        }

        #[test]
        fn printing_is_stable_for_any_string(text: String) {
            let printed = print(&Value::String(text.clone()));
            prop_assert_eq!(Value::parse(printed.as_bytes()), Ok(Value::String(text)));
        }
    }
}
