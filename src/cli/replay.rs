//! `leasehold replay`: what was in a journal at an earlier point.
//!
//! Owns how a point is written on the command line. Must not know how one is found
//! ([`crate::audit::travel`]).

use super::failure::Failed;
use super::records::{FlowName, health_lines, open, table};
use super::{Ended, pauses, print};
use crate::audit::{Past, Row, TravelError, Until};
use clap::Args;
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::control::PausedScope;
use leasehold_journal::JournalError;
use serde::Serialize;
use serde_json::{Map, Value};
use std::path::PathBuf;

/// Print the state of every record and the health of every flow at an earlier point.
///
/// A point is a place in the journal: all records up to it, none after it. Asked for by time, it is
/// the place before the first record, in the journal's order, whose own time is later; times may go
/// back, and what stands after that record is left out even if it is early enough. The sequence number
/// it stopped at is printed. Leases and due times are judged by the time that was asked for, or else by
/// that of the last record.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  leasehold replay demo-journal --until 100")]
pub(super) struct ReplayArguments {
    /// A journal's folder, the URL of one on a server (postgres://…), or an exported archive
    path: PathBuf,
    /// A sequence number, such as 1234, or a time, such as 2026-11-01T10:00:00Z or @1793527200.5
    #[arg(long, value_name = "SEQ|TIME", value_parser = until)]
    until: Until,
    /// The folder with the archives of this journal, for points that lie in them
    #[arg(long, value_name = "DIR")]
    archives: Option<PathBuf>,
    /// Another time to judge leases and due times by, in seconds since 1970
    #[arg(long, value_name = "T")]
    as_of: Option<f64>,
    /// Only this flow
    #[arg(long)]
    flow: Option<FlowName>,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// A point, as `--json` prints it.
#[derive(Debug, Serialize)]
struct Told {
    /// The last journal record that was taken.
    sequence: u64,
    /// When that happened, in seconds since 1970.
    at: Option<f64>,
    /// What leases and due times are judged by.
    as_of: f64,
    /// The last journal record there is.
    end: u64,
    /// The code of the damage behind [`Self::end`].
    damaged: Option<&'static str>,
    health: Map<String, Value>,
    /// What was paused; left out where nothing was.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    paused: Vec<PausedScope>,
    records: Vec<Row>,
}

/// Reads a point: digits alone are a sequence number, after an `@` they are seconds since 1970, and
/// everything else has to be a time as RFC 3339 writes it.
fn until(text: &str) -> Result<Until, &'static str> {
    const NO_TIME: &str = "a time is not before 1970 and written 2026-11-01T10:00:00Z or @SECONDS";
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let sequence = text.parse::<u64>();
        return sequence.map(Until::Sequence).map_err(|_| "a sequence number has 64 bits");
    }
    let seconds = match text.strip_prefix('@') {
        Some(seconds) => seconds.parse::<f64>().map_err(|_| NO_TIME)?,
        None => text.parse::<jiff::Timestamp>().map_err(|_| NO_TIME)?.as_duration().as_secs_f64(),
    };
    Timestamp::new(seconds).map(Until::Time).ok_or(NO_TIME)
}

impl From<TravelError> for Failed {
    fn from(error: TravelError) -> Self {
        match error {
            TravelError::Journal(error) => Self::Journal(error),
            TravelError::SequenceMissing { end } => Self::SequenceMissing { end },
        }
    }
}

pub(super) fn run(arguments: &ReplayArguments) -> Result<Ended, Failed> {
    let given = arguments.as_of.map(|seconds| {
        Timestamp::new(seconds).ok_or(Failed::Usage("a time is a number of seconds, not negative"))
    });
    let given = given.transpose()?;
    let source = open(&arguments.path)?.with_archives(arguments.archives.clone());
    let past = Past::read(&source, arguments.until)?;
    let told = tell(&past, given.unwrap_or(past.as_of), arguments.flow)?;
    if arguments.json {
        print::json(&told)?;
    } else {
        text(told)?;
    }
    match &past.damaged {
        None => Ok(Ended::Fine),
        Some(error) => {
            let (code, end) = (error.code(), past.end);
            eprintln!(
                "leasehold: {code}: nothing after record {end} verifies; see `leasehold audit`"
            );
            Ok(Ended::Findings)
        }
    }
}

fn tell(past: &Past, as_of: Timestamp, flow: Option<FlowName>) -> Result<Told, Failed> {
    let wanted = |name: &str| flow.is_none_or(|flow| flow.name() == name);
    let mut health = past.states.health(as_of).by_flow();
    health.retain(|name, _| wanted(name));
    Ok(Told {
        sequence: past.sequence,
        at: past.at.map(Timestamp::seconds),
        as_of: as_of.seconds(),
        end: past.end,
        damaged: past.damaged.as_ref().map(JournalError::code),
        health,
        paused: past.states.flows.controls.paused(),
        records: past.states.rows().into_iter().filter(|row| wanted(row.flow)).collect(),
    })
}

fn text(told: Told) -> Result<(), Failed> {
    let Told { sequence, at, as_of, end, .. } = told;
    print::line(&format!(
        "after record {sequence} of {end} ({}), judged as of {}",
        print::time_or_dash(at),
        print::time(as_of)
    ))?;
    told.health.iter().try_for_each(|(flow, health)| health_lines(flow, health))?;
    pauses::lines(&told.paused).iter().try_for_each(|line| print::line(line))?;
    print::line(&table(told.records).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_a_number_a_time_or_seconds() {
        let at = |seconds| Ok(Until::Time(Timestamp::new(seconds).expect("a time")));
        assert_eq!(until("0"), Ok(Until::Sequence(0)));
        assert_eq!(until("18446744073709551615"), Ok(Until::Sequence(u64::MAX)));
        assert_eq!(until("@1700000000.5"), at(1_700_000_000.5));
        assert_eq!(until("2023-11-14T22:13:20Z"), at(1_700_000_000.0));
        assert_eq!(until("2023-11-14T23:13:20.25+01:00"), at(1_700_000_000.25));
    }

    #[test]
    fn everything_else_is_no_point() {
        for text in [
            "",
            "-1",
            "1.5",
            "@",
            "@-1",
            "@nan",
            "@inf",
            "18446744073709551616",
            "2026-11-01",
            "2026-11-01T10:00:00",
            "1969-12-31T23:59:59Z",
            "yesterday",
        ] {
            assert!(until(text).is_err(), "{text}");
        }
    }
}
