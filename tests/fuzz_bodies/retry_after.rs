//! The header `Retry-After`: eight bytes of time in front, then its value.

use leasehold::http::response::retry_after_seconds;
use leasehold_actors::contract::time::DURATION_SECONDS_MAX;
use reqwest::header::{HeaderMap, HeaderValue, RETRY_AFTER};

/// Holds for any bytes; answers in which form they were accepted.
pub(crate) fn body(data: &[u8]) -> Vec<&'static str> {
    let Some((now, value)) = data.split_first_chunk::<8>() else { return Vec::new() };
    let now = f64::from_le_bytes(*now);
    let Some(seconds) = at(value, now) else { return Vec::new() };
    assert!(seconds > 0.0 && seconds <= DURATION_SECONDS_MAX, "{seconds}");
    let spaced = [&b" "[..], value, b" "].concat();
    assert_eq!(at(&spaced, now), Some(seconds), "space around is nothing");
    if value.trim_ascii().iter().all(u8::is_ascii_digit) {
        for other in [0.0, -1.0, f64::NAN, f64::MAX] {
            assert_eq!(at(value, other), Some(seconds), "a number asks no clock");
        }
        return vec!["seconds"];
    }
    assert!(now >= 0.0, "a date is compared with a time");
    let later = at(value, now + 1.0);
    assert!(later.is_none_or(|later| later <= seconds), "{later:?} of {seconds} are left");
    assert_eq!(at(value, f64::NAN), None);
    assert_eq!(at(value, 1e12), None, "no date is that late");
    vec!["date"]
}

fn at(value: &[u8], now: f64) -> Option<f64> {
    let mut headers = HeaderMap::new();
    headers.insert(RETRY_AFTER, HeaderValue::from_bytes(value).ok()?);
    retry_after_seconds(&headers, now)
}
