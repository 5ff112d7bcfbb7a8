//! Pictures as prompts: from files to what IP-Adapters tell the UNet.

use std::collections::HashMap;
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::{Device, Tensor};
use prepose_models::clip_vision::ClipVisionModel;
use prepose_models::ip_adapter::{AdapterKind, IpAdapter, PictureRow, RegionMask};
use prepose_models::pixels::Rgb;

use super::blueprint::Blueprint;
use super::error::EngineError;
use super::init_image::{Role, read};
use super::networks::Engine;
use crate::dtype::Dtype;
use crate::picture::Picture;
use crate::request::{PicturePrompt, PicturePromptError, PictureRegion, Request};
use crate::sampling::denoise::PictureGroup;

/// Pictures whose tokens are kept for the next batch, and files that are kept in mind.
const MOST_KNOWN: usize = 256;

/// Files that were looked at: the requests of a run name the same few again and again.
#[derive(Default)]
pub(super) struct SeenPictures {
    /// Those that were found to be the recorded ones, by path and SHA-256.
    recorded: Mutex<HashMap<(PathBuf, String), ()>>,
    /// By region, with the SHA-256 of its mask, and size of the picture.
    regions: Mutex<HashMap<String, RegionMask>>,
}

/// What is known by `key`, or is found by `find` and known from now on.
fn remembered<K: Hash + Eq, V: Clone>(
    known: &Mutex<HashMap<K, V>>,
    key: K,
    find: impl FnOnce() -> Result<V, EngineError>,
) -> Result<V, EngineError> {
    let lock = || known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = lock().get(&key) {
        return Ok(known.clone());
    }
    let found = find()?;
    let mut known = lock();
    if known.len() >= MOST_KNOWN {
        known.clear();
    }
    known.insert(key, found.clone());
    Ok(found)
}

/// The IP-Adapters of an engine, with what they made of pictures so far.
pub(super) struct Adapters {
    adapters: Vec<IpAdapter>,
    /// Picture encoders by their files; let go of when memory is short.
    encoders: Mutex<HashMap<PathBuf, Arc<ClipVisionModel>>>,
    /// Tokens `[1, T, D]` by adapter and SHA-256 of the picture; none for no picture.
    known: Mutex<HashMap<(usize, Option<String>), Tensor<3>>>,
}

impl Adapters {
    /// Loads those of `blueprint`; picture encoders are loaded when a picture is to be looked at.
    pub fn load(blueprint: &Blueprint, device: &Device, dtype: Dtype) -> Result<Self, EngineError> {
        let adapters = blueprint.checkpoint.adapters().iter();
        let adapters = adapters.map(|adapter| adapter.load(device, dtype.float()));
        Ok(Self {
            adapters: adapters.collect::<Result<_, _>>()?,
            encoders: Mutex::default(),
            known: Mutex::default(),
        })
    }

    /// Lets go of the picture encoders; whether there were any.
    pub fn release(&self) -> bool {
        let mut encoders = self.encoders.lock().unwrap_or_else(PoisonError::into_inner);
        !std::mem::take(&mut *encoders).is_empty()
    }
}

impl Engine {
    /// What the UNet is told of the pictures of `requests`, which have equally many with the same settings.
    pub(super) fn picture_groups(
        &self,
        requests: &[Request],
    ) -> Result<Vec<PictureGroup>, EngineError> {
        let groups = PicturePrompt::groups(&requests[0].pictures);
        groups
            .iter()
            .map(|group| self.picture_group(requests, group))
            .collect()
    }

    /// The pictures `numbers` of each request, which stand in one softmax.
    fn picture_group(
        &self,
        requests: &[Request],
        numbers: &[usize],
    ) -> Result<PictureGroup, EngineError> {
        let factor = self.blueprint.vae_factor();
        let latents = [requests[0].height / factor, requests[0].width / factor];
        let (mut negative, mut positive) = (Vec::new(), Vec::new());
        for request in requests {
            let picture = &request.pictures[numbers[0]];
            let row = PictureRow {
                tokens: self.joined(request, numbers, true)?,
                scales: self.blueprint.picture_scales(picture)?,
                region: self.blueprint.region(picture, request)?,
            };
            negative.push(PictureRow {
                tokens: self.joined(request, numbers, false)?,
                ..row.clone()
            });
            positive.push(row);
        }
        let first = &requests[0].pictures[numbers[0]];
        let adapter = &self.adapters.adapters[first.adapter - 1];
        Ok(PictureGroup {
            negative: adapter.attention(&negative, latents),
            positive: adapter.attention(&positive, latents),
            first_step: first.first_step,
            last_step: first.last_step,
        })
    }

