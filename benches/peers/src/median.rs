//! From the lines of several rounds to one line each, the median.
//!
//! Owns the lines that are kept and drawn. Must not know how they came about.

use crate::work::{Failed, Line, failed};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What the measured library is called among its peers.
pub(crate) const LEASEHOLD: &str = "leasehold";
const LEASEHOLD_DURABILITY: &str = "flush and fdatasync for each group of commits";

/// A line of `leasehold bench`.
#[derive(Debug, Clone, Deserialize)]
struct Figure {
    figure: String,
    value: f64,
    records: u64,
    backlog: u64,
    in_flight: u16,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Measured {
    Ours(Figure),
    Theirs(Line),
}

/// One bar of the comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bar {
    pub(crate) who: String,
    pub(crate) lives_per_second: f64,
    pub(crate) times_leasehold: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p50_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p99_seconds: Option<f64>,
    pub(crate) rounds: usize,
    pub(crate) records: u64,
    pub(crate) backlog: u64,
    pub(crate) in_flight: u16,
    pub(crate) durability: String,
}

/// One point of the backlog's curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    pub(crate) who: String,
    pub(crate) waiting: u64,
    pub(crate) lives_per_second: f64,
    pub(crate) microseconds_per_life: f64,
    pub(crate) rounds: usize,
    pub(crate) records: u64,
    pub(crate) in_flight: u16,
}

pub(crate) fn compare(lines: &Path) -> Result<(), Failed> {
    print(&bars(read(lines)?)?)
}

pub(crate) fn backlog(lines: &Path) -> Result<(), Failed> {
    print(&points(read(lines)?))
}

/// All the lines of a file.
pub(crate) fn read<T: DeserializeOwned>(file: &Path) -> Result<Vec<T>, Failed> {
    let text = std::fs::read_to_string(file).map_err(failed("read the lines"))?;
    text.lines()
        .map(|line| serde_json::from_str(line).map_err(failed("understand a line")))
        .collect()
}

fn print<T: Serialize>(lines: &[T]) -> Result<(), Failed> {
    for line in lines {
        println!("{}", serde_json::to_string(line).map_err(failed("print a line"))?);
    }
    Ok(())
}

/// The fastest first.
fn bars(measured: Vec<Measured>) -> Result<Vec<Bar>, Failed> {
    let mut rounds: Vec<Vec<Bar>> = Vec::new();
    for measured in measured {
        let bar = match measured {
            Measured::Ours(figure) => match figure.figure.as_str() {
                "lives_per_second" => our_bar(&figure),
                "life_p50_seconds" => {
                    note_median_life(&mut rounds, figure.value)?;
                    continue;
                }
                _ => continue,
            },
            Measured::Theirs(line) => their_bar(line),
        };
        match rounds.iter_mut().find(|of| of.iter().all(|other| other.who == bar.who)) {
            Some(of) => of.push(bar),
            None => rounds.push(vec![bar]),
        }
    }
    let mut bars: Vec<Bar> = rounds.into_iter().map(median_bar).collect();
    let ours = bars
        .iter()
        .find(|bar| bar.who == LEASEHOLD)
        .map(|bar| bar.lives_per_second)
        .ok_or(Failed::Usage("there is no line lives_per_second of leasehold bench"))?;
    for bar in &mut bars {
        bar.times_leasehold = bar.lives_per_second / ours;
    }
    bars.sort_by(|left, right| right.lives_per_second.total_cmp(&left.lives_per_second));
    Ok(bars)
}

fn our_bar(figure: &Figure) -> Bar {
    Bar {
        who: LEASEHOLD.to_owned(),
        lives_per_second: figure.value,
        times_leasehold: 1.0,
        p50_seconds: None,
        p99_seconds: None,
        rounds: 1,
        records: figure.records,
        backlog: figure.backlog,
        in_flight: figure.in_flight,
        durability: LEASEHOLD_DURABILITY.to_owned(),
    }
}

/// The median life of the round whose rate was printed last.
fn note_median_life(rounds: &mut [Vec<Bar>], seconds: f64) -> Result<(), Failed> {
    let ours = rounds.iter_mut().flatten().rfind(|bar| bar.who == LEASEHOLD);
    ours.ok_or(Failed::Usage("a life_p50_seconds comes before its lives_per_second"))?
        .p50_seconds = Some(seconds);
    Ok(())
}

