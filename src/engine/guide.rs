//! What a request says about the places of things, in terms of the network.

use prepose_weights::Family;

use super::blueprint::{parse, schedule};
use super::{Blueprint, Engine, EngineError};
use crate::guidance::{Guidance, GuidanceConfig, Method, Network, Settings, Target};
use crate::prompt::scene::Scene;
use crate::request::Request;
use crate::search::{AttentionMeter, RewardKind, SearchConfig};

impl Blueprint {
    /// The objects and relations of the prompt that the run of `request` ends with, or the relations that the
    /// request gives instead.
    ///
    /// # Errors
    /// A scene that contradicts itself, relations between things that the prompt does not name.
    pub fn scene(&self, request: &Request) -> Result<Scene, EngineError> {
        let prompt = self.final_text(request)?;
        let scene = match request.relations.is_empty() {
            true => Scene::parse(&prompt),
            false => Scene::with_relations(&prompt, &request.relations),
        };
        scene.map_err(|source| EngineError::Scene { prompt, source })
    }

    /// Token positions of a phrase of the prompt that the run of `request` ends with, at its first occurrence.
    ///
    /// # Errors
    /// A phrase that the prompt does not have.
    pub fn positions(&self, request: &Request, phrase: &str) -> Result<Vec<usize>, EngineError> {
        let text = self.final_text(request)?;
        let tokenizer = &self.tokenizers[0];
        let found = parse("prompt", &text, tokenizer)?.find(phrase, 0, tokenizer);
        let found = found.map_err(crate::guidance::GuidanceError::from)?;
        Ok(found.positions)
    }

    /// The objects that guidance and search see in `request`, by name, with their token positions.
    ///
    /// # Errors
    /// As [`scene`](Self::scene).
    pub fn objects(&self, request: &Request) -> Result<Vec<(String, Vec<usize>)>, EngineError> {
        let scene = self.scene(request)?;
        let text = self.final_text(request)?;
        let tokenizer = &self.tokenizers[0];
        let prompt = parse("prompt", &text, tokenizer)?;
        let objects = scene.objects.iter().enumerate().map(|(index, object)| {
            let policy = Default::default();
            let positions = scene.token_positions(index, &prompt, policy);
            let positions = positions.map_err(|source| EngineError::Scene {
                prompt: text.clone(),
                source,
            })?;
            Ok((object.phrase.clone(), positions))
        });
        objects.collect()
    }

    /// What guidance takes its step sizes from.
    pub fn network(&self) -> Network {
        match (self.checkpoint.network_name(), self.checkpoint.family()) {
            (Some("toybox"), _) => Network::Toybox,
            (_, Family::Sd1) => Network::Sd1,
            (_, Family::Sdxl) => Network::Sdxl,
        }
    }

    /// What `config` should achieve in `request`.
    fn target(
        &self,
        request: &Request,
        config: &GuidanceConfig,
    ) -> Result<(Settings, Target), EngineError> {
        let settings = config.settings(self.network())?;
        let scene = self.scene(request)?;
        let text = self.final_text(request)?;
        // The meter of a search looks at relations, whatever boxes there are for guidance.
        let boxes = match &request.guide {
            Some(guide) if guide.method == config.method => &*request.boxes,
            _ => &[],
        };
        let target = Target::new(&settings, &text, &scene, boxes, &self.tokenizers[0])?;
        Ok((settings, target))
    }

    /// Checks guidance as far as possible without weights.
    pub(super) fn check_guidance(
        &self,
        request: &Request,
        steps: usize,
    ) -> Result<(), EngineError> {
        if let Some(config) = &request.guide {
            let (settings, _) = self.target(request, config)?;
            let factor = self.vae_factor();
            let latents = [request.height / factor, request.width / factor];
            settings.check(steps, &self.checkpoint.unet_config()?, latents)?;
        } else if !request.relations.is_empty() {
            // A relation that is misspelt should be known before the picture is made.
            self.scene(request)?;
        }
        Ok(())
    }

    /// Checks a search for `request` as far as possible without weights.
    ///
    /// # Errors
    /// No candidate, impossible steps of pruning, nothing in the prompt to search by attention.
    pub fn check_search(
        &self,
        request: &Request,
        search: &SearchConfig,
    ) -> Result<(), EngineError> {
        let (schedule, start) = schedule(&self.checkpoint, request)?;
        search.check(schedule.len() - start)?;
        match search.reward {
            RewardKind::Attention => self.meter(std::slice::from_ref(request)).map(|_| ()),
            // These depend on a detector.
            RewardKind::Checker | RewardKind::Pse => self.scene(request).map(|_| ()),
        }
    }

    /// What scores `requests` as a batch, by the attention to their objects.
    ///
    /// # Errors
    /// A prompt without relations, or with relations of depth.
    pub fn meter(&self, requests: &[Request]) -> Result<AttentionMeter, EngineError> {
        let config = GuidanceConfig::new(Method::Pos);
        let mut targets = Vec::with_capacity(requests.len());
        for request in requests {
            targets.push(self.target(request, &config)?.1);
        }
        Ok(AttentionMeter::new(
            config.settings(self.network())?.layers,
            targets,
        )?)
    }
}

impl Engine {
    /// The guidance that a batch asks for.
    pub(super) fn guidance(&self, requests: &[Request]) -> Result<Option<Guidance>, EngineError> {
        let Some(config) = &requests[0].guide else {
            return Ok(None);
        };
        let mut targets = Vec::with_capacity(requests.len());
        for request in requests {
            targets.push(self.blueprint.target(request, config)?.1);
        }
        let settings = config.settings(self.blueprint.network())?;
        let guidance = Guidance::new(settings, targets)?;
        Ok(Some(guidance.with_memory(self.guidance_memory)))
    }
}
