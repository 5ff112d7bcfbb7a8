//! Files of classifiers that guidance learned from (`prepose train steer`): safetensors whose metadata say which maps they
//! read.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use half::f16;
use prepose_formats::{TensorFile, TensorPart};
use prepose_models::steer::{SteerSize, parameters};
use prepose_models::unet::UNetConfig;
use safetensors::tensor::{Dtype, TensorView};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::error::WeightsError;
use crate::tensors;

/// The key of [`SteerConfig`] in a file's metadata.
const KEY: &str = "prepose.steer";

/// A cross-attention layer whose maps are read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadLayer {
    /// Its name in diffusers' naming.
    pub name: String,
    /// Each head has its own map.
    pub heads: usize,
}

/// What a classifier is, and what it was trained on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SteerConfig {
    /// How large it is.
    pub size: SteerSize,
    /// The layers whose maps it reads, in the order of execution.
    pub layers: Vec<ReadLayer>,
    /// The training timesteps that it knows, from high to low noise.
    pub timesteps: Vec<f64>,
    /// What its scores are of: names of relations, and `none`.
    pub classes: Vec<String>,
    /// The checkpoint that its pictures and maps are of.
    pub checkpoint: String,
    /// SHA-256 of that checkpoint's files.
    pub checkpoint_sha256: String,
    /// Pictures that it was trained on.
    pub pictures: usize,
    /// Whether maps under wrong relation words were among what it was trained on.
    pub wrong_words: bool,
}

impl SteerConfig {
    /// What a file says of itself, if it is a classifier; its weights are not looked at.
    pub(crate) fn of(file: &TensorFile) -> Option<Self> {
        serde_json::from_str(file.metadata()?.get(KEY)?).ok()
    }
}

/// Why a file is no classifier for a checkpoint.
#[derive(Debug, Error)]
pub enum SteerError {
    /// It cannot be read.
    #[error(transparent)]
    Weights(Box<WeightsError>),
    /// It is something else, or damaged.
    #[error(
        "{}: {what}; a classifier is what `prepose train steer` writes, steer.safetensors",
        path.display()
    )]
    NoClassifier {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// It reads the maps of another network.
    #[error(
        "{}: this classifier was trained for {checkpoint:?}, whose attention is different: {what}; train one for this \
         checkpoint with `prepose train steer`",
        path.display()
    )]
    Other {
        /// The file.
        path: PathBuf,
        /// The checkpoint that it is for.
        checkpoint: String,
        /// What differs.
        what: String,
    },
}

impl From<WeightsError> for SteerError {
    fn from(error: WeightsError) -> Self {
        Self::Weights(Box::new(error))
    }
}

/// The layers of a network whose maps a classifier reads: all that attend to the text.
///
/// # Errors
/// A configuration that makes no network.
pub fn read_layers(unet: &UNetConfig) -> Result<Vec<ReadLayer>, prepose_models::ConfigError> {
    // The size of the maps does not matter: each is resized.
    let layers = unet.cross_attention_layers(64, 64)?.into_iter();
    Ok(layers
        .map(|layer| ReadLayer {
            name: layer.name,
            heads: layer.heads,
        })
        .collect())
}

/// A classifier in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct SteerFile {
    /// What it is.
    pub config: SteerConfig,
    /// In the order of [`parameters`](Self::parameters).
    pub values: Vec<Vec<f32>>,
}

impl SteerFile {
    /// Reads a file.
    ///
    /// # Errors
    /// [`SteerError`].
    pub fn open(path: &Path) -> Result<Self, SteerError> {
        Self::read(&TensorFile::open(path).map_err(WeightsError::from)?)
    }

    /// The toybox's.
    ///
    /// # Errors
    /// [`SteerError`].
    #[cfg(feature = "toybox")]
    pub fn toybox() -> Result<Self, SteerError> {
        let (name, bytes) = crate::toybox::STEER;
        let file = TensorFile::from_bytes(PathBuf::from(name), bytes);
        Self::read(&file.map_err(WeightsError::from)?)
    }

    /// Names and shapes of its tensors.
    pub fn parameters(config: &SteerConfig) -> Vec<(String, Vec<usize>)> {
        parameters(&config.size, config.timesteps.len(), config.classes.len())
    }

