//! What one method made, from its folder.

mod files;
mod refused;
mod rows;

use std::collections::{BTreeMap, HashMap, HashSet};

use super::folder::Found;
use crate::error::SourceError;
use crate::model::{Method, Picture, Prompts};
use files::{Maps, Masks};
use prepose_check::manifest::Entry;
use prepose_check::prompt::SuitePrompt;
use prepose_check::sample::{Scores, sample_of};
use prepose_check::spatialbench::Record;
use prepose_check::spatialbench::record::RELEASED_SIZE;
use rows::{entry_of, prompt_of, row_of, seed_of};

/// A method's folder that is to be read.
pub(super) struct Reading<'a> {
    pub found: &'a Found,
    /// Within the store, with a slash at its end.
    pub folder: &'a str,
    pub run: usize,
    pub place: usize,
    /// The run's.
    pub prompts: &'a [SuitePrompt],
    /// The folder of the records that count, if it is not `eval` or else the first.
    pub evaluation: Option<&'a str>,
}

/// What a method's files say, those of finished samples that are in no other file yet among them.
struct Said {
    manifest: Vec<Entry>,
    records: Vec<Record>,
    /// By the pictures' ids.
    scores: HashMap<String, Scores>,
    masks: Masks,
    /// Records that do not count, by their folders.
    others: BTreeMap<String, Vec<Record>>,
}

impl Reading<'_> {
    /// Reads it; it may be empty.
    pub fn method(&self, name: &str, prompts: &mut Prompts) -> Result<Method, SourceError> {
        let mut said = self.said()?;
        let pictures = self.pictures(&mut said, prompts)?;
        Ok(Method {
            name: name.into(),
            run: self.run,
            pictures,
            records: said.records,
            others: said.others.into_iter().collect(),
            quality: self.quality()?,
            planned: None,
            refused: self.refused(name, prompts)?,
        })
    }

    /// Reads the lines of all files.
    fn said(&self) -> Result<Said, SourceError> {
        // Samples first: a run that is going on folds them into the other files before it removes them.
        let (samples, newer_masks) = self.samples()?;
        let mut manifest = self.manifest()?;
        let mut scores: Vec<Scores> = self.lines("eval/scores.jsonl")?;
        let mut masks = Masks::new();
        let mut others = self.evaluations(&mut masks)?;
        let counted = others.remove(self.evaluation.unwrap_or("eval"));
        let mut records = match (counted, self.evaluation) {
            (Some(records), _) => records,
            (None, None) => others
                .pop_first()
                .map(|(_, records)| records)
                .unwrap_or_default(),
            (None, Some(_)) => Vec::new(),
        };
        let folded: HashSet<String> = manifest.iter().map(|row| row.sample_id.clone()).collect();
        for sample in samples {
            if !folded.contains(&sample.manifest.sample_id) {
                manifest.push(entry_of(sample.manifest));
                records.extend(sample.records);
                scores.push(sample.scores);
            }
        }
        masks.extend(newer_masks);
        Ok(Said {
            manifest,
            records,
            scores: (scores.into_iter())
                .map(|scored| (scored.sample_id.clone(), scored))
                .collect(),
            masks,
            others,
        })
    }

    /// The pictures of the manifest, and after them those that only records know. Their masks are taken out of `said`.
    fn pictures(
        &self,
        said: &mut Said,
        prompts: &mut Prompts,
    ) -> Result<Vec<Picture>, SourceError> {
        let Said {
            manifest,
            records,
            scores,
            masks,
            ..
        } = said;
        let mut of_picture: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, record) in records.iter().enumerate() {
            let id = sample_of(&record.sample_id);
            of_picture.entry(id).or_default().push(index);
        }
        let unlisted = unlisted(manifest, records);
        let maps = self.maps();
        let known: HashMap<&str, &SuitePrompt> = (self.prompts.iter())
            .map(|prompt| (prompt.prompt_id.as_str(), prompt))
            .collect();
        let mut pictures = Vec::with_capacity(manifest.len() + unlisted.len());
        let mut seen = HashSet::new();
        for row in manifest.iter().chain(&unlisted) {
            let id = row.sample_id.as_str();
            if !seen.insert(id) {
                let why = format!("{id:?} is in it twice");
                return Err(self.broken("manifest.jsonl", why));
            }
            let prompt = prompts.find(self.run, &row.prompt_id, || {
                known
                    .get(row.prompt_id.as_str())
                    .map_or_else(|| prompt_of(row), |p| (*p).clone())
            });
            let of_it = of_picture.get(id).cloned().unwrap_or_default();
            let first = of_it.first().map(|&index| &records[index]);
            let of_record = first.map(|record| record.image_size.unwrap_or(RELEASED_SIZE));
            pictures.push(Picture {
                prompt,
                seed: seed_of(id).unwrap_or(row.seed),
                size: row.size.or(of_record),
                place: self.place,
                image: self.image(&row.image_path),
                maps: maps.get(id).cloned().unwrap_or_default(),
                masks: first
                    .and_then(|record| masks.remove(&record.sample_id))
                    .unwrap_or_default(),
                records: of_it,
                scores: scores.get(id).cloned(),
                labels: Vec::new(),
                sample_id: id.into(),
            });
        }
        attach_longest(&mut pictures, &maps);
        Ok(pictures)
    }
}

/// A line for each picture that has records and is in no manifest.
fn unlisted(manifest: &[Entry], records: &[Record]) -> Vec<Entry> {
    let mut known: HashSet<&str> = manifest.iter().map(|row| row.sample_id.as_str()).collect();
    let first = records.iter().filter_map(|record| {
        let id = sample_of(&record.sample_id);
        known.insert(id).then(|| row_of(record, id))
    });
    first.collect()
}

/// Where a map's name fits several pictures, the one with the longest name has it.
fn attach_longest(pictures: &mut [Picture], maps: &Maps) {
    let mut best: HashMap<String, usize> = HashMap::new();
    for picture in pictures.iter() {
        for (_, file) in maps.get(&picture.sample_id).into_iter().flatten() {
            let length = best.entry(file.clone()).or_default();
            *length = (*length).max(picture.sample_id.len());
        }
    }
    for picture in pictures {
        let own = picture.sample_id.len();
        picture
            .maps
            .retain(|(_, file)| best.get(file) == Some(&own));
    }
}
