//! What is known of one finished picture.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::manifest::ManifestLine;
use crate::prompt::SuitePrompt;
use crate::rules::depth::DepthMap;
use crate::rules::ots::{self, Side};
use crate::rules::visor::{self, Found};
use crate::rules::{
    Case, Options, RuleError, Wanted, geneval, hrs, pse, pse_depth, t2i, t2i_depth,
};
use crate::spatialbench::Record;
use crate::{Detection, json};
use prepose_scene::{Scene, StatedRelation};

/// A finished picture: what is in `samples/` while the run goes on, and in the run's files at its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// Its place in the plan; it is not written down, as it changes when a run grows.
    #[serde(default, skip_serializing)]
    pub index: usize,
    /// Its line in `manifest.jsonl`.
    pub manifest: ManifestLine,
    /// Its lines in `per_sample.jsonl`: one for each relation that the checker decides.
    pub records: Vec<Record>,
    /// Its line in `scores.jsonl`.
    pub scores: Scores,
}

impl Sample {
    /// # Errors
    /// It is not what [`to_line`](Self::to_line) gives.
    pub fn from_line(line: &str) -> serde_json::Result<Self> {
        json::from_str(line)
    }

    /// One line of JSON.
    ///
    /// # Errors
    /// A number that JSON does not have.
    pub fn to_line(&self) -> serde_json::Result<String> {
        json::to_line(self)
    }
}

/// What a picture cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Rows through the whole UNet, one a step whether or not with classifier-free guidance.
    pub unet_calls: usize,
    /// Recorded passes of guidance.
    pub guided_calls: usize,
    /// Where something is left out of the UNet's calls: rows through all of it, and through its shallow part alone. Both
    /// halves of classifier-free guidance count.
    pub rows: Option<[usize; 2]>,
    /// Noises that were tried.
    pub candidates: usize,
    /// The picture's share of the time of its batch, without the checker's.
    pub seconds: f64,
}

/// What the published rules say of a picture, and what it cost: a line of `scores.jsonl`. What a rule does not
/// score, or nobody looked at, is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scores {
    /// `{method}_{prompt_id}_seed%04d`.
    pub sample_id: String,
    /// Names the prompt within its set.
    pub prompt_id: String,
    /// Of the noise; that of the first candidate of a search.
    pub seed: u64,
    /// Rows through the whole UNet.
    pub unet_calls: usize,
    /// Recorded passes of guidance.
    pub guided_calls: usize,
    /// Where something is left out of the UNet's calls: rows through all of it, and through its shallow part alone. Both
    /// halves of classifier-free guidance count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unet_rows: Option<[usize; 2]>,
    /// Noises that were tried.
    pub candidates: usize,
    /// The picture's share of the time of its batch, without the checker's.
    pub seconds: f64,
    /// How many of the prompt's objects were found.
    pub found: Option<usize>,
    /// How many there are.
    pub objects: usize,
    /// For each object, in the order of mention, whether it was found.
    pub each_found: Option<Vec<bool>>,
    /// VISOR: whether all relations hold by the centres; none if an object of one is missing.
    pub centre: Option<bool>,
    /// The same of each relation, if there are several.
    pub each_centre: Option<Vec<Option<bool>>>,
    /// GenEval's rule.
    pub geneval: Option<bool>,
    /// T2I-CompBench's score, in 0..=1.
    pub t2i: Option<f64>,
    /// HRS-Bench's rule.
    pub hrs: Option<bool>,
    /// Probability of superiority, in 0..=1: that of the worst relation.
    pub pse: Option<f64>,
    /// That of each relation, if there are several.
    pub each_pse: Option<Vec<Option<f64>>>,
    /// Probability of superiority in depth, in 0..=1, where a depth network looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pse_3d: Option<f64>,
    /// T2I-CompBench's score in depth, in 0..=1, where a depth network looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t2i_3d: Option<f64>,
    /// Pairs of which the text does not say how they stand: where the first-mentioned object is, `left`, `right` or `invalid`.
    pub side: Option<String>,
    /// Such pairs: where the first-mentioned object is, `above`, `below` or `invalid`.
    pub level: Option<String>,
}

