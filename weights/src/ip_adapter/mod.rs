//! IP-Adapters from the files that their authors publish, `.safetensors` or `.bin`, with the picture encoder that each was
//! trained with; and those that are trained here.

mod new;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::prelude::Device;
use burn::tensor::FloatDType;
use prepose_formats::TensorFile;
use prepose_models::clip_vision::{ClipVisionConfig, ClipVisionModel};
use prepose_models::ip_adapter::{
    AdapterKind, AdapterLayer, IpAdapter, IpAdapterConfig, ResamplerConfig,
};
use prepose_models::params::Params;
use prepose_models::unet::UNetConfig;
use serde_json::Value;

use crate::error::WeightsError;
use crate::eyes::EyeWeights;
use crate::family::{self, Family};
use crate::hash::{FileHash, hash_file};
use crate::hub;
use crate::part::{Part, Parts, View};
pub use new::NewAdapter;
pub(crate) use new::file;

/// Where an adapter is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdapterSpec {
    /// The adapter's file, or `toybox` for the toybox's own.
    pub path: PathBuf,
    /// Its picture encoder: a folder, a file or a name, as [`EyeWeights::open`] takes it. Without one it is looked for
    /// beside the adapter, where the authors' repository has it.
    pub encoder: Option<PathBuf>,
}

/// An adapter, opened but not yet loaded, with its picture encoder.
#[derive(Debug)]
pub struct AdapterWeights {
    part: Part,
    config: IpAdapterConfig,
    /// None for a new one, which has no values yet.
    file: Option<Arc<TensorFile>>,
    encoder: EyeWeights,
    vision: ClipVisionConfig,
}

const PROJECTOR: &str = "image_proj.";
const LAYERS: &str = "ip_adapter.";

/// Where picture encoders are, seen from an adapter's folder in the authors' repository.
const BESIDE: [&str; 4] = [
    "image_encoder",
    "../image_encoder",
    "../models/image_encoder",
    "../sdxl_models/image_encoder",
];

/// Whether a file holds an IP-Adapter of any kind.
pub(crate) fn is_adapter(file: &TensorFile) -> bool {
    file.count(PROJECTOR) > 0 && file.count(LAYERS) > 0
}

impl AdapterWeights {
    /// Opens the adapter of `spec` for the networks of `parts`.
    ///
    /// # Errors
    /// It is none, or one for faces by a recogniser, or for another network; there is no picture encoder, or another than
    /// it was trained with.
    pub(crate) fn open(spec: &AdapterSpec, parts: &Parts) -> Result<Self, WeightsError> {
        #[cfg(feature = "toybox")]
        if spec.path == Path::new(crate::TOYBOX) {
            let own = crate::TOYBOX_CLIP;
            let encoder = spec.encoder.clone().unwrap_or_else(|| own.into());
            return Self::of(crate::toybox::ip_adapter()?, Some(&encoder), parts);
        }
        let path = hub::resolve(&spec.path)?;
        if std::fs::metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
            return Err(WeightsError::Folder {
                path,
                what: "this is a folder, and an IP-Adapter is a file".into(),
                hint: "give a file in it, such as ip-adapter_sd15.safetensors".into(),
            });
        }
        Self::of(
            Arc::new(TensorFile::open(&path)?),
            spec.encoder.as_deref(),
            parts,
        )
    }

    /// The adapter in `file`, with the picture encoder `given` or the one beside it.
    fn of(
        file: Arc<TensorFile>,
        given: Option<&Path>,
        parts: &Parts,
    ) -> Result<Self, WeightsError> {
        let path = file.path().to_path_buf();
        if !is_adapter(&file) {
            return Err(WeightsError::Unsupported {
                path,
                what: format!("{}, not an IP-Adapter", family::kind(&file).name()),
                hint: "give a file of IP-Adapter, such as ip-adapter_sd15.safetensors or \
                       ip-adapter-plus_sdxl_vit-h.safetensors"
                    .into(),
            });
        }
        let config = config(&file, &path, layers(parts)?)?;
        let part = part(&file, &path, &parts.unet.path);
        fits(&config, &part, parts)?;
        let (encoder, vision) = encoder(given, &path, &config)?;
        Ok(Self {
            part,
            config,
            file: Some(file),
            encoder,
            vision,
        })
    }

    /// The adapter's sizes.
    pub fn config(&self) -> &IpAdapterConfig {
        &self.config
    }

    /// Its file; a new one's picture encoder.
    pub fn path(&self) -> &Path {
        &self.part.path
    }

    /// Tokens of one picture.
    pub fn tokens(&self) -> usize {
        self.config.tokens(self.vision.positions())
    }

    /// How many parameters it has, its picture encoder's not counted.
    pub fn parameters(&self) -> u64 {
        self.part.parameters(|_| true)
    }

    /// How many parameters its picture encoder has.
    pub fn encoder_parameters(&self) -> u64 {
        self.encoder.parameters()
    }

    /// The file of its picture encoder's weights: adapters with the same one can share it.
    pub fn encoder_path(&self) -> &Path {
        self.encoder.path()
    }

    /// SHA-256 of its file and its picture encoder's. Reads them from end to end.
    ///
    /// # Errors
    /// [`WeightsError::Io`].
    pub fn file_hashes(&self) -> Result<Vec<FileHash>, WeightsError> {
        let own = self.file.iter().map(|file| hash_file(file));
        own.chain([self.encoder.file_hash()]).collect()
    }

    /// The adapter; of a new one all parameters are zero.
    ///
    /// # Errors
    /// [`WeightsError::Mismatch`] if any parameter is missing, unused or of another shape,
    /// [`WeightsError::NonFinite`] for weights that are no numbers, and what reading can run into.
    pub fn load(&self, device: &Device, dtype: FloatDType) -> Result<IpAdapter, WeightsError> {
        let adapter = |params: Params| IpAdapter::load(&self.config, params);
        if self.is_new() {
            let mut zeros = new::Zeros;
            let made = adapter(Params::new(&mut zeros, device, dtype));
            return made.map_err(|source| WeightsError::Config {
                path: self.part.config_path.clone(),
                source,
            });
        }
        self.part.load(device, dtype, false, adapter)
    }

    /// Its picture encoder.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_encoder(
        &self,
        device: &Device,
        dtype: FloatDType,
    ) -> Result<ClipVisionModel, WeightsError> {
        self.encoder.load_clip_vision(device, dtype)
    }
}

