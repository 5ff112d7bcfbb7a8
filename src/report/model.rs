//! What a report is of.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::judged::Judged;
use super::lines::Segmentation;
use super::quality::Assessment;
use super::source::MissingShards;
use prepose_check::audit::labels::Label;
use prepose_check::prompt::SuitePrompt;
use prepose_check::sample::Scores;
use prepose_check::spatialbench::tables::Run;
use prepose_check::spatialbench::{Record, Verdict, joint};
use prepose_store::Store;

/// Runs and what they came to.
pub struct Report {
    /// Where it was read, without what was read of each method.
    pub runs: Vec<RunInfo>,
    /// The folders of methods that pictures lie in.
    pub places: Vec<Place>,
    /// In the order in which they were given.
    pub methods: Vec<Method>,
    /// The prompts' texts and what they ask for, in the order of their first occurrence.
    pub prompts: Prompts,
    /// How many labels were left out, because several pictures have their name.
    pub ambiguous_labels: usize,
}

/// A run, or a folder of methods that is no run.
pub struct RunInfo {
    /// As it was given; several of a run's shards become one.
    pub locations: Vec<String>,
    /// `run.json`, without which shard it is.
    pub config: Option<Value>,
    /// Shards of it that are not here, if some are.
    pub missing: Option<MissingShards>,
    /// `provenance/*.json`, by their names.
    pub provenance: Vec<(String, Value)>,
    /// What a judge says of its pictures; of shards, of each.
    pub judged: Vec<Judged>,
}

impl RunInfo {
    /// The width and height that were asked for of a source that makes the pictures elsewhere.
    fn asked_size(&self) -> Option<[u32; 2]> {
        let size = self.config.as_ref()?.pointer("/source/wishes/size")?;
        serde_json::from_value(size.clone()).ok()
    }

    /// Whether its prompts are those of SpatialBench-UC, unchanged.
    pub(crate) fn is_spatialbench_uc(&self) -> bool {
        let name = self
            .config
            .as_ref()
            .and_then(|config| config.pointer("/suite/name"));
        name.and_then(Value::as_str) == Some("spatialbench-uc")
    }

    /// The last part of its first location; of a shard, the run's.
    pub fn name(&self) -> String {
        self.name_with(1)
    }

    /// As [`name`](Self::name), with the folders above it: `parts` names in all, where there are so many.
    pub fn name_with(&self, parts: usize) -> String {
        let location = self.locations.first().map_or("", String::as_str);
        let (_, path) = location.split_once("://").unwrap_or(("", location));
        let mut names: Vec<&str> = path
            .split('/')
            .filter(|name| !matches!(*name, "" | "."))
            .collect();
        let is_shard = |name: &&str| name.starts_with("shard-") && name.contains("-of-");
        if names.len() > 1 && names.last().is_some_and(is_shard) {
            names.pop();
        }
        let from = names.len().saturating_sub(parts);
        match names.is_empty() {
            true => "run".to_owned(),
            false => names[from..].join("/"),
        }
    }
}

/// A method's folder.
pub struct Place {
    /// Where its run is.
    pub store: Arc<dyn Store>,
    /// The folder within it, with a slash at its end; empty if it is the store's root.
    pub folder: String,
}

impl Place {
    /// Where a file is that the method's folder names: on this machine a path, in an object store an address.
    pub fn locate(&self, file: &str) -> String {
        let location = self.store.location();
        match location.contains("://") {
            true => format!("{location}/{}{file}", self.folder),
            // A path from the root stays as it is.
            false => (Path::new(&location).join(&self.folder).join(file))
                .to_string_lossy()
                .into_owned(),
        }
    }
}

/// What a checker's records are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// No picture has several.
    Pictures,
    /// Some pictures have several.
    Relations,
}

impl Counted {
    /// In a text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pictures => "pictures",
            Self::Relations => "relations",
        }
    }
}

/// What one method made.
pub struct Method {
    /// Unique in the report.
    pub name: String,
    /// Its run, in [`Report::runs`].
    pub run: usize,
    /// In the order of the manifest.
    pub pictures: Vec<Picture>,
    /// What the checker says, in the order of its file.
    pub records: Vec<Record>,
    /// What it says with other settings: the name of a folder such as `eval_precal_20260116_113552`, and the records in it.
    pub others: Vec<(String, Vec<Record>)>,
    /// What networks' features say of its pictures as a set.
    pub quality: Vec<Assessment>,
    /// How many pictures the run is to have of this method, where that is known; those that were refused are not among them.
    pub planned: Option<usize>,
    /// Pictures that their source refused to make.
    pub refused: Vec<Refused>,
}