fn their_bar(line: Line) -> Bar {
    Bar {
        who: line.peer,
        lives_per_second: line.lives_per_second,
        times_leasehold: f64::NAN,
        p50_seconds: Some(line.p50_seconds),
        p99_seconds: Some(line.p99_seconds),
        rounds: 1,
        records: line.records,
        backlog: line.backlog,
        in_flight: line.in_flight,
        durability: line.durability,
    }
}

/// The round in the middle by its rate, whole: its own times of a life, not those of other rounds.
fn median_bar(mut rounds: Vec<Bar>) -> Bar {
    rounds.sort_by(|left, right| left.lives_per_second.total_cmp(&right.lives_per_second));
    let count = rounds.len();
    Bar { rounds: count, ..rounds.swap_remove((count - 1) / 2) }
}

/// By the number that waits.
fn points(measured: Vec<Measured>) -> Vec<Point> {
    let mut figures: Vec<Figure> = measured
        .into_iter()
        .filter_map(|measured| match measured {
            Measured::Ours(figure) => Some(figure),
            Measured::Theirs(_) => None,
        })
        .filter(|figure| figure.figure == "lives_per_second")
        .collect();
    figures.sort_by(|left, right| {
        left.backlog.cmp(&right.backlog).then(left.value.total_cmp(&right.value))
    });
    figures
        .chunk_by(|left, right| left.backlog == right.backlog)
        .map(|rounds| {
            let figure = &rounds[(rounds.len() - 1) / 2];
            Point {
                who: LEASEHOLD.to_owned(),
                waiting: figure.backlog,
                lives_per_second: figure.value,
                microseconds_per_life: 1e6 / figure.value,
                rounds: rounds.len(),
                records: figure.records,
                in_flight: figure.in_flight,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<Measured> {
        text.lines().map(|line| serde_json::from_str(line).expect("a line")).collect()
    }

    fn ours(rate: f64, backlog: u64) -> String {
        format!(
            "{{\"figure\":\"lives_per_second\",\"value\":{rate},\"unit\":\"1/s\",\"records\":9,\
             \"backlog\":{backlog},\"in_flight\":2}}\n"
        )
    }

    fn theirs(peer: &str, rate: f64) -> String {
        format!(
            "{{\"peer\":\"{peer}\",\"lives_per_second\":{rate},\"p50_seconds\":{},\
             \"p99_seconds\":1,\"records\":9,\"backlog\":0,\"in_flight\":2,\"durability\":\"d\"}}\n",
            1.0 / rate
        )
    }

    #[test]
    fn each_bar_is_the_middle_round_and_the_fastest_comes_first() {
        let text = [
            ours(100.0, 0),
            theirs("raw", 400.0),
            ours(300.0, 0),
            theirs("raw", 900.0),
            ours(200.0, 0),
            theirs("raw", 800.0),
        ]
        .concat();
        let bars = bars(lines(&text)).expect("bars");
        let seen: Vec<_> =
            bars.iter().map(|bar| (bar.who.as_str(), bar.lives_per_second)).collect();
        assert_eq!(seen, [("raw", 800.0), ("leasehold", 200.0)]);
        assert_eq!((bars[0].times_leasehold, bars[0].rounds), (4.0, 3));
        assert_eq!(bars[0].p50_seconds, Some(1.0 / 800.0));
    }

    #[test]
    fn our_median_life_belongs_to_the_rate_before_it() {
        let life = |seconds| ours(seconds, 0).replace("lives_per_second", "life_p50_seconds");
        let rounds = [ours(100.0, 0), life(0.1), ours(300.0, 0), life(0.3), ours(200.0, 0)];
        let bars = bars(lines(&[rounds.concat(), life(0.2)].concat())).expect("bars");
        assert_eq!((bars[0].lives_per_second, bars[0].p50_seconds), (200.0, Some(0.2)));
        assert!(super::bars(lines(&life(0.1))).is_err());
    }

    #[test]
    fn without_our_own_line_there_is_no_comparison() {
        assert!(bars(lines(&theirs("raw", 1.0))).is_err());
    }

    #[test]
    fn points_are_sorted_by_what_waits_and_other_figures_are_left_out() {
        let other = ours(5.0, 10).replace("lives_per_second", "health_seconds");
        let points = points(lines(&[ours(50.0, 1000), ours(100.0, 10), other].concat()));
        let seen: Vec<_> =
            points.iter().map(|point| (point.waiting, point.microseconds_per_life)).collect();
        assert_eq!(seen, [(10, 10_000.0), (1000, 20_000.0)]);
    }
}
