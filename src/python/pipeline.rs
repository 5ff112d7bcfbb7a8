//! Networks that PyTorch holds as a checkpoint: their tensors are read where they lie.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use prepose::cli::model as devices;
use prepose::engine::Blueprint;
use prepose_weights::{MemoryFolder, SharedBytes, StoredType, TensorFile, TensorInfo};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::engine::{Engine, EngineArgs, Loaded};
use crate::error::{self, Class, without_gil};
use crate::fork;
use crate::words;

/// The memory of a tensor that is on the CPU and in one piece, with the tensor.
struct Held {
    address: usize,
    size: usize,
    /// Keeps the memory.
    _tensor: Py<PyAny>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        if self.size == 0 {
            return &[];
        }
        // SAFETY: `open_pipeline` takes address and size from a tensor that is on the CPU and contiguous, and which is held
        // until this is dropped. That nobody writes to a pipeline's weights while an engine reads them is what the
        // package's documentation asks for; PyTorch has no way to forbid it.
        unsafe { std::slice::from_raw_parts(self.address as *const u8, self.size) }
    }
}

/// A tensor: its name, type, shape, address, bytes, and itself.
type Tensor = (String, String, Vec<usize>, usize, usize, Py<PyAny>);

fn stored(py: Python, name: &str, kind: &str) -> PyResult<StoredType> {
    Ok(match kind {
        "float64" => StoredType::F64,
        "float32" => StoredType::F32,
        "float16" => StoredType::F16,
        "bfloat16" => StoredType::Bf16,
        // Text encoders keep the numbers of their positions; networks do not ask for them.
        "int64" => StoredType::Other("I64", 64),
        _ => {
            let said = format!(
                "{name} is of {kind}; weights are float32, float16, bfloat16 or float64, so convert the pipeline with pipe.to(dtype)"
            );
            return Err(error::new(py, Class::Checkpoint, said));
        }
    })
}

/// Loads the networks of a pipeline: `texts` are its configurations and tokenizers, `tensors` its weights, both by the
/// paths that `save_pretrained` would give them.
#[pyfunction]
#[pyo3(signature = (name, texts, tensors, options))]
pub fn open_pipeline(
    py: Python,
    name: String,
    texts: BTreeMap<String, Vec<u8>>,
    tensors: BTreeMap<String, Vec<Tensor>>,
    options: &Bound<PyDict>,
) -> PyResult<Engine> {
    let args: EngineArgs = words::read(
        "from_pipeline",
        &[],
        Some(options),
        &["checkpoint", "config"],
    )?;
    fork::refuse(py)?;
    let mut folder = MemoryFolder {
        name: name.clone(),
        texts,
        tensors: BTreeMap::new(),
    };
    for (path, tensors) in tensors {
        let mut all: BTreeMap<String, (TensorInfo, SharedBytes)> = BTreeMap::new();
        for (key, kind, shape, address, size, tensor) in tensors {
            let info = TensorInfo {
                dtype: stored(py, &key, &kind)?,
                shape,
            };
            let held: SharedBytes = Arc::new(Held {
                address,
                size,
                _tensor: tensor,
            });
            all.insert(key, (info, held));
        }
        let file = TensorFile::shared(PathBuf::from(&name).join(&path), all)
            .map_err(|error| error::of(py, Class::Checkpoint, error))?;
        folder.tensors.insert(path, Arc::new(file));
    }
    let loaded = without_gil(py, Class::Checkpoint, || {
        let mut model = args.model.request();
        model.checkpoint = name;
        let blueprint = Blueprint::from_memory(folder, &model)?;
        let device = devices::open(args.model.device)?;
        if args.model.dtype.is_none() {
            model.dtype = device.default_dtype();
        }
        Loaded::new(blueprint, model, device, args.running, None)
    })?;
    Ok(Engine(Arc::new(loaded)))
}
