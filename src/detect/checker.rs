//! From pictures to verdicts: detectors, perturbations and the rule together.

use std::sync::Arc;

use burn::tensor::Device;
use rayon::prelude::*;
use thiserror::Error;

use super::{DetectError, Detector};
use crate::check::Detection;
use crate::check::rules::depth::DepthMap;
use crate::check::spatialbench::record::{DetectorRecord, Detectors};
use crate::check::spatialbench::{
    Decision, Look, Question, Record, RelationError, Rule, Secondary, Size,
};
use crate::eyes::eight_bits;
use crate::picture::Picture;

/// Why a batch could not be checked.
#[derive(Debug, Error)]
pub enum CheckError {
    /// A detector failed.
    #[error(transparent)]
    Detect(#[from] DetectError),
    /// A relation that the rule does not decide.
    #[error(transparent)]
    Relation(#[from] RelationError),
}

/// A picture and what is asked of it.
pub struct Asked {
    /// The picture.
    pub picture: Picture,
    /// One question for each relation of its prompt.
    pub questions: Vec<Question>,
    /// What else is looked for, in the detector's words.
    pub others: Vec<String>,
    /// Whether it matters how far away things are.
    pub depth: bool,
}

/// What the checker says of one picture.
pub struct Checked {
    /// What the primary detector found, best first.
    pub primary: Vec<Detection>,
    /// What the secondary detector found, if it was run.
    pub secondary: Option<Vec<Detection>>,
    /// The answer to each question, in their order.
    pub decisions: Vec<Decision>,
    /// How far away things are, if that was asked and the primary detector sees it.
    pub depth: Option<Arc<DepthMap>>,
}

/// Detectors and a rule.
pub struct Checker {
    /// Whose boxes decide.
    pub primary: Box<dyn Detector + Send>,
    /// Whose agreement only moves the confidence.
    pub secondary: Option<Box<dyn Detector + Send>>,
    /// What is decided from the boxes.
    pub rule: Rule,
    /// Where both detectors run.
    pub device: Device,
    /// Pictures at a time, at least 1.
    pub batch: usize,
}

impl Checker {
    /// One detector and SpatialBench-UC's calibrated rule; `device` is the detector's.
    pub fn new(primary: impl Detector + Send + 'static, device: &Device) -> Self {
        Self {
            primary: Box::new(primary),
            secondary: None,
            rule: Rule::default(),
            device: device.clone(),
            batch: 8,
        }
    }

    /// Looks at pictures of any sizes. Each is looked at once by the primary detector; where that decides a question, once
    /// more for each perturbation of the configuration; and once by the secondary detector unless that is pointless
    /// ([`Look::is_final`]).
    ///
    /// # Errors
    /// [`CheckError`]; nothing is known of any of the pictures then.
    pub fn check(&self, asked: &[Asked]) -> Result<Vec<Checked>, CheckError> {
        let everything: Vec<&Asked> = asked.iter().collect();
        let pictures: Vec<&Picture> = asked.iter().map(|asked| &asked.picture).collect();
        let primary = &*self.primary;
        let found = self.in_batches(primary, true, &pictures, &everything)?;
        let mut looks: Vec<Vec<Look>> = Vec::with_capacity(asked.len());
        for (asked, found) in asked.iter().zip(&found) {
            let look = |question| self.rule.look(question, asked.size(), found);
            looks.push(asked.questions.iter().map(look).collect::<Result<_, _>>()?);
        }
        let perturbed = self.perturbed(asked, &looks)?;
        let second = self.second(asked, &looks)?;
        let mut depths = self.depths(asked)?;

        let mut checked = Vec::with_capacity(asked.len());
        let each = asked
            .iter()
            .zip(found)
            .zip(looks)
            .zip(perturbed)
            .zip(second);
        for (index, ((((asked, primary), looks), perturbed), secondary)) in each.enumerate() {
            let mut decisions = Vec::with_capacity(looks.len());
            for (question, look) in asked.questions.iter().zip(looks) {
                let stability = match look.verdict.is_decided() && !perturbed.is_empty() {
                    true => Some(
                        self.rule
                            .stability(question, asked.size(), &look, &perturbed)?,
                    ),
                    false => None,
                };
                let says = match (&self.secondary, &secondary) {
                    (Some(_), Some(found)) => Secondary::Found(found),
                    _ => Secondary::None,
                };
                let decision =
                    (self.rule).conclude(question, asked.size(), look, stability, says)?;
                decisions.push(decision);
            }
            checked.push(Checked {
                primary,
                secondary,
                decisions,
                depth: depths[index].take(),
            });
        }
        Ok(checked)
    }

    /// The records of a picture, one for each question; `_relationN` goes to their ids where there are several.
    pub fn records(
        &self,
        sample_id: &str,
        prompt_id: &str,
        asked: &Asked,
        checked: &Checked,
    ) -> Vec<Record> {
        let several = asked.questions.len() > 1;
        let detector = |with: &dyn Detector, detections: &[Detection]| DetectorRecord {
            kind: with.name().to_string(),
            detections: detections.to_vec(),
        };
        let each = asked.questions.iter().zip(&checked.decisions).zip(1..);
        each.map(|((question, decision), number)| {
            let id = match several {
                true => format!("{sample_id}_relation{number}"),
                false => sample_id.to_string(),
            };
            let secondary = self.secondary.as_ref().zip(checked.secondary.as_ref());
            let detectors = Detectors {
                primary: detector(&*self.primary, &checked.primary),
                secondary: secondary.map(|(with, found)| detector(&**with, found)),
            };
            let mut record = Record::new(id, prompt_id.into(), question, asked.size(), detectors);
            record.set(&self.rule, decision.clone());
            record
        })
        .collect()
    }

    /// What the primary detector finds in each changed version of the pictures that were decided; nothing for the others.
    fn perturbed(
        &self,
        asked: &[Asked],
        looks: &[Vec<Look>],
    ) -> Result<Vec<Vec<Option<Vec<Detection>>>>, CheckError> {
        let stability = &self.rule.config.stability;
        let mut found: Vec<Vec<Option<Vec<Detection>>>> = vec![Vec::new(); asked.len()];
        if !stability.enabled {
            return Ok(found);
        }
        let decided: Vec<usize> = (0..asked.len())
            .filter(|&index| looks[index].iter().any(|look| look.verdict.is_decided()))
            .collect();
        for some in decided.chunks(self.batch) {
            let jobs: Vec<_> = (some.iter())
                .flat_map(|&index| {
                    stability
                        .perturbations
                        .iter()
                        .map(move |kind| (index, kind))
                })
                .collect();
            let changed: Vec<Picture> = (jobs.par_iter())
                .map(|(index, kind)| kind.apply(&asked[*index].picture))
                .collect();
            let changed: Vec<&Picture> = changed.iter().collect();
            let whose: Vec<&Asked> = jobs.iter().map(|(index, _)| &asked[*index]).collect();
            let seen = self.in_batches(&*self.primary, false, &changed, &whose)?;
            for ((index, _), seen) in jobs.iter().zip(seen) {
                found[*index].push(Some(seen));
            }
        }
        Ok(found)
    }

    /// What the secondary detector finds, where it is asked.
    fn second(
        &self,
        asked: &[Asked],
        looks: &[Vec<Look>],
    ) -> Result<Vec<Option<Vec<Detection>>>, CheckError> {
        let mut found = vec![None; asked.len()];
        if let Some(secondary) = &self.secondary {
            let open: Vec<usize> = (0..asked.len())
                .filter(|&index| looks[index].iter().any(|look| !look.is_final()))
                .collect();
            let pictures: Vec<_> = open.iter().map(|&index| &asked[index].picture).collect();
            let whose: Vec<_> = open.iter().map(|&index| &asked[index]).collect();
            let seen = self.in_batches(&**secondary, false, &pictures, &whose)?;
            for (index, seen) in open.into_iter().zip(seen) {
                found[index] = Some(seen);
            }
        }
        Ok(found)
    }

    /// How far away things are, where that is asked; in 256 steps where released code decides.
    fn depths(&self, asked: &[Asked]) -> Result<Vec<Option<Arc<DepthMap>>>, CheckError> {
        let mut maps = vec![None; asked.len()];
        let wanted: Vec<usize> = (0..asked.len()).filter(|&i| asked[i].depth).collect();
        for some in wanted.chunks(self.batch) {
            let pictures: Vec<_> = some.iter().map(|&i| &asked[i].picture).collect();
            let Some(seen) = self.primary.depths_on_host(&pictures, &self.device)? else {
                break;
            };
            for (&i, map) in some.iter().zip(seen) {
                maps[i] = Some(match self.rule.published {
                    true => Arc::new(eight_bits(&map)),
                    false => map,
                });
            }
        }
        Ok(maps)
    }

    /// What a detector finds in `pictures`, which are those of `whose` or versions of them; without masks unless `masks`.
    fn in_batches(
        &self,
        detector: &dyn Detector,
        masks: bool,
        pictures: &[&Picture],
        whose: &[&Asked],
    ) -> Result<Vec<Vec<Detection>>, CheckError> {
        let mut found = Vec::with_capacity(pictures.len());
        for (pictures, whose) in pictures.chunks(self.batch).zip(whose.chunks(self.batch)) {
            let queries: Vec<_> = whose.iter().map(|asked| asked.labels()).collect();
            let seen = detector.detect_on_host(pictures, &queries, masks, &self.device);
            found.extend(seen?);
        }
        Ok(found)
    }
}

impl Asked {
    /// The picture's, in pixels.
    fn size(&self) -> Size {
        [self.picture.width as u32, self.picture.height as u32]
    }

    /// The things that are looked for, each once.
    fn labels(&self) -> Vec<String> {
        let mut labels: Vec<String> = Vec::new();
        let asked = self.questions.iter();
        let asked = asked.flat_map(|question| [&question.object_a, &question.object_b]);
        for label in asked.chain(&self.others) {
            if !labels.contains(label) {
                labels.push(label.clone());
            }
        }
        labels
    }
}
