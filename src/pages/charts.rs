//! Drawings as inline SVG: bars, lines, and a line small enough for a table.
//!
//! Owns what is drawn where. Must not know how the figures came about. Pure: the same figures are the
//! same text. Colours come from the page's style; what they tell apart is written beside them too.

use super::Tone;
use maud::{Markup, html};

/// Width of a drawing in its own units. Small enough that its texts stay readable at 400 px.
const WIDTH: f64 = 460.0;
/// Room for the numbers at the left.
const LEFT: f64 = 52.0;
/// Room after the last bar, for half of its label.
const RIGHT: f64 = 12.0;
/// Height of one plot.
const PLOT: f64 = 76.0;
/// Room above a plot, for its name.
const NAME: f64 = 24.0;
/// Room below the last plot, for labels and what they are.
const BELOW: f64 = 40.0;
/// What a character of a label takes.
const CHARACTER: f64 = 7.0;

/// Figures of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Series<'a> {
    /// What they are.
    pub name: &'a str,
    /// Their colour.
    pub tone: Tone,
    /// One for each label of the chart. One that is negative or not finite is no figure: nothing is
    /// drawn there.
    pub values: &'a [f64],
}

/// What bars and lines are drawn from.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart<'a> {
    /// A word without spaces that no other drawing of the page has.
    pub id: &'a str,
    /// What it shows, for readers who listen.
    pub title: &'a str,
    /// What can be seen in it, in a sentence.
    pub description: &'a str,
    /// What goes along the lower side.
    pub along: &'a str,
    /// Its labels, from left to right. As many are written as fit.
    pub labels: &'a [String],
    /// The figures.
    pub series: &'a [Series<'a>],
}

/// Bars: a plot for each series, one above the other, each under its own name and with its own scale.
#[must_use]
pub fn bars(chart: &Chart<'_>) -> Markup {
    let step = plot_width() / chart.labels.len().max(1) as f64;
    let gap = (step * 0.2).min(4.0);
    let height = (NAME + PLOT) * chart.series.len() as f64 + BELOW;
    let plots = chart.series.iter().enumerate().map(|(row, series)| {
        let bottom = (NAME + PLOT) * (row as f64 + 1.0);
        let most = scale([series]);
        let bars = figures(series).map(|(at, value)| (LEFT + step * at, share(value, most)));
        html! {
            text.name x=(n(LEFT)) y=(n(bottom - PLOT - 9.0)) { (series.name) }
            (upright(bottom, most))
            @for (x, tall) in bars {
                @if tall > 0.0 {
                    rect class={ "bar bar-" (series.tone.class()) } x=(n(x + gap / 2.0))
                        y=(n(bottom - tall)) width=(n(step - gap)) height=(n(tall)) {}
                }
            }
        }
    });
    let plots: Vec<Markup> = plots.collect();
    drawing(chart, height, &html! { @for plot in &plots { (plot) } }, 0.5)
}

/// Lines in one plot with one scale; a legend says which is which. Lines differ in their dashes too.
#[must_use]
pub fn lines(chart: &Chart<'_>) -> Markup {
    let bottom = NAME * chart.series.len() as f64 + PLOT * 1.8;
    let most = scale(chart.series);
    let tall = PLOT * 1.8 - 12.0;
    let step = plot_width() / chart.labels.len().saturating_sub(1).max(1) as f64;
    let place = |(at, value): (f64, f64)| (LEFT + step * at, bottom - value / most * tall);
    html! {
        (drawing(chart, bottom + BELOW, &html! {
            @for (row, series) in chart.series.iter().enumerate() {
                @let y = NAME * row as f64 + 14.0;
                path class={ "line line-" (series.tone.class()) }
                    d={ "M" (n(LEFT)) " " (n(y - 4.0)) "h34" } {}
                text.name x=(n(LEFT + 42.0)) y=(n(y)) { (series.name) }
            }
            (upright_of(bottom, tall, most))
            @for series in chart.series {
                path class={ "line line-" (series.tone.class()) } d=(path(series, place)) {}
            }
        }, 0.0))
    }
}

/// A line for a table's cell: no axes, the title says what it is. A drawing without figures is empty.
#[must_use]
pub fn sparkline(title: &str, tone: Tone, values: &[f64]) -> Markup {
    const WIDE: f64 = 100.0;
    const TALL: f64 = 20.0;
    let series = Series { name: title, tone, values };
    let most = scale([&series]);
    let step = (WIDE - 4.0) / values.len().saturating_sub(1).max(1) as f64;
    let place =
        |(at, value): (f64, f64)| (2.0 + step * at, 2.0 + (1.0 - value / most) * (TALL - 4.0));
    html! {
        svg.spark role="img" viewBox={ "0 0 " (n(WIDE)) " " (n(TALL)) } preserveAspectRatio="none" {
            title { (title) }
            path class={ "line line-" (tone.class()) } d=(path(&series, place)) {}
        }
    }
}

