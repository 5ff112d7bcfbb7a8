//! `prepose audit calibrate`

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use prepose::audit::curve::ZeroCoverage;
use prepose::audit::grid::{Grid, Trial, best};
use prepose::audit::join::Audit;
use prepose::audit::redecide::{Redecider, Semantics, lowest_scores, name_detectors};
use prepose::check::json;
use prepose::check::spatialbench::CheckerConfig;
use prepose::output::files::{prepare_folder, write_atomically};
use prepose_untrusted::escaped;
use serde::Serialize;

use super::super::OK;
use super::input::{self, Judged, Read};

/// Find the margin, detection threshold and confidence threshold that best fit what people say.
///
/// Decides again from the records' detections at every point of a grid, and takes the first point with the lowest
/// J = 10 · false PASS rate + 2 · risk + 0.5 · (1 − coverage). Writes calibration.json, grid.csv and a checker_config.yaml with the
/// chosen margin and detection threshold.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose audit calibrate --records runs/tour --labels labels_filled.json --out calibration
  prepose check --records RUN/eval/per_sample.jsonl --config calibration/checker_config.yaml --out RUN/calibrated")]
pub struct Args {
    #[command(flatten)]
    judged: Judged,
    /// The folder to write to.
    #[arg(short, long, value_name = "FOLDER")]
    out: PathBuf,
    /// The rest of the checker's configuration [default: the checker_config.yaml beside the first records, else the published
    /// one].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Margins m to try, in this order.
    #[arg(long, value_delimiter = ',', default_values_t = Grid::default().margins, value_name = "M,…")]
    margins: Vec<f64>,
    /// Detection thresholds t_det to try.
    #[arg(long, value_delimiter = ',', default_values_t = Grid::default().detection_scores, value_name = "T,…")]
    detection_scores: Vec<f64>,
    /// Confidence thresholds τ to try.
    #[arg(long, value_delimiter = ',', default_values_t = Grid::default().taus, value_name = "TAU,…")]
    taus: Vec<f64>,
    /// What the risk is where nothing is decided: 0 as in the released curves, or 1 as in the first of them.
    #[arg(long, value_name = "RISK", default_value = "safe")]
    zero_coverage: ZeroCoverage,
    /// Decide as the released evaluator does, even where it is plainly wrong [default: yes].
    #[arg(
        long,
        value_name = "yes|no",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "yes",
        value_parser = clap::builder::BoolishValueParser::new(),
        hide_possible_values = true
    )]
    published: Option<bool>,
    /// Print one JSON object on standard output: calibration.json.
    #[arg(long)]
    json: bool,
}

/// `calibration.json`. What is chosen is named as in the released `audit_metrics.json`.
#[derive(Serialize)]
struct Calibration {
    best_parameters: Parameters,
    best_metrics: Metrics,
    samples: usize,
    left_out: usize,
    labels: Labels,
    record_margins: Vec<f64>,
    lowest_primary_score: Option<f64>,
    lowest_secondary_score: Option<f64>,
    grid: Grid,
    /// The checker as it runs, and the checker that the published grid tried.
    deployed: Search,
    #[serde(rename = "override")]
    overriding: Search,
}

#[derive(Clone, Copy, Serialize)]
struct Parameters {
    margin: f64,
    detection_score: f64,
    confidence_threshold: f64,
}

#[derive(Clone, Copy, Serialize)]
struct Metrics {
    false_pass_rate_high_conf: f64,
    risk: f64,
    coverage: f64,
    score: f64,
}

#[derive(Serialize)]
struct Labels {
    pass: usize,
    fail: usize,
    undecidable: usize,
}

/// One search through the grid.
#[derive(Serialize)]
struct Search {
    semantics: Semantics,
    best_parameters: Parameters,
    best_metrics: Metrics,
    /// Verdicts that needed a stability or an agreement that no record knows, over all margins and detection thresholds.
    unmeasured: usize,
    trials: Vec<Trial>,
}

impl Search {
    fn new(trials: Vec<Trial>, semantics: Semantics, unmeasured: usize) -> Option<Self> {
        let best = best(&trials)?;
        Some(Self {
            semantics,
            best_parameters: Parameters {
                margin: best.margin,
                detection_score: best.detection_score,
                confidence_threshold: best.confidence_threshold,
            },
            best_metrics: Metrics {
                false_pass_rate_high_conf: best.false_pass_rate,
                risk: best.risk,
                coverage: best.coverage,
                score: best.score,
            },
            unmeasured,
            trials,
        })
    }
}

