//! `prepose agree labels`, `choices`, `ratings` and `ots`

use std::path::PathBuf;

use prepose::audit::study::labels::{All, all, best, categories, have_order, matrix, pairwise};
use prepose::audit::study::raters::{Rater, raters};
use prepose::audit::study::sheet::Sheet;
use prepose::audit::study::{ots, ratings};
use prepose_statistics::agreement::Weights;
use serde_json::{Map, Value, json};

use super::Output;
use super::input::{Draws, sheet, sheets};

/// How far apart two words are.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Apart {
    /// All different words are equally far apart
    None,
    /// By their distance in the list of words
    Linear,
    /// By the square of that distance
    Quadratic,
}

impl From<Apart> for Weights {
    fn from(apart: Apart) -> Self {
        match apart {
            Apart::None => Self::None,
            Apart::Linear => Self::Linear,
            Apart::Quadratic => Self::Quadratic,
        }
    }
}

/// How words are compared.
#[derive(Debug, clap::Args)]
struct Words {
    /// The words, in order [default: those that occur, sorted by number, then alphabetically].
    #[arg(long, value_name = "WORDS", value_delimiter = ',')]
    words: Vec<String>,
    /// How far apart two words are, for kappa; words that are no numbers need --words for it.
    #[arg(long, value_enum, default_value = "none")]
    weights: Apart,
    #[command(flatten)]
    draws: Draws,
    #[command(flatten)]
    output: Output,
}

impl Words {
    /// Each two raters, and all `people` together if there are several; what was computed is no rater of its own there.
    fn compare(
        &self,
        raters: &[Rater],
        people: &[Rater],
        shown: [&Rater; 2],
    ) -> anyhow::Result<u8> {
        let words = categories(raters, &self.words)?;
        if self.words.is_empty() && !matches!(self.weights, Apart::None) {
            have_order(&words)?;
        }
        let bootstrap = self.draws.bootstrap();
        let pairs = pairwise(raters, &words, self.weights.into(), &bootstrap)?;
        let confusion = matrix(shown[0], shown[1], &words)?;
        let (more, notes) = match people {
            [] | [_] => (Map::new(), String::new()),
            several => told(&all(several, &words), several.len(), !self.words.is_empty()),
        };
        self.output.print(&[pairs, confusion], more, &notes)
    }
}

/// `ordered`: whether somebody said in which order the words are.
fn told(found: &All, raters: usize, ordered: bool) -> (Map<String, Value>, String) {
    let mut more = Map::new();
    let mut text = String::new();
    let figures = [
        ("fleiss_kappa", "Fleiss' kappa", found.fleiss),
        ("krippendorff_alpha", "Krippendorff's alpha", found.alpha),
        (
            "krippendorff_alpha_ordinal",
            "Krippendorff's alpha, ordinal",
            found.alpha_ordinal.filter(|_| ordered),
        ),
    ];
    let figures = figures
        .into_iter()
        .filter(|(name, ..)| ordered || !name.ends_with("ordinal"));
    for (name, title, value) in figures {
        more.insert(name.into(), json!(value));
        let value = value.map_or("-".to_owned(), |value| format!("{value:.4}"));
        text += &format!("{title} {value}\n");
    }
    more.insert("items".into(), json!(found.items));
    more.insert("divided".into(), json!(found.divided));
    let divided = format!(
        "all {raters}: {} items that at least two looked at, divided on {}\n",
        found.items, found.divided
    );
    (more, format!("\n{divided}{text}"))
}

/// Compare labels: each pair of people or judges (Cohen's kappa with its 95 % interval), the confusion of the first two, and all
/// of them together.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose agree labels anna.json ben.json cleo.json
  prepose agree labels people.csv judge.jsonl --words 0,1,2        # the confusion is of the first two")]
pub struct Labels {
    /// A file for each person or judge, or one file with a column for each.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The columns [default: human_verdict, label, choice, code, answer or verdict, or else all].
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    columns: Vec<String>,
    #[command(flatten)]
    words: Words,
}

