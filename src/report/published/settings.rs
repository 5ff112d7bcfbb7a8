//! What figures are of: the model, the sampling and the checker, here and in the paper.

use serde_json::Value;

use super::data::{self, Published};
use super::{Row, margin, measured};
use crate::model::{Method, Report};
use prepose_check::spatialbench::{CheckerConfig, Record};
use prepose_draw::table::Cell;

/// Everything that is compared; none of what is not known.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Settings {
    model: Option<String>,
    scheduler: Option<String>,
    steps: Option<String>,
    guidance: Option<String>,
    size: Option<String>,
    prompts: Option<String>,
    pictures_per_prompt: Option<String>,
    detector: Option<String>,
    secondary: Option<String>,
    margin: Option<String>,
    detection_score: Option<String>,
}

impl Settings {
    pub(super) const COLUMNS: [&str; 11] = [
        "model",
        "scheduler",
        "steps",
        "guidance",
        "size",
        "prompts",
        "pictures_per_prompt",
        "detector",
        "second_detector",
        "margin",
        "detection_score",
    ];

    fn values(&self) -> [&Option<String>; 11] {
        [
            &self.model,
            &self.scheduler,
            &self.steps,
            &self.guidance,
            &self.size,
            &self.prompts,
            &self.pictures_per_prompt,
            &self.detector,
            &self.secondary,
            &self.margin,
            &self.detection_score,
        ]
    }

    pub(super) fn cells(&self) -> Vec<Cell> {
        let cell = |value: &Option<String>| value.clone().map_or(Cell::Empty, Cell::Name);
        self.values().into_iter().map(cell).collect()
    }

    /// A published method's, with the calibrated checker.
    pub(super) fn published(method: &data::Method) -> Self {
        let checked = &method.calibrated;
        Self {
            model: Some(method.model.clone()),
            scheduler: Some(method.scheduler.clone()),
            steps: Some(method.steps.to_string()),
            guidance: Some(method.guidance_scale.to_string()),
            size: Some(format!("{}x{}", method.width, method.height)),
            prompts: Some(checked.prompts.to_string()),
            pictures_per_prompt: Some(method.seeds.len().to_string()),
            detector: Some(checked.detector.clone()),
            secondary: Some(checked.secondary.clone()),
            margin: Some(checked.margin.to_string()),
            detection_score: Some(checked.detection_score.to_string()),
        }
    }

    /// What is known to be another: its name, what it is here, and there.
    pub(super) fn differences(&self, published: &data::Method) -> Vec<String> {
        let theirs = Self::published(published);
        let pairs = self.values().into_iter().zip(theirs.values());
        let named = Self::COLUMNS.into_iter().zip(pairs);
        let other = named.filter_map(|(name, (ours, theirs))| {
            let (ours, theirs) = (ours.as_ref()?, theirs.as_ref()?);
            let name = name.replace('_', " ");
            (ours != theirs).then(|| format!("{name} ({ours} for {theirs})"))
        });
        other.collect()
    }
}

/// Those of each row.
pub(super) fn of(report: &Report, rows: &[Row]) -> Vec<Settings> {
    rows.iter().map(|row| of_row(report, row)).collect()
}

fn of_row(report: &Report, row: &Row) -> Settings {
    let config = report.runs[row.method.run].config.as_ref();
    let text = |path: &str| {
        let value = config?.pointer(path)?;
        Some(value.as_str().map_or_else(|| value.to_string(), Into::into))
    };
    let number = |path: &str| Some(config?.pointer(path)?.as_f64()?.to_string());
    // What was asked of a source that makes the pictures elsewhere.
    let [width, height] = [("width", 0), ("height", 1)].map(|(name, side)| {
        let sampling = text(&format!("/sampling/{name}"));
        sampling.or_else(|| text(&format!("/source/wishes/size/{side}")))
    });
    let records = row.calibrated.unwrap_or_default();
    let checker =
        checker(config).filter(|checker| margin(records) == Some(checker.geometry.margin));
    Settings {
        model: text("/model/checkpoint").or_else(|| text("/source/name")),
        scheduler: text("/sampling/scheduler"),
        steps: text("/sampling/steps").or_else(|| text("/source/wishes/steps")),
        guidance: number("/sampling/guidance_scale")
            .or_else(|| number("/source/wishes/guidance_scale")),
        size: (width.zip(height)).map(|(width, height)| format!("{width}x{height}")),
        prompts: Some(measured::prompts(records).to_string()),
        pictures_per_prompt: Some(measured::pictures_per_prompt(records).to_string()),
        detector: records
            .first()
            .map(|record| record.detectors.primary.kind.clone()),
        secondary: secondary(records, checker.as_ref()),
        margin: margin(records).map(|margin| margin.to_string()),
        detection_score: checker.map(|checker| checker.thresholds.detection_score.to_string()),
    }
}

/// The second detector's name; records have none of pictures that it was not asked about.
fn secondary(records: &[Record], checker: Option<&CheckerConfig>) -> Option<String> {
    let mut seen = records
        .iter()
        .filter_map(|record| record.detectors.secondary.as_ref());
    let configured = || {
        Some(
            checker?
                .detector
                .secondary
                .as_ref()
                .map(|one| one.kind.clone()),
        )
    };
    let seen = seen.next().map(|detector| detector.kind.clone());
    seen.or_else(|| Some(configured()?.unwrap_or_else(|| "none".into())))
}

/// The checker's settings, as `run.json` has them.
fn checker(config: Option<&Value>) -> Option<CheckerConfig> {
    let lines = config?.pointer("/checker/config")?.as_array()?;
    let lines: Vec<&str> = lines.iter().filter_map(Value::as_str).collect();
    CheckerConfig::from_yaml(&lines.join("\n")).ok()
}

/// The published method that a run's method is: the same thing added to the checkpoint, and nothing else.
pub(super) fn counterpart<'a>(
    report: &Report,
    method: &Method,
    published: &'a Published,
) -> Option<&'a data::Method> {
    let config = report.runs[method.run].config.as_ref()?;
    let methods = config.get("methods")?.as_array()?;
    let settings = methods.iter().find(|settings| {
        let name = settings.get("name").and_then(Value::as_str);
        name.is_some_and(|name| report.method_name(method.run, name) == method.name)
    })?;
    let fields = settings.as_object()?;
    let added: Vec<&str> = (fields.iter())
        .filter(|(name, value)| *name != "name" && !value.is_null())
        .map(|(name, _)| name.as_str())
        .collect();
    let guide = settings.pointer("/guide/method").and_then(Value::as_str);
    let run = match (added.as_slice(), guide) {
        ([], _) => "sd15_promptonly",
        (["guide"], Some("boxdiff")) => "sd15_boxdiff",
        (["ground"], _) => "sd14_gligen",
        _ => return None,
    };
    published.methods.iter().find(|one| one.run == run)
}
