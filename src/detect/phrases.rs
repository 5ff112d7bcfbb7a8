//! Grounding DINO as a detector: what a picture's phrases name.

use burn::tensor::{Device, Tensor, TensorData};
use prepose_models::grounding_dino::{Grounded, GroundingDino};
use prepose_weights::{BertTokenizer, GroundingDinoWeights, WeightsError};

use super::found::{around_middle, best_first, of_each, probability};
use super::prepare::{bytes, normalise};
use super::{DetectError, Detector, alike, check_on_host, check_pictures};
use crate::check::Detection;
use crate::check::perturb::bilinear;
use crate::eyes::reading::Reading;
use crate::picture::Picture;

/// Pictures of one size that go through the network together.
const TOGETHER: usize = 4;
/// ImageNet's.
const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
/// ImageNet's.
const STD: [f32; 3] = [0.229, 0.224, 0.225];

/// Grounding DINO with the thresholds and the labels of SpatialBench-UC's wrapper: it is asked for `a dog. a cat.`, and a box has
/// the words that its query belongs to as its label.
#[derive(Debug)]
pub struct GroundingDinoDetector {
    name: String,
    network: GroundingDino,
    tokenizer: BertTokenizer,
    /// Of the shorter and the longer side of pictures.
    sides: [usize; 2],
    device: Device,
    threshold: f64,
    text_threshold: f64,
    weak: bool,
}

impl GroundingDinoDetector {
    /// The score above which SpatialBench-UC's wrapper passes boxes on.
    pub const BOX_THRESHOLD: f64 = 0.35;
    /// The score above which a word is part of a box's label there.
    pub const TEXT_THRESHOLD: f64 = 0.25;

    /// Loads the detector onto `device`. Detections have scores above `threshold`, and labels of words with scores above
    /// `text_threshold`. If there is no such word, the label is empty, or with `weak` of the words that the score comes from.
    ///
    /// # Errors
    /// [`WeightsError`], as loading the network.
    pub fn load(
        weights: &GroundingDinoWeights,
        device: &Device,
        threshold: f64,
        text_threshold: f64,
        weak: bool,
    ) -> Result<Self, WeightsError> {
        Ok(Self {
            name: weights.name().to_string(),
            network: weights.load(device)?,
            tokenizer: weights.tokenizer().clone(),
            sides: weights.sides(),
            device: device.clone(),
            threshold,
            text_threshold,
            weak,
        })
    }

    /// The tokens of a question for `phrases`; none if there is no phrase.
    fn question(&self, phrases: &[String]) -> Result<Option<Vec<u32>>, DetectError> {
        let Some(text) = caption(phrases)? else {
            return Ok(None);
        };
        let most = self.network.config().max_text_len;
        let ids = self.tokenizer.encode(&text);
        let ids = ids.map_err(|error| DetectError::Text(error.to_string()))?;
        match ids.len() > most {
            true => Err(DetectError::LongText {
                tokens: ids.len(),
                most,
            }),
            false => Ok(Some(ids)),
        }
    }

    /// Everything that is found; the device is waited for once.
    fn seek(
        &self,
        pictures: &[&Picture],
        queries: &[Vec<String>],
    ) -> Result<Vec<Vec<Detection>>, DetectError> {
        let mut found = vec![Vec::new(); pictures.len()];
        // All that can be wrong with texts is found before anything is computed.
        let mut asked = Vec::new();
        for (i, picture) in pictures.iter().enumerate() {
            let (height, width) = (picture.height, picture.width);
            let phrases = queries.get(i).map_or(&[][..], Vec::as_slice);
            if let Some(ids) = self.question(phrases)? {
                let size = resized([height, width], self.sides);
                asked.push((i, (ids, size)));
            }
        }
        let groups = alike(asked);
        let mut looks: Vec<(&[u32], &[usize])> = Vec::new();
        let mut reading = Reading::default();
        for ((ids, size), places) in &groups {
            for places in places.chunks(TOGETHER) {
                let some: Vec<&Picture> = places.iter().map(|i| pictures[*i]).collect();
                let Grounded { logits, boxes, .. } = self.look(&some, *size, ids);
                reading = reading.with(logits).with(boxes);
                looks.push((ids, places));
            }
        }
        let read = reading.numbers();
        for ((ids, places), numbers) in looks.into_iter().zip(read.as_chunks::<2>().0) {
            let each = of_each(numbers, places.len());
            for (i, (logits, boxes)) in places.iter().zip(each) {
                found[*i] = self.detections(logits, boxes, pictures[*i], ids)?;
            }
        }
        Ok(found)
    }

    /// What the network says of pictures of one size.
    fn look(&self, pictures: &[&Picture], size: [usize; 2], ids: &[u32]) -> Grounded {
        let [height, width] = size;
        let mut values = Vec::with_capacity(pictures.len() * 3 * height * width);
        for picture in pictures {
            normalise(&bilinear(picture, width, height), MEAN, STD, &mut values);
        }
        let shape = [pictures.len(), 3, height, width];
        let data = TensorData::new(values, shape);
        let batch = Tensor::<4>::from_data(data, &self.device);
        self.network.forward(batch, ids)
    }

