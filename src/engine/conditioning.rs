//! Prompts to what the UNet reads.

use burn::tensor::{Tensor, TensorData};
use prepose_models::clip::{HiddenLayer, TextEncoding};
use prepose_models::unet::AddedConditioning;
use prepose_weights::Family;

use super::blueprint::always_skipped;
use super::error::EngineError;
use super::networks::Engine;
use super::texts::{Texts, parse, timeline};
use crate::request::Request;
use crate::sampling::denoise::{Conditioning, ConditioningPlan, TextConditioning};

impl Engine {
    /// What the UNet is told at the first step.
    ///
    /// # Errors
    /// A prompt that cannot be used.
    pub fn conditioning(&self, requests: &[Request]) -> Result<Conditioning, EngineError> {
        Ok(self.plan(requests, 1)?.at(0).clone())
    }

    /// What the UNet is told over `steps` steps. Equal texts are encoded once.
    pub(super) fn plan(
        &self,
        requests: &[Request],
        steps: usize,
    ) -> Result<ConditioningPlan, EngineError> {
        let timelines = requests
            .iter()
            .map(|request| timeline(request, steps))
            .collect::<Result<Vec<_>, _>>()?;
        let mut different: Vec<Texts> = Vec::new();
        let mut at_step = Vec::with_capacity(steps);
        for step in 0..steps {
            let texts: Texts = timelines.iter().map(|line| line[step].clone()).collect();
            let known = different.iter().position(|known| *known == texts);
            at_step.push(known.unwrap_or(different.len()));
            if known.is_none() {
                different.push(texts);
            }
        }
        let mut chunks = 1;
        for (positive, negative) in different.iter().flatten() {
            chunks = chunks.max(self.text_chunks(positive, negative)?);
        }
        let guided = requests.iter().any(|request| request.guidance_scale > 1.0);
        let mut encoded = Encoded {
            engine: self,
            request: &requests[0],
            chunks,
            known: Vec::new(),
        };
        let conditionings = different.iter().map(|texts| {
            let positive = encoded.half("prompt", texts.iter().map(|(text, _)| text))?;
            let negative = match guided {
                true => {
                    let texts = texts.iter().map(|(_, text)| text);
                    Some(encoded.half("negative prompt", texts)?)
                }
                false => None,
            };
            Ok(Conditioning { positive, negative })
        });
        let conditionings = conditionings.collect::<Result<_, EngineError>>()?;
        Ok(ConditioningPlan::new(conditionings, at_step))
    }

    /// The number of chunks that the longest of a request's texts fills.
    pub(super) fn chunks(&self, request: &Request) -> Result<usize, EngineError> {
        let mut chunks = 1;
        for (positive, negative) in timeline(request, self.steps(request))? {
            chunks = chunks.max(self.text_chunks(&positive, &negative)?);
        }
        Ok(chunks)
    }

    fn text_chunks(&self, positive: &str, negative: &str) -> Result<usize, EngineError> {
        let mut chunks = 1;
        for tokenizer in &self.blueprint.tokenizers {
            let positive = parse("prompt", positive, tokenizer)?;
            let negative = parse("negative prompt", negative, tokenizer)?;
            chunks = chunks.max(positive.chunks()).max(negative.chunks());
        }
        Ok(chunks)
    }

