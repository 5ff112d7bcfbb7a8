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
    /// A share in 0..=1.
    Rate(f64),
    /// A difference of shares.
    Change(f64),
    /// A share of a hundred, in tables whose papers have them so.
    Percent(f64),
    /// A mean of what is no share: seconds, calls, confidences.
    Mean(f64),
    /// A difference of such means.
    MeanChange(f64),
    /// A number with the ends of its interval, which are columns of their own in files for programs.
    Within(Box<Cell>, [f64; 2]),
    /// Nothing to say.
    Empty,
}

impl Cell {
    /// As it stands in a file, for programs: shares as fractions, with four digits after the point.
    pub fn text(&self) -> String {
        match self {
            Self::Name(name) => name.clone(),
            Self::Count(count) => count.to_string(),
            Self::Rate(number) | Self::Mean(number) => format!("{number:.4}"),
            Self::Change(number) | Self::MeanChange(number) => format!("{number:+.4}"),
            Self::Percent(percent) => format!("{percent:.2}"),
            Self::Within(value, _) => value.text(),
            Self::Empty => String::new(),
        }
    }

    /// As people read it: shares in percent with one digit after the point, their differences in percentage points (pp).
    pub fn shown(&self) -> String {
        match self {
            Self::Name(name) => name.clone(),
            Self::Count(count) => count.to_string(),
            Self::Rate(share) => format!("{:.1} %", 100.0 * share),
            Self::Change(change) => format!("{:+.1} pp", 100.0 * change),
            Self::Percent(percent) => format!("{percent:.1} %"),
            Self::Mean(mean) if mean.fract() == 0.0 && mean.abs() < 1e9 => format!("{mean:.0}"),
            Self::Mean(mean) if mean.abs() >= 100.0 => format!("{mean:.1}"),
            Self::Mean(mean) => format!("{mean:.3}"),
            Self::MeanChange(change) => format!("{change:+.3}"),
            Self::Within(value, ends) => {
                let end = |end| value.with(end).shown();
                let [low, high] = ends.map(|number| {
                    let shown = end(number);
                    let bare = shown
                        .split_once(' ')
                        .map(|(number, _unit)| number.to_owned());
                    bare.unwrap_or(shown)
                });
                format!("{} [{low}, {high}]", value.shown())
            }
            Self::Empty => "–".to_owned(),
        }
    }

    /// Another number of the same kind; what is no number stays as it is.
    fn with(&self, number: f64) -> Self {
        match self {
            Self::Rate(_) => Self::Rate(number),
            Self::Change(_) => Self::Change(number),
            Self::Percent(_) => Self::Percent(number),
            Self::Mean(_) => Self::Mean(number),
            Self::MeanChange(_) => Self::MeanChange(number),
            other => other.clone(),
        }
    }
}