    /// The tokens of several pictures one after the other; `shown` says whether of the pictures themselves or of none.
    fn joined(
        &self,
        request: &Request,
        numbers: &[usize],
        shown: bool,
    ) -> Result<Tensor<3>, EngineError> {
        let tokens = numbers.iter().map(|number| {
            let picture = &request.pictures[*number];
            self.picture_tokens(picture.adapter - 1, shown.then_some(picture))
        });
        Ok(Tensor::cat(tokens.collect::<Result<Vec<_>, _>>()?, 1))
    }

    /// What an adapter makes of a picture, or of none, `[1, T, D]`.
    fn picture_tokens(
        &self,
        number: usize,
        picture: Option<&PicturePrompt>,
    ) -> Result<Tensor<3>, EngineError> {
        let sha256 = match picture {
            Some(picture) => Some(self.blueprint.recorded(
                &picture.path,
                &picture.sha256,
                Role::Prompt,
            )?),
            None => None,
        };
        remembered(&self.adapters.known, (number, sha256), || {
            let features = self.features(number, picture)?;
            Ok(self.adapters.adapters[number].tokens(features))
        })
    }

    /// What the picture encoder of an adapter gives it, `[1, rows, E]`.
    fn features(
        &self,
        number: usize,
        picture: Option<&PicturePrompt>,
    ) -> Result<Tensor<3>, EngineError> {
        match picture {
            Some(prompt) => {
                let (picture, _) = read(&prompt.path, prompt.sha256.as_deref(), Role::Prompt)?;
                self.picture_features(number, Some((&prompt.path, &picture)))
            }
            None => self.picture_features(number, None),
        }
    }

    /// What the picture encoder of the adapter with this number, from 0, gives it of a picture, or of none: `[1, rows, E]`, in
    /// the type of the networks. The name is for messages.
    ///
    /// # Errors
    /// The encoder cannot be loaded, or the picture is too small or too long to be looked at.
    pub fn picture_features(
        &self,
        number: usize,
        picture: Option<(&Path, &Picture)>,
    ) -> Result<Tensor<3>, EngineError> {
        let config = self.adapters.adapters[number].config();
        let plain = config.kind == AdapterKind::Plain;
        if plain && picture.is_none() {
            return Ok(Tensor::zeros([1, 1, config.picture_dim], &self.device));
        }
        let encoder = self.encoder(number)?;
        let pixels = match picture {
            Some((name, picture)) => {
                let prepared = Rgb::new(picture.width, picture.height, &picture.rgb)
                    .and_then(|picture| encoder.prepare(&[picture], &self.device));
                prepared.map_err(|source| EngineError::Picture {
                    which: Role::Prompt.name(),
                    path: name.to_path_buf(),
                    source: source.into(),
                })?
            }
            // Zeros after the normalisation: grey, not black.
            None => {
                let side = encoder.config().image_size;
                Tensor::zeros([1, 3, side, side], &self.device)
            }
        };
        let encoding = encoder.forward(pixels, 1);
        Ok(match (plain, encoding.embedding) {
            (true, Some(embedding)) => embedding.unsqueeze_dim(1),
            _ => encoding.hidden,
        })
    }

    /// Shows pictures by another adapter from now on in the place of the one with this number, from 0, which is of the same
    /// configuration. Picture encoders are let go of.
    pub fn replace_adapter(&mut self, number: usize, adapter: IpAdapter) {
        self.release_graphs();
        self.adapters.adapters[number] = adapter;
        self.adapters.known = Mutex::default();
        self.adapters.release();
    }

    /// The picture encoder of an adapter, read again if it was let go.
    fn encoder(&self, number: usize) -> Result<Arc<ClipVisionModel>, EngineError> {
        let weights = &self.blueprint.checkpoint.adapters()[number];
        let path = weights.encoder_path().to_path_buf();
        remembered(&self.adapters.encoders, path, || {
            let loaded = weights.load_encoder(&self.device, self.dtype.float())?;
            Ok(Arc::new(loaded))
        })
    }
}

impl Blueprint {
    /// The scale of a picture in each cross-attention layer.
    fn picture_scales(&self, picture: &PicturePrompt) -> Result<Vec<f32>, EngineError> {
        let layers = self.checkpoint.unet_config()?.cross_attention_layers(8, 8);
        let layers = layers.map_err(|source| self.unusable(source))?;
        let names: Vec<String> = layers.into_iter().map(|layer| layer.name).collect();
        Ok(picture.scales(&names)?)
    }

