//! Pictures on their way: batch after batch, with a callback after each step.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::Tensor;
use prepose::cli::generate::Order;
use prepose::detect::Detector;
use prepose::make::{BatchSize, MapOptions, PictureMaker};
use prepose::request::{Request as Wanted, SearchConfig};
use prepose::sampling::denoise::{Hook, HookError, State};
use prepose::search::Candidate;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::engine::Loaded;
use crate::error::{Class, without_gil};
use crate::picture::{Picture, pil};
use crate::request::Request;
use crate::values::Array;

/// Pictures to be made.
#[pyclass(frozen, module = "prepose._prepose")]
pub struct Making {
    loaded: Arc<Loaded>,
    search: Option<SearchConfig>,
    maps: Option<MapOptions>,
    keeps_all: bool,
    /// Whether pictures are decoded in tiles when memory runs out without.
    tiles_when_short: bool,
    rest: Mutex<Rest>,
}

/// What is still to be made.
struct Rest {
    requests: VecDeque<Wanted>,
    batch: usize,
    judge: Option<Box<dyn Detector + Send>>,
}

impl Making {
    /// What `order` asks for.
    pub fn new(
        loaded: Arc<Loaded>,
        order: Order,
        batch: BatchSize,
        keeps_all: bool,
        tiles_when_short: bool,
    ) -> anyhow::Result<Self> {
        let judge = order.load_detector(&loaded.device.device)?;
        let batch = batch.choose(&loaded.networks, &order.requests[0], 1)?;
        Ok(Self {
            search: order.search,
            maps: order.maps,
            keeps_all,
            tiles_when_short,
            rest: Mutex::new(Rest {
                requests: order.requests.into(),
                batch,
                judge,
            }),
            loaded,
        })
    }

    /// A picture for each of `requests`, of which there is one at least; in tiles only where its request says so.
    pub fn of_requests(
        loaded: Arc<Loaded>,
        requests: Vec<Wanted>,
        batch: BatchSize,
    ) -> anyhow::Result<Self> {
        let batch = batch.choose(&loaded.networks, &requests[0], 1)?;
        Ok(Self {
            search: None,
            maps: None,
            keeps_all: false,
            tiles_when_short: false,
            rest: Mutex::new(Rest {
                requests: requests.into(),
                batch,
                judge: None,
            }),
            loaded,
        })
    }
}

#[pymethods]
impl Making {
    /// What is still to be made.
    #[getter]
    fn requests(&self, py: Python) -> Vec<Request> {
        // Another thread may be making pictures.
        py.detach(|| {
            let rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
            rest.requests
                .iter()
                .cloned()
                .map(|request| Request(request, None))
                .collect()
        })
    }

    /// Makes the next batch and returns its pictures, and the candidates of a search; None when all are made.
    #[pyo3(signature = (callback = None))]
    fn next(
        &self,
        py: Python,
        callback: Option<Py<PyAny>>,
    ) -> PyResult<Option<(Vec<Picture>, Py<PyList>)>> {
        let made = without_gil(py, Class::Engine, || {
            self.loaded.alone(|| self.batch(callback.as_ref()))
        })?;
        let Some((pictures, candidates)) = made else {
            return Ok(None);
        };
        let list = PyList::empty(py);
        for one in candidates {
            let said = PyDict::new(py);
            said.set_item("index", one.index)?;
            said.set_item("seed", one.seed)?;
            said.set_item("score", one.score)?;
            said.set_item("steps", one.steps)?;
            list.append(said)?;
        }
        Ok(Some((pictures, list.unbind())))
    }
}

