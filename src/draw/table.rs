//! Tables of results as CSV and Markdown.

use std::borrow::Cow;
use std::fmt::Write as _;

/// A text as a cell that no spreadsheet takes for a formula: an apostrophe before `=`, `+`, `-`, `@`, a tab or a line break.
/// [`from_no_formula`] gives the text back.
pub fn no_formula(text: &str) -> Cow<'_, str> {
    match is_formula(text.trim_start_matches('\'')) {
        true => Cow::Owned(format!("'{text}")),
        false => Cow::Borrowed(text),
    }
}

/// The text of which [`no_formula`] made a cell.
pub fn from_no_formula(cell: &str) -> &str {
    match cell.strip_prefix('\'') {
        Some(text) if is_formula(text.trim_start_matches('\'')) => text,
        _ => cell,
    }
}

fn is_formula(text: &str) -> bool {
    text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n'])
}

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
                    Cell::Name(name) => format!("\"{}\"", no_formula(name).replace('"', "\"\"")),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_a_formula() {
        for text in [
            "=HYPERLINK(\"http://x\")",
            "+1",
            "-1+1",
            "@SUM(1)",
            "\t=1",
            "\r=1",
            "'=1",
            "''=1",
        ] {
            let cell = no_formula(text);
            assert!(cell.starts_with('\''), "{cell}");
            assert_eq!(from_no_formula(&cell), text);
        }
        for text in ["", "psg", "'", "'a", "1-2", "a=b"] {
            assert_eq!(no_formula(text), text);
            assert_eq!(from_no_formula(text), text);
        }
        let row = vec![Cell::Name("=1+cmd|x!A0".into()), Cell::Change(-0.5)];
        let table = Table::new("t", &["run", "change"], std::iter::once(row));
        assert_eq!(table.to_csv(), "run,change\n\"'=1+cmd|x!A0\",-0.5000\n");
    }
}
