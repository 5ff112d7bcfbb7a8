//! Which pictures are judged, and what a detector sees in them.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use prepose::check::rules::Case;
use prepose::check::rules::read::Reader;
use prepose::check::spatialbench::config::DetectorParams;
use prepose::device;
use prepose::judge::picture::{self, Named};
use prepose::picture::{Picture, PictureTensor};
use prepose_untrusted::read_text_or_stdin;
use prepose_weights::TOYBOX;

use super::judging::JudgeArgs;
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
            "{} of {} pictures are not there, the first is {}{}",
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

/// What the detector finds in all pictures.
pub fn look(named: &[Named], args: &JudgeArgs, quiet: bool) -> anyhow::Result<Vec<Case>> {
    let weights = checker::open(args.checker.as_deref().unwrap_or(TOYBOX))?;
    let opened = device::open(args.device)?;
    let detector = checker::load(&weights, &opened.device, &DetectorParams::default())?;
    if detector.vocabulary().is_none() {
        bail!(
            "{} finds only what it is asked for; write what it finds with prepose detect, and give that with --detections",
            detector.name()
        );
    }
    let mut progress = Progress::new(named.len() as u64, "pictures", quiet);
    let mut cases = Vec::new();
    for one in named {
        let seen = picture::read(&one.path)?;
        let decoded =
            Picture::decode(&seen.bytes).with_context(|| one.path.display().to_string())?;
        let tensor = decoded.to_tensor(&opened.device);
        let found = detector.detect_boxes(&[tensor], &[Vec::new()])?;
        cases.push(Case {
            id: one.id.clone(),
            prompt_id: one.id.clone(),
            size: Some((decoded.width, decoded.height)),
            detections: found.into_iter().flatten().collect(),
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
pub fn vocabulary(args: &JudgeArgs) -> anyhow::Result<Vec<String>> {
    let weights = checker::open(args.checker.as_deref().unwrap_or(TOYBOX))?;
    weights
        .vocabulary()
        .context("the detector finds only what it is asked for")
}
