//! Detectors and the rule that decides by them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use prepose::check::Detection;
use prepose::check::ask::{Questions, RuleQuestion};
use prepose::check::rules::read::read_depth;
use prepose::check::spatialbench::record::{DetectorRecord, Detectors};
use prepose::check::spatialbench::{CheckerConfig, Question, Record, Rule, Secondary, Size, joint};
use prepose::cli::check::{self, Args};
use prepose::detect::checker::{Asked, Checked, Checker as Eyes};
use prepose::prompt::compose;
use prepose::prompt::scene::{GivenRelation, Scene};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Value, json};

use crate::error::{self, Class, without_gil};
use crate::fork;
use crate::picture::Given;
use crate::values::{json_of, to_python};
use crate::words;

/// Options of `check` that are not about who looks and decides.
pub const NOT_HERE: [&str; 24] = [
    "attempts",
    "concurrency",
    "dialect",
    "json",
    "judge",
    "judge_as",
    "judge_asks",
    "judge_extra",
    "judge_key",
    "judge_model",
    "judge_rounds",
    "judge_seed",
    "judge_timeout",
    "largest",
    "manifest",
    "max_tokens",
    "out",
    "price",
    "prompt",
    "records",
    "relation",
    "strict",
    "temperature",
    "thinking",
];

/// Detectors and a rule: whether pictures show what was asked for.
#[pyclass(frozen, module = "prepose._prepose")]
pub struct Checker {
    eyes: Mutex<Eyes>,
    /// Whether the detector was chosen, and not just the toybox's.
    chosen: bool,
    name: String,
    vocabulary: Option<Vec<String>>,
    /// The folder with depth maps.
    maps: Option<PathBuf>,
    /// Whether a network looks at depths.
    sees_depth: bool,
}

/// A picture with what is asked of it.
struct Wanted {
    id: String,
    prompt: String,
    /// Until it was looked at.
    asked: Option<Asked>,
    rules: Vec<RuleQuestion>,
    /// Its depth map, if there is one.
    depth: Option<PathBuf>,
    unasked: Vec<String>,
}

impl Wanted {
    /// What is said of it.
    fn told(&self, eyes: &Eyes, asked: &Asked, checked: &Checked) -> anyhow::Result<Value> {
        let size = [asked.picture.width as u32, asked.picture.height as u32];
        let records = eyes.records(&self.id, &self.prompt, asked, checked);
        let joint = joint(&records);
        let depth = self.depth.as_deref().filter(|_| !self.rules.is_empty());
        let depth = depth.map(read_depth).transpose()?.map(Arc::new);
        let depth = depth.or_else(|| checked.depth.clone());
        let answers = self.rules.iter().map(|rule| {
            let outcome = rule.answer(size, &checked.primary, depth.clone());
            let outcome = outcome.with_context(|| self.id.clone())?;
            let mut said = serde_json::to_value(outcome)?;
            said["rule"] = json!(rule.rule);
            said["about"] = json!(rule.said);
            anyhow::Ok(said)
        });
        let answers: Vec<Value> = answers.collect::<Result<_, _>>()?;
        Ok(json!({
            "prompt": self.prompt,
            "verdict": joint.map(|(verdict, _)| verdict),
            "confidence": joint.map(|(_, confidence)| confidence),
            "reason": reason(&records),
            "detections": checked.primary,
            "records": records,
            "rules": answers,
            "unasked": self.unasked,
        }))
    }
}

#[pymethods]
impl Checker {
    #[new]
    #[pyo3(signature = (checker = None, **options))]
    fn new(
        py: Python,
        checker: Option<&Bound<PyAny>>,
        options: Option<&Bound<PyDict>>,
    ) -> PyResult<Self> {
        let options = match options {
            Some(options) => options.copy()?,
            None => PyDict::new(py),
        };
        if let Some(checker) = checker {
            options.set_item("checker", checker)?;
        }
        // The command line wants to know at once what is to be looked at.
        let nothing = [OsStr::new("-")];
        let args: Args = words::read("Checker", &nothing, Some(&options), &NOT_HERE)?;
        fork::refuse(py)?;
        let eyes = without_gil(py, Class::Check, || check::open_checker(&args))?;
        let maps = args.depth_maps().map(Path::to_owned);
        let depth = options.get_item("depth")?;
        Ok(Self {
            chosen: options
                .get_item("checker")?
                .is_some_and(|name| !name.is_none()),
            name: eyes.primary.name().to_owned(),
            vocabulary: eyes.primary.vocabulary().map(<[String]>::to_vec),
            sees_depth: maps.is_none() && depth.is_some_and(|depth| !depth.is_none()),
            maps,
            eyes: Mutex::new(eyes),
        })
    }

