//! Pictures, a batch at a time, through the checker.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::Context;
use prepose::check::detect::checker::{Asked, Checked, Checker};
use prepose::check::spatialbench::{Decision, Question, Record};
use prepose::output::files::prepare_folder;
use prepose::output::overlay::{Overlay, Role};
use prepose::output::png::save_plain;
use prepose::picture::Picture;
use prepose_untrusted::read_regular;
use rayon::prelude::*;

use super::inputs::{Sample, Told};
use super::told::Answer;
use crate::cli::progress::Progress;

/// Where overlays go, in the records' folder.
const OVERLAYS: &str = "overlays";

/// Runs the checker over samples, and collects records and problems.
pub(super) struct CheckRun<'a> {
    pub checker: &'a Checker,
    /// The records' folder, if overlays are drawn.
    pub overlays: Option<&'a Path>,
}

impl CheckRun<'_> {
    /// Checks `samples` in their order, and hands each finished picture's records to `told`. What cannot be read
    /// goes to the problems, and the others are checked all the same.
    ///
    /// # Errors
    /// A detector that fails, an overlay that cannot be written.
    pub fn all(
        &self,
        samples: &[Sample],
        progress: &mut Progress,
        mut told: impl FnMut(&Sample, Vec<Record>, Vec<Answer>, &mut Progress) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<Told>> {
        if let Some(folder) = self.overlays {
            prepare_folder(&folder.join(OVERLAYS))?;
        }
        let mut problems = Vec::new();
        let mut taken = HashSet::new();
        for batch in samples.chunks(self.checker.batch) {
            let read: Vec<_> = (batch.par_iter())
                .map(|sample| read_picture(&sample.path))
                .collect();
            let (mut readable, mut asked) = (Vec::new(), Vec::new());
            for (sample, read) in batch.iter().zip(read) {
                match read {
                    Ok(picture) => {
                        asked.push(Asked {
                            questions: sample.questions.clone(),
                            others: (sample.rules.iter())
                                .flat_map(|asked| asked.objects.clone())
                                .collect(),
                            depth: sample.depth.is_none() && !sample.rules.is_empty(),
                            picture,
                        });
                        readable.push(sample);
                    }
                    Err(why) => problems.push(Told::unreadable(&sample.path, &why)),
                }
            }
            let checked = self.checker.check(&asked)?;
            for ((sample, asked), checked) in readable.iter().zip(&asked).zip(checked) {
                let records = self.records(sample, asked, &checked, &mut taken)?;
                let size = [asked.picture.width as u32, asked.picture.height as u32];
                let answers = match Answer::of(sample, size, &checked) {
                    Ok(answers) => answers,
                    Err(why) => {
                        problems.push(Told::unreadable(&sample.path, &why));
                        Vec::new()
                    }
                };
                told(sample, records, answers, progress)?;
            }
            progress.advance(batch.len() as u64);
        }
        Ok(problems)
    }

    /// A record for each question about a picture, with its overlay written under a name that is not among the `taken`.
    fn records(
        &self,
        sample: &Sample,
        asked: &Asked,
        checked: &Checked,
        taken: &mut HashSet<String>,
    ) -> anyhow::Result<Vec<Record>> {
        let mut records = self
            .checker
            .records(&sample.id, &sample.prompt_id, asked, checked);
        if let Some(folder) = self.overlays {
            let decided = asked.questions.iter().zip(&checked.decisions);
            for (record, (question, decision)) in records.iter_mut().zip(decided) {
                let path = PathBuf::from(OVERLAYS).join(file_name(&record.sample_id, taken));
                let drawn = overlay(question, checked, decision).over(&asked.picture);
                save_plain(&folder.join(&path), &drawn)?;
                record.overlay_path = Some(path.to_string_lossy().into_owned());
            }
        }
        Ok(records)
    }
}

/// More than any picture's file has.
const MOST_BYTES: u64 = 1 << 30;

/// The picture in a file, turned as its EXIF data say.
pub fn read_picture(path: &Path) -> anyhow::Result<Picture> {
    let bytes = read_regular(path, MOST_BYTES).context("cannot be read")?;
    Ok(Picture::decode_upright(&bytes)?)
}

/// What is drawn over a picture for one question: every detection, and on top the two that were chosen.
fn overlay<'a>(question: &Question, checked: &'a Checked, decision: &'a Decision) -> Overlay<'a> {
    let chosen = decision.selected.as_ref();
    let roles = chosen.map(|chosen| [(&chosen.a, Role::First), (&chosen.b, Role::Second)]);
    let is_chosen =
        |detection| chosen.is_some_and(|chosen| [&chosen.a, &chosen.b].contains(&detection));
    let others = checked.primary.iter().filter(|found| !is_chosen(found));
    let mut detections: Vec<_> = others.map(|found| (found, Role::Other)).collect();
    detections.extend(roles.into_iter().flatten());
    let mut lines = vec![
        format!(
            "{} {} {}",
            question.object_a, question.relation, question.object_b
        ),
        format!(
            "{}, confidence {:.2}",
            decision.verdict, decision.confidence
        ),
    ];
    lines.extend(decision.reason.as_ref().map(ToString::to_string));
    Overlay {
        detections,
        verdict: decision.verdict,
        lines,
    }
}

/// The most bytes that a file's name has of an id: file systems take up to 255, and a number and an ending come after it.
const LONGEST: usize = 200;

/// A sample's name as a file name that is none of the `taken`. These are in lower case, since many file systems know no
/// difference.
fn file_name(sample_id: &str, taken: &mut HashSet<String>) -> String {
    let mut stem = String::new();
    for letter in sample_id.chars() {
        let plain = letter.is_alphanumeric() || "-_.".contains(letter);
        let letter = if plain { letter } else { '_' };
        if stem.len() + letter.len_utf8() > LONGEST {
            break;
        }
        stem.push(letter);
    }
    let mut name = stem.clone();
    let mut number = 1;
    while !taken.insert(name.to_lowercase()) {
        number += 1;
        name = format!("{stem}-{number}");
    }
    format!("{name}.png")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlays_have_names_of_their_own() {
        let mut taken = HashSet::new();
        let ids = ["狗", "猫", "Hund", "hund", "a b", "a/b", "a_b-2", "été.1"];
        let names = ids.map(|id| file_name(id, &mut taken));
        let expected = [
            "狗.png",
            "猫.png",
            "Hund.png",
            "hund-2.png",
            "a_b.png",
            "a_b-2.png",
            "a_b-2-2.png",
            "été.1.png",
        ];
        assert_eq!(names, expected);
        let long = [1, 2].map(|_| file_name(&"狗".repeat(90), &mut taken));
        assert!(long[0] != long[1] && long.iter().all(|name| name.len() < 210));
    }

    #[test]
    fn photos_are_turned_as_their_exif_data_say() {
        // 24 × 16 in the file, a quarter turn from upright.
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
        let picture = read_picture(&fixtures.join("training-data/turned.jpg")).unwrap();
        assert_eq!((picture.width, picture.height), (16, 24));
    }
}
