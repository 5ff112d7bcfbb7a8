//! Ratings on scales: means, spreads, and how far people agree.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use prepose_draw::table::{Cell, Table};
use prepose_statistics::agreement::{Level, krippendorff_alpha};
use prepose_statistics::bootstrap::Bootstrap;

use super::published::OTS_19;
use super::raters::{RaterError, raters, some};
use super::sheet::Sheet;

/// What the items are grouped by when nothing says so.
const EVERYTHING: &str = "all";

/// The mean, its 95 % interval over items, and the standard deviation of each axis, by what column `by` says of an item in any
/// of the sheets; several people's ratings of an item are drawn together. A sheet with that column and without ratings is no
/// person's. α is Krippendorff's with the distances of the scale. With `published`, the rows of table 19 of Order Is Not
/// Layout below.
///
/// # Errors
/// A rating is no number, or a column is not there.
pub fn ratings(
    sheets: &[Sheet],
    by: Option<&str>,
    axes: &[String],
    bootstrap: &Bootstrap,
    published: bool,
) -> Result<Table, RaterError> {
    let axes = match axes {
        [] => all_axes(sheets, by),
        axes => axes.to_vec(),
    };
    let of_items = by.map(|by| groups(sheets, by)).transpose()?;
    let ungrouped = by.map_or(EVERYTHING.to_owned(), |by| format!("(no {by})"));
    let has = |sheet: &Sheet, name: &str| sheet.columns.iter().any(|column| column == name);
    let is_person = |sheet: &&Sheet| {
        !by.is_some_and(|by| has(sheet, by)) || axes.iter().any(|axis| has(sheet, axis))
    };
    let sheets: Vec<Sheet> = sheets.iter().filter(is_person).cloned().collect();
    // Axis by axis, group by group, item by item: what each person said.
    let mut rows = Vec::new();
    for axis in &axes {
        let people = raters(&sheets, std::slice::from_ref(axis))?;
        let values = people
            .iter()
            .map(|rater| rater.numbers("; name the columns with ratings with --axes"));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let mut groups: BTreeMap<&str, BTreeMap<&String, Vec<Option<f64>>>> = BTreeMap::new();
        for (person, values) in values.iter().enumerate() {
            for (item, value) in values {
                let group = (of_items.as_ref()).and_then(|groups| groups.get(item).copied());
                let units = groups.entry(group.unwrap_or(&ungrouped)).or_default();
                let unit = units
                    .entry(item)
                    .or_insert_with(|| vec![None; sheets.len()]);
                unit[person] = Some(*value);
            }
        }
        for (group, units) in groups {
            rows.push(row(group, axis, units.into_values().collect(), bootstrap));
        }
    }
    if published {
        rows.extend(OTS_19.iter().flat_map(|(model, axes)| {
            axes.iter().map(move |(axis, mean, deviation)| {
                vec![
                    Cell::Name(format!("{model} (published)")),
                    Cell::Name((*axis).to_owned()),
                    Cell::Count(400),
                    Cell::Mean(*mean),
                    Cell::Empty,
                    Cell::Empty,
                    Cell::Mean(*deviation),
                    Cell::Empty,
                ]
            })
        }));
    }
    let columns = [
        "group",
        "axis",
        "items",
        "mean",
        "mean_low",
        "mean_high",
        "deviation",
        "alpha",
    ];
    Ok(Table::new("ratings", &columns, rows.into_iter()))
}

/// What column `by` says of each item, in the first sheet that says something.
fn groups<'a>(sheets: &'a [Sheet], by: &str) -> Result<HashMap<&'a String, &'a str>, RaterError> {
    let mut groups = HashMap::new();
    for (item, row) in sheets.iter().flat_map(|sheet| &sheet.rows) {
        if let Some(group) = row.get(by) {
            groups.entry(item).or_insert(group.as_str());
        }
    }
    if !groups.is_empty() {
        return Ok(groups);
    }
    let names: Vec<&str> = sheets.iter().map(|sheet| sheet.name.as_str()).collect();
    let there: BTreeSet<&String> = sheets.iter().flat_map(|sheet| &sheet.columns).collect();
    Err(RaterError::NoColumn {
        name: by.to_owned(),
        sheet: names.join(" or "),
        there: some(there),
    })
}

/// The columns of all sheets that hold numbers alone.
fn all_axes(sheets: &[Sheet], by: Option<&str>) -> Vec<String> {
    let Some(first) = sheets.first() else {
        return Vec::new();
    };
    let is_axis = |name: &&String| {
        Some(name.as_str()) != by
            && sheets.iter().flat_map(|sheet| &sheet.rows).all(|(_, row)| {
                row.get(*name)
                    .is_none_or(|word| word.parse::<f64>().is_ok())
            })
    };
    first.columns.iter().filter(is_axis).cloned().collect()
}

fn row(group: &str, axis: &str, units: Vec<Vec<Option<f64>>>, bootstrap: &Bootstrap) -> Vec<Cell> {
    let given: Vec<Vec<f64>> = (units.iter())
        .map(|unit| unit.iter().flatten().copied().collect())
        .collect();
    let mean = bootstrap.mean(&given);
    let count = given.iter().map(Vec::len).sum::<usize>();
    // As of a sample: by one less than there are.
    let squares: f64 = given
        .iter()
        .flatten()
        .map(|value| (value - mean.value).powi(2))
        .sum();
    let deviation = (count > 1).then(|| (squares / (count as f64 - 1.0)).sqrt());
    let alpha = krippendorff_alpha(&units, Level::Interval);
    vec![
        Cell::Name(group.to_owned()),
        Cell::Name(axis.to_owned()),
        Cell::Count(given.len()),
        Cell::Mean(mean.value),
        Cell::Mean(mean.low),
        Cell::Mean(mean.high),
        deviation.map_or(Cell::Empty, Cell::Mean),
        alpha.map_or(Cell::Empty, Cell::Mean),
    ]
}