/// The layers of the UNet of `parts` that adapters act in.
fn layers(parts: &Parts) -> Result<Vec<AdapterLayer>, WeightsError> {
    let layers = parts.unet.config::<UNetConfig>()?.adapter_layers();
    layers.map_err(|source| WeightsError::Config {
        path: parts.unet.config_path.clone(),
        source,
    })
}

/// Channels of the texts of `parts`.
fn text_width(parts: &Parts) -> Result<usize, WeightsError> {
    let unet: UNetConfig = parts.unet.config()?;
    Ok(unet.cross_attention_dim.first().unwrap_or(0))
}

/// The tensors of an adapter's file.
fn part(file: &Arc<TensorFile>, path: &Path, network: &Path) -> Part {
    let mut part = Part::new("IP-Adapter", path, Value::Null, network);
    for key in file.names() {
        part.insert(key.to_string(), file, key, View::Whole);
    }
    part
}

/// What kind of adapter it is, and of what sizes.
fn config(
    file: &TensorFile,
    path: &Path,
    layers: Vec<AdapterLayer>,
) -> Result<IpAdapterConfig, WeightsError> {
    let shape = |name: &str| Some(file.info(&format!("{PROJECTOR}{name}"))?.shape.clone());
    let side = |name: &str, axis: usize| shape(name).and_then(|shape| shape.get(axis).copied());
    let refused = |what: &str, hint: &str| WeightsError::Unsupported {
        path: path.to_path_buf(),
        what: what.into(),
        hint: hint.into(),
    };
    const FACES: &str = "it needs the vectors of a face recogniser, which prepose does not have; use a plain, a plus or a \
                         full-face IP-Adapter";
    // In the order in which diffusers asks.
    let sizes = if let Some(shape) = shape("proj.weight") {
        (
            AdapterKind::Plain,
            shape.get(1).copied(),
            side("norm.weight", 0),
            None,
        )
    } else if let Some(shape) = shape("proj.3.weight") {
        (
            AdapterKind::FullFace,
            side("proj.0.weight", 1),
            shape.first().copied(),
            None,
        )
    } else if shape("perceiver_resampler.proj_in.weight").is_some() {
        return Err(refused("an IP-Adapter FaceID Plus", FACES));
    } else if shape("norm.weight").is_some() {
        return Err(refused("an IP-Adapter FaceID", FACES));
    } else {
        let depth = (0..).take_while(|i| shape(&format!("layers.{i}.0.to_q.weight")).is_some());
        let resampler = ResamplerConfig {
            latents: side("latents", 1).unwrap_or(0),
            width: side("latents", 2).unwrap_or(0),
            depth: depth.count(),
            heads: side("layers.0.0.to_q.weight", 0).unwrap_or(0) / 64,
        };
        let (input, output) = (side("proj_in.weight", 1), side("proj_out.weight", 0));
        (AdapterKind::Plus, input, output, Some(resampler))
    };
    let (kind, Some(picture_dim), Some(context_dim), resampler) = sizes else {
        return Err(refused(
            "an IP-Adapter of an unknown kind",
            "give a plain, a plus or a full-face one for Stable Diffusion 1.x or XL",
        ));
    };
    Ok(IpAdapterConfig {
        kind,
        picture_dim,
        context_dim,
        resampler,
        layers,
    })
}

