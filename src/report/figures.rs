//! The plots of a report.

mod confidence;
mod searches;
mod verdicts;

use super::bootstrap::Rates;
use super::model::{Counted, Report};
use super::paired::Pair;
use prepose_check::audit::plot as audit;
use prepose_draw::plot::{Drawing, NARROW, Plot, WIDTH};

/// A plot with what is said about it.
pub struct Figure {
    /// Its files' name, without ending.
    pub name: &'static str,
    /// What it shows.
    pub title: String,
    /// How to read it.
    pub caption: String,
    /// Itself.
    pub drawing: Drawing,
    /// For a phone's screen.
    pub narrow: Drawing,
}

/// All plots that the report's methods give. `curves` are the risk–coverage curves, if people looked at the pictures.
pub fn all(
    report: &Report,
    rates: &[Rates],
    pairs: &[Pair],
    curves: &[(String, Vec<prepose_check::audit::curve::Point>)],
) -> Vec<Figure> {
    let mut all = Vec::new();
    let mut add = |name, caption: &str, plot: Plot| {
        let drawing = plot.draw_within(WIDTH);
        all.push(Figure {
            name,
            title: drawing.title.clone(),
            caption: caption.into(),
            drawing,
            narrow: plot.draw_within(NARROW),
        });
    };
    let checked = report.checked();
    let counted = report.counted();
    let what = counted.as_str();
    if !checked.is_empty() {
        add(
            "pass_rate",
            &format!(
                "Dots: passes of all {what}. Lines: 95 % bootstrap intervals; prompts are drawn again, not {what}."
            ),
            verdicts::pass_rate(&checked, rates),
        );
        if let Some(plot) = verdicts::differences(&checked, pairs) {
            add(
                "differences",
                "Passes more or fewer than the first method, in percentage points, on the pictures of the same prompts and seeds. Lines: \
                 95 % bootstrap intervals; the table Differences says which are more than chance.",
                plot,
            );
        }
        add(
            "coverage_accuracy",
            &format!(
                "How much the checker decides{}, and how much of that passes. Lines: 95 % bootstrap intervals.",
                match counted {
                    Counted::Pictures => "",
                    Counted::Relations => " of all relations",
                }
            ),
            verdicts::coverage_accuracy(&checked, rates, what),
        );
        add(
            "abstentions",
            &format!("What the checker says of all {what}, and where it says nothing, why."),
            verdicts::abstentions(&checked, what),
        );
        if let Some(drawing) = verdicts::counterfactual(&checked) {
            add(
                "counterfactual",
                "Pairs of prompts that say the same the other way round: by the best of their pictures as in the paper, and picture \
                 by picture with the same seed.",
                drawing,
            );
        }
        if !curves.is_empty() {
            let series: Vec<_> = curves
                .iter()
                .map(|(name, points)| audit::Series { name, points })
                .collect();
            add(
                "risk_coverage",
                "How often the checker is wrong by the word of people, and how much it decides, as the confidence τ that is asked of it grows.",
                audit::risk_coverage(&series).into(),
            );
        }
        add(
            "confidence_coverage",
            "How much stays decided if more confidence is asked for.",
            confidence::by_threshold(&checked),
        );
        add(
            "confidence_histogram",
            &format!("How sure the checker is of the {what} that it decides."),
            confidence::histogram(&checked, what),
        );
    }
    for (name, drawing) in searches::all(report) {
        let caption = "Each dot is a method; lines join searches that differ only in how many noises they try. \
                       Guided passes are not among the UNet calls.";
        add(name, caption, drawing);
    }
    all
}

fn percent(share: f64) -> f64 {
    100.0 * share
}
