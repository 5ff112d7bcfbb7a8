//! A run's pictures from elsewhere: folders, servers, programs; and searches over what they give.
//!
//! What costs time or money is kept in `received/` at the instant at which it comes, before anybody has looked at it, so
//! that a run which is killed asks for nothing twice that it was given.

mod check;
mod jobs;
mod received;

use super::SuitePrompt;
use super::folder::{FolderError, RECEIVED, RunFolder};
use super::method::Method;
use super::plan::{Job, Plan, SourceId};
use super::run::{Fetched, Made, Maker, RunError};
use super::sample::Cost;
use super::sets::given_relations;
use crate::check::clock;
use crate::detect::Detector;
use crate::detect::reward::{PictureReward, RewardError};
use crate::make::{CandidateJudge, reward_kind};
use crate::output::manifest::{
    BURN_VERSION, CodeVersion, GenParams, ManifestLine, ModelLine, Place,
};
use crate::picture::{Picture, PictureTensor};
use crate::prompt::compose::scene_of;
use crate::prompt::scene::Scene;
use crate::request::{RewardKind, SearchConfig};
use crate::sources::{self, File, Origin, Outcome, Source, SourceError, Wishes, upright};
use burn::tensor::Device;
use received::{packed, unpacked};

pub use check::check;
pub(super) use jobs::names;
pub use jobs::wanted;

/// A detector that says which candidate is best, and the device that it is on.
#[derive(Clone, Copy)]
pub struct Judge<'a> {
    /// The detector.
    pub detector: &'a dyn Detector,
    /// Its device.
    pub device: &'a Device,
}

/// Fetches a run's pictures from a source.
pub struct SourceMaker<'a> {
    folder: &'a RunFolder,
    source: &'a mut dyn Source,
    judge: Option<Judge<'a>>,
    candidate_judge: Option<&'a dyn CandidateJudge>,
    /// Whether it was told that a picture has another size than was asked for.
    told_size: bool,
}

/// What a prompt says, a composed one by its first part: its relations are the set's, which knows them also where English leaves
/// them open.
fn scene(prompt: &SuitePrompt) -> Scene {
    let given = given_relations(&prompt.objects, &prompt.relations);
    let scene = scene_of(&prompt.prompt, &given).unwrap_or_default();
    match given.is_empty() {
        true => Scene {
            relations: Vec::new(),
            ..scene
        },
        false => scene,
    }
}

/// The line of a manifest for a picture from elsewhere. What is not known of how it was made is 0 or empty.
pub(super) fn line(
    plan: &Plan,
    job: Job,
    picture: Option<(&Picture, Cost)>,
    device: &str,
    place: &Place,
) -> ManifestLine {
    let source = plan.config.source.as_ref();
    let wishes = source.map(SourceId::wishes).unwrap_or_default();
    let (width, height) = picture.map_or((0, 0), |(picture, _)| (picture.width, picture.height));
    ManifestLine {
        sample_id: plan.sample_id(job),
        run_id: place.run_id.into(),
        prompt_id: place.prompt_id.into(),
        image_path: place.image_path.into(),
        model: ModelLine {
            pipeline: place.run_id.into(),
            model_id: source.map_or("", SourceId::name).into(),
            revision: None,
        },
        gen_params: GenParams {
            seed: job.seed,
            height,
            width,
            num_inference_steps: wishes.steps.unwrap_or(0),
            guidance_scale: wishes.guidance_scale.unwrap_or(0.0),
            scheduler: String::new(),
            negative_prompt: Some(wishes.negative_prompt).filter(|text| !text.is_empty()),
        },
        prompt: plan.prompts[job.prompt].prompt.clone(),
        relation: None,
        object_a: None,
        object_b: None,
        timestamp_utc: clock::now(),
        code_version: CodeVersion {
            prepose: env!("CARGO_PKG_VERSION").into(),
            burn: BURN_VERSION.into(),
            device: device.into(),
            git_commit: option_env!("PREPOSE_GIT_COMMIT").map(Into::into),
        },
    }
}

impl<'a> SourceMaker<'a> {
    /// Fetches from `source`. `judge` chooses among the candidates of searches.
    pub fn new(
        folder: &'a RunFolder,
        source: &'a mut dyn Source,
        judge: Option<Judge<'a>>,
    ) -> Self {
        Self {
            folder,
            source,
            judge,
            candidate_judge: None,
            told_size: false,
        }
    }

    /// `judge` chooses among the candidates of searches whose reward is a judge.
    pub fn with_candidate_judge(self, judge: Option<&'a dyn CandidateJudge>) -> Self {
        Self {
            candidate_judge: judge,
            ..self
        }
    }

