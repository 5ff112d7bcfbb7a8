//! `prepose score pse-corruptions` and `pse-detectors`: how far PSE depends on masks and on who detects.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use anyhow::{bail, ensure};
use prepose::check::rules::corruption::{self, PUBLISHED, PUBLISHED_PLAIN};
use prepose::check::rules::detectors::{Matrix, matrix};
use prepose::check::rules::read::Place;
use prepose::check::rules::{Case, Report};
use prepose_untrusted::escaped;
use serde_json::json;

use super::{Args, Asked, Scored, read, table};
use crate::cli::OK;

/// What corruptions of masks do to PSE.
pub const CORRUPTIONS: &str = "pse-corruptions";
/// What it matters which detector chooses, and which one measures.
pub const DETECTORS: &str = "pse-detectors";

/// The pictures of a file; what cannot be read is told.
struct Seen {
    cases: Vec<Case>,
    places: Vec<Place>,
    code: u8,
}

fn seen(asked: &Asked, file: &Path) -> anyhow::Result<Seen> {
    let text = read(file)?;
    let (mut cases, mut places, mut unread) = (Vec::new(), Vec::new(), Vec::new());
    for (place, case) in asked.reader.read(file, &text) {
        let case = case.map_err(anyhow::Error::from);
        match case.and_then(|case| asked.eyes.complete(case.known()?)) {
            Ok(case) => {
                places.push(place);
                cases.push(case);
            }
            Err(error) => unread.push((place, format!("{error:#}"))),
        }
    }
    let nothing = Report {
        figures: Vec::new(),
        outcomes: Vec::new(),
    };
    let scored = Scored {
        report: nothing,
        pictures: Vec::new(),
        unread,
    };
    let code = scored.told();
    ensure!(
        !cases.is_empty(),
        "{} in {}",
        match scored.unread.is_empty() {
            true => "there is no picture",
            false => "there is no picture that can be scored",
        },
        file.display()
    );
    Ok(Seen {
        cases,
        places,
        code,
    })
}

/// Table 10 of Why Settle for Mid: the mean PSE with masks made worse.
pub fn corruptions(args: &Args, asked: &Asked) -> anyhow::Result<u8> {
    let mut code = OK;
    let (mut cases, mut places) = (Vec::new(), Vec::new());
    for file in &args.files {
        let seen = seen(asked, file)?;
        code = code.max(seen.code);
        cases.extend(seen.cases);
        places.extend(seen.places);
    }
    let boxes = |case: &Case| case.detections.iter().any(|one| one.mask.is_none());
    let without_masks = cases.iter().filter(|case| boxes(case)).count();
    let mean = |corruption| -> anyhow::Result<f64> {
        let mut sum = 0.0;
        for (case, place) in cases.iter().zip(&places) {
            match corruption::pse(case, &asked.options, corruption, args.seed) {
                Ok(score) => sum += score,
                Err(error) => bail!("{place}: {error}"),
            }
        }
        Ok(100.0 * sum / cases.len() as f64)
    };
    let plain = mean(None)?;
    let mut rows = vec![("none".to_owned(), plain, PUBLISHED_PLAIN)];
    for (corruption, published) in PUBLISHED {
        rows.push((corruption.to_string(), mean(Some(corruption))?, published));
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        let rows = rows.iter().map(|(name, here, published)| {
            json!({"corruption": name, "pse": here, "difference": here - plain, "published_pse": published})
        });
        let result = json!({
            "rule": CORRUPTIONS,
            "pictures": cases.len(),
            "with_boxes_for_masks": without_masks,
            "seed": args.seed,
            "corruptions": rows.collect::<Vec<_>>(),
        });
        writeln!(out, "{result}")?;
        return Ok(code);
    }
    let titles = ["corruption", "PSE, %", "difference", "published PSE, %"];
    let mut lines = vec![titles.map(String::from)];
    lines.extend(rows.iter().map(|(name, here, published)| {
        let difference = here - plain;
        [
            name.clone(),
            format!("{here:.2}"),
            format!("{difference:+.2}"),
            format!("{published:.2}"),
        ]
    }));
    write!(out, "{}{} pictures", table(&lines), cases.len())?;
    if without_masks > 0 {
        write!(
            out,
            ", {without_masks} with boxes for masks (--masks finds masks)"
        )?;
    }
    writeln!(out)?;
    Ok(code)
}

