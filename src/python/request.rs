//! Requests: everything that decides one picture.

use std::path::{Path, PathBuf};

use prepose::engine::final_prompt;
use prepose::output::png::{self, Made};
use prepose::request::Request as Wanted;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::Value;

use crate::error::{self, Class};
use crate::values::{json_of, to_python};

/// Everything that decides what one picture looks like; PNGs made by prepose carry it.
#[pyclass(frozen, module = "prepose._prepose")]
#[derive(Clone)]
pub struct Request(
    pub Wanted,
    /// UNet calls of the picture that it is of, where there is one.
    pub Option<usize>,
);

impl Request {
    fn of(Made { request, calls }: Made) -> Self {
        Self(request, Some(calls))
    }

    fn value(&self, py: Python) -> PyResult<Value> {
        serde_json::to_value(&self.0).map_err(|error| error::of(py, Class::Option, error))
    }
}

#[pymethods]
impl Request {
    /// Takes what `to_dict` or `to_json` returned.
    #[new]
    fn new(fields: &Bound<PyAny>) -> PyResult<Self> {
        let text = match fields.extract::<String>() {
            Ok(text) => text,
            Err(_) => json_of(fields)?,
        };
        let read = serde_json::from_str(&text).map_err(|error| {
            let error = anyhow::Error::new(error).context("this is not a request");
            error::of(fields.py(), Class::Option, error)
        });
        read.map(|wanted| Self(wanted, None))
    }

    /// The request of the PNG at `path`.
    #[staticmethod]
    fn from_png(py: Python, path: PathBuf) -> PyResult<Self> {
        let read = png::read_made(&path);
        read.map(Self::of)
            .map_err(|error| error::of(py, Class::Picture, error))
    }

    /// The request of the PNG in `bytes`; None if they are no PNG by prepose.
    #[staticmethod]
    fn _from_png_bytes(bytes: &Bound<PyBytes>) -> Option<Self> {
        let read = png::read_made_in(bytes.as_bytes(), Path::new("these bytes"));
        read.ok().map(Self::of)
    }

    fn to_json(&self, py: Python) -> PyResult<String> {
        Ok(self.value(py)?.to_string())
    }

    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.value(py)?)
    }

    /// The same request with other values in some fields. No search has found a picture that differs in any of them, unless
    /// `found` says so, and another checkpoint has a classifier of its own, unless `guide` says which.
    #[pyo3(signature = (**fields))]
    fn replace(&self, py: Python, fields: Option<&Bound<pyo3::types::PyDict>>) -> PyResult<Self> {
        let all = self.to_dict(py)?;
        let (mut says_found, mut says_guide) = (false, false);
        if let Some(fields) = fields {
            all.call_method1("update", (fields,))?;
            says_found = fields.contains("found")?;
            says_guide = fields.contains("guide")?;
        }
        let mut replaced = Self::new(&all)?;
        if !says_guide {
            let model = std::mem::replace(&mut replaced.0.model, self.0.model.clone());
            replaced.0.put_networks(model);
        }
        if !says_found && replaced.0 != self.0 {
            replaced.0.found = None;
        }
        Ok(replaced)
    }

    #[getter]
    fn prompt(&self) -> &str {
        &self.0.prompt
    }

    /// The prompt of the last step: what the picture should show.
    #[getter]
    fn _final_prompt(&self, py: Python) -> PyResult<String> {
        let scheduler = self.0.scheduler.as_deref();
        let calls = self.1.unwrap_or_else(|| self.0.calls(scheduler));
        final_prompt(&self.0, calls).map_err(|error| error::of(py, Class::Option, error))
    }

    /// What should hold instead of what the prompt states, as texts with bars.
    #[getter]
    fn _relations(&self) -> Vec<String> {
        self.0.relations.iter().map(ToString::to_string).collect()
    }

    #[getter]
    fn negative_prompt(&self) -> &str {
        &self.0.negative_prompt
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.0.seed
    }

    #[getter]
    fn steps(&self) -> usize {
        self.0.steps
    }

    #[getter]
    fn width(&self) -> usize {
        self.0.width
    }

    #[getter]
    fn height(&self) -> usize {
        self.0.height
    }

    #[getter]
    fn guidance_scale(&self) -> f64 {
        self.0.guidance_scale
    }

    fn __eq__(&self, other: &Bound<PyAny>) -> bool {
        other
            .cast::<Self>()
            .is_ok_and(|other| other.get().0 == self.0)
    }

    fn __repr__(&self) -> String {
        let Wanted {
            prompt,
            seed,
            steps,
            width,
            height,
            ..
        } = &self.0;
        format!("<Request {prompt:?}, seed {seed}, {steps} steps, {width}x{height}>")
    }
}
