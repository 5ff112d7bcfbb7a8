//! `prepose audit analyze`

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::ensure;
use prepose::audit::agreement::Agreement;
use prepose::audit::annotators::Between;
use prepose::audit::curve::{
    LEAST_STEP, Point, ZeroCoverage, curve, even_thresholds, every_threshold,
};
use prepose::audit::plot::{Series, risk_coverage};
use prepose::check::json;
use prepose::output::files::{prepare_folder, write_atomically};
use prepose::plot::svg;
use prepose_untrusted::escaped;
use serde::Serialize;

use super::super::OK;
use super::input::{Judged, Read, shown};

/// Compare the checker's verdicts with people's: confusion, coverage, risk.
///
/// Writes audit_metrics.json in the released schema (in a folder for each margin if the records have several),
/// risk_coverage.csv and risk_coverage.svg.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose audit analyze --records runs/tour --labels labels_filled.json --out analysis
  prepose audit analyze --records runs/tour --labels anna.json ben.json --out analysis    # two people: how far they agree
  prepose audit analyze --records runs/*/eval*/per_sample.jsonl --labels labels_filled.json --out analysis   # both margins")]
pub struct Args {
    #[command(flatten)]
    judged: Judged,
    /// The folder to write to.
    #[arg(short, long, value_name = "FOLDER")]
    out: PathBuf,
    /// The step between the curve's confidence thresholds, from 0.0001 to 1 [default: every confidence that occurs].
    #[arg(long, value_name = "STEP")]
    tau_step: Option<f64>,
    /// What the risk is where nothing is decided: 0 as in the released curves, or 1 as in the first of them.
    #[arg(long, value_name = "RISK", default_value = "safe")]
    zero_coverage: ZeroCoverage,
    /// Print one JSON object on standard output.
    #[arg(long)]
    json: bool,
}

/// `audit_metrics.json`, named as the released one.
#[derive(Serialize)]
struct Metrics {
    margin: f64,
    tau_sweep: Sweep,
    confusion_matrix: Agreement,
    risk_coverage_curve: Vec<Point>,
    n_samples_in_sample_csv: usize,
    n_samples_with_eval_results: usize,
    n_samples_with_human_labels: usize,
    /// How far several people agree with each other.
    annotators: Vec<Between>,
    /// How far all of them agree, if there are three or more.
    krippendorff_alpha: Option<f64>,
}

#[derive(Serialize)]
struct Sweep {
    strategy: &'static str,
    grid_step: Option<f64>,
    n_taus: usize,
}

pub fn run(args: &Args) -> anyhow::Result<u8> {
    if let Some(step) = args.tau_step {
        ensure!(
            (LEAST_STEP..=1.0).contains(&step),
            "--tau-step is {step}; it must be at least {LEAST_STEP} and at most 1"
        );
    }
    let Read {
        audit,
        between,
        alpha,
    } = args.judged.read()?;
    let total = audit.pictures.len();
    let metrics: Vec<Metrics> = audit
        .margins()
        .into_iter()
        .map(|margin| {
            let judgements = audit.judgements(margin);
            let thresholds = match args.tau_step {
                Some(step) => even_thresholds(step),
                None => every_threshold(&judgements),
            };
            Metrics {
                margin,
                tau_sweep: Sweep {
                    strategy: args.tau_step.map_or("unique", |_| "grid"),
                    grid_step: args.tau_step,
                    n_taus: thresholds.len(),
                },
                confusion_matrix: Agreement::of(&judgements),
                risk_coverage_curve: curve(&judgements, total, &thresholds, args.zero_coverage),
                n_samples_in_sample_csv: total,
                n_samples_with_eval_results: judgements.len(),
                n_samples_with_human_labels: audit.human_verdicts().count(),
                annotators: between.clone(),
                krippendorff_alpha: alpha.filter(|_| args.judged.labels.len() > 2),
            }
        })
        .collect();

    write_files(&args.out, &metrics)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        let report = serde_json::json!({ "out": args.out.to_string_lossy(), "left_out": audit.left_out, "annotators": between, "krippendorff_alpha": alpha, "margins": metrics });
        writeln!(out, "{report}")?;
        return Ok(OK);
    }
    if audit.left_out > 0 {
        writeln!(
            out,
            "pictures left out for want of a record: {}",
            audit.left_out
        )?;
    }
    write!(out, "{}", args.judged.agreement_between(&between, alpha))?;
    for one in &metrics {
        write!(out, "{}", describe(one))?;
    }
    writeln!(
        out,
        "{}: audit_metrics.json, risk_coverage.csv, risk_coverage.svg",
        escaped(&args.out.display().to_string())
    )?;
    Ok(OK)
}

