//! Attention maps of finished pictures.

use prepose_weights::WeightsError;

use super::error::MakeError;
use crate::attention_maps::{AttentionMaps, Half, MapSelection};
use crate::engine::{Blueprint, EngineError};
use crate::guidance::GuidanceError;
use crate::output::attention::ObjectMaps;
use crate::request::Request;

/// Which attention maps are read while pictures are made. The default is the mean over all heads at every step, for
/// the prompt's objects.
#[derive(Clone, Debug, Default)]
pub struct MapOptions {
    /// Layers, heads and steps.
    pub selection: MapSelection,
    /// Words of the prompt to show instead of its objects; empty for the objects. Of the negative half words of the negative
    /// prompt, one at least.
    pub words: Vec<String>,
}

impl MapOptions {
    /// Checks as far as possible without weights that `request` has such maps.
    ///
    /// # Errors
    /// A word that the prompt, or the negative prompt, does not have, no words of the negative prompt, no negative half, layers
    /// that the network does not have, heads that none of these has, only steps with another text than the final one.
    pub fn check(&self, blueprint: &Blueprint, request: &Request) -> Result<(), EngineError> {
        self.objects(blueprint, request)?;
        let factor = blueprint.vae_factor();
        let unet = blueprint.checkpoint().unet_config()?;
        let latents = [request.height / factor, request.width / factor];
        let filter = self.selection.layers.resolve(&unet, latents)?;
        if let Some(heads) = &self.selection.heads {
            let layers = unet.cross_attention_layers(latents[0], latents[1]);
            let layers = layers.map_err(|source| WeightsError::Config {
                path: blueprint.checkpoint().path().to_path_buf(),
                source,
            })?;
            let read = layers.iter().filter(|layer| filter.wants_planned(layer));
            // Names without a layer are refused where the network is there.
            if let Some(there) = read.map(|layer| layer.heads).max()
                && heads.iter().all(|head| *head >= there)
            {
                return Err(GuidanceError::NoHead { there }.into());
            }
        }
        let is_final = match self.selection.half {
            Half::Positive => blueprint.has_final_prompt(request)?,
            Half::Negative => blueprint.has_final_negative(request)?,
        };
        if self.selection.half == Half::Negative && !is_final.contains(&true) {
            return Err(GuidanceError::NoNegativeHalf.into());
        }
        let mut steps = is_final.iter().enumerate();
        match steps.any(|(step, is_final)| *is_final && self.selection.is_due(step)) {
            true => Ok(()),
            false => Err(GuidanceError::NoMappedStep(self.selection.every).into()),
        }
    }

    /// The hook that reads them.
    pub(super) fn hook(&self) -> AttentionMaps {
        AttentionMaps::new(self.selection.clone())
    }

    /// What is shown for `request`, with its token positions.
    fn objects(
        &self,
        blueprint: &Blueprint,
        request: &Request,
    ) -> Result<Vec<(String, Vec<usize>)>, EngineError> {
        let half = self.selection.half;
        if self.words.is_empty() {
            return match half {
                Half::Positive => blueprint.objects(request),
                Half::Negative => Err(GuidanceError::NoNegativeWords.into()),
            };
        }
        let words = self.words.iter().map(|word| {
            let word = word.trim();
            let positions = match half {
                Half::Positive => blueprint.positions(request, word),
                Half::Negative => blueprint.negative_positions(request, word),
            };
            Ok((word.to_string(), positions?))
        });
        words.collect()
    }

    /// What `hook` has read, brought to the host: for each of `requests` its maps of each size, the most cells first. Where it
    /// has read nothing, a warning says so: the pictures are there, and are not to be lost.
    pub(super) fn read(
        &self,
        hook: AttentionMaps,
        blueprint: &Blueprint,
        requests: &[Request],
    ) -> Result<Vec<Vec<ObjectMaps>>, MakeError> {
        let objects = requests.iter().map(|one| self.objects(blueprint, one));
        let objects = objects.collect::<Result<Vec<_>, _>>()?;
        let read = ObjectMaps::read(&hook.into_steps(), &objects);
        if read.is_empty() {
            tracing::warn!(
                "no attention maps were read, and none are kept: --deep-cache leaves the layers out in all steps that \
                 --attention-every picks; read more steps, with a smaller --attention-every"
            );
        }
        let mut pictures = vec![Vec::with_capacity(read.len()); requests.len()];
        for of_size in read {
            for (maps, picture) in of_size.into_iter().zip(&mut pictures) {
                picture.push(maps);
            }
        }
        Ok(pictures)
    }
}
