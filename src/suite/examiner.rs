//! Who looks at a run's pictures.

use crate::check::Detection;
use crate::check::detect::checker::{Asked, CheckError, Checker};
use crate::check::spatialbench::{Question, Record};
use crate::check::vocabulary::{UnknownObject, label};
use crate::picture::Picture;
use crate::prompt::scene::{Scene, StatedRelation};

use super::SuitePrompt;
use super::sample::{Cost, Scores};

/// A finished picture that an examiner is to look at.
pub struct Submission<'a> {
    /// `{method}_{prompt_id}_seed%04d`.
    pub sample_id: String,
    /// What it should show.
    pub prompt: &'a SuitePrompt,
    /// Of its noise.
    pub seed: u64,
    /// What it shows.
    pub picture: &'a Picture,
    /// What it took.
    pub cost: Cost,
}

/// Looks at pictures, on a thread of its own while the next ones are made.
pub trait Examiner: Send {
    /// The records and scores of each picture, in their order.
    ///
    /// # Errors
    /// The detector's; nothing is known of any of the pictures then.
    fn examine(&self, submitted: &[Submission]) -> Result<Vec<(Vec<Record>, Scores)>, CheckError>;
}

/// Looks at nothing: what a run without a checker has.
pub struct NoExaminer;

impl Examiner for NoExaminer {
    fn examine(&self, submitted: &[Submission]) -> Result<Vec<(Vec<Record>, Scores)>, CheckError> {
        let unseen = |one: &Submission| {
            let scores = Scores::unseen(&one.sample_id, one.prompt, one.seed, one.cost);
            (Vec::new(), scores)
        };
        Ok(submitted.iter().map(unseen).collect())
    }
}

/// The detector's words for a prompt's objects.
///
/// # Errors
/// One that it does not know.
pub fn labels(
    prompt: &SuitePrompt,
    vocabulary: Option<&[String]>,
) -> Result<Vec<String>, UnknownObject> {
    let of = |object: &String| word(object, vocabulary);
    prompt.objects.iter().map(of).collect()
}

/// The detector's word for an object.
///
/// # Errors
/// It does not know it.
pub fn word(object: &str, vocabulary: Option<&[String]>) -> Result<String, UnknownObject> {
    match vocabulary {
        Some(vocabulary) => label(vocabulary, object, &noun(object)).map(Into::into),
        None => Ok(object.to_lowercase()),
    }
}

/// `car` of "red car".
fn noun(object: &str) -> String {
    let scene = Scene::parse(object).unwrap_or_default();
    match scene.objects.into_iter().next() {
        Some(object) => object.noun,
        None => object.to_owned(),
    }
}

/// What the checker is asked about a prompt's pictures: its relations, but for those that boxes do not show, such as
/// "behind".
fn questions(prompt: &SuitePrompt, labels: &[String]) -> Vec<Question> {
    let question = |stated: &StatedRelation| {
        let (subject, object) = stated.two()?;
        let label = |index: usize| labels.get(index).cloned();
        Question::new(stated.relation, label(subject)?, label(object)?).ok()
    };
    prompt.relations.iter().filter_map(question).collect()
}

impl Examiner for Checker {
    fn examine(&self, submitted: &[Submission]) -> Result<Vec<(Vec<Record>, Scores)>, CheckError> {
        let vocabulary = self.primary.vocabulary();
        let mut asked = Vec::with_capacity(submitted.len());
        let mut known = Vec::with_capacity(submitted.len());
        for one in submitted {
            // A run is only begun with prompts whose objects the detector knows.
            let labels = labels(one.prompt, vocabulary).unwrap_or_default();
            asked.push(Asked {
                picture: one.picture.clone(),
                questions: questions(one.prompt, &labels),
                others: labels.clone(),
                depth: one
                    .prompt
                    .relations
                    .iter()
                    .any(|stated| stated.relation.is_of_depth()),
            });
            known.push(labels);
        }
        let checked = self.check(&asked)?;
        let each = submitted.iter().zip(&asked).zip(checked).zip(known);
        Ok(each
            .map(|(((one, asked), checked), labels)| {
                let prompt = one.prompt;
                let records = self.records(&one.sample_id, &prompt.prompt_id, asked, &checked);
                let size = (one.picture.width, one.picture.height);
                let found: &[Detection] = &checked.primary;
                let scores = Scores::unseen(&one.sample_id, prompt, one.seed, one.cost).look(
                    prompt,
                    &labels,
                    size,
                    found,
                    checked.depth.clone(),
                    self.rule.published,
                );
                (records, scores)
            })
            .collect())
    }
}
