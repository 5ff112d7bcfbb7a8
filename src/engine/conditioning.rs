//! Prompts to what the UNet reads.

use burn::tensor::{DType, Int, Tensor, TensorData};
use prepose_models::clip::{ClipTextModel, HiddenLayer, TextEncoding};
use prepose_models::unet::{AddedConditioning, Objects};
use prepose_weights::Family;

use super::blueprint::always_skipped;
use super::error::EngineError;
use super::networks::Engine;
use super::texts::{Texts, firsts, parse, parts};
use crate::prompt::Chunk;
use crate::prompt::compose::Part;
use crate::request::Request;
use crate::sampling::denoise::{Composition, Conditioning, ConditioningPlan, TextConditioning};

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
            .map(|request| self.blueprint.read_texts(request, steps))
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
            chunks = chunks.max(self.blueprint.text_chunks(positive, negative)?);
        }
        let objects = self.objects(requests)?;
        let mut encoded = Encoded {
            engine: self,
            requests,
            chunks,
            objects,
            known: Vec::new(),
        };
        let conditionings = different.iter().map(|texts| encoded.conditioning(texts));
        let conditionings = conditionings.collect::<Result<_, EngineError>>()?;
        let halves = different.iter().map(|texts| {
            let halves = texts.iter().map(|(prompt, negative)| (prompt, negative));
            halves.unzip()
        });
        let (prompts, negatives): (Vec<Vec<&String>>, Vec<Vec<&String>>) = halves.unzip();
        let plan = ConditioningPlan::new(conditionings, at_step)
            .with_halves(firsts(prompts.iter()), firsts(negatives.iter()));
        let grounding = requests[0].ground.as_ref();
        let plan = plan.showing(self.picture_groups(requests)?);
        Ok(plan.grounded_for(grounding.map_or(0, |grounding| grounding.steps(steps))))
    }

    /// What GLIGEN's layers are told of each picture; none if they are off. Equal phrases are encoded once.
    fn objects(&self, requests: &[Request]) -> Result<Option<Objects>, EngineError> {
        let mut known: Vec<(String, Tensor<1>)> = Vec::new();
        let mut rows = Vec::new();
        for request in requests {
            let Some(boxes) = self.blueprint.grounded(request)? else {
                return Ok(None);
            };
            let mut objects = Vec::with_capacity(boxes.len());
            for given in boxes {
                let found = known.iter().find(|(phrase, _)| *phrase == given.object);
                let phrase = match found {
                    Some((_, phrase)) => phrase.clone(),
                    None => {
                        let phrase = self.phrase(&given.object)?;
                        known.push((given.object.clone(), phrase.clone()));
                        phrase
                    }
                };
                objects.push((phrase, given.bbox.corners()));
            }
            let width = self.text_encoders()?[0].config().hidden_size;
            rows.push(Objects::new(&objects, width, &self.device));
        }
        Ok(Some(Objects::cat(rows)))
    }

    /// The first text encoder's pooled state of a phrase, `[C]`.
    fn phrase(&self, phrase: &str) -> Result<Tensor<1>, EngineError> {
        let tokenizer = &self.blueprint.tokenizers[0];
        self.pooled(parse("phrase of a box", phrase, tokenizer)?.first())
    }

    /// The first text encoder's pooled state of a chunk, `[C]`.
    pub(super) fn pooled(&self, chunk: &Chunk) -> Result<Tensor<1>, EngineError> {
        let encoding = self.encode_chunk(&self.text_encoders()?[0], chunk, HiddenLayer::Last);
        Ok(encoding.pooled.squeeze_dim(0))
    }

    /// A chunk through a text encoder, hidden states [1, N, C] of `layer` and the pooled state [1, C].
    pub(super) fn encode_chunk(
        &self,
        encoder: &ClipTextModel,
        chunk: &Chunk,
        layer: HiddenLayer,
    ) -> TextEncoding {
        let config = encoder.config();
        let pooled = config.pooled_position(&chunk.ids, chunk.eos_position);
        encoder.forward(self.tokens(chunk), &[pooled], layer)
    }

    /// The ids of a chunk, [1, N].
    pub(super) fn tokens(&self, chunk: &Chunk) -> Tensor<2, Int> {
        let ids: Vec<i32> = chunk.ids.iter().map(|id| *id as i32).collect();
        let shape = [1, ids.len()];
        Tensor::from_data(TensorData::new(ids, shape), &self.device)
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
        let layer = hidden_layer(family, request.clip_skip);
        let mut contexts = Vec::new();
        let mut pooled = None;
        let encoders = self.text_encoders()?;
        // SDXL base was trained with zeros for no text at all.
        let zeros = which == "negative prompt"
            && text.is_empty()
            && self.blueprint.checkpoint.zeros_for_empty_prompt();
        if zeros {
            return self.no_text(&encoders, chunks, request);
        }
        for (tokenizer, encoder) in self.blueprint.tokenizers.iter().zip(&*encoders) {
            let prompt = parse(which, text, tokenizer)?.padded_to(chunks, tokenizer);
            let mut hidden = Vec::with_capacity(chunks);
            for (index, chunk) in prompt.iter_chunks().enumerate() {
                let TextEncoding {
                    hidden: states,
                    pooled: summary,
                } = self.encode_chunk(encoder, chunk, layer);
                hidden.push(chunk.apply_weights(states));
                // SDXL's pooled text is the last encoder's, of the first chunk.
                if index == 0 {
                    pooled = Some(summary);
                }
            }
            contexts.push(Tensor::cat(hidden, 1));
        }
        let context = Tensor::cat(contexts, 2);
        let added = match (family, pooled) {
            (Family::Sdxl, Some(text_embeds)) => Some(AddedConditioning {
                text_embeds,
                time_ids: self.time_ids(request),
            }),
            _ => None,
        };
        Ok(TextConditioning { context, added })
    }

    /// Zeros in place of a text of so many chunks, which no encoder is asked for.
    fn no_text(
        &self,
        encoders: &[ClipTextModel],
        chunks: usize,
        request: &Request,
    ) -> Result<TextConditioning, EngineError> {
        let mut tokens = 0;
        if let Some(tokenizer) = self.blueprint.tokenizers.first() {
            let nothing = parse("negative prompt", "", tokenizer)?.padded_to(chunks, tokenizer);
            tokens = nothing.iter_chunks().map(|chunk| chunk.ids.len()).sum();
        }
        let width = encoders.iter().map(|one| one.config().hidden_size).sum();
        let zeros = (&self.device, DType::F32);
        let pooled = encoders.last().map(|last| AddedConditioning {
            text_embeds: Tensor::zeros([1, last.pooled_width()], zeros),
            time_ids: self.time_ids(request),
        });
        Ok(TextConditioning {
            context: Tensor::zeros([1, tokens, width], zeros),
            added: pooled.filter(|_| self.blueprint.checkpoint.family() == Family::Sdxl),
        })
    }

    /// SDXL's micro-conditioning (Podell et al., 2023, section 2.2): original size, crop and target
    /// size, [1, 6].
    fn time_ids(&self, request: &Request) -> Tensor<2> {
        let (height, width) = (request.height as f32, request.width as f32);
        Tensor::from_floats([[height, width, 0.0, 0.0, height, width]], &self.device)
    }
}

