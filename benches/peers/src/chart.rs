//! The drawings: bars for the comparison, a curve for the backlog.
//!
//! Owns what is drawn where. Must not know how the figures came about.

use crate::median::{Bar, LEASEHOLD, Point, read};
use crate::work::{Failed, failed};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const PAPER: RGBColor = RGBColor(252, 252, 250);
const INK: RGBColor = RGBColor(32, 36, 44);
const PALE: RGBColor = RGBColor(108, 114, 126);
const OURS: RGBColor = RGBColor(30, 110, 180);
const THEIRS: RGBColor = RGBColor(214, 148, 72);
const DISK: RGBColor = RGBColor(176, 182, 190);

const WIDTH: u32 = 920;
const HEAD: i32 = 84;
const ROW: i32 = 52;
const BAR: i32 = 22;
const NAMES: i32 = 150;
/// Room beside the longest bar for its value.
const VALUES: i32 = 190;

pub(crate) fn compare(lines: &Path, output: &Path) -> Result<(), Failed> {
    let bars: Vec<Bar> = read(lines)?;
    let ours = bars
        .iter()
        .find(|bar| bar.who == LEASEHOLD)
        .ok_or(Failed::Usage("there is no line of leasehold"))?;
    let height = HEAD + ROW * bars.len() as i32;
    let area = SVGBackend::new(output, (WIDTH, height.cast_unsigned())).into_drawing_area();
    area.fill(&PAPER).map_err(failed("draw"))?;
    write(&area, "Lives per second, every step durable", 30, INK, (24, 30), HPos::Left)?;
    let under = format!(
        "a life is enqueued, leased and settled; {} lives, {} side by side, {} waiting; {}; in brackets \
         times leasehold",
        grouped(ours.records),
        grouped(u64::from(ours.in_flight)),
        grouped(ours.backlog),
        rounds(ours.rounds)
    );
    write(&area, &under, 18, PALE, (24, 58), HPos::Left)?;
    let most = bars.iter().map(|bar| bar.lives_per_second).fold(0.0, f64::max);
    for (row, bar) in bars.iter().enumerate() {
        draw_bar(&area, bar, ours, HEAD + ROW * row as i32, most)?;
    }
    area.present().map_err(failed("write the drawing"))
}

fn draw_bar(area: &Area<'_>, bar: &Bar, ours: &Bar, top: i32, most: f64) -> Result<(), Failed> {
    let full = f64::from(WIDTH as i32 - NAMES - VALUES);
    let end = NAMES + (bar.lives_per_second / most * full).round().max(1.0) as i32;
    let middle = top + BAR / 2;
    let colour = match bar.who.as_str() {
        LEASEHOLD => OURS,
        "raw" | "raw-single" => DISK,
        _ => THEIRS,
    };
    let shape = Rectangle::new([(NAMES, top), (end, top + BAR)], colour.filled());
    area.draw(&shape).map_err(failed("draw"))?;
    write(area, &bar.who, 20, INK, (NAMES - 12, middle), HPos::Right)?;
    let value = format!(
        "{}  ({})",
        grouped(bar.lives_per_second.round() as u64),
        times(bar.times_leasehold)
    );
    write(area, &value, 20, INK, (end + 8, middle), HPos::Left)?;
    let mut how = bar.durability.clone();
    if bar.records != ours.records {
        how = format!("{how}; {} lives", grouped(bar.records));
    }
    write(area, &how, 15, PALE, (NAMES, top + BAR + 11), HPos::Left)
}

pub(crate) fn backlog(lines: &Path, output: &Path) -> Result<(), Failed> {
    let points: Vec<Point> = read(lines)?;
    let (first, last) = match points.as_slice() {
        [] => return Err(Failed::Usage("there is nothing to draw")),
        [first, .., last] => (first, last),
        [only] => (only, only),
    };
    let area = SVGBackend::new(output, (WIDTH, 440)).into_drawing_area();
    area.fill(&PAPER).map_err(failed("draw"))?;
    write(&area, "Time for a life, by what waits", 30, INK, (24, 30), HPos::Left)?;
    let under = format!(
        "one life out of {}, {} side by side, every step durable; {}",
        grouped(first.records),
        grouped(u64::from(first.in_flight)),
        rounds(first.rounds)
    );
    write(&area, &under, 18, PALE, (24, 58), HPos::Left)?;
    let across = (first.waiting.max(1) as f64 / 2.0)..(last.waiting.max(1) as f64 * 2.0);
    let most = points.iter().map(|point| point.microseconds_per_life).fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(&area)
        .margin_top(HEAD)
        .margin_right(40)
        .margin_bottom(16)
        .margin_left(16)
        .x_label_area_size(52)
        .y_label_area_size(64)
        .build_cartesian_2d(across.log_scale(), 0.0..most * 1.25)
        .map_err(failed("draw"))?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(PAPER)
        .axis_style(PALE)
        .label_style(("sans-serif", 17).into_font().color(&INK))
        .x_desc("records waiting, all due")
        .y_desc("microseconds per life")
        .x_label_formatter(&|waiting| grouped(waiting.round() as u64))
        .y_label_formatter(&|microseconds| format!("{microseconds:.0}"))
        .draw()
        .map_err(failed("draw"))?;
    let place = |point: &Point| (point.waiting.max(1) as f64, point.microseconds_per_life);
    chart
        .draw_series(LineSeries::new(points.iter().map(place), OURS.stroke_width(2)))
        .map_err(failed("draw"))?;
    let label = style(17, INK, HPos::Center);
    chart
        .draw_series(points.iter().map(|point| {
            EmptyElement::at(place(point))
                + Circle::new((0, 0), 5, OURS.filled())
                + Text::new(format!("{:.1}", point.microseconds_per_life), (0, -18), label.clone())
        }))
        .map_err(failed("draw"))?;
    drop(chart);
    area.present().map_err(failed("write the drawing"))
}

fn write(
    area: &Area<'_>,
    text: &str,
    size: u32,
    colour: RGBColor,
    at: (i32, i32),
    side: HPos,
) -> Result<(), Failed> {
    area.draw_text(text, &style(size, colour, side), at).map_err(failed("draw"))
}

fn style(size: u32, colour: RGBColor, side: HPos) -> TextStyle<'static> {
    let style = ("sans-serif", size).into_font().color(&colour);
    style.pos(Pos::new(side, VPos::Center))
}

fn rounds(count: usize) -> String {
    if count == 1 { "one round".to_owned() } else { format!("median of {count} rounds") }
}

/// With two digits that tell something, also where it is little.
fn times(times: f64) -> String {
    if times >= 0.1 { format!("{times:.2} ×") } else { format!("{times:.3} ×") }
}

/// 1234567 as 1,234,567.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_groups_of_three() {
        let written = [0, 999, 1_000, 20_000, 1_234_567].map(grouped);
        assert_eq!(written, ["0", "999", "1,000", "20,000", "1,234,567"]);
    }

    #[test]
    fn a_small_share_keeps_its_digits() {
        assert_eq!([times(1.0), times(0.0021)], ["1.00 ×", "0.002 ×"]);
    }
}
