//! What `prepose score` can be asked for.

use anyhow::bail;
use clap::builder::{PossibleValue, PossibleValuesParser};
use prepose::check::rules::{RULES, Rule};

use super::robustness::{CORRUPTIONS, DETECTORS};
use crate::cli::given::Given;

/// The comparison of models, which is no rule but is made of one.
pub const OPSE: &str = "opse";
/// How well a text describes a picture, which is no rule either: there is nothing to detect.
pub const CLIP_SCORE: &str = "clip-score";
/// How well people would like a picture for its prompt.
pub const IMAGE_REWARD: &str = "image-reward";
/// What a judge says of runs' pictures.
pub const JUDGE: &str = "judge";
/// How good pictures are as sets.
pub const QUALITY: &str = "quality";

/// Options of rules that score detections.
const OF_DETECTIONS: [&str; 7] = [
    "published",
    "min_score",
    "size",
    "metadata",
    "depth",
    "masks",
    "mask_choice",
];
/// What else only some can be asked for with, and those.
const OF_SOME: [(&[&str], &[&str]); 7] = [
    (&["clip"], &[CLIP_SCORE]),
    (&["clip_prompt"], &[CLIP_SCORE, QUALITY]),
    (&["image_reward"], &[IMAGE_REWARD, QUALITY]),
    (&["of", "rounds", "batch"], &[OPSE]),
    (&["seed"], &[OPSE, CORRUPTIONS, QUALITY]),
    (
        &[
            "judge",
            "judge_model",
            "judge_rounds",
            "judge_asks",
            "checker",
        ],
        &[JUDGE],
    ),
    (
        &[
            "reference",
            "features",
            "save_statistics",
            "neighbours",
            "rke_width",
            "draws",
        ],
        &[QUALITY],
    ),
];

/// Refuses an option that `rule` does not read.
pub fn check(rule: &str, given: &Given) -> anyhow::Result<()> {
    let sees_detections = ![CLIP_SCORE, IMAGE_REWARD, JUDGE, QUALITY].contains(&rule);
    if let Some(option) = given.first_of(&OF_DETECTIONS).filter(|_| !sees_detections) {
        bail!("{option} is for rules that score detections; prepose score {rule} does not read it");
    }
    for (options, rules) in OF_SOME {
        if let Some(option) = given.first_of(options).filter(|_| !rules.contains(&rule)) {
            bail!(
                "{option} is for prepose score {}; prepose score {rule} does not read it",
                rules.join(" or ")
            );
        }
    }
    Ok(())
}

/// The rules with a line on each.
pub fn rules() -> PossibleValuesParser {
    let rule = |rule: &dyn Rule| PossibleValue::new(rule.name()).help(rule.about());
    let mut values: Vec<_> = RULES.into_iter().map(rule).collect();
    let about =
        "which of several models, a file each, is best, by looking at few of their pictures";
    values.push(PossibleValue::new(OPSE).help(about));
    let about = "PSE with masks that lose pixels, move or are opened: table 10 of its paper";
    values.push(PossibleValue::new(CORRUPTIONS).help(about));
    let about =
        "the best pictures by each of several detectors, measured by each: table 11 of PSE's paper";
    values.push(PossibleValue::new(DETECTORS).help(about));
    let about = "CLIPScore: how well prompts describe pictures, by a CLIP (--clip)";
    values.push(PossibleValue::new(CLIP_SCORE).help(about));
    let about =
        "ImageReward: how much people would like pictures for their prompts (--image-reward)";
    values.push(PossibleValue::new(IMAGE_REWARD).help(about));
    let about =
        "what a vision-language model, or a detector, answers about runs' pictures (--judge)";
    values.push(PossibleValue::new(JUDGE).help(about));
    let about = "FID, KID, IS, CMMD, precision and recall, RKE and Vendi of whole runs or folders";
    values.push(PossibleValue::new(QUALITY).help(about));
    PossibleValuesParser::new(values)
}

/// The rules alone.
pub fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(
        RULES
            .into_iter()
            .map(|rule| PossibleValue::new(rule.name())),
    )
}
