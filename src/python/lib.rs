//! prepose as a Python module: the library's functions with Python's types. The package around it is in `prepose/`, and
//! nothing is decided here: options are read by the command line's own rules (`words`), and pictures, verdicts and tables
//! come from the functions that the command line calls.
//!
//! * `engine`, `making`, `request`, `picture`, `maps`: pictures;
//! * `pipeline`: networks that PyTorch holds;
//! * `checker`, `judge`, `data`: whether they show what was asked for, and everything that needs no engine;
//! * `error`, `values`, `words`: between the two languages;
//! * `fork`: where none of it works.

#![warn(clippy::unwrap_used)]

mod checker;
mod data;
mod engine;
mod error;
mod fork;
mod judge;
mod making;
mod maps;
mod picture;
mod pipeline;
mod request;
mod values;
mod words;

use std::collections::BTreeMap;
use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the command line on these arguments, the program's name first, and returns its exit code. For processes that do
/// nothing else.
#[pyfunction]
fn main(py: Python, arguments: Vec<OsString>) -> u8 {
    py.detach(|| prepose::cli::main_with(arguments))
}

/// The options that functions and classes take, by their names.
#[pyfunction]
fn options() -> BTreeMap<&'static str, Vec<String>> {
    BTreeMap::from([
        ("Engine", words::names::<engine::EngineArgs>(&[])),
        (
            "generate",
            words::names::<prepose::cli::generate::Args>(&engine::NOT_HERE),
        ),
        (
            "Checker",
            words::names::<prepose::cli::check::Args>(&checker::NOT_HERE),
        ),
        ("Judge", words::names::<judge::JudgeArgs>(&[])),
        (
            "parse",
            words::names::<prepose::cli::parse::Args>(&data::NOT_OF_PARSE),
        ),
        (
            "score",
            words::names::<prepose::cli::score::Args>(&data::NOT_OF_SCORE),
        ),
    ])
}

/// The devices that were tried: what `device` takes, the hardware's name, and why it cannot be used, if that is so.
#[pyfunction]
fn devices(py: Python) -> Vec<(String, Option<String>, Option<String>)> {
    let listed = py.detach(prepose::device::list);
    let mut all = Vec::new();
    for listing in listed {
        for device in listing.devices {
            all.push(match device {
                Ok(device) => (device.spec.to_string(), Some(device.name), None),
                Err(problem) => (
                    listing.backend.name().into(),
                    None,
                    Some(problem.to_string()),
                ),
            });
        }
    }
    all
}

/// The part of the package that is written in Rust.
#[pymodule]
fn _prepose(module: &Bound<PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<engine::Engine>()?;
    module.add_class::<making::Making>()?;
    module.add_class::<making::Step>()?;
    module.add_class::<request::Request>()?;
    module.add_class::<picture::Picture>()?;
    module.add_class::<maps::AttentionMaps>()?;
    module.add_class::<values::Array>()?;
    module.add_class::<checker::Checker>()?;
    module.add_class::<judge::Judge>()?;
    module.add_function(wrap_pyfunction!(main, module)?)?;
    module.add_function(wrap_pyfunction!(options, module)?)?;
    module.add_function(wrap_pyfunction!(devices, module)?)?;
    module.add_function(wrap_pyfunction!(checker::_decide, module)?)?;
    module.add_function(wrap_pyfunction!(picture::png_of, module)?)?;
    module.add_function(wrap_pyfunction!(pipeline::open_pipeline, module)?)?;
    module.add_function(wrap_pyfunction!(data::parse_prompt, module)?)?;
    module.add_function(wrap_pyfunction!(data::rules, module)?)?;
    module.add_function(wrap_pyfunction!(data::score_texts, module)?)?;
    module.add_function(wrap_pyfunction!(data::all_suites, module)?)?;
    module.add_function(wrap_pyfunction!(data::open_suite, module)?)?;
    module.add_function(wrap_pyfunction!(data::read_runs, module)?)?;
    Ok(())
}
