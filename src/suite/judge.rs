//! A judge of a run's pictures: of the candidates of its searches, and what it is asked about the finished ones.

use std::collections::HashMap;
use std::error::Error;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use burn::tensor::Device;

use super::SuitePrompt;
use super::folder::{FolderError, RunFolder};
use super::sample::Sample;
use crate::check::rules::{Case, Options};
use crate::check::spatialbench::Verdict;
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
            detections: found.into_iter().flatten().collect(),
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
    let code = match (prompt.relations.is_empty(), scores.side.as_deref()) {
        (true, Some("left")) => Some(1),
        (true, Some("right")) => Some(2),
        (true, Some(_)) => Some(3),
        (true, None) => None,
        (false, _) => scores.found.map(|_| match scores.centre {
            Some(true) => 1,
            Some(false) => 2,
            None => 3,
        }),
    };
    // There is a record for each relation that boxes show, in the same order.
    let mut records = sample.records.iter().peekable();
    let stated = prompt
        .relations
        .iter()
        .filter(|stated| stated.two().is_some());
    let relations = stated.map(|stated| {
        let record = records.next_if(|record| record.relation == stated.relation)?;
        match record.verdict_raw {
            Verdict::Pass => Some(true),
            Verdict::Fail => Some(false),
            Verdict::Undecidable => None,
        }
    });
    Checked {
        code,
        relations: match sample.records.is_empty() {
            true => Vec::new(),
            false => relations.collect(),
        },
    }
}