impl Scores {
    /// What is known without a look at the picture.
    pub fn unseen(sample_id: &str, prompt: &SuitePrompt, seed: u64, cost: Cost) -> Self {
        Self {
            sample_id: sample_id.into(),
            prompt_id: prompt.prompt_id.clone(),
            seed,
            unet_calls: cost.unet_calls,
            guided_calls: cost.guided_calls,
            unet_rows: cost.rows,
            candidates: cost.candidates,
            seconds: cost.seconds,
            objects: prompt.objects.len(),
            ..Self::default()
        }
    }

    /// Fills in what the rules say. `labels` are the detector's words for the prompt's objects; `size` is width and height
    /// in pixels; `depth` is how far away things are, where somebody looked, and `published` has its rules do as their
    /// authors' code.
    pub fn look(
        mut self,
        prompt: &SuitePrompt,
        labels: &[String],
        size: (usize, usize),
        detections: &[Detection],
        depth: Option<Arc<DepthMap>>,
        published: bool,
    ) -> Self {
        let options = Options::default();
        let case = Case {
            id: self.sample_id.clone(),
            prompt_id: self.prompt_id.clone(),
            prompt: Some(prompt.prompt.clone()),
            size: Some(size),
            objects: labels.iter().map(Wanted::one).collect(),
            relations: prompt.relations.clone(),
            detections: detections.to_vec(),
            depth,
            ..Case::default()
        };
        let here: Vec<bool> = (labels.iter())
            .map(|label| !case.found(label, 0.0).is_empty())
            .collect();
        self.found = Some(here.iter().filter(|here| **here).count());
        self.each_found = Some(here);
        // Where nothing is said of sides, also if the set knows them.
        if states_no_side(prompt) {
            let words = |side: Result<Side, RuleError>, names: [&str; 2]| {
                let name = match side.ok()? {
                    Side::Left => names[0],
                    Side::Right => names[1],
                    Side::Invalid => "invalid",
                };
                Some(name.to_string())
            };
            self.side = words(ots::side(&case, &options), ["left", "right"]);
            self.level = words(ots::level(&case, &options), ["above", "below"]);
        }
        if prompt.relations.is_empty() {
            return self;
        }
        let centres = centres(&case, &options);
        self.centre = (centres.iter().copied())
            .reduce(|all, one| Some(all? && one?))
            .flatten();
        let judged = |outcome: Result<crate::rules::Outcome, RuleError>| {
            outcome.ok().and_then(|outcome| outcome.score)
        };
        self.geneval = judged(geneval::judge(&case, &options)).map(|score| score > 0.5);
        self.t2i = judged(t2i::judge(&case, &options));
        self.hrs = judged(hrs::judge(&case, &options)).map(|score| score > 0.5);
        self.pse = judged(pse::of_case(&case, &options));
        if case.depth.is_some() {
            let options = Options {
                published,
                ..options
            };
            self.pse_3d = judged(pse_depth::of_case(&case, &options));
            self.t2i_3d = judged(t2i_depth::judge(&case, &options));
        }
        if let [_, _, ..] = case.relations.as_slice() {
            self.each_centre = Some(centres);
            let each = case.relations.iter();
            let each = each.map(|stated| judged(pse::of_relation(&case, stated, &options)));
            self.each_pse = Some(each.collect());
        }
        self
    }
}

/// Whether the text of a prompt leaves open on which side its objects are.
fn states_no_side(prompt: &SuitePrompt) -> bool {
    prompt.relations.is_empty()
        || Scene::parse(&prompt.prompt).is_ok_and(|scene| scene.relations.is_empty())
}

/// Whether VISOR's rule holds for each relation; none if an object is missing or VISOR has no such relation.
fn centres(case: &Case, options: &Options) -> Vec<Option<bool>> {
    let of = |stated: &StatedRelation| {
        let one = Case {
            relations: vec![stated.clone()],
            ..case.clone()
        };
        let found: Found = visor::judge(&one, options).ok()??;
        (found.first && found.second).then_some(found.right)
    };
    case.relations.iter().map(of).collect()
}

/// The picture that a record is about: its id without what tells the relations of a prompt apart.
pub fn sample_of(record_id: &str) -> &str {
    match record_id.rsplit_once("_relation") {
        Some((id, number)) if number.bytes().all(|digit| digit.is_ascii_digit()) => id,
        _ => record_id,
    }
}