/// Refuses an adapter of another network than that of `parts`.
fn fits(config: &IpAdapterConfig, part: &Part, parts: &Parts) -> Result<(), WeightsError> {
    let key = |layer: &AdapterLayer| format!("{LAYERS}{}.to_k_ip.weight", layer.number);
    let pairs = (part.entries.keys()).filter(|name| name.ends_with(".to_k_ip.weight"));
    let (pairs, wanted) = (pairs.count(), config.layers.len());
    let text = text_width(parts)?;
    let what = if config.context_dim != text {
        let width = config.context_dim;
        format!("its tokens have {width} channels, the texts of this checkpoint {text}")
    } else if pairs != wanted {
        format!("it has {pairs} layers, this checkpoint {wanted}")
    } else {
        let other = config.layers.iter().find_map(|layer| {
            let found = part.entries.get(&key(layer))?.shape();
            (found != [layer.channels, text]).then(|| {
                format!(
                    "{} is {found:?}, expected [{}, {text}]",
                    key(layer),
                    layer.channels
                )
            })
        });
        match other {
            Some(other) => other,
            None => return Ok(()),
        }
    };
    let hint = match parts.family {
        Family::Sd1 => "use one for Stable Diffusion 1.5, such as ip-adapter_sd15.safetensors",
        Family::Sd2 => "none was published for Stable Diffusion 2.x; use a checkpoint of 1.x or XL",
        Family::Sdxl => {
            "use one for Stable Diffusion XL, such as ip-adapter_sdxl_vit-h.safetensors"
        }
    };
    Err(WeightsError::Unsupported {
        path: part.path.clone(),
        what: format!("an IP-Adapter for another network ({what})"),
        hint: hint.into(),
    })
}

/// The picture encoder of an adapter: the one that is asked for, or the one beside it that fits.
fn encoder(
    given: Option<&Path>,
    path: &Path,
    config: &IpAdapterConfig,
) -> Result<(EyeWeights, ClipVisionConfig), WeightsError> {
    let open = |path: &Path| {
        let (encoder, vision, _) = open_encoder(path, config.kind, Some(config.picture_dim))?;
        Ok((encoder, vision))
    };
    if let Some(given) = given {
        return open(given);
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut refused = None;
    for candidate in BESIDE.map(|place| folder.join(place)) {
        if candidate.is_dir() {
            match open(&candidate) {
                Ok(found) => return Ok(found),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
    }
    Err(refused.unwrap_or_else(|| WeightsError::Folder {
        path: path.to_path_buf(),
        what: "there is no picture encoder beside it: no folder image_encoder".into(),
        hint: "say where it is, as in --ip-adapter FILE,encoder=models/image_encoder".into(),
    }))
}

/// The picture encoder at `path`, if it gives what an adapter of this kind wants, and how many channels that has: `wanted`,
/// where that is known.
fn open_encoder(
    path: &Path,
    kind: AdapterKind,
    wanted: Option<usize>,
) -> Result<(EyeWeights, ClipVisionConfig, usize), WeightsError> {
    let encoder = EyeWeights::open(path)?;
    let vision = encoder.clip_vision_config()?;
    let given = match kind {
        AdapterKind::Plain if encoder.is_projected() => vision.projection_dim,
        AdapterKind::Plain => {
            return Err(WeightsError::Unsupported {
                path: path.to_path_buf(),
                what: "a picture encoder without a projection".into(),
                hint: "a plain IP-Adapter needs one with it: CLIPVisionModelWithProjection".into(),
            });
        }
        AdapterKind::FullFace | AdapterKind::Plus => vision.hidden_size,
    };
    let Some(wanted) = wanted.filter(|wanted| *wanted != given) else {
        return Ok((encoder, vision, given));
    };
    Err(WeightsError::Unsupported {
        path: path.to_path_buf(),
        what: format!("a picture encoder of {given} channels for an IP-Adapter that wants {wanted}"),
        hint: "give the one that the adapter was trained with: models/image_encoder (ViT-H) for most, \
               sdxl_models/image_encoder (bigG) for ip-adapter_sdxl"
            .into(),
    })
}
