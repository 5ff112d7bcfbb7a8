//! Vision-language models, or a detector in their place, that are asked about pictures.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use prepose::cli::judge::pictures::Eyes;
use prepose::cli::judge::prompted::{Pictures, PromptedArgs};
use prepose::device::DeviceSpec;
use prepose::judge::picture::Named;
use prepose::judge::prompted::of_scene;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Value, json};

use crate::checker::{relations_of, scene_of};
use crate::error::{self, Class, without_gil};
use crate::fork;
use crate::values::to_python;
use crate::words;

/// Who judges.
#[derive(Debug, clap::Args)]
pub struct JudgeArgs {
    #[command(flatten)]
    judge: PromptedArgs,
    /// The detector of the oracle.
    #[arg(long)]
    checker: Option<String>,
    /// Where that detector runs.
    #[arg(long, default_value = "auto")]
    device: DeviceSpec,
    /// A folder for the book of answers.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// A judge, which answers questions about pictures.
#[pyclass(frozen, module = "prepose._prepose")]
pub struct Judge(Arc<JudgeArgs>);

#[pymethods]
impl Judge {
    #[new]
    #[pyo3(signature = (judge = "oracle", **options))]
    fn new(py: Python, judge: &str, options: Option<&Bound<PyDict>>) -> PyResult<Self> {
        let options = match options {
            Some(options) => options.copy()?,
            None => PyDict::new(py),
        };
        options.set_item("judge", judge)?;
        let args: JudgeArgs = words::read("Judge", &[], Some(&options), &[])?;
        args.judge
            .check("")
            .map_err(|error| error::of(py, Class::Option, error))?;
        Ok(Self(Arc::new(args)))
    }

    /// The model's name, or oracle.
    #[getter]
    fn name(&self) -> &str {
        self.0.judge.model.name()
    }

    /// The answers about each of these files, with these prompts and the relations instead of what they state: a line for
    /// each, notes, and what it took.
    fn _ask<'py>(
        &self,
        py: Python<'py>,
        pictures: Vec<(String, PathBuf, String, Vec<String>)>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if self.0.judge.model.is_oracle() {
            fork::refuse(py)?;
        }
        let mut all = Pictures {
            shown: Vec::new(),
            named: Vec::new(),
            checked: None,
        };
        for (id, path, prompt, relations) in pictures {
            let scene = scene_of(py, &prompt, &relations_of(py, &relations)?)?;
            all.shown.push(of_scene(&id, &prompt, &scene));
            all.named.push(Named { id, path });
        }
        let args = Arc::clone(&self.0);
        let said = without_gil(py, Class::Judge, move || {
            until_interrupted(move |stop| args.ask(all, &stop))
        })?;
        to_python(py, &said)
    }

    fn __repr__(&self) -> String {
        format!("<Judge {:?}>", self.name())
    }
}

impl JudgeArgs {
    fn ask(&self, pictures: Pictures, stop: &Arc<AtomicBool>) -> anyhow::Result<Value> {
        let eyes = Eyes {
            checker: self.checker.as_deref(),
            device: self.device,
        };
        let (results, totals) =
            (self.judge).judge(pictures, self.out.as_deref(), &eyes, stop, true)?;
        Ok(json!({
            "lines": results.lines,
            "notes": results.notes,
            "questions": totals.questions,
            "new": totals.new,
            "unanswered": totals.unanswered,
            "prompt_tokens": totals.prompt_tokens,
            "answer_tokens": totals.answer_tokens,
        }))
    }
}

/// Does something on another thread and asks it to stop on Ctrl-C.
fn until_interrupted<T: Send + 'static>(
    act: impl FnOnce(Arc<AtomicBool>) -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    const PATIENCE: Duration = Duration::from_millis(50);
    let stop = Arc::new(AtomicBool::new(false));
    let (done, waiting) = channel();
    let flag = Arc::clone(&stop);
    let thread = std::thread::spawn(move || {
        let result = act(flag);
        // Somebody waits for it, or else nobody wants it.
        let _ = done.send(());
        result
    });
    let mut interrupted = None;
    while let Err(RecvTimeoutError::Timeout) = waiting.recv_timeout(PATIENCE) {
        if interrupted.is_none()
            && let Err(error) = Python::attach(|py| py.check_signals())
        {
            stop.store(true, Ordering::Relaxed);
            interrupted = Some(error);
        }
    }
    let result = match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    match interrupted {
        Some(error) => Err(error.into()),
        None => result,
    }
}
