//! A detector as the reward of a search.

use std::sync::Arc;

use burn::tensor::Tensor;
use thiserror::Error;

use super::{DetectError, Detector};
use crate::check::Detection;
use crate::check::ask::AskError;
use crate::check::reward::{by_pse, by_relations, by_verdict};
use crate::check::rules::depth::DepthMap;
use crate::check::rules::{Case, RuleError, Wanted};
use crate::check::spatialbench::{Question, RelationError, Rule, Size};
use crate::check::vocabulary::label_of;
use crate::prompt::scene::{Relation, Scene};

/// What makes a picture good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureRewardKind {
    /// The checker's verdict and confidence ([`by_verdict`]).
    Verdict,
    /// The probability of superiority of the objects' masks ([`by_pse`]).
    Pse,
    /// Each relation by its own rule, distance and depth included ([`by_relations`]).
    Relations,
}

/// Why pictures could not be rewarded.
#[derive(Debug, Error)]
pub enum RewardError {
    /// The scene cannot be checked.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The checker does not decide such a relation.
    #[error(transparent)]
    Relation(#[from] RelationError),
    /// PSE does not score such a relation.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// The detector failed.
    #[error(transparent)]
    Detect(#[from] DetectError),
}

/// What candidates for one scene are scored by.
#[derive(Clone, Debug)]
pub struct PictureReward {
    kind: PictureRewardKind,
    rule: Rule,
    questions: Vec<Question>,
    /// What is looked for and how it should stand, where questions of two do not say it.
    case: Case,
}

impl PictureReward {
    /// The reward for `scene`, as a detector with these labels can see it.
    ///
    /// # Errors
    /// [`RewardError`] if nothing of the kind can be said about the scene; [`scores`](Self::scores) can only fail with
    /// the detector then.
    pub fn new(
        kind: PictureRewardKind,
        scene: &Scene,
        vocabulary: Option<&[String]>,
    ) -> Result<Self, RewardError> {
        let (mut questions, mut case) = (Vec::new(), Case::default());
        if kind == PictureRewardKind::Relations {
            if scene.relations.is_empty() {
                return Err(AskError::NoRelation.into());
            }
            for object in &scene.objects {
                let label = label_of(vocabulary, object).map_err(AskError::from)?;
                case.objects.push(Wanted::one(label));
            }
            case.relations.clone_from(&scene.relations);
        } else {
            questions = Question::of_scene(scene, vocabulary)?;
        }
        let reward = Self {
            kind,
            rule: Rule::default(),
            questions,
            case,
        };
        let depth = DepthMap::new(1, 1, vec![1.0]).ok().map(Arc::new);
        reward.score([1, 1], Vec::new(), depth)?;
        Ok(reward)
    }

    /// Whether pictures cannot be scored without their depth.
    pub fn needs_depth(&self) -> bool {
        let relations = self.case.relations.iter();
        relations
            .map(|stated| stated.relation)
            .any(Relation::is_of_depth)
    }

    /// Scores pictures, f32 [3, H, W] in 0..=1 on the detector's device; higher is better.
    ///
    /// # Errors
    /// The detector's.
    pub fn scores(
        &self,
        detector: &dyn Detector,
        pictures: &[Tensor<3>],
    ) -> Result<Vec<f64>, RewardError> {
        let labels =
            (self.questions.iter()).flat_map(|one| [one.object_a.clone(), one.object_b.clone()]);
        let labels = labels.chain(self.case.objects.iter().map(|object| object.name.clone()));
        let queries = vec![labels.collect::<Vec<_>>(); pictures.len()];
        let found = match self.kind {
            PictureRewardKind::Verdict => detector.detect_boxes(pictures, &queries)?,
            PictureRewardKind::Pse | PictureRewardKind::Relations => {
                detector.detect(pictures, &queries)?
            }
        };
        let depths = match self.needs_depth() {
            true => detector.depths(pictures)?,
            false => None,
        };
        let scored = pictures.iter().zip(found).enumerate();
        let scored = scored.map(|(i, (picture, found))| {
            let [_, height, width] = picture.dims();
            let depth = depths.as_ref().and_then(|maps| maps.get(i).cloned());
            self.score([width as u32, height as u32], found, depth)
        });
        scored.collect()
    }

    fn score(
        &self,
        size: Size,
        found: Vec<Detection>,
        depth: Option<Arc<DepthMap>>,
    ) -> Result<f64, RewardError> {
        match self.kind {
            PictureRewardKind::Relations => {
                let [width, height] = size;
                let case = Case {
                    size: Some((width as usize, height as usize)),
                    detections: found,
                    depth,
                    ..self.case.clone()
                };
                Ok(by_relations(&case)?)
            }
            PictureRewardKind::Verdict => {
                Ok(by_verdict(&self.rule, &self.questions, size, &found)?)
            }
            PictureRewardKind::Pse => Ok(by_pse(&Question::case(&self.questions, size, found))?),
        }
    }
}
