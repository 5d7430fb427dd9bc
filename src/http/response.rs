//! The checks every answer passes (contract 3.1, with D19).
//!
//! Owns what a status means for trying again, and the common part of reading a body. Must not know
//! any message.

use super::transport::Answer;
use leasehold_actors::contract::canonical;
use leasehold_actors::contract::json::Value;
use leasehold_actors::contract::time::DURATION_SECONDS_MAX;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use std::time::{Duration, SystemTime};

/// Whether trying again may help: the status decides (D19).
#[must_use]
pub fn is_retryable(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500..=599)
}

/// Reads a body: an object in JSON, in its canonical form.
///
/// # Errors
/// The code of the first check that fails: `response_headers`, `response_content_type`,
/// `response_size`, `response_json`.
pub fn read_canonical(answer: &Answer, body_bytes_max: usize) -> Result<Value, &'static str> {
    for name in [CONTENT_TYPE, CONTENT_LENGTH] {
        if answer.headers.get_all(name).iter().count() > 1 {
            return Err("response_headers");
        }
    }
    let value = read_json(answer, body_bytes_max)?;
    let canonical =
        value.as_object().is_some() && canonical::print(&value).as_bytes() == answer.body;
    if canonical { Ok(value) } else { Err("response_json") }
}

/// Reads a body: an object in JSON, in whatever form. No header may be there twice.
///
/// # Errors
/// The code of the first check that fails: `response_headers`, `response_content_type`,
/// `response_size`, `response_json`, and `response_binding` for JSON that is no object.
pub fn read_object(answer: &Answer, body_bytes_max: usize) -> Result<Value, &'static str> {
    if answer.headers.len() != answer.headers.keys_len() {
        return Err("response_headers");
    }
    let value = read_json(answer, body_bytes_max)?;
    if value.as_object().is_some() { Ok(value) } else { Err("response_binding") }
}

/// Content type, size, then JSON.
fn read_json(answer: &Answer, body_bytes_max: usize) -> Result<Value, &'static str> {
    if !is_json(&answer.headers) {
        return Err("response_content_type");
    }
    let length = answer.body.len();
    if length == 0 || length > body_bytes_max || !length_agrees(&answer.headers, length) {
        return Err("response_size");
    }
    Value::parse(&answer.body).map_err(|_| "response_json")
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()) else {
        return false;
    };
    let plain: String = value.to_ascii_lowercase().chars().filter(|c| *c != ' ').collect();
    matches!(plain.as_str(), "application/json" | "application/json;charset=utf-8")
}

fn length_agrees(headers: &HeaderMap, length: usize) -> bool {
    match headers.get(CONTENT_LENGTH) {
        None => true,
        Some(value) => {
            let bytes = value.as_bytes();
            !bytes.is_empty()
                && bytes.iter().all(u8::is_ascii_digit)
                && value.to_str().is_ok_and(|text| text.parse() == Ok(length))
        }
    }
}

