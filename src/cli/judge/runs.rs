//! The finished pictures in a run's folder, by their methods' manifests.

use std::path::{Path, PathBuf};

use anyhow::Context;
use prepose::check::json;
use prepose_untrusted::read_text;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A line of a run's manifest, as far as it matters here.
#[derive(Deserialize)]
pub struct Line {
    pub sample_id: String,
    pub prompt_id: String,
    /// Below the method's folder.
    pub image_path: String,
}

/// The manifest of each method with the method's name, which is its folder's, in the order of the names.
pub fn manifests(folder: &Path) -> anyhow::Result<Vec<(String, Vec<Line>)>> {
    let unreadable = || format!("cannot read {}", folder.display());
    let mut methods = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        if path.join("manifest.jsonl").is_file() {
            methods.push(path);
        }
    }
    methods.sort();
    let one = |method: &PathBuf| {
        let file = method.join("manifest.jsonl");
        let text = read_text(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let name = method.file_name().unwrap_or_default();
        Ok((name.to_string_lossy().into_owned(), lines_of(&file, &text)?))
    };
    methods.iter().map(one).collect()
}

/// The lines of a file in JSON; empty ones are passed over.
pub fn lines_of<T: DeserializeOwned>(path: &Path, text: &str) -> anyhow::Result<Vec<T>> {
    (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(number, line)| {
            json::from_str(line).with_context(|| format!("{}: line {number}", path.display()))
        })
        .collect()
}
