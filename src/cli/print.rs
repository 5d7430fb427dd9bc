//! Printing: lines to stdout, times as people read them.

use super::failure::Failed;
use crate::times;
use serde::Serialize;
use std::io::Write as _;

/// Prints one line; a pipe that was closed ends the command quietly as unreadable output.
pub(super) fn line(text: &str) -> Result<(), Failed> {
    writeln!(std::io::stdout().lock(), "{text}").map_err(|_| Failed::Output("the output is closed"))
}

/// Prints lines that end where they end.
pub(super) fn text(lines: &str) -> Result<(), Failed> {
    line(lines.trim_end_matches('\n'))
}

/// Prints one JSON value on a line.
pub(super) fn json(value: &impl Serialize) -> Result<(), Failed> {
    let text =
        serde_json::to_string(value).map_err(|_| Failed::Output("the output has no form"))?;
    line(&text)
}

/// Seconds since 1970 as UTC, to the second.
pub(super) fn time(seconds: f64) -> String {
    times::to_the_second(seconds)
}

/// A time that may be missing.
pub(super) fn time_or_dash(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "-".to_owned(), time)
}
