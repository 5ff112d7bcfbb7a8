//! What needs no engine: prompts, rules, sets of prompts, runs, judges.

use std::ffi::OsStr;
use std::path::PathBuf;

use prepose::check::rules::RULES;
use prepose::cli::{parse, score, suites};
use prepose::report::bootstrap::Bootstrap;
use prepose::report::{Report, judged, paired, published, read, source, tables};
use prepose::suite::sets::{self, SETS};
use prepose::table::Cell;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Map, Value, json};

use crate::error::{self, Class, without_gil};
use crate::fork;
use crate::values::to_python;
use crate::words;

/// Options of `parse` that mean nothing here.
pub const NOT_OF_PARSE: [&str; 1] = ["json"];

/// Options of `score` that are of its other uses.
pub const NOT_OF_SCORE: [&str; 31] = [
    "attempts",
    "batch",
    "checker",
    "clip",
    "clip_prompt",
    "concurrency",
    "dialect",
    "draws",
    "features",
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
    "max_tokens",
    "neighbours",
    "of",
    "price",
    "reference",
    "rke_width",
    "rounds",
    "save_statistics",
    "seed",
    "temperature",
    "thinking",
];

/// What is read from a prompt.
#[pyfunction]
#[pyo3(signature = (prompt, **options))]
pub fn parse_prompt<'py>(
    py: Python<'py>,
    prompt: &str,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let first = [OsStr::new(prompt)];
    let args: parse::Args = words::read("parse", &first, options, &NOT_OF_PARSE)?;
    let read = without_gil(py, Class::Option, || parse::json(&args))?;
    to_python(py, &read)
}

/// The published rules, with a line about each.
#[pyfunction]
pub fn rules() -> Vec<(&'static str, &'static str)> {
    let rules = RULES.into_iter();
    rules.map(|rule| (rule.name(), rule.about())).collect()
}

/// What a published rule says about the pictures in the texts of files.
#[pyfunction]
#[pyo3(signature = (rule, texts, **options))]
pub fn score_texts<'py>(
    py: Python<'py>,
    rule: &str,
    texts: Vec<(PathBuf, String)>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let first = [OsStr::new(rule), OsStr::new("texts")];
    let args: score::Args = words::read("score", &first, options, &NOT_OF_SCORE)?;
    if args.looks() {
        fork::refuse(py)?;
    }
    let said = without_gil(py, Class::Check, || score::of_texts(&args, &texts))?;
    to_python(py, &said)
}

/// The sets of prompts.
#[pyfunction]
pub fn all_suites(py: Python) -> PyResult<Vec<Bound<PyAny>>> {
    let all = SETS.iter().map(suites::as_json);
    all.map(|set| to_python(py, &set)).collect()
}

/// The name, version, pictures per prompt, and prompts of a set or a file.
#[pyfunction]
#[allow(clippy::type_complexity)]
pub fn open_suite<'py>(
    py: Python<'py>,
    name_or_path: PathBuf,
) -> PyResult<(String, String, usize, Vec<Bound<'py, PyAny>>)> {
    let suite = without_gil(py, Class::Run, || {
        let name = name_or_path.to_string_lossy();
        anyhow::ensure!(
            name != "-",
            "standard input cannot be a set of prompts here; give a file"
        );
        Ok(sets::open(&name)?)
    })?;
    let prompts = suite.prompts.iter().map(|prompt| {
        let said = serde_json::to_value(prompt);
        to_python(py, &said.map_err(|error| error::of(py, Class::Run, error))?)
    });
    let prompts = prompts.collect::<PyResult<_>>()?;
    Ok((
        suite.name,
        suite.version,
        suite.pictures_per_prompt,
        prompts,
    ))
}

