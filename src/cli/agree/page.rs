//! `prepose agree page`

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use prepose::audit::page::{Ask, Item, study};
use prepose::audit::study::sheet::{Sheet, reserved};
use prepose::output::files::{parent, prepare_folder, write_atomically};
use prepose_untrusted::escaped;

use super::input::sheet;
use crate::cli::OK;
use crate::cli::audit::label::address;
use crate::cli::input::{absolute, count};

/// Make a page on which people label pictures: in words, on scales, or by choosing one of several.
///
/// The page is one HTML file that works offline, with the keyboard alone or on a phone. It keeps labels in the browser, can
/// continue from an export, and exports labels_filled.json, which the other commands read. Everybody uses the same page, and
/// exports a file of their own.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose agree page pictures.csv --words missing,wrong,right -o label.html
  prepose agree page pictures.csv --scales overall,alignment,fidelity -o rate.html
  prepose agree page pictures.csv --choice sd15,sd21,sdxl,ours --question \"Which is most like this one?\" -o choose.html")]
pub struct Args {
    /// The pictures: a table with the columns id, picture (a path, relative to the table) and, if you like, prompt.
    #[arg(value_name = "FILE")]
    items: PathBuf,
    /// The page to write.
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    answers: Answers,
    /// The question to ask [default: one that fits the answers].
    #[arg(long, value_name = "TEXT")]
    question: Option<String>,
    /// Put the pictures into the page instead of linking to them.
    #[arg(long)]
    embed: bool,
    /// The seed for the order of pictures, and for that of candidates.
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
}

/// The answers that there are.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Answers {
    /// Answers are one of these words.
    #[arg(long, value_name = "WORDS", value_delimiter = ',')]
    words: Vec<String>,
    /// Answers are a number from 1 to 7 for each of these.
    #[arg(long, value_name = "AXES", value_delimiter = ',')]
    scales: Vec<String>,
    /// Answers are one of several candidates, whose pictures are in these columns; their names are hidden.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    choice: Vec<String>,
}

pub fn run(args: &Args) -> anyhow::Result<u8> {
    let (ask, question) = args.ask()?;
    let question = args.question.as_deref().unwrap_or(question);
    let sheet = sheet(&args.items, Sheet::read_items)?;
    let folder = absolute(parent(&args.out))?;
    let beside = absolute(parent(&args.items))?;
    let items = items(args, &sheet, &beside, &folder)?;
    prepare_folder(&folder)?;
    let page = study(&items, &ask, question, Some(args.seed));
    write_atomically(&args.out, page.as_bytes())
        .with_context(|| format!("cannot write {}", args.out.display()))?;
    writeln!(
        std::io::stdout().lock(),
        "{}: {} to label. Open it in a browser; ? shows the keys.",
        escaped(&args.out.display().to_string()),
        count(items.len(), "picture")
    )?;
    Ok(OK)
}

impl Args {
    fn ask(&self) -> anyhow::Result<(Ask, &'static str)> {
        let answers = &self.answers;
        // An axis is a column of what the page exports; words and candidates are values there.
        if let Some(name) = (answers.scales.iter()).find(|name| reserved().any(|one| one == *name))
        {
            let all: Vec<&str> = reserved().collect();
            bail!(
                "{name:?} cannot be an axis: in what the page exports, {} are not read as ratings; call the axis something else",
                all.join(", ")
            );
        }
        for names in [&answers.words, &answers.scales, &answers.choice] {
            if let Some(name) = names.iter().find(|name| name.trim().is_empty()) {
                bail!(
                    "{name:?} cannot be an answer or an axis: it is empty; put one comma between names"
                );
            }
            if names.len() == 1 && names != &answers.scales {
                bail!(
                    "there is only one answer, {:?}; name several, separated by commas",
                    names[0]
                );
            }
            if names.len() > 9 {
                bail!(
                    "there are {} answers or axes, but at most 9 have a key",
                    names.len()
                );
            }
        }
        Ok(if !answers.words.is_empty() {
            (
                Ask::Words(answers.words.clone()),
                "What does the picture show?",
            )
        } else if !answers.scales.is_empty() {
            (
                Ask::Scales(answers.scales.clone()),
                "How good is the picture?",
            )
        } else {
            (Ask::Choice, "Which picture fits best?")
        })
    }
}

fn items(args: &Args, sheet: &Sheet, beside: &Path, folder: &Path) -> anyhow::Result<Vec<Item>> {
    let one = |id: &str, row: &std::collections::BTreeMap<String, String>, column: &str| {
        let path = row.get(column).with_context(|| {
            format!(
                "{}: {id} has no {column}; the columns are {}",
                args.items.display(),
                sheet.columns.join(", ")
            )
        })?;
        address(&absolute(&beside.join(path))?, args.embed, folder)
    };
    let item = |(id, row): &(String, std::collections::BTreeMap<String, String>)| {
        let candidates = args.answers.choice.iter();
        Ok(Item {
            id: id.clone(),
            image: one(id, row, "picture")?,
            prompt: row.get("prompt").cloned().unwrap_or_default(),
            candidates: candidates
                .map(|name| anyhow::Ok((name.clone(), one(id, row, name)?)))
                .collect::<anyhow::Result<_>>()?,
        })
    };
    sheet.rows.iter().map(item).collect()
}
