//! Pictures that are in a folder already.
//!
//! All files are looked at once, and matched with what is wanted, before anything is done: so what is missing is known, and
//! a name that could mean two things is refused.

mod layout;
mod template;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use prepose_check::manifest::Manifest;
use prepose_untrusted::{MAX_PICTURE, read_regular, read_text};
use serde_json::Value;

use crate::{Deliver, File, Job, Origin, Outcome, Source, SourceError};
pub use layout::{Layout, NAMES as LAYOUTS};
pub use template::Template;
use template::{Captured, Which};

/// Files that are looked at, at most.
const MOST_FILES: usize = 5_000_000;
/// Folders within folders.
const DEEPEST: usize = 8;
/// What pictures' names end in.
const ENDINGS: [&str; 4] = ["png", "jpg", "jpeg", "webp"];

/// A prompt that pictures are of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Names it within its set.
    pub prompt_id: String,
    /// Its text.
    pub prompt: String,
}

/// A folder of pictures.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    /// Names of files within `root`, by prompt and picture.
    files: HashMap<(String, Which), String>,
    /// Whether pictures are told apart by their seeds.
    by_seed: bool,
}

impl Folder {
    /// Looks at the names in `root`, which are formed as `layout` says, of pictures of `prompts`.
    ///
    /// # Errors
    /// A folder that cannot be read, a name that fits two pictures, two files of one picture.
    pub fn open(root: &Path, layout: &Layout, prompts: &[Wanted]) -> Result<Self, SourceError> {
        let mut folder = Self {
            root: root.to_owned(),
            files: HashMap::new(),
            by_seed: layout.is_by_seed(),
        };
        match layout {
            Layout::Manifest => folder.read_manifest()?,
            layout => {
                let mut names = Vec::new();
                list(root, root, 0, &mut names)?;
                names.sort();
                folder.match_names(layout, &names, prompts)?;
            }
        }
        Ok(folder)
    }

    /// The name of a job's file within the folder.
    pub fn file_of(&self, job: &Job) -> Option<&str> {
        let which = match self.by_seed {
            true => Which::Seed(job.seed),
            false => Which::Number(job.number),
        };
        let file = self.files.get(&(job.prompt_id.clone(), which));
        file.map(String::as_str)
    }

    /// Whether pictures are told apart by their seeds, or by numbers that are counted.
    pub fn is_by_seed(&self) -> bool {
        self.by_seed
    }

