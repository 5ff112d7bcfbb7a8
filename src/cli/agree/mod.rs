//! `prepose agree`

mod input;
mod metrics;
mod page;
mod words;

use std::path::PathBuf;

use anyhow::Context;
use prepose::audit::study::published;
use prepose::output::files::write_atomically;
use prepose::table::Table;
use prepose_untrusted::escaped;
use serde_json::{Map, Value, json};

use super::OK;

/// How far people, judges and metrics agree (docs/agreement.md).
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Files are CSV tables, JSON lists or JSON lines with an id (or sample_id, custom_id) and what is said about it, one file for
each person or judge. Exports of labelling pages, the scores.jsonl of runs and the answers of OpenAI's batches are such files."
)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Page(page::Args),
    /// How metrics correlate with people: Spearman, Kendall, Pearson (Why Settle for Mid, table 1)
    Correlation(metrics::Correlation),
    /// What metrics get right as a yes or no: precision, recall, specificity, F1 (Why Settle for Mid, table 2)
    Decisions(metrics::Decisions),
    /// Compare labels: confusion, Cohen's and Fleiss' kappa, Krippendorff's alpha (Order Is Not Layout, table 13)
    Labels(words::Labels),
    /// Compare what people choose with what a score would choose (Scene-Bench, figure 9)
    Choices(words::Choices),
    /// Means and spreads on scales (Order Is Not Layout, table 19)
    Ratings(words::Ratings),
    Ots(words::Ots),
    /// What the papers print about their studies, and what follows from it
    Published(Published),
}

pub fn run(args: &Args) -> anyhow::Result<u8> {
    match &args.command {
        Command::Page(args) => page::run(args),
        Command::Correlation(args) => args.run(),
        Command::Decisions(args) => args.run(),
        Command::Labels(args) => args.run(),
        Command::Choices(args) => args.run(),
        Command::Ratings(args) => args.run(),
        Command::Ots(args) => args.run(),
        Command::Published(args) => args.run(),
    }
}

/// What the papers print about their studies, and what follows from it.
#[derive(Debug, clap::Args)]
struct Published {
    /// A table of Why Settle for Mid (psg) or Order Is Not Layout (ots).
    ///
    /// psg-2 has truth and metric, which are exchanged in print, the right way round; ots-13 has kappa computed from the
    /// printed counts.
    #[arg(value_parser = ["psg-1", "psg-2", "ots-3", "ots-13", "ots-19"])]
    table: String,
    #[command(flatten)]
    output: Output,
}

impl Published {
    fn run(&self) -> anyhow::Result<u8> {
        let table = match self.table.as_str() {
            "psg-1" => published::psg_1(),
            "psg-2" => published::psg_2(),
            "ots-3" => published::ots_3(),
            "ots-13" => published::ots_13(),
            _ => published::ots_19(),
        };
        self.output.print(&[table], Map::new(), "")
    }
}

/// Where tables go.
#[derive(Debug, clap::Args)]
pub struct Output {
    /// Also write the table to a CSV file.
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one JSON object on standard output.
    #[arg(long)]
    json: bool,
}

impl Output {
    /// Prints tables and what else is known; the first table goes into the file.
    fn print(&self, tables: &[Table], more: Map<String, Value>, notes: &str) -> anyhow::Result<u8> {
        use std::io::Write as _;
        if let (Some(path), Some(table)) = (&self.out, tables.first()) {
            write_atomically(path, table.to_csv().as_bytes())
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        let mut stdout = std::io::stdout().lock();
        if self.json {
            let mut report = more;
            for table in tables {
                report.insert(table.name.into(), rows(table));
            }
            writeln!(stdout, "{}", Value::Object(report))?;
            return Ok(OK);
        }
        let texts: Vec<String> = tables.iter().map(|table| table.to_text(160)).collect();
        write!(stdout, "{}{}", escaped(&texts.join("\n")), escaped(notes))?;
        Ok(OK)
    }
}

/// A table as a list of objects.
pub(super) fn rows(table: &Table) -> Value {
    use prepose::table::Cell;
    let table = table.spread();
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
    let row = |row: &Vec<Cell>| -> Value {
        let cells = table.columns.iter().cloned().zip(row.iter().map(value));
        Value::Object(cells.collect())
    };
    table.rows.iter().map(row).collect()
}