/// Writes the figures of each margin and the curves into the folder `out`.
fn write_files(out: &Path, metrics: &[Metrics]) -> anyhow::Result<()> {
    prepare_folder(out)?;
    for one in metrics {
        let folder = match metrics.len() {
            1 => out.to_owned(),
            _ => out.join(format!("margin-{}", one.margin)),
        };
        prepare_folder(&folder)?;
        let text = json::to_indented(one)? + "\n";
        write_atomically(&folder.join("audit_metrics.json"), text.as_bytes())?;
    }
    write_atomically(&out.join("risk_coverage.csv"), &table(metrics)?)?;
    let names: Vec<String> = metrics
        .iter()
        .map(|m| format!("margin {}", m.margin))
        .collect();
    let series: Vec<Series> = metrics
        .iter()
        .zip(&names)
        .map(|(metrics, name)| Series {
            name,
            points: &metrics.risk_coverage_curve,
        })
        .collect();
    let svg = svg::file(&risk_coverage(&series).draw());
    write_atomically(&out.join("risk_coverage.svg"), svg.as_bytes())?;
    Ok(())
}

fn describe(metrics: &Metrics) -> String {
    let a = &metrics.confusion_matrix;
    let kappa = a.kappa.map_or("-".into(), |kappa| format!("{kappa:.4}"));
    let mut text = format!(
        "margin {}: {} labelled pictures, the checker decides {} (coverage {:.4}{})\n  \
         of {} that people decide too it is right on {} (accuracy {:.4}{}, precision {:.4}, recall {:.4}, F1 {:.4})\n  \
         agreement over all three verdicts {:.4}{}, Cohen's kappa {kappa}{}; in brackets 95 % intervals\n\n  \
         {:<14}{:>6}{:>6}{:>13}   people\n",
        metrics.margin,
        a.total_samples,
        a.total_samples - a.undecidable_checker,
        a.coverage,
        shown(a.intervals.coverage),
        a.decided_samples,
        a.true_positives + a.true_negatives,
        a.accuracy,
        shown(a.intervals.accuracy),
        a.precision,
        a.recall,
        a.f1,
        a.agreement,
        shown(a.intervals.agreement),
        shown(a.intervals.kappa),
        "checker",
        "PASS",
        "FAIL",
        "UNDECIDABLE"
    );
    for (name, [pass, fail, undecidable]) in ["PASS", "FAIL", "UNDECIDABLE"]
        .into_iter()
        .zip(a.all_verdicts)
    {
        text.push_str(&format!(
            "  {name:<14}{pass:>6}{fail:>6}{undecidable:>13}\n"
        ));
    }
    text.push('\n');
    text
}

/// The curves as CSV.
fn table(metrics: &[Metrics]) -> Result<Vec<u8>, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record([
        "margin",
        "tau",
        "coverage",
        "risk",
        "accuracy",
        "n_covered",
        "n_evaluated",
    ])?;
    for one in metrics {
        for point in &one.risk_coverage_curve {
            let numbers = [
                one.margin,
                point.tau,
                point.coverage,
                point.risk,
                point.accuracy,
            ];
            let counts = [point.n_covered, point.n_evaluated];
            let numbers = numbers.map(json::float).into_iter();
            writer.write_record(numbers.chain(counts.map(|count| count.to_string())))?;
        }
    }
    writer
        .into_inner()
        .map_err(|error| csv::Error::from(error.into_error()))
}