/// Which of a text encoder's states the UNet reads, where so many of the last layers are left out.
pub(super) fn hidden_layer(family: Family, clip_skip: usize) -> HiddenLayer {
    match (family, clip_skip) {
        (Family::Sd1 | Family::Sd2, 0) => HiddenLayer::Last,
        (Family::Sd1 | Family::Sd2, n) => HiddenLayer::Skip {
            n,
            final_norm: true,
        },
        // SDXL was trained without the final norm.
        (Family::Sdxl, n) => HiddenLayer::Skip {
            n: n + always_skipped(family),
            final_norm: false,
        },
    }
}

/// Texts of one batch that are already encoded.
struct Encoded<'a> {
    engine: &'a Engine,
    requests: &'a [Request],
    chunks: usize,
    objects: Option<Objects>,
    known: Vec<(&'static str, String, TextConditioning)>,
}

impl Encoded<'_> {
    /// What the UNet is told where these are the texts.
    fn conditioning(&mut self, texts: &Texts) -> Result<Conditioning, EngineError> {
        let parts = (texts.iter()).map(|(text, _)| parts(text));
        let parts: Vec<Vec<Part>> = parts.collect::<Result<_, _>>()?;
        let most = parts.iter().map(Vec::len).max().unwrap_or(1);
        let text = |number: usize| -> Vec<String> {
            let text =
                |part: Option<&Part>| part.map_or_else(String::new, |part| part.text.clone());
            parts.iter().map(|parts| text(parts.get(number))).collect()
        };
        let positive = self.half("prompt", text(0).iter())?;
        let regions = self
            .requests
            .iter()
            .any(|request| !request.regions.is_empty());
        let composition = match most > 1 || regions {
            true => Some(Composition {
                others: (1..most)
                    .map(|number| self.half("prompt", text(number).iter()))
                    .collect::<Result<_, _>>()?,
                weights: (0..most)
                    .map(|number| self.weights(&parts, number))
                    .collect(),
            }),
            false => None,
        };
        let mut requests = self.requests.iter();
        let blueprint = self.engine.blueprint();
        let guided = requests.any(|request| blueprint.is_guided(request)) || composition.is_some();
        let negative = match guided {
            true => {
                let texts = texts.iter().map(|(_, text)| text);
                Some(self.half("negative prompt", texts)?)
            }
            false => None,
        };
        Ok(Conditioning {
            positive,
            negative,
            composition,
            objects: self.objects.clone(),
        })
    }

    /// What the part of that number counts in each picture and cell of the latents, `[B, 1, h, w]`; 0 where a picture
    /// has no such part.
    fn weights(&self, parts: &[Vec<Part>], number: usize) -> Tensor<4> {
        let factor = self.engine.blueprint().vae_factor();
        let first = &self.requests[0];
        let size = [first.height / factor, first.width / factor];
        let mut weights = Vec::with_capacity(parts.len() * size[0] * size[1]);
        for (request, parts) in self.requests.iter().zip(parts) {
            let weight = parts.get(number).map_or(0.0, |part| part.weight as f32);
            let mut regions = (request.regions.iter())
                .filter(|region| region.part == number + 1)
                .map(|region| region.cells(size))
                .peekable();
            let mut cells = vec![
                if regions.peek().is_some() {
                    0.0
                } else {
                    weight
                };
                size[0] * size[1]
            ];
            for region in regions {
                for (cell, inside) in cells.iter_mut().zip(region) {
                    if inside > 0.0 {
                        *cell = weight;
                    }
                }
            }
            weights.extend(cells);
        }
        let data = TensorData::new(weights, [parts.len(), 1, size[0], size[1]]);
        Tensor::from_data(data, self.engine.device())
    }

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
        let row = (self.engine).encode(which, text, self.chunks, &self.requests[0])?;
        self.known.push((which, text.to_string(), row.clone()));
        Ok(row)
    }
}