fn plot_width() -> f64 {
    WIDTH - LEFT - RIGHT
}

/// The figures of a series with their places, counted from 0.
fn figures<'a>(series: &'a Series<'_>) -> impl Iterator<Item = (f64, f64)> + 'a {
    let all = series.values.iter().enumerate().map(|(at, value)| (at as f64, *value));
    all.filter(|(_, value)| is_figure(*value))
}

fn is_figure(value: f64) -> bool {
    value.is_finite() && value >= 0.0
}

/// The end of the scale: 1, 2 or 5 times a power of ten, at least 1 and not below any figure.
fn scale<'a>(series: impl IntoIterator<Item = &'a Series<'a>>) -> f64 {
    let most = series.into_iter().flat_map(figures).map(|(_, value)| value).fold(1.0, f64::max);
    let power = 10f64.powf(most.log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= most).unwrap_or(10.0 * power)
}

/// How tall a bar is. The smallest figure that is not 0 can still be seen.
fn share(value: f64, most: f64) -> f64 {
    if value > 0.0 { (value / most * (PLOT - 12.0)).max(1.5) } else { 0.0 }
}

/// A path through the figures; it is interrupted where there is none.
fn path(series: &Series<'_>, place: impl Fn((f64, f64)) -> (f64, f64)) -> String {
    let mut path = String::new();
    let mut on = false;
    for (at, value) in series.values.iter().enumerate() {
        if !is_figure(*value) {
            on = false;
            continue;
        }
        let (x, y) = place((at as f64, *value));
        path.push_str(if on { "L" } else { "M" });
        path.push_str(&format!("{} {}", n(x), n(y)));
        // A figure without neighbours is a dot: round ends make it one.
        let alone = !on && series.values.get(at + 1).is_none_or(|next| !is_figure(*next));
        if alone {
            path.push_str("h0.1");
        }
        on = true;
    }
    path
}

fn upright(bottom: f64, most: f64) -> Markup {
    upright_of(bottom, PLOT - 12.0, most)
}

/// The axes of one plot, with the scale's two ends and no more.
fn upright_of(bottom: f64, tall: f64, most: f64) -> Markup {
    let top = bottom - tall;
    html! {
        path.axis d={ "M" (n(LEFT)) " " (n(top)) "V" (n(bottom)) "H" (n(WIDTH - RIGHT)) } {}
        text x=(n(LEFT - 6.0)) y=(n(top + 9.0)) text-anchor="end" { (short(most)) }
        text x=(n(LEFT - 6.0)) y=(n(bottom)) text-anchor="end" { "0" }
    }
}

/// The frame of a drawing: its title, its labels, what they are. `offset` is where in its step a label
/// stands: in the middle of a bar, at the start of a line's step.
fn drawing(chart: &Chart<'_>, height: f64, plots: &Markup, offset: f64) -> Markup {
    let (title, description) = (format!("{}-title", chart.id), format!("{}-text", chart.id));
    let labelled = format!("{title} {description}");
    html! {
        svg.chart role="img" aria-labelledby=(labelled) viewBox={ "0 0 " (n(WIDTH)) " " (n(height)) } {
            title id=(title) { (chart.title) }
            desc id=(description) { (chart.description) }
            (plots)
            @for (x, label) in labels(chart, offset) {
                text x=(n(x)) y=(n(height - BELOW + 16.0)) text-anchor="middle" { (label) }
            }
            text x=(n(LEFT + plot_width() / 2.0)) y=(n(height - 6.0)) text-anchor="middle" { (chart.along) }
        }
    }
}

/// As many labels as fit beside one another, with the middle of each. One that would reach over the
/// edge is moved inwards.
fn labels<'a>(chart: &Chart<'a>, offset: f64) -> Vec<(f64, &'a str)> {
    let count = chart.labels.len();
    let spaces = if offset > 0.0 { count } else { count.saturating_sub(1) };
    let step = plot_width() / spaces.max(1) as f64;
    let longest = chart.labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let wide = longest as f64 * CHARACTER + 10.0;
    let fit = (plot_width() / wide).floor().max(1.0) as usize;
    let every = count.div_ceil(fit).max(1);
    let half = wide / 2.0;
    chart
        .labels
        .iter()
        .enumerate()
        .step_by(every)
        .map(|(at, label)| {
            let x = LEFT + step * (at as f64 + offset);
            (x.min(WIDTH - half).max(half), label.as_str())
        })
        .collect()
}