/// The results of runs: pictures, the checker's records, tables, and what a reader should know, each as JSON's types.
#[pyfunction]
#[pyo3(signature = (locations, eval = None, bootstrap = None, seed = None))]
pub fn read_runs<'py>(
    py: Python<'py>,
    locations: Vec<String>,
    eval: Option<&str>,
    bootstrap: Option<usize>,
    seed: Option<u64>,
) -> PyResult<Bound<'py, PyAny>> {
    let usual = Bootstrap::default();
    let bootstrap = Bootstrap {
        draws: bootstrap.unwrap_or(usual.draws),
        seed: seed.unwrap_or(usual.seed),
    };
    if !(1..=1_000_000).contains(&bootstrap.draws) {
        let said = format!(
            "bootstrap is {}; it has to be from 1 to 1000000",
            bootstrap.draws
        );
        return Err(error::new(py, Class::Option, said));
    }
    let said = without_gil(py, Class::Run, || {
        let mut notes = source::undamaged(&locations)?;
        let report = read(&locations, Vec::new(), eval)?;
        notes.extend(report.caveats());
        notes.extend(judged::notes(&report));
        notes.extend(report.unfinished());
        let rates = tables::rates(&report, &bootstrap);
        let pairs = paired::pairs(&report, &bootstrap);
        let mut all = tables::all(&report, &rates, &pairs);
        all.extend(judged::tables(&report));
        if let Some(beside) = published::beside(&report, &bootstrap) {
            all.extend(beside.tables);
        }
        let all = all.iter().map(|titled| {
            let table = titled.table.spread();
            json!({
                "name": table.name, "title": titled.title, "note": titled.note,
                "columns": table.columns,
                "rows": table.rows.iter().map(|row| row.iter().map(cell).collect()).collect::<Vec<Value>>(),
            })
        });
        Ok(json!({
            "pictures": pictures(&report)?,
            "records": records(&report)?,
            "tables": all.collect::<Vec<_>>(),
            "notes": notes,
        }))
    })?;
    to_python(py, &said)
}

fn cell(cell: &Cell) -> Value {
    match cell {
        Cell::Name(name) => json!(name),
        Cell::Count(count) => json!(count),
        Cell::Rate(number)
        | Cell::Change(number)
        | Cell::Percent(number)
        | Cell::Mean(number)
        | Cell::MeanChange(number) => json!(number),
        Cell::Within(..) | Cell::Empty => Value::Null,
    }
}

/// A row for each picture.
fn pictures(report: &Report) -> anyhow::Result<Vec<Value>> {
    let mut rows = Vec::new();
    for method in &report.methods {
        for picture in &method.pictures {
            let place = &report.places[picture.place];
            let file = picture.image.as_ref().map(|image| place.locate(image));
            let prompt = &report.prompts.list()[picture.prompt];
            let verdict = method.verdict(picture);
            let reason = picture.records.iter().map(|&at| &method.records[at]);
            let mut row = Map::new();
            row.insert("method".into(), json!(method.name));
            row.insert("sample_id".into(), json!(picture.sample_id));
            row.insert("prompt_id".into(), json!(prompt.prompt_id));
            row.insert("prompt".into(), json!(prompt.prompt));
            row.insert("seed".into(), json!(picture.seed));
            row.insert("verdict".into(), json!(verdict.map(|(verdict, _)| verdict)));
            row.insert(
                "confidence".into(),
                json!(verdict.map(|(_, confidence)| confidence)),
            );
            let reason =
                reason.filter(|record| Some(record.verdict_raw) == verdict.map(|(one, _)| one));
            let reason = reason
                .filter_map(|record| record.verdict_reason.as_deref())
                .next();
            row.insert("reason".into(), json!(reason));
            row.insert("width".into(), json!(picture.size.map(|[width, _]| width)));
            row.insert(
                "height".into(),
                json!(picture.size.map(|[_, height]| height)),
            );
            row.insert("path".into(), json!(file));
            if let Value::Object(scores) = serde_json::to_value(&picture.scores)? {
                let new = scores
                    .into_iter()
                    .filter(|(name, _)| !name.ends_with("_id") && name != "seed");
                row.extend(new);
            }
            rows.push(Value::Object(row));
        }
    }
    Ok(rows)
}

/// A row for each of the checker's records, with its method.
fn records(report: &Report) -> anyhow::Result<Vec<Value>> {
    let mut rows = Vec::new();
    for method in &report.methods {
        for record in &method.records {
            let mut row = serde_json::to_value(record)?;
            row["method"] = json!(method.name);
            rows.push(row);
        }
    }
    Ok(rows)
}