    /// Checks the pictures of `request`, a run of `steps` steps, and records the hashes of their files.
    pub(super) fn check_pictures(
        &self,
        request: &mut Request,
        steps: usize,
    ) -> Result<(), EngineError> {
        let adapters = self.checkpoint.adapters();
        for picture in &request.pictures {
            picture.check(steps, adapters.len())?;
            self.picture_scales(picture)?;
        }
        self.record_pictures(&mut request.pictures)?;
        for picture in &request.pictures {
            self.region(picture, request)?;
        }
        Ok(())
    }

    /// Reads `pictures` and their masks, and records the hashes of their files.
    ///
    /// # Errors
    /// One that cannot be read, or is not the one that was recorded.
    pub fn record_pictures(&self, pictures: &mut [PicturePrompt]) -> Result<(), EngineError> {
        for picture in pictures {
            picture.sha256 = Some(self.recorded(&picture.path, &picture.sha256, Role::Prompt)?);
            if let Some(region) = &mut picture.region {
                self.record_mask(region)?;
            }
        }
        Ok(())
    }

    /// Records the hash of the file of a mask.
    fn record_mask(&self, region: &mut PictureRegion) -> Result<(), EngineError> {
        if let PictureRegion::Mask { path, sha256 } = region {
            *sha256 = Some(self.recorded(path, sha256, Role::Mask)?);
        }
        Ok(())
    }

    /// The SHA-256 of the picture at `path`, which is the recorded one if one was. A file of which nothing was recorded is
    /// read each time: since it was last looked at it may have been overwritten.
    fn recorded(
        &self,
        path: &Path,
        recorded: &Option<String>,
        role: Role,
    ) -> Result<String, EngineError> {
        let Some(recorded) = recorded else {
            return Ok(read(path, None, role)?.1);
        };
        let key = (path.to_path_buf(), recorded.clone());
        remembered(&self.seen.recorded, key, || {
            read(path, Some(recorded), role).map(|_| ())
        })?;
        Ok(recorded.clone())
    }

    /// Where a picture acts in the pixels of the one that is made.
    fn region(
        &self,
        picture: &PicturePrompt,
        request: &Request,
    ) -> Result<Option<RegionMask>, EngineError> {
        let Some(mut region) = picture.region.clone() else {
            return Ok(None);
        };
        self.record_mask(&mut region)?;
        let key = format!("{region:?} {}x{}", request.width, request.height);
        let found = remembered(&self.seen.regions, key, || mask(&region, picture, request))?;
        Ok(Some(found))
    }

    /// Tokens of all pictures of `request`.
    pub(super) fn picture_tokens(&self, request: &Request) -> usize {
        let adapters = self.checkpoint.adapters();
        let pictures = request.pictures.iter();
        pictures
            .filter_map(|picture| adapters.get(picture.adapter.checked_sub(1)?))
            .map(|adapter| adapter.tokens())
            .sum()
    }
}

/// A region in the pixels of the picture that is made.
fn mask(
    region: &PictureRegion,
    picture: &PicturePrompt,
    request: &Request,
) -> Result<RegionMask, EngineError> {
    let (width, height) = (request.width, request.height);
    let found = match region {
        PictureRegion::Box(bbox) => {
            let [x0, y0, x1, y1] = bbox.corners();
            let middle = |at: usize, side: usize| (at as f64 + 0.5) / side as f64;
            let inside = |x, y| {
                (x0..x1).contains(&middle(x, width)) && (y0..y1).contains(&middle(y, height))
            };
            RegionMask::new(width, height, inside)
        }
        PictureRegion::Mask { path, sha256 } => {
            let (mask, _) = read(path, sha256.as_deref(), Role::Mask)?;
            if mask.width * height != mask.height * width {
                return Err(PicturePromptError::MaskShape {
                    path: path.clone(),
                    width: mask.width,
                    height: mask.height,
                    to_width: width,
                    to_height: height,
                }
                .into());
            }
            let mask = match (mask.width, mask.height) == (width, height) {
                true => mask,
                false => mask.resized(width, height),
            };
            let bright = |x: usize, y: usize| is_bright(&mask.rgb[3 * (y * width + x)..][..3]);
            RegionMask::new(width, height, bright)
        }
    };
    match found.is_empty() {
        true => Err(PicturePromptError::EmptyRegion {
            path: picture.path.clone(),
        }
        .into()),
        false => Ok(found),
    }
}

/// Whether Pillow's grey of a pixel is at least half of white.
fn is_bright(pixel: &[u8]) -> bool {
    let weights = [19_595u32, 38_470, 7_471];
    let sum: u32 = pixel
        .iter()
        .zip(weights)
        .map(|(byte, weight)| u32::from(*byte) * weight)
        .sum();
    (sum + 0x8000) >> 16 >= 128
}
