//! What `prepose report` prints: JSON of all of it, or tables for a terminal.

use std::path::{Path, PathBuf};

use prepose::report::Report;
use prepose::report::tables::Titled;
use prepose::table::{Cell, Table};
use serde_json::{Map, Value, json};

pub fn summary<'a>(
    report: &Report,
    out: &Path,
    tables: impl Iterator<Item = &'a Titled>,
    written: &[PathBuf],
) -> Value {
    let methods: Vec<Value> = report
        .methods
        .iter()
        .map(|method| {
            json!({
                "name": method.name,
                "pictures": method.pictures.len(),
                "planned": method.planned,
                "refused": method.refused.len(),
                "checked": method.pictures.iter().filter(|picture| !picture.records.is_empty()).count(),
            })
        })
        .collect();
    let tables: Map<String, Value> = tables
        .map(|titled| (titled.table.name.to_owned(), rows(&titled.table)))
        .collect();
    json!({
        "out": out.to_string_lossy(),
        "page": out.join("report.html").to_string_lossy(),
        "complete": report.methods.iter().all(|method| method.is_complete()),
        "pictures": report.pictures(),
        "runs": report.runs.iter().map(|run| &run.locations).collect::<Vec<_>>(),
        "methods": methods,
        "labels": report.labels().count(),
        "tables": tables,
        "files": written,
    })
}

/// A table as a list of objects.
fn rows(table: &Table) -> Value {
    let table = table.spread();
    let row = |cells: &Vec<Cell>| -> Value {
        let value = |cell: &Cell| match cell {
            Cell::Name(name) => json!(name),
            Cell::Count(count) => json!(count),
            Cell::Rate(number)
            | Cell::Change(number)
            | Cell::Percent(number)
            | Cell::Mean(number)
            | Cell::MeanChange(number) => json!(number),
            Cell::Within(..) | Cell::Empty => Value::Null,
        };
        let named = table.columns.iter().cloned().zip(cells.iter().map(value));
        Value::Object(named.collect())
    };
    table.rows.iter().map(row).collect()
}

/// A table for a terminal.
pub fn aligned(table: &Table) -> String {
    let shown = |row: &Vec<Cell>| row.iter().map(Cell::shown).collect();
    let mut cells: Vec<Vec<String>> = vec![table.columns.clone()];
    cells.extend(table.rows.iter().map(shown));
    let width = |column: usize| {
        let texts = cells.iter().filter_map(|row| row.get(column));
        texts.map(|text| text.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..table.columns.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let columns = row.iter().zip(&widths).enumerate();
        let texts = columns.map(|(i, (text, &width))| match i {
            0 => format!("{text:<width$}"),
            _ => format!("{text:>width$}"),
        });
        texts.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    cells.iter().map(line).collect()
}