pub fn run(args: &Args) -> anyhow::Result<u8> {
    let grid = grid(args)?;
    let mut config = input::config(args.config.as_deref(), &args.judged.records)?;
    let Read {
        audit,
        between,
        alpha,
    } = args.judged.read()?;
    name_detectors(&mut config, &audit.pictures);
    let [pass, fail, undecidable] = input::count(audit.human_verdicts());
    if let Some(why) = too_few(pass, fail, &grid) {
        eprintln!("warning: {why}");
    }
    let search = |semantics| search(&audit, &config, &grid, args, semantics);
    let deployed = search(Semantics::Deployed)?;
    let overriding = search(Semantics::Override)?;
    let (lowest_primary_score, lowest_secondary_score) = lowest_scores(&audit.pictures);
    let calibration = Calibration {
        best_parameters: deployed.best_parameters,
        best_metrics: deployed.best_metrics,
        samples: audit.pictures.len(),
        left_out: audit.left_out,
        labels: Labels {
            pass,
            fail,
            undecidable,
        },
        record_margins: audit.margins(),
        lowest_primary_score,
        lowest_secondary_score,
        grid,
        deployed,
        overriding,
    };

    prepare_folder(&args.out)?;
    let write = |name: &str, bytes: &[u8]| write_atomically(&args.out.join(name), bytes);
    let text = json::to_indented(&calibration)? + "\n";
    write("calibration.json", text.as_bytes())?;
    write("grid.csv", &table(&calibration)?)?;
    let mut chosen = config;
    chosen.geometry.margin = calibration.best_parameters.margin;
    chosen.thresholds.detection_score = calibration.best_parameters.detection_score;
    write("checker_config.yaml", chosen.to_yaml().as_bytes())?;

    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", json::to_line(&calibration)?)?,
        false => {
            write!(out, "{}", args.judged.agreement_between(&between, alpha))?;
            write!(out, "{}", describe(&calibration, args))?;
        }
    }
    Ok(OK)
}

/// Labels of each kind below which a choice among a grid is mostly chance: with 30 the interval of a share is still 0.35 wide.
const FEW: usize = 30;

/// Says so if there are too few labels to choose by.
fn too_few(pass: usize, fail: usize, grid: &Grid) -> Option<String> {
    let places = grid.margins.len() * grid.detection_scores.len() * grid.taus.len();
    (pass.min(fail) < FEW).then(|| {
        format!(
            "people say PASS of {pass} pictures and FAIL of {fail}; among {places} settings, what fits so few best does so by \
             chance. Label more, at least {FEW} of each (the paper labelled 200 pictures), before you use what is chosen"
        )
    })
}

/// The values to try, each where it can be.
fn grid(args: &Args) -> anyhow::Result<Grid> {
    let lists = [
        ("--margins", &args.margins),
        ("--detection-scores", &args.detection_scores),
        ("--taus", &args.taus),
    ];
    for (name, values) in lists {
        for value in values {
            ensure!(
                (0.0..=1.0).contains(value),
                "{name} has {value}; it must be from 0 to 1"
            );
        }
    }
    Ok(Grid {
        margins: args.margins.clone(),
        detection_scores: args.detection_scores.clone(),
        taus: args.taus.clone(),
    })
}

fn search(
    audit: &Audit,
    config: &CheckerConfig,
    grid: &Grid,
    args: &Args,
    semantics: Semantics,
) -> anyhow::Result<Search> {
    let published = args.published.unwrap_or(true);
    let mut redecider = Redecider::new(&audit.pictures, config, published, semantics);
    let total = audit.pictures.len();
    let trials = grid.trials(total, args.zero_coverage, |margin, detection_score| {
        redecider.judge(margin, detection_score)
    })?;
    Search::new(trials, semantics, redecider.unmeasured).context("the grid is empty")
}