    /// One text through every text encoder: context [1, chunks × N, C] and, for SDXL, the pooled
    /// text and the sizes.
    fn encode(
        &self,
        which: &'static str,
        text: &str,
        chunks: usize,
        request: &Request,
    ) -> Result<TextConditioning, EngineError> {
        let family = self.blueprint.checkpoint.family();
        let layer = match (family, request.clip_skip) {
            (Family::Sd1, 0) => HiddenLayer::Last,
            (Family::Sd1, n) => HiddenLayer::Skip {
                n,
                final_norm: true,
            },
            // SDXL was trained without the final norm.
            (Family::Sdxl, n) => HiddenLayer::Skip {
                n: n + always_skipped(family),
                final_norm: false,
            },
        };
        let mut contexts = Vec::new();
        let mut pooled = None;
        let encoders = self.text_encoders()?;
        for (tokenizer, encoder) in self.blueprint.tokenizers.iter().zip(&*encoders) {
            let prompt = parse(which, text, tokenizer)?.padded_to(chunks, tokenizer);
            let mut hidden = Vec::with_capacity(chunks);
            for (index, chunk) in prompt.iter_chunks().enumerate() {
                let ids: Vec<i32> = chunk.ids.iter().map(|id| *id as i32).collect();
                let shape = [1, ids.len()];
                let tokens = Tensor::from_data(TensorData::new(ids, shape), &self.device);
                let TextEncoding {
                    hidden: states,
                    pooled: summary,
                } = encoder.forward(tokens, &[chunk.eos_position], layer);
                hidden.push(chunk.apply_weights(states));
                // SDXL's pooled text is the last encoder's, of the first chunk.
                if index == 0 {
                    pooled = Some(summary);
                }
            }
            contexts.push(Tensor::cat(hidden, 1));
        }
        let mut context = Tensor::cat(contexts, 2);
        let mut added = match (family, pooled) {
            (Family::Sdxl, Some(text_embeds)) => Some(AddedConditioning {
                text_embeds,
                time_ids: self.time_ids(request),
            }),
            _ => None,
        };
        // SDXL base was trained with zeros for no text at all.
        if which == "negative prompt"
            && text.is_empty()
            && self.blueprint.checkpoint.zeros_for_empty_prompt()
        {
            context = context.zeros_like();
            if let Some(added) = &mut added {
                added.text_embeds = added.text_embeds.zeros_like();
            }
        }
        Ok(TextConditioning { context, added })
    }

    /// SDXL's micro-conditioning (Podell et al., 2023, section 2.2): original size, crop and target
    /// size, [1, 6].
    fn time_ids(&self, request: &Request) -> Tensor<2> {
        let (height, width) = (request.height as f32, request.width as f32);
        Tensor::from_floats([[height, width, 0.0, 0.0, height, width]], &self.device)
    }
}

/// Texts of one batch that are already encoded.
struct Encoded<'a> {
    engine: &'a Engine,
    /// Any of the batch: all agree in what matters here.
    request: &'a Request,
    chunks: usize,
    known: Vec<(&'static str, String, TextConditioning)>,
}

impl Encoded<'_> {
    /// One half of the conditioning: the texts stacked.
    fn half<'t>(
        &mut self,
        which: &'static str,
        texts: impl Iterator<Item = &'t String>,
    ) -> Result<TextConditioning, EngineError> {
        let rows = texts
            .map(|text| self.one(which, text))
            .collect::<Result<Vec<_>, _>>()?;
        let added: Option<Vec<_>> = rows.iter().map(|row| row.added.clone()).collect();
        Ok(TextConditioning {
            context: Tensor::cat(rows.into_iter().map(|row| row.context).collect(), 0),
            added: added.map(|added| {
                let (texts, ids): (Vec<_>, Vec<_>) = added
                    .into_iter()
                    .map(|added| (added.text_embeds, added.time_ids))
                    .unzip();
                AddedConditioning {
                    text_embeds: Tensor::cat(texts, 0),
                    time_ids: Tensor::cat(ids, 0),
                }
            }),
        })
    }

    fn one(&mut self, which: &'static str, text: &str) -> Result<TextConditioning, EngineError> {
        let mut known = self.known.iter();
        if let Some((_, _, row)) = known.find(|(w, t, _)| *w == which && t == text) {
            return Ok(row.clone());
        }
        let row = self.engine.encode(which, text, self.chunks, self.request)?;
        self.known.push((which, text.to_string(), row.clone()));
        Ok(row)
    }
}
