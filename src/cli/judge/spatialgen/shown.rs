//! Which pictures are of which items.

use std::collections::HashMap;
use std::path::Path;

use anyhow::ensure;
use prepose::judge::spatialgen::Item;

use crate::cli::judge::runs::manifests;

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

/// The pictures of a run, whose prompts have the items' ids.
pub fn of_run(folder: &Path, items: &[Item]) -> anyhow::Result<Vec<Shown>> {
    let known: HashMap<&str, usize> = (items.iter().enumerate())
        .map(|(at, item)| (item.id.as_str(), at))
        .collect();
    let mut shown = Vec::new();
    for (name, lines) in manifests(folder)? {
        for line in lines {
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
