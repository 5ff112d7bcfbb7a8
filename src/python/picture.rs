//! Pictures: those that were made, and those that come from elsewhere.

use std::path::{Path, PathBuf};

use prepose::make::FinishedPicture;
use prepose::output::png::{self, Made};
use prepose::picture::Picture as Pixels;
use prepose_untrusted::read_regular;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde_json::json;

use crate::error::{self, Class};
use crate::maps::AttentionMaps;
use crate::request::Request;
use crate::values::{interface, numpy_of, to_python};

/// More than any picture's file has.
const MOST_BYTES: u64 = 1 << 30;

/// A picture that was made, with its request and what it cost.
#[pyclass(frozen, module = "prepose._prepose")]
pub struct Picture {
    pub made: FinishedPicture,
    /// Where it was made.
    pub device: String,
}

impl Picture {
    fn bytes(&self, py: Python) -> PyResult<Vec<u8>> {
        let bytes = self.made.to_png(&self.device);
        bytes.map_err(|error| error::of(py, Class::Picture, error))
    }
}

#[pymethods]
impl Picture {
    /// uint8 [height, width, 3], without a copy and therefore read-only.
    #[getter]
    fn array<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        numpy_of(slf.into_any())
    }

    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Pixels { width, height, rgb } = &self.made.picture;
        interface(py, rgb.as_ptr() as usize, "|u1", &[*height, *width, 3])
    }

    /// In pixels.
    #[getter]
    fn width(&self) -> usize {
        self.made.picture.width
    }

    /// In pixels.
    #[getter]
    fn height(&self) -> usize {
        self.made.picture.height
    }

    #[getter]
    fn request(&self) -> Request {
        Request(self.made.request.clone(), Some(self.made.calls))
    }

    #[getter]
    fn prompt(&self) -> &str {
        &self.made.request.prompt
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.made.request.seed
    }

    /// Attention maps by size, those with the most cells first; empty if none were asked for.
    #[getter]
    fn maps(&self) -> PyResult<Vec<AttentionMaps>> {
        self.made.maps.iter().map(AttentionMaps::new).collect()
    }

    /// What it cost to make the picture.
    #[getter]
    fn cost<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let cost = &self.made.cost;
        let said = json!({"unet_calls": cost.unet_calls, "guided_calls": cost.guided_calls,
            "candidates": cost.candidates, "seconds": cost.seconds});
        to_python(py, &said)
    }

    /// Its score in the search that found it, else None.
    #[getter]
    fn score(&self) -> Option<f64> {
        self.made.request.found.as_ref().map(|found| found.score)
    }

    /// The file, with the request inside.
    fn png<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.bytes(py)?))
    }

    /// The pixels, row by row.
    fn tobytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.made.picture.rgb)
    }

    /// Writes the PNG, whole or not at all.
    fn save(&self, py: Python, path: PathBuf) -> PyResult<()> {
        let saved = py.detach(|| self.made.save(&path, &self.device));
        saved.map_err(|error| error::of(py, Class::Picture, error))
    }

    /// The picture as a `PIL.Image.Image`.
    fn pil<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        pil(py, &self.made.picture)
    }

    fn _repr_png_<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.png(py)
    }

    fn __repr__(&self) -> String {
        let Pixels { width, height, .. } = &self.made.picture;
        format!(
            "<Picture {:?}, seed {}, {width}x{height}>",
            self.made.request.prompt, self.made.request.seed
        )
    }
}

/// As `PIL.Image.Image`.
pub fn pil<'py>(py: Python<'py>, picture: &Pixels) -> PyResult<Bound<'py, PyAny>> {
    let size = (picture.width, picture.height);
    let bytes = PyBytes::new(py, &picture.rgb);
    let image = py.import("PIL.Image")?;
    image.call_method1("frombytes", ("RGB", size, bytes))
}

/// A picture from anywhere.
pub struct Given {
    /// What it shows.
    pub pixels: Pixels,
    /// What made it, where it says so.
    pub made: Option<Made>,
    /// Its file, where it has one.
    pub path: Option<PathBuf>,
}

