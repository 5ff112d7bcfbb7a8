//! What the candidates of a search are scored by, and whether it can score a prompt.

use std::error::Error;

use super::error::MakeError;
use crate::detect::reward::{PictureReward, PictureRewardKind};
use crate::engine::Blueprint;
use crate::picture::Picture;
use crate::prompt::scene::Scene;
use crate::request::{Request, RewardKind, SearchConfig};
use crate::search;

/// Somebody who looks at the finished candidates of a search, such as a vision-language model: see
/// [`RewardKind::Judge`].
pub trait CandidateJudge {
    /// How well each picture shows the scene of `prompt`, in their order; higher is better.
    ///
    /// # Errors
    /// There is no answer about one of them.
    fn scores(
        &self,
        prompt: &str,
        scene: &Scene,
        pictures: &[Picture],
    ) -> Result<Vec<f64>, Box<dyn Error + Send + Sync>>;
}

/// What a detector is asked for by a reward; none if the reward needs no detector.
pub fn reward_kind(reward: RewardKind) -> Option<PictureRewardKind> {
    match reward {
        RewardKind::Attention | RewardKind::Judge => None,
        RewardKind::Checker => Some(PictureRewardKind::Verdict),
        RewardKind::Pse => Some(PictureRewardKind::Pse),
        RewardKind::Relations => Some(PictureRewardKind::Relations),
    }
}

/// The reward of that kind for pictures of `request`, as a detector with these labels (none: any phrase) sees them.
///
/// # Errors
/// A prompt that the reward has nothing to say about: no relation, one of depth, an object without a label.
pub fn picture_reward(
    blueprint: &Blueprint,
    request: &Request,
    kind: PictureRewardKind,
    labels: Option<&[String]>,
) -> Result<PictureReward, MakeError> {
    let scene = blueprint.scene(request)?;
    PictureReward::new(kind, &scene, labels).map_err(|source| MakeError::Reward {
        prompt: request.prompt.clone(),
        source: Box::new(source),
    })
}

/// Checks `request`, and the search for it, as far as possible without weights, and records the start picture's hash.
/// `labels` are those of the detector that will score candidates (none: any phrase).
///
/// # Errors
/// As [`Blueprint::check`], [`search::check`] and [`picture_reward`].
pub fn check(
    blueprint: &Blueprint,
    request: &mut Request,
    search: Option<&SearchConfig>,
    labels: Option<&[String]>,
) -> Result<(), MakeError> {
    blueprint.check(request)?;
    if let Some(search) = search {
        search::check(blueprint, request, search)?;
        if let Some(kind) = reward_kind(search.reward) {
            picture_reward(blueprint, request, kind, labels)?;
        }
    }
    Ok(())
}