impl Labels {
    pub fn run(&self) -> anyhow::Result<u8> {
        let raters = raters(&sheets(&self.files)?, &self.columns)?;
        let [first, second, ..] = raters.as_slice() else {
            anyhow::bail!(
                "there is only one rater, {}; name a second file, or several columns with --columns",
                raters.first().map_or("", |rater| rater.name.as_str())
            );
        };
        self.words.compare(&raters, &raters, [first, second])
    }
}

/// Compare what people choose with what a score would choose: of several candidates, the one with the highest score.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose agree choices --people anna.json ben.json cleo.json --scores sgscore.csv --of model --score sgscore")]
pub struct Choices {
    /// What people choose, one file per person; with several, what most of them choose counts.
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    people: Vec<PathBuf>,
    /// Scores of the candidates: a row for each candidate of each id.
    #[arg(long, value_name = "FILE")]
    scores: PathBuf,
    /// The column that names a candidate, in the words that people use.
    #[arg(long, value_name = "NAME", default_value = "model")]
    of: String,
    /// The column with its score.
    #[arg(long, value_name = "NAME", default_value = "score")]
    score: String,
    #[command(flatten)]
    words: Words,
}

impl Choices {
    pub fn run(&self) -> anyhow::Result<u8> {
        let people = raters(&sheets(&self.people)?, &[])?;
        let scores = best(
            &sheet(&self.scores, Sheet::read_candidates)?,
            &self.of,
            &self.score,
        )?;
        let words = categories(&people, &self.words.words)?;
        let most = match people.as_slice() {
            [one] => one.clone(),
            several => all(several, &words).majority,
        };
        let mut raters = people.clone();
        if people.len() > 1 {
            raters.push(most.clone());
        }
        raters.push(scores.clone());
        self.words.compare(&raters, &people, [&most, &scores])
    }
}

/// Means and spreads on scales, with 95 % intervals over items and how far people agree.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose agree ratings anna.json ben.json --axes overall,alignment,fidelity
  prepose agree ratings anna.json ben.json pictures.csv --by model --published   # pictures.csv: id, picture, model")]
pub struct Ratings {
    /// A file for each person; after them maybe the table that the labelling page was made from, for --by.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The column by which items are grouped; any of the files may have it.
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// The columns with ratings [default: all that hold numbers].
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    axes: Vec<String>,
    /// Show the paper's rows below.
    #[arg(long)]
    published: bool,
    #[command(flatten)]
    draws: Draws,
    #[command(flatten)]
    output: Output,
}

impl Ratings {
    pub fn run(&self) -> anyhow::Result<u8> {
        let sheets = sheets(&self.files)?;
        let table = ratings::ratings(
            &sheets,
            self.by.as_deref(),
            &self.axes,
            &self.draws.bootstrap(),
            self.published,
        )?;
        if table.rows.is_empty() {
            anyhow::bail!("there is no column that has only numbers; name the axes with --axes");
        }
        self.output.print(&[table], Map::new(), "")
    }
}

/// What each of several judges makes of OTS-Bench (Order Is Not Layout, table 3).
///
/// Prints its six figures, and kappa against the first file.
///
/// Each file has the columns id, figure (t2i_homogenization, i2i_homogenization, t2i_aligned, t2i_reverse, i2i_aligned,
/// i2i_reverse) and code (1 and 2 as in table 14 of the paper; 0 and 3 are invalid).
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose agree ots people.csv qwen.jsonl internvl.jsonl --published")]
pub struct Ots {
    /// A file for each judge, people's first.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Show the paper's rows below.
    #[arg(long)]
    published: bool,
    #[command(flatten)]
    output: Output,
}

impl Ots {
    pub fn run(&self) -> anyhow::Result<u8> {
        let table = ots::judges(&sheets(&self.files)?, self.published)?;
        self.output.print(&[table], Map::new(), "")
    }
}
