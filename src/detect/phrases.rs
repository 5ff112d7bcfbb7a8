//! Grounding DINO as a detector: what a picture's phrases name.

use std::collections::BTreeSet;
use std::fmt::Display;

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
/// the words that its query belongs to as its label. Where these are all the words of a phrase, the label is the phrase.
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

    /// The question for `phrases`; none if there is no phrase.
    fn question(&self, phrases: &[String]) -> Result<Option<Question>, DetectError> {
        let most = self.network.config().max_text_len;
        match Question::new(&self.tokenizer, phrases)? {
            Some(question) if question.ids.len() > most => Err(DetectError::LongText {
                tokens: question.ids.len(),
                most,
            }),
            question => Ok(question),
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
            if let Some(question) = self.question(phrases)? {
                let size = resized([height, width], self.sides);
                asked.push((i, (question, size)));
            }
        }
        let groups = alike(asked);
        let mut looks: Vec<(&Question, &[usize])> = Vec::new();
        let mut reading = Reading::default();
        for ((question, size), places) in &groups {
            for places in places.chunks(TOGETHER) {
                let some: Vec<&Picture> = places.iter().map(|i| pictures[*i]).collect();
                let Grounded { logits, boxes, .. } = self.look(&some, *size, &question.ids);
                reading = reading.with(logits).with(boxes);
                looks.push((question, places));
            }
        }
        let read = reading.numbers();
        for ((question, places), numbers) in looks.into_iter().zip(read.as_chunks::<2>().0) {
            let each = of_each(numbers, places.len());
            for (i, (logits, boxes)) in places.iter().zip(each) {
                found[*i] = self.detections(logits, boxes, pictures[*i], question)?;
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
        question: &Question,
    ) -> Result<Vec<Detection>, DetectError> {
        let (boxes, _) = boxes.as_chunks::<4>();
        let tokens = (logits.len() / boxes.len().max(1)).max(1);
        let mut found: Vec<Detection> = Vec::new();
        for (logits, at) in logits.chunks(tokens).zip(boxes) {
            found.extend(self.detection(logits, *at, picture, question)?);
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
        question: &Question,
    ) -> Result<Option<Detection>, DetectError> {
        let best = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let score = f64::from(probability(best));
        // A score that is no number is not above it.
        let above = score > self.threshold;
        if !above {
            return Ok(None);
        }
        let mut label = self.named(logits, question, self.text_threshold)?;
        if self.weak && label.is_empty() {
            label = self.named(logits, question, score / 2.0)?;
        }
        Ok(Some(Detection {
            label,
            score,
            bbox: around_middle(at, [picture.width, picture.height]),
            mask: None,
        }))
    }

    /// The words whose scores are above `least`, or the phrase whose words they all are.
    fn named(
        &self,
        logits: &[f32],
        question: &Question,
        least: f64,
    ) -> Result<String, DetectError> {
        // The first token is never part of a label.
        let words = question.ids.iter().zip(logits).skip(1);
        let words: Vec<u32> = words
            .filter(|(_, logit)| f64::from(probability(**logit)) > least)
            .map(|(id, _)| *id)
            .collect();
        let text = self.tokenizer.decode(&words).map_err(no_text)?;
        Ok(question.as_asked(label(&text)))
    }
}

fn no_text(error: impl Display) -> DetectError {
    DetectError::Text(error.to_string())
}

/// What is asked about pictures.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Question {
    /// The tokens of its text.
    ids: Vec<u32>,
    /// The phrases, trimmed and in lower case, each after the label that all of its words make: tokens have no accents and
    /// stand apart from signs, so that a `t-shirt` is a `t - shirt` there.
    phrases: BTreeSet<(String, String)>,
}

impl Question {
    /// The question for `phrases`; none if there is no phrase.
    fn new(tokenizer: &BertTokenizer, phrases: &[String]) -> Result<Option<Self>, DetectError> {
        let Some(text) = caption(phrases)? else {
            return Ok(None);
        };
        let ids = tokenizer.encode(&text).map_err(no_text)?;
        let mut labelled = BTreeSet::new();
        for phrase in phrases {
            let own = tokenizer.encode(&asked(phrase)?).map_err(no_text)?;
            // Without the tokens before and behind every text.
            let own = own.get(1..own.len().saturating_sub(1)).unwrap_or_default();
            let own = tokenizer.decode(own).map_err(no_text)?;
            labelled.insert((label(&own), phrase.trim().to_lowercase()));
        }
        Ok(Some(Self {
            ids,
            phrases: labelled,
        }))
    }

    /// A label as the one phrase was asked that has it; the label itself if none has, or several.
    fn as_asked(&self, label: String) -> String {
        let mut phrases = self.phrases.iter().filter(|(own, _)| *own == label);
        match (phrases.next(), phrases.next()) {
            (Some((_, phrase)), None) => phrase.clone(),
            _ => label,
        }
    }
}

/// The question for `phrases`: each once, lower case, with an article and a full stop; none without phrases.
fn caption(phrases: &[String]) -> Result<Option<String>, DetectError> {
    let mut all: Vec<String> = Vec::new();
    for phrase in phrases {
        let question = asked(phrase)?;
        if !all.contains(&question) {
            all.push(question);
        }
    }
    Ok((!all.is_empty()).then(|| all.join(" ")))
}

/// The part of a question that asks for one phrase.
fn asked(phrase: &str) -> Result<String, DetectError> {
    // A full stop or a question mark within a phrase would end it.
    let words = phrase.to_lowercase().replace(['.', '?'], " ");
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.is_empty() {
        true => Err(DetectError::EmptyPhrase(phrase.to_owned())),
        false => Ok(format!("a {words}.")),
    }
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
    use std::path::Path;

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
    fn labels_are_the_phrases_that_were_asked() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
        let weights = GroundingDinoWeights::open(&folder.join("eyes/grounding-dino/model"));
        let weights = weights.unwrap();
        let ask = |phrases: &[&str]| {
            let phrases: Vec<String> = phrases.iter().map(ToString::to_string).collect();
            let question = Question::new(weights.tokenizer(), &phrases)
                .unwrap()
                .unwrap();
            move |label: &str| question.as_asked(label.into())
        };
        let given = ask(&["teddy-bear", "Cól", "cow'x", "co. il", " Fire Hydrant "]);
        for (label, phrase) in [
            ("teddy - bear", "teddy-bear"),
            ("col", "cól"),
            ("cow ' x", "cow'x"),
            ("co il", "co. il"),
            ("fire hydrant", "fire hydrant"),
            // Of several phrases, of a part of one, of none.
            ("fire hydrant. a col", "fire hydrant. a col"),
            ("fire", "fire"),
            ("- bear", "- bear"),
            ("dog", "dog"),
            ("", ""),
        ] {
            assert_eq!(given(label), phrase);
        }
        // Nobody can say which of the two it is.
        let given = ask(&["cól", "col", "cat", "CAT"]);
        assert_eq!((given("col"), given("cat")), ("col".into(), "cat".into()));
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
