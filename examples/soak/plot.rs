//! What was seen, as a drawing that stands alone.
//!
//! Owns which figures are drawn. Colours and shapes are those of the program's own pages.

use crate::watch::Sample;
use leasehold::pages::charts::{Chart, Series, bars};
use leasehold::pages::{STYLE, Tone};

/// Seconds of one bar.
const STEP: usize = 30;
/// The drawing's own units: its width, and the height of one plot and of what is below them all.
const WIDTH: usize = 460;
const PLOT: usize = 100;
const BELOW: usize = 40;

/// The drawing, as SVG.
pub(crate) fn svg(samples: &[Sample]) -> String {
    let steps: Vec<&[Sample]> = samples.chunks(STEP).collect();
    let labels: Vec<String> = steps.iter().map(|step| minute(step)).collect();
    let mean = |of: fn(&Sample) -> Option<u64>| -> Vec<f64> {
        steps.iter().map(|step| average(step.iter().filter_map(of))).collect()
    };
    let figures = [
        ("requests a second, CMS", Tone::Quiet, mean(|it| Some(it.cms_requests))),
        ("requests a second, receiver", Tone::Quiet, mean(|it| Some(it.receiver_requests))),
        ("resident memory, MB", Tone::Fine, mean(|it| it.resident_bytes.map(|it| it / 1_000_000))),
        ("open files", Tone::Fine, mean(|it| it.open_files)),
        ("seconds both sides were gone", Tone::Trouble, gone(&steps)),
    ];
    let series: Vec<Series<'_>> =
        figures.iter().map(|(name, tone, values)| Series { name, tone: *tone, values }).collect();
    let drawing = bars(&Chart {
        id: "soak",
        title: "A soak",
        description: "Requests, memory and open files of a served engine over time",
        along: "minutes; one bar is 30 seconds",
        labels: &labels,
        series: &series,
    });
    let height = PLOT * figures.len() + BELOW;
    let drawing = drawing.into_string();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"720\">\
         <style>{STYLE}</style><rect width=\"100%\" height=\"100%\" fill=\"var(--paper)\"/>{drawing}</svg>\n"
    )
}

fn minute(step: &[Sample]) -> String {
    step.first().map_or_else(String::new, |it| (it.second / 60).to_string())
}

fn gone(steps: &[&[Sample]]) -> Vec<f64> {
    steps.iter().map(|step| step.iter().filter(|it| it.shut).count() as f64).collect()
}

/// NaN, which is drawn as nothing, where there is no figure.
fn average(values: impl Iterator<Item = u64>) -> f64 {
    let (sum, count) = values.fold((0, 0), |(sum, count), value| (sum + value, count + 1));
    if count == 0 { f64::NAN } else { sum as f64 / f64::from(count) }
}
