//! What a judge says of runs' pictures: the tables that `prepose run --judge` and `prepose score judge` leave in a run's folder.

use serde::Deserialize;
use serde_json::Value;

use crate::error::{SourceError, broken};
use crate::model::Report;
use crate::tables::Titled;
use prepose_draw::table::{Cell, Table};
use prepose_store::Store;

/// Where they are, below a run's folder.
const FILE: &str = "judged/judged.json";

/// What a judge said of one run.
#[derive(Clone, Debug, Deserialize)]
pub struct Judged {
    /// Who it is.
    pub judge: String,
    /// What a reader should know.
    pub notes: Vec<String>,
    tables: Vec<Written>,
}

/// A table as it is written.
#[derive(Clone, Debug, Deserialize)]
struct Written {
    name: String,
    columns: Vec<String>,
    rows: Vec<Vec<Value>>,
}

/// The tables that are shown: the name in the file, the name here, the title and what is said about it.
const SHOWN: [(&str, &str, &str, &str); 10] = [
    (
        "scenes",
        "judge_scenes",
        "Judge: scenes",
        "Scene-Bench's questions about each prompt's objects and relations: mean recall of objects and of \
         relations, and SGScore, in percent, with 95 % bootstrap intervals over prompts. Invalid answers do not count.",
    ),
    (
        "relations",
        "judge_relations",
        "Judge: relations",
        "How often the judge chooses the stated relation, with Wilson's 95 % interval.",
    ),
    (
        "figures",
        "judge_figures",
        "Judge: order and space",
        "OTS-Bench's questions (arXiv:2603.03714): homogenization, or correct ones, in percent, with 95 % intervals over pairs; \
         as published, with the two in the other order, and where both answers agree.",
    ),
    (
        "figures_by_boxes",
        "judge_figures_by_boxes",
        "The same by boxes",
        "What boxes say of the same pictures, behind the gate of OTS-Bench's rule. The oracle's table is this one.",
    ),
    (
        "bias",
        "judge_bias",
        "The judge's own bias",
        "Each question is asked in both orders of its two names: how often both answers are the same, and how often the name that \
         comes first, or second, wins both times.",
    ),
    (
        "agreement",
        "judge_agreement",
        "Judge and boxes: order and space",
        "Agreement and kappa of the three classes, with its 95 % interval over pictures.",
    ),
    (
        "agreement_relations",
        "judge_agreement_relations",
        "Judge and checker: relations",
        "Whether a stated relation holds: by the judge's choice and by the checker's verdict; kappa of yes, no and undecided, with \
         its 95 % interval over prompts.",
    ),
    (
        "answers",
        "judge_answers",
        "The judge's answers",
        "Questions of each kind: those without an answer, invalid answers by their reasons, the valid answer that is said most, and \
         how often rounds of the same question differ, with Wilson's 95 % interval.",
    ),
    (
        "cost",
        "judge_cost",
        "What the judge cost",
        "Tokens as the server counts them; the cost by the price that was named.",
    ),
    (
        "published",
        "judge_published",
        "Published figures",
        "The paper's own, judged by its judge.",
    ),
];

/// Reads what a judge left in a run's folder, of which `root` is the place within the store; none if nobody judged.
pub(crate) fn read(store: &dyn Store, root: &str) -> Result<Option<Judged>, SourceError> {
    let name = format!("{root}{FILE}");
    let Some(bytes) = store.get(&name)? else {
        return Ok(None);
    };
    let judged = serde_json::from_slice(&bytes);
    judged
        .map(Some)
        .map_err(|error| broken(store, &name, error.to_string()))
}

/// The tables of all runs that were judged; those of the same name are one.
pub fn tables(report: &Report) -> Vec<Titled> {
    let mut all = Vec::new();
    for (name, own, title, note) in SHOWN {
        let mut table: Option<Table> = None;
        let mut judges: Vec<&str> = Vec::new();
        for (run, judged) in report.judged() {
            let Some(written) = judged.tables.iter().find(|written| written.name == name) else {
                continue;
            };
            if !judges.contains(&judged.judge.as_str()) {
                judges.push(&judged.judge);
            }
            let by_method = written
                .columns
                .first()
                .is_some_and(|column| column == "method");
            let rows = written.rows.iter().map(|row| {
                let mut cells: Vec<Cell> = row.iter().map(cell).collect();
                cells.resize(written.columns.len(), Cell::Empty);
                if let (true, Some(Cell::Name(method))) = (by_method, cells.first_mut()) {
                    *method = report.method_name(run, method);
                }
                cells
            });
            let columns: Vec<&str> = written.columns.iter().map(String::as_str).collect();
            let new = Table::new(own, &columns, rows);
            match &mut table {
                Some(table) if table.columns == new.columns => table.rows.extend(new.rows),
                Some(_) => {}
                None => table = Some(new),
            }
        }
        if let Some(table) = table.filter(|table| !table.rows.is_empty()) {
            all.push(Titled {
                title,
                note: format!("{note} Judged by {}.", judges.join(", ")),
                table,
            });
        }
    }
    all
}

/// What readers should know of the judges.
pub fn notes(report: &Report) -> Vec<String> {
    let judged = report.judged();
    let notes =
        judged.flat_map(|(_, judged)| judged.notes.iter().map(|note| (&judged.judge, note)));
    notes
        .map(|(judge, note)| format!("Judge {judge}: {note}"))
        .collect()
}

fn cell(value: &Value) -> Cell {
    let number = |name: &str| value.get(name).and_then(Value::as_f64);
    if let Some(name) = value.get("name").and_then(Value::as_str) {
        return Cell::Name(name.to_owned());
    }
    if let Some(count) = value.get("count").and_then(Value::as_u64) {
        return usize::try_from(count).map_or(Cell::Empty, Cell::Count);
    }
    (number("percent").map(Cell::Percent))
        .or(number("mean").map(Cell::Mean))
        .or(number("rate").map(Cell::Rate))
        .or(number("change").map(Cell::Change))
        .unwrap_or(Cell::Empty)
}
