//! Prompts to what the UNet reads.

use burn::tensor::{Tensor, TensorData};
use prepose_models::clip::{HiddenLayer, TextEncoding};
use prepose_models::unet::AddedConditioning;
use prepose_weights::Family;

use super::{Engine, EngineError, parse};
use crate::request::Request;
use crate::sampling::denoise::{Conditioning, TextConditioning};

impl Engine {
    /// Both halves of the batch's conditioning. Equal texts are encoded once.
    pub fn conditioning(&self, requests: &[Request]) -> Result<Conditioning, EngineError> {
        let chunks = requests
            .iter()
            .map(|request| self.chunks(request))
            .collect::<Result<Vec<_>, _>>()?;
        let chunks = chunks.into_iter().max().unwrap_or(1);
        let guided = requests.iter().any(|request| request.guidance_scale > 1.0);
        let positive = self.half("prompt", requests, chunks, |request| &request.prompt)?;
        let negative = match guided {
            true => Some(self.half("negative prompt", requests, chunks, |request| {
                &request.negative_prompt
            })?),
            false => None,
        };
        Ok(Conditioning { positive, negative })
    }

    /// The number of chunks that a request's longer text fills.
    pub(super) fn chunks(&self, request: &Request) -> Result<usize, EngineError> {
        let mut chunks = 1;
        for tokenizer in &self.blueprint.tokenizers {
            let positive = parse("prompt", &request.prompt, tokenizer)?;
            let negative = parse("negative prompt", &request.negative_prompt, tokenizer)?;
            chunks = chunks.max(positive.chunks()).max(negative.chunks());
        }
        Ok(chunks)
    }

    /// One half: the texts that `text` picks, stacked.
    fn half<'a>(
        &self,
        which: &'static str,
        requests: &'a [Request],
        chunks: usize,
        text: impl Fn(&'a Request) -> &'a String,
    ) -> Result<TextConditioning, EngineError> {
        let mut encoded: Vec<(&String, TextConditioning)> = Vec::new();
        let mut rows = Vec::with_capacity(requests.len());
        for request in requests {
            let text = text(request);
            let row = match encoded.iter().find(|(known, _)| *known == text) {
                Some((_, row)) => row.clone(),
                None => {
                    let row = self.encode(which, text, chunks, request)?;
                    encoded.push((text, row.clone()));
                    row
                }
            };
            rows.push(row);
        }
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
            // SDXL was trained on the penultimate layer without the final norm.
            (Family::Sdxl, n) => HiddenLayer::Skip {
                n: n + 1,
                final_norm: false,
            },
        };
        let mut contexts = Vec::new();
        let mut pooled = None;
        for (tokenizer, encoder) in self.blueprint.tokenizers.iter().zip(&self.text_encoders) {
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