/// A picture that its source refused to make, by its rules about content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its prompt, in [`Report::prompts`].
    pub prompt: usize,
    /// The source's word for it.
    pub code: String,
    /// What the source says.
    pub message: String,
}

/// One picture.
#[derive(Debug)]
pub struct Picture {
    /// Names it.
    pub sample_id: String,
    /// Its prompt, in [`Report::prompts`].
    pub prompt: usize,
    /// Of its noise.
    pub seed: u64,
    /// Width and height in pixels, where they are known.
    pub size: Option<[u32; 2]>,
    /// Its place, in [`Report::places`].
    pub place: usize,
    /// Its file within the place; none if it is not there.
    pub image: Option<String>,
    /// Its attention maps: the object, and the file within the place.
    pub maps: Vec<(String, String)>,
    /// The masks of what was detected, in the order of the first record's detections; empty if none are recorded.
    pub masks: Vec<Option<Segmentation>>,
    /// What the checker says of it, in [`Method::records`].
    pub records: Vec<usize>,
    /// What the rules say of it, and what it cost.
    pub scores: Option<Scores>,
    /// What people say of it, or of single relations, by the names of their records; one for each name.
    pub labels: Vec<Label>,
}

impl Picture {
    /// What people say of the picture or of the relation that has this name.
    pub fn label(&self, name: &str) -> Option<&Label> {
        self.labels.iter().find(|label| label.sample_id == name)
    }
}

impl Method {
    /// The checker's records, under the method's name.
    pub fn run(&self) -> Run<'_> {
        Run {
            name: &self.name,
            records: &self.records,
        }
    }

    /// Whether all pictures are there that should be; if that is not known, yes.
    pub fn is_complete(&self) -> bool {
        self.planned
            .is_none_or(|planned| self.pictures.len() >= planned)
    }

    /// What the checker says of a picture, all its relations together: it passes if they all do and fails if one does. The
    /// confidence is that of the least sure. None if nobody looked.
    pub fn verdict(&self, picture: &Picture) -> Option<(Verdict, f64)> {
        joint(picture.records.iter().map(|&i| &self.records[i]))
    }

    /// What people say of a picture: of all of it, or else of its relations together, as of the checker. None if they have not
    /// looked at all relations, unless one fails.
    pub fn human_verdict(&self, picture: &Picture) -> Option<Verdict> {
        let said = |name: &str| picture.label(name).map(|label| label.human_verdict);
        if let Some(whole) = said(&picture.sample_id) {
            return Some(whole);
        }
        let records = picture.records.iter().map(|&i| &self.records[i]);
        let each: Vec<Option<Verdict>> = records.map(|record| said(&record.sample_id)).collect();
        if each.contains(&Some(Verdict::Fail)) {
            Some(Verdict::Fail)
        } else if each.is_empty() || each.contains(&None) {
            None
        } else if each.iter().all(|one| *one == Some(Verdict::Pass)) {
            Some(Verdict::Pass)
        } else {
            Some(Verdict::Undecidable)
        }
    }
}

impl Report {
    /// What judges say, with the number of the run.
    pub fn judged(&self) -> impl Iterator<Item = (usize, &Judged)> {
        let runs = self.runs.iter().enumerate();
        runs.flat_map(|(run, info)| info.judged.iter().map(move |judged| (run, judged)))
    }

    /// What a method of a run is called here: with the run's name where several runs have one of that name.
    pub fn method_name(&self, run: usize, method: &str) -> String {
        let ending = format!("/{method}");
        let mut own = self.methods.iter().filter(|one| one.run == run);
        let found = own.find(|one| one.name == method || one.name.ends_with(&ending));
        found.map_or_else(|| method.to_owned(), |one| one.name.clone())
    }

    /// The methods that a checker looked at.
    pub fn checked(&self) -> Vec<&Method> {
        let methods = self.methods.iter();
        methods
            .filter(|method| !method.records.is_empty())
            .collect()
    }

    /// What the checker's tables and plots count: its records, of which a picture has one for each relation of its
    /// prompt.
    pub(crate) fn counted(&self) -> Counted {
        let mut pictures = self.methods.iter().flat_map(|method| &method.pictures);
        match pictures.any(|picture| picture.records.len() > 1) {
            true => Counted::Relations,
            false => Counted::Pictures,
        }
    }

