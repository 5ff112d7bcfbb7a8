//! Attention maps.

use prepose::output::attention::ObjectMaps;
use pyo3::prelude::*;

use crate::values::{Array, Numbers};

/// Where the network looked for each object of a picture's prompt while it drew.
#[pyclass(frozen, module = "prepose._prepose")]
pub struct AttentionMaps {
    objects: Vec<String>,
    steps: Vec<usize>,
    values: Py<Array>,
}

impl AttentionMaps {
    fn shape(maps: &ObjectMaps) -> [usize; 4] {
        let first = maps.maps.first().and_then(|step| step.first());
        let (rows, columns) = first.map_or((0, 0), |map| (map.height, map.width));
        [maps.steps.len(), maps.objects.len(), rows, columns]
    }
}

impl AttentionMaps {
    /// The maps of one picture and size.
    pub fn new(maps: &ObjectMaps) -> PyResult<Self> {
        let values = maps.maps.iter().flatten();
        let values: Vec<f32> = values.flat_map(|map| map.values.iter().copied()).collect();
        let values = Array::new(Numbers::F32(values), Self::shape(maps).to_vec());
        Ok(Self {
            objects: maps.objects.clone(),
            steps: maps.steps.clone(),
            values: Python::attach(|py| Py::new(py, values))?,
        })
    }
}

#[pymethods]
impl AttentionMaps {
    /// What the maps are of, as the prompt names it.
    #[getter]
    fn objects(&self) -> Vec<String> {
        self.objects.clone()
    }

    /// The steps that were read, from 0.
    #[getter]
    fn steps(&self) -> Vec<usize> {
        self.steps.clone()
    }

    /// float32 [steps, objects, rows, columns], without a copy and therefore read-only.
    #[getter]
    fn array<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        crate::values::numpy_of(self.values.bind(py).clone().into_any())
    }

    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.values.bind(py).getattr("__array_interface__")
    }

    /// The mean over the steps: float32 [objects, rows, columns].
    fn mean<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.array(py)?.call_method1("mean", (0,))
    }

    /// The maps of one object, by its name or number: float32 [steps, rows, columns].
    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        object: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let index = match object.extract::<String>() {
            Ok(name) => match self.objects.iter().position(|known| *known == name) {
                Some(index) => index,
                None => {
                    let said = format!(
                        "there is no map of {name:?}; there are {}",
                        self.objects.join(", ")
                    );
                    return Err(pyo3::exceptions::PyKeyError::new_err(said));
                }
            },
            Err(_) => {
                let index: isize = object.extract()?;
                let count = self.objects.len() as isize;
                let index = if index < 0 { index + count } else { index };
                usize::try_from(index)
                    .ok()
                    .filter(|index| *index < self.objects.len())
                    .ok_or_else(|| {
                        pyo3::exceptions::PyIndexError::new_err(format!(
                            "there are maps of {count} objects"
                        ))
                    })?
            }
        };
        let whole = py
            .import("builtins")?
            .getattr("slice")?
            .call1((py.None(),))?;
        self.array(py)?.get_item((whole, index))
    }

    fn __len__(&self) -> usize {
        self.objects.len()
    }

    fn __repr__(&self) -> String {
        format!(
            "<AttentionMaps of {} over {} steps>",
            self.objects.join(", "),
            self.steps.len()
        )
    }
}