    /// What became of some jobs of the source, in their order, each with the name of the file that it is kept in.
    fn fetch(
        &mut self,
        method: &Method,
        dear: bool,
        jobs: &[sources::Job],
    ) -> Result<Vec<(Outcome, String)>, RunError> {
        let store = self.folder.store().clone();
        let names: Vec<String> = (jobs.iter())
            .map(|job| format!("{}/{RECEIVED}/{}", method.name, job.name))
            .collect();
        let mut outcomes: Vec<Option<Outcome>> = vec![None; jobs.len()];
        if dear {
            let there = store.get_all(&names).map_err(FolderError::from)?;
            for (outcome, bytes) in outcomes.iter_mut().zip(there) {
                *outcome = bytes.and_then(|bytes| unpacked(&bytes));
            }
        }
        let left: Vec<usize> = (0..jobs.len())
            .filter(|index| outcomes[*index].is_none())
            .collect();
        let asked: Vec<sources::Job> = left.iter().map(|index| jobs[*index].clone()).collect();
        if !asked.is_empty() {
            self.source.fetch(&asked, &mut |index, outcome| {
                let index = left[index];
                if let (true, Some(bytes)) = (dear, packed(&outcome)) {
                    let kept = store.put(&names[index], &bytes);
                    kept.map_err(|error| SourceError::Keep(error.into()))?;
                }
                outcomes[index] = Some(outcome);
                Ok(())
            })?;
        }
        let outcomes = outcomes
            .into_iter()
            .map(|outcome| outcome.unwrap_or(Outcome::Missing));
        Ok(outcomes.zip(names).collect())
    }

    /// The picture of a job, the best one if there are several.
    fn made(
        &mut self,
        job: Job,
        dear: bool,
        outcomes: Vec<(Outcome, String)>,
    ) -> Result<Made, RunError> {
        let folder = self.folder;
        let plan = folder.plan();
        let candidates = outcomes.len();
        let wishes = plan.config.source.as_ref().map(SourceId::wishes);
        let (mut pictures, mut received) = (Vec::new(), Vec::new());
        let (mut refusal, mut seconds) = (None, 0.0);
        for (outcome, name) in outcomes {
            match outcome {
                Outcome::Picture(file) => {
                    let File {
                        bytes,
                        mut origin,
                        seconds: each,
                    } = file;
                    seconds += each;
                    let read = upright::read(bytes).map_err(|source| {
                        // It would be found again, and be as bad.
                        let _ = folder.store().remove(&name);
                        RunError::Picture {
                            sample_id: plan.sample_id(job),
                            file: origin.file.clone(),
                            source,
                        }
                    })?;
                    origin.asked_size = other_size(wishes.as_ref(), &read.picture);
                    if let Some(asked) = origin.asked_size {
                        self.tell_size(&plan.sample_id(job), asked, &read.picture);
                    }
                    pictures.push((read, origin));
                }
                Outcome::Refused(why) => refusal = Some(why),
                Outcome::Missing => return Ok(Made::Missing),
            }
            if dear {
                received.push(name);
            }
        }
        let best = match pictures.len() {
            0 => return Ok(refusal.map_or(Made::Missing, Made::Refused)),
            1 => 0,
            _ => self.best(job, &pictures)?,
        };
        let (read, origin) = pictures.swap_remove(best);
        Ok(Made::Elsewhere(Box::new(Fetched {
            picture: read.picture,
            png: read.png,
            origin,
            cost: Cost {
                candidates,
                seconds,
                ..Cost::default()
            },
            received,
        })))
    }

    /// Warns of a picture of another size than was asked for, once: the run's summary has how many there are.
    fn tell_size(&mut self, sample_id: &str, [width, height]: [u32; 2], picture: &Picture) {
        if !std::mem::replace(&mut self.told_size, true) {
            tracing::warn!(
                "{sample_id} is {}x{}, but {width}x{height} was asked for; pictures are kept and looked at in the size in which they \
                 come",
                picture.width,
                picture.height
            );
        }
    }

