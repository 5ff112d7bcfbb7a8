//! What one method made, from its folder.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;

use super::folder::Found;
use super::text;
use crate::error::{SourceError, broken};
use crate::lines::{self, MaskedRow, Segmentation};
use crate::model::{Method, Picture, Prompts, Refused};
use crate::quality::{self, Assessment};
use prepose_check::manifest::{Entry, Manifest, ManifestLine};
use prepose_check::prompt::SuitePrompt;
use prepose_check::sample::sample_of;
use prepose_check::sample::{Sample, Scores};
use prepose_check::spatialbench::record::{RELEASED_SIZE, relation_name};
use prepose_check::spatialbench::{Record, RecordError, read_records};
use prepose_scene::{Relation, StatedRelation};

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

/// The masks of records' detections, by the records' ids.
type Masks = HashMap<String, Vec<Option<Segmentation>>>;

fn of_record(row: MaskedRow) -> (String, Vec<Option<Segmentation>>) {
    (row.sample_id.clone(), row.masks())
}

/// The masks in a finished picture of an unfinished run.
#[derive(Deserialize)]
struct MaskedSample {
    records: Vec<MaskedRow>,
}

/// Why a picture was refused.
#[derive(Default, Deserialize)]
struct Why {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

impl Reading<'_> {
    /// Reads it; it may be empty.
    pub fn method(&self, name: &str, prompts: &mut Prompts) -> Result<Method, SourceError> {
        // Samples first: a run that is going on folds them into the other files before it removes them.
        let (samples, newer_masks) = self.samples()?;
        let mut manifest = self.manifest()?;
        let mut scores: Vec<Scores> = self.lines("eval/scores.jsonl")?;
        let mut masks = Masks::new();
        let mut evaluations = self.evaluations(&mut masks)?;
        let mut records = match (
            evaluations.remove(self.evaluation.unwrap_or("eval")),
            self.evaluation,
        ) {
            (Some(records), _) => records,
            (None, None) => evaluations
                .pop_first()
                .map(|(_, records)| records)
                .unwrap_or_default(),
            (None, Some(_)) => Vec::new(),
        };
        let folded: std::collections::HashSet<String> =
            manifest.iter().map(|row| row.sample_id.clone()).collect();
        for sample in samples {
            if !folded.contains(&sample.manifest.sample_id) {
                manifest.push(entry_of(sample.manifest));
                records.extend(sample.records);
                scores.push(sample.scores);
            }
        }
        masks.extend(newer_masks);
        let maps = self.maps();
        let scores: HashMap<String, Scores> = (scores.into_iter())
            .map(|scored| (scored.sample_id.clone(), scored))
            .collect();
        let mut of_picture: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut unlisted = Vec::new();
        for (index, record) in records.iter().enumerate() {
            let id = sample_of(&record.sample_id);
            of_picture.entry(id).or_default().push(index);
        }
        let listed: std::collections::HashSet<&str> =
            manifest.iter().map(|row| row.sample_id.as_str()).collect();
        for record in &records {
            let id = sample_of(&record.sample_id);
            let first = of_picture.get(id).and_then(|all| all.first());
            if !listed.contains(id) && first.is_some_and(|&i| std::ptr::eq(&records[i], record)) {
                unlisted.push(row_of(record, id));
            }
        }
        let known: HashMap<&str, &SuitePrompt> = (self.prompts.iter())
            .map(|prompt| (prompt.prompt_id.as_str(), prompt))
            .collect();
        let mut pictures = Vec::with_capacity(manifest.len() + unlisted.len());
        let mut seen = std::collections::HashSet::new();
        for row in manifest.iter().chain(&unlisted) {
            if !seen.insert(row.sample_id.as_str()) {
                let why = format!("{:?} is in it twice", row.sample_id);
                return Err(self.broken("manifest.jsonl", why));
            }
            let of_it = of_picture
                .get(row.sample_id.as_str())
                .cloned()
                .unwrap_or_default();
            let prompt = prompts.find(self.run, &row.prompt_id, || {
                known
                    .get(row.prompt_id.as_str())
                    .map_or_else(|| prompt_of(row), |p| (*p).clone())
            });
            let of_record = of_it
                .first()
                .map(|&i| records[i].image_size.unwrap_or(RELEASED_SIZE));
            pictures.push(Picture {
                prompt,
                seed: seed_of(&row.sample_id).unwrap_or(row.seed),
                size: row.size.or(of_record),
                place: self.place,
                image: self.image(&row.image_path),
                maps: maps
                    .get(row.sample_id.as_str())
                    .cloned()
                    .unwrap_or_default(),
                masks: of_it
                    .first()
                    .and_then(|&i| masks.remove(&records[i].sample_id))
                    .unwrap_or_default(),
                records: of_it,
                scores: scores.get(&row.sample_id).cloned(),
                sample_id: row.sample_id.clone(),
            });
        }
        attach_longest(&mut pictures, &maps);
        Ok(Method {
            name: name.into(),
            run: self.run,
            pictures,
            records,
            others: evaluations.into_iter().collect(),
            quality: self.quality()?,
            planned: None,
            refused: self.refused(name, prompts)?,
        })
    }