    fn read(file: &TensorFile) -> Result<Self, SteerError> {
        let wrong = |what: String| SteerError::NoClassifier {
            path: file.path().to_owned(),
            what,
        };
        let about = file.metadata().and_then(|metadata| metadata.get(KEY));
        let about = about.ok_or_else(|| wrong("it does not say which maps it reads".into()))?;
        let config: SteerConfig = serde_json::from_str(about)
            .map_err(|error| wrong(format!("what it says of itself is damaged: {error}")))?;
        let SteerSize {
            width,
            heads,
            layers,
            head_layers,
            hidden,
        } = config.size;
        let fits = (1..=4096).contains(&width) && heads > 0 && width.is_multiple_of(heads);
        let known = !config.timesteps.is_empty() && config.classes.len() > 1;
        if !fits || !known || layers.max(head_layers) > 64 || hidden > 1 << 16 {
            return Err(wrong("what it says of its size makes no network".into()));
        }
        let mut values = Vec::new();
        for (name, shape) in Self::parameters(&config) {
            let there = file.info(&name).map(|info| &info.shape);
            if there != Some(&shape) {
                let there = there.map_or("missing".into(), |there| format!("of shape {there:?}"));
                return Err(wrong(format!("its {name} is {there} and not {shape:?}")));
            }
            let read = tensors::read(file, &name, TensorPart::WHOLE)?;
            if !read.finite {
                return Err(wrong(format!("its {name} has numbers that are none")));
            }
            values.push(read.data.convert::<f32>().iter().collect());
        }
        Ok(Self { config, values })
    }

    /// Refuses a network whose maps are others than those that the classifier reads.
    ///
    /// # Errors
    /// [`SteerError::Other`] with what differs.
    pub fn check(&self, path: &Path, unet: &UNetConfig) -> Result<(), SteerError> {
        let other = |what: String| SteerError::Other {
            path: path.to_owned(),
            checkpoint: self.config.checkpoint.clone(),
            what,
        };
        let here = read_layers(unet).map_err(|error| other(error.to_string()))?;
        let there = &self.config.layers;
        let maps = |layers: &[ReadLayer]| layers.iter().map(|layer| layer.heads).sum::<usize>();
        if (here.len(), maps(&here)) != (there.len(), maps(there)) {
            return Err(other(format!(
                "it reads {} maps of {} layers, and here are {} of {}",
                maps(there),
                there.len(),
                maps(&here),
                here.len()
            )));
        }
        match here.iter().zip(there).find(|(here, there)| here != there) {
            None => Ok(()),
            Some((here, there)) => Err(other(format!(
                "it reads {} with {} heads where here is {} with {}",
                there.name, there.heads, here.name, here.heads
            ))),
        }
    }

    /// The bytes of a file of it, in f16.
    ///
    /// # Errors
    /// Never with a classifier that was read or trained.
    pub fn to_bytes(&self) -> Result<Vec<u8>, safetensors::SafeTensorError> {
        let about = serde_json::to_string(&self.config).unwrap_or_default();
        let parameters = Self::parameters(&self.config);
        let arrays = parameters.iter().zip(&self.values);
        let arrays: Vec<HalfArray> = arrays
            .map(|((name, shape), values)| HalfArray {
                name,
                shape: shape.clone(),
                values,
            })
            .collect();
        half_file(&arrays, HashMap::from([(KEY.to_owned(), about)]))
    }
}

/// An array that is written in f16.
pub struct HalfArray<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its extents.
    pub shape: Vec<usize>,
    /// Its elements.
    pub values: &'a [f32],
}

/// The bytes of a safetensors file of f16.
///
/// # Errors
/// Shapes that do not fit the elements.
pub fn half_file(
    arrays: &[HalfArray],
    metadata: HashMap<String, String>,
) -> Result<Vec<u8>, safetensors::SafeTensorError> {
    struct Bytes(Dtype, Vec<usize>, Vec<u8>);
    impl safetensors::View for &Bytes {
        fn dtype(&self) -> Dtype {
            self.0
        }
        fn shape(&self) -> &[usize] {
            &self.1
        }
        fn data(&self) -> Cow<'_, [u8]> {
            Cow::Borrowed(&self.2)
        }
        fn data_len(&self) -> usize {
            self.2.len()
        }
    }
    let bytes = arrays.iter().map(|array| {
        let values = array.values.iter();
        let bytes: Vec<u8> = values
            .flat_map(|value| f16::from_f32(*value).to_le_bytes())
            .collect();
        TensorView::new(Dtype::F16, array.shape.clone(), &bytes)?;
        Ok(Bytes(Dtype::F16, array.shape.clone(), bytes))
    });
    let bytes = bytes.collect::<Result<Vec<_>, safetensors::SafeTensorError>>()?;
    let named = arrays.iter().map(|array| array.name).zip(&bytes);
    safetensors::serialize(named, Some(metadata))
}

/// Row `row` of a tensor in a file, as f32; none if it has no such tensor or row.
pub fn row_of(file: &TensorFile, name: &str, row: usize) -> Option<Vec<f32>> {
    let rows = *file.info(name)?.shape.first()?;
    let part = TensorPart {
        index: row,
        of: rows,
    };
    let read = (row < rows).then(|| tensors::read(file, name, part).ok())??;
    Some(read.data.convert::<f32>().iter().collect())
}
