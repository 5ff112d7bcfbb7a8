//! A judge of a run's pictures: of the candidates of its searches, and what it is asked about the finished ones.

use std::collections::HashMap;
use std::error::Error;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use burn::tensor::Device;

use super::SuitePrompt;
use super::examiner;
use super::folder::{FolderError, RunFolder};
use super::sample::Sample;
use crate::check::Detection;
use crate::check::rules::{Case, Options};
use crate::detect::Detector;
use crate::judge::ask::{Judge, Manner, Outcome, ask};
use crate::judge::book::Book;
use crate::judge::oracle::Oracle;
use crate::judge::picture::{InMemory, Named};
use crate::judge::prompted::{Asking, Checked, Shown, Which, of_scene, reward};
use crate::judge::scene::questions::Rules;
use crate::make::CandidateJudge;
use crate::output::png::encode_plain;
use crate::picture::{Picture, PictureTensor};
use crate::prompt::scene::Scene;

/// Who answers.
pub enum Answering<'a> {
    /// Somebody on a server, at most so many questions at a time; answers are kept in the book.
    Model(&'a dyn Judge, usize, &'a Mutex<Book>),
    /// A detector, by geometry.
    Oracle(&'a dyn Detector, &'a Device),
}

/// Scores the candidates of searches by SGScore.
pub struct JudgeReward<'a> {
    /// Who answers.
    pub answering: Answering<'a>,
    /// Ends the asking when it becomes true.
    pub stop: &'a AtomicBool,
}

type Failure = Box<dyn Error + Send + Sync>;

impl CandidateJudge for JudgeReward<'_> {
    fn scores(
        &self,
        prompt: &str,
        scene: &Scene,
        pictures: &[Picture],
    ) -> Result<Vec<f64>, Failure> {
        let (mut shown, mut files) = (Vec::new(), Vec::new());
        for (number, picture) in pictures.iter().enumerate() {
            let id = number.to_string();
            shown.push(of_scene(&id, prompt, scene));
            let path = PathBuf::from(format!("candidate {number}"));
            files.push((Named { id, path }, encode_plain(picture)?));
        }
        let asking = Asking::new(shown, Which::Scene, Rules::default());
        let (questions, files) = (asking.questions(), InMemory(files));
        let manner = |concurrency| Manner {
            concurrency,
            progress: &|_| (),
            stop: self.stop,
        };
        let asked = match &self.answering {
            Answering::Model(judge, at_once, book) => {
                let mut book = book.lock().unwrap_or_else(PoisonError::into_inner);
                ask(*judge, &files, &questions, &mut book, &manner(*at_once))?
            }
            Answering::Oracle(detector, device) => {
                let oracle = oracle(*detector, device, scene, pictures)?;
                ask(&oracle, &files, &questions, &mut Book::unkept(), &manner(1))?
            }
        };
        let failed = asked.outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Failed(why) => Some(why.clone()),
            Outcome::Unasked => Some("interrupted".into()),
            Outcome::Answered(_) => None,
        });
        if let Some(why) = failed {
            return Err(why.into());
        }
        // An invalid answer is no reason to keep a picture, nor one to think worse of it than that nothing is there.
        let results = asking.results(&asked.outcomes);
        Ok(results
            .iter()
            .map(|one| reward(one).unwrap_or(0.0))
            .collect())
    }
}

/// Who sees what a detector sees in pictures, whose names are their places.
fn oracle(
    detector: &dyn Detector,
    device: &Device,
    scene: &Scene,
    pictures: &[Picture],
) -> Result<Oracle, Failure> {
    let names: Vec<String> = scene
        .objects
        .iter()
        .map(|object| object.noun.clone())
        .collect();
    let mut cases = Vec::new();
    for (number, picture) in pictures.iter().enumerate() {
        let found =
            detector.detect_boxes(&[picture.to_tensor(device)], std::slice::from_ref(&names))?;
        cases.push(Case {
            id: number.to_string(),
            prompt_id: number.to_string(),
            size: Some((picture.width, picture.height)),
            detections: by_names(
                found.into_iter().flatten().collect(),
                &names,
                detector.vocabulary(),
            ),
            ..Case::default()
        });
    }
    Ok(Oracle::new(cases, Options::default()))
}

/// A finished picture of a run.
pub struct Finished {
    /// What it should show.
    pub shown: Shown,
    /// Its file within the run's folder.
    pub file: String,
    /// What the run's checker says of it.
    pub checked: Checked,
}

/// The finished pictures of a run, and whether a checker has looked at them.
///
/// # Errors
/// The store's; a line of a file that cannot be read.
pub fn finished(folder: &RunFolder) -> Result<(Vec<Finished>, bool), FolderError> {
    let plan = folder.plan();
    let prompts: HashMap<&str, &SuitePrompt> = (plan.prompts.iter())
        .map(|prompt| (prompt.prompt_id.as_str(), prompt))
        .collect();
    let mut all = Vec::new();
    for (method, config) in plan.config.methods.iter().enumerate() {
        folder.samples(method, |sample| {
            if let Some(prompt) = prompts.get(sample.manifest.prompt_id.as_str()) {
                all.push(Finished {
                    file: format!(
                        "{}/{}",
                        folder.method_folder(method),
                        sample.manifest.image_path
                    ),
                    checked: checked(prompt, &sample),
                    shown: Shown {
                        id: sample.manifest.sample_id,
                        method: config.name.clone(),
                        prompt: (*prompt).clone(),
                    },
                });
            }
            Ok(())
        })?;
    }
    Ok((all, plan.config.checker.is_some()))
}

/// What a checker says of a picture.
fn checked(prompt: &SuitePrompt, sample: &Sample) -> Checked {
    let scores = &sample.scores;
    let side = scores
        .side
        .as_deref()
        .filter(|_| prompt.relations.is_empty());
    let found = scores.each_found.as_deref().unwrap_or_default();
    Checked::of_records(prompt, &sample.records)
        .with_side(side)
        .with_objects(prompt, found)
}

/// What a detector with a vocabulary finds, also by the names that it is asked for: what it calls a "couch" is a "sofa" too.
pub fn by_names(
    mut found: Vec<Detection>,
    names: &[String],
    vocabulary: Option<&[String]>,
) -> Vec<Detection> {
    let Some(vocabulary) = vocabulary else {
        return found;
    };
    for name in names {
        let Ok(label) = examiner::word(name, Some(vocabulary)) else {
            continue;
        };
        if label.eq_ignore_ascii_case(name) {
            continue;
        }
        let also: Vec<Detection> = (found.iter().filter(|one| one.label == label))
            .map(|one| Detection {
                label: name.clone(),
                ..one.clone()
            })
            .collect();
        found.extend(also);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::BoundingBox;

    #[test]
    fn things_are_found_by_other_words_for_them() {
        let one = |label: &str| Detection {
            label: label.into(),
            score: 0.9,
            bbox: BoundingBox::new(0.0, 0.0, 1.0, 1.0),
            mask: None,
        };
        let vocabulary = ["couch", "dog"].map(String::from);
        let names = ["sofa", "dog", "red couch", "unicorn"].map(String::from);
        let labels = |vocabulary| {
            let found = by_names(vec![one("couch"), one("dog")], &names, vocabulary);
            let labels = found.into_iter().map(|one| one.label);
            labels.collect::<Vec<_>>()
        };
        assert_eq!(labels(None), ["couch", "dog"]);
        assert_eq!(
            labels(Some(&vocabulary)),
            ["couch", "dog", "sofa", "red couch"]
        );
    }
}