    /// How many files were found to be pictures of the prompts.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    fn add(&mut self, prompt_id: &str, which: Which, name: &str) -> Result<(), SourceError> {
        let key = (prompt_id.to_owned(), which);
        match self.files.insert(key, name.to_owned()) {
            Some(first) if first != name => Err(SourceError::Twice {
                first,
                second: name.into(),
                job: format!("{prompt_id}, {which}"),
            }),
            _ => Ok(()),
        }
    }

    /// `manifest.jsonl` as SpatialBench-UC has it, in the folder or in those of its methods.
    fn read_manifest(&mut self) -> Result<(), SourceError> {
        let path = self.root.join("manifest.jsonl");
        let text = read_text(&path).map_err(|source| SourceError::Read { path, source })?;
        let manifest = Manifest::read(&text);
        if let Some((line, error)) = manifest.broken.first() {
            return Err(SourceError::Manifest {
                file: "manifest.jsonl".into(),
                line: *line,
                why: error.to_string(),
            });
        }
        for entry in manifest.entries {
            self.add(&entry.prompt_id, Which::Seed(entry.seed), &entry.image_path)?;
        }
        Ok(())
    }

    fn match_names(
        &mut self,
        layout: &Layout,
        names: &[String],
        prompts: &[Wanted],
    ) -> Result<(), SourceError> {
        let known = Known::new(prompts);
        let template = layout.template();
        // By prompt, the pictures whose numbers are only an order.
        let mut ordered: HashMap<usize, Vec<(u64, String)>> = HashMap::new();
        let told = match layout {
            Layout::GenEval => self.prompts_of_folders(names)?,
            _ => HashMap::new(),
        };
        for name in names {
            let stem = name
                .rsplit_once('.')
                .map_or(name.as_str(), |(stem, _)| stem);
            let mut found: Vec<(usize, Which)> = Vec::new();
            for captured in template.matches(stem) {
                let prompts = match told.get(name.split('/').next().unwrap_or_default()) {
                    Some(text) => known.of_text(text),
                    None => known.of(&captured),
                };
                for prompt in prompts {
                    let one = (prompt, captured.which.unwrap_or(Which::Number(0)));
                    if !found.contains(&one) {
                        found.push(one);
                    }
                }
            }
            match (layout, found.as_slice()) {
                (_, []) => {}
                (Layout::CompBench, [(first, Which::Number(number)), ..]) => {
                    if !found
                        .iter()
                        .all(|(prompt, _)| known.same_text(*prompt, *first))
                    {
                        return Err(ambiguous(name, &found, prompts));
                    }
                    ordered
                        .entry(*first)
                        .or_default()
                        .push((*number as u64, name.clone()));
                }
                (_, [(prompt, which)]) => self.add(&prompts[*prompt].prompt_id, *which, name)?,
                _ => return Err(ambiguous(name, &found, prompts)),
            }
        }
        for (prompt, mut files) in ordered {
            files.sort();
            self.deal(&known.twins(prompt), &files, prompts)?;
        }
        Ok(())
    }

    /// Gives the pictures of a text to the prompts that have it: the first to the first, as many to each.
    fn deal(
        &mut self,
        twins: &[usize],
        files: &[(u64, String)],
        prompts: &[Wanted],
    ) -> Result<(), SourceError> {
        let each = match files.len() / twins.len() {
            0 => files.len(),
            each => each,
        };
        for (place, (_, name)) in files.iter().enumerate() {
            let twin = twins[(place / each).min(twins.len() - 1)];
            let number = place - (place / each).min(twins.len() - 1) * each;
            self.add(&prompts[twin].prompt_id, Which::Number(number), name)?;
        }
        Ok(())
    }

    /// The prompts in GenEval's `00000/metadata.jsonl`, by folder.
    fn prompts_of_folders(&self, names: &[String]) -> Result<HashMap<String, String>, SourceError> {
        let mut told = HashMap::new();
        let mut folders: Vec<&str> = names
            .iter()
            .filter_map(|name| name.split('/').next())
            .collect();
        folders.dedup();
        for folder in folders {
            let path = self.root.join(folder).join("metadata.jsonl");
            if !path.exists() {
                continue;
            }
            let text = read_text(&path).map_err(|source| SourceError::Read { path, source })?;
            let line: Option<Value> = text
                .lines()
                .next()
                .and_then(|line| serde_json::from_str(line).ok());
            let prompt = line
                .as_ref()
                .and_then(|line| line.get("prompt"))
                .and_then(Value::as_str);
            let prompt = prompt.ok_or_else(|| SourceError::Manifest {
                file: format!("{folder}/metadata.jsonl"),
                line: 1,
                why: "it names no prompt".into(),
            })?;
            told.insert(folder.to_owned(), prompt.to_owned());
        }
        Ok(told)
    }
}

fn ambiguous(name: &str, found: &[(usize, Which)], prompts: &[Wanted]) -> SourceError {
    let one = |place: usize| {
        let (prompt, which) = found[place.min(found.len() - 1)];
        format!("{} ({which})", prompts[prompt].prompt_id)
    };
    SourceError::Ambiguous {
        file: name.into(),
        first: one(0),
        second: one(1),
    }
}

/// The prompts, by what names may say of them.
struct Known {
    ids: HashMap<String, usize>,
    numbers: HashMap<u64, Vec<usize>>,
    texts: HashMap<String, Vec<usize>>,
    keys: Vec<String>,
}

