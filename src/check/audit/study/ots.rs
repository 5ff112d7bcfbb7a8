//! What each of several judges makes of the same pictures of OTS-Bench: table 3 of Order Is Not Layout.

use std::collections::BTreeMap;

use prepose_draw::table::{Cell, Table};
use prepose_statistics::agreement::{Weights, cohen_kappa, confusion};
use thiserror::Error;

use super::published::OTS_3;
use super::sheet::Sheet;
use crate::rules::Task;
use crate::rules::ots::{Code, Side, Verdict, homogenization};

/// The six figures of the benchmark: its settings, with the order of mention where that counts.
pub const FIGURES: [&str; 6] = [
    "t2i_homogenization",
    "i2i_homogenization",
    "t2i_aligned",
    "t2i_reverse",
    "i2i_aligned",
    "i2i_reverse",
];

/// Why a row is no label of OTS-Bench.
#[derive(Debug, Error, PartialEq)]
pub enum OtsError {
    /// A column is missing, or its value is none of those it can have.
    #[error("{sheet}: {item}: {column} is {}, not {expected}", found.as_ref().map_or("missing".to_owned(), |found| format!("{found:?}")))]
    Value {
        /// Whose labels.
        sheet: String,
        /// Of what.
        item: String,
        /// Of which column.
        column: &'static str,
        /// What is there.
        found: Option<String>,
        /// What can be there.
        expected: &'static str,
    },
}

/// A judge's code, and which of [`FIGURES`] it belongs to.
type Labelled = (usize, u8);

/// Each judge's figures, with κ of its three classes (first, second, invalid) against the first judge's. The sheets have the
/// columns `figure` (one of [`FIGURES`]) and `code` (table 14 of the paper; 0 and 3 are invalid).
///
/// # Errors
/// A column is missing or says something else.
pub fn judges(sheets: &[Sheet], published: bool) -> Result<Table, OtsError> {
    let labels = sheets.iter().map(labelled).collect::<Result<Vec<_>, _>>()?;
    let mut rows = Vec::new();
    for (sheet, mine) in sheets.iter().zip(&labels) {
        let mut row = vec![Cell::Name(sheet.name.clone()), Cell::Count(mine.len())];
        row.extend((0..FIGURES.len()).map(|figure| {
            let codes = (mine.values()).filter(|(of, _)| *of == figure);
            cell(figure, codes.map(|(_, code)| Code(*code)))
        }));
        row.push(kappa(&labels[0], mine).map_or(Cell::Empty, Cell::Mean));
        rows.push(row);
    }
    if published {
        rows.extend(OTS_3.iter().map(|(name, figures, kappa)| {
            let mut row = vec![Cell::Name(format!("{name} (published)")), Cell::Count(2400)];
            row.extend(figures.map(Cell::Percent));
            row.push(kappa.map_or(Cell::Empty, Cell::Mean));
            row
        }));
    }
    let mut columns = vec!["judge", "labels"];
    columns.extend(FIGURES);
    columns.push("kappa_to_first");
    Ok(Table::new("judges", &columns, rows.into_iter()))
}

fn labelled(sheet: &Sheet) -> Result<BTreeMap<&str, Labelled>, OtsError> {
    let mut labels = BTreeMap::new();
    for (item, row) in &sheet.rows {
        let wrong = |column: &'static str, expected: &'static str| OtsError::Value {
            sheet: sheet.name.clone(),
            item: item.clone(),
            column,
            found: row.get(column).cloned(),
            expected,
        };
        let figure = row
            .get("figure")
            .and_then(|name| FIGURES.iter().position(|known| known == name));
        let figure = figure.ok_or_else(|| {
            wrong("figure", "t2i_homogenization, i2i_homogenization, t2i_aligned, t2i_reverse, i2i_aligned or i2i_reverse")
        })?;
        let code = row
            .get("code")
            .and_then(|code| code.parse().ok())
            .filter(|code| *code <= 3);
        let code = code.ok_or_else(|| wrong("code", "0, 1, 2 or 3"))?;
        labels.insert(item.as_str(), (figure, code));
    }
    Ok(labels)
}

fn cell(figure: usize, codes: impl Iterator<Item = Code>) -> Cell {
    let task = match FIGURES[figure].starts_with("t2i") {
        true => Task::TextToImage,
        false => Task::ImageToImage,
    };
    let (mut first, mut second) = (0usize, 0usize);
    for code in codes {
        let is_first = match figure {
            0 | 1 => code.side().ok().and_then(|side| match side {
                Side::Left => Some(true),
                Side::Right => Some(false),
                Side::Invalid => None,
            }),
            _ => code.verdict(task).ok().and_then(|verdict| match verdict {
                Verdict::Correct => Some(true),
                Verdict::Wrong => Some(false),
                Verdict::Invalid => None,
            }),
        };
        match is_first {
            Some(true) => first += 1,
            Some(false) => second += 1,
            None => {}
        }
    }
    let percent = match figure {
        0 | 1 => homogenization(first, second),
        _ => (first + second > 0).then(|| 100.0 * first as f64 / (first + second) as f64),
    };
    percent.map_or(Cell::Empty, Cell::Percent)
}

/// κ of the codes 0 (or 3), 1 and 2, over what both labelled.
fn kappa(first: &BTreeMap<&str, Labelled>, mine: &BTreeMap<&str, Labelled>) -> Option<f64> {
    let class = |(_, code): &Labelled| usize::from(*code % 3);
    let (x, y): (Vec<usize>, Vec<usize>) = (first.iter())
        .filter_map(|(item, theirs)| Some((class(theirs), class(mine.get(item)?))))
        .unzip();
    cohen_kappa(&confusion(&x, &y, 3), Weights::None)
}
