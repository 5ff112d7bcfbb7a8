//! The maps of pictures, recorded once and kept in files.
//!
//! The authors invert a picture to its noise and record maps while it is denoised again. Here the picture's latents are noised
//! to the level, and the network looks at them once: cheaper by the steps of the inversion, and of the same distribution
//! as latents on their way to that picture.

use std::collections::HashMap;
use std::path::Path;

use burn::tensor::{Tensor, TensorData};
use prepose_formats::TensorFile;
use prepose_models::steer::CELLS;
use prepose_models::unet::AddedConditioning;
use prepose_optimizer::draws::{Draws, Purpose};
use prepose_optimizer::objective::noisy_parts;
use prepose_weights::steer::{HalfArray, half_file, row_of};
use sha2::{Digest, Sha256};

use super::{Shown, SteerJob, SteerRecipe};
use crate::engine::Engine;
use crate::guidance::classifier::{classes, inputs};
use crate::guidance::maps::{LayerRule, Pooling, Recorder};
use crate::picture::Picture;
use crate::sampling::noise::{NoiseKind, NoiseSource};
use crate::train::cache::{Cache, key};
use crate::train::error::TrainError;

/// The name of the array in a file: `[2 · timesteps, 2, maps, CELLS]`, first all timesteps under the right word.
const MAPS: &str = "maps";

/// A picture with its files of maps.
#[derive(Clone, Debug)]
pub(super) struct Mapped {
    pub shown: Shown,
    /// The class whose word is wrong for it.
    pub wrong: usize,
    key: String,
}

/// Pictures, and where their maps are.
pub(super) struct Mapping {
    cache: Cache,
    recipe: SteerRecipe,
    pub pictures: Vec<Mapped>,
}

fn article(noun: &str) -> &'static str {
    match noun.starts_with(['a', 'e', 'i', 'o', 'u', 'A', 'E', 'I', 'O', 'U']) {
        true => "an",
        false => "a",
    }
}

/// The prompt that says a class of two objects.
fn prompt([one, other]: &[String; 2], class: usize) -> String {
    let words = ["to the left of", "to the right of", "above", "below", "and"];
    format!(
        "A photo of {} {one} {} {} {other}.",
        article(one),
        words[class.min(4)],
        article(other)
    )
}

impl Mapping {
    /// Says what is to be recorded; reads the pictures' files.
    pub fn new(job: &SteerJob, cache: Cache, fingerprint: &str) -> Result<Self, TrainError> {
        let recipe = &job.recipe;
        let mut pictures = Vec::with_capacity(job.pictures.len());
        for (number, shown) in job.pictures.iter().enumerate() {
            let (_, bytes) = picture(&shown.file)?;
            let sha256 = format!("{:x}", Sha256::digest(&bytes));
            let others = classes().len() as u64 - 1;
            let drawn = recipe.seed.bits(Purpose::Dropout, number as u64) % others;
            let wrong = (shown.class + 1 + drawn as usize) % (others as usize + 1);
            let words = [shown.class, wrong].map(|class| prompt(&shown.objects, class));
            let how = format!("{:?} {}", recipe.timesteps, recipe.seed.0);
            let key = key(&["steer", fingerprint, &sha256, &words[0], &words[1], &how]);
            pictures.push(Mapped {
                shown: shown.clone(),
                wrong,
                key,
            });
        }
        Ok(Self {
            cache,
            recipe: recipe.clone(),
            pictures,
        })
    }

