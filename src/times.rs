//! Times as people read them.
//!
//! Owns how a time and a stretch of time are written. Must not read a clock.

use jiff::Timestamp;

/// Seconds since 1970 as UTC, to the second.
#[must_use]
pub fn to_the_second(seconds: f64) -> String {
    // Out of the calendar's range, the number is what there is to show.
    Timestamp::from_second(seconds as i64)
        .map_or_else(|_| format!("{seconds}"), |at| at.to_string())
}

/// Seconds since 1970 as UTC, to the millisecond where there is more than whole seconds.
#[must_use]
pub fn exact(seconds: f64) -> String {
    Timestamp::from_millisecond((seconds * 1_000.0).round() as i64)
        .map_or_else(|_| format!("{seconds}"), |at| at.to_string())
}

/// How far a time is from now: `in 4 min 10 s`, `now`, `3 days 2 h ago`.
#[must_use]
pub fn relative(seconds: f64, now_seconds: f64) -> String {
    let away = seconds - now_seconds;
    if away == 0.0 {
        "now".to_owned()
    } else if away > 0.0 {
        format!("in {}", stretch(away))
    } else {
        format!("{} ago", stretch(-away))
    }
}

/// A stretch of time in its two largest units, not rounded up.
#[must_use]
pub fn stretch(seconds: f64) -> String {
    const UNITS: [(f64, &str, f64, &str); 3] =
        [(86_400.0, "d", 3_600.0, "h"), (3_600.0, "h", 60.0, "min"), (60.0, "min", 1.0, "s")];
    if seconds < 1.0 {
        return "less than a second".to_owned();
    }
    for (large, large_name, small, small_name) in UNITS {
        if seconds >= large {
            let first = (seconds / large).floor();
            let second = (seconds % large / small).floor();
            return if second > 0.0 {
                format!("{first} {large_name} {second} {small_name}")
            } else {
                format!("{first} {large_name}")
            };
        }
    }
    format!("{} s", seconds.floor())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_shows_milliseconds_only_where_it_has_some() {
        assert_eq!(exact(1_700_000_000.0), "2023-11-14T22:13:20Z");
        assert_eq!(exact(1_700_000_000.25), "2023-11-14T22:13:20.25Z");
        assert_eq!(to_the_second(1_700_000_000.25), "2023-11-14T22:13:20Z");
        assert_eq!(
            [exact(1e300), to_the_second(1e300)],
            [format!("{}", 1e300), format!("{}", 1e300)]
        );
    }

    #[test]
    fn a_distance_is_told_in_its_two_largest_units() {
        for (away, text) in [
            (0.0, "now"),
            (0.5, "in less than a second"),
            (-1.0, "1 s ago"),
            (59.9, "in 59 s"),
            (60.0, "in 1 min"),
            (250.0, "in 4 min 10 s"),
            (-3_600.0, "1 h ago"),
            (7_380.0, "in 2 h 3 min"),
            (-270_000.0, "3 d 3 h ago"),
        ] {
            assert_eq!(relative(1_000_000.0 + away, 1_000_000.0), text);
        }
    }
}
