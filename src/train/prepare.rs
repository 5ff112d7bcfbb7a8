//! Pictures and captions as the UNet is trained on them: latents and states of the text encoders, kept in files.

use std::path::{Path, PathBuf};

use prepose_dataset::bucket::Fit;
use prepose_dataset::look::Looked;
use prepose_dataset::objects::Object;
use prepose_dataset::order::{Flips, Item, items};
use prepose_models::unet::MOST_OBJECTS;
use sha2::{Digest, Sha256};

use super::cache::{Arrays, Cache, key};
use super::error::TrainError;
use super::recipe::Beside;
use crate::engine::Engine;

/// What is trained on, encoded.
pub struct Prepared {
    cache: Cache,
    samples: Vec<Looked>,
    flips: Flips,
    /// The items of an epoch.
    pub items: Vec<Item>,
    /// Of the networks that encode.
    networks: String,
    /// What matters besides pictures and captions.
    beside: Beside,
}

/// The mean and the standard deviation of latents, not yet scaled.
pub(super) struct Moments {
    pub shape: [usize; 3],
    pub mean: Vec<f32>,
    pub deviation: Vec<f32>,
}

/// The states of a caption.
pub(super) struct Told {
    /// Tokens and channels.
    pub shape: [usize; 2],
    pub context: Vec<f32>,
    pub pooled: Option<Vec<f32>>,
}

fn sizes<const N: usize>(shape: &[usize]) -> Option<[usize; N]> {
    shape.try_into().ok()
}

impl Prepared {
    /// Decides on mirror images. `networks` names the networks that encode, such as by their hash. `beside` is what is trained on
    /// as well.
    pub fn new(
        samples: Vec<Looked>,
        flips: Flips,
        cache: PathBuf,
        networks: String,
        beside: Beside,
    ) -> Self {
        Self {
            cache: Cache::new(cache),
            items: items(&samples, flips),
            samples,
            flips,
            networks,
            beside,
        }
    }

    /// The size of each item's picture.
    pub fn sizes(&self) -> Vec<[usize; 2]> {
        let items = self.items.iter();
        items
            .map(|item| self.samples[item.sample].fit.size)
            .collect()
    }

    /// Whether a picture comes with another caption than its own.
    pub fn has_exchanged(&self) -> bool {
        let other = |item: &Item| item.caption != self.samples[item.sample].sample.caption;
        self.items.iter().any(other)
    }

    /// How many pictures there are.
    pub fn pictures(&self) -> usize {
        self.samples.len()
    }

    /// What messages call an item.
    pub fn name(&self, item: usize) -> &str {
        &self.samples[self.items[item].sample].sample.name
    }

    /// The size of a sample's picture as it was, height first.
    pub(super) fn original(&self, item: usize) -> [usize; 2] {
        let [width, height] = self.samples[self.items[item].sample].size;
        [height, width]
    }

    pub(super) fn fit(&self, item: usize) -> Fit {
        self.samples[self.items[item].sample].fit
    }