/// All trials as CSV.
fn table(calibration: &Calibration) -> anyhow::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record([
        "semantics",
        "margin",
        "detection_score",
        "confidence_threshold",
        "false_pass_rate",
        "risk",
        "coverage",
        "score",
        "n_covered",
        "n_evaluated",
        "n_pass",
    ])?;
    for search in [&calibration.deployed, &calibration.overriding] {
        for trial in &search.trials {
            let numbers = [
                trial.margin,
                trial.detection_score,
                trial.confidence_threshold,
                trial.false_pass_rate,
                trial.risk,
                trial.coverage,
                trial.score,
            ];
            let counts = [trial.n_covered, trial.n_evaluated, trial.n_pass];
            let row = std::iter::once(search.semantics.name().to_owned())
                .chain(numbers.map(json::float))
                .chain(counts.map(|count| count.to_string()));
            writer.write_record(row)?;
        }
    }
    Ok(writer.into_inner().map_err(|error| error.into_error())?)
}

fn describe(calibration: &Calibration, args: &Args) -> String {
    let Labels {
        pass,
        fail,
        undecidable,
    } = calibration.labels;
    let margins: Vec<String> = calibration
        .record_margins
        .iter()
        .map(f64::to_string)
        .collect();
    let mut text = format!(
        "{} pictures; people say {pass} PASS, {fail} FAIL, {undecidable} UNDECIDABLE; records at margin {}\n",
        calibration.samples,
        margins.join(" and ")
    );
    let mut line = |line: String| {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{line}");
    };
    if calibration.left_out > 0 {
        line(format!(
            "pictures left out for want of a record: {}",
            calibration.left_out
        ));
    }
    line(String::new());
    for search in [&calibration.deployed, &calibration.overriding] {
        describe_search(search, &calibration.grid.margins, &mut line);
        line(String::new());
    }
    for note in notes(calibration) {
        line(note);
    }
    line(format!(
        "{}: calibration.json, grid.csv, checker_config.yaml",
        escaped(&args.out.display().to_string())
    ));
    text
}

/// What is best by one meaning of the grid's settings.
fn describe_search(search: &Search, margins: &[f64], line: &mut impl FnMut(String)) {
    let what = match search.semantics {
        Semantics::Deployed => "deployed: t_det in the rule, after the detectors' own thresholds",
        Semantics::Override => {
            "override: t_det also in the place of the detectors' own thresholds, as the published grid ran"
        }
    };
    let Parameters {
        margin,
        detection_score,
        confidence_threshold,
    } = search.best_parameters;
    line(what.into());
    line(format!(
        "  chosen m = {margin}, t_det = {detection_score}, tau = {confidence_threshold}, J = {:.4}",
        search.best_metrics.score
    ));
    line("  the best of each margin:".into());
    line(format!(
        "  {:>6}{:>7}{:>6}{:>9}{:>10}{:>10}{:>12}",
        "m", "t_det", "tau", "J", "coverage", "risk", "false PASS"
    ));
    for margin in margins {
        let trials: Vec<Trial> = search
            .trials
            .iter()
            .filter(|trial| trial.margin == *margin)
            .copied()
            .collect();
        if let Some(trial) = best(&trials) {
            line(format!(
                "  {:>6}{:>7}{:>6}{:>9.4}{:>10.4}{:>10.5}{:>12.5}",
                trial.margin,
                trial.detection_score,
                trial.confidence_threshold,
                trial.score,
                trial.coverage,
                trial.risk,
                trial.false_pass_rate
            ));
        }
    }
}

/// What the records do not know and the search had to assume.
fn notes(calibration: &Calibration) -> Vec<String> {
    let mut notes = Vec::new();
    let lowest = calibration.grid.detection_scores.iter().copied();
    let lowest = lowest.fold(f64::INFINITY, f64::min);
    if let Some(score) = calibration
        .lowest_primary_score
        .filter(|&score| score > lowest)
    {
        let secondary = calibration
            .lowest_secondary_score
            .map_or(String::new(), |score| {
                format!(", of the secondary {score:.4}")
            });
        notes.push(format!(
            "The lowest score in the records is {score:.4}{secondary}: what lower thresholds would let through is not known, \
             so override is exact only above."
        ));
    }
    let unmeasured = calibration.deployed.unmeasured;
    if unmeasured > 0 {
        notes.push(format!(
            "{unmeasured} verdicts of the grid are of pictures that their record left undecided, so that their stability was never \
             measured; it is taken as 1. Records of a smaller margin know it."
        ));
    }
    notes
}
