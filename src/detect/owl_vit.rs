//! OWL-ViT as a detector: what a picture's phrases name, as VISOR asks for it.

use std::collections::HashMap;

use burn::tensor::{Device, Int, Tensor, TensorData};
use prepose_models::owl_vit::{OwlVit, Sighted};
use prepose_models::pixels::Rgb;
use prepose_weights::tokenizer::ClipTokenizer;
use prepose_weights::{OwlVitWeights, WeightsError};

use super::found::{above, around_middle, best_first, of_each, probability};
use super::prepare::bytes;
use super::{DetectError, Detector, check_on_host, check_pictures};
use crate::check::Detection;
use crate::eyes::reading::Reading;
use crate::picture::Picture;

/// Pictures that go through the network together.
const TOGETHER: usize = 4;

/// OWL-ViT with VISOR's questions: it is asked for `a photo of a dog` for each phrase, and a box has the phrase that fits it
/// best as its label.
#[derive(Debug)]
pub struct OwlVitDetector {
    name: String,
    network: OwlVit,
    tokenizer: ClipTokenizer,
    device: Device,
    threshold: f64,
}

impl OwlVitDetector {
    /// The score above which VISOR's boxes count.
    pub const SCORE_THRESHOLD: f64 = 0.1;

    /// Loads the detector onto `device`. Detections have scores above `threshold`.
    ///
    /// # Errors
    /// [`WeightsError`], as loading the network.
    pub fn load(
        weights: &OwlVitWeights,
        device: &Device,
        threshold: f64,
    ) -> Result<Self, WeightsError> {
        Ok(Self {
            name: weights.name().to_string(),
            network: weights.load(device)?,
            tokenizer: weights.tokenizer().clone(),
            device: device.clone(),
            threshold,
        })
    }

    /// The embeddings of the questions for `phrases`.
    fn questions(&self, phrases: &[String]) -> Result<Tensor<2>, DetectError> {
        let most = self.network.config().text_config.max_position_embeddings;
        let (mut ids, mut ends) = (Vec::new(), Vec::new());
        for phrase in phrases {
            let tokens = self.tokenizer.encode(&format!("a photo of a {phrase}"));
            let tokens = tokens.map_err(|error| DetectError::Text(error.to_string()))?;
            if tokens.len() + 2 > most {
                return Err(DetectError::LongText {
                    tokens: tokens.len() + 2,
                    most,
                });
            }
            let start = ids.len();
            ids.push(self.tokenizer.bos() as i32);
            ids.extend(tokens.iter().map(|token| token.id as i32));
            ends.push(ids.len() - start);
            ids.push(self.tokenizer.eos() as i32);
            // Nothing looks behind the end.
            ids.resize(start + most, 0);
        }
        let data = TensorData::new(ids, [phrases.len(), most]);
        let ids = Tensor::<2, Int>::from_data(data, &self.device);
        Ok(self.network.embed_texts(ids, &ends))
    }

    /// Everything that is found; the device is waited for once.
    fn seek(
        &self,
        pictures: &[&Picture],
        queries: &[Vec<String>],
    ) -> Result<Vec<Vec<Detection>>, DetectError> {
        let phrases: Vec<Vec<String>> = (queries.iter())
            .map(|phrases| asked(phrases))
            .collect::<Result<_, _>>()?;
        let mut known: HashMap<&[String], Tensor<2>> = HashMap::new();
        let mut found = vec![Vec::new(); pictures.len()];
        let mut looks: Vec<(std::ops::Range<usize>, &[String])> = Vec::new();
        let mut reading = Reading::default();
        let mut at = 0;
        while at < pictures.len() {
            let asked = phrases.get(at).map_or(&[][..], Vec::as_slice);
            let alike = (at..pictures.len())
                .take_while(|i| phrases.get(*i).map_or(&[][..], Vec::as_slice) == asked);
            let count = alike.take(TOGETHER).count();
            let places = at..at + count;
            at += count;
            if asked.is_empty() {
                continue;
            }
            let questions = match known.get(asked) {
                Some(questions) => questions.clone(),
                None => {
                    let questions = self.questions(asked)?;
                    known.insert(asked, questions.clone());
                    questions
                }
            };
            let sighted = self.look(&pictures[places.clone()], &questions)?;
            reading = reading.with(sighted.logits).with(sighted.boxes);
            looks.push((places, asked));
        }
        let read = reading.numbers();
        for ((places, asked), numbers) in looks.into_iter().zip(read.as_chunks::<2>().0) {
            let each = of_each(numbers, places.len());
            for (i, (logits, boxes)) in places.zip(each) {
                found[i] = self.detections(logits, boxes, pictures[i], asked);
            }
        }
        Ok(found)
    }

    /// What the network says of pictures that are asked the same.
    fn look(&self, pictures: &[&Picture], questions: &Tensor<2>) -> Result<Sighted, DetectError> {
        let batch = (pictures.iter())
            .map(|picture| Rgb::new(picture.width, picture.height, &picture.rgb))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| DetectError::Text(error.to_string()))?;
        let batch = self.network.prepare(&batch, &self.device);
        let batch = batch.map_err(|error| DetectError::Text(error.to_string()))?;
        Ok(self.network.forward(batch, questions))
    }

    /// What was found in a picture, by the logits `[patches, texts]` and boxes `[patches, 4]`.
    fn detections(
        &self,
        logits: &[f32],
        boxes: &[f32],
        picture: &Picture,
        phrases: &[String],
    ) -> Vec<Detection> {
        let pairs = logits
            .chunks(phrases.len().max(1))
            .zip(boxes.as_chunks::<4>().0);
        let found = pairs.filter_map(|(logits, at)| {
            self.detection(logits, *at, phrases, [picture.width, picture.height])
        });
        let mut found: Vec<Detection> = found.collect();
        best_first(&mut found);
        found
    }

    /// What a patch sees, if its score is above the threshold.
    fn detection(
        &self,
        logits: &[f32],
        at: [f32; 4],
        phrases: &[String],
        size: [usize; 2],
    ) -> Option<Detection> {
        // The first of equals, as there.
        let best = logits.iter().enumerate().rev();
        let (text, logit) = best.max_by(|a, b| a.1.total_cmp(b.1))?;
        let score = f64::from(probability(*logit));
        let label = || phrases.get(text).cloned();
        above(self.threshold, score, label, around_middle(at, size))
    }
}

/// The phrases that are asked for: each once, lower case, with single spaces.
fn asked(phrases: &[String]) -> Result<Vec<String>, DetectError> {
    let mut all: Vec<String> = Vec::new();
    for phrase in phrases {
        let words = phrase.to_lowercase();
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        if words.is_empty() {
            return Err(DetectError::EmptyPhrase(phrase.clone()));
        }
        if !all.contains(&words) {
            all.push(words);
        }
    }
    Ok(all)
}

impl Detector for OwlVitDetector {
    fn name(&self) -> &str {
        &self.name
    }

    fn vocabulary(&self) -> Option<&[String]> {
        None
    }

    fn detect(
        &self,
        pictures: &[Tensor<3>],
        queries: &[Vec<String>],
    ) -> Result<Vec<Vec<Detection>>, DetectError> {
        check_pictures(pictures)?;
        let pictures = bytes(pictures)?;
        self.seek(&pictures.iter().collect::<Vec<_>>(), queries)
    }

    fn detect_on_host(
        &self,
        pictures: &[&Picture],
        queries: &[Vec<String>],
        _masks: bool,
        _device: &Device,
    ) -> Result<Vec<Vec<Detection>>, DetectError> {
        check_on_host(pictures)?;
        self.seek(pictures, queries)
    }
}
