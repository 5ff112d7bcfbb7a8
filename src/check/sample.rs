//! What is known of one finished picture.

use std::iter::repeat;
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
use prepose_scene::{Scene, SceneObject, StatedRelation};

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
    /// For each object, in the order of mention, whether it was found; the second of a label, if two such were.
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
            objects: wanted(prompt, labels),
            relations: prompt.relations.clone(),
            detections: detections.to_vec(),
            depth,
            ..Case::default()
        };
        // One detection is not two objects of one label.
        let here: Vec<bool> = (labels.iter().enumerate())
            .map(|(nth, label)| {
                let same = |other: &&String| other.eq_ignore_ascii_case(label);
                case.found(label, 0.0).len() > labels[..nth].iter().filter(same).count()
            })
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

    /// What VISOR counts of the picture, both objects alike; none if it does not score it: nobody looked, or `prompt` states no
    /// relation or one that [`visor::counts`] says no to.
    pub fn visor(&self, prompt: &SuitePrompt) -> Option<Found> {
        let both = self.found? >= self.objects;
        let mut relations = prompt.relations.iter();
        let counts = |stated| visor::counts(stated, self.centre, self.pse);
        (!prompt.relations.is_empty() && relations.all(counts)).then_some(Found {
            first: both,
            second: both,
            right: self.centre == Some(true),
        })
    }
}

/// What should be there, by the detector's words, as often as the prompt's text says of the objects that it names.
fn wanted(prompt: &SuitePrompt, labels: &[String]) -> Vec<Wanted> {
    let mut named = Scene::parse(&prompt.prompt).unwrap_or_default().objects;
    let mut count = |object: &str| {
        let is = |one: &SceneObject| {
            one.phrase.eq_ignore_ascii_case(object) || one.noun.eq_ignore_ascii_case(object)
        };
        // Of two that have one name each is another's.
        let at = named.iter().position(is)?;
        named.remove(at).count
    };
    let counts = prompt.objects.iter().map(|object| count(object));
    let counts = counts.map(|count| count.unwrap_or(1)).chain(repeat(1));
    let of = |(label, count): (&String, usize)| Wanted {
        name: label.clone(),
        count,
    };
    labels.iter().zip(counts).map(of).collect()
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

/// The picture that a record is about: its id without what tells the relations of a prompt apart, `_relation` and a number.
pub fn sample_of(record_id: &str) -> &str {
    let is_number =
        |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    match record_id.rsplit_once("_relation") {
        Some((id, number)) if is_number(number) => id,
        _ => record_id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BoundingBox;
    use prepose_scene::Relation;

    /// Of a prompt with "left of" between two objects, and detections 100 pixels apart.
    fn looked(text: &str, objects: [&str; 2], labels: [&str; 2], found: &[&str]) -> Scores {
        let prompt = SuitePrompt {
            prompt: text.into(),
            objects: objects.map(String::from).to_vec(),
            relations: vec![StatedRelation::of_two(0, Relation::LeftOf, 1)],
            ..SuitePrompt::default()
        };
        let detections = found.iter().zip(0..).map(|(label, nth)| Detection {
            label: (*label).into(),
            score: 0.9,
            bbox: BoundingBox::new(f64::from(100 * nth), 0.0, f64::from(100 * nth + 50), 50.0),
            mask: None,
        });
        let detections: Vec<Detection> = detections.collect();
        let labels = labels.map(String::from);
        Scores::unseen("s", &prompt, 0, Cost::default()).look(
            &prompt,
            &labels,
            (512, 512),
            &detections,
            None,
            false,
        )
    }

    #[test]
    fn geneval_wants_as_many_as_the_prompt_says() {
        let geneval = |text: &str, object: &str, found: &[&str]| {
            looked(text, [object, "cat"], ["dog", "cat"], found).geneval
        };
        let two = "two dogs to the left of a cat";
        for object in ["dogs", "dog"] {
            assert_eq!(geneval(two, object, &["dog", "cat"]), Some(false));
            assert_eq!(geneval(two, object, &["dog", "dog", "cat"]), Some(true));
        }
        let one = "a dog to the left of a cat";
        assert_eq!(geneval(one, "dog", &["dog", "cat"]), Some(true));
        // A text that says nothing of them.
        assert_eq!(geneval("morning", "dog", &["dog", "cat"]), Some(true));
    }

    #[test]
    fn visor_does_not_score_all_pictures() {
        let prompt = |relations: &[Relation]| SuitePrompt {
            relations: (relations.iter())
                .map(|relation| StatedRelation::of_two(0, *relation, 1))
                .collect(),
            ..SuitePrompt::default()
        };
        let scores = |found, centre, pse| Scores {
            found,
            objects: 2,
            centre,
            pse,
            ..Scores::default()
        };
        let left = [Relation::LeftOf];
        let right =
            |scores: &Scores, relations: &[Relation]| Some(scores.visor(&prompt(relations))?.right);
        let seen = scores(Some(2), Some(true), Some(1.0));
        assert_eq!(right(&seen, &left), Some(true));
        // An object that is missing is not where it should be.
        let missing = scores(Some(1), None, Some(0.0));
        assert_eq!(right(&missing, &left), Some(false));
        // Near is none of its relations, and a text may state none.
        for relations in [&[][..], &[Relation::Near], &[left[0], Relation::Near]] {
            assert_eq!(right(&missing, relations), None);
            assert_eq!(right(&scores(Some(2), None, None), relations), None);
        }
        // Two objects of one label, and nobody who looked.
        assert_eq!(right(&scores(Some(2), None, None), &left), None);
        assert_eq!(right(&scores(None, None, None), &left), None);
    }

    #[test]
    fn one_detection_is_not_two_objects() {
        let look = |found: &[&str]| {
            let text = "a cat to the left of a kitten";
            looked(text, ["cat", "kitten"], ["cat", "Cat"], found)
        };
        for (found, each) in [
            (&[][..], [false, false]),
            (&["cat"], [true, false]),
            (&["cat", "cat"], [true, true]),
        ] {
            let scores = look(found);
            assert_eq!(scores.each_found, Some(each.to_vec()));
            assert_eq!(scores.found, Some(found.len()));
            assert_eq!(
                (scores.geneval, scores.centre, scores.pse, scores.hrs),
                (None, None, None, None)
            );
        }
    }
}
