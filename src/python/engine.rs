//! A checkpoint on a device.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError};
use std::thread::ThreadId;
use std::time::Duration;

use prepose::cli::generate::{Args, Order};
use prepose::cli::memory::RunningArgs;
use prepose::cli::model::{self, ModelArgs};
use prepose::device::OpenDevice;
use prepose::engine::{Blueprint, Engine as Networks};
use prepose::make::{self, BatchSize, Signature, Signing};
use prepose::request::{ModelRequest, Request as Wanted};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{self, Class, without_gil};
use crate::fork;
use crate::making::Making;
use crate::request::Request;
use crate::words;

/// The networks and where they run: what `generate` asks before it asks for pictures.
#[derive(Debug, clap::Args)]
pub struct EngineArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub running: RunningArgs,
}

/// Options of `generate` that are files of the command line's, or the engine's own.
pub const NOT_HERE: [&str; 21] = [
    "allow_mismatch",
    "checkpoint",
    "config",
    "device",
    "dtype",
    "gligen",
    "grid",
    "guide_save_memory",
    "ip_adapter",
    "json",
    "keep_previews",
    "lora",
    "manifest",
    "no_graphs",
    "out",
    "prediction",
    "preview_every",
    "prompts",
    "vae",
    "x",
    "y",
];

/// Stands where the command line has a folder for attention maps; nothing is written.
const IN_MEMORY: &str = "in memory";

/// Networks that are loaded.
pub struct Loaded {
    pub networks: Networks,
    pub model: ModelRequest,
    pub device: OpenDevice,
    signing: Mutex<Option<Signing>>,
    signature: OnceLock<Signature>,
    /// The thread that makes pictures.
    busy: Mutex<Option<ThreadId>>,
    turn: Mutex<()>,
}

impl Loaded {
    /// Loads the networks of `blueprint`, which is that of `model`. `ungrounded` is without layers that nobody asked for.
    pub fn new(
        blueprint: Blueprint,
        model: ModelRequest,
        device: OpenDevice,
        running: RunningArgs,
        ungrounded: Option<&Blueprint>,
    ) -> anyhow::Result<Self> {
        device.check_dtype(model.dtype)?;
        let signing = Signature::begin(&blueprint, ungrounded);
        let networks = running.apply(blueprint.load(&model, &device)?);
        Ok(Self {
            networks,
            model,
            device,
            signing: Mutex::new(Some(signing)),
            signature: OnceLock::new(),
            busy: Mutex::new(None),
            turn: Mutex::new(()),
        })
    }

    /// Which files these are; waits until they are hashed.
    pub fn signature(&self) -> anyhow::Result<&Signature> {
        Python::attach(fork::refuse)?;
        let mut signing = self.signing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(signing) = signing.take() {
            // Nobody else has had it.
            let _ = self.signature.set(signing.finish()?);
        }
        Ok(self.signature.get().ok_or(make::MakeError::Fingerprint)?)
    }

    /// `request` for these networks. If its picture was made by others, no search has found the one that these make.
    fn take(&self, mut request: Wanted) -> anyhow::Result<Wanted> {
        let others = request.model.clone();
        request.put_networks(self.model.clone());
        if request.found.is_some() {
            let mut signed = request.clone();
            self.signature()?.sign(&mut signed);
            request.found = request.found.filter(|_| signed.model == others);
        }
        Ok(request)
    }

    /// Lets one thread at a time make pictures; the others wait for it, and for Ctrl-C.
    pub fn alone<T>(&self, act: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        Python::attach(fork::refuse)?;
        let me = std::thread::current().id();
        let busy = || self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        anyhow::ensure!(
            *busy() != Some(me),
            "the engine is making pictures; a callback cannot ask it for others"
        );
        let _turn = loop {
            match self.turn.try_lock() {
                Ok(turn) => break turn,
                Err(TryLockError::Poisoned(turn)) => break turn.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    std::thread::sleep(Duration::from_millis(20));
                    Python::attach(|py| py.check_signals())?;
                }
            }
        };
        *busy() = Some(me);
        let _free = Free(&self.busy);
        act()
    }
}

/// Nobody makes pictures any more, whatever happened.
struct Free<'a>(&'a Mutex<Option<ThreadId>>);

