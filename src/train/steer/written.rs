//! What a classifier's training leaves: the classifier, and a page.

use std::path::PathBuf;

use prepose_draw::plot::svg::escape;
use prepose_draw::plot::{Series, Style};
use prepose_store::files::write_atomically;
use prepose_weights::steer::{SteerConfig, SteerFile};

use super::super::error::TrainError;
use super::super::folder::Folder;
use super::super::page;
use super::super::trainer::Step;
use super::Tried;

/// Writes both; the files.
pub(super) fn write(
    folder: &Folder,
    file: SteerFile,
    log: &[Step],
    tries: &[Tried],
) -> Result<[PathBuf; 2], TrainError> {
    let path = folder.file("steer.safetensors");
    let bytes = file.to_bytes().map_err(|error| TrainError::Read {
        path: path.clone(),
        why: error.to_string(),
    })?;
    write_atomically(&path, &bytes)?;
    let page = write_page(folder, &file.config, log, tries)?;
    Ok([path, page])
}

fn write_page(
    folder: &Folder,
    config: &SteerConfig,
    log: &[Step],
    tries: &[Tried],
) -> Result<PathBuf, TrainError> {
    let title = format!("A classifier of relations for {}", config.checkpoint);
    let mut body = format!(
        "<h1>{}</h1>\n<p>{} pictures.</p>\n",
        escape(&title),
        config.pictures
    );
    let last = log.last().map_or(0, |step| step.step);
    let points = |value: fn(&Tried) -> f64| {
        let points = tries
            .iter()
            .map(|one| (one.step as f64, 100.0 * value(one)));
        points.collect::<Vec<_>>()
    };
    let series = [
        ("right, under right words", points(|one| one.right_words)),
        ("right, under wrong words", points(|one| one.wrong_words)),
        ("says the wrong word", points(|one| one.says_word)),
    ];
    let series = series
        .into_iter()
        .enumerate()
        .map(|(at, (name, points))| Series::new(name, points, Style::Line, at));
    body += &page::chart("Held-out pairs", "%", series.collect(), last);
    body += &page::curves(log);
    let settings = serde_json::to_string_pretty(config).unwrap_or_default();
    body += &format!("<h2>Settings</h2>\n<pre>{}</pre>\n", escape(&settings));
    let path = folder.file("training.html");
    write_atomically(&path, page::document(&title, &body).as_bytes())?;
    Ok(path)
}
