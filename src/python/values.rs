//! Numbers for numpy without a copy, and JSON as Python's own types.

use burn::tensor::Tensor;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde_json::Value;

/// What an [`Array`] is made of.
pub enum Numbers {
    /// 0 to 255.
    U8(Vec<u8>),
    /// Single precision.
    F32(Vec<f32>),
}

/// Numbers that NumPy, PyTorch and others read in place, through `__array_interface__`. They cannot be changed.
#[pyclass(frozen, module = "prepose._prepose")]
pub struct Array {
    numbers: Numbers,
    shape: Vec<usize>,
}

impl Array {
    /// The values of a tensor, brought to the host.
    pub fn of_tensor<const D: usize>(tensor: Tensor<D>) -> Self {
        let shape = tensor.dims().to_vec();
        let numbers = Numbers::F32(tensor.into_data().iter::<f32>().collect());
        Self { numbers, shape }
    }

    /// As many numbers as the shape has places.
    pub fn new(numbers: Numbers, shape: Vec<usize>) -> Self {
        Self { numbers, shape }
    }

    /// As `numpy.ndarray`, which keeps the numbers alive.
    pub fn into_numpy(self, py: Python) -> PyResult<Bound<PyAny>> {
        numpy_of(Bound::new(py, self)?.into_any())
    }
}

#[pymethods]
impl Array {
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        match &self.numbers {
            Numbers::U8(bytes) => interface(py, bytes.as_ptr() as usize, "|u1", &self.shape),
            Numbers::F32(floats) => interface(py, floats.as_ptr() as usize, F32, &self.shape),
        }
    }
}

const F32: &str = if cfg!(target_endian = "little") {
    "<f4"
} else {
    ">f4"
};

/// What NumPy's array interface, version 3, says of numbers that nobody may change.
pub fn interface<'py>(
    py: Python<'py>,
    address: usize,
    kind: &str,
    shape: &[usize],
) -> PyResult<Bound<'py, PyDict>> {
    let said = PyDict::new(py);
    said.set_item("version", 3)?;
    said.set_item("typestr", kind)?;
    said.set_item("data", (address, true))?;
    said.set_item("shape", pyo3::types::PyTuple::new(py, shape)?)?;
    Ok(said)
}

/// An object with an array interface as `numpy.ndarray`.
pub fn numpy_of(object: Bound<PyAny>) -> PyResult<Bound<PyAny>> {
    object
        .py()
        .import("numpy")?
        .call_method1("asarray", (object,))
}

/// JSON as dictionaries, lists, texts and numbers.
pub fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(flag) => flag.into_pyobject(py)?.to_owned().into_any(),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => number.into_pyobject(py)?.into_any(),
            (None, Some(number)) => number.into_pyobject(py)?.into_any(),
            (None, None) => {
                let number = number.as_f64().unwrap_or(f64::NAN);
                number.into_pyobject(py)?.into_any()
            }
        },
        Value::String(text) => text.into_pyobject(py)?.into_any(),
        Value::Array(values) => {
            let list = PyList::empty(py);
            for value in values {
                list.append(to_python(py, value)?)?;
            }
            list.into_any()
        }
        Value::Object(values) => {
            let pairs = PyDict::new(py);
            for (key, value) in values {
                pairs.set_item(key, to_python(py, value)?)?;
            }
            pairs.into_any()
        }
    })
}

/// Python's dictionaries, lists, texts and numbers as JSON text.
pub fn json_of(value: &Bound<PyAny>) -> PyResult<String> {
    let json = value.py().import("json")?;
    let keywords = PyDict::new(value.py());
    keywords.set_item("allow_nan", false)?;
    json.call_method("dumps", (value,), Some(&keywords))?
        .extract()
}