impl Drop for Free<'_> {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// A checkpoint on a device.
#[pyclass(frozen, module = "prepose._prepose")]
pub struct Engine(pub Arc<Loaded>);

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (**options))]
    fn new(py: Python, options: Option<&Bound<PyDict>>) -> PyResult<Self> {
        let args: EngineArgs = words::read("Engine", &[], options, &[])?;
        fork::refuse(py)?;
        let loaded = without_gil(py, Class::Checkpoint, || {
            let plain = args.model.request();
            let mut model = plain.clone();
            model.ground_toybox();
            let ungrounded = (model != plain).then(|| Blueprint::open(&plain));
            let ungrounded = ungrounded.transpose()?;
            let blueprint = Blueprint::open(&model)?;
            let device = model::open(args.model.device)?;
            if args.model.dtype.is_none() {
                model.dtype = device.default_dtype();
            }
            Loaded::new(blueprint, model, device, args.running, ungrounded.as_ref())
        })?;
        Ok(Self(Arc::new(loaded)))
    }

    /// What `options` ask for, checked: the pictures of these prompts.
    fn _order(
        &self,
        py: Python,
        prompts: Vec<String>,
        options: &Bound<PyDict>,
    ) -> PyResult<Making> {
        if let Some(prompt) = prompts.iter().find(|prompt| prompt.trim() == "-") {
            let said =
                format!("the prompt {prompt:?} says nothing; say what the picture should show");
            return Err(error::new(py, Class::Option, said));
        }
        let options = options.copy()?;
        if let Some(maps) = options.get_item("attention_maps")? {
            options.del_item("attention_maps")?;
            if maps.is_truthy()? {
                options.set_item("attention_maps", IN_MEMORY)?;
            }
        }
        let first: Vec<_> = prompts.iter().map(std::ffi::OsStr::new).collect();
        let args: Args = words::read("generate", &first, Some(&options), &NOT_HERE)?;
        let loaded = Arc::clone(&self.0);
        without_gil(py, Class::Option, move || {
            args.check()?;
            let stored = args.stored()?;
            let blueprint = loaded.networks.blueprint();
            let sign = |request: &mut Wanted| {
                loaded.signature()?.sign(request);
                anyhow::Ok(())
            };
            let mut order = Order::new(&args, stored.as_ref(), &loaded.model, blueprint, sign)?;
            order.choose_tiling(&args, &loaded.networks)?;
            let tiles_when_short = args.tiles_when_short();
            Making::new(
                loaded,
                order,
                args.batch(),
                args.keeps_all(),
                tiles_when_short,
            )
        })
    }

    /// The pictures of these requests, checked.
    #[pyo3(signature = (requests, batch = "auto"))]
    fn _order_again(
        &self,
        py: Python,
        requests: Vec<Bound<Request>>,
        batch: &str,
    ) -> PyResult<Making> {
        let batch: BatchSize = batch.parse().map_err(|error: String| {
            error::new(
                py,
                Class::Option,
                format!("batch is {batch:?}, but {error}"),
            )
        })?;
        if requests.is_empty() {
            return Err(error::new(
                py,
                Class::Option,
                "there is no request to make a picture of",
            ));
        }
        let requests: Vec<Wanted> = (requests.iter())
            .map(|request| request.get().0.clone())
            .collect();
        let loaded = Arc::clone(&self.0);
        without_gil(py, Class::Option, move || {
            let requests = requests.into_iter().map(|request| loaded.take(request));
            let mut requests = requests.collect::<anyhow::Result<Vec<_>>>()?;
            for request in &mut requests {
                make::check(loaded.networks.blueprint(), request, None, None)?;
            }
            Making::of_requests(loaded, requests, batch)
        })
    }

    /// The device, as `--device` names it.
    #[getter]
    fn device(&self) -> String {
        self.0.device.spec.to_string()
    }

    /// The device with the name of the hardware.
    #[getter]
    fn device_name(&self) -> String {
        self.0.device.title()
    }

    #[getter]
    fn checkpoint(&self) -> &str {
        &self.0.model.checkpoint
    }

    #[getter]
    fn dtype(&self) -> String {
        format!("{:?}", self.0.model.dtype).to_lowercase()
    }

    /// The SHA-256 of the checkpoint's files, as recorded in pictures.
    #[getter]
    fn sha256(&self, py: Python) -> PyResult<String> {
        without_gil(py, Class::Checkpoint, || {
            Ok(self.0.signature()?.ungrounded().to_owned())
        })
    }

    /// The default width, height, steps and guidance scale.
    #[getter]
    fn defaults<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let defaults = self.0.networks.blueprint().defaults();
        let said = PyDict::new(py);
        said.set_item("width", defaults.width)?;
        said.set_item("height", defaults.height)?;
        said.set_item("steps", defaults.steps)?;
        said.set_item("guidance_scale", defaults.guidance_scale)?;
        Ok(said)
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(pyo3::exceptions::PyTypeError::new_err(format!(
            "an engine cannot be pickled; open {:?} again where it is needed",
            self.checkpoint()
        )))
    }

    fn __repr__(&self) -> String {
        format!(
            "<Engine {:?} on {} in {}>",
            self.checkpoint(),
            self.device_name(),
            self.dtype()
        )
    }
}
