//! Events in stretches of time, as many as a drawing has room for.
//!
//! Owns how long a stretch is and what it is called.

use crate::times;

/// Stretches at most.
const STRETCHES_MAX: f64 = 36.0;
/// The lengths there are, in seconds.
const LENGTHS: [f64; 13] = [
    1.0,
    5.0,
    15.0,
    60.0,
    300.0,
    900.0,
    3_600.0,
    3.0 * 3_600.0,
    6.0 * 3_600.0,
    86_400.0,
    7.0 * 86_400.0,
    30.0 * 86_400.0,
    365.0 * 86_400.0,
];

/// When what happened, in seconds since 1970 and in the journal's order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Activity {
    /// Records that were registered.
    pub registered: Vec<f64>,
    /// Records that were settled.
    pub settled: Vec<f64>,
    /// Records that failed.
    pub failed: Vec<f64>,
}

/// Stretches of one length, side by side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stretches {
    start_seconds: f64,
    length_seconds: f64,
    count: usize,
}

impl Stretches {
    /// Stretches from the first to the last time, both included.
    #[must_use]
    pub fn over(first_seconds: f64, last_seconds: f64) -> Self {
        let span = (last_seconds - first_seconds).max(0.0);
        let longest = LENGTHS[LENGTHS.len() - 1];
        let length = LENGTHS
            .into_iter()
            .find(|length| span / length < STRETCHES_MAX - 1.0)
            // Times may lie as far apart as numbers go.
            .unwrap_or_else(|| (span / (STRETCHES_MAX - 1.0)).max(longest));
        let start = (first_seconds / length).floor() * length;
        let count = ((last_seconds - start) / length).floor().clamp(0.0, STRETCHES_MAX - 1.0);
        Self { start_seconds: start, length_seconds: length, count: count as usize + 1 }
    }

    /// How many of these times lie in each of them.
    #[must_use]
    pub fn count(&self, times: &[f64]) -> Vec<f64> {
        let mut counts = vec![0.0; self.count];
        for time in times {
            let place = ((time - self.start_seconds) / self.length_seconds).floor().max(0.0);
            counts[(place as usize).min(self.count - 1)] += 1.0;
        }
        counts
    }

    /// What each of them is called: when it begins.
    #[must_use]
    pub fn labels(&self) -> Vec<String> {
        let begins = |number: usize| self.start_seconds + self.length_seconds * number as f64;
        let (first, last) =
            (times::to_the_second(begins(0)), times::to_the_second(begins(self.count - 1)));
        let same_day = first.get(..10) == last.get(..10);
        let label = |number: usize| {
            let text = times::to_the_second(begins(number));
            // As RFC 3339 writes it, unless it is out of the calendar's range.
            let (Some(day), Some(time), 20) = (text.get(5..10), text.get(11..19), text.len())
            else {
                return text;
            };
            let minutes = &time[..5];
            if self.length_seconds >= 86_400.0 {
                text[..10].to_owned()
            } else if !same_day {
                format!("{day} {minutes}")
            } else if self.length_seconds < 60.0 {
                time.to_owned()
            } else {
                minutes.to_owned()
            }
        };
        (0..self.count).map(label).collect()
    }

    /// The length of one, in words.
    #[must_use]
    pub fn length(&self) -> String {
        times::stretch(self.length_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: f64 = 1_700_000_000.0;

    #[test]
    fn every_time_is_counted_once_whatever_the_span() {
        let spans =
            [0.0, 0.4, 1.0, 34.9, 35.0, 3_600.0, 86_400.0, 1e7, 1e12, 1e300, f64::MAX - START];
        for span in spans {
            let stretches = Stretches::over(START, START + span);
            let times: Vec<f64> =
                (0..=100).map(|part| START + span * (f64::from(part) / 100.0)).collect();
            let counts = stretches.count(&times);
            assert_eq!(counts.iter().sum::<f64>(), 101.0, "{span}");
            assert!(counts.len() <= 36, "{span}: {}", counts.len());
            assert_eq!(stretches.labels().len(), counts.len(), "{span}");
            assert!(counts[0] >= 1.0 && counts[counts.len() - 1] >= 1.0, "{span}");
        }
    }

    #[test]
    fn labels_tell_no_more_than_what_differs() {
        let first = |span| Stretches::over(START, START + span).labels().remove(0);
        assert_eq!(first(10.0), "22:13:20");
        assert_eq!(first(1_200.0), "22:13");
        assert_eq!(first(86_400.0), "11-14 22:00");
        assert_eq!(first(86_400.0 * 30.0), "2023-11-14");
    }
}