/// A number of the scale, short.
fn short(value: f64) -> String {
    let (value, unit) = match value {
        value if value >= 1e9 => (value / 1e9, "G"),
        value if value >= 1e6 => (value / 1e6, "M"),
        value if value >= 1e3 => (value / 1e3, "k"),
        value => (value, ""),
    };
    format!("{value}{unit}")
}

/// A coordinate, to a tenth.
fn n(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels_of(count: usize) -> Vec<String> {
        (0..count).map(|at| format!("day {at}")).collect()
    }

    fn chart<'a>(labels: &'a [String], series: &'a [Series<'a>]) -> Chart<'a> {
        let (title, description) = ("records per day", "three on the first day");
        Chart { id: "days", title, description, along: "day", labels, series }
    }

    fn series<'a>(name: &'a str, values: &'a [f64]) -> Series<'a> {
        Series { name, tone: Tone::Fine, values }
    }

    #[test]
    fn the_scale_ends_at_a_round_number_that_no_figure_is_above() {
        for (most, end) in
            [(0.0, 1.0), (1.0, 1.0), (1.5, 2.0), (3.0, 5.0), (5.1, 10.0), (240.0, 500.0)]
        {
            assert_eq!(scale([&series("x", &[0.0, most])]), end, "{most}");
        }
        assert_eq!(scale([&series("x", &[f64::NAN, f64::INFINITY, -1.0])]), 1.0);
    }

    #[test]
    fn a_bar_is_drawn_for_every_figure_but_zero_and_the_smallest_is_seen() {
        let labels = labels_of(4);
        let all = [series("settled", &[1_000_000.0, 0.0, 1.0, f64::NAN])];
        let text = bars(&chart(&labels, &all)).into_string();
        assert_eq!(text.matches("<rect").count(), 2);
        assert!(text.contains("height=\"1.5\""));
        assert!(text.contains(">1M<"));
    }

    #[test]
    fn every_series_is_named_in_words_and_the_drawing_tells_what_it_shows() {
        let labels = labels_of(2);
        let all = [series("registered", &[1.0, 2.0]), series("failed", &[0.0, 1.0])];
        for text in [bars(&chart(&labels, &all)), lines(&chart(&labels, &all))] {
            let text = text.into_string();
            assert!(text.contains(">registered</text>") && text.contains(">failed</text>"));
            assert!(text.contains("<title id=\"days-title\">records per day</title>"));
            assert!(text.contains("<desc id=\"days-text\">three on the first day</desc>"));
            assert!(text.contains("aria-labelledby=\"days-title days-text\""));
        }
    }

    #[test]
    fn a_line_is_interrupted_where_there_is_no_figure_and_one_alone_is_a_dot() {
        let values = [1.0, 2.0, f64::NAN, 1.0, f64::NAN];
        let path = path(&series("x", &values), |place| place);
        assert_eq!(path, "M0 1L1 2M3 1h0.1");
    }

    #[test]
    fn only_as_many_labels_are_written_as_fit_and_none_reaches_over_the_edge() {
        let few = labels_of(3);
        assert_eq!(labels(&chart(&few, &[]), 0.5).len(), 3);
        let many = labels_of(90);
        let chart = chart(&many, &[]);
        let written = labels(&chart, 0.0);
        assert!((2..=8).contains(&written.len()), "{}", written.len());
        assert!(written.iter().all(|(x, _)| *x >= 20.0 && *x <= WIDTH - 20.0));
    }

    #[test]
    fn no_figures_and_one_figure_are_drawings_too() {
        let none: [f64; 0] = [];
        let empty = [series("x", &none)];
        for text in [bars(&chart(&[], &empty)), lines(&chart(&[], &empty))] {
            assert!(!text.into_string().contains("NaN"));
        }
        assert!(sparkline("due", Tone::Waiting, &none).into_string().contains("d=\"\""));
        assert!(sparkline("due", Tone::Waiting, &[3.0]).into_string().contains("h0.1"));
    }

    #[test]
    fn texts_in_a_drawing_are_escaped() {
        let labels = vec!["<b>".to_owned()];
        let all = [series("<i>", &[1.0])];
        let mut chart = chart(&labels, &all);
        chart.title = "</title><script>";
        let text = bars(&chart).into_string() + &lines(&chart).into_string();
        for tag in ["<b>", "<i>", "<script>"] {
            assert!(!text.contains(tag), "{tag}");
        }
    }
}