    /// The detector's name in records.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The labels that the detector can give; None if it takes any phrase.
    #[getter]
    fn vocabulary(&self) -> Option<Vec<String>> {
        self.vocabulary.clone()
    }

    /// The result for each picture.
    #[pyo3(signature = (pictures, prompt = None, relation = Vec::new()))]
    fn _check<'py>(
        &self,
        py: Python<'py>,
        pictures: &Bound<'py, PyAny>,
        prompt: Option<String>,
        relation: Vec<String>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let relations = relations_of(py, &relation)?;
        let mut wanted = Vec::new();
        for (number, given) in Given::all(pictures)?.into_iter().enumerate() {
            wanted.push(self.wanted(py, number, given, prompt.as_deref(), &relations)?);
        }
        let told = self.in_batches(py, wanted, |eyes, some| {
            let asked: Vec<Asked> = some.iter_mut().filter_map(|one| one.asked.take()).collect();
            let checked = eyes.check(&asked)?;
            let told = some.iter().zip(&asked).zip(&checked);
            told.map(|((one, asked), checked)| one.told(eyes, asked, checked))
                .collect()
        })?;
        told.iter().map(|told| to_python(py, told)).collect()
    }

    /// What the detector finds in each picture.
    #[pyo3(signature = (pictures, phrases = Vec::new()))]
    fn _detect<'py>(
        &self,
        py: Python<'py>,
        pictures: &Bound<'py, PyAny>,
        phrases: Vec<String>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        use prepose::picture::PictureTensor;

        if self.vocabulary.is_none() && phrases.is_empty() {
            let said = format!(
                "{} finds what it is asked for; say it with phrases=[\"a dog\"]",
                self.name
            );
            return Err(error::new(py, Class::Option, said));
        }
        let given = Given::all(pictures)?;
        let found = self.in_batches(py, given, |eyes, some| {
            let tensors: Vec<_> = (some.iter())
                .map(|one| one.pixels.to_tensor(&eyes.device))
                .collect();
            let found = eyes
                .primary
                .detect(&tensors, &vec![phrases.clone(); some.len()])?;
            let told = found.iter().map(|found| Ok(serde_json::to_value(found)?));
            told.collect()
        })?;
        found.iter().map(|found| to_python(py, found)).collect()
    }

    fn __repr__(&self) -> String {
        format!("<Checker {:?}>", self.name)
    }
}

impl Checker {
    fn wanted(
        &self,
        py: Python,
        number: usize,
        given: Given,
        prompt: Option<&str>,
        relations: &[GivenRelation],
    ) -> PyResult<Wanted> {
        let id = given.stem().unwrap_or_else(|| number.to_string());
        if let Some(made) = given.made.as_ref().filter(|_| !self.chosen)
            && let Some(why) = check::refusal_of_the_toybox(&made.request.model.checkpoint)
        {
            return Err(error::new(py, Class::Check, format!("{id}: {why}")));
        }
        let own = given.made.as_ref().map(|made| &made.request.relations);
        let relations = match (relations, own, prompt) {
            ([], Some(own), None) => own,
            _ => relations,
        };
        let prompt = match (prompt, &given.made) {
            (Some(prompt), _) => prompt.to_owned(),
            (None, Some(made)) => {
                (made.final_prompt()).map_err(|error| error::of(py, Class::Option, error))?
            }
            (None, None) if relations.is_empty() => {
                let said = format!(
                    "{id} does not say what it should show, as PNGs by prepose do; say it with prompt or relation"
                );
                return Err(error::new(py, Class::Check, said));
            }
            (None, None) => relations
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", "),
        };
        let scene = scene_of(py, &prompt, relations)?;
        let depth =
            (given.path.as_deref()).and_then(|path| check::depth_map(self.maps.as_deref(), path));
        let known = depth.is_some() || self.sees_depth;
        let questions = Questions::of_scene(&scene, self.vocabulary.as_deref(), known);
        Ok(Wanted {
            asked: Some(Asked {
                picture: given.pixels,
                questions: questions.checker,
                others: (questions.rules.iter())
                    .flat_map(|rule| rule.objects.clone())
                    .collect(),
                depth: depth.is_none() && !questions.rules.is_empty(),
            }),
            rules: questions.rules,
            depth,
            unasked: questions.unasked.iter().map(ToString::to_string).collect(),
            id,
            prompt,
        })
    }

    /// `act` on some of `all` at a time; Ctrl-C ends it between them.
    fn in_batches<T: Send>(
        &self,
        py: Python,
        mut all: Vec<T>,
        act: impl Fn(&Eyes, &mut [T]) -> anyhow::Result<Vec<Value>> + Send + Sync,
    ) -> PyResult<Vec<Value>> {
        fork::refuse(py)?;
        without_gil(py, Class::Check, || {
            let eyes = self.eyes.lock().unwrap_or_else(PoisonError::into_inner);
            let mut told = Vec::with_capacity(all.len());
            for some in all.chunks_mut(eyes.batch) {
                Python::attach(|py| py.check_signals())?;
                told.extend(act(&eyes, some)?);
            }
            Ok(told)
        })
    }
}

