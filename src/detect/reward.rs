//! A detector as the reward of a search.

use burn::tensor::Tensor;
use thiserror::Error;

use super::{DetectError, Detector};
use crate::check::Detection;
use crate::check::ask::AskError;
use crate::check::reward::{by_pse, by_verdict};
use crate::check::rules::RuleError;
use crate::check::spatialbench::{Question, RelationError, Rule, Size};
use crate::prompt::scene::Scene;

/// What makes a picture good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureRewardKind {
    /// The checker's verdict and confidence ([`by_verdict`]).
    Verdict,
    /// The probability of superiority of the objects' masks ([`by_pse`]).
    Pse,
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
        let reward = Self {
            kind,
            rule: Rule::default(),
            questions: Question::of_scene(scene, vocabulary)?,
        };
        reward.score([1, 1], Vec::new())?;
        Ok(reward)
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
        let queries = vec![labels.collect::<Vec<_>>(); pictures.len()];
        let found = match self.kind {
            PictureRewardKind::Verdict => detector.detect_boxes(pictures, &queries)?,
            PictureRewardKind::Pse => detector.detect(pictures, &queries)?,
        };
        let scored = pictures.iter().zip(found).map(|(picture, found)| {
            let [_, height, width] = picture.dims();
            self.score([width as u32, height as u32], found)
        });
        scored.collect()
    }

    fn score(&self, size: Size, found: Vec<Detection>) -> Result<f64, RewardError> {
        match self.kind {
            PictureRewardKind::Verdict => {
                Ok(by_verdict(&self.rule, &self.questions, size, &found)?)
            }
            PictureRewardKind::Pse => Ok(by_pse(&Question::case(&self.questions, size, found))?),
        }
    }
}
