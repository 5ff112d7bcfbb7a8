//! SpatialBench-UC's tables 5 to 11 (arXiv:2601.13462): a run's figures with the published ones of the same method below them.

mod data;
mod measured;
mod rows;
mod settings;

use std::fmt::Write as _;

use crate::bootstrap::Bootstrap;
use crate::model::{Method, Report};
use crate::titled::Titled;
use data::{Checked, Published};
use prepose_check::spatialbench::Record;

/// What is written beside the paper.
pub struct Beside {
    /// At the top of its page.
    pub title: &'static str,
    /// What is compared with what, where the figures are from, and how to read them; a paragraph each.
    pub notes: Vec<String>,
    /// Tables 5 to 11 as far as the run has them, and the settings.
    pub tables: Vec<Titled>,
}

/// The page's files, without ending.
pub const NAME: &str = "spatialbench-uc";

/// A method of the report, with its verdicts by each setting of the checker.
struct Row<'a> {
    method: &'a Method,
    /// What it is compared with.
    beside: Option<&'a data::Method>,
    /// By the calibrated checker, or one of other settings.
    calibrated: Option<&'a [Record]>,
    uncalibrated: Option<&'a [Record]>,
}

/// The paper's tables with those of the methods that a checker looked at; none if no run is of SpatialBench-UC's prompts.
pub fn beside(report: &Report, bootstrap: &Bootstrap) -> Option<Beside> {
    let published = data::published()?;
    let rows: Vec<Row> = (report.methods.iter())
        .filter(|method| !method.records.is_empty() && is_of_the_set(report, method, &published))
        .map(|method| row(report, method, &published))
        .collect();
    if rows.is_empty() {
        return None;
    }
    let settings = settings::of(report, &rows);
    Some(Beside {
        title: "SpatialBench-UC: tables 5 to 11 beside the published ones",
        notes: notes(&rows, &settings, &published, bootstrap),
        tables: rows::tables(&rows, &settings, &published, bootstrap),
    })
}

/// Whether its prompts are SpatialBench-UC's: its run says so, or it is a folder that the authors released.
fn is_of_the_set(report: &Report, method: &Method, published: &Published) -> bool {
    let run = &report.runs[method.run];
    let released = || released(method, published).is_some();
    run.is_spatialbench_uc() || (run.config.is_none() && released())
}

/// The published method whose released folder this is, by its name.
fn released<'a>(method: &Method, published: &'a Published) -> Option<&'a data::Method> {
    let mut all = published.methods.iter();
    all.find(|one| method.name == one.run || method.name.ends_with(&format!("/{}", one.run)))
}

fn row<'a>(report: &Report, method: &'a Method, published: &'a Published) -> Row<'a> {
    let others = method.others.iter().map(|(_, records)| records.as_slice());
    let sets: Vec<&[Record]> = (std::iter::once(method.records.as_slice()).chain(others))
        .filter(|records| !records.is_empty())
        .collect();
    let of = |of: fn(&data::Method) -> &Checked| published.methods.first().map(of);
    let has = |records: &&&[Record], checked: Option<&Checked>| {
        checked.is_some_and(|checked| margin(records) == Some(checked.margin))
    };
    let (calibrated, uncalibrated) = (of(|one| &one.calibrated), of(|one| &one.uncalibrated));
    // Settings that are neither are shown beside the calibrated ones, and named as different.
    let usual = sets.iter().find(|records| has(records, calibrated));
    let other = || sets.iter().find(|records| !has(records, uncalibrated));
    Row {
        method,
        beside: match &report.runs[method.run].config {
            Some(_) => settings::counterpart(report, method, published),
            None => released(method, published),
        },
        calibrated: usual.or_else(other).copied(),
        uncalibrated: (sets.iter().find(|records| has(records, uncalibrated))).copied(),
    }
}

/// The margin that decided.
fn margin(records: &[Record]) -> Option<f64> {
    records.first().map(|record| record.geometry.margin)
}

fn notes(
    rows: &[Row],
    settings: &[settings::Settings],
    published: &Published,
    bootstrap: &Bootstrap,
) -> Vec<String> {
    let Published {
        source,
        commit,
        paper,
        author,
        licence,
        ..
    } = published;
    let mut notes = vec![format!(
        "Rows that begin with \"published\" are SpatialBench-UC's ({author}, {paper}), as its repository has them ({source}, commit \
         {commit}, {licence}). The row above is of the method here that is compared with it.",
    )];
    for (row, settings) in rows.iter().zip(settings) {
        let name = &row.method.name;
        notes.push(match row.beside {
            Some(beside) => match settings.differences(beside).as_slice() {
                [] => format!("{name} is compared with {}.", beside.name),
                differences => format!(
                    "{name} is compared with {}, and differs from it in {}.",
                    beside.name,
                    differences.join(", ")
                ),
            },
            None => format!("{name} is compared with none: the paper has no such method."),
        });
    }
    notes.push(format!(
        "In brackets: 95 % intervals of this run's figures. Those of pictures are by the bootstrap, {} draws of prompts, each with all of \
         its pictures; shares of prompts and of pairs have Wilson's. Where all prompts are alike the bootstrap's have no width, which says little if \
         they are few. Nothing is published about the intervals of the paper's figures.",
        bootstrap.draws
    ));
    notes
}

impl Beside {
    /// All of it for a document.
    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n\n", self.title);
        for note in &self.notes {
            // Writing into a string cannot fail.
            let _ = write!(text, "{}\n\n", note.replace(['\n', '\r'], " "));
        }
        text + &crate::tables::markdown(&self.tables)
    }
}

#[cfg(test)]
mod tests;