/// What the other side asks to wait, in seconds: a number, or a date after `now_seconds`. Nothing for
/// what is negative, in the past, malformed or not there; never more than a day.
#[must_use]
pub fn retry_after_seconds(headers: &HeaderMap, now_seconds: f64) -> Option<f64> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let seconds = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse::<f64>().ok()?
    } else {
        let date = httpdate::parse_http_date(text).ok()?;
        let now =
            SystemTime::UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(now_seconds).ok()?)?;
        date.duration_since(now).ok()?.as_secs_f64()
    };
    (seconds > 0.0).then(|| seconds.min(DURATION_SECONDS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;

    fn answer(headers: &[(&'static str, &str)], body: &[u8]) -> Answer {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).expect("a header value"));
        }
        Answer { status: 200, headers: map, body: body.to_vec() }
    }

    #[test]
    fn the_first_check_that_fails_gives_the_code() {
        let json = ("content-type", "application/json");
        type Case<'a> = (&'a [(&'static str, &'a str)], &'a [u8], Option<&'a str>);
        let cases: [Case<'_>; 14] = [
            (&[json], b"{\"a\":1}", None),
            (&[("content-type", "Application/JSON; charset=UTF-8")], b"{}", None),
            (&[json, ("content-length", "2")], b"{}", None),
            (&[json, json], b"{}", Some("response_headers")),
            (
                &[json, ("content-length", "2"), ("content-length", "2")],
                b"{}",
                Some("response_headers"),
            ),
            (&[("content-type", "text/html")], b"{}", Some("response_content_type")),
            (&[], b"{}", Some("response_content_type")),
            (&[json], b"", Some("response_size")),
            (&[json, ("content-length", "3")], b"{}", Some("response_size")),
            (&[json, ("content-length", "+2")], b"{}", Some("response_size")),
            (&[json], b"{\"a\":123}", Some("response_size")),
            (&[json], b"[]", Some("response_json")),
            (&[json], b"{ }", Some("response_json")),
            (&[json], b"\xef\xbb\xbf{}", Some("response_json")),
        ];
        for (headers, body, code) in cases {
            let read = read_canonical(&answer(headers, body), 8);
            assert_eq!(read.err(), code, "{headers:?} {body:?}");
        }
    }

    #[test]
    fn h6_an_object_need_not_be_canonical_and_no_header_may_be_repeated() {
        let json = ("content-type", "application/json");
        type Case<'a> = (&'a [(&'static str, &'a str)], &'a [u8], Option<&'a str>);
        let cases: [Case<'_>; 11] = [
            (&[json], b"{ }", None),
            (&[json, ("server", "x")], b"{\"b\":1}", None),
            (&[json, ("server", "x"), ("server", "x")], b"{}", Some("response_headers")),
            (
                &[("content-type", "text/html"), ("server", "x"), ("server", "y")],
                b"",
                Some("response_headers"),
            ),
            (&[("content-type", "text/html")], b"", Some("response_content_type")),
            (&[json], b"", Some("response_size")),
            (&[json], b"{\"a\":123}", Some("response_size")),
            (&[json, ("content-length", "3")], b"[]", Some("response_size")),
            (&[json], b"{\"a\":", Some("response_json")),
            (&[json], b"\xef\xbb\xbf{}", Some("response_json")),
            (&[json], b"[]", Some("response_binding")),
        ];
        for (headers, body, code) in cases {
            let read = read_object(&answer(headers, body), 8);
            assert_eq!(read.err(), code, "{headers:?} {body:?}");
        }
        let repeated = read_object(&answer(&[json], b"{\"a\":1,\"a\":2}"), 64);
        assert_eq!(repeated.err(), Some("response_json"));
    }

    #[test]
    fn d19_only_these_statuses_are_worth_another_try() {
        for status in 100..=999 {
            let expected = matches!(status, 408 | 425 | 429) || (500..600).contains(&status);
            assert_eq!(is_retryable(status), expected, "{status}");
        }
    }

    #[test]
    fn d19_retry_after_is_read_in_both_forms_and_never_trusted() {
        let now = 784_111_777.0; // Sun, 06 Nov 1994 08:49:37 GMT
        for (value, seconds) in [
            ("120", Some(120.0)),
            (" 7 ", Some(7.0)),
            ("0", None),
            ("-5", None),
            ("1.5", None),
            ("", None),
            ("soon", None),
            ("99999999999999999999999999999999999999999", Some(86_400.0)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60.0)),
            ("Sunday, 06-Nov-94 08:49:47 GMT", Some(10.0)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 08:00:00 GMT", None),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(86_400.0)),
        ] {
            let headers = answer(&[("retry-after", value)], b"").headers;
            assert_eq!(retry_after_seconds(&headers, now), seconds, "{value:?}");
        }
        assert_eq!(retry_after_seconds(&HeaderMap::new(), now), None);
    }
}
