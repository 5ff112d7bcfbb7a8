//! Which pictures are judged, and what a detector sees in them.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use prepose::check::rules::Case;
use prepose::check::rules::read::Reader;
use prepose::check::spatialbench::config::DetectorParams;
use prepose::device::{self, DeviceSpec};
use prepose::judge::ask::Questions;
use prepose::judge::picture::{self, Named};
use prepose::picture::{Picture, PictureTensor};
use prepose::suite::judge::by_names;
use prepose_untrusted::read_text_or_stdin;
use prepose_weights::TOYBOX;

use crate::cli::checker;
use crate::cli::progress::Progress;

/// Pictures below a folder, by their ids. With `partial`, those that are not there are left out; what is left says which.
///
/// # Errors
/// Pictures are missing, or all are.
pub fn named(
    folder: &Path,
    wanted: impl Iterator<Item = (String, String)>,
    partial: bool,
) -> anyhow::Result<(Vec<Named>, Vec<bool>)> {
    let (mut named, mut there, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for (id, picture) in wanted {
        let path = folder.join(picture);
        there.push(path.is_file());
        match path.is_file() {
            true => named.push(Named { id, path }),
            false => missing.push(path),
        }
    }
    let Some(first) = missing.first() else {
        return Ok((named, there));
    };
    if named.is_empty() || !partial {
        bail!(
            "{} of {} pictures are not there; the first is {}{}",
            missing.len(),
            there.len(),
            first.display(),
            match named.is_empty() {
                true => "",
                false => "; with --partial the others are judged",
            }
        );
    }
    tracing::warn!(
        "{} of {} pictures are not there and are left out",
        missing.len(),
        there.len()
    );
    Ok((named, there))
}

/// The detections in files.
pub fn detections(files: &[PathBuf]) -> anyhow::Result<Vec<Case>> {
    let reader = Reader::default();
    let mut cases = Vec::new();
    for path in files {
        let text =
            read_text_or_stdin(path).with_context(|| format!("cannot read {}", path.display()))?;
        for (place, case) in reader.read(path, &text) {
            cases.push(case.with_context(|| place.to_string())?);
        }
    }
    Ok(cases)
}

/// What questions ask for in each of so many pictures, for detectors that find only that.
pub fn wanted<Q: Questions + ?Sized>(pictures: usize, questions: &Q) -> Vec<Vec<String>> {
    let mut wanted = vec![Vec::new(); pictures];
    for at in 0..questions.count() {
        let Some(question) = questions.question(at) else {
            continue;
        };
        if let Some(of) = question.picture.and_then(|picture| wanted.get_mut(picture)) {
            for name in question.about.names() {
                if !of.contains(&name) {
                    of.push(name);
                }
            }
        }
    }
    wanted
}

/// A detector by its name, and where it runs.
pub struct Eyes<'a> {
    /// None: the toybox's.
    pub checker: Option<&'a str>,
    pub device: DeviceSpec,
}

/// What the detector finds in all pictures, of what is wanted in each.
pub fn look(
    named: &[Named],
    wanted: &[Vec<String>],
    eyes: &Eyes,
    quiet: bool,
) -> anyhow::Result<Vec<Case>> {
    let weights = checker::open(eyes.checker.unwrap_or(TOYBOX))?;
    let opened = device::open(eyes.device)?;
    let detector = checker::load(&weights, &opened.device, &DetectorParams::default())?;
    let mut progress = Progress::new(named.len() as u64, "pictures", quiet);
    let mut cases = Vec::new();
    for (one, wanted) in named.iter().zip(wanted) {
        let seen = picture::read(&one.path)?;
        let decoded =
            Picture::decode_upright(&seen.bytes).with_context(|| one.path.display().to_string())?;
        let tensor = decoded.to_tensor(&opened.device);
        let found = detector.detect_boxes(&[tensor], std::slice::from_ref(wanted))?;
        cases.push(Case {
            id: one.id.clone(),
            prompt_id: one.id.clone(),
            size: Some((decoded.width, decoded.height)),
            detections: by_names(
                found.into_iter().flatten().collect(),
                wanted,
                detector.vocabulary(),
            ),
            ..Case::default()
        });
        progress.advance(1);
    }
    progress.finish();
    Ok(cases)
}

/// The labels that the detector knows.
///
/// # Errors
/// It cannot be opened, or finds only what it is asked for.
pub fn vocabulary(checker: Option<&str>) -> anyhow::Result<Vec<String>> {
    let weights = checker::open(checker.unwrap_or(TOYBOX))?;
    weights
        .vocabulary()
        .context("the detector finds only what it is asked for")
}

#[cfg(all(test, feature = "toybox"))]
mod tests {
    use super::*;

    #[test]
    fn photos_are_turned_as_their_exif_data_say() {
        // 24 × 16 in the file, a quarter turn from upright.
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
        let named = Named {
            id: "turned".into(),
            path: fixtures.join("training-data/turned.jpg"),
        };
        let eyes = Eyes {
            checker: None,
            device: "flex".parse().unwrap(),
        };
        let cases = look(&[named], &[vec!["dog".into()]], &eyes, true).unwrap();
        assert_eq!(cases[0].size, Some((16, 24)));
    }
}