    /// A digest of what is recorded.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        self.pictures.iter().for_each(|one| hash.update(&one.key));
        format!("{:x}", hash.finalize())
    }

    /// Whether all maps are there.
    pub fn is_complete(&self) -> bool {
        self.pictures.iter().all(|one| self.cache.has(&one.key))
    }

    /// Records what is missing; `done` is called after each picture.
    pub fn record(
        &mut self,
        engine: &Engine,
        done: &mut dyn FnMut() -> Result<(), TrainError>,
    ) -> Result<(), TrainError> {
        for one in &self.pictures {
            if !self.cache.has(&one.key) {
                let (shape, maps) = self.maps(engine, one)?;
                let array = HalfArray {
                    name: MAPS,
                    shape,
                    values: &maps,
                };
                let bytes = half_file(&[array], HashMap::new());
                let bytes = bytes.map_err(|error| TrainError::Sizes(error.to_string()))?;
                self.cache.write(&one.key, &bytes)?;
            }
            done()?;
        }
        Ok(())
    }

    /// The maps of a picture, under the right word and under the wrong one, at all timesteps.
    fn maps(&self, engine: &Engine, one: &Mapped) -> Result<(Vec<usize>, Vec<f32>), TrainError> {
        let noisy = self.noised(engine, one)?;
        let levels = self.recipe.timesteps.len();
        let (mut contexts, mut added, mut objects) = (Vec::new(), Vec::new(), Vec::new());
        for class in [one.shown.class, one.wrong] {
            let text = prompt(&one.shown.objects, class);
            let request = engine.request(&text);
            let found = engine.blueprint().objects(&request)?;
            let [(_, first), (_, second)] = found.as_slice() else {
                return Err(TrainError::Read {
                    path: one.shown.file.clone(),
                    why: format!("its objects are not found in {text:?}"),
                });
            };
            let told = engine.conditioning(&[request])?.positive;
            for _ in 0..levels {
                objects.push(vec![first.clone(), second.clone()]);
                contexts.push(told.context.clone());
                added.extend(told.added.clone());
            }
        }
        let added = (!added.is_empty()).then(|| AddedConditioning {
            text_embeds: Tensor::cat(added.iter().map(|one| one.text_embeds.clone()).collect(), 0),
            time_ids: Tensor::cat(added.iter().map(|one| one.time_ids.clone()).collect(), 0),
        });
        let unet = engine.unet();
        let prepared = unet.prepare(Tensor::cat(contexts, 0), added.as_ref());
        let [_, _, height, width] = noisy.dims();
        let filter = LayerRule::Named(Vec::new()).resolve_in(unet, [height, width])?;
        let mut recorder = Recorder::new(filter, Pooling::Each(objects));
        let rows = Tensor::cat(vec![noisy.clone(), noisy], 0);
        let timesteps = self.recipe.timesteps.repeat(2);
        unet.forward_probed(rows, &timesteps, &prepared, &mut recorder);
        let pairs: Vec<(usize, [usize; 2])> = (0..2 * levels).map(|row| (row, [0, 1])).collect();
        let maps = inputs(&recorder.finish(), &pairs);
        let shape = maps.dims().to_vec();
        Ok((shape, maps.into_data().iter::<f32>().collect()))
    }

    /// The picture's latents with the noise of each timestep, `[timesteps, C, h, w]`.
    fn noised(&self, engine: &Engine, one: &Mapped) -> Result<Tensor<4>, TrainError> {
        let (picture, bytes) = picture(&one.shown.file)?;
        let factor = engine.blueprint().vae_factor();
        let [width, height] = [picture.width, picture.height];
        if !width.is_multiple_of(factor) || !height.is_multiple_of(factor) {
            return Err(TrainError::Sizes(format!(
                "{} is {width} × {height}, and this checkpoint's pictures have sides that are multiples of {factor} pixels",
                one.shown.file.display()
            )));
        }
        let device = engine.device();
        let mean = engine.picture_latents(&picture)?.mean;
        let [shift, scale] = engine.latent_scaling();
        let clean = (mean - shift) * scale;
        let schedule = engine.noise_schedule()?;
        let alphas = schedule.alphas_cumprod();
        // The same picture has the same noise, whatever its place among the others.
        let number = Sha256::digest(&bytes);
        let number = number.iter().take(8);
        let number = number.fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
        let own = Draws(self.recipe.seed.0 ^ number);
        let shape = clean.dims();
        let noised = self.recipe.timesteps.iter().enumerate();
        let noised = noised.map(|(level, timestep)| {
            let noise = NoiseSource::new(NoiseKind::Philox, own.bits(Purpose::Noise, level as u64))
                .randn(shape.iter().product());
            let noise = Tensor::from_data(TensorData::new(noise, shape), device);
            let [signal, part] = noisy_parts(f64::from(alphas[*timestep as usize]));
            clean.clone() * f64::from(signal) + noise * f64::from(part)
        });
        Ok(Tensor::cat(noised.collect(), 0))
    }

    /// The rows of a picture's maps, `[2, maps, CELLS]` each: `row` counts timesteps under the right word, then under the
    /// wrong one.
    pub fn rows(&self, picture: usize, rows: &[usize]) -> Result<Vec<Vec<f32>>, TrainError> {
        let file = self.cache.file(&self.pictures[picture].key)?;
        rows.iter().map(|row| self.row(&file, *row)).collect()
    }

    fn row(&self, file: &TensorFile, row: usize) -> Result<Vec<f32>, TrainError> {
        let found = row_of(file, MAPS, row).filter(|maps| maps.len().is_multiple_of(2 * CELLS));
        found.ok_or_else(|| TrainError::Read {
            path: file.path().to_owned(),
            why: "it is not a file of maps; remove it, and it is made again".into(),
        })
    }
}

/// A picture from its file.
fn picture(path: &Path) -> Result<(Picture, Vec<u8>), TrainError> {
    let wrong = |why: String| TrainError::Read {
        path: path.to_owned(),
        why,
    };
    let bytes = prepose_untrusted::read_regular(path, prepose_untrusted::MAX_PICTURE)
        .map_err(|error| wrong(error.to_string()))?;
    let picture = Picture::decode(&bytes).map_err(|error| wrong(error.to_string()))?;
    Ok((picture, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_say_classes() {
        let objects = ["dog".to_owned(), "umbrella".to_owned()];
        let texts = [0, 3, 4].map(|class| prompt(&objects, class));
        let expected = [
            "A photo of a dog to the left of an umbrella.",
            "A photo of a dog below an umbrella.",
            "A photo of a dog and an umbrella.",
        ];
        assert_eq!(texts, expected);
    }
}