impl Known {
    fn new(prompts: &[Wanted]) -> Self {
        let mut known = Self {
            ids: HashMap::new(),
            numbers: HashMap::new(),
            texts: HashMap::new(),
            keys: Vec::new(),
        };
        // The number of a prompt is what its name ends in; without such numbers, its place.
        let numbers: Option<Vec<u64>> = prompts
            .iter()
            .map(|one| last_number(&one.prompt_id))
            .collect();
        for (place, prompt) in prompts.iter().enumerate() {
            known.ids.insert(prompt.prompt_id.clone(), place);
            let number = numbers
                .as_ref()
                .map_or(place as u64, |numbers| numbers[place]);
            known.numbers.entry(number).or_default().push(place);
            let key = words(&prompt.prompt);
            known.texts.entry(key.clone()).or_default().push(place);
            known.keys.push(key);
        }
        known
    }

    /// The prompts that a name fits.
    fn of(&self, captured: &Captured) -> Vec<usize> {
        if let Some(id) = &captured.prompt_id {
            return self.ids.get(id).copied().into_iter().collect();
        }
        if let Some(number) = captured.number {
            return self.numbers.get(&number).cloned().unwrap_or_default();
        }
        captured
            .prompt
            .as_deref()
            .map(|text| self.of_text(text))
            .unwrap_or_default()
    }

    fn of_text(&self, text: &str) -> Vec<usize> {
        self.texts.get(&words(text)).cloned().unwrap_or_default()
    }

    fn same_text(&self, a: usize, b: usize) -> bool {
        self.keys[a] == self.keys[b]
    }

    /// All prompts with the same text.
    fn twins(&self, prompt: usize) -> Vec<usize> {
        self.texts
            .get(&self.keys[prompt])
            .cloned()
            .unwrap_or_default()
    }
}

/// The digits at the end of a name.
fn last_number(id: &str) -> Option<u64> {
    let digits = id.len() - id.bytes().rev().take_while(u8::is_ascii_digit).count();
    id[digits..].parse().ok()
}

/// A text's letters and digits in lower case: what is left of a prompt in a file's name.
fn words(text: &str) -> String {
    let mut words = String::new();
    for c in text.chars() {
        match c.is_alphanumeric() {
            true => words.extend(c.to_lowercase()),
            false if !words.ends_with(' ') => words.push(' '),
            false => {}
        }
    }
    words.trim().to_owned()
}

/// The names of all pictures in a folder and those within it, with forward slashes.
fn list(
    root: &Path,
    folder: &Path,
    depth: usize,
    names: &mut Vec<String>,
) -> Result<(), SourceError> {
    let fail = |source| SourceError::Folder {
        folder: folder.to_owned(),
        source,
    };
    for entry in fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if path.is_dir() {
            if depth < DEEPEST {
                list(root, &path, depth + 1, names)?;
            }
            continue;
        }
        let ending = path
            .extension()
            .and_then(|ending| ending.to_str())
            .unwrap_or_default();
        if !ENDINGS
            .iter()
            .any(|known| known.eq_ignore_ascii_case(ending))
        {
            continue;
        }
        let inside = path.strip_prefix(root).ok().and_then(Path::to_str);
        names.extend(inside.map(|name| name.replace('\\', "/")));
        if names.len() > MOST_FILES {
            return Err(SourceError::TooMany {
                folder: root.to_owned(),
                most: MOST_FILES,
            });
        }
    }
    Ok(())
}

impl Source for Folder {
    fn at_once(&self) -> usize {
        16
    }

    fn fetch(&mut self, jobs: &[Job], deliver: &mut Deliver) -> Result<(), SourceError> {
        for (index, job) in jobs.iter().enumerate() {
            let Some(name) = self.file_of(job).map(str::to_owned) else {
                deliver(index, Outcome::Missing)?;
                continue;
            };
            let path = self.root.join(&name);
            let bytes = read_regular(&path, MAX_PICTURE)
                .map_err(|source| SourceError::Read { path, source })?;
            let origin = Origin {
                file: Some(name),
                ..Origin::default()
            };
            deliver(index, Outcome::Picture(File::new(bytes, origin, 0.0)))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