    /// A digest of what is trained on: the pictures' bytes, how they are cut and turned, and their captions.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for item in &self.items {
            hash.update(self.picture_key(item));
            hash.update((item.caption.len() as u64).to_le_bytes());
            hash.update(&item.caption);
            for Object { phrase, corners } in self.objects(item) {
                hash.update((phrase.len() as u64).to_le_bytes());
                hash.update(&phrase);
                corners
                    .iter()
                    .for_each(|edge| hash.update(edge.to_le_bytes()));
            }
            if self.beside == Beside::Shown {
                hash.update(self.shown_key(Some(item)));
            }
        }
        format!("{:x}", hash.finalize())
    }

    /// What is where in the picture as it is trained on; nothing if that does not matter.
    fn objects(&self, item: &Item) -> Vec<Object> {
        match self.beside {
            Beside::Objects => {
                let looked = &self.samples[item.sample];
                let mirrored = self.flips.mirrors().filter(|_| item.flipped);
                looked
                    .fit
                    .place(&looked.sample.objects, mirrored, MOST_OBJECTS)
            }
            Beside::Nothing | Beside::Shown => Vec::new(),
        }
    }

    fn picture_key(&self, item: &Item) -> String {
        let fit = self.samples[item.sample].fit;
        let fit = format!(
            "{:?} {:?} {:?} {}",
            fit.resized, fit.offset, fit.size, item.flipped
        );
        key(&[
            "latents",
            &self.networks,
            &self.samples[item.sample].sha256,
            &fit,
        ])
    }

    // Under "caption" and "phrase" caches have states of texts that were read as prompts.
    fn caption_key(&self, caption: &str) -> String {
        key(&["literal caption", &self.networks, caption])
    }

    fn phrase_key(&self, phrase: &str) -> String {
        key(&["literal phrase", &self.networks, phrase])
    }

    /// Encodes what is not yet in the cache; `done` is called after each item.
    ///
    /// # Errors
    /// A picture that cannot be read any more, a full disk, what `done` says.
    pub fn encode(
        &self,
        engine: &Engine,
        mut done: impl FnMut() -> Result<(), TrainError>,
    ) -> Result<(), TrainError> {
        self.encode_caption(engine, "")?;
        if self.beside == Beside::Shown {
            self.encode_shown(engine, None)?;
        }
        for item in &self.items {
            if self.beside == Beside::Shown {
                self.encode_shown(engine, Some(item))?;
            }
            self.encode_caption(engine, &item.caption)?;
            for object in self.objects(item) {
                self.encode_phrase(engine, &object.phrase)?;
            }
            let key = self.picture_key(item);
            if !self.cache.has(&key) {
                self.cache.put(&key, &self.latents(engine, item)?)?;
            }
            done()?;
        }
        Ok(())
    }

    fn encode_caption(&self, engine: &Engine, caption: &str) -> Result<(), TrainError> {
        let key = self.caption_key(caption);
        if self.cache.has(&key) {
            return Ok(());
        }
        let states = engine.caption_states(caption)?;
        let [_, tokens, channels] = states.context.dims();
        let context = states.context.into_data().iter::<f32>().collect();
        let mut arrays: Arrays = vec![("context", vec![tokens, channels], context)];
        if let Some(pooled) = states.pooled {
            let pooled: Vec<f32> = pooled.into_data().iter::<f32>().collect();
            arrays.push(("pooled", vec![pooled.len()], pooled));
        }
        self.cache.put(&key, &arrays)
    }

    fn encode_phrase(&self, engine: &Engine, phrase: &str) -> Result<(), TrainError> {
        let key = self.phrase_key(phrase);
        if self.cache.has(&key) {
            return Ok(());
        }
        let state = engine.phrase_state(phrase)?.into_data();
        let state: Vec<f32> = state.iter::<f32>().collect();
        self.cache
            .put(&key, &vec![("state", vec![state.len()], state)])
    }

    /// What is where in an item's picture as it is trained on.
    pub(super) fn placed(&self, item: usize) -> Vec<Object> {
        self.objects(&self.items[item])
    }

    /// The state of a phrase of [`Self::placed`].
    pub(super) fn phrase(&self, phrase: &str) -> Result<Vec<f32>, TrainError> {
        let (_, state) = self.cache.get(&self.phrase_key(phrase), "state")?;
        Ok(state)
    }

    /// What is shown for an item, or for none: the picture that its own names, as it is, or its own, the whole of it, mirrored
    /// if that is.
    fn shown_key(&self, item: Option<&Item>) -> String {
        let Some(item) = item else {
            return key(&["nothing shown", &self.networks]);
        };
        let looked = &self.samples[item.sample];
        let (sha256, mirrored) = match &looked.shown_sha256 {
            Some(other) => (other, false),
            None => (&looked.sha256, item.flipped),
        };
        key(&["shown", &self.networks, sha256, &mirrored.to_string()])
    }

    fn encode_shown(&self, engine: &Engine, item: Option<&Item>) -> Result<(), TrainError> {
        let key = self.shown_key(item);
        if self.cache.has(&key) {
            return Ok(());
        }
        let features = match item {
            None => engine.picture_features(0, None)?,
            Some(item) => {
                let sample = &self.samples[item.sample].sample;
                let name = Path::new(&sample.name);
                let place = sample.shown.as_ref().unwrap_or(&sample.place);
                let picture = place.picture().map_err(|why| TrainError::Read {
                    path: name.to_owned(),
                    why,
                })?;
                let picture = match item.flipped && sample.shown.is_none() {
                    true => picture.mirrored(),
                    false => picture,
                };
                engine.picture_features(0, Some((name, &picture)))?
            }
        };
        let [_, rows, channels] = features.dims();
        let values = features.into_data().iter::<f32>().collect();
        let arrays = vec![("features", vec![rows, channels], values)];
        self.cache.put(&key, &arrays)
    }

    /// What the picture encoder says of what is shown for an item, or of nothing: rows and channels.
    pub(super) fn shown(&self, item: Option<usize>) -> Result<([usize; 2], Vec<f32>), TrainError> {
        let key = self.shown_key(item.map(|item| &self.items[item]));
        let (shape, features) = self.cache.get(&key, "features")?;
        let shape = sizes(&shape).ok_or_else(|| TrainError::Sizes("features of no size".into()))?;
        Ok((shape, features))
    }

    fn latents(&self, engine: &Engine, item: &Item) -> Result<Arrays, TrainError> {
        let sample = &self.samples[item.sample].sample;
        let picture = sample.picture().map_err(|why| TrainError::Read {
            path: sample.name.clone().into(),
            why,
        })?;
        let picture = self.samples[item.sample].fit.apply(&picture);
        // Encoders do not turn with pictures: it is the picture that is mirrored.
        let picture = match item.flipped {
            true => picture.mirrored(),
            false => picture,
        };
        let found = engine.picture_latents(&picture)?;
        let [_, channels, height, width] = found.mean.dims();
        let shape = vec![channels, height, width];
        let deviation = (found.logvar * 0.5).exp();
        let values = |tensor: burn::tensor::Tensor<4>| tensor.into_data().iter::<f32>().collect();
        Ok(vec![
            ("mean", shape.clone(), values(found.mean)),
            ("deviation", shape, values(deviation)),
        ])
    }

    pub(super) fn moments(&self, item: usize) -> Result<Moments, TrainError> {
        let key = self.picture_key(&self.items[item]);
        let (shape, mean) = self.cache.get(&key, "mean")?;
        let (_, deviation) = self.cache.get(&key, "deviation")?;
        let shape = sizes(&shape).ok_or_else(|| TrainError::Sizes("latents of no size".into()))?;
        Ok(Moments {
            shape,
            mean,
            deviation,
        })
    }

    /// The states of an item's caption, or of no caption.
    pub(super) fn told(&self, item: Option<usize>) -> Result<Told, TrainError> {
        let caption = item.map_or("", |item| &self.items[item].caption);
        let key = self.caption_key(caption);
        let (shape, context) = self.cache.get(&key, "context")?;
        let shape = sizes(&shape).ok_or_else(|| TrainError::Sizes("states of no size".into()))?;
        Ok(Told {
            shape,
            context,
            pooled: self
                .cache
                .get(&key, "pooled")
                .ok()
                .map(|(_, pooled)| pooled),
        })
    }
}