impl Given {
    /// A picture of ours, a file's path, a file's bytes, `PIL.Image.Image`, or an array, uint8 [height, width, 3].
    pub fn from(object: &Bound<PyAny>) -> PyResult<Self> {
        let py = object.py();
        if let Ok(picture) = object.cast::<Picture>() {
            let made = &picture.get().made;
            return Ok(Self {
                pixels: made.picture.clone(),
                made: Some(Made {
                    request: made.request.clone(),
                    calls: made.calls,
                }),
                path: None,
            });
        }
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Self::of_bytes(py, bytes.as_bytes(), Path::new("these bytes"));
        }
        if let Ok(path) = object.extract::<PathBuf>() {
            return Self::of_file(py, path);
        }
        if object.hasattr("getbands")? {
            return Self::of(from_pil(object)?);
        }
        if object.hasattr("__array__")? || object.hasattr("__array_interface__")? {
            return Self::of(from_array(object)?);
        }
        let kind = object.get_type().qualname()?;
        Err(error::new(
            py,
            Class::Picture,
            format!(
                "a {kind} is not a picture: give a path, a file's bytes, an image of PIL, or an array, uint8 [height, width, 3]"
            ),
        ))
    }

    /// One picture, or the pictures of a list.
    pub fn all(object: &Bound<PyAny>) -> PyResult<Vec<Self>> {
        let is_list = object.hasattr("__iter__")?
            && !object.hasattr("__array_interface__")?
            && !object.hasattr("__array__")?
            && !object.hasattr("getbands")?
            && object.extract::<String>().is_err()
            && object.cast::<PyBytes>().is_err();
        match is_list {
            true => object.try_iter()?.map(|one| Self::from(&one?)).collect(),
            false => Ok(vec![Self::from(object)?]),
        }
    }

    fn of(pixels: Pixels) -> PyResult<Self> {
        Ok(Self {
            pixels,
            made: None,
            path: None,
        })
    }

    fn of_file(py: Python, path: PathBuf) -> PyResult<Self> {
        let bytes = read_regular(&path, MOST_BYTES).map_err(|error| {
            let said = format!("cannot read {}", path.display());
            error::of(py, Class::Picture, anyhow::Error::new(error).context(said))
        })?;
        Ok(Self {
            path: Some(path.clone()),
            ..Self::of_bytes(py, &bytes, &path)?
        })
    }

    /// What is in a file; messages call it `name`.
    fn of_bytes(py: Python, bytes: &[u8], name: &Path) -> PyResult<Self> {
        Ok(Self {
            pixels: decoded(py, bytes, name)?,
            // Pictures of other programs carry none.
            made: png::read_made_in(bytes, name).ok(),
            path: None,
        })
    }

    /// The name of its file without its ending.
    pub fn stem(&self) -> Option<String> {
        let stem = self.path.as_deref().and_then(Path::file_stem);
        stem.map(|stem| stem.to_string_lossy().into_owned())
    }
}

/// The pixels in a file's bytes, turned as its EXIF data say.
fn decoded(py: Python, bytes: &[u8], name: &Path) -> PyResult<Pixels> {
    Pixels::decode_upright(bytes).map_err(|error| {
        let said = format!("{}: this is not a picture", name.display());
        error::of(py, Class::Picture, anyhow::Error::new(error).context(said))
    })
}

fn from_pil(image: &Bound<PyAny>) -> PyResult<Pixels> {
    let image = image.call_method1("convert", ("RGB",))?;
    let (width, height): (usize, usize) = image.getattr("size")?.extract()?;
    let rgb: Vec<u8> = image
        .call_method0("tobytes")?
        .cast::<PyBytes>()?
        .as_bytes()
        .to_vec();
    whole(image.py(), width, height, rgb)
}

fn from_array(array: &Bound<PyAny>) -> PyResult<Pixels> {
    let py = array.py();
    let array = py.import("numpy")?.call_method1("asarray", (array,))?;
    let kind = array.getattr("dtype")?.str()?.to_string();
    let shape: Vec<usize> = array.getattr("shape")?.extract()?;
    match shape[..] {
        [height, width, 3] if kind == "uint8" => {
            let bytes = array.call_method0("tobytes")?;
            whole(
                py,
                width,
                height,
                bytes.cast::<PyBytes>()?.as_bytes().to_vec(),
            )
        }
        _ => Err(error::new(
            py,
            Class::Picture,
            format!(
                "an array of {kind} and shape {shape:?} is not a picture; one is uint8 [height, width, 3], from 0 to 255"
            ),
        )),
    }
}

fn whole(py: Python, width: usize, height: usize, rgb: Vec<u8>) -> PyResult<Pixels> {
    if width == 0 || height == 0 || rgb.len() != 3 * width * height {
        let said = format!("a picture of {width}x{height} pixels has nothing to look at");
        return Err(error::new(py, Class::Picture, said));
    }
    Ok(Pixels { width, height, rgb })
}

/// The PNG file of a picture from anywhere; one of ours has its request in it.
#[pyfunction]
pub fn png_of<'py>(py: Python<'py>, picture: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    if let Ok(own) = picture.cast::<Picture>() {
        return own.get().png(py);
    }
    let encoded = png::encode_plain(&Given::from(picture)?.pixels);
    let encoded = encoded.map_err(|error| error::of(py, Class::Picture, error))?;
    Ok(PyBytes::new(py, &encoded))
}
