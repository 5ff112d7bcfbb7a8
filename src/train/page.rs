//! The page of a training: its curves, and the same pictures over time.

use std::fmt::Write as _;

use prepose_draw::plot::svg::{escape, inline, style};
use prepose_draw::plot::{Axis, Chart, Series, Style};

use super::folder::{Folder, Settings};
use super::trainer::Step;
use crate::request::Request;

/// Points of a curve, at most.
const POINTS: usize = 400;

/// Means of so many neighbours that few enough are left.
fn thinned(steps: &[Step], value: impl Fn(&Step) -> f64) -> Vec<(f64, f64)> {
    let together = steps.len().div_ceil(POINTS).max(1);
    let mean = |steps: &[Step]| {
        let count = steps.len() as f64;
        let sum: f64 = steps.iter().map(&value).sum();
        (steps[steps.len() - 1].step as f64, sum / count)
    };
    steps.chunks(together).map(mean).collect()
}

/// The running mean over a tenth of the steps before, at least ten.
fn smoothed(steps: &[Step]) -> Vec<(f64, f64)> {
    let kept = 1.0 - 1.0 / (steps.len() as f64 / 20.0).max(10.0);
    let (mut sum, mut weight) = (0.0, 0.0);
    let means: Vec<Step> = steps
        .iter()
        .map(|step| {
            (sum, weight) = (sum * kept + step.loss, weight * kept + 1.0);
            Step {
                loss: sum / weight,
                ..*step
            }
        })
        .collect();
    thinned(&means, |step| step.loss)
}

pub(super) fn chart(title: &str, label: &str, series: Vec<Series>, last: u64) -> String {
    let values = series
        .iter()
        .flat_map(|series| series.points.iter().map(|(_, y)| *y));
    let y = Axis::from_zero(label, values.collect::<Vec<_>>(), 0.0);
    let chart = Chart {
        title: title.into(),
        x: Axis::linear("step", 0.0, (last as f64).max(1.0)),
        y,
        series,
        notes: Vec::new(),
    };
    format!("<figure>{}</figure>\n", inline(&chart.draw()))
}

/// The curves of a log.
pub(super) fn curves(log: &[Step]) -> String {
    let mut body = String::new();
    let last = log.last().map_or(0, |step| step.step);
    if !log.is_empty() {
        let losses = vec![
            Series::new("each step", thinned(log, |step| step.loss), Style::Dots, 1),
            Series::new("running mean", smoothed(log), Style::Line, 0),
        ];
        body += &chart("Loss", "loss", losses, last);
        let rates = vec![Series::new(
            "rate",
            thinned(log, |step| step.rate),
            Style::Line,
            0,
        )];
        body += &chart("Learning rate", "rate", rates, last);
        let norms = vec![Series::new(
            "norm",
            thinned(log, |step| step.norm),
            Style::Line,
            0,
        )];
        body += &chart(
            "The gradient's length, before it is clipped",
            "length",
            norms,
            last,
        );
    }
    body
}

/// The page.
pub(super) fn page(
    settings: &Settings,
    log: &[Step],
    samples: &[Request],
    folder: &Folder,
) -> String {
    let mut body = String::new();
    let last = log.last().map_or(0, |step| step.step);
    // Writing into a string cannot fail.
    let _ = write!(
        body,
        "<h1>Training of {}</h1>\n<p>{last} of {} steps, {} pictures, {} samples an epoch, {} samples a step.</p>\n",
        escape(&settings.checkpoint),
        settings.recipe.steps,
        settings.pictures,
        settings.samples,
        settings.recipe.batch * settings.recipe.accumulate,
    );
    body += &curves(log);
    for (number, request) in samples.iter().enumerate() {
        let prompt = escape(&request.prompt);
        let mut row = String::new();
        for step in 0..=last {
            if folder.has_sample(number, step, request) {
                let _ = write!(
                    row,
                    "<figure><img src=\"samples/{number:02}-{step:06}.png\" alt=\"{prompt} after {step} steps\" loading=\"lazy\"><figcaption>{step}</figcaption></figure>",
                );
            }
        }
        let _ = write!(body, "<h2>{prompt}</h2>\n<div class=\"row\">{row}</div>\n");
    }
    let recipe = serde_json::to_string_pretty(settings).unwrap_or_default();
    let _ = write!(body, "<h2>Settings</h2>\n<pre>{}</pre>\n", escape(&recipe));
    document(&format!("Training of {}", settings.checkpoint), &body)
}

/// A whole page.
pub(super) fn document(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{}</title><style>body{{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}}\
         figure{{margin:0 0 1rem}}.row{{display:flex;gap:.5rem;overflow-x:auto}}pre{{overflow-x:auto}}\n{}</style></head><body>\n{body}</body></html>\n",
        escape(title),
        style(),
    )
}
