//! The files of a method's folder, each as it was written.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;

use super::super::text;
use super::Reading;
use crate::error::{SourceError, broken};
use crate::lines::{self, MaskedRow, Segmentation};
use crate::quality::{self, Assessment};
use prepose_check::manifest::{Entry, Manifest};
use prepose_check::sample::Sample;
use prepose_check::spatialbench::{Record, RecordError, read_records};

/// The masks of records' detections, by the records' ids.
pub(super) type Masks = HashMap<String, Vec<Option<Segmentation>>>;

/// Object and file of attention maps, by what may be a picture's id.
pub(super) type Maps = HashMap<String, Vec<(String, String)>>;

fn of_record(row: MaskedRow) -> (String, Vec<Option<Segmentation>>) {
    (row.sample_id.clone(), row.masks())
}

/// The masks in a finished picture of an unfinished run.
#[derive(Deserialize)]
struct MaskedSample {
    records: Vec<MaskedRow>,
}

impl Reading<'_> {
    pub(super) fn broken(&self, file: &str, why: String) -> SourceError {
        broken(
            self.found.store.as_ref(),
            &format!("{}{file}", self.folder),
            why,
        )
    }

    pub(super) fn text(&self, file: &str) -> Result<Option<String>, SourceError> {
        text(self.found.store.as_ref(), &format!("{}{file}", self.folder))
    }

    /// The lines of the manifest; none if it is not there. Of several lines about a picture the last one counts, so that a
    /// picture that was made again is not shown twice.
    pub(super) fn manifest(&self) -> Result<Vec<Entry>, SourceError> {
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
    pub(super) fn quality(&self) -> Result<Vec<Assessment>, SourceError> {
        let Some(text) = self.text(quality::FILE)? else {
            return Ok(Vec::new());
        };
        serde_json::from_str(&text).map_err(|why| self.broken(quality::FILE, why.to_string()))
    }

    /// The lines of a file; none if it is not there.
    pub(super) fn lines<T: serde::de::DeserializeOwned>(
        &self,
        file: &str,
    ) -> Result<Vec<T>, SourceError> {
        let Some(text) = self.text(file)? else {
            return Ok(Vec::new());
        };
        lines::read(&text).map_err(|why| self.broken(file, why))
    }

    /// The records of every folder that a checker wrote, by the folders' names.
    pub(super) fn evaluations(
        &self,
        masks: &mut Masks,
    ) -> Result<BTreeMap<String, Vec<Record>>, SourceError> {
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
    pub(super) fn samples(&self) -> Result<(Vec<Sample>, Masks), SourceError> {
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
    pub(super) fn image(&self, path: &str) -> Option<String> {
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
    pub(super) fn maps(&self) -> Maps {
        let folder = format!("{}maps/", self.folder);
        let mut names: Vec<&str> = self.found.below(&folder).collect();
        names.sort_unstable();
        let mut maps: Maps = HashMap::new();
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