    /// The first of the candidates with the highest score.
    fn best(&self, job: Job, pictures: &[(upright::Upright, Origin)]) -> Result<usize, RunError> {
        let plan = self.folder.plan();
        let method = &plan.config.methods[job.method];
        let search: Option<&SearchConfig> = method.search.as_ref();
        let prompt = &plan.prompts[job.prompt];
        if let (Some(RewardKind::Judge), Some(judge)) =
            (search.map(|search| search.reward), self.candidate_judge)
        {
            let pictures: Vec<Picture> = (pictures.iter())
                .map(|(read, _)| read.picture.clone())
                .collect();
            let scores = judge.scores(&prompt.prompt, &scene(prompt), &pictures);
            let scores = scores.map_err(|source| RunError::Judge {
                sample_id: plan.sample_id(job),
                source,
            })?;
            return Ok(highest(&scores));
        }
        let kind = search.and_then(|search| reward_kind(search.reward));
        let (Some(kind), Some(judge)) = (kind, self.judge) else {
            return Ok(0);
        };
        let score = || -> Result<Vec<f64>, RewardError> {
            let reward = PictureReward::new(kind, &scene(prompt), judge.detector.vocabulary())?;
            let mut scores = Vec::with_capacity(pictures.len());
            for (read, _) in pictures {
                // One at a time: they may be of several sizes.
                let tensor = read.picture.to_tensor(judge.device);
                scores.extend(reward.scores(judge.detector, &[tensor])?);
            }
            Ok(scores)
        };
        let scores = score().map_err(|why| RunError::Unscored {
            method: method.name.clone(),
            reward: search.map(|search| search.reward).unwrap_or_default(),
            prompts: plan.prompts.len(),
            unscored: vec![prompt.prompt_id.clone()],
            why: why.into(),
        })?;
        Ok(highest(&scores))
    }
}

/// The size that was asked for, if a picture has another one.
fn other_size(wishes: Option<&Wishes>, picture: &Picture) -> Option<[u32; 2]> {
    let asked = wishes?.size?;
    let [width, height] = asked.map(|side| side as usize);
    ((width, height) != (picture.width, picture.height)).then_some(asked)
}

/// The first place of the highest score.
fn highest(scores: &[f64]) -> usize {
    let mut best = 0;
    for (place, score) in scores.iter().enumerate() {
        if *score > scores[best] {
            best = place;
        }
    }
    best
}

impl Maker for SourceMaker<'_> {
    fn make(&mut self, jobs: &[Job]) -> Result<Vec<Made>, RunError> {
        let plan = self.folder.plan();
        let ([first, ..], Some(source)) = (jobs, &plan.config.source) else {
            return Err(RunError::Elsewhere);
        };
        let method = &plan.config.methods[first.method];
        let candidates = method
            .search
            .as_ref()
            .map_or(1, |search| search.best_of.max(1));
        let most = self.source.at_once().div_ceil(candidates).max(1);
        let jobs = &jobs[..jobs.len().min(most)];
        let wanted = (jobs.iter().zip(wanted(plan, source, jobs)))
            .map(|(job, wanted)| jobs::begun(plan, source, *job, wanted))
            .collect::<Result<Vec<_>, _>>()?;
        let all: Vec<sources::Job> = (wanted.iter().filter_map(|wanted| wanted.as_ref().ok()))
            .flatten()
            .cloned()
            .collect();
        let dear = source.is_dear();
        let mut outcomes = self.fetch(method, dear, &all)?.into_iter();
        let each = jobs.iter().zip(wanted);
        each.map(|(job, wanted)| match wanted {
            Ok(wanted) => {
                let own = outcomes.by_ref().take(wanted.len()).collect();
                self.made(*job, dear, own)
            }
            // There is nothing to change.
            Err(refusal) => Ok(Made::Refused(refusal)),
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::scene::{Relation, StatedRelation};

    #[test]
    fn the_sets_relations_count_and_not_the_texts() {
        let says = |text: &str, relations: Vec<StatedRelation>| {
            let scene = scene(&SuitePrompt {
                prompt: text.into(),
                objects: vec!["dog".into(), "dog".into()],
                relations,
                ..SuitePrompt::default()
            });
            scene.relations
        };
        let second_left = vec![StatedRelation::of_two(1, Relation::LeftOf, 0)];
        for text in ["a dog left of a dog", "a dog near a dog", "a dog and a dog"] {
            assert_eq!(says(text, second_left.clone()), second_left, "{text}");
            assert!(says(text, Vec::new()).is_empty(), "{text}");
        }
    }

    #[test]
    fn a_composed_prompt_is_read_from_its_first_part() {
        let prompt = SuitePrompt {
            prompt: "a dog left of a cat AND a dog".into(),
            objects: vec!["dog".into(), "cat".into()],
            relations: vec![StatedRelation::of_two(0, Relation::LeftOf, 1)],
            ..SuitePrompt::default()
        };
        let Scene { objects, relations } = scene(&prompt);
        let nouns: Vec<&str> = objects.iter().map(|object| object.noun.as_str()).collect();
        assert_eq!((nouns, relations), (vec!["dog", "cat"], prompt.relations));
    }
}