    /// The pictures that their source refused to make: `refused/{method}_{prompt_id}_seed{seed}.json`.
    fn refused(&self, method: &str, prompts: &mut Prompts) -> Result<Vec<Refused>, SourceError> {
        let folder = format!("{}refused/", self.folder);
        let mut ids: Vec<&str> = (self.found.below(&folder))
            .filter_map(|name| name.strip_suffix(".json"))
            .filter(|id| !id.contains('/'))
            .collect();
        ids.sort_unstable();
        let names: Vec<String> = ids.iter().map(|id| format!("{folder}{id}.json")).collect();
        let mut refused = Vec::with_capacity(ids.len());
        for (id, bytes) in ids.iter().zip(self.found.store.get_all(&names)?) {
            // Gone: it is asked for once more.
            let Some(bytes) = bytes else { continue };
            // Whatever it says, it was refused.
            let why: Why = serde_json::from_slice(&bytes).unwrap_or_default();
            let own = id.strip_prefix(method).and_then(|id| id.strip_prefix('_'));
            let prompt = own.and_then(|own| own.rsplit_once("_seed"));
            let prompt_id = prompt.map_or(*id, |(prompt_id, _)| prompt_id);
            let known = self.prompts.iter().find(|one| one.prompt_id == prompt_id);
            let prompt = prompts.find(self.run, prompt_id, || match known {
                Some(known) => known.clone(),
                None => SuitePrompt {
                    prompt_id: prompt_id.into(),
                    prompt: prompt_id.into(),
                    ..SuitePrompt::default()
                },
            });
            refused.push(Refused {
                prompt,
                code: why.code,
                message: why.message,
            });
        }
        Ok(refused)
    }

    fn broken(&self, file: &str, why: String) -> SourceError {
        broken(
            self.found.store.as_ref(),
            &format!("{}{file}", self.folder),
            why,
        )
    }

    fn text(&self, file: &str) -> Result<Option<String>, SourceError> {
        text(self.found.store.as_ref(), &format!("{}{file}", self.folder))
    }

    /// The lines of the manifest; none if it is not there. Of several lines about a picture the last one counts, so that a
    /// picture that was made again is not shown twice.
    fn manifest(&self) -> Result<Vec<Entry>, SourceError> {
        let Some(text) = self.text("manifest.jsonl")? else {
            return Ok(Vec::new());
        };
        let manifest = Manifest::read(&text);
        match manifest.broken.first() {
            Some((line, error)) => {
                Err(self.broken("manifest.jsonl", format!("line {line}: {error}")))
            }
            None => Ok(manifest.entries),
        }
    }

    /// What was measured of the pictures as a set; nothing if nobody did.
    fn quality(&self) -> Result<Vec<Assessment>, SourceError> {
        let Some(text) = self.text(quality::FILE)? else {
            return Ok(Vec::new());
        };
        serde_json::from_str(&text).map_err(|why| self.broken(quality::FILE, why.to_string()))
    }

    /// The lines of a file; none if it is not there.
    fn lines<T: serde::de::DeserializeOwned>(&self, file: &str) -> Result<Vec<T>, SourceError> {
        let Some(text) = self.text(file)? else {
            return Ok(Vec::new());
        };
        lines::read(&text).map_err(|why| self.broken(file, why))
    }

    /// The records of every folder that a checker wrote, by the folders' names.
    fn evaluations(&self, masks: &mut Masks) -> Result<BTreeMap<String, Vec<Record>>, SourceError> {
        let mut folders: Vec<&str> = self
            .found
            .below(self.folder)
            .filter_map(|name| name.strip_suffix("/per_sample.jsonl"))
            .filter(|folder| folder.starts_with("eval") && !folder.contains('/'))
            // Beside the manifest, where `prepose check --out` puts them.
            .chain(["eval", ""])
            .collect();
        folders.sort_unstable();
        folders.dedup();
        let mut all = BTreeMap::new();
        for folder in folders {
            let file = match folder {
                "" => "per_sample.jsonl".to_owned(),
                folder => format!("{folder}/per_sample.jsonl"),
            };
            let Some(text) = self.text(&file)? else {
                continue;
            };
            let counts = folder.is_empty() || folder == self.evaluation.unwrap_or("eval");
            if counts && lines::may_have_masks(&text) {
                let rows: Vec<MaskedRow> =
                    lines::read(&text).map_err(|why| self.broken(&file, why))?;
                masks.extend(rows.into_iter().map(of_record));
            }
            match read_records(&text) {
                Ok(records) => {
                    all.insert(folder.to_owned(), records);
                }
                Err(RecordError::Empty) => {}
                Err(error) => return Err(self.broken(&file, error.to_string())),
            }
        }
        Ok(all)
    }