impl Making {
    fn batch(
        &self,
        callback: Option<&Py<PyAny>>,
    ) -> anyhow::Result<Option<(Vec<Picture>, Vec<Candidate>)>> {
        let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        let Rest {
            requests,
            batch,
            judge,
        } = &mut *rest;
        let requests_left = requests.make_contiguous();
        let Some(first) = requests_left.first() else {
            return Ok(None);
        };
        let mut watch = Watch {
            loaded: &self.loaded,
            callback,
            request: first.clone(),
            failure: None,
        };
        let mut maker = PictureMaker::new(&self.loaded.networks, *batch)
            .with_judge(judge.as_ref().map(|judge| &**judge as &dyn Detector))
            .with_maps(self.maps.clone())
            .keeping_all(self.keeps_all);
        (self.loaded.networks).tile_when_short(self.tiles_when_short);
        let made = maker.make(requests_left, self.search.as_ref(), &mut [&mut watch]);
        if let Some(failure) = watch.failure {
            return Err(failure.into());
        }
        let made = made?;
        *batch = maker.batch();
        requests.drain(..made.requests);
        let device = self.loaded.device.title();
        let pictures = made.pictures.into_iter().map(|mut made| {
            self.loaded.signature()?.sign(&mut made.request);
            let device = device.clone();
            Ok(Picture { made, device })
        });
        let pictures: anyhow::Result<_> = pictures.collect();
        Ok(Some((pictures?, made.candidates)))
    }
}

/// Listens for Ctrl-C, and tells of each step.
struct Watch<'a> {
    loaded: &'a Arc<Loaded>,
    callback: Option<&'a Py<PyAny>>,
    /// The first of the batch.
    request: Wanted,
    /// What ended the run.
    failure: Option<PyErr>,
}

impl Watch<'_> {
    fn tell(&mut self, act: impl FnOnce(Python) -> PyResult<()>) -> Result<(), HookError> {
        Python::attach(act).map_err(|error| {
            self.failure = Some(error);
            "stopped".into()
        })
    }
}

impl Hook for Watch<'_> {
    fn before_loop(&mut self, _state: &mut State) -> Result<(), HookError> {
        self.tell(|py| py.check_signals())
    }

    fn after_step(&mut self, state: &mut State, denoised: &Tensor<4>) -> Result<(), HookError> {
        let step = self.callback.map(|callback| {
            let step = Step {
                index: state.step,
                steps: state.steps,
                timestep: state.timestep,
                sigma: state.sigma(),
                latents: state.latents().clone(),
                denoised: denoised.clone(),
                loaded: Arc::clone(self.loaded),
                request: self.request.clone(),
            };
            (callback, step)
        });
        self.tell(|py| {
            py.check_signals()?;
            if let Some((callback, step)) = step {
                callback.call1(py, (step,))?;
            }
            Ok(())
        })
    }
}

/// What a callback gets after each step.
#[pyclass(frozen, module = "prepose._prepose")]
pub struct Step {
    /// The step that was taken, from 0.
    #[pyo3(get)]
    index: usize,
    /// How many steps there are.
    #[pyo3(get)]
    steps: usize,
    /// The training timestep, in [0, 1000).
    #[pyo3(get)]
    timestep: f64,
    /// The noise level σ.
    #[pyo3(get)]
    sigma: f64,
    latents: Tensor<4>,
    denoised: Tensor<4>,
    loaded: Arc<Loaded>,
    /// What previews are decoded for.
    request: Wanted,
}

#[pymethods]
impl Step {
    /// Pictures, or candidates, in the batch.
    #[getter]
    fn pictures(&self) -> usize {
        self.latents.dims()[0]
    }

    /// float32 [pictures, channels, height, width], copied to the host.
    #[getter]
    fn latents<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.detach(|| Array::of_tensor(self.latents.clone()))
            .into_numpy(py)
    }

    /// The expected final latents, in the form of `latents`.
    #[getter]
    fn denoised<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.detach(|| Array::of_tensor(self.denoised.clone()))
            .into_numpy(py)
    }

    /// The expected pictures, decoded: a list of `PIL.Image.Image`.
    fn preview<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let pictures = without_gil(py, Class::Engine, || {
            let networks = &self.loaded.networks;
            let (decoded, _) = networks.decode_for(&self.request, self.denoised.clone())?;
            Ok(decoded)
        })?;
        pictures.iter().map(|picture| pil(py, picture)).collect()
    }

    fn __repr__(&self) -> String {
        format!("<Step {} of {}>", self.index + 1, self.steps)
    }
}