/// Table 11 of Why Settle for Mid: the best of each prompt's pictures by each detector, measured by each detector.
pub fn detectors(args: &Args, asked: &Asked) -> anyhow::Result<u8> {
    ensure!(
        args.files.len() >= 2,
        "pse-detectors compares what several detectors saw in the same pictures: give one file for each"
    );
    let mut code = OK;
    let (mut cases, mut places): (Vec<Vec<Case>>, Vec<Vec<Place>>) = Default::default();
    for file in &args.files {
        let mut seen = seen(asked, file)?;
        code = code.max(seen.code);
        if let Some(first) = cases.first() {
            seen = in_the_order_of(first, &args.files[0], seen, file)?;
        }
        cases.push(seen.cases);
        places.push(seen.places);
    }
    let matrix = match matrix(&cases, &asked.options) {
        Ok(matrix) => matrix,
        Err(([detector, at], error)) => bail!("{}: {error}", places[detector][at]),
    };
    ensure!(
        matrix.pictures > matrix.prompts,
        "there is one picture of each prompt, so there is nothing to choose: give detections of several pictures of each"
    );
    let mut out = std::io::stdout().lock();
    let names: Vec<String> = args.files.iter().map(|file| name(file)).collect();
    match args.json {
        true => writeln!(out, "{}", as_json(&matrix, &names))?,
        false => write!(out, "{}", escaped(&as_text(&matrix, &names)))?,
    }
    Ok(code)
}

fn name(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or(file.as_os_str());
    stem.to_string_lossy().into_owned()
}

/// The pictures of another file in the order of those of the first one.
fn in_the_order_of(
    first: &[Case],
    first_file: &Path,
    seen: Seen,
    file: &Path,
) -> anyhow::Result<Seen> {
    let same = seen.cases.len() == first.len();
    let all = seen.cases.into_iter().zip(seen.places);
    let mut by_id: HashMap<String, (Case, Place)> =
        all.map(|both| (both.0.id.clone(), both)).collect();
    let (mut cases, mut places) = (Vec::new(), Vec::new());
    for wanted in first {
        let Some((case, place)) = by_id.remove(&wanted.id) else {
            bail!(
                "{} has no picture {:?}, which {} has: detectors are compared on the same pictures",
                file.display(),
                wanted.id,
                first_file.display()
            );
        };
        cases.push(case);
        places.push(place);
    }
    ensure!(
        same,
        "{} has pictures that {} does not have: detectors are compared on the same pictures",
        file.display(),
        first_file.display()
    );
    Ok(Seen {
        cases,
        places,
        code: seen.code,
    })
}

fn as_json(matrix: &Matrix, names: &[String]) -> serde_json::Value {
    let by = |values: &[f64]| -> serde_json::Map<String, serde_json::Value> {
        let named = names
            .iter()
            .cloned()
            .zip(values.iter().map(|value| json!(value)));
        named.collect()
    };
    let rows = names.iter().zip(&matrix.measured).map(|(name, measured)| {
        json!({
            "measured_by": name,
            "pse": measured.plain,
            "pse_of_best_by": by(&measured.chosen),
            "centre": measured.centre_plain,
            "centre_of_best_by": by(&measured.centre_chosen),
        })
    });
    json!({
        "rule": DETECTORS,
        "prompts": matrix.prompts,
        "pictures": matrix.pictures,
        "detectors": rows.collect::<Vec<_>>(),
    })
}

fn as_text(matrix: &Matrix, names: &[String]) -> String {
    let mut lines = vec![[
        "measured by".to_owned(),
        "chosen by".to_owned(),
        "PSE, %".to_owned(),
        "centres right, %".to_owned(),
    ]];
    let percent = |value: f64| format!("{:.2}", 100.0 * value);
    for (name, measured) in names.iter().zip(&matrix.measured) {
        let mut row = |by: &str, pse: f64, centre: f64| {
            lines.push([name.clone(), by.to_owned(), percent(pse), percent(centre)]);
        };
        row("nobody", measured.plain, measured.centre_plain);
        let chosen = measured.chosen.iter().zip(&measured.centre_chosen);
        for (by, (pse, centre)) in names.iter().zip(chosen) {
            row(by, *pse, *centre);
        }
    }
    format!(
        "{}{} prompts, {} pictures; of each prompt the picture with the highest PSE is chosen\n",
        table(&lines),
        matrix.prompts,
        matrix.pictures
    )
}
