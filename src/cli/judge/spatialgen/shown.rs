//! Which pictures are of which items.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, ensure};
use prepose::judge::spatialgen::Item;
use prepose_untrusted::read_text;
use serde::Deserialize;

/// A picture with the item that it is of.
pub struct Shown {
    /// Its number.
    pub item: usize,
    /// Unique among the pictures.
    pub id: String,
    /// Below the folder.
    pub file: String,
    /// How it was made.
    pub method: Option<String>,
}

/// Each item's picture in a folder, by its id; of one that is not there, its name as the benchmark has it.
pub fn of_folder(folder: &Path, items: &[Item]) -> Vec<Shown> {
    let file = |id: &str| {
        let names = ["png", "jpg", "jpeg", "webp"].map(|ending| format!("{id}.{ending}"));
        let there = names.iter().find(|name| folder.join(name).is_file());
        there.unwrap_or(&names[0]).clone()
    };
    let one = |(item, of): (usize, &Item)| Shown {
        item,
        id: of.id.clone(),
        file: file(&of.id),
        method: None,
    };
    items.iter().enumerate().map(one).collect()
}

/// A line of a run's manifest, as far as it matters here.
#[derive(Deserialize)]
struct Line {
    sample_id: String,
    prompt_id: String,
    image_path: String,
}

/// The pictures of a run, whose prompts have the items' ids.
pub fn of_run(folder: &Path, items: &[Item]) -> anyhow::Result<Vec<Shown>> {
    let known: HashMap<&str, usize> = (items.iter().enumerate())
        .map(|(at, item)| (item.id.as_str(), at))
        .collect();
    let unreadable = || format!("cannot read {}", folder.display());
    let mut methods = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        if path.join("manifest.jsonl").is_file() {
            methods.push(path);
        }
    }
    methods.sort();
    let mut shown = Vec::new();
    for method in methods {
        let file = method.join("manifest.jsonl");
        let text = read_text(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let name = method
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        for (number, line) in (1..).zip(text.lines()) {
            let line: Line = serde_json::from_str(line)
                .with_context(|| format!("{}: line {number}", file.display()))?;
            if let Some(item) = known.get(line.prompt_id.as_str()) {
                shown.push(Shown {
                    item: *item,
                    id: format!("{name}/{}", line.sample_id),
                    file: format!("{name}/{}", line.image_path),
                    method: Some(name.clone()),
                });
            }
        }
    }
    ensure!(
        !shown.is_empty(),
        "{} has no finished pictures of prompts in --questions: their prompt_ids must be its ids, as prepose spatialgen prompts writes them",
        folder.display()
    );
    Ok(shown)
}