    /// What is finished of an unfinished run.
    fn samples(&self) -> Result<(Vec<Sample>, Masks), SourceError> {
        let folder = format!("{}samples/", self.folder);
        let mut names: Vec<String> = self
            .found
            .below(&folder)
            .filter(|name| name.ends_with(".json") && !name.contains('/'))
            .map(|name| format!("{folder}{name}"))
            .collect();
        names.sort_unstable();
        let mut samples = Vec::with_capacity(names.len());
        let mut masks = Masks::new();
        for (name, bytes) in names.iter().zip(self.found.store.get_all(&names)?) {
            // Gone: folded meanwhile. Empty: a power cut; the run makes it again.
            let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) else {
                continue;
            };
            let text = String::from_utf8_lossy(&bytes);
            // A seal follows.
            let text = text.lines().next().unwrap_or_default();
            let sample = Sample::from_line(text)
                .map_err(|error| broken(self.found.store.as_ref(), name, error.to_string()))?;
            if lines::may_have_masks(text) {
                let masked: MaskedSample = serde_json::from_str(text)
                    .map_err(|error| broken(self.found.store.as_ref(), name, error.to_string()))?;
                masks.extend(masked.records.into_iter().map(of_record));
            }
            samples.push(sample);
        }
        Ok((samples, masks))
    }

    /// A picture's file, if it is there. Pictures outside the folder are taken as given.
    fn image(&self, path: &str) -> Option<String> {
        let path = path.replace('\\', "/");
        let inside = !path.starts_with('/') && path.split('/').all(|part| part != "..");
        let there = self.found.files.contains(&format!("{}{path}", self.folder));
        let elsewhere = || !self.found.store.location().contains("://");
        match inside {
            true => there.then_some(path),
            false => elsewhere().then_some(path),
        }
    }

    /// Attention maps by the stem of their name up to each hyphen: both picture and object may have hyphens in their names.
    fn maps(&self) -> HashMap<String, Vec<(String, String)>> {
        let folder = format!("{}maps/", self.folder);
        let mut names: Vec<&str> = self.found.below(&folder).collect();
        names.sort_unstable();
        let mut maps: HashMap<String, Vec<(String, String)>> = HashMap::new();
        for name in names {
            let Some(stem) = name.strip_suffix(".png").filter(|_| !name.contains('/')) else {
                continue;
            };
            for (at, _) in stem.match_indices('-') {
                let map = (stem[at + 1..].to_owned(), format!("maps/{name}"));
                maps.entry(stem[..at].to_owned()).or_default().push(map);
            }
        }
        maps
    }
}

/// Where a map's name fits several pictures, the one with the longest name has it.
fn attach_longest(pictures: &mut [Picture], maps: &HashMap<String, Vec<(String, String)>>) {
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

/// The seed that was asked for. The manifest has the one that the picture was made from: of a search, the best.
fn seed_of(sample_id: &str) -> Option<u64> {
    sample_id.rsplit_once("_seed")?.1.parse().ok()
}

/// A picture's line in a run that is going on.
fn entry_of(line: ManifestLine) -> Entry {
    let side = |pixels: usize| u32::try_from(pixels).ok();
    let size = side(line.gen_params.width).zip(side(line.gen_params.height));
    Entry {
        line: 0,
        sample_id: line.sample_id,
        prompt_id: line.prompt_id,
        image_path: line.image_path,
        prompt: Some(line.prompt),
        relation: line.relation,
        object_a: line.object_a,
        object_b: line.object_b,
        seed: line.gen_params.seed,
        size: size.map(Into::into),
    }
}

/// What a record says of a picture that no manifest lists.
fn row_of(record: &Record, sample_id: &str) -> Entry {
    Entry {
        line: 0,
        sample_id: sample_id.into(),
        prompt_id: record.prompt_id.clone(),
        image_path: format!("images/{sample_id}.png"),
        prompt: None,
        relation: Some(relation_name(record.relation)),
        object_a: Some(record.object_a.clone()),
        object_b: Some(record.object_b.clone()),
        seed: seed_of(sample_id).unwrap_or_default(),
        size: None,
    }
}

/// What a line says of its prompt.
fn prompt_of(row: &Entry) -> SuitePrompt {
    let objects: Vec<String> = [&row.object_a, &row.object_b]
        .into_iter()
        .flatten()
        .cloned()
        .collect();
    let relation = (row.relation.as_deref()).and_then(|name| name.parse::<Relation>().ok());
    let stated = |relation| StatedRelation::of_two(0, relation, 1);
    let in_words = || match (objects.as_slice(), &relation) {
        ([a, b], Some(relation)) => format!("{a} {relation} {b}"),
        _ => row.sample_id.clone(),
    };
    SuitePrompt {
        prompt_id: row.prompt_id.clone(),
        prompt: row.prompt.clone().unwrap_or_else(in_words),
        relations: relation
            .filter(|_| objects.len() == 2)
            .map(stated)
            .into_iter()
            .collect(),
        objects,
        counterpart: None,
        tags: Vec::new(),
        ..SuitePrompt::default()
    }
}
