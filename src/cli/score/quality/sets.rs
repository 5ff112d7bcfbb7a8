//! Sets of pictures: a run's methods, or a folder.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use prepose::report::{self, Method, Report};
use rayon::prelude::*;

use crate::cli::check::pictures_in;
use crate::cli::score::texts::caption;

/// Pictures that are measured together.
pub struct PictureSet {
    /// For people: the run and the method, or the folder.
    pub name: String,
    /// The folder that figures and features are kept in.
    pub folder: PathBuf,
    /// The pictures' files.
    pub pictures: Vec<PathBuf>,
    /// For each picture the number of its prompt, or its own where it has none.
    pub groups: Vec<usize>,
    /// What each picture should show, as it was given, where that is known.
    prompts: Vec<Option<String>>,
}

impl PictureSet {
    /// What each picture should show, in words; none if that is not known of all of them.
    ///
    /// # Errors
    /// A prompt that cannot be read.
    pub fn captions(&self) -> anyhow::Result<Option<Vec<String>>> {
        let prompts: Option<Vec<&str>> = self.prompts.iter().map(Option::as_deref).collect();
        let Some(prompts) = prompts else {
            return Ok(None);
        };
        let each = self.pictures.par_iter().zip(prompts);
        let captions = each.map(|(path, prompt)| {
            caption(path, prompt).with_context(|| path.display().to_string())
        });
        captions.collect::<anyhow::Result<_>>().map(Some)
    }
}

/// The sets in a folder: one for each method of a run, or the pictures in it.
///
/// # Errors
/// There is no folder, or nothing in it, or it is not on this machine.
pub fn sets_in(path: &Path) -> anyhow::Result<Vec<PictureSet>> {
    let name = path.display().to_string();
    if !name.contains("://") {
        let metadata = std::fs::metadata(path);
        let metadata = metadata.with_context(|| format!("cannot read {name}"))?;
        ensure!(
            metadata.is_dir(),
            "{name} is not a folder; quality is that of a set of pictures: give the folder they are in, or a run"
        );
        let is_run = ["run.json", "manifest.jsonl", "per_sample.jsonl"]
            .iter()
            .any(|file| path.join(file).exists());
        if !is_run && let Ok(pictures) = pictures_in(path) {
            return Ok(vec![PictureSet {
                name,
                folder: path.to_path_buf(),
                groups: (0..pictures.len()).collect(),
                prompts: vec![None; pictures.len()],
                pictures,
            }]);
        }
    }
    let report = report::read(std::slice::from_ref(&name), Vec::new(), None)?;
    let several = report.methods.len() > 1;
    let mut sets = Vec::new();
    for method in &report.methods {
        let called = match several {
            true => format!("{name}, {}", method.name),
            false => name.clone(),
        };
        let set = set_of(&report, method, called)?;
        if !set.pictures.is_empty() {
            sets.push(set);
        }
    }
    match sets.is_empty() {
        true => bail!("{name} has no pictures: their files are not there"),
        false => Ok(sets),
    }
}

fn set_of(report: &Report, method: &Method, name: String) -> anyhow::Result<PictureSet> {
    let folder = |place: usize| {
        let place = &report.places[place];
        let root = place.store.folder();
        let root = root.with_context(|| {
            format!("{name} is not on this machine; networks look at pictures in folders: copy it")
        })?;
        anyhow::Ok(root.join(&place.folder))
    };
    let mut set = PictureSet {
        folder: PathBuf::new(),
        pictures: Vec::new(),
        groups: Vec::new(),
        prompts: Vec::new(),
        name: name.clone(),
    };
    let mut numbers: HashMap<usize, usize> = HashMap::new();
    for picture in &method.pictures {
        let at = folder(picture.place)?;
        if set.folder.as_os_str().is_empty() {
            set.folder.clone_from(&at);
        }
        let Some(image) = &picture.image else {
            continue;
        };
        let next = numbers.len();
        set.groups
            .push(*numbers.entry(picture.prompt).or_insert(next));
        let prompt = &report.prompts.list()[picture.prompt].prompt;
        set.prompts
            .push(Some(prompt.clone()).filter(|text| !text.is_empty()));
        set.pictures.push(at.join(image));
    }
    Ok(set)
}
