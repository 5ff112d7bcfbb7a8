//! What a folder was begun with, so that nobody goes on in it with something else.

use std::path::Path;

use anyhow::{Context, bail};
use prepose::make::feedback::Feedback;
use prepose::output::files::write_atomically;
use prepose::request::Request;
use prepose::suite::plan::JudgeId;
use prepose_untrusted::read_regular;
use serde_json::{Value, json};

use super::Scene;

const FILE: &str = "refine.json";
/// More than any settings have.
const MOST_BYTES: u64 = 1 << 28;

/// Writes the settings into a new folder, or compares them with those that are there.
///
/// # Errors
/// They differ, which is named; the file cannot be read or written.
pub fn keep(
    folder: &Path,
    scenes: &[Scene],
    base: &Request,
    again: &Feedback,
    (judge, checker): (&JudgeId, &str),
) -> anyhow::Result<()> {
    let scenes = scenes
        .iter()
        .map(|scene| json!({"graph": scene.graph, "text": scene.text}));
    let settings = json!({
        "scenes": scenes.collect::<Vec<_>>(), "request": base, "scales": again.scales, "guide": again.guide,
        "judge": judge.model, "judge_settings": judge.settings, "checker": checker,
    });
    let path = folder.join(FILE);
    if !path.exists() {
        let text = format!("{settings}\n");
        return write_atomically(&path, text.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()));
    }
    let unreadable = || format!("{} cannot be read; give another --out", path.display());
    let before = read_regular(&path, MOST_BYTES).with_context(unreadable)?;
    let before: Value = serde_json::from_slice(&before).with_context(unreadable)?;
    let mut different = Vec::new();
    differences(&before, &settings, String::new(), &mut different);
    match different.first() {
        None => Ok(()),
        Some(name) => bail!(
            "{} was begun with a different {name}; give another --out, or what it was begun with",
            folder.display()
        ),
    }
}

/// The names of fields that are not the same in both.
fn differences(before: &Value, now: &Value, name: String, found: &mut Vec<String>) {
    match (before, now) {
        (Value::Object(one), Value::Object(other)) => {
            let mut names: Vec<&String> = one.keys().chain(other.keys()).collect();
            names.sort();
            names.dedup();
            for key in names {
                let name = match (&*name, &**key) {
                    ("", "request") => String::new(),
                    ("", key) => key.to_owned(),
                    (name, key) => format!("{name}.{key}"),
                };
                differences(&before[key.as_str()], &now[key.as_str()], name, found);
            }
        }
        (before, now) if before != now => found.push(name),
        _ => {}
    }
}