/// Why the records together say what they say: by the first that says so.
fn reason(records: &[Record]) -> Option<&str> {
    let (verdict, _) = joint(records)?;
    let first = records
        .iter()
        .find(|record| record.verdict_raw == verdict)?;
    first.verdict_reason.as_deref()
}

/// Relations as texts with bars.
pub fn relations_of(py: Python, texts: &[String]) -> PyResult<Vec<GivenRelation>> {
    let relations = texts.iter().map(|text| text.parse::<GivenRelation>());
    let relations: Result<Vec<_>, _> = relations.collect();
    relations.map_err(|error| error::of(py, Class::Option, error))
}

/// The objects of `prompt` and what it states, or `relations` instead, as the command line reads them.
pub fn scene_of(py: Python, prompt: &str, relations: &[GivenRelation]) -> PyResult<Scene> {
    compose::scene_of(prompt, relations).map_err(|error| {
        let said = prepose_untrusted::printable(prompt);
        let error = anyhow::Error::new(error).context(format!("cannot read the prompt \"{said}\""));
        error::of(py, Class::Option, error)
    })
}

/// Applies SpatialBench-UC's rule to existing detections: a record for each relation of the prompt. No network is needed.
#[pyfunction]
#[pyo3(signature = (prompt, size, detections, relation = Vec::new(), config = None, published = false))]
pub fn _decide<'py>(
    py: Python<'py>,
    prompt: &str,
    size: Size,
    detections: &Bound<'py, PyAny>,
    relation: Vec<String>,
    config: Option<PathBuf>,
    published: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let failed = |error: anyhow::Error| error::of(py, Class::Check, error);
    let relations = relations_of(py, &relation)?;
    let scene = scene_of(py, prompt, &relations)?;
    let found: Vec<Detection> = serde_json::from_str(&json_of(detections)?)
        .map_err(|error| failed(anyhow::Error::new(error).context("these are not detections")))?;
    let rule = Rule {
        config: match config {
            Some(path) => check::read_config(&path).map_err(failed)?,
            None => CheckerConfig::default(),
        },
        published,
    };
    let questions =
        Question::of_scene(&scene, None).map_err(|error| error::of(py, Class::Check, error))?;
    let decide = |(number, question): (usize, &Question)| {
        let look = rule.look(question, size, &found)?;
        let decision = rule.conclude(question, size, look, None, Secondary::None)?;
        let detectors = Detectors {
            primary: DetectorRecord {
                kind: "given".into(),
                detections: found.clone(),
            },
            secondary: None,
        };
        let mut record = Record::new(number.to_string(), prompt.into(), question, size, detectors);
        record.set(&rule, decision);
        anyhow::Ok(record)
    };
    let records: Vec<Record> = (questions.iter().enumerate())
        .map(decide)
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    let joint = joint(&records);
    let told = json!({
        "prompt": prompt,
        "verdict": joint.map(|(verdict, _)| verdict),
        "confidence": joint.map(|(_, confidence)| confidence),
        "reason": reason(&records),
        "detections": found,
        "records": records,
        "rules": [],
        "unasked": [],
    });
    to_python(py, &told)
}