    /// What was found in a picture, by the logits `[queries, tokens]` and boxes `[queries, 4]`.
    fn detections(
        &self,
        logits: &[f32],
        boxes: &[f32],
        picture: &Picture,
        ids: &[u32],
    ) -> Result<Vec<Detection>, DetectError> {
        let (boxes, _) = boxes.as_chunks::<4>();
        let tokens = (logits.len() / boxes.len().max(1)).max(1);
        let mut found: Vec<Detection> = Vec::new();
        for (logits, at) in logits.chunks(tokens).zip(boxes) {
            found.extend(self.detection(logits, *at, picture, ids)?);
        }
        best_first(&mut found);
        Ok(found)
    }

    /// The detection of one query, if its score is above the threshold.
    fn detection(
        &self,
        logits: &[f32],
        at: [f32; 4],
        picture: &Picture,
        ids: &[u32],
    ) -> Result<Option<Detection>, DetectError> {
        let best = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let score = f64::from(probability(best));
        // A score that is no number is not above it.
        let above = score > self.threshold;
        if !above {
            return Ok(None);
        }
        let mut label = self.named(logits, ids, self.text_threshold)?;
        if self.weak && label.is_empty() {
            label = self.named(logits, ids, score / 2.0)?;
        }
        Ok(Some(Detection {
            label,
            score,
            bbox: around_middle(at, [picture.width, picture.height]),
            mask: None,
        }))
    }

    /// The words whose scores are above `least`.
    fn named(&self, logits: &[f32], ids: &[u32], least: f64) -> Result<String, DetectError> {
        // The first token is never part of a label.
        let words = ids.iter().zip(logits).skip(1);
        let words: Vec<u32> = words
            .filter(|(_, logit)| f64::from(probability(**logit)) > least)
            .map(|(id, _)| *id)
            .collect();
        let text = self.tokenizer.decode(&words);
        let text = text.map_err(|error| DetectError::Text(error.to_string()))?;
        Ok(label(&text))
    }
}

/// The question for `phrases`: each once, lower case, with an article and a full stop; none without phrases.
fn caption(phrases: &[String]) -> Result<Option<String>, DetectError> {
    let mut all: Vec<String> = Vec::new();
    for phrase in phrases {
        // A full stop or a question mark within a phrase would end it.
        let words = phrase.to_lowercase().replace(['.', '?'], " ");
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        if words.is_empty() {
            return Err(DetectError::EmptyPhrase(phrase.clone()));
        }
        let question = format!("a {words}.");
        if !all.contains(&question) {
            all.push(question);
        }
    }
    Ok((!all.is_empty()).then(|| all.join(" ")))
}

/// A label as SpatialBench-UC's wrapper cleans it: lower case, without one article before and one full stop behind.
fn label(text: &str) -> String {
    let text = text.to_lowercase();
    let text = text.trim();
    let text = text.strip_prefix("a ").unwrap_or(text);
    text.strip_suffix('.').unwrap_or(text).to_string()
}

/// Height and width of a picture when its shorter side becomes `shortest`, or less where the longer one would become more than
/// `longest`, with transformers' roundings.
fn resized([height, width]: [usize; 2], [shortest, longest]: [usize; 2]) -> [usize; 2] {
    let (short, long) = (height.min(width) as f64, height.max(width) as f64);
    let fitting = match long / short * shortest as f64 > longest as f64 {
        true => longest as f64 * short / long,
        false => shortest as f64,
    };
    let side = fitting.round_ties_even() as usize;
    // One that has its size keeps it.
    if height.min(width) == side {
        return [height, width];
    }
    let other = (fitting * long / short) as usize;
    let size = match width < height {
        true => [other, side],
        false => [side, other],
    };
    size.map(|side| side.max(1))
}

impl Detector for GroundingDinoDetector {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_spatialbenchs() {
        let ask = |phrases: &[&str]| {
            let phrases: Vec<String> = phrases.iter().map(ToString::to_string).collect();
            caption(&phrases)
        };
        let text = |phrases: &[&str]| ask(phrases).unwrap().unwrap();
        assert_eq!(text(&["Fire Hydrant", "cat"]), "a fire hydrant. a cat.");
        assert_eq!(
            text(&["cat", " CAT ", "st. bernard"]),
            "a cat. a st bernard."
        );
        assert_eq!(ask(&[]), Ok(None));
        for empty in ["", " \t", ".", "?."] {
            assert_eq!(
                ask(&["cat", empty]),
                Err(DetectError::EmptyPhrase(empty.into()))
            );
        }
    }

    #[test]
    fn labels_are_cleaned_once() {
        for (text, want) in [
            ("a fire hydrant.", "fire hydrant"),
            ("A Cat", "cat"),
            ("a a cat..", "a cat."),
            ("cat a dog", "cat a dog"),
            ("", ""),
        ] {
            assert_eq!(label(text), want);
        }
    }

    #[test]
    fn sizes_are_transformers() {
        for (from, to) in [
            ([512, 512], [800, 800]),
            ([480, 640], [800, 1066]),
            ([640, 480], [1066, 800]),
            ([1000, 300], [1333, 400]),
            ([375, 500], [800, 1066]),
            ([800, 801], [800, 801]),
            ([1, 1], [800, 800]),
            ([20, 20_000], [1, 1333]),
        ] {
            assert_eq!(resized(from, [800, 1333]), to, "{from:?}");
        }
    }
}
