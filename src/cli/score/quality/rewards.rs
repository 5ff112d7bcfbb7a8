//! How people would like the pictures of a set for their prompts, by ImageReward.

use anyhow::Context;
use prepose::eyes::RewardScorer;
use prepose::picture::Picture;
use prepose::quality::Measured;
use prepose::quality::figures::{self, Settings};
use prepose::report::quality::Assessment;

use super::measure::figure;
use super::sets::PictureSet;
use crate::cli::progress::Progress;
use crate::cli::score::eyes::read_picture;

/// Pictures that are in memory at a time.
const TOGETHER: usize = 16;

/// The mean reward with its interval and, as papers print it, the deviation over the pictures.
///
/// # Errors
/// A picture has no prompt, or cannot be looked at.
pub fn of(
    scorer: &RewardScorer,
    set: &PictureSet,
    settings: &Settings,
    quiet: bool,
) -> anyhow::Result<Assessment> {
    let prompts = set.captions()?.with_context(|| {
        let name = &set.name;
        format!("--image-reward compares pictures with their prompts, but {name} has some without one: give a run")
    })?;
    let mut progress = Progress::new(set.pictures.len() as u64, "pictures", quiet);
    progress.message(format!("{} looks at {}", scorer.name(), set.name));
    let mut rewards = Vec::with_capacity(prompts.len());
    for (paths, texts) in (set.pictures.chunks(TOGETHER)).zip(prompts.chunks(TOGETHER)) {
        let pictures = paths.iter().map(|path| read_picture(path));
        let pictures = pictures.collect::<anyhow::Result<Vec<Picture>>>()?;
        let pairs = pictures.iter().zip(texts.iter().map(String::as_str));
        let pairs: Vec<(&Picture, &str)> = pairs.collect();
        rewards.extend(scorer.rewards(&pairs).with_context(|| set.name.clone())?);
        progress.advance(paths.len() as u64);
    }
    progress.finish();
    let count = rewards.len();
    let mean = rewards.iter().sum::<f64>() / count as f64;
    let squares = rewards.iter().map(|reward| (reward - mean).powi(2));
    let deviation = (squares.sum::<f64>() / count as f64).sqrt();
    let measured = Measured::mean(rewards);
    Ok(Assessment {
        network: scorer.name().to_string(),
        sha256: scorer.hash().to_string(),
        about: "how people would like the pictures for their prompts".to_string(),
        pictures: count,
        reference: None,
        reference_pictures: None,
        figures: vec![figure(figures::Figure {
            name: "ImageReward",
            estimate: measured.estimate(&set.groups, &settings.bootstrap),
            deviation: Some(deviation),
            setting: None,
        })],
        warnings: Vec::new(),
    })
}
