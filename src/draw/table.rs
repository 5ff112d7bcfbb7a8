//! Tables of results as CSV and Markdown.

use std::fmt::Write as _;

/// One value of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// The name of a run, in quotation marks in CSV.
    Name(String),
    /// A number of things.
    Count(usize),
    /// With four digits after the point.
    Rate(f64),
    /// With a sign and four digits after the point.
    Change(f64),
    /// Of a hundred, with two digits after the point.
    Percent(f64),
    /// Nothing to say.
    Empty,
}

impl Cell {
    /// As it stands in a table.
    pub fn text(&self) -> String {
        match self {
            Self::Name(name) => name.clone(),
            Self::Count(count) => count.to_string(),
            Self::Rate(rate) => format!("{rate:.4}"),
            Self::Change(change) => format!("{change:+.4}"),
            Self::Percent(percent) => format!("{percent:.2}"),
            Self::Empty => String::new(),
        }
    }
}

/// A table with a row a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The file name in the released reports, without ending.
    pub name: &'static str,
    /// The first is `run`.
    pub columns: Vec<String>,
    /// As many values as there are columns.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Of rows that have as many values as there are columns.
    pub fn new(
        name: &'static str,
        columns: &[&str],
        rows: impl Iterator<Item = Vec<Cell>>,
    ) -> Self {
        Self {
            name,
            columns: columns.iter().map(|&column| column.into()).collect(),
            rows: rows.collect(),
        }
    }

    /// As in the released reports.
    pub fn to_csv(&self) -> String {
        let mut text = self.columns.join(",");
        text.push('\n');
        for row in &self.rows {
            let cells: Vec<String> = row
                .iter()
                .map(|cell| match cell {
                    Cell::Name(name) => format!("\"{}\"", name.replace('"', "\"\"")),
                    _ => cell.text(),
                })
                .collect();
            text.push_str(&cells.join(","));
            text.push('\n');
        }
        text
    }

    /// For documents.
    pub fn to_markdown(&self) -> String {
        let mut text = format!("| {} |\n|", self.columns.join(" | "));
        for column in 0..self.columns.len() {
            text.push_str(if column == 0 { " --- |" } else { " ---: |" });
        }
        text.push('\n');
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(Cell::text).collect();
            // Writing into a string cannot fail.
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
        text
    }
}
