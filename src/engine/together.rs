//! Which requests may share a batch.

use super::blueprint::Blueprint;
use super::error::EngineError;
use super::texts::{firsts, parse, parts};
use crate::request::{PicturePrompt, Request};

/// What requests must agree in to be made in one batch.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchShape {
    /// The request without all that may differ.
    shape: Request,
    /// Of pictures that are shown.
    groups: Vec<Vec<usize>>,
    chunks: usize,
    parts: (Vec<usize>, bool),
    /// At each step the first one with the same prompt, and the first one with the same negative prompt. A batch's texts
    /// change together: DeepCache begins anew when one does, and guidance in one pass, scores and maps wait for the last.
    changes: [Vec<usize>; 2],
}

impl Blueprint {
    /// What `request` must have in common with others of its batch: all but prompt, negative prompt, boxes, pictures that
    /// are shown, seed and start picture, and how many chunks and parts its texts have and at which steps they change.
    ///
    /// # Errors
    /// A prompt that cannot be read.
    pub fn batch_shape(&self, request: &Request) -> Result<BatchShape, EngineError> {
        let mut shape = request.clone();
        shape.prompt.clear();
        shape.negative_prompt.clear();
        shape.relations.clear();
        shape.boxes.clear();
        shape.regions.clear();
        shape.found = None;
        shape.switch = None;
        shape.delay_order = None;
        shape.seed = 0;
        if let Some(init) = &mut shape.init {
            init.path.clear();
            init.sha256 = None;
        }
        let groups = PicturePrompt::groups(&request.pictures);
        for picture in &mut shape.pictures {
            // What may differ: what is shown, how strongly, and where.
            *picture = PicturePrompt {
                adapter: picture.adapter,
                first_step: picture.first_step,
                last_step: picture.last_step,
                ..PicturePrompt::new("")
            };
        }
        let texts = self.read_texts(request, self.steps(request)?)?;
        Ok(BatchShape {
            shape,
            groups,
            chunks: self.chunks(&texts)?,
            parts: (part_counts(&texts)?, !request.regions.is_empty()),
            changes: [
                firsts(texts.iter().map(|(prompt, _)| prompt)),
                firsts(texts.iter().map(|(_, negative)| negative)),
            ],
        })
    }

    /// The number of chunks that the longest of a request's texts fills.
    fn chunks(&self, texts: &[(String, String)]) -> Result<usize, EngineError> {
        let mut chunks = 1;
        for (positive, negative) in texts {
            chunks = chunks.max(self.text_chunks(positive, negative)?);
        }
        Ok(chunks)
    }

    pub(super) fn text_chunks(&self, positive: &str, negative: &str) -> Result<usize, EngineError> {
        let mut chunks = 1;
        let parts = parts(positive)?;
        for tokenizer in &self.tokenizers {
            for part in &parts {
                chunks = chunks.max(parse("prompt", &part.text, tokenizer)?.chunks());
            }
            let negative = parse("negative prompt", negative, tokenizer)?;
            chunks = chunks.max(negative.chunks());
        }
        Ok(chunks)
    }
}

/// The number of parts of a request's prompt, step by step.
fn part_counts(texts: &[(String, String)]) -> Result<Vec<usize>, EngineError> {
    let counts = texts.iter().map(|(text, _)| Ok(parts(text)?.len()));
    let mut counts = counts.collect::<Result<Vec<_>, EngineError>>()?;
    if counts.iter().all(|count| *count == 1) {
        counts.truncate(1);
    }
    Ok(counts)
}
