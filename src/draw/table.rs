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

    /// For terminals: columns aligned, and at most `most` characters wide. What does not fit beside each other goes below,
    /// each part with the first column.
    pub fn to_text(&self, most: usize) -> String {
        let texts = self
            .rows
            .iter()
            .map(|row| row.iter().map(Cell::text).collect());
        let cells: Vec<Vec<String>> = std::iter::once(self.columns.clone()).chain(texts).collect();
        let width = |column: usize| {
            let texts = cells.iter().filter_map(|row| row.get(column));
            texts.map(|text| text.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let first = widths.first().copied().unwrap_or(0);
        let mut parts: Vec<Vec<usize>> = Vec::new();
        let mut wide = first;
        for (column, width) in widths.iter().enumerate().skip(1) {
            match parts.last_mut().filter(|_| wide + 2 + width <= most) {
                Some(part) => part.push(column),
                None => {
                    parts.push(vec![column]);
                    wide = first;
                }
            }
            wide += 2 + width;
        }
        if parts.is_empty() {
            parts.push(Vec::new());
        }
        let line = |row: &Vec<String>, part: &[usize]| {
            let cell = |column: usize| row.get(column).map_or("", String::as_str);
            let mut line = format!("{:<first$}", cell(0));
            for &column in part {
                // Writing into a string cannot fail.
                let _ = write!(line, "  {:>width$}", cell(column), width = widths[column]);
            }
            line.trim_end().to_owned() + "\n"
        };
        let block = |part: &Vec<usize>| cells.iter().map(|row| line(row, part)).collect();
        parts.iter().map(block).collect::<Vec<String>>().join("\n")
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
    fn a_wide_table_is_divided_on_a_terminal() {
        let cells = |name: &str| {
            vec![
                Cell::Name(name.into()),
                Cell::Count(12),
                Cell::Rate(0.5),
                Cell::Empty,
            ]
        };
        let rows = [cells("prompt-only"), cells("psg")];
        let table = Table::new("t", &["method", "n", "rate", "more"], rows.into_iter());
        let whole =
            "method        n    rate  more\nprompt-only  12  0.5000\npsg          12  0.5000\n";
        assert_eq!(table.to_text(100), whole);
        assert_eq!(table.to_text(29), whole);
        let divided = table.to_text(28);
        assert!(
            divided.ends_with("\n\nmethod       more\nprompt-only\npsg\n"),
            "{divided}"
        );
        assert!(divided.lines().all(|line| line.len() <= 28), "{divided}");
        // However narrow it is, each column is there.
        assert_eq!(
            table
                .to_text(1)
                .lines()
                .filter(|line| line.starts_with("method"))
                .count(),
            3
        );
        assert_eq!(
            Table::new("t", &["method"], std::iter::empty()).to_text(1),
            "method\n"
        );
    }
}
