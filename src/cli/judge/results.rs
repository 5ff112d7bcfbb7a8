//! What came of a judging, in files and on the terminal.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context;
use prepose::judge::prompted::cost;
use prepose::output::files::write_atomically;
use prepose::table::{Cell, Table};
use prepose_untrusted::escaped;
use serde_json::{Map, Value, json};

use super::asking::Totals;
use super::model::ModelArgs;
use crate::cli::{ERROR, OK, interrupt};

/// What the page of a report reads.
const TABLES: &str = "judged.json";

/// What is written and told at the end.
pub struct Results {
    /// In the order in which they are shown.
    pub tables: Vec<Table>,
    /// Tables that are written and not shown.
    pub more: Vec<Table>,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// A line for each picture.
    pub lines: Vec<Value>,
}

impl Results {
    /// Writes the tables, a line for each picture, and all of it for `prepose report`, into a folder.
    pub fn write(&self, folder: &Path, model: &ModelArgs, totals: &Totals) -> anyhow::Result<()> {
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            write_atomically(&path, text.as_bytes())
                .with_context(|| format!("cannot write {}", path.display()))
        };
        let price = model.cost(totals.prompt_tokens, totals.answer_tokens);
        let tokens = [totals.prompt_tokens, totals.answer_tokens];
        let cost = cost(model.name(), totals.rounds, totals.questions, tokens, price);
        let all: Vec<&Table> = self
            .tables
            .iter()
            .chain(&self.more)
            .chain([&cost])
            .collect();
        for table in &all {
            write(&format!("{}.csv", table.name), &table.to_csv())?;
        }
        let lines = self.lines.iter().map(|line| format!("{line}\n"));
        write("judged.jsonl", &lines.collect::<String>())?;
        let tables: Vec<Value> = all.iter().map(|table| of_table(table)).collect();
        let whole = json!({ "judge": model.name(), "notes": self.notes, "tables": tables });
        // The last one: whoever finds it finds the others.
        write(TABLES, &format!("{whole}\n"))
    }

    /// All of it as one object.
    pub fn json(&self, model: &ModelArgs, totals: &Totals) -> Value {
        let mut report = Map::new();
        for table in &self.tables {
            report.insert(table.name.into(), crate::cli::agree::rows(table));
        }
        report.insert("questions".into(), json!(totals.questions));
        report.insert("asked_now".into(), json!(totals.new));
        report.insert("unanswered".into(), json!(totals.unanswered));
        report.insert("question_tokens".into(), json!(totals.prompt_tokens));
        report.insert("answer_tokens".into(), json!(totals.answer_tokens));
        let price = model.cost(totals.prompt_tokens, totals.answer_tokens);
        report.insert("cost".into(), json!(price));
        report.insert("notes".into(), json!(self.notes));
        Value::Object(report)
    }

    /// Writes it, prints it, and says what is still to be asked.
    pub fn finish(
        &self,
        folder: &Path,
        json: bool,
        model: &ModelArgs,
        totals: &Totals,
    ) -> anyhow::Result<u8> {
        self.write(folder, model, totals)?;
        let mut stdout = std::io::stdout().lock();
        if json {
            writeln!(stdout, "{}", self.json(model, totals))?;
        } else {
            write!(stdout, "{}", escaped(&self.text(model, totals)))?;
            let place = folder.display().to_string();
            writeln!(stdout, "written to {}", escaped(&place))?;
        }
        Ok(told(totals))
    }

    /// For a terminal.
    pub fn text(&self, model: &ModelArgs, totals: &Totals) -> String {
        let tables: Vec<String> = self.tables.iter().map(|table| table.to_text(140)).collect();
        let mut text = tables.join("\n");
        // Writing into a string cannot fail.
        let _ = write!(
            text,
            "\n{} questions, {} asked now; {} tokens of questions and {} of answers",
            totals.questions, totals.new, totals.prompt_tokens, totals.answer_tokens
        );
        if let Some(price) = model.cost(totals.prompt_tokens, totals.answer_tokens) {
            let _ = write!(text, ", cost {price:.4}");
        }
        text.push('\n');
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        text
    }
}

/// Says what is still to be asked; the exit code.
pub fn told(totals: &Totals) -> u8 {
    if let Some(code) = interrupt::exit_code() {
        return code;
    }
    if totals.unanswered > 0 {
        eprintln!(
            "{} questions have no answer; the same command asks them again",
            totals.unanswered
        );
        return ERROR;
    }
    OK
}

fn of_table(table: &Table) -> Value {
    let table = table.spread();
    let cell = |cell: &Cell| match cell {
        Cell::Name(name) => json!({ "name": name }),
        Cell::Count(count) => json!({ "count": count }),
        Cell::Rate(number) => json!({ "rate": number }),
        Cell::Percent(number) => json!({ "percent": number }),
        Cell::Mean(number) => json!({ "mean": number }),
        Cell::Change(number) | Cell::MeanChange(number) => json!({ "change": number }),
        Cell::Within(..) | Cell::Empty => Value::Null,
    };
    let row = |row: &Vec<Cell>| Value::from(row.iter().map(cell).collect::<Vec<_>>());
    let rows: Vec<Value> = table.rows.iter().map(row).collect();
    json!({ "name": table.name, "columns": table.columns, "rows": rows })
}
