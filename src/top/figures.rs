//! How figures read in a terminal: short, and of a known width.

use ratatui::text::Span;

/// Bars from a little to the most; nothing at all is a dot.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A length of time in its largest unit, at most five characters.
pub(super) fn age(seconds: f64) -> String {
    match seconds.max(0.0) {
        seconds if seconds < 100.0 => format!("{}s", seconds.floor()),
        seconds if seconds < 6_000.0 => format!("{}min", (seconds / 60.0).floor()),
        seconds if seconds < 172_800.0 => format!("{}h", (seconds / 3_600.0).floor()),
        seconds => format!("{}d", (seconds / 86_400.0).floor().min(9_999.0)),
    }
}

/// A count, at most five characters.
pub(super) fn count(count: u64) -> String {
    match count {
        count if count < 10_000 => count.to_string(),
        count if count < 10_000_000 => format!("{}k", count / 1_000),
        count if count < 10_000_000_000 => format!("{}M", count / 1_000_000),
        count => format!("{}G", (count / 1_000_000_000).min(9_999)),
    }
}

/// Buckets as bars, the newest on the right, in at most `width` characters; where there are more
/// buckets than that, several make one bar.
pub(super) fn sparkline(buckets: &[u64], width: usize) -> String {
    let each = buckets.len().div_ceil(width.max(1)).max(1);
    // From the newest on, so that it is the oldest bar that holds fewer buckets.
    let mut sums: Vec<u64> = buckets.rchunks(each).map(sum).collect();
    sums.reverse();
    let most = sums.iter().copied().max().unwrap_or(0);
    sums.iter().map(|sum| bar(*sum, most)).collect()
}

fn bar(sum: u64, most: u64) -> char {
    if sum == 0 {
        return '.';
    }
    let last = BARS.len() - 1;
    let place = (sum as f64 / most as f64 * last as f64).round() as usize;
    BARS[place.min(last)]
}

/// A sum that ends at the largest number there is: the buckets come from outside.
pub(super) fn sum(buckets: &[u64]) -> u64 {
    buckets.iter().fold(0, |sum, bucket| sum.saturating_add(*bucket))
}

/// Columns a text takes on a terminal.
pub(super) fn columns(text: &str) -> usize {
    Span::raw(text).width()
}

/// A text in lines of at most `width` columns, broken at spaces, and within words that are longer.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split(' ') {
        let gap = if line.is_empty() { "" } else { " " };
        if columns(&line) + gap.len() + columns(word) <= width {
            line.push_str(gap);
            line.push_str(word);
            continue;
        }
        if !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        for character in word.chars() {
            let wide = columns(character.encode_utf8(&mut [0; 4]));
            if !line.is_empty() && columns(&line) + wide > width {
                lines.push(std::mem::take(&mut line));
            }
            line.push(character);
        }
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_counts_read_in_their_largest_unit_and_never_take_more_than_five_characters() {
        for (seconds, text) in [
            (-1.0, "0s"),
            (99.9, "99s"),
            (100.0, "1min"),
            (5_999.0, "99min"),
            (6_000.0, "1h"),
            (172_799.0, "47h"),
            (172_800.0, "2d"),
            (1e300, "9999d"),
            (f64::NAN, "0s"),
        ] {
            assert_eq!(age(seconds), text);
        }
        for (number, text) in
            [(0, "0"), (9_999, "9999"), (10_000, "10k"), (9_999_999, "9999k"), (u64::MAX, "9999G")]
        {
            assert_eq!(count(number), text);
        }
    }

    #[test]
    fn bars_show_the_newest_on_the_right_and_none_only_for_nothing() {
        assert_eq!(sparkline(&[0, 1, 100], 10), ".▁█");
        assert_eq!(sparkline(&[4, 4, 0, 0, 0, 8], 3), "█.█");
        assert_eq!(sparkline(&[8, 0, 0, 0, 4], 3), "█.▅", "the oldest bar holds one bucket");
        assert_eq!(sparkline(&[], 3), "");
        assert_eq!(sparkline(&[1; 60], 0).chars().count(), 1);
        assert_eq!(sparkline(&[u64::MAX, u64::MAX], 1), "█");
    }

    #[test]
    fn a_text_is_broken_at_spaces_and_in_words_that_are_too_long() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("abcdefgh i", 3), ["abc", "def", "gh", "i"]);
        assert_eq!(wrapped("漢字 x", 3), ["漢", "字", "x"]);
        assert_eq!(wrapped("", 3), [""]);
        assert_eq!(wrapped("ab", 0), ["a", "b"], "no width at all ends too");
    }
}
