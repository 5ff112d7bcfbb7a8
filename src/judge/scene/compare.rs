//! The paper's comparisons of models, with the published figures beside: tables 2 and 3 (SGScore by level), 4 and 7 (recall
//! and SGScore), and 9 (objects with and without attributes, of the prompts that table 8's question gives).

use prepose_draw::table::{Cell, Table};
use prepose_statistics::bootstrap::Bootstrap;
use serde::Deserialize;
use thiserror::Error;

use super::Level;

const VG: &str = include_str!("vg.txt");
const MEGASG: &str = include_str!("megasg.txt");
const FEEDBACK: &str = include_str!("feedback.txt");
const ATTRIBUTES: &str = include_str!("attributes_published.txt");

/// Whose comparison it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Table 2: Visual Genome's test pictures.
    Vg,
    /// Table 3: 50,000 pictures of MegaSG.
    Megasg,
    /// Tables 4 and 7: 5,000 pictures of MegaSG, with and without feedback.
    Feedback,
    /// Table 9: MegaSG's 775 objects, alone and with attributes.
    Attributes,
}

impl Comparison {
    fn published(self) -> &'static str {
        match self {
            Self::Vg => VG,
            Self::Megasg => MEGASG,
            Self::Feedback => FEEDBACK,
            Self::Attributes => ATTRIBUTES,
        }
    }

    fn has_levels(self) -> bool {
        matches!(self, Self::Vg | Self::Megasg)
    }
}

/// What was found of one picture: a line of `judged.jsonl`, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Line {
    /// The graph's.
    pub id: String,
    /// By [`Level::as_str`].
    pub level: String,
    /// In 0..=1.
    pub object_recall: Option<f64>,
    /// In 0..=1.
    pub relation_recall: Option<f64>,
    /// In 0..=1.
    pub sgscore: Option<f64>,
}

/// Why lines cannot be compared.
#[derive(Debug, Error)]
pub enum LineError {
    /// A line is of something else.
    #[error(
        "line {line} is not a picture of a judged scene ({error}); prepose judge --benchmark scene writes such files"
    )]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong.
        error: serde_json::Error,
    },
    /// There are none.
    #[error("there are no pictures in it")]
    Empty,
}

/// Reads a `judged.jsonl` of scenes.
///
/// # Errors
/// A line is none; there are none.
pub fn read(text: &str) -> Result<Vec<Line>, LineError> {
    let lines = (1..)
        .zip(text.lines())
        .filter(|(_, text)| !text.trim().is_empty());
    let lines: Result<Vec<Line>, LineError> = lines
        .map(|(line, text)| {
            serde_json::from_str(text).map_err(|error| LineError::Line { line, error })
        })
        .collect();
    let lines = lines?;
    match lines.is_empty() {
        true => Err(LineError::Empty),
        false => Ok(lines),
    }
}

/// A row for each model, of its pictures with 95 % intervals over them, and the paper's rows below.
pub fn compare(
    models: &[(String, Vec<Line>)],
    comparison: Comparison,
    bootstrap: &Bootstrap,
) -> Table {
    let mean = |values: Vec<f64>| -> [Cell; 3] {
        if values.is_empty() {
            return [const { Cell::Empty }; 3];
        }
        let groups: Vec<Vec<f64>> = values.into_iter().map(|value| vec![value]).collect();
        let mean = bootstrap.mean(&groups);
        [mean.value, mean.low, mean.high].map(|value| Cell::Percent(100.0 * value))
    };
    let own = models.iter().map(|(name, lines)| {
        let mut row = vec![Cell::Name(name.clone()), Cell::Name("here".into())];
        if comparison.has_levels() {
            // Resolution, IS, FID and CLIPScore are told by other means.
            row.extend([const { Cell::Empty }; 4]);
        }
        row.push(Cell::Count(lines.len()));
        if comparison.has_levels() {
            row.extend(mean(lines.iter().filter_map(|line| line.sgscore).collect()));
            for level in [Level::Simple, Level::Medium, Level::Hard] {
                let of = lines.iter().filter(|line| line.level == level.as_str());
                let of: Vec<&Line> = of.collect();
                row.push(Cell::Count(of.len()));
                row.extend(mean(of.iter().filter_map(|line| line.sgscore).collect()));
            }
            return row;
        }
        row.extend(mean(
            lines.iter().filter_map(|line| line.object_recall).collect(),
        ));
        if comparison == Comparison::Feedback {
            row.extend(mean(
                lines
                    .iter()
                    .filter_map(|line| line.relation_recall)
                    .collect(),
            ));
            row.extend(mean(lines.iter().filter_map(|line| line.sgscore).collect()));
        }
        row
    });
    let published = comparison
        .published()
        .lines()
        .filter(|line| !line.starts_with('#'));
    let rows = own.chain(published.map(|line| published_row(line, comparison)));
    let columns: Vec<&str> = columns(comparison);
    Table::new("comparison", &columns, rows)
}

fn columns(comparison: Comparison) -> Vec<&'static str> {
    let mut columns = vec!["model", "from"];
    if comparison.has_levels() {
        columns.extend(["resolution", "is", "fid", "clipscore"]);
    }
    columns.push("graphs");
    columns.extend(match comparison {
        Comparison::Vg | Comparison::Megasg => vec![
            "sgscore",
            "sgscore_low",
            "sgscore_high",
            "simple_graphs",
            "simple",
            "simple_low",
            "simple_high",
            "medium_graphs",
            "medium",
            "medium_low",
            "medium_high",
            "hard_graphs",
            "hard",
            "hard_low",
            "hard_high",
        ],
        Comparison::Feedback => vec![
            "object_recall",
            "object_recall_low",
            "object_recall_high",
            "relation_recall",
            "relation_recall_low",
            "relation_recall_high",
            "sgscore",
            "sgscore_low",
            "sgscore_high",
        ],
        Comparison::Attributes => vec!["object_recall", "object_recall_low", "object_recall_high"],
    });
    columns
}

/// A line of a published table; the paper gives no intervals.
fn published_row(line: &str, comparison: Comparison) -> Vec<Cell> {
    let fields: Vec<&str> = line.split('|').collect();
    let field = |at: usize| fields.get(at).copied().unwrap_or_default();
    let number = |at: usize, cell: fn(f64) -> Cell| field(at).parse().map_or(Cell::Empty, cell);
    let percent = |at: usize| [number(at, Cell::Percent), Cell::Empty, Cell::Empty];
    let mut row = vec![Cell::Name(field(0).to_owned()), Cell::Name("paper".into())];
    let first = match comparison.has_levels() {
        true => {
            row.push(Cell::Name(field(1).to_owned()));
            row.extend([2, 3, 4].map(|at| number(at, Cell::Mean)));
            5
        }
        false => 1,
    };
    let counts: [Option<usize>; 4] = match comparison {
        Comparison::Vg => [Some(5096), Some(3993), Some(930), Some(173)],
        Comparison::Megasg => [Some(50_000), Some(15_000), Some(20_000), Some(15_000)],
        Comparison::Feedback => [Some(5000), None, None, None],
        Comparison::Attributes => [None; 4],
    };
    let graphs = |at: usize| counts[at].map_or(Cell::Empty, Cell::Count);
    row.push(graphs(0));
    row.extend(percent(first));
    if comparison.has_levels() {
        for level in 1..=3 {
            row.push(graphs(level));
            row.extend(percent(first + level));
        }
    }
    if comparison == Comparison::Feedback {
        row.extend([2, 3].into_iter().flat_map(percent));
    }
    row
}