/// A table of results, mostly with a row a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The file name in the released reports, without ending.
    pub name: &'static str,
    /// The first is what the rows are of, such as `run`.
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

    /// With the ends of intervals in columns of their own, `…_low` and `…_high`.
    pub fn spread(&self) -> Cow<'_, Self> {
        let has_ends = |column: usize| {
            let mut cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.any(|cell| matches!(cell, Cell::Within(..)))
        };
        let wide: Vec<bool> = (0..self.columns.len()).map(has_ends).collect();
        if !wide.contains(&true) {
            return Cow::Borrowed(self);
        }
        let columns = self.columns.iter().zip(&wide);
        let columns = columns.flat_map(|(column, wide)| {
            let ends = ["_low", "_high"].map(|end| format!("{column}{end}"));
            std::iter::once(column.clone()).chain(ends.into_iter().filter(|_| *wide))
        });
        let rows = self.rows.iter().map(|row| {
            let cells = row.iter().zip(&wide).flat_map(|(cell, wide)| {
                let (value, ends) = match cell {
                    Cell::Within(value, ends) => {
                        ((**value).clone(), ends.map(|end| value.with(end)))
                    }
                    other => (other.clone(), [Cell::Empty, Cell::Empty]),
                };
                std::iter::once(value).chain(ends.into_iter().filter(|_| *wide))
            });
            cells.collect()
        });
        Cow::Owned(Self {
            name: self.name,
            columns: columns.collect(),
            rows: rows.collect(),
        })
    }

    /// As in the released reports.
    pub fn to_csv(&self) -> String {
        let table = self.spread();
        let heads: Vec<Cow<str>> = table.columns.iter().map(|name| head(name)).collect();
        let mut text = heads.join(",");
        text.push('\n');
        for row in &table.rows {
            let cells: Vec<String> = row
                .iter()
                .map(|cell| match cell {
                    Cell::Name(name) => quoted(&no_formula(name)),
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

    /// For documents, as in the files for programs.
    pub fn to_markdown(&self) -> String {
        self.markdown(Cell::text)
    }

    /// For documents, as people read it.
    pub fn to_shown_markdown(&self) -> String {
        self.markdown(Cell::shown)
    }

    fn markdown(&self, written: fn(&Cell) -> String) -> String {
        let line = |texts: Vec<String>| {
            let texts: Vec<String> = texts.iter().map(|text| markdown(text)).collect();
            format!("| {} |\n", texts.join(" | "))
        };
        let mut text = line(self.columns.clone()) + "|";
        for column in 0..self.columns.len() {
            text.push_str(if self.is_named(column) {
                " --- |"
            } else {
                " ---: |"
            });
        }
        text.push('\n');
        for row in &self.rows {
            text.push_str(&line(row.iter().map(written).collect()));
        }
        text
    }

    /// For LaTeX documents with the package booktabs, as people read it.
    pub fn to_latex(&self, caption: &str) -> String {
        let columns = 0..self.columns.len();
        let places: String = columns
            .map(|column| if self.is_named(column) { 'l' } else { 'r' })
            .collect();
        let line = |cells: Vec<String>| {
            let cells: Vec<String> = cells.iter().map(|cell| latex(cell)).collect();
            format!("    {} \\\\\n", cells.join(" & "))
        };
        let rows: String = (self.rows.iter())
            .map(|row| line(row.iter().map(Cell::shown).collect()))
            .collect();
        format!(
            "% \\usepackage{{booktabs}}\n\\begin{{table}}\n  \\centering\n  \\caption{{{}}}\n  \\begin{{tabular}}{{{places}}}\n    \\toprule\n\
             {}    \\midrule\n{rows}    \\bottomrule\n  \\end{{tabular}}\n\\end{{table}}\n",
            latex(caption),
            line(self.columns.clone()),
        )
    }

    /// Whether a column has names, which stand on the left.
    pub fn is_named(&self, column: usize) -> bool {
        let mut cells = self.rows.iter().filter_map(|row| row.get(column));
        column == 0 || cells.any(|cell| matches!(cell, Cell::Name(_)))
    }
}

/// A column's name as it stands in CSV: as names in cells, but in quotation marks only where it needs them, as in the released
/// reports.
fn head(name: &str) -> Cow<'_, str> {
    let name = no_formula(name);
    match name.contains([',', '"', '\n', '\r']) {
        true => Cow::Owned(quoted(&name)),
        false => name,
    }
}

/// A text as one value of CSV, whatever is in it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// Text that cannot break a row of Markdown apart.
fn markdown(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ")
}

/// Text that LaTeX takes for text.
fn latex(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => safe.extend(['\\', letter]),
            '\\' => safe.push_str("\\textbackslash{}"),
            '~' => safe.push_str("\\textasciitilde{}"),
            '^' => safe.push_str("\\textasciicircum{}"),
            letter if letter.is_control() => safe.push(' '),
            letter => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_percent_and_programs_fractions() {
        let cells = [
            Cell::Rate(0.42549),
            Cell::Change(-0.0275),
            Cell::Percent(75.0),
            Cell::Mean(16.0),
            Cell::Mean(0.51234),
            Cell::MeanChange(0.1),
        ];
        let shown: Vec<String> = cells.iter().map(Cell::shown).collect();
        assert_eq!(
            shown,
            ["42.5 %", "-2.8 pp", "75.0 %", "16", "0.512", "+0.100"]
        );
        let written: Vec<String> = cells.iter().map(Cell::text).collect();
        assert_eq!(
            written,
            ["0.4255", "-0.0275", "75.00", "16.0000", "0.5123", "+0.1000"]
        );
    }

    #[test]
    fn intervals_are_brackets_for_people_and_columns_for_programs() {
        let within = |value, ends| Cell::Within(Box::new(value), ends);
        let rows = [
            vec![
                Cell::Name("a".into()),
                within(Cell::Rate(0.5), [0.25, 0.75]),
                Cell::Count(4),
            ],
            vec![Cell::Name("b".into()), Cell::Rate(0.125), Cell::Count(8)],
        ];
        let table = Table::new("t", &["run", "rate", "n"], rows.into_iter());
        assert_eq!(
            table.to_csv(),
            "run,rate,rate_low,rate_high,n\n\"a\",0.5000,0.2500,0.7500,4\n\"b\",0.1250,,,8\n"
        );
        assert!(
            table
                .to_shown_markdown()
                .contains("| a | 50.0 % [25.0, 75.0] | 4 |")
        );
        let shown = |value, ends| within(value, ends).shown();
        assert_eq!(shown(Cell::Mean(0.5), [0.25, 1.0]), "0.500 [0.250, 1]");
        assert_eq!(
            shown(Cell::Change(-0.25), [-0.5, 0.0]),
            "-25.0 pp [-50.0, +0.0]"
        );
        assert_eq!(
            shown(Cell::MeanChange(0.125), [0.0, 0.25]),
            "+0.125 [+0.000, +0.250]"
        );
    }

    #[test]
    fn latex_takes_text_for_text() {
        let row = vec![
            Cell::Name("a_b & \\input{x}".into()),
            Cell::Rate(0.5),
            Cell::Name("yes".into()),
        ];
        let table = Table::new(
            "t",
            &["run", "pass_rate", "significant"],
            std::iter::once(row),
        );
        let latex = table.to_latex("50 % of #1");
        assert!(latex.contains("\\begin{tabular}{lrl}"), "{latex}");
        assert!(
            latex.contains("a\\_b \\& \\textbackslash{}input\\{x\\} & 50.0 \\% & yes \\\\\n"),
            "{latex}"
        );
        assert!(
            latex.contains("\\caption{50 \\% of \\#1}") && latex.contains("run & pass\\_rate &"),
            "{latex}"
        );
        assert!(table.to_shown_markdown().contains("| --- | ---: | --- |"));
    }

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

    #[test]
    fn columns_may_have_any_name() {
        let row = vec![Cell::Name("a|b\n".into()), Cell::Count(1), Cell::Count(2)];
        let columns = ["run", "cfg 7, \"plain\"", "=1|\n"];
        let table = Table::new("t", &columns, std::iter::once(row));
        assert_eq!(
            table.to_csv(),
            "run,\"cfg 7, \"\"plain\"\"\",\"'=1|\n\"\n\"a|b\n\",1,2\n"
        );
        assert_eq!(
            table.to_markdown(),
            "| run | cfg 7, \"plain\" | =1\\|  |\n| --- | ---: | ---: |\n| a\\|b  | 1 | 2 |\n"
        );
    }

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