    /// What a reader has to know before comparing the methods.
    pub fn caveats(&self) -> Vec<String> {
        let checked = self.checked();
        let margin = |method: &&Method| method.records.first().map(|record| record.geometry.margin);
        let margins: Vec<f64> = checked.iter().filter_map(margin).collect();
        let mut caveats = Vec::new();
        if margins.windows(2).any(|pair| pair[0] != pair[1]) {
            let each: Vec<String> = (checked.iter().zip(margins))
                .map(|(method, margin)| format!("{} {margin}", method.name))
                .collect();
            caveats.push(format!(
                "The methods were checked with different margins: {}.",
                each.join(", ")
            ));
        }
        if self.ambiguous_labels > 0 {
            caveats.push(format!(
                "Labels left out, because several pictures have their name: {}. Put those of each run into a folder audit in it.",
                self.ambiguous_labels
            ));
        }
        caveats.extend(self.runs.iter().filter_map(|run| {
            let missing = run.missing.as_ref()?;
            Some(format!(
                "{} has {} shards, and this report lacks no. {}.",
                run.name(),
                missing.count,
                missing.named()
            ))
        }));
        caveats.extend(self.methods.iter().filter_map(|method| {
            let [width, height] = self.runs[method.run].asked_size()?;
            let other = |picture: &&Picture| picture.size.is_some_and(|size| size != [width, height]);
            let others = method.pictures.iter().filter(other).count();
            (others > 0).then(|| {
                format!(
                    "{others} of {} pictures by {} are not {width}x{height}, which was asked for, and were looked at as they came.",
                    method.pictures.len(),
                    method.name
                )
            })
        }));
        caveats
    }

    /// What is still to be made, in words; none if nothing is.
    pub fn unfinished(&self) -> Option<String> {
        let open = self.methods.iter().filter(|method| !method.is_complete());
        let open: Vec<String> = open
            .map(|method| {
                let planned = method.planned.unwrap_or_default();
                format!("{} {} of {planned}", method.name, method.pictures.len())
            })
            .collect();
        (!open.is_empty()).then(|| format!("not finished; pictures so far: {}", open.join(", ")))
    }

    /// What people say of the pictures.
    pub fn labels(&self) -> impl Iterator<Item = &Label> {
        let pictures = self.methods.iter().flat_map(|method| &method.pictures);
        pictures.flat_map(|picture| &picture.labels)
    }

    /// The number of pictures that were refused.
    pub fn refused(&self) -> usize {
        self.methods.iter().map(|method| method.refused.len()).sum()
    }

    /// The number of pictures.
    pub fn pictures(&self) -> usize {
        self.methods
            .iter()
            .map(|method| method.pictures.len())
            .sum()
    }
}

/// Prompts by their ids.
#[derive(Default)]
pub struct Prompts {
    list: Vec<SuitePrompt>,
    places: HashMap<(usize, String), usize>,
}

impl Prompts {
    /// All of them.
    pub fn list(&self) -> &[SuitePrompt] {
        &self.list
    }

    /// The prompt with this id in a run, which is added if it is new there; the same prompt in several runs is one.
    pub fn find(&mut self, run: usize, id: &str, new: impl FnOnce() -> SuitePrompt) -> usize {
        if let Some(&place) = self.places.get(&(run, id.to_owned())) {
            return place;
        }
        let prompt = new();
        // Another run may have another text under the same id.
        let earlier = (0..run).find_map(|run| {
            let place = *self.places.get(&(run, id.to_owned()))?;
            (self.list[place].prompt == prompt.prompt).then_some(place)
        });
        let place = earlier.unwrap_or_else(|| {
            self.list.push(prompt);
            self.list.len() - 1
        });
        self.places.insert((run, id.to_owned()), place);
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{method, picture, report};
    use prepose_store::LocalStore;

    #[test]
    fn a_file_of_a_method_is_in_its_folder_or_where_its_path_says() {
        let place = |folder: &str| Place {
            store: Arc::new(LocalStore::new(Path::new("runs/a"))),
            folder: folder.into(),
        };
        assert_eq!(place("m/").locate("images/1.png"), "runs/a/m/images/1.png");
        assert_eq!(place("").locate("1.png"), "runs/a/1.png");
        assert_eq!(place("m/").locate("/else/1.png"), "/else/1.png");
    }

    #[test]
    fn what_is_not_finished_is_told() {
        let mut half = method("half", vec![picture("half", 0, 0)]);
        half.planned = Some(2);
        let whole = method("whole", vec![picture("whole", 0, 0)]);
        let mut report = report(vec![half, whole], Prompts::default());
        let told = report.unfinished();
        assert_eq!(
            told.as_deref(),
            Some("not finished; pictures so far: half 1 of 2")
        );
        report.methods.remove(0);
        assert_eq!(report.unfinished(), None);
    }
}
